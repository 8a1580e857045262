//! Request of a task for display: parameters by their API names, files by their hashes.

use std::convert::Infallible;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::domain::image::{ImageWork, Picture, PictureSource};
use crate::domain::music::{MusicSeconds, MusicWork};
use crate::domain::parameter::JobParameters;
use crate::domain::task::{Submission, TaskWork};
use crate::domain::value::CallbackUrl;
use crate::domain::video::{AttachedDocument, VideoWork};

/// Input file of a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
enum FileView {
    /// Stored picture.
    Picture { digest: String, format: &'static str, bytes: u64, width: u32, height: u32 },
    /// Stored text that is returned unchanged.
    Document { digest: String, bytes: u64 },
    /// URL of a picture still to be fetched.
    Remote(String),
}

impl From<&PictureSource> for FileView {
    fn from(source: &PictureSource) -> Self {
        match source {
            PictureSource::Stored(Picture { digest, format, bytes, width, height }) => Self::Picture {
                digest: digest.to_string(),
                format: format.as_str(),
                bytes: *bytes,
                width: *width,
                height: *height,
            },
            PictureSource::Remote(url) => Self::Remote(url.as_str().to_owned()),
        }
    }
}

impl From<&AttachedDocument> for FileView {
    fn from(document: &AttachedDocument) -> Self {
        Self::Document { digest: document.digest.to_string(), bytes: document.bytes }
    }
}

/// Returns all parameters as a JSON object.
pub fn request_parameters(submission: &Submission) -> Box<RawValue> {
    let webhook = submission.webhook.as_ref();
    let json = match &submission.work {
        TaskWork::Image(work) => to_raw_value(&image_parameters(work).with_optional("webhook_url", webhook)),
        TaskWork::Video(work) => video_parameters(work, webhook),
        TaskWork::Music(work) => to_raw_value(&music_parameters(work)),
    };
    json.expect("serialization to memory with string keys cannot fail")
}

fn image_parameters(work: &ImageWork) -> JobParameters<FileView> {
    work.job.parameters((&work.image).into(), work.reference.as_ref().map(FileView::from))
}

fn video_parameters(work: &VideoWork, callback_url: Option<&CallbackUrl>) -> serde_json::Result<Box<RawValue>> {
    let images: Vec<FileView> = work.images.iter().map(FileView::from).collect();
    let Ok(job) = work.job.clone().try_map_pictures(&mut |source| Ok::<_, Infallible>(FileView::from(&source)));
    let [payload, meta_data] = [&work.payload, &work.meta_data].map(|text| text.as_ref().map(FileView::from));
    let parameters = job
        .parameters(&images, work.seed)
        .with_optional_file("payload", payload.as_ref())
        .with_optional_file("meta_data", meta_data.as_ref())
        .with_optional("callback_url", callback_url);
    to_raw_value(&parameters)
}

fn music_parameters(work: &MusicWork) -> JobParameters<FileView> {
    JobParameters::new()
        .with("prompt", work.prompt.as_str())
        .with_optional("duration", work.seconds.map(MusicSeconds::get))
}
