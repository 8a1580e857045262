//! The durable log: journal, queue, sled and the tail in memory, as one [`EventLog`].

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::{Mutex, RwLock};

use super::open::{self, OpenReport};
use super::repair::OpenProgress;
use super::scrub::{Scrub, ScrubState, Verified};
use super::shared::Shared;
use crate::clock::{Step, Surroundings};
use crate::domain::value::Timestamp;
use crate::events::checkpoint::SignedCheckpoint;
use crate::events::envelope::{Append, Commit, RecordedEvent};
use crate::events::follower::{Handed, Queue};
use crate::events::journal::{Anchor, Journal, JournalOptions, JournalReader, OpenError};
use crate::events::log::{AppendRefused, EventLog, GroupOutcome, LogFailure};
use crate::events::stream::{Position, StreamId, Version};
use crate::events::stream_versions::StreamVersions;
use crate::events::tail::Tail;
use crate::events::versions::VersionCache;
use crate::priority::{Work, yield_to_answers};
use crate::space::{Space, StorageKind, StorageState};

/// Events that are inserted before the tail is shortened.
pub(super) const BATCH_EVENTS: usize = 4096;

/// How the log is kept.
#[derive(Clone)]
pub struct SledLogOptions {
    pub journal: JournalOptions,
    /// How many bytes of the journal sled may be behind; an append waits when there are more. The events behind are in
    /// memory too, in about three times that.
    pub lag_bytes_max: usize,
    /// How many streams are remembered with their versions (up to twice as many).
    pub versions_max: usize,
    /// Is told how far the opening is while sled is being filled.
    pub progress: Option<OpenProgress>,
}

impl SledLogOptions {
    /// The options of production for a data directory.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        let journal = JournalOptions::new(directory);
        Self { journal, lag_bytes_max: 128 * 1024 * 1024, versions_max: 100_000, progress: None }
    }
}

/// The durable log. Survives kill -9 and power loss from the moment that an append returns.
///
/// One process, one `SledLog` on a directory: the caller sees to that.
pub struct SledLog {
    writer: Mutex<Writer>,
    shared: Arc<Shared>,
    follower: Mutex<Option<JoinHandle<()>>>,
    scrubber: Mutex<Option<JoinHandle<()>>>,
}

struct Writer {
    journal: Journal,
    versions: VersionCache,
    /// Why nothing can be appended any more.
    refusal: Option<String>,
}

impl SledLog {
    /// Opens or creates the log: checks the whole journal, brings sled up to it or rebuilds it. `on_commit` is given every
    /// commit in order.
    ///
    /// # Errors
    /// When the journal is damaged or sled is ahead of it, or the file system refuses.
    pub fn open(
        options: &SledLogOptions,
        surroundings: &Surroundings,
        on_commit: impl FnMut(&Commit),
    ) -> Result<(Self, OpenReport), OpenError> {
        Self::open_from(options, surroundings, None, on_commit)
    }

    /// The same, of which what comes before an anchor is checked later, in the background: `on_commit` is given what comes
    /// after it. When sled has to be made anew, everything is checked at once.
    ///
    /// # Errors
    /// As above, and when the journal does not have the anchor ([`Anchor::check`]).
    pub fn open_from(
        options: &SledLogOptions,
        surroundings: &Surroundings,
        anchor: Option<&Anchor>,
        on_commit: impl FnMut(&Commit),
    ) -> Result<(Self, OpenReport), OpenError> {
        let open::Opened { journal, trees, versions, report, older } =
            open::open(options, surroundings, anchor, on_commit)?;
        let shared = Arc::new(Shared {
            trees: RwLock::new(Some(Arc::new(trees))),
            tail: RwLock::new(Tail::after(journal.head())),
            queue: Queue::new(options.lag_bytes_max),
            journal: journal.place(),
            directory: options.journal.directory.join("sled"),
            space: options.journal.space.clone(),
            damage_mark: open::damage_mark(options),
            scrub: Scrub::of(older.as_ref(), journal.head(), surroundings),
            signed: AtomicU64::new(journal.signed().0),
            disk: pending::Disk::default(),
            expected: RwLock::default(),
            suspicion: open::suspicion(options),
            mishaps: surroundings.mishaps(),
        });
        let scrubber = older.map(|older| shared.clone().begin_scrub(older)).transpose();
        let scrubber = scrubber.map_err(OpenError::io("start the thread that checks", &options.journal.directory))?;
        let following = Arc::clone(&shared);
        let follower = thread::Builder::new()
            .name("sled-follower".to_owned())
            .spawn(move || {
                yield_to_answers(Work::LogUpkeep);
                following.follow();
            })
            .map_err(OpenError::io("start the thread that fills", options.journal.directory.join("sled")))?;
        let writer = Mutex::new(Writer { journal, versions, refusal: None });
        let (follower, scrubber) = (Mutex::new(Some(follower)), Mutex::new(scrubber));
        Ok((Self { writer, shared, follower, scrubber }, report))
    }

    /// How many groups were synced since the log was opened.
    #[must_use]
    pub fn sync_count(&self) -> u64 {
        self.writer.lock().journal.sync_count()
    }

    /// Whether the log takes appends.
    ///
    /// # Errors
    /// Why it does not.
    pub fn state(&self) -> Result<(), LogFailure> {
        if let ScrubState::Damaged { reason } = self.shared.scrub.state() {
            return Err(LogFailure::ReadOnly { reason });
        }
        // Whoever holds the lock is appending just now.
        let Some(writer) = self.writer.try_lock() else { return Ok(()) };
        if let Some(reason) = &writer.refusal {
            return Err(LogFailure::ReadOnly { reason: reason.clone() });
        }
        drop(writer);
        self.shared.check()?;
        self.shared.space.check().map_err(|shortage| LogFailure::Full { reason: shortage.to_string() })
    }

    /// The room that the log goes by.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.shared.space
    }

    /// Whether changes are taken, and how much room there is.
    #[must_use]
    pub fn storage(&self) -> StorageState {
        let (state, reason) = match self.state() {
            Ok(()) => (StorageKind::Ok, None),
            Err(LogFailure::Full { reason }) => (StorageKind::Full, Some(reason)),
            Err(failure) => (StorageKind::ReadOnly, Some(failure.to_string())),
        };
        StorageState { state, reason, ..self.shared.space.state() }
    }

    /// What was verified of the log, and what came of it.
    #[must_use]
    pub fn verified(&self) -> Verified {
        self.shared.scrub.verified()
    }

    /// Up to where HEAD is signed.
    #[must_use]
    pub fn signed(&self) -> Position {
        Position(self.shared.signed.load(Ordering::Relaxed))
    }

    /// Where the journal has the commit that ends at this position; `None` when no commit ends there.
    ///
    /// # Errors
    /// As [`Journal::read_from`], and when its segment is damaged.
    pub fn anchor(&self, position: Position) -> Result<Option<Anchor>, OpenError> {
        let reader = self.read_journal(Position(position.0.saturating_sub(1)));
        reader.and_then(|reader| reader.anchor_at(position)).inspect_err(|error| self.shared.note_damage(error))
    }

    /// Tells what streams must have: until what the start left for later is checked, one that ends earlier is damage.
    pub fn expect(&self, versions: StreamVersions) {
        self.shared.expect(versions);
    }

    /// How far sled has followed the journal.
    #[must_use]
    pub fn followed(&self) -> Position {
        Position(self.shared.tail.read().first_position().0 - 1)
    }

    /// Bytes of sled on the disk; `None` while it is not open, or cannot be looked at.
    #[must_use]
    pub fn index_bytes(&self) -> Option<u64> {
        let trees = self.shared.trees.read().clone();
        trees.and_then(|trees| trees.bytes().ok())
    }

    /// Reads the durable records of the journal that hold events after `after`: twice as fast as reading sled.
    ///
    /// # Errors
    /// As [`Journal::read_from`].
    pub fn read_journal(&self, after: Position) -> Result<JournalReader, OpenError> {
        self.writer.lock().journal.read_from(after)
    }

    /// Signs what the log is now, up to its last acknowledged event. Waits for an append that is going on.
    #[must_use]
    pub fn checkpoint(&self, at: Timestamp) -> SignedCheckpoint {
        self.writer.lock().journal.checkpoint(at)
    }

    /// Refuses further appends, brings sled up to the journal, makes HEAD and sled durable. Reads go on.
    ///
    /// # Errors
    /// When the file system refuses; what was acknowledged is safe all the same.
    pub fn close(&self) -> Result<(), LogFailure> {
        let mut writer = self.writer.lock();
        writer.refusal.get_or_insert_with(|| "the log was closed".to_owned());
        self.shared.queue.drain();
        self.join_follower();
        self.end_scrub();
        let failed = |doing: &str, reason: String| LogFailure::Storage { doing: doing.to_owned(), reason };
        writer.journal.close().map_err(|error| failed("close the journal", error.to_string()))?;
        let trees = self.shared.trees.read().clone();
        // One that is being opened again is brought up to the journal by the next start.
        let trees = trees.filter(|trees| !trees.has_stopped());
        trees.map_or(Ok(()), |trees| trees.flush()).map_err(|reason| failed("flush sled", reason))?;
        self.shared.mishaps.done(Step::SledFlushed);
        Ok(())
    }

    fn end_scrub(&self) {
        self.shared.scrub.stop();
        join(&self.scrubber, "checks the older part of the log");
    }

    fn join_follower(&self) {
        join(&self.follower, "fills sled");
    }
}

fn join(thread: &Mutex<Option<JoinHandle<()>>>, work: &str) {
    if thread.lock().take().is_some_and(|thread| thread.join().is_err()) {
        tracing::error!("the thread that {work} panicked");
    }
}

impl Drop for SledLog {
    /// Leaves sled as far as it is: the next start brings it up to the journal.
    fn drop(&mut self) {
        self.shared.queue.stop();
        self.join_follower();
        self.end_scrub();
        if let Err(error) = self.writer.get_mut().journal.close() {
            tracing::warn!(%error, "the journal could not be closed");
        }
    }
}

impl EventLog for SledLog {
    fn append(&self, group: Vec<Append>) -> Result<GroupOutcome, LogFailure> {
        let mut writer = self.writer.lock();
        if let Some(reason) = &writer.refusal {
            return Err(LogFailure::ReadOnly { reason: reason.clone() });
        }
        if let ScrubState::Damaged { reason } = self.shared.scrub.state() {
            return Err(LogFailure::ReadOnly { reason });
        }
        let space = &self.shared.space;
        space.check().map_err(|shortage| LogFailure::Full { reason: shortage.to_string() })?;
        let outcome = self.shared.wait_for_room().and_then(|()| writer.append(group, &self.shared));
        match &outcome {
            Ok(_) => space.taken(),
            Err(LogFailure::Full { reason }) => space.refused(reason),
            Err(failure) => writer.refusal = Some(failure.to_string()),
        }
        outcome
    }

    fn read_stream(&self, stream: &StreamId, after: Version) -> Result<Vec<RecordedEvent>, LogFailure> {
        // The tail first: what is not in it now has been in sled before.
        let (tail, tail_from) = {
            let tail = self.shared.tail.read();
            (tail.stream(stream), tail.first_position())
        };
        let tail_begins = tail.first().map(|commit| commit[0].version);
        let mut events = Vec::new();
        if tail_begins.is_none_or(|begins| after.0 + 1 < begins.0) {
            events = self.shared.read_stream(stream, after, (tail_begins, tail_from))?;
        }
        events.extend(tail.iter().flat_map(|commit| commit.iter()).filter(|event| event.version > after).cloned());
        self.shared.check_whole(stream, after, &events).map(|()| events)
    }

    fn read_all(&self, after: Position, limit: usize) -> Result<Vec<RecordedEvent>, LogFailure> {
        let (tail_begins, commits) = {
            let tail = self.shared.tail.read();
            (tail.first_position(), tail.commits_after(after, limit))
        };
        let in_sled = tail_begins.0.saturating_sub(after.0 + 1).min(limit as u64);
        let mut events = Vec::new();
        if in_sled > 0 {
            let last = Position(after.0 + in_sled);
            events = self.shared.read_all(after, last)?;
        }
        let room = limit - events.len();
        let tail = commits.iter().flat_map(|commit| commit.iter()).filter(|event| event.position > after);
        events.extend(tail.take(room).cloned());
        Ok(events)
    }

    fn head(&self) -> Position {
        self.shared.tail.read().head()
    }

    fn after_group(&self) {
        let mut writer = self.writer.lock();
        let signed = self.shared.disk.during(|| writer.journal.sign_head());
        self.shared.signed.store(writer.journal.signed().0, Ordering::Relaxed);
        let Err(error) = signed else { return };
        if self.shared.space.shortage(&error).is_none() {
            tracing::error!(%error, "HEAD could not be written: the log is read-only now");
            writer.refusal.get_or_insert_with(|| format!("HEAD could not be written: {error}"));
        }
    }
}

impl Writer {
    /// Of a group that fails nothing is left, neither in the journal nor in what is known of streams.
    fn append(&mut self, group: Vec<Append>, shared: &Shared) -> Result<GroupOutcome, LogFailure> {
        let mut before = Vec::with_capacity(group.len());
        let appended = self.try_append(group, shared, &mut before);
        if appended.is_err() {
            self.journal.forget_group();
            before.into_iter().rev().for_each(|(stream, version)| self.versions.set(&stream, version));
        }
        appended
    }

    /// Notes in `before` which versions the streams had.
    fn try_append(
        &mut self,
        group: Vec<Append>,
        shared: &Shared,
        before: &mut Vec<(StreamId, Version)>,
    ) -> Result<GroupOutcome, LogFailure> {
        let mut records = Vec::with_capacity(group.len());
        let mut outcome = Vec::with_capacity(group.len());
        for append in group {
            let actual = self.version(&append.stream, shared)?;
            before.push((append.stream.clone(), actual));
            outcome.push(append.check(actual).and_then(|()| self.stage(append, &mut records)));
        }
        if !records.is_empty() {
            let bytes = shared.disk.during(|| self.journal.write_group())?;
            let events = records.iter().map(|(commit, _)| commit.len()).sum();
            shared.publish(Handed { bytes, records, events });
            self.versions.age();
        }
        Ok(outcome)
    }

    fn stage(
        &mut self,
        append: Append,
        records: &mut Vec<(Commit, std::ops::Range<usize>)>,
    ) -> Result<Commit, AppendRefused> {
        let commit = append.record(self.journal.staged_head());
        if let Some(last) = commit.last() {
            let staged = self.journal.stage(&commit);
            let payload = staged.map_err(|refusal| AppendRefused::TooLarge { bytes: refusal.bytes })?;
            self.versions.set(&last.stream, last.version);
            records.push((commit.clone(), payload));
        }
        Ok(commit)
    }

    fn version(&self, stream: &StreamId, shared: &Shared) -> Result<Version, LogFailure> {
        if let Some(known) = self.versions.get(stream) {
            return Ok(known);
        }
        if let Some(recent) = shared.tail.read().version_of(stream) {
            return Ok(recent);
        }
        shared.stream_version(stream)
    }
}

pub(super) mod pending;
#[cfg(test)]
mod tests;
