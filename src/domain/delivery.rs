//! Webhook deliveries. Each status change of a task, and each event of a node, is sent until the receiver responds with
//! 2xx. After the last failed attempt, the delivery is dead-lettered (contract 8).

use std::time::Duration;

use super::decider::Decider;
use super::event_enum::event_enum;
use super::ids::{DeliveryId, StreamKind, TaskId, UserId, WebhookId};
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

/// Times that a delivery can be redelivered on one day (UTC).
pub const REDELIVERIES_PER_DAY: u32 = 10;

/// Largest fraction by which a delay is extended at random, so that retries do not arrive all at once.
const JITTER: f64 = 0.1;

/// The outcome of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The receiver responded with this HTTP status; a redirect is a failure.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Not delivered yet. `attempts` counts all attempts, `schedule_attempts` those since the first request or the last
    /// redelivery. The next attempt is due at `next_at`, or immediately if `None`.
    Pending { attempts: u32, schedule_attempts: u32, next_at: Option<Timestamp>, redeliveries: Redeliveries },
    /// The receiver accepted the delivery.
    Delivered { attempts: u32, redeliveries: Redeliveries },
    /// Given up; can be redelivered by hand. `gone` is `true` if the receiver responded with 410.
    DeadLettered { attempts: u32, gone: bool, redeliveries: Redeliveries },
}

/// Number of redeliveries on the day (UTC) of the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Redeliveries {
    /// Time of the last redelivery.
    last: Option<Timestamp>,
    count: u32,
}

impl Redeliveries {
    /// Returns the number of redeliveries on the day of `now`.
    fn today(self, now: Timestamp) -> u32 {
        if self.last.is_some_and(|last| last.utc_date() == now.utc_date()) { self.count } else { 0 }
    }

    fn with_one_at(self, at: Timestamp) -> Self {
        Self { last: Some(at), count: self.today(at).saturating_add(1) }
    }
}

impl Default for Delivery {
    fn default() -> Self {
        Self::Pending { attempts: 0, schedule_attempts: 0, next_at: None, redeliveries: Redeliveries::default() }
    }
}

/// Subject of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliverySubject {
    /// A status change of a task is delivered to its webhook.
    Task(TaskId),
    /// An event of the registry is delivered to a webhook of a publisher.
    Webhook(WebhookId),
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

/// Commands of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub enum DeliveryCommand {
    /// Records one attempt. `jitter` is a random number from 0 to 1 that sets the jitter of the next delay.
    RecordAttempt { delivery: DeliveryId, subject: DeliverySubject, outcome: AttemptOutcome, jitter: f64 },
    /// Starts the full schedule again for the delivery of a task that has ended.
    Redeliver(Redelivery),
    /// Starts the full schedule again for a delivery to a webhook of a publisher that has ended.
    RedeliverEvent { delivery: DeliveryId, webhook: WebhookId },
}

event_enum! {
    /// Events of a delivery.
    DeliveryEvent {
        /// An attempt failed; the next is due at `next_at`.
        AttemptFailed {
            delivery: DeliveryId,
            subject: DeliverySubject,
            attempt: u32,
            outcome: AttemptOutcome,
            next_at: Timestamp,
        },
        /// The receiver accepted the delivery.
        DeliverySucceeded { delivery: DeliveryId, subject: DeliverySubject, attempt: u32, status: u16 },
        /// The last attempt failed, or the receiver responded with 410.
        DeliveryDeadLettered { delivery: DeliveryId, subject: DeliverySubject, attempt: u32, outcome: AttemptOutcome },
        /// Delivery of a task's status starts again although it had ended.
        RedeliveryRequested(Redelivery),
        /// Delivery to a webhook of a publisher starts again although it had ended.
        EventRedeliveryRequested { delivery: DeliveryId, webhook: WebhookId },
    }
}

impl DeliveryEvent {
    /// Returns the id of the delivery.
    #[must_use]
    pub fn delivery(&self) -> DeliveryId {
        match self {
            Self::AttemptFailed { delivery, .. }
            | Self::DeliverySucceeded { delivery, .. }
            | Self::DeliveryDeadLettered { delivery, .. }
            | Self::RedeliveryRequested(Redelivery { delivery, .. })
            | Self::EventRedeliveryRequested { delivery, .. } => *delivery,
        }
    }

    /// Returns the subject of the delivery.
    #[must_use]
    pub fn subject(&self) -> DeliverySubject {
        match self {
            Self::AttemptFailed { subject, .. }
            | Self::DeliverySucceeded { subject, .. }
            | Self::DeliveryDeadLettered { subject, .. } => *subject,
            Self::RedeliveryRequested(Redelivery { task, .. }) => DeliverySubject::Task(*task),
            Self::EventRedeliveryRequested { webhook, .. } => DeliverySubject::Webhook(*webhook),
        }
    }
}

/// Reason why a command on a delivery was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryRejection {
    /// The delivery has ended; the recorded attempt was one too many.
    AlreadySettled,
    /// The delivery is still pending, so there is nothing to redeliver.
    StillPending,
    /// The delivery was redelivered [`REDELIVERIES_PER_DAY`] times today.
    TooManyRedeliveries {
        /// Time until the next day begins.
        wait: Duration,
    },
}

impl Decider for Delivery {
    const KIND: StreamKind = StreamKind::Delivery;
    type State = Self;
    type Command = DeliveryCommand;
    type Event = DeliveryEvent;
    type Rejection = DeliveryRejection;

    fn decide(state: &Self, command: DeliveryCommand, now: Timestamp) -> Result<Vec<DeliveryEvent>, DeliveryRejection> {
        match (state, command) {
            (Self::Pending { .. }, DeliveryCommand::Redeliver(_) | DeliveryCommand::RedeliverEvent { .. }) => {
                Err(DeliveryRejection::StillPending)
            }
            (
                Self::Delivered { redeliveries, .. } | Self::DeadLettered { redeliveries, .. },
                DeliveryCommand::Redeliver(_) | DeliveryCommand::RedeliverEvent { .. },
            ) if redeliveries.today(now) >= REDELIVERIES_PER_DAY => {
                let today = now.since(Timestamp::midnight(now.utc_date()));
                Err(DeliveryRejection::TooManyRedeliveries { wait: Duration::from_hours(24).saturating_sub(today) })
            }
            (_, DeliveryCommand::Redeliver(redelivery)) => Ok(vec![DeliveryEvent::RedeliveryRequested(redelivery)]),
            (_, DeliveryCommand::RedeliverEvent { delivery, webhook }) => {
                Ok(vec![DeliveryEvent::EventRedeliveryRequested { delivery, webhook }])
            }
            (
                Self::Pending { attempts, schedule_attempts, .. },
                DeliveryCommand::RecordAttempt { delivery, subject, outcome, jitter },
            ) => {
                let attempt = attempts.saturating_add(1);
                let schedule_attempts = schedule_attempts.saturating_add(1);
                if let AttemptOutcome::Answered { status, .. } = outcome
                    && outcome.is_success()
                {
                    return Ok(vec![DeliveryEvent::DeliverySucceeded { delivery, subject, attempt, status }]);
                }

                Ok(vec![match retry_delay(schedule_attempts, &outcome, jitter) {
                    Some(delay) => DeliveryEvent::AttemptFailed {
                        delivery,
                        subject,
                        attempt,
                        outcome,
                        next_at: now.saturating_add(delay),
                    },
                    None => DeliveryEvent::DeliveryDeadLettered { delivery, subject, attempt, outcome },
                }])
            }
            (_, DeliveryCommand::RecordAttempt { .. }) => Err(DeliveryRejection::AlreadySettled),
        }
    }

    fn evolve(state: &mut Self, event: &DeliveryEvent, at: Timestamp) {
        *state = match (*state, event) {
            (
                Self::Pending { schedule_attempts, redeliveries, .. },
                DeliveryEvent::AttemptFailed { attempt, next_at, .. },
            ) => Self::Pending {
                attempts: *attempt,
                schedule_attempts: schedule_attempts.saturating_add(1),
                next_at: Some(*next_at),
                redeliveries,
            },
            (Self::Pending { redeliveries, .. }, DeliveryEvent::DeliverySucceeded { attempt, .. }) => {
                Self::Delivered { attempts: *attempt, redeliveries }
            }
            (Self::Pending { redeliveries, .. }, DeliveryEvent::DeliveryDeadLettered { attempt, outcome, .. }) => {
                Self::DeadLettered { attempts: *attempt, gone: outcome.is_gone(), redeliveries }
            }
            (
                Self::Delivered { attempts, redeliveries } | Self::DeadLettered { attempts, redeliveries, .. },
                DeliveryEvent::RedeliveryRequested(_) | DeliveryEvent::EventRedeliveryRequested { .. },
            ) => Self::Pending {
                attempts,
                schedule_attempts: 0,
                next_at: None,
                redeliveries: redeliveries.with_one_at(at),
            },
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
