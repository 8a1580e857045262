//! Outermost middleware, with a fast path: requests without `Origin`, `Accept-Encoding` and `Sec-Fetch-Site` skip
//! CORS, the CSRF check and compression. This module adds the CORS headers itself.

use std::rc::Rc;
use std::sync::Arc;

use actix_cors::Cors;
use actix_web::Error;
use actix_web::body::BoxBody;
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform, forward_ready};
use actix_web::http::Method;
use actix_web::http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, ACCESS_CONTROL_EXPOSE_HEADERS, ALLOW, CONTENT_DISPOSITION, CONTENT_RANGE, DATE,
    ETAG, HeaderMap, HeaderName, HeaderValue, LINK, LOCATION, ORIGIN, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
};
use actix_web::middleware::Compress;
use actix_web::web::Data;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use crate::http::api::music::X_TASK_ID;
use crate::http::api::node::X_TOTAL_COUNT;
use crate::http::idempotency::IDEMPOTENT_REPLAYED;
use crate::http::limits::rate_limit::{RATE_LIMIT, RATE_LIMIT_POLICY};
use crate::http::middleware::csrf::{ALL_METHODS, CsrfProtection, OriginPolicy, READ_METHODS, SEC_FETCH_SITE};
use crate::http::middleware::request_log::{self, X_REQUEST_ID};
use crate::http::request::prefer_wait::PREFERENCE_APPLIED;
use crate::http::server::{AppState, CorsOrigins};

/// Response headers readable by pages of other origins.
const EXPOSED_HEADERS: [HeaderName; 17] = [
    DATE,
    ALLOW,
    ETAG,
    LINK,
    LOCATION,
    RETRY_AFTER,
    WWW_AUTHENTICATE,
    ACCEPT_RANGES,
    CONTENT_RANGE,
    CONTENT_DISPOSITION,
    X_REQUEST_ID,
    X_TOTAL_COUNT,
    IDEMPOTENT_REPLAYED,
    PREFERENCE_APPLIED,
    X_TASK_ID,
    RATE_LIMIT,
    RATE_LIMIT_POLICY,
];

/// `Vary` of every response, because of CORS.
const VARY_BY_ORIGIN: &str = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers";
/// `Vary` of responses that depend on the caller.
const VARY_BY_CALLER: &str =
    "authorization, x-api-key, Origin, Access-Control-Request-Method, Access-Control-Request-Headers";

/// Middleware factory.
pub struct MiddlewareStack {
    pub shared: Data<AppState>,
    pub origins: Arc<OriginPolicy>,
}

type CorsService<S> = <Cors as Transform<CsrfProtection<S>, ServiceRequest>>::Transform;
type FullStackService<S> = <Compress as Transform<CorsService<S>, ServiceRequest>>::Transform;

impl<S> Transform<S, ServiceRequest> for MiddlewareStack
where
    S: Service<ServiceRequest, Response = ServiceResponse<BoxBody>, Error = Error> + 'static,
    S::Future: 'static,
{
    type Response = ServiceResponse<BoxBody>;
    type Error = Error;
    type Transform = MiddlewareService<S>;
    type InitError = ();
    type Future = LocalBoxFuture<'static, Result<Self::Transform, ()>>;

    fn new_transform(&self, service: S) -> Self::Future {
        let shared = self.shared.clone();
        let origins = Arc::clone(&self.origins);
        let inner = Rc::new(service);
        let metrics = shared.services.metrics.clone();
        let csrf = CsrfProtection { origins: Arc::clone(&origins), metrics, inner: Rc::clone(&inner) };
        let with_cors = cors(origins.cors_origins()).new_transform(csrf);

        async move {
            let full_stack = Compress::default().new_transform(with_cors.await?).await?;
            let exposed_headers = EXPOSED_HEADERS.map(|name| name.as_str().to_owned()).join(", ");
            let exposed_headers = HeaderValue::try_from(exposed_headers).map_err(drop)?;
            Ok(MiddlewareService {
                shared,
                pages: origins,
                exposed: exposed_headers,
                inner,
                full_stack: Rc::new(full_stack),
            })
        }
        .boxed_local()
    }
}

/// Middleware around the routes.
pub struct MiddlewareService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<BoxBody>, Error = Error> + 'static,
    S::Future: 'static,
{
    shared: Data<AppState>,
    pages: Arc<OriginPolicy>,
    exposed: HeaderValue,
    /// Routes without further middleware.
    inner: Rc<S>,
    /// Routes behind compression, CORS and the CSRF check.
    full_stack: Rc<FullStackService<S>>,
}

impl<S> Service<ServiceRequest> for MiddlewareService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<BoxBody>, Error = Error> + 'static,
    S::Future: 'static,
{
    type Response = ServiceResponse<BoxBody>;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Self::Response, Error>>;

    forward_ready!(inner);

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let shared = self.shared.clone();
        if !skips_middleware(&request) {
            let full_stack = Rc::clone(&self.full_stack);
            let origins = Arc::clone(&self.pages);
            let metrics = shared.services.metrics.clone();
            let respond = async move |request: ServiceRequest| {
                if let Some(problem) = origins.reject_preflight(request.method(), request.headers()) {
                    metrics.count_unmatched(problem.code().status());
                    let response = problem.to_response(request.path());
                    return Ok(request.into_response(response));
                }
                full_stack.call(request).await.map(ServiceResponse::map_into_boxed_body)
            };
            return request_log::with_request_log(shared, request, respond).boxed_local();
        }

        let inner = Rc::clone(&self.inner);
        let exposed_headers = self.exposed.clone();
        let respond = async move |request| {
            let mut response = inner.call(request).await?;
            add_cors_headers(response.headers_mut(), exposed_headers);
            Ok(response)
        };
        request_log::with_request_log(shared, request, respond).boxed_local()
    }
}

/// Returns `true` if CORS, the CSRF check and compression have no effect on the request.
fn skips_middleware(request: &ServiceRequest) -> bool {
    let headers = request.headers();
    let deciding_headers = [ORIGIN, ACCEPT_ENCODING, SEC_FETCH_SITE];
    *request.method() != Method::OPTIONS && !deciding_headers.iter().any(|name| headers.contains_key(name))
}

/// Adds the headers that CORS adds to responses without an origin.
fn add_cors_headers(headers: &mut HeaderMap, exposed_headers: HeaderValue) {
    let vary = match headers.get(VARY).map(HeaderValue::as_bytes) {
        None => Some(HeaderValue::from_static(VARY_BY_ORIGIN)),
        Some(b"authorization, x-api-key") => Some(HeaderValue::from_static(VARY_BY_CALLER)),
        Some(other) => HeaderValue::from_bytes(&[other, b", ", VARY_BY_ORIGIN.as_bytes()].concat()).ok(),
    };
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed_headers);
    if let Some(vary) = vary {
        headers.insert(VARY, vary);
    }
}

fn cors(origins: &CorsOrigins) -> Cors {
    let cors = Cors::default().allow_any_header().expose_headers(EXPOSED_HEADERS).max_age(3600);
    match origins {
        CorsOrigins::Any => cors.allow_any_origin().send_wildcard().allowed_methods(READ_METHODS),
        CorsOrigins::Only(origins) => {
            let cors = origins.iter().fold(cors, |cors, origin| cors.allowed_origin(origin));
            cors.allowed_methods(ALL_METHODS)
        }
    }
}
