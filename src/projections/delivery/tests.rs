//! Tests of the delivery queues.

use std::time::Duration;

use super::*;
use crate::domain::delivery::AttemptOutcome;
use crate::domain::event::Event;
use crate::domain::ids::{EventId, NodeId, PublisherId};
use crate::domain::image::{ImageJob, ImageWork, PictureSource, UpscaleJob};
use crate::domain::node::NodeEvent;
use crate::domain::publisher::PublisherEvent;
use crate::domain::task::{Submission, TaskWork};
use crate::domain::value::Text;
use crate::domain::webhook::{EventSelection, RegistryEventKind, Webhook, WebhookChange, WebhookDraft};
use crate::events::envelope::{Append, CommandContext, NewEvent};
use crate::events::stream::{Position, StreamId, Version};

const REJECTIONS_MAX: usize = 16;

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
        guards: Vec::new(),
    };
    deliveries.apply_task(task_id, event, &append.into_commit(Position(version))[0]);
    DeliveryId(id)
}

/// Applies the events of a task that has ended with two changes to deliver.
fn completed_task(deliveries: &mut Deliveries, task_id: TaskId, host: &str) -> [DeliveryId; 2] {
    completed_task_of(Some(owner()), deliveries, task_id, host)
}

fn completed_task_of(
    owner: Option<UserId>,
    deliveries: &mut Deliveries,
    task_id: TaskId,
    host: &str,
) -> [DeliveryId; 2] {
    let job = ImageJob::Upscale(UpscaleJob::default());
    let image = PictureSource::Remote(url("pictures.example"));
    let work = TaskWork::Image(ImageWork { job, image, reference: None, seed: None, credits: 0 });
    let submission = Submission { task: task_id, owner, work, webhook: Some(url(host)), payers: None };

    apply_event(deliveries, task_id, 1, &TaskEvent::TaskSubmitted(submission));
    let first =
        apply_event(deliveries, task_id, 2, &TaskEvent::VendorAccepted { reference: Text::parse("r").unwrap() });
    [first, apply_event(deliveries, task_id, 3, &TaskEvent::TaskCompleted { results: Vec::new() })]
}

fn fail(deliveries: &mut Deliveries, delivery: DeliveryId, task: TaskId, retry_at: u64) {
    let outcome = AttemptOutcome::Unreachable { reason: Text::parse("down").unwrap() };
    let subject = DeliverySubject::Task(task);
    deliveries
        .apply(&DeliveryEvent::AttemptFailed { delivery, subject, attempt: 1, outcome, next_at: at(retry_at) }, at(0));
}

fn succeed(deliveries: &mut Deliveries, delivery: DeliveryId, task: TaskId) {
    let subject = DeliverySubject::Task(task);
    deliveries.apply(&DeliveryEvent::DeliverySucceeded { delivery, subject, attempt: 1, status: 200 }, at(0));
}

fn request_redelivery(deliveries: &mut Deliveries, delivery: DeliveryId, task: TaskId, change: u64) {
    let redelivery = Redelivery { delivery, task, owner: Some(owner()), url: url("a.example"), task_version: change };
    deliveries.apply(&DeliveryEvent::RedeliveryRequested(redelivery), at(100));
}

/// Returns the due deliveries that `try_take` accepts, of all queues.
fn due_where(
    deliveries: &Deliveries,
    now: u64,
    try_take: impl FnMut(&DeliveryQueueId, Option<UserId>, &str) -> bool,
) -> Vec<DueDelivery> {
    deliveries.due(at(now), &RoundRobinOrder::default(), REJECTIONS_MAX, |_| true, try_take)
}

fn due(deliveries: &Deliveries, now: u64) -> Vec<DeliveryId> {
    due_where(deliveries, now, |_, _, _| true).iter().map(|due| due.id).collect()
}

#[test]
fn changes_of_a_task_are_delivered_in_order_and_then_forgotten() {
    let mut deliveries = Deliveries::default();
    let [first, last] = completed_task(&mut deliveries, task(1), "a.example");
    assert_eq!(
        (due(&deliveries, 9), deliveries.pending_count(), deliveries.pending_count_of(Some(owner()))),
        (vec![first], 2, 2)
    );
    assert_eq!(deliveries.subject_of(last), Some(DeliverySubject::Task(task(1))));

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

    let mut attempts = 0;
    let selected = due_where(&deliveries, 9, |_, _, receiver| {
        attempts += 1;
        receiver == "alive.example:80"
    });

    assert_eq!(selected.iter().map(|due| due.id).collect::<Vec<_>>(), [expected]);
    assert_eq!(attempts, REJECTIONS_MAX + 1, "the rejections of one receiver, and the delivery to the other");
    assert!(matches!(selected[0].content, DueContent::Task(_, Some(_))));
}

#[test]
fn accounts_take_turns_at_a_receiver() {
    // Given a backlog of one account, and then one delivery of an anonymous caller
    let mut deliveries = Deliveries::default();
    for nth in 0..4 {
        completed_task(&mut deliveries, task(nth), "a.example");
    }
    completed_task_of(None, &mut deliveries, task(4), "a.example");

    // When the account with the backlog was served last, then the other one comes first
    let mut turns = RoundRobinOrder::default();
    turns.record_served(("a.example:80".into(), Some(owner())));
    let due = deliveries.due(at(9), &turns, REJECTIONS_MAX, |_| true, |_, _, _| true);
    let order: Vec<_> = due.iter().map(|due| due.queue.clone()).collect();
    assert_eq!(order, [4, 0, 1, 2, 3].map(|nth| DeliveryQueueId::Task(task(nth))));
}

#[test]
fn contents_are_kept_for_a_bounded_number_of_deliveries() {
    let mut deliveries = Deliveries::default();
    for nth in 0..u128::try_from(CONTENTS_MAX).unwrap() {
        completed_task(&mut deliveries, task(nth), "a.example");
    }
    assert_eq!((deliveries.content_count, deliveries.pending_count()), (CONTENTS_MAX, 2 * CONTENTS_MAX));

    let due = due_where(&deliveries, 9, |_, _, _| true);
    let without_content = due.iter().filter(|due| matches!(due.content, DueContent::Task(_, None))).count();
    assert_eq!(without_content, CONTENTS_MAX / 2);
}

fn acme() -> PublisherId {
    PublisherId::parse("acme").unwrap()
}

/// Creates a webhook of `acme`.
fn webhook(deliveries: &mut Deliveries, nth: u128, host: &str) -> Webhook {
    let id = WebhookId(Uuid::from_u128(nth << 64));
    let draft = WebhookDraft { id, url: url(host), events: EventSelection::all(), is_enabled: true, account: owner() };
    apply_publisher(deliveries, 1, &PublisherEvent::WebhookCreated(draft.clone()));
    Webhook::new(&draft, at(1))
}

fn apply_publisher(deliveries: &mut Deliveries, position: u64, event: &PublisherEvent) -> EventId {
    let recorded = recorded(position, StreamId::from(&acme()), event.clone().into());
    deliveries.apply_publisher(&acme(), event, &recorded);
    recorded.id
}

fn recorded(position: u64, stream: StreamId, event: Event) -> RecordedEvent {
    let id = EventId(Uuid::from_u128(u128::from(position)));
    let context = CommandContext::from_system(None, at(position));
    let append =
        Append { stream, expected: Version(0), context, events: vec![NewEvent { id, event }], guards: Vec::new() };
    append.into_commit(Position(position))[0].clone()
}

/// Applies the deletion of a node of `acme`.
fn delete_node(deliveries: &mut Deliveries, webhooks: &[Webhook], node: &str, position: u64) -> EventId {
    let node = NodeId::parse(node).unwrap();
    let recorded = recorded(position, StreamId::from(&node.key()), NodeEvent::NodeDeleted.into());
    let change = RegistryChange { kind: RegistryEventKind::NodeDeleted, node, version: None, reason: None };
    deliveries.apply_registry(webhooks, &change, &recorded);
    recorded.id
}

fn succeed_event(deliveries: &mut Deliveries, delivery: DeliveryId, webhook: WebhookId) {
    let subject = DeliverySubject::Webhook(webhook);
    deliveries.apply(&DeliveryEvent::DeliverySucceeded { delivery, subject, attempt: 1, status: 200 }, at(0));
}

#[test]
fn an_event_is_delivered_to_each_webhook_in_order_for_its_node() {
    // Given two webhooks, of which one does not report the event
    let mut deliveries = Deliveries::default();
    let first = webhook(&mut deliveries, 1, "a.example");
    let mut second = webhook(&mut deliveries, 2, "b.example");
    second.events = EventSelection::new(&[RegistryEventKind::NodeBanned]).unwrap();
    let webhooks = [first.clone(), second];

    // When two events of one node and one of another are recorded
    let events = [("x", 2), ("x", 3), ("y", 4)].map(|(node, at)| delete_node(&mut deliveries, &webhooks, node, at));
    let [x1, x2, y] = events.map(|event| DeliveryId::from_event(event, first.id));

    // Then the first of each node is due at the webhook that reports it
    assert_eq!(due(&deliveries, 9), [x1, y]);
    assert_eq!(deliveries.blocker_of(x2), Some(x1));
    succeed_event(&mut deliveries, x1, first.id);
    assert_eq!(due(&deliveries, 9), [x2, y]);

    // And a delivery that has ended can be repeated
    deliveries.apply(&DeliveryEvent::EventRedeliveryRequested { delivery: x1, webhook: first.id }, at(9));
    assert_eq!(due(&deliveries, 9), [y, x1]);
}

#[test]
fn a_disabled_webhook_keeps_its_deliveries_and_a_removed_one_loses_them() {
    let mut deliveries = Deliveries::default();
    let webhook = webhook(&mut deliveries, 1, "a.example");
    delete_node(&mut deliveries, std::slice::from_ref(&webhook), "x", 2);
    let revise = |deliveries: &mut Deliveries, change| {
        apply_publisher(deliveries, 3, &PublisherEvent::WebhookRevised { webhook: webhook.id, change });
    };

    revise(&mut deliveries, WebhookChange { is_enabled: Some(false), ..WebhookChange::default() });
    assert_eq!((due(&deliveries, 9).len(), deliveries.pending_count()), (0, 1));

    let moved = WebhookChange { is_enabled: Some(true), url: Some(url("b.example")), ..WebhookChange::default() };
    revise(&mut deliveries, moved);
    let selected = due_where(&deliveries, 9, |_, _, receiver| receiver == "b.example:80");
    assert!(matches!(&selected[..], [DueDelivery { content: DueContent::Registry { .. }, .. }]), "{selected:?}");

    apply_publisher(&mut deliveries, 4, &PublisherEvent::WebhookRemoved { webhook: webhook.id });
    assert_eq!(deliveries, Deliveries::default());
}

#[test]
fn a_corrected_url_is_tried_at_once_and_a_test_does_not_wait() {
    // Given a webhook whose deliveries wait for the next attempt
    let mut deliveries = Deliveries::default();
    let webhook = webhook(&mut deliveries, 1, "a.example");
    let event = delete_node(&mut deliveries, std::slice::from_ref(&webhook), "x", 2);
    let delivery = DeliveryId::from_event(event, webhook.id);
    apply_publisher(&mut deliveries, 3, &PublisherEvent::WebhookTested { webhook: webhook.id });
    let [test] = due(&deliveries, 9)[1..] else { panic!("a test") };

    for delivery in [delivery, test] {
        let subject = DeliverySubject::Webhook(webhook.id);
        let outcome = AttemptOutcome::Answered { status: 500, retry_after: None };
        deliveries
            .apply(&DeliveryEvent::AttemptFailed { delivery, subject, attempt: 1, outcome, next_at: at(900) }, at(4));
    }
    assert_eq!(due(&deliveries, 9), []);

    // When it is tested again, then the test is due
    apply_publisher(&mut deliveries, 5, &PublisherEvent::WebhookTested { webhook: webhook.id });
    assert_eq!(due(&deliveries, 9).len(), 1);

    // When its URL is corrected, then everything is due, and belongs to the account that corrected it
    let account = Some(UserId(Uuid::from_u128(77)));
    let change = WebhookChange { url: Some(url("b.example")), account, ..WebhookChange::default() };
    apply_publisher(&mut deliveries, 6, &PublisherEvent::WebhookRevised { webhook: webhook.id, change });
    assert_eq!(due(&deliveries, 9).len(), 3);
    assert_eq!(due_where(&deliveries, 9, |_, owner, _| owner == account).len(), 3);
}

#[test]
fn a_pending_delivery_does_not_keep_those_that_have_ended() {
    // Given a webhook whose first delivery never ends
    let mut deliveries = Deliveries::default();
    let webhook = webhook(&mut deliveries, 1, "a.example");
    let first = delete_node(&mut deliveries, std::slice::from_ref(&webhook), "x", 2);
    let first = DeliveryId::from_event(first, webhook.id);

    // When many others end
    let total = u64::try_from(registry::HISTORY_MAX).unwrap() + 3;
    for position in 0..total {
        let event = delete_node(&mut deliveries, std::slice::from_ref(&webhook), "y", 10 + position);
        succeed_event(&mut deliveries, DeliveryId::from_event(event, webhook.id), webhook.id);
    }

    // Then it is kept with the last of them
    let kept: Vec<DeliveryId> = deliveries.for_webhook(webhook.id).map(|notification| notification.id).collect();
    assert_eq!((kept.len(), kept[0]), (registry::HISTORY_MAX + 1, first));
    assert_eq!((deliveries.pending_events_of(webhook.id), deliveries.pending_count()), (1, 1));
}

#[test]
fn the_history_of_a_webhook_is_bounded_and_keeps_what_is_pending() {
    let mut deliveries = Deliveries::default();
    let webhook = webhook(&mut deliveries, 1, "a.example");
    let total = u64::try_from(registry::HISTORY_MAX).unwrap() + 3;
    for position in 0..total {
        delete_node(&mut deliveries, std::slice::from_ref(&webhook), "x", 10 + position);
    }
    assert_eq!(deliveries.for_webhook(webhook.id).count() as u64, total);

    let all: Vec<DeliveryId> = deliveries.for_webhook(webhook.id).map(|notification| notification.id).collect();
    for delivery in all {
        succeed_event(&mut deliveries, delivery, webhook.id);
    }
    assert_eq!(deliveries.for_webhook(webhook.id).count(), registry::HISTORY_MAX);
}

#[test]
fn queues_of_other_nodes_do_not_count_as_rejections() {
    // Given many tasks with deliveries for one receiver, of which this node has the last one
    let mut deliveries = Deliveries::default();
    for task in 1..=50 {
        completed_task(&mut deliveries, TaskId(Uuid::from_u128(task)), "a.example");
    }
    let last = due_where(&deliveries, 9, |_, _, _| true).last().expect("a delivery").queue.clone();

    // When it looks for work with few rejections
    let own = deliveries.due(at(9), &RoundRobinOrder::default(), 2, |queue| *queue == last, |_, _, _| true);

    // Then it finds its own
    assert_eq!(own.iter().map(|due| &due.queue).collect::<Vec<_>>(), [&last]);
}
