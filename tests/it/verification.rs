//! Verification: output must match the signed HEAD and the checked data. Covers forked histories, keys of users, an
//! unreadable sled, and failing exports.

use std::fs;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::process::{CommandOutput, Process, TOKEN, command_on, run};
use crate::support::{TestApp, TestUser, client};
use crate::verify::{add, add_marked, copy, flip, segments, with_log};

/// Creates two forks of one log, each up to position 40 with its own HEAD.
pub fn two_histories() -> (TempDir, TempDir) {
    let (first_history, second_history) = (with_log(10), tempfile::tempdir().unwrap());
    copy(first_history.path(), second_history.path());
    add(first_history.path(), 10..20);
    add_marked(second_history.path(), 10..20, 700);
    (first_history, second_history)
}

/// Replaces the segments of the log in `to` by those in `from` and keeps its HEAD.
pub fn exchange_segments(from: &Path, to: &Path) {
    for segment in segments(to) {
        fs::remove_file(segment).unwrap();
    }
    for segment in segments(from) {
        fs::copy(&segment, to.join("log/journal").join(segment.file_name().unwrap())).unwrap();
    }
}

fn verify(data: &Path) -> CommandOutput {
    run(data, &["audit", "verify"])
}

#[test]
fn a_journal_that_contradicts_head_rejects_audit_queries() {
    // Given a stopped log with the segments of a fork
    let (data, other) = two_histories();
    exchange_segments(other.path(), data.path());
    let queries: [&[&str]; 6] = [
        &["log"],
        &["log", "--json", "--from", "39"],
        &["log", "--to", "5"],
        &["log", "--from", "2020-01-01"],
        &["diff", "1", "5"],
        &["as-of", "5", "publisher/acme"],
    ];
    for query in queries {
        // When a query runs, then the damage is named and nothing else is printed
        let result = run(data.path(), &[&["audit"], query].concat()).expect(1);
        assert!(
            result.err.contains("HEAD was signed for another history up to position 40"),
            "{query:?}: {}",
            result.err
        );
        assert!(result.err.contains("00000000000000000001.seg") && result.out.is_empty(), "{query:?}: {}", result.out);
    }

    // And with their own HEAD the same segments are valid
    run(other.path(), &["audit", "log", "--json", "--from", "39"]).expect(0).assert_contains(&["\"position\":40"]);
    // Records behind HEAD that were never signed are valid too
    let foreign_head = fs::read(other.path().join("log/journal/HEAD")).unwrap();
    add_marked(other.path(), 20..21, 700);
    fs::write(other.path().join("log/journal/HEAD"), foreign_head).unwrap();
    run(other.path(), &["audit", "log", "--json", "--from", "42"]).expect(0).assert_contains(&["\"position\":42"]);
}

#[test]
fn a_failed_export_keeps_the_previous_file() {
    let (data, other_dir) = (with_log(100), tempfile::tempdir().unwrap());
    let file = other_dir.path().join("log.jsonl");
    let name = file.to_str().unwrap();
    fs::write(&file, "what stood there").unwrap();
    // A successful export replaces an existing file
    run(data.path(), &["audit", "export", name]).expect(0).assert_contains(&["200 events exported"]);

    let previous_export = fs::read(&file).unwrap();
    let first: serde_json::Value =
        serde_json::from_slice(previous_export.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    let key = first["public_key"].as_str().expect("the key of the log");
    run(data.path(), &["audit", "verify", "--file", name, "--key", key]).expect(0);
    // An export that meets damage half-way changes nothing and leaves no file
    flip(&segments(data.path())[1], 2000);
    assert!(run(data.path(), &["audit", "export", name]).expect(1).err.contains("the journal is damaged"));
    assert!(fs::read(&file).unwrap() == previous_export, "the failed export changed the file");

    let files: Vec<_> = fs::read_dir(other_dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files, [file], "the failed export left a file");
}

/// Returns the path of a user's key.
fn key_of(data: &Path, user: &TestUser) -> PathBuf {
    data.join("personal").join(&user.id[user.id.len() - 2..]).join(&user.id)
}

async fn erase(app: &TestApp, user: &TestUser) {
    let path = format!("/admin/users/{}", user.id);
    let erased = app.send(app.request(Method::DELETE, &path).bearer_auth(app.admin_token())).await;
    assert!((200..300).contains(&erased.status), "{}", erased.text());
}

#[actix_web::test]
async fn user_keys_that_do_not_decrypt_are_reported() {
    // Given two users, and an erased one
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let bob = app.user("bob").await;
    let carol = app.user("carol").await;
    let erased_key = fs::read(key_of(app.dir.path(), &carol)).unwrap();
    erase(&app, &carol).await;
    verify(app.dir.path()).expect(0).assert_contains(&["clean: "]);
    let data = app.stop().await;
    let data = data.path();
    verify(data).expect(0).assert_contains(&["clean: "]);
    let key = key_of(data, &alice);
    let intact_key = fs::read(&key).unwrap();
    let assert_reported = |expected: &str| {
        let result = verify(data).expect(1).assert_contains(&[
            "damaged: 1 finding ",
            &alice.id,
            expected,
            "restore it from a backup",
        ]);
        assert!(!result.out.contains(&bob.id), "{}", result.out);
    };

    // When a key is damaged, of another user, too short, or missing, then it is named
    flip(&key, 7);
    assert_reported("the key does not decrypt the data of its user");
    fs::copy(key_of(data, &bob), &key).unwrap();
    assert_reported("the key does not decrypt the data of its user");
    fs::write(&key, b"short").unwrap();
    assert_reported("the key does not decrypt the data of its user");
    fs::remove_file(&key).unwrap();
    assert_reported("the key of a user is missing");

    // And with the right key the log is clean; the key of an erased user is reported
    fs::write(&key, intact_key).unwrap();
    fs::write(key_of(data, &carol), erased_key).unwrap();
    let result =
        verify(data).expect(0).assert_contains(&["note: ", &carol.id, "of an erased user: the next start destroys it"]);
    assert_eq!(result.out.lines().count(), 2, "{}", result.out);
}

#[actix_web::test]
async fn user_keys_of_a_running_service_are_verified() {
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    fs::remove_file(key_of(app.dir.path(), &alice)).unwrap();
    let result = verify(app.dir.path()).expect(1).assert_contains(&["the key of a user is missing", &alice.id]);
    assert!(!result.out.contains(&bob.id), "{}", result.out);
    erase(&app, &alice).await;
    verify(app.dir.path()).expect(0);
    app.stop().await;
}

#[test]
fn an_unreadable_sled_is_not_reported_as_clean() {
    let data = with_log(20);
    // The check compares a copy of sled, which it cannot create without a directory for temporary files.
    let run_without_temp_dir = |arguments: &[&str]| {
        let output = command_on(data.path(), arguments).env("TMPDIR", "/nonexistent").output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, out) = run_without_temp_dir(&["audit", "verify"]);
    assert_eq!(code, Some(2), "{out}");
    assert!(out.contains("not verified: sled was not compared: it could not be copied"), "{out}");
    assert!(out.contains("incomplete: no damage found in 40 events") && !out.contains("clean"), "{out}");

    let (code, out) = run_without_temp_dir(&["audit", "verify", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["result"], &report["findings"]), (Some(2), &json!("unverified"), &json!([])));
    assert_eq!(report["unverified"].as_array().unwrap().len(), 1);
    // Damage takes precedence
    flip(&segments(data.path())[0], 2000);
    let (code, out) = run_without_temp_dir(&["audit", "verify"]);
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("not verified: sled was not compared") && out.contains("damaged: 1 finding"), "{out}");
}

#[test]
fn a_sled_of_random_bytes_is_reported() {
    let data = with_log(20);
    let mut bytes = vec![0; 100_000];
    StdRng::seed_from_u64(0x51ED).fill_bytes(&mut bytes);
    fs::write(data.path().join("log/sled/db"), bytes).unwrap();
    let result = verify(data.path()).expect(1).assert_contains(&[
        "damaged: 1 finding",
        "log/sled: ",
        "the next start rebuilds ",
    ]);
    assert!(result.out.contains("cannot open sled"), "{}", result.out);

    // And the next start does the announced rebuild
    add(data.path(), 20..21);
    verify(data.path()).expect(0).assert_contains(&["clean: 42 events"]);
}

#[actix_web::test]
async fn a_new_log_after_a_kill_is_clean() {
    let data = tempfile::tempdir().unwrap();
    let service = Process::start(data.path());
    let request = client().post(service.url("/publishers")).bearer_auth(TOKEN).json(&json!({"id": "acme"}));
    assert_eq!(request.send().await.unwrap().status(), 201);
    service.kill();
    let db = fs::read(data.path().join("log/sled/db")).unwrap();
    println!("{} bytes, {} not zero", db.len(), db.iter().filter(|byte| **byte != 0).count());
    verify(data.path()).expect(0).assert_contains(&["clean: "]);
}
