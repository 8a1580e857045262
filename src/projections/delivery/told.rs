//! What a webhook is told, and of which changes.

use serde::{Deserialize, Serialize};

use crate::domain::decider::Decider;
use crate::domain::ids::{DeliveryId, UserId};
use crate::domain::task::{Failure, Gateway, Results, Submission, Task, TaskEvent, TaskStatus, Work};
use crate::domain::value::{CallbackUrl, Timestamp};
use crate::domain::video::{Credits, Document};
use crate::events::envelope::RecordedEvent;

/// Of which changes of a task its webhook is still to hear.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Telling {
    /// The last status that is or will be known there: a job that the vendor took twice is told of once.
    known: TaskStatus,
    only_the_end: bool,
    subject: Subject,
}

/// What is told of a task whatever its status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    pub gateway: Gateway,
    pub credits: Credits,
    pub payload: Option<Document>,
}

impl Subject {
    /// What is told of a task with this work.
    #[must_use]
    pub fn of(work: &Work) -> Self {
        let payload = if let Work::Video(work) = work { work.payload } else { None };
        Self { gateway: work.gateway(), credits: work.credits(), payload }
    }
}

/// From one status to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub from: TaskStatus,
    pub to: TaskStatus,
}

impl Telling {
    /// What a new task has to tell, if it has a webhook.
    pub fn of(submission: &Submission) -> Option<(Self, &CallbackUrl)> {
        let (only_the_end, subject) = (submission.work.tells_only_the_end(), Subject::of(&submission.work));
        submission.webhook.as_ref().map(|url| (Self { known: TaskStatus::Created, only_the_end, subject }, url))
    }

    /// Nothing more.
    pub fn ended() -> Self {
        let subject = Subject { gateway: Gateway::Image, credits: 0, payload: None };
        Self { known: TaskStatus::Completed, only_the_end: true, subject }
    }

    /// The change that is to be told after this event.
    pub fn hear(&mut self, event: &TaskEvent) -> Option<Change> {
        let from = self.known;
        let to = event.status_change(self.subject.gateway).filter(|status| *status > from)?;
        self.known = to;
        (!self.only_the_end || self.has_ended()).then_some(Change { from, to })
    }

    /// The task has ended.
    pub fn has_ended(&self) -> bool {
        self.known.is_terminal()
    }

    /// What is told of a change that this event brought.
    pub fn content(&self, url: CallbackUrl, change: Change, event: &TaskEvent) -> Content {
        let (results, failure) = (event.results(), event.failure());
        Content { url, subject: self.subject.clone(), change, results, failure }
    }
}

/// What a receiver is told of one change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Content {
    pub url: CallbackUrl,
    pub subject: Subject,
    pub change: Change,
    pub results: Option<Results>,
    pub failure: Option<Failure>,
}

impl Content {
    /// The status that is told, by its name.
    #[must_use]
    pub const fn status(&self) -> &'static str {
        self.change.to.name(self.subject.gateway)
    }
}

/// One change of a task that its webhook is told of.
#[derive(Debug, Clone, PartialEq)]
pub struct Announcement {
    pub id: DeliveryId,
    pub owner: Option<UserId>,
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
        if let Some(change) = telling.hear(event) {
            let content = telling.content((*url).clone(), change, event);
            let (id, change) = (DeliveryId(recorded.id.0), recorded.version.0);
            found.push(Announcement { id, owner: *owner, at: recorded.at, change, content });
        }
    }
    found
}
