//! File responses: streamed from disk, with ranges and conditional requests.

use std::collections::VecDeque;
use std::io::{ErrorKind, SeekFrom};
use std::path::Path;

use actix_web::body::SizedStream;
use actix_web::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_RANGE, RANGE,
};
use actix_web::http::{Method, StatusCode};
use actix_web::web::{self, Bytes, BytesMut};
use actix_web::{HttpResponse, HttpResponseBuilder};
use futures_util::Stream;
use futures_util::stream::{empty, try_unfold};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::domain::value::Digest;
use crate::file_tree::FileTree;
use crate::http::limits::account_pool::PoolPermit;
use crate::http::pipeline::RequestContext;
use crate::http::request::conditional;
use crate::http::request::range::{self, ByteRange, ByteRangeSelection, RangeBodyPiece};
use crate::http::response::api_response::{ApiResponse, identity_encoding};
use crate::http::response::error::{Code, Problem};

/// Maximum number of concurrent downloads.
pub const DOWNLOADS_MAX: usize = 2048;
/// Size of a read from disk, in bytes.
const CHUNK_BYTES: u64 = 64 * 1024;

/// Metadata of a file response.
#[derive(Debug, Clone)]
pub struct DownloadMetadata {
    /// SHA-256 of the content, used as entity tag.
    pub digest: Digest,
    pub content_type: &'static str,
    pub cache_control: &'static str,
    /// Additional headers.
    pub headers: Vec<(HeaderName, String)>,
}

/// File to be sent.
struct OpenedDownload {
    /// `None` if the response has no content.
    file: Option<File>,
    length: u64,
    tag: String,
    metadata: DownloadMetadata,
}

/// Responds with a file or the requested ranges; `None` if the file does not exist.
///
/// # Errors
/// If the file cannot be read, or no requested range overlaps it.
pub async fn send(
    call: &RequestContext,
    tree: &FileTree,
    path: &Path,
    metadata: DownloadMetadata,
) -> Result<Option<ApiResponse>, Problem> {
    // Acquire the permit before a fetch, which occupies a thread. HEAD requests and 304s release it with the response.
    let permit = call.shared().downloads.try_acquire(call.account())?;
    let tag = format!("\"{}\"", metadata.digest);
    let has_content = call.method() != Method::HEAD && !conditional::is_current(call.headers(), &tag);
    let found = if has_content {
        open(call, tree, path).await?.map(|(file, length)| (Some(file), length))
    } else {
        length_of(call, tree, path).await?.map(|length| (None, length))
    };

    let Some((file, length)) = found else { return Ok(None) };
    let download = OpenedDownload { file, length, tag, metadata };
    download.respond(call.method(), call.headers(), permit).map(|response| Some(ApiResponse::from_response(response)))
}

/// Opens a file and returns its length; `None` if it does not exist.
async fn open(call: &RequestContext, tree: &FileTree, path: &Path) -> Result<Option<(File, u64)>, Problem> {
    if !fetch(call, tree, path).await? {
        return Ok(None);
    }
    let file = match File::open(path).await {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Problem::internal(error)),
    };
    let length = file.metadata().await.map_err(Problem::internal)?.len();
    Ok(Some((file, length)))
}

/// Returns the length of a file without fetching it; `None` if it does not exist.
///
/// # Errors
/// If the length cannot be determined.
pub async fn length_of(call: &RequestContext, tree: &FileTree, path: &Path) -> Result<Option<u64>, Problem> {
    match tokio::fs::metadata(path).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        result => return result.map(|found| Some(found.len())).map_err(Problem::internal),
    }
    if tree.bucket().is_none() {
        return Ok(None);
    }
    let (tree, path) = (tree.clone(), path.to_owned());
    let found = web::block(move || tree.remote_length(&path)).await.map_err(Problem::internal)?;
    found.map_err(|error| Problem::from_io_error(&error, &call.services().space))
}

/// Fetches a file if only the bucket of the cluster has it. Returns `false` if it is known not to exist.
///
/// # Errors
/// If it cannot be fetched.
pub async fn fetch(call: &RequestContext, tree: &FileTree, path: &Path) -> Result<bool, Problem> {
    if tree.bucket().is_none() || tokio::fs::try_exists(path).await.map_err(Problem::internal)? {
        return Ok(true);
    }
    let (tree, path) = (tree.clone(), path.to_owned());
    match web::block(move || tree.fetch(&path)).await.map_err(Problem::internal)? {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Problem::from_io_error(&error, &call.services().space)),
    }
}

/// Responds with bytes in memory, which never change under their `tag`.
pub fn send_bytes(
    call: &RequestContext,
    bytes: Bytes,
    tag: &str,
    content_type: &'static str,
    cache_control: &'static str,
) -> ApiResponse {
    let is_current = conditional::is_current(call.headers(), tag);
    let mut response = HttpResponse::build(if is_current { StatusCode::NOT_MODIFIED } else { StatusCode::OK });
    response.insert_header((ETAG, tag.to_owned())).insert_header((CACHE_CONTROL, cache_control));

    let response = if is_current {
        response.finish()
    } else {
        response.content_type(content_type).insert_header(identity_encoding()).body(bytes)
    };
    ApiResponse::from_response(response)
}

impl OpenedDownload {
    fn respond(self, method: &Method, headers: &HeaderMap, permit: PoolPermit) -> Result<HttpResponse, Problem> {
        if conditional::is_current(headers, &self.tag) {
            return Ok(self.response(StatusCode::NOT_MODIFIED).finish());
        }

        match self.requested_ranges(method, headers) {
            ByteRangeSelection::Whole => {
                let full_range = ByteRange { start: 0, length: self.length };
                let mut response = self.response(StatusCode::OK);
                response.content_type(self.metadata.content_type);
                Ok(self.send(response, VecDeque::from([RangeBodyPiece::FileRange(full_range)]), permit))
            }
            ByteRangeSelection::Unsatisfiable => {
                let content_range =
                    HeaderValue::try_from(format!("bytes */{}", self.length)).map_err(Problem::internal)?;
                let detail = format!("the file has {} bytes", self.length);
                Err(Problem::new(Code::RangeNotSatisfiable, detail).with_header(CONTENT_RANGE, content_range))
            }
            ByteRangeSelection::Parts(parts) => Ok(self.respond_with_parts(&parts, permit)),
        }
    }

    /// Returns the requested ranges. They apply only to GET, and only if `If-Range` matches the current file.
    fn requested_ranges(&self, method: &Method, headers: &HeaderMap) -> ByteRangeSelection {
        let is_outdated = headers.get(IF_RANGE).is_some_and(|tag| tag.as_bytes() != self.tag.as_bytes());
        match headers.get(RANGE).and_then(|range| range.to_str().ok()) {
            Some(range) if *method == Method::GET && !is_outdated => range::parse(range, self.length),
            _ => ByteRangeSelection::Whole,
        }
    }

    fn respond_with_parts(self, parts: &[ByteRange], permit: PoolPermit) -> HttpResponse {
        let mut response = self.response(StatusCode::PARTIAL_CONTENT);
        if let [part] = parts {
            response
                .content_type(self.metadata.content_type)
                .insert_header((CONTENT_RANGE, part.content_range(self.length)));
            return self.send(response, VecDeque::from([RangeBodyPiece::FileRange(*part)]), permit);
        }

        // The boundary is a hash of the file, so the file cannot contain it by chance.
        let boundary = self.tag.trim_matches('"');
        response.content_type(format!("multipart/byteranges; boundary={boundary}"));
        let pieces = range::multipart(parts, self.length, self.metadata.content_type, boundary);
        self.send(response, pieces, permit)
    }

    fn response(&self, status: StatusCode) -> HttpResponseBuilder {
        let mut response = HttpResponse::build(status);
        response.insert_header((ETAG, self.tag.clone())).insert_header((ACCEPT_RANGES, "bytes"));
        response.insert_header((CACHE_CONTROL, self.metadata.cache_control));
        for (name, value) in &self.metadata.headers {
            response.insert_header((name.clone(), value.as_str()));
        }
        response
    }

    fn send(
        self,
        mut response: HttpResponseBuilder,
        pieces: VecDeque<RangeBodyPiece>,
        permit: PoolPermit,
    ) -> HttpResponse {
        let length = range::total_length(&pieces);
        response.insert_header(identity_encoding());
        match self.file {
            Some(file) => response.body(SizedStream::new(length, stream_pieces(file, pieces, permit))),
            None => response.body(SizedStream::new(length, empty::<std::io::Result<Bytes>>())),
        }
    }
}

/// Streams the pieces chunk by chunk; the file is never in memory as a whole.
fn stream_pieces(
    file: File,
    pieces: VecDeque<RangeBodyPiece>,
    permit: PoolPermit,
) -> impl Stream<Item = std::io::Result<Bytes>> {
    let state = DownloadStream { file, pieces, offset: None, _permit: permit };
    try_unfold(state, |mut stream| async move {
        let chunk = stream.next().await?;
        Ok(chunk.map(|chunk| (chunk, stream)))
    })
}

/// File being sent.
struct DownloadStream {
    file: File,
    pieces: VecDeque<RangeBodyPiece>,
    /// Offset of the next sequential read, if known.
    offset: Option<u64>,
    _permit: PoolPermit,
}

impl DownloadStream {
    async fn next(&mut self) -> std::io::Result<Option<Bytes>> {
        let range = match self.pieces.pop_front() {
            None => return Ok(None),
            Some(RangeBodyPiece::Literal(bytes)) => return Ok(Some(bytes)),
            Some(RangeBodyPiece::FileRange(range)) => range,
        };
        if self.offset != Some(range.start) {
            self.file.seek(SeekFrom::Start(range.start)).await?;
        }

        let mut chunk = BytesMut::with_capacity(usize::try_from(range.length.min(CHUNK_BYTES)).unwrap_or_default());
        let read = (&mut self.file).take(range.length.min(CHUNK_BYTES)).read_buf(&mut chunk).await? as u64;
        if read == 0 && range.length > 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }

        self.offset = Some(range.start + read);
        if read < range.length {
            self.pieces.push_front(RangeBodyPiece::FileRange(ByteRange {
                start: range.start + read,
                length: range.length - read,
            }));
        }
        Ok(Some(chunk.freeze()))
    }
}
