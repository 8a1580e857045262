//! The middleware around the routes, outermost first: request log, preflight check, compression, CORS, CSRF check.

use std::sync::Arc;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::middleware::{Compress, Next, from_fn};
use actix_web::web::Data;
use actix_web::{App, Error};

use crate::http::middleware::cors::cors;
use crate::http::middleware::csrf::OriginPolicy;
use crate::http::middleware::request_log;
use crate::http::response::error::Problem;
use crate::http::routes;
use crate::http::server::AppState;

/// Creates the application: the routes inside of the middleware.
pub fn application(
    shared: &Data<AppState>,
    origins: &Arc<OriginPolicy>,
) -> App<
    impl ServiceFactory<ServiceRequest, Config = (), Response = ServiceResponse<BoxBody>, Error = Error, InitError = ()>
    + use<>,
> {
    let csrf_state = (shared.clone(), Arc::clone(origins));
    // CORS is outside of the CSRF check, so that pages that may read can read the error of the check.
    let csrf = from_fn(move |request, next| reject_cross_origin_write(csrf_state.clone(), request, next));
    let log_state = (shared.clone(), Arc::clone(origins));
    let log = from_fn(move |request, next| log_request(log_state.clone(), request, next));

    App::new()
        .configure(|config| routes::register(config, shared.clone()))
        .wrap(csrf)
        .wrap(cors(origins.cors_origins()))
        .wrap(Compress::default())
        .wrap(log)
}

type MiddlewareState = (Data<AppState>, Arc<OriginPolicy>);

async fn reject_cross_origin_write(
    (shared, origins): MiddlewareState,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    match origins.reject_write(request.method(), request.headers()) {
        Some(problem) => Ok(reject(&shared, request, &problem)),
        None => next.call(request).await,
    }
}

async fn log_request(
    (shared, origins): MiddlewareState,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let respond = async |request: ServiceRequest| {
        if let Some(problem) = origins.reject_preflight(request.method(), request.headers()) {
            return Ok(reject(&shared, request, &problem));
        }
        next.call(request).await.map(ServiceResponse::map_into_boxed_body)
    };
    request_log::with_request_log(shared.clone(), request, respond).await
}

fn reject(shared: &AppState, request: ServiceRequest, problem: &Problem) -> ServiceResponse<BoxBody> {
    shared.services.metrics.count_unmatched(problem.code().status());
    let response = problem.to_response(request.path());
    request.into_response(response)
}
