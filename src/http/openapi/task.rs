//! Tasks of every kind.

use serde_json::{Value, json};

use super::image::{TASK_ID_EXAMPLE, failure_schema, prompt_report_field};
use super::operation::{Operation, operation};
use super::parameter::{allow_empty, last_event_id, query_parameter, repeatable_query_parameter};
use super::schema::{
    HasSchema, UrlSchema, array, component_ref, field, field_with_schema, nullable, one_of, response_object,
};
use super::{OperationGroup, event_stream};
use crate::actors::task_progress::TaskBlocker;
use crate::domain::ids::{TaskId, UserId};
use crate::domain::task::{ImageStatus, TaskKind, TaskStatus, VideoState};
use crate::domain::value::Timestamp;
use crate::http::api::models::JOBS;
use crate::http::api::task::{DETAILS, LIMIT_DEFAULT, LIMIT_MAX};
use crate::http::response::error::Code;
use crate::projections::task::index::EntryState;

/// A cursor: 8 bytes in base64url.
pub const CURSOR_PATTERN: &str = "^[A-Za-z0-9_-]{10}[AEIMQUYcgkosw048]$";

pub fn group() -> OperationGroup {
    OperationGroup {
        tag: "Tasks",
        description: "Media tasks of every kind: list, read with history, follow, cancel.",
        operations: vec![list(), show(), follow(), cancel(), vendor_webhook()],
        components: event_stream::components().into_iter().chain(components()).collect(),
    }
}

fn components() -> [(&'static str, Value); 4] {
    let states = |names: &[&'static str], about: &str| {
        let mut states = one_of(names.iter().copied());
        states["description"] = about.into();
        states
    };
    let image_states: Vec<_> = ImageStatus::ALL.iter().map(|state| state.as_str()).collect();
    let video_states: Vec<_> = VideoState::ALL.iter().map(|state| state.as_str()).collect();
    [
        ("Task", task_schema()),
        ("TaskPage", page_schema()),
        ("ImageTaskState", states(&image_states, "State of an image task; the last two are final.")),
        ("VideoTaskState", states(&video_states, "State of a video or music task; the last two are final.")),
    ]
}

const CREATED_AT_EXAMPLE: &str = "2026-03-01T09:30:00.000000Z";
const UPDATED_AT_EXAMPLE: &str = "2026-03-01T09:30:02.500000Z";

fn task_example() -> Value {
    let picture = json!({"digest": "5a".repeat(32), "format": "jpg", "bytes": 48_213, "width": 640, "height": 480});
    let mut task = listed_task_example();
    task["request"] = json!({"image": picture, "sharpen": 40, "smart_grain": 10});
    task
}

fn listed_task_example() -> Value {
    json!({"task_id": TASK_ID_EXAMPLE, "kind": "skin-enhancer", "job": "skin-enhancer/faithful", "state": "IN_PROGRESS", "progress": 0.5, "cost": 0, "cost_state": "held",
        "vendor": {"name": "studio", "profile": "comfyui", "reference": TASK_ID_EXAMPLE, "cost": 0.035}, "created_at": CREATED_AT_EXAMPLE,
        "updated_at": UPDATED_AT_EXAMPLE, "history": [{"state": "CREATED", "at": CREATED_AT_EXAMPLE}, {"state": "IN_PROGRESS", "at": UPDATED_AT_EXAMPLE}], "generated": []})
}

fn list() -> Operation {
    let time = allow_empty(&Timestamp::schema());
    let limit = format!("Page size; values above {LIMIT_MAX} are reduced to {LIMIT_MAX}.");
    operation("listTasks", "List tasks")
        .description(
            "Returns the caller's tasks, newest first; administrators get the tasks of all users. Following \
             `next_cursor` neither skips nor repeats tasks, even while new ones are submitted.",
        )
        .query([
            repeatable_query_parameter("kind", "Only tasks of these kinds.", &allow_empty(&TaskKind::schema())),
            repeatable_query_parameter(
                "state",
                "Only tasks in these states. A state also matches its equivalents of other kinds, so `COMPLETED` \
                 finds `success`.",
                &allow_empty(&TaskStatus::schema()),
            ),
            query_parameter("created_from", "Only tasks submitted at this time or later.", &time),
            query_parameter(
                "created_to",
                "Only tasks submitted before this time, which must not be earlier than `created_from`.",
                &time,
            ),
            query_parameter(
                "owner",
                "Only tasks of this user; other users only for administrators.",
                &allow_empty(&UserId::schema()),
            ),
            query_parameter(
                "cursor",
                "`next_cursor` of the previous page.",
                &json!({"type": "string", "pattern": CURSOR_PATTERN}),
            ),
            query_parameter(
                DETAILS,
                "`true` to include `request` and `prompt_report` in each task.",
                &json!({"type": "boolean", "default": false}),
            ),
            query_parameter("limit", &limit, &json!({"type": "integer", "minimum": 1, "default": LIMIT_DEFAULT})),
        ])
        .ok_response(
            "A page of tasks.",
            "TaskPage",
            &json!({"tasks": [listed_task_example()], "limit": LIMIT_DEFAULT, "next_cursor": "AAAAAAAABBI"}),
        )
}

fn vendor_webhook() -> Operation {
    operation("receiveVendorWebhook", "Notify the service of a vendor update")
        .description(
            "For vendors: the `webhook_url` of a job that the service submitted. The service queries the vendor about \
             the task sooner; the request body is not read and can be omitted. The URL is the credential.",
        )
        .text_response("The vendor will be queried.", "OK")
        .error(Code::NotFound, "the URL was not issued by this service")
}

fn show() -> Operation {
    operation("getTask", "Get a task")
        .description(
            "Returns a task of any kind with its history. Tasks of other users are a 404, except for administrators.",
        )
        .ok_response("The task.", "Task", &task_example())
        .prefer_wait()
}

fn follow() -> Operation {
    let example = format!("retry: 2000\n\nid: 1042\nevent: snapshot\ndata: {}\n\n", task_example());
    operation("streamTask", "Follow a task")
        .description(
            "Streams the changes of a task as server-sent events.\n\n- `snapshot` comes first: the current task, as \
             `GET /tasks/{task_id}` returns it.\n- `change` follows each change of state, and the arrival of all \
             input pictures: the task after that change. `progress` is the recorded value; `queue_position` and \
             `blocked_by`, which are not recorded, are current.\n- `progress` reports progress of a video and a new \
             `blocked_by`, at most once a second. It is not recorded and has no `id`.\n- `failed` is the last event of \
             a stream that cannot continue; its `data` is an error object. Reconnect.\n\nThe `id` of an event is its \
             position in the log. Reconnect with the last `id` in `Last-Event-ID` to receive all later changes \
             exactly once, or 204 if the end was received before. `retry: 2000` at the start sets a reconnection \
             delay of two seconds, and a comment is sent after 15 s of silence. The stream ends with the task, when \
             the caller loses access, and when the service stops.",
        )
        .query([last_event_id("Last position received; browsers send it when they reconnect.")])
        .content_response(200, "The events.", "text/event-stream", &event_stream::content("TaskStreamEvent", &example))
        .empty_response(204, "The task has ended, and the client has received its last event.")
        .error(Code::TooManyStreams, "the account has reached its limit of concurrent event streams")
        .error(Code::Overloaded, "too many streams are open")
}

fn cancel() -> Operation {
    let cancelled = json!({"task_id": TASK_ID_EXAMPLE, "kind": "skin-enhancer", "job": "skin-enhancer/faithful", "state": "FAILED", "progress": 0.1, "cost": 0, "cost_state": "refunded", "vendor": null, "created_at": CREATED_AT_EXAMPLE,
        "updated_at": UPDATED_AT_EXAMPLE, "history": [{"state": "CREATED", "at": CREATED_AT_EXAMPLE}, {"state": "FAILED", "at": UPDATED_AT_EXAMPLE}], "generated": [],
        "error": {"code": "cancelled", "message": "cancelled on request"}});
    operation("cancelTask", "Cancel a task")
        .description(
            "Fails the task immediately with the code `cancelled` and sends its webhook. A task that has ended stays \
             unchanged, which is not an error. The request needs no body.",
        )
        .ok_response("The task after the request.", "Task", &cancelled)
}

/// Returns the schema of a task.
pub fn task_schema() -> Value {
    let change = response_object([
        field::<TaskStatus>("state", "New state.").required(),
        field::<Timestamp>("at", "Time of the change.").required(),
    ]);
    let part = json!({"type": "number", "minimum": 0, "maximum": 1});
    response_object([
        field::<TaskId>("task_id", "The task.").required(),
        field::<TaskKind>("kind", "Kind of the task.").required(),
        field_with_schema(
            "job",
            "Name of the job, as `GET /models` lists it: the kind, with the mode if it has several.",
            json!({"type": "string", "enum": JOBS.map(|endpoint| endpoint.job)}),
        )
        .required(),
        field::<TaskStatus>(
            "state",
            "State, in the names of its kind. `COMPLETED`, `FAILED`, `success` and `failed` are final.",
        )
        .required(),
        field::<UserId>("owner", "Id of the owner. Visible to administrators only; absent for anonymous tasks."),
        field_with_schema(
            "progress",
            "Progress: 0 until inputs are fetched, then 0.05; 0.1 to 0.99 while the job runs; 1 with results. Decreases \
             only after a restart of the service, to 0.1, for a video that was being made. A failed task keeps its last \
             value.",
            part,
        )
        .required(),
        field_with_schema(
            "queue_position",
            "Position, from 1, among the tasks of all users that this gateway has yet to hand over to a vendor or the \
             built-in engine, in the order of the handover. Off-peak videos come last, and first once half of their \
             deadline has passed; then priority and age decide. For a video that the built-in engine has received but \
             not started, its position there. Absent once work has started, and while the task is blocked \
             (`blocked_by`).",
            json!({"type": "integer", "minimum": 1}),
        ),
        field_with_schema(
            "blocked_by",
            "Reason why the task is blocked; the service keeps retrying. Absent once the task continues, and after a \
             restart of the service until the next attempt.",
            blocker_schema(),
        ),
        field_with_schema(
            "request",
            "All parameters of the request, including defaults; absent in lists without `details`. An input picture is \
             shown with `digest` (SHA-256), `format`, `bytes`, `width` and `height`, or with its URL until it is \
             fetched; `payload` and `meta_data` with `digest` and `bytes`. The owner and administrators also get the \
             `url` of a picture until it is deleted; it works for at least an hour.",
            json!({"type": "object"}),
        ),
        field::<u64>("cost", "Price in credits.").required(),
        field::<EntryState>("cost_state", "State of the credits in `cost`. Those of a failed task are refunded, except for music that its client ended.")
            .required(),
        field_with_schema(
            "vendor",
            "Vendor that has, or may have, the job, or that had it when the task ended. `null` while certainly no \
             vendor has it, and for music of the built-in engine.",
            nullable(task_vendor_schema()),
        )
        .required(),
        field::<Timestamp>("created_at", "Submission time.").required(),
        field::<Timestamp>("updated_at", "Time of the last recorded change.").required(),
        field_with_schema("history", "Changes of state, oldest first.", array(&change)).required(),
        field_with_schema("generated", "URLs of the results.", array(&UrlSchema::schema())).required(),
        prompt_report_field(),
        field::<UrlSchema>("cover_url", "URL of a still picture of the video."),
        field::<Timestamp>("expires_at", "Time at which the results are deleted; present for tasks with results only."),
        field::<bool>("expired", "`true` if the results have been deleted; their URLs are a 404."),
        field_with_schema("error", "Error; present for failed tasks only.", failure_schema()),
    ])
}

fn task_vendor_schema() -> Value {
    response_object([
        field::<String>("name", "Configured name of the vendor.").required(),
        field::<String>("profile", "Name of its profile; `builtin` for the built-in engine.").required(),
        field_with_schema(
            "reference",
            "Id of the job at the vendor; `null` until the vendor has accepted it.",
            json!({"type": ["string", "null"]}),
        )
        .required(),
        field_with_schema(
            "cost",
            "Cost of the job at the vendor, as configured at the submission, in the unit of the operator; `null` \
             until the vendor has accepted it.",
            json!({"type": ["number", "null"], "minimum": 0}),
        )
        .required(),
    ])
}

fn blocker_schema() -> Value {
    response_object([
        field::<String>("code", "Stable reason code, for programs.").required().with("examples", TaskBlocker::CODES),
        field::<String>("message", "Description of the reason, for people.").required(),
        field::<Timestamp>("since", "Time of the last failed attempt.").required(),
        field::<Timestamp>("next_attempt_at", "Latest time of the next attempt, unless the service is at capacity.")
            .required(),
    ])
}

fn page_schema() -> Value {
    response_object([
        field_with_schema("tasks", "Tasks, newest first.", array(&component_ref("Task"))).required(),
        field::<u64>("limit", "Page size.").required(),
        field_with_schema(
            "next_cursor",
            "Value of `cursor` for the next page; absent on the last page.",
            json!({"type": "string", "pattern": CURSOR_PATTERN}),
        ),
    ])
}
