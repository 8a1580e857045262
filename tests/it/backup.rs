//! `mediary backup` and `restore`: consistent under load, incremental, atomic, verified before the first write.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mediary::config::Settings;
use mediary::data_dir::{DataDir, DataDirError};
use mediary::environment::Environment;
use mediary::events::envelope::{Append, CommandContext, NewEvent, RecordedEvent};
use mediary::events::log::EventLog;
use mediary::events::sled_log::SledLog;
use mediary::events::stream::{Position, Version};
use mediary::file_tree::FileTree;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::json;
use tempfile::TempDir;

use crate::support::process::{Process, TOKEN, command_on, run};
use crate::support::{TestApp, client};
use crate::verification::{exchange_segments, two_histories};
use crate::verify::{add, copy, file_below, flip, with_log, with_media};

/// Returns the position recorded in the backup's output.
fn position(out: &str) -> u64 {
    let remaining = out.split("position ").nth(1).unwrap_or_else(|| panic!("no position in {out}"));
    remaining.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

async fn write_until(base: String, writer: usize, stop: Arc<AtomicBool>) {
    let (client, publisher) = (client(), format!("p{writer}"));
    let post = |path: String, body: serde_json::Value| {
        client.post(format!("{base}{path}")).bearer_auth(TOKEN).json(&body).send()
    };
    assert_eq!(post("/publishers".to_owned(), json!({"id": publisher})).await.unwrap().status(), 201);
    for index in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let body = json!({"id": format!("n{writer}-{index}"), "latest_version": {"version": "1.0.0", "changelog": index.to_string()}});
        assert_eq!(post(format!("/publishers/{publisher}/nodes"), body).await.unwrap().status(), 201);
    }
}

/// Copies the log up to a position, by appending its events again.
fn as_of(data: &Path, position: u64) -> TempDir {
    let options = |data: &Path| mediary::app::log_options(data, &Settings::default());
    let (log, _) = SledLog::open(&options(data), &Environment::system(), |_| {}).unwrap();
    let events = log.read_all(Position(0), usize::try_from(position).unwrap()).unwrap();
    let target = tempfile::tempdir().unwrap();
    fs::create_dir_all(target.path().join("log")).unwrap();
    let mut small = options(target.path());
    small.journal.segment_bytes = 1 << 20;
    let (truncated_log, _) = SledLog::open(&small, &Environment::system(), |_| {}).unwrap();
    let group: Vec<_> = events.iter().map(append_again).collect();
    assert!(truncated_log.append(group).unwrap().iter().all(Result::is_ok));
    assert_eq!(truncated_log.head(), Position(position));
    truncated_log.close().unwrap();
    copy(&data.join("personal"), &target.path().join("personal"));
    target
}

fn append_again(event: &RecordedEvent) -> Append {
    let actor = event.actor;
    let request = event.request.clone();
    let causation = event.causation;
    let at = event.at;
    Append {
        stream: event.stream.clone(),
        expected: Version(event.version.0 - 1),
        context: CommandContext { actor, request, causation, at, claim: None },
        events: vec![NewEvent { id: event.id, event: event.event.clone() }],
        guards: Vec::new(),
    }
}

#[actix_web::test]
async fn a_backup_under_load_restores_the_state_at_its_position() {
    // Given a service with 16 writing clients
    let (data, other_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let service = Process::start(data.path());
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> =
        (0..16).map(|writer| actix_web::rt::spawn(write_until(service.url(""), writer, Arc::clone(&stop)))).collect();
    tokio::time::sleep(Duration::from_millis(300)).await;

    // When two backups run under this load
    let backup = other_dir.path().join("backup");
    let name = backup.to_str().unwrap().to_owned();
    let take_backups = {
        let (data, name) = (data.path().to_owned(), name.clone());
        move || [run(&data, &["backup", &name]), run(&data, &["backup", &name])]
    };
    let [first, second] = actix_web::web::block(take_backups).await.unwrap();
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    let (first, second) = (position(&first.expect(0).out), position(&second.expect(0).out));
    assert!(0 < first && first < second, "{first} {second}");
    service.terminate();
    run(data.path(), &["backup", "--verify", &name]).expect(0).assert_contains(&["clean: a backup at position "]);

    // And the last one is restored to an empty directory
    let restored = other_dir.path().join("restored");
    run(&restored, &["restore", &name]).expect(0).assert_contains(&[&format!("at position {second}")]);

    // Then it verifies as clean and equals the log at that position
    run(&restored, &["audit", "verify"])
        .expect(0)
        .assert_contains(&[&format!("clean: {second} events up to position {second}")]);
    let expected = as_of(data.path(), second);
    let public = |settings: &mut Settings| settings.public_url = Some("http://registry.example".to_owned());
    let expected = TestApp::start_in(expected, public, Environment::system()).await;
    let restored = TestApp::start_in(temporary_copy(&restored), public, Environment::system()).await;
    let mut rng = StdRng::seed_from_u64(0xB0);
    let listed = expected.get("/nodes?limit=1000").await.expect(200).json();
    let nodes: Vec<&str> =
        listed["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap()).collect();
    assert!(nodes.len() > 16, "{} nodes", nodes.len());
    let lists = [
        "/nodes?limit=1000",
        "/nodes?limit=30&sort=name;desc&page=2",
        "/publishers?limit=50",
        "/versions?limit=1000",
        "/nodes/search?search=n1",
    ];
    let reads = (0..100).map(|index| {
        let node = nodes.choose(&mut rng).unwrap();
        match index % 5 {
            0 => format!("/nodes/{node}"),
            1 => format!("/nodes/{node}/versions"),
            2 => format!("/nodes/{node}/versions/1.0.0"),
            3 => format!("/publishers/p{}", rng.gen_range(0..16)),
            _ => format!("/nodes?limit=7&sort=created_at&page={}", rng.gen_range(1..5)),
        }
    });
    for path in lists.map(str::to_owned).into_iter().chain(reads) {
        let (before, actual) = (expected.get(&path).await, restored.get(&path).await);
        assert_eq!((actual.status, actual.text()), (before.status, before.text()), "{path}");
    }
}

/// Copies a directory to a temporary one, which [`TestApp::start_in`] can own.
fn temporary_copy(directory: &Path) -> TempDir {
    let temporary = tempfile::tempdir().unwrap();
    copy(directory, temporary.path());
    temporary
}

#[actix_web::test]
async fn a_second_backup_copies_only_new_data_and_keeps_modes() {
    let (data, other_dir) = (with_media().await, tempfile::tempdir().unwrap());
    let backup = other_dir.path().join("backup");
    let name = backup.to_str().unwrap();
    run(data.path(), &["backup", name]).expect(0);
    // Without changes, nothing is copied
    run(data.path(), &["backup", name]).expect(0).assert_contains(&["; copied: 0 files, 0.0 MiB; removed: 0"]);
    assert!(
        files_below(&backup)
            .iter()
            .all(|file| fs::metadata(file).unwrap().permissions().mode() % 0o100 == 0 || file.ends_with("lock"))
    );

    // The next backup contains a new user file and drops a deleted one
    let keys = data.path().join("personal/ab");
    fs::create_dir_all(&keys).unwrap();
    fs::set_permissions(data.path().join("personal"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(keys.join("one"), "key of one").unwrap();
    fs::set_permissions(keys.join("one"), fs::Permissions::from_mode(0o600)).unwrap();
    run(data.path(), &["backup", name]).expect(0).assert_contains(&["; copied: 1 file, "]);
    fs::rename(keys.join("one"), keys.join("two")).unwrap();
    fs::write(keys.join("two"), "key of two").unwrap();
    run(data.path(), &["backup", name]).expect(0).assert_contains(&["; copied: 1 file, ", "removed: 1"]);

    let is_stored = |text: &str| files_below(&backup).iter().any(|file| fs::read(file).unwrap() == text.as_bytes());
    assert!(is_stored("key of two") && !is_stored("key of one"));

    // After a restore every file is identical, readable only by its owner
    let restored = other_dir.path().join("restored");
    fs::create_dir(&restored).unwrap();
    run(&restored, &["restore", name]).expect(0);

    let left_out =
        |path: &Path| ["answers", "log/sled", "lock", "log/journal/next.tmp"].iter().any(|name| path.starts_with(name));
    let mut compared = 0;
    for file in files_below(data.path()) {
        let relative = file.strip_prefix(data.path()).unwrap();
        if left_out(relative) || relative.ends_with("HEAD") {
            continue;
        }
        assert!(fs::read(&file).unwrap() == fs::read(restored.join(relative)).unwrap(), "{}", relative.display());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&file) & !0o077, mode(&restored.join(relative)), "{}", relative.display());
        compared += 1;
    }
    assert!(compared > 8, "{compared} files");
    assert_eq!(fs::metadata(restored.join("personal")).unwrap().permissions().mode() & 0o777, 0o700);
    run(&restored, &["audit", "verify"]).expect(0);
}

#[actix_web::test]
async fn a_damaged_backup_is_not_restored() {
    let (data, other_dir) = (with_media().await, tempfile::tempdir().unwrap());
    let backup = other_dir.path().join("backup");
    let target = other_dir.path().join("target");
    let name = backup.to_str().unwrap();
    run(data.path(), &["backup", name]).expect(0);

    let sound = tempfile::tempdir().unwrap();
    copy(&backup, sound.path());
    for file in files_below(sound.path()) {
        let relative = file.strip_prefix(sound.path()).unwrap();
        if relative.ends_with("lock") {
            continue;
        }
        let bytes = fs::read(&file).unwrap();
        let mut changed = bytes.clone();
        changed[bytes.len() / 2] ^= 1;
        fs::write(backup.join(relative), changed).unwrap();
        let result = run(&target, &["restore", name]).expect(1);
        let actual = format!("{}{}", result.out, result.err);
        assert!(actual.contains(file.file_name().unwrap().to_str().unwrap()) && actual.contains("damaged"), "{actual}");
        assert!(!target.exists());
        let verified = run(data.path(), &["backup", "--verify", name]);
        assert_eq!(verified.code, Some(if relative.ends_with("manifest.json") { 2 } else { 1 }), "{}", verified.out);
        fs::write(backup.join(relative), bytes).unwrap();
    }

    // A missing file is reported; an extra one is ignored
    let file = files_below(&backup.join("files")).pop().unwrap();
    fs::remove_file(&file).unwrap();
    run(&target, &["restore", name]).expect(1).assert_contains(&["cannot be read"]);
    fs::remove_file(backup.join("manifest.json")).unwrap();
    assert!(run(&target, &["restore", name]).expect(1).err.contains("is not a complete backup"));
    assert_eq!(fs::read_dir(other_dir.path()).unwrap().count(), 1, "something was left behind");
}

#[actix_web::test]
async fn a_corrupt_file_is_rewritten_by_the_next_backup() {
    // Given a backup whose copies are all corrupt, with their lengths unchanged
    let (data, other_dir) = (with_media().await, tempfile::tempdir().unwrap());
    let backup = other_dir.path().join("backup");
    let name = backup.to_str().unwrap();
    run(data.path(), &["backup", name]).expect(0);
    for file in files_below(&backup.join("files")) {
        flip(&file, 0);
    }
    let actual =
        run(data.path(), &["backup", "--verify", name]).expect(1).assert_contains(&["this backup cannot be restored"]);
    assert!(!actual.out.contains("put back"), "nothing was to be put back: {}", actual.out);

    // When the next backup runs, then it names them
    let anew = "its copy in the backup was damaged and has been rewritten";
    let actual =
        run(data.path(), &["backup", name]).expect(0).assert_contains(&["00000000000000000001.seg", "archives/"]);
    assert_eq!(actual.out.matches(anew).count(), files_below(&backup.join("files")).len(), "{}", actual.out);

    // And it is complete, and the one after it copies nothing
    run(data.path(), &["backup", "--verify", name]).expect(0);
    let actual = run(data.path(), &["backup", name]).expect(0).assert_contains(&["; copied: 0 files, 0.0 MiB;"]);
    assert!(!actual.out.contains(anew), "{}", actual.out);

    // But a file that is corrupt on both sides is not reported as backed up
    let archive = file_below(&data.path().join("archives"));
    let bytes = fs::read(&archive).unwrap();
    let copied = files_below(&backup).into_iter().find(|file| fs::read(file).unwrap() == bytes).unwrap();
    flip(&archive, 20);
    run(data.path(), &["backup", name]).expect(0);
    flip(&copied, 20);
    run(data.path(), &["backup", name]).expect(1).assert_contains(&["not backed up"]);
    run(data.path(), &["backup", "--verify", name]).expect(0);
}

#[test]
fn a_restore_overwrites_nothing_and_a_backup_keeps_one_history() {
    let (data, other_dir) = (with_log(20), tempfile::tempdir().unwrap());
    let backup = other_dir.path().join("backup");
    let name = backup.to_str().unwrap();
    let earlier = tempfile::tempdir().unwrap();
    copy(data.path(), earlier.path());
    add(data.path(), 20..30);
    run(data.path(), &["backup", name]).expect(0).assert_contains(&["position 60"]);

    let assert_rejected = |data: &Path, arguments: &[&str], reason: &str| {
        let actual = run(data, arguments).expect(1).err;
        assert!(actual.contains(reason), "{reason:?} is not in: {actual}");
    };
    assert_rejected(earlier.path(), &["restore", name], "is not empty");
    assert_rejected(earlier.path(), &["backup", name], "a different history");
    assert_rejected(with_log(5).path(), &["backup", name], "but this log is");
    assert_rejected(
        data.path(),
        &["backup", data.path().join("backup").to_str().unwrap()],
        "must not contain each other",
    );
    assert_rejected(data.path(), &["backup", earlier.path().to_str().unwrap()], "is not a backup directory");
    assert_rejected(other_dir.path(), &["backup", name], "is not a data directory");

    // A damaged journal is not backed up, and the previous backup stays valid
    let segment = data.path().join("log/journal/00000000000000000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[700] ^= 1;
    fs::write(&segment, bytes).unwrap();
    assert_rejected(data.path(), &["backup", name], "the journal is damaged");
    run(data.path(), &["backup", "--verify", name]).expect(0).assert_contains(&["at position 60"]);

    let empty = other_dir.path().join("empty");
    run(&empty, &["backup", "--verify", empty.to_str().unwrap()]).expect(2);
}

#[test]
fn a_killed_backup_or_restore_is_never_accepted_as_complete() {
    let (data, other_dir) = (with_log(40), tempfile::tempdir().unwrap());
    let backup = other_dir.path().join("backup");
    let name = backup.to_str().unwrap();
    run(data.path(), &["backup", name]).expect(0);

    let mut rng = StdRng::seed_from_u64(0xDEAD);
    for round in 0..8 {
        add(data.path(), 40 + round..41 + round);
        let mut killed = command_on(data.path(), &["backup", name]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(rng.gen_range(0..60)));
        let _ = killed.kill();
        killed.wait().unwrap();
        let out = run(data.path(), &["backup", "--verify", name]).expect(0).out;
        assert!((80..=82 + 2 * round).contains(&position(&out)), "{out}");
    }

    let target = other_dir.path().join("target");
    for _ in 0..8 {
        let mut killed = command_on(&target, &["restore", name]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(rng.gen_range(0..40)));
        let _ = killed.kill();
        killed.wait().unwrap();
        if target.exists() {
            run(&target, &["audit", "verify"]).expect(0);
            fs::remove_dir_all(&target).unwrap();
        }
    }
    run(&target, &["restore", name]).expect(0);
    run(&target, &["audit", "verify"]).expect(0);
}

#[test]
fn a_journal_that_contradicts_head_is_not_backed_up() {
    // Given a log and its backup
    let (data, other) = two_histories();
    let other_dir = tempfile::tempdir().unwrap();
    let backup = other_dir.path().join("backup");
    let name = backup.to_str().unwrap();
    run(data.path(), &["backup", name]).expect(0).assert_contains(&["position 40"]);
    let before = files_below(&backup);

    // When its segments are replaced by those of a fork that its HEAD did not sign
    exchange_segments(other.path(), data.path());
    run(data.path(), &["audit", "verify"]).expect(1).assert_contains(&["HEAD was signed for another history"]);

    // Then no backup of it is taken, neither here nor elsewhere
    let actual = run(data.path(), &["backup", name]).expect(1).err;
    assert!(actual.contains("HEAD was signed for another history up to position 40"), "{actual}");
    let new_backup = other_dir.path().join("fresh");
    run(data.path(), &["backup", new_backup.to_str().unwrap()]).expect(1);
    assert!(!new_backup.join("manifest.json").exists());

    // And the previous backup is unchanged, file by file
    assert_eq!(files_below(&backup), before);
    run(data.path(), &["backup", "--verify", name]).expect(0).assert_contains(&["at position 40"]);
}

#[test]
fn a_service_does_not_start_during_a_backup() {
    let (data, other_dir) = (with_log(10), tempfile::tempdir().unwrap());
    drop(DataDir::open(data.path()).unwrap());
    let mut rejections = 0;
    let mut attempt = |_, _| {
        let opened = DataDir::open(data.path());
        rejections += usize::from(matches!(opened, Err(DataDirError::InUse(_))));
        assert!(opened.is_err());
    };
    let backup = other_dir.path().join("backup");
    mediary::backup::create::create(&FileTree::local(data.path()), &backup, &Environment::system(), &mut attempt)
        .unwrap();
    assert!(rejections > 0, "no start was rejected during the backup");
    assert!(DataDir::open(data.path()).is_ok());
}

#[test]
fn a_lost_url_key_stays_in_the_backup() {
    // Given a backup of a service that loses a file while it runs
    let (data, other_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let service = Process::start(data.path());
    let backup = other_dir.path().join("backup");
    let take_backup = || run(data.path(), &["backup", backup.to_str().unwrap()]).expect(0);
    take_backup();
    let key = fs::read(data.path().join("url-key")).unwrap();
    fs::remove_file(data.path().join("url-key")).unwrap();

    // When further backups run, then each reports it, and a restore brings the file back
    (0..2).for_each(|_| drop(take_backup().assert_contains(&["url-key is missing in the data directory"])));
    drop(service);
    let restored = other_dir.path().join("restored");
    run(&restored, &["restore", backup.to_str().unwrap()]).expect(0);
    assert_eq!(fs::read(restored.join("url-key")).unwrap(), key);

    // And if that copy is damaged too, this is a finding once, and a note afterwards
    let copy = files_below(&backup.join("files")).into_iter().find(|path| fs::read(path).unwrap() == key);
    fs::write(copy.expect("a copy of the key"), b"rotten").unwrap();
    let take_backup = |code| run(data.path(), &["backup", backup.to_str().unwrap()]).expect(code);
    take_backup(1)
        .assert_contains(&["url-key: it is missing in the data directory", "its copy in the backup is damaged"]);
    take_backup(0).assert_contains(&["url-key is missing here and in earlier backups"]);
}
