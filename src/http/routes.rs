//! Route table: every path of the API with its method, operation id, action and handler. Other paths may be files of
//! the `console`.
//!
//! The action of a route is part of its handler's signature, so the two cannot differ. A test walks [`route_infos`] and
//! fails for a route with unknown permissions.

use std::future::ready;
use std::rc::Rc;

use actix_web::dev::{Payload, ServiceRequest, ServiceResponse, fn_service};
use actix_web::http::Method;
use actix_web::web::{Data, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use crate::domain::policy::Action;
use crate::http::api::{
    account_export, admin, archive_file, audit, audit_stream, badge, budget, bulk, checkpoint, credits, delivery,
    erase, health, image, input_file, install, media, member, metrics, models, moderation, music, node, node_change,
    node_picture, publisher, review, sign_in, state, state_history, statistics, task, token, translation, upload,
    usage, user, vendor_webhook, version, version_list, video, webhook, webhook_secret,
};
use crate::http::auth::authorize::Identity;
use crate::http::console;
use crate::http::limits::rate_limit::{self, RateClass};
use crate::http::openapi;
use crate::http::pipeline::{ApiEndpoint, RoutedRequest};
use crate::http::request::body::BodyLimit::{self, Archive, Form, Images, InputFile, InputForm, Json, None as NoBody};
use crate::http::response::error::Problem;
use crate::http::router::PathRouter;
use crate::http::server::AppState;

/// Former path of vendor webhooks. Served for tickets that vendors have already received, and not documented.
const FORMER_VENDOR_WEBHOOK: &str = "/hints/{vendor_ticket}";

/// Operation id of routes that the OpenAPI document omits.
const UNDOCUMENTED: &str = "";

/// Returns all routes.
fn table() -> Vec<ApiEndpoint> {
    [
        service_routes(),
        account_routes(),
        audit_routes(),
        registry_routes(),
        task_routes(),
        image_routes(),
        video_routes(),
        music_routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn get() -> Method {
    Method::GET
}

fn post() -> Method {
    Method::POST
}

fn put() -> Method {
    Method::PUT
}

fn delete() -> Method {
    Method::DELETE
}

#[rustfmt::skip]
fn service_routes() -> Vec<ApiEndpoint> {
    vec![
        ApiEndpoint::new(get(), "/health", "getHealth", NoBody, health::health),
        ApiEndpoint::new(get(), "/ready", "getReadiness", NoBody, health::ready),
        ApiEndpoint::new(get(), "/metrics", "getMetrics", NoBody, metrics::show),
        ApiEndpoint::new(get(), "/.well-known/webhook-key", "getWebhookKey", NoBody, health::webhook_key),
        ApiEndpoint::new(get(), "/sign-in", "getSignIn", NoBody, sign_in::show),
        ApiEndpoint::new(get(), "/openapi.json", "getOpenApiJson", NoBody, openapi::show),
        ApiEndpoint::new(get(), "/openapi", "getOpenApi", NoBody, openapi::show),
        ApiEndpoint::new(get(), "/models", "listModels", NoBody, models::list),
        ApiEndpoint::new(get(), "/media/{file}", "getResult", NoBody, media::file),
        ApiEndpoint::new(post(), "/files", "createFile", InputForm, input_file::create),
        ApiEndpoint::new(put(), "/uploads/files/{fileTicket}", "uploadFile", InputFile, input_file::receive),
        ApiEndpoint::new(get(), "/files/{fileId}", "downloadFile", NoBody, input_file::show),
    ]
}

#[rustfmt::skip]
fn account_routes() -> Vec<ApiEndpoint> {
    vec![
        ApiEndpoint::new(get(), "/users", "getOwnUser", NoBody, user::show_own),
        ApiEndpoint::new(delete(), "/users", "eraseOwnUser", NoBody, erase::erase_own),
        ApiEndpoint::new(get(), "/users/tokens", "listOwnTokens", NoBody, token::list_own),
        ApiEndpoint::new(post(), "/users/tokens", "createOwnToken", Json, token::issue_own),
        ApiEndpoint::new(delete(), "/users/tokens/{tokenId}", "revokeOwnToken", NoBody, token::revoke_own),
        ApiEndpoint::new(get(), "/users/export", "exportOwnUser", NoBody, account_export::export),
        ApiEndpoint::new(get(), "/users/credits", "getCredits", NoBody, credits::show),
        ApiEndpoint::new(get(), "/usage", "getUsage", NoBody, usage::show),
        ApiEndpoint::new(get(), "/admin/budgets", "listBudgets", NoBody, budget::list),
        ApiEndpoint::new(get(), "/admin/budgets/{budgetKind}/{budgetId}", "getBudget", NoBody, budget::show),
        ApiEndpoint::new(put(), "/admin/budgets/{budgetKind}/{budgetId}", "setBudget", Json, budget::set),
        ApiEndpoint::new(delete(), "/admin/budgets/{budgetKind}/{budgetId}", "removeBudget", NoBody, budget::remove),
        ApiEndpoint::new(get(), "/users/publishers", "listOwnPublishers", NoBody, publisher::list_own),
        ApiEndpoint::new(post(), "/users/webhook-secret", "rotateWebhookSecret", Json, webhook_secret::rotate),
        ApiEndpoint::new(delete(), "/users/webhook-secret", "revokeWebhookSecrets", NoBody, webhook_secret::revoke),
        ApiEndpoint::new(get(), "/admin/users", "listUsers", NoBody, admin::list_users),
        ApiEndpoint::new(post(), "/admin/users", "createUser", Json, admin::create_user),
        ApiEndpoint::new(put(), "/admin/users/{userId}", "updateUser", Json, admin::update_user),
        ApiEndpoint::new(delete(), "/admin/users/{userId}", "eraseUser", NoBody, erase::erase_user),
        ApiEndpoint::new(get(), "/admin/users/{userId}/tokens", "listUserTokens", NoBody, admin::list_tokens),
        ApiEndpoint::new(post(), "/admin/users/{userId}/tokens", "createUserToken", Json, admin::issue_token),
        ApiEndpoint::new(delete(), "/admin/users/{userId}/tokens/{tokenId}", "revokeUserToken", NoBody, admin::revoke_token),
        ApiEndpoint::new(post(), "/admin/users/{userId}/ban", "banUser", Json, admin::ban_user),
        ApiEndpoint::new(post(), "/admin/users/{userId}/unban", "unbanUser", Json, admin::unban_user),
        ApiEndpoint::new(post(), "/admin/publishers/{publisherId}/ban", "banPublisher", Json, admin::ban_publisher),
        ApiEndpoint::new(post(), "/admin/publishers/{publisherId}/unban", "unbanPublisher", Json, admin::unban_publisher),
        ApiEndpoint::new(post(), "/admin/nodes/{nodeId}/ban", "banNode", Json, admin::ban_node),
        ApiEndpoint::new(post(), "/admin/nodes/{nodeId}/unban", "unbanNode", Json, admin::unban_node),
    ]
}

#[rustfmt::skip]
fn audit_routes() -> Vec<ApiEndpoint> {
    vec![
        ApiEndpoint::new(get(), "/admin/checkpoint", "getCheckpoint", NoBody, checkpoint::checkpoint),
        ApiEndpoint::new(get(), "/admin/events", "listEvents", NoBody, audit::events),
        ApiEndpoint::new(get(), "/admin/events/stream", "streamEvents", NoBody, audit_stream::stream),
        ApiEndpoint::new(get(), "/admin/history/{kind}/{id}", "getHistory", NoBody, audit::history),
        ApiEndpoint::new(get(), "/admin/as-of/{kind}/{id}", "getAsOf", NoBody, audit::as_of),
        ApiEndpoint::new(get(), "/admin/diff", "getDiff", NoBody, audit::diff),
        ApiEndpoint::new(get(), "/admin/state", "getServiceState", NoBody, state::show),
        ApiEndpoint::new(get(), "/admin/state/history", "getServiceHistory", NoBody, state_history::show),
    ]
}

#[rustfmt::skip]
fn registry_routes() -> Vec<ApiEndpoint> {
    vec![
        ApiEndpoint::new(get(), "/publishers", "listPublishers", NoBody, publisher::list),
        ApiEndpoint::new(post(), "/publishers", "createPublisher", Json, publisher::create),
        ApiEndpoint::new(get(), "/publishers/validate", "validatePublisherId", NoBody, publisher::validate),
        ApiEndpoint::new(get(), "/publishers/{publisherId}", "getPublisher", NoBody, publisher::show),
        ApiEndpoint::new(put(), "/publishers/{publisherId}", "updatePublisher", Json, publisher::update),
        ApiEndpoint::new(delete(), "/publishers/{publisherId}", "deletePublisher", NoBody, publisher::delete),
        ApiEndpoint::new(get(), "/publishers/{publisherId}/permissions", "getPublisherPermissions", NoBody, publisher::permissions),
        ApiEndpoint::new(put(), "/publishers/{publisherId}/members/{userId}", "setMember", Json, member::set),
        ApiEndpoint::new(delete(), "/publishers/{publisherId}/members/{userId}", "removeMember", NoBody, member::remove),
        ApiEndpoint::new(get(), "/publishers/{publisherId}/tokens", "listPublisherTokens", NoBody, token::list),
        ApiEndpoint::new(post(), "/publishers/{publisherId}/tokens", "createPublisherToken", Json, token::issue),
        ApiEndpoint::new(delete(), "/publishers/{publisherId}/tokens/{tokenId}", "revokePublisherToken", NoBody, token::revoke),
        ApiEndpoint::new(get(), "/publishers/{publisherId}/webhooks", "listPublisherWebhooks", NoBody, webhook::list),
        ApiEndpoint::new(post(), "/publishers/{publisherId}/webhooks", "createPublisherWebhook", Json, webhook::create),
        ApiEndpoint::new(get(), "/publishers/{publisherId}/webhooks/{webhookId}", "getPublisherWebhook", NoBody, webhook::show),
        ApiEndpoint::new(put(), "/publishers/{publisherId}/webhooks/{webhookId}", "updatePublisherWebhook", Json, webhook::update),
        ApiEndpoint::new(delete(), "/publishers/{publisherId}/webhooks/{webhookId}", "deletePublisherWebhook", NoBody, webhook::delete),
        ApiEndpoint::new(post(), "/publishers/{publisherId}/webhooks/{webhookId}/test", "testPublisherWebhook", Json, webhook::test),
        ApiEndpoint::new(get(), "/publishers/{publisherId}/webhooks/{webhookId}/deliveries", "listPublisherWebhookDeliveries", NoBody, webhook::list_deliveries),
        ApiEndpoint::new(post(), "/publishers/{publisherId}/webhooks/{webhookId}/redeliver", "redeliverPublisherWebhook", Json, webhook::redeliver_events),
        ApiEndpoint::new(get(), "/publishers/{publisherId}/nodes", "listPublisherNodes", NoBody, node::list_of_publisher),
        ApiEndpoint::new(post(), "/publishers/{publisherId}/nodes", "createNode", Json, node_change::create),
        ApiEndpoint::new(put(), "/publishers/{publisherId}/nodes/{nodeId}", "updateNode", Json, node_change::update),
        ApiEndpoint::new(put(), "/publishers/{publisherId}/nodes/{nodeId}/icon", "setNodeIcon", Images, node_picture::set_icon),
        ApiEndpoint::new(put(), "/publishers/{publisherId}/nodes/{nodeId}/banner", "setNodeBanner", Images, node_picture::set_banner),
        ApiEndpoint::new(delete(), "/publishers/{publisherId}/nodes/{nodeId}", "deleteNode", NoBody, node_change::delete),
        ApiEndpoint::new(get(), "/publishers/{publisherId}/nodes/{nodeId}/permissions", "getNodePermissions", NoBody, node_change::permissions),
        ApiEndpoint::new(post(), "/publishers/{publisherId}/nodes/{nodeId}/versions", "publishVersion", Json, version::publish),
        ApiEndpoint::new(put(), "/publishers/{publisherId}/nodes/{nodeId}/versions/{versionId}", "updateVersion", Json, version::revise),
        ApiEndpoint::new(post(), "/publishers/{publisherId}/nodes/{nodeId}/versions/{versionId}/upload", "renewUpload", Json, upload::renew),
        ApiEndpoint::new(put(), "/uploads/{ticket}", "uploadArchive", Archive, upload::receive),
        ApiEndpoint::new(delete(), "/publishers/{publisherId}/nodes/{nodeId}/versions/{versionId}", "deleteVersion", NoBody, version::delete),

        ApiEndpoint::new(get(), "/nodes", "listNodes", NoBody, node::list),
        ApiEndpoint::new(get(), "/nodes/search", "searchNodes", NoBody, node::search),
        ApiEndpoint::new(get(), "/nodes/{nodeId}", "getNode", NoBody, node::show),
        ApiEndpoint::new(get(), "/nodes/{nodeId}/versions", "listNodeVersions", NoBody, version_list::list_of_node),
        ApiEndpoint::new(get(), "/nodes/{nodeId}/versions/{version}", "getNodeVersion", NoBody, version_list::show),
        ApiEndpoint::new(get(), "/nodes/{nodeId}/versions/{version}/download", "downloadArchive", NoBody, install::download),
        ApiEndpoint::new(get(), "/nodes/{nodeId}/versions/{version}/files", "listArchiveFiles", NoBody, archive_file::list),
        ApiEndpoint::new(get(), "/nodes/{nodeId}/versions/{version}/files/content", "getArchiveFile", NoBody, archive_file::show),
        ApiEndpoint::new(get(), "/nodes/{nodeId}/versions/{version}/diff", "compareVersions", NoBody, archive_file::difference),
        ApiEndpoint::new(get(), "/nodes/{nodeId}/statistics", "getNodeStatistics", NoBody, statistics::show),
        ApiEndpoint::new(get(), "/nodes/{nodeId}/badge.svg", "getNodeBadge", NoBody, badge::show),
        ApiEndpoint::new(get(), "/nodes/{nodeId}/install", "installNode", NoBody, install::install),
        ApiEndpoint::new(get(), "/versions", "listVersions", NoBody, version_list::list_all),
        ApiEndpoint::new(post(), "/nodes/{nodeId}/reviews", "reviewNode", Json, review::submit),
        ApiEndpoint::new(get(), "/nodes/{nodeId}/reviews/mine", "getOwnReview", NoBody, review::show_own),
        ApiEndpoint::new(post(), "/nodes/{nodeId}/translations", "translateNode", Json, translation::merge),
        ApiEndpoint::new(put(), "/admin/nodes/{nodeId}", "administerNode", Json, moderation::administer_node),
        ApiEndpoint::new(put(), "/admin/nodes/{nodeId}/versions/{version}", "administerVersion", Json, moderation::administer_version),
        ApiEndpoint::new(post(), "/bulk/nodes/versions", "getVersions", Json, bulk::look_up),
    ]
}

#[rustfmt::skip]
fn task_routes() -> Vec<ApiEndpoint> {
    vec![
        ApiEndpoint::new(get(), "/tasks", "listTasks", NoBody, task::list),
        ApiEndpoint::new(get(), "/tasks/{task_id}", "getTask", NoBody, task::show),
        ApiEndpoint::new(get(), "/tasks/{task_id}/events", "streamTask", NoBody, task::stream),
        ApiEndpoint::new(post(), "/tasks/{task_id}/cancel", "cancelTask", Json, task::cancel),
        ApiEndpoint::new(get(), "/tasks/{task_id}/deliveries", "listDeliveries", NoBody, delivery::list),
        ApiEndpoint::new(post(), "/deliveries/{delivery_id}/redeliver", "redeliver", Json, delivery::redeliver),
        ApiEndpoint::new(post(), "/vendor-webhooks/{vendor_ticket}", "receiveVendorWebhook", Json, vendor_webhook::receive),
        ApiEndpoint::new(post(), FORMER_VENDOR_WEBHOOK, UNDOCUMENTED, Json, vendor_webhook::receive),
    ]
}

#[rustfmt::skip]
fn image_routes() -> Vec<ApiEndpoint> {
    vec![
        ApiEndpoint::new(post(), "/proxy/imagevendor/v1/ai/image-upscaler", "upscaleImage", Images, image::upscale),
        ApiEndpoint::new(get(), "/proxy/imagevendor/v1/ai/image-upscaler/{task_id}", "getUpscaleTask", NoBody, image::show_upscale),
        ApiEndpoint::new(post(), "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2", "upscaleImagePrecisely", Images, image::upscale_precisely),
        ApiEndpoint::new(get(), "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2/{task_id}", "getPrecisionUpscaleTask", NoBody, image::show_upscale),
        ApiEndpoint::new(post(), "/proxy/imagevendor/v1/ai/image-style-transfer", "transferStyle", Images, image::transfer_style),
        ApiEndpoint::new(get(), "/proxy/imagevendor/v1/ai/image-style-transfer/{task_id}", "getStyleTransferTask", NoBody, image::show_style_transfer),
        ApiEndpoint::new(post(), "/proxy/imagevendor/v1/ai/skin-enhancer/creative", "enhanceSkinCreatively", Images, image::enhance_skin_creatively),
        ApiEndpoint::new(post(), "/proxy/imagevendor/v1/ai/skin-enhancer/faithful", "enhanceSkinFaithfully", Images, image::enhance_skin_faithfully),
        ApiEndpoint::new(post(), "/proxy/imagevendor/v1/ai/skin-enhancer/flexible", "enhanceSkinFlexibly", Images, image::enhance_skin_flexibly),
        ApiEndpoint::new(get(), "/proxy/imagevendor/v1/ai/skin-enhancer/{task_id}", "getSkinEnhancerTask", NoBody, image::show_skin_enhancer),
        ApiEndpoint::new(post(), "/proxy/imagevendor/v1/ai/image-relight", "relightImage", Images, image::relight),
        ApiEndpoint::new(get(), "/proxy/imagevendor/v1/ai/image-relight/{task_id}", "getRelightTask", NoBody, image::show_relight),
    ]
}

#[rustfmt::skip]
fn video_routes() -> Vec<ApiEndpoint> {
    vec![
        ApiEndpoint::new(post(), "/proxy/videovendor/start-end2video", "startEndToVideo", Images, video::start_end),
        ApiEndpoint::new(post(), "/proxy/videovendor/reference2video", "referenceToVideo", Images, video::reference),
        ApiEndpoint::new(post(), "/proxy/videovendor/extend", "extendVideo", Images, video::extend),
        ApiEndpoint::new(post(), "/proxy/videovendor/multiframe", "multiframeToVideo", Images, video::multiframe),
        ApiEndpoint::new(get(), "/proxy/videovendor/tasks/{task_id}/creations", "getCreations", NoBody, video::creations),
        ApiEndpoint::new(post(), "/proxy/videovendor/tasks/{task_id}/cancel", "cancelVideo", Json, video::cancel),
    ]
}

fn music_routes() -> Vec<ApiEndpoint> {
    vec![ApiEndpoint::new(post(), "/proxy/musicvendor/t2m/generate", "generateMusic", Form, music::generate)]
}

/// Public view of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteInfo {
    pub method: Method,
    pub path: &'static str,
    pub action: Action,
    pub(in crate::http) operation_id: &'static str,
    pub(in crate::http) body_limit: BodyLimit,
}

/// Returns all documented routes.
#[must_use]
pub fn route_infos() -> Vec<RouteInfo> {
    table()
        .into_iter()
        .filter(|endpoint| endpoint.operation_id != UNDOCUMENTED)
        .map(|ApiEndpoint { method, path, operation_id, action, body_limit, .. }| RouteInfo {
            method,
            path,
            action,
            operation_id,
            body_limit,
        })
        .collect()
}

/// Registers all routes. An unknown method of a path is a 405 with `Allow`, an unknown path a 404.
///
/// The framework's own router is not used: it tries one pattern after the other.
pub fn register(config: &mut ServiceConfig, shared: Data<AppState>) {
    let router = Rc::new(build_router());
    config.default_service(fn_service(move |request: ServiceRequest| {
        let (request, payload) = request.into_parts();
        let response = dispatch(&router, &shared, request.clone(), payload);
        async move { Ok(ServiceResponse::new(request, response.await)) }
    }));
}

/// Routes of one path.
struct PathEndpoints {
    routes: Vec<Rc<ApiEndpoint>>,
    /// Value of `Allow`.
    allow: String,
}

fn build_router() -> PathRouter<PathEndpoints> {
    let mut router = PathRouter::new();
    for route in table() {
        let endpoints = router.entry(route.path, || PathEndpoints { routes: Vec::new(), allow: String::new() });
        for method in methods_of(&route) {
            let comma = if endpoints.allow.is_empty() { "" } else { ", " };
            endpoints.allow.extend([comma, method.as_str()]);
        }
        endpoints.routes.push(Rc::new(route));
    }
    router
}

fn dispatch(
    router: &PathRouter<PathEndpoints>,
    shared: &Data<AppState>,
    request: HttpRequest,
    payload: Payload,
) -> LocalBoxFuture<'static, HttpResponse> {
    let respond_with = |problem: Problem| {
        shared.services.metrics.count_unmatched(problem.code().status());
        ready(problem.to_response(request.path())).boxed_local()
    };

    let path = request.match_info().unprocessed();
    let method = request.method();
    let Some((endpoints, path_params)) = router.find(path) else {
        if let Some(page) = console::respond(&request, shared) {
            return ready(rate_limit_page(page, &request, shared)).boxed_local();
        }
        return respond_with(Problem::unknown_path(method, &similar_paths(router, path, method)));
    };

    if let Some(route) = endpoints.routes.iter().find(|route| methods_of(route).contains(method)) {
        return Rc::clone(route).serve(RoutedRequest { request, shared: shared.clone(), path_params }, payload);
    }

    // A misspelt last segment may have been taken for an id: suggest the sibling paths that have the method.
    let (parent, last) = path.rsplit_once('/').map_or((None, path), |(parent, last)| (Some(parent), last));
    let has_same_parent = |other: &&str| other.rsplit_once('/').map(|(parent, _)| parent) == parent;
    let siblings: Vec<&str> = similar_paths(router, path, method).into_iter().filter(has_same_parent).collect();
    let may_be_misspelt =
        uuid::Uuid::try_parse(last).is_err() && endpoints.routes.iter().any(|route| route.path.ends_with('}'));

    if may_be_misspelt && !siblings.is_empty() {
        return respond_with(Problem::unknown_path(method, &siblings));
    }
    respond_with(Problem::method_not_allowed(&endpoints.allow))
}

/// Applies the read limit to the API reference page; the files it loads are not limited.
fn rate_limit_page(page: HttpResponse, request: &HttpRequest, shared: &AppState) -> HttpResponse {
    if request.path() != console::API_REFERENCE_PATH || shared.rate_limiters.is_disabled() {
        return page;
    }

    let now = shared.services.environment.now();
    let checked = shared.rate_limiters.check(Some(RateClass::Reading), &Identity::Anonymous, request, now);
    let mut response = checked.map_or_else(|problem| problem.to_response(request.path()), |()| page);
    rate_limit::set_rate_limit_headers(request, &mut response);
    response
}

/// Returns the paths with this method and the same literal prefix, sorted.
fn similar_paths(router: &PathRouter<PathEndpoints>, path: &str, method: &Method) -> Vec<&'static str> {
    let near_routes = router.values_near(path).into_iter().flat_map(|endpoints| &endpoints.routes);
    let mut similar: Vec<_> =
        near_routes.filter(|route| methods_of(route).contains(method)).map(|route| route.path).collect();
    similar.sort_unstable();
    similar
}

/// Returns the methods of a route: GET implies HEAD.
fn methods_of(route: &ApiEndpoint) -> &'static [Method] {
    static GET_AND_HEAD: [Method; 2] = [Method::GET, Method::HEAD];
    static POST: [Method; 1] = [Method::POST];
    static PUT: [Method; 1] = [Method::PUT];
    static DELETE: [Method; 1] = [Method::DELETE];

    match route.method {
        Method::GET => &GET_AND_HEAD,
        Method::POST => &POST,
        Method::PUT => &PUT,
        Method::DELETE => &DELETE,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_unique_and_have_a_method() {
        let table = table();
        for route in &table {
            assert!(!methods_of(route).is_empty(), "{} {}", route.method, route.path);
            let same = |other: &&ApiEndpoint| other.path == route.path && other.method == route.method;
            assert_eq!(table.iter().filter(same).count(), 1, "{} {}", route.method, route.path);
        }
    }

    #[test]
    fn routes_take_a_body_unless_they_read_or_delete() {
        for route in table() {
            let has_no_body = [Method::GET, Method::DELETE].contains(&route.method);
            assert_eq!(has_no_body, route.body_limit == NoBody, "{} {}", route.method, route.path);
        }
    }
}
