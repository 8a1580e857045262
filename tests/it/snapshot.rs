//! Starts from a snapshot of the read models: responses match the full log, even if the snapshot is damaged or old, and
//! a later check covers the part that the start skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mediary::actors::projector::rebuild;
use mediary::app::App;
use mediary::config::Settings;
use mediary::domain::node::NodeEvent;
use mediary::domain::value::Timestamp;
use mediary::environment::{Environment, FailPoint, FailPoints};
use mediary::events::journal::Anchor;
use mediary::events::sled_log::ScrubState;
use mediary::events::stream::Position;
use mediary::projections::node::view::Links;
use mediary::projections::snapshot::{OpenedSnapshot, save, snapshot_dir};
use mediary::projections::user::Users;
use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;

use crate::support::eventually::eventually;
use crate::support::process::run;
use crate::support::{TestApp, settings};

/// Takes snapshots of logs of any size.
fn snapshot_always(settings: &mut Settings) {
    settings.snapshots.every_events = 3;
    settings.snapshots.whole_below = 0;
}

async fn start(dir: TempDir) -> TestApp {
    TestApp::start_in(dir, snapshot_always, Environment::system()).await
}

/// Creates a data directory with a short history, by a service that is stopped cleanly.
async fn directory_with_history() -> TempDir {
    let app = start(tempfile::tempdir().unwrap()).await;
    let user = app.user("alice").await;
    app.publisher("acme", &user).await;
    for node in ["face-tools", "mask", "tile"] {
        app.node("acme", node, &user).await;
    }
    app.stop().await
}

/// Returns the path of the snapshot in a data directory.
fn snapshot(dir: &Path) -> PathBuf {
    dir.join("snapshots/models")
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

/// Waits until the background check of the log ends, and returns its result.
async fn wait_for_scrub(app: &TestApp) -> ScrubState {
    eventually("the background check ends", async || {
        let state = app.app.log().verification().state;
        (!matches!(state, ScrubState::Checking)).then_some(state)
    })
    .await
}

/// Asserts that the service matches its log, and accepts changes.
async fn assert_complete(app: &TestApp, new_publisher: &str) {
    assert_eq!(rebuild(&**app.app.log()).unwrap(), *app.app.models().read());
    let user = app.user("bob").await;
    app.publisher(new_publisher, &user).await;
    app.get("/ready").await.expect(200);
}

#[actix_web::test]
async fn a_start_from_a_snapshot_equals_a_full_replay() {
    let dir = directory_with_history().await;
    let before = fs::read(snapshot(dir.path())).expect("a snapshot was taken at the stop");
    let app = start(dir).await;
    assert_eq!(app.app.reports(), [""; 0]);
    assert_complete(&app, "second").await;
    assert_eq!(wait_for_scrub(&app).await, ScrubState::Intact);
    let dir = app.stop().await;
    assert_ne!(fs::read(snapshot(dir.path())).unwrap(), before, "the next stop took no new snapshot");

    let app = start(dir).await;
    assert_complete(&app, "third").await;
}

#[actix_web::test]
async fn a_damaged_snapshot_is_reported_and_ignored() {
    let dir = directory_with_history().await;
    for at in [3, 40, 500, usize::MAX] {
        let copied = tempfile::tempdir().unwrap();
        copy(dir.path(), copied.path());
        let path = snapshot(copied.path());
        let mut bytes = fs::read(&path).unwrap();
        let at = at.min(bytes.len() - 1);
        bytes[at] ^= 4;
        fs::write(&path, bytes).unwrap();

        let app = start(copied).await;
        let [report] = app.app.reports() else { panic!("one report for byte {at}: {:?}", app.app.reports()) };
        assert!(report.contains("snapshot") && report.contains("models"), "{report}");
        assert_complete(&app, "second").await;
    }
}

#[actix_web::test]
async fn a_snapshot_ahead_of_the_log_fails_the_start() {
    // Given a copy of the log, and a newer snapshot
    let dir = directory_with_history().await;
    let (older_log, log) = (tempfile::tempdir().unwrap(), dir.path().join("log"));
    copy(&log, older_log.path());
    let app = start(dir).await;
    for node in ["one", "two", "three"] {
        let user = app.user(node).await;
        app.publisher(node, &user).await;
    }
    let dir = app.stop().await;

    // When the copy replaces the log
    fs::remove_dir_all(&log).unwrap();
    copy(older_log.path(), &log);

    // Then the service refuses to start, because data is missing
    let mut settings = settings(&dir);
    snapshot_always(&mut settings);
    let message = App::start(settings, Environment::system()).await.err().expect("no start").to_string();
    for expected in ["events are lost", "snapshots/models", "mediary restore", "move that file away"] {
        assert!(message.contains(expected), "{message}");
    }

    // And a rebuild does not remove the evidence
    let result = run(dir.path(), &["projections", "rebuild"]).expect(1).err;
    assert!(result.contains("events are lost") && snapshot(dir.path()).exists(), "{result}");

    // And when the operator removes it, the service starts with the content of the log
    fs::remove_file(snapshot(dir.path())).unwrap();
    let app = start(dir).await;
    assert_complete(&app, "one").await;
}

#[actix_web::test]
async fn an_unfinished_snapshot_is_removed() {
    let dir = directory_with_history().await;
    let draft = dir.path().join("snapshots/models.draft");
    fs::write(&draft, "half").unwrap();
    let app = start(dir).await;
    assert!(!draft.exists(), "the unfinished snapshot is left");
    app.stop().await;
}

#[actix_web::test]
async fn damage_before_the_snapshot_is_found_in_the_background_and_stops_writes() {
    // Given a journal whose first record was damaged after the snapshot
    let dir = directory_with_history().await;
    let segment = dir.path().join("log/journal/00000000000000000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[600] ^= 1;
    fs::write(&segment, bytes).unwrap();

    // When the service starts and checks the older part
    let app = start(dir).await;
    let ScrubState::Damaged { reason } = wait_for_scrub(&app).await else { panic!("the damage was not found") };

    // Then it names the location, serves reads, and accepts no changes
    for part in [segment.display().to_string().as_str(), "offset 512", "position 1"] {
        assert!(reason.contains(part), "{reason}");
    }
    let verification_body = verification(&app).await;
    assert_eq!(
        (&verification_body["state"], &verification_body["reason"]),
        (&json!("damaged"), &json!(reason)),
        "{verification_body}"
    );
    // The readiness probe fails, without paths of files.
    let ready_body = app.get("/ready").await.expect(503).text();
    assert!(
        ready_body.contains("the log is read-only until a restart") && !ready_body.contains("offset"),
        "{ready_body}"
    );
    app.get("/nodes/mask").await.expect(200);
    let body = serde_json::json!({"name": "eve"});
    let problem = app.post_as(app.admin_token(), "/admin/users", body).await;
    assert!((500..=599).contains(&problem.status), "{}", problem.text());
    assert_eq!(problem.header("content-type"), Some("application/problem+json"));

    // And the next start checks everything, and repairs the record
    let app = start(app.stop().await).await;
    assert_eq!(app.app.log().verification().state, ScrubState::Intact);
    assert_complete(&app, "second").await;
}

async fn verification(app: &TestApp) -> serde_json::Value {
    app.get_as(app.admin_token(), "/admin/state").await.expect(200).json()["verification"].take()
}

#[actix_web::test]
async fn unverified_events_are_not_reported_as_sound() {
    // Given a start from a snapshot, whose check of the older part is blocked
    let (release, release_signal) = std::sync::mpsc::channel::<()>();
    let release_signal = Mutex::new(release_signal);
    let handler = move |point, _: &str| assert!(point != FailPoint::Scrub || release_signal.lock().recv().is_err());
    let environment = Environment::system().with_fail_point_handler(Arc::new(handler));
    let app = TestApp::start_in(directory_with_history().await, snapshot_always, environment).await;

    // When the state is requested, then neither the state nor the metrics report events as verified
    let verification_body = verification(&app).await;
    let metrics = app.get("/metrics").await.expect(200).text();
    drop(release);
    assert_eq!(
        (&verification_body["state"], &verification_body["position"]),
        (&json!("checking"), &json!(0)),
        "{verification_body}"
    );
    assert!(metrics.contains("mediary_verification_state{state=\"checking\"} 1"), "{metrics}");
    assert!(metrics.contains("mediary_verified_position 0"), "{metrics}");

    // And after the check, all events from before the start are reported as verified
    assert_eq!(wait_for_scrub(&app).await, ScrubState::Intact);
    let verification_body = verification(&app).await;
    assert_eq!(
        (&verification_body["state"], &verification_body["position"]),
        (&json!("sound"), &verification_body["until"]),
        "{verification_body}"
    );
    assert!(verification_body["until"].as_u64().unwrap() >= 4, "{verification_body}");
    app.stop().await;
}

#[actix_web::test]
async fn the_verification_compares_a_snapshot_with_the_log() {
    // Given a valid snapshot
    let dir = directory_with_history().await;
    run(dir.path(), &["audit", "verify"]).expect(0).assert_contains(&["clean: "]);

    // When it is damaged, then it is named
    let bytes = fs::read(snapshot(dir.path())).unwrap();
    fs::write(snapshot(dir.path()), &bytes[..bytes.len() - 40]).unwrap();
    run(dir.path(), &["audit", "verify"]).expect(1).assert_contains(&["damaged: 1 finding", "snapshots/models: "]);
    fs::write(snapshot(dir.path()), &bytes).unwrap();

    // When it is valid but lacks the users and a node, then the differences are named
    let snapshots = snapshot_dir(dir.path());
    let opened = OpenedSnapshot::open(&snapshots).unwrap().unwrap();
    let anchor = opened.anchor;
    let mut models = opened.load(Links::default()).unwrap();
    models.users = Users::default();
    let deletion = NodeEvent::NodeDeleted;
    models.nodes.apply("mask", &deletion, Timestamp::from_micros(1));
    save(&models, &anchor, &snapshots, &FailPoints::default()).unwrap();
    run(dir.path(), &["audit", "verify"]).expect(1).assert_contains(&["snapshots/models: ", "(users, node mask)"]);

    // When it belongs to another log, or to a later position, then that is reported
    let other = directory_with_history().await;
    fs::copy(snapshot(other.path()), snapshot(dir.path())).unwrap();
    run(dir.path(), &["audit", "verify"]).expect(1).assert_contains(&["another history up to position "]);
    save(&models, &Anchor { position: Position(1_000), ..anchor }, &snapshots, &FailPoints::default()).unwrap();
    run(dir.path(), &["audit", "verify"]).expect(1).assert_contains(&["the journal ends before position 1000"]);
}

#[actix_web::test]
async fn a_snapshot_of_another_log_is_reported_and_ignored() {
    let (dir, other) = (directory_with_history().await, directory_with_history().await);
    fs::copy(snapshot(other.path()), snapshot(dir.path())).unwrap();
    let app = start(dir).await;
    let [report] = app.app.reports() else { panic!("one report: {:?}", app.app.reports()) };
    assert!(report.contains("snapshots/models: the journal belongs to another log"), "{report}");
    assert_complete(&app, "second").await;
}

#[actix_web::test]
async fn a_small_log_is_verified_completely() {
    let dir = directory_with_history().await;
    let app = TestApp::start_in(dir, |_| {}, Environment::system()).await;
    assert_eq!(app.app.log().verification().state, ScrubState::Intact);
    assert_complete(&app, "second").await;
}
