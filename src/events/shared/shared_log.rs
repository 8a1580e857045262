//! The log of a node that shares it with others: proposes appends to the engine, and serves reads from the local log.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use uuid::Uuid;

use super::admission::{self, AdmissionState, GroupDecision};
use super::applier::{FollowerMessage, GroupApplier, OnCommits, UnmetRecords};
use super::checkpoint::{EngineCheckpoint, read_state};
use super::engine::{Engine, EngineFault, EngineIncidents, EngineSignal, SendResult};
use super::format::{Group, GroupEntry, UnplacedCommit};
use super::generation::LogGeneration;
use super::progress::{NodeProgress, StopOnExit};
use super::stamps::ChainStamps;
use crate::events::envelope::{Append, RecordedEvent};
use crate::events::journal::{ChainHash, JournalHead};
use crate::events::log::{AppendRejection, EventLog, GroupOutcome, LogFailure};
use crate::events::sled_log::SledLog;
use crate::events::stream::{Position, StreamId, Version};
use crate::telemetry::metrics::ClusterMetrics;

/// Maximum number of groups that are received and not applied yet.
const QUEUE_MAX: usize = 64;
/// Pause before a group is sent again.
const RESEND_DELAY: Duration = Duration::from_millis(50);
/// Pause before the engine is asked again for its end.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Options of a shared log.
#[derive(Debug, Clone)]
pub struct SharedLogOptions {
    /// Directory of the local log.
    pub directory: PathBuf,
    /// Number of the generation that the engine has.
    pub generation: u64,
    /// Id of this run of the node; never used before.
    pub session: Uuid,
    /// Time after which the outcome of an append is unknown.
    pub write_timeout: Duration,
    pub metrics: ClusterMetrics,
}

/// A log that several nodes share.
///
/// Appends go through the engine, and are acknowledged when the local log has them. Reads are local.
pub struct SharedLog {
    local: Arc<SledLog>,
    engine: Arc<dyn Engine>,
    options: SharedLogOptions,
    progress: Arc<NodeProgress>,
    stamps: Arc<ChainStamps>,
    /// Counter of the last group of this node. Locked while a group is in flight.
    group_counter: Mutex<u64>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl SharedLog {
    /// Opens the log and continues where the node stopped. `on_commits` receives the commits that the local log does
    /// not have yet, as soon as they are durable.
    ///
    /// Does not wait for the engine; see [`SharedLog::wait_until_caught_up`].
    ///
    /// # Errors
    /// If the local log cannot be read, or contradicts the last checkpoint.
    pub fn open(
        local: Arc<SledLog>,
        engine: Arc<dyn Engine>,
        options: SharedLogOptions,
        on_commits: OnCommits,
    ) -> Result<Self, LogFailure> {
        let log = LogGeneration { log_id: local.log_id(), number: options.generation };
        let EngineCheckpoint { sequence, head, sessions } = Self::read_checkpoint(&local, &options.directory, log)?;

        let mut state = load_state(&local, &options, head.position)?;
        let saved_state = state.head();
        state.set_sessions(sessions);

        let progress = Arc::new(NodeProgress::new(options.session, sequence, head));
        let stamps = Arc::new(ChainStamps::new(sequence, head.chain));
        let applier = GroupApplier {
            local: Arc::clone(&local),
            directory: options.directory.clone(),
            progress: Arc::clone(&progress),
            state,
            sequence,
            head,
            unmet: UnmetRecords::after(head.position, &local)?,
            stamps: Arc::clone(&stamps),
            on_commits,
            metrics: options.metrics.clone(),
            log,
            saved_state,
        };

        let (sender, receiver) = sync_channel(QUEUE_MAX);
        let group_counter = Mutex::new(0);
        let threads = Mutex::default();
        let log = Self { local, engine, options, progress, stamps, group_counter, threads };
        log.start_threads(applier, sequence, sender, receiver)?;
        Ok(log)
    }

    /// Returns the checkpoint of a local log in `directory`: the last group of the engine that it has applied.
    ///
    /// # Errors
    /// If the journal cannot be read, or contradicts the checkpoint.
    pub fn read_checkpoint(
        local: &SledLog,
        directory: &Path,
        log: LogGeneration,
    ) -> Result<EngineCheckpoint, LogFailure> {
        let diverged = |reason| LogFailure::Diverged { reason };
        let checkpoint = EngineCheckpoint::read(directory, log).map_err(diverged)?;
        // Without a checkpoint, the engine has the log from its beginning.
        let checkpoint = checkpoint.unwrap_or_else(|| EngineCheckpoint::empty(log.log_id));
        if contains_head(local, checkpoint.head)? {
            return Ok(checkpoint);
        }
        let position = checkpoint.head.position;
        Err(diverged(format!("the journal does not contain the end of the last checkpoint, position {position}")))
    }

    /// Starts a thread that receives groups from the engine, and one that applies them.
    fn start_threads(
        &self,
        applier: GroupApplier,
        sequence: u64,
        sender: SyncSender<FollowerMessage>,
        receiver: Receiver<FollowerMessage>,
    ) -> Result<(), LogFailure> {
        let failed = |error: std::io::Error| LogFailure::Storage {
            doing: "start a thread of the shared log".to_owned(),
            reason: error.to_string(),
        };

        let engine = Arc::clone(&self.engine);
        let progress = Arc::clone(&self.progress);
        let follow = move || {
            let _stop = StopOnExit(Arc::clone(&progress));
            follow(&*engine, &progress, sequence, &sender);
        };
        let stop = StopOnExit(Arc::clone(&self.progress));
        let apply = move || {
            let _stop = stop;
            applier.run(&receiver);
        };

        let mut threads = self.threads.lock();
        let thread = |name: &str| thread::Builder::new().name(name.to_owned());
        threads.push(thread("engine-follower").spawn(follow).map_err(failed)?);
        threads.push(thread("group-applier").spawn(apply).map_err(failed)?);
        Ok(())
    }

    /// Sends the appends in groups and adds their outcomes in order. Keeps the outcomes before a failure.
    fn send_appends(&self, appends: Vec<Append>, outcome: &mut GroupOutcome) -> Result<(), LogFailure> {
        let mut counter = self.group_counter.lock();
        let mut entries = Vec::new();
        for mut append in appends {
            if append.events.is_empty() {
                // An append without events is only checked, so the engine need not order it; but the appends before it
                // come first.
                self.send_entries(&mut counter, &mut entries, outcome)?;
                let actual = self.local.stream_version(&append.stream, append.expected)?;
                outcome.push(append.check_version(actual).map(|()| append.into_commit(self.local.head())));
                continue;
            }

            let guards = std::mem::take(&mut append.guards);
            match UnplacedCommit::from_append(append) {
                Ok(commit) => {
                    check_decodable(&commit)?;
                    entries.push(GroupEntry { guards, commit });
                }
                Err(error) => {
                    self.send_entries(&mut counter, &mut entries, outcome)?;
                    outcome.push(Err(AppendRejection::TooLarge { bytes: error.bytes }));
                }
            }
        }

        self.send_entries(&mut counter, &mut entries, outcome)
    }

    /// Sends the entries in as many groups as they need, one after the other, and adds their outcomes. Leaves `entries`
    /// empty.
    fn send_entries(
        &self,
        counter: &mut u64,
        entries: &mut Vec<GroupEntry>,
        outcome: &mut GroupOutcome,
    ) -> Result<(), LogFailure> {
        while !entries.is_empty() {
            let others = entries.split_off(Group::entries_that_fit(entries));
            let group = std::mem::replace(entries, others);
            outcome.extend(self.send_group(counter, group)?);
        }
        Ok(())
    }

    /// Sends one group, again and again until it is applied, and returns the outcomes of its entries.
    fn send_group(&self, counter: &mut u64, entries: Vec<GroupEntry>) -> Result<GroupOutcome, LogFailure> {
        self.progress.check()?;
        let deadline = Instant::now() + self.options.write_timeout;
        // A group sent earlier could get the sequence of a group that the engine has lost, and hide the loss. Its
        // outcome would also be known only after everything before it was applied.
        if !self.progress.wait_for_start(deadline)? {
            let reason = "the node has not yet applied all groups from before its start".to_owned();
            return Err(LogFailure::Unreachable { reason });
        }

        *counter += 1;
        let (sequence_seen, chain_seen) = self.progress.begin_wait(*counter);
        let group = Group { session: self.options.session, counter: *counter, sequence_seen, chain_seen, entries };
        let bytes = encode(&group)?;

        let mut may_be_stored = false;
        let started_at = Instant::now();
        loop {
            self.options.metrics.count_send();
            let sent = self.engine.send(&bytes);
            may_be_stored |= matches!(sent, SendResult::Stored { .. } | SendResult::Unknown { .. });
            let wait_until = match &sent {
                SendResult::Stored { sequence } => {
                    self.check_not_shorter(*sequence, sequence_seen)?;
                    deadline
                }
                SendResult::Full { reason } if !may_be_stored => {
                    return Err(LogFailure::Full { reason: reason.clone() });
                }
                _ => deadline.min(Instant::now() + RESEND_DELAY),
            };

            match self.progress.wait_for_decision(wait_until) {
                Ok(Some(decision)) => {
                    self.options.metrics.observe_group(started_at.elapsed());
                    return self.outcomes_of(decision);
                }
                Ok(None) => {}
                // The other nodes may admit the group although this one has stopped.
                Err(failure) if may_be_stored => return Err(unknown_after(&failure)),
                Err(failure) => return Err(failure),
            }
            if Instant::now() >= deadline {
                return Err(self.failure_of(&sent, may_be_stored));
            }
        }
    }

    /// Stops the node if the engine stored a new group at a sequence that the node has already applied: the engine has
    /// lost groups.
    fn check_not_shorter(&self, sequence: u64, applied: u64) -> Result<(), LogFailure> {
        if sequence > applied {
            return Ok(());
        }
        let fault = EngineFault::Shorter { last: sequence, applied };
        let failure = LogFailure::Diverged { reason: fault.to_string() };
        self.progress.stop(failure.clone());
        Err(failure)
    }

    /// Waits until this node has applied everything that any node had acknowledged before the call.
    ///
    /// Sends an empty group. [`Engine::last`] is not sufficient, because a former leader may return an old end.
    ///
    /// # Errors
    /// If the engine does not respond in time, or the node applies no more groups.
    pub fn catch_up(&self) -> Result<(), LogFailure> {
        self.send_group(&mut self.group_counter.lock(), Vec::new()).map(drop)
    }

    /// Returns the outcomes of a group's entries. Stops the node if the group is void, because another node has the
    /// same session id.
    fn outcomes_of(&self, decision: GroupDecision) -> Result<GroupOutcome, LogFailure> {
        let GroupDecision::Decided(entries) = decision else {
            let failure = LogFailure::Diverged { reason: "another node uses the session id of this one".to_owned() };
            self.progress.stop(failure.clone());
            return Err(failure);
        };
        Ok(entries.into_iter().map(|entry| entry.map(|admitted| admitted.commit)).collect())
    }

    /// Returns the failure of a group that was not applied in time; `sent` is the result of the last attempt.
    fn failure_of(&self, sent: &SendResult, may_be_stored: bool) -> LogFailure {
        let reason = match sent {
            SendResult::Stored { .. } => "the engine has stored the group, but has not returned it".to_owned(),
            SendResult::Unknown { reason } | SendResult::NotStored { reason } | SendResult::Full { reason } => {
                reason.clone()
            }
        };
        let reason = format!("after {:?}: {reason}", self.options.write_timeout);
        if may_be_stored { LogFailure::OutcomeUnknown { reason } } else { LogFailure::Unreachable { reason } }
    }

    /// Waits until the node has applied everything that the engine contains now. Returns `false` if it has not in time.
    ///
    /// # Errors
    /// Returns the reason if the node applies no more groups.
    pub fn wait_until_caught_up(&self, timeout: Duration) -> Result<bool, LogFailure> {
        let deadline = Instant::now() + timeout;
        let last = loop {
            self.progress.check()?;
            match self.engine.last() {
                Ok(last) => break last,
                Err(_) if Instant::now() >= deadline => return Ok(false),
                Err(_) => thread::sleep(RETRY_DELAY),
            }
        };
        let is_caught_up = self.progress.wait_for_sequence(last, deadline)?;
        self.progress.check()?;
        Ok(is_caught_up)
    }

    /// Checks that the node applies groups.
    ///
    /// # Errors
    /// Returns the reason if not.
    pub fn state(&self) -> Result<(), LogFailure> {
        self.progress.check()
    }

    /// Returns the time since the engine responded.
    #[must_use]
    pub fn engine_silence(&self) -> Duration {
        self.progress.silence()
    }

    /// Returns the maximum time by which the local log may be behind the engine, as far as this node knows.
    #[must_use]
    pub fn staleness(&self) -> Duration {
        self.progress.silence().max(self.progress.stalled())
    }

    /// Returns the number of the generation that the engine has.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.options.generation
    }

    /// Returns the sequence of the last applied group.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.progress.sequence()
    }

    /// Returns `true` if this log had the hash `chain` after the group `sequence`; `None` if that is no longer known.
    #[must_use]
    pub fn compare(&self, sequence: u64, chain: ChainHash) -> Option<bool> {
        self.stamps.compare(sequence, chain)
    }

    /// Returns the last applied group, and the end of the log after it.
    #[must_use]
    pub fn applied(&self) -> (u64, JournalHead) {
        self.progress.applied()
    }

    /// Returns the incidents of the engine since it was opened.
    #[must_use]
    pub fn engine_incidents(&self) -> EngineIncidents {
        self.engine.incidents()
    }

    #[must_use]
    pub fn metrics(&self) -> &ClusterMetrics {
        &self.options.metrics
    }

    /// Stops the node, because its log is not that of the other nodes.
    pub fn stop_as_diverged(&self, reason: &str) {
        self.progress.stop(LogFailure::Diverged { reason: reason.to_owned() });
        tracing::error!(reason, "shared log stopped");
    }

    /// Stops the node, because the log continues in another generation.
    pub fn stop_as_ended(&self, reason: &str) {
        self.progress.stop(LogFailure::Closed);
        tracing::error!(reason, "shared log stopped");
    }

    /// Stops following the engine and rejects further appends. The local log stays open.
    pub fn close(&self) {
        self.progress.stop(LogFailure::ReadOnly { reason: "the log was closed".to_owned() });
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("thread of the shared log panicked");
            }
        }
    }

    /// Returns the attempt that ended the log, once this node has everything that precedes the end.
    #[must_use]
    pub fn ended_by(&self) -> Option<u64> {
        self.progress.ended_by()
    }

    /// Ends the log: no node can append after that. Waits until this node has everything that precedes the end. Another
    /// attempt may have ended it first: see [`SharedLog::ended_by`].
    ///
    /// # Errors
    /// If the engine does not respond in time, or another failure stopped the node.
    pub fn end(&self, attempt: u64) -> Result<(), LogFailure> {
        let deadline = Instant::now() + self.options.write_timeout;
        let mut counter = self.group_counter.lock();
        if !self.progress.wait_for_start(deadline)? {
            return Err(LogFailure::Unreachable { reason: "the node has not caught up".to_owned() });
        }

        *counter += 1;
        let (sequence_seen, chain_seen) = self.progress.begin_wait(*counter);
        let bytes = encode(&Group::closing(attempt, sequence_seen, chain_seen))?;

        loop {
            let sent = self.engine.send(&bytes);
            match self.progress.wait_for_decision(deadline.min(Instant::now() + RESEND_DELAY)) {
                Err(LogFailure::Closed) => return Ok(()),
                Err(failure) => return Err(failure),
                Ok(_) if Instant::now() >= deadline => return Err(self.failure_of(&sent, true)),
                Ok(_) => {}
            }
        }
    }

    /// Checks that the local log agrees with the shared log, so that reads return its events.
    fn check_readable(&self) -> Result<(), LogFailure> {
        match self.progress.check() {
            Err(failure @ (LogFailure::Diverged { .. } | LogFailure::Closed)) => Err(failure),
            _ => Ok(()),
        }
    }
}

impl Drop for SharedLog {
    fn drop(&mut self) {
        self.close();
    }
}

impl EventLog for SharedLog {
    fn append(&self, group: Vec<Append>) -> Result<GroupOutcome, LogFailure> {
        self.progress.check()?;
        let mut outcome = Vec::with_capacity(group.len());
        match self.send_appends(group, &mut outcome) {
            Ok(()) => Ok(outcome),
            // Appends of an earlier group are recorded, so the caller must not take the failure as a rejection of all.
            Err(failure) if outcome.iter().any(Result::is_ok) => Err(unknown_after(&failure)),
            Err(failure) => Err(failure),
        }
    }

    fn read_stream(&self, stream: &StreamId, after: Version) -> Result<Vec<RecordedEvent>, LogFailure> {
        self.check_readable()?;
        self.local.read_stream(stream, after)
    }

    fn read_all(&self, after: Position, limit: usize) -> Result<Vec<RecordedEvent>, LogFailure> {
        self.check_readable()?;
        self.local.read_all(after, limit)
    }

    fn head(&self) -> Position {
        self.local.head()
    }

    fn is_shared(&self) -> bool {
        true
    }
}

fn unknown_after(failure: &LogFailure) -> LogFailure {
    LogFailure::OutcomeUnknown { reason: failure.to_string() }
}

/// Encodes a group for the engine.
fn encode(group: &Group) -> Result<Vec<u8>, LogFailure> {
    group
        .encode()
        .map_err(|error| LogFailure::Storage { doing: "encode a group".to_owned(), reason: error.to_string() })
}

/// Checks that a commit can be decoded. One that cannot would stop every node once it is sent.
fn check_decodable(commit: &UnplacedCommit) -> Result<(), LogFailure> {
    match admission::place(commit, Position(0), 0) {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(LogFailure::Storage { doing: "check a commit before it is sent".to_owned(), reason: error.to_string() })
        }
    }
}

/// Returns `true` if the log had this end at some time.
///
/// # Errors
/// If the journal cannot be read.
pub fn contains_head(local: &SledLog, head: JournalHead) -> Result<bool, LogFailure> {
    let found = match head.position {
        Position(0) => Some(ChainHash::genesis(local.log_id())),
        position if position > local.head() => None,
        position => {
            let anchor = local.anchor(position).map_err(|error| LogFailure::Damaged {
                location: "the journal".to_owned(),
                position,
                reason: error.to_string(),
            })?;
            anchor.map(|anchor| anchor.chain)
        }
    };
    Ok(found == Some(head.chain))
}

/// Returns the state of the admission rules at `position`, the end of the last checkpoint. The applier adds the records
/// after it group by group, because a power cut may have left only a part of the last group.
fn load_state(local: &SledLog, options: &SharedLogOptions, position: Position) -> Result<AdmissionState, LogFailure> {
    let is_of_this_log = |(state, chain): &(AdmissionState, ChainHash)| {
        state.head() <= position
            && contains_head(local, JournalHead { position: state.head(), chain: *chain }).unwrap_or(false)
    };
    let saved = read_state(&options.directory).filter(is_of_this_log);
    let mut state = saved.map(|(state, _)| state).unwrap_or_default();
    let failed = |error: &dyn std::fmt::Display| LogFailure::Damaged {
        location: "the journal".to_owned(),
        position: Position(0),
        reason: error.to_string(),
    };

    let mut reader = local.read_journal(state.head()).map_err(|error| failed(&error))?;
    while let Some(record) = reader.next_record().map_err(|error| failed(&error))? {
        if record.commit.last().is_some_and(|event| event.position > position) {
            break;
        }
        state.record(&record.commit);
    }
    Ok(state)
}

/// Passes the groups of the engine after group `applied` to the applier, until the node stops.
fn follow(engine: &dyn Engine, progress: &NodeProgress, applied: u64, sender: &SyncSender<FollowerMessage>) {
    let stop = |fault: EngineFault| progress.stop(LogFailure::Diverged { reason: fault.to_string() });
    let end = loop {
        match engine.last() {
            _ if progress.is_stopped() => return,
            Ok(last) => break last,
            Err(_) => thread::sleep(RETRY_DELAY),
        }
    };
    if end < applied {
        return stop(EngineFault::Shorter { last: end, applied });
    }
    let _ = sender.send(FollowerMessage::EngineEnd(end));

    let followed = engine.follow(applied, &mut |signal| {
        if signal != EngineSignal::Silent {
            progress.record_response();
        }
        if progress.is_stopped() {
            return ControlFlow::Break(());
        }

        let EngineSignal::Group { sequence, group } = signal else { return ControlFlow::Continue(()) };
        progress.record_received(sequence);
        match sender.send(FollowerMessage::Group { sequence, group }) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    if let Err(fault) = followed {
        stop(fault);
    }
}
