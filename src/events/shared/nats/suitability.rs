//! Requirements of servers and streams. A stream that may lose groups is refused.

use std::fmt::Debug;

use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Info, PersistenceMode, RetentionPolicy, State, StorageType,
};

use super::NatsOptions;
use super::connection::NatsConnection;
use crate::events::shared::engine::EngineOpenError;
use crate::events::shared::engine_check::{CheckStatus, EngineCheck, refuse_failed};

/// Message size in bytes that servers and stream must at least accept: a group with the largest commit, and room to
/// spare.
const MESSAGE_BYTES_MIN: usize = 2 * 1024 * 1024;

/// Remedy for settings that cannot be changed.
const REMAKE: &str = "delete the stream and let Mediary make it";

/// Refuses the server of the connection if it does not meet the requirements.
pub fn check_server(connection: &NatsConnection) -> Result<(), EngineOpenError> {
    let checks = server_checks(connection);
    refuse_failed(&checks[0].subject, &checks)
}

/// Checks the server of the connection.
pub fn server_checks(connection: &NatsConnection) -> [EngineCheck; 2] {
    let info = connection.client.server_info();
    let server = format!("NATS server {}", info.server_name);

    let jetstream = if info.jetstream {
        EngineCheck::met(&server, "JetStream is on")
    } else {
        let problem = "JetStream is off; it must be on: add `jetstream { … }` to the configuration of every server";
        EngineCheck::failed(&server, problem)
    };
    let max_payload = format!("max_payload is {} bytes", info.max_payload);
    let max_payload = if info.max_payload >= MESSAGE_BYTES_MIN {
        EngineCheck::met(&server, max_payload)
    } else {
        let remedy = format!("it must be {MESSAGE_BYTES_MIN} or more: set `max_payload: 2MB` on every server");
        EngineCheck::failed(&server, format!("{max_payload}; {remedy}"))
    };
    [jetstream, max_payload]
}

/// Refuses a stream whose settings or content do not meet the requirements.
pub fn check_stream(info: &Info, subject: &str, options: &NatsOptions) -> Result<(), EngineOpenError> {
    let name = &info.config.name;
    let introduction = format!("stream {name} is not suitable for a log");
    refuse_failed(&introduction, &setting_checks(&info.config, subject, options.replicas))?;
    let content = content_check(name, &info.state);
    if content.status == CheckStatus::Failed {
        return Err(EngineOpenError::Damaged(format!("{introduction}: {}", content.finding)));
    }
    Ok(())
}

/// Checks the settings and the content of the stream.
pub fn stream_checks(info: &Info, subject: &str, options: &NatsOptions) -> Vec<EngineCheck> {
    let mut checks = setting_checks(&info.config, subject, options.replicas);
    checks.push(content_check(&info.config.name, &info.state));
    checks
}

fn setting_checks(config: &Config, subject: &str, replicas: usize) -> Vec<EngineCheck> {
    let stream = format!("stream {}", config.name);
    let mut checks = Vec::new();
    let mut require = |setting: &str, value: &dyn Debug, is_met: bool, required: &str, remedy: &str| {
        checks.push(if is_met {
            EngineCheck::met(&stream, format!("{setting} is {value:?}"))
        } else {
            EngineCheck::failed(&stream, format!("{setting} is {value:?}; it must be {required}: {remedy}"))
        });
    };

    let edit = |option: &str| format!("nats stream edit {} {option}", config.name);
    let replicas_required = format!("{replicas} or more");
    let replicas_remedy = edit(&format!("--replicas={replicas}"));
    require(
        "subjects",
        &config.subjects,
        config.subjects == [subject],
        subject,
        &edit(&format!("--subjects={subject}")),
    );
    require(
        "num_replicas",
        &config.num_replicas,
        config.num_replicas >= replicas,
        &replicas_required,
        &replicas_remedy,
    );
    require("discard", &config.discard, config.discard == DiscardPolicy::New, "New", &edit("--discard=new"));
    require("storage", &config.storage, config.storage == StorageType::File, "File", REMAKE);
    require("retention", &config.retention, config.retention == RetentionPolicy::Limits, "Limits", REMAKE);

    let size_limit = config.max_message_size;
    let is_size_met = size_limit <= 0 || usize::try_from(size_limit).is_ok_and(|limit| limit >= MESSAGE_BYTES_MIN);
    let size_required = format!("none, or {MESSAGE_BYTES_MIN} or more");
    require("max_msg_size", &size_limit, is_size_met, &size_required, &edit("--max-msg-size=-1"));
    require("max_age", &config.max_age, config.max_age.is_zero(), "none", &edit("--max-age=-1"));
    for (setting, limit, option) in [
        ("max_bytes", config.max_bytes, "--max-bytes=-1"),
        ("max_msgs", config.max_messages, "--max-msgs=-1"),
        ("max_msgs_per_subject", config.max_messages_per_subject, "--max-msgs-per-subject=-1"),
    ] {
        require(setting, &limit, limit <= 0, "none", &edit(option));
    }

    for (setting, value, required) in [
        ("deny_delete", config.deny_delete, true),
        ("deny_purge", config.deny_purge, true),
        ("allow_rollup_hdrs", config.allow_rollup, false),
        ("allow_msg_ttl", config.allow_message_ttl, false),
        ("allow_msg_counter", config.allow_message_counter, false),
        ("allow_msg_schedules", config.allow_message_schedules, false),
        ("no_ack", config.no_ack, false),
        ("sealed", config.sealed, false),
        ("subject_transform", config.subject_transform.is_some(), false),
        ("persist_mode async", config.persist_mode == Some(PersistenceMode::Async), false),
        ("mirror", config.mirror.is_some(), false),
        ("sources", config.sources.as_ref().is_some_and(|sources| !sources.is_empty()), false),
    ] {
        require(setting, &value, value == required, if required { "true" } else { "false" }, REMAKE);
    }
    checks
}

/// Checks that the stream has all messages that it ever had.
fn content_check(name: &str, state: &State) -> EngineCheck {
    let State { messages, first_sequence, last_sequence, .. } = *state;
    let is_whole = if last_sequence == 0 { messages == 0 } else { first_sequence == 1 && messages == last_sequence };
    let found = format!("it has {messages} messages from {first_sequence} to {last_sequence}");
    if is_whole {
        return EngineCheck::met(format!("stream {name}"), found);
    }
    let remedy = "it must have every message from 1 on: groups are lost, see `mediary cluster rebuild-engine`";
    EngineCheck::failed(format!("stream {name}"), format!("{found}; {remedy}"))
}
