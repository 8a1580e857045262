//! Conversion of stored video and music jobs, and their results, to domain values.

use super::image::source;
use super::media::picture;
use super::{CommitDecodeError, check_field, text, uuid, v2};
use crate::domain::ids::TaskId;
use crate::domain::image::PictureSource;
use crate::domain::music::{MusicPrompt, MusicSeconds, MusicStream, MusicWork};
use crate::domain::value::{CallbackUrl, Digest};
use crate::domain::video::{
    AspectRatio, AttachedDocument, AudioType, Clip, Creation, ExtendJob, ExtendModel, ExtendResolution, Footage,
    GenerateJob, KeyFrame, MovementAmplitude, MultiframeJob, Resolution, Seed, VideoFormat, VideoJob, VideoModel,
    VideoSeconds, VideoStyle, VideoWork, Watermark, WatermarkPosition,
};

pub(super) fn work(stored: v2::VideoWorkV2<'_>) -> Result<VideoWork, CommitDecodeError> {
    Ok(VideoWork {
        job: job(stored.job)?,
        images: stored.images.into_iter().map(source).collect::<Result<_, _>>()?,
        seed: check_field("seed", Seed::new(stored.seed.into()))?,
        payload: stored.payload.as_ref().map(document),
        meta_data: stored.meta_data.as_ref().map(document),
        credits: stored.credits,
    })
}

pub(super) fn music(prompt: String, stored: Option<u16>) -> Result<MusicWork, CommitDecodeError> {
    let seconds = stored.map(|stored| check_field("music seconds", MusicSeconds::new(stored.into()))).transpose()?;
    Ok(MusicWork { prompt: MusicPrompt::from_recorded(prompt), seconds })
}

fn job(stored: v2::VideoJobV2<'_>) -> Result<VideoJob, CommitDecodeError> {
    Ok(match stored {
        v2::VideoJobV2::StartEnd(stored) => VideoJob::StartEnd(generate(stored)?),
        v2::VideoJobV2::Reference(stored) => VideoJob::Reference(generate(stored)?),
        v2::VideoJobV2::Extend(stored) => VideoJob::Extend(extend(stored)?),
        v2::VideoJobV2::Multiframe(stored) => VideoJob::Multiframe(multiframe(stored)?),
    })
}

fn generate(stored: v2::GenerateV2<'_>) -> Result<GenerateJob, CommitDecodeError> {
    let ratio = |stored| check_field("aspect ratio", AspectRatio::parse(stored));
    Ok(GenerateJob {
        model: check_field("model", VideoModel::parse(&stored.model))?,
        resolution: check_field("resolution", Resolution::parse(&stored.resolution))?,
        seconds: seconds(stored.seconds)?,
        aspect_ratio: stored.aspect_ratio.as_deref().map(ratio).transpose()?,
        movement_amplitude: check_field("movement amplitude", MovementAmplitude::parse(&stored.movement_amplitude))?,
        style: check_field("style", VideoStyle::parse(&stored.style))?,
        audio: stored.audio,
        audio_type: check_field("audio type", AudioType::parse(&stored.audio_type))?,
        bgm: stored.bgm,
        voice_id: stored.voice_id.map(text),
        enhance: stored.enhance,
        is_rec: stored.is_rec,
        off_peak: stored.off_peak,
        priority: stored.priority,
        prompt: stored.prompt.map(text),
        watermark: stored.watermark.map(watermark).transpose()?,
    })
}

fn watermark(stored: v2::WatermarkV2<'_>) -> Result<Watermark, CommitDecodeError> {
    Ok(Watermark {
        position: check_field("watermark position", WatermarkPosition::parse(&stored.position))?,
        image: stored.image.map(source).transpose()?,
    })
}

fn extend(stored: v2::ExtendV2<'_>) -> Result<ExtendJob, CommitDecodeError> {
    Ok(ExtendJob {
        model: check_field("model", ExtendModel::parse(&stored.model))?,
        resolution: check_field("resolution", ExtendResolution::parse(&stored.resolution))?,
        seconds: seconds(stored.seconds)?,
        prompt: stored.prompt.map(text),
        video: Footage {
            creation: TaskId(uuid(stored.creation)),
            url: CallbackUrl::from_recorded(stored.url.into_owned()),
            stored: stored.clip.as_ref().map(clip).transpose()?,
            vendor_id: stored.at_vendor.map(text),
        },
    })
}

fn multiframe(stored: v2::MultiframeV2<'_>) -> Result<MultiframeJob, CommitDecodeError> {
    Ok(MultiframeJob {
        model: check_field("model", ExtendModel::parse(&stored.model))?,
        resolution: check_field("resolution", ExtendResolution::parse(&stored.resolution))?,
        start_image: stored.start_image.map(source).transpose()?,
        key_frames: stored.key_frames.into_iter().map(key_frame).collect::<Result<_, _>>()?,
    })
}

fn key_frame(stored: v2::KeyFrameV2<'_>) -> Result<KeyFrame<PictureSource>, CommitDecodeError> {
    let image = source(stored.image)?;
    let seconds = seconds(stored.seconds)?;
    Ok(KeyFrame { image, seconds, prompt: stored.prompt.map(text) })
}

fn seconds(stored: u8) -> Result<VideoSeconds, CommitDecodeError> {
    check_field("seconds", VideoSeconds::with_max(stored.into(), VideoSeconds::MAX))
}

fn document(stored: &v2::DocumentV2) -> AttachedDocument {
    AttachedDocument { digest: Digest(stored.digest.0), bytes: stored.bytes }
}

pub(super) fn clip(stored: &v2::ClipV2<'_>) -> Result<Clip, CommitDecodeError> {
    let format = check_field("video format", VideoFormat::parse(&stored.format))?;
    Ok(Clip { digest: Digest(stored.digest.0), format, bytes: stored.bytes })
}

pub(super) fn creation(stored: v2::CreationV2<'_>) -> Result<Creation, CommitDecodeError> {
    Ok(Creation {
        video: clip(&stored.video)?,
        cover: stored.cover.as_ref().map(picture).transpose()?,
        watermarked: stored.watermarked.as_ref().map(clip).transpose()?,
        vendor_id: stored.at_vendor.map(text),
    })
}

pub(super) fn stream(stored: v2::MusicStreamV2<'_>) -> MusicStream {
    MusicStream { title: text(stored.title), millis: stored.millis, bytes: stored.bytes }
}
