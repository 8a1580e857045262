//! Video and music jobs, one of each kind, those of anonymous callers, and their results; every field is filled in at
//! least one.

use mediary::domain::delivery::{DeliveryEvent, Redelivery};
use mediary::domain::event::Event;
use mediary::domain::ids::{DeliveryId, TaskId, UserId};
use mediary::domain::image::PictureSource;
use mediary::domain::music::{MusicFile, MusicFormat, MusicPrompt, MusicSeconds, MusicStream, MusicWork};
use mediary::domain::task::{RecordedVendor, Submission, TaskEvent, TaskWork, VendorPrice};
use mediary::domain::value::{CallbackUrl, Digest};
use mediary::domain::video::{
    AspectRatio, AttachedDocument, AudioType, Clip, Creation, ExtendJob, ExtendModel, ExtendResolution, Footage,
    GenerateJob, KeyFrame, MovementAmplitude, MultiframeJob, Resolution, Seed, VideoFormat, VideoJob, VideoModel,
    VideoSeconds, VideoStyle, VideoWork, Watermark, WatermarkPosition,
};

use super::{id, picture, text};

/// Returns further events with a different stored shape: name and event. New ones are added at the end.
pub fn further() -> Vec<(&'static str, Event)> {
    let owner = Some(UserId(id(0xA)));
    vec![
        ("start-end2video", submitted(owner, video(VideoJob::StartEnd(full())))),
        ("reference2video", submitted(None, video(VideoJob::Reference(GenerateJob::new(VideoModel::V2))))),
        ("extend", submitted(owner, video(VideoJob::Extend(extend(None))))),
        ("extend-of-own", submitted(owner, video(VideoJob::Extend(extend(Some(clip())))))),
        ("multiframe", submitted(owner, video(VideoJob::Multiframe(multiframe())))),
        ("music", submitted(owner, music())),
        ("anonymous", redelivery()),
        ("vendor", submission_started()),
    ]
}

fn submission_started() -> Event {
    let vendor = RecordedVendor {
        name: text("studio"),
        profile: text("mediary"),
        profile_hash: Some(Digest([0x9F; 32])),
        price: VendorPrice::from_thousandths(35),
    };
    TaskEvent::SubmissionStarted { attempt: 1, key: text("key-1"), vendor: Some(vendor) }.into()
}

fn submitted(owner: Option<UserId>, work: TaskWork) -> Event {
    TaskEvent::TaskSubmitted(Submission {
        task: TaskId(id(0x7A)),
        owner,
        work,
        webhook: Some(url("hook")),
        payers: None,
    })
    .into()
}

fn url(name: &str) -> CallbackUrl {
    CallbackUrl::parse(&format!("https://example.com/{name}")).unwrap()
}

fn seconds(value: i64) -> VideoSeconds {
    VideoSeconds::with_max(value, VideoSeconds::MAX).unwrap()
}

fn video(job: VideoJob) -> TaskWork {
    let document = |index, bytes| Some(AttachedDocument { digest: Digest([index; 32]), bytes });
    TaskWork::Video(VideoWork {
        job,
        images: vec![PictureSource::Stored(picture()), PictureSource::Remote(url("end.png"))],
        seed: Seed::from_random(2_147_483_647),
        payload: document(0x0D, 4_194_304),
        meta_data: document(0x0E, 2),
        credits: 485,
    })
}

fn full() -> GenerateJob {
    GenerateJob {
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
        watermark: Some(Watermark {
            position: WatermarkPosition::TopLeft,
            image: Some(PictureSource::Remote(url("wm.png"))),
        }),
    }
}

fn extend(stored: Option<Clip>) -> ExtendJob {
    ExtendJob {
        model: ExtendModel::Vq2Pro,
        resolution: ExtendResolution::P540,
        seconds: seconds(7),
        prompt: Some(text("and on")),
        video: Footage {
            creation: Some(TaskId(id(0x7B))),
            url: url("media/x.mp4"),
            stored,
            vendor_id: stored.map(|_| text("v-7")),
        },
    }
}

fn multiframe() -> MultiframeJob {
    let frame = |image, prompt| KeyFrame { image, seconds: seconds(8), prompt };
    MultiframeJob {
        model: ExtendModel::Vq2Turbo,
        resolution: ExtendResolution::P1080,
        start_image: Some(PictureSource::Stored(picture())),
        key_frames: vec![
            frame(PictureSource::Remote(url("a.png")), Some(text("up the hill"))),
            frame(PictureSource::Stored(picture()), None),
        ],
    }
}

fn music() -> TaskWork {
    let prompt = MusicPrompt::parse("a slow waltz").unwrap();
    let seconds = Some(MusicSeconds::new(360).unwrap());
    TaskWork::Music(MusicWork { prompt, seconds, credits: 0 })
}

/// Returns music with a price.
pub fn priced_music() -> Event {
    let TaskWork::Music(work) = music() else { unreachable!("music") };
    submitted(Some(UserId(id(0xA))), TaskWork::Music(MusicWork { credits: 25, ..work }))
}

/// Returns music whose files are stored.
pub fn stored_music() -> Event {
    let file = |byte, format| MusicFile { digest: Digest([byte; 32]), format, bytes: 5_760_000 };
    let files = Some(vec![file(0x5C, MusicFormat::Ogg), file(0x5D, MusicFormat::M4a)]);
    TaskEvent::StreamCompleted { stream: MusicStream { files, ..stream() } }.into()
}

fn redelivery() -> Event {
    let (delivery, task) = (DeliveryId(id(0xDE)), TaskId(id(0x7A)));
    DeliveryEvent::RedeliveryRequested(Redelivery { delivery, task, owner: None, url: url("hook"), task_version: 5 })
        .into()
}

pub(super) fn clip() -> Clip {
    Clip { digest: Digest([0x1C; 32]), format: VideoFormat::Webm, bytes: 9_876_543 }
}

pub(super) fn creation() -> Creation {
    let watermarked = Clip { digest: Digest([0x1D; 32]), format: VideoFormat::Mp4, bytes: 1 };
    Creation { video: clip(), cover: Some(picture()), watermarked: Some(watermarked), vendor_id: Some(text("v-8")) }
}

pub(super) fn stream() -> MusicStream {
    MusicStream { title: text("Slow Waltz"), millis: 360_000, bytes: 5_760_000, files: None }
}
