//! Streams of server-sent events (`text/event-stream` of HTML) and the schemas of their events.

use serde_json::{Value, json};

use super::schema::{Field, field_of, named, one_of, view};

/// Event components of both streams.
pub fn components() -> Vec<(&'static str, Value)> {
    let of_task =
        [event(vec![id(), kind(&["snapshot", "change"])], "Task"), event(vec![kind(&["progress"])], "Task"), failed()];
    let of_log = [event(vec![id()], "Event"), failed()];
    vec![("TaskStreamEvent", either(&of_task)), ("EventStreamEvent", either(&of_log))]
}

/// Media type object of a stream of these events.
pub fn content(component: &str, example: &str) -> Value {
    let schema = json!({"type": "string", "contentMediaType": "text/event-stream", "contentSchema": named(component)});
    json!({"schema": schema, "example": example})
}

fn either(choices: &[Value]) -> Value {
    json!({"description": "One event of the stream, with its fields as members. Comment lines, which start with a \
                           colon, are not events.", "oneOf": choices})
}

fn event(fields: Vec<Field>, data: &str) -> Value {
    let written = json!({"type": "string", "contentMediaType": "application/json", "contentSchema": named(data)});
    let data = field_of("data", "JSON on one line.", written).required();
    view(fields.into_iter().chain([data]))
}

/// Last event of a stream that cannot continue; the client reconnects with the last `id`.
fn failed() -> Value {
    event(vec![kind(&["failed"])], "Problem")
}

fn id() -> Field {
    let about = "Position in the log; send it as `Last-Event-ID` to resume.";
    field_of("id", about, json!({"type": "string", "pattern": "^[0-9]+$"})).required()
}

fn kind(names: &[&'static str]) -> Field {
    field_of("event", "Type of the event.", one_of(names.iter().copied())).required()
}
