//! Operations and schemas of the state and the history of the service.

use serde_json::{Value, json};

use super::audit::position_schema;
use super::operation::{Operation, operation};
use super::parameter::query_parameter;
use super::schema::{array, field, field_with_schema, nullable, one_of, response_object};
use crate::actors::poller::breaker::CircuitState;
use crate::domain::value::Timestamp;
use crate::http::api::state::{STORAGE_STATES, VERIFICATION_STATES};
use crate::telemetry::history::HISTORY_MINUTES;

pub(super) fn state_operation() -> Operation {
    let progress = |position: u64, lag: u64| json!({"position": position, "lag": lag});
    let example = json!({
        "log": {"head": 20_177, "signed": 20_177},
        "verification": {"state": "sound", "position": 20_102, "until": 20_102, "since": "2026-02-01T09:00:04.000000Z"},
        "read_models": progress(20_177, 0),
        "index": progress(20_140, 37),
        "queues": {"appends": 0, "tasks": 2, "deliveries": 1},
        "storage": {"state": "ok", "free_bytes": 81_604_378_624_u64, "reserve_bytes": 67_108_864},
        "vendors": [{"name": "remote-image", "profile": "mediary", "medium": "image", "circuit": "closed", "slots": {"used": 3, "total": 8}, "tasks": 3}],
        "start": {"at": "2026-02-01T09:00:00.000000Z", "mended": []},
    });
    operation("getServiceState", "Get the state of the service")
        .description(
            "Returns positions of the log and read models, log verification, queue lengths, storage, the circuit \
             breakers of vendors and the repairs of the last start.",
        )
        .ok_response("The state of the service.", "ServiceState", &example)
}

pub(super) fn schema() -> Value {
    let progress = || {
        response_object([
            field_with_schema("position", "Position of the last processed event.", position_schema()).required(),
            field::<u64>("lag", "Number of events not yet processed.").required(),
        ])
    };

    let queues = response_object([
        field::<u64>("appends", "Number of changes waiting to be written.").required(),
        field::<u64>("tasks", "Number of unfinished media tasks.").required(),
        field::<u64>("deliveries", "Number of pending webhook deliveries.").required(),
    ]);

    let storage = response_object([
        field_with_schema(
            "state",
            "Storage state, which determines whether changes are accepted.",
            one_of(STORAGE_STATES),
        )
        .required(),
        field::<String>("reason", "Reason why no changes are accepted, if so."),
        field::<u64>("free_bytes", "Free bytes on the fullest file system of the data directory, when last checked."),
        field::<u64>("reserve_bytes", "Reserve in bytes; changes are rejected while less is free.").required(),
    ]);

    let start = response_object([
        field::<Timestamp>("at", "Start time of the service.").required(),
        field_with_schema(
            "mended",
            "Problems that the start found and repaired, one sentence each.",
            array(&json!({"type": "string"})),
        )
        .required(),
    ]);

    let vendor = response_object([
        field::<String>("name", "Name of the vendor.").required(),
        field::<String>("profile", "Name of its profile; `builtin` for the built-in engine.").required(),
        field_with_schema("medium", "Medium that it generates.", one_of(["image", "video", "music"])).required(),
        field_with_schema(
            "circuit",
            "State of the circuit breaker. `closed`: the vendor is called. `open`: calls are paused after repeated \
             failures, and tasks wait. `half_open`: one trial call. `held`: calls are paused until the time that the \
             vendor has requested.",
            one_of(CircuitState::NAMES),
        )
        .required(),
        field_with_schema(
            "slots",
            "Slots of the vendor: tasks that it has at a time.",
            response_object([
                field::<u64>("used", "Slots in use.").required(),
                field_with_schema(
                    "total",
                    "All slots; `null` for any number.",
                    json!({"type": ["integer", "null"], "minimum": 1}),
                )
                .required(),
            ]),
        )
        .required(),
        field::<u64>("tasks", "Unfinished tasks that the vendor has, or may have.").required(),
    ]);

    response_object([
        field_with_schema(
            "log",
            "Positions of the log.",
            response_object([
                field_with_schema("head", "Position of the last event.", position_schema()).required(),
                field_with_schema(
                    "signed",
                    "Position up to which the journal is signed (HEAD), slightly behind `head`.",
                    position_schema(),
                )
                .required(),
            ]),
        )
        .required(),
        field_with_schema("verification", "Verification of the log by the running service.", verification_schema())
            .required(),
        field_with_schema("read_models", "Read models, which serve lists and reads.", progress()).required(),
        field_with_schema("index", "Index of the log, which follows the journal.", progress()).required(),
        field_with_schema("queues", "Queue lengths.", queues).required(),
        field_with_schema("storage", "Disk storage.", storage).required(),
        field_with_schema("vendors", "Media vendors.", array(&vendor)).required(),
        field_with_schema(
            "cluster",
            "The cluster as this node sees it; absent if the service runs alone.",
            cluster_schema(),
        ),
        field_with_schema("start", "The last start.", start).required(),
    ])
}

fn cluster_schema() -> Value {
    let node = response_object([
        field::<String>("session", "Id of the node's run.").required(),
        field::<String>("url", "Base URL of the node.").required(),
        field::<String>("release", "Release that it runs.").required(),
        field::<Timestamp>("started_at", "Start of the run.").required(),
        field_with_schema("position", "Position of the last event that it had applied.", position_schema()).required(),
        field::<u64>("sequence", "Last group of the engine that it had applied.").required(),
        field::<bool>("present", "`false` if it has not been heard for 3 seconds.").required(),
        field::<bool>("owner", "`true` if it works on tasks and webhooks.").required(),
        field::<u64>("silence_ms", "Milliseconds since it was heard.").required(),
        field_with_schema(
            "clock_offset_ms",
            "Milliseconds by which its clock was ahead of that of this node.",
            json!({"type": "integer"}),
        )
        .required(),
    ]);
    response_object([
        field::<String>("session", "Id of this node's run.").required(),
        field::<u64>(
            "generation",
            "Number of the stream in the engine: 1, or more after `mediary cluster rebuild-engine`.",
        )
        .required(),
        field::<u64>("sequence", "Last group of that stream that this node has applied.").required(),
        field::<u64>("engine_silence_ms", "Milliseconds since the engine responded.").required(),
        field_with_schema("nodes", "Nodes heard in the last 10 minutes, the longest running first.", array(&node))
            .required(),
    ])
}

pub(super) fn history_operation() -> Operation {
    let example = json!({
        "from": "2026-02-01T09:29:00.000000Z",
        "step": 60,
        "columns": [
            {"name": "tasks_submitted", "unit": "tasks", "values": [4, null, 0]},
            {"name": "request_duration_p95", "unit": "seconds", "values": [0.0048, null, 0.0023]},
            {"name": "queue", "label": "deliveries", "unit": "webhooks", "values": [0, null, 2]},
        ],
        "circuits": [{"vendor": "remote-image", "values": ["closed", null, "open"]}],
    });
    let minutes = json!({"type": "integer", "minimum": 1, "maximum": HISTORY_MINUTES, "default": HISTORY_MINUTES});
    operation("getServiceHistory", "Get the history of the service")
        .description(
            "Returns the main metrics of the last minutes, one value a minute, up to the last full minute. A count is \
             that of the minute; a duration is a percentile (`p50`, `p95`) over the minute, and `null` if nothing \
             happened in it; everything else is the value at the end of the minute. Minutes in which the service did \
             not run are `null` in every column. The history survives restarts.",
        )
        .query([query_parameter("minutes", "Number of minutes.", &minutes)])
        .ok_response("The history.", "ServiceHistory", &example)
}

pub(super) fn history_schema() -> Value {
    let column = response_object([
        field::<String>("name", "Name of the quantity.").required(),
        field::<String>("label", "Error code, queue or vendor, if several columns have this name."),
        field::<String>("unit", "Unit of the values.").required(),
        field_with_schema("values", "A value for each minute.", array(&json!({"type": ["number", "null"]}))).required(),
    ]);
    let circuit = response_object([
        field::<String>("vendor", "Name of the vendor.").required(),
        field_with_schema(
            "values",
            "State of its circuit breaker at the end of each minute, as in the state of the service.",
            array(&nullable(one_of(CircuitState::NAMES))),
        )
        .required(),
    ]);
    response_object([
        field::<Timestamp>("from", "Time of the first value, at the end of its minute.").required(),
        field::<u64>("step", "Seconds between two values.").required(),
        field_with_schema("columns", "Quantities.", array(&column)).required(),
        field_with_schema("circuits", "Circuit breakers of the vendors.", array(&circuit)).required(),
    ])
}

/// Returns the schema of the log verification of a running service.
fn verification_schema() -> Value {
    response_object([
        field_with_schema(
            "state",
            "State of the verification. `sound`: everything up to `until` was read and is unchanged. `checking`: \
             verification is running after a start from a snapshot; events between `position` and `until` are not \
             verified yet. `damaged`: see `reason`. `unverified`: this start created the log, and nothing has been \
             read back yet.",
            one_of(VERIFICATION_STATES),
        )
        .required(),
        field_with_schema(
            "position",
            "Position up to which every journal record was read and verified (checksum, hash chain, format); 0 if \
             nothing is verified yet, as in a log that this start created. `sound` also means that the index matches \
             the journal.",
            position_schema(),
        )
        .required(),
        field_with_schema(
            "until",
            "Position of the last event at the start, where verification ends. Later events are verified by the next \
             start, by `mediary audit verify` and by each backup.",
            position_schema(),
        )
        .required(),
        field::<Timestamp>("since", "Time of the last change of `state`; for `sound`, the end of the verification.")
            .required(),
        field::<String>("reason", "Description and location of the damage, and what to do."),
    ])
}
