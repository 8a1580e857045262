//! State shared by readers, the writer and the thread that fills sled: sled, if it is open, the tail and the queue.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use parking_lot::RwLock;

use super::log::pending::Disk;
use super::scrub::{Scrub, ScrubState};
use super::{Flaw, Trees};
use crate::clock::{Mishaps, Step};
use crate::data_dir::write_private;
use crate::events::envelope::{Commit, RecordedEvent};
use crate::events::follower::{Handed, Queue};
use crate::events::journal::Place;
use crate::events::log::LogFailure;
use crate::events::stream::{Position, StreamId, Version};
use crate::events::stream_versions::StreamVersions;
use crate::events::tail::Tail;
use crate::space::Space;

pub(super) struct Shared {
    /// Sled; `None` while it is being reopened.
    pub trees: RwLock<Option<Arc<Trees>>>,
    pub tail: RwLock<Tail>,
    pub queue: Queue,
    /// Read while sled is not available.
    pub journal: Place,
    /// Directory of sled.
    pub directory: PathBuf,
    /// Marker file of damage in sled. It makes the next opening rebuild sled.
    pub damage_mark: PathBuf,
    pub space: Space,
    /// Background check of the part that the start has deferred.
    pub scrub: Scrub,
    /// Expected stream versions, until that check is complete.
    pub expected: RwLock<Option<StreamVersions>>,
    /// Marker file of damage in the journal. It makes the next opening check everything.
    pub suspicion: PathBuf,
    /// Position up to which HEAD is signed.
    pub signed: AtomicU64,
    /// Disk request of the writer.
    pub disk: Disk,
    pub mishaps: Mishaps,
}

impl Shared {
    /// Waits until the lag of sled is within its limit.
    pub fn wait_for_room(&self) -> Result<(), LogFailure> {
        self.queue.wait_for_room().map_err(|reason| LogFailure::Full { reason })
    }

    /// Checks that sled is being filled.
    pub fn check(&self) -> Result<(), LogFailure> {
        self.queue.stalled().map_or(Ok(()), |reason| Err(LogFailure::Full { reason }))
    }

    /// Makes a durable group visible to readers. The tail comes before the queue, because events that sled has are
    /// removed from the tail.
    pub fn publish(&self, group: Handed) {
        let mut tail = self.tail.write();
        for (commit, _) in &group.records {
            tail.push(commit.clone());
        }
        drop(tail);
        self.queue.push(group);
        self.mishaps.done(Step::Published);
    }

    /// Fills sled until the queue ends.
    pub fn follow(&self) {
        while let Some(groups) = self.queue.take(super::log::BATCH_EVENTS) {
            let started = Instant::now();
            let records = groups.iter().flat_map(|group| {
                group.records.iter().map(|(commit, payload)| (commit, &group.bytes[payload.clone()]))
            });
            let records: Vec<_> = records.collect();

            while let Err(reason) = self.fill(&records) {
                if !self.bring_back(&reason) {
                    return;
                }
            }

            if let Some(last) = records.last().and_then(|(commit, _)| commit.last()) {
                self.tail.write().evict_through(last.position);
            }

            self.queue.done(groups.iter().map(|group| group.bytes.len()).sum());
            self.queue.rest(started.elapsed());
        }
    }

    fn fill(&self, records: &[(&Commit, &[u8])]) -> Result<(), String> {
        let trees = self.trees.read().clone().ok_or("sled is closed")?;
        trees.insert(records, || self.mishaps.done(Step::SledIndexed))?;
        self.mishaps.done(Step::SledInserted);
        trees.stopped.get().map_or(Ok(()), |reason| Err(reason.clone()))
    }

    /// Stores the expected stream versions, unless the whole log was checked.
    pub fn expect(&self, versions: StreamVersions) {
        let mut expected = self.expected.write();
        if self.scrub.state() != ScrubState::Whole {
            *expected = Some(versions);
        }
    }

    /// Checks that these are all events of a stream after version `after`, as far as is known.
    pub fn check_whole(&self, stream: &StreamId, after: Version, events: &[RecordedEvent]) -> Result<(), LogFailure> {
        let expected = (after.0 + 1..).map(Version);
        match events.iter().zip(expected).find(|(event, version)| event.version != *version) {
            None => self.check_end(stream, events.last().map_or(after, |event| event.version)),
            Some((event, version)) => {
                let reason = format!("version {version} of stream {stream} is missing");
                Err(self.damaged(Flaw { position: event.position, reason }))
            }
        }
    }

    /// Checks that a stream with this version has not lost its end, as far as is known.
    fn check_end(&self, stream: &StreamId, version: Version) -> Result<(), LogFailure> {
        let least = self.expected.read().as_ref().map_or(Version(0), |expected| expected.least(stream));
        if version >= least {
            return Ok(());
        }
        let reason = format!("stream {stream} ends with version {version} instead of {least}");
        Err(self.damaged(Flaw { position: Position(0), reason }))
    }

    /// The version of a stream before the tail.
    pub fn stream_version(&self, stream: &StreamId) -> Result<Version, LogFailure> {
        let Some(version) = self.ask(|trees| trees.stream_version(stream))? else {
            return self.version_in_journal(stream);
        };
        self.check_end(stream, version).map(|()| version)
    }

    /// Reads a stream from sled ([`Trees::read_stream`]), or from the journal if sled is not available.
    pub fn read_stream(
        &self,
        stream: &StreamId,
        after: Version,
        bounds: (Option<Version>, Position),
    ) -> Result<Vec<RecordedEvent>, LogFailure> {
        let found = self.ask(|trees| {
            let mut events = Vec::new();
            trees.read_stream(stream, after, bounds, &mut events).map(|()| events)
        });
        found?.map_or_else(|| self.stream_in_journal(stream, after, bounds.1), Ok)
    }

    /// Reads events from sled ([`Trees::read_all`]), or from the journal if sled is not available.
    pub fn read_all(&self, after: Position, last: Position) -> Result<Vec<RecordedEvent>, LogFailure> {
        let found = self.ask(|trees| {
            let mut events = Vec::new();
            trees.read_all(after, last, &mut events).map(|()| events)
        });
        found?.map_or_else(|| self.all_in_journal(after, last), Ok)
    }

    /// Queries sled; `None` if it is not available.
    fn ask<T>(&self, question: impl FnOnce(&Trees) -> Result<T, Flaw>) -> Result<Option<T>, LogFailure> {
        let Some(trees) = self.trees.read().clone() else { return Ok(None) };
        match question(&trees) {
            Ok(answer) => Ok(Some(answer)),
            Err(_) if trees.has_stopped() => {
                self.queue.nudge();
                Ok(None)
            }
            Err(flaw) => Err(self.damaged(flaw)),
        }
    }

    /// Makes the next start rebuild sled, also after a power cut.
    pub fn mark_sled(&self, reason: &str) {
        if let Err(error) = write_private(&self.damage_mark, reason.as_bytes()) {
            tracing::error!(%error, "the damage could not be noted: delete the sled directory before the next start");
        }
    }

    /// Makes the next start read the whole journal, also after a power cut.
    pub fn mark_journal(&self, reason: &str) {
        if let Err(error) = write_private(&self.suspicion, reason.as_bytes()) {
            tracing::error!(%error, "the damage could not be noted: delete the snapshots before the next start");
        }
    }

    /// Records damage in sled, which the next start rebuilds.
    pub fn damaged(&self, flaw: Flaw) -> LogFailure {
        let Flaw { position, reason } = flaw;
        tracing::error!(%position, reason, "damage in sled: it is rebuilt from the journal at the next start");
        self.mark_sled(&reason);
        self.scrub.met_in_sled(&format!("damage in sled at position {position}: {reason}"));
        LogFailure::Damaged { place: "sled".to_owned(), position, reason }
    }
}
