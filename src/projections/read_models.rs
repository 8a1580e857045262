//! All read models: applying commits and reading.
//!
//! The writer applies a group of commits before it responds to any of them, so a request that starts after a response
//! sees its effect. Readers take a short shared lock; the guard must not be held across an await.

use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::watch;

use super::budget::Budgets;
use super::claim::Claims;
use super::delivery::{Deliveries, RegistryChange};
use super::node::Nodes;
use super::node::view::Links;
use super::publisher::Publishers;
use super::task::{TaskAt, Tasks};
use super::token::Tokens;
use super::user::Users;
use super::version::Versions;
use crate::domain::budget::BudgetSubject;
use crate::domain::decider::fold;
use crate::domain::event::Event;
use crate::domain::ids::{NodeId, PublisherId, TaskId, TokenId, UserId};
use crate::domain::node::NodeEvent;
use crate::domain::publisher::PublisherEvent;
use crate::domain::task::{Task, TaskEvent, TaskRecord};
use crate::domain::token::TokenEvent;
use crate::domain::user::UserEvent;
use crate::events::envelope::{Commit, RecordedEvent};
use crate::events::log::{EventLog, LogFailure};
use crate::events::stream::{Position, StreamId, Version};
use crate::events::stream_counts::StreamCounts;

/// Commits applied before waiting readers get the lock.
const COMMITS_PER_LOCK: usize = 16;

/// Failure to read from the log.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogFailure),
    /// The thread that read the log panicked.
    #[error("reading the log was interrupted")]
    Interrupted,
}

/// All state folded from the log; equal for equal logs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Models {
    pub users: Users,
    pub publishers: Publishers,
    pub tokens: Tokens,
    pub nodes: Nodes,
    pub versions: Versions,
    pub tasks: Tasks,
    pub deliveries: Deliveries,
    pub claims: Claims,
    pub budgets: Budgets,
    /// Number of events per stream, for the index of the log after a start from a snapshot.
    pub streams: StreamCounts,
    /// Position of the last applied event.
    pub position: Position,
}

impl Models {
    /// Creates empty models; `links` are the base of generated URLs.
    #[must_use]
    pub fn new(links: Links) -> Self {
        Self { nodes: Nodes::new(links), ..Self::default() }
    }

    /// Returns a copy for a snapshot, which shares large parts and omits derived data.
    #[must_use]
    pub fn snapshot_copy(&self) -> Self {
        Self {
            users: self.users.clone(),
            publishers: self.publishers.clone(),
            tokens: self.tokens.clone(),
            nodes: self.nodes.snapshot_copy(),
            versions: Versions::default(),
            tasks: self.tasks.snapshot_copy(),
            deliveries: self.deliveries.clone(),
            claims: self.claims.clone(),
            budgets: self.budgets.clone(),
            streams: self.streams.clone(),
            position: self.position,
        }
    }

    /// Returns the names of the models that differ from `other`, with the first differing item where there are many.
    /// Derived data is not compared.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let comparisons = [
            ("users", self.users == other.users),
            ("publishers", self.publishers == other.publishers),
            ("tokens", self.tokens == other.tokens),
            ("tasks", self.tasks == other.tasks),
            ("deliveries", self.deliveries == other.deliveries),
            ("claims", self.claims == other.claims),
            ("budgets", self.budgets == other.budgets),
            ("the lengths of streams", self.streams == other.streams),
            ("the position", self.position == other.position),
        ];
        let changed = comparisons.into_iter().filter(|(_, is_equal)| !is_equal).map(|(name, _)| name.to_owned());
        changed.chain(self.nodes.first_difference(&other.nodes)).collect()
    }

    /// Applies one event, which must follow [`Models::position`].
    pub fn apply(&mut self, recorded: &RecordedEvent) {
        let key = recorded.stream.key();
        let at = recorded.at;

        match &recorded.event {
            Event::User(event) => {
                if let Ok(user) = UserId::parse(key) {
                    self.users.apply(user, event, at);
                }
            }
            Event::Publisher(event) => {
                self.publishers.apply(key, event, at);
                if let Ok(publisher) = PublisherId::parse(key) {
                    self.deliveries.apply_publisher(&publisher, event, recorded);
                    self.nodes.update_publisher(key, self.publishers.get(&publisher));
                }
            }
            Event::Token(event) => {
                if let Ok(token) = TokenId::parse(key) {
                    self.tokens.apply(token, event, at);
                }
            }
            Event::Node(event) => {
                self.apply_registry(key, event, recorded);
                self.versions.apply(key, event, at, &self.nodes);
                self.nodes.apply(key, event, at);
            }
            Event::Delivery(event) => self.deliveries.apply(event, at),
            Event::Claim(event) => self.claims.apply(event, at),
            Event::Task(event) => {
                if let Ok(task) = TaskId::parse(key) {
                    self.apply_task(task, event, recorded);
                }
            }
            Event::Budget(event) => {
                if let Ok(subject) = BudgetSubject::parse_key(key) {
                    self.budgets.apply(subject, event, at, &self.tasks.index);
                }
            }
        }

        self.streams.add((&recorded.stream).into(), 1);
        self.position = recorded.position;
    }

    /// Enqueues deliveries to the webhooks of the node's publisher. The node is still in its state before the event.
    fn apply_registry(&mut self, key: &str, event: &NodeEvent, recorded: &RecordedEvent) {
        if !RegistryChange::is_reported(event) {
            return;
        }
        let node = NodeId::parse(key).ok().and_then(|id| self.nodes.get(&id.key()));
        let publisher = node.and_then(|node| self.publishers.get(&node.publisher));
        if let Some(publisher) = publisher.filter(|publisher| !publisher.webhooks.is_empty())
            && let Some(change) = node.and_then(|node| RegistryChange::from_event(node, event))
        {
            self.deliveries.apply_registry(&publisher.webhooks, &change, recorded);
        }
    }

    fn apply_task(&mut self, id: TaskId, event: &TaskEvent, recorded: &RecordedEvent) {
        let status = |tasks: &Tasks| tasks.get(id).map(|task| task.record.status);
        let before = status(&self.tasks);
        self.tasks.apply(id, event, recorded);
        if let Some(task) = self.tasks.get(id) {
            self.budgets.apply_task(before, &task.record);
        }
        self.deliveries.apply_task(id, event, recorded);
    }
}

/// Shared handle of the read models. Cheap to clone.
#[derive(Clone)]
pub struct ReadModels {
    log: Arc<dyn EventLog>,
    models: Arc<RwLock<Models>>,
    changes: Arc<ChangeChannels>,
}

/// Channels that wake reactors. A receiver sees only the latest position.
struct ChangeChannels {
    all: watch::Sender<Position>,
    tasks: watch::Sender<Position>,
    deliveries: watch::Sender<Position>,
    access: watch::Sender<Position>,
}

impl ReadModels {
    /// Creates the handle from models folded from `log`.
    #[must_use]
    pub fn new(log: Arc<dyn EventLog>, models: Models) -> Self {
        models.nodes.warm_up();
        let sender = || watch::Sender::new(models.position);
        let changes = ChangeChannels { all: sender(), tasks: sender(), deliveries: sender(), access: sender() };
        Self { log, models: Arc::new(RwLock::new(models)), changes: Arc::new(changes) }
    }

    /// Applies consecutive commits, then wakes the reactors concerned.
    pub fn apply<'c>(&self, commits: impl IntoIterator<Item = &'c Commit>) {
        let mut tasks_changed = false;
        let mut deliveries_changed = false;
        let mut access_changed = false;

        let mut models = self.models.write();
        for (number, commit) in (1_usize..).zip(commits) {
            for recorded in commit.iter() {
                models.apply(recorded);
                tasks_changed |= matches!(recorded.event, Event::Task(_));
                deliveries_changed |= may_make_delivery_due(&recorded.event);
                access_changed |= may_revoke_access(&recorded.event);
            }
            if number.is_multiple_of(COMMITS_PER_LOCK) {
                // Let readers in before the whole group is applied.
                RwLockWriteGuard::bump(&mut models);
            }
        }
        let position = models.position;
        drop(models);

        self.changes.all.send_replace(position);
        if tasks_changed {
            self.changes.tasks.send_replace(position);
        }
        if deliveries_changed {
            self.changes.deliveries.send_replace(position);
        }
        if access_changed {
            self.changes.access.send_replace(position);
        }
    }

    /// Locks all models for reading at one position. Blocks the writer: hold the guard briefly, never across an await.
    pub fn read(&self) -> RwLockReadGuard<'_, Models> {
        self.models.read()
    }

    /// Subscribes to the position of the last applied event.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<Position> {
        self.changes.all.subscribe()
    }

    /// Subscribes to changes of tasks.
    #[must_use]
    pub fn task_changes(&self) -> watch::Receiver<Position> {
        self.changes.tasks.subscribe()
    }

    /// Subscribes to changes that may make a delivery due.
    #[must_use]
    pub fn delivery_changes(&self) -> watch::Receiver<Position> {
        self.changes.deliveries.subscribe()
    }

    /// Subscribes to changes after which credentials may permit less than before.
    #[must_use]
    pub fn access_changes(&self) -> watch::Receiver<Position> {
        self.changes.access.subscribe()
    }

    /// Returns a task from memory or, if it ended long ago, by a replay of its stream.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub async fn task(&self, id: TaskId) -> Result<Option<TaskRecord>, ReadError> {
        if let Some(entry) = self.read().tasks.get(id) {
            return Ok(Some(entry.record.clone()));
        }
        Ok(fold_task(&self.read_task_events(id).await?))
    }

    /// Returns the current state of a task with its history of states.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub async fn task_with_history(&self, id: TaskId) -> Result<Option<TaskAt>, ReadError> {
        Ok(TaskAt::latest_from(&self.read_task_events(id).await?))
    }

    /// Returns the current state of several tasks in the order of the ids; omits missing tasks.
    ///
    /// # Errors
    /// If a stream cannot be read.
    pub async fn tasks_with_history(&self, ids: Vec<TaskId>) -> Result<Vec<TaskAt>, ReadError> {
        self.read_log(move |log| {
            let histories = ids.iter().map(|id| log.read_stream(&StreamId::from(id), Version(0)));
            let tasks = histories.map(|history| history.map(|history| TaskAt::latest_from(&history)));
            tasks.filter_map(Result::transpose).collect()
        })
        .await
    }

    /// Returns a task after each change visible to its owner, for changes after a position.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub async fn task_changes_after(&self, id: TaskId, after: Position) -> Result<Vec<TaskAt>, ReadError> {
        let mut versions = TaskAt::all_from(&self.read_task_events(id).await?);
        versions.retain(|version| version.position > after);
        Ok(versions)
    }

    /// Returns `true` if a vendor call was started for the task. The built-in music engine does not count as a vendor.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub async fn was_made_by_vendor(&self, id: TaskId) -> Result<bool, ReadError> {
        let history = self.read_task_events(id).await?;
        let mut events = history.iter().rev().filter_map(|recorded| recorded.event.downcast::<TaskEvent>());
        // The last start counts: a vendor that did not take the music may be followed by the built-in engine.
        let last_start =
            events.find(|event| matches!(event, TaskEvent::SubmissionStarted { .. } | TaskEvent::WorkBegan));
        Ok(matches!(last_start, Some(TaskEvent::SubmissionStarted { .. })))
    }

    async fn read_task_events(&self, id: TaskId) -> Result<Vec<RecordedEvent>, ReadError> {
        self.read_log(move |log| log.read_stream(&StreamId::from(&id), Version(0))).await
    }

    /// Runs `read` on a blocking thread.
    pub(super) async fn read_log<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn EventLog) -> Result<T, LogFailure> + Send + 'static,
    ) -> Result<T, ReadError> {
        let log = Arc::clone(&self.log);
        let reading = tokio::task::spawn_blocking(move || read(&*log));
        Ok(reading.await.map_err(|_| ReadError::Interrupted)??)
    }
}

fn fold_task(history: &[RecordedEvent]) -> Option<TaskRecord> {
    let events: Vec<(&TaskEvent, _)> =
        history.iter().filter_map(|recorded| Some((recorded.event.downcast::<TaskEvent>()?, recorded.at))).collect();
    match fold::<Task>(events) {
        Task::Present(record) => Some(*record),
        Task::Absent => None,
    }
}

/// Returns `true` for events after which a delivery may be due.
fn may_make_delivery_due(event: &Event) -> bool {
    match event {
        Event::Task(_) | Event::Delivery(_) | Event::Publisher(_) => true,
        Event::Node(event) => RegistryChange::is_reported(event),
        Event::User(_) | Event::Token(_) | Event::Claim(_) | Event::Budget(_) => false,
    }
}

/// Returns `true` for events after which credentials may permit less than before.
fn may_revoke_access(event: &Event) -> bool {
    match event {
        Event::Token(event) => matches!(event, TokenEvent::TokenRevoked),
        Event::User(event) => {
            matches!(event, UserEvent::UserRevised { .. } | UserEvent::UserBanned { .. } | UserEvent::UserErased)
        }
        Event::Publisher(event) => matches!(
            event,
            PublisherEvent::MemberRoleChanged { .. }
                | PublisherEvent::MemberRemoved { .. }
                | PublisherEvent::PublisherBanned { .. }
                | PublisherEvent::PublisherDeleted
        ),
        Event::Node(_) | Event::Task(_) | Event::Delivery(_) | Event::Claim(_) | Event::Budget(_) => false,
    }
}
