//! Request of a task for display: parameters by their API names, files by their hashes.

use std::convert::Infallible;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::domain::image::{ImageWork, Picture, PictureSource};
use crate::domain::music::{MusicSeconds, MusicWork};
use crate::domain::parameter::JobParameters;
use crate::domain::task::{Submission, TaskWork};
use crate::domain::value::{CallbackUrl, Timestamp};
use crate::domain::video::{AttachedDocument, VideoWork};
use crate::http::api::media;
use crate::media::archive::upload_token::UploadKey;

/// Creator of the URLs of input pictures.
#[derive(Clone, Copy)]
pub struct InputUrls<'s> {
    pub key: &'s UploadKey,
    /// Has no trailing slash.
    pub public_url: &'s str,
    pub now: Timestamp,
}

impl InputUrls<'_> {
    fn url(&self, picture: &Picture) -> String {
        let path = media::expiring_input_path(self.key, &picture.file_name(), self.now);
        format!("{}{path}", self.public_url)
    }
}

/// Input file of a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
enum RequestFileView {
    /// Stored picture.
    Picture {
        digest: String,
        format: &'static str,
        bytes: u64,
        width: u32,
        height: u32,
        /// Absent if the reader may not see the picture, and once it is deleted.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
    },
    /// Stored text that is returned unchanged.
    Document { digest: String, bytes: u64 },
    /// URL of a picture still to be fetched.
    Remote(String),
}

impl RequestFileView {
    fn from_source(source: &PictureSource, urls: Option<InputUrls<'_>>) -> Self {
        match source {
            PictureSource::Stored(picture) => Self::Picture {
                digest: picture.digest.to_string(),
                format: picture.format.as_str(),
                bytes: picture.bytes,
                width: picture.width,
                height: picture.height,
                url: urls.map(|urls| urls.url(picture)),
            },
            PictureSource::Remote(url) => Self::Remote(url.as_str().to_owned()),
        }
    }
}

impl From<&AttachedDocument> for RequestFileView {
    fn from(document: &AttachedDocument) -> Self {
        Self::Document { digest: document.digest.to_string(), bytes: document.bytes }
    }
}

/// Returns all parameters as a JSON object. Without `urls`, pictures have no URL.
pub fn request_parameters(submission: &Submission, urls: Option<InputUrls<'_>>) -> Box<RawValue> {
    let webhook = submission.webhook.as_ref();
    let json = match &submission.work {
        TaskWork::Image(work) => to_raw_value(&image_parameters(work, urls).with_optional("webhook_url", webhook)),
        TaskWork::Video(work) => video_parameters(work, webhook, urls),
        TaskWork::Music(work) => to_raw_value(&music_parameters(work)),
    };
    json.expect("serialization to memory with string keys cannot fail")
}

fn image_parameters(work: &ImageWork, urls: Option<InputUrls<'_>>) -> JobParameters<RequestFileView> {
    let file = |source: &PictureSource| RequestFileView::from_source(source, urls);
    work.job.parameters(file(&work.image), work.reference.as_ref().map(file))
}

fn video_parameters(
    work: &VideoWork,
    callback_url: Option<&CallbackUrl>,
    urls: Option<InputUrls<'_>>,
) -> serde_json::Result<Box<RawValue>> {
    let file = |source: &PictureSource| RequestFileView::from_source(source, urls);
    let images: Vec<RequestFileView> = work.images.iter().map(file).collect();
    let Ok(job) = work.job.clone().try_map_pictures(&mut |source| Ok::<_, Infallible>(file(&source)));
    let [payload, meta_data] = [&work.payload, &work.meta_data].map(|text| text.as_ref().map(RequestFileView::from));
    let parameters = job
        .parameters(&images, work.seed)
        .with_optional_file("payload", payload.as_ref())
        .with_optional_file("meta_data", meta_data.as_ref())
        .with_optional("callback_url", callback_url);
    to_raw_value(&parameters)
}

fn music_parameters(work: &MusicWork) -> JobParameters<RequestFileView> {
    JobParameters::new()
        .with("prompt", work.prompt.as_str())
        .with_optional("duration", work.seconds.map(MusicSeconds::get))
}
