//! The durable log: the journal and its index as one [`EventLog`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use uuid::Uuid;

use super::SledLogOptions;
use super::disk_request::DiskRequest;
use super::follower_signal::FollowerSignal;
use super::open::{self, IndexFailure, OpenReport};
use super::scrub_status::{Scrub, ScrubState, ScrubStatus};
use super::state::SledLogState;
use crate::disk_space::{DiskSpace, StorageState, StorageStatus};
use crate::domain::value::Timestamp;
use crate::environment::{CommitStep, Environment};
use crate::events::codec;
use crate::events::envelope::{Append, Commit, EncodedCommit, RecordedEvent};
use crate::events::journal::{Anchor, CommitRecords, Journal, JournalHead, JournalReader, SignedCheckpoint};
use crate::events::log::{AppendRejection, EventLog, GroupOutcome, LogFailure};
use crate::events::open_error::OpenError;
use crate::events::stream::{Position, StreamId, Version};
use crate::events::stream_counts::{StreamCounts, StreamHash};
use crate::priority::{BackgroundWork, lower_priority};

/// The durable log. Events survive kill -9 and power loss from the moment an append returns.
///
/// The caller must ensure that a directory is open in only one `SledLog` of one process.
pub struct SledLog {
    writer: Mutex<LogWriter>,
    shared: Arc<SledLogState>,
    follower: Mutex<Option<JoinHandle<()>>>,
    scrubber: Mutex<Option<JoinHandle<()>>>,
}

struct LogWriter {
    journal: Journal,
    /// Reason why the log accepts no more appends.
    read_only_reason: Option<String>,
}

impl SledLog {
    /// Opens or creates the log and checks the whole journal. Calls `on_commit` with every commit in order.
    ///
    /// # Errors
    /// If the journal is damaged, the index is ahead of it, or the file system fails.
    pub fn open(
        options: &SledLogOptions,
        environment: &Environment,
        on_commit: impl FnMut(&Commit),
    ) -> Result<(Self, OpenReport), OpenError> {
        Self::open_from(options, environment, None, on_commit)
    }

    /// Opens the log like [`SledLog::open`], but checks records before an anchor later, in the background. `on_commit`
    /// receives the commits after the anchor. If the index cannot be used, everything is checked at once.
    ///
    /// # Errors
    /// See [`SledLog::open`]; also if the journal does not hold the anchor ([`Anchor::check`]).
    pub fn open_from(
        options: &SledLogOptions,
        environment: &Environment,
        anchor: Option<&Anchor>,
        on_commit: impl FnMut(&Commit),
    ) -> Result<(Self, OpenReport), OpenError> {
        let open::OpenedSledLog { journal, index, retired, end, mut report, deferred } =
            open::open(options, environment, anchor, on_commit)?;

        let directory = &options.journal.directory;
        let shared = Arc::new(SledLogState {
            records: CommitRecords::new(directory),
            journal: journal.location(),
            directory: open::sled_directory(options),
            retired: Mutex::new(retired.map(Arc::new)),
            follower: FollowerSignal::default(),
            space: options.space.clone(),
            scrub: Scrub::new(deferred.is_some(), journal.head(), environment),
            journal_damage: OnceLock::new(),
            journal_damage_mark: open::journal_damage_mark(options),
            signed: AtomicU64::new(journal.signed_position().0),
            disk: DiskRequest::default(),
            fail_points: environment.fail_points(),
            index: RwLock::new(index),
        });
        if let Some(end) = end {
            report.index_failure = shared.check_index_end(&end)?.map(IndexFailure::damaged);
        }

        let scrubber = deferred.map(|deferred| shared.clone().start_scrub(deferred)).transpose();
        let scrubber = scrubber.map_err(OpenError::io("start the verification thread", directory))?;

        let follower_state = Arc::clone(&shared);
        let follower = thread::Builder::new()
            .name("sled-follower".to_owned())
            .spawn(move || {
                lower_priority(BackgroundWork::LogMaintenance);
                follower_state.run_follower();
            })
            .map_err(OpenError::io("start the index thread", open::sled_directory(options)))?;

        let writer = Mutex::new(LogWriter { journal, read_only_reason: None });
        let follower = Mutex::new(Some(follower));
        let scrubber = Mutex::new(scrubber);
        Ok((Self { writer, shared, follower, scrubber }, report))
    }

    /// Makes commits durable together, with one sync and exactly these bytes. The caller has checked the versions of
    /// their streams; the first commit must follow the head.
    ///
    /// # Errors
    /// See [`EventLog::append`].
    pub fn append_encoded(&self, commits: &[EncodedCommit]) -> Result<(), LogFailure> {
        self.write(|writer, shared| {
            let written = writer.write_encoded(commits, shared);
            written.inspect_err(|_| writer.journal.discard_group())
        })
    }

    /// Returns the version of a stream. The stream is read only if its version is neither 0 nor `expected`.
    ///
    /// # Errors
    /// If the stream has to be read and cannot be.
    pub fn stream_version(&self, stream: &StreamId, expected: Version) -> Result<Version, LogFailure> {
        version_after(stream, expected, &StagedCommits::default(), &self.shared)
    }

    /// Returns the end of the journal, with its chain hash.
    #[must_use]
    pub fn journal_head(&self) -> JournalHead {
        self.writer.lock().journal.journal_head()
    }

    /// Returns the id of the log.
    #[must_use]
    pub fn log_id(&self) -> Uuid {
        self.writer.lock().journal.log_id()
    }

    /// Runs one write, unless the log accepts none, and notes its result.
    fn write<T>(
        &self,
        write: impl FnOnce(&mut LogWriter, &SledLogState) -> Result<T, LogFailure>,
    ) -> Result<T, LogFailure> {
        let mut writer = self.writer.lock();
        if let Some(reason) = &writer.read_only_reason {
            return Err(LogFailure::ReadOnly { reason: reason.clone() });
        }
        if let ScrubState::Damaged { reason } = self.shared.scrub.state() {
            return Err(LogFailure::ReadOnly { reason });
        }

        let space = &self.shared.space;
        space.check().map_err(|disk_full| LogFailure::Full { reason: disk_full.to_string() })?;
        let outcome = write(&mut writer, &self.shared);

        match &outcome {
            Ok(_) => space.record_success(),
            Err(LogFailure::Full { reason }) => space.record_refusal(reason),
            Err(failure) => writer.read_only_reason = Some(failure.to_string()),
        }
        outcome
    }

    /// Returns the number of groups synced since the log was opened.
    #[must_use]
    pub fn sync_count(&self) -> u64 {
        self.writer.lock().journal.sync_count()
    }

    /// Returns the time that the disk has spent on the current group or HEAD, or zero while it is idle. Never blocks.
    #[must_use]
    pub fn sync_pending(&self) -> Duration {
        self.shared.disk.pending()
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

        self.shared.space.check().map_err(|disk_full| LogFailure::Full { reason: disk_full.to_string() })
    }

    /// Returns the disk space of the log.
    #[must_use]
    pub fn space(&self) -> &DiskSpace {
        &self.shared.space
    }

    /// Returns the storage state: whether the log accepts appends, and the free space.
    #[must_use]
    pub fn storage(&self) -> StorageState {
        let (state, reason) = match self.state() {
            Ok(()) => (StorageStatus::Ok, None),
            Err(LogFailure::Full { reason }) => (StorageStatus::Full, Some(reason)),
            Err(failure) => (StorageStatus::ReadOnly, Some(failure.to_string())),
        };
        StorageState { state, reason, ..self.shared.space.state() }
    }

    /// Returns the result and extent of the verification.
    #[must_use]
    pub fn verification(&self) -> ScrubStatus {
        self.shared.scrub.status()
    }

    /// Returns the position up to which HEAD is signed.
    #[must_use]
    pub fn signed_position(&self) -> Position {
        Position(self.shared.signed.load(Ordering::Relaxed))
    }

    /// Returns the anchor of the commit that ends at this position; `None` if no commit ends there.
    ///
    /// # Errors
    /// See [`Journal::read_from`]; also if the commit's segment is damaged.
    pub fn anchor(&self, position: Position) -> Result<Option<Anchor>, OpenError> {
        let reader = self.writer.lock().journal.read_from(Position(position.0.saturating_sub(1)));
        let anchor = reader.and_then(|reader| reader.anchor_at(position)).map_err(OpenError::from);
        anchor.inspect_err(|error| self.shared.report_damage(error))
    }

    /// Sets the number of events per stream, which a start from a snapshot does not count.
    pub fn set_stream_counts(&self, counts: StreamCounts) {
        self.shared.index.write().counts.get_or_insert(counts);
    }

    /// Returns the position up to which sled has followed the journal; 0 while it is recreated.
    #[must_use]
    pub fn indexed_position(&self) -> Position {
        self.shared.index.read().indexed
    }

    /// Returns the size of sled on disk in bytes; `None` if sled is not open or its size is unavailable.
    #[must_use]
    pub fn index_bytes(&self) -> Option<u64> {
        let sled = self.shared.index.read().sled.clone();
        sled.and_then(|sled| sled.bytes().ok())
    }

    /// Recreates the index from the journal, in the background.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn rebuild_index(&self) -> Result<(), LogFailure> {
        let sled = self.shared.index.read().sled.clone();
        self.shared.replace_index(sled.as_ref(), "a rebuild was requested")
    }

    /// Reads the durable records of the journal that hold events after `after`, and verifies the hash chain.
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

    /// Rejects further appends, makes HEAD durable, and fills sled. Reads continue to work.
    ///
    /// # Errors
    /// If the file system fails. Acknowledged events are safe even then.
    pub fn close(&self) -> Result<(), LogFailure> {
        let mut writer = self.writer.lock();
        writer.read_only_reason.get_or_insert_with(|| "the log was closed".to_owned());

        self.shared.follower.drain();
        self.join_follower();
        self.stop_scrub();

        let closed = writer.journal.close();
        closed.map_err(|error| LogFailure::Storage {
            doing: "close the journal".to_owned(),
            reason: error.to_string(),
        })?;

        let sled = self.shared.index.read().sled.clone();
        if let Some(Err(reason)) = sled.map(|sled| sled.flush()) {
            tracing::warn!(reason, "index flush failed");
        }
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
    /// Stops the threads at once. Sled may be behind; the next start continues to fill it.
    fn drop(&mut self) {
        self.shared.follower.stop();
        self.join_follower();
        self.stop_scrub();
        if let Err(error) = self.writer.get_mut().journal.close() {
            tracing::warn!(%error, "journal close failed");
        }
    }
}

impl EventLog for SledLog {
    fn append(&self, group: Vec<Append>) -> Result<GroupOutcome, LogFailure> {
        self.write(|writer, shared| writer.append(group, shared))
    }

    fn read_stream(&self, stream: &StreamId, after: Version) -> Result<Vec<RecordedEvent>, LogFailure> {
        self.shared.read_stream(stream, after)
    }

    fn read_all(&self, after: Position, limit: usize) -> Result<Vec<RecordedEvent>, LogFailure> {
        let last = after.0.saturating_add(limit as u64).min(self.head().0);
        self.shared.read_all(after, Position(last))
    }

    fn head(&self) -> Position {
        self.shared.index.read().head
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

/// The commits of a group that the journal has staged.
#[derive(Default)]
struct StagedCommits {
    commits: Vec<Commit>,
    counts: StreamCounts,
}

impl LogWriter {
    /// Appends a group. After a failure nothing of it is left in the journal.
    fn append(&mut self, group: Vec<Append>, shared: &SledLogState) -> Result<GroupOutcome, LogFailure> {
        self.try_append(group, shared).inspect_err(|_| self.journal.discard_group())
    }

    fn try_append(&mut self, group: Vec<Append>, shared: &SledLogState) -> Result<GroupOutcome, LogFailure> {
        let mut staged = StagedCommits::default();
        let mut outcome = Vec::with_capacity(group.len());

        for append in group {
            let actual = version_after(&append.stream, append.expected, &staged, shared)?;
            outcome.push(append.check_version(actual).and_then(|()| self.stage(append, &mut staged)));
        }

        if !staged.commits.is_empty() {
            let locations = shared.disk.measure(|| self.journal.write_group())?;
            shared.publish(&staged.commits, locations);
        }
        Ok(outcome)
    }

    fn write_encoded(&mut self, commits: &[EncodedCommit], shared: &SledLogState) -> Result<(), LogFailure> {
        for EncodedCommit { commit, payload } in commits {
            let head = self.journal.staged_head();
            let first = commit[0].position;
            if first.0 != head.0 + 1 {
                let reason = format!("the commit at {first} does not follow {head}");
                return Err(LogFailure::Storage { doing: "stage a commit".to_owned(), reason });
            }
            let staged = self.journal.stage(commit.len() as u64, |bytes| {
                bytes.extend_from_slice(payload);
                Ok(())
            });
            staged.map_err(|error| LogFailure::Storage {
                doing: "stage a commit".to_owned(),
                reason: AppendRejection::TooLarge { bytes: error.bytes }.to_string(),
            })?;
        }

        if !commits.is_empty() {
            let locations = shared.disk.measure(|| self.journal.write_group())?;
            let commits: Vec<_> = commits.iter().map(|encoded| encoded.commit.clone()).collect();
            shared.publish(&commits, locations);
        }
        Ok(())
    }

    fn stage(&mut self, append: Append, staged: &mut StagedCommits) -> Result<Commit, AppendRejection> {
        let commit = append.into_commit(self.journal.staged_head());
        if let Some(last) = commit.last() {
            let encoded = self.journal.stage(commit.len() as u64, |payload| codec::encode(&commit, payload));
            encoded.map_err(|error| AppendRejection::TooLarge { bytes: error.bytes })?;
            staged.counts.add(StreamHash::from(&last.stream), commit.len());
            staged.commits.push(commit.clone());
        }
        Ok(commit)
    }
}

/// Returns the version of a stream after the staged commits. The stream is read only if its version is neither 0 nor
/// `expected`.
fn version_after(
    stream: &StreamId,
    expected: Version,
    staged: &StagedCommits,
    shared: &SledLogState,
) -> Result<Version, LogFailure> {
    let hash = StreamHash::from(stream);
    if let Some(stored) = shared.count(hash) {
        let events = stored + staged.counts.get(hash);
        // A stream has at most as many events as all streams with its hash. So no caller expects this version of
        // a shorter stream, unless it has seen events that do not exist.
        if events == 0 || events == expected.0 {
            return Ok(Version(events));
        }
    }

    let mut staged = staged.commits.iter().rev().filter_map(|commit| commit.last());
    if let Some(event) = staged.find(|event| event.stream == *stream) {
        return Ok(event.version);
    }
    let events = shared.read_stream(stream, Version(0))?;
    Ok(events.last().map_or(Version(0), |event| event.version))
}

#[cfg(test)]
mod tests;
