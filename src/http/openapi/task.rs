//! Tasks of every kind.

use serde_json::{Value, json};

use super::image::{TASK, failure_view};
use super::operation::{Operation, get, post};
use super::parameter::{in_query, last_event_id, many_in_query, or_empty};
use super::schema::{Documented, Moment, Url, array, field, field_of, named, one_of, view};
use super::{Group, stream};
use crate::actors::live::Hindrance;
use crate::domain::ids::{TaskId, UserId};
use crate::domain::task::{ImageStatus, TaskKind, TaskStatus, VideoState};
use crate::http::error::Code;
use crate::http::task::{LIMIT_DEFAULT, LIMIT_MAX};

/// A cursor: 8 bytes in base64url.
pub const CURSOR: &str = "^[A-Za-z0-9_-]{10}[AEIMQUYcgkosw048]$";

pub fn group() -> Group {
    Group {
        tag: "Tasks",
        about: "Media tasks of every kind: list, read with history, follow, cancel.",
        operations: vec![list(), show(), follow(), cancel(), hint()],
        components: stream::components().into_iter().chain(components()).collect(),
    }
}

fn components() -> [(&'static str, Value); 4] {
    let states = |names: &[&'static str], about: &str| {
        let mut states = one_of(names.iter().copied());
        states["description"] = about.into();
        states
    };
    let of_images: Vec<_> = ImageStatus::ALL.iter().map(|state| state.as_str()).collect();
    let of_videos: Vec<_> = VideoState::ALL.iter().map(|state| state.as_str()).collect();
    [
        ("Task", task()),
        ("TaskPage", page()),
        ("ImageTaskState", states(&of_images, "State of an image task; the last two are final.")),
        ("VideoTaskState", states(&of_videos, "State of a video or music task; the last two are final.")),
    ]
}

const AT: &str = "2026-03-01T09:30:00.000000Z";
const THEN: &str = "2026-03-01T09:30:02.500000Z";

fn shown() -> Value {
    let picture = json!({"digest": "5a".repeat(32), "format": "jpg", "bytes": 48_213, "width": 640, "height": 480});
    let mut task = in_progress();
    task["request"] = json!({"image": picture, "sharpen": 40, "smart_grain": 10});
    task
}

fn in_progress() -> Value {
    json!({"task_id": TASK, "kind": "skin-enhancer", "state": "IN_PROGRESS", "progress": 0.5, "cost": 0, "created_at": AT,
        "updated_at": THEN, "history": [{"state": "CREATED", "at": AT}, {"state": "IN_PROGRESS", "at": THEN}], "generated": []})
}

fn list() -> Operation {
    let time = or_empty(&Moment::schema());
    let limit = format!("Page size; values above {LIMIT_MAX} are reduced to {LIMIT_MAX}.");
    get("/tasks", "listTasks", "List tasks")
        .about(
            "Returns the caller's tasks, newest first; administrators get the tasks of all users. Following \
             `next_cursor` neither skips nor repeats tasks, even while new ones are submitted.",
        )
        .query([
            many_in_query("kind", "Only tasks of these kinds.", &or_empty(&TaskKind::schema())),
            many_in_query(
                "state",
                "Only tasks in these states. A state also matches its equivalents of other kinds, so `COMPLETED` \
                 finds `success`.",
                &or_empty(&TaskStatus::schema()),
            ),
            in_query("created_from", "Only tasks submitted at this time or later.", &time),
            in_query(
                "created_to",
                "Only tasks submitted before this time, which must not be earlier than `created_from`.",
                &time,
            ),
            in_query(
                "owner",
                "Only tasks of this user; other users only for administrators.",
                &or_empty(&UserId::schema()),
            ),
            in_query("cursor", "`next_cursor` of the previous page.", &json!({"type": "string", "pattern": CURSOR})),
            in_query("limit", &limit, &json!({"type": "integer", "minimum": 1, "default": LIMIT_DEFAULT})),
        ])
        .shows(
            "A page of tasks.",
            "TaskPage",
            &json!({"tasks": [in_progress()], "limit": LIMIT_DEFAULT, "next_cursor": "AAAAAAAABBI"}),
        )
}

fn hint() -> Operation {
    post("/hints/{hint}", "hintTask", "Notify the service of a vendor update")
        .about(
            "For vendors: the `webhook_url` of a job that the service submitted. The service queries the vendor about \
             the task sooner; the request body is not read and can be omitted. The URL is the credential.",
        )
        .answers_text("The vendor will be queried.", "OK")
        .fails(Code::NotFound, "the URL was not issued by this service")
}

fn show() -> Operation {
    get("/tasks/{task_id}", "getTask", "Get a task")
        .about(
            "Returns a task of any kind with its history. Tasks of other users are a 404, except for administrators.",
        )
        .shows("The task.", "Task", &shown())
        .waits()
}

fn follow() -> Operation {
    let example = format!("retry: 2000\n\nid: 1042\nevent: snapshot\ndata: {}\n\n", shown());
    get("/tasks/{task_id}/events", "streamTask", "Follow a task")
        .about(
            "Streams the changes of a task as server-sent events.\n\n- `snapshot` comes first: the current task, as \
             `GET /tasks/{task_id}` returns it.\n- `change` follows each change of state, and the arrival of all \
             input pictures: the task after that change. `progress` is the recorded value; `queue_position` and \
             `hindrance`, which are not recorded, are current.\n- `progress` reports progress of a video and a new \
             `hindrance`, at most once a second. It is not recorded and has no `id`.\n- `failed` is the last event of \
             a stream that cannot continue; its `data` is an error object. Reconnect.\n\nThe `id` of an event is its \
             position in the log. Reconnect with the last `id` in `Last-Event-ID` to receive all later changes \
             exactly once, or 204 if the end was received before. `retry: 2000` at the start sets a reconnection \
             delay of two seconds, and a comment is sent after 15 s of silence. The stream ends with the task, when \
             the caller loses access, and when the service stops.",
        )
        .query([last_event_id("Last position received; browsers send it when they reconnect.")])
        .answers_content(200, "The events.", "text/event-stream", &stream::content("TaskStreamEvent", &example))
        .answers_nothing(204, "The task has ended, and the client has received its last event.")
        .fails(Code::TooManyStreams, "the account has reached its limit of concurrent event streams")
        .fails(Code::Overloaded, "too many streams are open")
}

fn cancel() -> Operation {
    let cancelled = json!({"task_id": TASK, "kind": "skin-enhancer", "state": "FAILED", "progress": 0.1, "cost": 0, "created_at": AT,
        "updated_at": THEN, "history": [{"state": "CREATED", "at": AT}, {"state": "FAILED", "at": THEN}], "generated": [],
        "error": {"code": "cancelled", "message": "cancelled on request"}});
    post("/tasks/{task_id}/cancel", "cancelTask", "Cancel a task")
        .about(
            "Fails the task immediately with the code `cancelled` and sends its webhook. A task that has ended stays \
             unchanged, which is not an error. The request needs no body.",
        )
        .shows("The task after the request.", "Task", &cancelled)
}

fn task() -> Value {
    let change = view([
        field::<TaskStatus>("state", "New state.").required(),
        field::<Moment>("at", "Time of the change.").required(),
    ]);
    let part = json!({"type": "number", "minimum": 0, "maximum": 1});
    view([
        field::<TaskId>("task_id", "The task.").required(),
        field::<TaskKind>("kind", "Kind of the task.").required(),
        field::<TaskStatus>(
            "state",
            "State, in the names of its kind. `COMPLETED`, `FAILED`, `success` and `failed` are final.",
        )
        .required(),
        field::<UserId>("owner", "Id of the owner. Visible to administrators only; absent for anonymous tasks."),
        field_of(
            "progress",
            "Progress: 0 while inputs are fetched, 0.1 when all have arrived, 0.5 while the job runs, up to 1 as a \
             video is made, 1 with results. Decreases only if a video has to be started again after a restart of the \
             service. A failed task keeps its last value.",
            part,
        )
        .required(),
        field_of(
            "queue_position",
            "Position, from 1, among the tasks of all users that this gateway has yet to hand over to a vendor or the \
             built-in engine, in the order of the handover. Off-peak videos come last, and first once half of their \
             deadline has passed; then priority and age decide. For a video that the built-in engine has received but \
             not started, its position there. Absent once work has started, and while the task is blocked \
             (`hindrance`).",
            json!({"type": "integer", "minimum": 1}),
        ),
        field_of(
            "hindrance",
            "Reason why the task is blocked; the service keeps retrying. Absent once the task continues, and after a \
             restart of the service until the next attempt.",
            hindrance(),
        ),
        field_of(
            "request",
            "All parameters of the request, including defaults; absent in lists. An input picture is shown with \
             `digest` (SHA-256), `format`, `bytes`, `width` and `height`, or with its URL until it is fetched; \
             `payload` and `meta_data` with `digest` and `bytes`.",
            json!({"type": "object"}),
        ),
        field::<u64>("cost", "Price in credits; refunded if the task fails. Images and music are free.").required(),
        field::<Moment>("created_at", "Submission time.").required(),
        field::<Moment>("updated_at", "Time of the last recorded change.").required(),
        field_of("history", "Changes of state, oldest first.", array(&change)).required(),
        field_of("generated", "URLs of the results.", array(&Url::schema())).required(),
        field::<Moment>("expires_at", "Time at which the results are deleted; present for tasks with results only."),
        field::<bool>("expired", "`true` if the results have been deleted; their URLs are a 404."),
        field_of("error", "Error; present for failed tasks only.", failure_view()),
    ])
}

fn hindrance() -> Value {
    view([
        field::<String>("code", "Stable reason code, for programs.").required().with("examples", Hindrance::CODES),
        field::<String>("message", "Description of the reason, for people.").required(),
        field::<Moment>("at", "Time of the last failed attempt.").required(),
        field::<Moment>("next_attempt_at", "Latest time of the next attempt, unless the service is at capacity.")
            .required(),
    ])
}

fn page() -> Value {
    view([
        field_of("tasks", "Tasks, newest first.", array(&named("Task"))).required(),
        field::<u64>("limit", "Page size.").required(),
        field_of(
            "next_cursor",
            "Value of `cursor` for the next page; absent on the last page.",
            json!({"type": "string", "pattern": CURSOR}),
        ),
    ])
}
