//! Tests that a snapshot restores what was saved, and that invalid files are rejected.

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::domain::budget::{BudgetEvent, BudgetLimit, BudgetPeriod, BudgetSubject};
use crate::domain::claim::{ClaimEvent, IdempotencyClaim};
use crate::domain::event::Event;
use crate::domain::ids::{EventId, NodeId, PublisherId, TaskId, TokenId, UserId, VersionId};
use crate::domain::image::{ImageFormat, ImageJob, ImageWork, Picture, PictureSource, UpscaleJob};
use crate::domain::node::{NodeEvent, NodeFields, Stars};
use crate::domain::publisher::{MemberRole, PublisherEvent, PublisherFields};
use crate::domain::task::{Payers, RecordedVendor, Submission, TaskEvent, TaskWork, VendorPrice};
use crate::domain::token::{TokenEvent, TokenGrant, TokenSubject};
use crate::domain::value::{CallbackUrl, Digest, Label, Labels, Name, Reason, Text, Timestamp};
use crate::domain::version::{Archive, SemVer, VersionAdminFields, VersionDraft, VersionFields, VersionStatus};
use crate::environment::FailPoints;
use crate::events::envelope::{Actor, RecordedEvent};
use crate::events::journal::ChainHash;
use crate::events::stream::{Position, StreamId, Version};
use crate::projections::node::view::Links;
use crate::projections::read_models::Models;

/// Kind of an event, as in [`recorded_event`], and two numbers from which its objects and values are derived.
type Op = (u8, u8, u8);

/// Number of kinds of [`Op`]s.
const OP_KINDS: u8 = 23;

fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec((0..OP_KINDS, 0..4_u8, 0..4_u8), 0..80)
}

fn user(n: u8) -> UserId {
    UserId(Uuid::from_u128(u128::from(n) + 1))
}

fn publisher(n: u8) -> PublisherId {
    PublisherId::parse(&format!("publisher-{n}")).unwrap()
}

fn version(n: u8) -> VersionId {
    VersionId(Uuid::from_u128(u128::from(n) + 100))
}

fn text(n: u8) -> String {
    ["", "Word", "two Wörds 顔", "x"][usize::from(n % 4)].to_owned()
}

fn reason(n: u8) -> Reason {
    Reason::from_recorded(text(n))
}

/// Creates an event of a node; `version_id` is one of its versions, `nth` the number of a new one.
fn node_event(kind: u8, a: u8, b: u8, nth: u8, version_id: VersionId) -> NodeEvent {
    let fields = || NodeFields {
        name: Some(Name::from_recorded(text(b))),
        tags: Some(Labels::from_recorded(vec![text(a), text(b)])),
        translations: Some(
            [(
                Label::from_recorded("fr".into()),
                [(Label::from_recorded(text(a)), Text::from_recorded(text(b)))].into(),
            )]
            .into(),
        ),
        ..NodeFields::default()
    };
    let draft = || VersionDraft {
        id: version(nth),
        number: SemVer::parse(&format!("1.{nth}.0-rc.1+b{a}")).unwrap(),
        fields: VersionFields {
            changelog: Some(Text::from_recorded(text(b))),
            deprecated: Some(a == 1),
            ..VersionFields::default()
        },
    };
    let id = NodeId::parse(&format!("Node-{a}")).unwrap();
    match kind {
        0..=3 => NodeEvent::NodeCreated { id, publisher: publisher(b), fields: fields() },
        4 => NodeEvent::NodeRevised { change: fields() },
        5 => NodeEvent::VersionReleased { version: draft() },
        6 => NodeEvent::VersionPublished { version: draft() },
        7 => NodeEvent::VersionStatusChanged {
            id: version_id,
            status: VersionStatus::ALL[usize::from(a)],
            reason: Some(reason(b)),
        },
        8 => NodeEvent::ArchiveStored { version: version_id, archive: Archive { digest: Digest([a; 32]), bytes: 7 } },
        9 => NodeEvent::VersionAdministered {
            id: version_id,
            admin_fields: VersionAdminFields {
                created_at: Some(Timestamp::from_micros(i64::from(b))),
                ..VersionAdminFields::default()
            },
        },
        10 => NodeEvent::DownloadsCounted { count: u64::from(b) },
        11 => NodeEvent::NodeReviewed { user: user(b), stars: Stars::new(i64::from(b) + 1).unwrap() },
        12 if b == 0 => NodeEvent::NodeDeleted,
        _ => NodeEvent::NodeBanned { reason: reason(b) },
    }
}

fn publisher_event(a: u8, b: u8) -> PublisherEvent {
    let fields = PublisherFields { name: Some(Name::from_recorded(text(b))), ..PublisherFields::default() };
    match b {
        0 => PublisherEvent::PublisherCreated { id: publisher(a), owner: user(b), fields },
        1 => PublisherEvent::PublisherRevised { change: fields },
        2 => PublisherEvent::MemberAdded { user: user(a), role: MemberRole::ALL[0] },
        _ => PublisherEvent::PublisherBanned { reason: reason(a) },
    }
}

fn token_event(a: u8, b: u8) -> TokenEvent {
    let subject = match b {
        0 => TokenSubject::User(user(a)),
        _ => TokenSubject::Publisher { publisher: publisher(b), issued_by: user(a) },
    };
    let name = Name::from_recorded(text(a));
    let id = TokenId(Uuid::from_u128(u128::from(a)));
    match b {
        0 | 1 => {
            TokenEvent::TokenIssued(TokenGrant { id, subject, name, description: None, secret_hash: Digest([a; 32]) })
        }
        2 => TokenEvent::TokenUsed { at: Timestamp::from_micros(5) },
        _ => TokenEvent::TokenRevoked,
    }
}

fn picture() -> Picture {
    Picture { digest: Digest([4; 32]), format: ImageFormat::Png, bytes: 9, width: 2, height: 2 }
}

fn vendor(n: u8) -> RecordedVendor {
    RecordedVendor {
        name: Text::from_recorded(format!("vendor-{n}")),
        profile: Text::from_recorded("mediary".to_owned()),
        profile_hash: None,
        price: VendorPrice::from_thousandths(35),
    }
}

fn budget_subject(n: u8) -> BudgetSubject {
    match n {
        0 | 1 => BudgetSubject::User(user(n)),
        2 => BudgetSubject::Token(TokenId(Uuid::from_u128(2))),
        _ => BudgetSubject::Publisher(publisher(1)),
    }
}

fn budget_event(a: u8, b: u8) -> BudgetEvent {
    match b {
        0 | 1 => BudgetEvent::BudgetSet(BudgetLimit { credits: u64::from(a), period: BudgetPeriod::Month }),
        2 => BudgetEvent::BudgetSet(BudgetLimit { credits: 100, period: BudgetPeriod::Total }),
        _ => BudgetEvent::BudgetRemoved,
    }
}

fn task_event(a: u8, b: u8) -> TaskEvent {
    let webhook = CallbackUrl::from_recorded("https://receiver.example".to_owned());
    let job = ImageJob::Upscale(UpscaleJob { prompt: Some(Text::from_recorded(text(a))), ..UpscaleJob::default() });
    match b {
        0 => {
            let image = PictureSource::Stored(picture());
            let reference = Some(PictureSource::Remote(webhook.clone()));
            let work = TaskWork::Image(ImageWork { job, image, reference, seed: Some(u32::from(a)), credits: 7 });
            let task = TaskId(Uuid::from_u128(u128::from(a)));
            TaskEvent::TaskSubmitted(Submission {
                task,
                owner: Some(user(a)),
                work,
                webhook: Some(webhook),
                payers: Payers {
                    token: (a > 1).then_some(TokenId(Uuid::from_u128(u128::from(a)))),
                    former_accounts: Vec::new(),
                    publishers: (0..a).map(publisher).collect(),
                }
                .into_option(),
            })
        }
        1 => TaskEvent::SubmissionStarted { attempt: 1, key: Text::from_recorded(text(a)), vendor: Some(vendor(a)) },
        2 => TaskEvent::VendorAccepted { reference: Text::from_recorded(text(a)) },
        _ => TaskEvent::TaskCompleted { results: vec![picture()] },
    }
}

fn recorded_event(index: usize, (kind, a, b): Op, version_id: VersionId) -> RecordedEvent {
    let index_u8 = u8::try_from(index).unwrap();
    let claim = IdempotencyClaim { key: Digest([a; 32]), fingerprint: Digest([b; 32]), command_index: 0 };
    let (stream, event): (StreamId, Event) = match kind {
        0..=13 => {
            let key = NodeId::parse(&format!("Node-{a}")).unwrap().key();
            (StreamId::from(&key), node_event(kind, a, b, index_u8, version_id).into())
        }
        14..=16 => (StreamId::from(&publisher(a)), publisher_event(a, b).into()),
        17 | 18 => (StreamId::from(&TokenId(Uuid::from_u128(u128::from(a)))), token_event(a, b).into()),
        19 | 20 => (StreamId::from(&TaskId(Uuid::from_u128(u128::from(a)))), task_event(a, b).into()),
        21 => (StreamId::from(&budget_subject(a)), budget_event(a, b).into()),
        _ => (StreamId::from(&user(a)), ClaimEvent::KeyClaimed(claim).into()),
    };
    RecordedEvent {
        position: Position(index as u64 + 1),
        stream,
        version: Version(1),
        id: EventId(Uuid::from_u128(index as u128)),
        at: Timestamp::from_micros(1_000_000 + 1_000 * i64::from(index_u8)),
        actor: Actor::System,
        request: None,
        causation: None,
        event,
    }
}

/// Creates a valid history: versions belong to existing nodes. Where no version can exist, a download replaces its
/// event.
fn history(ops: &[Op]) -> Vec<RecordedEvent> {
    let mut versions = [const { Vec::new() }; 4];
    let mut exists = [false; 4];
    let mut deleted = [false; 4];

    let record = |(index, (kind, a, b)): (usize, &Op)| {
        let node = usize::from(*a);
        let index_u8 = u8::try_from(index).unwrap();
        exists[node] |= matches!(kind, 0..=3);
        let kind = match kind {
            5 | 6 if exists[node] && !deleted[node] => *kind,
            7..=9 if !versions[node].is_empty() => *kind,
            5..=9 => 10,
            _ => *kind,
        };

        if matches!(kind, 5 | 6) {
            versions[node].push(version(index_u8));
        }
        deleted[node] |= exists[node] && kind == 12 && *b == 0;
        let version_id = versions[node].get(usize::from(*b) % versions[node].len().max(1)).copied();
        recorded_event(index, (kind, *a, *b), version_id.unwrap_or(version(0)))
    };

    ops.iter().enumerate().map(record).collect()
}

fn links() -> Links {
    Links { public_url: "https://registry.example".to_owned() }
}

fn apply_all(models: &mut Models, events: &[RecordedEvent]) {
    for event in events {
        models.apply(event);
    }
}

fn anchor(position: Position) -> Anchor {
    Anchor { log: Uuid::from_u128(9), position, chain: ChainHash([7; 32]), segment: 1, offset: 512 }
}

/// Saves a snapshot of the models after these events.
fn save_snapshot(events: &[RecordedEvent]) -> (tempfile::TempDir, Models) {
    let directory = tempfile::tempdir().unwrap();
    let mut models = Models::new(links());
    apply_all(&mut models, events);
    save(&models.snapshot_copy(), &anchor(models.position), directory.path(), &FailPoints::default()).unwrap();
    (directory, models)
}

fn load_snapshot(directory: &Path) -> Result<Models, String> {
    let snapshot = OpenedSnapshot::open(directory).map_err(|error| error.to_string())?;
    snapshot.expect("a snapshot").load(links()).map_err(|error| error.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_snapshot_with_later_events_equals_the_whole_log(ops in ops(), cut in 0.0..1.0_f64) {
        let events = history(&ops);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a fraction of a small number")]
        let (before, after) = events.split_at((events.len() as f64 * cut) as usize);

        let (directory, mut whole) = save_snapshot(before);
        let mut restored = load_snapshot(directory.path()).unwrap();
        prop_assert_eq!(&restored, &whole);
        for models in [&mut whole, &mut restored] {
            models.nodes.warm_up();
            apply_all(models, after);
        }
        prop_assert_eq!(restored, whole);
    }
}

/// Creates a history with all kinds of events.
fn sample_history() -> Vec<RecordedEvent> {
    let ops: Vec<Op> = (0..160_u8).map(|n| (n % OP_KINDS, n / 7 % 4, n / 3 % 4)).collect();
    history(&ops)
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    let (directory, models) = save_snapshot(&sample_history());
    let path = snapshot_path(directory.path());
    let bytes = fs::read(&path).unwrap();
    assert_eq!(load_snapshot(directory.path()).unwrap(), models);
    for index in (0..bytes.len()).step_by(1 + bytes.len() / 700) {
        let mut damaged = bytes.clone();
        damaged[index] ^= 1 << (index % 8);
        fs::write(&path, &damaged).unwrap();
        let error = load_snapshot(directory.path()).unwrap_err();
        assert!(error.contains(&path.display().to_string()), "byte {index}: {error}");
    }
}

#[test]
fn a_snapshot_that_ends_early_or_late_is_not_used() {
    let (directory, _) = save_snapshot(&sample_history());
    let path = snapshot_path(directory.path());
    let bytes = fs::read(&path).unwrap();
    for length in (0..bytes.len()).step_by(1 + bytes.len() / 300) {
        fs::write(&path, &bytes[..length]).unwrap();
        assert!(load_snapshot(directory.path()).is_err(), "cut to {length} bytes");
    }
    fs::write(&path, [&bytes[..], &[0]].concat()).unwrap();
    assert!(load_snapshot(directory.path()).is_err());
}

#[test]
fn the_snapshot_of_another_release_is_not_used() {
    let (directory, _) = save_snapshot(&[]);
    let path = snapshot_path(directory.path());
    let mut bytes = fs::read(&path).unwrap();

    // Given a header with another fingerprint and the right checksum
    bytes[FINGERPRINT_OFFSET] ^= 1;
    let crc = crc32c::crc32c(&bytes[..CRC_OFFSET]);
    bytes[CRC_OFFSET..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, bytes).unwrap();

    // Then it is refused
    assert!(load_snapshot(directory.path()).unwrap_err().contains("written by another release"));
}

#[test]
fn an_unfinished_snapshot_leaves_the_previous_one() {
    let (directory, models) = save_snapshot(&sample_history());
    fs::write(snapshot_path(directory.path()).with_extension("draft"), b"MDYSNAP1 begun").unwrap();
    assert_eq!(load_snapshot(directory.path()).unwrap(), models);

    save(&Models::new(links()), &anchor(Position(0)), directory.path(), &FailPoints::default()).unwrap();
    assert_eq!(load_snapshot(directory.path()).unwrap(), Models::new(links()));

    remove_all(directory.path()).unwrap();
    assert!(OpenedSnapshot::open(directory.path()).unwrap().is_none());
}
