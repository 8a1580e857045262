//! Described: the music gateway.

use serde_json::{Value, json};

use super::Group;
use super::image::TASK;
use super::operation::{Operation, post};
use super::schema::{array, field, field_of, named, view};
use crate::domain::ids::TaskId;
use crate::domain::music::MusicSeconds;
use crate::http::error::Code;
use crate::http::music::NDJSON;

const ABOUT: &str =
    "Music from a text. It is sent while it is made: the answer is a stream of JSON values, one a line.";

pub fn group() -> Group {
    Group {
        tag: "Music",
        about: ABOUT,
        operations: vec![generate()],
        components: vec![("MusicForm", form()), ("MusicEvent", event())],
    }
}

fn generate() -> Operation {
    post("/proxy/musicvendor/t2m/generate", "generateMusic", "Generate music")
        .about(
            "The lines come in this order: `duration`, `title`, `audio_chunk` as often as it takes, `generated_audio`, `complete`. \
             The `data` of the chunks, decoded and joined, is one file that browsers play (Ogg/Opus) and that has exactly the told \
             length. What goes wrong once the answer has begun is told by a last line, `error`. A blank line is sent after every 10 s \
             of silence. The same prompt and duration give the same music.\n\nThe stream is a task (`X-Task-Id`): it is listed, shown \
             and cancelled like others, and its history says how it ended, be it that the client went away. The same form \
             again with its `Idempotency-Key` is the same task: its music is made again, whole, where the engine inside made it, and an \
             end that was told as an `error` is told again; while it is still being sent the answer is 409, and so it is when a vendor made \
             it, for that is not kept. Unknown parts of the form are ignored; an empty `duration` is none.",
        )
        .takes_form("MusicForm", &json!({"prompt": "calm solo piano, a waltz in A minor", "duration": 30}))
        .answers_content(200, "The music.", NDJSON, &json!({"schema": stream(), "example": lines()}))
        .with_header(200, "X-Task-Id")
        .fails(Code::ApprovalRequired, "the service takes tasks of approved accounts only")
        .fails(Code::MalformedBody, "the body is no form")
        .fails(Code::IdempotencyKeyInUse, "the music of this key is still being sent")
        .fails(Code::Conflict, "the music of this key was made by a vendor, and is not kept")
        .fails(Code::TooManySubmissions, "the caller has too many unfinished tasks")
        .fails(Code::QuotaExceeded, "the caller has submitted as many tasks as a day allows")
        .fails(
            Code::Overloaded,
            "as many pieces are being sent as there are places for (`music.streams`), or its vendor is left alone for a while",
        )
}

/// The lines as a whole.
fn stream() -> Value {
    json!({"type": "string", "contentMediaType": NDJSON, "contentSchema": named("MusicEvent")})
}

/// An answer, with its sound left out.
fn lines() -> String {
    let lines = [
        json!({"type": "duration", "duration_sec": 30.0}),
        json!({"type": "title", "stream_index": 0, "prompt_index": 0, "copy_index": 0, "title": "The Quiet Garden",
            "display_tags": ["classical", "calm", "96 bpm", "A minor", "3/4", "piano"]}),
        json!({"type": "audio_chunk", "stream_index": 0, "num_streams": 1, "sample_rate": 48_000, "channels": 2,
            "encoding": "ogg_opus", "data": "T2dnUwACAAAAAAAAAAA="}),
        json!({"type": "generated_audio", "sample_rate": 48_000, "channels": 2, "duration_sec_by_stream": [30.0],
            "billing_rate_per_sec": 0, "billing": 0.0}),
        json!({"type": "complete", "task_id": TASK}),
    ];
    lines.map(|line| line.to_string() + "\n").concat()
}

fn form() -> Value {
    let seconds = json!({"type": "integer", "minimum": 1, "maximum": MusicSeconds::MAX});
    view([
        field_of(
            "prompt",
            "What is to be heard: mood, genre, tempo, key, metre, instruments, form. White space at its ends does not count.",
            json!({"type": "string", "minLength": 1, "maxLength": 2000}),
        )
        .required(),
        field_of("duration", "In seconds; inferred from the prompt when absent.", seconds),
    ])
}

/// One line. Which fields it has follows from its type.
fn event() -> Value {
    let index = || json!({"type": "integer", "minimum": 0});
    let seconds = || json!({"type": "number", "minimum": 0});
    let kinds = ["duration", "title", "audio_chunk", "generated_audio", "complete", "error"];
    view([
        field_of("type", "", json!({"type": "string", "enum": kinds})).required(),
        field_of("duration_sec", "Of `duration`: how long the music will be.", seconds()),
        field_of("stream_index", "Of `title` and `audio_chunk`.", index()),
        field_of("prompt_index", "Of `title`.", index()),
        field_of("copy_index", "Of `title`.", index()),
        field::<String>("title", "Of `title`."),
        field_of("display_tags", "Of `title`: what it is, in a few words each.", array(&json!({"type": "string"}))),
        field_of("num_streams", "Of `audio_chunk`.", index()),
        field_of("sample_rate", "Of `audio_chunk` and `generated_audio`: samples a second.", index()),
        field_of("channels", "Of `audio_chunk` and `generated_audio`.", index()),
        field::<String>("encoding", "Of `audio_chunk`: `ogg_opus`."),
        field::<String>("data", "Of `audio_chunk`: the next bytes of the file, in base64."),
        field_of("duration_sec_by_stream", "Of `generated_audio`.", array(&seconds())),
        field_of("billing_rate_per_sec", "Of `generated_audio`: credits that a second is said to cost.", seconds()),
        field_of("billing", "Of `generated_audio`: the rate times the seconds. Nothing is charged.", seconds()),
        field::<TaskId>("task_id", "Of `complete`."),
        field::<String>("code", "Of `error`: stable, for programs."),
        field::<String>("message", "Of `error`: a sentence, for people."),
    ])
}
