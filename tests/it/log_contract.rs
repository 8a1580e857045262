//! Contract of event logs: scenarios that every implementation must pass.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mediary::environment::Environment;
use mediary::events::envelope::{Append, Commit, RecordedEvent};
use mediary::events::log::{AppendRejection, COMMIT_BYTES_MAX, EVENT_BYTES_MAX, EventLog};
use mediary::events::memory_log::MemoryLog;
use mediary::events::shared::engine::Engine;
use mediary::events::shared::memory_engine::{EngineFaults, MemoryEngine};
use mediary::events::sled_log::{SledLog, SledLogOptions};
use mediary::events::stream::{Position, Version};

use crate::samples::{AT, append, every_kind, large_append, task_stream};
use crate::shared_log::SharedLogNode;

pub type ContractScenario = fn(&dyn EventLog) -> Result<(), String>;

const SCENARIOS: &[(&str, ContractScenario)] = &[
    ("an empty log has nothing", an_empty_log_has_nothing),
    ("positions and versions have no gaps", positions_and_versions_have_no_gaps),
    ("events come back as they were", events_come_back_as_they_were),
    ("a conflict changes nothing", a_conflict_changes_nothing),
    ("each append of a group sees the earlier ones", each_append_of_a_group_sees_the_earlier_ones),
    ("events of one append stay together", events_of_one_append_stay_together),
    ("appended events are readable at once", appended_events_are_readable_at_once),
    ("reads have the requested start and limit", reads_have_the_requested_start_and_limit),
    ("streams with a common prefix are separate", streams_with_a_common_prefix_are_separate),
    ("only the oversized append of a group is rejected", only_the_oversized_append_of_a_group_is_rejected),
    ("the largest allowed events are accepted", the_largest_allowed_events_are_accepted),
    ("an append without events records nothing", an_append_without_events_records_nothing),
    ("readers never see gaps", readers_never_see_gaps),
];

#[test]
fn the_memory_log_meets_the_log_contract() {
    run_all(|scenario| scenario(&MemoryLog::default()));
}

#[test]
fn the_sled_log_meets_the_log_contract() {
    run_all(on_sled);
}

#[test]
fn the_shared_log_meets_the_log_contract() {
    run_all(|scenario| {
        let engine = MemoryEngine::new(EngineFaults::default(), environment());
        on_shared(&engine, scenario)
    });
}

/// Runs a scenario on a node and checks that another node, and the same one after a restart, have the same events.
pub fn on_shared(engine: &(impl Engine + Clone), scenario: ContractScenario) -> Result<(), String> {
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let open = |directory: &tempfile::TempDir, session| {
        let node = SharedLogNode::open(directory.path(), session, engine.clone());
        node.map_err(|error| error.to_string())
    };
    let node = open(&first, 1)?;
    scenario(&node.log)?;
    let before = read_all(&node.log)?;
    let other = open(&second, 2)?;
    other.catch_up();
    assert_same("on another node", &other.events(), &before)?;
    node.stop();

    let node = open(&first, 3)?;
    node.catch_up();
    assert_same("after reopening", &node.events(), &before)?;
    assert_same("chain", &node.local.journal_head(), &other.local.journal_head())
}

/// Runs all scenarios on a backend.
pub fn run_all(on_backend: impl Fn(ContractScenario) -> Result<(), String>) {
    for (name, scenario) in SCENARIOS {
        if let Err(reason) = on_backend(*scenario) {
            panic!("{name}: {reason}");
        }
    }
}

fn on_sled(scenario: ContractScenario) -> Result<(), String> {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let (log, _) = SledLog::open(&options, &environment(), |_| {}).map_err(|error| error.to_string())?;
    scenario(&log)?;
    let before = read_all(&log)?;
    log.close().map_err(|error| error.to_string())?;
    assert_same("after close", &read_all(&log)?, &before)?;
    drop(log);
    let (log, report) = SledLog::open(&options, &environment(), |_| {}).map_err(|error| error.to_string())?;
    assert_same("index after close", &(report.index_failure, log.indexed_position()), &(None, log.head()))?;
    assert_same("after close and reopening", &read_all(&log)?, &before)?;
    drop(log);
    let (log, _) = SledLog::open(&options, &environment(), |_| {}).map_err(|error| error.to_string())?;
    assert_same("after drop and reopening", &read_all(&log)?, &before)
}

/// Returns options with small segments, so that scenarios use several.
fn options(directory: &std::path::Path) -> SledLogOptions {
    let mut options = SledLogOptions::new(directory);
    options.journal.segment_bytes = 16 * 1024;
    options
}

fn environment() -> Environment {
    Environment::manual(AT, 7)
}

fn assert_same<T: PartialEq + Debug>(label: &str, found: &T, expected: &T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{label}: found {found:?}, expected {expected:?}")) }
}

fn read_all(log: &dyn EventLog) -> Result<Vec<RecordedEvent>, String> {
    log.read_all(Position(0), usize::MAX).map_err(|error| error.to_string())
}

fn stream(log: &dyn EventLog, number: u128, after: u64) -> Result<Vec<RecordedEvent>, String> {
    log.read_stream(&task_stream(number), Version(after)).map_err(|error| error.to_string())
}

fn group(log: &dyn EventLog, group: Vec<Append>) -> Result<Vec<Result<Commit, AppendRejection>>, String> {
    let outcome = log.append(group).map_err(|error| error.to_string())?;
    log.after_group();
    Ok(outcome)
}

fn accepted(log: &dyn EventLog, append: Append) -> Result<Commit, String> {
    let outcome = group(log, vec![append])?.pop().ok_or("no outcome for an append")?;
    outcome.map_err(|rejection| rejection.to_string())
}

fn an_empty_log_has_nothing(log: &dyn EventLog) -> Result<(), String> {
    assert_same("head", &log.head(), &Position(0))?;
    assert_same("events", &read_all(log)?, &Vec::new())?;
    assert_same("stream", &stream(log, 1, 0)?, &Vec::new())?;
    assert_same("outcome of an empty group", &group(log, Vec::new())?.len(), &0)
}

fn positions_and_versions_have_no_gaps(log: &dyn EventLog) -> Result<(), String> {
    for round in 0..20 {
        group(log, (1..=5).map(|number| append(number, round * 2, round, 2)).collect())?;
    }
    let positions: Vec<_> = read_all(log)?.iter().map(|event| event.position.0).collect();
    assert_same("positions", &positions, &(1..=200).collect())?;
    assert_same("head", &log.head(), &Position(200))?;
    for number in 1..=5 {
        let versions: Vec<_> = stream(log, number, 0)?.iter().map(|event| event.version.0).collect();
        assert_same("versions", &versions, &(1..=40).collect())?;
    }
    Ok(())
}

fn events_come_back_as_they_were(log: &dyn EventLog) -> Result<(), String> {
    let mut expected = Vec::new();
    for (index, event) in (0..).zip(every_kind()) {
        let mut append = append(1, index, index, 1);
        append.events[0].event = event;
        let commit = accepted(log, append.clone())?;
        assert_same("the commit", &commit, &append.into_commit(Position(index)))?;
        expected.extend_from_slice(&commit);
    }
    assert_same("all", &read_all(log)?, &expected)?;
    assert_same("the stream", &stream(log, 1, 0)?, &expected)
}

fn a_conflict_changes_nothing(log: &dyn EventLog) -> Result<(), String> {
    accepted(log, append(1, 0, 1, 2))?;
    let before = read_all(log)?;
    for expected in [0, 1, 3] {
        let outcome = group(log, vec![append(1, expected, 2, 1)])?;
        let (expected, actual) = (Version(expected), Version(2));
        assert_same(
            "refusal",
            &outcome,
            &vec![Err(AppendRejection::Conflict { stream: task_stream(1), expected, actual })],
        )?;
    }
    assert_same("events", &read_all(log)?, &before)?;
    accepted(log, append(1, 2, 3, 1)).map(drop)
}

fn each_append_of_a_group_sees_the_earlier_ones(log: &dyn EventLog) -> Result<(), String> {
    let outcome = group(
        log,
        vec![append(1, 0, 1, 1), append(1, 0, 2, 1), append(1, 1, 3, 2), append(2, 0, 4, 1), append(1, 3, 5, 1)],
    )?;
    let accepted: Vec<_> = outcome.iter().map(Result::is_ok).collect();
    assert_same("accepted", &accepted, &vec![true, false, true, true, true])?;
    let events: Vec<_> = read_all(log)?.iter().map(|event| (event.position.0, event.version.0)).collect();
    assert_same("position and version", &events, &vec![(1, 1), (2, 2), (3, 3), (4, 1), (5, 4)])
}

fn events_of_one_append_stay_together(log: &dyn EventLog) -> Result<(), String> {
    let outcome = group(log, vec![append(1, 0, 1, 3), append(2, 0, 2, 4), append(1, 0, 3, 5), append(1, 3, 4, 2)])?;
    let commits: Vec<_> = outcome.into_iter().flatten().collect();
    assert_same("commits", &commits.len(), &3)?;
    let all_events: Vec<_> = commits.iter().flat_map(|commit| commit.iter().cloned()).collect();
    assert_same("all", &read_all(log)?, &all_events)
}

fn appended_events_are_readable_at_once(log: &dyn EventLog) -> Result<(), String> {
    let mut versions = [0; 7];
    for round in 0..300 {
        let number = (round % 7) as usize;
        let commit = accepted(log, append(number as u128, versions[number], round, 1 + round % 3))?;
        let first = &commit[0];
        let found = stream(log, number as u128, first.version.0 - 1)?;
        assert_same("the end of the stream", &found, &commit.to_vec())?;
        let found = log.read_all(Position(first.position.0 - 1), 10).map_err(|error| error.to_string())?;
        assert_same("the end of the log", &found, &commit.to_vec())?;
        versions[number] += commit.len() as u64;
        assert_same("the whole stream", &(stream(log, number as u128, 0)?.len() as u64), &versions[number])?;
    }
    assert_same("all", &(read_all(log)?.len() as u64), &log.head().0)
}

fn reads_have_the_requested_start_and_limit(log: &dyn EventLog) -> Result<(), String> {
    for round in 0..30 {
        accepted(log, append(u128::from(round % 2), round / 2 * 3, round, 3))?;
    }
    let all_events = read_all(log)?;
    for after in 0..=91 {
        for limit in [0, 1, 2, 3, 7, 90, 1000] {
            let found = log.read_all(Position(after), limit).map_err(|error| error.to_string())?;
            let remaining = all_events.get(usize::try_from(after).unwrap()..).unwrap_or_default();
            assert_same("part of the log", &found, &remaining[..limit.min(remaining.len())].to_vec())?;
        }
    }
    let full_stream = stream(log, 1, 0)?;
    for after in 0..=46 {
        let remaining = full_stream.get(usize::try_from(after).unwrap()..).unwrap_or_default();
        assert_same("part of the stream", &stream(log, 1, after)?, &remaining.to_vec())?;
    }
    Ok(())
}

fn streams_with_a_common_prefix_are_separate(log: &dyn EventLog) -> Result<(), String> {
    let names = ["task/a", "task/a0", "task/a/b", "task/", "delivery/a"];
    let streams: Vec<_> = names.iter().filter_map(|name| mediary::events::stream::StreamId::parse(name)).collect();
    for round in 0..3 {
        for stream in &streams {
            accepted(log, Append { stream: stream.clone(), ..append(0, round, round, 1) })?;
        }
    }
    for stream in &streams {
        let events = log.read_stream(stream, Version(0)).map_err(|error| error.to_string())?;
        assert_same("events", &events.len(), &3)?;
        assert_same("the stream of each", &events.iter().all(|event| event.stream == *stream), &true)?;
    }
    Ok(())
}

fn only_the_oversized_append_of_a_group_is_rejected(log: &dyn EventLog) -> Result<(), String> {
    let mut oversized = append(3, 0, 0, 0);
    oversized.events = (0..).take(40).flat_map(|_| large_append(3, 0, EVENT_BYTES_MAX / 2).events).collect();
    let outcome =
        group(log, vec![append(1, 0, 1, 1), large_append(2, 0, EVENT_BYTES_MAX), oversized, append(1, 1, 2, 1)])?;
    let rejected_bytes = |outcome: &Result<Commit, AppendRejection>| match outcome {
        Err(AppendRejection::TooLarge { bytes }) => Some(*bytes),
        _ => None,
    };
    let rejections: Vec<_> = outcome.iter().map(rejected_bytes).collect();
    assert_same("accepted", &rejections.iter().map(Option::is_none).collect(), &vec![true, false, false, true])?;
    assert_same("size of the event", &rejections[1].is_some_and(|bytes| bytes > EVENT_BYTES_MAX), &true)?;
    assert_same("size of the commit", &rejections[2].is_some_and(|bytes| bytes > COMMIT_BYTES_MAX), &true)?;
    assert_same("events", &read_all(log)?.len(), &2)?;
    accepted(log, append(2, 0, 3, 1)).map(drop)
}

fn the_largest_allowed_events_are_accepted(log: &dyn EventLog) -> Result<(), String> {
    let count = COMMIT_BYTES_MAX / EVENT_BYTES_MAX;
    let events: Vec<_> = (0..count).flat_map(|_| large_append(1, 0, EVENT_BYTES_MAX - 100).events).collect();
    let commit = accepted(log, Append { events, ..append(1, 0, 0, 0) })?;
    assert_same("all", &read_all(log)?, &commit.to_vec())?;
    accepted(log, append(1, count as u64, 1, 1)).map(drop)
}

fn an_append_without_events_records_nothing(log: &dyn EventLog) -> Result<(), String> {
    assert_same("the commit", &accepted(log, append(1, 0, 1, 0))?.len(), &0)?;
    assert_same("a conflict", &group(log, vec![append(1, 1, 1, 0)])?[0].is_err(), &true)?;
    assert_same("head", &log.head(), &Position(0))
}

fn readers_never_see_gaps(log: &dyn EventLog) -> Result<(), String> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut last_seen = 0;
            while !stop.load(Ordering::SeqCst) {
                let head = log.head().0;
                let events = log.read_all(Position(last_seen), 100).map_err(|error| error.to_string())?;
                let positions: Vec<_> = events.iter().map(|event| event.position.0).collect();
                assert_same("positions", &positions, &(last_seen + 1..=last_seen + events.len() as u64).collect())?;
                assert_same(
                    "reaches the head",
                    &(events.len() == 100 || last_seen + events.len() as u64 >= head),
                    &true,
                )?;

                // Only half of them, so that the next read repeats the others.
                last_seen += events.len() as u64 / 2;
                let versions: Vec<_> = stream(log, 1, 0)?.iter().map(|event| event.version.0).collect();
                assert_same("versions", &versions, &(1..=versions.len() as u64).collect())?;
            }
            Ok(())
        });

        let written = (0..200).try_for_each(|round| {
            group(log, vec![append(1, round * 2, round, 2), append(2, round, round, 1)]).map(drop)
        });
        stop.store(true, Ordering::SeqCst);
        written.and(reader.join().map_err(|_| "the reader panicked".to_owned())?)
    })
}
