//! Delivery history, read from the streams of the log, including completed deliveries.

use super::notification::{WebhookNotification, notifications_from};
use super::registry::RegistryNotification;
use crate::domain::decider::fold;
use crate::domain::delivery::{AttemptOutcome, Delivery, DeliveryEvent, DeliverySubject};
use crate::domain::ids::{DeliveryId, TaskId};
use crate::domain::value::Timestamp;
use crate::events::envelope::RecordedEvent;
use crate::events::log::{EventLog, LogFailure};
use crate::events::stream::{StreamId, Version};
use crate::projections::read_models::{ReadError, ReadModels};

/// A delivery with its attempts; `N` is what it reports.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveryRecord<N = WebhookNotification> {
    pub notification: N,
    pub state: Delivery,
    pub attempts: Vec<DeliveryAttempt>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveryAttempt {
    pub number: u32,
    /// Time at which the attempt ended.
    pub at: Timestamp,
    pub outcome: AttemptOutcome,
}

impl ReadModels {
    /// Returns all deliveries of a task, in the order of the changes; empty without a task or webhook.
    ///
    /// # Errors
    /// If a stream cannot be read.
    pub async fn deliveries_of(&self, task: TaskId) -> Result<Vec<DeliveryRecord>, ReadError> {
        self.read_log(move |log| {
            let notifications = notifications_from(&log.read_stream(&StreamId::from(&task), Version(0))?);
            notifications.into_iter().map(|item| read_delivery(log, item.id, item)).collect()
        })
        .await
    }

    /// Returns the attempts of deliveries to webhooks of publishers.
    ///
    /// # Errors
    /// If a stream cannot be read.
    pub async fn event_deliveries(
        &self,
        notifications: Vec<RegistryNotification>,
    ) -> Result<Vec<DeliveryRecord<RegistryNotification>>, ReadError> {
        self.read_log(move |log| notifications.into_iter().map(|item| read_delivery(log, item.id, item)).collect())
            .await
    }

    /// Returns the content of a delivery; `None` if the task has no such delivery.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub async fn delivery_notification(
        &self,
        task: TaskId,
        delivery: DeliveryId,
    ) -> Result<Option<WebhookNotification>, ReadError> {
        self.read_log(move |log| {
            let notifications = notifications_from(&log.read_stream(&StreamId::from(&task), Version(0))?);
            Ok(notifications.into_iter().find(|notification| notification.id == delivery))
        })
        .await
    }

    /// Returns the subject of a delivery; `None` if the delivery does not exist.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub async fn subject_of_delivery(&self, delivery: DeliveryId) -> Result<Option<DeliverySubject>, ReadError> {
        if let Some(subject) = self.read().deliveries.subject_of(delivery) {
            return Ok(Some(subject));
        }
        self.read_log(move |log| {
            let history = log.read_stream(&StreamId::from(&delivery), Version(0))?;
            Ok(history
                .iter()
                .find_map(|recorded| recorded.event.downcast::<DeliveryEvent>())
                .map(DeliveryEvent::subject))
        })
        .await
    }
}

fn read_delivery<N>(log: &dyn EventLog, id: DeliveryId, notification: N) -> Result<DeliveryRecord<N>, LogFailure> {
    let history = log.read_stream(&StreamId::from(&id), Version(0))?;
    let events =
        || history.iter().filter_map(|recorded| Some((recorded.event.downcast::<DeliveryEvent>()?, recorded.at)));
    let attempts = history.iter().filter_map(attempt_from).collect();
    Ok(DeliveryRecord { notification, state: fold::<Delivery>(events()), attempts })
}

fn attempt_from(recorded: &RecordedEvent) -> Option<DeliveryAttempt> {
    let (number, outcome) = match recorded.event.downcast::<DeliveryEvent>()? {
        DeliveryEvent::AttemptFailed { attempt, outcome, .. }
        | DeliveryEvent::DeliveryDeadLettered { attempt, outcome, .. } => (*attempt, outcome.clone()),
        DeliveryEvent::DeliverySucceeded { attempt, status, .. } => {
            (*attempt, AttemptOutcome::Answered { status: *status, retry_after: None })
        }
        DeliveryEvent::RedeliveryRequested(_) | DeliveryEvent::EventRedeliveryRequested { .. } => return None,
    };
    Some(DeliveryAttempt { number, at: recorded.at, outcome })
}
