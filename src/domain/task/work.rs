//! What a task is to make and from what, and what came of it.

use serde::{Deserialize, Serialize};

use super::{Gateway, TaskKind};
use crate::domain::image::{ImageWork, Picture, Source};
use crate::domain::music::{MusicStream, MusicWork};
use crate::domain::value::Digest;
use crate::domain::video::{Clip, Creation, Credits, VideoWork};

/// What is to be made, and from what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// A job of the image gateway.
    Image(ImageWork),
    /// A job of the video gateway.
    Video(VideoWork),
    /// Music, which is streamed to whoever asked for it.
    Music(MusicWork),
}

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Results {
    /// By the image gateway.
    Pictures(Vec<Picture>),
    /// By the video gateway.
    Video(Creation),
    /// A stream that its client has taken to the end; it is not kept.
    Music(MusicStream),
}

impl From<Vec<Picture>> for Results {
    fn from(pictures: Vec<Picture>) -> Self {
        Self::Pictures(pictures)
    }
}

impl Results {
    /// What is in our store.
    #[must_use]
    pub fn files(&self) -> Vec<Digest> {
        match self {
            Self::Pictures(pictures) => pictures.iter().map(|picture| picture.digest).collect(),
            Self::Video(creation) => creation.files(),
            Self::Music(_) => Vec::new(),
        }
    }
}

impl Work {
    /// Where it was submitted.
    #[must_use]
    pub const fn kind(&self) -> TaskKind {
        match self {
            Self::Image(work) => TaskKind::of_image(&work.job),
            Self::Video(work) => TaskKind::of_video(&work.job),
            Self::Music(_) => TaskKind::Music,
        }
    }

    /// The gateway that it came through.
    #[must_use]
    pub const fn gateway(&self) -> Gateway {
        self.kind().gateway()
    }

    /// What it is made from and what belongs to it, as far as that is in our store.
    #[must_use]
    pub fn files(&self) -> Vec<Digest> {
        match self {
            Self::Image(work) => work.sources().filter_map(Source::kept).map(|picture| picture.digest).collect(),
            Self::Video(work) => work.files(),
            Self::Music(_) => Vec::new(),
        }
    }

    /// Whether the webhook is told of the end only, instead of every change of status.
    #[must_use]
    pub const fn tells_only_the_end(&self) -> bool {
        matches!(self, Self::Image(work) if work.job.tells_only_the_end())
    }

    /// Whether inputs must be fetched before a vendor can be asked.
    #[must_use]
    pub fn lacks_inputs(&self) -> bool {
        match self {
            Self::Image(work) => work.remote().next().is_some(),
            Self::Video(work) => work.lacks_inputs(),
            Self::Music(_) => false,
        }
    }

    /// Whether a video must be fetched before a vendor can be asked.
    #[must_use]
    pub fn lacks_footage(&self) -> bool {
        matches!(self, Self::Video(work) if work.footage().is_some_and(|footage| footage.kept.is_none()))
    }

    /// Whether it is said to wait for a slot once its inputs are here (contract 5: `queueing`).
    #[must_use]
    pub const fn queues(&self) -> bool {
        matches!(self, Self::Video(_))
    }

    /// What it costs. Contract 7 has prices for videos.
    #[must_use]
    pub const fn credits(&self) -> Credits {
        match self {
            Self::Video(work) => work.credits,
            Self::Image(_) | Self::Music(_) => 0,
        }
    }

    /// Whether it may be made at any time within two days.
    #[must_use]
    pub const fn is_off_peak(&self) -> bool {
        matches!(self, Self::Video(work) if work.job.is_off_peak())
    }

    /// Which of the tasks that wait goes first: the highest.
    #[must_use]
    pub const fn priority(&self) -> i32 {
        match self {
            Self::Video(work) => work.job.priority(),
            Self::Image(_) | Self::Music(_) => 0,
        }
    }

    pub(super) fn take_in(&mut self, pictures: &[Picture]) {
        match self {
            Self::Image(work) => work.take_in(pictures),
            Self::Video(work) => work.take_in(pictures),
            Self::Music(_) => {}
        }
    }

    pub(super) fn take_in_footage(&mut self, clip: &Clip) {
        if let Self::Video(work) = self {
            work.take_in_footage(clip);
        }
    }
}
