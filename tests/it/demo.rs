//! `mediary demo`, against a running service.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use actix_web::rt::task::spawn_blocking;
use serde_json::Value;

use crate::support::TestApp;
use crate::support::eventually::eventually;
use crate::support::process::run;

/// Runs the demo against the service, with two publishers of the sample.
async fn run_demo(url: String, token: String, music: PathBuf) -> Output {
    let run_command = move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mediary"));
        command.args(["demo", "--url", &url, "--token", &token, "--only", "saltmarsh", "--only", "yarrowgate"]);
        command.arg("--music").arg(music);
        command.stdin(Stdio::null()).output().expect("the program starts")
    };
    spawn_blocking(run_command).await.expect("the program ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn demo_of(app: &TestApp, music: &Path) -> String {
    let output = run_demo(app.url(""), app.admin_token().to_owned(), music.to_owned()).await;
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

async fn state(app: &TestApp) -> Vec<Value> {
    let mut state = vec![app.get("/nodes?limit=100&sort=id&latest=true").await.expect(200).json()];
    for node in state[0]["nodes"].as_array().unwrap().clone() {
        let statuses = "statuses=NodeVersionStatusActive&statuses=NodeVersionStatusPending";
        let path = format!("/nodes/{}/versions?{statuses}", node["id"].as_str().unwrap());
        state.push(app.get(&path).await.expect(200).json());
    }
    state
}

#[actix_web::test]
async fn a_second_demo_run_changes_nothing() {
    let app = TestApp::start().await;
    let folder = tempfile::tempdir().unwrap();
    let music = folder.path().join("waltz.opus");

    // When the demo runs
    let printed = demo_of(&app, &music).await;

    // Then the sample is there with its dates, downloads, versions and archives
    assert!(printed.contains("nodes       8 new") && printed.contains("versions    22 new"), "{printed}");
    let node = app.get("/nodes/yarrowgate-watermark").await.expect(200).json();
    assert_eq!(node["publisher"]["id"], "yarrowgate");
    assert_eq!(node["latest_version"]["version"], "1.1.1");
    assert!(node["created_at"].as_str().unwrap() < "2026" && node["downloads"].as_u64().unwrap() > 0, "{node}");
    let archive = app.get("/nodes/yarrowgate-watermark/versions/1.1.1/download").await.expect(200);
    assert!(archive.body.starts_with(b"PK\x03\x04"));

    // And a picture, a video and a piece of music were made
    let media_urls: Vec<_> = printed.split_whitespace().filter(|word| word.contains("/media/")).collect();
    for (url, signature) in media_urls.iter().zip([&b"\x89PNG"[..], b"\0\0\0"]) {
        let file = app.get(url.strip_prefix(&app.url("")).unwrap()).await.expect(200);
        assert!(file.body.starts_with(signature), "{url}");
    }
    assert!(media_urls.len() == 2 && media_urls[1].strip_suffix(".mp4").is_some(), "{printed}");
    let waltz = std::fs::read(&music).unwrap();
    assert!(waltz.starts_with(b"OggS") && waltz.len() > 20_000 && printed.contains("waltz.opus"), "{printed}");
    let tasks = app.get_as(app.admin_token(), "/tasks").await.expect(200).json();
    for task in tasks["tasks"].as_array().unwrap() {
        assert!(printed.contains(&format!("/#/tasks/{}", task["task_id"].as_str().unwrap())), "{task}");
    }
    assert_eq!(tasks["tasks"].as_array().unwrap().len(), 3);

    // And every printed command works; one of them installs a node, which is counted
    let pristine = state(&app).await;
    for line in printed.lines().filter_map(|line| line.trim().strip_prefix("curl -s ")) {
        app.get(line.trim_matches('\'').strip_prefix(&app.url("")).unwrap()).await.expect(200);
    }

    // When it runs again, then it reports that everything exists, and changes nothing
    let before = eventually("the installation is counted", async || {
        let state_after = state(&app).await;
        (state_after != pristine).then_some(state_after)
    })
    .await;
    std::fs::remove_file(&music).unwrap();
    let printed = demo_of(&app, &music).await;
    assert!(printed.contains("nodes       8 existing") && !printed.contains(" new"), "{printed}");
    assert_eq!(state(&app).await, before);

    // And picture and video are those of the first run; music is not stored and was made again, identically
    assert!(media_urls.iter().all(|url| printed.contains(url)), "{printed}");
    assert_eq!(std::fs::read(&music).unwrap(), waltz);
}

#[actix_web::test]
async fn the_demo_reports_why_it_cannot_run() {
    let app = TestApp::start().await;
    let user = app.user("ada").await;
    let unused_address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let cases = [
        (app.url(""), "mdu_unknown-token", "rejects this token"),
        (app.url(""), user.token.as_str(), "an administrator"),
        (format!("http://{unused_address}"), "x", "no service answers"),
        ("127.0.0.1".to_owned(), "x", "is not the URL"),
    ];
    for (url, token, expected) in cases {
        let output = run_demo(url, token.to_owned(), PathBuf::from("/nowhere")).await;
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(expected), "{expected}: {}", text(&output.stderr));
    }

    // An unreachable service is reported before a missing token, and an unwritable file before the first request
    let empty = tempfile::tempdir().unwrap();
    let url = format!("http://{unused_address}");
    let no_token = spawn_blocking(move || run(empty.path(), &["demo", "--url", &url])).await.unwrap().expect(1);
    assert!(no_token.err.contains("no service answers"), "{}", no_token.err);

    // The service's stored token is sent to no other service
    let other = TestApp::start().await;
    let (path, url) = (other.dir.path().to_owned(), app.url(""));
    let wrong_token = spawn_blocking(move || run(&path, &["demo", "--url", &url])).await.unwrap().expect(1);
    assert!(wrong_token.err.contains("give --token or MEDIARY_TOKEN"), "{}", wrong_token.err);

    let output = run_demo(app.url(""), app.admin_token().to_owned(), PathBuf::from("/nowhere/waltz.opus")).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("name another file with --music"), "{}", text(&output.stderr));
    assert_eq!(app.get("/nodes").await.expect(200).json()["total"], 0);
}
