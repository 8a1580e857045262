//! Audit log: events, history, state at a point in time, and differences.

use serde_json::{Value, json};

use super::OperationGroup;
use super::operation::{Operation, operation};
use super::parameter::{
    ParameterObject, allow_empty, last_event_id, query_parameter, repeatable_query_parameter, required_query_parameter,
};
use super::schema::{SchemaField, array, component_ref, field, field_with_schema, one_of, response_object};
use super::{event_stream, state};
use crate::audit::diff::{EVENTS_MAX, SubjectChangeKind};
use crate::audit::page::{LIMIT_DEFAULT, LIMIT_MAX, SCANNED_MAX};
use crate::domain::event;
use crate::domain::ids::StreamKind;
use crate::domain::value::Timestamp;
use crate::http::api::audit::POSITION_MAX;
use crate::http::response::error::Code;

const UUID: &str = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";

pub fn group() -> OperationGroup {
    OperationGroup {
        tag: "Audit",
        description: "Audit log: who changed what, when and why. Every change is an immutable event, and states are \
                computed from events. For administrators.",
        operations: vec![
            events(),
            follow(),
            history(),
            as_of(),
            diff(),
            state::state_operation(),
            state::history_operation(),
        ],
        components: components(),
    }
}

fn components() -> Vec<(&'static str, Value)> {
    let next = |about: &str| field_with_schema("next", about, position_schema());
    let thing = || field::<String>("thing", "Kind and id of the resource.").required();
    let state = json!({"type": "object"});
    let entry = response_object([
        field_with_schema("event", "The event.", component_ref("Event")).required(),
        field_with_schema(
            "changes",
            "Changes to the representation of the resource; empty if nothing visible changed.",
            array(&component_ref("Difference")),
        )
        .required(),
    ]);
    vec![
        ("Event", event_schema()),
        (
            "EventPage",
            response_object([
                field_with_schema("events", "Oldest first.", array(&component_ref("Event"))).required(),
                next("Value of `after` for the next page; absent when the whole range has been searched."),
                head_field(),
            ]),
        ),
        (
            "Difference",
            response_object([
                field::<String>(
                    "path",
                    "JSON pointer; list entries are named by their `version` or `id`. Empty for the whole resource.",
                )
                .required(),
                field_with_schema("before", "Value before the change; absent if there was none.", json!({})),
                field_with_schema("after", "Value after the change; absent if there is none.", json!({})),
            ]),
        ),
        (
            "History",
            response_object([
                thing(),
                field_with_schema("entries", "Oldest first.", array(&entry)).required(),
                next("Value of `after` for the next page; absent on the last page."),
                head_field(),
            ]),
        ),
        (
            "AsOf",
            response_object([
                thing(),
                field_with_schema("position", "Position in the log.", position_schema()).required(),
                field::<Timestamp>("at", "Time of the event at that position; absent for position 0."),
                field::<bool>("exists", "`true` if the resource existed: created and not deleted.").required(),
                field_with_schema(
                    "state",
                    "Representation of the resource: of a node with all its versions, of a token with its subject.",
                    state,
                ),
            ]),
        ),
        (
            "Diff",
            response_object([
                field_with_schema("from", "Earlier position.", position_schema()).required(),
                field_with_schema("to", "Later position.", position_schema()).required(),
                field_with_schema("things", "Changed resources, by name.", array(&changed_resource_schema()))
                    .required(),
                field::<String>("next", "Value of `after` for the next page; absent on the last page."),
            ]),
        ),
        ("ServiceState", state::schema()),
        ("ServiceHistory", state::history_schema()),
    ]
}

/// Returns the schema of the change of one resource between two positions.
fn changed_resource_schema() -> Value {
    response_object([
        field::<String>("thing", "Kind and id of the resource.").required(),
        field_with_schema(
            "change",
            "Kind of change. `unchanged`: the resource has events but looks the same.",
            one_of(SubjectChangeKind::NAMES),
        )
        .required(),
        field::<u64>("events", "Number of events of the resource in between.").required(),
        field_with_schema(
            "changes",
            "Changes to the representation of the resource.",
            array(&component_ref("Difference")),
        )
        .required(),
    ])
}

fn event_schema() -> Value {
    let uuid = || json!({"type": "string", "format": "uuid"});
    response_object([
        field_with_schema(
            "position",
            "Position in the log, from 1 without gaps.",
            json!({"type": "integer", "minimum": 1}),
        )
        .required(),
        field::<String>("stream", "Kind and id of the resource.").required(),
        field::<u64>("version", "Number of events of the resource up to and including this one.").required(),
        field_with_schema("id", "Id of the event; events that it caused have it as `causation`.", uuid()).required(),
        field_with_schema("type", "Type of the event.", one_of(event::names())).required(),
        field::<Timestamp>("at", "Time of the command.").required(),
        field::<String>(
            "actor",
            "Actor: `user/<uuid>`, `token/<uuid>`, `system`, or `anonymous` for a caller without a token.",
        )
        .required(),
        field::<String>("request", "Id of the request; absent for actions of the service itself."),
        field_with_schema("causation", "Id of the event that caused this one.", uuid()),
        field::<u64>("schema", "Version of the schema of `data`.").required(),
        field_with_schema("data", "Recorded data.", json!({"type": "object"})).required(),
    ])
}

pub(super) fn position_schema() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": POSITION_MAX})
}

fn head_field() -> SchemaField {
    field_with_schema("head", "Position of the last event of the log.", position_schema()).required()
}

fn limit_parameter() -> ParameterObject {
    let about =
        format!("Page size; values above {LIMIT_MAX} are reduced to {LIMIT_MAX}. A page may have fewer entries.");
    query_parameter("limit", &about, &json!({"type": "integer", "minimum": 1, "default": LIMIT_DEFAULT}))
}

/// Returns the schema of a position, a time or a date.
fn point_in_time_schema() -> Value {
    json!({"anyOf": [
        {"type": "string", "pattern": "^[0-9]{1,15}$"},
        {"type": "string", "format": "date-time"},
        {"type": "string", "format": "date"},
    ]})
}

fn stream_name_schema() -> Value {
    let kinds: Vec<_> = StreamKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let forms = [
        &format!("^({})/$", kinds.join("|")),
        &format!("^(user|token|task|delivery)/{UUID}$"),
        "^publisher/[a-z][a-z0-9-]{0,62}$",
        "^node/[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?$",
    ];
    json!({"type": "string", "pattern": forms.join("|")})
}

fn stream_parameter() -> ParameterObject {
    query_parameter(
        "stream",
        "Resource, such as `publisher/acme`, or all resources of a kind: `publisher/`.",
        &allow_empty(&stream_name_schema()),
    )
}

fn filter_parameters() -> Vec<ParameterObject> {
    let actor = json!({"type": "string", "pattern": format!("^(system|anonymous|((user|token)/)?{UUID})$")});
    let request = json!({"type": "string", "pattern": "^[!-~]{1,128}$"});
    let types = one_of(event::names());
    vec![
        stream_parameter(),
        repeatable_query_parameter("type", "Only events of these types.", &allow_empty(&types)),
        query_parameter(
            "actor",
            "Only events caused by this user or token, by `system`, or by `anonymous` (callers without a token).",
            &allow_empty(&actor),
        ),
        query_parameter("request", "Only events caused by the request with this id.", &allow_empty(&request)),
        query_parameter(
            "from",
            "Start, inclusive: a position, a time, or a day (from its start).",
            &allow_empty(&point_in_time_schema()),
        ),
        query_parameter(
            "to",
            "End, inclusive: a position, a time, or a day (to its end).",
            &allow_empty(&point_in_time_schema()),
        ),
    ]
}

fn after_parameter() -> ParameterObject {
    query_parameter("after", "Only events after this position.", &position_schema())
}

fn events() -> Operation {
    let page = json!({"events": [event_example()], "next": 1042, "head": 20_177});
    operation("listEvents", "List events")
        .description(format!(
            "Returns events, oldest first. A page searches at most {SCANNED_MAX} events unless `stream` names one \
             resource, so it can have few events or none and still have a `next`. Event times are those of the \
             commands and can be a few seconds out of order."
        ))
        .query(filter_parameters().into_iter().chain([after_parameter(), limit_parameter()]))
        .ok_response("A page of events.", "EventPage", &page)
}

fn follow() -> Operation {
    let example = format!("retry: 2000\n: the events after position 1041\n\nid: 1042\ndata: {}\n\n", event_example());
    let last = last_event_id(
        "Last position received; browsers send it when they reconnect. It takes precedence over `after`.",
    );
    operation("streamEvents", "Follow events")
        .description(
            "Streams events as they are recorded, as server-sent events: `id` is the position of the event, `data` \
             its JSON on one line.\n\n- Without `after` and `Last-Event-ID`, the stream starts at `from`, and without \
             that with the next event.\n- Reconnect with the last `id`: no event is skipped or repeated. `retry: \
             2000` at the start sets a reconnection delay of two seconds.\n- After 15 s of silence, a comment is \
             sent, with the position up to which everything was searched as its `id`.\n- `failed` is the last event \
             of a stream that cannot continue; its `data` is an error object. Reconnect.\n\nThe stream ends when `to` \
             is reached, when the caller is no longer an administrator, and when the service stops.",
        )
        .query(filter_parameters().into_iter().chain([after_parameter(), last]))
        .content_response(200, "The events.", "text/event-stream", &event_stream::content("EventStreamEvent", &example))
        .error(Code::TooManyStreams, "the account has reached its limit of concurrent event streams")
        .error(Code::Overloaded, "too many streams are open")
}

fn history() -> Operation {
    let entry = json!({
        "event": event_example(),
        "changes": [{"path": "/description", "before": "Finds faces.", "after": "Finds and swaps faces."}],
    });
    let history = json!({"thing": "node/face-tools", "entries": [entry], "head": 20_177});
    operation("getHistory", "Get the history of a resource")
        .description("Returns the events of a resource, oldest first, each with the changes to its representation.")
        .query([after_parameter(), limit_parameter()])
        .ok_response("A page of the history.", "History", &history)
}

fn as_of() -> Operation {
    let publisher = json!({
        "id": "acme",
        "name": "Acme",
        "createdAt": "2026-01-31T12:00:00.000000Z",
        "members": [],
        "status": "PublisherStatusActive",
    });
    let example = json!({
        "thing": "publisher/acme",
        "position": 1042,
        "at": "2026-02-01T09:30:00.000000Z",
        "exists": true,
        "state": publisher,
    });
    let time = json!({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]});
    operation("getAsOf", "Get a resource at a point in time")
        .description(
            "Returns the resource as an administrator would have seen it directly after the event at a position, or \
             at a time. Exactly one of the two is required.",
        )
        .query([
            query_parameter(
                "position",
                "Position of the event, whose effect is included; 0 is before the first event.",
                &position_schema(),
            ),
            query_parameter("time", "Time, or day (its end, in UTC).", &allow_empty(&time)),
        ])
        .ok_response("The resource at that point.", "AsOf", &example)
}

fn diff() -> Operation {
    let changed = json!({
        "thing": "node/face-tools",
        "change": "changed",
        "events": 1,
        "changes": [{"path": "/description", "before": "Finds faces.", "after": "Finds and swaps faces."}],
    });
    let required_parameter = |name, about, example: u64| {
        required_query_parameter(name, about, &point_in_time_schema(), &json!(example.to_string()))
    };
    operation("getDiff", "Compare two points in time")
        .description(format!(
            "Returns the resources that had events after `from` up to `to`, each with the differences of its \
             representation. A resource can also change with another one, such as a node with the name of its \
             publisher; then only the other one is listed. At most {EVENTS_MAX} events may lie in between."
        ))
        .query([
            required_parameter("from", "Start: a position, a time, or a day (its end).", 0),
            required_parameter("to", "End: a position, a time, or a day (its end); not before `from`.", 1),
            stream_parameter(),
            query_parameter("after", "Only resources after this one.", &allow_empty(&stream_name_schema())),
            limit_parameter(),
        ])
        .ok_response("The differences.", "Diff", &json!({"from": 1041, "to": 1042, "things": [changed]}))
}

fn event_example() -> Value {
    json!({
        "position": 1042,
        "stream": "node/face-tools",
        "version": 3,
        "id": "0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c30",
        "type": "NodeRevised",
        "at": "2026-02-01T09:30:00.123456Z",
        "actor": "user/0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c10",
        "request": "req-77",
        "schema": crate::audit::SCHEMA,
        "data": {"change": {"description": "Finds and swaps faces."}},
    })
}
