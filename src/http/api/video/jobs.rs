//! Fields of each video endpoint, with their ranges and defaults (contract 7). An invalid field is reported and
//! replaced by its default, so that the other checks continue.

use crate::domain::ids::TaskId;
use crate::domain::value::{CallbackUrl, InvalidValue, Text};
use crate::domain::video::{
    AspectRatio, AudioType, ExtendJob, ExtendModel, ExtendResolution, Footage, GenerateJob, KeyFrame,
    MovementAmplitude, MultiframeJob, PAYLOAD_CHARS_MAX, Resolution, Seed, VendorCreationId, VideoJob, VideoModel,
    VideoPrompt, VideoSeconds, VideoStyle, Watermark, WatermarkPosition,
};
use crate::http::request::fields::Fields;
use crate::media::input::PictureInput;

/// Picture of a submission and its JSON pointer.
pub(super) struct VideoPictureField {
    pub pointer: String,
    pub input: PictureInput,
}

/// Parsed submission; its pictures are not checked yet.
pub(super) struct ParsedVideoSubmission {
    pub job: VideoJob<VideoPictureField>,
    pub images: Vec<VideoPictureField>,
    pub seed: Option<Seed>,
    pub payload: Option<String>,
    pub meta_data: Option<String>,
    pub callback: Option<CallbackUrl>,
}

/// Video that `video_creation_id` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VideoToExtend {
    /// The field is missing or not an id.
    NotGiven,
    /// The caller has no video with this id.
    NotFound,
    /// The caller's video.
    Found { creation: TaskId, at_vendor: Option<VendorCreationId> },
}

/// Limits and known resources for reading a submission.
#[derive(Debug, Clone)]
pub(super) struct VideoJobContext {
    /// Setting `video.max_images`.
    pub max_images: usize,
    pub video_to_extend: VideoToExtend,
}

/// Reader of one endpoint's fields; returns `None` only after adding an error.
pub(super) type VideoJobReader = fn(&mut Fields<'_, '_>, &VideoJobContext) -> Option<ParsedVideoSubmission>;

/// Maximum number of images of `start-end2video` and `reference2video`, regardless of `video.max_images` (contract 7).
pub const START_END_IMAGES_MAX: usize = 2;
pub const REFERENCE_IMAGES_MAX: usize = 7;
/// Maximum number of images of `extend`: the end frame.
pub const EXTEND_IMAGES_MAX: usize = 1;

#[expect(clippy::unnecessary_wraps, reason = "all readers have the signature of ReadJob")]
pub(super) fn start_end(fields: &mut Fields<'_, '_>, context: &VideoJobContext) -> Option<ParsedVideoSubmission> {
    Some(generate(fields, context.max_images.min(START_END_IMAGES_MAX), VideoJob::StartEnd))
}

#[expect(clippy::unnecessary_wraps, reason = "all readers have the signature of ReadJob")]
pub(super) fn reference(fields: &mut Fields<'_, '_>, context: &VideoJobContext) -> Option<ParsedVideoSubmission> {
    Some(generate(fields, context.max_images.min(REFERENCE_IMAGES_MAX), VideoJob::Reference))
}

fn generate(
    fields: &mut Fields<'_, '_>,
    max_images: usize,
    job: fn(GenerateJob<VideoPictureField>) -> VideoJob<VideoPictureField>,
) -> ParsedVideoSubmission {
    let common = CommonVideoFields::read(fields);
    let images = read_images(fields, max_images);
    let seed = fields.integer("seed", Seed::new);

    let model = fields.text("model", VideoModel::parse);
    let defaults = model.map_or_else(GenerateJob::default, GenerateJob::<VideoPictureField>::new);
    let longest = defaults.model.seconds_max();

    let generate = GenerateJob {
        resolution: fields.text("resolution", Resolution::parse).unwrap_or(defaults.resolution),
        seconds: fields.integer("duration", |value| VideoSeconds::with_max(value, longest)).unwrap_or(defaults.seconds),
        aspect_ratio: fields.text("aspect_ratio", AspectRatio::parse),
        movement_amplitude: fields
            .text("movement_amplitude", MovementAmplitude::parse)
            .unwrap_or(defaults.movement_amplitude),
        style: fields.text("style", VideoStyle::parse).unwrap_or(defaults.style),
        audio: fields.flag("audio").unwrap_or(defaults.audio),
        audio_type: fields.text("audio_type", AudioType::parse).unwrap_or(defaults.audio_type),
        bgm: fields.flag("bgm").unwrap_or(defaults.bgm),
        voice_id: fields.text("voice_id", Text::parse),
        enhance: fields.flag("enhance").unwrap_or(defaults.enhance),
        is_rec: fields.flag("is_rec").unwrap_or(defaults.is_rec),
        off_peak: fields.flag("off_peak").unwrap_or(defaults.off_peak),
        priority: fields.integer("priority", parse_priority).unwrap_or(defaults.priority),
        prompt: read_prompt(fields),
        watermark: read_watermark(fields),
        ..defaults
    };

    if fields.value("images").is_none_or(|images| images.as_array().is_some_and(Vec::is_empty))
        && fields.value("prompt").is_none_or(|prompt| prompt.as_str().is_some_and(|text| text.trim().is_empty()))
    {
        fields.add_error("prompt", "is required, and must not be blank, if there are no images");
    }

    ParsedVideoSubmission { images, seed, ..common.into_submission(job(generate)) }
}

pub(super) fn extend(fields: &mut Fields<'_, '_>, context: &VideoJobContext) -> Option<ParsedVideoSubmission> {
    let common = CommonVideoFields::read(fields);
    let images = read_images(fields, EXTEND_IMAGES_MAX);
    let model = fields.required_text("model", ExtendModel::parse);
    let resolution = fields.text("resolution", ExtendResolution::parse).unwrap_or(ExtendResolution::P720);
    let parse_seconds = |value| VideoSeconds::with_max(value, ExtendJob::SECONDS_MAX);
    let seconds = fields.integer("duration", parse_seconds).unwrap_or(VideoSeconds::DEFAULT);
    let prompt = read_prompt(fields);
    let video = read_source_video(fields, context);
    let job = VideoJob::Extend(ExtendJob { model: model?, resolution, seconds, prompt, video: video? });

    Some(ParsedVideoSubmission { images, ..common.into_submission(job) })
}

/// Reads the video to extend; its id and URL are required together.
fn read_source_video(fields: &mut Fields<'_, '_>, context: &VideoJobContext) -> Option<Footage> {
    let url = fields.text("video_url", CallbackUrl::parse);
    let id = fields.text("video_creation_id", TaskId::parse);
    for (name, other) in [("video_creation_id", "video_url"), ("video_url", "video_creation_id")] {
        if fields.value(name).is_none() {
            fields.add_error(name, format!("is required, together with {other}"));
        }
    }

    if id.is_some() && context.video_to_extend == VideoToExtend::NotFound {
        fields.add_error("video_creation_id", "must be the id of a finished video of the caller");
    }

    let VideoToExtend::Found { creation, at_vendor } = context.video_to_extend.clone() else { return None };
    Some(Footage { creation, url: url?, stored: None, vendor_id: at_vendor })
}

pub(super) fn multiframe(fields: &mut Fields<'_, '_>, _: &VideoJobContext) -> Option<ParsedVideoSubmission> {
    let common = CommonVideoFields::read(fields);
    let model = fields.text("model", ExtendModel::parse).unwrap_or(ExtendModel::Vq2Turbo);
    let resolution = fields.text("resolution", ExtendResolution::parse).unwrap_or(ExtendResolution::P720);
    let start_image = read_picture(fields, "start_image");
    let count = MultiframeJob::<VideoPictureField>::COUNT;
    let key_frames = fields.objects("image_settings", &count, |fields| Some(read_key_frame(fields)));
    let key_frames = fields.required("image_settings", key_frames);
    // Frames without a picture were reported already.
    let key_frames = key_frames?.into_iter().collect::<Option<Vec<_>>>()?;
    Some(common.into_submission(VideoJob::Multiframe(MultiframeJob { model, resolution, start_image, key_frames })))
}

fn read_key_frame(fields: &mut Fields<'_, '_>) -> Option<KeyFrame<VideoPictureField>> {
    let image = read_picture(fields, "key_image");
    let image = fields.required("key_image", image);
    let parse_seconds = |value| VideoSeconds::with_max(value, KeyFrame::<VideoPictureField>::SECONDS_MAX);
    let seconds = fields.integer("duration", parse_seconds).unwrap_or(VideoSeconds::DEFAULT);
    let prompt = read_prompt(fields);
    Some(KeyFrame { image: image?, seconds, prompt })
}

/// Fields common to all endpoints.
struct CommonVideoFields {
    payload: Option<String>,
    meta_data: Option<String>,
    callback: Option<CallbackUrl>,
}

impl CommonVideoFields {
    fn read(fields: &mut Fields<'_, '_>) -> Self {
        let payload = read_payload(fields);
        let meta_data = fields.text("meta_data", parse_meta_data);
        let callback = fields.text("callback_url", parse_callback_url).flatten();
        Self { payload, meta_data, callback }
    }

    fn into_submission(self, job: VideoJob<VideoPictureField>) -> ParsedVideoSubmission {
        let Self { payload, meta_data, callback } = self;
        ParsedVideoSubmission { job, images: Vec::new(), seed: None, payload, meta_data, callback }
    }
}

fn read_images(fields: &mut Fields<'_, '_>, max: usize) -> Vec<VideoPictureField> {
    let images = fields.texts("images", max, PictureInput::parse).into_iter();
    images.map(|(pointer, input)| VideoPictureField { pointer, input }).collect()
}

fn read_picture(fields: &mut Fields<'_, '_>, name: &str) -> Option<VideoPictureField> {
    let pointer = fields.pointer_to(name);
    fields.text(name, PictureInput::parse).map(|input| VideoPictureField { pointer, input })
}

/// Reads the prompt; a blank one counts as absent.
fn read_prompt(fields: &mut Fields<'_, '_>) -> Option<VideoPrompt> {
    fields.text("prompt", VideoPrompt::parse).filter(|prompt| !prompt.as_str().trim().is_empty())
}

/// Reads the watermark. Its fields are checked even if no watermark is requested.
fn read_watermark(fields: &mut Fields<'_, '_>) -> Option<Watermark<VideoPictureField>> {
    let position =
        fields.integer("wm_position", WatermarkPosition::from_number).unwrap_or(WatermarkPosition::BottomRight);
    let image = if fields.value("wm_url").and_then(|url| url.as_str()) == Some("") {
        None
    } else {
        read_picture(fields, "wm_url")
    };
    fields.flag("watermark").unwrap_or(false).then_some(Watermark { position, image })
}

fn parse_priority(value: i64) -> Result<i32, InvalidValue> {
    i32::try_from(value).map_err(|_| InvalidValue::new(format!("must be an integer from {} to {}", i32::MIN, i32::MAX)))
}

/// Reads the text that is passed back to the client, of any characters.
fn read_payload(fields: &mut Fields<'_, '_>) -> Option<String> {
    let text = fields.value("payload")?.as_str().filter(|text| is_within_payload_limit(text));
    if text.is_none() {
        fields.add_error("payload", format!("must be a string of at most {PAYLOAD_CHARS_MAX} characters"));
    }
    text.map(str::to_owned)
}

fn parse_meta_data(text: &str) -> Result<String, InvalidValue> {
    if is_within_payload_limit(text) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        return Ok(text.to_owned());
    }
    Err(InvalidValue::new(format!("must be JSON, as a string of at most {PAYLOAD_CHARS_MAX} characters")))
}

/// Checks the length in characters, not bytes (contract 7).
fn is_within_payload_limit(text: &str) -> bool {
    text.chars().nth(PAYLOAD_CHARS_MAX).is_none()
}

/// Parses the callback URL; an empty one counts as absent (contract 4).
fn parse_callback_url(text: &str) -> Result<Option<CallbackUrl>, InvalidValue> {
    if text.is_empty() { Ok(None) } else { CallbackUrl::parse(text).map(Some) }
}
