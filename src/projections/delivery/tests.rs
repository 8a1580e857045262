//! Tests of the delivery queues.

use std::time::Duration;

use super::*;
use crate::domain::delivery::AttemptOutcome;
use crate::domain::ids::EventId;
use crate::domain::image::{ImageJob, ImageWork, PictureSource, UpscaleJob};
use crate::domain::task::{Submission, TaskWork};
use crate::domain::value::Text;
use crate::events::envelope::{Append, CommandContext, NewEvent};
use crate::events::stream::{Position, StreamId, Version};

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(0).saturating_add(Duration::from_secs(seconds))
}

fn task(nth: u128) -> TaskId {
    TaskId(Uuid::from_u128(nth))
}

fn owner() -> UserId {
    UserId(Uuid::from_u128(1))
}

fn url(host: &str) -> CallbackUrl {
    CallbackUrl::parse(&format!("http://{host}/hook")).unwrap()
}

/// Applies a change of a task; its delivery has the id of the event.
fn apply_event(deliveries: &mut Deliveries, task_id: TaskId, version: u64, event: &TaskEvent) -> DeliveryId {
    let id = Uuid::from_u128(task_id.0.as_u128() * 1000 + u128::from(version));
    let append = Append {
        stream: StreamId::from(&task_id),
        expected: Version(version - 1),
        context: CommandContext::from_system(None, at(version)),
        events: vec![NewEvent { id: EventId(id), event: event.clone().into() }],
    };
    deliveries.apply_task(task_id, event, &append.into_commit(Position(version))[0]);
    DeliveryId(id)
}

/// Applies the events of a task that has ended with two changes to deliver.
fn completed_task(deliveries: &mut Deliveries, task_id: TaskId, host: &str) -> [DeliveryId; 2] {
    let job = ImageJob::Upscale(UpscaleJob::default());
    let image = PictureSource::Remote(url("pictures.example"));
    let work = TaskWork::Image(ImageWork { job, image, reference: None, seed: None, credits: 0 });
    let submission = Submission { task: task_id, owner: Some(owner()), work, webhook: Some(url(host)), payers: None };
    apply_event(deliveries, task_id, 1, &TaskEvent::TaskSubmitted(submission));
    let first =
        apply_event(deliveries, task_id, 2, &TaskEvent::VendorAccepted { reference: Text::parse("r").unwrap() });
    [first, apply_event(deliveries, task_id, 3, &TaskEvent::TaskCompleted { results: Vec::new() })]
}

fn fail(deliveries: &mut Deliveries, delivery: DeliveryId, task: TaskId, retry_at: u64) {
    let outcome = AttemptOutcome::Unreachable { reason: Text::parse("down").unwrap() };
    deliveries
        .apply(&DeliveryEvent::AttemptFailed { delivery, task, attempt: 1, outcome, next_at: at(retry_at) }, at(0));
}

fn succeed(deliveries: &mut Deliveries, delivery: DeliveryId, task: TaskId) {
    deliveries.apply(&DeliveryEvent::DeliverySucceeded { delivery, task, attempt: 1, status: 200 }, at(0));
}

fn request_redelivery(deliveries: &mut Deliveries, delivery: DeliveryId, task: TaskId, change: u64) {
    let redelivery = Redelivery { delivery, task, owner: Some(owner()), url: url("a.example"), task_version: change };
    deliveries.apply(&DeliveryEvent::RedeliveryRequested(redelivery), at(100));
}

fn due(deliveries: &Deliveries, now: u64) -> Vec<DeliveryId> {
    deliveries.due(at(now), &RoundRobinOrder::default(), 16, |_, _, _| true).iter().map(|due| due.id).collect()
}

#[test]
fn changes_of_a_task_are_delivered_in_order_and_then_forgotten() {
    let mut deliveries = Deliveries::default();
    let [first, last] = completed_task(&mut deliveries, task(1), "a.example");
    assert_eq!(
        (due(&deliveries, 9), deliveries.pending_count(), deliveries.pending_count_of(Some(owner()))),
        (vec![first], 2, 2)
    );
    assert_eq!(deliveries.task_of(last), Some(task(1)));

    fail(&mut deliveries, first, task(1), 60);
    assert_eq!((due(&deliveries, 59), due(&deliveries, 60)), (vec![], vec![first]));
    assert_eq!(deliveries.content_count, 0, "no content is kept for a receiver that is down");

    succeed(&mut deliveries, first, task(1));
    assert_eq!(due(&deliveries, 3), [last]);

    succeed(&mut deliveries, last, task(1));
    succeed(&mut deliveries, last, task(1));
    assert_eq!(deliveries, Deliveries::default());
}

#[test]
fn a_redelivery_precedes_deliveries_of_later_changes() {
    let mut deliveries = Deliveries::default();
    let [first, last] = completed_task(&mut deliveries, task(1), "a.example");
    succeed(&mut deliveries, first, task(1));
    assert_eq!(due(&deliveries, 9), [last]);

    request_redelivery(&mut deliveries, first, task(1), 2);
    request_redelivery(&mut deliveries, first, task(1), 2);
    assert_eq!((due(&deliveries, 99), due(&deliveries, 100)), (vec![], vec![first]));

    // The later delivery may have been in progress.
    succeed(&mut deliveries, last, task(1));
    assert_eq!(due(&deliveries, 100), [first]);
    succeed(&mut deliveries, first, task(1));
    assert_eq!(deliveries, Deliveries::default());

    request_redelivery(&mut deliveries, last, task(1), 3);
    request_redelivery(&mut deliveries, first, task(1), 2);
    assert_eq!(due(&deliveries, 100), [first]);
}

#[test]
fn a_receiver_without_free_slots_does_not_delay_others() {
    let mut deliveries = Deliveries::default();
    for nth in 0..100 {
        completed_task(&mut deliveries, task(nth), "dead.example");
    }
    let [expected, _] = completed_task(&mut deliveries, task(1000), "alive.example");
    let mut offers = 0;
    let selected = deliveries.due(at(9), &RoundRobinOrder::default(), 16, |_, _, receiver| {
        offers += 1;
        receiver == "alive.example:80"
    });
    assert_eq!(selected.iter().map(|due| due.id).collect::<Vec<_>>(), [expected]);
    assert_eq!(offers, 17);
    assert!(selected[0].content.is_some());
}

#[test]
fn accounts_take_turns_at_a_receiver() {
    // Given a backlog of one account, and then one delivery of an anonymous caller
    let mut deliveries = Deliveries::default();
    for nth in 0..5 {
        completed_task(&mut deliveries, task(nth), "a.example");
    }
    let mut rebalanced = deliveries.clone();
    rebalanced.queues.values_mut().for_each(|queue| queue.owner = None);
    let (receiver, heads) = rebalanced.heads_by_receiver.pop_first().unwrap();
    let heads = heads.into_values().next().unwrap();
    let backlog = heads.iter().take(4).copied().collect();
    let single = heads.iter().skip(4).copied().collect();
    rebalanced.heads_by_receiver.insert(receiver.clone(), BTreeMap::from([(Some(owner()), backlog), (None, single)]));

    // When the account with the backlog was served last, then the other one comes first
    let mut turns = RoundRobinOrder::default();
    turns.record_served((receiver, Some(owner())));
    let order: Vec<_> = rebalanced.due(at(9), &turns, 16, |_, _, _| true).iter().map(|due| due.task).collect();
    assert_eq!(order, [4, 0, 1, 2, 3].map(task));
}

#[test]
fn contents_are_kept_for_a_bounded_number_of_deliveries() {
    let mut deliveries = Deliveries::default();
    for nth in 0..u128::try_from(CONTENTS_MAX).unwrap() {
        completed_task(&mut deliveries, task(nth), "a.example");
    }
    assert_eq!((deliveries.content_count, deliveries.pending_count()), (CONTENTS_MAX, 2 * CONTENTS_MAX));
    let without_content = deliveries
        .due(at(9), &RoundRobinOrder::default(), 16, |_, _, _| true)
        .iter()
        .filter(|due| due.content.is_none())
        .count();
    assert_eq!(without_content, CONTENTS_MAX / 2);
}
