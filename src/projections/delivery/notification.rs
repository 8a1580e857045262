//! Status changes that webhooks report, and their content.

use serde::{Deserialize, Serialize};

use crate::domain::ids::{DeliveryId, UserId};
use crate::domain::task::{Gateway, Submission, TaskEvent, TaskFailure, TaskResults, TaskStatus, TaskWork};
use crate::domain::value::{CallbackUrl, Timestamp};
use crate::domain::video::{AttachedDocument, Credits};
use crate::events::envelope::RecordedEvent;

/// Tracks the changes of a task that its webhook still has to report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct WebhookChangeTracker {
    /// Last reported status. A job that the vendor accepted twice is reported once.
    last_reported: TaskStatus,
    /// `true` if the webhook reports only the final status.
    only_final: bool,
    subject: WebhookTaskData,
}

/// Data of a task that every webhook call contains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WebhookTaskData {
    pub gateway: Gateway,
    pub credits: Credits,
    pub payload: Option<AttachedDocument>,
}

impl WebhookTaskData {
    /// Returns the data of a task with this work.
    #[must_use]
    pub fn from_work(work: &TaskWork) -> Self {
        let payload = if let TaskWork::Video(work) = work { work.payload } else { None };
        Self { gateway: work.gateway(), credits: work.credits(), payload }
    }
}

/// A status change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusChange {
    pub from: TaskStatus,
    pub to: TaskStatus,
}

impl WebhookChangeTracker {
    /// Creates the tracker of a new task and returns its webhook URL; `None` without a webhook.
    pub fn for_submission(submission: &Submission) -> Option<(Self, &CallbackUrl)> {
        let only_final = submission.work.notifies_only_at_end();
        let subject = WebhookTaskData::from_work(&submission.work);
        submission.webhook.as_ref().map(|url| (Self { last_reported: TaskStatus::Created, only_final, subject }, url))
    }

    /// Creates a tracker without further changes.
    pub fn finished() -> Self {
        let subject = WebhookTaskData { gateway: Gateway::Image, credits: 0, payload: None };
        Self { last_reported: TaskStatus::Completed, only_final: true, subject }
    }

    /// Applies an event; returns the change to report, if any.
    pub fn observe(&mut self, event: &TaskEvent) -> Option<StatusChange> {
        let from = self.last_reported;
        let to = event.status_change(self.subject.gateway).filter(|status| *status > from)?;
        self.last_reported = to;
        (!self.only_final || self.has_ended()).then_some(StatusChange { from, to })
    }

    /// Returns `true` if the task has ended.
    pub fn has_ended(&self) -> bool {
        self.last_reported.is_terminal()
    }

    /// Returns the content of a change caused by this event.
    pub fn content(&self, url: CallbackUrl, change: StatusChange, event: &TaskEvent) -> WebhookContent {
        let results = event.results();
        let failure = event.failure();
        WebhookContent { url, subject: self.subject.clone(), change, results, failure }
    }
}

/// Content of a delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WebhookContent {
    pub url: CallbackUrl,
    pub subject: WebhookTaskData,
    pub change: StatusChange,
    pub results: Option<TaskResults>,
    pub failure: Option<TaskFailure>,
}

impl WebhookContent {
    /// Returns the name of the reported status.
    #[must_use]
    pub const fn status(&self) -> &'static str {
        self.change.to.name(self.subject.gateway)
    }
}

/// A delivery derived from the history of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct WebhookNotification {
    pub id: DeliveryId,
    pub owner: Option<UserId>,
    /// Time of the change.
    pub at: Timestamp,
    /// Version of the task's stream at the change.
    pub change: u64,
    pub content: WebhookContent,
}

/// Returns all deliveries of a task's webhook, from the task's whole history.
pub(super) fn notifications_from(history: &[RecordedEvent]) -> Vec<WebhookNotification> {
    let mut webhook = None;
    let mut notifications = Vec::new();
    for recorded in history {
        let Some(event) = recorded.event.downcast::<TaskEvent>() else { continue };
        if let TaskEvent::TaskSubmitted(submission) = event {
            webhook =
                WebhookChangeTracker::for_submission(submission).map(|(tracker, url)| (tracker, url, submission.owner));
        }

        let Some((tracker, url, owner)) = &mut webhook else { continue };
        if let Some(change) = tracker.observe(event) {
            let content = tracker.content((*url).clone(), change, event);
            notifications.push(WebhookNotification {
                id: DeliveryId(recorded.id.0),
                owner: *owner,
                at: recorded.at,
                change: recorded.version.0,
                content,
            });
        }
    }
    notifications
}
