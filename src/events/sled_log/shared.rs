//! State shared by readers, the writer and the thread that fills sled: sled, if it is open, the tail and the queue.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use parking_lot::RwLock;

use super::log::disk_request::DiskRequest;
use super::scrub::{Scrub, ScrubState};
use super::{SledDefect, SledTrees};
use crate::data_dir::write_private;
use crate::disk_space::DiskSpace;
use crate::environment::{CommitStep, FailPoints};
use crate::events::envelope::{Commit, RecordedEvent};
use crate::events::follower::{DurableGroup, FollowerQueue};
use crate::events::journal::JournalLocation;
use crate::events::log::LogFailure;
use crate::events::stream::{Position, StreamId, Version};
use crate::events::stream_versions::StreamVersions;
use crate::events::tail::Tail;

pub(super) struct SharedLogState {
    /// Sled; `None` while it is being reopened.
    pub trees: RwLock<Option<Arc<SledTrees>>>,
    pub tail: RwLock<Tail>,
    pub queue: FollowerQueue,
    /// Read while sled is not available.
    pub journal: JournalLocation,
    /// Directory of sled.
    pub directory: PathBuf,
    /// Marker file of damage in sled. It makes the next opening rebuild sled.
    pub damage_mark: PathBuf,
    pub space: DiskSpace,
    /// Background check of the part that the start has deferred.
    pub scrub: Scrub,
    /// Expected stream versions, until that check is complete.
    pub expected_versions: RwLock<Option<StreamVersions>>,
    /// Marker file of damage in the journal. It makes the next opening check everything.
    pub journal_damage_mark: PathBuf,
    /// Position up to which HEAD is signed.
    pub signed: AtomicU64,
    /// Disk request of the writer.
    pub disk: DiskRequest,
    pub fail_points: FailPoints,
}

impl SharedLogState {
    /// Waits until the lag of sled is within its limit.
    pub fn wait_for_room(&self) -> Result<(), LogFailure> {
        self.queue.wait_for_room().map_err(|reason| LogFailure::Full { reason })
    }

    /// Checks that sled is being filled.
    pub fn check_follower(&self) -> Result<(), LogFailure> {
        self.queue.stalled().map_or(Ok(()), |reason| Err(LogFailure::Full { reason }))
    }

    /// Makes a durable group visible to readers. The tail comes before the queue, because events that sled has are
    /// removed from the tail.
    pub fn publish(&self, group: DurableGroup) {
        let mut tail = self.tail.write();
        for (commit, _) in &group.records {
            tail.push(commit.clone());
        }
        drop(tail);
        self.queue.push(group);
        self.fail_points.hit_after(CommitStep::Published);
    }

    /// Fills sled until the queue ends.
    pub fn run_follower(&self) {
        while let Some(groups) = self.queue.take(super::log::BATCH_EVENTS) {
            let started = Instant::now();
            let records = groups.iter().flat_map(|group| {
                group.records.iter().map(|(commit, payload)| (commit, &group.bytes[payload.clone()]))
            });
            let records: Vec<_> = records.collect();

            while let Err(reason) = self.fill(&records) {
                if !self.reopen_until_filled(&reason) {
                    return;
                }
            }

            if let Some(last) = records.last().and_then(|(commit, _)| commit.last()) {
                self.tail.write().evict_through(last.position);
            }

            self.queue.finish_batch(groups.iter().map(|group| group.bytes.len()).sum());
            self.queue.pause_while_busy(started.elapsed());
        }
    }

    fn fill(&self, records: &[(&Commit, &[u8])]) -> Result<(), String> {
        let trees = self.trees.read().clone().ok_or("sled is closed")?;
        trees.insert(records, || self.fail_points.hit_after(CommitStep::SledIndexed))?;
        self.fail_points.hit_after(CommitStep::SledInserted);
        trees.io_error.get().map_or(Ok(()), |reason| Err(reason.clone()))
    }

    /// Stores the expected stream versions, unless the whole log was checked.
    pub fn set_expected_versions(&self, versions: StreamVersions) {
        let mut expected = self.expected_versions.write();
        if self.scrub.state() != ScrubState::Intact {
            *expected = Some(versions);
        }
    }

    /// Checks that these are all events of a stream after version `after`, as far as is known.
    pub fn check_complete(
        &self,
        stream: &StreamId,
        after: Version,
        events: &[RecordedEvent],
    ) -> Result<(), LogFailure> {
        let expected = (after.0 + 1..).map(Version);
        match events.iter().zip(expected).find(|(event, version)| event.version != *version) {
            None => self.check_stream_end(stream, events.last().map_or(after, |event| event.version)),
            Some((event, version)) => {
                let reason = format!("version {version} of stream {stream} is missing");
                Err(self.report_sled_damage(SledDefect { position: event.position, reason }))
            }
        }
    }

    /// Checks that a stream with this version has not lost its end, as far as is known.
    fn check_stream_end(&self, stream: &StreamId, version: Version) -> Result<(), LogFailure> {
        let expected_version =
            self.expected_versions.read().as_ref().map_or(Version(0), |expected| expected.lower_bound(stream));
        if version >= expected_version {
            return Ok(());
        }
        let reason = format!("stream {stream} ends with version {version} instead of {expected_version}");
        Err(self.report_sled_damage(SledDefect { position: Position(0), reason }))
    }

    /// The version of a stream before the tail.
    pub fn stream_version(&self, stream: &StreamId) -> Result<Version, LogFailure> {
        let Some(version) = self.query_sled(|trees| trees.stream_version(stream))? else {
            return self.stream_version_from_journal(stream);
        };
        self.check_stream_end(stream, version).map(|()| version)
    }

    /// Reads a stream from sled ([`SledTrees::read_stream`]), or from the journal if sled is not available.
    pub fn read_stream(
        &self,
        stream: &StreamId,
        after: Version,
        bounds: (Option<Version>, Position),
    ) -> Result<Vec<RecordedEvent>, LogFailure> {
        let events = self.query_sled(|trees| {
            let mut events = Vec::new();
            trees.read_stream(stream, after, bounds, &mut events).map(|()| events)
        });
        events?.map_or_else(|| self.read_stream_from_journal(stream, after, bounds.1), Ok)
    }

    /// Reads events from sled ([`SledTrees::read_all`]), or from the journal if sled is not available.
    pub fn read_all(&self, after: Position, last: Position) -> Result<Vec<RecordedEvent>, LogFailure> {
        let events = self.query_sled(|trees| {
            let mut events = Vec::new();
            trees.read_all(after, last, &mut events).map(|()| events)
        });
        events?.map_or_else(|| self.read_all_from_journal(after, last), Ok)
    }

    /// Queries sled; `None` if it is not available.
    fn query_sled<T>(&self, query: impl FnOnce(&SledTrees) -> Result<T, SledDefect>) -> Result<Option<T>, LogFailure> {
        let Some(trees) = self.trees.read().clone() else { return Ok(None) };
        match query(&trees) {
            Ok(value) => Ok(Some(value)),
            Err(_) if trees.has_failed() => {
                self.queue.request_check();
                Ok(None)
            }
            Err(defect) => Err(self.report_sled_damage(defect)),
        }
    }

    /// Makes the next start rebuild sled, also after a power cut.
    pub fn mark_sled_damaged(&self, reason: &str) {
        if let Err(error) = write_private(&self.damage_mark, reason.as_bytes()) {
            tracing::error!(%error, "damage not recorded: delete the sled directory before the next start");
        }
    }

    /// Makes the next start read the whole journal, also after a power cut.
    pub fn mark_journal_damaged(&self, reason: &str) {
        if let Err(error) = write_private(&self.journal_damage_mark, reason.as_bytes()) {
            tracing::error!(%error, "damage not recorded: delete the snapshots before the next start");
        }
    }

    /// Records damage in sled, which the next start rebuilds.
    pub fn report_sled_damage(&self, defect: SledDefect) -> LogFailure {
        let SledDefect { position, reason } = defect;
        tracing::error!(%position, reason, "sled damaged, rebuilt at the next start");
        self.mark_sled_damaged(&reason);
        self.scrub.record_sled_damage(&format!("damage in sled at position {position}: {reason}"));
        LogFailure::Damaged { location: "sled".to_owned(), position, reason }
    }
}
