//! Described: the bodies of video submissions. Ranges and defaults come from the types that have them.

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
        "The start frame; an end frame behind it is taken where the setting `video.max_images` is at least {START_END_IMAGES}."
    );
    let of_references = format!(
        "What appears in the video; more than one where the setting `video.max_images` allows them, up to {REFERENCE_IMAGES}."
    );
    vec![
        ("StartEndVideoBody", generate(pictures(&of_frames, max_images.min(START_END_IMAGES)))),
        ("ReferenceVideoBody", generate(pictures(&of_references, max_images.min(REFERENCE_IMAGES)))),
        ("ExtendVideoBody", extend()),
        ("MultiframeBody", multiframe()),
    ]
}

/// What both endpoints take that make a video of pictures and a prompt, which differ in what the pictures mean.
fn generate(images: Field) -> Value {
    let usual = Generate::<Source>::default();
    let ratio = format!(
        "Width to height, each from 1 to {} and neither more than four times the other. When absent that of the first picture, else {}.",
        AspectRatio::SIDE_MAX,
        AspectRatio::USUAL
    );
    body([
        field_of("aspect_ratio", &ratio, aspect_ratio()),
        field::<bool>("audio", "Whether there is sound; true by default for vq3-pro, else false."),
        chosen::<AudioType>(
            "audio_type",
            "What is heard where `audio` is true: `all` is sound effects and voices. Ineffective for q3 models.",
            usual.audio_type.as_str(),
        ),
        flag("bgm", "Whether there is background music. Ineffective for q3 models."),
        callback(),
        field_of("duration", &durations(), seconds(Seconds::MAX)),
        flag("enhance", "Whether the picture is enhanced."),
        images,
        flag("is_rec", "Whether the recommended prompt is used; 10 credits more."),
        meta_data(),
        chosen::<VideoModel>("model", MODEL, usual.model.as_str()),
        chosen::<MovementAmplitude>(
            "movement_amplitude",
            "How much moves. Ineffective for q2 and q3 models.",
            usual.movement_amplitude.as_str(),
        ),
        flag("off_peak", "Whether it may be made at any time within 48 hours, for half the price."),
        payload(),
        field_of("priority", "Which of the tasks that wait goes first: the highest.", integer32())
            .with("default", usual.priority),
        field::<VideoPrompt>("prompt", "What is to be seen. Needed where there are no images."),
        chosen::<Resolution>(
            "resolution",
            &format!("{RESOLUTION} Those are taken that have a price for the model."),
            usual.resolution.as_str(),
        ),
        field::<Seed>("seed", "Where chance begins; drawn when absent."),
        chosen::<VideoStyle>("style", STYLE, usual.style.as_str()),
        field::<Label>("voice_id", "Whose voice. Ineffective for q3 models."),
        flag("watermark", "Whether there is a watermark."),
        field_of(
            "wm_position",
            "1 top left, 2 top right, 3 bottom right, 4 bottom left. Ineffective without `watermark`.",
            json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 4, "default": 3}),
        ),
        field_of(
            "wm_url",
            "The watermark; ours when absent or empty. Ineffective without `watermark`. Base64, a data URI with base64, or an \
             http(s) URL without user name and password.",
            json!({"type": "string"}),
        ),
    ])
}

fn extend() -> Value {
    body([
        callback(),
        field_of("duration", "By how many seconds it becomes longer.", seconds(Extend::SECONDS_MAX)),
        pictures("The end frame.", EXTEND_IMAGES),
        meta_data(),
        field::<ExtendModel>("model", MODEL).required(),
        payload(),
        field::<VideoPrompt>("prompt", "What is to be seen."),
        chosen::<ExtendResolution>("resolution", RESOLUTION, ExtendResolution::P720.as_str()),
        field_of(
            "video_creation_id",
            "A video that the caller has made: the id of a creation. With `video_url`.",
            json!({"type": "string", "format": "uuid"}),
        )
        .required(),
        field::<CallbackUrl>(
            "video_url",
            "Where the video is, such as the URL of that creation: mp4 or webm, at most 100 MiB.",
        )
        .required(),
    ])
}

fn multiframe() -> Value {
    let frame = body([
        field_of("duration", "How long the way to it takes.", seconds(KeyFrame::<Source>::SECONDS_MAX)),
        picture("key_image", "What the video comes to.").required(),
        field::<VideoPrompt>("prompt", "What is to be seen on the way."),
    ]);
    let count = Multiframe::<Source>::COUNT;
    let frames = json!({"type": "array", "items": frame, "minItems": count.start(), "maxItems": count.end()});
    body([
        callback(),
        field_of("image_settings", "The key frames, in order.", frames).required(),
        meta_data(),
        chosen::<ExtendModel>("model", MODEL, ExtendModel::Vq2Turbo.as_str()),
        payload(),
        chosen::<ExtendResolution>("resolution", RESOLUTION, ExtendResolution::P720.as_str()),
        picture("start_image", "Where the video begins; at the first key frame when absent."),
    ])
}

/// The lengths of each model, so that the document says what the checks say.
fn durations() -> String {
    let of_models = VideoModel::ALL.iter().map(|model| format!("{} 1 to {}", model.as_str(), model.seconds_max()));
    format!("Seconds. {}.", of_models.collect::<Vec<_>>().join(", "))
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
    field_of("payload", "Handed back as it is.", schema)
}

fn meta_data() -> Field {
    let schema = json!({"type": "string", "maxLength": PAYLOAD_CHARS_MAX, "contentMediaType": "application/json"});
    field_of("meta_data", "JSON in a string; kept with the task.", schema)
}

fn callback() -> Field {
    field::<Link>("callback_url", "Told of every change of state; empty means none.")
}

fn pictures(about: &str, max: usize) -> Field {
    let about = format!(
        "{about} Each as base64, as a data URI with base64, or as an http(s) URL without user name and password."
    );
    let schema = json!({"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": max});
    field_of("images", &about, schema)
}

fn picture(name: &'static str, about: &str) -> Field {
    let about = format!("{about} Base64, a data URI with base64, or an http(s) URL without user name and password.");
    field_of(name, &about, json!({"type": "string", "minLength": 1}))
}

fn chosen<T: Documented>(name: &'static str, about: &str, usual: &'static str) -> Field {
    field::<T>(name, about).with("default", usual)
}

fn flag(name: &'static str, about: &str) -> Field {
    field::<bool>(name, about).with("default", false)
}
