//! The thread that applies the groups of the engine to the local log.
//!
//! After a start, the journal may already contain what a group admitted. Then the journal decides: an entry was
//! admitted if it is the next record, because every entry has its own event ids. From the end of the journal on, the
//! rules decide.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::admission::{self, AdmissionBatch, AdmissionError, AdmissionState, GroupDecision, StreamVersions};
use super::checkpoint::{EngineCheckpoint, write_state};
use super::format::{Group, GroupEntry};
use super::generation::LogGeneration;
use super::progress::NodeProgress;
use super::stamps::ChainStamps;
use crate::events::envelope::EncodedCommit;
use crate::events::guard::Tag;
use crate::events::journal::{JournalHead, JournalReader};
use crate::events::log::{AppendRejection, EventLog, LogFailure};
use crate::events::sled_log::SledLog;
use crate::events::stream::{Position, StreamId, Version};
use crate::telemetry::metrics::{AppendOutcome, ClusterMetrics};

/// Maximum number of groups that share a sync.
const BATCH_MAX: usize = 64;
/// Pause before the next attempt while the local disk is full.
const FULL_RETRY_DELAY: Duration = Duration::from_millis(500);
/// Time without groups after which HEAD is signed.
const IDLE_DELAY: Duration = Duration::from_millis(10);
/// Interval between two checkpoints while groups arrive.
const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(200);
/// Number of positions between two copies of what the rules remember.
const STATE_INTERVAL: u64 = 100_000;

/// Receives the commits that became durable, in order, before anyone waiting for them continues.
pub type OnCommits = Box<dyn FnMut(&[EncodedCommit]) + Send>;

/// Message of the thread that follows the engine.
pub enum FollowerMessage {
    /// The last group of the engine at the start.
    EngineEnd(u64),
    Group {
        sequence: u64,
        group: Vec<u8>,
    },
}

impl StreamVersions for SledLog {
    fn version(&self, stream: &StreamId, expected: Version) -> Result<Version, LogFailure> {
        self.stream_version(stream, expected)
    }
}

/// The part of the journal that a start has not met in the engine yet.
pub struct UnmetRecords {
    reader: JournalReader,
    next: Option<Vec<u8>>,
}

impl UnmetRecords {
    /// Reads the records after a position.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn after(position: Position, local: &SledLog) -> Result<Self, LogFailure> {
        let reader = local.read_journal(position).map_err(|error| damaged(position, &error))?;
        let mut records = Self { reader, next: None };
        records.advance(position)?;
        Ok(records)
    }

    fn advance(&mut self, position: Position) -> Result<(), LogFailure> {
        let record = self.reader.next_record().map_err(|error| damaged(position, &error))?;
        self.next = record.map(|record| record.payload.to_vec());
        Ok(())
    }
}

fn damaged(position: Position, reason: &dyn std::fmt::Display) -> LogFailure {
    LogFailure::Damaged { location: "the journal".to_owned(), position, reason: reason.to_string() }
}

/// Applies groups in the order of the engine.
pub struct GroupApplier {
    pub local: Arc<SledLog>,
    pub directory: PathBuf,
    pub progress: Arc<NodeProgress>,
    pub state: AdmissionState,
    /// The last applied group, and the end of the journal after it.
    pub sequence: u64,
    pub head: JournalHead,
    pub unmet: UnmetRecords,
    pub stamps: Arc<ChainStamps>,
    pub on_commits: OnCommits,
    pub metrics: ClusterMetrics,
    pub log: LogGeneration,
    /// Position of the last copy of `state`.
    pub saved_state: Position,
}

/// Decisions of a batch that is not in the local log yet.
#[derive(Default)]
struct DecidedBatch {
    commits: Vec<EncodedCommit>,
    decisions: Vec<(Group, GroupDecision)>,
    /// The attempt to end the log whose group the batch contains.
    ended_by: Option<u64>,
}

impl GroupApplier {
    /// Applies groups until the node stops.
    pub fn run(mut self, messages: &Receiver<FollowerMessage>) {
        let result = self.apply_all(messages);
        if result.is_ok() {
            self.save();
        }
        if let Err(failure) = result {
            // No checkpoint covers the group that ended the log, so that every later start meets it again.
            tracing::error!(%failure, sequence = self.sequence, "shared log stopped");
            self.progress.stop(failure);
        }
    }

    fn apply_all(&mut self, messages: &Receiver<FollowerMessage>) -> Result<(), LogFailure> {
        let mut saved_at = Instant::now();
        let mut saved_sequence = self.sequence;
        let mut unsigned = false;
        loop {
            let first = match messages.recv_timeout(IDLE_DELAY) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };

            if let Some(first) = first {
                let others = messages.try_iter().take(BATCH_MAX - 1);
                let batch: Vec<_> = std::iter::once(first).chain(others).collect();
                self.apply_batch(batch)?;
                if self.state.head().0 >= self.saved_state.0 + STATE_INTERVAL {
                    self.save();
                }
                unsigned = true;
            } else if std::mem::take(&mut unsigned) {
                self.local.after_group();
            }

            if self.sequence > saved_sequence && saved_at.elapsed() >= CHECKPOINT_INTERVAL {
                self.save_checkpoint();
                saved_at = Instant::now();
                saved_sequence = self.sequence;
            }
        }
    }

    fn apply_batch(&mut self, messages: Vec<FollowerMessage>) -> Result<(), LogFailure> {
        let local = Arc::clone(&self.local);
        let mut rules = AdmissionBatch::new(&*local);
        let mut batch = DecidedBatch::default();
        let mut engine_end = None;
        for message in messages {
            match message {
                FollowerMessage::Group { sequence, group } => {
                    self.decide(&mut rules, sequence, &group, &mut batch)?;
                }
                FollowerMessage::EngineEnd(end) => engine_end = Some(end),
            }
            if batch.ended_by.is_some() {
                break;
            }
        }

        self.record(&batch.commits)?;
        // Checked before `advance` lets this node send groups.
        if self.unmet.next.is_some() && self.progress.covers_start(self.sequence, engine_end) {
            let reason = format!("the journal continues after {}, but the engine does not", self.head.position);
            return Err(LogFailure::Diverged { reason });
        }
        if let Some(attempt) = batch.ended_by {
            // First, so that the node does not seem to have caught up.
            self.progress.end(attempt);
        }
        self.progress.advance(self.sequence, self.head, engine_end, batch.decisions);
        if batch.ended_by.is_some() { Err(LogFailure::Closed) } else { Ok(()) }
    }

    fn decide(
        &mut self,
        rules: &mut AdmissionBatch<'_>,
        sequence: u64,
        bytes: &[u8],
        batch: &mut DecidedBatch,
    ) -> Result<(), LogFailure> {
        let stop_reason = |error| match error {
            AdmissionError::Log(failure) => failure,
            AdmissionError::Commit { .. } => LogFailure::Diverged { reason: format!("group {sequence}: {error}") },
        };
        let diverged = |reason: String| LogFailure::Diverged { reason: format!("group {sequence}: {reason}") };
        if sequence != self.sequence + 1 {
            return Err(diverged(format!("it follows group {}", self.sequence)));
        }
        let group = Group::decode(bytes).map_err(|error| diverged(error.to_string()))?;
        self.check_stamp(&group).map_err(diverged)?;

        batch.ended_by = group.closing_attempt();
        let decision = if let Some(overtaken) = self.state.begin_group(&group, sequence) {
            let mut entries = Vec::with_capacity(group.entries.len());
            for (index, (entry, overtaken)) in group.entries.iter().zip(&overtaken).enumerate() {
                let decided = self.decide_entry(rules, entry, overtaken.as_ref(), index);
                let (decision, is_new) = decided.map_err(stop_reason)?;
                if is_new {
                    self.metrics.count_append(append_outcome(&decision));
                }
                if let Ok(admitted) = &decision {
                    self.advance_head(admitted);
                    batch.commits.extend(is_new.then(|| admitted.clone()));
                }
                entries.push(decision);
            }
            GroupDecision::Decided(entries)
        } else {
            GroupDecision::Void
        };

        self.sequence = sequence;
        self.stamps.push(sequence, self.head.chain);
        self.metrics.count_group(bytes.len(), decision == GroupDecision::Void);
        batch.decisions.push((group, decision));
        Ok(())
    }

    /// Decides an entry by the journal or the rules. The second value is `true` if the journal does not have it yet.
    fn decide_entry(
        &mut self,
        rules: &mut AdmissionBatch<'_>,
        entry: &GroupEntry,
        overtaken: Option<&Tag>,
        index: usize,
    ) -> Result<(Result<EncodedCommit, AppendRejection>, bool), AdmissionError> {
        let Some(recorded) = &self.unmet.next else {
            return rules.decide_entry(&mut self.state, entry, overtaken, index).map(|decision| (decision, true));
        };
        let placed = admission::place(&entry.commit, self.head.position, index)?;
        if placed.payload != *recorded {
            // No request waits for a group of an earlier run, so the rule does not matter.
            return Ok((Err(AppendRejection::Overtaken { tag: "the journal".to_owned() }), false));
        }
        self.unmet.advance(self.head.position)?;
        self.state.record(&placed.commit);
        Ok((Ok(placed), false))
    }

    /// Checks that the sender of the group had the same log as this node when it sent the group.
    fn check_stamp(&self, group: &Group) -> Result<(), String> {
        let Group { sequence_seen, chain_seen, .. } = group;
        if *sequence_seen > self.sequence {
            return Err(format!("its node had seen group {sequence_seen}, which does not precede it"));
        }
        // Groups older than the stamps cannot be compared. A node that far behind stops by its own comparison.
        if self.stamps.compare(*sequence_seen, *chain_seen) == Some(false) {
            return Err(format!("its node had another log after group {sequence_seen}"));
        }
        Ok(())
    }

    fn advance_head(&mut self, admitted: &EncodedCommit) {
        let last = admitted.commit.last().map_or(self.head.position, |event| event.position);
        self.head = JournalHead { position: last, chain: self.head.chain.next(&admitted.payload) };
    }

    /// Makes commits durable. Waits for disk space, because the other nodes have admitted them too.
    fn record(&mut self, commits: &[EncodedCommit]) -> Result<(), LogFailure> {
        if commits.is_empty() {
            return Ok(());
        }
        while let Err(failure) = self.local.append_encoded(commits) {
            match failure {
                LogFailure::Full { .. } if !self.progress.is_stopped() => thread::sleep(FULL_RETRY_DELAY),
                failure => return Err(failure),
            }
        }
        if self.local.journal_head() != self.head {
            return Err(LogFailure::Diverged { reason: "the journal has another end than computed".to_owned() });
        }

        (self.on_commits)(commits);
        Ok(())
    }

    fn save(&mut self) {
        // First, because a start cannot use a state beyond the checkpoint.
        self.save_checkpoint();
        self.save_state();
    }

    fn save_checkpoint(&self) {
        // A backup contains the checkpoint and the journal up to the signed HEAD, which must not end before it.
        self.local.after_group();
        let sessions = self.state.sessions().clone();
        let checkpoint = EngineCheckpoint { sequence: self.sequence, head: self.head, sessions };
        // A failure costs time at the next start and nothing else: the journal is durable.
        if let Err(error) = checkpoint.write(&self.directory, self.log) {
            tracing::warn!(%error, "engine checkpoint not written");
        }
    }

    fn save_state(&mut self) {
        match write_state(&self.directory, &self.state, self.head.chain) {
            Ok(()) => self.saved_state = self.state.head(),
            Err(error) => tracing::warn!(%error, "admission state not written"),
        }
    }
}

fn append_outcome(decision: &Result<EncodedCommit, AppendRejection>) -> AppendOutcome {
    match decision {
        Ok(_) => AppendOutcome::Admitted,
        Err(AppendRejection::Claimed) => AppendOutcome::Claimed,
        Err(AppendRejection::Overtaken { .. }) => AppendOutcome::Overtaken,
        Err(AppendRejection::Conflict { .. } | AppendRejection::TooLarge { .. }) => AppendOutcome::Conflict,
    }
}
