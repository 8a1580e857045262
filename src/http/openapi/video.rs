//! Described: video tasks, and what they cost.

use serde_json::{Value, json};

use super::Group;
use super::image::TASK;
use super::operation::{Operation, get, post};
use super::parameter::{in_query, or_empty};
use super::schema::{Documented, Moment, Url, array, field, field_of, view};
use super::task::CURSOR;
use crate::domain::ids::{TaskId, UserId};
use crate::domain::task::{TaskKind, VideoState};
use crate::http::error::Code;
use crate::http::task::{LIMIT_DEFAULT, LIMIT_MAX};
use crate::projections::task::index::EntryState;

mod bodies;
mod submissions;

const ABOUT: &str = "Video generation. A submission is checked whole, becomes durable and is answered at once with a task and its \
                     price; the work is done after that: `created` while what it is made from is fetched, `queueing` until there is \
                     a slot, `processing`, then `success` or `failed`.\n\nPictures are given as for images; a watermark too. Callers \
                     without a token are served while the engine inside makes videos and no setting asks for one; whoever knows the \
                     id of their task may read and cancel it.\n\nCredits are held at the submission, charged when the video is \
                     there, and given back once when it fails or is cancelled. They are counted; there is no limit of them.";

pub fn group(max_images: usize) -> Group {
    let mut components = bodies::components(max_images);
    components.extend(submissions::components());
    components.extend([("Creations", creations_view()), ("Ledger", ledger_view())]);
    let operations = submissions::operations().into_iter().chain([creations(), cancel(), credits()]).collect();
    Group { tag: "Videos", about: ABOUT, operations, components }
}

const MODEL: &str =
    "What makes it: price, longest duration and which of the other fields have an effect follow from the model.";
const RESOLUTION: &str = "How many lines a picture has on its shorter side; 2K are 1440.";
const STYLE: &str = "How it is drawn: as the pictures are (`general`), or as `anime`.";

const AT: &str = "2026-03-01T09:30:00.000000Z";
const THEN: &str = "2026-03-01T09:31:12.500000Z";
const CLIP: &str =
    "https://registry.example/media/3a7bd3e2360a3d29eea436fcfb7e44c735d117c42d1c1835420b6b9942dd4f1b.mp4";
const COVER: &str =
    "https://registry.example/media/9d4e1e23bd5b727046a9e3b4b7db57bd8d6ee684a1c2b3d4e5f60718293a4b5c.png";

/// A task that is done.
pub fn done() -> Value {
    json!({"id": TASK, "state": "success", "err_code": "", "credits": 150, "payload": "order 41", "progress": 1.0,
        "creations": [{"id": TASK, "url": CLIP, "cover_url": COVER}]})
}

fn creations() -> Operation {
    get("/proxy/videovendor/tasks/{task_id}/creations", "getCreations", "Show what came of a video task")
        .about(
            "Also what a `callback_url` is told at every change of state. Tasks of other kinds are not found here; nor are those of other \
             users, except by administrators. Files and payload are kept for a time after the task has ended.",
        )
        .shows("The task.", "Creations", &done())
        .waits()
}

fn cancel() -> Operation {
    let cancelled = json!({"id": TASK, "state": "failed", "err_code": "cancelled", "message": "cancelled on request",
        "credits": 150, "progress": 0.1, "creations": []});
    post("/proxy/videovendor/tasks/{task_id}/cancel", "cancelVideo", "Cancel a video task")
        .about(
            "The task fails at once with the code `cancelled`, its credits are given back, and its callback is told. A task that has \
             ended stays as it is, which is no failure. Needs no body.",
        )
        .shows("The task as it is now.", "Creations", &cancelled)
}

fn credits() -> Operation {
    let limit = format!("How many entries a page has; more than {LIMIT_MAX} is taken for {LIMIT_MAX}.");
    let entry = json!({"task_id": TASK, "kind": "start-end2video", "credits": 150, "state": "charged", "held_at": AT, "settled_at": THEN});
    let example =
        json!({"balance": -150, "held": 0, "charged": 150, "refunded": 0, "entries": [entry], "limit": LIMIT_DEFAULT});
    get("/users/credits", "getCredits", "Show what was spent")
        .about(
            "The credits of the caller's tasks: one entry for each task that costs something, the newest first. `held`, `charged` and \
             `refunded` are sums over all entries, so that everything that was ever held is in exactly one of them.",
        )
        .query([
            in_query("user", "Of this user; somebody else for administrators only.", &or_empty(&UserId::schema())),
            in_query(
                "cursor",
                "Where to go on: `next_cursor` of the page before.",
                &json!({"type": "string", "pattern": CURSOR}),
            ),
            in_query("limit", &limit, &json!({"type": "integer", "minimum": 1, "default": LIMIT_DEFAULT})),
        ])
        .shows("Sums and a page of entries.", "Ledger", &example)
}

fn creations_view() -> Value {
    let creation = view([
        field::<TaskId>("id", "What `video_creation_id` of an extension takes.").required(),
        field::<Url>("url", "The video as it was asked for.").required(),
        field::<Url>("cover_url", "A picture of it."),
        field::<Url>("watermarked_url", "The video with a watermark, where there is one."),
    ]);
    view([
        field::<TaskId>("id", "The task.").required(),
        field::<VideoState>("state", "`success` and `failed` are final.").required(),
        field::<String>("err_code", "Why it failed, for programs; empty when it has not.").required(),
        field::<String>("message", "Why it failed, for people."),
        field::<u32>("credits", "What it costs; given back when it fails.").required(),
        field::<String>("payload", "As it was given."),
        field_of(
            "progress",
            "How far it is; falls only when a video that was being made is begun again after a restart.",
            json!({"type": "number", "minimum": 0, "maximum": 1}),
        )
        .required(),
        field_of("creations", "Empty until there is a video.", array(&creation)).required(),
    ])
}

fn ledger_view() -> Value {
    let entry = view([
        field::<TaskId>("task_id", "The task that costs them.").required(),
        field::<TaskKind>("kind", "Where it was submitted.").required(),
        field::<u32>("credits", "What it costs.").required(),
        field::<EntryState>("state", "What became of them.").required(),
        field::<Moment>("held_at", "When the task was submitted.").required(),
        field::<Moment>("settled_at", "When the credits were charged or given back."),
    ]);
    view([
        field::<i64>("balance", "Below zero what is held and what was charged: nothing is ever paid in.").required(),
        field::<u64>("held", "Of tasks that have not ended.").required(),
        field::<u64>("charged", "Of tasks that were done.").required(),
        field::<u64>("refunded", "Of tasks that failed or were cancelled.").required(),
        field_of("entries", "The newest first.", array(&entry)).required(),
        field::<u64>("limit", "How many entries a page has at most.").required(),
        field_of(
            "next_cursor",
            "What to give as `cursor` to go on; absent when there is no more.",
            json!({"type": "string", "pattern": CURSOR}),
        ),
    ])
}

/// What every submission may fail with.
fn refusals(operation: Operation) -> Operation {
    operation
        .fails(
            Code::Unauthorized,
            "there is no token, and a remote vendor makes the videos or `auth.video` asks for one",
        )
        .fails(Code::ApprovalRequired, "where the service lets only approved users submit")
        .fails(Code::TooManySubmissions, "too many of the caller's tasks are unfinished")
        .fails(Code::QuotaExceeded, "the caller has submitted, or spent, as much as a day allows")
        .fails(Code::TooManyCallbacks, "the task has a callback, and too many of the caller's wait for receivers")
        .fails(
            Code::InvalidInput,
            "a field is wrong, each of which is named; or a picture is none, over 50 MB or 100 megapixels",
        )
}
