//! The durable log: journal, queue, sled and the tail in memory as one [`EventLog`].

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::{Mutex, RwLock};

use super::open::{self, OpenReport};
use super::recovery::OpenProgress;
use super::scrub::{Scrub, ScrubState, ScrubStatus};
use super::shared::SharedLogState;
use crate::disk_space::{DiskSpace, StorageState, StorageStatus};
use crate::domain::value::Timestamp;
use crate::environment::{CommitStep, Environment};
use crate::events::codec;
use crate::events::envelope::{Append, Commit, RecordedEvent};
use crate::events::follower::{DurableGroup, FollowerQueue};
use crate::events::journal::{Anchor, Journal, JournalOptions, JournalReader, SignedCheckpoint};
use crate::events::log::{AppendRejection, EventLog, GroupOutcome, LogFailure};
use crate::events::open_error::OpenError;
use crate::events::stream::{Position, StreamId, Version};
use crate::events::stream_versions::StreamVersions;
use crate::events::tail::Tail;
use crate::events::version_cache::VersionCache;
use crate::priority::{BackgroundWork, lower_priority};

/// Maximum number of events inserted before the tail is shortened.
pub(super) const BATCH_EVENTS: usize = 4096;

/// Options of the log.
#[derive(Clone)]
pub struct SledLogOptions {
    pub journal: JournalOptions,
    /// Free space on the disk.
    pub space: DiskSpace,
    /// Maximum lag of sled in bytes of the journal; appends wait at the limit. The lagging events are also in memory,
    /// in about three times as many bytes.
    pub lag_bytes_max: usize,
    /// Number of streams whose versions are cached (up to twice as many).
    pub versions_max: usize,
    /// Receives the progress of opening while sled is filled.
    pub progress: Option<OpenProgress>,
}

impl SledLogOptions {
    /// Production options for a log directory, without a reserve of disk space.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        let journal = JournalOptions::new(directory);
        let space = DiskSpace::default();
        Self { journal, space, lag_bytes_max: 128 * 1024 * 1024, versions_max: 100_000, progress: None }
    }
}

/// The durable log. Events survive kill -9 and power loss from the moment an append returns.
///
/// The caller must ensure that a directory is open in only one `SledLog` of one process.
pub struct SledLog {
    writer: Mutex<LogWriter>,
    shared: Arc<SharedLogState>,
    follower: Mutex<Option<JoinHandle<()>>>,
    scrubber: Mutex<Option<JoinHandle<()>>>,
}

struct LogWriter {
    journal: Journal,
    versions: VersionCache,
    /// Reason why the log accepts no more appends.
    read_only_reason: Option<String>,
}

impl SledLog {
    /// Opens or creates the log: checks the whole journal, and updates or rebuilds sled. Calls `on_commit` with every
    /// commit in order.
    ///
    /// # Errors
    /// If the journal is damaged, sled is ahead of it, or the file system fails.
    pub fn open(
        options: &SledLogOptions,
        environment: &Environment,
        on_commit: impl FnMut(&Commit),
    ) -> Result<(Self, OpenReport), OpenError> {
        Self::open_from(options, environment, None, on_commit)
    }

    /// Opens the log like [`SledLog::open`], but checks records before an anchor later, in the background. `on_commit`
    /// receives the commits after the anchor. If sled must be rebuilt, everything is checked at once.
    ///
    /// # Errors
    /// See [`SledLog::open`]; also if the journal does not hold the anchor ([`Anchor::check`]).
    pub fn open_from(
        options: &SledLogOptions,
        environment: &Environment,
        anchor: Option<&Anchor>,
        on_commit: impl FnMut(&Commit),
    ) -> Result<(Self, OpenReport), OpenError> {
        let open::OpenedSledLog { journal, trees, versions, report, deferred } =
            open::open(options, environment, anchor, on_commit)?;

        let shared = Arc::new(SharedLogState {
            trees: RwLock::new(Some(Arc::new(trees))),
            tail: RwLock::new(Tail::from_head(journal.head())),
            queue: FollowerQueue::new(options.lag_bytes_max),
            journal: journal.location(),
            directory: options.journal.directory.join("sled"),
            space: options.space.clone(),
            damage_mark: open::sled_damage_mark(options),
            scrub: Scrub::new(deferred.as_ref(), journal.head(), environment),
            signed: AtomicU64::new(journal.signed_position().0),
            disk: disk_request::DiskRequest::default(),
            expected_versions: RwLock::default(),
            journal_damage_mark: open::journal_damage_mark(options),
            fail_points: environment.fail_points(),
        });

        let scrubber = deferred.map(|deferred| shared.clone().start_scrub(deferred)).transpose();
        let scrubber = scrubber.map_err(OpenError::io("start the verification thread", &options.journal.directory))?;

        let follower_state = Arc::clone(&shared);
        let follower = thread::Builder::new()
            .name("sled-follower".to_owned())
            .spawn(move || {
                lower_priority(BackgroundWork::LogMaintenance);
                follower_state.run_follower();
            })
            .map_err(OpenError::io("start the index thread", options.journal.directory.join("sled")))?;

        let writer = Mutex::new(LogWriter { journal, versions, read_only_reason: None });
        let follower = Mutex::new(Some(follower));
        let scrubber = Mutex::new(scrubber);
        Ok((Self { writer, shared, follower, scrubber }, report))
    }

    /// Number of groups synced since the log was opened.
    #[must_use]
    pub fn sync_count(&self) -> u64 {
        self.writer.lock().journal.sync_count()
    }

    /// Checks that the log accepts appends.
    ///
    /// # Errors
    /// Returns the reason if it does not.
    pub fn state(&self) -> Result<(), LogFailure> {
        if let ScrubState::Damaged { reason } = self.shared.scrub.state() {
            return Err(LogFailure::ReadOnly { reason });
        }

        // A locked writer means an append in progress.
        let Some(writer) = self.writer.try_lock() else { return Ok(()) };
        if let Some(reason) = &writer.read_only_reason {
            return Err(LogFailure::ReadOnly { reason: reason.clone() });
        }
        drop(writer);

        self.shared.check_follower()?;
        self.shared.space.check().map_err(|disk_full| LogFailure::Full { reason: disk_full.to_string() })
    }

    /// Disk space of the log.
    #[must_use]
    pub fn space(&self) -> &DiskSpace {
        &self.shared.space
    }

    /// Storage state: whether the log accepts appends, and the free space.
    #[must_use]
    pub fn storage(&self) -> StorageState {
        let (state, reason) = match self.state() {
            Ok(()) => (StorageStatus::Ok, None),
            Err(LogFailure::Full { reason }) => (StorageStatus::Full, Some(reason)),
            Err(failure) => (StorageStatus::ReadOnly, Some(failure.to_string())),
        };
        StorageState { state, reason, ..self.shared.space.state() }
    }

    /// Result and extent of the verification.
    #[must_use]
    pub fn verification(&self) -> ScrubStatus {
        self.shared.scrub.status()
    }

    /// The position up to which HEAD is signed.
    #[must_use]
    pub fn signed_position(&self) -> Position {
        Position(self.shared.signed.load(Ordering::Relaxed))
    }

    /// The anchor of the commit that ends at this position; `None` if no commit ends there.
    ///
    /// # Errors
    /// See [`Journal::read_from`]; also if the commit's segment is damaged.
    pub fn anchor(&self, position: Position) -> Result<Option<Anchor>, OpenError> {
        let reader = self.read_journal(Position(position.0.saturating_sub(1)));
        let anchor = reader.and_then(|reader| Ok(reader.anchor_at(position)?));
        anchor.inspect_err(|error| self.shared.report_journal_damage(error))
    }

    /// Sets the expected stream versions. Until the background check is complete, a stream that ends earlier counts as
    /// damage.
    pub fn set_expected_versions(&self, versions: StreamVersions) {
        self.shared.set_expected_versions(versions);
    }

    /// The position up to which sled has followed the journal.
    #[must_use]
    pub fn indexed_position(&self) -> Position {
        Position(self.shared.tail.read().first_position().0 - 1)
    }

    /// Size of sled on disk in bytes; `None` if sled is not open or its size is unavailable.
    #[must_use]
    pub fn index_bytes(&self) -> Option<u64> {
        let trees = self.shared.trees.read().clone();
        trees.and_then(|trees| trees.bytes().ok())
    }

    /// Reads the durable records of the journal that hold events after `after`. Twice as fast as reading sled.
    ///
    /// # Errors
    /// See [`Journal::read_from`].
    pub fn read_journal(&self, after: Position) -> Result<JournalReader, OpenError> {
        Ok(self.writer.lock().journal.read_from(after)?)
    }

    /// Signs a checkpoint at the last acknowledged event. Waits for an append in progress.
    #[must_use]
    pub fn checkpoint(&self, at: Timestamp) -> SignedCheckpoint {
        self.writer.lock().journal.checkpoint(at.micros())
    }

    /// Rejects further appends, updates sled from the journal, and makes HEAD and sled durable. Reads continue to work.
    ///
    /// # Errors
    /// If the file system fails. Acknowledged events are safe even then.
    pub fn close(&self) -> Result<(), LogFailure> {
        let mut writer = self.writer.lock();
        writer.read_only_reason.get_or_insert_with(|| "the log was closed".to_owned());

        self.shared.queue.drain();
        self.join_follower();
        self.stop_scrub();

        let storage_failure = |doing: &str, reason: String| LogFailure::Storage { doing: doing.to_owned(), reason };
        writer.journal.close().map_err(|error| storage_failure("close the journal", error.to_string()))?;

        let trees = self.shared.trees.read().clone();
        // A sled that is being reopened is updated by the next start.
        let trees = trees.filter(|trees| !trees.has_failed());
        trees.map_or(Ok(()), |trees| trees.flush()).map_err(|reason| storage_failure("flush sled", reason))?;

        self.shared.fail_points.hit_after(CommitStep::SledFlushed);
        Ok(())
    }

    fn stop_scrub(&self) {
        self.shared.scrub.stop();
        join_thread(&self.scrubber, "verification");
    }

    fn join_follower(&self) {
        join_thread(&self.follower, "index");
    }
}

fn join_thread(thread: &Mutex<Option<JoinHandle<()>>>, work: &str) {
    if thread.lock().take().is_some_and(|thread| thread.join().is_err()) {
        tracing::error!("{work} thread panicked");
    }
}

impl Drop for SledLog {
    /// Stops the threads at once. Sled may be behind; the next start updates it from the journal.
    fn drop(&mut self) {
        self.shared.queue.stop();
        self.join_follower();
        self.stop_scrub();
        if let Err(error) = self.writer.get_mut().journal.close() {
            tracing::warn!(%error, "journal close failed");
        }
    }
}

impl EventLog for SledLog {
    fn append(&self, group: Vec<Append>) -> Result<GroupOutcome, LogFailure> {
        let mut writer = self.writer.lock();
        if let Some(reason) = &writer.read_only_reason {
            return Err(LogFailure::ReadOnly { reason: reason.clone() });
        }
        if let ScrubState::Damaged { reason } = self.shared.scrub.state() {
            return Err(LogFailure::ReadOnly { reason });
        }

        let space = &self.shared.space;
        space.check().map_err(|disk_full| LogFailure::Full { reason: disk_full.to_string() })?;
        let outcome = self.shared.wait_for_room().and_then(|()| writer.append(group, &self.shared));

        match &outcome {
            Ok(_) => space.record_success(),
            Err(LogFailure::Full { reason }) => space.record_refusal(reason),
            Err(failure) => writer.read_only_reason = Some(failure.to_string()),
        }
        outcome
    }

    fn read_stream(&self, stream: &StreamId, after: Version) -> Result<Vec<RecordedEvent>, LogFailure> {
        // Reads the tail first: events that have left it are in sled already.
        let (tail, tail_position) = {
            let tail = self.shared.tail.read();
            (tail.stream(stream), tail.first_position())
        };

        let tail_version = tail.first().map(|commit| commit[0].version);
        let mut events = Vec::new();
        if tail_version.is_none_or(|first_version| after.0 + 1 < first_version.0) {
            events = self.shared.read_stream(stream, after, (tail_version, tail_position))?;
        }

        events.extend(tail.iter().flat_map(|commit| commit.iter()).filter(|event| event.version > after).cloned());
        self.shared.check_complete(stream, after, &events).map(|()| events)
    }

    fn read_all(&self, after: Position, limit: usize) -> Result<Vec<RecordedEvent>, LogFailure> {
        let (tail_position, commits) = {
            let tail = self.shared.tail.read();
            (tail.first_position(), tail.commits_after(after, limit))
        };

        let sled_count = tail_position.0.saturating_sub(after.0 + 1).min(limit as u64);
        let mut events = Vec::new();
        if sled_count > 0 {
            let last = Position(after.0 + sled_count);
            events = self.shared.read_all(after, last)?;
        }

        let remaining = limit - events.len();
        let tail = commits.iter().flat_map(|commit| commit.iter()).filter(|event| event.position > after);
        events.extend(tail.take(remaining).cloned());
        Ok(events)
    }

    fn head(&self) -> Position {
        self.shared.tail.read().head()
    }

    fn after_group(&self) {
        let mut writer = self.writer.lock();
        let signing_result = self.shared.disk.measure(|| writer.journal.sign_head());
        self.shared.signed.store(writer.journal.signed_position().0, Ordering::Relaxed);
        let Err(error) = signing_result else { return };
        if self.shared.space.to_disk_full(&error).is_none() {
            tracing::error!(%error, "HEAD write failed, log is read-only");
            writer.read_only_reason.get_or_insert_with(|| format!("HEAD write failed: {error}"));
        }
    }
}

impl LogWriter {
    /// Appends a group. After a failure nothing of it is left in the journal or in the cached versions.
    fn append(&mut self, group: Vec<Append>, shared: &SharedLogState) -> Result<GroupOutcome, LogFailure> {
        let mut previous_versions = Vec::with_capacity(group.len());
        let result = self.try_append(group, shared, &mut previous_versions);
        if result.is_err() {
            self.journal.discard_group();
            previous_versions.into_iter().rev().for_each(|(stream, version)| self.versions.set(&stream, version));
        }
        result
    }

    /// Appends a group. Records the streams' previous versions in `before`.
    fn try_append(
        &mut self,
        group: Vec<Append>,
        shared: &SharedLogState,
        previous_versions: &mut Vec<(StreamId, Version)>,
    ) -> Result<GroupOutcome, LogFailure> {
        let mut records = Vec::with_capacity(group.len());
        let mut outcome = Vec::with_capacity(group.len());

        for append in group {
            let actual = self.version(&append.stream, shared)?;
            previous_versions.push((append.stream.clone(), actual));
            outcome.push(append.check_version(actual).and_then(|()| self.stage(append, &mut records)));
        }

        if !records.is_empty() {
            let bytes = shared.disk.measure(|| self.journal.write_group())?;
            let events = records.iter().map(|(commit, _)| commit.len()).sum();
            shared.publish(DurableGroup { bytes, records, events });
            self.versions.rotate();
        }
        Ok(outcome)
    }

    fn stage(
        &mut self,
        append: Append,
        records: &mut Vec<(Commit, std::ops::Range<usize>)>,
    ) -> Result<Commit, AppendRejection> {
        let commit = append.into_commit(self.journal.staged_head());
        if let Some(last) = commit.last() {
            let staging_result = self.journal.stage(commit.len() as u64, |payload| codec::encode(&commit, payload));
            let payload = staging_result.map_err(|error| AppendRejection::TooLarge { bytes: error.bytes })?;
            self.versions.set(&last.stream, last.version);
            records.push((commit.clone(), payload));
        }
        Ok(commit)
    }

    fn version(&self, stream: &StreamId, shared: &SharedLogState) -> Result<Version, LogFailure> {
        if let Some(cached) = self.versions.get(stream) {
            return Ok(cached);
        }
        if let Some(tail_version) = shared.tail.read().stream_version(stream) {
            return Ok(tail_version);
        }
        shared.stream_version(stream)
    }
}

pub(super) mod disk_request;
#[cfg(test)]
mod tests;
