//! A video job whole: what is asked for, what it is made from, and what its caller gets back as it was.

use std::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{AspectRatio, Clip, Credits, Extend, Generate, Multiframe, Seed, VendorCreation};
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

impl Document {
    /// The name under which the text is stored; it is never served.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.txt", self.digest)
    }
}

/// A video that is worked on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footage {
    /// The task that made it, as its caller says.
    pub creation: TaskId,
    /// Where it is.
    pub url: CallbackUrl,
    /// Once it is in our store.
    pub kept: Option<Clip>,
    /// Where a remote vendor made it.
    pub at_vendor: Option<VendorCreation>,
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
    /// The model that makes it, by its name.
    #[must_use]
    pub const fn model(&self) -> &'static str {
        match self {
            Self::StartEnd(job) | Self::Reference(job) => job.model.as_str(),
            Self::Extend(job) => job.model.as_str(),
            Self::Multiframe(job) => job.model.as_str(),
        }
    }

    /// Its resolution, by its name.
    #[must_use]
    pub const fn resolution(&self) -> &'static str {
        match self {
            Self::StartEnd(job) | Self::Reference(job) => job.resolution.as_str(),
            Self::Extend(job) => job.resolution.as_str(),
            Self::Multiframe(job) => job.resolution.as_str(),
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
    /// What it costs, by the prices at its submission.
    pub credits: Credits,
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

    /// The ratio of its sides, as far as that follows from what was asked: as it was asked for, or the usual one where no picture
    /// says otherwise.
    #[must_use]
    pub fn aspect_ratio(&self) -> Option<AspectRatio> {
        match &self.job {
            VideoJob::StartEnd(job) | VideoJob::Reference(job) => {
                job.aspect_ratio.or_else(|| self.images.is_empty().then_some(AspectRatio::USUAL))
            }
            VideoJob::Extend(_) | VideoJob::Multiframe(_) => None,
        }
    }

    /// The video that is worked on, if one is.
    #[must_use]
    pub const fn footage(&self) -> Option<&Footage> {
        match &self.job {
            VideoJob::Extend(job) => Some(&job.video),
            VideoJob::StartEnd(_) | VideoJob::Reference(_) | VideoJob::Multiframe(_) => None,
        }
    }

    /// Whether something must be fetched before the work can begin.
    #[must_use]
    pub fn lacks_inputs(&self) -> bool {
        self.remote().next().is_some() || self.footage().is_some_and(|footage| footage.kept.is_none())
    }

    /// What of it is in our store.
    #[must_use]
    pub fn files(&self) -> Vec<Digest> {
        let pictures = self.sources().filter_map(Source::kept).map(|picture| picture.digest);
        let clip = self.footage().and_then(|footage| footage.kept).map(|clip| clip.digest);
        let documents = self.payload.iter().chain(&self.meta_data).map(|document| document.digest);
        pictures.chain(clip).chain(documents).collect()
    }

    /// As [`VideoWork::with_fetched`].
    pub fn take_in(&mut self, pictures: &[Picture]) {
        *self = self.clone().with_fetched(pictures);
    }

    /// The video that is worked on is in our store.
    pub fn take_in_footage(&mut self, clip: &Clip) {
        if let VideoJob::Extend(job) = &mut self.job {
            job.video.kept = Some(*clip);
        }
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
    use crate::domain::video::{
        ExtendModel, ExtendResolution, KeyFrame, Seconds, VideoFormat, Watermark, WatermarkPosition,
    };

    fn picture(nth: u8) -> Picture {
        Picture { digest: Digest([nth; 32]), format: ImageFormat::Png, bytes: 100, width: 8, height: 8 }
    }

    fn remote(name: &str) -> Source {
        Source::Remote(CallbackUrl::parse(&format!("https://a.example/{name}.png")).unwrap())
    }

    fn work(job: VideoJob, images: Vec<Source>) -> VideoWork {
        VideoWork { job, images, seed: Seed::drawn(1), payload: None, meta_data: None, credits: 0 }
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

    #[test]
    fn work_begins_once_pictures_and_video_are_here() {
        let url = CallbackUrl::parse("https://a.example/x.mp4").unwrap();
        let video = Footage { creation: TaskId(uuid::Uuid::nil()), url, kept: None, at_vendor: None };
        let (model, resolution) = (ExtendModel::Vq2Pro, ExtendResolution::P540);
        let job = Extend { model, resolution, seconds: Seconds::USUAL, prompt: None, video };
        let mut work = work(VideoJob::Extend(job), vec![remote("end")]);
        let clip = Clip { digest: Digest([9; 32]), format: VideoFormat::Mp4, bytes: 7 };

        work.take_in(&[picture(1)]);
        assert!(work.lacks_inputs());
        work.take_in_footage(&clip);
        assert!(!work.lacks_inputs());
        assert_eq!(work.files(), [picture(1).digest, clip.digest]);
    }
}
