//! Encoding of commits: a schema version (u16, little endian), then the stored shape in one fixed bincode
//! configuration. Only this file uses bincode.

use bincode::config::{self, Config};
use mediary_journal::PayloadTooLarge;

use super::envelope::{Append, Commit, RecordedEvent};
use super::log::{COMMIT_BYTES_MAX, EVENT_BYTES_MAX};
use super::schema::{self, CommitDecodeError, mapping, v1, v2};
use super::stream::Position;

const VERSION_BYTES: usize = size_of::<u16>();
/// Position byte of a commit that has no position yet.
const UNPLACED: u8 = 0;
/// Most bytes that a position adds to an unplaced commit.
const POSITION_BYTES_MAX: usize = size_of::<u64>();
/// Maximum size of a commit without its position.
pub const UNPLACED_BYTES_MAX: usize = COMMIT_BYTES_MAX - POSITION_BYTES_MAX;

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

/// Appends the bytes of a commit without its position, so that they do not depend on where the commit will be. The
/// position can be added with [`place`].
///
/// # Errors
/// See [`encode`]. The limit of a commit is lower by the size of a position.
pub fn encode_unplaced(append: Append, out: &mut Vec<u8>) -> Result<(), PayloadTooLarge> {
    let start = out.len();
    // The commit gets position 1, which takes one byte and is then overwritten with `UNPLACED`.
    encode(&append.into_commit(Position(0)), out)?;
    if let Some(position) = out.get_mut(start + VERSION_BYTES) {
        *position = UNPLACED;
    }

    match out.len() - start {
        bytes if bytes > UNPLACED_BYTES_MAX => Err(PayloadTooLarge { bytes: bytes + POSITION_BYTES_MAX }),
        _ => Ok(()),
    }
}

/// Returns the bytes of a commit whose first event has this position, from those of [`encode_unplaced`].
///
/// # Errors
/// If the commit is too large, too short, or has a position already.
pub fn place(unplaced: &[u8], first: Position) -> Result<Vec<u8>, CommitDecodeError> {
    if unplaced.len() > UNPLACED_BYTES_MAX {
        let bytes = unplaced.len();
        let reason = format!("the commit has {bytes} bytes, at most {UNPLACED_BYTES_MAX} are allowed");
        return Err(CommitDecodeError::Malformed(reason));
    }
    let (version, stored) = unplaced.split_first_chunk::<VERSION_BYTES>().ok_or(CommitDecodeError::Short)?;
    let (position, stored) = stored.split_first().ok_or(CommitDecodeError::Short)?;
    if *position != UNPLACED {
        return Err(CommitDecodeError::Malformed("the commit has a position already".to_owned()));
    }

    let mut placed = Vec::with_capacity(unplaced.len() + POSITION_BYTES_MAX);
    placed.extend_from_slice(version);
    write(first.0, &mut placed);
    placed.extend_from_slice(stored);
    Ok(placed)
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
    use crate::events::envelope::{CommandContext, NewEvent};
    use crate::events::stream::{StreamId, Version};

    fn commit(events: usize, reason_bytes: usize) -> Commit {
        append(events, reason_bytes).into_commit(Position(9))
    }

    fn append(events: usize, reason_bytes: usize) -> Append {
        let reason = Text::from_recorded("x".repeat(reason_bytes));
        let event = |number| NewEvent {
            id: EventId(Uuid::from_u128(number)),
            event: TaskEvent::OutcomeUnknown { reason: reason.clone() }.into(),
        };

        let context = CommandContext::from_system(None, Timestamp::from_micros(7));

        Append {
            stream: StreamId::from(&TaskId(Uuid::nil())),
            expected: Version(4),
            context,
            events: (0..events as u128).map(event).collect(),
            guards: Vec::new(),
        }
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
    fn a_placed_commit_has_the_bytes_of_one_encoded_there() {
        let append = append(3, 10);
        let mut unplaced = Vec::new();
        encode_unplaced(append.clone(), &mut unplaced).unwrap();
        for head in [0, 1, 249, 250, 251, 0xfffe, 0xffff, 0x1_0000, 0xffff_ffff, 1 << 40] {
            let commit = append.clone().into_commit(Position(head));
            assert_eq!(place(&unplaced, Position(head + 1)), Ok(encoded(&commit)), "{head}");
        }

        assert!(place(&encoded(&append.into_commit(Position(9))), Position(1)).is_err());
        assert_eq!(place(&unplaced[..2], Position(1)), Err(CommitDecodeError::Short));
    }

    #[test]
    fn an_unplaced_commit_leaves_space_for_its_position() {
        // From 65,536 bytes on, the length of a text always takes five bytes, so each further byte adds exactly one.
        const LONG_REASON: usize = 65_800;

        let encode_with_last_reason = |reason_bytes| {
            let mut append = append(COMMIT_BYTES_MAX / EVENT_BYTES_MAX + 1, EVENT_BYTES_MAX - 100);
            let reason = Text::from_recorded("x".repeat(reason_bytes));
            append.events.last_mut().unwrap().event = TaskEvent::OutcomeUnknown { reason }.into();
            let mut unplaced = Vec::new();
            encode_unplaced(append, &mut unplaced).map(|()| unplaced)
        };
        let spare = UNPLACED_BYTES_MAX - encode_with_last_reason(LONG_REASON).unwrap().len();
        let largest = encode_with_last_reason(LONG_REASON + spare).unwrap();
        assert_eq!(largest.len(), UNPLACED_BYTES_MAX);
        assert_eq!(place(&largest, Position(u64::MAX)).unwrap().len(), COMMIT_BYTES_MAX);
        assert!(encode_with_last_reason(LONG_REASON + spare + 1).is_err());
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
    fn a_corrupt_length_is_an_error_instead_of_an_allocation() {
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
