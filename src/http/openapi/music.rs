//! The music gateway.

use serde_json::{Map, Value, json};

use super::Group;
use super::image::TASK;
use super::operation::{Operation, post};
use super::schema::{Field, array, field, field_of, named, view};
use crate::domain::ids::TaskId;
use crate::domain::music::MusicSeconds;
use crate::http::error::Code;
use crate::http::music::NDJSON;

const ABOUT: &str = "Music generation from a text prompt. The response is a stream of JSON values, one per line, sent \
                     while the music is made.";

pub fn group() -> Group {
    Group {
        tag: "Music",
        about: ABOUT,
        operations: vec![generate()],
        components: events().into_iter().chain([("MusicForm", form())]).collect(),
    }
}

fn generate() -> Operation {
    post("/proxy/musicvendor/t2m/generate", "generateMusic", "Generate music")
        .about(
            "Generates music from a prompt and streams it as JSON lines: `duration`, `title`, any number of \
             `audio_chunk`, `generated_audio`, `complete`.\n\n- The `data` of all chunks, decoded and concatenated, \
             is one Ogg/Opus file with exactly the announced duration.\n- An error after the start of the response is \
             a last line `error`. A blank line is sent after 10 s of silence.\n- The same prompt and duration give \
             the same music.\n- The stream is a task (`X-Task-Id`) that can be listed, read and cancelled. Its \
             history shows how it ended, even if the client disconnected.\n- Unknown parts of the form are ignored; \
             an empty `duration` counts as absent.\n\nRepeating the form with the same `Idempotency-Key` refers to \
             the same task. Music of the built-in engine is generated again in full, also after a disconnect or a \
             restart of the service; a task that failed for another reason repeats its `error` line. The response is \
             409 while the first stream is still being sent, and if a vendor made the music, which is not stored.",
        )
        .takes_form("MusicForm", &json!({"prompt": "calm solo piano, a waltz in A minor", "duration": 30}))
        .answers_content(200, "The music as JSON lines.", NDJSON, &json!({"schema": stream(), "example": lines()}))
        .with_header(200, "X-Task-Id")
        .fails(Code::ApprovalRequired, "the service requires approved accounts")
        .fails(Code::MalformedBody, "the body is not a form")
        .fails(Code::IdempotencyKeyInUse, "the first stream with this key is still being sent")
        .fails(Code::Conflict, "the music of this key was made by a vendor and is not stored")
        .fails(Code::TooManySubmissions, "the caller has reached the limit of unfinished tasks")
        .fails(Code::TooManyStreams, "the account has reached its limit of concurrent music streams")
        .fails(Code::QuotaExceeded, "the caller has reached the daily limit of tasks")
        .fails(Code::Overloaded, "all music streams (`music.streams`) are in use, or calls to the vendor are paused")
}

/// Schema of the whole stream.
fn stream() -> Value {
    json!({"type": "string", "contentMediaType": NDJSON, "contentSchema": named("MusicEvent")})
}

/// Example of a response, with shortened audio data.
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
            "Prompt: mood, genre, tempo, key, metre, instruments, form. Whitespace at both ends is ignored.",
            json!({"type": "string", "minLength": 1, "maxLength": 2000}),
        )
        .required(),
        field_of("duration", "Duration in seconds; inferred from the prompt if absent.", seconds),
    ])
}

/// Line types with the component and fields of each.
fn kinds() -> [(&'static str, &'static str, Vec<Field>); 6] {
    let index = || json!({"type": "integer", "minimum": 0});
    let seconds = || json!({"type": "number", "minimum": 0});
    let stream =
        || field_of("stream_index", "Index of the stream, from 0; the built-in engine makes one stream.", index());
    let rate = || field_of("sample_rate", "Samples per second.", index());
    let channels = || field_of("channels", "Number of channels.", index());
    let tags = array(&json!({"type": "string"}));
    [
        ("duration", "MusicDuration", vec![field_of("duration_sec", "Duration of the music in seconds.", seconds())]),
        (
            "title",
            "MusicTitle",
            vec![
                stream(),
                field_of("prompt_index", "Index of the prompt, from 0.", index()),
                field_of("copy_index", "Index of the piece for this prompt, from 0.", index()),
                field::<String>("title", "Title of the piece."),
                field_of("display_tags", "Tags that describe the piece.", tags),
            ],
        ),
        (
            "audio_chunk",
            "MusicAudioChunk",
            vec![
                stream(),
                field_of("num_streams", "Number of streams.", index()),
                rate(),
                channels(),
                field::<String>("encoding", "Encoding of the file; `ogg_opus` from the built-in engine."),
                field::<String>("data", "Next bytes of the file in base64."),
            ],
        ),
        (
            "generated_audio",
            "MusicGeneratedAudio",
            vec![
                rate(),
                channels(),
                field_of("duration_sec_by_stream", "Duration of each stream in seconds.", array(&seconds())),
                field_of("billing_rate_per_sec", "Nominal price of a second in credits.", seconds()),
                field_of("billing", "Rate multiplied by seconds. Nothing is charged.", seconds()),
            ],
        ),
        ("complete", "MusicComplete", vec![field::<TaskId>("task_id", "Id of the finished task.")]),
        (
            "error",
            "MusicError",
            vec![
                field::<String>("code", "Stable error code, for programs."),
                field::<String>("message", "Description of the error, for people."),
            ],
        ),
    ]
}

/// Components of the lines; `type` determines the fields.
fn events() -> Vec<(&'static str, Value)> {
    let (mut components, mut choices, mut mapping) = (Vec::new(), Vec::new(), Map::new());
    for (kind, component, fields) in kinds() {
        let kind_of = field_of("type", "Type of the line.", json!({"type": "string", "const": kind}));
        components.push((component, view(fields.into_iter().chain([kind_of]).map(Field::required))));
        choices.push(named(component));
        mapping.insert(kind.to_owned(), named(component)["$ref"].clone());
    }
    let event = json!({
        "description": "One line of the response.",
        "oneOf": choices,
        "discriminator": {"propertyName": "type", "mapping": mapping},
    });
    components.push(("MusicEvent", event));
    components
}
