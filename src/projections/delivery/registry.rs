//! Deliveries to webhooks of publishers: events of nodes and versions, and their content.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::{Deliveries, DeliveryQueue, DeliveryQueueId, PendingDelivery};
use crate::domain::ids::{DeliveryId, EventId, NodeId, PublisherId, VersionId, WebhookId};
use crate::domain::node::{NodeEvent, NodeProfile, NodeStatus};
use crate::domain::publisher::PublisherEvent;
use crate::domain::value::{CallbackUrl, Reason, Text, Timestamp};
use crate::domain::version::{NodeVersion, SemVer, VersionDraft, VersionStatus};
use crate::domain::webhook::{RegistryEventKind, Webhook};
use crate::events::envelope::RecordedEvent;

/// Number of ended deliveries of a webhook that can be listed and redelivered, besides the pending ones.
pub const HISTORY_MAX: usize = 500;

/// Name of the event that `POST …/test` sends.
pub const TEST_EVENT: &str = "webhook.test";

/// A webhook with its pending deliveries and the last ones that ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct WebhookFeed {
    publisher: PublisherId,
    pub(super) webhook: Webhook,
    /// Deliveries by the position of their event.
    notifications: BTreeMap<u64, RegistryNotification>,
    /// Positions of the deliveries that have ended, in the order of their ends.
    ended: VecDeque<u64>,
}

/// A delivery to a webhook of a publisher.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegistryNotification {
    pub id: DeliveryId,
    /// The event that is reported.
    pub event: EventId,
    pub position: u64,
    pub at: Timestamp,
    pub publisher: PublisherId,
    /// The change; `None` for a test event.
    pub change: Option<RegistryChange>,
}

/// A change of a node or version that webhooks report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegistryChange {
    pub kind: RegistryEventKind,
    pub node: NodeId,
    /// The version, unless the whole node changed.
    pub version: Option<ChangedVersion>,
    /// Reason of the new status, if any.
    pub reason: Option<Reason>,
}

/// A version after its change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangedVersion {
    pub id: VersionId,
    pub number: SemVer,
    pub status: VersionStatus,
}

impl RegistryNotification {
    /// Returns the name of the event.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.change.as_ref().map_or(TEST_EVENT, |change| change.kind.as_str())
    }

    /// Returns the queue of the delivery. A test has a queue of its own, so that it does not wait for other deliveries.
    fn queue(&self, webhook: WebhookId) -> DeliveryQueueId {
        match &self.change {
            Some(change) => DeliveryQueueId::Node(webhook, change.node.key().as_str().into()),
            None => DeliveryQueueId::Test(webhook, self.id),
        }
    }
}

impl RegistryChange {
    /// Returns `true` if webhooks may report the event.
    #[must_use]
    pub fn is_reported(event: &NodeEvent) -> bool {
        matches!(
            event,
            NodeEvent::VersionPublished { .. }
                | NodeEvent::VersionReleased { .. }
                | NodeEvent::VersionStatusChanged { .. }
                | NodeEvent::NodeBanned { .. }
                | NodeEvent::NodeUnbanned { .. }
                | NodeEvent::NodeDeleted
        )
    }

    /// Returns the change by an event of a node; `node` is its state before the event.
    #[must_use]
    pub fn from_event(node: &NodeProfile, event: &NodeEvent) -> Option<Self> {
        let node_change = |kind, reason: Option<&Reason>| {
            Some(Self { kind, node: node.id.clone(), version: None, reason: reason.and_then(non_empty) })
        };
        match event {
            NodeEvent::VersionPublished { version } => Some(Self::from_draft(node, version, VersionStatus::Pending)),
            NodeEvent::VersionReleased { version } => Some(Self::from_draft(node, version, VersionStatus::Active)),
            NodeEvent::VersionStatusChanged { id, status, reason } => {
                let version = node.versions.iter().find(|version| version.id == *id)?;
                Self::from_status_change(node, version, *status, reason.as_ref())
            }
            NodeEvent::NodeBanned { reason } => node_change(RegistryEventKind::NodeBanned, Some(reason)),
            NodeEvent::NodeUnbanned { reason } => node_change(RegistryEventKind::NodeApproved, Some(reason)),
            NodeEvent::NodeDeleted => node_change(RegistryEventKind::NodeDeleted, None),
            _ => None,
        }
    }

    fn from_draft(node: &NodeProfile, draft: &VersionDraft, status: VersionStatus) -> Self {
        let version = Some(ChangedVersion { id: draft.id, number: draft.number.clone(), status });
        Self { kind: RegistryEventKind::VersionPublished, node: node.id.clone(), version, reason: None }
    }

    /// Returns the change of a version to another status; `None` if the status stays or webhooks do not report it.
    fn from_status_change(
        node: &NodeProfile,
        version: &NodeVersion,
        status: VersionStatus,
        reason: Option<&Reason>,
    ) -> Option<Self> {
        let kind = match status {
            VersionStatus::Active => RegistryEventKind::VersionApproved,
            VersionStatus::Flagged => RegistryEventKind::VersionFlagged,
            VersionStatus::Banned => RegistryEventKind::VersionBanned,
            VersionStatus::Deleted => RegistryEventKind::VersionDeleted,
            VersionStatus::Pending => return None,
        };
        version.status.can_transition_to(status).then(|| Self {
            kind,
            node: node.id.clone(),
            version: Some(ChangedVersion { id: version.id, number: version.number.clone(), status }),
            reason: reason.and_then(non_empty),
        })
    }

    /// Returns the status after the change.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match (&self.version, self.kind) {
            (Some(version), _) => version.status.as_str(),
            (None, RegistryEventKind::NodeBanned) => NodeStatus::Banned.as_str(),
            (None, RegistryEventKind::NodeDeleted) => NodeStatus::Deleted.as_str(),
            (None, _) => NodeStatus::Active.as_str(),
        }
    }
}

fn non_empty(reason: &Reason) -> Option<Reason> {
    (!reason.as_str().is_empty()).then(|| reason.clone())
}

/// Body of a delivery.
#[derive(Debug, Serialize)]
pub struct RegistryEventView<'n> {
    #[serde(rename = "type")]
    kind: &'static str,
    delivery_id: String,
    /// Position of the event in the log; orders the events of the service.
    position: u64,
    timestamp: String,
    data: RegistryEventData<'n>,
}

#[derive(Debug, Serialize)]
struct RegistryEventData<'n> {
    publisher_id: &'n str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<&'n str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'n str>,
}

impl<'n> RegistryEventView<'n> {
    /// Renders the body, which names no user.
    #[must_use]
    pub fn new(notification: &'n RegistryNotification) -> Self {
        let change = notification.change.as_ref();
        let version = change.and_then(|change| change.version.as_ref());
        Self {
            kind: notification.kind(),
            delivery_id: notification.id.to_string(),
            position: notification.position,
            timestamp: notification.at.to_string(),
            data: RegistryEventData {
                publisher_id: notification.publisher.as_str(),
                node_id: change.map(|change| change.node.as_str()),
                version: version.map(|version| version.number.to_string()),
                version_id: version.map(|version| version.id.to_string()),
                status: change.map(RegistryChange::status),
                reason: change.and_then(|change| change.reason.as_ref()).map(Text::as_str),
            },
        }
    }
}

impl WebhookFeed {
    /// Returns the number of pending deliveries.
    fn pending(&self) -> usize {
        self.notifications.len() - self.ended.len()
    }

    /// Records that a delivery has ended. If there are too many, forgets the delivery that ended first.
    pub(super) fn add_ended(&mut self, position: u64) {
        self.ended.push_back(position);
        if self.ended.len() > HISTORY_MAX
            && let Some(oldest) = self.ended.pop_front()
        {
            self.notifications.remove(&oldest);
        }
    }

    /// Returns the position of a delivery that has ended.
    fn ended_position(&self, delivery: DeliveryId) -> Option<u64> {
        let is_of_delivery =
            |position: &u64| self.notifications.get(position).is_some_and(|notification| notification.id == delivery);
        self.ended.iter().copied().find(is_of_delivery)
    }
}

impl Deliveries {
    /// Applies an event of the publisher with this id.
    pub fn apply_publisher(&mut self, publisher: &PublisherId, event: &PublisherEvent, recorded: &RecordedEvent) {
        match event {
            PublisherEvent::WebhookCreated(draft) => {
                let webhook = Webhook::new(draft, recorded.at);
                let publisher = publisher.clone();
                let feed = WebhookFeed { publisher, webhook, notifications: BTreeMap::new(), ended: VecDeque::new() };
                self.webhooks.insert(draft.id, feed);
            }
            PublisherEvent::WebhookRevised { webhook, change } => {
                if let Some(feed) = self.webhooks.get_mut(webhook) {
                    feed.webhook.apply(change);
                    let may_be_repaired = change.url.is_some() || change.is_enabled == Some(true);
                    self.redirect_queues(*webhook, may_be_repaired.then_some(recorded.at));
                }
            }
            PublisherEvent::WebhookRemoved { webhook } => self.remove_webhook(*webhook),
            PublisherEvent::WebhookTested { webhook } => self.enqueue_event(*webhook, None, recorded),
            PublisherEvent::PublisherDeleted => {
                let feeds = self.webhooks.iter().filter(|(_, feed)| feed.publisher == *publisher);
                for id in feeds.map(|(id, _)| *id).collect::<Vec<_>>() {
                    self.remove_webhook(id);
                }
            }
            _ => {}
        }
    }

    /// Applies a change of a node: enqueues a delivery to each of `webhooks` that reports the change.
    pub fn apply_registry(&mut self, webhooks: &[Webhook], change: &RegistryChange, recorded: &RecordedEvent) {
        for webhook in webhooks.iter().filter(|webhook| webhook.reports(change.kind)) {
            self.enqueue_event(webhook.id, Some(change.clone()), recorded);
        }
    }

    fn enqueue_event(&mut self, webhook: WebhookId, change: Option<RegistryChange>, recorded: &RecordedEvent) {
        let Some(feed) = self.webhooks.get_mut(&webhook) else { return };
        let notification = RegistryNotification {
            id: DeliveryId::from_event(recorded.id, webhook),
            event: recorded.id,
            position: recorded.position.0,
            at: recorded.at,
            publisher: feed.publisher.clone(),
            change,
        };
        feed.notifications.insert(notification.position, notification.clone());
        self.enqueue_notification(webhook, &notification, recorded.at);
    }

    /// Enqueues a delivery that has ended again, unless it was forgotten.
    pub(super) fn requeue_event(&mut self, delivery: DeliveryId, webhook: WebhookId, at: Timestamp) {
        let Some(feed) = self.webhooks.get_mut(&webhook) else { return };
        let Some(position) = feed.ended_position(delivery) else { return };
        feed.ended.retain(|ended| *ended != position);
        if let Some(notification) = feed.notifications.get(&position).cloned() {
            self.enqueue_notification(webhook, &notification, at);
        }
    }

    fn enqueue_notification(&mut self, webhook: WebhookId, notification: &RegistryNotification, due: Timestamp) {
        let Some(feed) = self.webhooks.get(&webhook) else { return };
        let new_queue = DeliveryQueue {
            is_paused: !feed.webhook.is_enabled,
            ..DeliveryQueue::new(Some(feed.webhook.account), &feed.webhook.url)
        };
        let queue = notification.queue(webhook);
        self.queues.entry(queue.clone()).or_insert(new_queue);
        let pending = PendingDelivery { queue, change: notification.position, due, content: None };
        self.enqueue(notification.id, pending);
    }

    /// Moves the pending deliveries of a webhook to its current URL and account, and pauses or continues them. With
    /// `due`, the first delivery of each queue is due at that time at the latest, because the receiver may be repaired.
    fn redirect_queues(&mut self, webhook: WebhookId, due: Option<Timestamp>) {
        let Some(feed) = self.webhooks.get(&webhook) else { return };
        let receiver: Box<str> = feed.webhook.url.receiver().into();
        let owner = Some(feed.webhook.account);
        let is_paused = !feed.webhook.is_enabled;

        for queue_id in self.queues_of(webhook) {
            self.remove_head(&queue_id);
            if let Some(queue) = self.queues.get_mut(&queue_id) {
                queue.receiver.clone_from(&receiver);
                queue.owner = owner;
                queue.is_paused = is_paused;
                let first = queue.pending.first().and_then(|first| self.by_id.get_mut(first));
                if let Some((first, due)) = first.zip(due) {
                    first.due = first.due.min(due);
                }
            }
            self.insert_head(&queue_id);
        }
    }

    fn remove_webhook(&mut self, webhook: WebhookId) {
        for queue_id in self.queues_of(webhook) {
            self.remove_head(&queue_id);
            for delivery in self.queues.remove(&queue_id).into_iter().flat_map(|queue| queue.pending) {
                self.by_id.remove(&delivery);
            }
        }
        self.webhooks.remove(&webhook);
    }

    /// Returns the queues of a webhook's pending deliveries.
    fn queues_of(&self, webhook: WebhookId) -> BTreeSet<DeliveryQueueId> {
        self.for_webhook(webhook).filter_map(|notification| self.queue_of(notification.id)).collect()
    }

    /// Returns the deliveries of a webhook that can be listed and redelivered, oldest first.
    #[must_use]
    pub fn for_webhook(&self, webhook: WebhookId) -> impl DoubleEndedIterator<Item = &RegistryNotification> {
        self.webhooks.get(&webhook).into_iter().flat_map(|feed| feed.notifications.values())
    }

    /// Returns the number of pending deliveries of a webhook.
    #[must_use]
    pub fn pending_events_of(&self, webhook: WebhookId) -> usize {
        self.webhooks.get(&webhook).map_or(0, WebhookFeed::pending)
    }

    /// Returns the pending delivery that must end before `delivery`, if any.
    #[must_use]
    pub fn blocker_of(&self, delivery: DeliveryId) -> Option<DeliveryId> {
        let queue = self.queues.get(&self.by_id.get(&delivery)?.queue)?;
        queue.pending.first().copied().filter(|first| *first != delivery)
    }

    /// Returns the current URL of a webhook.
    #[must_use]
    pub fn url_of(&self, webhook: WebhookId) -> Option<&CallbackUrl> {
        self.webhooks.get(&webhook).map(|feed| &feed.webhook.url)
    }

    /// Returns the event that a delivery to a webhook reports; `None` if the delivery is no longer known.
    #[must_use]
    pub fn event_of(&self, webhook: WebhookId, delivery: DeliveryId) -> Option<&RegistryNotification> {
        let feed = self.webhooks.get(&webhook)?;
        let pending_position = self.by_id.get(&delivery).map(|pending| pending.change);
        let position = pending_position.or_else(|| feed.ended_position(delivery))?;
        feed.notifications.get(&position).filter(|notification| notification.id == delivery)
    }
}
