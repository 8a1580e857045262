//! Deliveries that are still to be made: a queue for each task, so that a receiver hears of its changes in order.
//!
//! A delivery exists because the change of status that it tells of is recorded: nothing has to be written for it, and
//! nothing can be lost between the change and its announcement.

use std::collections::{BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::domain::delivery::DeliveryEvent;
use crate::domain::ids::{DeliveryId, TaskId};
use crate::domain::image::Picture;
use crate::domain::task::{Failure, TaskEvent, TaskStatus};
use crate::domain::value::{CallbackUrl, Timestamp};
use crate::events::envelope::RecordedEvent;

/// A delivery that is still to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingDelivery {
    pub id: DeliveryId,
    pub task: TaskId,
    pub url: CallbackUrl,
    pub status: TaskStatus,
    pub results: Vec<Picture>,
    pub failure: Option<Failure>,
    /// When the next attempt is due.
    pub due: Timestamp,
}

/// All deliveries that are still to be made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Deliveries {
    queues: HashMap<TaskId, Queue>,
    /// The first delivery of every queue that has one, by the time when it is due.
    due: BTreeSet<(Timestamp, TaskId)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Queue {
    url: CallbackUrl,
    pending: VecDeque<PendingDelivery>,
    /// The last status that is or will be told: a job that the vendor took twice is told of once.
    told: TaskStatus,
    only_the_end: bool,
    /// The task has ended: the queue goes when it is empty.
    closed: bool,
}

impl Deliveries {
    /// Folds an event of a task: a change of status is to be told, if the task has a webhook. The first status is in the
    /// answer to the submission already.
    pub fn apply_task(&mut self, task: TaskId, event: &TaskEvent, recorded: &RecordedEvent) {
        if let TaskEvent::TaskSubmitted(submission) = event {
            if let Some(url) = &submission.webhook {
                let only_the_end = submission.work.tells_only_the_end();
                let (url, pending, told) = (url.clone(), VecDeque::new(), TaskStatus::Created);
                self.queues.insert(task, Queue { url, pending, told, only_the_end, closed: false });
            }
            return;
        }
        let (Some(status), Some(queue)) = (event.status_change(), self.queues.get_mut(&task)) else { return };
        if status == queue.told {
            return;
        }
        queue.told = status;
        queue.closed = matches!(status, TaskStatus::Completed | TaskStatus::Failed);
        if queue.only_the_end && !queue.closed {
            return;
        }
        if queue.pending.is_empty() {
            self.due.insert((recorded.at, task));
        }
        queue.pending.push_back(PendingDelivery {
            id: DeliveryId(recorded.id.0),
            task,
            url: queue.url.clone(),
            status,
            results: if let TaskEvent::TaskCompleted { results } = event { results.clone() } else { Vec::new() },
            failure: event.failure(),
            due: recorded.at,
        });
    }

    /// Folds an event of a delivery.
    pub fn apply(&mut self, event: &DeliveryEvent) {
        let (DeliveryEvent::AttemptFailed { task, delivery, .. }
        | DeliveryEvent::DeliverySucceeded { task, delivery, .. }
        | DeliveryEvent::DeliveryDeadLettered { task, delivery, .. }) = event;
        let Some(queue) = self.queues.get_mut(task) else { return };
        let Some(first) = queue.pending.front_mut().filter(|first| first.id == *delivery) else { return };
        self.due.remove(&(first.due, *task));
        if let DeliveryEvent::AttemptFailed { next_at, .. } = event {
            first.due = *next_at;
        } else {
            queue.pending.pop_front();
        }
        match queue.pending.front() {
            Some(next) => {
                self.due.insert((next.due, *task));
            }
            None if queue.closed => {
                self.queues.remove(task);
            }
            None => {}
        }
    }

    /// How many deliveries are still to be made.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.queues.values().map(|queue| queue.pending.len()).sum()
    }

    /// The deliveries that are due at `now`, the longest due first.
    pub fn due(&self, now: Timestamp) -> impl Iterator<Item = &PendingDelivery> {
        self.due
            .iter()
            .take_while(move |(due, _)| *due <= now)
            .filter_map(|(_, task)| self.queues.get(task)?.pending.front())
    }

    /// When the next delivery is due after `now`.
    #[must_use]
    pub fn next_due(&self, now: Timestamp) -> Option<Timestamp> {
        self.due.iter().map(|(due, _)| *due).find(|due| *due > now)
    }
}
