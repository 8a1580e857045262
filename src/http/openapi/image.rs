//! Image tasks and their results.

use serde_json::{Value, json};

use super::operation::{Operation, operation};
use super::parameter::query_parameter;
use super::schema::{
    HasSchema, SchemaField, UrlSchema, array, component_ref, field, field_with_schema, one_of, response_object,
};
use super::{OperationGroup, image_submission};
use crate::domain::ids::TaskId;
use crate::domain::task::{ImageStatus, TaskFailure};
use crate::http::response::error::Code;
use crate::media::thumbnail::ThumbnailSize;

const ABOUT: &str = "Image generation. The service validates a submission completely, stores it durably and returns a \
                     task; the work follows asynchronously.\n\nPictures are given as an http(s) URL, the URL of an \
                     uploaded file (`POST /files`), base64, or a data URI with base64; in a form also as files.\n\n- The \
                     service fetches URLs after the response, within 60 s each and only from addresses that it may call. A picture that cannot be fetched or decoded fails the \
                     task.\n- PNG, JPEG, WebP, GIF, BMP and TIFF are accepted. The first frame is used, upright, with \
                     8 bits per channel and with transparency.";

pub fn group() -> OperationGroup {
    let data = field_with_schema("data", "The task.", component_ref("ImageTask")).required();
    let components = vec![("ImageTask", task_schema()), ("ImageTaskData", response_object([data]))];
    let operations = image_submission::operations().into_iter().chain(status_operations()).chain([result()]).collect();
    OperationGroup { tag: "Images", description: ABOUT, operations, components }
}

fn status_operations() -> [Operation; 5] {
    let read = |id, summary, whose: &str| {
        operation(id, summary)
            .description(format!(
                "{whose} Tasks of other kinds are a 404, and so are tasks of other users, except for administrators."
            ))
            .ok_response("The task.", "ImageTaskData", &json!({"data": completed_example()}))
            .prefer_wait()
    };
    let about = "Returns a task of either upscaler.";
    [
        read("getUpscaleTask", "Get an upscaling task", about),
        read("getPrecisionUpscaleTask", "Get a precision upscaling task", about),
        read(
            "getStyleTransferTask",
            "Get a style transfer task",
            "Returns a style transfer task, wrapped in `data` unlike the response to its submission.",
        ),
        read("getSkinEnhancerTask", "Get a skin enhancer task", "Returns a skin enhancer task of any mode."),
        read("getRelightTask", "Get a relight task", "Returns a relight task."),
    ]
}

/// Returns the field with the words of the prompt that had an effect and those that had none.
pub fn prompt_report_field() -> SchemaField {
    let words = || json!({"type": "array", "items": {"type": "string"}});
    let schema = response_object([
        field_with_schema("understood", "Words that have an effect.", words()).required(),
        field_with_schema("ignored", "Words without an effect.", words()).required(),
    ]);
    let about = "Interpretation of the prompt by the built-in engine; absent without a prompt, and for other vendors.";
    field_with_schema("prompt_report", about, schema)
}

/// Returns the schema of the error of a failed task.
pub fn failure_schema() -> Value {
    response_object([
        field::<String>("code", "Stable error code, for programs.").required().with("examples", TaskFailure::CODES),
        field::<String>("message", "Description of the error, for people.").required(),
    ])
}

fn result() -> Operation {
    operation("getResult", "Download a result")
        .description(
            "Returns a result file. Its content never changes, and ranges are supported. Files are deleted some time \
             after the end of their task (`expires_at` of the task) and are a 404 from then on.",
        )
        .query([query_parameter(
            "signature",
            "Part of the URLs of input videos that vendors get, and of input pictures in the `request` of a task. \
             Without a valid one, only results are found.",
            &json!({"type": "string"}),
        ), query_parameter(
            "expires",
            "Part of the URLs of input pictures: the time until which the signature is valid, in seconds since 1970.",
            &json!({"type": "integer"}),
        ), query_parameter(
            "thumbnail",
            "Returns a small version of the picture with at most 128 (`small`) or 400 (`large`) pixels of width and \
             height: a JPEG, or a PNG if the picture has transparent pixels. Small and very large files, other media, \
             and all files while the service is busy are returned as they are.",
            &one_of(ThumbnailSize::ALL.iter().map(|size| size.as_str())),
        )])
        .file_response("The file: a picture or a video.", "*/*", &[])
        .error(Code::TooManyTransfers, "the account has reached its limit of concurrent downloads")
}

fn task_schema() -> Value {
    response_object([
        field_with_schema("error", "Error; present for failed tasks only.", failure_schema()),
        prompt_report_field(),
        field_with_schema(
            "generated",
            "URLs of the results; empty until the task is completed.",
            array(&UrlSchema::schema()),
        )
        .required(),
        field::<ImageStatus>("status", "Status; `COMPLETED` and `FAILED` are final.").required(),
        field::<TaskId>("task_id", "Id of the task, for status requests.").required(),
    ])
}

/// Returns an example of a task at its submission.
pub(super) fn created_example() -> Value {
    json!({"generated": [], "status": "CREATED", "task_id": TASK_ID_EXAMPLE})
}

/// Returns an example of a completed task.
pub fn completed_example() -> Value {
    let url = "https://registry.example/media/3a7bd3e2360a3d29eea436fcfb7e44c735d117c42d1c1835420b6b9942dd4f1b.png";
    json!({"generated": [url], "status": "COMPLETED", "task_id": TASK_ID_EXAMPLE})
}

/// Task id of the examples.
pub const TASK_ID_EXAMPLE: &str = "5a7f7a36-7a4e-4f0c-9f5e-2f6f3f0d9c11";
