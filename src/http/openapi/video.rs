//! Video tasks and their prices.

use serde_json::{Value, json};

use super::image::TASK_ID_EXAMPLE;
use super::operation::{Operation, operation};
use super::parameter::{allow_empty, query_parameter};
use super::schema::{HasSchema, UrlSchema, array, component_ref, field, field_with_schema, response_object};
use super::task::CURSOR_PATTERN;
use super::{OperationGroup, video_submission};
use crate::domain::ids::{TaskId, UserId};
use crate::domain::task::{TaskKind, VideoState};
use crate::domain::value::Timestamp;
use crate::http::api::task::{LIMIT_DEFAULT, LIMIT_MAX};
use crate::http::response::error::Code;
use crate::projections::task::index::EntryState;

const ABOUT: &str = "Video generation. The service validates a submission completely, stores it durably and returns a \
                     task with its price; the work follows asynchronously.\n\n- `created`: inputs are being \
                     fetched.\n- `queueing`: the task waits for a slot.\n- `processing`: the video is being made.\n- \
                     `success`, `failed`: final.\n\nPictures and watermarks are given as for images. Callers without \
                     a token are accepted while the built-in engine makes videos and no setting requires a token; \
                     anyone who knows the id of a task without an owner can read and cancel it.\n\nCredits are held at \
                     submission, charged when the video is finished, and refunded once if the task fails or is \
                     cancelled. The operator can limit the credits that a caller spends in a day \
                     (`limits.credits_per_day`).";

pub fn group(max_images: usize) -> OperationGroup {
    let mut components = video_submission::components();
    components.extend([("Creations", creations_schema()), ("Ledger", ledger_schema())]);
    let operations =
        video_submission::operations(max_images).into_iter().chain([creations(), cancel(), credits()]).collect();
    OperationGroup { tag: "Videos", description: ABOUT, operations, components }
}

pub(super) const CREATED_AT_EXAMPLE: &str = "2026-03-01T09:30:00.000000Z";
const SETTLED_AT_EXAMPLE: &str = "2026-03-01T09:31:12.500000Z";
pub(super) const VIDEO_URL_EXAMPLE: &str =
    "https://registry.example/media/3a7bd3e2360a3d29eea436fcfb7e44c735d117c42d1c1835420b6b9942dd4f1b.mp4";
const COVER_URL_EXAMPLE: &str =
    "https://registry.example/media/9d4e1e23bd5b727046a9e3b4b7db57bd8d6ee684a1c2b3d4e5f60718293a4b5c.png";

/// Returns an example of a finished task.
pub fn finished_example() -> Value {
    json!({"id": TASK_ID_EXAMPLE, "state": "success", "err_code": "", "credits": 150, "payload": "order 41", "progress": 1.0,
        "creations": [{"id": TASK_ID_EXAMPLE, "url": VIDEO_URL_EXAMPLE, "cover_url": COVER_URL_EXAMPLE}]})
}

fn creations() -> Operation {
    operation("getCreations", "Get the creations of a video task")
        .description(
            "Returns the state and results of a video task. The `callback_url` receives the same body at every change \
             of state. Tasks of other kinds are a 404, and so are tasks of other users, except for administrators. \
             Files and payload are deleted some time after the end of the task.",
        )
        .ok_response("The task.", "Creations", &finished_example())
        .prefer_wait()
}

fn cancel() -> Operation {
    let cancelled = json!({"id": TASK_ID_EXAMPLE, "state": "failed", "err_code": "cancelled", "message": "cancelled on request",
        "credits": 150, "progress": 0.1, "creations": []});
    operation("cancelVideo", "Cancel a video task")
        .description(
            "Fails the task immediately with the code `cancelled`, refunds its credits and sends its webhook. A task \
             that has ended stays unchanged, which is not an error. The request needs no body.",
        )
        .ok_response("The task after the request.", "Creations", &cancelled)
}

fn credits() -> Operation {
    let limit = format!("Page size; values above {LIMIT_MAX} are reduced to {LIMIT_MAX}.");
    let entry = json!({"task_id": TASK_ID_EXAMPLE, "kind": "start-end2video", "credits": 150, "state": "charged", "held_at": CREATED_AT_EXAMPLE, "settled_at": SETTLED_AT_EXAMPLE});
    let example = json!({"balance": -150, "held": 0, "charged": 150, "refunded": 0, "budgets": [], "entries": [entry], "limit": LIMIT_DEFAULT});
    operation("getCredits", "Get the credits spent")
        .description(
            "Returns the caller's credits: one entry for each task that has a price, newest first. `held`, `charged` \
             and `refunded` are totals over all entries; each credit is counted in exactly one of them.",
        )
        .query([
            query_parameter(
                "user",
                "Id of the user, by default the caller; other users only for administrators.",
                &allow_empty(&UserId::schema()),
            ),
            query_parameter(
                "cursor",
                "`next_cursor` of the previous page.",
                &json!({"type": "string", "pattern": CURSOR_PATTERN}),
            ),
            query_parameter("limit", &limit, &json!({"type": "integer", "minimum": 1, "default": LIMIT_DEFAULT})),
        ])
        .ok_response("Totals and a page of entries.", "Ledger", &example)
}

fn creations_schema() -> Value {
    let creation = response_object([
        field::<TaskId>("id", "Id of the creation, for `video_creation_id` of an extension.").required(),
        field::<UrlSchema>("url", "URL of the video.").required(),
        field::<UrlSchema>("cover_url", "URL of a cover picture."),
        field::<UrlSchema>("watermarked_url", "URL of the video with a watermark, if there is one."),
    ]);
    response_object([
        field::<TaskId>("id", "The task.").required(),
        field::<VideoState>("state", "State; `success` and `failed` are final.").required(),
        field::<String>("err_code", "Stable error code; empty unless the task failed.").required(),
        field::<String>("message", "Description of the error, for people."),
        field::<u32>("credits", "Price in credits; refunded if the task fails.").required(),
        field::<String>("payload", "Payload of the submission."),
        field_with_schema(
            "progress",
            "Progress. Decreases only if the video has to be started again after a restart of the service.",
            json!({"type": "number", "minimum": 0, "maximum": 1}),
        )
        .required(),
        field_with_schema("creations", "Results; empty until the video is finished.", array(&creation)).required(),
    ])
}

fn ledger_schema() -> Value {
    let entry = response_object([
        field::<TaskId>("task_id", "Id of the task.").required(),
        field::<TaskKind>("kind", "Kind of the task.").required(),
        field::<u32>("credits", "Price in credits.").required(),
        field::<EntryState>("state", "State of the credits.").required(),
        field::<Timestamp>("held_at", "Submission time of the task.").required(),
        field::<Timestamp>("settled_at", "Time at which the credits were charged or refunded."),
    ]);
    response_object([
        field::<i64>("balance", "Negative sum of `held` and `charged`; credits are never paid in.").required(),
        field::<u64>("held", "Credits of unfinished tasks.").required(),
        field::<u64>("charged", "Credits of successful tasks.").required(),
        field::<u64>("refunded", "Credits of failed and cancelled tasks.").required(),
        field_with_schema(
            "budgets",
            "Budgets that count the submissions of this caller; empty for other users.",
            array(&component_ref("Budget")),
        )
        .required(),
        field_with_schema("entries", "Entries, newest first.", array(&entry)).required(),
        field::<u64>("limit", "Page size.").required(),
        field_with_schema(
            "next_cursor",
            "Value of `cursor` for the next page; absent on the last page.",
            json!({"type": "string", "pattern": CURSOR_PATTERN}),
        ),
    ])
}

/// Adds the errors that all submissions share.
pub(super) fn with_submission_errors(operation: Operation) -> Operation {
    operation
        .error(
            Code::Unauthorized,
            "the request has no token, and videos are made by a remote vendor or `auth.video` requires a token",
        )
        .error(Code::ApprovalRequired, "the service requires approved accounts")
        .error(Code::TooManySubmissions, "the caller has reached the limit of unfinished tasks")
        .error(Code::BudgetExceeded, "the task costs more than is left of a budget")
        .error(Code::QuotaExceeded, "the caller has reached the daily limit of tasks or credits")
        .error(
            Code::TooManyCallbacks,
            "the task has a callback URL, and the account has reached the limit of undelivered webhooks",
        )
        .error(
            Code::InvalidInput,
            "a field is invalid (each is named), or a picture cannot be decoded, or exceeds 50 MB or 100 megapixels",
        )
}
