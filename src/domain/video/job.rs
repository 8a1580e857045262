//! A complete video job: its parameters, inputs, payload and metadata.

use std::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::{AspectRatio, Clip, Credits, ExtendJob, GenerateJob, MultiframeJob, Seed, VendorCreationId};
use crate::domain::ids::TaskId;
use crate::domain::image::{Picture, PictureSource};
use crate::domain::value::{CallbackUrl, Digest};

/// Text in a file named by its hash, outside the log because a payload can have four megabytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AttachedDocument {
    pub digest: Digest,
    /// Size in bytes.
    pub bytes: u64,
}

impl AttachedDocument {
    /// Returns the name under which the text is stored; it is never served.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.txt", self.digest)
    }
}

/// An input video.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footage {
    /// The caller's task that made the video; `None` for a video made elsewhere.
    pub creation: Option<TaskId>,
    /// URL of the video.
    pub url: CallbackUrl,
    /// The stored file, once fetched.
    pub stored: Option<Clip>,
    /// The id at the remote vendor that made the video; for a video made elsewhere, the one that the caller gave.
    pub vendor_id: Option<VendorCreationId>,
}

impl Footage {
    /// Returns the id by which clients know the video.
    #[must_use]
    pub fn id_for_clients(&self) -> String {
        let id_at_vendor = || self.vendor_id.as_ref().map_or_else(String::new, |id| id.as_str().to_owned());
        self.creation.map_or_else(id_at_vendor, |creation| creation.to_string())
    }
}

/// Parameters of a job, one variant per submission endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum VideoJob<P = PictureSource> {
    /// `start-end2video`: the first picture is the first frame, the optional second one the last.
    StartEnd(GenerateJob<P>),
    /// `reference2video`: the content of the pictures appears in the video.
    Reference(GenerateJob<P>),
    /// `extend`: the optional picture is the last frame.
    Extend(ExtendJob),
    /// `multiframe`: the pictures are key frames.
    Multiframe(MultiframeJob<P>),
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

    /// Converts every picture with `map_picture`, in the order of [`VideoJob::pictures`].
    ///
    /// # Errors
    /// The first error of `map_picture`.
    pub fn try_map_pictures<Q, E>(self, map_picture: &mut impl FnMut(P) -> Result<Q, E>) -> Result<VideoJob<Q>, E> {
        Ok(match self {
            Self::StartEnd(job) => VideoJob::StartEnd(job.try_map_pictures(map_picture)?),
            Self::Reference(job) => VideoJob::Reference(job.try_map_pictures(map_picture)?),
            Self::Extend(job) => VideoJob::Extend(job),
            Self::Multiframe(job) => VideoJob::Multiframe(job.try_map_pictures(map_picture)?),
        })
    }

    /// Returns the pictures in the parameters.
    pub fn pictures(&self) -> Vec<&P> {
        match self {
            Self::StartEnd(job) | Self::Reference(job) => {
                job.watermark.iter().filter_map(|watermark| watermark.image.as_ref()).collect()
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
    pub images: Vec<PictureSource>,
    /// The seed, requested or random.
    pub seed: Seed,
    /// Returned to the caller unchanged.
    pub payload: Option<AttachedDocument>,
    /// JSON; returned to the caller unchanged.
    pub meta_data: Option<AttachedDocument>,
    /// Price at the time of submission.
    pub credits: Credits,
}

impl VideoWork {
    /// Returns the input pictures: `images` first, then those in the parameters.
    pub fn sources(&self) -> impl Iterator<Item = &PictureSource> {
        self.images.iter().chain(self.job.pictures())
    }

    /// Returns the URLs of pictures not yet in the media store, in the order of [`VideoWork::sources`].
    pub fn remote_urls(&self) -> impl Iterator<Item = &CallbackUrl> {
        self.sources().filter_map(|source| if let PictureSource::Remote(url) = source { Some(url) } else { None })
    }

    /// Returns the aspect ratio if it is known from the request: the requested one, or the default if there is no
    /// picture.
    #[must_use]
    pub fn aspect_ratio(&self) -> Option<AspectRatio> {
        match &self.job {
            VideoJob::StartEnd(job) | VideoJob::Reference(job) => {
                job.aspect_ratio.or_else(|| self.images.is_empty().then_some(AspectRatio::DEFAULT))
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
    pub fn has_missing_inputs(&self) -> bool {
        self.remote_urls().next().is_some() || self.footage().is_some_and(|footage| footage.stored.is_none())
    }

    /// Returns the inputs and documents in the media store.
    #[must_use]
    pub fn files(&self) -> Vec<Digest> {
        let pictures = self.sources().filter_map(PictureSource::stored).map(|picture| picture.digest);
        let clip = self.footage().and_then(|footage| footage.stored).map(|clip| clip.digest);
        let documents = self.payload.iter().chain(&self.meta_data).map(|document| document.digest);
        pictures.chain(clip).chain(documents).collect()
    }

    /// Replaces URLs by fetched pictures; see [`VideoWork::with_fetched`].
    pub fn set_fetched_pictures(&mut self, pictures: &[Picture]) {
        *self = self.clone().with_fetched(pictures);
    }

    /// Records that the input video is stored.
    pub fn set_footage(&mut self, clip: &Clip) {
        if let VideoJob::Extend(job) = &mut self.job {
            job.video.stored = Some(*clip);
        }
    }

    /// Replaces the URL of the input video.
    pub fn set_footage_url(&mut self, url: CallbackUrl) {
        if let VideoJob::Extend(job) = &mut self.job {
            job.video.url = url;
        }
    }

    /// Replaces URLs by fetched pictures, in order. Ignores surplus pictures; URLs without a picture remain.
    #[must_use]
    pub fn with_fetched(self, pictures: &[Picture]) -> Self {
        let mut fetched = pictures.iter();
        let mut replace = |source: PictureSource| match source {
            PictureSource::Stored(_) => source,
            PictureSource::Remote(_) => fetched.next().map_or(source, |picture| PictureSource::Stored(*picture)),
        };

        let images = self.images.into_iter().map(&mut replace).collect();
        let Ok(job) = self.job.try_map_pictures(&mut |source| Ok::<_, Infallible>(replace(source)));
        Self { job, images, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::image::ImageFormat;
    use crate::domain::video::{
        ExtendModel, ExtendResolution, KeyFrame, VideoFormat, VideoSeconds, Watermark, WatermarkPosition,
    };

    fn picture(nth: u8) -> Picture {
        Picture { digest: Digest([nth; 32]), format: ImageFormat::Png, bytes: 100, width: 8, height: 8 }
    }

    fn remote(name: &str) -> PictureSource {
        PictureSource::Remote(CallbackUrl::parse(&format!("https://a.example/{name}.png")).unwrap())
    }

    fn work(job: VideoJob, images: Vec<PictureSource>) -> VideoWork {
        VideoWork { job, images, seed: Seed::from_random(1), payload: None, meta_data: None, credits: 0 }
    }

    #[test]
    fn fetched_pictures_replace_their_urls() {
        let watermark = Watermark { position: WatermarkPosition::BottomRight, image: Some(remote("mark")) };
        let job = GenerateJob { watermark: Some(watermark), ..GenerateJob::default() };
        let work = work(VideoJob::StartEnd(job), vec![PictureSource::Stored(picture(1)), remote("end")]);
        let urls: Vec<_> = work.remote_urls().map(|url| url.as_str().to_owned()).collect();
        assert_eq!(urls, ["https://a.example/end.png", "https://a.example/mark.png"]);

        let work = work.with_fetched(&[picture(2), picture(3), picture(4)]);

        assert!(work.sources().eq(&[1, 2, 3].map(|nth| PictureSource::Stored(picture(nth)))));
    }

    #[test]
    fn the_pictures_of_key_frames_are_fetched_in_order() {
        let frame = |name| KeyFrame { image: remote(name), seconds: VideoSeconds::DEFAULT, prompt: None };
        let job = MultiframeJob {
            model: ExtendModel::Vq2Turbo,
            resolution: ExtendResolution::P720,
            start_image: Some(remote("start")),
            key_frames: vec![frame("a"), frame("b")],
        };
        let work = work(VideoJob::Multiframe(job), Vec::new()).with_fetched(&[picture(1), picture(2)]);
        let urls: Vec<_> = work.remote_urls().map(|url| url.as_str().to_owned()).collect();
        assert_eq!(urls, ["https://a.example/b.png"]);
    }

    #[test]
    fn no_input_is_missing_once_pictures_and_video_are_stored() {
        let url = CallbackUrl::parse("https://a.example/x.mp4").unwrap();
        let video = Footage { creation: None, url, stored: None, vendor_id: None };
        let model = ExtendModel::Vq2Pro;
        let resolution = ExtendResolution::P540;
        let job = ExtendJob { model, resolution, seconds: VideoSeconds::DEFAULT, prompt: None, video };
        let mut work = work(VideoJob::Extend(job), vec![remote("end")]);
        let clip = Clip { digest: Digest([9; 32]), format: VideoFormat::Mp4, bytes: 7 };

        work.set_fetched_pictures(&[picture(1)]);
        assert!(work.has_missing_inputs());
        work.set_footage(&clip);
        assert!(!work.has_missing_inputs());
        assert_eq!(work.files(), [picture(1).digest, clip.digest]);
    }
}
