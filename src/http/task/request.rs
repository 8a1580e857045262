//! Request of a task for display: parameters by their API names, files by their hashes.

use std::convert::Infallible;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::domain::image::{ImageWork, Picture, Source};
use crate::domain::music::{MusicSeconds, MusicWork};
use crate::domain::parameter::Parameters;
use crate::domain::task::{Submission, Work};
use crate::domain::value::CallbackUrl;
use crate::domain::video::{Document, VideoWork};

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

impl From<&Source> for FileView {
    fn from(source: &Source) -> Self {
        match source {
            Source::Kept(Picture { digest, format, bytes, width, height }) => Self::Picture {
                digest: digest.to_string(),
                format: format.as_str(),
                bytes: *bytes,
                width: *width,
                height: *height,
            },
            Source::Remote(url) => Self::Remote(url.as_str().to_owned()),
        }
    }
}

impl From<&Document> for FileView {
    fn from(document: &Document) -> Self {
        Self::Document { digest: document.digest.to_string(), bytes: document.bytes }
    }
}

/// Returns all parameters as a JSON object.
pub fn requested(submission: &Submission) -> Box<RawValue> {
    let told = submission.webhook.as_ref();
    let written = match &submission.work {
        Work::Image(work) => to_raw_value(&of_image(work).given("webhook_url", told)),
        Work::Video(work) => of_video(work, told),
        Work::Music(work) => to_raw_value(&of_music(work)),
    };
    written.expect("serialization to memory with string keys cannot fail")
}

fn of_image(work: &ImageWork) -> Parameters<FileView> {
    work.job.parameters((&work.image).into(), work.reference.as_ref().map(FileView::from))
}

fn of_video(work: &VideoWork, told: Option<&CallbackUrl>) -> serde_json::Result<Box<RawValue>> {
    let images: Vec<FileView> = work.images.iter().map(FileView::from).collect();
    let Ok(job) = work.job.clone().with_pictures(&mut |source| Ok::<_, Infallible>(FileView::from(&source)));
    let [payload, meta_data] = [&work.payload, &work.meta_data].map(|text| text.as_ref().map(FileView::from));
    let parameters = job
        .parameters(&images, work.seed)
        .given_file("payload", payload.as_ref())
        .given_file("meta_data", meta_data.as_ref())
        .given("callback_url", told);
    to_raw_value(&parameters)
}

fn of_music(work: &MusicWork) -> Parameters<FileView> {
    Parameters::none().with("prompt", work.prompt.as_str()).given("duration", work.seconds.map(MusicSeconds::get))
}
