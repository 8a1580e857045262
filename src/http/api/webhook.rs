//! Webhooks of a publisher: create, change, remove, test, and their deliveries.

use actix_web::http::header::LOCATION;
use serde::Serialize;

use crate::actors::aggregate::CommandEffect;
use crate::actors::error::CommandError;
use crate::domain::delivery::{DeliveryCommand, DeliveryRejection};
use crate::domain::ids::{DeliveryId, WebhookId};
use crate::domain::policy::Action;
use crate::domain::publisher::{PublisherCommand, PublisherProfile};
use crate::domain::value::{CallbackUrl, Timestamp};
use crate::domain::webhook::{EventSelection, RegistryEventKind, Webhook, WebhookChange, WebhookDraft};
use crate::http::api::delivery::{EventDeliveryView, event_delivery_views};
use crate::http::pipeline::{Call, RequestContext};
use crate::http::request::fields;
use crate::http::request::json_object::{JsonObject, json_object};
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::http::server::Services;
use crate::projections::delivery::RegistryNotification;

/// Default page size of deliveries.
pub const LIMIT_DEFAULT: u64 = 20;
/// Maximum page size: each delivery is read from the log.
pub const LIMIT_MAX: u64 = 100;
/// Maximum number of deliveries that one request repeats.
const REDELIVERIES_MAX: usize = 100;
/// Events of a new version.
const VERSION_EVENTS: [RegistryEventKind; 2] =
    [RegistryEventKind::VersionPublished, RegistryEventKind::VersionApproved];

type WebhookCall = Call<{ Action::ManagePublisherWebhooks as u8 }>;

/// Webhook of a publisher.
#[derive(Serialize)]
pub(super) struct WebhookView {
    id: String,
    url: String,
    events: Vec<&'static str>,
    enabled: bool,
    /// Id of the user whose webhook secrets sign the deliveries.
    account: String,
    created_at: String,
}

impl WebhookView {
    /// Renders a webhook.
    pub(super) fn new(webhook: &Webhook) -> Self {
        Self {
            id: webhook.id.to_string(),
            url: webhook.url.as_str().to_owned(),
            events: webhook.events.kinds().iter().map(|kind| kind.as_str()).collect(),
            enabled: webhook.is_enabled,
            account: webhook.account.to_string(),
            created_at: webhook.created_at.to_string(),
        }
    }
}

/// Page of deliveries.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeliveryPage {
    deliveries: Vec<EventDeliveryView>,
    limit: u64,
    page: u64,
    total: u64,
    total_pages: u64,
}

#[derive(Serialize)]
struct RedeliveriesView {
    /// Number of deliveries that are queued again.
    redelivered: usize,
    /// Number of deliveries that were pending already.
    pending: usize,
    /// Number of deliveries that were repeated too often today.
    exhausted: usize,
    /// Value of `after` for the next request; absent if there are no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_after: Option<u64>,
}

json_object! {
    pub struct NewWebhookBody {
        /// URL of the receiver.
        url: CallbackUrl,
        /// Events to send.
        events: EventSelection = EventSelection::all(),
        /// `false` to send nothing for now.
        enabled: bool = true,
    }
}

json_object! {
    pub struct WebhookUpdateBody {
        /// URL of the receiver, also of pending and repeated deliveries.
        url: Option<CallbackUrl>,
        /// Events to send.
        events: Option<EventSelection>,
        /// `false` to send nothing: new events are skipped, and pending deliveries wait.
        enabled: Option<bool>,
    }
}

json_object! {
    pub struct RedeliveryBody {
        /// Time of the first event.
        since: Option<Timestamp>,
        /// Position in the log after which the first event was recorded, such as `next_after` of the last response.
        after: Option<u64>,
    }
}

/// `GET /publishers/{publisherId}/webhooks`: oldest first.
pub async fn list(call: WebhookCall) -> Result<ApiResponse, Problem> {
    ApiResponse::ok(&call.publisher()?.webhooks.iter().map(WebhookView::new).collect::<Vec<_>>())
}

/// `POST /publishers/{publisherId}/webhooks`.
pub async fn create(mut call: WebhookCall) -> Result<ApiResponse, Problem> {
    let NewWebhookBody { url, events, enabled } = call.json_object().await?;
    let publisher = &call.publisher()?.id;
    let id = WebhookId(call.services().environment.uuid());
    let draft = WebhookDraft { id, url, events, is_enabled: enabled, account: call.user()?.id };
    send_command(&call, PublisherCommand::CreateWebhook(draft)).await?;

    ApiResponse::created(&current_view(&call, id)?)?
        .with_header(LOCATION, call.url(&format!("/publishers/{publisher}/webhooks/{id}")))
}

/// `GET /publishers/{publisherId}/webhooks/{webhookId}`.
pub async fn show(call: WebhookCall) -> Result<ApiResponse, Problem> {
    ApiResponse::ok(&WebhookView::new(existing_webhook(&call)?))
}

/// `PUT /publishers/{publisherId}/webhooks/{webhookId}`: changes the fields that are present.
pub async fn update(mut call: WebhookCall) -> Result<ApiResponse, Problem> {
    let webhook = existing_webhook(&call)?.id;
    let WebhookUpdateBody { url, events, enabled } = call.json_object().await?;
    // A new URL is signed with the secrets of the user who sets it.
    let account = url.as_ref().map(|_| call.user().map(|user| user.id)).transpose()?;
    let change = WebhookChange { url, account, events, is_enabled: enabled };
    send_command(&call, PublisherCommand::ReviseWebhook { webhook, change }).await?;
    ApiResponse::ok(&current_view(&call, webhook)?)
}

/// `DELETE /publishers/{publisherId}/webhooks/{webhookId}`: its pending deliveries end.
pub async fn delete(call: WebhookCall) -> Result<ApiResponse, Problem> {
    let webhook = existing_webhook(&call)?.id;
    send_command(&call, PublisherCommand::RemoveWebhook { webhook }).await?;
    Ok(ApiResponse::no_content())
}

/// `POST /publishers/{publisherId}/webhooks/{webhookId}/test`: sends a test event.
pub async fn test(call: WebhookCall) -> Result<ApiResponse, Problem> {
    let webhook = existing_webhook(&call)?.id;
    check_pending_events(call.services(), webhook)?;
    let effect = send_command(&call, PublisherCommand::TestWebhook { webhook }).await?;

    let services = call.services();
    // A repeated command records no event, so its delivery is unknown; the newest test is returned instead.
    let delivery = effect.event.map(|event| DeliveryId::from_event(event, webhook));
    let test = {
        let models = services.models.read();
        let is_own = |notification: &&RegistryNotification| {
            notification.change.is_none() && delivery.is_none_or(|delivery| notification.id == delivery)
        };
        models.deliveries.for_webhook(webhook).rev().find(is_own).cloned()
    };
    let views = event_delivery_views(services, webhook, test.into_iter().collect()).await?;
    ApiResponse::ok(&views.into_iter().next().ok_or_else(not_found)?)
}

/// `GET /publishers/{publisherId}/webhooks/{webhookId}/deliveries`: newest first.
pub async fn list_deliveries(call: WebhookCall) -> Result<ApiResponse, Problem> {
    let webhook = existing_webhook(&call)?.id;
    let mut query = call.query()?;
    let mut request = query.page(LIMIT_DEFAULT);
    query.finish()?;
    request.limit = request.limit.min(LIMIT_MAX);

    let services = call.services();
    let page = {
        let models = services.models.read();
        let newest_first: Vec<&RegistryNotification> = models.deliveries.for_webhook(webhook).rev().collect();
        request.paginate(newest_first.into_iter()).map(RegistryNotification::clone)
    };

    let total = page.total;
    let total_pages = page.total_pages();
    ApiResponse::ok(&DeliveryPage {
        deliveries: event_delivery_views(services, webhook, page.entries).await?,
        limit: request.limit,
        page: request.page,
        total,
        total_pages,
    })
}

/// `POST /publishers/{publisherId}/webhooks/{webhookId}/redeliver`: repeats the deliveries since a time or position,
/// oldest first.
pub async fn redeliver_events(mut call: WebhookCall) -> Result<ApiResponse, Problem> {
    let webhook = existing_webhook(&call)?.id;
    let body = call.json().await?;
    let RedeliveryBody { since, after } = fields::read(&body, |fields| {
        let body = RedeliveryBody::read_fields(fields)?;
        match (fields.value("since"), fields.value("after")) {
            (None, None) => fields.add_error("since", "is required, unless `after` is given"),
            (Some(_), Some(_)) => fields.add_error("after", "must be absent if `since` is given"),
            _ => {}
        }
        Some(body)
    })?;

    check_pending_events(call.services(), webhook)?;
    let mut deliveries = {
        let models = call.services().models.read();
        let is_selected = |notification: &&RegistryNotification| {
            since.is_none_or(|since| notification.at >= since)
                && after.is_none_or(|after| notification.position > after)
        };
        let selected = models.deliveries.for_webhook(webhook).filter(is_selected);
        selected.map(|notification| (notification.id, notification.position)).collect::<Vec<_>>()
    };

    let total = deliveries.len();
    deliveries.truncate(REDELIVERIES_MAX);

    let mut redelivered = 0;
    let mut pending = 0;
    let mut exhausted = 0;
    let mut last_position = None;
    for (delivery, position) in &deliveries {
        if has_too_many_pending_events(call.services(), webhook) {
            // Nothing was queued yet: report why.
            if last_position.is_none() {
                check_pending_events(call.services(), webhook)?;
            }
            // The remaining deliveries are left to a later request with `next_after`.
            break;
        }
        let command = DeliveryCommand::RedeliverEvent { delivery: *delivery, webhook };
        match call.services().dispatch.delivery(*delivery, command, call.command_context()).await {
            Ok(_) => redelivered += 1,
            Err(CommandError::Rejected(DeliveryRejection::StillPending)) => pending += 1,
            Err(CommandError::Rejected(DeliveryRejection::TooManyRedeliveries { .. })) => exhausted += 1,
            Err(error) => return Err(error.into()),
        }
        last_position = Some(*position);
    }

    let next_after = last_position.filter(|_| redelivered + pending + exhausted < total);
    ApiResponse::ok(&RedeliveriesView { redelivered, pending, exhausted, next_after })
}

/// Checks that the webhook has fewer pending deliveries than an account may have.
pub(super) fn check_pending_events(services: &Services, webhook: WebhookId) -> Result<(), Problem> {
    if !has_too_many_pending_events(services, webhook) {
        return Ok(());
    }
    let limit = services.options.callbacks_per_account;
    let detail = format!("{limit} deliveries of this webhook are pending; retry later, or correct its URL");
    Err(Problem::new(Code::TooManyCallbacks, detail).retry_after(60))
}

/// Refuses a new version while a webhook of its publisher that reports versions has too many pending deliveries. Each
/// version adds deliveries, which would otherwise accumulate without a limit while a receiver is unreachable.
/// Moderation and deletion are never refused.
pub(super) fn check_webhooks_of(services: &Services, publisher: &PublisherProfile) -> Result<(), Problem> {
    let reports_versions = |webhook: &Webhook| VERSION_EVENTS.iter().any(|kind| webhook.reports(*kind));
    let is_full = |webhook: &&Webhook| reports_versions(webhook) && has_too_many_pending_events(services, webhook.id);
    let Some(full) = publisher.webhooks.iter().find(is_full) else { return Ok(()) };

    let limit = services.options.callbacks_per_account;
    let detail = format!(
        "{limit} deliveries of the webhook {} of this publisher are pending; retry later, or correct its URL, disable or \
         delete it",
        full.id
    );
    Err(Problem::new(Code::TooManyCallbacks, detail).retry_after(60))
}

fn has_too_many_pending_events(services: &Services, webhook: WebhookId) -> bool {
    services.models.read().deliveries.pending_events_of(webhook) >= services.options.callbacks_per_account
}

fn not_found() -> Problem {
    Problem::not_found("webhook")
}

/// Returns the webhook of the path.
fn existing_webhook(call: &RequestContext) -> Result<&Webhook, Problem> {
    let id = WebhookId::parse(&call.path_param("webhookId")).map_err(|_| not_found())?;
    call.publisher()?.webhook(id).ok_or_else(not_found)
}

async fn send_command(call: &RequestContext, command: PublisherCommand) -> Result<CommandEffect, Problem> {
    let publisher = &call.publisher()?.id;
    Ok(call.services().dispatch.publisher(publisher, command, call.command_context()).await?)
}

/// Renders the webhook after a command.
fn current_view(call: &RequestContext, webhook: WebhookId) -> Result<WebhookView, Problem> {
    let publisher = &call.publisher()?.id;
    let models = call.services().models.read();
    let webhook = models.publishers.get(publisher).and_then(|profile| profile.webhook(webhook));
    webhook.map(WebhookView::new).ok_or_else(not_found)
}
