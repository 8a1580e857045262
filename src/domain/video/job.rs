//! A video job whole: what is asked for, what it is made from, and what its caller gets back as it was.

use std::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{Extend, Generate, Multiframe, Seed};
use crate::domain::ids::TaskId;
use crate::domain::image::{Picture, Source};
use crate::domain::value::{CallbackUrl, Digest};

/// Text that is kept outside the log, by the hash of its bytes: what a caller gets back as it was may have four megabytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Document {
    pub digest: Digest,
    /// Length in bytes.
    pub bytes: u64,
}

/// A video that is worked on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footage {
    /// The task that made it, as its caller says.
    pub creation: TaskId,
    /// Where it is.
    pub url: CallbackUrl,
}

/// What is asked for, a variant for each submission endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum VideoJob<P = Source> {
    /// `start-end2video`: the first picture is the first frame, a second one the last.
    StartEnd(Generate<P>),
    /// `reference2video`: what the pictures show appears in it.
    Reference(Generate<P>),
    /// `extend`: the picture is the last frame.
    Extend(Extend),
    /// `multiframe`: its pictures are in it.
    Multiframe(Multiframe<P>),
}

impl<P> VideoJob<P> {
    /// What the job is called where tasks of every kind are shown: the last part of the path where it is submitted.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::StartEnd(_) => "start-end2video",
            Self::Reference(_) => "reference2video",
            Self::Extend(_) => "extend",
            Self::Multiframe(_) => "multiframe",
        }
    }

    /// Whether it may be made at any time within two days.
    #[must_use]
    pub const fn is_off_peak(&self) -> bool {
        match self {
            Self::StartEnd(job) | Self::Reference(job) => job.off_peak,
            Self::Extend(_) | Self::Multiframe(_) => false,
        }
    }

    /// Which of the tasks that wait goes first: the highest.
    #[must_use]
    pub const fn priority(&self) -> i32 {
        match self {
            Self::StartEnd(job) | Self::Reference(job) => job.priority,
            Self::Extend(_) | Self::Multiframe(_) => 0,
        }
    }

    /// The same job with other pictures, as `each` makes them, in the order of [`VideoJob::pictures`].
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn with_pictures<Q, E>(self, each: &mut impl FnMut(P) -> Result<Q, E>) -> Result<VideoJob<Q>, E> {
        Ok(match self {
            Self::StartEnd(job) => VideoJob::StartEnd(job.with_pictures(each)?),
            Self::Reference(job) => VideoJob::Reference(job.with_pictures(each)?),
            Self::Extend(job) => VideoJob::Extend(job),
            Self::Multiframe(job) => VideoJob::Multiframe(job.with_pictures(each)?),
        })
    }

    /// The pictures within the parameters.
    pub fn pictures(&self) -> Vec<&P> {
        match self {
            Self::StartEnd(job) | Self::Reference(job) => {
                job.watermark.iter().filter_map(|mark| mark.image.as_ref()).collect()
            }
            Self::Extend(_) => Vec::new(),
            Self::Multiframe(job) => {
                job.start_image.iter().chain(job.key_frames.iter().map(|frame| &frame.image)).collect()
            }
        }
    }
}

/// A video job with its pictures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VideoWork {
    pub job: VideoJob,
    /// `images` of the interface.
    pub images: Vec<Source>,
    /// What chance decides, as asked for or drawn.
    pub seed: Seed,
    /// Handed back as it was.
    pub payload: Option<Document>,
    /// JSON; handed back as it was.
    pub meta_data: Option<Document>,
}

impl VideoWork {
    /// Where the pictures are: those of `images` first, then those within the parameters.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.images.iter().chain(self.job.pictures())
    }

    /// The URLs of pictures that are not in our store yet, in the order of [`VideoWork::sources`].
    pub fn remote(&self) -> impl Iterator<Item = &CallbackUrl> {
        self.sources().filter_map(|source| if let Source::Remote(url) = source { Some(url) } else { None })
    }

    /// Puts fetched pictures in the place of their URLs; those that are too many are ignored, those that lack stay URLs.
    #[must_use]
    pub fn with_fetched(self, pictures: &[Picture]) -> Self {
        let mut fetched = pictures.iter();
        let mut take = |source: Source| match source {
            Source::Kept(_) => source,
            Source::Remote(_) => fetched.next().map_or(source, |picture| Source::Kept(*picture)),
        };
        let images = self.images.into_iter().map(&mut take).collect();
        let job = self.job.with_pictures(&mut |source| Ok::<_, Infallible>(take(source)));
        let Ok(job) = job;
        Self { job, images, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::image::ImageFormat;
    use crate::domain::video::{ExtendModel, ExtendResolution, KeyFrame, Seconds, Watermark, WatermarkPosition};

    fn picture(nth: u8) -> Picture {
        Picture { digest: Digest([nth; 32]), format: ImageFormat::Png, bytes: 100, width: 8, height: 8 }
    }

    fn remote(name: &str) -> Source {
        Source::Remote(CallbackUrl::parse(&format!("https://a.example/{name}.png")).unwrap())
    }

    fn work(job: VideoJob, images: Vec<Source>) -> VideoWork {
        VideoWork { job, images, seed: Seed::drawn(1), payload: None, meta_data: None }
    }

    #[test]
    fn fetched_pictures_take_the_places_of_their_urls() {
        let mark = Watermark { position: WatermarkPosition::BottomRight, image: Some(remote("mark")) };
        let job = Generate { watermark: Some(mark), ..Generate::default() };
        let work = work(VideoJob::StartEnd(job), vec![Source::Kept(picture(1)), remote("end")]);
        let urls: Vec<_> = work.remote().map(|url| url.as_str().to_owned()).collect();
        assert_eq!(urls, ["https://a.example/end.png", "https://a.example/mark.png"]);

        let work = work.with_fetched(&[picture(2), picture(3), picture(4)]);

        assert!(work.sources().eq(&[1, 2, 3].map(|nth| Source::Kept(picture(nth)))));
    }

    #[test]
    fn the_pictures_of_key_frames_are_fetched_in_their_order() {
        let frame = |name| KeyFrame { image: remote(name), seconds: Seconds::USUAL, prompt: None };
        let job = Multiframe {
            model: ExtendModel::Vq2Turbo,
            resolution: ExtendResolution::P720,
            start_image: Some(remote("start")),
            key_frames: vec![frame("a"), frame("b")],
        };
        let work = work(VideoJob::Multiframe(job), Vec::new()).with_fetched(&[picture(1), picture(2)]);
        let urls: Vec<_> = work.remote().map(|url| url.as_str().to_owned()).collect();
        assert_eq!(urls, ["https://a.example/b.png"]);
    }
}
