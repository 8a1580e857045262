//! Outermost layer: sets the request id, logs the request, and gives every response the common headers and every error
//! the common format, including errors of the framework.

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG,
    HeaderMap, HeaderName, HeaderValue, VARY, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::web::Data;
use actix_web::{Error, HttpMessage, HttpRequest, HttpResponse};
use tracing::Instrument;

use crate::actors::Actor;
use crate::domain::ids::RequestId;
use crate::environment::Environment;
use crate::http::connection::ActiveRequest;
use crate::http::console;
use crate::http::middleware::request_trace;
use crate::http::pipeline::MatchedRoute;
use crate::http::request::conditional;
use crate::http::response::error::{Code, PROBLEM_JSON, Problem};
use crate::http::server::{AppState, HttpOptions};

/// Maximum size of the request line and all headers, in bytes (contract 10).
const HEADERS_MAX: usize = 32 * 1024;
/// Bytes around the name and the value of a header: colon, space and line end.
const HEADER_SEPARATOR_BYTES: usize = 4;

/// Header with the request id.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Handles a request with `respond`, adds the request id and the common headers to the response, and logs the request.
///
/// # Errors
/// Errors of the framework, already in the common format.
pub async fn with_request_log(
    shared: Data<AppState>,
    request: ServiceRequest,
    respond: impl AsyncFnOnce(ServiceRequest) -> Result<ServiceResponse<BoxBody>, Error>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let active_request = ActiveRequest::start(request.request());
    let environment = &shared.services.environment;
    let started = environment.now();
    let id = request_id(request.headers(), environment);
    request.extensions_mut().insert(id.clone());

    let checked = check_request(&request).and_then(|()| shared.services.options.allowed_hosts.check(&request));
    let mut response = if let Err(problem) = checked {
        shared.services.metrics.count_unmatched(problem.code().status());
        let error_response = problem.to_response(request.path());
        request.into_response(error_response)
    } else {
        let span = tracing::info_span!("request", id = id.as_str());
        let result = match request_trace::start_span(&shared.services.tracer, request.headers()) {
            None => respond(request).instrument(span).await,
            // Boxed to keep the future of untraced requests small.
            Some(request_span) => {
                Box::pin(request_trace::run_in_span(request_span, respond(request))).instrument(span).await
            }
        };
        normalize_error(result.map_err(|error| Problem::from_status(error.as_response_error().status_code()))?)
    };

    set_common_headers(response.headers_mut(), &id);
    if matched_route(response.request()) == Some(console::ROUTE) {
        remove_cors_headers(response.headers_mut());
    }

    if tracing::enabled!(tracing::Level::INFO) {
        // JSON numbers are limited to 64 bits.
        let micros = u64::try_from(environment.now().since(started).as_micros()).unwrap_or(u64::MAX);
        let client = logged_client(response.request(), &shared.services.options);
        log_request(&response, &id, micros, client.as_deref());
    }
    Ok(active_request.attach_to(response))
}

/// Returns the client's request id if it is valid, else a new one.
pub(in crate::http) fn request_id(headers: &HeaderMap, environment: &Environment) -> RequestId {
    let client_id = headers.get(X_REQUEST_ID).and_then(|id| RequestId::parse(id.to_str().ok()?).ok());
    client_id.unwrap_or_else(|| RequestId::from(environment.uuid()))
}

/// Checks size and encoding of a request before routing.
fn check_request(request: &ServiceRequest) -> Result<(), Problem> {
    let line_bytes = request.uri().path().len() + request.query_string().len();
    let header_sizes =
        request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_SEPARATOR_BYTES);
    let header_bytes: usize = header_sizes.sum();
    if line_bytes + header_bytes > HEADERS_MAX {
        let detail = format!("the request line and headers exceed {HEADERS_MAX} bytes");
        return Err(Problem::new(Code::HeadersTooLarge, detail));
    }

    if !is_decodable(request.uri().path()) {
        return Err(Problem::new(
            Code::MalformedRequest,
            "the path must be percent-encoded UTF-8 without control characters",
        ));
    }
    Ok(())
}

/// Converts errors of the framework to the common format and keeps their other headers.
fn normalize_error(response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    let content_type = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if response.status().as_u16() < 400 || content_type == Some(PROBLEM_JSON.as_bytes()) {
        return response;
    }
    let (request, original) = response.into_parts();
    let mut problem_response = Problem::from_status(original.status()).to_response(request.path());
    copy_headers(&original, &mut problem_response);
    ServiceResponse::new(request, problem_response)
}

fn copy_headers(original: &HttpResponse, target: &mut HttpResponse) {
    let body_headers = [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING];
    for (name, value) in original.headers().iter().filter(|(name, _)| !body_headers.contains(name)) {
        target.headers_mut().append(name.clone(), value.clone());
    }
}

/// Sets the headers of every response. A compressed body gets its own entity tag, see [`conditional`].
fn set_common_headers(headers: &mut HeaderMap, id: &RequestId) {
    if let Ok(id) = HeaderValue::from_str(id.as_str()) {
        headers.insert(X_REQUEST_ID, id);
    }

    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let varies = headers.get_all(VARY).any(|value| value.as_bytes().eq_ignore_ascii_case(b"accept-encoding"));
    if !varies && headers.contains_key(ETAG) {
        headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    }

    let Some(encoding) = headers.get(CONTENT_ENCODING).cloned() else { return };
    let Ok(encoding) = encoding.to_str() else { return };

    if encoding == "identity" {
        headers.remove(CONTENT_ENCODING);
    }
    let tag = headers.get(ETAG).and_then(|tag| conditional::for_encoding(tag.to_str().ok()?, encoding));
    if let Some(tag) = tag.and_then(|tag| HeaderValue::try_from(tag).ok()) {
        headers.insert(ETAG, tag);
    }
}

/// Removes the headers for pages of other origins from a file of the console, which only the console itself uses. They
/// would make up a fifth of what a page transfers.
fn remove_cors_headers(headers: &mut HeaderMap) {
    headers.remove(ACCESS_CONTROL_ALLOW_ORIGIN);
    headers.remove(ACCESS_CONTROL_EXPOSE_HEADERS);
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
}

/// Logs the request. The query is omitted, because clients put secrets there by mistake. Successful console files are
/// logged at debug level: a page has many, and they change nothing.
fn log_request(response: &ServiceResponse<BoxBody>, id: &RequestId, micros: u64, client: Option<&str>) {
    let request: &HttpRequest = response.request();
    let actor = request.extensions().get::<Actor>().map(ToString::to_string);

    let method = request.method();
    let path = redact_path(request.uri().path());
    let route = matched_route(request).unwrap_or("unmatched");
    let status = response.status();
    let caller = caller_kind(request);

    if route == console::ROUTE && !status.is_client_error() {
        tracing::debug!(%method, path, route, status = status.as_u16(), micros, request = id.as_str(), client, "answered");
        return;
    }
    tracing::info!(
        %method,
        path,
        route,
        status = status.as_u16(),
        micros,
        request = id.as_str(),
        caller,
        actor,
        client,
        "answered"
    );
}

/// Returns the client address in the configured detail.
fn logged_client(request: &HttpRequest, options: &HttpOptions) -> Option<String> {
    let client_ip = options.proxies.client_ip(request.peer_addr()?, request.headers());
    options.log_client.format(client_ip)
}

/// Returns the matched route.
#[must_use]
pub fn matched_route(request: &HttpRequest) -> Option<&'static str> {
    request.extensions().get::<MatchedRoute>().map(|MatchedRoute(path)| *path)
}

/// Returns the kind of caller; invalid credentials count as anonymous.
#[must_use]
pub fn caller_kind(request: &HttpRequest) -> &'static str {
    match request.extensions().get::<Actor>() {
        Some(Actor::User(_)) => "user",
        Some(Actor::Token(_)) => "token",
        Some(Actor::System | Actor::Anonymous) | None => "anonymous",
    }
}

/// Returns a path that is safe to log. The segments after `/uploads/` and `/files/` are credentials; they are hidden in
/// every spelling, even in paths without a route.
#[must_use]
pub fn redact_path(path: &str) -> &str {
    let redacted_paths = [("uploads", "/uploads/<ticket>"), ("files", "/files/<id>")];
    let is_empty_segment = |segment: &String| matches!(segment.trim_matches('/'), "" | "." | "..");
    let mut segments = path.split('/').map(decode_segment).skip_while(is_empty_segment);

    // A decoded segment can contain slashes, and so the credential too.
    let first = segments.next().unwrap_or_default();
    let mut parts = first.trim_start_matches('/').splitn(2, '/');
    let name = parts.next().unwrap_or_default();
    let has_more = parts.next().is_some() || segments.next().is_some();

    let redacted = redacted_paths.into_iter().find(|(secret_name, _)| name.eq_ignore_ascii_case(secret_name));
    match redacted {
        Some((_, redacted)) if has_more => redacted,
        _ => path,
    }
}

/// Returns `true` if percent-encoded text is well-formed and decodes to UTF-8 without control characters.
#[must_use]
pub fn is_decodable(text: &str) -> bool {
    if text.bytes().all(|byte| byte != b'%' && !byte.is_ascii_control() && byte.is_ascii()) {
        return true;
    }
    let Some(bytes) = percent_decode(text) else { return false };
    String::from_utf8(bytes).is_ok_and(|text| !text.chars().any(char::is_control))
}

/// Decodes a path segment for which [`is_decodable`] returns `true`.
#[must_use]
pub fn decode_segment(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    percent_decode(text).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }

        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let high = digit()?;
        let low = digit()?;
        decoded.push(u8::try_from(high << 4 | low).ok()?);
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_decode_once_and_to_utf8() {
        for good in ["/nodes/a", "/a%20b", "/%C3%A4", "/a+b", "/%2541"] {
            assert!(is_decodable(good), "{good}");
        }
        for bad in ["/%", "/%4", "/%zz", "/%ff", "/%00", "/a%0Ab"] {
            assert!(!is_decodable(bad), "{bad}");
        }
        assert_eq!(decode_segment("%2541"), "%41");
        assert_eq!(decode_segment("a%2Fb"), "a/b");
    }

    #[test]
    fn tickets_are_redacted_in_logged_paths() {
        const ODD: [&str; 6] =
            ["//uploads/AbC", "///uploads//AbC", "/./uploads/AbC", "/%2Fuploads/AbC", "/uploads%2FAbC", "/UPLOADS/AbC"];
        for path in ["/uploads/AbC", "/%75ploads/AbC", "/uploads/AbC/x", "/uploads/"].into_iter().chain(ODD) {
            assert_eq!(redact_path(path), "/uploads/<ticket>", "{path}");
        }
        for path in ["/files/5a7f7a36", "//Files/5a7f7a36", "/files%2F5a7f7a36"] {
            assert_eq!(redact_path(path), "/files/<id>", "{path}");
        }
        for path in ["/files", "/uploads", "//uploads", "/nodes/uploads/versions", "/", ""] {
            assert_eq!(redact_path(path), path);
        }
    }

    #[test]
    fn compressed_bodies_have_their_own_tag_and_identity_has_no_content_encoding() {
        let headers_after = |encoding: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
            headers.insert(ETAG, HeaderValue::from_static("\"a\""));
            set_common_headers(&mut headers, &RequestId::parse("r").unwrap());
            headers
        };
        let gzipped = headers_after("gzip");
        assert_eq!(gzipped.get(ETAG).unwrap(), "\"a-gzip\"");
        assert_eq!(gzipped.get(X_REQUEST_ID).unwrap(), "r");

        let plain = headers_after("identity");
        assert_eq!(plain.get(ETAG).unwrap(), "\"a\"");
        assert!(plain.get(CONTENT_ENCODING).is_none());
    }

    #[test]
    fn only_valid_client_request_ids_are_used() {
        let environment = Environment::system();
        let id_for = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(X_REQUEST_ID, HeaderValue::from_static(value));
            request_id(&headers, &environment)
        };
        assert_eq!(id_for("mine-1").as_str(), "mine-1");
        assert_ne!(id_for("two words").as_str(), "two words");
    }
}
