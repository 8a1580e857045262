//! Request bodies of video submissions. Ranges and defaults come from the domain types.

use serde_json::{Value, json};

use super::super::schema::{HasSchema, SchemaField, field, field_with_schema, request_object};
use super::{MODEL, RESOLUTION, STYLE};
use crate::domain::image::PictureSource;
use crate::domain::value::{CallbackUrl, Label, Link};
use crate::domain::video::{
    AspectRatio, AudioType, ExtendJob, ExtendModel, ExtendResolution, GenerateJob, KeyFrame, MovementAmplitude,
    MultiframeJob, PAYLOAD_CHARS_MAX, Resolution, Seed, VideoModel, VideoPrompt, VideoSeconds, VideoStyle,
};
use crate::http::api::video::{EXTEND_IMAGES_MAX, REFERENCE_IMAGES_MAX, START_END_IMAGES_MAX};

pub(super) fn components(max_images: usize) -> Vec<(&'static str, Value)> {
    let of_frames = format!(
        "Start frame. A second picture, the end frame, requires the setting `video.max_images` to be at least \
         {START_END_IMAGES_MAX}."
    );
    let of_references = format!(
        "Pictures of what appears in the video. More than one requires the setting `video.max_images`, up to \
         {REFERENCE_IMAGES_MAX}."
    );
    vec![
        ("StartEndVideoBody", generate(pictures_field(&of_frames, max_images.min(START_END_IMAGES_MAX)))),
        ("ReferenceVideoBody", generate(pictures_field(&of_references, max_images.min(REFERENCE_IMAGES_MAX)))),
        ("ExtendVideoBody", extend()),
        ("MultiframeBody", multiframe()),
    ]
}

/// Request body of both endpoints that make a video from pictures and a prompt; they differ in the meaning of the
/// pictures.
fn generate(images: SchemaField) -> Value {
    let defaults = GenerateJob::<PictureSource>::default();
    let ratio = format!(
        "Aspect ratio, width to height: each from 1 to {}, and neither more than four times the other. Defaults to \
         that of the first picture, or to {} without pictures.",
        AspectRatio::SIDE_MAX,
        AspectRatio::DEFAULT
    );
    request_object([
        field_with_schema("aspect_ratio", &ratio, aspect_ratio_schema()),
        field::<bool>("audio", "`true` to add sound; the default is `true` for vq3-pro, otherwise `false`."),
        enum_field::<AudioType>(
            "audio_type",
            "Kind of sound if `audio` is `true`: `all` is sound effects and voices. No effect for q3 models.",
            defaults.audio_type.as_str(),
        ),
        flag_field("bgm", "`true` to add background music. No effect for q3 models."),
        callback_field(),
        field_with_schema("duration", &describe_durations(), seconds_schema(VideoSeconds::MAX)),
        flag_field("enhance", "`true` to enhance the picture."),
        images,
        flag_field("is_rec", "`true` to use the recommended prompt, for 10 more credits."),
        meta_data_field(),
        enum_field::<VideoModel>("model", MODEL, defaults.model.as_str()),
        enum_field::<MovementAmplitude>(
            "movement_amplitude",
            "Amount of movement. No effect for q2 and q3 models.",
            defaults.movement_amplitude.as_str(),
        ),
        flag_field("off_peak", "`true` to have the video made at any time within 48 hours, for half the price."),
        payload_field(),
        field_with_schema("priority", "Priority among waiting tasks; higher values go first.", integer32_schema())
            .with("default", defaults.priority),
        field::<VideoPrompt>("prompt", "Prompt that describes the video; required if there are no images."),
        enum_field::<Resolution>(
            "resolution",
            &format!("{RESOLUTION} Only resolutions with a price for the model are accepted."),
            defaults.resolution.as_str(),
        ),
        field::<Seed>("seed", "Seed of the random generator; chosen at random if absent."),
        enum_field::<VideoStyle>("style", STYLE, defaults.style.as_str()),
        field::<Label>("voice_id", "Id of the voice. No effect for q3 models."),
        flag_field("watermark", "`true` to add a watermark."),
        field_with_schema(
            "wm_position",
            "Position of the watermark: 1 top left, 2 top right, 3 bottom right, 4 bottom left. Ignored without \
             `watermark`.",
            json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 4, "default": 3}),
        ),
        field_with_schema(
            "wm_url",
            "Picture of the watermark, as base64, as a data URI with base64, or as an http(s) URL without user name \
             and password; the default watermark if absent or empty. Ignored without `watermark`.",
            json!({"type": "string"}),
        ),
    ])
}

fn extend() -> Value {
    request_object([
        callback_field(),
        field_with_schema("duration", "Number of seconds to add.", seconds_schema(ExtendJob::SECONDS_MAX)),
        pictures_field("End frame.", EXTEND_IMAGES_MAX),
        meta_data_field(),
        field::<ExtendModel>("model", MODEL).required(),
        payload_field(),
        field::<VideoPrompt>("prompt", "Prompt that describes the video."),
        enum_field::<ExtendResolution>("resolution", RESOLUTION, ExtendResolution::P720.as_str()),
        field_with_schema(
            "video_creation_id",
            "Id of a finished video of the caller: the id of a creation. Required together with `video_url`.",
            json!({"type": "string", "format": "uuid"}),
        )
        .required(),
        field::<CallbackUrl>(
            "video_url",
            "URL of the video, such as that of the creation: MP4 or WebM, at most 100 MiB.",
        )
        .required(),
    ])
}

fn multiframe() -> Value {
    let frame = request_object([
        field_with_schema(
            "duration",
            "Seconds from the previous frame to this one.",
            seconds_schema(KeyFrame::<PictureSource>::SECONDS_MAX),
        ),
        picture_field("key_image", "Key frame.").required(),
        field::<VideoPrompt>("prompt", "Prompt that describes the way to this frame."),
    ]);
    let count = MultiframeJob::<PictureSource>::COUNT;
    let frames = json!({"type": "array", "items": frame, "minItems": count.start(), "maxItems": count.end()});
    request_object([
        callback_field(),
        field_with_schema("image_settings", "Key frames in order.", frames).required(),
        meta_data_field(),
        enum_field::<ExtendModel>("model", MODEL, ExtendModel::Vq2Turbo.as_str()),
        payload_field(),
        enum_field::<ExtendResolution>("resolution", RESOLUTION, ExtendResolution::P720.as_str()),
        picture_field("start_image", "First frame; defaults to the first key frame."),
    ])
}

/// Describes the duration limits of each model, as the validation applies them.
fn describe_durations() -> String {
    let durations = VideoModel::ALL.iter().map(|model| format!("{} 1 to {}", model.as_str(), model.seconds_max()));
    format!("Duration in seconds: {}.", durations.collect::<Vec<_>>().join(", "))
}

fn seconds_schema(max: u8) -> Value {
    json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": max, "default": VideoSeconds::DEFAULT.get()})
}

fn integer32_schema() -> Value {
    json!({"type": "integer", "format": "int32", "minimum": i32::MIN, "maximum": i32::MAX})
}

fn aspect_ratio_schema() -> Value {
    json!({"type": "string", "pattern": "^0*[1-9][0-9]{0,2}:0*[1-9][0-9]{0,2}$", "examples": [AspectRatio::DEFAULT.to_string(), "9:16", "1:1"]})
}

fn payload_field() -> SchemaField {
    let schema = json!({"type": "string", "maxLength": PAYLOAD_CHARS_MAX});
    field_with_schema("payload", "Text that is returned unchanged.", schema)
}

fn meta_data_field() -> SchemaField {
    let schema = json!({"type": "string", "maxLength": PAYLOAD_CHARS_MAX, "contentMediaType": "application/json"});
    field_with_schema("meta_data", "JSON in a string, stored with the task.", schema)
}

fn callback_field() -> SchemaField {
    field::<Link>("callback_url", "URL of a webhook for every change of state; empty means none.")
}

fn pictures_field(about: &str, max: usize) -> SchemaField {
    let about = format!(
        "{about} Each as base64, as a data URI with base64, or as an http(s) URL without user name and password."
    );
    let schema = json!({"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": max});
    field_with_schema("images", &about, schema)
}

fn picture_field(name: &'static str, about: &str) -> SchemaField {
    let about =
        format!("{about} As base64, as a data URI with base64, or as an http(s) URL without user name and password.");
    field_with_schema(name, &about, json!({"type": "string", "minLength": 1}))
}

fn enum_field<T: HasSchema>(name: &'static str, about: &str, default: &'static str) -> SchemaField {
    field::<T>(name, about).with("default", default)
}

fn flag_field(name: &'static str, about: &str) -> SchemaField {
    field::<bool>(name, about).with("default", false)
}
