//! State shared by readers, the writer and the thread that fills sled: where the records are.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use super::disk_request::DiskRequest;
use super::follower_signal::FollowerSignal;
use super::scrub_status::Scrub;
use super::{IndexEnd, SledIndex};
use crate::data_dir::write_private;
use crate::disk_space::DiskSpace;
use crate::environment::{CommitStep, FailPoints};
use crate::events::envelope::{Commit, RecordedEvent};
use crate::events::journal::{
    CommitRecords, JournalError, JournalLocation, JournalReader, JournalRecord, RecordLocation,
};
use crate::events::log::LogFailure;
use crate::events::open_error::OpenError;
use crate::events::stream::{Position, StreamId, Version};
use crate::events::stream_counts::{StreamCounts, StreamHash};

pub(super) struct SledLogState {
    pub index: RwLock<LogIndex>,
    pub records: CommitRecords,
    pub journal: JournalLocation,
    /// Directory of sled.
    pub directory: PathBuf,
    /// A sled that cannot be used, to be closed and deleted. Locked while the index is replaced.
    pub retired: Mutex<Option<Arc<SledIndex>>>,
    pub follower: FollowerSignal,
    pub space: DiskSpace,
    /// Background check of the part that the start has deferred.
    pub scrub: Scrub,
    /// Damage in the journal that a reader has met. No reader scans the journal again after that.
    pub journal_damage: OnceLock<LogFailure>,
    /// Marker file of damage in the journal. It makes the next opening check everything.
    pub journal_damage_mark: PathBuf,
    /// Position up to which HEAD is signed.
    pub signed: AtomicU64,
    /// Disk request of the writer.
    pub disk: DiskRequest,
    pub fail_points: FailPoints,
}

/// Locations of records by stream and position.
pub(super) type LocationMap = BTreeMap<(StreamHash, Position), RecordLocation>;

/// Locations of the records of each stream: in sled up to `indexed`, in memory after it.
pub(super) struct LogIndex {
    /// The last acknowledged event.
    pub head: Position,
    /// `None` while it is recreated. Then `indexed` is 0.
    pub sled: Option<Arc<SledIndex>>,
    pub indexed: Position,
    pub recent: LocationMap,
    /// Number of events per stream; `None` until the start has counted them.
    pub counts: Option<StreamCounts>,
}

/// Contents of the journal, as far as an index has to know them.
#[derive(Default)]
pub(super) struct JournalContents {
    pub locations: LocationMap,
    pub counts: StreamCounts,
}

impl JournalContents {
    /// Adds a record. Locations up to `indexed` are left out, because sled has them.
    pub fn add(&mut self, record: &JournalRecord<'_>, indexed: Position) {
        let first = &record.commit[0];
        let stream = StreamHash::from(&first.stream);
        if first.position > indexed {
            self.locations.insert((stream, first.position), record.location);
        }
        self.counts.add(stream, record.commit.len());
    }

    fn add_all(&mut self, reader: &mut JournalReader) -> Result<(), JournalError> {
        while let Some(record) = reader.next_record()? {
            self.add(&record, Position(0));
        }
        Ok(())
    }
}

/// Reason why a stream could not be read from the locations in the index.
enum StreamReadError {
    /// The journal cannot be read at all.
    Failed(LogFailure),
    /// The index or the journal is wrong.
    Mismatch(String),
}

impl SledLogState {
    /// Makes durable commits visible to readers.
    pub fn publish(&self, commits: &[Commit], locations: Vec<RecordLocation>) {
        let mut index = self.index.write();
        for (commit, location) in commits.iter().zip(locations) {
            let Some(last) = commit.last() else { continue };
            let stream = StreamHash::from(&last.stream);
            index.recent.insert((stream, commit[0].position), location);
            index.head = last.position;
            if let Some(counts) = &mut index.counts {
                counts.add(stream, commit.len());
            }
        }
        drop(index);
        self.follower.wake();
        self.fail_points.hit_after(CommitStep::Published);
    }

    /// Returns the number of events of all streams with this hash, once known.
    pub fn count(&self, stream: StreamHash) -> Option<u64> {
        self.index.read().counts.as_ref().map(|counts| counts.get(stream))
    }

    /// Reads the events of a stream after version `after`. If the index is wrong, it is replaced first.
    pub fn read_stream(&self, stream: &StreamId, after: Version) -> Result<Vec<RecordedEvent>, LogFailure> {
        let hash = StreamHash::from(stream);
        let mut replaced = false;
        loop {
            let (sled, indexed, mut recent, count) = {
                let index = self.index.read();
                let count = index.counts.as_ref().map(|counts| counts.get(hash));
                let recent = index.recent.range((hash, Position(0))..=(hash, Position(u64::MAX)));
                let recent: Vec<_> = recent.map(|((_, position), location)| (*position, *location)).collect();
                (index.sled.clone(), index.indexed, recent, count)
            };
            if count == Some(0) {
                return Ok(Vec::new());
            }

            let stored = match &sled {
                Some(sled) if indexed.0 > 0 => sled.locations(hash, indexed),
                _ => Ok(Vec::new()),
            };
            let read = stored.map_err(StreamReadError::Mismatch).and_then(|mut locations| {
                locations.append(&mut recent);
                self.read_locations(stream, &locations, count)
            });

            match read {
                Ok(mut events) => {
                    events.retain(|event| event.version > after);
                    return Ok(events);
                }
                Err(StreamReadError::Failed(failure)) => return Err(failure),
                Err(StreamReadError::Mismatch(reason)) if replaced => {
                    let location = "the index".to_owned();
                    return Err(LogFailure::Damaged { location, position: Position(0), reason });
                }
                Err(StreamReadError::Mismatch(reason)) => self.replace_index(sled.as_ref(), &reason)?,
            }
            replaced = true;
        }
    }

    /// Reads all events of a stream and checks that none is missing. `count` is the number of events at the locations.
    fn read_locations(
        &self,
        stream: &StreamId,
        locations: &[(Position, RecordLocation)],
        count: Option<u64>,
    ) -> Result<Vec<RecordedEvent>, StreamReadError> {
        let mut events: Vec<RecordedEvent> = Vec::new();
        let mut found = 0;
        for (position, location) in locations {
            let commit = self.records.read(*position, location).map_err(|error| match error {
                JournalError::Io { doing, file, reason } if reason.kind() != ErrorKind::NotFound => {
                    let doing = format!("{doing} {}", file.display());
                    StreamReadError::Failed(LogFailure::Storage { doing, reason: reason.to_string() })
                }
                other => StreamReadError::Mismatch(other.to_string()),
            })?;
            found += commit.len() as u64;
            events.extend(commit.iter().filter(|event| event.stream == *stream).cloned());
        }

        for (version, event) in (1..).map(Version).zip(&events) {
            if event.version != version {
                return Err(StreamReadError::Mismatch(format!("version {version} of stream {stream} is missing")));
            }
        }
        match count {
            Some(count) if count != found => {
                let reason = format!("the index has {found} events of stream {stream} instead of {count}");
                Err(StreamReadError::Mismatch(reason))
            }
            _ => Ok(events),
        }
    }

    /// Reads all events after position `after` up to `last`.
    pub fn read_all(&self, after: Position, last: Position) -> Result<Vec<RecordedEvent>, LogFailure> {
        let mut events = Vec::new();
        let walked = self.records.walk(after, last, |record| {
            let wanted = record.commit.iter().filter(|event| event.position > after && event.position <= last);
            events.extend(wanted.cloned());
            ControlFlow::Continue(())
        });
        walked.map(|()| events).map_err(|error| self.report_journal_error(error))
    }

    /// Replaces the index by one in memory, which a scan of the whole journal yields, and makes the follower delete
    /// sled and fill a new one. Does nothing if another thread has replaced `unusable` already.
    ///
    /// # Errors
    /// If the journal is damaged. Sled stays then, because its copies may repair the journal at the next start.
    pub fn replace_index(&self, unusable: Option<&Arc<SledIndex>>, reason: &str) -> Result<(), LogFailure> {
        let mut retired = self.retired.lock();
        let head = {
            let index = self.index.read();
            let is_current = match (&index.sled, unusable) {
                (Some(current), Some(unusable)) => Arc::ptr_eq(current, unusable),
                (None, None) => true,
                _ => false,
            };
            if !is_current {
                return Ok(());
            }
            index.head
        };
        if let Some(damage) = self.journal_damage.get() {
            return Err(damage.clone());
        }

        tracing::warn!(reason, "index unusable, rebuilt from the journal");
        let reported = |error| self.report_journal_error(error);
        let mut contents = JournalContents::default();
        let mut reader: JournalReader = self.journal.read(Position(0), head).map_err(reported)?;
        contents.add_all(&mut reader).map_err(reported)?;

        // The lock is held while the few records that were appended in between are added.
        let mut index = self.index.write();
        contents.add_all(&mut reader.with_end(index.head)).map_err(reported)?;
        index.recent = contents.locations;
        index.counts = Some(contents.counts);
        index.indexed = Position(0);
        if let Some(sled) = index.sled.take() {
            *retired = Some(sled);
        }
        drop(index);
        self.follower.wake();
        Ok(())
    }

    /// Compares the last commit in sled with the journal, which the start has checked. Returns the reason if sled was
    /// replaced.
    pub fn check_index_end(&self, end: &IndexEnd) -> Result<Option<String>, OpenError> {
        let Some(sled) = self.index.read().sled.clone() else { return Ok(None) };
        let location = sled.location(end.stream, end.commit).ok().flatten();
        let chain = location.map_or(Ok(None), |location| self.records.chain_at(end.commit, &location))?;
        if chain == Some(end.chain) {
            return Ok(None);
        }

        let reason = "it belongs to another log, or to another history of this one".to_owned();
        // Damage in the part that is not checked yet is reported. Sled stays then, and every read is checked.
        let _ = self.replace_index(Some(&sled), &reason);
        Ok(Some(reason))
    }

    /// Converts an error of a reader of the journal and reports damage.
    pub fn report_journal_error(&self, error: JournalError) -> LogFailure {
        let error = OpenError::from(error);
        self.report_damage(&error);
        read_failure(&error)
    }

    /// Reports damage that a reader has met in the journal. The log does not count as intact after that, and the next
    /// start reads the whole journal.
    pub fn report_damage(&self, error: &OpenError) {
        if !matches!(error, OpenError::Damaged { .. }) || self.journal_damage.set(read_failure(error)).is_err() {
            return;
        }
        tracing::error!(%error, "journal damaged");
        self.scrub.record_damage(&error.to_string());
        self.mark_journal_damaged(&error.to_string());
    }

    /// Makes the next start read the whole journal, even after a power cut.
    pub fn mark_journal_damaged(&self, reason: &str) {
        if let Err(error) = write_private(&self.journal_damage_mark, reason.as_bytes()) {
            tracing::error!(%error, "damage not recorded: delete the snapshots before the next start");
        }
    }
}

fn read_failure(error: &OpenError) -> LogFailure {
    match error {
        OpenError::Damaged { file, offset, position, reason } => {
            let location = format!("{} at offset {offset}", file.display());
            LogFailure::Damaged { location, position: *position, reason: reason.clone() }
        }
        error => LogFailure::Storage { doing: "read the journal".to_owned(), reason: error.to_string() },
    }
}
