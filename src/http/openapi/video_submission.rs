//! Submissions of video jobs and their responses.

use serde_json::{Value, json};

use super::image::{TASK_ID_EXAMPLE, prompt_report_field};
use super::operation::{Operation, operation};
use super::schema::{HasSchema, SchemaField, array, field, field_with_schema, response_object};
use super::video::{CREATED_AT_EXAMPLE, VIDEO_URL_EXAMPLE, with_submission_errors};
use crate::domain::ids::TaskId;
use crate::domain::task::VideoState;
use crate::domain::value::Timestamp;
use crate::domain::video::{
    ExtendModel, ExtendResolution, MovementAmplitude, Resolution, Seed, VideoModel, VideoPrompt, VideoStyle,
};
use crate::http::api::video::jobs::{
    ExtendVideoBody, MODEL, MultiframeBody, REFERENCE_IMAGES_MAX, RESOLUTION, ReferenceVideoBody, START_END_IMAGES_MAX,
    STYLE, StartEndVideoBody,
};

pub(super) fn components() -> Vec<(&'static str, Value)> {
    vec![
        ("GeneratedVideo", generated_schema()),
        ("ExtendedVideo", extended_schema()),
        ("MultiframeVideo", multiframe_schema()),
    ]
}

/// Price rule of generated videos.
const PRICE_RULE: &str =
    "The price depends on model, resolution and duration. `off_peak` halves it, rounded up; `is_rec` adds 10.";
/// References to related operations and documentation.
const RELATED_PAGES: &str = "The response has the price in `credits`. The operator sets the prices (default: \
                     data/pricing.toml in the source repository).\n\nFollow the task with `GET \
                     /proxy/videovendor/tasks/{task_id}/creations`; `GET /users/credits` returns the credits spent. \
                     The built-in engine is described in docs/video.md in the source repository.";

pub(super) fn operations(max_images: usize) -> [Operation; 4] {
    let picture = "https://pictures.example/harbour.webp";
    let generate =
        json!({"images": [picture], "prompt": "slow pan over the harbour", "duration": 5, "payload": "order 41"});
    [
        submission("startEndToVideo", "Make a video from a start frame")
            .description(format!(
                "Makes a video that starts with the picture. A second picture, where the service accepts two, is the \
                 last frame. Without pictures, the prompt alone describes the video.\n\n{PRICE_RULE} {RELATED_PAGES}"
            ))
            .json_or_form::<StartEndVideoBody>(&generate)
            .max_images(max_images.min(START_END_IMAGES_MAX))
            .ok_response("The task.", "GeneratedVideo", &generated_example(picture)),
        submission("referenceToVideo", "Make a video from reference pictures")
            .description(format!(
                "Makes a video in which the contents of the pictures appear, in the scene that the prompt describes; \
                 the pictures are not frames of it. Without pictures, the prompt alone describes the \
                 video.\n\n{PRICE_RULE} {RELATED_PAGES}"
            ))
            .json_or_form::<ReferenceVideoBody>(&generate)
            .max_images(max_images.min(REFERENCE_IMAGES_MAX))
            .ok_response("The task.", "GeneratedVideo", &generated_example(picture)),
        submission("extendVideo", "Extend a video")
            .description(format!(
                "Makes a video that consists of the given video and `duration` more seconds; a picture is the end \
                 frame. Both `video_creation_id`, a finished video of the caller, and `video_url`, the location of \
                 the video to extend, are required.\n\nThe price depends on the seconds that are added. {RELATED_PAGES}"
            ))
            .json_or_form::<ExtendVideoBody>(
                &json!({"model": "vq2-turbo", "duration": 4, "video_creation_id": TASK_ID_EXAMPLE, "video_url": VIDEO_URL_EXAMPLE}),
            )
            .ok_response(
                "The task.",
                "ExtendedVideo",
                &json!({"task_id": TASK_ID_EXAMPLE, "state": "created", "credits": 30, "created_at": CREATED_AT_EXAMPLE, "duration": 4,
                    "model": "vq2-turbo", "resolution": "720p", "video_creation_id": TASK_ID_EXAMPLE, "video_url": VIDEO_URL_EXAMPLE}),
            ),
        submission("multiframeToVideo", "Make a video from key frames")
            .description(format!(
                "Makes a video that starts with `start_image`, or without it the first key frame, and goes through \
                 the key frames in order, each with its own duration and prompt. The durations add up to that of the \
                 video.\n\nThe price is that of one second of an extension for each key frame, plus that of a further \
                 second for every second of the video. {RELATED_PAGES}"
            ))
            .json_or_form::<MultiframeBody>(&json!({"image_settings": frames_example(picture)}))
            .fields_first(&["image_settings", "model", "start_image"])
            .ok_response(
                "The task.",
                "MultiframeVideo",
                &json!({"task_id": TASK_ID_EXAMPLE, "state": "created", "credits": 80, "created_at": CREATED_AT_EXAMPLE, "model": "vq2-turbo",
                    "resolution": "720p", "image_settings": frames_example(picture)}),
            ),
    ]
}

fn submission(id: &'static str, summary: &'static str) -> Operation {
    with_submission_errors(operation(id, summary).prefer_wait())
}

fn frames_example(picture: &str) -> Value {
    json!([{"key_image": picture, "duration": 5}, {"key_image": picture, "duration": 5}])
}

fn generated_example(picture: &str) -> Value {
    json!({"task_id": TASK_ID_EXAMPLE, "state": "created", "credits": 150, "created_at": CREATED_AT_EXAMPLE, "model": "vq3-pro", "resolution": "720p",
        "payload": "order 41", "bgm": false, "duration": 5, "images": [picture], "movement_amplitude": "auto", "off_peak": false,
        "prompt": "slow pan over the harbour", "seed": 1_804_289_383, "style": "general", "watermark": false})
}

/// Returns the fields that all responses have.
fn common_fields() -> Vec<SchemaField> {
    vec![
        field::<TaskId>("task_id", "Id of the task, for status requests.").required(),
        field::<VideoState>("state", "State: `created`, unless the request waited with `Prefer`.").required(),
        field::<u32>("credits", "Price in credits: held now, charged when the video is finished.").required(),
        field::<Timestamp>("created_at", "Submission time.").required(),
        field::<String>("payload", "Value from the request."),
        prompt_report_field(),
    ]
}

fn generated_schema() -> Value {
    response_object(common_fields().into_iter().chain([
        field::<VideoModel>("model", MODEL).required(),
        field::<Resolution>("resolution", RESOLUTION).required(),
        field::<String>("aspect_ratio", "Aspect ratio; absent if taken from a picture."),
        field::<bool>("bgm", "`true` if background music was requested.").required(),
        seconds_field(),
        images_field(),
        field::<MovementAmplitude>("movement_amplitude", "Amount of movement.").required(),
        field::<bool>("off_peak", "`true` if the video may be made at any time within 48 hours.").required(),
        prompt_field(),
        field::<Seed>("seed", "Seed from the request, or the random one.").required(),
        field::<VideoStyle>("style", STYLE).required(),
        field::<bool>("watermark", "`true` if a watermark was requested.").required(),
    ]))
}

fn extended_schema() -> Value {
    response_object(common_fields().into_iter().chain([
        field::<ExtendModel>("model", MODEL).required(),
        field::<ExtendResolution>("resolution", RESOLUTION).required(),
        seconds_field(),
        images_field(),
        prompt_field(),
        field::<String>("video_creation_id", "Value from the request."),
        field::<String>("video_url", "Value from the request."),
    ]))
}

fn multiframe_schema() -> Value {
    let frame =
        response_object([field::<String>("key_image", "Value from the request."), seconds_field(), prompt_field()]);
    response_object(common_fields().into_iter().chain([
        field::<ExtendModel>("model", MODEL).required(),
        field::<ExtendResolution>("resolution", RESOLUTION).required(),
        field_with_schema("image_settings", "Key frames in order.", array(&frame)).required(),
        field::<String>("start_image", "Value from the request."),
    ]))
}

fn images_field() -> SchemaField {
    field_with_schema("images", "Pictures from the request.", array(&String::schema()))
}

fn prompt_field() -> SchemaField {
    field::<VideoPrompt>("prompt", "Value from the request.")
}

fn seconds_field() -> SchemaField {
    field::<u32>("duration", "Duration in seconds.").required()
}
