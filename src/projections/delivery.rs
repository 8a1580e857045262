//! Pending webhook deliveries, in one queue per task so that a receiver gets the changes of a task in order. Each node
//! has a queue for each webhook of its publisher. Each test of a webhook has its own queue.
//!
//! A recorded status change implies its delivery, so no record of the delivery can be lost between the two.
//!
//! Contents of task webhooks are kept in memory for a bounded number of deliveries, and only until the first attempt
//! fails. Other deliveries of tasks have only an id and a time here; [`super::ReadModels::delivery_notification`] reads
//! their content from the task's stream. Their number per account is limited at submission.

mod history;
mod notification;
mod registry;

use std::collections::btree_set::Range;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use self::history::{DeliveryAttempt, DeliveryRecord};
pub use self::notification::{StatusChange, WebhookContent, WebhookNotification, WebhookTaskData};
pub use self::registry::{RegistryChange, RegistryEventView, RegistryNotification, TEST_EVENT};

use self::notification::WebhookChangeTracker;
use self::registry::WebhookFeed;
use crate::domain::delivery::{DeliveryEvent, DeliverySubject, Redelivery};
use crate::domain::ids::{DeliveryId, TaskId, UserId, WebhookId};
use crate::domain::task::TaskEvent;
use crate::domain::value::{CallbackUrl, Timestamp};
use crate::events::envelope::RecordedEvent;
use crate::fairness::RoundRobinOrder;

/// Maximum deliveries whose content is kept in memory.
const CONTENTS_MAX: usize = 10_000;

/// First deliveries of queues, ordered by due time.
type QueueHeads = BTreeSet<(Timestamp, DeliveryQueueId)>;

/// Queue heads of one receiver, by account.
type HeadsByOwner = BTreeMap<Option<UserId>, QueueHeads>;

/// Receiver and account, the key of the round robin.
pub type DeliveryTurn = (Box<str>, Option<UserId>);

/// Identifies a queue of deliveries that are made one after the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DeliveryQueueId {
    /// Status changes of a task.
    Task(TaskId),
    /// Events of the node with this key for a webhook.
    Node(WebhookId, Box<str>),
    /// A test of a webhook.
    Test(WebhookId, DeliveryId),
}

impl DeliveryQueueId {
    /// Returns the number that assigns the queue to a cluster node. A queue keeps it, so one cluster node makes its
    /// deliveries in order.
    #[must_use]
    pub fn number(&self) -> u128 {
        match self {
            Self::Task(task) => task.0.as_u128(),
            Self::Node(webhook, node) => webhook.0.as_u128() ^ u128::from(crc32c::crc32c(node.as_bytes())),
            Self::Test(_, delivery) => delivery.0.as_u128(),
        }
    }

    /// Returns the webhook of a publisher that the deliveries are for.
    const fn webhook(&self) -> Option<WebhookId> {
        match self {
            Self::Task(_) => None,
            Self::Node(webhook, _) | Self::Test(webhook, _) => Some(*webhook),
        }
    }

    /// Returns the subject of the deliveries.
    #[must_use]
    pub fn subject(&self) -> DeliverySubject {
        match self {
            Self::Task(task) => DeliverySubject::Task(*task),
            Self::Node(webhook, _) | Self::Test(webhook, _) => DeliverySubject::Webhook(*webhook),
        }
    }
}

/// A delivery that is due.
#[derive(Debug, Clone, PartialEq)]
pub struct DueDelivery {
    pub id: DeliveryId,
    pub queue: DeliveryQueueId,
    /// Account of the task or webhook.
    pub owner: Option<UserId>,
    pub content: DueContent,
}

/// Content of a due delivery.
#[derive(Debug, Clone, PartialEq)]
pub enum DueContent {
    /// A status change of a task; without its content if that has to be read from the log.
    Task(TaskId, Option<WebhookContent>),
    /// An event of the registry.
    Registry { url: CallbackUrl, notification: RegistryNotification },
}

/// All pending deliveries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Deliveries {
    queues: HashMap<DeliveryQueueId, DeliveryQueue>,
    by_id: HashMap<DeliveryId, PendingDelivery>,
    /// First delivery of each non-empty queue by due time, grouped by receiver and account.
    heads_by_receiver: BTreeMap<Box<str>, HeadsByOwner>,
    /// Number of pending deliveries of tasks per account with at least one; anonymous callers share one account.
    pending_by_owner: HashMap<Option<UserId>, usize>,
    /// Number of deliveries whose content is in memory.
    content_count: usize,
    /// Webhooks of publishers, with their last deliveries.
    webhooks: HashMap<WebhookId, WebhookFeed>,
}

/// Deliveries that are made one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct DeliveryQueue {
    owner: Option<UserId>,
    /// Host and port of the receiver.
    receiver: Box<str>,
    /// `true` while the webhook is disabled.
    is_paused: bool,
    /// Webhook URL of a task; `None` after the task has ended.
    url: Option<CallbackUrl>,
    /// Changes of a task that are still to be reported; none in the queue of a node.
    tracker: WebhookChangeTracker,
    /// `true` if the first delivery has failed; the receiver may be down for days.
    is_failing: bool,
    /// Pending deliveries in the order of the changes.
    pending: Vec<DeliveryId>,
}

/// A pending delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PendingDelivery {
    queue: DeliveryQueueId,
    /// Version of the task's stream at the change, or position of the node's event; orders the deliveries.
    change: u64,
    due: Timestamp,
    content: Option<Box<WebhookContent>>,
}

impl DeliveryQueue {
    fn new(owner: Option<UserId>, receiver: &CallbackUrl) -> Self {
        Self {
            owner,
            receiver: receiver.receiver().into(),
            is_paused: false,
            url: None,
            tracker: WebhookChangeTracker::finished(),
            is_failing: false,
            pending: Vec::new(),
        }
    }
}

impl Deliveries {
    /// Applies an event of a task: enqueues a delivery for a status change if the task has a webhook. The first status
    /// is not delivered, because the submission's response contains it.
    pub fn apply_task(&mut self, task: TaskId, event: &TaskEvent, recorded: &RecordedEvent) {
        let queue_id = DeliveryQueueId::Task(task);
        if let TaskEvent::TaskSubmitted(submission) = event {
            if let Some((tracker, url)) = WebhookChangeTracker::for_submission(submission) {
                let queue = DeliveryQueue::new(submission.owner, url);
                self.queues.insert(queue_id, DeliveryQueue { url: Some(url.clone()), tracker, ..queue });
            }
            return;
        }

        let Some(queue) = self.queues.get_mut(&queue_id) else { return };
        let Some(change) = queue.tracker.observe(event) else { return };
        let url = if queue.tracker.has_ended() { queue.url.take() } else { queue.url.clone() };

        let content = url
            .filter(|_| !queue.is_failing && self.content_count < CONTENTS_MAX)
            .map(|url| Box::new(queue.tracker.content(url, change, event)));
        self.content_count += usize::from(content.is_some());

        let task_version = recorded.version.0;
        let due = recorded.at;
        let delivery = PendingDelivery { queue: queue_id, change: task_version, due, content };
        self.enqueue(DeliveryId(recorded.id.0), delivery);
    }

    /// Applies an event of a delivery.
    pub fn apply(&mut self, event: &DeliveryEvent, at: Timestamp) {
        let delivery = event.delivery();
        match event {
            DeliveryEvent::RedeliveryRequested(redelivery) => self.requeue(redelivery, at),
            DeliveryEvent::EventRedeliveryRequested { webhook, .. } => self.requeue_event(delivery, *webhook, at),
            DeliveryEvent::AttemptFailed { next_at, .. } => self.postpone(delivery, *next_at),
            DeliveryEvent::DeliverySucceeded { .. } | DeliveryEvent::DeliveryDeadLettered { .. } => {
                self.complete(delivery);
            }
        }
    }

    /// Queues a delivery again, due at `at`, unless it is still pending.
    fn requeue(&mut self, redelivery: &Redelivery, at: Timestamp) {
        if self.by_id.contains_key(&redelivery.delivery) {
            return;
        }
        let queue = DeliveryQueueId::Task(redelivery.task);
        // The queue is missing only if the task has ended.
        self.queues.entry(queue.clone()).or_insert_with(|| DeliveryQueue::new(redelivery.owner, &redelivery.url));
        self.enqueue(
            redelivery.delivery,
            PendingDelivery { queue, change: redelivery.task_version, due: at, content: None },
        );
    }

    /// Moves a failed delivery to `next_at` and drops the loaded contents of its queue.
    fn postpone(&mut self, delivery: DeliveryId, next_at: Timestamp) {
        let Some(queue_id) = self.queue_of(delivery) else { return };
        let Some(queue) = self.queues.get_mut(&queue_id) else { return };
        queue.is_failing = true;
        let pending = queue.pending.clone();

        self.remove_head(&queue_id);
        for id in pending {
            if let Some(entry) = self.by_id.get_mut(&id) {
                self.content_count -= usize::from(entry.content.take().is_some());
                if id == delivery {
                    entry.due = next_at;
                }
            }
        }
        self.insert_head(&queue_id);
    }

    /// Removes a delivery that has succeeded or was given up. Also removes its queue if nothing is pending there and
    /// the subject has ended.
    fn complete(&mut self, delivery: DeliveryId) {
        let Some(queue_id) = self.queue_of(delivery) else { return };

        self.remove_head(&queue_id);
        if let Some(completed) = self.by_id.remove(&delivery) {
            self.content_count -= usize::from(completed.content.is_some());
            if let Some(feed) = queue_id.webhook().and_then(|webhook| self.webhooks.get_mut(&webhook)) {
                feed.add_ended(completed.change);
            }
        }

        if let Some(queue) = self.queues.get_mut(&queue_id) {
            queue.is_failing = false;
            queue.pending.retain(|id| *id != delivery);
            if queue_id.webhook().is_none() {
                let remaining = self.pending_by_owner.remove(&queue.owner).unwrap_or(0).saturating_sub(1);
                if remaining > 0 {
                    self.pending_by_owner.insert(queue.owner, remaining);
                }
            }
            if queue.pending.is_empty() && queue.tracker.has_ended() {
                self.queues.remove(&queue_id);
            }
        }
        self.insert_head(&queue_id);
    }

    /// Inserts a delivery into its queue, after those of earlier changes.
    fn enqueue(&mut self, id: DeliveryId, delivery: PendingDelivery) {
        let queue_id = delivery.queue.clone();
        self.remove_head(&queue_id);
        if let Some(queue) = self.queues.get_mut(&queue_id) {
            let is_earlier =
                |other: &DeliveryId| self.by_id.get(other).is_some_and(|queued| queued.change < delivery.change);
            let index = queue.pending.partition_point(is_earlier);
            queue.pending.insert(index, id);
            if queue_id.webhook().is_none() {
                *self.pending_by_owner.entry(queue.owner).or_default() += 1;
            }
            self.by_id.insert(id, delivery);
        }
        self.insert_head(&queue_id);
    }

    fn queue_of(&self, delivery: DeliveryId) -> Option<DeliveryQueueId> {
        self.by_id.get(&delivery).map(|pending| pending.queue.clone())
    }

    /// Returns a queue and the due time of its first delivery; `None` if it is empty or paused.
    fn head(&self, queue: &DeliveryQueueId) -> Option<(&DeliveryQueue, Timestamp)> {
        let queue = self.queues.get(queue).filter(|queue| !queue.is_paused)?;
        Some((queue, self.by_id.get(queue.pending.first()?)?.due))
    }

    fn remove_head(&mut self, queue_id: &DeliveryQueueId) {
        let Some((queue, due)) = self.head(queue_id) else { return };
        let receiver = queue.receiver.clone();
        let owner = queue.owner;

        let Some(owners) = self.heads_by_receiver.get_mut(&receiver) else { return };
        if let Some(heads) = owners.get_mut(&owner) {
            heads.remove(&(due, queue_id.clone()));
            if heads.is_empty() {
                owners.remove(&owner);
            }
        }
        if owners.is_empty() {
            self.heads_by_receiver.remove(&receiver);
        }
    }

    fn insert_head(&mut self, queue_id: &DeliveryQueueId) {
        let Some((queue, due)) = self.head(queue_id) else { return };
        let receiver = queue.receiver.clone();
        let owner = queue.owner;
        let head = (due, queue_id.clone());
        self.heads_by_receiver.entry(receiver).or_default().entry(owner).or_default().insert(head);
    }

    /// Returns the number of pending deliveries.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.by_id.len()
    }

    /// Returns the number of pending deliveries of an account's tasks.
    #[must_use]
    pub fn pending_count_of(&self, owner: Option<UserId>) -> usize {
        self.pending_by_owner.get(&owner).copied().unwrap_or(0)
    }

    /// Returns the subject of a pending delivery.
    #[must_use]
    pub fn subject_of(&self, delivery: DeliveryId) -> Option<DeliverySubject> {
        self.by_id.get(&delivery).map(|pending| pending.queue.subject())
    }

    /// Returns the deliveries due at `now` whose queue belongs to this cluster node (`is_own`) and is accepted by
    /// `try_take`, which gets queue, owner and receiver.
    ///
    /// The receiver with the longest wait comes first. Its accounts take turns, and the deliveries of an account are
    /// ordered by due time. The remaining deliveries of a receiver are skipped once `try_take` has rejected
    /// `rejections_max` of its deliveries, however many wait.
    pub fn due(
        &self,
        now: Timestamp,
        turns: &RoundRobinOrder<DeliveryTurn>,
        rejections_max: usize,
        is_own: impl Fn(&DeliveryQueueId) -> bool,
        mut try_take: impl FnMut(&DeliveryQueueId, Option<UserId>, &str) -> bool,
    ) -> Vec<DueDelivery> {
        let mut selected = Vec::new();
        for (receiver, owners) in self.receivers_with_due(now) {
            let mut rejections = 0;
            for (_, (_, queue_id)) in turns.round_robin(due_heads(receiver, owners, now)) {
                if !is_own(queue_id) {
                    continue;
                }
                let Some(queue) = self.queues.get(queue_id) else { continue };
                if try_take(queue_id, queue.owner, receiver) {
                    selected.extend(self.first_due(queue_id, queue));
                } else {
                    rejections += 1;
                    if rejections == rejections_max {
                        break;
                    }
                }
            }
        }
        selected
    }

    /// Returns the receivers of due deliveries with their queue heads, the longest wait first.
    fn receivers_with_due(&self, now: Timestamp) -> Vec<(&str, &HeadsByOwner)> {
        let earliest_due_at =
            |owners: &HeadsByOwner| owners.values().filter_map(|heads| first_due_at(heads, now)).min();
        let with_due = self
            .heads_by_receiver
            .iter()
            .filter_map(|(receiver, owners)| Some((earliest_due_at(owners)?, &**receiver, owners)));

        let mut receivers: Vec<(Timestamp, &str, &HeadsByOwner)> = with_due.collect();
        receivers.sort_unstable_by_key(|(due, receiver, _)| (*due, *receiver));
        receivers.into_iter().map(|(_, receiver, owners)| (receiver, owners)).collect()
    }

    fn first_due(&self, queue_id: &DeliveryQueueId, queue: &DeliveryQueue) -> Option<DueDelivery> {
        let id = *queue.pending.first()?;
        let content = match queue_id {
            DeliveryQueueId::Task(task) => DueContent::Task(*task, self.by_id.get(&id)?.content.as_deref().cloned()),
            DeliveryQueueId::Node(webhook, _) | DeliveryQueueId::Test(webhook, _) => DueContent::Registry {
                url: self.url_of(*webhook)?.clone(),
                notification: self.event_of(*webhook, id)?.clone(),
            },
        };
        Some(DueDelivery { id, queue: queue_id.clone(), owner: queue.owner, content })
    }
}

/// Returns the due time of the first delivery, unless it is after `now`.
fn first_due_at(heads: &QueueHeads, now: Timestamp) -> Option<Timestamp> {
    heads.first().map(|(due, _)| *due).filter(|due| *due <= now)
}

/// Returns the due queue heads of each account at a receiver, the account with the longest wait first.
fn due_heads<'h>(
    receiver: &str,
    owners: &'h HeadsByOwner,
    now: Timestamp,
) -> Vec<(DeliveryTurn, Range<'h, (Timestamp, DeliveryQueueId)>)> {
    let with_due = owners.iter().filter_map(|(owner, heads)| Some((first_due_at(heads, now)?, *owner, heads)));
    let mut owners: Vec<(Timestamp, Option<UserId>, &QueueHeads)> = with_due.collect();
    owners.sort_unstable_by_key(|(due, owner, _)| (*due, *owner));

    // No queue id sorts before that of the nil task, so this is the first key after `now`.
    let first_later = (now.saturating_add(Duration::from_micros(1)), DeliveryQueueId::Task(TaskId(Uuid::nil())));
    owners.into_iter().map(|(_, owner, heads)| ((receiver.into(), owner), heads.range(..first_later.clone()))).collect()
}

#[cfg(test)]
mod tests;
