//! sled as a follower of the journal: whatever happens to it, the content of the log is that of the journal.

use std::fs::{self, OpenOptions};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use mediary::environment::Environment;
use mediary::events::envelope::RecordedEvent;
use mediary::events::log::EventLog;
use mediary::events::memory_log::MemoryLog;
use mediary::events::sled_log::{SledLog, SledLogOptions};
use mediary::events::stream::{Position, Version};
use proptest::prelude::*;
use rustix::process::Signal;

use crate::journal::{LogFixture, all, flip, write_group};
use crate::samples::{AT, append, task_stream};
use crate::support::process::test_child;

/// Checks the content of a log with two streams, and that closing it completes sled.
fn assert_content(log: &SledLog, before: &[RecordedEvent], label: &str) {
    assert_eq!(all(log), before, "{label}");
    for stream in [1, 2] {
        let expected: Vec<_> = before.iter().filter(|event| event.stream == task_stream(stream)).cloned().collect();
        assert_eq!(log.read_stream(&task_stream(stream), Version(0)).unwrap(), expected, "{label}");
    }
    log.close().unwrap();
    assert_eq!(log.indexed_position(), log.head(), "{label}");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_damaged_or_missing_sled_is_rebuilt() {
    let log_fixture = LogFixture::with_groups(50);
    let before = all(&log_fixture.open().0);
    let check = |label: &str| {
        let (log, report) = log_fixture.open();
        assert_content(&log, &before, label);
        report.index_failure
    };
    let sled = log_fixture.path("sled");
    fs::remove_dir_all(&sled).unwrap();
    assert_eq!(check("deleted"), None);
    fs::write(sled.join("db"), b"garbage").unwrap();
    check("garbage");
    let length = fs::metadata(sled.join("db")).unwrap().len();
    for cut in [1, length / 2, length - 1] {
        OpenOptions::new().write(true).open(sled.join("db")).unwrap().set_len(length - cut).unwrap();
        check("truncated");
    }
    fs::write(sled.join("conf"), b"garbage").unwrap();
    check("garbage as its configuration");
    fs::remove_dir_all(&sled).unwrap();
    fs::write(&sled, b"a file").unwrap();
    assert!(check("a file").is_some());
    assert_eq!(check("repaired"), None);
}

#[test]
fn an_older_copy_of_sled_is_completed() {
    // Given a copy of sled, and events after it
    let log_fixture = LogFixture::with_groups(20);
    let older = tempfile::tempdir().unwrap();
    copy(&log_fixture.path("sled"), older.path());
    let log = log_fixture.open().0;
    for index in 20..50 {
        write_group(&log, index);
    }
    log.close().unwrap();
    let before = all(&log);
    drop(log);

    // When the copy replaces sled, then nothing is missing
    fs::remove_dir_all(log_fixture.path("sled")).unwrap();
    copy(older.path(), &log_fixture.path("sled"));
    let (log, report) = log_fixture.open();
    assert_eq!((report.messages(), log.head()), (Vec::new(), Position(100)));
    assert_content(&log, &before, "an older copy");
}

#[test]
fn a_flipped_bit_in_sled_is_never_served() {
    let log_fixture = LogFixture::with_groups(50);
    let before = all(&log_fixture.open().0);
    let sled_bytes = fs::read(log_fixture.path("sled/db")).unwrap();
    let used_offsets: Vec<u64> = (0..).zip(&sled_bytes).filter(|(_, byte)| **byte != 0).map(|(at, _)| at).collect();
    for at in used_offsets.iter().step_by(used_offsets.len() / 32) {
        flip(&log_fixture.path("sled/db"), *at);
        assert_content(&log_fixture.open().0, &before, &format!("byte {at}"));
    }
}

#[test]
fn sled_of_another_log_is_rebuilt() {
    let (log_fixture, other) = (LogFixture::with_groups(50), LogFixture::new());
    let before = all(&log_fixture.open().0);
    let log = other.open().0;
    for index in 0..50 {
        log.append(vec![append(3, index * 2, index, 2)]).unwrap();
    }
    log.close().unwrap();
    drop(log);
    fs::remove_dir_all(log_fixture.path("sled")).unwrap();
    fs::rename(other.path("sled"), log_fixture.path("sled")).unwrap();
    let (log, report) = log_fixture.open();
    assert!(report.index_failure.is_some(), "{report:?}");
    assert!(log.read_stream(&task_stream(3), Version(0)).unwrap().is_empty());
    assert_content(&log, &before, "another log");
}

#[test]
fn an_interrupted_rebuild_of_sled_continues() {
    // Given a log of several runs
    let directory = tempfile::tempdir().unwrap();
    let options = SledLogOptions::new(directory.path());
    let open = || SledLog::open(&options, &Environment::manual(AT, 7), |_| {}).unwrap();
    let log = open().0;
    for index in 0..60 {
        let appends = (1..=300).map(|stream| append(stream, index, index, 1)).collect();
        assert!(log.append(appends).unwrap().iter().all(Result::is_ok));
        log.after_group();
    }
    log.close().unwrap();
    let before = all(&log);
    drop(log);

    for (step, pass) in
        [("SledRemoved", 1), ("SledIndexed", 1), ("SledIndexed", 2), ("SledInserted", 1), ("SledInserted", 3)]
    {
        // When sled is unusable, and the process is killed while it is filled again
        fs::remove_dir_all(directory.path().join("sled")).unwrap();
        fs::write(directory.path().join("sled"), "garbage").unwrap();
        let mut command = test_child(&["refill", directory.path().to_str().unwrap()]);
        command.env("FAULT_KILL_AT", format!("After({step})")).env("FAULT_KILL_PASS", pass.to_string());
        let status = command.status().unwrap();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{step} was not reached: {status}");

        // Then the next start serves everything, and completes sled
        assert_content(&open().0, &before, step);
    }
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
    fn the_durable_log_equals_the_memory_log(steps in steps()) {
        let mut log_fixture = LogFixture::new();
        log_fixture.options.journal.segment_bytes = 2 * 1024;
        let mut log = log_fixture.open().0;
        let model = MemoryLog::default();
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
                log = log_fixture.open().0;
            }

            prop_assert_eq!(log.head(), model.head());
            prop_assert_eq!(all(&log), all(&model));
            for stream in (0..4).map(task_stream) {
                let found = log.read_stream(&stream, Version(0));
                let expected = model.read_stream(&stream, Version(0));
                prop_assert_eq!(found.unwrap(), expected.unwrap());
            }
        }
    }
}
