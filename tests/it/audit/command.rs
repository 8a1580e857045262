//! `mediary audit …` as a real process, on a running service and on its data directory after a stop.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use mediary::environment::Environment;
use serde_json::{Value, json};

use super::{AuditFixture, head};
use crate::budget::used_fixture;
use crate::image::UPSCALER;
use crate::support::TestApp;
use crate::support::eventually::eventually;
use crate::support::picture::base64_png;
use crate::video::credits::behavior;
use crate::video::{START_END, VideoFixture, of_prompt, vendor};

/// Returns a command `mediary audit ARGUMENTS` for a data directory.
fn command(data_dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mediary"));
    command.arg("audit").args(arguments).arg("--data-dir").arg(data_dir).current_dir(data_dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the command to its end while the service of this process continues. Returns the exit code, the output and the
/// errors.
async fn run(data_dir: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = command(data_dir, arguments);
    let output = actix_web::rt::task::spawn_blocking(move || command.output().expect("the program starts"));
    let Output { status, stdout, stderr } = output.await.expect("the program ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

/// Runs the command, which must succeed without messages, and returns its output.
async fn run_ok(data_dir: &Path, arguments: &[&str]) -> String {
    let (code, out, errors) = run(data_dir, arguments).await;
    assert_eq!((code, errors.as_str()), (0, ""), "{arguments:?}: {out}");
    out
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Returns every file below a directory, with its bytes.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files_below = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below.extend(files(&path));
        } else {
            files_below.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
    files_below.sort();
    files_below
}

#[actix_web::test]
async fn a_running_service_and_its_directory_return_the_same_results() {
    // Given a service with a history
    let fixture = AuditFixture::new().await;
    let last = head(&fixture.app).await;
    let dir = fixture.app.dir.path().to_owned();
    let (last, third) = (last.to_string(), fixture.snapshots[2].0.to_string());
    let user = format!("user/{}", fixture.owner.id);
    let queries: Vec<Vec<&str>> = vec![
        vec!["log", "--to", &last],
        vec!["log", "--json", "--to", &last],
        vec!["log", "--wide", "--to", &last],
        vec!["log", "--json", "--stream", "node/Face-Tools", "--type", "NodeRevised", "--type", "NodeDeleted"],
        vec!["log", "--actor", &user, "--to", &last],
        vec!["log", "--from", "3", "--to", "5"],
        vec!["log", "--from", "2020-01-01", "--to", "2020-01-02"],
        vec!["show", "publisher/acme"],
        vec!["show", "node/face-tools", "--json"],
        vec!["as-of", &third, "node/face-tools"],
        vec!["as-of", &third, "node/face-tools", "--json"],
        vec!["as-of", &last, "node/face-tools"],
        vec!["diff", "1", &last],
        vec!["diff", "1", &last, "--json", "--stream", "node/"],
    ];

    // When both the running service and its directory are queried
    let mut running = Vec::new();
    for query in &queries {
        running.push(run_ok(&dir, query).await);
    }
    let all = fixture.get_admin(&format!("/admin/events?limit=1000&to={last}")).await;
    let dir = fixture.app.stop().await;
    let before = files(dir.path());
    let mut offline = Vec::new();
    for query in &queries {
        offline.push(run_ok(dir.path(), query).await);
    }

    // Then both give the same output, and the directory is unchanged
    for ((query, running), offline) in queries.iter().zip(&running).zip(&offline) {
        assert_eq!(running, offline, "{query:?}");
    }
    assert!(files(dir.path()) == before, "the directory was changed");
    let output_of = |query: &[&str]| {
        let index = queries.iter().position(|candidate| candidate == query).expect("one of the queries");
        offline[index].as_str()
    };
    // JSON lines are the events
    assert_eq!(json!(lines(output_of(&["log", "--json", "--to", &last]))), all["events"]);
    // Text output shows old and new values, without control characters for the terminal
    let shown = output_of(&["show", "publisher/acme"]);
    assert!(shown.contains("name: \"Acme\" → \"Acme & Sons\""), "{shown}");
    assert!(!offline.iter().any(|text| text.contains('\u{1b}')), "the output has an escape character");
    let log = output_of(&["log", "--to", &last]);
    assert!(!log.contains('\u{202e}') && log.contains("\\u202e"), "{log}");

    // And without a terminal nothing is truncated
    let long_text = "x".repeat(900);
    assert!(log.contains(&long_text), "{log}");
    assert!(
        output_of(&["show", "node/face-tools", "--json"]).contains(&long_text),
        "the long text is truncated in JSON"
    );
    assert_eq!(log, output_of(&["log", "--wide", "--to", &last]));

    // And nothing is found before the first event, and after the deletion
    let before_first = output_of(&["log", "--from", "2020-01-01", "--to", "2020-01-02"]);
    assert!(before_first.contains("no matching events"), "{before_first}");
    let deleted = output_of(&["as-of", &last, "node/face-tools"]);
    assert!(deleted.contains("did not exist"), "{deleted}");

    // And the state at a position is the state that the API showed then
    let state_before: Value = serde_json::from_str(output_of(&["as-of", &third, "node/face-tools", "--json"])).unwrap();
    assert_eq!(state_before["state"], fixture.snapshots[2].1[2].1);
}

#[actix_web::test]
async fn a_limit_returns_the_newest_events_first() {
    // Given a service with a history, and its events as the API lists them
    let fixture = AuditFixture::new().await;
    let last = head(&fixture.app).await;
    let all = fixture.get_admin(&format!("/admin/events?limit=1000&to={last}")).await;
    let all = all["events"].as_array().unwrap().clone();
    let newest = |count: usize, filter: &dyn Fn(&Value) -> bool| -> Vec<Value> {
        all.iter().rev().filter(|event| filter(event)).take(count).cloned().collect()
    };
    let is_of_node = |event: &Value| event["stream"].as_str().is_some_and(|stream| stream.starts_with("node/"));
    let to = last.to_string();
    let cases: [(Vec<&str>, Vec<Value>); 6] = [
        (vec!["--limit", "3", "--to", &to], newest(3, &|_| true)),
        (vec!["--limit", "100000", "--to", &to], newest(usize::MAX, &|_| true)),
        (vec!["--limit", "2", "--stream", "node/"], newest(2, &is_of_node)),
        (vec!["--limit", "2", "--from", "3", "--to", "6"], newest(2, &|event| event["position"].as_u64() <= Some(6))),
        (vec!["--limit", "5", "--from", "5", "--to", "6"], newest(2, &|event| event["position"].as_u64() <= Some(6))),
        (vec!["--limit", "2", "--to", "2020-01-01"], Vec::new()),
    ];

    // When they are queried with a limit, from the running service and from its directory
    let dir = fixture.app.dir.path().to_owned();
    let mut running = Vec::new();
    for (arguments, _) in &cases {
        running.push(run_ok(&dir, &[&["log", "--json"], &arguments[..]].concat()).await);
    }
    let dir = fixture.app.stop().await;
    for ((arguments, expected), running) in cases.iter().zip(&running) {
        let offline = run_ok(dir.path(), &[&["log", "--json"], &arguments[..]].concat()).await;

        // Then both return the newest ones, newest first
        assert_eq!(lines(running), *expected, "{arguments:?}");
        assert_eq!(*running, offline, "{arguments:?}");
    }
}

#[actix_web::test]
async fn errors_have_a_message_and_an_exit_code() {
    let app = TestApp::start().await;
    let running = app.dir.path().to_owned();
    let cases: [(&[&str], i32, &str); 10] = [
        (&["log", "--limit", "0"], 2, "0 is not in 1..=100000"),
        (&["log", "--limit", "3", "--follow"], 2, "cannot be used with"),
        (&["show", "nodes/a"], 2, "user, publisher, token, node, task, delivery"),
        (&["log", "--type", "Nothing"], 2, "NodeRevised"),
        (&["log", "--from", "yesterday"], 2, "2026-01-31"),
        (&["as-of", "99", "publisher/acme"], 2, "position 1"),
        (&["diff", "1", "0"], 2, "position 1"),
        (&["diff", "0", "99"], 2, "is after the last event (position 1)"),
        (&["show", "publisher/none"], 1, "publisher/none has no events"),
        (&["bogus"], 2, "unrecognized subcommand"),
    ];
    for (arguments, code, expected) in cases {
        let (exit, out, errors) = run(&running, arguments).await;
        assert_eq!((exit, out.as_str()), (code, ""), "{arguments:?}: {errors}");
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
        assert!(["/position", "/from", "/to"].iter().all(|pointer| !errors.contains(pointer)), "{errors}");
    }

    let (exit, _, errors) = run(&running, &["log", "--token", "mdu_wrong"]).await;
    assert!(exit == 1 && errors.contains("rejects this token"), "{errors}");

    let dir = app.stop().await;
    for (arguments, code, expected) in cases {
        let (exit, _, errors) = run(dir.path(), arguments).await;
        assert!(exit == code && errors.contains(expected), "{arguments:?}: {exit} {errors}");
    }

    let (exit, _, errors) = run(dir.path(), &["log", "--follow"]).await;
    assert!(exit == 1 && errors.contains("no service is running"), "{errors}");

    let empty = tempfile::tempdir().unwrap();
    let (exit, _, errors) = run(empty.path(), &["log"]).await;
    assert!(exit == 1 && errors.contains("there is no event log in"), "{errors}");
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0, "a file was created");
}

/// Starts a server that accepts one connection, sends no response, and returns the request it received.
fn start_foreign_server() -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let received_request = std::thread::spawn(move || {
        let mut request = vec![0; 4096];
        let read = listener.accept().unwrap().0.read(&mut request).unwrap();
        String::from_utf8_lossy(&request[..read]).into_owned()
    });
    (url, received_request)
}

#[actix_web::test]
async fn the_stored_token_is_sent_only_to_its_own_service() {
    // Given a service with its token in its data directory, another token in a settings file, and a foreign server
    let app = TestApp::start().await;
    let data_dir = app.dir.path().to_owned();
    let settings = data_dir.join("mediary.toml");
    let (url, received_request) = start_foreign_server();
    let commands: [&[&str]; 3] = [&["log"], &["checkpoint"], &["as-of", "1", "publisher/acme"]];
    for file in ["", "admin_token = \"token-of-the-settings\"\n"] {
        std::fs::write(&settings, file).unwrap();
        for arguments in commands {
            // When the command targets the foreign server, then it sends nothing and names the missing option
            let (exit, _, errors) = run(&data_dir, &[arguments, &["--url", &url]].concat()).await;
            assert!(exit == 1 && errors.contains("give --token or MEDIARY_TOKEN"), "{arguments:?}: {errors}");
        }
    }

    // And a token given explicitly is sent, and only that one
    let mut audit_command = command(&data_dir, &["log", "--url", &url]);
    audit_command.env("MEDIARY_ADMIN_TOKEN", "operator-chosen-token");
    actix_web::rt::task::spawn_blocking(move || audit_command.output().unwrap()).await.unwrap();
    let request = received_request.join().unwrap();
    assert!(request.contains("authorization: Bearer operator-chosen-token\r\n"), "{request}");
    // While the service itself gets its own token, even when addressed by URL
    std::fs::remove_file(&settings).unwrap();
    run_ok(&data_dir, &["log", "--url", &app.url("/")]).await;
    app.stop().await;
}

#[actix_web::test]
async fn audit_show_prints_a_task_with_its_request_and_progress() {
    // Given a finished picture task, and a video task cancelled in progress
    let sim = vendor(Duration::ZERO, behavior).await;
    let fixture = VideoFixture::with_vendor(sim, |_| {}).await;
    let (app, token) = (&fixture.app, fixture.alice.token.as_str());
    let body = json!({"image": base64_png(18, 16), "creativity": 7, "prompt": "soft light"});
    let picture = app.post_as(token, UPSCALER, body).await.expect(200).json()["data"]["task_id"].clone();
    let video = fixture.submit(START_END, of_prompt("lasting")).await["task_id"].clone();
    let (picture, video) = (picture.as_str().unwrap(), video.as_str().unwrap());
    let is_processing = async || app.get_as(token, &format!("/tasks/{video}")).await.json()["state"] == "processing";
    eventually("the video is in progress", is_processing).await;
    app.post_as(token, &format!("/proxy/videovendor/tasks/{video}/cancel"), json!({})).await.expect(200);

    // When they are shown
    let running = app.dir.path();
    let output = run_ok(running, &["show", &format!("task/{picture}")]).await;
    let history = lines(&run_ok(running, &["show", "--json", &format!("task/{video}")]).await);

    // Then the request and its files by format, size and hash are listed
    for line in [
        "+ kind: \"image-upscaler\"",
        "+ request · creativity: 7",
        "+ request · prompt: \"soft light\"",
        "+ request · image: \"png:18x16:",
    ] {
        assert!(output.contains(line), "{line} is not in: {output}");
    }
    assert!(!output.contains("base64") && !output.contains("iVBOR"), "{output}");

    // And progress only increases
    let changes = history.iter().flat_map(|entry| entry["changes"].as_array().unwrap());
    let steps: Vec<_> = changes.filter(|change| change["path"] == "/progress").collect();
    assert!(!steps.is_empty(), "the history has no progress: {history:?}");
    assert!(steps.iter().all(|step| step["before"].as_f64() < step["after"].as_f64()), "{steps:?}");
    fixture.sim.finish_all();
    fixture.app.stop().await;
}

#[actix_web::test]
async fn amounts_are_recomputed_from_the_events() {
    // Given tasks with each outcome, of a service and of its directory
    let (VideoFixture { app, sim, alice }, bob) = used_fixture().await;
    let usage = app.get_as(app.admin_token(), "/usage").await.expect(200).json()["total"].clone();
    let first = lines(&run_ok(app.dir.path(), &["log", "--json", "--type", "TaskSubmitted"]).await)[0].clone();
    let payer = format!("user/{}", bob.id);
    let queries: [&[&str]; 4] = [
        &["amounts", "--json"],
        &["amounts"],
        &["amounts", "--json", "--payer", &payer],
        &["amounts", "--json", "--to", &first["position"].to_string(), "--vendor", "local-video"],
    ];
    let mut outputs = Vec::new();
    for query in queries {
        outputs.push(run_ok(app.dir.path(), query).await);
    }
    sim.finish_all();

    // Then the rows explain every credit, and their sums are those of the usage report
    let rows = lines(&outputs[0]);
    let states: Vec<_> = rows[..5].iter().map(|row| (&row["credits"], &row["state"], &row["cost"])).collect();
    let expected = json!([
        [8, "charged", 0.035],
        [8, "refunded", 0.035],
        [8, "refunded", 0.0],
        [8, "held", 0.035],
        [8, "refunded", 0.035]
    ]);
    assert_eq!(json!(states), expected);
    assert_eq!(
        (&rows[0]["position"], &rows[0]["payers"][0]),
        (&first["position"], &json!(format!("user/{}", alice.id)))
    );
    for name in ["submissions", "held", "charged", "refunded", "cost"] {
        assert_eq!(rows[5]["total"][name], usage[name], "{name}");
    }
    assert!(
        outputs[1].ends_with("5 tasks, including free ones: 8 credits held, 8 charged, 24 refunded; cost 0.14\n"),
        "{}",
        outputs[1]
    );
    assert_eq!(lines(&outputs[2])[1]["total"]["submissions"], 1);
    assert_eq!(
        lines(&outputs[3])[1]["total"],
        json!({"submissions": 1, "held": 0, "charged": 8, "refunded": 0, "cost": 0.035})
    );

    // And the directory of the stopped service has the same result
    let dir = app.stop().await;
    assert_eq!(run_ok(dir.path(), queries[3]).await, outputs[3]);
    let (exit, _, errors) = run(dir.path(), &["amounts", "--payer", "node/a"]).await;
    assert!(exit == 2 && errors.contains("--payer node/a is invalid: it must be user/<uuid>"), "{errors}");
}

#[actix_web::test]
async fn follow_continues_over_a_restart_without_gaps_or_duplicates() {
    // Given a service on its own port, and a follower
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let app = TestApp::start_with(|settings| settings.listen.set_port(port), Environment::system()).await;
    let mut child =
        command(app.dir.path(), &["log", "--json", "--follow", "--from", "1", "--to", "6"]).spawn().unwrap();
    let out = child.stdout.take().unwrap();
    let (sender, mut line_receiver) = tokio::sync::mpsc::unbounded_channel();
    let reader_thread = std::thread::spawn(move || {
        BufReader::new(out).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
    });

    // When the service restarts during the stream
    let mut collected = line_receiver.recv().await.unwrap();
    for id in ["a", "b"] {
        app.post_as(app.admin_token(), "/publishers", json!({"id": id})).await.expect(201);
    }
    let dir = app.stop().await;
    let app = TestApp::start_in(dir, |settings| settings.listen.set_port(port), Environment::system()).await;
    for id in ["c", "d", "e"] {
        app.post_as(app.admin_token(), "/publishers", json!({"id": id})).await.expect(201);
    }

    // Then every event arrives exactly once, and the stream ends
    let status = actix_web::rt::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    while let Some(line) = line_receiver.recv().await {
        collected.extend(["\n", &line]);
    }
    assert!(reader_thread.join().unwrap(), "the command printed more lines than were read");
    let positions: Vec<_> = lines(&collected).iter().map(|event| event["position"].as_u64().unwrap()).collect();
    assert_eq!(positions, [1, 2, 3, 4, 5, 6]);
    assert_eq!(status.code(), Some(0));
    app.stop().await;
}
