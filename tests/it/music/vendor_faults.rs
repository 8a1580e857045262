//! Every fault of a music vendor, and its effect on the task: `docs/vendors.md` describes them.
//!
//! Each row is one job, which the simulator recognises by its prompt.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mediary::config::VendorProfile;
use mediary::environment::Environment;
use serde_json::{Value, json};

use super::vendor::remote;
use super::{MusicListener, states, wait_for_end};
use crate::support::TestApp;
use crate::support::music_sim::{
    MusicSim, STREAM_HEAD, StreamAction, complete, duration, error_response, generated, lines, normal_lines, sound,
    title,
};

const HTML: &str = "<html><body>Bad gateway</body></html>";
const SECOND: Duration = Duration::from_secs(1);

struct MusicFaultRow {
    name: &'static str,
    actions: Vec<StreamAction>,
    /// Error code; empty for a success.
    code: &'static str,
}

fn row(name: &'static str, actions: Vec<StreamAction>, code: &'static str) -> MusicFaultRow {
    MusicFaultRow { name, actions, code }
}

/// Returns the usual first lines, followed by these actions.
fn after_first_lines(actions: Vec<StreamAction>) -> Vec<StreamAction> {
    [lines(&[duration(), title(), sound("one")]), actions].concat()
}

fn send(text: impl Into<String>) -> Vec<StreamAction> {
    vec![StreamAction::Send(text.into())]
}

/// Returns the usual lines, each with this line ending.
fn lines_ended_by(end: &str) -> String {
    normal_lines().iter().flat_map(|line| [line.to_string(), end.to_owned()]).collect()
}

#[rustfmt::skip]
fn valid_rows() -> Vec<MusicFaultRow> {
    let lines_with = |extra: &[Value]| lines(&[&normal_lines()[..3], extra, &normal_lines()[3..]].concat());
    let second = || { let mut sound = sound("x"); sound["num_streams"] = json!(2); sound["stream_index"] = json!(1); sound };
    vec![
        row("usual", lines(&normal_lines()), ""),
        row("blank lines between", [send(format!("{STREAM_HEAD}\n\r\n")), send(lines_ended_by("\n\n \n"))].concat(), ""),
        row("Windows line endings", [send(STREAM_HEAD), send(lines_ended_by("\r\n"))].concat(), ""),
        row("no line ending after the last line", [lines(&normal_lines()[..5]), send(complete().to_string())].concat(), ""),
        row("unknown types", lines_with(&[json!({"type": "lyrics", "text": "la"}), json!({"type": "progress"})]), ""),
        row("an unknown type first", lines(&[&[json!({"type": "queued"})], &normal_lines()[..]].concat()), ""),
        row("sound before title and length", lines(&[sound("one"), title(), duration(), complete()]), ""),
        row("no title, no length", lines(&[sound("one"), complete()]), ""),
        row("length and title twice", lines_with(&[duration(), title()]), ""),
        row("two interleaved files", lines_with(&[second()]), ""),
        row("201 instead of 200", [send(STREAM_HEAD.replace("200 OK", "201 Created")), send(lines_ended_by("\n"))].concat(), ""),
        row("a line in pieces", [send(STREAM_HEAD), normal_lines().iter().flat_map(|line| { let text = format!("{line}\n"); let (a, b) = text.split_at(9); [StreamAction::Send(a.to_owned()), StreamAction::Trickle(String::new(), SECOND), StreamAction::Send(b.to_owned())] }).collect()].concat(), ""),
    ]
}

#[rustfmt::skip]
fn rejected_rows() -> Vec<MusicFaultRow> {
    let unavailable = "vendor_unavailable";
    let rejected = "vendor_refused";
    let unknown = "outcome_unknown";
    vec![
        row("302", error_response("302 Found\r\nlocation: http://169.254.169.254/", ""), unavailable),
        row("400", error_response("400 Bad Request", r#"{"message": "no such prompt"}"#), rejected),
        row("401", error_response("401 Unauthorized", "{}"), unavailable),
        row("402", error_response("402 Payment Required", "{}"), unavailable),
        row("403", error_response("403 Forbidden", HTML), unavailable),
        row("404", error_response("404 Not Found", HTML), unavailable),
        row("409", error_response("409 Conflict", "{}"), unknown),
        row("415", error_response("415 Unsupported Media Type", "{}"), rejected),
        row("422", error_response("422 Unprocessable Content", "{}"), rejected),
        row("429", error_response("429 Too Many Requests", "{}"), unavailable),
        row("500", error_response("500 Internal Server Error", "{}"), unknown),
        row("502", error_response("502 Bad Gateway", HTML), unknown),
        row("503", error_response("503 Service Unavailable", "{}"), unavailable),
        row("an endless rejection", [send("HTTP/1.1 400 Bad Request\r\n\r\n"), vec![StreamAction::SendForever("x".repeat(9_000))]].concat(), rejected),
        row("connection closed", Vec::new(), unknown),
        row("no HTTP", send("SSH-2.0\r\n"), unknown),
        row("black hole", vec![StreamAction::Silence], unknown),
        row("a head at 1 byte/s", vec![StreamAction::Trickle(STREAM_HEAD.to_owned(), SECOND)], unknown),
        row("HTML with 200", error_response("200 OK", HTML), unknown),
        row("empty with 200", error_response("200 OK", ""), unknown),
        row("silent after the head", [send(STREAM_HEAD), vec![StreamAction::Silence]].concat(), unknown),
        row("only blank lines", [send(STREAM_HEAD), vec![StreamAction::Trickle("\n".repeat(1_000), Duration::from_millis(50))]].concat(), unknown),
        row("first line at 1 byte/s", [send(STREAM_HEAD), vec![StreamAction::Trickle(duration().to_string(), SECOND)]].concat(), unknown),
        row("first line without end", [send(STREAM_HEAD), vec![StreamAction::SendForever("x".repeat(9_000))]].concat(), unknown),
        row("first line cut", send(format!("{STREAM_HEAD}{{\"type\": \"dura")), unknown),
        row("first line of wrong types", lines(&[json!({"type": "duration", "duration_sec": "long"})]), unknown),
        row("first line a list", lines(&[json!([1])]), unknown),
    ]
}

#[rustfmt::skip]
fn broken_rows() -> Vec<MusicFaultRow> {
    let broke_off = "vendor_broke_off";
    let mut other_rate = sound("two");
    other_rate["sample_rate"] = json!(8_000);
    let cut = format!("HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n{}\n", duration());
    let large = sound(&"x".repeat(200_000));
    vec![
        row("broken: ended", after_first_lines(Vec::new()), broke_off),
        row("broken: cut in JSON", after_first_lines(send("{\"type\": \"audio_chunk\", \"data\": \"aGVh")), broke_off),
        row("broken: cut in HTTP", send(cut), broke_off),
        row("broken: HTML", after_first_lines(send(format!("{HTML}\n"))), broke_off),
        row("broken: wrong types", after_first_lines(send("{\"type\": \"audio_chunk\", \"data\": 5}\n")), broke_off),
        row("broken: no base64", after_first_lines(send(sound("two").to_string().replace("dHdv", "!!!!") + "\n")), broke_off),
        row("broken: black hole", after_first_lines(vec![StreamAction::Silence]), broke_off),
        row("broken: only blank lines", after_first_lines(vec![StreamAction::Trickle("\n".repeat(1_000), Duration::from_millis(50))]), broke_off),
        row("broken: 1 byte/s", after_first_lines(vec![StreamAction::Trickle(sound("two").to_string(), SECOND)]), broke_off),
        row("broken: a line without end", after_first_lines(vec![StreamAction::SendForever("x".repeat(9_000))]), broke_off),
        row("broken: a chunk too large", after_first_lines(send(format!("{large}\n{}\n", complete()))), broke_off),
        row("broken: endless lines of an unknown type", after_first_lines(vec![StreamAction::SendForever("{\"type\": \"progress\"}\n".to_owned())]), broke_off),
        row("broken: another format", after_first_lines(send(format!("{other_rate}\n{}\n", complete()))), broke_off),
        row("broken: complete without sound", lines(&[duration(), title(), complete()]), broke_off),
        row("broken: complete at once", lines(&[complete()]), broke_off),
        row("broken: a summary without sound", lines(&[duration(), generated(), complete()]), broke_off),
        row("broken: failed", after_first_lines(send("{\"type\": \"error\", \"code\": \"nsfw\", \"message\": \"not that\"}\n")), "vendor_failed"),
        row("broken: failed at once", lines(&[json!({"type": "error", "message": "not that"})]), "vendor_failed"),
    ]
}

/// Statuses after which it is unknown whether the vendor has started, unless its profile defines them. The profile of
/// this service does.
const UNKNOWN_ELSEWHERE: [&str; 2] = ["302", "503"];

async fn assert_outcomes(rows: fn() -> Vec<MusicFaultRow>, after_acceptance: bool) {
    for profile in ["mediary", "sonilo"] {
        assert_outcomes_with(profile, rows(), after_acceptance).await;
    }
}

async fn assert_outcomes_with(profile: &str, rows: Vec<MusicFaultRow>, after_acceptance: bool) {
    let code_of = |row: &MusicFaultRow| {
        let is_unknown = profile != "mediary" && UNKNOWN_ELSEWHERE.contains(&row.name);
        if is_unknown { "outcome_unknown" } else { row.code }
    };
    let codes: Vec<_> = rows.iter().map(|row| (row.name, code_of(row))).collect();
    let actions: HashMap<_, _> = rows.into_iter().map(|row| (row.name, row.actions)).collect();

    let vendor = MusicSim::with_behavior(move |request| {
        let prompt = request.field("prompt").and_then(|prompt| actions.get(prompt));
        prompt.cloned().unwrap_or_default()
    })
    .await;
    let base = vendor.base();

    let change = |settings: &mut mediary::config::Settings| {
        remote(settings, &base);
        settings.music_vendors[0].selection.profile = VendorProfile::find(profile, None).expect("a shipped profile");
        // Timeout of a missing line; long enough on a busy machine for a line that is sent at once.
        settings.music_vendors[0].line_timeout = Duration::from_secs(10);
        settings.music_vendors[0].line_bytes = 100_000;
    };
    let app = Arc::new(TestApp::start_with(change, Environment::system()).await);
    let user = Arc::new(app.user("u").await);

    let rows = codes.into_iter().map(|(name, code)| {
        let (app, user) = (app.clone(), user.clone());
        actix_web::rt::spawn(async move {
            let listener = MusicListener::request(&app, &user, &[("prompt", name)]).await;
            let id = listener.task.clone();
            let last = listener.collect().await.pop().unwrap_or_default();
            let task = wait_for_end(&app, &user, &id).await;
            check((name, code), &last, &task, &id, after_acceptance).err()
        })
    });

    let mut mismatches = Vec::new();
    for row in rows.collect::<Vec<_>>() {
        mismatches.extend(row.await.expect("the task does not panic"));
    }

    let record = vendor.record();
    for request in &record.requests {
        let times = record.requests.iter().filter(|other| other.body == request.body).count();
        let prompt = request.field("prompt");
        let same_prompt_count = record.requests.iter().filter(|other| other.field("prompt") == prompt).count();
        assert_eq!((times, same_prompt_count), (1, 1), "{prompt:?} was requested more than once");
    }

    assert!(mismatches.is_empty(), "{profile}:\n{}", mismatches.join("\n"));
    let Ok(app) = Arc::try_unwrap(app) else { panic!("a row has not ended") };
    app.stop().await;
}

fn check(
    (name, code): (&str, &str),
    last: &Value,
    task: &Value,
    id: &str,
    after_acceptance: bool,
) -> Result<(), String> {
    let is_as_expected = if code.is_empty() {
        last["type"] == "complete" && last["task_id"] == id && task["state"] == "success"
    } else {
        let message = last["message"].as_str().is_some_and(|message| message.len() > 20);
        last["type"] == "error" && last["code"] == code && message && task["error"]["code"] == code
    };
    let middle = if after_acceptance { &["created", "processing"][..] } else { &["created"] };
    let end = if code.is_empty() { "success" } else { "failed" };
    if is_as_expected && states(task) == [middle, &[end]].concat() {
        return Ok(());
    }
    Err(format!("{name}: expected {code:?}, is {last} by {:?}: {}", states(task), task["error"]))
}

#[actix_web::test]
async fn unusual_but_complete_streams_succeed() {
    assert_outcomes(valid_rows, true).await;
}

#[actix_web::test]
async fn every_response_without_a_first_line_has_its_outcome() {
    assert_outcomes(rejected_rows, false).await;
}

#[actix_web::test]
async fn every_broken_stream_has_its_outcome() {
    assert_outcomes(broken_rows, true).await;
}
