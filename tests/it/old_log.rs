//! Log written by the release with schema version 1: it opens, gives the same answers as that release, and continues in
//! the newest version.

use std::fs;
use std::path::Path;

use mediary::config::{Secret, Settings};
use mediary::environment::Environment;
use mediary::events::log::EventLog;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::TestApp;
use crate::support::process::run;

fn golden() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/log-v1"))
}

/// Requests sent to the old release after it had written the log, with its answers.
fn old_answers() -> Value {
    serde_json::from_slice(&fs::read(golden().join("answers.json")).unwrap()).unwrap()
}

/// Creates a data directory with the old log.
fn old_directory() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["log/journal", "log/sled"] {
        fs::create_dir_all(dir.path().join(folder)).unwrap();
        for entry in fs::read_dir(golden().join(folder)).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), dir.path().join(folder).join(entry.file_name())).unwrap();
            }
        }
    }
    fs::copy(golden().join("log/signing.key"), dir.path().join("log/signing.key")).unwrap();
    dir
}

async fn start(dir: TempDir) -> TestApp {
    start_with(dir, |_| {}).await
}

async fn start_with(dir: TempDir, adjust: impl FnOnce(&mut Settings)) -> TestApp {
    let admin = old_answers()["admin"].as_str().unwrap().to_owned();
    let change = |settings: &mut Settings| {
        adjust(settings);
        settings.public_url = Some("https://registry.example".to_owned());
        settings.admin_token = Some(Secret::new(admin));
    };
    TestApp::start_in(dir, change, Environment::system()).await
}

/// Sends all requests again, and compares.
async fn compare(app: &TestApp) {
    for recorded in old_answers()["answers"].as_array().unwrap() {
        let path = recorded["path"].as_str().unwrap();
        let token = recorded["as"].as_str().unwrap();
        let response = if token.is_empty() { app.get(path).await } else { app.get_as(token, path).await };
        let mut response = response.expect(200).json();
        // The requests of this test change the time of a token's last use. That release had no scopes.
        for token in response.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            token.remove("lastUsedAt");
            token.remove("scope");
        }
        assert_eq!(response, recorded["answer"], "{path}");
    }
}

fn journal_holds(dir: &Path, text: &str) -> bool {
    holds(&dir.join("log/journal"), text)
}

/// `true` if a file of the directory contains the text.
fn holds(directory: &Path, text: &str) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten();
    // Temporary files may be gone by now.
    let mut files = entries.map(|entry| fs::read(entry.unwrap().path()).unwrap_or_default());
    files.any(|bytes| bytes.windows(text.len()).any(|bytes| bytes == text.as_bytes()))
}

#[actix_web::test]
async fn an_old_log_gives_the_recorded_responses_with_and_without_sled() {
    for sled in [true, false] {
        let dir = old_directory();
        if !sled {
            fs::remove_dir_all(dir.path().join("log/sled")).unwrap();
        }
        let app = start(dir).await;
        compare(&app).await;
        app.stop().await;
    }
}

#[actix_web::test]
async fn an_old_log_continues_in_the_newest_schema() {
    // Given an old log to which the newest version has appended
    let app = start(old_directory()).await;
    let user = |name: &str| format!("/admin/users/{}", old_answers()["users"][name]["id"].as_str().unwrap());
    let revised = json!({"name": "Grace Hopper"});
    app.put_as(app.admin_token(), &user("ada"), revised).await.expect(200);
    app.put_as(app.admin_token(), &user("bob"), json!({"name": "bob"})).await.expect(200);
    let dora = app.user("dora-the-second").await;

    // When the service restarts
    let dir = app.stop().await;
    assert!(journal_holds(dir.path(), "ada@example.org"), "an old event was rewritten");
    assert!(!journal_holds(dir.path(), "Grace Hopper") && !journal_holds(dir.path(), "dora-the-second"));
    let app = start(dir).await;

    // Then old and new records form one history
    let ada = old_answers()["users"]["ada"]["token"].as_str().unwrap().to_owned();
    let body = app.get_as(&ada, "/users").await.expect(200).json();
    assert_eq!((&body["name"], &body["email"]), (&json!("Grace Hopper"), &json!("ada@example.org")));
    assert_eq!(app.get_as(&dora.token, "/users").await.expect(200).json()["name"], "dora-the-second");
    let bob = old_answers()["users"]["bob"]["token"].as_str().unwrap().to_owned();
    assert_eq!(app.get_as(&bob, "/users").await.expect(200).json()["name"], "bob");

    // And a user of old records can be erased: hidden, though the old bytes stay
    app.delete_as(app.admin_token(), &user("carol")).await.expect(204);
    let page = app.get_as(app.admin_token(), "/admin/users?limit=100").await.expect(200).text();
    let acme = app.get_as(app.admin_token(), "/publishers/acme").await.expect(200).text();
    assert!(!page.contains("carol") && !acme.contains("carol"), "{page} {acme}");
    let dir = app.stop().await;
    assert!(
        journal_holds(dir.path(), "carol@example.org"),
        "the journal lost the old text, contrary to docs/erasure.md"
    );
    start(dir).await.stop().await;
}

#[actix_web::test]
async fn plain_text_of_an_erased_user_in_an_old_log_is_never_shown() {
    // Given an old log, with a snapshot of its content
    let snapshot_always = |settings: &mut Settings| {
        settings.snapshots.every_events = 3;
        settings.snapshots.whole_below = 0;
    };
    let email = "carol@example.org";
    let dir = start_with(old_directory(), snapshot_always).await.stop().await;
    let snapshots = dir.path().join("snapshots");
    assert!(holds(&snapshots, email), "the snapshot lacks the old text");
    let app = start_with(dir, snapshot_always).await;
    let carol = old_answers()["users"]["carol"]["id"].as_str().unwrap().to_owned();
    let before = app.app.log().head().0;
    let questions = [
        "/admin/events?limit=1000".to_owned(),
        "/admin/events?limit=1000&type=UserCreated".to_owned(),
        format!("/admin/events?limit=1000&stream=user/{carol}"),
        format!("/admin/history/user/{carol}"),
        format!("/admin/as-of/user/{carol}?position={before}"),
        format!("/admin/diff?from=0&to={before}&limit=1000"),
    ];
    for question in &questions {
        let actual = app.get_as(app.admin_token(), question).await.expect(200).text();
        assert!(actual.contains(email), "{question}: {actual}");
    }

    // When a user in it is erased
    app.delete_as(app.admin_token(), &format!("/admin/users/{carol}")).await.expect(204);

    // Then no response contains that user's data, and the data of others is still there
    assert!(!holds(&snapshots, email));
    for question in &questions {
        let actual = app.get_as(app.admin_token(), question).await.expect(200).text();
        assert!(!actual.contains(email) && actual.contains(r#""erased":true"#), "{question}: {actual}");
    }
    let all_events = app.get_as(app.admin_token(), &questions[0]).await.expect(200).text();
    assert!(all_events.contains("ada@example.org"), "{all_events}");

    // And the same holds for the data directory after a stop
    let dir = app.stop().await;
    assert!(!holds(&snapshots, email));
    let (subject, before) = (format!("user/{carol}"), before.to_string());
    for arguments in [&["log"][..], &["show", &subject], &["as-of", &before, &subject], &["diff", "0", &before]] {
        let actual = run(dir.path(), &[&["audit"], arguments, &["--json"]].concat()).expect(0).out;
        assert!(actual.contains("erased") && !actual.contains(email), "{arguments:?}: {actual}");
    }
    assert!(run(dir.path(), &["audit", "log", "--json"]).expect(0).out.contains("ada@example.org"));
}
