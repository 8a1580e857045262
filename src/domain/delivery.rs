//! Deliveries: telling a receiver of one change of status, at least once, until it listens or is given up (contract 8).

use std::time::Duration;

use super::decider::Decider;
use super::event::{Event, part_of_event};
use super::ids::{DeliveryId, StreamKind, TaskId};
use super::value::{Text, Timestamp};

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
    /// Still to be made: `attempts` were made, the next is due at `next_at` (at once when there is none).
    Pending { attempts: u32, next_at: Option<Timestamp> },
    /// The receiver took it.
    Delivered,
    /// Given up, and kept for redelivery by hand.
    DeadLettered,
}

impl Default for Delivery {
    fn default() -> Self {
        Self::Pending { attempts: 0, next_at: None }
    }
}

/// Why a command on a delivery was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryRejection {
    /// It has ended; a second attempt was made by mistake.
    AlreadySettled,
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
}

part_of_event!(DeliveryEvent as Delivery { AttemptFailed, DeliverySucceeded, DeliveryDeadLettered });

/// What can be asked of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub enum DeliveryCommand {
    /// Records one attempt. `chance` is a random number from 0 to 1 that spreads the next attempt.
    RecordAttempt { delivery: DeliveryId, task: TaskId, outcome: AttemptOutcome, chance: f64 },
}

impl Decider for Delivery {
    const KIND: StreamKind = StreamKind::Delivery;
    type State = Self;
    type Command = DeliveryCommand;
    type Event = DeliveryEvent;
    type Rejection = DeliveryRejection;

    fn decide(state: &Self, command: DeliveryCommand, now: Timestamp) -> Result<Vec<DeliveryEvent>, DeliveryRejection> {
        let DeliveryCommand::RecordAttempt { delivery, task, outcome, chance } = command;
        let Self::Pending { attempts, .. } = state else {
            return Err(DeliveryRejection::AlreadySettled);
        };
        let attempt = attempts.saturating_add(1);
        if let AttemptOutcome::Answered { status, .. } = outcome
            && outcome.delivered()
        {
            return Ok(vec![DeliveryEvent::DeliverySucceeded { delivery, task, attempt, status }]);
        }
        Ok(vec![match next_attempt(attempt, &outcome, chance) {
            Some(pause) => DeliveryEvent::AttemptFailed { delivery, task, attempt, outcome, next_at: now.after(pause) },
            None => DeliveryEvent::DeliveryDeadLettered { delivery, task, attempt, outcome },
        }])
    }

    fn evolve(state: &mut Self, event: &DeliveryEvent, _at: Timestamp) {
        if !matches!(state, Self::Pending { .. }) {
            return;
        }
        *state = match event {
            DeliveryEvent::AttemptFailed { attempt, next_at, .. } => {
                Self::Pending { attempts: *attempt, next_at: Some(*next_at) }
            }
            DeliveryEvent::DeliverySucceeded { .. } => Self::Delivered,
            DeliveryEvent::DeliveryDeadLettered { .. } => Self::DeadLettered,
        };
    }

    fn narrow(event: &Event) -> Option<&DeliveryEvent> {
        if let Event::Delivery(event) = event { Some(event) } else { None }
    }
}

/// How long to wait after the failed attempt number `attempt`; `None` when there is no further one.
fn next_attempt(attempt: u32, outcome: &AttemptOutcome, chance: f64) -> Option<Duration> {
    let scheduled = SCHEDULE.get(attempt as usize - 1).filter(|_| !outcome.gone())?;
    let pause = scheduled.mul_f64(1.0 + JITTER * chance.clamp(0.0, 1.0));
    Some(pause.max(outcome.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::decider::testing::{NOW, given_when, state_after};
    use proptest::prelude::*;
    use uuid::Uuid;

    const DELIVERY: DeliveryId = DeliveryId(Uuid::from_u128(1));
    const TASK: TaskId = TaskId(Uuid::from_u128(2));
    const HOUR: u64 = 3600;

    fn answered(status: u16) -> AttemptOutcome {
        AttemptOutcome::Answered { status, retry_after: None }
    }

    fn busy(retry_after: u64) -> AttemptOutcome {
        AttemptOutcome::Answered { status: 503, retry_after: Some(Duration::from_secs(retry_after)) }
    }

    fn unreachable() -> AttemptOutcome {
        AttemptOutcome::Unreachable { reason: Text::parse("no connection").unwrap() }
    }

    fn attempt(outcome: AttemptOutcome, chance: f64) -> DeliveryCommand {
        DeliveryCommand::RecordAttempt { delivery: DELIVERY, task: TASK, outcome, chance }
    }

    fn failed(attempt: u32, outcome: AttemptOutcome, next_at: Timestamp) -> DeliveryEvent {
        DeliveryEvent::AttemptFailed { delivery: DELIVERY, task: TASK, attempt, outcome, next_at }
    }

    fn succeeded(attempt: u32, status: u16) -> DeliveryEvent {
        DeliveryEvent::DeliverySucceeded { delivery: DELIVERY, task: TASK, attempt, status }
    }

    fn dead(attempt: u32, outcome: AttemptOutcome) -> DeliveryEvent {
        DeliveryEvent::DeliveryDeadLettered { delivery: DELIVERY, task: TASK, attempt, outcome }
    }

    fn failures(count: u32) -> Vec<DeliveryEvent> {
        (1..=count).map(|attempt| failed(attempt, unreachable(), NOW)).collect()
    }

    /// How long the delivery waits when this comes of the attempt after `earlier` failed ones.
    fn pause(earlier: u32, outcome: &AttemptOutcome, chance: f64) -> Duration {
        let answer = given_when::<Delivery>(&failures(earlier), attempt(outcome.clone(), chance)).unwrap();
        let [DeliveryEvent::AttemptFailed { attempt, outcome: told, next_at, .. }] = answer.as_slice() else {
            panic!("{answer:?}")
        };
        assert_eq!((*attempt, told), (earlier + 1, outcome));
        next_at.since(NOW)
    }

    #[test]
    fn a_new_delivery_is_due_at_once() {
        assert_eq!(state_after::<Delivery>(&[]), Delivery::Pending { attempts: 0, next_at: None });
    }

    #[test]
    fn every_2xx_is_a_success() {
        for status in [200, 204, 299] {
            assert_eq!(given_when::<Delivery>(&[], attempt(answered(status), 0.5)), Ok(vec![succeeded(1, status)]));
        }
        let late = given_when::<Delivery>(&failures(9), attempt(answered(200), 0.5));
        assert_eq!(late, Ok(vec![succeeded(10, 200)]));
    }

    #[test]
    fn everything_else_is_tried_again() {
        for outcome in [answered(199), answered(301), answered(404), answered(500), unreachable()] {
            let next = vec![failed(1, outcome.clone(), NOW.after(Duration::from_secs(5)))];
            assert_eq!(given_when::<Delivery>(&[], attempt(outcome, 0.0)), Ok(next));
        }
    }

    #[test]
    fn the_waiting_times_are_those_of_the_contract_and_a_tenth_more_at_most() {
        let contract = [5, 300, 1800, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];
        for (earlier, seconds) in (0..).zip(contract) {
            let least = Duration::from_secs(seconds);
            for (chance, expected) in [(0.0, least), (1.0, least * 11 / 10), (-1.0, least), (2.0, least * 11 / 10)] {
                assert_eq!(pause(earlier, &unreachable(), chance), expected, "{earlier} {chance}");
            }
        }
    }

    #[test]
    fn the_tenth_failure_is_the_last() {
        let answer = given_when::<Delivery>(&failures(9), attempt(answered(500), 0.0));
        assert_eq!(answer, Ok(vec![dead(10, answered(500))]));
        assert_eq!(given_when::<Delivery>(&failures(9), attempt(busy(60), 0.0)), Ok(vec![dead(10, busy(60))]));
    }

    #[test]
    fn a_receiver_that_is_gone_is_never_called_again() {
        let gone = AttemptOutcome::Answered { status: 410, retry_after: Some(Duration::from_secs(1)) };
        assert_eq!(given_when::<Delivery>(&[], attempt(gone.clone(), 0.0)), Ok(vec![dead(1, gone)]));
    }

    #[test]
    fn a_receiver_may_ask_for_more_time_but_not_for_less() {
        assert_eq!(pause(0, &busy(4), 0.0), Duration::from_secs(5));
        assert_eq!(pause(0, &busy(90), 0.0), Duration::from_secs(90));
        assert_eq!(pause(0, &busy(90), 1.0), Duration::from_secs(90));
        assert_eq!(pause(0, &busy(u64::MAX), 0.0), RETRY_AFTER_MAX);
        assert_eq!(pause(8, &busy(u64::MAX), 1.0), Duration::from_secs(24 * HOUR) * 11 / 10);
    }

    #[test]
    fn nothing_happens_after_the_end() {
        for end in [succeeded(1, 200), dead(1, answered(410))] {
            for outcome in [answered(200), answered(410), unreachable()] {
                let answer = given_when::<Delivery>(std::slice::from_ref(&end), attempt(outcome, 0.0));
                assert_eq!(answer, Err(DeliveryRejection::AlreadySettled));
            }
            for odd in [failed(2, unreachable(), NOW), succeeded(2, 200), dead(2, unreachable())] {
                let ended = state_after::<Delivery>(std::slice::from_ref(&end));
                assert_eq!(state_after::<Delivery>(&[end.clone(), odd]), ended);
            }
        }
    }

    #[test]
    fn the_state_tells_what_is_due() {
        assert_eq!(state_after::<Delivery>(&failures(3)), Delivery::Pending { attempts: 3, next_at: Some(NOW) });
        assert_eq!(state_after::<Delivery>(&[succeeded(1, 200)]), Delivery::Delivered);
        assert_eq!(state_after::<Delivery>(&[dead(1, unreachable())]), Delivery::DeadLettered);
    }

    proptest! {
        #[test]
        fn no_chance_leaves_the_bounds(earlier in 0_u32..9, chance in 0.0..=1.0_f64) {
            let least = SCHEDULE[earlier as usize];
            let waited = pause(earlier, &unreachable(), chance);
            prop_assert!(least <= waited && waited <= least * 11 / 10);
        }
    }
}
