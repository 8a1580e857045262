//! Described: the submissions of video jobs, and their answers.

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

/// How what is generated is priced.
const BY_THE_SECOND: &str =
    "The price is by model, resolution and seconds; half of it, rounded up, with `off_peak`; 10 more with `is_rec`.";
/// Where more is said.
const PAGES: &str = "It is in the answer, as `credits`; the list of prices is its operator's (as it comes, data/pricing.toml of the sources). What \
                     becomes of the task: `GET /proxy/videovendor/tasks/{task_id}/creations`; what was spent: `GET /users/credits`. What the engine \
                     inside makes of it: docs/video.md of the sources.";

pub(super) fn operations() -> [Operation; 4] {
    let picture = "https://pictures.example/harbour.webp";
    let generate =
        json!({"images": [picture], "prompt": "slow pan over the harbour", "duration": 5, "payload": "order 41"});
    [
        submission("/proxy/videovendor/start-end2video", "startEndToVideo", "Make a video from its first frame")
            .about(format!(
                "The picture is the first frame; with two, where the service takes them, the second is the last one. Without pictures \
                 the prompt alone says what is to be seen. {BY_THE_SECOND} {PAGES}"
            ))
            .takes("StartEndVideoBody", &generate)
            .shows("The task.", "GeneratedVideo", &generated_example(picture)),
        submission("/proxy/videovendor/reference2video", "referenceToVideo", "Make a video of what pictures show")
            .about(format!(
                "The pictures are no frames: what they show appears in the video, in the scene that the prompt names. Without pictures \
                 the prompt alone says what is to be seen. {BY_THE_SECOND} {PAGES}"
            ))
            .takes("ReferenceVideoBody", &generate)
            .shows("The task.", "GeneratedVideo", &generated_example(picture)),
        submission("/proxy/videovendor/extend", "extendVideo", "Make a video longer")
            .about(format!(
                "What comes of it is the video that was given and, behind it, `duration` seconds more; with a picture, on to that as \
                 the end frame. `video_creation_id` names a video that the caller has made and that is done, `video_url` says where \
                 the video is that goes on: both are needed. The price is by the seconds that are added. {PAGES}"
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
        submission("/proxy/videovendor/multiframe", "multiframeToVideo", "Make a video through key frames")
            .about(format!(
                "From `start_image`, or from the first key frame where there is none, to each key frame in turn, each with its time and \
                 its prompt: the video is as long as all of them together. The price is that of one second of an extension for each \
                 key frame, and that of a further second for every second of the video. {PAGES}"
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

/// What every answer says.
fn common() -> Vec<Field> {
    vec![
        field::<TaskId>("task_id", "The task, by which it is asked after.").required(),
        field::<VideoState>("state", "`created`, unless the caller has waited.").required(),
        field::<u32>("credits", "What it costs: held now, charged when it is done.").required(),
        field::<Moment>("created_at", "When it was submitted.").required(),
        field::<String>("payload", "As it was given."),
    ]
}

fn generated() -> Value {
    view(common().into_iter().chain([
        field::<VideoModel>("model", MODEL).required(),
        field::<Resolution>("resolution", RESOLUTION).required(),
        field::<String>("aspect_ratio", "Absent while it is that of a picture."),
        field::<bool>("bgm", "Whether background music was asked for.").required(),
        seconds(),
        images(),
        field::<MovementAmplitude>("movement_amplitude", "How much moves.").required(),
        field::<bool>("off_peak", "Whether it may be made at any time within 48 hours.").required(),
        prompt(),
        field::<Seed>("seed", "As it was given or drawn.").required(),
        field::<VideoStyle>("style", STYLE).required(),
        field::<bool>("watermark", "Whether a watermark was asked for.").required(),
    ]))
}

fn extended() -> Value {
    view(common().into_iter().chain([
        field::<ExtendModel>("model", MODEL).required(),
        field::<ExtendResolution>("resolution", RESOLUTION).required(),
        seconds(),
        images(),
        prompt(),
        field::<String>("video_creation_id", "As it was given."),
        field::<String>("video_url", "As it was given."),
    ]))
}

fn joined() -> Value {
    let frame = view([field::<String>("key_image", "As it was given."), seconds(), prompt()]);
    view(common().into_iter().chain([
        field::<ExtendModel>("model", MODEL).required(),
        field::<ExtendResolution>("resolution", RESOLUTION).required(),
        field_of("image_settings", "The key frames, in order.", array(&frame)).required(),
        field::<String>("start_image", "As it was given."),
    ]))
}

fn images() -> Field {
    field_of("images", "As they were given.", array(&String::schema()))
}

fn prompt() -> Field {
    field::<VideoPrompt>("prompt", "As it was given.")
}

fn seconds() -> Field {
    field::<u32>("duration", "Seconds.").required()
}
