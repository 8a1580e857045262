//! Log of typical registry events, made once through the real log, and its content.

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

/// Appends that share a sync.
const GROUP: usize = 24;

/// The log, an older copy of it, and its content.
pub struct LogHistory {
    yesterday: TempDir,
    today: TempDir,
    pub contents: ServedContents,
}

/// Returns options with small segments, so that there are many.
pub fn options(directory: &Path) -> SledLogOptions {
    let mut options = SledLogOptions::new(directory);
    options.journal.segment_bytes = 64 * 1024;
    options
}

impl LogHistory {
    /// Creates a log of at least `events` events.
    /// It has a snapshot of the read models, taken a sixth before the end; the older copy has one too.
    pub fn generate(events: u64) -> Self {
        let (yesterday, today) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut accounts = (1..).map(sample_account);
        // The older copy lacks the last third.
        fill(today.path(), events / 3 * 2, &mut accounts);
        snapshot(today.path());
        copy(today.path(), yesterday.path());
        fill(today.path(), events / 6 * 5, &mut accounts);
        snapshot(today.path());
        fill(today.path(), events, &mut accounts);
        let contents = ServedContents::open(today.path()).unwrap().0;
        assert!(contents.events.len() as u64 >= events);
        Self { yesterday, today, contents }
    }

    pub fn today(&self) -> &Path {
        self.today.path()
    }

    pub fn yesterday(&self) -> &Path {
        self.yesterday.path()
    }

    /// Returns the files of the log, relative to its directory, sorted.
    pub fn files(&self) -> Vec<PathBuf> {
        let strip = |file: PathBuf| file.strip_prefix(self.today()).unwrap().to_owned();
        files(self.today()).into_iter().map(strip).collect()
    }
}

/// Returns snapshot options with this directory and no minimum size of the log.
pub fn snapshots(directory: &Path) -> SnapshotPolicy {
    SnapshotPolicy { directory: directory.join("snapshots"), whole_below: 0 }
}

/// Takes a snapshot of the current read models.
fn snapshot(directory: &Path) {
    let opened = open_models(&options(directory), None, &Environment::system(), &Links::default()).unwrap();
    let anchor = opened.log.anchor(opened.models.position).unwrap().unwrap();
    save(&opened.models.snapshot_copy(), &anchor, &snapshots(directory).directory, &FailPoints::default()).unwrap();
    opened.log.close().unwrap();
}

/// Returns every file below a directory, sorted.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let (mut open, mut files) = (vec![directory.to_owned()], Vec::new());
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() { open.push(entry.path()) } else { files.push(entry.path()) }
        }
    }
    files.sort();
    files
}

/// Copies a directory.
pub fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(file, target).unwrap();
    }
}

/// Appends until the log has `events` events, and closes it.
fn fill(directory: &Path, events: u64, accounts: &mut impl Iterator<Item = Vec<Append>>) {
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

/// Returns the events of a user with a token, a publisher, a node with versions, and a task with a delivery.
fn sample_account(n: u128) -> Vec<Append> {
    let base = n * 1000;
    let (user, token, task) = (UserId(id(base)), TokenId(id(base + 1)), TaskId(id(base + 2)));
    let publisher = PublisherId::parse(&format!("publisher-{n}")).unwrap();
    let node = NodeId::parse(&format!("node-{n}")).unwrap();
    let mut writing = HistoryWriter { next: base + 100, appends: Vec::new() };
    let kinds = every_kind();
    let kinds = kinds.iter();

    let (mut users, mut tokens, mut publishers) = (Vec::new(), Vec::new(), Vec::new());
    let mut nodes: Vec<Vec<Event>> = Vec::new();
    let (mut works, mut reported, mut budgets) = (Vec::new(), Vec::new(), Vec::new());
    let delivery = DeliveryId(id(base + 3));
    for kind in kinds.cloned() {
        match with_own_ids(kind, user, token, task, delivery, &publisher, &node) {
            event @ Event::User(_) => users.push(vec![event]),
            event @ Event::Token(_) => tokens.push(vec![event]),
            event @ Event::Publisher(_) => publishers.push(vec![event]),
            Event::Node(NodeEvent::VersionReleased { version }) => nodes.extend(releases(base, &version)),
            event @ Event::Node(_) => nodes.push(vec![event]),
            event @ Event::Task(_) => works.push(vec![event]),
            event @ Event::Delivery(_) => reported.push(vec![event]),
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
    writing.stream(&StreamId::from(&user), users);
    writing.stream(&StreamId::from(&publisher), publishers);
    writing.stream(&StreamId::from(&token), tokens);
    writing.stream(&StreamId::from(&node.key()), nodes);
    // Set before the task that it counts.
    writing.stream(&StreamId::from(&BudgetSubject::User(user)), budgets);
    writing.stream(&StreamId::from(&task), works);
    writing.stream(&StreamId::from(&delivery), reported);
    writing.appends
}

/// Returns a sample event, with the ids of this account.
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
        Event::User(UserEvent::UserCreated(opening)) => UserEvent::UserCreated(NewUser { id: user, ..opening }).into(),
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

fn releases(base: u128, version: &VersionDraft) -> Vec<Vec<Event>> {
    let release = |index: u128| {
        let version_number = SemVer::parse(&format!("1.{index}.0")).unwrap();
        let draft = VersionDraft { id: VersionId(id(base + 10 + index)), number: version_number, ..version.clone() };
        vec![NodeEvent::VersionReleased { version: draft }.into(), NodeEvent::DownloadsCounted { count: 7 }.into()]
    };
    (0..4).map(release).collect()
}

/// Events to append, each with an id.
struct HistoryWriter {
    next: u128,
    appends: Vec<Append>,
}

impl HistoryWriter {
    fn stream(&mut self, stream: &StreamId, commits: Vec<Vec<Event>>) {
        let mut expected = 0;
        for events in commits {
            let count = events.len() as u64;
            let events = events.into_iter().map(|event| {
                self.next += 1;
                NewEvent { id: EventId(id(self.next)), event }
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

/// Returns the distinct stream names of these events.
pub fn streams(events: &[RecordedEvent]) -> Vec<StreamId> {
    let streams: std::collections::BTreeSet<_> = events.iter().map(|event| event.stream.clone()).collect();
    streams.into_iter().collect()
}
