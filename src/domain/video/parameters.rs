//! Parameters of video jobs by their API names.

use super::{Extend, Generate, KeyFrame, Multiframe, Seed, VideoJob};
use crate::domain::parameter::{Parameter, Parameters};

impl<P> VideoJob<P> {
    /// Returns all parameters, including `images`. An input video is given by the caller's name for it.
    pub fn parameters<'p>(&'p self, images: &'p [P], seed: Seed) -> Parameters<&'p P> {
        let list = Parameter::List(images.iter().map(Parameter::File).collect());
        Parameters::none().given("images", (!images.is_empty()).then_some(list)).and(match self {
            Self::StartEnd(job) | Self::Reference(job) => generate(job, seed),
            Self::Extend(job) => extend(job),
            Self::Multiframe(job) => multiframe(job),
        })
    }
}

fn generate<P>(job: &Generate<P>, seed: Seed) -> Parameters<&P> {
    let mark = job.watermark.as_ref();
    Parameters::none()
        .given("prompt", job.prompt.as_ref())
        .with("model", job.model.as_str())
        .with("duration", job.seconds.get())
        .with("resolution", job.resolution.as_str())
        .given("aspect_ratio", job.aspect_ratio.map(|ratio| Parameter::Text(ratio.to_string())))
        .with("style", job.style.as_str())
        .with("movement_amplitude", job.movement_amplitude.as_str())
        .with("seed", seed.get())
        .with("enhance", job.enhance)
        .with("is_rec", job.is_rec)
        .with("audio", job.audio)
        .with("audio_type", job.audio_type.as_str())
        .given("voice_id", job.voice_id.as_ref())
        .with("bgm", job.bgm)
        .with("off_peak", job.off_peak)
        .with("priority", job.priority)
        .with("watermark", mark.is_some())
        .given("wm_position", mark.map(|mark| mark.position.number()))
        .given_file("wm_url", mark.and_then(|mark| mark.image.as_ref()))
}

fn extend<P>(job: &Extend) -> Parameters<&P> {
    Parameters::none()
        .with("video_creation_id", Parameter::Text(job.video.creation.to_string()))
        .with("video_url", &job.video.url)
        .given("prompt", job.prompt.as_ref())
        .with("model", job.model.as_str())
        .with("duration", job.seconds.get())
        .with("resolution", job.resolution.as_str())
}

fn multiframe<P>(job: &Multiframe<P>) -> Parameters<&P> {
    let frames = job.key_frames.iter().map(|frame| key_frame(frame).into()).collect();
    Parameters::none()
        .given_file("start_image", job.start_image.as_ref())
        .with("image_settings", Parameter::List(frames))
        .with("model", job.model.as_str())
        .with("resolution", job.resolution.as_str())
}

fn key_frame<P>(frame: &KeyFrame<P>) -> Parameters<&P> {
    Parameters::none()
        .with("key_image", Parameter::File(&frame.image))
        .with("duration", frame.seconds.get())
        .given("prompt", frame.prompt.as_ref())
}
