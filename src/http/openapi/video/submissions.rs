//! Submissions of video jobs and their responses.

use serde_json::{Value, json};

use super::super::operation::{Operation, post};
use super::super::schema::{Documented, Field, Moment, array, field, field_of, view};
use super::{AT, CLIP, MODEL, RESOLUTION, STYLE, TASK, refusals};
use crate::domain::ids::TaskId;
use crate::domain::task::VideoState;
use crate::domain::video::{
    ExtendModel, ExtendResolution, MovementAmplitude, Resolution, Seed, VideoModel, VideoPrompt, VideoStyle,
};

pub(super) fn components() -> Vec<(&'static str, Value)> {
    vec![("GeneratedVideo", generated()), ("ExtendedVideo", extended()), ("MultiframeVideo", joined())]
}

/// Price rule of generated videos.
const BY_THE_SECOND: &str =
    "The price depends on model, resolution and duration. `off_peak` halves it, rounded up; `is_rec` adds 10.";
/// References to related operations and documentation.
const PAGES: &str = "The response has the price in `credits`. The operator sets the prices (default: \
                     data/pricing.toml in the source repository).\n\nFollow the task with `GET \
                     /proxy/videovendor/tasks/{task_id}/creations`; `GET /users/credits` returns the credits spent. \
                     The built-in engine is described in docs/video.md in the source repository.";

pub(super) fn operations() -> [Operation; 4] {
    let picture = "https://pictures.example/harbour.webp";
    let generate =
        json!({"images": [picture], "prompt": "slow pan over the harbour", "duration": 5, "payload": "order 41"});
    [
        submission("/proxy/videovendor/start-end2video", "startEndToVideo", "Make a video from a start frame")
            .about(format!(
                "Makes a video that starts with the picture. A second picture, where the service accepts two, is the \
                 last frame. Without pictures, the prompt alone describes the video.\n\n{BY_THE_SECOND} {PAGES}"
            ))
            .takes("StartEndVideoBody", &generate)
            .shows("The task.", "GeneratedVideo", &generated_example(picture)),
        submission("/proxy/videovendor/reference2video", "referenceToVideo", "Make a video from reference pictures")
            .about(format!(
                "Makes a video in which the contents of the pictures appear, in the scene that the prompt describes; \
                 the pictures are not frames of it. Without pictures, the prompt alone describes the \
                 video.\n\n{BY_THE_SECOND} {PAGES}"
            ))
            .takes("ReferenceVideoBody", &generate)
            .shows("The task.", "GeneratedVideo", &generated_example(picture)),
        submission("/proxy/videovendor/extend", "extendVideo", "Extend a video")
            .about(format!(
                "Makes a video that consists of the given video and `duration` more seconds; a picture is the end \
                 frame. Both `video_creation_id`, a finished video of the caller, and `video_url`, the location of \
                 the video to extend, are required.\n\nThe price depends on the seconds that are added. {PAGES}"
            ))
            .takes(
                "ExtendVideoBody",
                &json!({"model": "vq2-turbo", "duration": 4, "video_creation_id": TASK, "video_url": CLIP}),
            )
            .shows(
                "The task.",
                "ExtendedVideo",
                &json!({"task_id": TASK, "state": "created", "credits": 30, "created_at": AT, "duration": 4,
                    "model": "vq2-turbo", "resolution": "720p", "video_creation_id": TASK, "video_url": CLIP}),
            ),
        submission("/proxy/videovendor/multiframe", "multiframeToVideo", "Make a video from key frames")
            .about(format!(
                "Makes a video that starts with `start_image`, or without it the first key frame, and goes through \
                 the key frames in order, each with its own duration and prompt. The durations add up to that of the \
                 video.\n\nThe price is that of one second of an extension for each key frame, plus that of a further \
                 second for every second of the video. {PAGES}"
            ))
            .takes("MultiframeBody", &json!({"image_settings": frames(picture)}))
            .shows(
                "The task.",
                "MultiframeVideo",
                &json!({"task_id": TASK, "state": "created", "credits": 80, "created_at": AT, "model": "vq2-turbo",
                    "resolution": "720p", "image_settings": frames(picture)}),
            ),
    ]
}

fn submission(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    refusals(post(path, id, summary).waits())
}

fn frames(picture: &str) -> Value {
    json!([{"key_image": picture, "duration": 5}, {"key_image": picture, "duration": 5}])
}

fn generated_example(picture: &str) -> Value {
    json!({"task_id": TASK, "state": "created", "credits": 150, "created_at": AT, "model": "vq3-pro", "resolution": "720p",
        "payload": "order 41", "bgm": false, "duration": 5, "images": [picture], "movement_amplitude": "auto", "off_peak": false,
        "prompt": "slow pan over the harbour", "seed": 1_804_289_383, "style": "general", "watermark": false})
}

/// Fields of all responses.
fn common() -> Vec<Field> {
    vec![
        field::<TaskId>("task_id", "Id of the task, for status requests.").required(),
        field::<VideoState>("state", "State: `created`, unless the request waited with `Prefer`.").required(),
        field::<u32>("credits", "Price in credits: held now, charged when the video is finished.").required(),
        field::<Moment>("created_at", "Submission time.").required(),
        field::<String>("payload", "Value from the request."),
    ]
}

fn generated() -> Value {
    view(common().into_iter().chain([
        field::<VideoModel>("model", MODEL).required(),
        field::<Resolution>("resolution", RESOLUTION).required(),
        field::<String>("aspect_ratio", "Aspect ratio; absent if taken from a picture."),
        field::<bool>("bgm", "`true` if background music was requested.").required(),
        seconds(),
        images(),
        field::<MovementAmplitude>("movement_amplitude", "Amount of movement.").required(),
        field::<bool>("off_peak", "`true` if the video may be made at any time within 48 hours.").required(),
        prompt(),
        field::<Seed>("seed", "Seed from the request, or the random one.").required(),
        field::<VideoStyle>("style", STYLE).required(),
        field::<bool>("watermark", "`true` if a watermark was requested.").required(),
    ]))
}

fn extended() -> Value {
    view(common().into_iter().chain([
        field::<ExtendModel>("model", MODEL).required(),
        field::<ExtendResolution>("resolution", RESOLUTION).required(),
        seconds(),
        images(),
        prompt(),
        field::<String>("video_creation_id", "Value from the request."),
        field::<String>("video_url", "Value from the request."),
    ]))
}

fn joined() -> Value {
    let frame = view([field::<String>("key_image", "Value from the request."), seconds(), prompt()]);
    view(common().into_iter().chain([
        field::<ExtendModel>("model", MODEL).required(),
        field::<ExtendResolution>("resolution", RESOLUTION).required(),
        field_of("image_settings", "Key frames in order.", array(&frame)).required(),
        field::<String>("start_image", "Value from the request."),
    ]))
}

fn images() -> Field {
    field_of("images", "Pictures from the request.", array(&String::schema()))
}

fn prompt() -> Field {
    field::<VideoPrompt>("prompt", "Value from the request.")
}

fn seconds() -> Field {
    field::<u32>("duration", "Duration in seconds.").required()
}
