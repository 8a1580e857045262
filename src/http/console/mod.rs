//! Web console, embedded in the binary.
//!
//! The pages are static and call the public API with the user's token, so nothing here needs authorization, and the
//! files are not routes of the API. Generated files have parts of the OpenAPI document, whose whole text would make up
//! most of the first view of a page. Page state is in the URL fragment (`#`), which browsers do not send, so pages
//! never collide with paths of the API.

mod files;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{LazyLock, OnceLock};

use actix_web::http::header::{
    AcceptEncoding, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ContentEncoding, ETAG,
    Header as _, HeaderName, HeaderValue, REFERRER_POLICY,
};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpMessage, HttpRequest, HttpResponse};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use url::Url;

use self::files::FILES;
use crate::http::api::video::REFERENCE_IMAGES_MAX;
use crate::http::openapi::jobs::job_document;
use crate::http::openapi::reference::{ReferenceDocuments, reference_documents};
use crate::http::pipeline::MatchedRoute;
use crate::http::request::conditional::{self, entity_tag};
use crate::http::response::api_response::{COMPRESSION_MIN_BYTES, identity_encoding};
use crate::http::response::error::Problem;
use crate::http::response::page_cache::negotiate;
use crate::http::server::{AppState, IssuerSignIn};

/// Route name of all console files, in logs and metrics.
pub(in crate::http) const ROUTE: &str = "console";

/// Media types of documents, to which a browser applies a content security policy. Scripts, styles and pictures are
/// subject to the policy of their document; not sending it with them saves a quarter of the bytes of a page.
const DOCUMENT_TYPES: [&str; 2] = [HTML, SVG];
const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const WEBP: &str = "image/webp";

/// Headers of every file.
const HEADERS: [(HeaderName, HeaderValue); 2] = [
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    // Revalidate always, so that a page never mixes files of two versions; unchanged files are a 304.
    (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

/// Headers of documents: no referrer for their links and subresources, and no reference from other windows.
const DOCUMENT_HEADERS: [(HeaderName, HeaderValue); 2] = [
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
];

/// Main page; it loads the other files from `console/`.
const INDEX: &str = "index.html";
/// Path of the API reference.
pub(in crate::http) const API_REFERENCE_PATH: &str = "/docs";
/// Paths of the main page: the root, and the pages of the console whose path is not one of the API. A script of the
/// main page then goes to the page of the path.
const INDEX_PATHS: [&str; 8] =
    ["/", API_REFERENCE_PATH, "/studio", "/account", "/state", "/audit", "/budgets", "/moderation"];

/// Path of the part of the OpenAPI document that describes the jobs, for their forms.
const JOBS_PATH: &str = "/console/jobs.json";
/// Path of the list of the jobs, for the overview.
const JOB_LIST_PATH: &str = "/console/job-list.json";
/// Path of the list of all operations of the OpenAPI document.
const REFERENCE_PATH: &str = "/console/reference.json";
/// Prefix of the paths of the parts that describe one operation, which continue with `{operationId}.json`.
const OPERATION_PREFIX: &str = "/console/reference/";

/// File with its response headers.
struct ConsoleFile {
    bytes: Bytes,
    media_type: &'static str,
    etag: String,
    /// Compressed on first use, and at a higher level than the server compresses. `None` if that fails.
    gzip: OnceLock<Option<Bytes>>,
    brotli: OnceLock<Option<Bytes>>,
}

impl ConsoleFile {
    fn new(bytes: Bytes, media_type: &'static str) -> Self {
        let etag = entity_tag(&bytes);
        Self { bytes, media_type, etag, gzip: OnceLock::new(), brotli: OnceLock::new() }
    }

    /// Returns the compressed form and its coding if the client accepts one and the file is worth compressing.
    fn compressed(&self, request: &HttpRequest) -> Option<(ContentEncoding, Bytes)> {
        if self.bytes.len() < COMPRESSION_MIN_BYTES || self.media_type == WEBP {
            return None;
        }
        let coding = negotiate(&AcceptEncoding::parse(request).ok()?);
        let compressed = match coding {
            ContentEncoding::Brotli => self.brotli.get_or_init(|| compress_brotli(&self.bytes).ok()),
            ContentEncoding::Gzip => self.gzip.get_or_init(|| compress_gzip(&self.bytes).ok()),
            _ => return None,
        };
        Some((coding, compressed.clone()?))
    }
}

/// Compression level of brotli. Higher ones take ten times as long for another tenth, and the first view waits for it.
const BROTLI_QUALITY: u32 = 5;
/// Base-2 logarithm of the window size.
const BROTLI_WINDOW: u32 = 22;

fn compress_brotli(bytes: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = brotli::CompressorWriter::new(Vec::new(), bytes.len(), BROTLI_QUALITY, BROTLI_WINDOW);
    encoder.write_all(bytes)?;
    Ok(encoder.into_inner().into())
}

fn compress_gzip(bytes: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.into())
}

/// All embedded files, by path.
static FILES_BY_PATH: LazyLock<HashMap<String, ConsoleFile>> = LazyLock::new(|| {
    let mut files = HashMap::new();
    for &(name, bytes) in FILES {
        let paths = match name {
            INDEX => INDEX_PATHS.map(str::to_owned).to_vec(),
            _ => vec![format!("/console/{name}")],
        };
        for path in paths {
            files.insert(path, ConsoleFile::new(served_bytes(name, bytes), media_type(name)));
        }
    }
    files
});

/// Returns the bytes that are served for an embedded file: own scripts without their comments, which would be an eighth
/// of the first view of a page.
fn served_bytes(name: &str, bytes: &'static [u8]) -> Bytes {
    match std::str::from_utf8(bytes) {
        Ok(script) if media_type(name) == SCRIPT && !name.starts_with("vendor/") => blank_comment_lines(script).into(),
        _ => Bytes::from_static(bytes),
    }
}

/// Empties the lines of a script that are comments. The numbers of the other lines stay, so that errors lead to the
/// source. No line of a template literal may begin with "//".
fn blank_comment_lines(script: &str) -> String {
    let lines = script.lines().map(|line| if line.trim_start().starts_with("//") { "" } else { line });
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Returns the content security policy: only own files, nothing inline, no text as markup (trusted types), no framing.
/// Pictures and sound may come from the page itself (`blob:`). Requests go to the service, and to the origin of the
/// issuer at which people sign in.
pub(in crate::http) fn content_security_policy(sign_in: Option<&IssuerSignIn>) -> HeaderValue {
    let issuer = sign_in.and_then(|sign_in| Url::parse(&sign_in.issuer).ok());
    let issuer = issuer.map(|url| format!(" {}", url.origin().ascii_serialization())).unwrap_or_default();
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self' blob:; \
         connect-src 'self'{issuer}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'"
    );
    HeaderValue::from_str(&policy).expect("an origin is ASCII without control characters")
}

/// Returns the description of the jobs of a service that accepts `max_images` images per video, cached by that limit.
fn job_file(max_images: usize) -> Result<&'static ConsoleFile, &'static serde_json::Error> {
    static JOB_FILES: [OnceLock<serde_json::Result<ConsoleFile>>; REFERENCE_IMAGES_MAX] =
        [const { OnceLock::new() }; REFERENCE_IMAGES_MAX];
    let max_images = max_images.clamp(1, REFERENCE_IMAGES_MAX);
    let create_file = || Ok(ConsoleFile::new(job_document(max_images)?.into(), media_type(JOBS_PATH)));
    JOB_FILES[max_images - 1].get_or_init(create_file).as_ref()
}

/// Returns a part of the OpenAPI document of a service that accepts `max_images` images per video, by its path.
fn reference_file(max_images: usize, path: &str) -> Result<Option<&'static ConsoleFile>, &'static serde_json::Error> {
    static REFERENCE_FILES: [OnceLock<serde_json::Result<HashMap<String, ConsoleFile>>>; REFERENCE_IMAGES_MAX] =
        [const { OnceLock::new() }; REFERENCE_IMAGES_MAX];
    let max_images = max_images.clamp(1, REFERENCE_IMAGES_MAX);
    let files = REFERENCE_FILES[max_images - 1].get_or_init(|| create_reference_files(max_images)).as_ref()?;
    Ok(files.get(path))
}

fn create_reference_files(max_images: usize) -> serde_json::Result<HashMap<String, ConsoleFile>> {
    let ReferenceDocuments { list, jobs, operations } = reference_documents(max_images)?;
    let operations = operations.into_iter().map(|(id, json)| (format!("{OPERATION_PREFIX}{id}.json"), json));
    let paths = operations.chain([(REFERENCE_PATH.to_owned(), list), (JOB_LIST_PATH.to_owned(), jobs)]);
    Ok(paths.map(|(path, json)| (path, ConsoleFile::new(json.into(), media_type(REFERENCE_PATH)))).collect())
}

/// Returns the response for a path of the console; `None` for other paths.
pub(in crate::http) fn respond(request: &HttpRequest, shared: &AppState) -> Option<HttpResponse> {
    let max_images = shared.services.options.video_max_images;
    let file = match request.path() {
        JOBS_PATH => job_file(max_images).map(Some),
        path if [REFERENCE_PATH, JOB_LIST_PATH].contains(&path) || path.starts_with(OPERATION_PREFIX) => {
            reference_file(max_images, path)
        }
        path => Ok(FILES_BY_PATH.get(path)),
    };
    let file = file.transpose()?;
    request.extensions_mut().insert(MatchedRoute(ROUTE));
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return Some(Problem::method_not_allowed("GET, HEAD").to_response(request.path()));
    }

    let file = match file {
        Ok(file) => file,
        Err(error) => return Some(Problem::internal(error).to_response(request.path())),
    };
    let mut response = HttpResponse::Ok();
    for header in HEADERS {
        response.insert_header(header);
    }

    if DOCUMENT_TYPES.contains(&file.media_type) {
        response.insert_header((CONTENT_SECURITY_POLICY, shared.console_policy.clone()));
        for header in DOCUMENT_HEADERS {
            response.insert_header(header);
        }
    }
    response.insert_header((ETAG, file.etag.as_str())).insert_header((CONTENT_TYPE, file.media_type));
    if conditional::is_current(request.headers(), &file.etag) {
        return Some(response.status(StatusCode::NOT_MODIFIED).finish());
    }

    if let Some((coding, compressed)) = file.compressed(request) {
        return Some(response.insert_header((CONTENT_ENCODING, coding.as_str())).body(compressed));
    }
    if file.bytes.len() < COMPRESSION_MIN_BYTES {
        response.insert_header(identity_encoding());
    }
    Some(response.body(file.bytes.clone()))
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => HTML,
        Some("css") => "text/css; charset=utf-8",
        Some("js") => SCRIPT,
        Some("json") => "application/json",
        Some("svg") => SVG,
        Some("webp") => WEBP,
        _ => "text/plain; charset=utf-8",
    }
}
