//! Web console, embedded in the binary.
//!
//! The pages are static and call the public API with the user's token, so nothing here needs authorization, and the
//! files are not routes of the API. Page state is in the URL fragment (`#`), which browsers do not send, so pages never
//! collide with paths of the API.

mod files;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::LazyLock;

use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, REFERRER_POLICY,
};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpMessage, HttpRequest, HttpResponse};
use bytes::Bytes;

use self::files::FILES;
use super::answer::{COMPRESSED_FROM, identity};
use super::conditional::{self, tag_of};
use super::error::Problem;
use super::gate::Routed;

/// Route name of all console files, in logs and metrics.
pub(super) const ROUTE: &str = "console";

/// Content security policy: only own files, nothing inline, no text as markup (trusted types), no framing. Pictures and
/// sound may come from the page itself (`blob:`).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
                      media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Headers of every file.
const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    // Revalidate always, so that a page never mixes files of two versions; unchanged files are a 304.
    (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

/// Main page; it loads the other files from `console/`.
const INDEX: &str = "index.html";
/// Path of the API reference.
pub(super) const REFERENCE_AT: &str = "/docs";
/// Paths of the main page.
const INDEX_AT: [&str; 2] = ["/", REFERENCE_AT];

/// File with its response headers.
struct Served {
    bytes: &'static [u8],
    media_type: &'static str,
    tag: String,
}

/// All files, by path.
static SERVED: LazyLock<HashMap<String, Served>> = LazyLock::new(|| {
    let paths = |name: &'static str| match name {
        INDEX => INDEX_AT.map(str::to_owned).to_vec(),
        _ => vec![format!("/console/{name}")],
    };
    let served = |bytes, name| Served { bytes, media_type: media_type(name), tag: tag_of(bytes) };
    let at_paths = |(name, bytes)| paths(name).into_iter().map(move |path| (path, served(bytes, name)));
    FILES.iter().copied().flat_map(at_paths).collect()
});

/// Returns the response for a path of the console; `None` for other paths.
pub(super) fn answer(request: &HttpRequest) -> Option<HttpResponse> {
    let file = SERVED.get(request.path())?;
    request.extensions_mut().insert(Routed(ROUTE));
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return Some(Problem::method_not_allowed("GET, HEAD").respond(request.path()));
    }

    let mut response = HttpResponse::Ok();
    for header in HEADERS {
        response.insert_header(header);
    }

    response.insert_header((ETAG, file.tag.as_str())).insert_header((CONTENT_TYPE, file.media_type));
    if conditional::is_current(request.headers(), &file.tag) {
        return Some(response.status(StatusCode::NOT_MODIFIED).finish());
    }

    if file.bytes.len() < COMPRESSED_FROM {
        response.insert_header(identity());
    }
    Some(response.body(Bytes::from_static(file.bytes)))
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}
