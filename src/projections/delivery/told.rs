//! What a webhook is told, and of which changes.

use serde::{Deserialize, Serialize};

use crate::domain::decider::Decider;
use crate::domain::ids::{DeliveryId, UserId};
use crate::domain::image::Picture;
use crate::domain::task::{Failure, Submission, Task, TaskEvent, TaskStatus};
use crate::domain::value::{CallbackUrl, Timestamp};
use crate::events::envelope::RecordedEvent;

/// Of which changes of a task its webhook is still to hear.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Telling {
    /// The last status that is or will be known there: a job that the vendor took twice is told of once.
    known: TaskStatus,
    only_the_end: bool,
}

impl Telling {
    /// What a new task has to tell, if it has a webhook.
    pub fn of(submission: &Submission) -> Option<(Self, &CallbackUrl)> {
        let only_the_end = submission.work.tells_only_the_end();
        submission.webhook.as_ref().map(|url| (Self { known: TaskStatus::Created, only_the_end }, url))
    }

    /// Nothing more.
    pub fn ended() -> Self {
        Self { known: TaskStatus::Completed, only_the_end: true }
    }

    /// The status that is to be told after this event.
    pub fn hear(&mut self, event: &TaskEvent) -> Option<TaskStatus> {
        let status = event.status_change().filter(|status| *status != self.known)?;
        self.known = status;
        (!self.only_the_end || self.has_ended()).then_some(status)
    }

    /// The task has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.known, TaskStatus::Completed | TaskStatus::Failed)
    }
}

/// What a receiver is told of one change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Content {
    pub url: CallbackUrl,
    pub status: TaskStatus,
    pub results: Vec<Picture>,
    pub failure: Option<Failure>,
}

impl Content {
    pub(super) fn new(url: CallbackUrl, status: TaskStatus, event: &TaskEvent) -> Self {
        let results = if let TaskEvent::TaskCompleted { results } = event { results.clone() } else { Vec::new() };
        Self { url, status, results, failure: event.failure() }
    }
}

/// One change of a task that its webhook is told of.
#[derive(Debug, Clone, PartialEq)]
pub struct Announcement {
    pub id: DeliveryId,
    pub owner: UserId,
    /// When the change was.
    pub at: Timestamp,
    /// The version of the task's stream at the change.
    pub change: u64,
    pub content: Content,
}

/// All that the webhook of a task is told, from the whole history of the task.
pub(super) fn announcements(history: &[RecordedEvent]) -> Vec<Announcement> {
    let (mut telling, mut found) = (None, Vec::new());
    for recorded in history {
        let Some(event) = Task::narrow(&recorded.event) else { continue };
        if let TaskEvent::TaskSubmitted(submission) = event {
            telling = Telling::of(submission).map(|(telling, url)| (telling, url, submission.owner));
        }
        let Some((telling, url, owner)) = &mut telling else { continue };
        if let Some(status) = telling.hear(event) {
            let content = Content::new((*url).clone(), status, event);
            let (id, change) = (DeliveryId(recorded.id.0), recorded.version.0);
            found.push(Announcement { id, owner: *owner, at: recorded.at, change, content });
        }
    }
    found
}
