//! The console: pages for people, kept in the program itself.
//!
//! The pages are static, and what they show they ask of the public interface with the token of whoever looks; so there is
//! nothing here that could be permitted or refused, and no route of the interface. Where they lead is behind the `#` of the
//! address, which no server sees: the paths of the interface stay free of pages.

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

/// What the files are called together where requests are told apart by their route.
pub(super) const ROUTE: &str = "console";

/// What the pages may do. Everything comes from here and nothing is inline; text can become markup nowhere (trusted types);
/// nobody frames them. Pictures and sound may be made in the page (`blob:`).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
                      media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// What is the same for every file.
const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    // Asked for again each time, so that a page never mixes files of two versions; what did not change is not sent again.
    (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

/// The page itself; it is where people look for it, and finds the other files below `console/`.
const INDEX: &str = "index.html";
/// The reference of the interface.
pub(super) const REFERENCE_AT: &str = "/docs";
/// Where the page is.
const INDEX_AT: [&str; 2] = ["/", REFERENCE_AT];

/// A file as it is served.
struct Served {
    bytes: &'static [u8],
    media_type: &'static str,
    tag: String,
}

/// Every file, by its path.
static SERVED: LazyLock<HashMap<String, Served>> = LazyLock::new(|| {
    let paths = |name: &'static str| match name {
        INDEX => INDEX_AT.map(str::to_owned).to_vec(),
        _ => vec![format!("/console/{name}")],
    };
    let served = |bytes, name| Served { bytes, media_type: media_type(name), tag: tag_of(bytes) };
    let at_paths = |(name, bytes)| paths(name).into_iter().map(move |path| (path, served(bytes, name)));
    FILES.iter().copied().flat_map(at_paths).collect()
});

/// The answer for a path of the console; `None` for any other.
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
