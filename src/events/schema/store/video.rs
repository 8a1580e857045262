//! Conversion of video and music jobs, and their results, to stored shapes.

use std::borrow::Cow;

use super::image::{name, source};
use super::media::picture;
use super::{some_text, text, v1, v2};
use crate::domain::music::{MusicStream, MusicWork};
use crate::domain::video::{Clip, Creation, Document, Extend, Generate, Multiframe, VideoJob, VideoWork, Watermark};

pub(super) fn work(work: &VideoWork) -> v2::Work<'_> {
    v2::Work::Video(Box::new(v2::VideoWork {
        job: job(&work.job),
        images: work.images.iter().map(source).collect(),
        seed: work.seed.get(),
        payload: work.payload.map(document),
        meta_data: work.meta_data.map(document),
        credits: work.credits,
    }))
}

pub(super) fn music(work: &MusicWork) -> v2::Work<'_> {
    v2::Work::Music {
        prompt: Cow::Borrowed(work.prompt.as_str()),
        seconds: work.seconds.map(crate::domain::music::MusicSeconds::get),
    }
}

fn job(job: &VideoJob) -> v2::VideoJob<'_> {
    match job {
        VideoJob::StartEnd(job) => v2::VideoJob::StartEnd(generate(job)),
        VideoJob::Reference(job) => v2::VideoJob::Reference(generate(job)),
        VideoJob::Extend(job) => v2::VideoJob::Extend(extend(job)),
        VideoJob::Multiframe(job) => v2::VideoJob::Multiframe(multiframe(job)),
    }
}

fn generate(job: &Generate) -> v2::Generate<'_> {
    v2::Generate {
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

fn watermark(mark: &Watermark) -> v2::Watermark<'_> {
    v2::Watermark { position: name(mark.position.as_str()), image: mark.image.as_ref().map(source) }
}

fn extend(job: &Extend) -> v2::Extend<'_> {
    v2::Extend {
        model: name(job.model.as_str()),
        resolution: name(job.resolution.as_str()),
        seconds: job.seconds.get(),
        prompt: some_text(job.prompt.as_ref()),
        creation: job.video.creation.0.into(),
        url: Cow::Borrowed(job.video.url.as_str()),
        clip: job.video.kept.as_ref().map(clip),
        at_vendor: some_text(job.video.at_vendor.as_ref()),
    }
}

fn multiframe(job: &Multiframe) -> v2::Multiframe<'_> {
    let key_frames = job.key_frames.iter().map(|frame| v2::KeyFrame {
        image: source(&frame.image),
        seconds: frame.seconds.get(),
        prompt: some_text(frame.prompt.as_ref()),
    });
    v2::Multiframe {
        model: name(job.model.as_str()),
        resolution: name(job.resolution.as_str()),
        start_image: job.start_image.as_ref().map(source),
        key_frames: key_frames.collect(),
    }
}

fn document(document: Document) -> v2::Document {
    v2::Document { digest: v1::Sha(document.digest.0), bytes: document.bytes }
}

pub(super) fn clip(clip: &Clip) -> v2::Clip<'static> {
    v2::Clip { digest: v1::Sha(clip.digest.0), format: name(clip.format.as_str()), bytes: clip.bytes }
}

pub(super) fn creation(creation: &Creation) -> v2::Creation<'_> {
    v2::Creation {
        video: clip(&creation.video),
        cover: creation.cover.as_ref().map(picture),
        watermarked: creation.watermarked.as_ref().map(clip),
        at_vendor: some_text(creation.at_vendor.as_ref()),
    }
}

pub(super) fn stream(stream: &MusicStream) -> v2::MusicStream<'_> {
    v2::MusicStream { title: text(&stream.title), millis: stream.millis, bytes: stream.bytes }
}
