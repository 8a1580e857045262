//! Described: how far everything is.

use serde_json::{Value, json};

use super::audit::position;
use super::operation::{Operation, get};
use super::schema::{Moment, array, field, field_of, one_of, view};
use crate::actors::poller::breaker::Circuit;
use crate::http::state::{STORAGE_STATES, VERIFICATION_STATES};

pub(super) fn operation() -> Operation {
    let reach = |position: u64, lag: u64| json!({"position": position, "lag": lag});
    let example = json!({
        "log": {"head": 20_177, "signed": 20_177},
        "verification": {"state": "sound", "position": 20_102, "until": 20_102, "since": "2026-02-01T09:00:04.000000Z"},
        "read_models": reach(20_177, 0),
        "index": reach(20_140, 37),
        "queues": {"appends": 0, "tasks": 2, "deliveries": 1},
        "storage": {"state": "ok", "free_bytes": 81_604_378_624_u64, "reserve_bytes": 67_108_864},
        "vendors": [{"name": "remote-image", "circuit": "closed"}],
        "start": {"at": "2026-02-01T09:00:00.000000Z", "mended": []},
    });
    get("/admin/state", "getServiceState", "How far everything is")
        .about("The log, what was verified of it, what follows it, what waits, whether changes are taken, whether the vendors are called, and what the last start mended.")
        .shows("The state of the service.", "ServiceState", &example)
}

pub(super) fn schema() -> Value {
    let reach = || {
        view([
            field_of("position", "The last event that it has taken in.", position()).required(),
            field::<u64>("lag", "How many events are still to come.").required(),
        ])
    };
    let queues = view([
        field::<u64>("appends", "Changes that wait to be made durable.").required(),
        field::<u64>("tasks", "Media tasks that have not ended.").required(),
        field::<u64>("deliveries", "Callbacks that are still to be made.").required(),
    ]);
    let storage = view([
        field_of("state", "Whether changes are taken.", one_of(STORAGE_STATES)).required(),
        field::<String>("reason", "Why no change is taken, if none is."),
        field::<u64>("free_bytes", "On the fullest file system of the data directory, as far as it was looked at."),
        field::<u64>("reserve_bytes", "Changes are refused while less is free.").required(),
    ]);
    let start = view([
        field::<Moment>("at", "When the service started.").required(),
        field_of("mended", "What the start found and mended, a sentence each.", array(&json!({"type": "string"})))
            .required(),
    ]);
    let vendor = view([
        field::<String>("name", "Which vendor.").required(),
        field_of(
            "circuit",
            "Whether the vendor is called: `closed`, yes; `open`, not for a while, because it kept failing, and tasks wait; \
             `half_open`, once, to see whether it is back; `held`, not before the time that the vendor has asked for.",
            one_of(Circuit::NAMES),
        )
        .required(),
    ]);
    view([
        field_of(
            "log",
            "How far the log is written.",
            view([
                field_of("head", "The position of the last event.", position()).required(),
                field_of(
                    "signed",
                    "Up to where the end of the journal is signed (HEAD); a moment behind `head`.",
                    position(),
                )
                .required(),
            ]),
        )
        .required(),
        field_of(
            "verification",
            "What the running service has verified of its log, and what came of it.",
            verification(),
        )
        .required(),
        field_of("read_models", "What lists and reads are answered from.", reach()).required(),
        field_of("index", "The index of the log, which follows the journal.", reach()).required(),
        field_of("queues", "What waits.", queues).required(),
        field_of("storage", "The disk.", storage).required(),
        field_of("vendors", "Who makes media.", array(&vendor)).required(),
        field_of("start", "The last start.", start).required(),
    ])
}

/// What a running service knows of the soundness of its log.
fn verification() -> Value {
    view([
        field_of(
            "state",
            "`sound`: everything up to `until` was read and is as it was written. `checking`: that is under way, after a start from a \
             snapshot, and what lies between `position` and `until` is not verified yet. `damaged`: see `reason`. \
             `unverified`: this start began the log, and nothing of it was read back yet.",
            one_of(VERIFICATION_STATES),
        )
        .required(),
        field_of(
            "position",
            "Up to here every record of the journal was read and found sound (checksum, place in the hash chain, form); 0: nothing is \
             verified yet, as in a log that this start began. `sound` says besides that the index holds what the journal holds.",
            position(),
        )
        .required(),
        field_of(
            "until",
            "The last event at the start, where the verification ends. What came later was written by this run, and is read back by the \
             next start, by `mediary audit verify` and by each backup.",
            position(),
        )
        .required(),
        field::<Moment>("since", "Since when `state` is what it is: for `sound`, when the verification ended.").required(),
        field::<String>("reason", "What is damaged and where, and what to do."),
    ])
}
