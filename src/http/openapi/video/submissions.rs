//! Described: the submissions of video jobs, and their answers.

use serde_json::{Value, json};

use super::super::operation::{Operation, post};
use super::super::schema::{Documented, Field, Moment, array, field, field_of, view};
use super::{AT, CLIP, TASK, refusals};
use crate::domain::ids::TaskId;
use crate::domain::task::VideoState;
use crate::domain::video::{
    ExtendModel, ExtendResolution, MovementAmplitude, Resolution, VideoModel, VideoPrompt, VideoStyle,
};

pub(super) fn components() -> Vec<(&'static str, Value)> {
    vec![("GeneratedVideo", generated()), ("ExtendedVideo", extended()), ("MultiframeVideo", joined())]
}

pub(super) fn operations() -> [Operation; 4] {
    let picture = "https://pictures.example/harbour.webp";
    let generate =
        json!({"images": [picture], "prompt": "slow pan over the harbour", "duration": 5, "payload": "order 41"});
    [
        submission("/proxy/videovendor/start-end2video", "startEndToVideo", "Make a video from its first frame")
            .about("With two pictures, where the service takes them, the second is the last frame.")
            .takes("GenerateVideoBody", &generate)
            .shows("The task.", "GeneratedVideo", &generated_example(picture)),
        submission("/proxy/videovendor/reference2video", "referenceToVideo", "Make a video of what pictures show")
            .takes("GenerateVideoBody", &generate)
            .shows("The task.", "GeneratedVideo", &generated_example(picture)),
        submission("/proxy/videovendor/extend", "extendVideo", "Make a video longer")
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
        submission("/proxy/videovendor/multiframe", "multiframeToVideo", "Make a video through key frames")
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

/// What every answer says.
fn common() -> Vec<Field> {
    vec![
        field::<TaskId>("task_id", "").required(),
        field::<VideoState>("state", "`created`, unless the caller has waited.").required(),
        field::<u64>("credits", "What it costs: held now, charged when it is done.").required(),
        field::<Moment>("created_at", "").required(),
        field::<String>("payload", "As it was given."),
    ]
}

fn generated() -> Value {
    let seed = json!({"type": "integer", "format": "int32", "minimum": 0});
    view(common().into_iter().chain([
        field::<VideoModel>("model", "").required(),
        field::<Resolution>("resolution", "").required(),
        field::<String>("aspect_ratio", "Absent while it is that of a picture."),
        field::<bool>("bgm", "Whether background music was asked for.").required(),
        field::<u64>("duration", "Seconds.").required(),
        images(),
        field::<MovementAmplitude>("movement_amplitude", "").required(),
        field::<bool>("off_peak", "").required(),
        field::<VideoPrompt>("prompt", ""),
        field_of("seed", "As it was given or drawn.", seed).required(),
        field::<VideoStyle>("style", "").required(),
        field::<bool>("watermark", "Whether a watermark was asked for.").required(),
    ]))
}

fn extended() -> Value {
    view(common().into_iter().chain([
        field::<ExtendModel>("model", "").required(),
        field::<ExtendResolution>("resolution", "").required(),
        field::<u64>("duration", "Seconds.").required(),
        images(),
        field::<VideoPrompt>("prompt", ""),
        field::<String>("video_creation_id", ""),
        field::<String>("video_url", ""),
    ]))
}

fn joined() -> Value {
    let frame = view([
        field::<String>("key_image", "As it was given."),
        field::<u64>("duration", "Seconds.").required(),
        field::<VideoPrompt>("prompt", ""),
    ]);
    view(common().into_iter().chain([
        field::<ExtendModel>("model", "").required(),
        field::<ExtendResolution>("resolution", "").required(),
        field_of("image_settings", "", array(&frame)).required(),
        field::<String>("start_image", "As it was given."),
    ]))
}

fn images() -> Field {
    field_of("images", "As they were given.", array(&String::schema()))
}
