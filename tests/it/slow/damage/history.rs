//! Log with events of every kind, appended through the real log, and its content.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mediary::app::{SnapshotPolicy, open_models};
use mediary::domain::budget::BudgetSubject;
use mediary::domain::claim::{ClaimEvent, IdempotencyClaim};
use mediary::domain::delivery::{DeliveryEvent, DeliverySubject};
use mediary::domain::event::Event;
use mediary::domain::ids::{DeliveryId, EventId, NodeId, PublisherId, TaskId, TokenId, UserId, VersionId};
use mediary::domain::node::NodeEvent;
use mediary::domain::publisher::PublisherEvent;
use mediary::domain::task::{Submission, TaskEvent};
use mediary::domain::token::{TokenEvent, TokenGrant, TokenSubject};
use mediary::domain::user::{NewUser, UserEvent};
use mediary::domain::value::Digest;
use mediary::domain::version::{SemVer, VersionDraft};
use mediary::environment::{Environment, FailPoints};
use mediary::events::envelope::{Append, NewEvent, RecordedEvent};
use mediary::events::log::EventLog;
use mediary::events::sled_log::{SledLog, SledLogOptions};
use mediary::events::stream::{Position, StreamId, Version};
use mediary::projections::node::view::Links;
use mediary::projections::snapshot::save;
use tempfile::TempDir;

use super::ServedContents;
use crate::samples::{AT, command_context, every_kind, id};

/// Number of appends that share a sync.
const GROUP: usize = 24;

/// Undamaged log, an older copy of it, and the content of the log.
pub struct LogHistory {
    older: TempDir,
    current: TempDir,
    pub contents: ServedContents,
}

/// Returns the options of a log with small segments, so that it has many.
pub fn options(directory: &Path) -> SledLogOptions {
    let mut options = SledLogOptions::new(directory);
    options.journal.segment_bytes = 64 * 1024;
    options
}

impl LogHistory {
    /// Generates a log of at least `events` events. It has a snapshot of the read models, taken before the last sixth
    /// of the events. The older copy lacks the last third, and has its own snapshot.
    pub fn generate(events: u64) -> Self {
        let (older, current) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut accounts = (1..).map(sample_account);

        append_until(current.path(), events / 3 * 2, &mut accounts);
        take_snapshot(current.path());
        copy(current.path(), older.path());

        append_until(current.path(), events / 6 * 5, &mut accounts);
        take_snapshot(current.path());
        append_until(current.path(), events, &mut accounts);

        let (contents, _) = ServedContents::open(current.path()).unwrap();
        assert!(contents.events.len() as u64 >= events);
        Self { older, current, contents }
    }

    /// Returns the directory of the log.
    pub fn current(&self) -> &Path {
        self.current.path()
    }

    /// Returns the directory of the older copy.
    pub fn older(&self) -> &Path {
        self.older.path()
    }

    /// Returns the files of the log, relative to its directory, sorted.
    pub fn files(&self) -> Vec<PathBuf> {
        let strip = |file: PathBuf| file.strip_prefix(self.current()).unwrap().to_owned();
        files(self.current()).into_iter().map(strip).collect()
    }
}

/// Returns snapshot options with which a start uses a snapshot however short the log is.
pub fn snapshot_policy(directory: &Path) -> SnapshotPolicy {
    SnapshotPolicy { directory: directory.join("snapshots"), whole_below: 0 }
}

/// Takes a snapshot of the current read models.
fn take_snapshot(directory: &Path) {
    let opened = open_models(&options(directory), None, &Environment::system(), &Links::default()).unwrap();
    let anchor = opened.log.anchor(opened.models.position).unwrap().unwrap();
    save(&opened.models.snapshot_copy(), &anchor, &snapshot_policy(directory).directory, &FailPoints::default())
        .unwrap();
    opened.log.close().unwrap();
}

/// Returns every file below a directory, sorted.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut directories = vec![directory.to_owned()];
    let mut files = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() { directories.push(entry.path()) } else { files.push(entry.path()) }
        }
    }
    files.sort();
    files
}

/// Copies the files below a directory.
pub fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(file, target).unwrap();
    }
}

/// Opens the log, appends accounts until it has at least `events` events, and closes it.
fn append_until(directory: &Path, events: u64, accounts: &mut impl Iterator<Item = Vec<Append>>) {
    let mut options = options(directory);
    // These tests do not simulate a power cut.
    options.journal.sync = Arc::new(|_| Ok(()));
    let (log, _) = SledLog::open(&options, &Environment::manual(AT, 7), |_| {}).unwrap();
    while log.head() < Position(events) {
        for group in accounts.next().unwrap().chunks(GROUP) {
            assert!(log.append(group.to_vec()).unwrap().iter().all(Result::is_ok));
            log.after_group();
        }
    }
    log.close().unwrap();
}

/// Returns the events of one account: a user with a token, a publisher, a node with versions, and a task with a
/// delivery. `n` makes its ids distinct.
fn sample_account(n: u128) -> Vec<Append> {
    // Each account has the 1000 ids from `base`.
    let base = n * 1000;
    let (user, token) = (UserId(id(base)), TokenId(id(base + 1)));
    let (task, delivery) = (TaskId(id(base + 2)), DeliveryId(id(base + 3)));
    let publisher = PublisherId::parse(&format!("publisher-{n}")).unwrap();
    let node = NodeId::parse(&format!("node-{n}")).unwrap();

    // The commits of each stream.
    let mut users = Vec::new();
    let mut tokens = Vec::new();
    let mut publishers = Vec::new();
    let mut nodes: Vec<Vec<Event>> = Vec::new();
    let mut tasks = Vec::new();
    let mut deliveries = Vec::new();
    let mut budgets = Vec::new();
    for sample in every_kind() {
        match with_own_ids(sample, user, token, task, delivery, &publisher, &node) {
            event @ Event::User(_) => users.push(vec![event]),
            event @ Event::Token(_) => tokens.push(vec![event]),
            event @ Event::Publisher(_) => publishers.push(vec![event]),
            Event::Node(NodeEvent::VersionReleased { version }) => nodes.extend(version_releases(base, &version)),
            event @ Event::Node(_) => nodes.push(vec![event]),
            event @ Event::Task(_) => tasks.push(vec![event]),
            event @ Event::Delivery(_) => deliveries.push(vec![event]),
            event @ Event::Budget(_) => budgets.push(vec![event]),
            Event::Claim(_) => {
                let claim = IdempotencyClaim {
                    key: Digest([n.to_le_bytes()[0]; 32]),
                    fingerprint: Digest([1; 32]),
                    command_index: 0,
                };
                users.last_mut().unwrap().push(ClaimEvent::KeyClaimed(claim).into());
            }
        }
    }

    let mut writer = HistoryWriter { next_event_id: base + 100, appends: Vec::new() };
    writer.add_stream(&StreamId::from(&user), users);
    writer.add_stream(&StreamId::from(&publisher), publishers);
    writer.add_stream(&StreamId::from(&token), tokens);
    writer.add_stream(&StreamId::from(&node.key()), nodes);
    // The budget must exist before the task that counts towards it.
    writer.add_stream(&StreamId::from(&BudgetSubject::User(user)), budgets);
    writer.add_stream(&StreamId::from(&task), tasks);
    writer.add_stream(&StreamId::from(&delivery), deliveries);
    writer.appends
}

/// Returns the sample event with the ids of this account instead of its own.
fn with_own_ids(
    sample: Event,
    user: UserId,
    token: TokenId,
    task: TaskId,
    delivery: DeliveryId,
    publisher: &PublisherId,
    node: &NodeId,
) -> Event {
    let publisher = publisher.clone();
    match sample {
        Event::User(UserEvent::UserCreated(new_user)) => {
            UserEvent::UserCreated(NewUser { id: user, ..new_user }).into()
        }
        Event::Token(TokenEvent::TokenIssued(grant)) => {
            let subject = TokenSubject::Publisher { publisher, issued_by: user };
            let secret_hash = Digest([token.0.as_bytes()[14]; 32]);
            TokenEvent::TokenIssued(TokenGrant { id: token, subject, secret_hash, ..grant }).into()
        }
        Event::Publisher(PublisherEvent::PublisherCreated { fields, .. }) => {
            PublisherEvent::PublisherCreated { id: publisher, owner: user, fields }.into()
        }
        Event::Node(NodeEvent::NodeCreated { fields, .. }) => {
            NodeEvent::NodeCreated { id: node.clone(), publisher, fields }.into()
        }
        Event::Task(TaskEvent::TaskSubmitted(submission)) => {
            TaskEvent::TaskSubmitted(Submission { task, owner: Some(user), ..submission }).into()
        }
        Event::Delivery(DeliveryEvent::DeliverySucceeded { attempt, status, .. }) => {
            let subject = DeliverySubject::Task(task);
            DeliveryEvent::DeliverySucceeded { delivery, subject, attempt, status }.into()
        }
        other => other,
    }
}

/// Returns the commits that release four versions of a node, each with counted downloads.
fn version_releases(base: u128, version: &VersionDraft) -> Vec<Vec<Event>> {
    let release = |index: u128| {
        let version_number = SemVer::parse(&format!("1.{index}.0")).unwrap();
        let draft = VersionDraft { id: VersionId(id(base + 10 + index)), number: version_number, ..version.clone() };
        vec![NodeEvent::VersionReleased { version: draft }.into(), NodeEvent::DownloadsCounted { count: 7 }.into()]
    };
    (0..4).map(release).collect()
}

/// Collects appends and gives each event an id.
struct HistoryWriter {
    next_event_id: u128,
    appends: Vec<Append>,
}

impl HistoryWriter {
    /// Adds the commits of a new stream, as one append each.
    fn add_stream(&mut self, stream: &StreamId, commits: Vec<Vec<Event>>) {
        let mut expected = 0;
        for events in commits {
            let count = events.len() as u64;
            let events = events.into_iter().map(|event| {
                self.next_event_id += 1;
                NewEvent { id: EventId(id(self.next_event_id)), event }
            });
            let events = events.collect();
            self.appends.push(Append {
                stream: stream.clone(),
                expected: Version(expected),
                context: command_context(),
                events,
                guards: Vec::new(),
            });
            expected += count;
        }
    }
}

/// Returns the distinct streams of these events, sorted.
pub fn streams(events: &[RecordedEvent]) -> Vec<StreamId> {
    let streams: std::collections::BTreeSet<_> = events.iter().map(|event| event.stream.clone()).collect();
    streams.into_iter().collect()
}
