//! Webhook deliveries: each status change is sent at least once until a 2xx response, or dead-lettered (contract 8).

use std::time::Duration;

use super::decider::Decider;
use super::event_enum::event_enum;
use super::ids::{DeliveryId, StreamKind, TaskId, UserId};
use super::value::{CallbackUrl, Text, Timestamp};

/// Delays between attempts (contract 8). After the last one fails, the delivery is dead-lettered.
pub const RETRY_SCHEDULE: [Duration; 9] = [
    Duration::from_secs(5),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(5),
    Duration::from_hours(10),
    Duration::from_hours(14),
    Duration::from_hours(20),
    Duration::from_hours(24),
];

/// Upper limit of a receiver's `Retry-After`.
pub const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);

/// Largest fraction by which a delay is extended at random, so that retries do not arrive all at once.
const JITTER: f64 = 0.1;

/// The outcome of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The receiver answered with this HTTP status; a redirect is a failure.
    Answered { status: u16, retry_after: Option<Duration> },
    /// No response.
    Unreachable { reason: Text<1000> },
}

impl AttemptOutcome {
    fn is_success(&self) -> bool {
        matches!(self, Self::Answered { status: 200..=299, .. })
    }

    /// Returns `true` for 410 Gone: the receiver wants no further deliveries.
    fn is_gone(&self) -> bool {
        matches!(self, Self::Answered { status: 410, .. })
    }

    fn retry_after(&self) -> Option<Duration> {
        if let Self::Answered { retry_after, .. } = self { *retry_after } else { None }
    }
}

/// State of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// Not delivered yet. `attempts` counts all attempts, `schedule_attempts` those since the first request or the last
    /// redelivery. The next one is due at `next_at`, or immediately if `None`.
    Pending { attempts: u32, schedule_attempts: u32, next_at: Option<Timestamp> },
    /// The receiver accepted it.
    Delivered { attempts: u32 },
    /// Given up; can be redelivered by hand. `gone` is `true` if the receiver responded with 410.
    DeadLettered { attempts: u32, gone: bool },
}

impl Default for Delivery {
    fn default() -> Self {
        Self::Pending { attempts: 0, schedule_attempts: 0, next_at: None }
    }
}

/// A request to deliver a status change again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redelivery {
    pub delivery: DeliveryId,
    pub task: TaskId,
    /// Owner of the task; `None` if it was submitted anonymously.
    pub owner: Option<UserId>,
    pub url: CallbackUrl,
    /// Version of the task's stream after the change; orders the changes of a task.
    pub task_version: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum DeliveryCommand {
    /// Records one attempt. `jitter` is a random number from 0 to 1 that sets the jitter of the next delay.
    RecordAttempt { delivery: DeliveryId, task: TaskId, outcome: AttemptOutcome, jitter: f64 },
    /// Starts the full schedule again for a delivery that has ended.
    Redeliver(Redelivery),
}

event_enum! {
    /// Events of a delivery.
    DeliveryEvent {
        /// An attempt failed; the next is due at `next_at`.
        AttemptFailed { delivery: DeliveryId, task: TaskId, attempt: u32, outcome: AttemptOutcome, next_at: Timestamp },
        /// The receiver accepted it.
        DeliverySucceeded { delivery: DeliveryId, task: TaskId, attempt: u32, status: u16 },
        /// The last attempt failed, or the receiver responded with 410.
        DeliveryDeadLettered { delivery: DeliveryId, task: TaskId, attempt: u32, outcome: AttemptOutcome },
        /// Delivery starts again although it had ended.
        RedeliveryRequested(Redelivery),
    }
}

impl DeliveryEvent {
    /// Returns the ids of the delivery and its task.
    #[must_use]
    pub fn subject(&self) -> (DeliveryId, TaskId) {
        match self {
            Self::AttemptFailed { delivery, task, .. }
            | Self::DeliverySucceeded { delivery, task, .. }
            | Self::DeliveryDeadLettered { delivery, task, .. }
            | Self::RedeliveryRequested(Redelivery { delivery, task, .. }) => (*delivery, *task),
        }
    }
}

/// Reason for which a command on a delivery was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryRejection {
    /// The delivery has ended; the recorded attempt was one too many.
    AlreadySettled,
    /// The delivery is still pending, so there is nothing to redeliver.
    StillPending,
}

impl Decider for Delivery {
    const KIND: StreamKind = StreamKind::Delivery;
    type State = Self;
    type Command = DeliveryCommand;
    type Event = DeliveryEvent;
    type Rejection = DeliveryRejection;

    fn decide(state: &Self, command: DeliveryCommand, now: Timestamp) -> Result<Vec<DeliveryEvent>, DeliveryRejection> {
        match (state, command) {
            (Self::Pending { .. }, DeliveryCommand::Redeliver(_)) => Err(DeliveryRejection::StillPending),
            (_, DeliveryCommand::Redeliver(redelivery)) => Ok(vec![DeliveryEvent::RedeliveryRequested(redelivery)]),
            (
                Self::Pending { attempts, schedule_attempts, .. },
                DeliveryCommand::RecordAttempt { delivery, task, outcome, jitter },
            ) => {
                let attempt = attempts.saturating_add(1);
                let schedule_attempts = schedule_attempts.saturating_add(1);
                if let AttemptOutcome::Answered { status, .. } = outcome
                    && outcome.is_success()
                {
                    return Ok(vec![DeliveryEvent::DeliverySucceeded { delivery, task, attempt, status }]);
                }

                Ok(vec![match retry_delay(schedule_attempts, &outcome, jitter) {
                    Some(delay) => DeliveryEvent::AttemptFailed {
                        delivery,
                        task,
                        attempt,
                        outcome,
                        next_at: now.saturating_add(delay),
                    },
                    None => DeliveryEvent::DeliveryDeadLettered { delivery, task, attempt, outcome },
                }])
            }
            (_, DeliveryCommand::RecordAttempt { .. }) => Err(DeliveryRejection::AlreadySettled),
        }
    }

    fn evolve(state: &mut Self, event: &DeliveryEvent, _at: Timestamp) {
        *state = match (&*state, event) {
            (Self::Pending { schedule_attempts, .. }, DeliveryEvent::AttemptFailed { attempt, next_at, .. }) => {
                Self::Pending {
                    attempts: *attempt,
                    schedule_attempts: schedule_attempts.saturating_add(1),
                    next_at: Some(*next_at),
                }
            }
            (Self::Pending { .. }, DeliveryEvent::DeliverySucceeded { attempt, .. }) => {
                Self::Delivered { attempts: *attempt }
            }
            (Self::Pending { .. }, DeliveryEvent::DeliveryDeadLettered { attempt, outcome, .. }) => {
                Self::DeadLettered { attempts: *attempt, gone: outcome.is_gone() }
            }
            (
                Self::Delivered { attempts } | Self::DeadLettered { attempts, .. },
                DeliveryEvent::RedeliveryRequested(_),
            ) => Self::Pending { attempts: *attempts, schedule_attempts: 0, next_at: None },
            _ => return,
        };
    }
}

/// Returns the delay after failed attempt number `schedule_attempts` of the current schedule; `None` if no attempt
/// follows.
fn retry_delay(schedule_attempts: u32, outcome: &AttemptOutcome, jitter: f64) -> Option<Duration> {
    let scheduled = RETRY_SCHEDULE.get(schedule_attempts as usize - 1).filter(|_| !outcome.is_gone())?;
    let delay = scheduled.mul_f64(1.0 + JITTER * jitter.clamp(0.0, 1.0));
    Some(delay.max(outcome.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX)))
}

#[cfg(test)]
mod tests;
