//! sled as a follower of the journal: whatever happens to it, the content of the log is that of the journal.

use std::fs;

use mediary::environment::Environment;
use mediary::events::log::EventLog;
use mediary::events::memory_log::MemoryLog;
use mediary::events::sled_log::{SledLog, SledReport};
use mediary::events::stream::Version;
use proptest::prelude::*;

use crate::journal::{LogFixture, all, flip};
use crate::samples::{AT, append, task_stream};

#[test]
fn sled_is_rebuilt_whatever_happened_to_it() {
    let log_fixture = LogFixture::with_groups(50);
    let before = all(&log_fixture.open().0);
    let check = |label: &str| {
        let (log, report) = log_fixture.open();
        assert_eq!(all(&log), before, "{label}");
        assert_eq!(log.read_stream(&task_stream(1), Version(0)).unwrap().len(), 50, "{label}");
        log.close().unwrap();
        report.sled
    };
    fs::remove_dir_all(log_fixture.path("sled")).unwrap();
    assert_eq!(check("deleted").inserted, 100);
    fs::write(log_fixture.path("sled/db"), b"garbage").unwrap();
    assert_eq!(check("garbage").inserted, 100);
    fs::write(log_fixture.path("sled/conf"), b"garbage").unwrap();
    check("garbage as its configuration");
    fs::remove_dir_all(log_fixture.path("sled")).unwrap();
    fs::write(log_fixture.path("sled"), b"a file").unwrap();
    assert!(check("a file").rebuilt.is_some());
    fs::write(log_fixture.path("sled.damaged"), b"a reader found a gap").unwrap();
    assert_eq!(check("marked").rebuilt.map(|rebuilt| rebuilt.reason).as_deref(), Some("a reader found a gap"));
    assert_eq!(check("healed"), SledReport { inserted: 0, rebuilt: None });
}

#[test]
fn a_flipped_bit_in_sled_is_never_served() {
    let log_fixture = LogFixture::with_groups(50);
    let before = all(&log_fixture.open().0);
    let sled_bytes = fs::read(log_fixture.path("sled/db")).unwrap();
    let used_offsets: Vec<u64> = (0..).zip(&sled_bytes).filter(|(_, byte)| **byte != 0).map(|(at, _)| at).collect();
    let mut rebuild_count = 0;
    for at in used_offsets.iter().step_by(used_offsets.len() / 16) {
        flip(&log_fixture.path("sled/db"), *at);
        let (log, report) = log_fixture.open();
        rebuild_count += report.sled.inserted;
        assert_eq!(all(&log), before, "byte {at}");
        for stream in [1, 2] {
            assert_eq!(log.read_stream(&task_stream(stream), Version(0)).unwrap().len(), 50, "byte {at}");
        }
        log.close().unwrap();
    }
    assert!(rebuild_count > 0, "no flipped bit mattered");
}

#[test]
fn sled_of_another_log_is_rebuilt() {
    let (log_fixture, other) = (LogFixture::with_groups(50), LogFixture::new());
    let log = other.open().0;
    for index in 0..50 {
        log.append(vec![append(3, index * 2, index, 2)]).unwrap();
    }
    log.close().unwrap();
    drop(log);
    fs::remove_dir_all(log_fixture.path("sled")).unwrap();
    fs::rename(other.path("sled"), log_fixture.path("sled")).unwrap();
    let (log, report) = log_fixture.open();
    assert!(report.sled.rebuilt.is_some(), "{report:?}");
    assert_eq!(all(&log).len(), 100);
    assert!(log.read_stream(&task_stream(3), Version(0)).unwrap().is_empty());
}

#[test]
fn the_caller_sees_every_commit_at_the_start() {
    let log_fixture = LogFixture::with_groups(30);
    let mut commits_seen = Vec::new();
    let opened = SledLog::open(&log_fixture.options, &Environment::manual(AT, 7), |commit| {
        commits_seen.extend_from_slice(commit);
    });
    assert_eq!(commits_seen, all(&opened.unwrap().0));
}

/// Random change of a log.
#[derive(Debug, Clone)]
enum RebuildStep {
    Group(Vec<(u128, u64, u64)>),
    Close,
    Drop,
}

fn steps() -> impl Strategy<Value = Vec<RebuildStep>> {
    let group = prop::collection::vec((0..4u128, 0..6u64, 1..4u64), 1..6);
    let step = prop_oneof![8 => group.prop_map(RebuildStep::Group), 1 => Just(RebuildStep::Close), 1 => Just(RebuildStep::Drop)];
    prop::collection::vec(step, 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_durable_log_is_as_the_one_in_memory(steps in steps()) {
        let mut house = LogFixture::new();
        house.options.journal.segment_bytes = 2 * 1024;
        house.options.versions_max = 2;
        let (mut log, model) = (house.open().0, MemoryLog::default());
        for (mark, step) in (0..).zip(steps) {
            if let RebuildStep::Group(appends) = step {
                let version = |stream| model.read_stream(&task_stream(stream), Version(0)).unwrap().len() as u64;
                let group: Vec<_> = appends
                    .into_iter()
                    .map(|(stream, behind, count)| append(stream, version(stream).saturating_sub(behind / 4), mark, count))
                    .collect();
                prop_assert_eq!(log.append(group.clone()).unwrap(), model.append(group).unwrap());
                log.after_group();
            } else {
                if matches!(step, RebuildStep::Close) {
                    log.close().unwrap();
                }
                drop(log);
                log = house.open().0;
            }
            prop_assert_eq!(log.head(), model.head());
            prop_assert_eq!(all(&log), all(&model));
            for stream in (0..4).map(task_stream) {
                let (found, expected) = (log.read_stream(&stream, Version(0)), model.read_stream(&stream, Version(0)));
                prop_assert_eq!(found.unwrap(), expected.unwrap());
            }
        }
    }
}
