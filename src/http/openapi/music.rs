//! Described: the music gateway.

use serde_json::{Map, Value, json};

use super::Group;
use super::image::TASK;
use super::operation::{Operation, post};
use super::schema::{Field, array, field, field_of, named, view};
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
        components: events().into_iter().chain([("MusicForm", form())]).collect(),
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
        .fails(Code::TooManyStreams, "the account is sent as many pieces as one account may")
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

/// A line of each kind by its name: the component and its fields.
fn kinds() -> [(&'static str, &'static str, Vec<Field>); 6] {
    let index = || json!({"type": "integer", "minimum": 0});
    let seconds = || json!({"type": "number", "minimum": 0});
    let stream = || field_of("stream_index", "Which stream it is of, from 0: the engine inside makes one.", index());
    let rate = || field_of("sample_rate", "Samples a second.", index());
    let channels = || field_of("channels", "How many channels there are.", index());
    let tags = array(&json!({"type": "string"}));
    [
        ("duration", "MusicDuration", vec![field_of("duration_sec", "How long the music will be.", seconds())]),
        (
            "title",
            "MusicTitle",
            vec![
                stream(),
                field_of("prompt_index", "Which prompt it was made from, from 0.", index()),
                field_of("copy_index", "Which piece of that prompt it is, from 0.", index()),
                field::<String>("title", "What the piece is called."),
                field_of("display_tags", "What it is, in a few words each.", tags),
            ],
        ),
        (
            "audio_chunk",
            "MusicAudioChunk",
            vec![
                stream(),
                field_of("num_streams", "How many streams there are.", index()),
                rate(),
                channels(),
                field::<String>("encoding", "What the file is: `ogg_opus` from the engine inside."),
                field::<String>("data", "The next bytes of the file, in base64."),
            ],
        ),
        (
            "generated_audio",
            "MusicGeneratedAudio",
            vec![
                rate(),
                channels(),
                field_of("duration_sec_by_stream", "How long each stream is.", array(&seconds())),
                field_of("billing_rate_per_sec", "Credits that a second is said to cost.", seconds()),
                field_of("billing", "The rate times the seconds. Nothing is charged.", seconds()),
            ],
        ),
        ("complete", "MusicComplete", vec![field::<TaskId>("task_id", "The task of the stream, which is done.")]),
        (
            "error",
            "MusicError",
            vec![
                field::<String>("code", "What went wrong, for programs: stable."),
                field::<String>("message", "A sentence, for people."),
            ],
        ),
    ]
}

/// One line: which fields it has follows from its type.
fn events() -> Vec<(&'static str, Value)> {
    let (mut components, mut choices, mut mapping) = (Vec::new(), Vec::new(), Map::new());
    for (kind, component, fields) in kinds() {
        let kind_of = field_of("type", "What the line tells.", json!({"type": "string", "const": kind}));
        components.push((component, view(fields.into_iter().chain([kind_of]).map(Field::required))));
        choices.push(named(component));
        mapping.insert(kind.to_owned(), named(component)["$ref"].clone());
    }
    let event = json!({
        "description": "One line of the answer.",
        "oneOf": choices,
        "discriminator": {"propertyName": "type", "mapping": mapping},
    });
    components.push(("MusicEvent", event));
    components
}
