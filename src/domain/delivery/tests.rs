//! Tests of the rules of deliveries.

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::domain::decider::testing::{NOW, RECORDED_AT, given};

const DELIVERY: DeliveryId = DeliveryId(Uuid::from_u128(1));
const TASK: TaskId = TaskId(Uuid::from_u128(2));
const SUBJECT: DeliverySubject = DeliverySubject::Task(TASK);
const HOUR: u64 = 3600;

fn answered(status: u16) -> AttemptOutcome {
    AttemptOutcome::Answered { status, retry_after: None }
}

fn busy(retry_after_seconds: u64) -> AttemptOutcome {
    AttemptOutcome::Answered { status: 503, retry_after: Some(Duration::from_secs(retry_after_seconds)) }
}

fn unreachable() -> AttemptOutcome {
    AttemptOutcome::Unreachable { reason: Text::parse("no connection").unwrap() }
}

fn attempt(outcome: AttemptOutcome, jitter: f64) -> DeliveryCommand {
    DeliveryCommand::RecordAttempt { delivery: DELIVERY, subject: SUBJECT, outcome, jitter }
}

fn failed(attempt: u32, outcome: AttemptOutcome, next_at: Timestamp) -> DeliveryEvent {
    DeliveryEvent::AttemptFailed { delivery: DELIVERY, subject: SUBJECT, attempt, outcome, next_at }
}

fn succeeded(attempt: u32, status: u16) -> DeliveryEvent {
    DeliveryEvent::DeliverySucceeded { delivery: DELIVERY, subject: SUBJECT, attempt, status }
}

fn dead_lettered(attempt: u32, outcome: AttemptOutcome) -> DeliveryEvent {
    DeliveryEvent::DeliveryDeadLettered { delivery: DELIVERY, subject: SUBJECT, attempt, outcome }
}

fn redelivery() -> Redelivery {
    let owner = Some(UserId(Uuid::from_u128(3)));
    let url = CallbackUrl::parse("https://a.example/hook").unwrap();
    Redelivery { delivery: DELIVERY, task: TASK, owner, url, task_version: 4 }
}

fn failures(count: u32) -> Vec<DeliveryEvent> {
    (1..=count).map(|attempt| failed(attempt, unreachable(), NOW)).collect()
}

/// Returns the delay that follows `outcome` after `failure_count` failed attempts.
fn delay_after(failure_count: u32, outcome: &AttemptOutcome, jitter: f64) -> Duration {
    let events = given::<Delivery>(&failures(failure_count)).when(attempt(outcome.clone(), jitter)).events();
    let [DeliveryEvent::AttemptFailed { attempt, outcome: recorded_outcome, next_at, .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!((*attempt, recorded_outcome), (failure_count + 1, outcome));
    next_at.since(NOW)
}

/// Redeliveries of a delivery that had none.
const NONE: Redeliveries = Redeliveries { last: None, count: 0 };

#[test]
fn a_new_delivery_is_due_at_once() {
    assert_eq!(given::<Delivery>([]).state, Delivery::default());
}

#[test]
fn every_2xx_is_a_success() {
    for status in [200, 204, 299] {
        given::<Delivery>([]).when(attempt(answered(status), 0.5)).then([succeeded(1, status)]);
    }
    given::<Delivery>(&failures(9)).when(attempt(answered(200), 0.5)).then([succeeded(10, 200)]);
}

#[test]
fn every_other_outcome_is_retried() {
    for outcome in [answered(199), answered(301), answered(404), answered(500), unreachable()] {
        let next = vec![failed(1, outcome.clone(), NOW.saturating_add(Duration::from_secs(5)))];
        given::<Delivery>([]).when(attempt(outcome, 0.0)).then(next);
    }
}

#[test]
fn delays_follow_the_contract_with_at_most_a_tenth_of_jitter() {
    let contract = [5, 300, 1800, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];
    for (failure_count, seconds) in (0..).zip(contract) {
        let base = Duration::from_secs(seconds);
        for (jitter, expected) in [(0.0, base), (1.0, base * 11 / 10), (-1.0, base), (2.0, base * 11 / 10)] {
            assert_eq!(delay_after(failure_count, &unreachable(), jitter), expected, "{failure_count} {jitter}");
        }
    }
}

#[test]
fn the_tenth_failure_is_the_last() {
    given::<Delivery>(&failures(9)).when(attempt(answered(500), 0.0)).then([dead_lettered(10, answered(500))]);
    given::<Delivery>(&failures(9)).when(attempt(busy(60), 0.0)).then([dead_lettered(10, busy(60))]);
}

#[test]
fn a_receiver_that_is_gone_is_never_called_again() {
    let outcome = AttemptOutcome::Answered { status: 410, retry_after: Some(Duration::from_secs(1)) };
    given::<Delivery>([]).when(attempt(outcome.clone(), 0.0)).then([dead_lettered(1, outcome)]);
}

#[test]
fn a_receiver_may_ask_for_more_time_but_not_for_less() {
    assert_eq!(delay_after(0, &busy(4), 0.0), Duration::from_secs(5));
    assert_eq!(delay_after(0, &busy(90), 0.0), Duration::from_secs(90));
    assert_eq!(delay_after(0, &busy(90), 1.0), Duration::from_secs(90));
    assert_eq!(delay_after(0, &busy(u64::MAX), 0.0), RETRY_AFTER_MAX);
    assert_eq!(delay_after(8, &busy(u64::MAX), 1.0), Duration::from_secs(24 * HOUR) * 11 / 10);
}

#[test]
fn nothing_happens_after_the_end() {
    for end in [succeeded(1, 200), dead_lettered(1, answered(410))] {
        for outcome in [answered(200), answered(410), unreachable()] {
            given::<Delivery>([end.clone()])
                .when(attempt(outcome, 0.0))
                .then_rejected(DeliveryRejection::AlreadySettled);
        }
        for unexpected in [failed(2, unreachable(), NOW), succeeded(2, 200), dead_lettered(2, unreachable())] {
            let state = given::<Delivery>([end.clone()]).state;
            assert_eq!(given::<Delivery>([end.clone(), unexpected]).state, state);
        }
    }
}

#[test]
fn the_state_has_the_attempts_and_the_next_due_time() {
    assert_eq!(
        given::<Delivery>(&failures(3)).state,
        Delivery::Pending { attempts: 3, schedule_attempts: 3, next_at: Some(NOW), redeliveries: NONE }
    );
    assert_eq!(given::<Delivery>([succeeded(1, 200)]).state, Delivery::Delivered { attempts: 1, redeliveries: NONE });
    assert_eq!(
        given::<Delivery>([dead_lettered(1, unreachable())]).state,
        Delivery::DeadLettered { attempts: 1, gone: false, redeliveries: NONE }
    );
}

proptest! {
    #[test]
    fn no_jitter_exceeds_the_bounds(failure_count in 0_u32..9, jitter in 0.0..=1.0_f64) {
        let base = RETRY_SCHEDULE[failure_count as usize];
        let delay = delay_after(failure_count, &unreachable(), jitter);
        prop_assert!(base <= delay && delay <= base * 11 / 10);
    }
}

#[test]
fn an_ended_delivery_can_be_redelivered_with_the_full_schedule() {
    let mut history = failures(9);
    history.push(dead_lettered(10, unreachable()));

    let requested = vec![DeliveryEvent::RedeliveryRequested(redelivery())];
    given::<Delivery>(&history).when(DeliveryCommand::Redeliver(redelivery())).then(&requested);

    history.extend(requested);
    assert_eq!(
        given::<Delivery>(&history).state,
        Delivery::Pending {
            attempts: 10,
            schedule_attempts: 0,
            next_at: None,
            redeliveries: NONE.with_one_at(RECORDED_AT)
        }
    );

    let next = failed(11, unreachable(), NOW.saturating_add(Duration::from_secs(5)));
    given::<Delivery>(&history).when(attempt(unreachable(), 0.0)).then([next.clone()]);
    history.push(next);
    given::<Delivery>(&history).when(attempt(answered(200), 0.0)).then([succeeded(12, 200)]);
    history.push(succeeded(12, 200));
    given::<Delivery>(&history)
        .when(DeliveryCommand::Redeliver(redelivery()))
        .then([DeliveryEvent::RedeliveryRequested(redelivery())]);
}

#[test]
fn a_delivery_is_redelivered_at_most_ten_times_a_day() {
    // Given a delivery that was redelivered ten times today
    let mut history = vec![succeeded(1, 200)];
    for attempt in 2..=REDELIVERIES_PER_DAY + 1 {
        history.extend([DeliveryEvent::RedeliveryRequested(redelivery()), succeeded(attempt, 200)]);
    }
    let state = given::<Delivery>(&history).state;
    let redeliver = |now| Delivery::decide(&state, DeliveryCommand::Redeliver(redelivery()), now);

    // Then a redelivery is rejected until the next day begins
    let Err(DeliveryRejection::TooManyRedeliveries { wait }) = redeliver(NOW) else { panic!("{state:?}") };
    let tomorrow = NOW.saturating_add(wait);
    assert_eq!(tomorrow, Timestamp::midnight(tomorrow.utc_date()));
    assert_eq!(redeliver(tomorrow), Ok(vec![DeliveryEvent::RedeliveryRequested(redelivery())]));
}

#[test]
fn a_pending_delivery_cannot_be_redelivered() {
    for history in [
        Vec::new(),
        failures(2),
        vec![dead_lettered(1, answered(410)), DeliveryEvent::RedeliveryRequested(redelivery())],
    ] {
        given::<Delivery>(&history)
            .when(DeliveryCommand::Redeliver(redelivery()))
            .then_rejected(DeliveryRejection::StillPending);
    }
}

#[test]
fn a_delivery_ended_by_410_is_marked_as_gone() {
    let state = given::<Delivery>([dead_lettered(1, answered(410))]).state;
    assert_eq!(state, Delivery::DeadLettered { attempts: 1, gone: true, redeliveries: NONE });
}

#[test]
fn a_delivery_to_a_webhook_of_a_publisher_has_the_same_rules() {
    let webhook = WebhookId(Uuid::from_u128(4));
    let subject = DeliverySubject::Webhook(webhook);
    let redeliver = || DeliveryCommand::RedeliverEvent { delivery: DELIVERY, webhook };
    given::<Delivery>([]).when(redeliver()).then_rejected(DeliveryRejection::StillPending);

    let attempt = DeliveryCommand::RecordAttempt { delivery: DELIVERY, subject, outcome: answered(410), jitter: 0.0 };
    let stopped =
        DeliveryEvent::DeliveryDeadLettered { delivery: DELIVERY, subject, attempt: 1, outcome: answered(410) };
    given::<Delivery>([]).when(attempt).then([stopped.clone()]);

    let requested = DeliveryEvent::EventRedeliveryRequested { delivery: DELIVERY, webhook };
    assert_eq!((requested.delivery(), requested.subject()), (DELIVERY, subject));
    let given = given::<Delivery>([stopped, requested.clone()]);
    let redeliveries = NONE.with_one_at(RECORDED_AT);
    assert_eq!(given.state, Delivery::Pending { attempts: 1, schedule_attempts: 0, next_at: None, redeliveries });
    given.when(redeliver()).then_rejected(DeliveryRejection::StillPending);
}
