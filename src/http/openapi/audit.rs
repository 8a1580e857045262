//! Described: the questions of an auditor.

use serde_json::{Value, json};

use super::Group;
use super::operation::{Operation, get};
use super::parameter::{Parameter, in_query, last_event_id, many_in_query, needed_in_query, or_empty};
use super::schema::{Field, Moment, array, field, field_of, named, one_of, view};
use super::{state, stream};
use crate::audit::diff::{Change, EVENTS_MAX};
use crate::audit::page::{LIMIT_DEFAULT, LIMIT_MAX, LOOKED_MAX};
use crate::domain::event;
use crate::domain::ids::StreamKind;
use crate::http::audit::POSITION_MAX;
use crate::http::error::Code;

const UUID: &str = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";

pub fn group() -> Group {
    Group {
        tag: "Audit",
        about: "Who changed what, when and why: every change is an event, events are never changed, and states are folded from them. \
                For administrators.",
        operations: vec![events(), follow(), history(), as_of(), diff(), state::operation()],
        components: components(),
    }
}

fn components() -> Vec<(&'static str, Value)> {
    let next = |about: &str| field_of("next", about, position());
    let thing = || field::<String>("thing", "Its kind and id.").required();
    let state = json!({"type": "object"});
    let entry = view([
        field_of("event", "What happened.", named("Event")).required(),
        field_of(
            "changes",
            "In what is shown of the thing; empty when nothing that is shown changed.",
            array(&named("Difference")),
        )
        .required(),
    ]);
    vec![
        ("Event", event_schema()),
        (
            "EventPage",
            view([
                field_of("events", "Oldest first.", array(&named("Event"))).required(),
                next("What to give as `after` to go on; absent when everything that was asked for has been looked at."),
                head(),
            ]),
        ),
        (
            "Difference",
            view([
                field::<String>(
                    "path",
                    "A JSON pointer; entries of lists of things are named by their `version` or `id`. Empty: the thing as a whole.",
                )
                .required(),
                field_of("before", "What was there; absent when nothing was.", json!({})),
                field_of("after", "What is there; absent when nothing is.", json!({})),
            ]),
        ),
        (
            "History",
            view([
                thing(),
                field_of("entries", "Oldest first.", array(&entry)).required(),
                next("What to give as `after` to go on; absent when there is no more."),
                head(),
            ]),
        ),
        (
            "AsOf",
            view([
                thing(),
                field_of("position", "The position after which it was so.", position()).required(),
                field::<Moment>("at", "When the event at that position was recorded; absent for position 0."),
                field::<bool>("exists", "Whether it was there: made already, and not deleted.").required(),
                field_of("state", "As it would have been shown; of a node with all its versions, of a token with its subject.", state),
            ]),
        ),
        (
            "Diff",
            view([
                field_of("from", "The earlier position.", position()).required(),
                field_of("to", "The later position.", position()).required(),
                field_of("things", "By name.", array(&changed_thing())).required(),
                field::<String>("next", "What to give as `after` to go on; absent when there is no more."),
            ]),
        ),
        ("ServiceState", state::schema()),
    ]
}

/// What became of one thing between two positions.
fn changed_thing() -> Value {
    view([
        field::<String>("thing", "Its kind and id.").required(),
        field_of("change", "`unchanged`: it had events, and looks as it did before.", one_of(Change::NAMES)).required(),
        field::<u64>("events", "Events of its own in between.").required(),
        field_of("changes", "In what is shown of it.", array(&named("Difference"))).required(),
    ])
}

fn event_schema() -> Value {
    let uuid = || json!({"type": "string", "format": "uuid"});
    view([
        field_of("position", "In the whole log: from 1, without gaps.", json!({"type": "integer", "minimum": 1}))
            .required(),
        field::<String>("stream", "The thing to which it happened: its kind and id.").required(),
        field::<u64>("version", "How many events the thing has with this one.").required(),
        field_of("id", "The event; what it caused names it as `causation`.", uuid()).required(),
        field_of("type", "What happened.", one_of(event::names())).required(),
        field::<Moment>("at", "When the command was given.").required(),
        field::<String>(
            "actor",
            "Who: `user/<uuid>`, `token/<uuid>`, `system`, or `anonymous`, which is somebody without a token.",
        )
        .required(),
        field::<String>("request", "The request that carried the command; none for what the service did by itself."),
        field_of("causation", "The event to which it is the answer.", uuid()),
        field::<u64>("schema", "The version of the form of `data`.").required(),
        field_of("data", "What is recorded of it.", json!({"type": "object"})).required(),
    ])
}

pub(super) fn position() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": POSITION_MAX})
}

fn head() -> Field {
    field_of("head", "The position of the last event of the log.", position()).required()
}

fn limit() -> Parameter {
    let about =
        format!("How many entries a page has; more than {LIMIT_MAX} is taken for {LIMIT_MAX}. A page may have fewer.");
    in_query("limit", &about, &json!({"type": "integer", "minimum": 1, "default": LIMIT_DEFAULT}))
}

/// A position, a time or a date.
fn moment() -> Value {
    json!({"anyOf": [
        {"type": "string", "pattern": "^[0-9]{1,15}$"},
        {"type": "string", "format": "date-time"},
        {"type": "string", "format": "date"},
    ]})
}

fn stream_name() -> Value {
    let kinds: Vec<_> = StreamKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let forms = [
        &format!("^({})/$", kinds.join("|")),
        &format!("^(user|token|task|delivery)/{UUID}$"),
        "^publisher/[a-z][a-z0-9-]{0,62}$",
        "^node/[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?$",
    ];
    json!({"type": "string", "pattern": forms.join("|")})
}

fn of_stream() -> Parameter {
    in_query(
        "stream",
        "Of this thing, such as `publisher/acme`, or of all of a kind: `publisher/`.",
        &or_empty(&stream_name()),
    )
}

fn filters() -> Vec<Parameter> {
    let actor = json!({"type": "string", "pattern": format!("^(system|anonymous|((user|token)/)?{UUID})$")});
    let request = json!({"type": "string", "pattern": "^[!-~]{1,128}$"});
    let types = one_of(event::names());
    vec![
        of_stream(),
        many_in_query("type", "Of these types.", &or_empty(&types)),
        in_query(
            "actor",
            "Caused by this user or token, by `system`, or by `anonymous`: somebody without a token.",
            &or_empty(&actor),
        ),
        in_query("request", "Caused by the request of this id.", &or_empty(&request)),
        in_query(
            "from",
            "From this position, time or (from the start of) day on, itself included.",
            &or_empty(&moment()),
        ),
        in_query("to", "Up to this position, time or (end of) day, itself included.", &or_empty(&moment())),
    ]
}

fn after() -> Parameter {
    in_query("after", "Events after this position.", &position())
}

fn events() -> Operation {
    let page = json!({"events": [event_example()], "next": 1042, "head": 20_177});
    get("/admin/events", "listEvents", "List events")
        .about(format!(
            "What was recorded, oldest first. A page looks at {LOOKED_MAX} events at most, unless the filter names one thing, whose \
             own events are looked up: so a page may have few events, or none, and `next` all the same. Times of events may be a few \
             seconds out of order: they are of the moment when a command was given."
        ))
        .query(filters().into_iter().chain([after(), limit()]))
        .shows("A page of events.", "EventPage", &page)
}

fn follow() -> Operation {
    let example = format!("retry: 2000\n: the events after position 1041\n\nid: 1042\ndata: {}\n\n", event_example());
    let last = last_event_id(
        "The last position that the reader has seen, as browsers send it when they come back; it goes before `after`.",
    );
    get("/admin/events/stream", "streamEvents", "Follow events")
        .about(
            "Server-sent events, opened by `retry: 2000`: come back after two seconds when the connection is lost. Each event comes as it is recorded, `id` is its position, `data` its JSON on one line. Without `after` and \
             `Last-Event-ID` it begins at `from`, and without that with what happens next. Nothing is left out and nothing sent twice, also over lost \
             connections, if the reader comes back with the last `id` that it got. After 15 s of silence a comment is sent, \
             with the position up to which everything was looked at as its `id`. The stream ends once `to` is reached, when the reader \
             is no administrator any more, and when the service stops. When it cannot go on, \
             its last event is `failed`, whose `data` is a problem, as failures are: come back then.",
        )
        .query(filters().into_iter().chain([after(), last]))
        .answers_content(200, "The events.", "text/event-stream", &stream::content("EventStreamEvent", &example))
        .fails(Code::TooManyStreams, "the account has as many streams open as one account may")
        .fails(Code::Overloaded, "too many streams are open")
}

fn history() -> Operation {
    let entry = json!({
        "event": event_example(),
        "changes": [{"path": "/description", "before": "Finds faces.", "after": "Finds and swaps faces."}],
    });
    let history = json!({"thing": "node/face-tools", "entries": [entry], "head": 20_177});
    get("/admin/history/{kind}/{id}", "getHistory", "The history of one thing")
        .about("Its events, oldest first, each with what it changed in what is shown of the thing.")
        .query([after(), limit()])
        .shows("Some of its events.", "History", &history)
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
    get("/admin/as-of/{kind}/{id}", "getAsOf", "One thing as it was")
        .about("As an administrator would have been shown it right after the event at a position, or at a time: one of the two is needed.")
        .query([
            in_query("position", "Right after this event; 0 is before the first.", &position()),
            in_query("time", "At this time, or at the end of this day (UTC).", &or_empty(&time)),
        ])
        .shows("The thing as it was.", "AsOf", &example)
}

fn diff() -> Operation {
    let changed = json!({
        "thing": "node/face-tools",
        "change": "changed",
        "events": 1,
        "changes": [{"path": "/description", "before": "Finds faces.", "after": "Finds and swaps faces."}],
    });
    let needed = |name, about, example: u64| needed_in_query(name, about, &moment(), &json!(example.to_string()));
    get("/admin/diff", "getDiff", "What changed between two moments")
        .about(format!(
            "The things that had events after `from` up to `to`, each with the difference between what was shown of it at both. What a \
             thing shows of others (a node the name of its publisher) can change without an event of its own: then the other is \
             listed. At most {EVENTS_MAX} events may lie in between."
        ))
        .query([
            needed("from", "A position, a time, or a day (its end).", 0),
            needed("to", "A position, a time, or a day (its end); not before `from`.", 1),
            of_stream(),
            in_query("after", "Things after this one.", &or_empty(&stream_name())),
            limit(),
        ])
        .shows("What changed.", "Diff", &json!({"from": 1041, "to": 1042, "things": [changed]}))
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
