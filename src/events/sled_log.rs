//! The durable log: the journal, and an index of it in sled. No other file uses the sled crate.
//!
//! ```text
//! tree places    hash of the stream, position of the commit → segment, offset and checksum of its record
//! tree copies    position of the first commit → consecutive records of the journal, at most 1 MiB
//! ```
//!
//! Every read is served from the journal. sled contains the locations of the records of a stream. A record is accepted
//! only if its checksum, position and stream match the index, and if no event of the stream is missing. `copies`
//! repairs damaged records at a start.
//!
//! sled is disposable. A thread fills it in runs of consecutive records; locations that it lacks are in memory. If sled
//! cannot be trusted, all locations are read into memory, sled is deleted, and the thread fills a new one. So nothing in
//! sled has to be durable, atomic or complete.

mod disk_request;
mod follower;
mod follower_signal;
mod log;
mod open;
mod scrub;
mod scrub_status;
mod state;

use std::fs::File;
use std::io::{BufReader, Read};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

pub use log::SledLog;
pub use open::{IndexFailure, OpenReport};
pub use scrub_status::{ScrubState, ScrubStatus};

use super::journal::{ChainHash, JournalOptions, RecordLocation, parse_records};
use super::stream::Position;
use super::stream_counts::StreamHash;
use crate::disk_space::{DiskSpace, missing_resource};

/// Time that a dropped sled may hold its lock, because its threads release it one after the other.
const LOCK_RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
/// Page cache of sled. Small, because sled is only an index, and the page cache of the operating system holds its
/// files.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;
/// Size of sled's segments. All values stay below a quarter of it, beyond which sled creates a file for each.
const SEGMENT_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of a value in `places`.
const LOCATION_BYTES: usize = 20;

/// Options of the log.
#[derive(Clone)]
pub struct SledLogOptions {
    pub journal: JournalOptions,
    /// Free space on the disk.
    pub space: DiskSpace,
}

impl SledLogOptions {
    /// Creates the production options for a log directory, without a reserve of disk space.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { journal: JournalOptions::new(directory), space: DiskSpace::default() }
    }
}

/// The index in sled.
pub struct SledIndex {
    db: sled::Db,
    places: sled::Tree,
    copies: sled::Tree,
}

/// Reason why sled does not open.
pub struct SledOpenError {
    pub reason: String,
    /// The missing resource, if sled is not damaged.
    pub missing_resource: Option<&'static str>,
}

/// The last commit in sled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEnd {
    /// The position of its first event.
    pub commit: Position,
    /// The position of its last event.
    pub position: Position,
    pub stream: StreamHash,
    pub chain: ChainHash,
}

/// Consecutive records of the journal, to be inserted together.
#[derive(Default)]
struct IndexRun {
    entries: Vec<(StreamHash, Position, RecordLocation)>,
    bytes: Vec<u8>,
    /// The position of the last event.
    last: Position,
}

/// Runs work on sled, which may panic if it is damaged.
fn catch_panic<T>(work: impl FnOnce() -> sled::Result<T>) -> Result<T, String> {
    match panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err("sled panicked".to_owned()),
    }
}

impl SledIndex {
    /// Opens or creates the index.
    ///
    /// # Errors
    /// If sled does not open, or another release wrote it.
    pub fn open(directory: &Path) -> Result<Self, SledOpenError> {
        let mut missing = None;
        let was_written = has_nonzero_byte(&directory.join("db"));
        let opened = catch_panic(|| {
            let config = sled::Config::new()
                .path(directory)
                .mode(sled::Mode::HighThroughput)
                .cache_capacity(CACHE_BYTES)
                .segment_size(SEGMENT_BYTES)
                .flush_every_ms(None);
            let deadline = Instant::now() + LOCK_RELEASE_TIMEOUT;

            let db = loop {
                match config.open() {
                    Err(sled::Error::Io(error)) => {
                        missing = missing_resource(&error);
                        // Possibly the lock of a sled that this process has just dropped.
                        if missing.is_some() || Instant::now() >= deadline {
                            return Err(sled::Error::Io(error));
                        }
                        thread::sleep(LOCK_RELEASE_TIMEOUT / 100);
                    }
                    outcome => break outcome?,
                }
            };
            let defect = if db.tree_names().iter().any(|name| &**name == b"events") {
                Some("an older release wrote it")
            } else {
                (was_written && !db.was_recovered()).then_some("it is empty, although its file is not")
            };
            Ok((Self { places: db.open_tree("places")?, copies: db.open_tree("copies")?, db }, defect))
        });

        match opened {
            Ok((index, None)) => Ok(index),
            Ok((index, Some(defect))) => {
                index.close();
                Err(SledOpenError { reason: defect.to_owned(), missing_resource: None })
            }
            Err(reason) => Err(SledOpenError { reason, missing_resource: missing }),
        }
    }

    /// Closes sled, which may panic if it is inconsistent.
    fn close(self) {
        let closed = catch_panic(|| {
            drop(self);
            Ok(())
        });
        if let Err(reason) = closed {
            tracing::warn!(reason, "sled close failed");
        }
    }

    /// Returns the size on disk in bytes.
    fn bytes(&self) -> Result<u64, String> {
        catch_panic(|| self.db.size_on_disk())
    }

    fn flush(&self) -> Result<(), String> {
        catch_panic(|| self.db.flush()).map(drop)
    }

    /// Inserts a run. Its copy, which defines the end of the index, comes last; the fail point `before_copy` is called
    /// before it.
    fn insert(&self, run: &mut IndexRun, before_copy: impl FnOnce()) -> Result<(), String> {
        let Some((_, first, _)) = run.entries.first().copied() else { return Ok(()) };
        run.entries.sort_unstable_by_key(|(stream, position, _)| (*stream, *position));
        catch_panic(|| {
            for (stream, position, location) in &run.entries {
                self.places.insert(location_key(*stream, *position), &encode_location(location))?;
            }
            before_copy();
            self.copies.insert(first.0.to_be_bytes(), run.bytes.as_slice()).map(drop)
        })
    }

    /// Returns the end of the index; `None` if it is empty.
    ///
    /// # Errors
    /// If sled cannot be read, or its last value is damaged.
    pub fn end(&self) -> Result<Option<IndexEnd>, String> {
        let Some((key, bytes)) = catch_panic(|| self.copies.last())? else { return Ok(None) };
        let damaged = || "its last copy is damaged".to_owned();

        let mut records = parse_records(&bytes).peekable();
        let begins_at_key = matches!(records.peek(), Some(Ok(first)) if first.position.0.to_be_bytes() == *key);
        let last = records.last().and_then(Result::ok).filter(|_| begins_at_key).ok_or_else(damaged)?;

        let commit = super::codec::decode(last.payload).map_err(|error| error.to_string())?;
        let event = commit.last().filter(|_| commit[0].position == last.position).ok_or_else(damaged)?;
        let stream = StreamHash::from(&event.stream);
        Ok(Some(IndexEnd { commit: last.position, position: event.position, stream, chain: last.chain }))
    }

    /// Returns the locations of the streams with this hash, up to a position, in order.
    fn locations(&self, stream: StreamHash, through: Position) -> Result<Vec<(Position, RecordLocation)>, String> {
        let mut entries = self.places.range(location_key(stream, Position(0))..=location_key(stream, through));
        let mut locations = Vec::new();
        while let Some((key, value)) = catch_panic(|| entries.next().transpose())? {
            let position = key.last_chunk().map(|bytes| Position(u64::from_be_bytes(*bytes)));
            let location = position.zip(decode_location(&value));
            locations.push(location.ok_or("an entry of the index has an impossible form")?);
        }
        Ok(locations)
    }

    /// Returns the location of a commit.
    ///
    /// # Errors
    /// If sled cannot be read.
    pub fn location(&self, stream: StreamHash, position: Position) -> Result<Option<RecordLocation>, String> {
        Ok(catch_panic(|| self.places.get(location_key(stream, position)))?.and_then(|value| decode_location(&value)))
    }

    /// Returns the payload of the commit that begins at a position, if there is a readable copy.
    fn payload_at(&self, position: Position) -> Option<Vec<u8>> {
        let run = catch_panic(|| self.copies.range(..=position.0.to_be_bytes()).next_back().transpose());
        let (_, bytes) = run.ok()??;
        let mut records = parse_records(&bytes).map_while(Result::ok);
        records.find(|record| record.position == position).map(|record| record.payload.to_vec())
    }
}

/// Returns `true` if a file has a byte other than zero.
fn has_nonzero_byte(file: &Path) -> bool {
    let Ok(file) = File::open(file) else { return false };
    BufReader::new(file).bytes().any(|byte| byte.is_ok_and(|byte| byte != 0))
}

fn location_key(stream: StreamHash, position: Position) -> [u8; 16] {
    (u128::from(stream.0) << 64 | u128::from(position.0)).to_be_bytes()
}

fn encode_location(location: &RecordLocation) -> [u8; LOCATION_BYTES] {
    let mut bytes = [0; LOCATION_BYTES];
    bytes[..8].copy_from_slice(&location.segment.to_be_bytes());
    bytes[8..16].copy_from_slice(&location.offset.to_be_bytes());
    bytes[16..].copy_from_slice(&location.checksum.to_be_bytes());
    bytes
}

fn decode_location(bytes: &[u8]) -> Option<RecordLocation> {
    let bytes: &[u8; LOCATION_BYTES] = bytes.try_into().ok()?;
    let number = |at: usize| bytes[at..].first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    let checksum = bytes.last_chunk().map(|bytes| u32::from_be_bytes(*bytes))?;
    Some(RecordLocation { segment: number(0)?, offset: number(8)?, checksum })
}
