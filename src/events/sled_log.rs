//! Read side of the log: sled, which follows the journal. No other file of the log uses the sled crate.
//!
//! ```text
//! tree events    position of a commit's first event (u64) → the payload of the journal's record
//! tree streams   stream name, 0x00, version of a commit's first event (u64) → position (u64), number of events (u32)
//! ```
//!
//! The journal makes events durable, so sled does not have to: it has no timed flush. One thread fills it in the
//! background, with a bounded lag; events that it lacks are read from the tail in memory. `flush_async` and
//! `watch_prefix` are not used, because one deadlocks and the other blocks writers. Batches are not used either,
//! because they block every reader. Nothing here needs more than one insert to be atomic: each start compares sled with
//! the journal.

pub mod compare;
mod log;
mod open;
mod recovery;
mod scrub;
mod shared;

use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

pub use log::{SledLog, SledLogOptions};
pub use open::{OpenReport, SledRebuild, SledReport, request_sled_rebuild};
pub use recovery::{OpenProgress, OpenStep};
pub use scrub::{ScrubState, ScrubStatus};

use super::codec;
use super::envelope::{Commit, RecordedEvent};
use super::stream::{Position, StreamId, Version};
use crate::disk_space::missing_resource;

/// Time that a dropped sled may hold its lock, because its threads release it one after the other.
const LOCK_RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// A defect in sled, and a position near it.
struct SledDefect {
    position: Position,
    reason: String,
}

/// The two trees.
struct SledTrees {
    db: sled::Db,
    events: sled::Tree,
    streams: sled::Tree,
    /// The first file system error. After it sled no longer works.
    io_error: OnceLock<String>,
}

/// Reason why sled does not open.
struct SledOpenError {
    reason: String,
    /// The missing resource, if sled is not damaged.
    missing_resource: Option<&'static str>,
}

/// Page cache of sled. Small, because sled is only an index, and the page cache of the operating system holds its files.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;
const PANICKED: &str = "sled panicked";

/// Runs work on sled. A damaged sled may panic.
fn catch_panic<T>(work: impl FnOnce() -> sled::Result<T>) -> Result<T, String> {
    match panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err(PANICKED.to_owned()),
    }
}

impl SledTrees {
    /// Opens or creates the trees. A cache of 64 MiB reads as fast as the default of 1 GiB. Segments of 8 MiB keep all
    /// records out of the side files that sled creates for large ones.
    fn open(directory: &Path) -> Result<Self, SledOpenError> {
        let open = || -> sled::Result<Self> {
            let config = sled::Config::new()
                .path(directory)
                .mode(sled::Mode::HighThroughput)
                .cache_capacity(CACHE_BYTES)
                .segment_size(8 * 1024 * 1024)
                .flush_every_ms(None);

            let deadline = Instant::now() + LOCK_RELEASE_TIMEOUT;

            let db = loop {
                match config.open() {
                    // Possibly the lock of a sled that this process has just dropped. No retry if a resource is
                    // missing: it will not return so soon, and sled takes its own incomplete write for damage.
                    Err(sled::Error::Io(error)) if missing_resource(&error).is_none() && Instant::now() < deadline => {
                        thread::sleep(LOCK_RELEASE_TIMEOUT / 100);
                    }
                    result => break result?,
                }
            };

            let events = db.open_tree("events")?;
            let streams = db.open_tree("streams")?;
            Ok(Self { db, events, streams, io_error: OnceLock::new() })
        };

        match panic::catch_unwind(open) {
            Ok(Ok(trees)) => Ok(trees),
            Ok(Err(error)) => {
                let resource = if let sled::Error::Io(error) = &error { missing_resource(error) } else { None };
                Err(SledOpenError { reason: error.to_string(), missing_resource: resource })
            }
            Err(_) => Err(SledOpenError { reason: PANICKED.to_owned(), missing_resource: None }),
        }
    }

    /// Closes sled, which may panic if it is inconsistent.
    fn close(self) {
        let result = catch_panic(|| {
            drop(self);
            Ok(())
        });
        if let Err(reason) = result {
            tracing::warn!(reason, "sled close failed");
        }
    }

    /// Size on disk in bytes.
    fn bytes(&self) -> Result<u64, String> {
        self.catch_panic(|| self.db.size_on_disk())
    }

    fn flush(&self) -> Result<(), String> {
        self.catch_panic(|| self.db.flush()).map(drop)
    }

    /// Runs work that sled may reject, or panic in.
    fn catch_panic<T>(&self, work: impl FnOnce() -> sled::Result<T>) -> Result<T, String> {
        catch_panic(|| work().inspect_err(|error| self.note_error(error)))
    }

    fn note_error(&self, error: &sled::Error) {
        if let sled::Error::Io(reason) = error {
            self.io_error.get_or_init(|| reason.to_string());
        }
    }

    /// Returns `true` after a file system error. Sled must then be reopened.
    fn has_failed(&self) -> bool {
        self.io_error.get().is_some()
    }

    /// Inserts commits with their payloads. An event is never present without its entry in `streams`; `between` is
    /// called when all entries are inserted and no event is.
    fn insert(&self, records: &[(&Commit, &[u8])], after_streams: impl FnOnce()) -> Result<(), String> {
        let mut entries: Vec<_> = records.iter().map(|(commit, _)| stream_entry(commit)).collect();
        entries.sort_unstable();
        self.catch_panic(|| {
            for (key, value) in entries {
                self.streams.insert(key, &value)?;
            }
            after_streams();
            for (commit, payload) in records {
                self.events.insert(commit[0].position.0.to_be_bytes(), *payload)?;
            }
            Ok(())
        })
    }

    /// The payload of the last commit.
    fn last_payload(&self) -> Result<Option<Vec<u8>>, String> {
        Ok(self.catch_panic(|| self.events.last())?.map(|(_, payload)| payload.to_vec()))
    }

    /// The payload of the commit that begins at a position, if readable.
    fn payload_at(&self, position: Position) -> Option<Vec<u8>> {
        let payload = self.catch_panic(|| self.events.get(position.0.to_be_bytes()));
        payload.ok().flatten().map(|payload| payload.to_vec())
    }

    /// Calls `each` with the keys and values of both trees, up to the commit at `last`.
    fn for_each_entry(&self, last: Position, mut visit: impl FnMut(&[u8], &[u8])) -> Result<(), String> {
        self.catch_panic(|| {
            for entry in self.events.range(..=last.0.to_be_bytes()) {
                let (key, value) = entry?;
                visit(&key, &value);
            }

            for entry in &self.streams {
                let (key, value) = entry?;
                if u64_at(&value, 0).is_some_and(|position| position <= last.0) {
                    visit(&key, &value);
                }
            }
            Ok(())
        })
    }

    /// The key of the last commit.
    fn last_key(&self) -> Result<Option<Vec<u8>>, String> {
        Ok(catch_panic(|| self.events.last())?.map(|(key, _)| key.to_vec()))
    }

    /// The payload at a key.
    fn event_value(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        Ok(catch_panic(|| self.events.get(key))?.map(|value| value.to_vec()))
    }

    /// The index entry at a key.
    fn stream_value(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        Ok(catch_panic(|| self.streams.get(key))?.map(|value| value.to_vec()))
    }

    /// The keys and values of a tree, in order.
    fn entries(tree: &sled::Tree) -> impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), String>> + use<> {
        let mut entries = tree.iter();
        std::iter::from_fn(move || {
            let entry = catch_panic(|| entries.next().transpose()).transpose()?;
            Some(entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
        })
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, SledDefect> {
        let last = self.catch_panic(|| self.streams.scan_prefix(stream_key(stream, None)).next_back().transpose());
        match last.map_err(SledDefect::unreadable)? {
            None => Ok(Version(0)),
            Some((key, value)) => {
                let (version, _, events) = parse_stream_entry(&key, &value)?;
                Ok(Version(version.0 + events - 1))
            }
        }
    }

    /// Appends to `events` those of a stream after version `after`, before `below` if given. Only events before
    /// position `end` count, because the entry of a later commit in `streams` may be inserted before its record.
    fn read_stream(
        &self,
        stream: &StreamId,
        after: Version,
        (end_version, end_position): (Option<Version>, Position),
        events: &mut Vec<RecordedEvent>,
    ) -> Result<(), SledDefect> {
        let key = |version: u64| stream_key(stream, Some(Version(version)));
        let lowest = key(0);
        let requested_key = key(after.0 + 1);
        let first_key = self.catch_panic(|| self.streams.range(lowest..=requested_key.clone()).next_back().transpose());
        let first_key = first_key.map_err(SledDefect::unreadable)?.map_or(requested_key, |(key, _)| key.to_vec());

        let end_key = key(end_version.map_or(u64::MAX, |version| version.0));
        let mut entries = self.streams.range(first_key..end_key);
        while let Some((key, value)) =
            self.catch_panic(|| entries.next().transpose()).map_err(SledDefect::unreadable)?
        {
            let (version, position, _) = parse_stream_entry(&key, &value)?;
            if position >= end_position {
                break;
            }

            let event_key = position.0.to_be_bytes();
            let payload = self.catch_panic(|| self.events.get(event_key)).map_err(SledDefect::unreadable)?;
            let commit = read_commit(&event_key, &payload.ok_or(SledDefect::missing_record(position))?)?;
            if commit[0].stream != *stream || commit[0].version != version {
                return Err(SledDefect {
                    position,
                    reason: format!("the record is not version {version} of {stream}"),
                });
            }
            events.extend(commit.iter().filter(|event| event.version > after).cloned());
        }

        let last_version = events.last().map_or(after, |event| event.version);
        if end_version.is_some_and(|end_version| last_version.0 + 1 < end_version.0) {
            return Err(SledDefect::unreadable(format!(
                "version {} of stream {stream} is missing",
                last_version.0 + 1
            )));
        }
        Ok(())
    }

    /// Appends to `events` all events after position `after` up to `last`.
    fn read_all(&self, after: Position, last: Position, events: &mut Vec<RecordedEvent>) -> Result<(), SledDefect> {
        let requested_key = (after.0 + 1).to_be_bytes();
        let first_key = self
            .catch_panic(|| self.events.range(..=requested_key).next_back().transpose())
            .map_err(SledDefect::unreadable)?;
        let first_key = first_key.map_or(requested_key.to_vec(), |(key, _)| key.to_vec());
        let mut records = self.events.range(first_key..=last.0.to_be_bytes().to_vec());

        let mut next_position = after.0 + 1;
        while next_position <= last.0 {
            let missing_record = SledDefect::missing_record(Position(next_position));
            let record = self.catch_panic(|| records.next().transpose()).map_err(SledDefect::unreadable)?;
            let (key, payload) = record.ok_or(missing_record)?;
            let commit = read_commit(&key, &payload)?;

            for event in commit.iter().filter(|event| event.position > after && event.position <= last) {
                if event.position.0 != next_position {
                    return Err(SledDefect::missing_record(Position(next_position)));
                }
                events.push(event.clone());
                next_position += 1;
            }
        }
        Ok(())
    }
}

impl SledDefect {
    fn missing_record(position: Position) -> Self {
        Self { position, reason: "the record is missing".to_owned() }
    }

    fn unreadable(reason: String) -> Self {
        Self { position: Position(0), reason }
    }
}

fn read_commit(key: &[u8], payload: &[u8]) -> Result<Commit, SledDefect> {
    let position = Position(u64_at(key, 0).unwrap_or_default());
    let commit = codec::decode(payload).map_err(|error| SledDefect { position, reason: error.to_string() })?;
    if commit[0].position == position {
        Ok(commit)
    } else {
        Err(SledDefect { position, reason: format!("the record holds position {}", commit[0].position) })
    }
}

fn stream_key(stream: &StreamId, version: Option<Version>) -> Vec<u8> {
    let version = version.map(|version| version.0.to_be_bytes());
    [stream.as_str().as_bytes(), &[0], version.as_ref().map_or(&[][..], |bytes| &bytes[..])].concat()
}

fn stream_entry(commit: &Commit) -> (Vec<u8>, [u8; 12]) {
    let first = &commit[0];
    let mut value = [0; 12];
    value[..8].copy_from_slice(&first.position.0.to_be_bytes());
    value[8..].copy_from_slice(&u32::try_from(commit.len()).unwrap_or(u32::MAX).to_be_bytes());
    (stream_key(&first.stream, Some(first.version)), value)
}

/// Decodes the version, position and number of events of an entry in `streams`.
fn parse_stream_entry(key: &[u8], value: &[u8]) -> Result<(Version, Position, u64), SledDefect> {
    let version = key.len().checked_sub(8).and_then(|offset| u64_at(key, offset));
    let events =
        value.get(8..).and_then(|bytes| bytes.first_chunk()).map(|bytes| u64::from(u32::from_be_bytes(*bytes)));
    match (version, u64_at(value, 0), events) {
        (Some(version), Some(position), Some(events @ 1..)) => Ok((Version(version), Position(position), events)),
        _ => Err(SledDefect::unreadable("an entry of the stream index has an impossible form".to_owned())),
    }
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}
