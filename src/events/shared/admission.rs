//! Rules by which every node decides, in the order of the engine, which appends are admitted. Frozen with format 1.
//!
//! The decision is a function of the groups before it. It does not depend on the node, its clock, or how many groups it
//! takes at once: [`AdmissionBatch`] keeps the versions of appends that are admitted but not yet in the local log.
//!
//! A group is void if its counter is not greater than the last one of its session. Otherwise each append is admitted if
//! 1. its idempotency claim is not held: no other request has claimed the key in the 24 hours before, by the times of the
//!    two events, and no append has the same claim,
//! 2. its stream has the expected version,
//! 3. every guard is younger than [`TAG_WINDOW`] positions, and nothing touched its tag between the guard's position and
//!    the group. Tags that the group itself touches do not count: its node has decided its appends one after the other.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::format::{Group, GroupEntry, UnplacedCommit};
use crate::domain::claim::ClaimEvent;
use crate::domain::event::Event;
use crate::domain::ids::StreamKind;
use crate::domain::node::NodeEvent;
use crate::domain::publisher::PublisherEvent;
use crate::domain::task::{Submission, TaskEvent};
use crate::events::codec;
use crate::events::envelope::{Commit, EncodedCommit, NewEvent, RecordedEvent};
use crate::events::guard::{Guard, Tag};
use crate::events::log::{AppendRejection, LogFailure};
use crate::events::schema::CommitDecodeError;
use crate::events::stream::{Position, StreamId, Version};

/// Number of positions for which touches of tags are kept. Older guards are refused.
pub const TAG_WINDOW: u64 = 1_000_000;
/// Retention of a claim in microseconds of event time.
const CLAIM_RETENTION_MICROS: i64 = 24 * 60 * 60 * 1_000_000;
/// Maximum number of expired claims that one new claim removes. Few, because the claims of a node whose clock is ahead
/// would otherwise remove claims that others still need.
const FORGOTTEN_BY_CLAIM: usize = 2;
/// Number of sessions whose counter is kept, the most recently used. If a group of a forgotten session appears again,
/// its appends are rejected because of the versions of their streams.
const SESSIONS_MAX: usize = 4096;

/// Source of the versions of streams before a batch.
pub trait StreamVersions {
    /// Returns the version of a stream. The expected one only helps to find it.
    ///
    /// # Errors
    /// If it cannot be read.
    fn version(&self, stream: &StreamId, expected: Version) -> Result<Version, LogFailure>;
}

/// Result of a group.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupDecision {
    /// The group appeared before, or a later one of its session did. It changes nothing.
    Void,
    /// The decision of each entry, in order.
    Decided(Vec<Result<EncodedCommit, AppendRejection>>),
}

/// Reason why no decision was possible. The node must stop, because the other nodes may have decided.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AdmissionError {
    /// An entry is not a commit that this release can read.
    #[error("entry {index} of a group is not a commit: {reason}")]
    Commit { index: usize, reason: CommitDecodeError },
    /// The version of a stream cannot be read.
    #[error(transparent)]
    Log(#[from] LogFailure),
}

/// State of the rules, which depends only on the log so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AdmissionState {
    head: u64,
    sessions: Sessions,
    claims: HeldClaims,
    tags: TouchedTags,
}

impl AdmissionState {
    /// Returns the position of the last admitted event.
    #[must_use]
    pub fn head(&self) -> Position {
        Position(self.head)
    }

    /// Returns the counters of the sessions.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Replaces the counters of the sessions, which the journal does not contain.
    pub fn set_sessions(&mut self, sessions: Sessions) {
        self.sessions = sessions;
    }

    /// Records the counter of the next group. Returns the overtaken tag of each entry, or `None` if the group is void.
    #[must_use]
    pub fn begin_group(&mut self, group: &Group, sequence: u64) -> Option<Vec<Option<Tag>>> {
        let is_later = self.sessions.advance(group.session, group.counter, sequence);
        is_later.then(|| group.entries.iter().map(|entry| self.overtaken_tag(&entry.guards)).collect())
    }

    /// Records an admitted commit, which was just decided or is in the journal.
    pub fn record(&mut self, commit: &Commit) {
        for event in commit.iter() {
            self.head = event.position.0;
            if let Event::Claim(claim) = &event.event {
                self.claims.insert(claim, event.at.micros());
            }
            for tag in touched_tags(&event.stream, &event.event) {
                self.tags.touch(&tag, event.position.0);
            }
        }
        self.tags.forget_before(self.head);
    }

    fn check(&self, commit: &Commit, overtaken: Option<&Tag>, actual: Version) -> Result<(), AppendRejection> {
        let first = &commit[0];
        for event in commit.iter() {
            if let Event::Claim(claim) = &event.event
                && self.claims.is_held(claim, event.at.micros())
            {
                return Err(AppendRejection::Claimed);
            }
        }

        let expected = version_before(first);
        if actual != expected {
            return Err(AppendRejection::Conflict { stream: first.stream.clone(), expected, actual });
        }

        match overtaken {
            None => Ok(()),
            Some(tag) => Err(AppendRejection::Overtaken { tag: tag.to_string() }),
        }
    }

    /// Returns the tag of the first guard that does not hold.
    fn overtaken_tag(&self, guards: &[Guard]) -> Option<Tag> {
        guards.iter().find(|guard| !self.holds(guard)).map(|guard| guard.tag.clone())
    }

    fn holds(&self, guard: &Guard) -> bool {
        let is_recent = guard.position.0 <= self.head && self.head - guard.position.0 <= TAG_WINDOW;
        is_recent && self.tags.last_touch(&guard.tag).is_none_or(|touch| touch <= guard.position.0)
    }
}

/// Decides groups that are not in the local log yet.
pub struct AdmissionBatch<'v> {
    versions: &'v dyn StreamVersions,
    /// Versions of the streams with commits that were admitted in this batch.
    overlay: HashMap<StreamId, Version>,
}

impl<'v> AdmissionBatch<'v> {
    /// Begins a batch on top of the local log.
    #[must_use]
    pub fn new(versions: &'v dyn StreamVersions) -> Self {
        Self { versions, overlay: HashMap::new() }
    }

    /// Decides the next group of the engine.
    ///
    /// # Errors
    /// If no decision is possible.
    pub fn decide(
        &mut self,
        state: &mut AdmissionState,
        group: &Group,
        sequence: u64,
    ) -> Result<GroupDecision, AdmissionError> {
        let Some(overtaken) = state.begin_group(group, sequence) else { return Ok(GroupDecision::Void) };
        let entries = (0..).zip(group.entries.iter().zip(&overtaken));
        let decisions =
            entries.map(|(index, (entry, overtaken))| self.decide_entry(state, entry, overtaken.as_ref(), index));
        decisions.collect::<Result<_, _>>().map(GroupDecision::Decided)
    }

    /// Decides one entry of a group that is not void. `overtaken` is its overtaken tag.
    ///
    /// # Errors
    /// If no decision is possible.
    pub fn decide_entry(
        &mut self,
        state: &mut AdmissionState,
        entry: &GroupEntry,
        overtaken: Option<&Tag>,
        index: usize,
    ) -> Result<Result<EncodedCommit, AppendRejection>, AdmissionError> {
        let admitted = place(&entry.commit, state.head(), index)?;
        let first = &admitted.commit[0];
        let last = &admitted.commit[admitted.commit.len() - 1];
        let actual = match self.overlay.get(&last.stream) {
            Some(version) => *version,
            None => self.versions.version(&last.stream, version_before(first))?,
        };
        if let Err(rejection) = state.check(&admitted.commit, overtaken, actual) {
            return Ok(Err(rejection));
        }

        self.overlay.insert(last.stream.clone(), last.version);
        state.record(&admitted.commit);
        Ok(Ok(admitted))
    }
}

fn version_before(first: &RecordedEvent) -> Version {
    Version(first.version.0.saturating_sub(1))
}

/// Returns a commit with the position after `head`.
///
/// # Errors
/// If the bytes are not a commit.
pub fn place(commit: &UnplacedCommit, head: Position, index: usize) -> Result<EncodedCommit, AdmissionError> {
    let error = |reason| AdmissionError::Commit { index, reason };
    let payload = codec::place(commit.bytes(), Position(head.0 + 1)).map_err(error)?;
    let commit = codec::decode(&payload).map_err(error)?;
    if commit[0].version == Version(0) {
        let reason = CommitDecodeError::Value { field: "version", reason: "must be at least 1".to_owned() };
        return Err(AdmissionError::Commit { index, reason });
    }
    Ok(EncodedCommit { commit, payload })
}

/// Counters of the last groups by session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions(BTreeMap<[u8; 16], SessionCounter>);

/// The last group of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCounter {
    pub counter: u64,
    /// Sequence of the group in the engine.
    pub sequence: u64,
}

impl Sessions {
    /// Returns the sessions in the order of their ids.
    pub fn entries(&self) -> impl Iterator<Item = (Uuid, SessionCounter)> {
        self.0.iter().map(|(session, last)| (Uuid::from_bytes(*session), *last))
    }

    /// Returns `true` if the group is the latest of its session so far.
    fn advance(&mut self, session: Uuid, counter: u64, sequence: u64) -> bool {
        let last = SessionCounter { counter, sequence };
        if let Some(known) = self.0.get_mut(session.as_bytes()) {
            let is_later = counter > known.counter;
            if is_later {
                *known = last;
            }
            return is_later;
        }

        if self.0.len() >= SESSIONS_MAX {
            let oldest = self.0.iter().min_by_key(|(_, last)| last.sequence).map(|(session, _)| *session);
            oldest.and_then(|oldest| self.0.remove(&oldest));
        }
        self.0.insert(session.into_bytes(), last);
        true
    }
}

impl FromIterator<(Uuid, SessionCounter)> for Sessions {
    fn from_iter<I: IntoIterator<Item = (Uuid, SessionCounter)>>(sessions: I) -> Self {
        Self(sessions.into_iter().map(|(session, last)| (session.into_bytes(), last)).collect())
    }
}

type ClaimKey = [u8; 32];

/// Idempotency keys of the last 24 hours or more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct HeldClaims {
    by_key: HashMap<ClaimKey, HeldClaim>,
    /// The keys by the time of their first claim.
    by_time: BTreeSet<(i64, ClaimKey)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct HeldClaim {
    fingerprint: [u8; 32],
    /// Time of the first claim.
    at_micros: i64,
    commands: BTreeSet<u16>,
}

impl HeldClaims {
    /// Returns `true` if another request has the key, or the command ran.
    fn is_held(&self, ClaimEvent::KeyClaimed(claim): &ClaimEvent, at_micros: i64) -> bool {
        let held = self.by_key.get(&claim.key.0).filter(|held| held.is_retained(at_micros));
        held.is_some_and(|held| held.fingerprint != claim.fingerprint.0 || held.commands.contains(&claim.command_index))
    }

    fn insert(&mut self, ClaimEvent::KeyClaimed(claim): &ClaimEvent, at_micros: i64) {
        self.forget(at_micros);
        let key = claim.key.0;
        if let Some(held) = self.by_key.get_mut(&key).filter(|held| held.is_retained(at_micros)) {
            held.commands.insert(claim.command_index);
            return;
        }

        let fingerprint = claim.fingerprint.0;
        let new = HeldClaim { fingerprint, at_micros, commands: BTreeSet::from([claim.command_index]) };
        if let Some(former) = self.by_key.insert(key, new) {
            self.by_time.remove(&(former.at_micros, key));
        }
        self.by_time.insert((at_micros, key));
    }

    /// Forgets some of the claims whose retention has ended.
    fn forget(&mut self, now_micros: i64) {
        for _ in 0..FORGOTTEN_BY_CLAIM {
            let is_old = |(at_micros, _): &&(i64, ClaimKey)| !is_retained(*at_micros, now_micros);
            let Some((at_micros, key)) = self.by_time.first().filter(is_old).copied() else { return };
            self.by_time.remove(&(at_micros, key));
            self.by_key.remove(&key);
        }
    }
}

impl HeldClaim {
    fn is_retained(&self, now_micros: i64) -> bool {
        is_retained(self.at_micros, now_micros)
    }
}

fn is_retained(at_micros: i64, now_micros: i64) -> bool {
    now_micros < at_micros.saturating_add(CLAIM_RETENTION_MICROS)
}

/// Positions at which tags were touched last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct TouchedTags {
    by_tag: HashMap<String, u64>,
    by_position: BTreeSet<(u64, String)>,
}

impl TouchedTags {
    fn touch(&mut self, tag: &Tag, position: u64) {
        let name = tag.to_string();
        if let Some(former) = self.by_tag.insert(name.clone(), position) {
            self.by_position.remove(&(former, name.clone()));
        }
        self.by_position.insert((position, name));
    }

    fn last_touch(&self, tag: &Tag) -> Option<u64> {
        self.by_tag.get(tag.as_str()).copied()
    }

    /// Forgets touches that no guard of the window can meet.
    fn forget_before(&mut self, head: u64) {
        let begin = head.saturating_sub(TAG_WINDOW);
        while self.by_position.first().is_some_and(|(position, _)| *position < begin) {
            if let Some((_, name)) = self.by_position.pop_first() {
                self.by_tag.remove(&name);
            }
        }
    }
}

/// Returns the tags that an event touches. Frozen: all nodes must agree.
#[must_use]
pub fn touched_tags(stream: &StreamId, event: &Event) -> Vec<Tag> {
    match event {
        Event::Publisher(_) => Tag::new(stream.as_str()).into_iter().collect(),
        Event::Node(NodeEvent::NodeCreated { publisher, .. }) => nodes_of(publisher.as_str()).into_iter().collect(),
        Event::Task(TaskEvent::TaskSubmitted(submission)) => tasks_of(submission)
            .into_iter()
            .chain(submission.budget_subjects().filter_map(|subject| spending_of(&subject)))
            .collect(),
        Event::Budget(_) => spending_of(&stream.key()).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns the tags on which the decision for new events always depends: no event may have touched them since. A
/// submission also depends on the budgets that limit it ([`spending_of`]).
pub fn guarded_tags<'e>(stream: &'e StreamId, events: &'e [NewEvent]) -> impl Iterator<Item = Tag> + 'e {
    events.iter().filter_map(|new_event| match &new_event.event {
        Event::Node(NodeEvent::NodeCreated { publisher, .. }) => {
            Tag::new(format!("{}/{publisher}", StreamKind::Publisher.as_str()))
        }
        Event::Publisher(PublisherEvent::PublisherDeleted) => nodes_of(stream.key()),
        _ => None,
    })
}

/// Returns the tag of the nodes of a publisher.
fn nodes_of(publisher: &str) -> Option<Tag> {
    Tag::new(format!("nodes-of/{publisher}"))
}

/// Returns the tag of the submissions of the owner of this one.
fn tasks_of(submission: &Submission) -> Option<Tag> {
    let owner = submission.owner.map_or_else(|| "anonymous".to_owned(), |owner| owner.to_string());
    Tag::new(format!("tasks-of/{owner}"))
}

/// Returns the tag of the submissions that a budget counts, and of the budget itself. `subject` is a
/// [`BudgetSubject`](crate::domain::budget::BudgetSubject).
pub fn spending_of(subject: &dyn fmt::Display) -> Option<Tag> {
    Tag::new(format!("spending-of/{subject}"))
}

#[cfg(test)]
mod tests;
