//! Missing or older log in a used data directory: no new log is created, and no file beside it is deleted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mediary::environment::Environment;
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;

use crate::support::process::{command, run};
use crate::support::zip::{ZipTestEntry, valid_archive, zip};
use crate::support::{TestApp, TestUser};

const VERSIONS: &str = "/publishers/acme/nodes/face-tools/versions";

/// Publishes a version with its archive.
async fn publish(app: &TestApp, owner: &TestUser, version: &str, archive: Vec<u8>) {
    let body = json!({"node_version": {"version": version}});
    let publication = app.post_as(&owner.token, VERSIONS, body).await.expect(201).json();
    let url = publication["signedUrl"].as_str().unwrap();
    let link = &url[url.find("/uploads/").unwrap()..];
    app.send(app.request(Method::PUT, link).body(archive)).await.expect(200);
}

async fn download(app: &TestApp, version: &str) -> Vec<u8> {
    app.get(&format!("/nodes/face-tools/versions/{version}/download")).await.expect(200).body
}

async fn with_an_archive() -> (TestApp, TestUser) {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    publish(&app, &alice, "1.0.0", valid_archive()).await;
    (app, alice)
}

async fn start_again(dir: TempDir) -> TestApp {
    TestApp::start_in(dir, |_| {}, Environment::system()).await
}

/// Returns the paths of the archives below a directory.
fn archives(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { archives(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|extension| extension == "zip")).collect()
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

#[actix_web::test]
async fn a_used_directory_without_a_log_fails_the_start() {
    let (app, _) = with_an_archive().await;
    let mut dir = app.stop().await;
    let other_dir = tempfile::tempdir().unwrap();
    let (log, moved_log) = (dir.path().join("log"), other_dir.path().join("log"));
    copy(&log, &moved_log);
    for lost_parts in [&["log"][..], &["log/journal", "log/sled"]] {
        // Given a directory whose log is missing, either completely or with only the signing key left
        for part in lost_parts {
            fs::remove_dir_all(dir.path().join(part)).unwrap();
        }
        let before = archives(dir.path());

        // When the service starts, or a rebuild is requested
        let start = command(dir.path()).output().unwrap();
        let rebuild = run(dir.path(), &["projections", "rebuild"]).expect(1);

        // Then it stops, names the missing files and the remedy, and changes nothing
        let stderr = String::from_utf8_lossy(&start.stderr);
        assert_eq!(start.status.code(), Some(1), "{stderr}");
        for output in [&stderr, rebuild.err.as_str()] {
            for expected in ["log/journal", "archives/", "personal/", "Put ", "mediary restore", "move the other files"]
            {
                assert!(output.contains(expected), "{expected} is not in: {output}");
            }
        }
        assert_eq!((archives(dir.path()), log.join("journal").exists()), (before, false));

        // And with the log restored everything works again
        let _ = fs::remove_dir_all(&log);
        copy(&moved_log, &log);
        let app = start_again(dir).await;
        assert!(download(&app, "1.0.0").await == valid_archive());
        dir = app.stop().await;
    }
}

#[actix_web::test]
async fn an_interrupted_first_start_continues() {
    // Given the files that a first start creates before its log
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("media/inputs/ab")).unwrap();
    fs::create_dir_all(dir.path().join("log")).unwrap();
    fs::write(dir.path().join("admin-token"), "chosen-by-hand\n").unwrap();

    // When the service starts again, then it answers requests
    let app = start_again(dir).await;
    app.get_as(app.admin_token(), "/users").await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn an_older_log_deletes_no_archive() {
    // Given an older copy of a log, and an archive uploaded since
    let (app, alice) = with_an_archive().await;
    let dir = app.stop().await;
    let other_dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let older_log = other_dir.path().join("older");
    let newer_log = other_dir.path().join("newer");
    copy(&log, &older_log);
    let app = start_again(dir).await;
    let later_archive = zip(&[ZipTestEntry::stored("later.py", b"print(2)\n")]);
    publish(&app, &alice, "2.0.0", later_archive.clone()).await;
    let dir = app.stop().await;

    // When the service starts with it
    fs::rename(&log, &newer_log).unwrap();
    copy(&older_log, &log);
    let app = start_again(dir).await;

    // Then that archive is set aside and reported
    let [report] = app.app.reports() else { panic!("one report: {:?}", app.app.reports()) };
    assert!(report.starts_with("1 archive without a version, moved to "), "{report}");
    assert!(report.contains("archives/orphans") && report.contains("older copy"), "{report}");
    let orphans = app.dir.path().join("archives/orphans");
    assert_eq!(archives(&orphans).len(), 1);
    assert!(download(&app, "1.0.0").await == valid_archive());
    let dir = app.stop().await;

    // And no backup contains it
    let to = other_dir.path().join("backup");
    run(dir.path(), &["backup", to.to_str().unwrap()]).expect(0);
    let listed = fs::read_to_string(to.join("manifest.json")).unwrap();
    assert!(listed.contains("archives/") && !listed.contains("orphans"), "{listed}");

    // And once the right log is restored, the archive is back at its place
    fs::remove_dir_all(&log).unwrap();
    copy(&newer_log, &log);
    let app = start_again(dir).await;
    assert!(app.app.reports()[0].starts_with("1 archive restored"), "{:?}", app.app.reports());
    assert!(archives(&orphans).is_empty());
    assert!(download(&app, "2.0.0").await == later_archive);
    app.stop().await;
}
