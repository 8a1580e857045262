//! Webhook deliveries of a task: list and redeliver.

use serde::Serialize;

use crate::domain::delivery::{AttemptOutcome, Delivery, DeliveryCommand, Redelivery};
use crate::domain::ids::{DeliveryId, TaskId};
use crate::domain::policy::Action;
use crate::http::api::task::visible_task;
use crate::http::pipeline::{Call, RequestContext};
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::projections::delivery::{DeliveryAttempt, DeliveryRecord, WebhookNotification};

#[derive(Serialize)]
struct DeliveriesView {
    deliveries: Vec<DeliveryView>,
}

#[derive(Serialize)]
pub(super) struct DeliveryView {
    id: String,
    /// The same in every attempt.
    webhook_id: String,
    task_id: String,
    /// Task status that the delivery reports.
    status: &'static str,
    url: String,
    state: &'static str,
    /// Time at which the task reached the status.
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<String>,
    /// Earlier delivery that must end first.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
    attempts: Vec<AttemptView>,
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
    let record = own_delivery(&call).await?;
    let delivery = record.notification.id;
    let task = record.task;
    let services = call.services();
    let owner = record.notification.owner;
    let url = record.notification.content.url.clone();
    let change = record.notification.change;
    let command = DeliveryCommand::Redeliver(Redelivery { delivery, task, owner, url, task_version: change });
    services.dispatch.delivery(delivery, command, call.command_context()).await?;

    let records = services.models.deliveries_of(task).await?;
    let view = delivery_views(&records, task).into_iter().find(|view| view.id == delivery.to_string());
    ApiResponse::ok(&view.ok_or_else(not_found)?)
}

fn not_found() -> Problem {
    Problem::not_found("delivery")
}

/// Delivery, with the task that it reports on.
struct OwnDelivery {
    task: TaskId,
    notification: WebhookNotification,
}

/// Returns the delivery of the path, if the caller may see its task.
async fn own_delivery(call: &RequestContext) -> Result<OwnDelivery, Problem> {
    let id = DeliveryId::parse(&call.path_param("delivery_id")).map_err(|_| not_found())?;
    let services = call.services();
    let task = services.models.task_of_delivery(id).await?.ok_or_else(not_found)?;
    let user = call.user()?;
    let notification = services.models.delivery_notification(task, id).await?.ok_or_else(not_found)?;
    if notification.owner != Some(user.id) && !user.is_admin {
        return Err(not_found());
    }
    Ok(OwnDelivery { task, notification })
}

/// Renders the deliveries of a task, oldest first.
pub(super) fn delivery_views(records: &[DeliveryRecord], task: TaskId) -> Vec<DeliveryView> {
    let mut earlier = None;
    let mut views = Vec::with_capacity(records.len());
    for record in records {
        views.push(delivery_view(record, task, earlier));
        if matches!(record.state, Delivery::Pending { .. }) {
            earlier = earlier.or(Some(record.notification.id));
        }
    }
    views
}

fn delivery_view(record: &DeliveryRecord, task: TaskId, earlier: Option<DeliveryId>) -> DeliveryView {
    let DeliveryRecord { notification, state, attempts } = record;
    let (state, next_at, waits_for) = match state {
        Delivery::Pending { next_at, .. } => ("pending", *next_at, earlier),
        Delivery::Delivered { .. } => ("delivered", None, None),
        Delivery::DeadLettered { gone: false, .. } => ("dead", None, None),
        Delivery::DeadLettered { gone: true, .. } => ("stopped", None, None),
    };

    DeliveryView {
        id: notification.id.to_string(),
        webhook_id: notification.id.webhook_id(),
        task_id: task.to_string(),
        status: notification.content.status(),
        url: notification.content.url.as_str().to_owned(),
        state,
        created_at: notification.at.to_string(),
        next_attempt_at: next_at.map(|at| at.to_string()),
        waits_for: waits_for.map(|id| id.to_string()),
        attempts: attempts.iter().map(attempt_view).collect(),
    }
}

fn attempt_view(attempt: &DeliveryAttempt) -> AttemptView {
    let (status_code, reason) = match &attempt.outcome {
        AttemptOutcome::Answered { status, .. } => (Some(*status), None),
        AttemptOutcome::Unreachable { reason } => (None, Some(reason.to_string())),
    };
    AttemptView { number: attempt.number, at: attempt.at.to_string(), status_code, reason }
}
