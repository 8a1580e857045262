//! Files of media tasks (results, and inputs under signed URLs) and pictures of nodes. A file is named by the hash of
//! its content, so the content of a URL never changes.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use crate::domain::image::ImageFormat;
use crate::domain::music::MusicFormat;
use crate::domain::policy::Action;
use crate::domain::value::{Digest, Timestamp};
use crate::domain::video::VideoFormat;
use crate::http::api::file::{self, DownloadMetadata};
use crate::http::pipeline::{Call, RequestContext};
use crate::http::request::conditional;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::media::archive::upload_token::UploadKey;
use crate::media::store::MediaArea;
use crate::media::thumbnail::{Thumbnail, ThumbnailError, ThumbnailFile, ThumbnailSize};

/// Maximum wait for a turn to make a thumbnail, after which the picture itself is sent.
const THUMBNAIL_WAIT_MAX: Duration = Duration::from_secs(2);

/// Cache control of results: a name is the hash of its content.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// Cache control of a picture that is sent instead of its thumbnail: the next request may get the thumbnail.
const NO_STORE: &str = "no-store";
/// Cache control of inputs, which only those with a signed URL may read.
const PRIVATE: &str = "private, max-age=3600, immutable";
/// Context of the signatures of input URLs.
const INPUT_CONTEXT: &[u8] = b"mediary input url 1\n";

/// Returns the path of a signed URL of an input, for vendors that fetch it. The URL works until the input is deleted.
#[must_use]
pub fn input_path(key: &UploadKey, file_name: &str) -> String {
    format!("/media/{file_name}?signature={}", key.sign(INPUT_CONTEXT, file_name.as_bytes()))
}

/// Context of the signatures of input URLs that expire.
const EXPIRING_INPUT_CONTEXT: &[u8] = b"mediary expiring input url 1\n";
/// Validity of an expiring input URL is one to two of these periods, so that the URL changes rarely and browsers can
/// cache the file.
const INPUT_URL_PERIOD_S: i64 = 3600;

/// Returns the path of a signed URL of an input that expires, for users who may see the task.
#[must_use]
pub fn expiring_input_path(key: &UploadKey, file_name: &str, now: Timestamp) -> String {
    let expires_at = (now.seconds().div_euclid(INPUT_URL_PERIOD_S) + 2) * INPUT_URL_PERIOD_S;
    let signature = key.sign(EXPIRING_INPUT_CONTEXT, expiring_input_message(file_name, expires_at).as_bytes());
    format!("/media/{file_name}?expires={expires_at}&signature={signature}")
}

fn expiring_input_message(file_name: &str, expires_at: i64) -> String {
    format!("{expires_at} {file_name}")
}

/// Returns `true` if the signature of an input URL is valid now. `expires_at` is the text of the query parameter.
fn is_input_url(key: &UploadKey, file_name: &str, expires_at: Option<&str>, signature: &str, now: Timestamp) -> bool {
    let Some(expires_at) = expires_at else {
        return key.has_signed(INPUT_CONTEXT, file_name.as_bytes(), signature);
    };
    expires_at.parse().is_ok_and(|expires_at| {
        let message = expiring_input_message(file_name, expires_at);
        now.seconds() < expires_at && key.has_signed(EXPIRING_INPUT_CONTEXT, message.as_bytes(), signature)
    })
}

/// `GET /media/{file}`: a result, the picture of a node, or the input that a signed URL names; with `thumbnail`, a small
/// version of a picture.
pub async fn file(call: Call<{ Action::ReadResult as u8 }>) -> Result<ApiResponse, Problem> {
    let name = call.path_param("file");
    let key = &call.services().registry.upload_key;
    let mut query = call.query()?;
    let thumbnail = query.optional_non_empty("thumbnail", ThumbnailSize::parse);
    let now = call.services().environment.now();
    let is_input = query
        .first("signature")
        .is_some_and(|signature| is_input_url(key, &name, query.first("expires"), signature, now));
    query.finish()?;
    let (area, cache_control) = if is_input { (MediaArea::Input, PRIVATE) } else { (MediaArea::Result, IMMUTABLE) };

    let path = call.services().media.store.path_of(area, &name).ok_or_else(not_found)?;
    let (digest, content_type) = parse_file_name(&name).ok_or_else(not_found)?;
    let metadata = DownloadMetadata { digest, content_type, cache_control, headers: Vec::new() };
    let thumbnail = thumbnail.filter(|_| ImageFormat::parse(extension_of(&name)).is_ok());
    if let Some(response) = send(&call, &path, metadata.clone(), thumbnail).await? {
        return Ok(response);
    }

    let retention = call.services().options.media_retention;
    let picture = call.services().media.store.path_of(MediaArea::NodePicture, &name).filter(|_| !is_input);
    let picture = picture.ok_or_else(|| result_not_found(retention))?;
    send(&call, &picture, metadata, thumbnail).await?.ok_or_else(|| result_not_found(retention))
}

/// Responds with a file or its thumbnail; `None` if the file does not exist.
async fn send(
    call: &RequestContext,
    path: &Path,
    metadata: DownloadMetadata,
    thumbnail: Option<ThumbnailSize>,
) -> Result<Option<ApiResponse>, Problem> {
    let DownloadMetadata { digest, cache_control, .. } = metadata;
    let tree = call.services().media.store.tree();
    let Some(size) = thumbnail else { return file::send(call, tree, path, metadata).await };
    let tag = format!("\"{digest}-{}\"", size.as_str());
    // A deleted file no longer has a thumbnail.
    if conditional::is_current(call.headers(), &tag) {
        let exists = file::length_of(call, tree, path).await?.is_some();
        let response = || file::send_bytes(call, Bytes::new(), &tag, metadata.content_type, cache_control);
        return Ok(exists.then(response));
    }
    let permit = tree.bucket().map(|_| call.shared().downloads.try_acquire(call.account())).transpose()?;
    if !file::fetch(call, tree, path).await? || !tokio::fs::try_exists(path).await.map_err(Problem::internal)? {
        return Ok(None);
    }
    drop(permit);

    match thumbnail_of(call, path, digest, size).await {
        Ok(Some(ThumbnailFile { bytes, media_type })) => {
            Ok(Some(file::send_bytes(call, bytes, &tag, media_type, cache_control)))
        }
        // The picture itself shows the same, only larger.
        Ok(None) => file::send(call, tree, path, metadata).await,
        Err(ThumbnailError::Busy) => {
            file::send(call, tree, path, DownloadMetadata { cache_control: NO_STORE, ..metadata }).await
        }
        Err(ThumbnailError::Io(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(ThumbnailError::Io(error)) => Err(Problem::internal(error)),
    }
}

async fn thumbnail_of(
    call: &RequestContext,
    path: &Path,
    digest: Digest,
    size: ThumbnailSize,
) -> Result<Thumbnail, ThumbnailError> {
    let shared = call.shared();
    if let Some(thumbnail) = shared.thumbnails.get(digest, size) {
        return Ok(thumbnail);
    }

    // Pages request pictures without credentials, so callers without a token are distinguished by their addresses.
    let permit = timeout(THUMBNAIL_WAIT_MAX, shared.thumbnail_slots.acquire(call.account(), 1)).await;
    let permit = permit.map_err(|_| ThumbnailError::Busy)?;
    let thumbnails = shared.thumbnails.clone();
    let source = path.to_owned();
    let work = move || {
        let made = thumbnails.make(&source, digest, size);
        drop(permit);
        made
    };
    shared.inspectors.run(work).await.map_err(io::Error::other)?
}

fn extension_of(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn not_found() -> Problem {
    Problem::not_found("file")
}

/// 404 for a missing file. Deleted files leave no record, so the message covers both cases.
fn result_not_found(retention: Duration) -> Problem {
    let detail =
        format!("file not found: results are kept for {} after the end of their task", format_duration(retention));
    Problem::new(Code::NotFound, detail)
}

/// Formats a duration in the largest unit that divides it.
fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute")];
    let (length, unit) = units.into_iter().find(|(length, _)| seconds.is_multiple_of(*length)).unwrap_or((1, "second"));
    let count = seconds / length;
    if count == 1 { format!("1 {unit}") } else { format!("{count} {unit}s") }
}

/// Parses a file name into the hash of the content and its media type.
fn parse_file_name(name: &str) -> Option<(Digest, &'static str)> {
    let (stem, extension) = name.split_once('.')?;
    let picture_type = ImageFormat::parse(extension).map(ImageFormat::media_type);
    let video_type = || VideoFormat::parse(extension).map(VideoFormat::media_type);
    let music_type = || MusicFormat::parse(extension).map(MusicFormat::media_type);
    let media_type = picture_type.or_else(|_| video_type()).or_else(|_| music_type()).ok()?;
    Some((Digest::parse(stem).ok()?, media_type))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;

    #[test]
    fn durations_use_the_largest_exact_unit() {
        let formatted =
            [86_400, 604_800, 90_000, 3_660, 61].map(|seconds| format_duration(Duration::from_secs(seconds)));
        assert_eq!(formatted, ["1 day", "7 days", "25 hours", "61 minutes", "61 seconds"]);
    }

    #[test]
    fn input_urls_expire_after_one_to_two_hours() {
        let dir = tempfile::tempdir().expect("a directory");
        let key = UploadKey::generate(&dir.path().join("key"), &Environment::system()).expect("a key");
        let hours = |hours: i64| Timestamp::from_micros(hours * 3_600_000_000);
        let path = expiring_input_path(&key, "a.png", hours(10));
        let (_, query) = path.split_once("?expires=").expect("a query");
        let (expires_at, signature) = query.split_once("&signature=").expect("a signature");

        let is_valid = |name, now| is_input_url(&key, name, Some(expires_at), signature, now);
        assert!(is_valid("a.png", hours(10)) && is_valid("a.png", hours(11)));
        assert!(!is_valid("a.png", hours(12)) && !is_valid("b.png", hours(10)));
        assert!(!is_input_url(&key, "a.png", None, signature, hours(10)), "a URL for vendors has another signature");
        assert_eq!(path, expiring_input_path(&key, "a.png", Timestamp::from_micros(hours(11).micros() - 1)));
    }

    #[test]
    fn only_result_names_map_to_files() {
        let digest = "a5".repeat(32);
        for (extension, media_type) in [("png", "image/png"), ("mp4", "video/mp4")] {
            assert_eq!(parse_file_name(&format!("{digest}.{extension}")).map(|(_, known)| known), Some(media_type));
        }
        for bad in
            ["", "a.png", &format!("{digest}.exe"), &digest, &format!("../{digest}.png"), &format!("{digest}.png/")]
        {
            assert!(parse_file_name(bad).is_none(), "{bad}");
        }
    }
}
