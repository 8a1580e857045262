//! Deliveries: telling a receiver of one change of status, at least once, until it listens or is given up (contract 8).

use std::time::Duration;

use super::decider::Decider;
use super::event::{Event, part_of_event};
use super::ids::{DeliveryId, StreamKind, TaskId, UserId};
use super::value::{CallbackUrl, Text, Timestamp};

/// Waiting times between attempts (contract 8); after the last one the delivery is dead-lettered.
pub const SCHEDULE: [Duration; 9] = [
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

/// The longest time that a receiver can ask us to wait.
pub const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);

/// The share by which a waiting time is stretched at most, so that receivers are not called by all at once.
const JITTER: f64 = 0.1;

/// What came of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The receiver answered with this HTTP status; a redirect is a failure.
    Answered { status: u16, retry_after: Option<Duration> },
    /// No answer came.
    Unreachable { reason: Text<1000> },
}

impl AttemptOutcome {
    fn delivered(&self) -> bool {
        matches!(self, Self::Answered { status: 200..=299, .. })
    }

    /// 410 Gone: the receiver wants no more.
    fn gone(&self) -> bool {
        matches!(self, Self::Answered { status: 410, .. })
    }

    fn retry_after(&self) -> Option<Duration> {
        if let Self::Answered { retry_after, .. } = self { *retry_after } else { None }
    }
}

/// A delivery's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// Still to be made: `attempts` were made in all, `spent` of them since it was (again) asked for; the next is due at
    /// `next_at` (at once when there is none).
    Pending { attempts: u32, spent: u32, next_at: Option<Timestamp> },
    /// The receiver took it.
    Delivered { attempts: u32 },
    /// Given up, and kept for redelivery by hand; `gone` when the receiver wanted no more (410).
    DeadLettered { attempts: u32, gone: bool },
}

impl Default for Delivery {
    fn default() -> Self {
        Self::Pending { attempts: 0, spent: 0, next_at: None }
    }
}

/// Why a command on a delivery was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryRejection {
    /// It has ended; a second attempt was made by mistake.
    AlreadySettled,
    /// It is still to be made, so that it need not be asked for again.
    StillPending,
}

/// What is to be told again, and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redelivery {
    pub delivery: DeliveryId,
    pub task: TaskId,
    /// Whose task it is; nobody's known, where gateways take jobs of anybody.
    pub owner: Option<UserId>,
    pub url: CallbackUrl,
    /// The version of the task's stream after the change that is told: what is told first has a lower one.
    pub change: u64,
}

/// What happened to a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryEvent {
    /// An attempt failed; the next is due at `next_at`.
    AttemptFailed { delivery: DeliveryId, task: TaskId, attempt: u32, outcome: AttemptOutcome, next_at: Timestamp },
    /// The receiver took it.
    DeliverySucceeded { delivery: DeliveryId, task: TaskId, attempt: u32, status: u16 },
    /// The last attempt failed, or the receiver is gone.
    DeliveryDeadLettered { delivery: DeliveryId, task: TaskId, attempt: u32, outcome: AttemptOutcome },
    /// It is to be made again, although it had ended.
    RedeliveryRequested(Redelivery),
}

part_of_event!(DeliveryEvent as Delivery {
    AttemptFailed, DeliverySucceeded, DeliveryDeadLettered, RedeliveryRequested
});

/// What can be asked of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub enum DeliveryCommand {
    /// Records one attempt. `chance` is a random number from 0 to 1 that spreads the next attempt.
    RecordAttempt { delivery: DeliveryId, task: TaskId, outcome: AttemptOutcome, chance: f64 },
    /// Makes one that has ended again, with the whole schedule before it.
    Redeliver(Redelivery),
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
            (_, DeliveryCommand::Redeliver(again)) => Ok(vec![DeliveryEvent::RedeliveryRequested(again)]),
            (
                Self::Pending { attempts, spent, .. },
                DeliveryCommand::RecordAttempt { delivery, task, outcome, chance },
            ) => {
                let (attempt, spent) = (attempts.saturating_add(1), spent.saturating_add(1));
                if let AttemptOutcome::Answered { status, .. } = outcome
                    && outcome.delivered()
                {
                    return Ok(vec![DeliveryEvent::DeliverySucceeded { delivery, task, attempt, status }]);
                }
                Ok(vec![match next_attempt(spent, &outcome, chance) {
                    Some(pause) => {
                        DeliveryEvent::AttemptFailed { delivery, task, attempt, outcome, next_at: now.after(pause) }
                    }
                    None => DeliveryEvent::DeliveryDeadLettered { delivery, task, attempt, outcome },
                }])
            }
            (_, DeliveryCommand::RecordAttempt { .. }) => Err(DeliveryRejection::AlreadySettled),
        }
    }

    fn evolve(state: &mut Self, event: &DeliveryEvent, _at: Timestamp) {
        *state = match (&*state, event) {
            (Self::Pending { spent, .. }, DeliveryEvent::AttemptFailed { attempt, next_at, .. }) => {
                Self::Pending { attempts: *attempt, spent: spent.saturating_add(1), next_at: Some(*next_at) }
            }
            (Self::Pending { .. }, DeliveryEvent::DeliverySucceeded { attempt, .. }) => {
                Self::Delivered { attempts: *attempt }
            }
            (Self::Pending { .. }, DeliveryEvent::DeliveryDeadLettered { attempt, outcome, .. }) => {
                Self::DeadLettered { attempts: *attempt, gone: outcome.gone() }
            }
            (
                Self::Delivered { attempts } | Self::DeadLettered { attempts, .. },
                DeliveryEvent::RedeliveryRequested(_),
            ) => Self::Pending { attempts: *attempts, spent: 0, next_at: None },
            _ => return,
        };
    }

    fn narrow(event: &Event) -> Option<&DeliveryEvent> {
        if let Event::Delivery(event) = event { Some(event) } else { None }
    }
}

impl DeliveryEvent {
    /// The delivery, and the task whose change it tells of.
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

/// How long to wait after the failed attempt number `spent` of a round; `None` when there is no further one.
fn next_attempt(spent: u32, outcome: &AttemptOutcome, chance: f64) -> Option<Duration> {
    let scheduled = SCHEDULE.get(spent as usize - 1).filter(|_| !outcome.gone())?;
    let pause = scheduled.mul_f64(1.0 + JITTER * chance.clamp(0.0, 1.0));
    Some(pause.max(outcome.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX)))
}

#[cfg(test)]
mod tests;
