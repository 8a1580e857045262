//! A complete video job: its parameters, inputs, payload and metadata.

use std::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{AspectRatio, Clip, Credits, Extend, Generate, Multiframe, Seed, VendorCreation};
use crate::domain::ids::TaskId;
use crate::domain::image::{Picture, Source};
use crate::domain::value::{CallbackUrl, Digest};

/// Text in a file outside the log, named by its hash. A payload can have four megabytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Document {
    pub digest: Digest,
    /// Size in bytes.
    pub bytes: u64,
}

impl Document {
    /// Returns the name under which the text is stored; it is never served.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.txt", self.digest)
    }
}

/// An input video.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footage {
    /// The task that made the video, according to the caller.
    pub creation: TaskId,
    /// URL of the video.
    pub url: CallbackUrl,
    /// The stored file, once fetched.
    pub kept: Option<Clip>,
    /// The id at the remote vendor that made the video.
    pub at_vendor: Option<VendorCreation>,
}

/// Parameters of a job, one variant per submission endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum VideoJob<P = Source> {
    /// `start-end2video`: the first picture is the first frame, the optional second one the last.
    StartEnd(Generate<P>),
    /// `reference2video`: the content of the pictures appears in the video.
    Reference(Generate<P>),
    /// `extend`: the optional picture is the last frame.
    Extend(Extend),
    /// `multiframe`: the pictures are key frames.
    Multiframe(Multiframe<P>),
}

impl<P> VideoJob<P> {
    /// Returns the name of the model.
    #[must_use]
    pub const fn model(&self) -> &'static str {
        match self {
            Self::StartEnd(job) | Self::Reference(job) => job.model.as_str(),
            Self::Extend(job) => job.model.as_str(),
            Self::Multiframe(job) => job.model.as_str(),
        }
    }

    /// Returns the name of the resolution.
    #[must_use]
    pub const fn resolution(&self) -> &'static str {
        match self {
            Self::StartEnd(job) | Self::Reference(job) => job.resolution.as_str(),
            Self::Extend(job) => job.resolution.as_str(),
            Self::Multiframe(job) => job.resolution.as_str(),
        }
    }

    /// Returns `true` if the job may run at any time within two days.
    #[must_use]
    pub const fn is_off_peak(&self) -> bool {
        match self {
            Self::StartEnd(job) | Self::Reference(job) => job.off_peak,
            Self::Extend(_) | Self::Multiframe(_) => false,
        }
    }

    /// Returns the priority among waiting tasks; the highest runs first.
    #[must_use]
    pub const fn priority(&self) -> i32 {
        match self {
            Self::StartEnd(job) | Self::Reference(job) => job.priority,
            Self::Extend(_) | Self::Multiframe(_) => 0,
        }
    }

    /// Converts every picture with `each`, in the order of [`VideoJob::pictures`].
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

    /// Returns the pictures in the parameters.
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
    /// `images` of the API.
    pub images: Vec<Source>,
    /// The seed, requested or random.
    pub seed: Seed,
    /// Returned to the caller unchanged.
    pub payload: Option<Document>,
    /// JSON; returned to the caller unchanged.
    pub meta_data: Option<Document>,
    /// Price at the time of submission.
    pub credits: Credits,
}

impl VideoWork {
    /// Returns the input pictures: `images` first, then those in the parameters.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.images.iter().chain(self.job.pictures())
    }

    /// Returns the URLs of pictures not yet in the media store, in the order of [`VideoWork::sources`].
    pub fn remote(&self) -> impl Iterator<Item = &CallbackUrl> {
        self.sources().filter_map(|source| if let Source::Remote(url) = source { Some(url) } else { None })
    }

    /// Returns the aspect ratio if it is known from the request: the requested one, or the default if there is no
    /// picture.
    #[must_use]
    pub fn aspect_ratio(&self) -> Option<AspectRatio> {
        match &self.job {
            VideoJob::StartEnd(job) | VideoJob::Reference(job) => {
                job.aspect_ratio.or_else(|| self.images.is_empty().then_some(AspectRatio::USUAL))
            }
            VideoJob::Extend(_) | VideoJob::Multiframe(_) => None,
        }
    }

    /// Returns the input video, if the job has one.
    #[must_use]
    pub const fn footage(&self) -> Option<&Footage> {
        match &self.job {
            VideoJob::Extend(job) => Some(&job.video),
            VideoJob::StartEnd(_) | VideoJob::Reference(_) | VideoJob::Multiframe(_) => None,
        }
    }

    /// Returns `true` if inputs must be fetched before work can begin.
    #[must_use]
    pub fn lacks_inputs(&self) -> bool {
        self.remote().next().is_some() || self.footage().is_some_and(|footage| footage.kept.is_none())
    }

    /// Returns the inputs and documents in the media store.
    #[must_use]
    pub fn files(&self) -> Vec<Digest> {
        let pictures = self.sources().filter_map(Source::kept).map(|picture| picture.digest);
        let clip = self.footage().and_then(|footage| footage.kept).map(|clip| clip.digest);
        let documents = self.payload.iter().chain(&self.meta_data).map(|document| document.digest);
        pictures.chain(clip).chain(documents).collect()
    }

    /// Replaces URLs by fetched pictures; see [`VideoWork::with_fetched`].
    pub fn take_in(&mut self, pictures: &[Picture]) {
        *self = self.clone().with_fetched(pictures);
    }

    /// Records that the input video is stored.
    pub fn take_in_footage(&mut self, clip: &Clip) {
        if let VideoJob::Extend(job) = &mut self.job {
            job.video.kept = Some(*clip);
        }
    }

    /// Replaces URLs by fetched pictures, in order. Ignores surplus pictures; URLs without a picture remain.
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
