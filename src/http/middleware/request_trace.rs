//! Trace span of a request.

use actix_web::Error;
use actix_web::HttpMessage;
use actix_web::body::BoxBody;
use actix_web::dev::ServiceResponse;
use actix_web::http::header::{HeaderMap, HeaderName};

use crate::domain::ids::RequestId;
use crate::http::middleware::request_log::{caller_kind, matched_route, redact_path};
use crate::telemetry::trace::{AttributeValue, Span, Tracer};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Begins the span of a request, within the client's trace if it sends `traceparent`; `None` if the request is not
/// traced.
#[must_use]
pub fn start_span(tracer: &Tracer, headers: &HeaderMap) -> Option<Span> {
    if !tracer.is_enabled() {
        return None;
    }
    tracer.start_request_span(headers.get(TRACEPARENT).and_then(|value| value.to_str().ok()))
}

/// Runs the request within its span and records the result. A disconnect ends the span too.
///
/// # Errors
/// Errors of `work`.
pub async fn run_in_span(
    mut span: Span,
    work: impl Future<Output = Result<ServiceResponse<BoxBody>, Error>>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let result = span.instrument(work).await;
    if let Ok(response) = &result {
        record_response(&mut span, response);
    }
    result
}

fn record_response(span: &mut Span, response: &ServiceResponse<BoxBody>) {
    let request = response.request();
    let status = response.status().as_u16();
    let method = request.method();
    let route = matched_route(request);

    span.rename(format!("{method} {}", route.unwrap_or("unmatched")));
    let mut set_text = |name, text: &str| span.set_attribute(name, AttributeValue::Text(text.to_owned()));
    set_text("http.request.method", method.as_str());
    set_text("url.path", redact_path(request.uri().path()));
    if let Some(route) = route {
        set_text("http.route", route);
    }
    if let Some(id) = request.extensions().get::<RequestId>() {
        set_text("mediary.request_id", id.as_str());
    }
    set_text("mediary.caller", caller_kind(request));
    span.set_attribute("http.response.status_code", AttributeValue::Number(status.into()));
    if status >= 500 {
        span.set_failure(status.to_string());
    }
}
