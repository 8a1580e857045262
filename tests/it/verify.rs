//! `mediary audit verify` and `checkpoint`: intact data passes, every kind of damage is named, and no file is changed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use mediary::domain::video::VideoFormat;
use mediary::environment::Environment;
use mediary::events::journal::SignedCheckpoint;
use mediary::events::log::EventLog;
use mediary::events::sled_log::{SledLog, SledLogOptions};
use mediary::media::store::{MediaArea, MediaStore};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::samples::append;
use crate::support::process::{Process, TOKEN, run};
use crate::support::zip::valid_archive;
use crate::support::{TestApp, client, picture};

/// Creates a data directory that contains only a log with small segments.
pub fn with_log(groups: u64) -> TempDir {
    let data = tempfile::tempdir().unwrap();
    add(data.path(), 0..groups);
    data
}

fn options(data: &Path) -> SledLogOptions {
    let mut options = SledLogOptions::new(data.join("log"));
    options.journal.segment_bytes = 8 * 1024;
    options
}

/// Adds numbered groups of two events to the log of a data directory.
pub fn add(data: &Path, groups: std::ops::Range<u64>) {
    add_marked(data, groups, 0);
}

/// Like [`add`]; events with different marks have different content.
pub fn add_marked(data: &Path, groups: std::ops::Range<u64>, mark: u64) {
    fs::create_dir_all(data.join("log")).unwrap();
    let (log, _) = SledLog::open(&options(data), &Environment::system(), |_| {}).unwrap();
    for index in groups {
        log.append(vec![append(1, index, index + mark, 1), append(2, index, index + mark, 1)]).unwrap();
        log.after_group();
    }
    log.close().unwrap();
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Returns the content, mode and time of change (seconds and nanoseconds) of every file and directory below `root`.
fn directory_state(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32, i64, i64)> {
    let mut entries_by_path = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let metadata = fs::metadata(&path).unwrap();
        let bytes = if metadata.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
        if metadata.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        entries_by_path.insert(path, (bytes, metadata.mode(), metadata.mtime(), metadata.mtime_nsec()));
    }
    entries_by_path
}

pub fn segments(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data.join("log/journal")).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> = entries.filter(|path| path.extension().is_some_and(|kind| kind == "seg")).collect();
    segments.sort();
    segments
}

/// Flips one bit of the byte at an offset.
pub fn flip(file: &Path, at: u64) {
    let opened = fs::File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    opened.read_exact_at(&mut byte, at).unwrap();
    opened.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
}

/// Creates a data directory with an archive and pictures, by a service that has stopped.
pub async fn with_media() -> TempDir {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    let path = "/publishers/acme/nodes/face-tools/versions";
    let version =
        app.post_as(&alice.token, path, json!({"node_version": {"version": "1.0.0"}})).await.expect(201).json();
    let link = version["signedUrl"].as_str().unwrap();
    let link = &link[link.find("/uploads/").unwrap()..];
    app.send(app.request(Method::PUT, link).body(valid_archive())).await.expect(200);
    let body = json!({"image": picture::base64_png(8, 8)});
    let upscaler = "/proxy/imagevendor/v1/ai/image-upscaler";
    app.post_as(&alice.token, upscaler, body).await.expect(200);
    app.stop().await
}

/// Returns any file below a directory.
pub fn file_below(folder: &Path) -> PathBuf {
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_file() {
            return path;
        }
        open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
    }
    panic!("no file below {}", folder.display())
}

#[actix_web::test]
async fn verifying_an_intact_directory_reports_clean_and_changes_nothing() {
    // Given the data directory of a stopped service
    let data = with_media().await;
    let before = directory_state(data.path());

    // When it is verified, then it passes
    let actual = run(data.path(), &["audit", "verify"]).expect(0).assert_contains(&[
        "clean: ",
        "1 archive, ",
        "signed with key ",
    ]);
    assert_eq!(actual.out.lines().count(), 1, "{}", actual.out);

    // And the JSON output has the same result
    let actual: Value = serde_json::from_str(&run(data.path(), &["audit", "verify", "--json"]).expect(0).out).unwrap();
    assert_eq!((&actual["result"], &actual["findings"], &actual["archives"]), (&json!("clean"), &json!([]), &json!(1)));
    assert!(actual["position"].as_u64().unwrap() >= 6 && actual["events"] == actual["position"], "{actual}");

    // And no file was changed or created
    assert_eq!(directory_state(data.path()), before);
}

#[actix_web::test]
async fn files_are_counted_by_what_they_contain() {
    // Given a data directory that also has a video, music and a text
    let data = with_media().await;
    let store = MediaStore::open(&data.path().join("media")).unwrap();
    store.put_clip(MediaArea::Result, b"a video", VideoFormat::Mp4).unwrap();
    store.put_document("a text").unwrap();
    let music = store.put_clip(MediaArea::Result, b"music", VideoFormat::Mp4).unwrap();
    let path = store.path_of(MediaArea::Result, &music.file_name()).unwrap();
    fs::rename(&path, path.with_extension("ogg")).unwrap();

    // When it is verified, then none of them counts as a picture
    let before = run(data.path(), &["audit", "verify", "--json"]).expect(0).out;
    let report: Value = serde_json::from_str(&before).unwrap();
    let counts = ["archives", "pictures", "videos", "music", "texts"].map(|name| report[name].as_u64().unwrap());
    assert!(counts[1] > 0, "{report}");
    assert_eq!([counts[0], counts[2], counts[3], counts[4]], [1, 1, 1, 1]);
    run(data.path(), &["audit", "verify"]).expect(0).assert_contains(&[", 1 video, 1 music file, 1 text;"]);
}

#[actix_web::test]
async fn damaged_and_missing_files_are_reported() {
    let data = with_media().await;
    let archive = file_below(&data.path().join("archives"));
    let input = file_below(&data.path().join("media/inputs"));
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    // A changed picture and a changed archive
    flip(&input, 20);
    flip(&archive, 20);
    let actual = run(data.path(), &["audit", "verify"]).expect(1).assert_contains(&["damaged: 2 findings"]);
    for file in [&archive, &input] {
        let line = actual.out.lines().find(|line| line.contains(&name(file))).expect("a line for the file");
        assert!(line.contains("does not match the file name"), "{line}");
    }
    // Pictures may be missing, archives may not
    fs::remove_file(&input).unwrap();
    fs::remove_file(&archive).unwrap();
    run(data.path(), &["audit", "verify"]).expect(1).assert_contains(&[
        "1 finding ",
        &name(&archive),
        "the archive of a version is missing",
    ]);
}

/// Name, damage, and the expected findings.
type VerifyHarm = (&'static str, fn(&Path), &'static [&'static str]);

const HARMS: &[VerifyHarm] = &[
    (
        "a flipped bit",
        |data| flip(&segments(data)[0], 2000),
        &["00000000000000000001.seg at offset ", "the checksum of the record", "missing"],
    ),
    (
        "a flipped bit of the length",
        |data| flip(&segments(data)[0], 514),
        &["at offset 512, position 1:", "an invalid length"],
    ),
    ("a flipped header", |data| flip(&segments(data)[1], 30), &["at offset 0", "the checksum of the segment header"]),
    (
        "zeros",
        |data| {
            let file = fs::File::options().write(true).open(&segments(data)[0]).unwrap();
            file.write_all_at(&[0; 300], 3000).unwrap();
        },
        &["the next intact record is at offset"],
    ),
    (
        "a cut segment",
        |data| fs::File::options().write(true).open(&segments(data)[0]).unwrap().set_len(3000).unwrap(),
        &["missing"],
    ),
    (
        "a cut journal",
        |data| {
            let last = segments(data).pop().unwrap();
            fs::File::options().write(true).open(last).unwrap().set_len(512).unwrap();
        },
        &["the journal ends here, but HEAD says"],
    ),
    ("a missing segment", |data| fs::remove_file(&segments(data)[1]).unwrap(), &["are missing", "at offset 0"]),
    (
        "swapped segments",
        |data| {
            let segments = segments(data);
            let first = fs::read(&segments[0]).unwrap();
            fs::copy(&segments[1], &segments[0]).unwrap();
            fs::write(&segments[1], first).unwrap();
        },
        &["which is not its name"],
    ),
    (
        "a segment of another log",
        |data| {
            let other = with_log(100);
            fs::copy(&segments(other.path())[1], &segments(data)[1]).unwrap();
        },
        &["belongs to another log"],
    ),
    (
        "a damaged HEAD",
        |data| {
            flip(&data.join("log/journal/HEAD"), 40);
            flip(&data.join("log/journal/HEAD"), 4096 + 40);
        },
        &["HEAD: both slots are damaged"],
    ),
    ("a missing HEAD", |data| fs::remove_file(data.join("log/journal/HEAD")).unwrap(), &["HEAD is missing"]),
    ("a missing key", |data| fs::remove_file(data.join("log/signing.key")).unwrap(), &["the signing key is missing"]),
    ("another key", |data| fs::write(data.join("log/signing.key"), [7; 32]).unwrap(), &["signed with a key other"]),
    (
        "sled of another log",
        |data| {
            let other = tempfile::tempdir().unwrap();
            add_marked(other.path(), 0..100, 5000);
            fs::remove_dir_all(data.join("log/sled")).unwrap();
            copy(&other.path().join("log/sled"), &data.join("log/sled"));
        },
        &["sled, position 1: the index does not lead to the record of the journal (200 records in total)"],
    ),
    (
        "sled beyond the journal",
        |data| {
            let longer = tempfile::tempdir().unwrap();
            copy(data, longer.path());
            add(longer.path(), 100..103);
            fs::remove_dir_all(data.join("log/sled")).unwrap();
            copy(&longer.path().join("log/sled"), &data.join("log/sled"));
        },
        &["position 201: the record is not in the journal", "position 206"],
    ),
    (
        "a file in place of sled",
        |data| {
            fs::remove_dir_all(data.join("log/sled")).unwrap();
            fs::write(data.join("log/sled"), "x").unwrap();
        },
        &["cannot open sled"],
    ),
];

#[test]
fn every_kind_of_log_damage_is_reported() {
    let intact = with_log(100);
    run(intact.path(), &["audit", "verify"]).expect(0).assert_contains(&["clean: 200 events up to position 200"]);
    for (label, harm, findings) in HARMS {
        let data = tempfile::tempdir().unwrap();
        copy(intact.path(), data.path());
        harm(data.path());
        let before = directory_state(data.path());
        println!("{label}");
        run(data.path(), &["audit", "verify"]).expect(1).assert_contains(findings).assert_contains(&["damaged: "]);
        assert!(directory_state(data.path()) == before, "{label}: something was changed");
    }
}

#[test]
fn self_repairing_defects_are_notes_and_not_damage() {
    // Given an unfinished write after HEAD, and a sled that is behind or missing
    let intact = with_log(20);
    let data = tempfile::tempdir().unwrap();
    copy(intact.path(), data.path());
    let last = segments(data.path()).pop().unwrap();
    let end = fs::read(&last).unwrap().iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
    fs::File::options().write(true).open(&last).unwrap().write_all_at(&[0xff; 100], end).unwrap();
    run(data.path(), &["audit", "verify"])
        .expect(0)
        .assert_contains(&["unfinished write that was never acknowledged", "clean: 40"]);
    add(data.path(), 20..22);
    fs::remove_dir_all(data.path().join("log/sled")).unwrap();
    run(data.path(), &["audit", "verify"]).expect(0).assert_contains(&["sled is missing", "clean: 44"]);
    copy(&intact.path().join("log/sled"), &data.path().join("log/sled"));
    run(data.path(), &["audit", "verify"]).expect(0).assert_contains(&["sled is 4 events behind", "clean: 44"]);
}

#[test]
fn positions_that_no_signature_covers_are_reported() {
    // Given a log whose last commits reached the disk, but not the HEAD that signs them
    let data = with_log(20);
    let head = data.path().join("log/journal/HEAD");
    let signed_before = fs::read(&head).unwrap();
    add(data.path(), 20..22);
    run(data.path(), &["audit", "verify"]).expect(0).assert_contains(&["clean: 44"]);
    fs::write(&head, signed_before).unwrap();

    // Then it passes, and the report names the part that is chained but not signed
    run(data.path(), &["audit", "verify"]).expect(0).assert_contains(&["positions 41 to 44 are unsigned", "clean: 44"]);
    let json = run(data.path(), &["audit", "verify", "--json"]).expect(0).out;
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["unsigned"], serde_json::json!({"from": 41, "to": 44}));
}

#[test]
fn other_directories_cannot_be_verified() {
    let empty = tempfile::tempdir().unwrap();
    let actual = run(&empty.path().join("nowhere"), &["audit", "verify"]).expect(2);
    assert!(actual.err.contains("is not a data directory"), "{}", actual.err);
    assert!(!empty.path().join("nowhere").exists());
    let data = with_log(1);
    for since in ["nowhere", data.path().join("log/signing.key").to_str().unwrap()] {
        run(data.path(), &["audit", "verify", "--since", since]).expect(2);
    }
}

#[test]
fn a_checkpoint_detects_rewritten_truncated_and_foreign_histories() {
    // Given a checkpoint stored elsewhere
    let (data, other_dir) = (with_log(10), tempfile::tempdir().unwrap());
    let file = other_dir.path().join("checkpoint");
    let file = file.to_str().unwrap();
    let since = |data: &Path| run(data, &["audit", "verify", "--since", file]);
    let earlier = tempfile::tempdir().unwrap();
    copy(data.path(), earlier.path());
    add(data.path(), 10..20);
    run(data.path(), &["audit", "checkpoint", "--out", file]).expect(0);

    // Then the history of that checkpoint contains it, even when it has grown
    since(data.path()).expect(0);
    add(data.path(), 20..30);
    since(data.path()).expect(0).assert_contains(&["clean: 60"]);

    // And a shorter history does not, nor does a fork, nor another log
    since(earlier.path())
        .expect(1)
        .assert_contains(&["the history was truncated: it ends at position 20, but the checkpoint was taken at 40"]);
    add_marked(earlier.path(), 10..40, 700);
    since(earlier.path()).expect(1).assert_contains(&["the history was rewritten"]);
    since(with_log(50).path()).expect(1).assert_contains(&["but the checkpoint is of log "]);

    // And a checkpoint with a foreign signature is rejected
    let taken = SignedCheckpoint::parse(&fs::read_to_string(file).unwrap()).unwrap();
    let forged = taken.checkpoint().sign(&SigningKey::from_bytes(&[5; 32]));
    fs::write(file, forged.to_json().to_string()).unwrap();
    since(data.path()).expect(1).assert_contains(&["the checkpoint was signed with "]);

    // And a changed one is invalid
    fs::write(file, taken.to_json().to_string().replace("\"position\":40", "\"position\":38")).unwrap();
    assert!(since(data.path()).expect(2).err.contains("its signature is invalid"));
}

#[actix_web::test]
async fn a_running_service_is_verified_up_to_its_head_and_gives_checkpoints() {
    // Given a running service with some history
    let data = tempfile::tempdir().unwrap();
    let service = Process::start(data.path());
    let body = json!({"id": "acme"});
    let created = client().post(service.url("/publishers")).bearer_auth(TOKEN).json(&body).send().await.unwrap();
    assert_eq!(created.status(), 201);

    // When one checkpoint is requested from it, and another is taken from its directory
    let requested =
        run(data.path(), &["audit", "checkpoint", "--url", &service.url(""), "--token", TOKEN]).expect(0).out;
    let file = data.path().with_extension("checkpoint");
    fs::write(&file, &requested).unwrap();
    let verified = run(data.path(), &["audit", "verify", "--since", file.to_str().unwrap()]);
    fs::remove_file(&file).unwrap();

    // Then the directory contains it, and the report names the parts that were not checked
    verified.expect(0).assert_contains(&["a service is running on it", "sled was not compared", "clean: 2 events"]);
    let read = run(data.path(), &["audit", "checkpoint"]).expect(0).out;
    let chain = |text: &str| SignedCheckpoint::parse(text).unwrap().checkpoint().head;
    assert_eq!(chain(&requested), chain(&read));
}
