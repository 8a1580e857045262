//! Described: tasks of every kind.

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
        about: "Media tasks of every kind: listed, shown with their history, followed, cancelled.",
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
        ("ImageTaskState", states(&of_images, "How an image task stands; the last two are final.")),
        ("VideoTaskState", states(&of_videos, "How a video or music task stands; the last two are final.")),
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
    let limit = format!("How many tasks a page has; more than {LIMIT_MAX} is taken for {LIMIT_MAX}.");
    get("/tasks", "listTasks", "List tasks")
        .about(
            "The newest first, in the order of their submission: pages that are joined by their cursors have neither gaps nor \
             doubles, whatever is submitted meanwhile. Users see their own tasks, administrators those of everybody.",
        )
        .query([
            many_in_query("kind", "Of these kinds.", &or_empty(&TaskKind::schema())),
            many_in_query("state", "In these states; the name of any kind stands for the same state of all kinds.", &or_empty(&TaskStatus::schema())),
            in_query("created_from", "Submitted at this time or later.", &time),
            in_query("created_to", "Submitted before this time; not earlier than `created_from`.", &time),
            in_query("owner", "Of this user; somebody else's for administrators only.", &or_empty(&UserId::schema())),
            in_query("cursor", "Where to go on: `next_cursor` of the page before.", &json!({"type": "string", "pattern": CURSOR})),
            in_query("limit", &limit, &json!({"type": "integer", "minimum": 1, "default": LIMIT_DEFAULT})),
        ])
        .shows(
            "A page of tasks.",
            "TaskPage",
            &json!({"tasks": [in_progress()], "limit": LIMIT_DEFAULT, "next_cursor": "AAAAAAAABBI"}),
        )
}

fn hint() -> Operation {
    post("/hints/{hint}", "hintTask", "Hint that a task has moved")
        .about(
            "For vendors: the URL that a submission to one carries as `webhook_url`. The vendor is asked about the task the sooner; \
             nothing that is sent here is read, let alone believed. The URL is the credential. Needs no body.",
        )
        .answers_text("The vendor will be asked.", "OK")
        .fails(Code::NotFound, "the URL is not one of this service")
}

fn show() -> Operation {
    get("/tasks/{task_id}", "getTask", "Show a task of any kind")
        .about("With every change of its state. Tasks of other users are not found, except by administrators.")
        .shows("The task.", "Task", &shown())
        .waits()
}

fn follow() -> Operation {
    let example = format!("retry: 2000\n\nid: 1042\nevent: snapshot\ndata: {}\n\n", shown());
    get("/tasks/{task_id}/events", "streamTask", "Follow a task")
        .about(
            "Server-sent events, opened by `retry: 2000`: come back after two seconds when the connection is lost. The first is a \
             `snapshot`: the task as it is, as `GET /tasks/{task_id}` shows it; each that follows is \
             a `change`: the task as it was after a change of its state, or when the pictures that it is made from had come, its `progress` \
             as far as it is recorded; `queue_position` and `hindrance`, which are not recorded, are those of now. `id` is \
             the position in the log. While more and more of a video is made, and when something else keeps the task from going on \
             (`hindrance`), `progress` tells so, at most once a second, without an `id`: it is not recorded. After 15 s of silence a comment is sent. The stream ends with the task, when \
             the reader may not see it any more, and when the service stops. A reader who comes back with `Last-Event-ID` gets the \
             changes after it, none left out and none twice, and 204 when it has seen the end. When the stream cannot go on, its \
             last event is `failed`, whose `data` is a problem, as failures are: come back then.",
        )
        .query([last_event_id("The last position that the reader has seen, as browsers send it when they come back.")])
        .answers_content(200, "The events.", "text/event-stream", &stream::content("TaskStreamEvent", &example))
        .answers_nothing(204, "The task has ended, and the reader has seen it.")
        .fails(Code::TooManyStreams, "the account follows as many tasks as one account may")
        .fails(Code::Overloaded, "too many streams are open")
}

fn cancel() -> Operation {
    let cancelled = json!({"task_id": TASK, "kind": "skin-enhancer", "state": "FAILED", "progress": 0.1, "cost": 0, "created_at": AT,
        "updated_at": THEN, "history": [{"state": "CREATED", "at": AT}, {"state": "FAILED", "at": THEN}], "generated": [],
        "error": {"code": "cancelled", "message": "cancelled on request"}});
    post("/tasks/{task_id}/cancel", "cancelTask", "Cancel a task")
        .about(
            "The task fails at once with the code `cancelled`, and its webhook is told. A task that has ended stays as it is, \
             which is no failure. Needs no body.",
        )
        .shows("The task as it is now.", "Task", &cancelled)
}

fn task() -> Value {
    let change =
        view([field::<TaskStatus>("state", "To which it came.").required(), field::<Moment>("at", "When.").required()]);
    let part = json!({"type": "number", "minimum": 0, "maximum": 1});
    view([
        field::<TaskId>("task_id", "The task.").required(),
        field::<TaskKind>("kind", "Where it was submitted.").required(),
        field::<TaskStatus>("state", "By the names of its kind. `COMPLETED`, `FAILED`, `success` and `failed` are final.").required(),
        field::<UserId>("owner", "Whose it is. Administrators are told; absent for others, and for a task of nobody."),
        field_of(
            "progress",
            "How far it is; falls only when a video that was being made is begun again after a restart. 0: pictures at URLs are still to come, 0.1: all are here, 0.5: it is being worked on, 1: there \
             are results. Between 0.5 and 1 it goes forward with what is made of a video. A task that fails stays as far as it was.",
            part,
        )
        .required(),
        field_of(
            "queue_position",
            "Which it is, from 1, of the tasks of everybody of its gateway that are still to be handed to whoever makes them, in the order \
             in which that is done: videos off peak last, then by priority, then by age. Of a video that the engine inside has, but not \
             begun, its place there. Absent once it is worked on, and while something else than its turn keeps it from going on (`hindrance`).",
            json!({"type": "integer", "minimum": 1}),
        ),
        field_of(
            "hindrance",
            "What keeps it from going on: it was tried in vain, and will be tried again. Gone once it has gone on. Not recorded: after a \
             restart of the service it is absent until the next attempt.",
            hindrance(),
        ),
        field_of(
            "request",
            "What was asked for: every parameter by its name, those that were not given as they are by default. A picture that it is \
             made from is told by its `digest` (SHA-256), `format`, `bytes`, `width` and `height`, or by its URL until it was fetched; \
             `payload` and `meta_data` by `digest` and `bytes`. Not in lists.",
            json!({"type": "object"}),
        ),
        field::<u64>("cost", "Credits; given back when the task fails. Images and music cost none.").required(),
        field::<Moment>("created_at", "When it was submitted.").required(),
        field::<Moment>("updated_at", "When something of it was last recorded.").required(),
        field_of("history", "Every change of state, the oldest first.", array(&change)).required(),
        field_of("generated", "URLs of the results.", array(&Url::schema())).required(),
        field::<Moment>("expires_at", "Until when the results are kept; only a task with results has it."),
        field::<bool>("expired", "Whether that time is over: then the URLs lead to nothing."),
        field_of("error", "Why it failed; only a task that failed has it.", failure_view()),
    ])
}

fn hindrance() -> Value {
    view([
        field::<String>("code", "Stable, for programs.").required().with("examples", Hindrance::CODES),
        field::<String>("message", "A sentence, for people.").required(),
        field::<Moment>("at", "When that was met.").required(),
        field::<Moment>(
            "next_attempt_at",
            "When it is tried again, at the latest, unless too much else is being done.",
        )
        .required(),
    ])
}

fn page() -> Value {
    view([
        field_of("tasks", "The newest first.", array(&named("Task"))).required(),
        field::<u64>("limit", "How many tasks a page has at most.").required(),
        field_of(
            "next_cursor",
            "What to give as `cursor` to go on; absent when there is no more.",
            json!({"type": "string", "pattern": CURSOR}),
        ),
    ])
}
