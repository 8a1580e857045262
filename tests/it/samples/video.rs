//! Video and music jobs, one of each kind, those of anonymous callers, and their results; every field is filled in at
//! least one.

use mediary::domain::delivery::{DeliveryEvent, Redelivery};
use mediary::domain::event::Event;
use mediary::domain::ids::{DeliveryId, TaskId, UserId};
use mediary::domain::image::Source;
use mediary::domain::music::{MusicPrompt, MusicSeconds, MusicStream, MusicWork};
use mediary::domain::task::{Submission, TaskEvent, Work};
use mediary::domain::value::{CallbackUrl, Digest};
use mediary::domain::video::{
    AspectRatio, AudioType, Clip, Creation, Document, Extend, ExtendModel, ExtendResolution, Footage, Generate,
    KeyFrame, MovementAmplitude, Multiframe, Resolution, Seconds, Seed, VideoFormat, VideoJob, VideoModel, VideoStyle,
    VideoWork, Watermark, WatermarkPosition,
};

use super::{id, picture, text};

/// Further events with a different stored shape: name and event. New ones are added at the end.
pub fn further() -> Vec<(&'static str, Event)> {
    let somebody = Some(UserId(id(0xA)));
    vec![
        ("start-end2video", submitted(somebody, video(VideoJob::StartEnd(full())))),
        ("reference2video", submitted(None, video(VideoJob::Reference(Generate::of(VideoModel::V2))))),
        ("extend", submitted(somebody, video(VideoJob::Extend(extend(None))))),
        ("extend-of-own", submitted(somebody, video(VideoJob::Extend(extend(Some(clip())))))),
        ("multiframe", submitted(somebody, video(VideoJob::Multiframe(multiframe())))),
        ("music", submitted(somebody, music())),
        ("anonymous", redelivery()),
    ]
}

fn submitted(owner: Option<UserId>, work: Work) -> Event {
    TaskEvent::TaskSubmitted(Submission { task: TaskId(id(0x7A)), owner, work, webhook: Some(url("hook")) }).into()
}

fn url(name: &str) -> CallbackUrl {
    CallbackUrl::parse(&format!("https://example.com/{name}")).unwrap()
}

fn seconds(value: i64) -> Seconds {
    Seconds::within(value, Seconds::MAX).unwrap()
}

fn video(job: VideoJob) -> Work {
    let document = |nth, bytes| Some(Document { digest: Digest([nth; 32]), bytes });
    Work::Video(VideoWork {
        job,
        images: vec![Source::Kept(picture()), Source::Remote(url("end.png"))],
        seed: Seed::drawn(2_147_483_647),
        payload: document(0x0D, 4_194_304),
        meta_data: document(0x0E, 2),
        credits: 485,
    })
}

fn full() -> Generate {
    Generate {
        model: VideoModel::Vq1Classic,
        resolution: Resolution::K2,
        seconds: seconds(16),
        aspect_ratio: Some(AspectRatio::parse("21:9").unwrap()),
        movement_amplitude: MovementAmplitude::Large,
        style: VideoStyle::Anime,
        audio: true,
        audio_type: AudioType::SoundEffectOnly,
        bgm: true,
        voice_id: Some(text("narrator")),
        enhance: true,
        is_rec: true,
        off_peak: true,
        priority: -7,
        prompt: Some(text("waves at night 波")),
        watermark: Some(Watermark { position: WatermarkPosition::TopLeft, image: Some(Source::Remote(url("wm.png"))) }),
    }
}

fn extend(kept: Option<Clip>) -> Extend {
    Extend {
        model: ExtendModel::Vq2Pro,
        resolution: ExtendResolution::P540,
        seconds: seconds(7),
        prompt: Some(text("and on")),
        video: Footage {
            creation: TaskId(id(0x7B)),
            url: url("media/x.mp4"),
            kept,
            at_vendor: kept.map(|_| text("v-7")),
        },
    }
}

fn multiframe() -> Multiframe {
    let frame = |image, prompt| KeyFrame { image, seconds: seconds(8), prompt };
    Multiframe {
        model: ExtendModel::Vq2Turbo,
        resolution: ExtendResolution::P1080,
        start_image: Some(Source::Kept(picture())),
        key_frames: vec![
            frame(Source::Remote(url("a.png")), Some(text("up the hill"))),
            frame(Source::Kept(picture()), None),
        ],
    }
}

fn music() -> Work {
    let (prompt, seconds) = (MusicPrompt::parse("a slow waltz").unwrap(), Some(MusicSeconds::new(360).unwrap()));
    Work::Music(MusicWork { prompt, seconds })
}

fn redelivery() -> Event {
    let (delivery, task) = (DeliveryId(id(0xDE)), TaskId(id(0x7A)));
    DeliveryEvent::RedeliveryRequested(Redelivery { delivery, task, owner: None, url: url("hook"), change: 5 }).into()
}

pub(super) fn clip() -> Clip {
    Clip { digest: Digest([0x1C; 32]), format: VideoFormat::Webm, bytes: 9_876_543 }
}

pub(super) fn creation() -> Creation {
    let watermarked = Clip { digest: Digest([0x1D; 32]), format: VideoFormat::Mp4, bytes: 1 };
    Creation { video: clip(), cover: Some(picture()), watermarked: Some(watermarked), at_vendor: Some(text("v-8")) }
}

pub(super) fn stream() -> MusicStream {
    MusicStream { title: text("Slow Waltz"), millis: 360_000, bytes: 5_760_000 }
}
