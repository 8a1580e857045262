//! Requirements of servers and streams. A stream that may lose groups is refused.

use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Info, PersistenceMode, RetentionPolicy, State, StorageType,
};

use super::connection::NatsConnection;
use super::{NatsOpenError, NatsOptions};

/// Least size of messages that servers and stream must accept: a group with the largest commit, and room to spare.
const MESSAGE_BYTES_MIN: usize = 2 * 1024 * 1024;

/// Checks the server of the connection.
pub fn check_server(connection: &NatsConnection) -> Result<(), NatsOpenError> {
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
    Err(NatsOpenError::Unsuitable(format!("NATS server {}: {problem}", info.server_name)))
}

/// Checks the settings and the content of the stream.
pub fn check_stream(info: &Info, subject: &str, options: &NatsOptions) -> Result<(), NatsOpenError> {
    let Info { config, state, .. } = info;
    let name = &config.name;
    let mut problems = setting_problems(config, subject, options.replicas);
    if info.mirror.is_some() || config.mirror.is_some() || config.sources.as_ref().is_some_and(|all| !all.is_empty()) {
        problems.push(format!("it copies another stream; it must have no mirror and no sources: {REMAKE}"));
    }
    problems.extend(content_problem(state));
    if problems.is_empty() {
        return Ok(());
    }
    Err(NatsOpenError::Unsuitable(format!("stream {name} is not suitable for a log: {}", problems.join("; "))))
}

/// Remedy for settings that cannot be changed.
const REMAKE: &str = "delete the stream and let Mediary make it";

/// A setting, its value, the required one, and the remedy.
type StreamRequirement = (&'static str, String, bool, String, String);

fn setting_problems(config: &Config, subject: &str, replicas: usize) -> Vec<String> {
    let name = &config.name;
    let edit = |option: &str| format!("nats stream edit {name} {option}");
    let remake = || REMAKE.to_owned();
    let no_limit = |limit: i64| limit <= 0;
    let is_large = |limit: i32| limit <= 0 || usize::try_from(limit).is_ok_and(|limit| limit >= MESSAGE_BYTES_MIN);
    let none = || "none".to_owned();

    let requirements: Vec<StreamRequirement> = vec![
        (
            "subjects",
            config.subjects.join(", "),
            config.subjects == [subject],
            subject.to_owned(),
            edit(&format!("--subjects {subject}")),
        ),
        (
            "num_replicas",
            config.num_replicas.to_string(),
            config.num_replicas >= replicas,
            format!("{replicas} or more"),
            edit(&format!("--replicas {replicas}")),
        ),
        ("storage", format!("{:?}", config.storage), config.storage == StorageType::File, "File".to_owned(), remake()),
        (
            "retention",
            format!("{:?}", config.retention),
            config.retention == RetentionPolicy::Limits,
            "Limits".to_owned(),
            remake(),
        ),
        (
            "discard",
            format!("{:?}", config.discard),
            config.discard == DiscardPolicy::New,
            "New".to_owned(),
            edit("--discard new"),
        ),
        ("max_age", format!("{:?}", config.max_age), config.max_age.is_zero(), none(), edit("--max-age -1")),
        ("max_bytes", config.max_bytes.to_string(), no_limit(config.max_bytes), none(), edit("--max-bytes -1")),
        ("max_msgs", config.max_messages.to_string(), no_limit(config.max_messages), none(), edit("--max-msgs -1")),
        (
            "max_msgs_per_subject",
            config.max_messages_per_subject.to_string(),
            no_limit(config.max_messages_per_subject),
            none(),
            edit("--max-msgs-per-subject -1"),
        ),
        (
            "max_msg_size",
            config.max_message_size.to_string(),
            is_large(config.max_message_size),
            format!("none, or {MESSAGE_BYTES_MIN} or more"),
            edit("--max-msg-size -1"),
        ),
        boolean("deny_delete", config.deny_delete, true),
        boolean("deny_purge", config.deny_purge, true),
        boolean("allow_rollup_hdrs", config.allow_rollup, false),
        boolean("allow_msg_ttl", config.allow_message_ttl, false),
        boolean("allow_msg_counter", config.allow_message_counter, false),
        boolean("allow_msg_schedules", config.allow_message_schedules, false),
        boolean("no_ack", config.no_ack, false),
        boolean("sealed", config.sealed, false),
        boolean("subject_transform", config.subject_transform.is_some(), false),
        boolean("persist_mode async", config.persist_mode == Some(PersistenceMode::Async), false),
    ];
    let unmet = requirements.into_iter().filter(|(_, _, is_met, ..)| !is_met);
    unmet
        .map(|(setting, value, _, required, remedy)| format!("{setting} is {value}; it must be {required}: {remedy}"))
        .collect()
}

fn boolean(setting: &'static str, value: bool, required: bool) -> StreamRequirement {
    (setting, value.to_string(), value == required, required.to_string(), REMAKE.to_owned())
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
