//! Deliveries as they went, from the streams of the log: also those that were made long ago.

use super::told::{Announcement, announcements};
use crate::domain::decider::{Decider, fold};
use crate::domain::delivery::{AttemptOutcome, Delivery, DeliveryEvent};
use crate::domain::ids::{DeliveryId, TaskId};
use crate::domain::value::Timestamp;
use crate::events::envelope::RecordedEvent;
use crate::events::log::{EventLog, LogFailure};
use crate::events::stream::{StreamId, Version};
use crate::projections::read_models::{ReadFailure, ReadModels};

/// A delivery with all that was done for it.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveryRecord {
    pub told: Announcement,
    pub state: Delivery,
    pub attempts: Vec<Attempt>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub number: u32,
    /// When it was over.
    pub at: Timestamp,
    pub outcome: AttemptOutcome,
}

impl ReadModels {
    /// Every delivery of a task, in the order of the changes; none when the task has no webhook, or there is no such task.
    ///
    /// # Errors
    /// When a stream cannot be read.
    pub async fn deliveries_of(&self, task: TaskId) -> Result<Vec<DeliveryRecord>, ReadFailure> {
        self.read_log(move |log| {
            let told = announcements(&log.read_stream(&StreamId::from(&task), Version(0))?);
            told.into_iter().map(|told| record(log, told)).collect()
        })
        .await
    }

    /// What a delivery tells; `None` when the task has nothing of the kind to tell.
    ///
    /// # Errors
    /// When the stream cannot be read.
    pub async fn announcement(&self, task: TaskId, delivery: DeliveryId) -> Result<Option<Announcement>, ReadFailure> {
        self.read_log(move |log| {
            let told = announcements(&log.read_stream(&StreamId::from(&task), Version(0))?);
            Ok(told.into_iter().find(|told| told.id == delivery))
        })
        .await
    }

    /// The task of whose change a delivery tells; `None` when there is no such delivery.
    ///
    /// # Errors
    /// When the stream cannot be read.
    pub async fn task_of_delivery(&self, delivery: DeliveryId) -> Result<Option<TaskId>, ReadFailure> {
        if let Some(task) = self.read().deliveries.task_of(delivery) {
            return Ok(Some(task));
        }
        self.read_log(move |log| {
            let history = log.read_stream(&StreamId::from(&delivery), Version(0))?;
            Ok(history.iter().find_map(|recorded| Delivery::narrow(&recorded.event)).map(|event| event.subject().1))
        })
        .await
    }
}

fn record(log: &dyn EventLog, told: Announcement) -> Result<DeliveryRecord, LogFailure> {
    let history = log.read_stream(&StreamId::from(&told.id), Version(0))?;
    let own = || history.iter().filter_map(|recorded| Some((Delivery::narrow(&recorded.event)?, recorded.at)));
    let attempts = history.iter().filter_map(attempt).collect();
    Ok(DeliveryRecord { told, state: fold::<Delivery>(own()), attempts })
}

fn attempt(recorded: &RecordedEvent) -> Option<Attempt> {
    let (number, outcome) = match Delivery::narrow(&recorded.event)? {
        DeliveryEvent::AttemptFailed { attempt, outcome, .. }
        | DeliveryEvent::DeliveryDeadLettered { attempt, outcome, .. } => (*attempt, outcome.clone()),
        DeliveryEvent::DeliverySucceeded { attempt, status, .. } => {
            (*attempt, AttemptOutcome::Answered { status: *status, retry_after: None })
        }
        DeliveryEvent::RedeliveryRequested(_) => return None,
    };
    Some(Attempt { number, at: recorded.at, outcome })
}
