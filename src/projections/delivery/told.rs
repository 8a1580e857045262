//! Status changes that webhooks report, and their content.

use serde::{Deserialize, Serialize};

use crate::domain::decider::Decider;
use crate::domain::ids::{DeliveryId, UserId};
use crate::domain::task::{Failure, Gateway, Results, Submission, Task, TaskEvent, TaskStatus, Work};
use crate::domain::value::{CallbackUrl, Timestamp};
use crate::domain::video::{Credits, Document};
use crate::events::envelope::RecordedEvent;

/// Tracks the changes of a task that its webhook still has to report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Telling {
    /// Last reported status. A job that the vendor accepted twice is reported once.
    known: TaskStatus,
    only_the_end: bool,
    subject: Subject,
}

/// Data of a task that every webhook call contains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    pub gateway: Gateway,
    pub credits: Credits,
    pub payload: Option<Document>,
}

impl Subject {
    /// Returns the data of a task with this work.
    #[must_use]
    pub fn of(work: &Work) -> Self {
        let payload = if let Work::Video(work) = work { work.payload } else { None };
        Self { gateway: work.gateway(), credits: work.credits(), payload }
    }
}

/// A status change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub from: TaskStatus,
    pub to: TaskStatus,
}

impl Telling {
    /// Creates the tracker of a new task and returns its webhook URL; `None` without a webhook.
    pub fn of(submission: &Submission) -> Option<(Self, &CallbackUrl)> {
        let only_the_end = submission.work.tells_only_the_end();
        let subject = Subject::of(&submission.work);
        submission.webhook.as_ref().map(|url| (Self { known: TaskStatus::Created, only_the_end, subject }, url))
    }

    /// Creates a tracker without further changes.
    pub fn ended() -> Self {
        let subject = Subject { gateway: Gateway::Image, credits: 0, payload: None };
        Self { known: TaskStatus::Completed, only_the_end: true, subject }
    }

    /// Applies an event; returns the change to report, if any.
    pub fn hear(&mut self, event: &TaskEvent) -> Option<Change> {
        let from = self.known;
        let to = event.status_change(self.subject.gateway).filter(|status| *status > from)?;
        self.known = to;
        (!self.only_the_end || self.has_ended()).then_some(Change { from, to })
    }

    /// Returns `true` if the task has ended.
    pub fn has_ended(&self) -> bool {
        self.known.is_terminal()
    }

    /// Returns the content of a change caused by this event.
    pub fn content(&self, url: CallbackUrl, change: Change, event: &TaskEvent) -> Content {
        let results = event.results();
        let failure = event.failure();
        Content { url, subject: self.subject.clone(), change, results, failure }
    }
}

/// Content of a delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Content {
    pub url: CallbackUrl,
    pub subject: Subject,
    pub change: Change,
    pub results: Option<Results>,
    pub failure: Option<Failure>,
}

impl Content {
    /// Returns the name of the reported status.
    #[must_use]
    pub const fn status(&self) -> &'static str {
        self.change.to.name(self.subject.gateway)
    }
}

/// A delivery derived from the history of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Announcement {
    pub id: DeliveryId,
    pub owner: Option<UserId>,
    /// Time of the change.
    pub at: Timestamp,
    /// Version of the task's stream at the change.
    pub change: u64,
    pub content: Content,
}

/// Returns all deliveries of a task's webhook, from the task's whole history.
pub(super) fn announcements(history: &[RecordedEvent]) -> Vec<Announcement> {
    let mut telling = None;
    let mut found = Vec::new();
    for recorded in history {
        let Some(event) = Task::narrow(&recorded.event) else { continue };
        if let TaskEvent::TaskSubmitted(submission) = event {
            telling = Telling::of(submission).map(|(telling, url)| (telling, url, submission.owner));
        }
        let Some((telling, url, owner)) = &mut telling else { continue };
        if let Some(change) = telling.hear(event) {
            let content = telling.content((*url).clone(), change, event);
            let id = DeliveryId(recorded.id.0);
            let change = recorded.version.0;
            found.push(Announcement { id, owner: *owner, at: recorded.at, change, content });
        }
    }
    found
}
