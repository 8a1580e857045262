//! The work of a task: its job, inputs and results.

use serde::{Deserialize, Serialize};

use super::{Gateway, TaskKind};
use crate::domain::image::{ImageJob, ImageWork, Picture, PictureSource, SkinMode};
use crate::domain::music::{MusicStream, MusicWork};
use crate::domain::value::Digest;
use crate::domain::video::{Clip, Creation, Credits, VideoWork};

/// A job with its inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskWork {
    /// A job of the image gateway.
    Image(ImageWork),
    /// A job of the video gateway.
    Video(VideoWork),
    /// Music, streamed to the client that requested it.
    Music(MusicWork),
}

/// The results of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskResults {
    /// Pictures of the image gateway.
    Pictures(Vec<Picture>),
    /// A video of the video gateway.
    Video(Creation),
    /// A stream that was sent completely.
    Music(MusicStream),
}

impl From<Vec<Picture>> for TaskResults {
    fn from(pictures: Vec<Picture>) -> Self {
        Self::Pictures(pictures)
    }
}

impl TaskResults {
    /// Returns the result files in the media store.
    #[must_use]
    pub fn files(&self) -> Vec<Digest> {
        match self {
            Self::Pictures(pictures) => pictures.iter().map(|picture| picture.digest).collect(),
            Self::Video(creation) => creation.files(),
            Self::Music(stream) => stream.files.iter().flatten().map(|file| file.digest).collect(),
        }
    }
}

impl TaskWork {
    /// Returns the kind, and with it the submission endpoint.
    #[must_use]
    pub const fn kind(&self) -> TaskKind {
        match self {
            Self::Image(work) => TaskKind::from_image_job(&work.job),
            Self::Video(work) => TaskKind::from_video_job(&work.job),
            Self::Music(_) => TaskKind::Music,
        }
    }

    /// Returns the name of the job: the kind, with the mode if it has several.
    #[must_use]
    pub const fn job_name(&self) -> &'static str {
        match self {
            Self::Image(ImageWork { job: ImageJob::SkinEnhance(job), .. }) => match job.mode {
                SkinMode::Creative => "skin-enhancer/creative",
                SkinMode::Faithful { .. } => "skin-enhancer/faithful",
                SkinMode::Flexible { .. } => "skin-enhancer/flexible",
            },
            _ => self.kind().as_str(),
        }
    }

    /// Returns the gateway that accepted the task.
    #[must_use]
    pub const fn gateway(&self) -> Gateway {
        self.kind().gateway()
    }

    /// Returns the inputs and attached documents in the media store.
    #[must_use]
    pub fn files(&self) -> Vec<Digest> {
        match self {
            Self::Image(work) => {
                work.sources().filter_map(PictureSource::stored).map(|picture| picture.digest).collect()
            }
            Self::Video(work) => work.files(),
            Self::Music(_) => Vec::new(),
        }
    }

    /// Returns `true` if the webhook is called only at the end instead of after every status change.
    #[must_use]
    pub const fn notifies_only_at_end(&self) -> bool {
        matches!(self, Self::Image(work) if work.job.notifies_only_at_end())
    }

    /// Returns `true` if inputs must be fetched before the vendor call.
    #[must_use]
    pub fn has_missing_inputs(&self) -> bool {
        match self {
            Self::Image(work) => work.remote_urls().next().is_some(),
            Self::Video(work) => work.has_missing_inputs(),
            Self::Music(_) => false,
        }
    }

    /// Returns `true` if a video must be fetched before the vendor call.
    #[must_use]
    pub fn has_missing_footage(&self) -> bool {
        matches!(self, Self::Video(work) if work.footage().is_some_and(|footage| footage.stored.is_none()))
    }

    /// Returns `true` if the task has the status `queueing` while it waits for a slot (contract 5).
    #[must_use]
    pub const fn has_queueing_status(&self) -> bool {
        matches!(self, Self::Video(_))
    }

    /// Returns the price.
    #[must_use]
    pub const fn credits(&self) -> Credits {
        match self {
            Self::Video(work) => work.credits,
            Self::Image(work) => work.credits,
            Self::Music(work) => work.credits,
        }
    }

    /// Returns `true` if the task may run at any time within two days.
    #[must_use]
    pub const fn is_off_peak(&self) -> bool {
        matches!(self, Self::Video(work) if work.job.is_off_peak())
    }

    /// Returns the priority among waiting tasks; the highest runs first.
    #[must_use]
    pub const fn priority(&self) -> i32 {
        match self {
            Self::Video(work) => work.job.priority(),
            Self::Image(_) | Self::Music(_) => 0,
        }
    }

    pub(super) fn set_fetched_pictures(&mut self, pictures: &[Picture]) {
        match self {
            Self::Image(work) => work.set_fetched_pictures(pictures),
            Self::Video(work) => work.set_fetched_pictures(pictures),
            Self::Music(_) => {}
        }
    }

    pub(super) fn set_footage(&mut self, clip: &Clip) {
        if let Self::Video(work) = self {
            work.set_footage(clip);
        }
    }
}
