//! Request bodies of video submissions. Ranges and defaults come from the domain types.

use serde_json::{Value, json};

use super::super::schema::{Documented, Field, body, field, field_of};
use super::{MODEL, RESOLUTION, STYLE};
use crate::domain::image::Source;
use crate::domain::value::{CallbackUrl, Label, Link};
use crate::domain::video::{
    AspectRatio, AudioType, Extend, ExtendModel, ExtendResolution, Generate, KeyFrame, MovementAmplitude, Multiframe,
    PAYLOAD_CHARS_MAX, Resolution, Seconds, Seed, VideoModel, VideoPrompt, VideoStyle,
};
use crate::http::video::{EXTEND_IMAGES, REFERENCE_IMAGES, START_END_IMAGES};

pub(super) fn components(max_images: usize) -> Vec<(&'static str, Value)> {
    let of_frames = format!(
        "Start frame. A second picture, the end frame, requires the setting `video.max_images` to be at least \
         {START_END_IMAGES}."
    );
    let of_references = format!(
        "Pictures of what appears in the video. More than one requires the setting `video.max_images`, up to \
         {REFERENCE_IMAGES}."
    );
    vec![
        ("StartEndVideoBody", generate(pictures(&of_frames, max_images.min(START_END_IMAGES)))),
        ("ReferenceVideoBody", generate(pictures(&of_references, max_images.min(REFERENCE_IMAGES)))),
        ("ExtendVideoBody", extend()),
        ("MultiframeBody", multiframe()),
    ]
}

/// Request body of both endpoints that make a video from pictures and a prompt; they differ in the meaning of the
/// pictures.
fn generate(images: Field) -> Value {
    let usual = Generate::<Source>::default();
    let ratio = format!(
        "Aspect ratio, width to height: each from 1 to {}, and neither more than four times the other. Defaults to \
         that of the first picture, or to {} without pictures.",
        AspectRatio::SIDE_MAX,
        AspectRatio::USUAL
    );
    body([
        field_of("aspect_ratio", &ratio, aspect_ratio()),
        field::<bool>("audio", "`true` to add sound; the default is `true` for vq3-pro, otherwise `false`."),
        chosen::<AudioType>(
            "audio_type",
            "Kind of sound if `audio` is `true`: `all` is sound effects and voices. No effect for q3 models.",
            usual.audio_type.as_str(),
        ),
        flag("bgm", "`true` to add background music. No effect for q3 models."),
        callback(),
        field_of("duration", &durations(), seconds(Seconds::MAX)),
        flag("enhance", "`true` to enhance the picture."),
        images,
        flag("is_rec", "`true` to use the recommended prompt, for 10 more credits."),
        meta_data(),
        chosen::<VideoModel>("model", MODEL, usual.model.as_str()),
        chosen::<MovementAmplitude>(
            "movement_amplitude",
            "Amount of movement. No effect for q2 and q3 models.",
            usual.movement_amplitude.as_str(),
        ),
        flag("off_peak", "`true` to have the video made at any time within 48 hours, for half the price."),
        payload(),
        field_of("priority", "Priority among waiting tasks; higher values go first.", integer32())
            .with("default", usual.priority),
        field::<VideoPrompt>("prompt", "Prompt that describes the video; required if there are no images."),
        chosen::<Resolution>(
            "resolution",
            &format!("{RESOLUTION} Only resolutions with a price for the model are accepted."),
            usual.resolution.as_str(),
        ),
        field::<Seed>("seed", "Seed of the random generator; chosen at random if absent."),
        chosen::<VideoStyle>("style", STYLE, usual.style.as_str()),
        field::<Label>("voice_id", "Id of the voice. No effect for q3 models."),
        flag("watermark", "`true` to add a watermark."),
        field_of(
            "wm_position",
            "Position of the watermark: 1 top left, 2 top right, 3 bottom right, 4 bottom left. Ignored without \
             `watermark`.",
            json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 4, "default": 3}),
        ),
        field_of(
            "wm_url",
            "Picture of the watermark, as base64, as a data URI with base64, or as an http(s) URL without user name \
             and password; the default watermark if absent or empty. Ignored without `watermark`.",
            json!({"type": "string"}),
        ),
    ])
}

fn extend() -> Value {
    body([
        callback(),
        field_of("duration", "Number of seconds to add.", seconds(Extend::SECONDS_MAX)),
        pictures("End frame.", EXTEND_IMAGES),
        meta_data(),
        field::<ExtendModel>("model", MODEL).required(),
        payload(),
        field::<VideoPrompt>("prompt", "Prompt that describes the video."),
        chosen::<ExtendResolution>("resolution", RESOLUTION, ExtendResolution::P720.as_str()),
        field_of(
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
    let frame = body([
        field_of("duration", "Seconds from the previous frame to this one.", seconds(KeyFrame::<Source>::SECONDS_MAX)),
        picture("key_image", "Key frame.").required(),
        field::<VideoPrompt>("prompt", "Prompt that describes the way to this frame."),
    ]);
    let count = Multiframe::<Source>::COUNT;
    let frames = json!({"type": "array", "items": frame, "minItems": count.start(), "maxItems": count.end()});
    body([
        callback(),
        field_of("image_settings", "Key frames in order.", frames).required(),
        meta_data(),
        chosen::<ExtendModel>("model", MODEL, ExtendModel::Vq2Turbo.as_str()),
        payload(),
        chosen::<ExtendResolution>("resolution", RESOLUTION, ExtendResolution::P720.as_str()),
        picture("start_image", "First frame; defaults to the first key frame."),
    ])
}

/// Describes the duration limits of each model, as the validation applies them.
fn durations() -> String {
    let of_models = VideoModel::ALL.iter().map(|model| format!("{} 1 to {}", model.as_str(), model.seconds_max()));
    format!("Duration in seconds: {}.", of_models.collect::<Vec<_>>().join(", "))
}

fn seconds(max: u8) -> Value {
    json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": max, "default": Seconds::USUAL.get()})
}

fn integer32() -> Value {
    json!({"type": "integer", "format": "int32", "minimum": i32::MIN, "maximum": i32::MAX})
}

fn aspect_ratio() -> Value {
    json!({"type": "string", "pattern": "^0*[1-9][0-9]{0,2}:0*[1-9][0-9]{0,2}$", "examples": [AspectRatio::USUAL.to_string(), "9:16", "1:1"]})
}

fn payload() -> Field {
    let schema = json!({"type": "string", "maxLength": PAYLOAD_CHARS_MAX});
    field_of("payload", "Text that is returned unchanged.", schema)
}

fn meta_data() -> Field {
    let schema = json!({"type": "string", "maxLength": PAYLOAD_CHARS_MAX, "contentMediaType": "application/json"});
    field_of("meta_data", "JSON in a string, stored with the task.", schema)
}

fn callback() -> Field {
    field::<Link>("callback_url", "URL of a webhook for every change of state; empty means none.")
}

fn pictures(about: &str, max: usize) -> Field {
    let about = format!(
        "{about} Each as base64, as a data URI with base64, or as an http(s) URL without user name and password."
    );
    let schema = json!({"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": max});
    field_of("images", &about, schema)
}

fn picture(name: &'static str, about: &str) -> Field {
    let about =
        format!("{about} As base64, as a data URI with base64, or as an http(s) URL without user name and password.");
    field_of(name, &about, json!({"type": "string", "minLength": 1}))
}

fn chosen<T: Documented>(name: &'static str, about: &str, usual: &'static str) -> Field {
    field::<T>(name, about).with("default", usual)
}

fn flag(name: &'static str, about: &str) -> Field {
    field::<bool>(name, about).with("default", false)
}
