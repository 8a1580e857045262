//! Webhook deliveries: list those of a task, and redeliver one.

use serde::Serialize;

use crate::domain::delivery::{AttemptOutcome, Delivery, DeliveryCommand, DeliverySubject, Redelivery};
use crate::domain::ids::{DeliveryId, TaskId, WebhookId};
use crate::domain::policy::Action;
use crate::domain::value::{CallbackUrl, Timestamp};
use crate::http::api::task::visible_task;
use crate::http::api::webhook::check_pending_events;
use crate::http::auth::authorize;
use crate::http::pipeline::{Call, RequestContext};
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::http::server::Services;
use crate::projections::delivery::{DeliveryAttempt, DeliveryRecord, RegistryNotification, WebhookNotification};

/// Maximum number of attempts that are shown per delivery. A delivery can have many more, because each redelivery
/// starts the full retry schedule again.
pub const ATTEMPTS_SHOWN: usize = 50;

#[derive(Serialize)]
struct DeliveriesView {
    deliveries: Vec<TaskDeliveryView>,
}

/// A delivery; `S` describes the change that it reports.
#[derive(Serialize)]
pub(super) struct DeliveryView<S> {
    id: String,
    /// Value of the header `webhook-id`, which is the same in every attempt.
    webhook_id: String,
    #[serde(flatten)]
    subject: S,
    url: String,
    state: &'static str,
    /// Time of the change that the delivery reports.
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<String>,
    /// Earlier delivery that must end first.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
    attempts: Vec<AttemptView>,
}

/// Delivery of the status of a task.
pub(super) type TaskDeliveryView = DeliveryView<TaskStatusView>;

#[derive(Serialize)]
pub(super) struct TaskStatusView {
    task_id: String,
    /// Task status that the delivery reports.
    status: &'static str,
}

/// Delivery of an event of the registry.
pub(super) type EventDeliveryView = DeliveryView<ReportedEventView>;

#[derive(Serialize)]
pub(super) struct ReportedEventView {
    event: &'static str,
    position: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

#[derive(Serialize)]
struct AttemptView {
    number: u32,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_code: Option<u16>,
    /// Reason why no response arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// `GET /tasks/{task_id}/deliveries`
pub async fn list(call: Call<{ Action::ReadTask as u8 }>) -> Result<ApiResponse, Problem> {
    let task = visible_task(&call).await?;
    let records = call.services().models.deliveries_of(task).await?;
    ApiResponse::ok(&DeliveriesView { deliveries: delivery_views(&records, task) })
}

/// `POST /deliveries/{delivery_id}/redeliver`: repeats a delivery that has ended.
pub async fn redeliver(call: Call<{ Action::RedeliverCallback as u8 }>) -> Result<ApiResponse, Problem> {
    let delivery = DeliveryId::parse(&call.path_param("delivery_id")).map_err(|_| not_found())?;
    match call.services().models.subject_of_delivery(delivery).await? {
        Some(DeliverySubject::Task(task)) => redeliver_status(&call, task, delivery).await,
        Some(DeliverySubject::Webhook(webhook)) => redeliver_event(&call, webhook, delivery).await,
        None => Err(not_found()),
    }
}

async fn redeliver_status(call: &RequestContext, task: TaskId, delivery: DeliveryId) -> Result<ApiResponse, Problem> {
    let WebhookNotification { owner, change, content, .. } = visible_notification(call, task, delivery).await?;
    let services = call.services();
    let redelivery = Redelivery { delivery, task, owner, url: content.url, task_version: change };
    services.dispatch.delivery(delivery, DeliveryCommand::Redeliver(redelivery), call.command_context()).await?;

    let records = services.models.deliveries_of(task).await?;
    let view = delivery_views(&records, task).into_iter().find(|view| view.id == delivery.to_string());
    ApiResponse::ok(&view.ok_or_else(not_found)?)
}

fn not_found() -> Problem {
    Problem::not_found("delivery")
}

/// Returns a delivery of a task, if the caller may see the task.
async fn visible_notification(
    call: &RequestContext,
    task: TaskId,
    delivery: DeliveryId,
) -> Result<WebhookNotification, Problem> {
    let user = call.user()?;
    let notification = call.services().models.delivery_notification(task, delivery).await?.ok_or_else(not_found)?;
    if notification.owner != Some(user.id) && !user.is_admin {
        return Err(not_found());
    }
    Ok(notification)
}

/// Repeats a delivery to a webhook of a publisher, if the caller may manage the webhooks of the publisher.
async fn redeliver_event(
    call: &RequestContext,
    webhook: WebhookId,
    delivery: DeliveryId,
) -> Result<ApiResponse, Problem> {
    let services = call.services();
    let (publisher, notification) = {
        let models = services.models.read();
        let notification = models.deliveries.event_of(webhook, delivery).cloned().ok_or_else(not_found)?;
        let publisher = models.publishers.get(&notification.publisher).cloned().ok_or_else(not_found)?;
        (publisher, notification)
    };

    // Callers who may not manage the webhooks do not learn that the delivery exists.
    let action = Action::ManagePublisherWebhooks;
    if !action.allows(call.identity().role(Some(&publisher))) {
        return Err(not_found());
    }
    authorize::permit(action, call.identity(), Some(&publisher))?;

    check_pending_events(services, webhook)?;
    let command = DeliveryCommand::RedeliverEvent { delivery, webhook };
    services.dispatch.delivery(delivery, command, call.command_context()).await?;
    let views = event_delivery_views(services, webhook, vec![notification]).await?;
    ApiResponse::ok(&views.into_iter().next().ok_or_else(not_found)?)
}

/// Renders deliveries to a webhook of a publisher, in the given order; none if the webhook was removed.
pub(super) async fn event_delivery_views(
    services: &Services,
    webhook: WebhookId,
    notifications: Vec<RegistryNotification>,
) -> Result<Vec<EventDeliveryView>, Problem> {
    let records = services.models.event_deliveries(notifications).await?;
    let models = services.models.read();
    let Some(url) = models.deliveries.url_of(webhook) else { return Ok(Vec::new()) };
    let view = |record: &DeliveryRecord<RegistryNotification>| {
        let notification = &record.notification;
        let change = notification.change.as_ref();
        let version = change.and_then(|change| change.version.as_ref());
        let subject = ReportedEventView {
            event: notification.kind(),
            position: notification.position,
            node_id: change.map(|change| change.node.to_string()),
            version: version.map(|version| version.number.to_string()),
        };
        let id = notification.id;
        let source = DeliverySource { id, subject, url, at: notification.at };
        delivery_view(source, &record.state, &record.attempts, models.deliveries.blocker_of(id))
    };
    Ok(records.iter().map(view).collect())
}

/// Renders the deliveries of a task, oldest first.
pub(super) fn delivery_views(records: &[DeliveryRecord], task: TaskId) -> Vec<TaskDeliveryView> {
    let mut first_pending = None;
    let mut views = Vec::with_capacity(records.len());
    for DeliveryRecord { notification, state, attempts } in records {
        let WebhookNotification { id, at, content, .. } = notification;
        let subject = TaskStatusView { task_id: task.to_string(), status: content.status() };
        let source = DeliverySource { id: *id, subject, url: &content.url, at: *at };
        views.push(delivery_view(source, state, attempts, first_pending));
        if matches!(state, Delivery::Pending { .. }) {
            first_pending = first_pending.or(Some(*id));
        }
    }
    views
}

/// Subject and receiver of a delivery.
struct DeliverySource<'u, S> {
    id: DeliveryId,
    subject: S,
    url: &'u CallbackUrl,
    at: Timestamp,
}

/// Renders a delivery. `blocker` is the earlier delivery that a pending one waits for.
fn delivery_view<S>(
    DeliverySource { id, subject, url, at }: DeliverySource<'_, S>,
    state: &Delivery,
    attempts: &[DeliveryAttempt],
    blocker: Option<DeliveryId>,
) -> DeliveryView<S> {
    let (state, next_at, waits_for) = match state {
        Delivery::Pending { next_at, .. } => ("pending", *next_at, blocker),
        Delivery::Delivered { .. } => ("delivered", None, None),
        Delivery::DeadLettered { gone: false, .. } => ("dead", None, None),
        Delivery::DeadLettered { gone: true, .. } => ("stopped", None, None),
    };

    DeliveryView {
        id: id.to_string(),
        webhook_id: id.webhook_id(),
        subject,
        url: url.as_str().to_owned(),
        state,
        created_at: at.to_string(),
        next_attempt_at: next_at.map(|at| at.to_string()),
        waits_for: waits_for.map(|id| id.to_string()),
        attempts: attempts[attempts.len().saturating_sub(ATTEMPTS_SHOWN)..].iter().map(attempt_view).collect(),
    }
}

fn attempt_view(attempt: &DeliveryAttempt) -> AttemptView {
    let (status_code, reason) = match &attempt.outcome {
        AttemptOutcome::Answered { status, .. } => (Some(*status), None),
        AttemptOutcome::Unreachable { reason } => (None, Some(reason.to_string())),
    };
    AttemptView { number: attempt.number, at: attempt.at.to_string(), status_code, reason }
}
