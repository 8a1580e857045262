//! Conversion of video and music jobs, and their results, to stored shapes.

use std::borrow::Cow;

use super::image::{name, source};
use super::media::picture;
use super::{some_text, text, v1, v2};
use crate::domain::music::{MusicStream, MusicWork};
use crate::domain::video::{
    AttachedDocument, Clip, Creation, ExtendJob, GenerateJob, MultiframeJob, VideoJob, VideoWork, Watermark,
};

pub(super) fn work(work: &VideoWork) -> v2::WorkV2<'_> {
    v2::WorkV2::Video(Box::new(v2::VideoWorkV2 {
        job: job(&work.job),
        images: work.images.iter().map(source).collect(),
        seed: work.seed.get(),
        payload: work.payload.map(document),
        meta_data: work.meta_data.map(document),
        credits: work.credits,
    }))
}

pub(super) fn music(work: &MusicWork) -> v2::WorkV2<'_> {
    v2::WorkV2::Music {
        prompt: Cow::Borrowed(work.prompt.as_str()),
        seconds: work.seconds.map(crate::domain::music::MusicSeconds::get),
    }
}

fn job(job: &VideoJob) -> v2::VideoJobV2<'_> {
    match job {
        VideoJob::StartEnd(job) => v2::VideoJobV2::StartEnd(generate(job)),
        VideoJob::Reference(job) => v2::VideoJobV2::Reference(generate(job)),
        VideoJob::Extend(job) => v2::VideoJobV2::Extend(extend(job)),
        VideoJob::Multiframe(job) => v2::VideoJobV2::Multiframe(multiframe(job)),
    }
}

fn generate(job: &GenerateJob) -> v2::GenerateV2<'_> {
    v2::GenerateV2 {
        model: name(job.model.as_str()),
        resolution: name(job.resolution.as_str()),
        seconds: job.seconds.get(),
        aspect_ratio: job.aspect_ratio.map(|ratio| Cow::Owned(ratio.to_string())),
        movement_amplitude: name(job.movement_amplitude.as_str()),
        style: name(job.style.as_str()),
        audio: job.audio,
        audio_type: name(job.audio_type.as_str()),
        bgm: job.bgm,
        voice_id: some_text(job.voice_id.as_ref()),
        enhance: job.enhance,
        is_rec: job.is_rec,
        off_peak: job.off_peak,
        priority: job.priority,
        prompt: some_text(job.prompt.as_ref()),
        watermark: job.watermark.as_ref().map(watermark),
    }
}

fn watermark(watermark: &Watermark) -> v2::WatermarkV2<'_> {
    v2::WatermarkV2 { position: name(watermark.position.as_str()), image: watermark.image.as_ref().map(source) }
}

fn extend(job: &ExtendJob) -> v2::ExtendV2<'_> {
    v2::ExtendV2 {
        model: name(job.model.as_str()),
        resolution: name(job.resolution.as_str()),
        seconds: job.seconds.get(),
        prompt: some_text(job.prompt.as_ref()),
        creation: job.video.creation.0.into(),
        url: Cow::Borrowed(job.video.url.as_str()),
        clip: job.video.stored.as_ref().map(clip),
        at_vendor: some_text(job.video.vendor_id.as_ref()),
    }
}

fn multiframe(job: &MultiframeJob) -> v2::MultiframeV2<'_> {
    let key_frames = job.key_frames.iter().map(|frame| v2::KeyFrameV2 {
        image: source(&frame.image),
        seconds: frame.seconds.get(),
        prompt: some_text(frame.prompt.as_ref()),
    });
    v2::MultiframeV2 {
        model: name(job.model.as_str()),
        resolution: name(job.resolution.as_str()),
        start_image: job.start_image.as_ref().map(source),
        key_frames: key_frames.collect(),
    }
}

fn document(document: AttachedDocument) -> v2::DocumentV2 {
    v2::DocumentV2 { digest: v1::StoredSha256(document.digest.0), bytes: document.bytes }
}

pub(super) fn clip(clip: &Clip) -> v2::ClipV2<'static> {
    v2::ClipV2 { digest: v1::StoredSha256(clip.digest.0), format: name(clip.format.as_str()), bytes: clip.bytes }
}

pub(super) fn creation(creation: &Creation) -> v2::CreationV2<'_> {
    v2::CreationV2 {
        video: clip(&creation.video),
        cover: creation.cover.as_ref().map(picture),
        watermarked: creation.watermarked.as_ref().map(clip),
        at_vendor: some_text(creation.vendor_id.as_ref()),
    }
}

pub(super) fn stream(stream: &MusicStream) -> v2::MusicStreamV2<'_> {
    v2::MusicStreamV2 { title: text(&stream.title), millis: stream.millis, bytes: stream.bytes }
}
