//! Pending webhook deliveries, in one queue per task so that a receiver gets the changes of a task in order.
//!
//! A recorded status change implies its delivery. No separate record is written that could be lost between them.
//!
//! Contents are kept in memory for a bounded number of deliveries, and only until the first attempt fails. Other
//! deliveries have only an id and a time here; [`super::ReadModels::delivery_notification`] reads their content from
//! the task's stream. The number of deliveries per account is limited at submission.

mod history;
mod notification;

use std::collections::btree_set::Range;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use self::history::{DeliveryAttempt, DeliveryRecord};
pub use self::notification::{StatusChange, WebhookContent, WebhookNotification, WebhookTaskData};

use self::notification::WebhookChangeTracker;
use crate::domain::delivery::{DeliveryEvent, Redelivery};
use crate::domain::ids::{DeliveryId, TaskId, UserId};
use crate::domain::task::TaskEvent;
use crate::domain::value::{CallbackUrl, Timestamp};
use crate::events::envelope::RecordedEvent;
use crate::fairness::RoundRobinOrder;

/// Maximum deliveries whose content is kept in memory.
const CONTENTS_MAX: usize = 10_000;

/// First deliveries of queues, ordered by due time.
type QueueHeads = BTreeSet<(Timestamp, TaskId)>;

/// Queue heads of one receiver, by account.
type HeadsByOwner = BTreeMap<Option<UserId>, QueueHeads>;

/// Receiver and account, the key of the round robin.
pub type DeliveryTurn = (Box<str>, Option<UserId>);

/// A delivery that is due.
#[derive(Debug, Clone, PartialEq)]
pub struct DueDelivery {
    pub id: DeliveryId,
    pub task: TaskId,
    /// Owner of the task.
    pub owner: Option<UserId>,
    /// The content, if it is in memory.
    pub content: Option<WebhookContent>,
}

/// All pending deliveries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Deliveries {
    queues: HashMap<TaskId, TaskDeliveryQueue>,
    by_id: HashMap<DeliveryId, PendingDelivery>,
    /// First delivery of each non-empty queue by due time, grouped by receiver and account.
    heads_by_receiver: BTreeMap<Box<str>, HeadsByOwner>,
    /// Number of pending deliveries per account with at least one; anonymous callers share one account.
    pending_by_owner: HashMap<Option<UserId>, usize>,
    /// Number of deliveries whose content is in memory.
    content_count: usize,
}

/// Deliveries of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct TaskDeliveryQueue {
    owner: Option<UserId>,
    /// Host and port of the receiver.
    receiver: Box<str>,
    /// Webhook URL; `None` after the task has ended.
    url: Option<CallbackUrl>,
    tracker: WebhookChangeTracker,
    /// `true` if the first delivery has failed; the receiver may be down for days.
    is_failing: bool,
    /// Pending deliveries in the order of the changes.
    pending: Vec<DeliveryId>,
}

/// A pending delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PendingDelivery {
    task: TaskId,
    /// Version of the task's stream at the change; orders the deliveries.
    change: u64,
    due: Timestamp,
    content: Option<Box<WebhookContent>>,
}

impl Deliveries {
    /// Applies an event of a task: enqueues a delivery for a status change if the task has a webhook. The first status
    /// is not delivered, because the submission's response contains it.
    pub fn apply_task(&mut self, task: TaskId, event: &TaskEvent, recorded: &RecordedEvent) {
        if let TaskEvent::TaskSubmitted(submission) = event {
            if let Some((tracker, url)) = WebhookChangeTracker::for_submission(submission) {
                let owner = submission.owner;
                let receiver = url.receiver().into();
                let queue = TaskDeliveryQueue {
                    owner,
                    receiver,
                    url: Some(url.clone()),
                    tracker,
                    is_failing: false,
                    pending: Vec::new(),
                };
                self.queues.insert(task, queue);
            }
            return;
        }

        let Some(queue) = self.queues.get_mut(&task) else { return };
        let Some(change) = queue.tracker.observe(event) else { return };
        let url = if queue.tracker.has_ended() { queue.url.take() } else { queue.url.clone() };

        let content = url
            .filter(|_| !queue.is_failing && self.content_count < CONTENTS_MAX)
            .map(|url| Box::new(queue.tracker.content(url, change, event)));
        self.content_count += usize::from(content.is_some());

        let task_version = recorded.version.0;
        let due = recorded.at;
        self.enqueue(DeliveryId(recorded.id.0), PendingDelivery { task, change: task_version, due, content });
    }

    /// Applies an event of a delivery.
    pub fn apply(&mut self, event: &DeliveryEvent, at: Timestamp) {
        let (delivery, task) = event.subject();
        match event {
            DeliveryEvent::RedeliveryRequested(redelivery) => self.requeue(redelivery, at),
            DeliveryEvent::AttemptFailed { next_at, .. } => self.postpone(delivery, task, *next_at),
            DeliveryEvent::DeliverySucceeded { .. } | DeliveryEvent::DeliveryDeadLettered { .. } => {
                self.complete(delivery, task);
            }
        }
    }

    fn requeue(&mut self, redelivery: &Redelivery, at: Timestamp) {
        if self.by_id.contains_key(&redelivery.delivery) {
            return;
        }
        // The queue is missing only if the task has ended.
        self.queues.entry(redelivery.task).or_insert_with(|| TaskDeliveryQueue {
            owner: redelivery.owner,
            receiver: redelivery.url.receiver().into(),
            url: None,
            tracker: WebhookChangeTracker::finished(),
            is_failing: false,
            pending: Vec::new(),
        });
        self.enqueue(
            redelivery.delivery,
            PendingDelivery { task: redelivery.task, change: redelivery.task_version, due: at, content: None },
        );
    }

    fn postpone(&mut self, delivery: DeliveryId, task: TaskId, next_at: Timestamp) {
        let Some(queue) = self.queues.get_mut(&task).filter(|_| self.by_id.contains_key(&delivery)) else { return };
        queue.is_failing = true;
        let pending = queue.pending.clone();

        self.remove_head(task);
        for id in pending {
            if let Some(entry) = self.by_id.get_mut(&id) {
                self.content_count -= usize::from(entry.content.take().is_some());
                if id == delivery {
                    entry.due = next_at;
                }
            }
        }
        self.insert_head(task);
    }

    fn complete(&mut self, delivery: DeliveryId, task: TaskId) {
        if !self.by_id.contains_key(&delivery) {
            return;
        }

        self.remove_head(task);
        if let Some(completed) = self.by_id.remove(&delivery) {
            self.content_count -= usize::from(completed.content.is_some());
        }

        if let Some(queue) = self.queues.get_mut(&task) {
            queue.is_failing = false;
            queue.pending.retain(|id| *id != delivery);
            let remaining = self.pending_by_owner.remove(&queue.owner).unwrap_or(0).saturating_sub(1);
            if remaining > 0 {
                self.pending_by_owner.insert(queue.owner, remaining);
            }
            if queue.pending.is_empty() && queue.tracker.has_ended() {
                self.queues.remove(&task);
            }
        }
        self.insert_head(task);
    }

    /// Inserts a delivery into its task's queue, after those of earlier changes.
    fn enqueue(&mut self, id: DeliveryId, delivery: PendingDelivery) {
        let task = delivery.task;
        self.remove_head(task);
        if let Some(queue) = self.queues.get_mut(&task) {
            let is_earlier =
                |other: &DeliveryId| self.by_id.get(other).is_some_and(|queued| queued.change < delivery.change);
            let index = queue.pending.partition_point(is_earlier);
            queue.pending.insert(index, id);
            *self.pending_by_owner.entry(queue.owner).or_default() += 1;
            self.by_id.insert(id, delivery);
        }
        self.insert_head(task);
    }

    /// Returns the queue of a task and the due time of its first delivery.
    fn head(&self, task: TaskId) -> Option<(&TaskDeliveryQueue, Timestamp)> {
        let queue = self.queues.get(&task)?;
        Some((queue, self.by_id.get(queue.pending.first()?)?.due))
    }

    fn remove_head(&mut self, task: TaskId) {
        let Some((queue, due)) = self.head(task) else { return };
        let receiver = queue.receiver.clone();
        let owner = queue.owner;

        let Some(owners) = self.heads_by_receiver.get_mut(&receiver) else { return };
        if let Some(heads) = owners.get_mut(&owner) {
            heads.remove(&(due, task));
            if heads.is_empty() {
                owners.remove(&owner);
            }
        }
        if owners.is_empty() {
            self.heads_by_receiver.remove(&receiver);
        }
    }

    fn insert_head(&mut self, task: TaskId) {
        let Some((queue, due)) = self.head(task) else { return };
        let receiver = queue.receiver.clone();
        let owner = queue.owner;
        self.heads_by_receiver.entry(receiver).or_default().entry(owner).or_default().insert((due, task));
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

    /// Returns the task of a pending delivery.
    #[must_use]
    pub fn task_of(&self, delivery: DeliveryId) -> Option<TaskId> {
        self.by_id.get(&delivery).map(|pending| pending.task)
    }

    /// Returns the deliveries due at `now` that `try_take` accepts; it gets task, owner and receiver.
    ///
    /// The receiver with the longest wait comes first. Its accounts take turns, and the deliveries of an account are
    /// ordered by due time. A receiver is skipped after `rejections_max` rejected offers, however many deliveries wait
    /// for it.
    pub fn due(
        &self,
        now: Timestamp,
        turns: &RoundRobinOrder<DeliveryTurn>,
        rejections_max: usize,
        mut try_take: impl FnMut(TaskId, Option<UserId>, &str) -> bool,
    ) -> Vec<DueDelivery> {
        let mut selected = Vec::new();
        for (receiver, owners) in self.receivers_with_due(now) {
            let mut rejections = 0;
            for (_, (_, task)) in turns.round_robin(due_heads(receiver, owners, now)) {
                let Some(queue) = self.queues.get(task) else { continue };
                if try_take(*task, queue.owner, receiver) {
                    selected.extend(self.first_due(*task, queue));
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

    fn first_due(&self, task: TaskId, queue: &TaskDeliveryQueue) -> Option<DueDelivery> {
        let id = *queue.pending.first()?;
        let content = self.by_id.get(&id)?.content.as_deref().cloned();
        Some(DueDelivery { id, task, owner: queue.owner, content })
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
) -> Vec<(DeliveryTurn, Range<'h, (Timestamp, TaskId)>)> {
    let with_due = owners.iter().filter_map(|(owner, heads)| Some((first_due_at(heads, now)?, *owner, heads)));
    let mut owners: Vec<(Timestamp, Option<UserId>, &QueueHeads)> = with_due.collect();
    owners.sort_unstable_by_key(|(due, owner, _)| (*due, *owner));

    let last_due = (now, TaskId(Uuid::max()));
    owners.into_iter().map(|(_, owner, heads)| ((receiver.into(), owner), heads.range(..=last_due))).collect()
}

#[cfg(test)]
mod tests;
