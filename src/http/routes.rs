//! Route table: every path of the API with its method, action and handler. Other paths may be files of the `console`.
//!
//! The action of a route is part of its handler's signature, so the two cannot differ. A test walks [`rows`] and fails
//! for a route with unknown permissions.

use std::future::ready;
use std::rc::Rc;

use actix_web::dev::{Payload, ServiceRequest, ServiceResponse, fn_service};
use actix_web::http::Method;
use actix_web::web::{Data, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use super::authorize::Identity;
use super::body::BodyLimit::{self, Archive, Form, Images, Json, None as NoBody};
use super::error::Problem;
use super::gate::{Asking, Route};
use super::limits::{self, Kind};
use super::paths::Paths;
use super::server::Shared;
use super::{
    admin, audit, audit_stream, bulk, checkpoint, console, credits, delivery, erase, health, hint, image, install,
    media, member, metrics, moderation, music, node, node_change, openapi, publisher, review, state, task, token,
    translation, upload, user, version, version_list, video, webhook_secret,
};
use crate::domain::policy::Action;

/// Returns all routes.
fn table() -> Vec<Route> {
    [service(), people(), questions(), registry(), images(), videos(), music_gateway()].into_iter().flatten().collect()
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
fn service() -> Vec<Route> {
    vec![
        Route::new(get(), "/health", NoBody, health::health),
        Route::new(get(), "/ready", NoBody, health::ready),
        Route::new(get(), "/metrics", NoBody, metrics::show),
        Route::new(get(), "/.well-known/webhook-key", NoBody, health::webhook_key),
        Route::new(get(), "/openapi.json", NoBody, openapi::show),
        Route::new(get(), "/openapi", NoBody, openapi::show),
        Route::new(get(), "/media/{file}", NoBody, media::file),
    ]
}

#[rustfmt::skip]
fn people() -> Vec<Route> {
    vec![
        Route::new(get(), "/users", NoBody, user::own),
        Route::new(delete(), "/users", NoBody, erase::erase_own),
        Route::new(get(), "/users/credits", NoBody, credits::show),
        Route::new(get(), "/users/publishers", NoBody, publisher::list_own),
        Route::new(post(), "/users/webhook-secret", Json, webhook_secret::rotate),
        Route::new(delete(), "/users/webhook-secret", NoBody, webhook_secret::revoke),
        Route::new(get(), "/admin/users", NoBody, admin::list_users),
        Route::new(post(), "/admin/users", Json, admin::create_user),
        Route::new(put(), "/admin/users/{user_id}", Json, admin::update_user),
        Route::new(delete(), "/admin/users/{user_id}", NoBody, erase::erase_user),
        Route::new(get(), "/admin/users/{user_id}/tokens", NoBody, admin::list_tokens),
        Route::new(post(), "/admin/users/{user_id}/tokens", Json, admin::issue_token),
        Route::new(delete(), "/admin/users/{user_id}/tokens/{token_id}", NoBody, admin::revoke_token),
        Route::new(post(), "/admin/users/{user_id}/ban", Json, admin::ban_user),
        Route::new(post(), "/admin/users/{user_id}/unban", Json, admin::unban_user),
        Route::new(post(), "/admin/publishers/{publisher_id}/ban", Json, admin::ban_publisher),
        Route::new(post(), "/admin/publishers/{publisher_id}/unban", Json, admin::unban_publisher),
        Route::new(post(), "/admin/nodes/{node_id}/ban", Json, admin::ban_node),
        Route::new(post(), "/admin/nodes/{node_id}/unban", Json, admin::unban_node),
    ]
}

#[rustfmt::skip]
fn questions() -> Vec<Route> {
    vec![
        Route::new(get(), "/admin/checkpoint", NoBody, checkpoint::checkpoint),
        Route::new(get(), "/admin/events", NoBody, audit::events),
        Route::new(get(), "/admin/events/stream", NoBody, audit_stream::stream),
        Route::new(get(), "/admin/history/{kind}/{id}", NoBody, audit::history),
        Route::new(get(), "/admin/as-of/{kind}/{id}", NoBody, audit::as_of),
        Route::new(get(), "/admin/diff", NoBody, audit::diff),
        Route::new(get(), "/admin/state", NoBody, state::show),
    ]
}

#[rustfmt::skip]
fn registry() -> Vec<Route> {
    vec![
        Route::new(get(), "/publishers", NoBody, publisher::list),
        Route::new(post(), "/publishers", Json, publisher::create),
        Route::new(get(), "/publishers/validate", NoBody, publisher::validate),
        Route::new(get(), "/publishers/{publisher_id}", NoBody, publisher::show),
        Route::new(put(), "/publishers/{publisher_id}", Json, publisher::update),
        Route::new(delete(), "/publishers/{publisher_id}", NoBody, publisher::delete),
        Route::new(get(), "/publishers/{publisher_id}/permissions", NoBody, publisher::permissions),
        Route::new(put(), "/publishers/{publisher_id}/members/{user_id}", Json, member::set),
        Route::new(delete(), "/publishers/{publisher_id}/members/{user_id}", NoBody, member::remove),
        Route::new(get(), "/publishers/{publisher_id}/tokens", NoBody, token::list),
        Route::new(post(), "/publishers/{publisher_id}/tokens", Json, token::issue),
        Route::new(delete(), "/publishers/{publisher_id}/tokens/{token_id}", NoBody, token::revoke),
        Route::new(get(), "/publishers/{publisher_id}/nodes", NoBody, node::list_of_publisher),
        Route::new(post(), "/publishers/{publisher_id}/nodes", Json, node_change::create),
        Route::new(put(), "/publishers/{publisher_id}/nodes/{node_id}", Json, node_change::update),
        Route::new(delete(), "/publishers/{publisher_id}/nodes/{node_id}", NoBody, node_change::delete),
        Route::new(get(), "/publishers/{publisher_id}/nodes/{node_id}/permissions", NoBody, node_change::permissions),
        Route::new(post(), "/publishers/{publisher_id}/nodes/{node_id}/versions", Json, version::publish),
        Route::new(put(), "/publishers/{publisher_id}/nodes/{node_id}/versions/{version_id}", Json, version::revise),
        Route::new(post(), "/publishers/{publisher_id}/nodes/{node_id}/versions/{version_id}/upload", Json, upload::renew),
        Route::new(put(), "/uploads/{ticket}", Archive, upload::receive),
        Route::new(delete(), "/publishers/{publisher_id}/nodes/{node_id}/versions/{version_id}", NoBody, version::delete),

        Route::new(get(), "/nodes", NoBody, node::list),
        Route::new(get(), "/nodes/search", NoBody, node::search),
        Route::new(get(), "/nodes/{node_id}", NoBody, node::show),
        Route::new(get(), "/nodes/{node_id}/versions", NoBody, version_list::of_node),
        Route::new(get(), "/nodes/{node_id}/versions/{version}", NoBody, version_list::show),
        Route::new(get(), "/nodes/{node_id}/versions/{version}/download", NoBody, install::download),
        Route::new(get(), "/nodes/{node_id}/install", NoBody, install::install),
        Route::new(get(), "/versions", NoBody, version_list::all),
        Route::new(post(), "/nodes/{node_id}/reviews", Json, review::give),
        Route::new(get(), "/nodes/{node_id}/reviews/mine", NoBody, review::own),
        Route::new(post(), "/nodes/{node_id}/translations", Json, translation::merge),
        Route::new(put(), "/admin/nodes/{node_id}", Json, moderation::node),
        Route::new(put(), "/admin/nodes/{node_id}/versions/{version}", Json, moderation::version),
        Route::new(post(), "/bulk/nodes/versions", Json, bulk::look_up),
    ]
}

#[rustfmt::skip]
fn images() -> Vec<Route> {
    vec![
        Route::new(get(), "/tasks", NoBody, task::list),
        Route::new(get(), "/tasks/{task_id}", NoBody, task::show),
        Route::new(get(), "/tasks/{task_id}/events", NoBody, task::stream),
        Route::new(post(), "/tasks/{task_id}/cancel", Json, task::cancel),
        Route::new(get(), "/tasks/{task_id}/deliveries", NoBody, delivery::list),
        Route::new(post(), "/deliveries/{delivery_id}/redeliver", Json, delivery::redeliver),
        Route::new(post(), "/hints/{hint}", Json, hint::take),

        Route::new(post(), "/proxy/imagevendor/v1/ai/image-upscaler", Images, image::upscale),
        Route::new(get(), "/proxy/imagevendor/v1/ai/image-upscaler/{task_id}", NoBody, image::show_upscale),
        Route::new(post(), "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2", Images, image::upscale_precisely),
        Route::new(get(), "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2/{task_id}", NoBody, image::show_upscale),
        Route::new(post(), "/proxy/imagevendor/v1/ai/image-style-transfer", Images, image::transfer_style),
        Route::new(get(), "/proxy/imagevendor/v1/ai/image-style-transfer/{task_id}", NoBody, image::show_style),
        Route::new(post(), "/proxy/imagevendor/v1/ai/skin-enhancer/creative", Images, image::enhance_skin_creatively),
        Route::new(post(), "/proxy/imagevendor/v1/ai/skin-enhancer/faithful", Images, image::enhance_skin_faithfully),
        Route::new(post(), "/proxy/imagevendor/v1/ai/skin-enhancer/flexible", Images, image::enhance_skin_flexibly),
        Route::new(get(), "/proxy/imagevendor/v1/ai/skin-enhancer/{task_id}", NoBody, image::show_skin),
        Route::new(post(), "/proxy/imagevendor/v1/ai/image-relight", Images, image::relight),
        Route::new(get(), "/proxy/imagevendor/v1/ai/image-relight/{task_id}", NoBody, image::show_relight),
    ]
}

#[rustfmt::skip]
fn videos() -> Vec<Route> {
    vec![
        Route::new(post(), "/proxy/videovendor/start-end2video", Images, video::start_end),
        Route::new(post(), "/proxy/videovendor/reference2video", Images, video::reference),
        Route::new(post(), "/proxy/videovendor/extend", Images, video::extend),
        Route::new(post(), "/proxy/videovendor/multiframe", Images, video::multiframe),
        Route::new(get(), "/proxy/videovendor/tasks/{task_id}/creations", NoBody, video::creations),
        Route::new(post(), "/proxy/videovendor/tasks/{task_id}/cancel", Json, video::cancel),
    ]
}

fn music_gateway() -> Vec<Route> {
    vec![Route::new(post(), "/proxy/musicvendor/t2m/generate", Form, music::generate)]
}

/// Public view of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub method: Method,
    pub path: &'static str,
    pub action: Action,
    pub(super) limit: BodyLimit,
}

/// Returns all routes.
#[must_use]
pub fn rows() -> Vec<Row> {
    let row = |Route { method, path, action, limit, .. }| Row { method, path, action, limit };
    table().into_iter().map(row).collect()
}

/// Registers all routes. An unknown method of a path is a 405 with `Allow`, an unknown path a 404.
///
/// The framework's own router is not used: it tries one pattern after the other.
pub fn register(config: &mut ServiceConfig, shared: Data<Shared>) {
    let paths = Rc::new(places());
    config.default_service(fn_service(move |request: ServiceRequest| {
        let (request, payload) = request.into_parts();
        let answer = answer(&paths, &shared, request.clone(), payload);
        async move { Ok(ServiceResponse::new(request, answer.await)) }
    }));
}

/// Routes of one path.
struct Served {
    routes: Vec<Rc<Route>>,
    /// Value of `Allow`.
    allow: String,
}

fn places() -> Paths<Served> {
    let mut paths = Paths::new();
    for route in table() {
        let served = paths.entry(route.path, || Served { routes: Vec::new(), allow: String::new() });
        for method in methods_of(&route) {
            let comma = if served.allow.is_empty() { "" } else { ", " };
            served.allow.extend([comma, method.as_str()]);
        }
        served.routes.push(Rc::new(route));
    }
    paths
}

fn answer(
    paths: &Paths<Served>,
    shared: &Data<Shared>,
    request: HttpRequest,
    payload: Payload,
) -> LocalBoxFuture<'static, HttpResponse> {
    let at_once = |problem: Problem| {
        shared.services.metrics.unmatched(problem.code().status());
        ready(problem.respond(request.path())).boxed_local()
    };

    let path = request.match_info().unprocessed();
    let method = request.method();
    let Some((served, segments)) = paths.find(path) else {
        let page = console::answer(&request).map(|page| limited(page, &request, shared));
        let page = page.map(|page| ready(page).boxed_local());
        return page.unwrap_or_else(|| at_once(Problem::no_such_path(method, &near(paths, path, method))));
    };

    if let Some(route) = served.routes.iter().find(|route| methods_of(route).contains(method)) {
        return Rc::clone(route).answer(Asking { request, shared: shared.clone(), segments }, payload);
    }

    // The last segment may be a misspelt literal rather than an id, if sibling paths have the method: suggest those.
    let (parent, last) = path.rsplit_once('/').map_or((None, path), |(parent, last)| (Some(parent), last));
    let is_meant = |other: &&str| other.rsplit_once('/').map(|(parent, _)| parent) == parent;
    let meant: Vec<&str> = near(paths, path, method).into_iter().filter(is_meant).collect();
    let misspelt = uuid::Uuid::try_parse(last).is_err() && served.routes.iter().any(|route| route.path.ends_with('}'));

    at_once(if misspelt && !meant.is_empty() {
        Problem::no_such_path(method, &meant)
    } else {
        Problem::method_not_allowed(&served.allow)
    })
}

/// Applies the read limit to the API reference page; the files it loads are not limited.
fn limited(page: HttpResponse, request: &HttpRequest, shared: &Shared) -> HttpResponse {
    if request.path() != console::REFERENCE_AT || shared.limits.are_off() {
        return page;
    }

    let now = shared.services.surroundings.now();
    let counted = shared.limits.count(Some(Kind::Reading), &Identity::Anonymous, request, now);
    let mut answer = counted.map_or_else(|problem| problem.respond(request.path()), |()| page);
    limits::tell(request, &mut answer);
    answer
}

/// Returns the paths with this method and the same literal prefix, sorted.
fn near(paths: &Paths<Served>, path: &str, method: &Method) -> Vec<&'static str> {
    let routes = paths.near(path).into_iter().flat_map(|served| &served.routes);
    let mut near: Vec<_> = routes.filter(|route| methods_of(route).contains(method)).map(|route| route.path).collect();
    near.sort_unstable();
    near
}

/// Returns the methods of a route: GET implies HEAD.
fn methods_of(route: &Route) -> &'static [Method] {
    static READING: [Method; 2] = [Method::GET, Method::HEAD];
    static WRITING: [Method; 3] = [Method::POST, Method::PUT, Method::DELETE];

    if route.method == Method::GET {
        return &READING;
    }

    let at = WRITING.iter().position(|method| *method == route.method);
    at.map_or(&[], |at| &WRITING[at..=at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_there_once_and_answers_a_method() {
        let table = table();
        for route in &table {
            assert!(!methods_of(route).is_empty(), "{} {}", route.method, route.path);
            let same = |other: &&Route| other.path == route.path && other.method == route.method;
            assert_eq!(table.iter().filter(same).count(), 1, "{} {}", route.method, route.path);
        }
    }

    #[test]
    fn routes_take_a_body_unless_they_read_or_delete() {
        for route in table() {
            let bare = [Method::GET, Method::DELETE].contains(&route.method);
            assert_eq!(bare, route.limit == NoBody, "{} {}", route.method, route.path);
        }
    }
}
