//! Sample events: one of every kind, with every field filled in at least one.

use std::time::Duration;

use mediary::domain::budget::{BudgetEvent, BudgetLimit, BudgetPeriod};
use mediary::domain::claim::{ClaimEvent, IdempotencyClaim};
use mediary::domain::delivery::{AttemptOutcome, DeliveryEvent, DeliverySubject, Redelivery};
use mediary::domain::event::Event;
use mediary::domain::ids::{DeliveryId, EventId, RequestId, TaskId, UserId};
use mediary::domain::image::{ImageFormat, Picture};
use mediary::domain::node::NodeEvent;
use mediary::domain::task::{TaskEvent, TaskFailure};
use mediary::domain::token::TokenEvent;
use mediary::domain::user::UserEvent;
use mediary::domain::value::{CallbackUrl, Digest, Link, Text, TextList, Timestamp};
use mediary::events::envelope::{Actor, Append, CommandContext, NewEvent};
use mediary::events::stream::{StreamId, Version};
use uuid::Uuid;

mod jobs;
mod nodes;
mod registry;
mod video;

use jobs::submitted;
pub use jobs::{every_job, paid, priced};
pub use registry::event_deliveries;
pub use video::{further, priced_music, stored_music};

/// Time of all samples.
pub const AT: Timestamp = Timestamp::from_micros(1_764_000_000_123_456);

/// Returns an id that shows its number.
pub fn id(value: u128) -> Uuid {
    Uuid::from_u128(value)
}

/// Returns the stream of a task.
pub fn task_stream(value: u128) -> StreamId {
    StreamId::from(&TaskId(id(value)))
}

/// Returns an append of `count` small events to a task's stream; `mark` makes it recognisable.
pub fn append(stream: u128, expected: u64, mark: u64, count: u64) -> Append {
    let event = |index| {
        let reason = Text::from_recorded(format!("{mark}/{index}"));
        NewEvent {
            id: EventId(id(u128::from(mark * 1000 + index))),
            event: TaskEvent::OutcomeUnknown { reason }.into(),
        }
    };
    Append {
        stream: task_stream(stream),
        expected: Version(expected),
        context: command_context(),
        events: (0..count).map(event).collect(),
        guards: Vec::new(),
    }
}

/// Returns an append of one event of about `bytes` bytes.
pub fn large_append(stream: u128, expected: u64, bytes: usize) -> Append {
    let reason = Text::from_recorded("x".repeat(bytes));
    let events = vec![NewEvent { id: EventId(id(1)), event: TaskEvent::OutcomeUnknown { reason }.into() }];
    Append { events, ..append(stream, expected, 0, 0) }
}

/// Returns a command context with every field filled.
pub fn command_context() -> CommandContext {
    CommandContext {
        actor: Actor::User(UserId(id(0xA))),
        request: Some(RequestId::parse("request-1").unwrap()),
        causation: Some(EventId(id(0xC))),
        at: AT,
        claim: None,
    }
}

/// Returns one event of every kind.
pub fn every_kind() -> Vec<Event> {
    let mut kinds = Vec::new();
    while let Some(event) = after(kinds.last()) {
        kinds.push(event);
    }
    kinds
}

/// Returns the next sample, in the order in which the kinds were added: the golden bytes contain each position. A new
/// kind of event does not compile until it has a sample here.
fn after(last: Option<&Event>) -> Option<Event> {
    use DeliveryEvent as D;
    use TaskEvent as T;
    let failure = || TaskFailure { code: text("vendor_refused"), message: text("The vendor refused: too dark.") };
    Some(match last {
        None => registry::user_created(),
        Some(Event::User(UserEvent::WebhookSecretsRevoked)) => T::TaskQueued.into(),
        Some(Event::Task(T::TaskQueued)) => T::FootageFetched { clip: video::clip() }.into(),
        Some(Event::Task(T::FootageFetched { .. })) => T::WorkBegan.into(),
        Some(Event::Task(T::WorkBegan)) => T::VideoCompleted { creation: video::creation() }.into(),
        Some(Event::Task(T::VideoCompleted { .. })) => T::StreamCompleted { stream: video::stream() }.into(),
        Some(Event::Task(T::StreamCompleted { .. })) => nodes::dependencies_continued(),
        Some(Event::Node(NodeEvent::DependenciesContinued { .. })) => {
            BudgetEvent::BudgetSet(BudgetLimit { credits: 5000, period: BudgetPeriod::Month }).into()
        }
        Some(Event::Budget(BudgetEvent::BudgetSet(_))) => BudgetEvent::BudgetRemoved.into(),
        Some(Event::Budget(BudgetEvent::BudgetRemoved)) => registry::limited_token_issued(),
        Some(Event::Token(TokenEvent::LimitedTokenIssued { .. })) => registry::webhook_created(),
        Some(Event::Delivery(D::EventRedeliveryRequested { .. })) => return None,
        Some(Event::User(event)) => registry::after_user(event),
        Some(Event::Publisher(event)) => registry::after_publisher(event),
        Some(Event::Token(event)) => registry::after_token(event),
        Some(Event::Node(event)) => nodes::after(event).unwrap_or_else(key_claimed),
        Some(Event::Task(T::TaskSubmitted(_))) => {
            T::SubmissionStarted { attempt: 1, key: text("key-1"), vendor: None }.into()
        }
        Some(Event::Task(T::SubmissionStarted { .. })) => T::VendorAccepted { reference: text("job-1") }.into(),
        Some(Event::Task(T::VendorAccepted { .. })) => T::VendorRefused { failure: failure() }.into(),
        Some(Event::Task(T::VendorRefused { .. })) => T::OutcomeUnknown { reason: text("no answer in 30 s") }.into(),
        Some(Event::Task(T::OutcomeUnknown { .. })) => T::VendorForgot.into(),
        Some(Event::Task(T::VendorForgot)) => T::TaskCompleted { results: vec![picture(), picture()] }.into(),
        Some(Event::Task(T::TaskCompleted { .. })) => T::TaskFailed { failure: failure() }.into(),
        Some(Event::Task(T::TaskFailed { .. })) => {
            let outcome = AttemptOutcome::Answered { status: 503, retry_after: Some(Duration::from_secs(90)) };
            let delivery = DeliveryId(id(0xDE));
            let subject = DeliverySubject::Task(TaskId(id(0x7A)));
            D::AttemptFailed { delivery, subject, attempt: 2, outcome, next_at: AT }.into()
        }
        Some(Event::Delivery(D::AttemptFailed { .. })) => {
            let delivery = DeliveryId(id(0xDE));
            let subject = DeliverySubject::Task(TaskId(id(0x7A)));
            D::DeliverySucceeded { delivery, subject, attempt: 3, status: 204 }.into()
        }
        Some(Event::Delivery(D::DeliverySucceeded { .. })) => {
            let outcome = AttemptOutcome::Unreachable { reason: text("connection refused") };
            let delivery = DeliveryId(id(0xDE));
            let subject = DeliverySubject::Task(TaskId(id(0x7A)));
            D::DeliveryDeadLettered { delivery, subject, attempt: 10, outcome }.into()
        }
        Some(Event::Delivery(D::DeliveryDeadLettered { .. })) => registry::user_revised(),
        Some(Event::Delivery(D::RedeliveryRequested(_))) => registry::webhook_secret_rotated(),
        Some(Event::Claim(ClaimEvent::KeyClaimed(_))) => UserEvent::UserErased.into(),
        Some(Event::Task(T::InputsFetched { .. })) => {
            T::SubmissionUndelivered { reason: text("no connection: refused") }.into()
        }
        Some(Event::Task(T::SubmissionUndelivered { .. })) => T::TaskCancelled.into(),
        Some(Event::Task(T::TaskCancelled)) => redelivery_requested(),
    })
}

fn key_claimed() -> Event {
    ClaimEvent::KeyClaimed(IdempotencyClaim {
        key: Digest([0xC1; 32]),
        fingerprint: Digest([0xF1; 32]),
        command_index: 1,
    })
    .into()
}

fn redelivery_requested() -> Event {
    let delivery = DeliveryId(id(0xDE));
    let task = TaskId(id(0x7A));
    let owner = Some(UserId(id(0xA)));
    let url = CallbackUrl::parse("https://hooks.example.com/a?b=c").unwrap();
    DeliveryEvent::RedeliveryRequested(Redelivery { delivery, task, owner, url, task_version: 5 }).into()
}

fn text<const MAX: usize, const MULTILINE: bool>(value: &str) -> Text<MAX, MULTILINE> {
    Text::parse(value).unwrap()
}

fn labels<const ENTRIES: usize, const CHARS: usize>(entries: &[&str]) -> TextList<ENTRIES, CHARS> {
    TextList::new(entries.iter().map(|entry| text(entry)).collect()).unwrap()
}

fn link(name: &str) -> Link {
    Link::parse(&format!("https://example.com/{name}")).unwrap()
}

fn picture() -> Picture {
    let digest = Digest([0x5A; 32]);
    Picture { digest, format: ImageFormat::Webp, bytes: 123_456, width: 2048, height: 1024 }
}

fn inputs_fetched() -> Event {
    TaskEvent::InputsFetched { inputs: vec![picture()] }.into()
}
