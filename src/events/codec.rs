//! Encoding of commits: a schema version (u16, little endian), then the stored shape in one fixed bincode
//! configuration. Only this file uses bincode.

use bincode::config::{self, Config};
use mediary_journal::PayloadTooLarge;

use super::envelope::{Commit, RecordedEvent};
use super::log::{COMMIT_BYTES_MAX, EVENT_BYTES_MAX};
use super::schema::{self, CommitDecodeError, mapping, v1, v2};

const VERSION_BYTES: usize = size_of::<u16>();

/// Little endian, varint. The limit is essential: without it a corrupt length makes the decoder allocate that much,
/// which aborts the process.
fn configuration() -> impl Config {
    config::standard().with_limit::<{ 2 * COMMIT_BYTES_MAX }>()
}

/// Appends the bytes of a commit to `out`. On an error `out` keeps what was written, and the caller must truncate it.
///
/// # Errors
/// If an event exceeds [`EVENT_BYTES_MAX`], or the commit exceeds [`COMMIT_BYTES_MAX`].
pub fn encode(events: &[RecordedEvent], out: &mut Vec<u8>) -> Result<(), PayloadTooLarge> {
    let start = out.len();
    out.extend_from_slice(&schema::VERSION.to_le_bytes());
    if let Some(commit) = mapping::store_commit(events) {
        write(commit, out);
    }

    let bytes = out.len() - start;
    if bytes <= EVENT_BYTES_MAX {
        return Ok(());
    }

    let largest = events.iter().map(event_bytes).max().unwrap_or(0);
    if largest > EVENT_BYTES_MAX {
        Err(PayloadTooLarge { bytes: largest })
    } else if bytes > COMMIT_BYTES_MAX {
        Err(PayloadTooLarge { bytes })
    } else {
        Ok(())
    }
}

fn event_bytes(event: &RecordedEvent) -> usize {
    let mut scratch = Vec::new();
    write(mapping::store_event(event), &mut scratch);
    scratch.len()
}

fn write(value: impl serde::Serialize, out: &mut Vec<u8>) {
    bincode::serde::encode_into_std_write(value, out, configuration())
        .expect("structs of known length always encode into memory");
}

/// Decodes a commit of any schema version.
///
/// # Errors
/// If the bytes are not exactly one commit.
pub fn decode(payload: &[u8]) -> Result<Commit, CommitDecodeError> {
    let (version, stored) = payload.split_first_chunk::<VERSION_BYTES>().ok_or(CommitDecodeError::Short)?;
    match u16::from_le_bytes(*version) {
        schema::VERSION => mapping::restore_commit(read::<v2::CommitV2<'static>>(stored)?),
        // Older shapes are decoded by their own file and upcast here.
        1 => mapping::restore_commit(read::<v1::CommitV1<'static>>(stored)?.into()),
        other => Err(CommitDecodeError::UnknownVersion(other)),
    }
}

fn read<C: serde::de::DeserializeOwned>(stored: &[u8]) -> Result<C, CommitDecodeError> {
    let (commit, used) = bincode::serde::decode_from_slice(stored, configuration())
        .map_err(|error| CommitDecodeError::Malformed(error.to_string()))?;
    match stored.len() - used {
        0 => Ok(commit),
        trailing => Err(CommitDecodeError::Trailing(trailing)),
    }
}

/// Cached values may be larger than records. Their checksum has been verified before.
fn cache_configuration() -> impl Config {
    config::standard().with_limit::<{ 1 << 30 }>()
}

/// Appends a cached value. Only the release that wrote the bytes can read them.
///
/// # Panics
/// Never, because encoding into memory does not fail.
pub fn pack(value: &impl serde::Serialize, out: &mut Vec<u8>) {
    bincode::serde::encode_into_std_write(value, out, cache_configuration())
        .expect("values of known length always encode into memory");
}

/// Decodes a cached value from the front of `bytes`.
///
/// # Errors
/// If the bytes do not begin with such a value.
pub fn unpack<T: serde::de::DeserializeOwned>(bytes: &mut &[u8]) -> Result<T, CommitDecodeError> {
    let (value, used) = bincode::serde::decode_from_slice(bytes, cache_configuration())
        .map_err(|error| CommitDecodeError::Malformed(error.to_string()))?;
    *bytes = &bytes[used..];
    Ok(value)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::ids::{EventId, TaskId};
    use crate::domain::task::TaskEvent;
    use crate::domain::value::{Text, Timestamp};
    use crate::events::envelope::{Append, CommandContext, NewEvent};
    use crate::events::stream::{Position, StreamId, Version};

    fn commit(events: usize, reason_bytes: usize) -> Commit {
        let reason = Text::from_recorded("x".repeat(reason_bytes));
        let event = |number| NewEvent {
            id: EventId(Uuid::from_u128(number)),
            event: TaskEvent::OutcomeUnknown { reason: reason.clone() }.into(),
        };

        let context = CommandContext::from_system(None, Timestamp::from_micros(7));

        let append = Append {
            stream: StreamId::from(&TaskId(Uuid::nil())),
            expected: Version(4),
            context,
            events: (0..events as u128).map(event).collect(),
        };
        append.into_commit(Position(9))
    }

    fn encoded(commit: &Commit) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(commit, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn commits_round_trip() {
        for commit in [commit(1, 0), commit(3, 100), commit(COMMIT_BYTES_MAX / EVENT_BYTES_MAX, EVENT_BYTES_MAX - 100)]
        {
            assert_eq!(decode(&encoded(&commit)), Ok(commit));
        }
    }

    #[test]
    fn large_events_and_large_commits_are_refused() {
        let encoded_size = |commit: Commit| encode(&commit, &mut Vec::new()).unwrap_err().bytes;
        assert!(encoded_size(commit(1, EVENT_BYTES_MAX)) > EVENT_BYTES_MAX);
        assert!(encoded_size(commit(40, EVENT_BYTES_MAX / 2)) > COMMIT_BYTES_MAX);
    }

    #[test]
    fn anything_but_one_commit_is_an_error() {
        let bytes = encoded(&commit(2, 10));
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "cut to {length} bytes");
        }
        assert_eq!(decode(&[&bytes[..], &[0]].concat()), Err(CommitDecodeError::Trailing(1)));
        assert_eq!(decode(&[&[9, 0], &bytes[2..]].concat()), Err(CommitDecodeError::UnknownVersion(9)));
    }

    #[test]
    fn a_corrupt_length_is_an_error_and_no_allocation() {
        for version in 1..=2 {
            let payload = [&[version, 0, 1, 253][..], &[0xff; 8]].concat();
            assert!(matches!(decode(&payload), Err(CommitDecodeError::Malformed(_))));
        }
    }

    #[test]
    fn a_commit_without_events_is_an_error() {
        let mut bytes = schema::VERSION.to_le_bytes().to_vec();
        let stream = "task/x".into();
        let events = Vec::new();
        let request = None;
        let causation = None;
        let actor = v1::ActorV1::System;
        write(
            v2::CommitV2 { position: 1, stream, version: 1, at_micros: 0, actor, request, causation, events },
            &mut bytes,
        );
        assert_eq!(decode(&bytes), Err(CommitDecodeError::Empty));
    }
}
