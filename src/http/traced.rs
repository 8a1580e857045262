//! Trace span of a request.

use actix_web::Error;
use actix_web::HttpMessage;
use actix_web::body::BoxBody;
use actix_web::dev::ServiceResponse;
use actix_web::http::header::{HeaderMap, HeaderName};

use super::frame::{caller_of, route_of, shown_path};
use crate::domain::ids::RequestId;
use crate::telemetry::trace::{Span, Tracer, Value};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Begins the span of a request, within the client's trace if it sends `traceparent`; `None` if the request is not
/// traced.
#[must_use]
pub fn begin(tracer: &Tracer, headers: &HeaderMap) -> Option<Span> {
    if !tracer.is_on() {
        return None;
    }
    tracer.request(headers.get(TRACEPARENT).and_then(|value| value.to_str().ok()))
}

/// Runs the request within its span and records the result. A disconnect ends the span too.
///
/// # Errors
/// Errors of `work`.
pub async fn within(
    mut span: Span,
    work: impl Future<Output = Result<ServiceResponse<BoxBody>, Error>>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let answered = span.within(work).await;
    if let Ok(response) = &answered {
        describe(&mut span, response);
    }
    answered
}

fn describe(span: &mut Span, response: &ServiceResponse<BoxBody>) {
    let request = response.request();
    let status = response.status().as_u16();
    let method = request.method();
    let route = route_of(request);

    span.rename(format!("{method} {}", route.unwrap_or("unmatched")));
    let mut note = |name, text: &str| span.note(name, Value::Text(text.to_owned()));
    note("http.request.method", method.as_str());
    note("url.path", shown_path(request.uri().path()));
    if let Some(route) = route {
        note("http.route", route);
    }
    if let Some(id) = request.extensions().get::<RequestId>() {
        note("mediary.request_id", id.as_str());
    }
    note("mediary.caller", caller_of(request));
    span.note("http.response.status_code", Value::Number(status.into()));
    if status >= 500 {
        span.fail(status.to_string());
    }
}
