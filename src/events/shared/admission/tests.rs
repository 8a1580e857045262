//! Tests of the admission rules: each rule alone, and that the decisions do not depend on how groups are batched.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::domain::claim::IdempotencyClaim;
use crate::domain::ids::{EventId, NodeId, PublisherId, TaskId, TokenId, UserId};
use crate::domain::music::{MusicPrompt, MusicWork};
use crate::domain::node::NodeFields;
use crate::domain::publisher::PublisherFields;
use crate::domain::task::{Payers, TaskWork};
use crate::domain::value::{Digest, Text, Timestamp};
use crate::events::envelope::{Append, CommandContext};
use crate::events::journal::ChainHash;

const HOUR: i64 = 3_600_000_000;

/// A log that only knows versions and bytes.
#[derive(Default)]
struct RecordedLog {
    versions: HashMap<StreamId, Version>,
    payloads: Vec<Vec<u8>>,
}

impl StreamVersions for RecordedLog {
    fn version(&self, stream: &StreamId, _expected: Version) -> Result<Version, LogFailure> {
        Ok(self.versions.get(stream).copied().unwrap_or_default())
    }
}

impl RecordedLog {
    fn record(&mut self, admitted: EncodedCommit) {
        let last = admitted.commit.last().unwrap();
        self.versions.insert(last.stream.clone(), last.version);
        self.payloads.push(admitted.payload);
    }

    /// Decides groups as one batch and records what was admitted.
    fn apply(&mut self, state: &mut AdmissionState, groups: &[(u64, Group)]) -> Vec<GroupDecision> {
        let mut batch = AdmissionBatch::new(self);
        let decide = |(sequence, group): &(u64, Group)| batch.decide(state, group, *sequence).unwrap();
        let decisions: Vec<_> = groups.iter().map(decide).collect();
        for decision in &decisions {
            if let GroupDecision::Decided(entries) = decision {
                entries.iter().flatten().for_each(|admitted| self.record(admitted.clone()));
            }
        }
        decisions
    }
}

/// A node's view: decides one group at a time.
#[derive(Default)]
struct Node {
    log: RecordedLog,
    state: AdmissionState,
    counter: u64,
}

impl Node {
    fn propose(&mut self, entries: Vec<GroupEntry>) -> Vec<Result<u64, AppendRejection>> {
        self.counter += 1;
        let group = group(1, self.counter, entries);
        let decisions = self.log.apply(&mut self.state, &[(self.counter, group)]);
        let Some(GroupDecision::Decided(entries)) = decisions.into_iter().next() else { panic!("the group is void") };
        entries.into_iter().map(|entry| entry.map(|admitted| admitted.commit[0].position.0)).collect()
    }

    fn propose_one(&mut self, append: Append, guards: Vec<Guard>) -> Result<u64, AppendRejection> {
        self.propose(vec![entry(append, guards)]).pop().unwrap()
    }
}

fn group(session: u128, counter: u64, entries: Vec<GroupEntry>) -> Group {
    let session = Uuid::from_u128(session);
    Group { session, counter, sequence_seen: 0, chain_seen: ChainHash([0; 32]), entries }
}

fn entry(append: Append, guards: Vec<Guard>) -> GroupEntry {
    GroupEntry { guards, commit: UnplacedCommit::from_append(append).unwrap() }
}

fn append(stream: StreamId, expected: u64, at_hours: i64, events: Vec<Event>) -> Append {
    let context = CommandContext::from_system(None, Timestamp::from_micros(at_hours * HOUR));
    let events = events.into_iter().map(|event| NewEvent { id: EventId(Uuid::nil()), event }).collect();
    Append { stream, expected: Version(expected), context, events, guards: Vec::new() }
}

fn task_event(text: &str) -> Event {
    TaskEvent::OutcomeUnknown { reason: Text::from_recorded(text.to_owned()) }.into()
}

fn claim_of(key: u8, fingerprint: u8, command_index: u16) -> Event {
    let (key, fingerprint) = (Digest([key; 32]), Digest([fingerprint; 32]));
    ClaimEvent::KeyClaimed(IdempotencyClaim { key, fingerprint, command_index }).into()
}

fn task(number: u128) -> StreamId {
    StreamId::from(&TaskId(Uuid::from_u128(number)))
}

fn acme() -> PublisherId {
    PublisherId::parse("acme").unwrap()
}

fn publisher_event(expected: u64, event: PublisherEvent) -> Append {
    append(StreamId::from(&acme()), expected, 0, vec![event.into()])
}

fn node_created(number: u32) -> Append {
    let id = NodeId::parse(&format!("node-{number}")).unwrap();
    let stream = StreamId::from(&id.key());
    let event = NodeEvent::NodeCreated { id, publisher: acme(), fields: NodeFields::default() };
    append(stream, 0, 0, vec![event.into()])
}

fn guards_at(append: &Append, position: u64) -> Vec<Guard> {
    guarded_tags(&append.stream, &append.events).map(|tag| Guard { tag, position: Position(position) }).collect()
}

fn names(tags: impl IntoIterator<Item = Tag>) -> Vec<String> {
    tags.into_iter().map(|tag| tag.to_string()).collect()
}

#[test]
fn positions_follow_each_other_and_versions_are_checked() {
    let mut node = Node::default();
    let of =
        |number, expected, count| entry(append(task(number), expected, 0, vec![task_event("x"); count]), Vec::new());
    let decided = node.propose(vec![of(1, 0, 2), of(1, 0, 1), of(1, 2, 1), of(2, 0, 1)]);
    let conflict = AppendRejection::Conflict { stream: task(1), expected: Version(0), actual: Version(2) };
    assert_eq!(decided, [Ok(1), Err(conflict), Ok(3), Ok(4)]);
    assert_eq!(node.state.head(), Position(4));
    assert!(node.propose(vec![of(1, 4, 1)])[0].is_err());
    assert_eq!(node.propose(vec![of(1, 3, 1)]), [Ok(5)]);
}

#[test]
fn repeated_and_late_groups_are_void() {
    let mut log = RecordedLog::default();
    let mut state = AdmissionState::default();
    let of = |session, counter| {
        group(session, counter, vec![entry(append(task(9), 0, 0, vec![task_event("x")]), Vec::new())])
    };
    let decisions = log.apply(&mut state, &[(1, of(1, 2)), (2, of(1, 2)), (3, of(1, 1)), (4, of(2, 1)), (5, of(1, 3))]);
    let is_void: Vec<_> = decisions.iter().map(|decision| *decision == GroupDecision::Void).collect();
    assert_eq!(is_void, [false, true, true, false, false]);
    assert_eq!(log.payloads.len(), 1);
}

#[test]
fn the_sessions_used_last_are_kept() {
    let mut sessions = Sessions::default();
    let most = SESSIONS_MAX as u64;
    for number in 0..=most {
        assert!(sessions.advance(Uuid::from_u128(number.into()), 5, number));
        assert!(sessions.advance(Uuid::from_u128(0), 5 + number, number) || number == 0);
    }
    assert_eq!(sessions.entries().count(), SESSIONS_MAX);
    assert!(!sessions.advance(Uuid::from_u128(0), 5, most + 1), "it was used last");
    assert!(sessions.advance(Uuid::from_u128(1), 5, most + 2), "it was forgotten");
    assert_eq!(sessions.entries().collect::<Sessions>(), sessions);
}

#[test]
fn a_claim_is_held_for_a_day_of_event_times() {
    let mut node = Node::default();
    let mut stream = 0;
    let mut claim = |at_hours, event| {
        stream += 1;
        node.propose_one(append(task(stream), 0, at_hours, vec![task_event("x"), event]), Vec::new()).is_ok()
    };
    assert!(claim(0, claim_of(1, 1, 0)));
    assert!(!claim(1, claim_of(1, 1, 0)), "the command ran");
    assert!(!claim(1, claim_of(1, 2, 1)), "another request has the key");
    assert!(claim(1, claim_of(1, 1, 1)), "another command of the request");
    assert!(claim(1, claim_of(2, 1, 0)), "another key");
    assert!(!claim(-30, claim_of(1, 1, 0)), "a slow clock");
    assert!(!claim(23, claim_of(1, 1, 1)));
    assert!(claim(24, claim_of(1, 2, 0)), "a day later");
    assert!(!claim(24, claim_of(1, 1, 0)));
    assert!(!claim(24, claim_of(2, 1, 0)), "claimed an hour later");
}

#[test]
fn a_wrong_clock_does_not_end_the_claims_of_others() {
    let mut claims = HeldClaims::default();
    let claimed = |key| match claim_of(key, 1, 0) {
        Event::Claim(claim) => claim,
        other => panic!("{other:?}"),
    };
    for key in 0..100 {
        claims.insert(&claimed(key), i64::from(key));
    }
    claims.insert(&claimed(200), 1_000 * HOUR);
    let held = (0..100).filter(|key| claims.is_held(&claimed(*key), HOUR)).count();
    assert_eq!(held, 100 - FORGOTTEN_BY_CLAIM);

    // Later claims forget all the old ones, so memory is bounded by the claims of a day.
    for key in 100..150 {
        claims.insert(&claimed(key), 1_001 * HOUR);
    }
    assert_eq!((claims.by_key.len(), claims.by_time.len()), (51, 51));
}

#[test]
fn a_group_does_not_overtake_its_own_appends() {
    let guard = |position| vec![Guard { tag: Tag::new("nodes-of/acme").unwrap(), position: Position(position) }];
    let mut node = Node::default();
    let entries = (1..=3).map(|number| entry(node_created(number), guard(0))).collect();
    assert_eq!(node.propose(entries), [Ok(1), Ok(2), Ok(3)], "its node has counted them");
    assert!(node.propose_one(node_created(4), guard(2)).is_err());
    assert_eq!(node.propose_one(node_created(4), guard(3)), Ok(4));
}

#[test]
fn a_node_and_the_end_of_its_publisher_exclude_each_other() {
    let deleted = || publisher_event(1, PublisherEvent::PublisherDeleted);
    let created = || {
        let (owner, fields) = (UserId(Uuid::nil()), PublisherFields::default());
        publisher_event(0, PublisherEvent::PublisherCreated { id: acme(), owner, fields })
    };
    let overtaken = |tag: &str| Err(AppendRejection::Overtaken { tag: tag.to_owned() });
    let propose = |node: &mut Node, append: Append, seen| {
        let guards = guards_at(&append, seen);
        node.propose_one(append, guards)
    };

    let mut node = Node::default();
    assert_eq!(propose(&mut node, created(), 0), Ok(1));
    assert_eq!(propose(&mut node, node_created(1), 0), overtaken("publisher/acme"));
    assert_eq!(propose(&mut node, node_created(1), 1), Ok(2));
    assert_eq!(propose(&mut node, node_created(2), 1), Ok(3), "nodes do not exclude each other");
    assert_eq!(propose(&mut node, deleted(), 2), overtaken("nodes-of/acme"));

    let mut node = Node::default();
    assert_eq!(propose(&mut node, created(), 0), Ok(1));
    assert_eq!(propose(&mut node, deleted(), 1), Ok(2));
    assert_eq!(propose(&mut node, node_created(1), 1), overtaken("publisher/acme"));
}

#[test]
fn old_and_future_guards_are_refused() {
    let guard = |position| vec![Guard { tag: Tag::new("nodes-of/other").unwrap(), position: Position(position) }];
    let mut state = AdmissionState { head: TAG_WINDOW + 7, ..AdmissionState::default() };
    state.tags.touch(&Tag::new("nodes-of/other").unwrap(), 8);
    state.tags.forget_before(state.head);
    let holds = |position| state.holds(&guard(position)[0]);
    assert_eq!([6, 7, 8, TAG_WINDOW + 7, TAG_WINDOW + 8].map(holds), [false, false, true, true, false]);

    state.tags.forget_before(state.head + 2);
    assert_eq!(state.tags, TouchedTags::default());
}

#[test]
fn golden_tags_do_not_change() {
    let user = UserId(Uuid::from_u128(1));
    let payers = Payers {
        token: Some(TokenId(Uuid::from_u128(2))),
        former_accounts: vec![UserId(Uuid::from_u128(3))],
        publishers: vec![acme()],
    };
    let submission = |owner, payers| Submission {
        task: TaskId(Uuid::nil()),
        owner,
        work: TaskWork::Music(MusicWork { prompt: MusicPrompt::parse("rain").unwrap(), seconds: None, credits: 1 }),
        webhook: None,
        payers,
    };
    let touched = |submission| names(touched_tags(&task(0), &TaskEvent::TaskSubmitted(submission).into()));
    assert_eq!(
        touched(submission(Some(user), payers.into_option())),
        [
            "tasks-of/00000000-0000-0000-0000-000000000001",
            "spending-of/user.00000000-0000-0000-0000-000000000001",
            "spending-of/token.00000000-0000-0000-0000-000000000002",
            "spending-of/user.00000000-0000-0000-0000-000000000003",
            "spending-of/publisher.acme",
        ]
    );
    assert_eq!(touched(submission(None, None)), ["tasks-of/anonymous"]);

    let budget = StreamId::parse("budget/publisher.acme").unwrap();
    let removed = crate::domain::budget::BudgetEvent::BudgetRemoved.into();
    assert_eq!(names(touched_tags(&budget, &removed)), ["spending-of/publisher.acme"]);

    let created = node_created(1);
    assert_eq!(names(touched_tags(&created.stream, &created.events[0].event)), ["nodes-of/acme"]);
    assert_eq!(names(guarded_tags(&created.stream, &created.events)), ["publisher/acme"]);

    let deleted = publisher_event(1, PublisherEvent::PublisherDeleted);
    assert_eq!(names(touched_tags(&deleted.stream, &deleted.events[0].event)), ["publisher/acme"]);
    assert_eq!(names(guarded_tags(&deleted.stream, &deleted.events)), ["nodes-of/acme"]);
}

#[test]
fn bytes_that_are_not_a_commit_stop_the_node() {
    let broken = GroupEntry { guards: Vec::new(), commit: UnplacedCommit::from_bytes(vec![2, 0, 0, 9]) };
    let log = RecordedLog::default();
    let decided = AdmissionBatch::new(&log).decide(&mut AdmissionState::default(), &group(1, 1, vec![broken]), 1);
    assert!(matches!(decided, Err(AdmissionError::Commit { index: 0, .. })));
}

/// Appends that often conflict: few streams, keys, nodes and one publisher.
fn any_entry() -> impl Strategy<Value = GroupEntry> {
    let task = (0..3_u128, 0..4_u64, 1..3_usize, -30..60_i64, proptest::option::of((0..2_u8, 0..2_u8, 0..2_u16)));
    let task = task.prop_map(|(number, expected, count, at, claim)| {
        let mut events = vec![task_event("x"); count];
        events.extend(claim.map(|(key, fingerprint, index)| claim_of(key, fingerprint, index)));
        entry(append(super::tests::task(number), expected, at, events), Vec::new())
    });
    let guarded = (0..3_u32, 0..4_u64, 0..30_u64).prop_map(|(number, expected, seen)| {
        let append = match number {
            0 => publisher_event(expected, PublisherEvent::PublisherDeleted),
            _ => node_created(number),
        };
        let guards = guards_at(&append, seen);
        entry(append, guards)
    });
    prop_oneof![3 => task, 2 => guarded]
}

fn any_groups() -> impl Strategy<Value = Vec<(u64, Group)>> {
    let group = (0..3_u128, 0..8_u64, vec(any_entry(), 0..4));
    let group = group.prop_map(|(session, counter, entries)| super::tests::group(session, counter, entries));
    vec(group, 0..25).prop_map(|groups| (1..).zip(groups).collect())
}

proptest! {
    #[test]
    fn the_log_does_not_depend_on_batches(groups in any_groups(), lengths in vec(1..6_usize, 25)) {
        let mut single = Node::default();
        let one_by_one: Vec<_> =
            groups.iter().flat_map(|group| single.log.apply(&mut single.state, std::slice::from_ref(group))).collect();

        let mut batched = Node::default();
        let mut decisions = Vec::new();
        let mut rest = &groups[..];
        for length in lengths {
            let (batch, others) = rest.split_at(length.min(rest.len()));
            decisions.extend(batched.log.apply(&mut batched.state, batch));
            rest = others;

            // A node may stop between any two batches.
            let mut saved = Vec::new();
            codec::pack(&batched.state, &mut saved);
            prop_assert_eq!(&codec::unpack::<AdmissionState>(&mut &saved[..]).unwrap(), &batched.state);
        }

        prop_assert_eq!(decisions, one_by_one);
        prop_assert_eq!(&batched.log.payloads, &single.log.payloads);
        prop_assert_eq!(&batched.state, &single.state);
    }

    /// The state of the rules, except for sessions, can be computed from the journal.
    #[test]
    fn the_state_follows_from_the_admitted_commits(groups in any_groups()) {
        let mut node = Node::default();
        node.log.apply(&mut node.state, &groups);

        let mut replayed = AdmissionState::default();
        for payload in &node.log.payloads {
            replayed.record(&codec::decode(payload).unwrap());
        }
        replayed.set_sessions(node.state.sessions().clone());
        prop_assert_eq!(replayed, node.state);
    }
}
