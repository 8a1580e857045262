//! Presence of nodes, announced by beats that are not stored, and the choice of the nodes whose reactors act.
//!
//! The owner is the node that has been running longest of those heard within [`PRESENT_FOR`]. It does the work that
//! cannot be divided; all nodes share the rest ([`WorkShare`]). A node that does not hear its own beats does nothing,
//! because it is cut off. Two nodes may attempt the same work for a moment. The log admits only one of the attempts, so
//! this only costs time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::work_share::WorkShare;

/// Interval of beats.
pub const BEAT_INTERVAL: Duration = Duration::from_millis(500);
/// Time for which a node counts as present after its last beat.
pub const PRESENT_FOR: Duration = Duration::from_secs(3);
/// Pause of a new owner: the former one may still be acting.
const TAKEOVER_REST: Duration = Duration::from_secs(5);
/// Time after which an absent node is no longer listed.
const LISTED_FOR: Duration = Duration::from_mins(10);
/// Maximum number of listed nodes. More can only come from a broken or hostile sender.
const NODES_MAX: usize = 1000;

/// State that a node announces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    pub session: Uuid,
    /// Start of the run, in microseconds since the Unix epoch.
    pub started_micros: i64,
    /// Time of the beat by the node's clock, in microseconds since the Unix epoch.
    pub now_micros: i64,
    /// Base URL of the node.
    pub url: String,
    pub release: String,
    /// Position of the last event that the node has applied.
    pub position: u64,
    /// Sequence of the last group that the node has applied.
    pub sequence: u64,
    /// Chain hash of the node's log after that group, in hexadecimal digits.
    #[serde(default)]
    pub chain: String,
    /// `true` if the node hears its own beats. Otherwise it does nothing, and others must not leave work to it.
    #[serde(default)]
    pub hears_itself: bool,
}

/// A node that was heard.
#[derive(Debug, Clone)]
pub struct HeardNode {
    pub beat: Beat,
    /// Time since the beat.
    pub silence: Duration,
    /// Difference of the clocks when the beat arrived, in microseconds; positive if the node's clock is ahead.
    pub clock_offset_micros: i64,
    pub is_present: bool,
    /// `true` if the node has announced a log that differs from this node's.
    pub is_differing: bool,
}

/// The nodes that this node hears. Cheap to clone.
#[derive(Clone)]
pub struct Presence(Arc<PresenceState>);

struct PresenceState {
    session: Uuid,
    nodes: Mutex<PresentNodes>,
}

/// The last beat of a node.
struct LastBeat {
    beat: Beat,
    heard_at: Instant,
    /// Time since which the node has been present without a break.
    present_since: Instant,
    clock_offset_micros: i64,
}

#[derive(Default)]
struct PresentNodes {
    heard: HashMap<Uuid, LastBeat>,
    /// For each node whose log has been compared, `true` if it is the same as this node's. A log that once differs,
    /// differs for good.
    agreement: HashMap<Uuid, bool>,
    /// Time since which this node has been the owner.
    owner_since: Option<Instant>,
}

impl Presence {
    /// Returns the presence for a run of this node.
    #[must_use]
    pub fn new(session: Uuid) -> Self {
        Self(Arc::new(PresenceState { session, nodes: Mutex::default() }))
    }

    /// Records a beat. `now_micros` is the time of this node's clock.
    pub fn hear(&self, beat: Beat, now_micros: i64) {
        self.hear_at(beat, now_micros, Instant::now());
    }

    fn hear_at(&self, beat: Beat, now_micros: i64, at: Instant) {
        let mut nodes = self.0.nodes.lock();
        let clock_offset_micros = beat.now_micros.saturating_sub(now_micros);
        let present_since = match nodes.heard.get(&beat.session) {
            Some(last) if nodes.is_present(beat.session, at) => last.present_since,
            _ => at,
        };
        if nodes.heard.len() < NODES_MAX || nodes.heard.contains_key(&beat.session) {
            let last = LastBeat { heard_at: at, present_since, clock_offset_micros, beat };
            nodes.heard.insert(last.beat.session, last);
        }
        let PresentNodes { heard, agreement, .. } = &mut *nodes;
        heard.retain(|_, last| at.saturating_duration_since(last.heard_at) < LISTED_FOR);
        agreement.retain(|session, _| heard.contains_key(session));
    }

    /// Returns `true` if the reactors of this node act: it is the owner, and has been for a while.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        self.is_owner_at(Instant::now())
    }

    fn is_owner_at(&self, now: Instant) -> bool {
        let mut nodes = self.0.nodes.lock();
        let owner = nodes.owner(now);
        if owner != Some(self.0.session) || !nodes.is_present(self.0.session, now) {
            nodes.owner_since = None;
            return false;
        }
        let since = *nodes.owner_since.get_or_insert(now);
        now.saturating_duration_since(since) >= TAKEOVER_REST
    }

    /// Returns `true` if this node hears its own beats.
    #[must_use]
    pub fn hears_itself(&self) -> bool {
        self.0.nodes.lock().is_present(self.0.session, Instant::now())
    }

    /// Returns the share of this node in the work that all nodes do.
    #[must_use]
    pub fn work_share(&self) -> WorkShare {
        self.work_share_at(Instant::now())
    }

    /// Returns no work until this node has heard its own beats for [`TAKEOVER_REST`]. A node that falls silent keeps
    /// its share for [`TAKEOVER_REST`] after it counts as absent, because it may still be acting.
    fn work_share_at(&self, now: Instant) -> WorkShare {
        let nodes = self.0.nodes.lock();
        let own = self.0.session;
        let is_settled = nodes.heard.get(&own).is_some_and(|last| {
            nodes.is_present(own, now) && now.saturating_duration_since(last.present_since) >= TAKEOVER_REST
        });
        if !is_settled {
            return WorkShare::Nothing;
        }

        let silence = |last: &LastBeat| now.saturating_duration_since(last.heard_at);
        let may_act = nodes
            .heard
            .iter()
            .filter(|(_, last)| last.beat.hears_itself && silence(last) < PRESENT_FOR + TAKEOVER_REST);
        WorkShare::Part { own, nodes: may_act.map(|(session, _)| *session).collect() }
    }

    /// Records whether the log of a node is the same as that of this one.
    pub fn note_agreement(&self, session: Uuid, is_same: bool) {
        let mut nodes = self.0.nodes.lock();
        if nodes.heard.contains_key(&session) {
            nodes.agreement.entry(session).and_modify(|agrees| *agrees &= is_same).or_insert(is_same);
        }
    }

    /// Returns `true` if the present nodes whose logs differ from this node's outnumber this node and those that agree
    /// with it.
    #[must_use]
    pub fn is_outvoted(&self) -> bool {
        let nodes = self.0.nodes.lock();
        let now = Instant::now();
        let is_other = |session: &Uuid| *session != self.0.session && nodes.is_present(*session, now);
        let votes = nodes.agreement.iter().filter(|(session, _)| is_other(session));
        let (same, differing): (Vec<_>, Vec<_>) = votes.partition(|(_, is_same)| **is_same);
        differing.len() > same.len() + 1
    }

    /// Returns the session of the owner, as far as this node knows.
    #[must_use]
    pub fn owner(&self) -> Option<Uuid> {
        self.0.nodes.lock().owner(Instant::now())
    }

    /// Returns the session of this node.
    #[must_use]
    pub fn session(&self) -> Uuid {
        self.0.session
    }

    /// Returns the nodes, the longest running first.
    #[must_use]
    pub fn nodes(&self) -> Vec<HeardNode> {
        let nodes = self.0.nodes.lock();
        let now = Instant::now();
        let heard = |last: &LastBeat| HeardNode {
            beat: last.beat.clone(),
            silence: now.saturating_duration_since(last.heard_at),
            clock_offset_micros: last.clock_offset_micros,
            is_present: nodes.is_present(last.beat.session, now),
            is_differing: nodes.agreement.get(&last.beat.session) == Some(&false),
        };
        let mut all: Vec<_> = nodes.heard.values().map(heard).collect();
        all.sort_by_key(|node| (node.beat.started_micros, node.beat.session));
        all
    }
}

impl PresentNodes {
    fn is_present(&self, session: Uuid, now: Instant) -> bool {
        self.heard.get(&session).is_some_and(|last| now.saturating_duration_since(last.heard_at) < PRESENT_FOR)
    }

    fn owner(&self, now: Instant) -> Option<Uuid> {
        let beats = self.heard.values().map(|last| &last.beat);
        let present = beats.filter(|beat| beat.hears_itself && self.is_present(beat.session, now));
        present.map(|beat| (beat.started_micros, beat.session)).min().map(|(_, session)| session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(session: u128, started_micros: i64) -> Beat {
        let (url, release) = ("http://a".to_owned(), "1".to_owned());
        Beat {
            session: Uuid::from_u128(session),
            started_micros,
            now_micros: 0,
            url,
            release,
            position: 0,
            sequence: 0,
            chain: String::new(),
            hears_itself: true,
        }
    }

    #[test]
    fn the_node_that_runs_longest_owns_the_work_after_a_rest() {
        let presence = Presence::new(Uuid::from_u128(2));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!presence.is_owner_at(start), "it does not hear itself");

        for second in 0..5 {
            presence.hear_at(beat(1, 100), 0, at(second));
            presence.hear_at(beat(2, 200), 0, at(second));
            assert!(!presence.is_owner_at(at(second)), "the other is older");
        }

        // The other is silent from here on.
        let mut owned_from = None;
        for second in 5..20 {
            presence.hear_at(beat(2, 200), 0, at(second));
            if presence.is_owner_at(at(second)) {
                owned_from.get_or_insert(second);
            }
        }
        // The last beat of the other at 4 s, 3 s until it counts as absent, and a rest of 5 s.
        assert_eq!(owned_from, Some(4 + 3 + 5));

        presence.hear_at(beat(1, 100), 0, at(20));
        assert!(!presence.is_owner_at(at(20)), "the other is back");
    }

    #[test]
    fn a_node_that_does_not_hear_itself_owns_nothing() {
        let presence = Presence::new(Uuid::from_u128(1));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for second in 0..10 {
            presence.hear_at(beat(1, 1), 0, at(second));
            presence.is_owner_at(at(second));
        }
        assert!(presence.is_owner_at(at(10)));
        assert!(!presence.is_owner_at(at(13)));
        presence.hear_at(beat(1, 1), 0, at(14));
        assert!(!presence.is_owner_at(at(14)), "another node may have become the owner");
    }

    #[test]
    fn no_work_is_left_to_a_node_that_does_not_hear_itself() {
        // Given this node, and an older one that others hear and that hears nobody
        let presence = Presence::new(Uuid::from_u128(2));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for second in 0..10 {
            presence.hear_at(Beat { hears_itself: false, ..beat(1, 1) }, 0, at(second));
            presence.hear_at(beat(2, 2), 0, at(second));
            presence.is_owner_at(at(second));
        }

        // Then all work is this node's
        assert!(presence.is_owner_at(at(10)));
        let own = Uuid::from_u128(2);
        assert_eq!(presence.work_share_at(at(10)), WorkShare::Part { own, nodes: vec![own] });
    }

    #[test]
    fn a_node_is_outvoted_by_more_nodes_with_another_log_than_with_its_own() {
        let of = |agreements: &[bool]| {
            let presence = Presence::new(Uuid::from_u128(1));
            presence.hear(beat(1, 1), 0);
            for (session, is_same) in (2..).zip(agreements) {
                presence.hear(beat(session, 1), 0);
                presence.note_agreement(Uuid::from_u128(session), *is_same);
            }
            presence.is_outvoted()
        };
        assert!(!of(&[]) && !of(&[true]));
        assert!(!of(&[false]), "it is unknown which of two is right");
        assert!(!of(&[false, true]) && !of(&[false, false, true]));
        assert!(of(&[false, false]) && of(&[false, false, false, true]));
    }

    #[test]
    fn a_log_that_differed_stays_different() {
        let presence = Presence::new(Uuid::from_u128(1));
        presence.hear(beat(2, 1), 0);
        for is_same in [true, false, true] {
            presence.note_agreement(Uuid::from_u128(2), is_same);
        }
        assert!(presence.nodes()[0].is_differing);
    }

    #[test]
    fn work_is_shared_with_all_nodes_that_may_be_at_it() {
        let presence = Presence::new(Uuid::from_u128(1));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let share = |seconds, nodes: &[u128]| {
            let WorkShare::Part { own, nodes: mut sharing } = presence.work_share_at(at(seconds)) else {
                return nodes.is_empty();
            };
            sharing.sort_unstable();
            own == Uuid::from_u128(1) && sharing == nodes.iter().map(|node| Uuid::from_u128(*node)).collect::<Vec<_>>()
        };

        // Another node is heard until second 9
        for second in 0..=20 {
            if second < 10 {
                presence.hear_at(beat(2, 2), 0, at(second));
            }
            presence.hear_at(beat(1, 1), 0, at(second));
            let expected: &[u128] = match second {
                0..5 => &[],
                5..17 => &[1, 2],
                _ => &[1],
            };
            assert!(share(second, expected), "{second}");
        }

        // A node that did not hear itself for a while begins anew
        presence.hear_at(beat(1, 1), 0, at(30));
        assert!(share(30, &[]));
    }
}
