//! Parameters of video jobs by their API names.

use super::{ExtendJob, GenerateJob, KeyFrame, MultiframeJob, Seed, VideoJob};
use crate::domain::parameter::{JobParameter, JobParameters};

impl<P> VideoJob<P> {
    /// Returns all parameters, including `images`. An input video is identified by the id that clients know.
    pub fn parameters<'p>(&'p self, images: &'p [P], seed: Seed) -> JobParameters<&'p P> {
        let list = JobParameter::List(images.iter().map(JobParameter::File).collect());
        JobParameters::new().with_optional("images", (!images.is_empty()).then_some(list)).merge(match self {
            Self::StartEnd(job) | Self::Reference(job) => generate(job, seed),
            Self::Extend(job) => extend(job),
            Self::Multiframe(job) => multiframe(job),
        })
    }
}

fn generate<P>(job: &GenerateJob<P>, seed: Seed) -> JobParameters<&P> {
    let watermark = job.watermark.as_ref();
    JobParameters::new()
        .with_optional("prompt", job.prompt.as_ref())
        .with("model", job.model.as_str())
        .with("duration", job.seconds.get())
        .with("resolution", job.resolution.as_str())
        .with_optional("aspect_ratio", job.aspect_ratio.map(|ratio| JobParameter::Text(ratio.to_string())))
        .with("style", job.style.as_str())
        .with("movement_amplitude", job.movement_amplitude.as_str())
        .with("seed", seed.get())
        .with("enhance", job.enhance)
        .with("is_rec", job.is_rec)
        .with("audio", job.audio)
        .with("audio_type", job.audio_type.as_str())
        .with_optional("voice_id", job.voice_id.as_ref())
        .with("bgm", job.bgm)
        .with("off_peak", job.off_peak)
        .with("priority", job.priority)
        .with("watermark", watermark.is_some())
        .with_optional("wm_position", watermark.map(|watermark| watermark.position.number()))
        .with_optional_file("wm_url", watermark.and_then(|watermark| watermark.image.as_ref()))
}

fn extend<P>(job: &ExtendJob) -> JobParameters<&P> {
    JobParameters::new()
        .with("video_creation_id", JobParameter::Text(job.video.id_for_clients()))
        .with("video_url", &job.video.url)
        .with_optional("prompt", job.prompt.as_ref())
        .with("model", job.model.as_str())
        .with("duration", job.seconds.get())
        .with("resolution", job.resolution.as_str())
}

fn multiframe<P>(job: &MultiframeJob<P>) -> JobParameters<&P> {
    let frames = job.key_frames.iter().map(|frame| key_frame(frame).into()).collect();
    JobParameters::new()
        .with_optional_file("start_image", job.start_image.as_ref())
        .with("image_settings", JobParameter::List(frames))
        .with("model", job.model.as_str())
        .with("resolution", job.resolution.as_str())
}

fn key_frame<P>(frame: &KeyFrame<P>) -> JobParameters<&P> {
    JobParameters::new()
        .with("key_image", JobParameter::File(&frame.image))
        .with("duration", frame.seconds.get())
        .with_optional("prompt", frame.prompt.as_ref())
}
