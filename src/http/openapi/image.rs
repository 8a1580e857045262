//! Described: image tasks and their results.

use serde_json::{Value, json};

use super::Group;
use super::operation::{Operation, get};
use super::schema::{Documented, Url, array, field, field_of, named, view};
use crate::domain::ids::TaskId;
use crate::domain::task::{Failure, ImageStatus};
use crate::http::error::Code;

mod bodies;
mod submissions;

const ABOUT: &str = "Image generation. A submission is checked whole, becomes durable and is answered at once with a task; the \
                     work is done after that.\n\nA picture is given as base64, as a data URI with base64, or as an http(s) \
                     URL. What is at a URL is fetched after the answer, within 60 s and without leaving the addresses that \
                     the service may call; a picture that cannot be had or is none fails the task. Of png, jpeg, webp, gif, \
                     bmp and tiff the upright first frame counts, in 8 bits a channel, with its transparency.";

pub fn group() -> Group {
    let mut components = bodies::components();
    components.push(("ImageTask", task_view()));
    components.push(("ImageTaskData", view([field_of("data", "The task.", named("ImageTask")).required()])));
    let operations = submissions::operations().into_iter().chain(status_reads()).chain([result()]).collect();
    Group { tag: "Images", about: ABOUT, operations, components }
}

fn status_reads() -> [Operation; 5] {
    let read = |path, id, summary, whose: &str| {
        get(path, id, summary)
            .about(format!(
                "{whose} A task of another kind is not found here; nor are tasks of other users, except by administrators."
            ))
            .shows("The task.", "ImageTaskData", &json!({"data": completed()}))
            .waits()
    };
    let both = "Answers tasks of both upscalers.";
    [
        read("/proxy/imagevendor/v1/ai/image-upscaler/{task_id}", "getUpscaleTask", "Show an upscaling task", both),
        read(
            "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2/{task_id}",
            "getPrecisionUpscaleTask",
            "Show a precision upscaling task",
            both,
        ),
        read(
            "/proxy/imagevendor/v1/ai/image-style-transfer/{task_id}",
            "getStyleTransferTask",
            "Show a style transfer task",
            "Unlike the submission, it wraps the task in `data`.",
        ),
        read(
            "/proxy/imagevendor/v1/ai/skin-enhancer/{task_id}",
            "getSkinEnhancerTask",
            "Show a skin enhancer task",
            "Answers tasks of every mode.",
        ),
        read(
            "/proxy/imagevendor/v1/ai/image-relight/{task_id}",
            "getRelightTask",
            "Show a relight task",
            "Answers relight tasks.",
        ),
    ]
}

/// Why a task failed.
pub fn failure_view() -> Value {
    view([
        field::<String>("code", "Stable, for programs.").required().with("examples", Failure::CODES),
        field::<String>("message", "A sentence, for people.").required(),
    ])
}

fn result() -> Operation {
    get("/media/{file}", "getResult", "Get a result")
        .about(
            "A file never changes under its name. Ranges are answered. A result is kept for a time after its task has ended \
             (`expires_at` of the task), and not found after it.",
        )
        .serves_file("The file: a picture or a video.", "*/*", &[])
        .fails(Code::TooManyTransfers, "the account has as many downloads under way as one account may")
}

fn task_view() -> Value {
    view([
        field_of("error", "Why it failed; only a task that failed has it.", failure_view()),
        field_of("generated", "URLs of the results; empty until the task is completed.", array(&Url::schema()))
            .required(),
        field::<ImageStatus>("status", "`COMPLETED` and `FAILED` are final.").required(),
        field::<TaskId>("task_id", "By which the task is asked after.").required(),
    ])
}

/// A task as it is answered at its submission.
fn created() -> Value {
    json!({"generated": [], "status": "CREATED", "task_id": TASK})
}

/// A task that is done.
pub fn completed() -> Value {
    let done = "https://registry.example/media/3a7bd3e2360a3d29eea436fcfb7e44c735d117c42d1c1835420b6b9942dd4f1b.png";
    json!({"generated": [done], "status": "COMPLETED", "task_id": TASK})
}

/// The task of the examples.
pub const TASK: &str = "5a7f7a36-7a4e-4f0c-9f5e-2f6f3f0d9c11";
