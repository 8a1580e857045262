//! Successful responses of handlers.

use actix_web::http::StatusCode;
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderMap, HeaderName, HeaderValue, LOCATION, TryIntoHeaderValue, VARY,
};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use bytes::Bytes;
use serde::Serialize;

use crate::http::request::conditional;
use crate::http::response::error::Problem;
use crate::http::response::response_body::ResponseBody;

/// Minimum size of a compressed body, in bytes.
pub const COMPRESSION_MIN_BYTES: usize = 1024;

/// Returns a header that disables compression; the request log middleware removes it again.
#[must_use]
pub fn identity_encoding() -> (HeaderName, HeaderValue) {
    (CONTENT_ENCODING, HeaderValue::from_static("identity"))
}

/// Response of a handler, before the headers common to all responses are added.
pub struct ApiResponse {
    status: StatusCode,
    content: ApiResponseContent,
    headers: Vec<(HeaderName, HeaderValue)>,
}

enum ApiResponseContent {
    Json(Bytes),
    Csv(Bytes),
    /// JSON without an entity tag.
    Untagged(ResponseBody),
    /// JSON with its entity tag.
    Tagged(ResponseBody, String),
    Text(String),
    Empty,
    Prebuilt(HttpResponse),
}

/// Body with its media type.
struct TypedBody {
    body: ResponseBody,
    media_type: &'static str,
}

impl TypedBody {
    fn json(body: impl Into<ResponseBody>) -> Self {
        Self { body: body.into(), media_type: "application/json" }
    }

    fn csv(body: impl Into<ResponseBody>) -> Self {
        Self { body: body.into(), media_type: "text/csv; charset=utf-8; header=present" }
    }
}

impl ApiResponse {
    /// Creates a 200 with a JSON body.
    ///
    /// # Errors
    /// An internal error if the body cannot be serialized.
    pub fn ok(body: &impl Serialize) -> Result<Self, Problem> {
        Self::json(StatusCode::OK, body)
    }

    /// Creates a 201 with a JSON body.
    ///
    /// # Errors
    /// An internal error if the body cannot be serialized.
    pub fn created(body: &impl Serialize) -> Result<Self, Problem> {
        Self::json(StatusCode::CREATED, body)
    }

    /// Creates a 200 with comma-separated values, whose first line is a header.
    #[must_use]
    pub fn csv(table: Vec<u8>) -> Self {
        Self { status: StatusCode::OK, content: ApiResponseContent::Csv(table.into()), headers: Vec::new() }
    }

    fn json(status: StatusCode, body: &impl Serialize) -> Result<Self, Problem> {
        let bytes = serde_json::to_vec(body).map_err(Problem::internal)?;
        Ok(Self { status, content: ApiResponseContent::Json(bytes.into()), headers: Vec::new() })
    }

    /// Creates a 200 with serialized JSON and its strong entity tag.
    #[must_use]
    pub fn tagged(body: impl Into<ResponseBody>, tag: &str) -> Self {
        Self {
            status: StatusCode::OK,
            content: ApiResponseContent::Tagged(body.into(), tag.to_owned()),
            headers: Vec::new(),
        }
    }

    /// Creates a 200 with serialized JSON and no entity tag.
    #[must_use]
    pub fn untagged(body: ResponseBody) -> Self {
        Self { status: StatusCode::OK, content: ApiResponseContent::Untagged(body), headers: Vec::new() }
    }

    /// Creates a 304 with the client's entity tag.
    #[must_use]
    pub fn not_modified(tag: &str) -> Self {
        Self {
            status: StatusCode::NOT_MODIFIED,
            content: ApiResponseContent::Tagged(Bytes::new().into(), tag.to_owned()),
            headers: Vec::new(),
        }
    }

    /// Creates a 200 with plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { status: StatusCode::OK, content: ApiResponseContent::Text(text.into()), headers: Vec::new() }
    }

    /// Creates a 204.
    #[must_use]
    pub fn no_content() -> Self {
        Self { status: StatusCode::NO_CONTENT, content: ApiResponseContent::Empty, headers: Vec::new() }
    }

    /// Creates a 302.
    ///
    /// # Errors
    /// If the location is not a valid header value.
    pub fn redirect(location: String) -> Result<Self, Problem> {
        Self { status: StatusCode::FOUND, content: ApiResponseContent::Empty, headers: Vec::new() }
            .with_header(LOCATION, location)
    }

    /// Wraps a response that the handler built.
    #[must_use]
    pub fn from_response(response: HttpResponse) -> Self {
        Self { status: response.status(), content: ApiResponseContent::Prebuilt(response), headers: Vec::new() }
    }

    /// Adds a header.
    ///
    /// # Errors
    /// If the value is not a valid header value.
    pub fn with_header(mut self, name: HeaderName, value: impl TryIntoHeaderValue) -> Result<Self, Problem> {
        let value =
            value.try_into_value().map_err(|_| Problem::internal(format!("invalid value for header {name}")))?;
        self.headers.push((name, value));
        Ok(self)
    }

    /// Builds the response. JSON and CSV responses to GET get a strong entity tag, and become a 304 if the client has
    /// it.
    #[must_use]
    pub fn into_response(self, request: &HttpRequest) -> HttpResponse {
        let mut response = HttpResponse::build(self.status);
        let is_encoded = self.headers.iter().any(|(name, _)| *name == CONTENT_ENCODING);
        for header in self.headers {
            response.append_header(header);
        }

        let mut response = match self.content {
            ApiResponseContent::Prebuilt(prebuilt) => prebuilt,
            ApiResponseContent::Empty => response.finish(),
            ApiResponseContent::Text(text) => {
                response.content_type("text/plain; charset=utf-8").insert_header(identity_encoding()).body(text)
            }
            ApiResponseContent::Json(body) if request.method().is_safe() && self.status == StatusCode::OK => {
                let tag = conditional::entity_tag(&body);
                respond_tagged(request, response, TypedBody::json(body), tag, is_encoded)
            }
            ApiResponseContent::Csv(body) => {
                let tag = conditional::entity_tag(&body);
                respond_tagged(request, response, TypedBody::csv(body), tag, is_encoded)
            }
            ApiResponseContent::Json(body) => respond_with(response, TypedBody::json(body), is_encoded),
            ApiResponseContent::Untagged(body) => respond_with(response, TypedBody::json(body), is_encoded),
            ApiResponseContent::Tagged(body, tag) => {
                respond_tagged(request, response, TypedBody::json(body), tag, is_encoded)
            }
        };
        join_vary(response.headers_mut());
        response
    }
}

/// Joins all `Vary` headers into one: the CORS middleware keeps only the first.
fn join_vary(headers: &mut HeaderMap) {
    let values: Vec<_> = headers.get_all(VARY).map(|value| value.as_bytes().to_vec()).collect();
    if values.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&values.join(&b", "[..]))
    {
        headers.insert(VARY, joined);
    }
}

/// Builds a response with its entity tag, or a 304 if the client has it.
fn respond_tagged(
    request: &HttpRequest,
    mut response: HttpResponseBuilder,
    body: TypedBody,
    tag: String,
    is_encoded: bool,
) -> HttpResponse {
    let is_current = conditional::is_current(request.headers(), &tag);
    response.insert_header((ETAG, tag)).insert_header((CACHE_CONTROL, "no-cache"));
    response.append_header((VARY, "authorization, x-api-key"));

    if is_current {
        return response.status(StatusCode::NOT_MODIFIED).finish();
    }

    respond_with(response, body, is_encoded)
}

/// Builds a response with a body. A small body is exempt from compression; with `is_encoded`, the handler has set the
/// `Content-Encoding` itself.
fn respond_with(mut response: HttpResponseBuilder, body: TypedBody, is_encoded: bool) -> HttpResponse {
    let TypedBody { body, media_type } = body;
    if body.size() < COMPRESSION_MIN_BYTES && !is_encoded {
        response.insert_header(identity_encoding());
    }
    response.content_type(media_type).body(body.into_body())
}
