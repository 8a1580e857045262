//! Streams of server-sent events (`text/event-stream` of HTML) and the schemas of their events.

use serde_json::{Value, json};

use super::schema::{SchemaField, component_ref, field_with_schema, one_of, response_object};

/// Returns the components of the events of task streams and of the audit stream.
pub fn components() -> Vec<(&'static str, Value)> {
    let task_events = [
        event(vec![position_field(), event_type_field(&["snapshot", "change"])], "Task"),
        event(vec![event_type_field(&["progress"])], "Task"),
        failed_event(),
    ];
    let log_events = [event(vec![position_field()], "Event"), failed_event()];
    vec![("TaskStreamEvent", event_union(&task_events)), ("EventStreamEvent", event_union(&log_events))]
}

/// Returns the media type object of a stream whose events have the schema `component`.
pub fn content(component: &str, example: &str) -> Value {
    let schema =
        json!({"type": "string", "contentMediaType": "text/event-stream", "contentSchema": component_ref(component)});
    json!({"schema": schema, "example": example})
}

fn event_union(choices: &[Value]) -> Value {
    json!({"description": "One event of the stream, with its fields as members. Comment lines, which start with a \
                           colon, are not events.", "oneOf": choices})
}

fn event(fields: Vec<SchemaField>, data: &str) -> Value {
    let data_schema =
        json!({"type": "string", "contentMediaType": "application/json", "contentSchema": component_ref(data)});
    let data = field_with_schema("data", "JSON on one line.", data_schema).required();
    response_object(fields.into_iter().chain([data]))
}

/// Returns the last event of a stream that cannot continue; the client reconnects with the last `id`.
fn failed_event() -> Value {
    event(vec![event_type_field(&["failed"])], "Problem")
}

fn position_field() -> SchemaField {
    let about = "Position in the log; send it as `Last-Event-ID` to resume.";
    field_with_schema("id", about, json!({"type": "string", "pattern": "^[0-9]+$"})).required()
}

fn event_type_field(names: &[&'static str]) -> SchemaField {
    field_with_schema("event", "Type of the event.", one_of(names.iter().copied())).required()
}
