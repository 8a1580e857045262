//! Fields of each video endpoint, with their ranges and defaults (contract 7). An invalid field is reported and
//! replaced by its default, so that the other checks continue.

use crate::domain::ids::TaskId;
use crate::domain::value::{CallbackUrl, Invalid, Text};
use crate::domain::video::{
    AspectRatio, AudioType, Extend, ExtendModel, ExtendResolution, Footage, Generate, KeyFrame, MovementAmplitude,
    Multiframe, PAYLOAD_CHARS_MAX, Resolution, Seconds, Seed, VendorCreation, VideoJob, VideoModel, VideoPrompt,
    VideoStyle, Watermark, WatermarkPosition,
};
use crate::http::fields::Fields;
use crate::media::input::Given;

/// Picture of a submission and its JSON pointer.
pub(super) struct Picked {
    pub at: String,
    pub given: Given,
}

/// Parsed submission; its pictures are not checked yet.
pub(super) struct Asked {
    pub job: VideoJob<Picked>,
    pub images: Vec<Picked>,
    pub seed: Option<Seed>,
    pub payload: Option<String>,
    pub meta_data: Option<String>,
    pub callback: Option<CallbackUrl>,
}

/// Video that `video_creation_id` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// The field is missing or not an id.
    Unnamed,
    /// The caller has no video with this id.
    Nothing,
    /// The caller's video.
    Own { creation: TaskId, at_vendor: Option<VendorCreation> },
}

/// Limits and known resources for reading a submission.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    /// Setting `video.max_images`.
    pub max_images: usize,
    pub known: Known,
}

/// Reader of one endpoint's fields; returns `None` only after adding an error.
pub(super) type ReadJob = fn(&mut Fields<'_, '_>, &Bounds) -> Option<Asked>;

/// Maximum number of images of `start-end2video` and `reference2video`, regardless of `video.max_images` (contract 7).
pub const START_END_IMAGES: usize = 2;
pub const REFERENCE_IMAGES: usize = 7;
/// Maximum number of images of `extend`: the end frame.
pub const EXTEND_IMAGES: usize = 1;

#[expect(clippy::unnecessary_wraps, reason = "all readers have the signature of ReadJob")]
pub(super) fn start_end(fields: &mut Fields<'_, '_>, given: &Bounds) -> Option<Asked> {
    Some(generate(fields, given.max_images.min(START_END_IMAGES), VideoJob::StartEnd))
}

#[expect(clippy::unnecessary_wraps, reason = "all readers have the signature of ReadJob")]
pub(super) fn reference(fields: &mut Fields<'_, '_>, given: &Bounds) -> Option<Asked> {
    Some(generate(fields, given.max_images.min(REFERENCE_IMAGES), VideoJob::Reference))
}

fn generate(fields: &mut Fields<'_, '_>, max_images: usize, job: fn(Generate<Picked>) -> VideoJob<Picked>) -> Asked {
    let around = Around::read(fields);
    let images = images(fields, max_images);
    let seed = fields.integer("seed", Seed::new);

    let model = fields.text("model", VideoModel::parse);
    let usual = model.map_or_else(Generate::default, Generate::<Picked>::of);
    let longest = usual.model.seconds_max();

    let generate = Generate {
        resolution: fields.text("resolution", Resolution::parse).unwrap_or(usual.resolution),
        seconds: fields.integer("duration", |value| Seconds::within(value, longest)).unwrap_or(usual.seconds),
        aspect_ratio: fields.text("aspect_ratio", AspectRatio::parse),
        movement_amplitude: fields
            .text("movement_amplitude", MovementAmplitude::parse)
            .unwrap_or(usual.movement_amplitude),
        style: fields.text("style", VideoStyle::parse).unwrap_or(usual.style),
        audio: fields.flag("audio").unwrap_or(usual.audio),
        audio_type: fields.text("audio_type", AudioType::parse).unwrap_or(usual.audio_type),
        bgm: fields.flag("bgm").unwrap_or(usual.bgm),
        voice_id: fields.text("voice_id", Text::parse),
        enhance: fields.flag("enhance").unwrap_or(usual.enhance),
        is_rec: fields.flag("is_rec").unwrap_or(usual.is_rec),
        off_peak: fields.flag("off_peak").unwrap_or(usual.off_peak),
        priority: fields.integer("priority", priority).unwrap_or(usual.priority),
        prompt: prompt(fields),
        watermark: watermark(fields),
        ..usual
    };

    if fields.value("images").is_none_or(|images| images.as_array().is_some_and(Vec::is_empty))
        && fields.value("prompt").is_none_or(|prompt| prompt.as_str().is_some_and(|text| text.trim().is_empty()))
    {
        fields.fault("prompt", "is required where there are no images, and must not be blank then");
    }

    Asked { images, seed, ..around.with(job(generate)) }
}

pub(super) fn extend(fields: &mut Fields<'_, '_>, given: &Bounds) -> Option<Asked> {
    let around = Around::read(fields);
    let images = images(fields, EXTEND_IMAGES);
    let model = fields.required_text("model", ExtendModel::parse);
    let resolution = fields.text("resolution", ExtendResolution::parse).unwrap_or(ExtendResolution::P720);
    let within = |value| Seconds::within(value, Extend::SECONDS_MAX);
    let seconds = fields.integer("duration", within).unwrap_or(Seconds::USUAL);
    let prompt = prompt(fields);
    let video = footage(fields, given);
    let job = VideoJob::Extend(Extend { model: model?, resolution, seconds, prompt, video: video? });

    Some(Asked { images, ..around.with(job) })
}

/// Reads the video to extend; its id and URL are required together.
fn footage(fields: &mut Fields<'_, '_>, given: &Bounds) -> Option<Footage> {
    let url = fields.text("video_url", CallbackUrl::parse);
    let id = fields.text("video_creation_id", TaskId::parse);
    for (name, other) in [("video_creation_id", "video_url"), ("video_url", "video_creation_id")] {
        if fields.value(name).is_none() {
            fields.fault(name, format!("is required, together with {other}"));
        }
    }

    if id.is_some() && given.known == Known::Nothing {
        fields.fault("video_creation_id", "names no video that you have made and that is done");
    }

    let Known::Own { creation, at_vendor } = given.known.clone() else { return None };
    Some(Footage { creation, url: url?, kept: None, at_vendor })
}

pub(super) fn multiframe(fields: &mut Fields<'_, '_>, _: &Bounds) -> Option<Asked> {
    let around = Around::read(fields);
    let model = fields.text("model", ExtendModel::parse).unwrap_or(ExtendModel::Vq2Turbo);
    let resolution = fields.text("resolution", ExtendResolution::parse).unwrap_or(ExtendResolution::P720);
    let start_image = picked(fields, "start_image");
    let count = Multiframe::<Picked>::COUNT;
    let key_frames = fields.objects("image_settings", &count, |fields| Some(key_frame(fields)));
    let key_frames = fields.required("image_settings", key_frames);
    // Frames without a picture were reported already.
    let key_frames = key_frames?.into_iter().collect::<Option<Vec<_>>>()?;
    Some(around.with(VideoJob::Multiframe(Multiframe { model, resolution, start_image, key_frames })))
}

fn key_frame(fields: &mut Fields<'_, '_>) -> Option<KeyFrame<Picked>> {
    let image = picked(fields, "key_image");
    let image = fields.required("key_image", image);
    let within = |value| Seconds::within(value, KeyFrame::<Picked>::SECONDS_MAX);
    let seconds = fields.integer("duration", within).unwrap_or(Seconds::USUAL);
    let prompt = prompt(fields);
    Some(KeyFrame { image: image?, seconds, prompt })
}

/// Fields common to all endpoints.
struct Around {
    payload: Option<String>,
    meta_data: Option<String>,
    callback: Option<CallbackUrl>,
}

impl Around {
    fn read(fields: &mut Fields<'_, '_>) -> Self {
        let payload = payload(fields);
        let meta_data = fields.text("meta_data", meta_data);
        let callback = fields.text("callback_url", callback).flatten();
        Self { payload, meta_data, callback }
    }

    fn with(self, job: VideoJob<Picked>) -> Asked {
        let Self { payload, meta_data, callback } = self;
        Asked { job, images: Vec::new(), seed: None, payload, meta_data, callback }
    }
}

fn images(fields: &mut Fields<'_, '_>, max: usize) -> Vec<Picked> {
    let images = fields.texts("images", max, Given::parse).into_iter();
    images.map(|(at, given)| Picked { at, given }).collect()
}

fn picked(fields: &mut Fields<'_, '_>, name: &str) -> Option<Picked> {
    let at = fields.pointer_of(name);
    fields.text(name, Given::parse).map(|given| Picked { at, given })
}

/// Reads the prompt; a blank one counts as absent.
fn prompt(fields: &mut Fields<'_, '_>) -> Option<VideoPrompt> {
    fields.text("prompt", VideoPrompt::parse).filter(|prompt| !prompt.as_str().trim().is_empty())
}

/// Reads the watermark. Its fields are checked even if no watermark is requested.
fn watermark(fields: &mut Fields<'_, '_>) -> Option<Watermark<Picked>> {
    let position = fields.integer("wm_position", WatermarkPosition::new).unwrap_or(WatermarkPosition::BottomRight);
    let image =
        if fields.value("wm_url").and_then(|url| url.as_str()) == Some("") { None } else { picked(fields, "wm_url") };
    fields.flag("watermark").unwrap_or(false).then_some(Watermark { position, image })
}

fn priority(value: i64) -> Result<i32, Invalid> {
    i32::try_from(value).map_err(|_| Invalid::new(format!("must be an integer from {} to {}", i32::MIN, i32::MAX)))
}

/// Reads the text that is passed back to the client, of any characters.
fn payload(fields: &mut Fields<'_, '_>) -> Option<String> {
    let text = fields.value("payload")?.as_str().filter(|text| fits(text));
    if text.is_none() {
        fields.fault("payload", format!("must be a string of at most {PAYLOAD_CHARS_MAX} characters"));
    }
    text.map(str::to_owned)
}

fn meta_data(text: &str) -> Result<String, Invalid> {
    if fits(text) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        return Ok(text.to_owned());
    }
    Err(Invalid::new(format!("must be JSON, as a string of at most {PAYLOAD_CHARS_MAX} characters")))
}

/// Checks the length in characters, not bytes (contract 7).
fn fits(text: &str) -> bool {
    text.chars().nth(PAYLOAD_CHARS_MAX).is_none()
}

/// Parses the callback URL; an empty one counts as absent (contract 4).
fn callback(text: &str) -> Result<Option<CallbackUrl>, Invalid> {
    if text.is_empty() { Ok(None) } else { CallbackUrl::parse(text).map(Some) }
}
