//! Image tasks and their results.

use serde_json::{Value, json};

use super::Group;
use super::operation::{Operation, get};
use super::schema::{Documented, Url, array, field, field_of, named, view};
use crate::domain::ids::TaskId;
use crate::domain::task::{Failure, ImageStatus};
use crate::http::error::Code;

mod bodies;
mod submissions;

const ABOUT: &str = "Image generation. The service validates a submission completely, stores it durably and returns a \
                     task; the work follows asynchronously.\n\nPictures are given as base64, as a data URI with \
                     base64, or as an http(s) URL.\n\n- The service fetches URLs after the response, within 60 s each \
                     and only from addresses that it may call. A picture that cannot be fetched or decoded fails the \
                     task.\n- PNG, JPEG, WebP, GIF, BMP and TIFF are accepted. The first frame is used, upright, with \
                     8 bits per channel and with transparency.";

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
                "{whose} Tasks of other kinds are a 404, and so are tasks of other users, except for administrators."
            ))
            .shows("The task.", "ImageTaskData", &json!({"data": completed()}))
            .waits()
    };
    let both = "Returns a task of either upscaler.";
    [
        read("/proxy/imagevendor/v1/ai/image-upscaler/{task_id}", "getUpscaleTask", "Get an upscaling task", both),
        read(
            "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2/{task_id}",
            "getPrecisionUpscaleTask",
            "Get a precision upscaling task",
            both,
        ),
        read(
            "/proxy/imagevendor/v1/ai/image-style-transfer/{task_id}",
            "getStyleTransferTask",
            "Get a style transfer task",
            "Returns a style transfer task, wrapped in `data` unlike the response to its submission.",
        ),
        read(
            "/proxy/imagevendor/v1/ai/skin-enhancer/{task_id}",
            "getSkinEnhancerTask",
            "Get a skin enhancer task",
            "Returns a skin enhancer task of any mode.",
        ),
        read(
            "/proxy/imagevendor/v1/ai/image-relight/{task_id}",
            "getRelightTask",
            "Get a relight task",
            "Returns a relight task.",
        ),
    ]
}

/// Schema of the error of a failed task.
pub fn failure_view() -> Value {
    view([
        field::<String>("code", "Stable error code, for programs.").required().with("examples", Failure::CODES),
        field::<String>("message", "Description of the error, for people.").required(),
    ])
}

fn result() -> Operation {
    get("/media/{file}", "getResult", "Download a result")
        .about(
            "Returns a result file. Its content never changes, and ranges are supported. Files are deleted some time \
             after the end of their task (`expires_at` of the task) and are a 404 from then on.",
        )
        .serves_file("The file: a picture or a video.", "*/*", &[])
        .fails(Code::TooManyTransfers, "the account has reached its limit of concurrent downloads")
}

fn task_view() -> Value {
    view([
        field_of("error", "Error; present for failed tasks only.", failure_view()),
        field_of("generated", "URLs of the results; empty until the task is completed.", array(&Url::schema()))
            .required(),
        field::<ImageStatus>("status", "Status; `COMPLETED` and `FAILED` are final.").required(),
        field::<TaskId>("task_id", "Id of the task, for status requests.").required(),
    ])
}

/// Example of a task at its submission.
fn created() -> Value {
    json!({"generated": [], "status": "CREATED", "task_id": TASK})
}

/// Example of a completed task.
pub fn completed() -> Value {
    let done = "https://registry.example/media/3a7bd3e2360a3d29eea436fcfb7e44c735d117c42d1c1835420b6b9942dd4f1b.png";
    json!({"generated": [done], "status": "COMPLETED", "task_id": TASK})
}

/// Task id of the examples.
pub const TASK: &str = "5a7f7a36-7a4e-4f0c-9f5e-2f6f3f0d9c11";
