//! Route table: every path of the API with its method, action and handler. Other paths may be files of the `console`.
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
    admin, audit, audit_stream, bulk, checkpoint, credits, delivery, erase, health, image, input_file, install, media,
    member, metrics, models, moderation, music, node, node_change, publisher, review, state, task, token, translation,
    upload, user, vendor_webhook, version, version_list, video, webhook_secret,
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

/// Returns all routes.
fn table() -> Vec<ApiEndpoint> {
    [
        service_routes(),
        account_routes(),
        audit_routes(),
        registry_routes(),
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
        ApiEndpoint::new(get(), "/health", NoBody, health::health),
        ApiEndpoint::new(get(), "/ready", NoBody, health::ready),
        ApiEndpoint::new(get(), "/metrics", NoBody, metrics::show),
        ApiEndpoint::new(get(), "/.well-known/webhook-key", NoBody, health::webhook_key),
        ApiEndpoint::new(get(), "/openapi.json", NoBody, openapi::show),
        ApiEndpoint::new(get(), "/openapi", NoBody, openapi::show),
        ApiEndpoint::new(get(), "/models", NoBody, models::list),
        ApiEndpoint::new(get(), "/media/{file}", NoBody, media::file),
        ApiEndpoint::new(post(), "/files", InputForm, input_file::create),
        ApiEndpoint::new(put(), "/uploads/files/{fileTicket}", InputFile, input_file::receive),
        ApiEndpoint::new(get(), "/files/{fileId}", NoBody, input_file::show),
    ]
}

#[rustfmt::skip]
fn account_routes() -> Vec<ApiEndpoint> {
    vec![
        ApiEndpoint::new(get(), "/users", NoBody, user::show_own),
        ApiEndpoint::new(delete(), "/users", NoBody, erase::erase_own),
        ApiEndpoint::new(get(), "/users/credits", NoBody, credits::show),
        ApiEndpoint::new(get(), "/users/publishers", NoBody, publisher::list_own),
        ApiEndpoint::new(post(), "/users/webhook-secret", Json, webhook_secret::rotate),
        ApiEndpoint::new(delete(), "/users/webhook-secret", NoBody, webhook_secret::revoke),
        ApiEndpoint::new(get(), "/admin/users", NoBody, admin::list_users),
        ApiEndpoint::new(post(), "/admin/users", Json, admin::create_user),
        ApiEndpoint::new(put(), "/admin/users/{userId}", Json, admin::update_user),
        ApiEndpoint::new(delete(), "/admin/users/{userId}", NoBody, erase::erase_user),
        ApiEndpoint::new(get(), "/admin/users/{userId}/tokens", NoBody, admin::list_tokens),
        ApiEndpoint::new(post(), "/admin/users/{userId}/tokens", Json, admin::issue_token),
        ApiEndpoint::new(delete(), "/admin/users/{userId}/tokens/{tokenId}", NoBody, admin::revoke_token),
        ApiEndpoint::new(post(), "/admin/users/{userId}/ban", Json, admin::ban_user),
        ApiEndpoint::new(post(), "/admin/users/{userId}/unban", Json, admin::unban_user),
        ApiEndpoint::new(post(), "/admin/publishers/{publisherId}/ban", Json, admin::ban_publisher),
        ApiEndpoint::new(post(), "/admin/publishers/{publisherId}/unban", Json, admin::unban_publisher),
        ApiEndpoint::new(post(), "/admin/nodes/{nodeId}/ban", Json, admin::ban_node),
        ApiEndpoint::new(post(), "/admin/nodes/{nodeId}/unban", Json, admin::unban_node),
    ]
}

#[rustfmt::skip]
fn audit_routes() -> Vec<ApiEndpoint> {
    vec![
        ApiEndpoint::new(get(), "/admin/checkpoint", NoBody, checkpoint::checkpoint),
        ApiEndpoint::new(get(), "/admin/events", NoBody, audit::events),
        ApiEndpoint::new(get(), "/admin/events/stream", NoBody, audit_stream::stream),
        ApiEndpoint::new(get(), "/admin/history/{kind}/{id}", NoBody, audit::history),
        ApiEndpoint::new(get(), "/admin/as-of/{kind}/{id}", NoBody, audit::as_of),
        ApiEndpoint::new(get(), "/admin/diff", NoBody, audit::diff),
        ApiEndpoint::new(get(), "/admin/state", NoBody, state::show),
    ]
}

#[rustfmt::skip]
fn registry_routes() -> Vec<ApiEndpoint> {
    vec![
        ApiEndpoint::new(get(), "/publishers", NoBody, publisher::list),
        ApiEndpoint::new(post(), "/publishers", Json, publisher::create),
        ApiEndpoint::new(get(), "/publishers/validate", NoBody, publisher::validate),
        ApiEndpoint::new(get(), "/publishers/{publisherId}", NoBody, publisher::show),
        ApiEndpoint::new(put(), "/publishers/{publisherId}", Json, publisher::update),
        ApiEndpoint::new(delete(), "/publishers/{publisherId}", NoBody, publisher::delete),
        ApiEndpoint::new(get(), "/publishers/{publisherId}/permissions", NoBody, publisher::permissions),
        ApiEndpoint::new(put(), "/publishers/{publisherId}/members/{userId}", Json, member::set),
        ApiEndpoint::new(delete(), "/publishers/{publisherId}/members/{userId}", NoBody, member::remove),
        ApiEndpoint::new(get(), "/publishers/{publisherId}/tokens", NoBody, token::list),
        ApiEndpoint::new(post(), "/publishers/{publisherId}/tokens", Json, token::issue),
        ApiEndpoint::new(delete(), "/publishers/{publisherId}/tokens/{tokenId}", NoBody, token::revoke),
        ApiEndpoint::new(get(), "/publishers/{publisherId}/nodes", NoBody, node::list_of_publisher),
        ApiEndpoint::new(post(), "/publishers/{publisherId}/nodes", Json, node_change::create),
        ApiEndpoint::new(put(), "/publishers/{publisherId}/nodes/{nodeId}", Json, node_change::update),
        ApiEndpoint::new(delete(), "/publishers/{publisherId}/nodes/{nodeId}", NoBody, node_change::delete),
        ApiEndpoint::new(get(), "/publishers/{publisherId}/nodes/{nodeId}/permissions", NoBody, node_change::permissions),
        ApiEndpoint::new(post(), "/publishers/{publisherId}/nodes/{nodeId}/versions", Json, version::publish),
        ApiEndpoint::new(put(), "/publishers/{publisherId}/nodes/{nodeId}/versions/{versionId}", Json, version::revise),
        ApiEndpoint::new(post(), "/publishers/{publisherId}/nodes/{nodeId}/versions/{versionId}/upload", Json, upload::renew),
        ApiEndpoint::new(put(), "/uploads/{ticket}", Archive, upload::receive),
        ApiEndpoint::new(delete(), "/publishers/{publisherId}/nodes/{nodeId}/versions/{versionId}", NoBody, version::delete),

        ApiEndpoint::new(get(), "/nodes", NoBody, node::list),
        ApiEndpoint::new(get(), "/nodes/search", NoBody, node::search),
        ApiEndpoint::new(get(), "/nodes/{nodeId}", NoBody, node::show),
        ApiEndpoint::new(get(), "/nodes/{nodeId}/versions", NoBody, version_list::list_of_node),
        ApiEndpoint::new(get(), "/nodes/{nodeId}/versions/{version}", NoBody, version_list::show),
        ApiEndpoint::new(get(), "/nodes/{nodeId}/versions/{version}/download", NoBody, install::download),
        ApiEndpoint::new(get(), "/nodes/{nodeId}/install", NoBody, install::install),
        ApiEndpoint::new(get(), "/versions", NoBody, version_list::list_all),
        ApiEndpoint::new(post(), "/nodes/{nodeId}/reviews", Json, review::submit),
        ApiEndpoint::new(get(), "/nodes/{nodeId}/reviews/mine", NoBody, review::show_own),
        ApiEndpoint::new(post(), "/nodes/{nodeId}/translations", Json, translation::merge),
        ApiEndpoint::new(put(), "/admin/nodes/{nodeId}", Json, moderation::node),
        ApiEndpoint::new(put(), "/admin/nodes/{nodeId}/versions/{version}", Json, moderation::version),
        ApiEndpoint::new(post(), "/bulk/nodes/versions", Json, bulk::look_up),
    ]
}

#[rustfmt::skip]
fn image_routes() -> Vec<ApiEndpoint> {
    vec![
        ApiEndpoint::new(get(), "/tasks", NoBody, task::list),
        ApiEndpoint::new(get(), "/tasks/{task_id}", NoBody, task::show),
        ApiEndpoint::new(get(), "/tasks/{task_id}/events", NoBody, task::stream),
        ApiEndpoint::new(post(), "/tasks/{task_id}/cancel", Json, task::cancel),
        ApiEndpoint::new(get(), "/tasks/{task_id}/deliveries", NoBody, delivery::list),
        ApiEndpoint::new(post(), "/deliveries/{delivery_id}/redeliver", Json, delivery::redeliver),
        ApiEndpoint::new(post(), "/vendor-webhooks/{vendor_ticket}", Json, vendor_webhook::receive),
        ApiEndpoint::new(post(), FORMER_VENDOR_WEBHOOK, Json, vendor_webhook::receive),

        ApiEndpoint::new(post(), "/proxy/imagevendor/v1/ai/image-upscaler", Images, image::upscale),
        ApiEndpoint::new(get(), "/proxy/imagevendor/v1/ai/image-upscaler/{task_id}", NoBody, image::show_upscale),
        ApiEndpoint::new(post(), "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2", Images, image::upscale_precisely),
        ApiEndpoint::new(get(), "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2/{task_id}", NoBody, image::show_upscale),
        ApiEndpoint::new(post(), "/proxy/imagevendor/v1/ai/image-style-transfer", Images, image::transfer_style),
        ApiEndpoint::new(get(), "/proxy/imagevendor/v1/ai/image-style-transfer/{task_id}", NoBody, image::show_style_transfer),
        ApiEndpoint::new(post(), "/proxy/imagevendor/v1/ai/skin-enhancer/creative", Images, image::enhance_skin_creatively),
        ApiEndpoint::new(post(), "/proxy/imagevendor/v1/ai/skin-enhancer/faithful", Images, image::enhance_skin_faithfully),
        ApiEndpoint::new(post(), "/proxy/imagevendor/v1/ai/skin-enhancer/flexible", Images, image::enhance_skin_flexibly),
        ApiEndpoint::new(get(), "/proxy/imagevendor/v1/ai/skin-enhancer/{task_id}", NoBody, image::show_skin_enhancer),
        ApiEndpoint::new(post(), "/proxy/imagevendor/v1/ai/image-relight", Images, image::relight),
        ApiEndpoint::new(get(), "/proxy/imagevendor/v1/ai/image-relight/{task_id}", NoBody, image::show_relight),
    ]
}

#[rustfmt::skip]
fn video_routes() -> Vec<ApiEndpoint> {
    vec![
        ApiEndpoint::new(post(), "/proxy/videovendor/start-end2video", Images, video::start_end),
        ApiEndpoint::new(post(), "/proxy/videovendor/reference2video", Images, video::reference),
        ApiEndpoint::new(post(), "/proxy/videovendor/extend", Images, video::extend),
        ApiEndpoint::new(post(), "/proxy/videovendor/multiframe", Images, video::multiframe),
        ApiEndpoint::new(get(), "/proxy/videovendor/tasks/{task_id}/creations", NoBody, video::creations),
        ApiEndpoint::new(post(), "/proxy/videovendor/tasks/{task_id}/cancel", Json, video::cancel),
    ]
}

fn music_routes() -> Vec<ApiEndpoint> {
    vec![ApiEndpoint::new(post(), "/proxy/musicvendor/t2m/generate", Form, music::generate)]
}

/// Public view of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteInfo {
    pub method: Method,
    pub path: &'static str,
    pub action: Action,
    pub(in crate::http) body_limit: BodyLimit,
}

/// Returns all documented routes.
#[must_use]
pub fn route_infos() -> Vec<RouteInfo> {
    let row = |ApiEndpoint { method, path, action, body_limit, .. }| RouteInfo { method, path, action, body_limit };
    table().into_iter().filter(|endpoint| endpoint.path != FORMER_VENDOR_WEBHOOK).map(row).collect()
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
        let page = console::respond(&request).map(|page| rate_limit_page(page, &request, shared));
        let page = page.map(|page| ready(page).boxed_local());
        return page
            .unwrap_or_else(|| respond_with(Problem::unknown_path(method, &similar_paths(router, path, method))));
    };

    if let Some(route) = endpoints.routes.iter().find(|route| methods_of(route).contains(method)) {
        return Rc::clone(route).serve(RoutedRequest { request, shared: shared.clone(), path_params }, payload);
    }

    // The last segment may be a misspelt literal rather than an id, if sibling paths have the method: suggest those.
    let (parent, last) = path.rsplit_once('/').map_or((None, path), |(parent, last)| (Some(parent), last));
    let has_same_parent = |other: &&str| other.rsplit_once('/').map(|(parent, _)| parent) == parent;
    let siblings: Vec<&str> = similar_paths(router, path, method).into_iter().filter(has_same_parent).collect();
    let is_misspelt =
        uuid::Uuid::try_parse(last).is_err() && endpoints.routes.iter().any(|route| route.path.ends_with('}'));

    respond_with(if is_misspelt && !siblings.is_empty() {
        Problem::unknown_path(method, &siblings)
    } else {
        Problem::method_not_allowed(&endpoints.allow)
    })
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
    static READING: [Method; 2] = [Method::GET, Method::HEAD];
    static WRITING: [Method; 3] = [Method::POST, Method::PUT, Method::DELETE];

    if route.method == Method::GET {
        return &READING;
    }

    let index = WRITING.iter().position(|method| *method == route.method);
    index.map_or(&[], |at| &WRITING[at..=at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_there_once_and_answers_a_method() {
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
