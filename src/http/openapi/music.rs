//! The music gateway.

use serde_json::{Map, Value, json};

use super::OperationGroup;
use super::image::TASK_ID_EXAMPLE;
use super::operation::{Operation, operation};
use super::schema::{SchemaField, array, component_ref, field, field_with_schema, fields_first, response_object};
use crate::domain::ids::TaskId;
use crate::http::api::music::{NDJSON, form};
use crate::http::response::error::Code;

const ABOUT: &str = "Music generation from a text prompt. The response is a stream of JSON values, one per line, sent \
                     while the music is made.";

pub fn group() -> OperationGroup {
    OperationGroup {
        tag: "Music",
        description: ABOUT,
        operations: vec![generate()],
        components: event_components().into_iter().chain([("MusicForm", form_schema())]).collect(),
    }
}

fn generate() -> Operation {
    operation("generateMusic", "Generate music")
        .description(
            "Generates music from a prompt and streams it as JSON lines: `duration`, `title`, any number of \
             `audio_chunk`, `generated_audio`, `complete`.\n\n- The `data` of all chunks, decoded and concatenated, \
             is one Ogg/Opus file with exactly the announced duration.\n- An error after the start of the response is \
             a last line `error`. A blank line is sent after 10 s of silence.\n- The same prompt and duration give \
             the same music.\n- The stream is a task (`X-Task-Id`) that can be listed, read and cancelled. Its \
             history shows how it ended, even if the client disconnected, and `generated` has the URLs of the \
             files of a complete stream.\n- Unknown parts of the form are ignored; \
             an empty `duration` counts as absent.\n- With `?estimate=true`, the response is only the price, as \
             `application/json` with the schema `Estimate`: `{credits, breakdown}`.\n\nRepeating the form with the \
             same `Idempotency-Key` refers to the same task. Music of the built-in engine is generated again in full, \
             also after a disconnect or a restart of the service; a task that failed for another reason repeats its \
             `error` line. The response is 409 while the first stream is still being sent, and if a vendor made the \
             music, because it would make other music now.",
        )
        .form_body("MusicForm", &json!({"prompt": "calm solo piano, a waltz in A minor", "duration": 30}))
        .content_response(
            200,
            "The music as JSON lines.",
            NDJSON,
            &json!({"schema": stream_schema(), "example": example_lines()}),
        )
        .with_header(200, "X-Task-Id")
        .error(Code::ApprovalRequired, "the service requires approved accounts")
        .error(Code::MalformedBody, "the body is not a form")
        .error(Code::IdempotencyKeyInUse, "the first stream with this key is still being sent")
        .error(Code::Conflict, "the music of this key was made by a vendor and cannot be generated again")
        .error(Code::TooManySubmissions, "the caller has reached the limit of unfinished tasks")
        .error(Code::TooManyStreams, "the account has reached its limit of concurrent music streams")
        .error(Code::BudgetExceeded, "the task costs more than is left of a budget")
        .error(Code::QuotaExceeded, "the caller has reached the daily limit of tasks")
        .error(Code::Overloaded, "all music streams (`music.streams`) are in use, or calls to the vendor are paused")
}

/// Returns the schema of the whole stream.
fn stream_schema() -> Value {
    json!({"type": "string", "contentMediaType": NDJSON, "contentSchema": component_ref("MusicEvent")})
}

/// Returns an example of a response, with shortened audio data.
fn example_lines() -> String {
    let lines = [
        json!({"type": "duration", "duration_sec": 30.0}),
        json!({"type": "title", "stream_index": 0, "prompt_index": 0, "copy_index": 0, "title": "The Quiet Garden",
            "display_tags": ["classical", "calm", "96 bpm", "A minor", "3/4", "piano"]}),
        json!({"type": "audio_chunk", "stream_index": 0, "num_streams": 1, "sample_rate": 48_000, "channels": 2,
            "encoding": "ogg_opus", "data": "T2dnUwACAAAAAAAAAAA="}),
        json!({"type": "generated_audio", "sample_rate": 48_000, "channels": 2, "duration_sec_by_stream": [30.0],
            "billing_rate_per_sec": 0, "billing": 0.0}),
        json!({"type": "complete", "task_id": TASK_ID_EXAMPLE}),
    ];
    lines.map(|line| line.to_string() + "\n").concat()
}

fn form_schema() -> Value {
    response_object(form::describe_fields())
}

/// Type of the lines of a music stream.
struct MusicLine {
    /// Value of the field `type`.
    kind: &'static str,
    /// Name of the component with the schema.
    component: &'static str,
    /// All fields except `type`.
    fields: Vec<SchemaField>,
}

fn line_types() -> [MusicLine; 6] {
    let index = || json!({"type": "integer", "minimum": 0});
    let seconds = || json!({"type": "number", "minimum": 0});
    let stream = || {
        field_with_schema("stream_index", "Index of the stream, from 0; the built-in engine makes one stream.", index())
    };
    let rate = || field_with_schema("sample_rate", "Samples per second.", index());
    let channels = || field_with_schema("channels", "Number of channels.", index());
    let tags = array(&json!({"type": "string"}));
    [
        MusicLine {
            kind: "duration",
            component: "MusicDuration",
            fields: vec![field_with_schema("duration_sec", "Duration of the music in seconds.", seconds())],
        },
        MusicLine {
            kind: "title",
            component: "MusicTitle",
            fields: vec![
                stream(),
                field_with_schema("prompt_index", "Index of the prompt, from 0.", index()),
                field_with_schema("copy_index", "Index of the piece for this prompt, from 0.", index()),
                field::<String>("title", "Title of the piece."),
                field_with_schema("display_tags", "Tags that describe the piece.", tags),
            ],
        },
        MusicLine {
            kind: "audio_chunk",
            component: "MusicAudioChunk",
            fields: vec![
                stream(),
                field_with_schema("num_streams", "Number of streams.", index()),
                rate(),
                channels(),
                field::<String>("encoding", "Encoding of the file; `ogg_opus` from the built-in engine."),
                field::<String>("data", "Next bytes of the file in base64."),
            ],
        },
        MusicLine {
            kind: "generated_audio",
            component: "MusicGeneratedAudio",
            fields: vec![
                rate(),
                channels(),
                field_with_schema("duration_sec_by_stream", "Duration of each stream in seconds.", array(&seconds())),
                field_with_schema("billing_rate_per_sec", "Nominal price of a second in credits.", seconds()),
                field_with_schema("billing", "Rate multiplied by seconds. Nothing is charged.", seconds()),
            ],
        },
        MusicLine {
            kind: "complete",
            component: "MusicComplete",
            fields: vec![field::<TaskId>("task_id", "Id of the finished task.")],
        },
        MusicLine {
            kind: "error",
            component: "MusicError",
            fields: vec![
                field::<String>("code", "Stable error code, for programs."),
                field::<String>("message", "Description of the error, for people."),
            ],
        },
    ]
}

/// Returns the components of the lines, and of a line of any type.
fn event_components() -> Vec<(&'static str, Value)> {
    let mut components = Vec::new();
    let mut choices = Vec::new();
    let mut mapping = Map::new();
    for MusicLine { kind, component, fields } in line_types() {
        let type_field = field_with_schema("type", "Type of the line.", json!({"type": "string", "const": kind}));
        let mut schema = response_object(fields.into_iter().chain([type_field]).map(SchemaField::required));
        let first: &[_] = if kind == "title" { &["type", "title", "display_tags"] } else { &["type"] };
        fields_first(&mut schema, first);
        components.push((component, schema));
        choices.push(component_ref(component));
        mapping.insert(kind.to_owned(), component_ref(component)["$ref"].clone());
    }
    let event = json!({
        "description": "One line of the response.",
        "oneOf": choices,
        "discriminator": {"propertyName": "type", "mapping": mapping},
    });
    components.push(("MusicEvent", event));
    components
}
