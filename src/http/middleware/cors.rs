//! Cross-origin resource sharing: the origins, methods and headers for pages of other origins.

use actix_cors::Cors;
use actix_web::http::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_DISPOSITION, CONTENT_RANGE, DATE, ETAG, HeaderName, LINK, LOCATION, RETRY_AFTER,
    WWW_AUTHENTICATE,
};

use crate::http::api::music::X_TASK_ID;
use crate::http::api::node::X_TOTAL_COUNT;
use crate::http::idempotency::IDEMPOTENT_REPLAYED;
use crate::http::limits::rate_limit::{RATE_LIMIT, RATE_LIMIT_POLICY};
use crate::http::middleware::csrf::{ALL_METHODS, READ_METHODS};
use crate::http::middleware::request_log::X_REQUEST_ID;
use crate::http::request::log_position::X_LOG_POSITION;
use crate::http::request::prefer_wait::PREFERENCE_APPLIED;
use crate::http::server::CorsOrigins;

/// Response headers readable by pages of other origins.
const EXPOSED_HEADERS: [HeaderName; 18] = [
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
    X_LOG_POSITION,
    RATE_LIMIT,
    RATE_LIMIT_POLICY,
];

/// Time for which browsers may cache the result of a preflight request, in seconds.
const PREFLIGHT_MAX_AGE_SECONDS: usize = 3600;

/// Creates the CORS middleware that admits pages of `origins`.
pub fn cors(origins: &CorsOrigins) -> Cors {
    let cors = Cors::default().allow_any_header().expose_headers(EXPOSED_HEADERS).max_age(PREFLIGHT_MAX_AGE_SECONDS);
    match origins {
        CorsOrigins::Any => cors.allow_any_origin().send_wildcard().allowed_methods(READ_METHODS),
        CorsOrigins::Only(origins) => {
            let cors = origins.iter().fold(cors, |cors, origin| cors.allowed_origin(origin));
            cors.allowed_methods(ALL_METHODS)
        }
    }
}
