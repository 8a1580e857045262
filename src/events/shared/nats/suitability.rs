//! Requirements of servers and streams. A stream that may lose groups is refused.

use std::fmt::Debug;

use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Info, PersistenceMode, RetentionPolicy, State, StorageType,
};

use super::NatsOptions;
use super::connection::NatsConnection;
use crate::events::shared::engine::EngineOpenError;

/// Least size of messages that servers and stream must accept: a group with the largest commit, and room to spare.
const MESSAGE_BYTES_MIN: usize = 2 * 1024 * 1024;

/// Remedy for settings that cannot be changed.
const REMAKE: &str = "delete the stream and let Mediary make it";

/// Checks the server of the connection.
pub fn check_server(connection: &NatsConnection) -> Result<(), EngineOpenError> {
    let info = connection.client.server_info();
    let problem = if !info.jetstream {
        "JetStream is off; it must be on: add `jetstream { … }` to the configuration of every server".to_owned()
    } else if info.max_payload < MESSAGE_BYTES_MIN {
        format!(
            "max_payload is {} bytes; it must be {MESSAGE_BYTES_MIN} or more: set `max_payload: 2MB` on every server",
            info.max_payload
        )
    } else {
        return Ok(());
    };
    Err(EngineOpenError::Unsuitable(format!("NATS server {}: {problem}", info.server_name)))
}

/// Checks the settings and the content of the stream.
pub fn check_stream(info: &Info, subject: &str, options: &NatsOptions) -> Result<(), EngineOpenError> {
    let mut problems = setting_problems(&info.config, subject, options.replicas);
    problems.extend(content_problem(&info.state));
    if problems.is_empty() {
        return Ok(());
    }
    let name = &info.config.name;
    Err(EngineOpenError::Unsuitable(format!("stream {name} is not suitable for a log: {}", problems.join("; "))))
}

fn setting_problems(config: &Config, subject: &str, replicas: usize) -> Vec<String> {
    let mut problems = Vec::new();
    let mut require = |setting: &str, value: &dyn Debug, is_met: bool, required: &str, remedy: &str| {
        if !is_met {
            problems.push(format!("{setting} is {value:?}; it must be {required}: {remedy}"));
        }
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
    problems
}

/// Checks that the stream has all messages that it ever had.
fn content_problem(state: &State) -> Option<String> {
    let State { messages, first_sequence, last_sequence, .. } = *state;
    let is_whole = if last_sequence == 0 { messages == 0 } else { first_sequence == 1 && messages == last_sequence };
    (!is_whole).then(|| {
        format!(
            "it has {messages} messages from {first_sequence} to {last_sequence}; it must have every message from 1 on: \
             groups are lost, so make a new stream from the longest log of the nodes"
        )
    })
}
