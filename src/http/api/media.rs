//! Files of media tasks: results, and inputs under signed URLs. A name is a hash, so its content never changes.

use std::time::Duration;

use crate::domain::image::ImageFormat;
use crate::domain::policy::Action;
use crate::domain::value::Digest;
use crate::domain::video::VideoFormat;
use crate::http::api::file::{self, DownloadMetadata};
use crate::http::pipeline::Call;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::media::archive::upload_token::UploadKey;
use crate::media::store::MediaArea;

/// Cache control of results: a name is the hash of its content.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// Cache control of inputs, which only those with a signed URL may read.
const PRIVATE: &str = "private, max-age=3600, immutable";
/// Context of the signatures of input URLs.
const INPUT_CONTEXT: &[u8] = b"mediary input url 1\n";

/// Returns the path of an input in a signed URL, for vendors that fetch it. It works until the input is deleted.
#[must_use]
pub fn input_path(key: &UploadKey, file_name: &str) -> String {
    format!("/media/{file_name}?signature={}", key.sign(INPUT_CONTEXT, file_name.as_bytes()))
}

/// `GET /media/{file}`: a result, or the input that a signed URL names.
pub async fn file(call: Call<{ Action::ReadResult as u8 }>) -> Result<ApiResponse, Problem> {
    let name = call.path_param("file");
    let key = &call.services().registry.upload_key;
    let query = call.query()?;
    let signature = query.first("signature");
    let is_input = signature.is_some_and(|signature| key.has_signed(INPUT_CONTEXT, name.as_bytes(), signature));
    let (area, cache_control) = if is_input { (MediaArea::Input, PRIVATE) } else { (MediaArea::Result, IMMUTABLE) };

    let path = call.services().media.store.path_of(area, &name).ok_or_else(not_found)?;
    let (digest, content_type) = parse_file_name(&name).ok_or_else(not_found)?;
    let metadata = DownloadMetadata { digest, content_type, cache_control, headers: Vec::new() };
    let retention = call.services().options.media_retention;
    file::send(&call, &path, metadata).await?.ok_or_else(|| result_not_found(retention))
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
    let media_type = picture_type.or_else(|_| VideoFormat::parse(extension).map(VideoFormat::media_type));
    Some((Digest::parse(stem).ok()?, media_type.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_use_the_largest_exact_unit() {
        let formatted =
            [86_400, 604_800, 90_000, 3_660, 61].map(|seconds| format_duration(Duration::from_secs(seconds)));
        assert_eq!(formatted, ["1 day", "7 days", "25 hours", "61 minutes", "61 seconds"]);
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
