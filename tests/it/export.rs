//! Export: identical bytes for the same log, and any modification is detected and located by its line.

use std::fs;
use std::path::{Path, PathBuf};

use mediary::environment::Environment;
use mediary::events::journal::{SignedCheckpoint, hex};
use mediary::events::log::EventLog;
use mediary::events::sled_log::{SledLog, SledLogOptions};
use mediary::verification::export::{ExportFormat, export};
use mediary::verification::export_check::{ExportReport, ExportTrust, verify};
use tempfile::TempDir;

use crate::samples::{AT, append};
use crate::support::process::run;
use crate::verify::{add, with_log};

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/export/log.jsonl")
}

/// Creates a log that is identical to the byte each time.
fn same_log(commits: &[u64]) -> TempDir {
    let data = tempfile::tempdir().unwrap();
    let mut options = SledLogOptions::new(data.path().join("log"));
    options.journal.segment_bytes = 1 << 16;
    fs::create_dir_all(data.path().join("log")).unwrap();
    let (log, _) = SledLog::open(&options, &Environment::manual(AT, 7), |_| {}).unwrap();
    let mut version = 0;
    for (index, events) in (0..).zip(commits) {
        log.append(vec![append(1, version, index, *events)]).unwrap();
        version += events;
    }
    log.after_group();
    log.close().unwrap();
    data
}

fn exported(data: &Path) -> String {
    let mut out = Vec::new();
    let environment = Environment::manual(AT, 1);
    export(&data.join("log"), ExportFormat::default(), &environment, &mut out, &mut |_, _| {}).unwrap();
    String::from_utf8(out).unwrap()
}

fn verified(text: &str, trust: ExportTrust<'_>) -> ExportReport {
    verify(text.as_bytes(), ExportFormat::default(), trust, &mut |_| {})
        .unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn key_of(text: &str) -> [u8; 32] {
    let head: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    hex::decode(head["public_key"].as_str().unwrap()).unwrap()
}

#[test]
fn exports_match_the_golden_file() {
    let text = exported(same_log(&[1, 3, 1, 2]).path());
    if std::env::var_os("UPDATE_GOLDEN").is_some() && !golden().exists() {
        fs::create_dir_all(golden().parent().unwrap()).unwrap();
        fs::write(golden(), &text).unwrap();
    }
    let golden_text = fs::read_to_string(golden()).expect("UPDATE_GOLDEN=1 writes it once");
    assert_eq!(text, golden_text);
    let report = verified(&golden_text, ExportTrust::Key(key_of(&golden_text)));
    assert_eq!((report.findings, report.notes, report.events, report.lines), (vec![], vec![], 7, 6));
}

#[test]
fn an_export_is_verified_on_another_machine() {
    let (data, other_dir) = (with_log(20), tempfile::tempdir().unwrap());
    let file = other_dir.path().join("log.jsonl");
    let name = file.to_str().unwrap();
    let checkpoint_file = other_dir.path().join("checkpoint");
    run(data.path(), &["audit", "checkpoint", "--out", checkpoint_file.to_str().unwrap()]).expect(0);
    add(data.path(), 20..30);
    run(data.path(), &["audit", "export", name]).expect(0).assert_contains(&["60 events exported"]);
    assert_eq!(run(data.path(), &["audit", "export", "-"]).expect(0).out.lines().count(), 62);

    // Needs only the export and the key
    let nowhere = other_dir.path().join("nowhere");
    let text = fs::read_to_string(&file).unwrap();
    let key = hex::encode(&key_of(&text));
    let check =
        |extra_arguments: &[&str]| run(&nowhere, &[&["audit", "verify", "--file", name], extra_arguments].concat());
    check(&["--key", &key]).expect(0).assert_contains(&["clean: 60 events", &key]);
    check(&["--since", checkpoint_file.to_str().unwrap()]).expect(0);
    // Without either, the origin is unknown
    check(&[]).expect(2).assert_contains(&["not verified: the origin of the export", "give --key or --since"]);

    let json = check(&["--json"]).expect(2).out;
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["result"], "unverified");
    check(&["--key", &"0".repeat(64)]).expect(1).assert_contains(&["line 1: the export is signed with key"]);
    check(&["--key", "short"]).expect(2);

    // A modified line is named
    let changed = text.replacen(
        "\"schema\":2,\"stream\":\"task/00000000-0000-0000-0000-000000000002\"",
        "\"schema\":2,\"stream\":\"task/00000000-0000-0000-0000-000000000003\"",
        1,
    );
    assert_ne!(changed, text);
    fs::write(&file, changed).unwrap();
    check(&["--key", &key])
        .expect(1)
        .assert_contains(&["line 3: the line differs from its payload", "damaged: 1 finding"]);
    fs::write(&file, "{}\n").unwrap();
    assert!(check(&[]).expect(2).err.contains("not an export"));
    assert!(!nowhere.exists());
}

#[test]
fn a_diverged_history_does_not_contain_the_checkpoint() {
    let first = exported(same_log(&[1, 1, 1]).path());
    let other = exported(same_log(&[1, 2, 1]).path());
    let checkpoint = |text: &str| {
        let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        SignedCheckpoint::from_json(&last["checkpoint"]).unwrap()
    };
    assert!(verified(&first, ExportTrust::Checkpoint(&checkpoint(&first))).is_clean());

    let findings = verified(&other, ExportTrust::Checkpoint(&checkpoint(&first))).findings;
    assert!(findings[0].problem.contains("the history was rewritten"), "{findings:?}");

    let findings = verified(&first, ExportTrust::Checkpoint(&checkpoint(&other))).findings;
    assert!(
        findings[0].problem.contains("the history ends at position 3, but the checkpoint was taken at 4"),
        "{findings:?}"
    );
}

#[test]
fn a_changed_byte_is_reported_with_its_line() {
    let text = exported(same_log(&[1, 3, 1, 2]).path());
    let key = ExportTrust::Key(key_of(&text));
    let mut line = 1;
    for (at, byte) in text.bytes().enumerate() {
        let line_index = line;
        line += u64::from(byte == b'\n');
        // Every byte of the structure, and a sample of the long texts.
        if byte.is_ascii_alphanumeric() && at % 7 != 0 {
            continue;
        }
        let mut changed = text.clone().into_bytes();
        changed[at] ^= 1;
        match verify(&changed[..], ExportFormat::default(), key, &mut |_| {}) {
            // The first line identifies the format: without it the file is not an export.
            Err(error) => assert_eq!(line_index, 1, "byte {at}: {error}"),
            Ok(report) => {
                let first =
                    report.findings.first().unwrap_or_else(|| panic!("byte {at} of line {line_index} was not missed"));
                // A line split in two, or two lines joined, are located by the first.
                assert_eq!(first.line, line_index, "byte {at}: {}", first.problem);
            }
        }
    }
}

#[test]
fn dropped_added_and_moved_lines_are_reported() {
    let text = exported(same_log(&[1, 3, 1, 2]).path());
    let key = ExportTrust::Key(key_of(&text));
    let lines: Vec<&str> = text.lines().collect();
    let first_finding = |lines: &[&str]| {
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        verify(text.as_bytes(), ExportFormat::default(), key, &mut |_| {})
            .map(|report| report.findings.first().map(|first| first.line))
    };
    assert_eq!(first_finding(&lines).unwrap(), None);

    for index in 0..lines.len() {
        let mut dropped = lines.clone();
        dropped.remove(index);
        let mut doubled = lines.clone();
        doubled.insert(index, lines[index]);
        assert_eq!(first_finding(&doubled).unwrap(), Some(index as u64 + 2), "line {} twice", index + 1);
        if index == 0 {
            assert!(first_finding(&dropped).is_err());
            continue;
        }
        assert_eq!(first_finding(&dropped).unwrap(), Some(index as u64 + 1), "without line {}", index + 1);
        let mut added = lines.clone();
        added.insert(index, "{}");
        assert_eq!(first_finding(&added).unwrap(), Some(index as u64 + 1), "a line before {}", index + 1);
        if index + 1 < lines.len() {
            let mut reordered = lines.clone();
            reordered.swap(index, index + 1);
            assert_eq!(
                first_finding(&reordered).unwrap(),
                Some(index as u64 + 1),
                "line {} behind the next",
                index + 1
            );
        }
    }

    // Everything after a line is missing
    for kept_lines in 1..lines.len() {
        assert_eq!(
            first_finding(&lines[..kept_lines]).unwrap(),
            Some(kept_lines as u64 + 1),
            "{kept_lines} lines are left"
        );
    }
}

#[test]
fn a_long_export_cannot_be_truncated_at_a_checkpoint() {
    let text = exported(same_log(&[100; 201]).path());
    let report = verified(&text, ExportTrust::Key(key_of(&text)));
    assert_eq!((report.findings, report.events, report.checkpoints, report.lines), (vec![], 20_100, 3, 205));

    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("{\"checkpoint\"")).unwrap();
    let cut: String = lines[..=at].iter().flat_map(|line| [line, "\n"]).collect();
    let findings = verified(&cut, ExportTrust::Key(key_of(&text))).findings;
    assert!(findings.len() == 1 && findings[0].problem.contains("lines are missing"), "{findings:?}");

    let without: String = lines.iter().filter(|line| **line != lines[at]).flat_map(|line| [line, "\n"]).collect();
    let findings = verified(&without, ExportTrust::Key(key_of(&text))).findings;
    assert_eq!(
        (findings[0].line, findings[0].problem.as_str()),
        (at as u64 + 1, "a checkpoint is missing before this line")
    );
}

#[test]
fn a_damaged_journal_is_not_exported() {
    let data = with_log(20);
    let segment = data.path().join("log/journal/00000000000000000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[700] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let result = run(data.path(), &["audit", "export", "-"]).expect(1);
    assert!(result.err.contains("the journal is damaged") && result.err.contains("offset"), "{}", result.err);
}
