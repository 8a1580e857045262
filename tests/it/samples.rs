//! Events to test with: one of every kind, with every field filled somewhere.

use std::time::Duration;

use mediary::domain::claim::{Claim, ClaimEvent};
use mediary::domain::delivery::{AttemptOutcome, DeliveryEvent};
use mediary::domain::event::Event;
use mediary::domain::ids::{DeliveryId, EventId, NodeId, PublisherId, RequestId, TaskId, TokenId, UserId, VersionId};
use mediary::domain::image::{Dial, ImageFormat, OptimizedFor, Picture, ScaleFactor, Upscale, UpscaleEngine};
use mediary::domain::node::{NodeEvent, NodeFields, Translations};
use mediary::domain::publisher::{PublisherEvent, PublisherFields};
use mediary::domain::task::{Failure, Submission, TaskEvent, Work};
use mediary::domain::token::{TokenEvent, TokenGrant, TokenSubject};
use mediary::domain::user::{UserEvent, UserProfile};
use mediary::domain::value::{CallbackUrl, Digest, Labels, Link, Text, Timestamp};
use mediary::domain::version::{SemVer, VersionDraft, VersionFields};
use mediary::events::envelope::{Actor, Append, Circumstances, NewEvent};
use mediary::events::stream::{StreamId, Version};
use uuid::Uuid;

/// The moment at which samples happened.
pub const AT: Timestamp = Timestamp::from_micros(1_764_000_000_123_456);

/// An id that shows its number.
pub fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

/// The stream of a task.
pub fn task_stream(number: u128) -> StreamId {
    StreamId::from(&TaskId(id(number)))
}

/// An append of `count` small events to a task's stream; `mark` makes it recognisable.
pub fn append(stream: u128, expected: u64, mark: u64, count: u64) -> Append {
    let event = |nth| {
        let reason = Text::recorded(format!("{mark}/{nth}"));
        NewEvent { id: EventId(id(u128::from(mark * 1000 + nth))), event: TaskEvent::OutcomeUnknown { reason }.into() }
    };
    Append {
        stream: task_stream(stream),
        expected: Version(expected),
        circumstances: circumstances(),
        events: (0..count).map(event).collect(),
    }
}

/// An append of one event of about `bytes` bytes.
pub fn large_append(stream: u128, expected: u64, bytes: usize) -> Append {
    let reason = Text::recorded("x".repeat(bytes));
    let events = vec![NewEvent { id: EventId(id(1)), event: TaskEvent::OutcomeUnknown { reason }.into() }];
    Append { events, ..append(stream, expected, 0, 0) }
}

/// Circumstances with everything given.
pub fn circumstances() -> Circumstances {
    Circumstances {
        actor: Actor::User(UserId(id(0xA))),
        request: Some(RequestId::parse("request-1").unwrap()),
        causation: Some(EventId(id(0xC))),
        at: AT,
        claim: None,
    }
}

/// One event of every kind.
pub fn every_kind() -> Vec<Event> {
    let mut kinds = Vec::new();
    while let Some(event) = after(kinds.last()) {
        kinds.push(event);
    }
    kinds
}

/// The sample after another. A new kind of event does not compile until it has its place here.
fn after(last: Option<&Event>) -> Option<Event> {
    use DeliveryEvent as D;
    use NodeEvent as N;
    use PublisherEvent as P;
    use TaskEvent as T;
    let failure = || Failure { code: text("vendor_refused"), message: text("The vendor refused: too dark.") };
    Some(match last {
        None => user(),
        Some(Event::User(UserEvent::UserCreated(_))) => {
            let (id, owner) = (PublisherId::parse("acme").unwrap(), UserId(id(0xA)));
            P::PublisherCreated { id, owner, fields: publisher_fields() }.into()
        }
        Some(Event::Publisher(P::PublisherCreated { .. })) => {
            P::PublisherRevised { change: PublisherFields { name: Some(text("")), ..PublisherFields::default() } }
                .into()
        }
        Some(Event::Publisher(P::PublisherRevised { .. })) => token(),
        Some(Event::Token(TokenEvent::TokenIssued(_))) => {
            let (id, publisher) = (NodeId::parse("Face-Tools").unwrap(), PublisherId::parse("acme").unwrap());
            N::NodeCreated { id, publisher, fields: node_fields() }.into()
        }
        Some(Event::Node(N::NodeCreated { .. })) => N::NodeRevised { change: NodeFields::default() }.into(),
        Some(Event::Node(N::NodeRevised { .. })) => N::VersionReleased { version: version() }.into(),
        Some(Event::Node(N::VersionReleased { .. })) => N::VersionPublished { version: version() }.into(),
        Some(Event::Node(N::VersionPublished { .. })) => {
            let change = VersionFields { deprecated: Some(true), ..VersionFields::default() };
            N::VersionRevised { id: VersionId(id(0xE)), change }.into()
        }
        Some(Event::Node(N::VersionRevised { .. })) => submitted(),
        Some(Event::Task(T::TaskSubmitted(_))) => T::SubmissionStarted { attempt: 1, key: text("key-1") }.into(),
        Some(Event::Task(T::SubmissionStarted { .. })) => T::VendorAccepted { reference: text("job-1") }.into(),
        Some(Event::Task(T::VendorAccepted { .. })) => T::VendorRefused { failure: failure() }.into(),
        Some(Event::Task(T::VendorRefused { .. })) => T::OutcomeUnknown { reason: text("no answer in 30 s") }.into(),
        Some(Event::Task(T::OutcomeUnknown { .. })) => T::VendorForgot.into(),
        Some(Event::Task(T::VendorForgot)) => T::TaskCompleted { results: vec![picture(), picture()] }.into(),
        Some(Event::Task(T::TaskCompleted { .. })) => T::TaskFailed { failure: failure() }.into(),
        Some(Event::Task(T::TaskFailed { .. })) => {
            let outcome = AttemptOutcome::Answered { status: 503, retry_after: Some(Duration::from_secs(90)) };
            let (delivery, task, next_at) = (DeliveryId(id(0xDE)), TaskId(id(0x7A)), AT);
            D::AttemptFailed { delivery, task, attempt: 2, outcome, next_at }.into()
        }
        Some(Event::Delivery(D::AttemptFailed { .. })) => {
            let (delivery, task) = (DeliveryId(id(0xDE)), TaskId(id(0x7A)));
            D::DeliverySucceeded { delivery, task, attempt: 3, status: 204 }.into()
        }
        Some(Event::Delivery(D::DeliverySucceeded { .. })) => {
            let outcome = AttemptOutcome::Unreachable { reason: text("connection refused") };
            let (delivery, task) = (DeliveryId(id(0xDE)), TaskId(id(0x7A)));
            D::DeliveryDeadLettered { delivery, task, attempt: 10, outcome }.into()
        }
        Some(Event::Delivery(D::DeliveryDeadLettered { .. })) => {
            let claim = Claim { key: Digest([0xC1; 32]), fingerprint: Digest([0xF1; 32]), nth: 1 };
            ClaimEvent::KeyClaimed(claim).into()
        }
        Some(Event::Claim(ClaimEvent::KeyClaimed(_))) => return None,
    })
}

fn text<const MAX: usize>(value: &str) -> Text<MAX> {
    Text::parse(value).unwrap()
}

fn labels(entries: &[&str]) -> Labels {
    Labels::new(entries.iter().map(|entry| text(entry)).collect()).unwrap()
}

fn link(name: &str) -> Link {
    Link::parse(&format!("https://example.com/{name}")).unwrap()
}

fn user() -> Event {
    UserEvent::UserCreated(UserProfile {
        id: UserId(id(0xA)),
        email: Some(text("ada@example.com")),
        name: Some(text("Ada 日本")),
        is_admin: true,
        is_approved: false,
    })
    .into()
}

fn publisher_fields() -> PublisherFields {
    PublisherFields {
        name: Some(text("Acme")),
        description: Some(text("Makes everything.\nTwice.")),
        logo: Some(link("logo.png")),
        source_code_repo: Some(link("code")),
        support: Some(text("support@example.com")),
        website: Some(Link::parse("").unwrap()),
    }
}

fn token() -> Event {
    TokenEvent::TokenIssued(TokenGrant {
        id: TokenId(id(0x70)),
        subject: TokenSubject::Publisher { publisher: PublisherId::parse("acme").unwrap(), issued_by: UserId(id(0xA)) },
        name: text("ci"),
        description: Some(text("for releases")),
        secret_hash: Digest([0xAB; 32]),
    })
    .into()
}

fn node_fields() -> NodeFields {
    let german = [(text("name"), text("Gesichtswerkzeuge"))].into();
    NodeFields {
        author: Some(text("Ada")),
        banner_url: Some(link("banner.png")),
        category: Some(text("image")),
        description: Some(text("Finds faces.")),
        icon: Some(link("icon.png")),
        license: Some(text("MIT")),
        name: Some(text("Face Tools")),
        preempted_host_node_names: Some(labels(&["FaceFinder", "FaceSwap"])),
        repository: Some(link("face-tools")),
        supported_accelerators: Some(labels(&["CUDA"])),
        supported_host_frontend_version: Some(text(">=1.2")),
        supported_host_version: Some(text(">=0.3")),
        supported_os: Some(labels(&[])),
        tags: Some(labels(&["face", "image"])),
        translations: Some(Translations::from([(text("de"), german)])),
    }
}

fn version() -> VersionDraft {
    VersionDraft {
        id: VersionId(id(0xE)),
        number: SemVer::parse("1.2.3-beta.1+build.5").unwrap(),
        fields: VersionFields {
            changelog: Some(text("Fixed everything.")),
            dependencies: Some(labels(&["numpy", "pillow>=10"])),
            deprecated: Some(false),
            supported_accelerators: Some(labels(&["CUDA"])),
            supported_host_frontend_version: None,
            supported_host_version: Some(text(">=0.3")),
            supported_os: Some(labels(&["Linux"])),
            tags: None,
        },
    }
}

fn picture() -> Picture {
    let digest = Digest([0x5A; 32]);
    Picture { digest, format: ImageFormat::Webp, bytes: 123_456, width: 2048, height: 1024 }
}

fn submitted() -> Event {
    let parameters = Upscale {
        scale_factor: ScaleFactor::X4,
        engine: UpscaleEngine::Sparkle,
        optimized_for: OptimizedFor::Renders3d,
        creativity: Dial::new(-10).unwrap(),
        fractality: Dial::new(10).unwrap(),
        hdr: Dial::new(0).unwrap(),
        resemblance: Dial::new(3).unwrap(),
        prompt: Some(text("a harbour at night")),
    };
    TaskEvent::TaskSubmitted(Submission {
        task: TaskId(id(0x7A)),
        owner: UserId(id(0xA)),
        work: Work::ImageUpscale { input: picture(), parameters },
        webhook: Some(CallbackUrl::parse("https://example.com/hook").unwrap()),
    })
    .into()
}
