//! Successful responses of handlers.

use actix_web::http::StatusCode;
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderName, HeaderValue, LOCATION, TryIntoHeaderValue, VARY,
};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use bytes::Bytes;
use serde::Serialize;

use super::conditional;
use super::error::Problem;
use super::payload::Payload;

/// Minimum size of a compressed body, in bytes.
pub const COMPRESSED_FROM: usize = 1024;

/// Returns a header that disables compression; the frame removes it again.
#[must_use]
pub fn identity() -> (HeaderName, HeaderValue) {
    (CONTENT_ENCODING, HeaderValue::from_static("identity"))
}

/// Response without the common headers.
pub struct Answer {
    status: StatusCode,
    content: Content,
    headers: Vec<(HeaderName, HeaderValue)>,
}

enum Content {
    Json(Bytes),
    /// JSON without an entity tag.
    Untagged(Payload),
    /// JSON with its entity tag.
    Tagged(Payload, String),
    Text(String),
    Empty,
    Ready(HttpResponse),
}

impl Answer {
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

    fn json(status: StatusCode, body: &impl Serialize) -> Result<Self, Problem> {
        let bytes = serde_json::to_vec(body).map_err(Problem::internal)?;
        Ok(Self { status, content: Content::Json(bytes.into()), headers: Vec::new() })
    }

    /// Creates a 200 with serialized JSON and its strong entity tag.
    #[must_use]
    pub fn tagged(body: impl Into<Payload>, tag: &str) -> Self {
        Self { status: StatusCode::OK, content: Content::Tagged(body.into(), tag.to_owned()), headers: Vec::new() }
    }

    /// Creates a 200 with serialized JSON and no entity tag.
    #[must_use]
    pub fn untagged(body: Payload) -> Self {
        Self { status: StatusCode::OK, content: Content::Untagged(body), headers: Vec::new() }
    }

    /// Creates a 304 with the client's entity tag.
    #[must_use]
    pub fn unchanged(tag: &str) -> Self {
        Self {
            status: StatusCode::NOT_MODIFIED,
            content: Content::Tagged(Bytes::new().into(), tag.to_owned()),
            headers: Vec::new(),
        }
    }

    /// Creates a 200 with plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { status: StatusCode::OK, content: Content::Text(text.into()), headers: Vec::new() }
    }

    /// Creates a 204.
    #[must_use]
    pub fn no_content() -> Self {
        Self { status: StatusCode::NO_CONTENT, content: Content::Empty, headers: Vec::new() }
    }

    /// Creates a 302.
    ///
    /// # Errors
    /// If the location is not a valid header value.
    pub fn found_at(location: String) -> Result<Self, Problem> {
        Self { status: StatusCode::FOUND, content: Content::Empty, headers: Vec::new() }.with(LOCATION, location)
    }

    /// Wraps a response that the handler built.
    #[must_use]
    pub fn ready(response: HttpResponse) -> Self {
        Self { status: response.status(), content: Content::Ready(response), headers: Vec::new() }
    }

    /// Adds a header.
    ///
    /// # Errors
    /// If the value is not a valid header value.
    pub fn with(mut self, name: HeaderName, value: impl TryIntoHeaderValue) -> Result<Self, Problem> {
        let value = value.try_into_value().map_err(|_| Problem::internal(format!("{name} cannot have this value")))?;
        self.headers.push((name, value));
        Ok(self)
    }

    /// Builds the response. JSON responses to GET get a strong entity tag, and become a 304 if the client has it.
    #[must_use]
    pub fn respond(self, request: &HttpRequest) -> HttpResponse {
        let mut response = HttpResponse::build(self.status);
        let coded = self.headers.iter().any(|(name, _)| *name == CONTENT_ENCODING);
        for header in self.headers {
            response.append_header(header);
        }

        match self.content {
            Content::Ready(ready) => ready,
            Content::Empty => response.finish(),
            Content::Text(text) => {
                response.content_type("text/plain; charset=utf-8").insert_header(identity()).body(text)
            }
            Content::Json(body) if request.method().is_safe() && self.status == StatusCode::OK => {
                let tag = conditional::tag_of(&body);
                respond_tagged(request, response, body.into(), tag, coded)
            }
            Content::Json(body) => respond_json(response, body.into(), coded),
            Content::Untagged(body) => respond_json(response, body, coded),
            Content::Tagged(body, tag) => respond_tagged(request, response, body, tag, coded),
        }
    }
}

/// Builds a JSON response with its entity tag, or a 304 if the client has it.
fn respond_tagged(
    request: &HttpRequest,
    mut response: HttpResponseBuilder,
    body: Payload,
    tag: String,
    coded: bool,
) -> HttpResponse {
    let current = conditional::is_current(request.headers(), &tag);
    response.insert_header((ETAG, tag)).insert_header((CACHE_CONTROL, "no-cache"));
    response.append_header((VARY, "authorization"));

    if current {
        return response.status(StatusCode::NOT_MODIFIED).finish();
    }

    respond_json(response, body, coded)
}

/// Builds a JSON response; small bodies are exempt from compression.
fn respond_json(mut response: HttpResponseBuilder, body: Payload, coded: bool) -> HttpResponse {
    if body.size() < COMPRESSED_FROM && !coded {
        response.insert_header(identity());
    }
    response.content_type("application/json").body(body.into_body())
}
