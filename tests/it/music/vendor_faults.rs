//! Every fault of a music vendor, and its effect on the task: `docs/vendors.md` has the same table in words.
//!
//! Each row is one job, which the simulator recognises by its prompt.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mediary::environment::Environment;
use serde_json::{Value, json};

use super::vendor::remote;
use super::{Listener, ended, states};
use crate::support::TestApp;
use crate::support::music_sim::{
    Act, BEGUN, MusicSim, answer, complete, duration, generated, lines, sound, title, usual,
};

const HTML: &str = "<html><body>Bad gateway</body></html>";
const SECOND: Duration = Duration::from_secs(1);

struct Row {
    name: &'static str,
    acts: Vec<Act>,
    /// Error code; empty for a success.
    code: &'static str,
}

fn row(name: &'static str, acts: Vec<Act>, code: &'static str) -> Row {
    Row { name, acts, code }
}

/// The usual beginning, followed by these acts.
fn then(acts: Vec<Act>) -> Vec<Act> {
    [lines(&[duration(), title(), sound("one")]), acts].concat()
}

fn say(text: impl Into<String>) -> Vec<Act> {
    vec![Act::Say(text.into())]
}

/// The usual lines, followed by this end.
fn ended_by(end: &str) -> String {
    usual().iter().flat_map(|line| [line.to_string(), end.to_owned()]).collect()
}

#[rustfmt::skip]
fn good() -> Vec<Row> {
    let with = |extra: &[Value]| lines(&[&usual()[..3], extra, &usual()[3..]].concat());
    let second = || { let mut sound = sound("x"); sound["num_streams"] = json!(2); sound["stream_index"] = json!(1); sound };
    vec![
        row("usual", lines(&usual()), ""),
        row("blank lines between", [say(format!("{BEGUN}\n\r\n")), say(ended_by("\n\n \n"))].concat(), ""),
        row("lines that end as in Windows", [say(BEGUN), say(ended_by("\r\n"))].concat(), ""),
        row("no end of the last line", [lines(&usual()[..5]), say(complete().to_string())].concat(), ""),
        row("unknown types", with(&[json!({"type": "lyrics", "text": "la"}), json!({"type": "progress"})]), ""),
        row("an unknown type first", lines(&[&[json!({"type": "queued"})], &usual()[..]].concat()), ""),
        row("sound before title and length", lines(&[sound("one"), title(), duration(), complete()]), ""),
        row("no title, no length", lines(&[sound("one"), complete()]), ""),
        row("told twice", with(&[duration(), title()]), ""),
        row("two files in turns", with(&[second()]), ""),
        row("a success of another number", [say(BEGUN.replace("200 OK", "201 Created")), say(ended_by("\n"))].concat(), ""),
        row("a line in pieces", [say(BEGUN), usual().iter().flat_map(|line| { let text = format!("{line}\n"); let (a, b) = text.split_at(9); [Act::Say(a.to_owned()), Act::Trickle(String::new(), SECOND), Act::Say(b.to_owned())] }).collect()].concat(), ""),
    ]
}

#[rustfmt::skip]
fn untaken() -> Vec<Row> {
    let (gone, refused, unknown) = ("vendor_unavailable", "vendor_refused", "outcome_unknown");
    vec![
        row("302", answer("302 Found\r\nlocation: http://169.254.169.254/", ""), gone),
        row("400", answer("400 Bad Request", r#"{"message": "no such prompt"}"#), refused),
        row("401", answer("401 Unauthorized", "{}"), gone),
        row("402", answer("402 Payment Required", "{}"), gone),
        row("403", answer("403 Forbidden", HTML), gone),
        row("404", answer("404 Not Found", HTML), gone),
        row("409", answer("409 Conflict", "{}"), unknown),
        row("415", answer("415 Unsupported Media Type", "{}"), refused),
        row("422", answer("422 Unprocessable Content", "{}"), refused),
        row("429", answer("429 Too Many Requests", "{}"), gone),
        row("500", answer("500 Internal Server Error", "{}"), unknown),
        row("502", answer("502 Bad Gateway", HTML), unknown),
        row("503", answer("503 Service Unavailable", "{}"), gone),
        row("a refusal without end", [say("HTTP/1.1 400 Bad Request\r\n\r\n"), vec![Act::Pour("x".repeat(9_000))]].concat(), refused),
        row("hung up", Vec::new(), unknown),
        row("no HTTP", say("SSH-2.0\r\n"), unknown),
        row("black hole", vec![Act::Silence], unknown),
        row("a head at 1 byte/s", vec![Act::Trickle(BEGUN.to_owned(), SECOND)], unknown),
        row("HTML with 200", answer("200 OK", HTML), unknown),
        row("empty with 200", answer("200 OK", ""), unknown),
        row("silent after the head", [say(BEGUN), vec![Act::Silence]].concat(), unknown),
        row("only blank lines", [say(BEGUN), vec![Act::Trickle("\n".repeat(1_000), Duration::from_millis(50))]].concat(), unknown),
        row("first line at 1 byte/s", [say(BEGUN), vec![Act::Trickle(duration().to_string(), SECOND)]].concat(), unknown),
        row("first line without end", [say(BEGUN), vec![Act::Pour("x".repeat(9_000))]].concat(), unknown),
        row("first line cut", say(format!("{BEGUN}{{\"type\": \"dura")), unknown),
        row("first line of wrong types", lines(&[json!({"type": "duration", "duration_sec": "long"})]), unknown),
        row("first line a list", lines(&[json!([1])]), unknown),
    ]
}

#[rustfmt::skip]
fn broken() -> Vec<Row> {
    let off = "vendor_broke_off";
    let mut other_rate = sound("two");
    other_rate["sample_rate"] = json!(8_000);
    let cut = format!("HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n{}\n", duration());
    let large = sound(&"x".repeat(200_000));
    vec![
        row("b ended", then(Vec::new()), off),
        row("b cut in JSON", then(say("{\"type\": \"audio_chunk\", \"data\": \"aGVh")), off),
        row("b cut in HTTP", say(cut), off),
        row("b HTML", then(say(format!("{HTML}\n"))), off),
        row("b wrong types", then(say("{\"type\": \"audio_chunk\", \"data\": 5}\n")), off),
        row("b no base64", then(say(sound("two").to_string().replace("dHdv", "!!!!") + "\n")), off),
        row("b black hole", then(vec![Act::Silence]), off),
        row("b only blank lines", then(vec![Act::Trickle("\n".repeat(1_000), Duration::from_millis(50))]), off),
        row("b 1 byte/s", then(vec![Act::Trickle(sound("two").to_string(), SECOND)]), off),
        row("b a line without end", then(vec![Act::Pour("x".repeat(9_000))]), off),
        row("b a chunk too large", then(say(format!("{large}\n{}\n", complete()))), off),
        row("b unknown types for ever", then(vec![Act::Pour("{\"type\": \"progress\"}\n".to_owned())]), off),
        row("b another format", then(say(format!("{other_rate}\n{}\n", complete()))), off),
        row("b complete without sound", lines(&[duration(), title(), complete()]), off),
        row("b complete at once", lines(&[complete()]), off),
        row("b no sound but a sum", lines(&[duration(), generated(), complete()]), off),
        row("b failed", then(say("{\"type\": \"error\", \"code\": \"nsfw\", \"message\": \"not that\"}\n")), "vendor_failed"),
        row("b failed at once", lines(&[json!({"type": "error", "message": "not that"})]), "vendor_failed"),
    ]
}

async fn holds(rows: Vec<Row>, after_acceptance: bool) {
    let codes: Vec<_> = rows.iter().map(|row| (row.name, row.code)).collect();
    let acts: HashMap<_, _> = rows.into_iter().map(|row| (row.name, row.acts)).collect();
    let vendor = MusicSim::behaving(move |asked| {
        let prompt = asked.field("prompt").and_then(|prompt| acts.get(prompt));
        prompt.cloned().unwrap_or_default()
    })
    .await;
    let base = vendor.base();
    let change = |settings: &mut mediary::config::Settings| {
        remote(settings, &base);
        // Timeout of a missing line; long enough on a busy machine for a line that is sent at once.
        settings.music_vendor.line_timeout = Duration::from_secs(4);
        settings.music_vendor.line_bytes = 100_000;
    };
    let app = Arc::new(TestApp::start_with(change, Environment::system()).await);
    let user = Arc::new(app.user("u").await);
    let rows = codes.into_iter().map(|(name, code)| {
        let (app, user) = (app.clone(), user.clone());
        actix_web::rt::spawn(async move {
            let listener = Listener::ask(&app, &user, &[("prompt", name)]).await;
            let id = listener.task.clone();
            let last = listener.rest().await.pop().unwrap_or_default();
            let task = ended(&app, &user, &id).await;
            check((name, code), &last, &task, &id, after_acceptance).err()
        })
    });
    let mut wrong = Vec::new();
    for row in rows.collect::<Vec<_>>() {
        wrong.extend(row.await.expect("no panic"));
    }
    let books = vendor.books();
    for asked in &books.asked {
        let times = books.asked.iter().filter(|other| other.body == asked.body).count();
        let prompt = asked.field("prompt");
        let same = books.asked.iter().filter(|other| other.field("prompt") == prompt).count();
        assert_eq!((times, same), (1, 1), "{prompt:?} was asked for more than once");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let Ok(app) = Arc::try_unwrap(app) else { panic!("all rows have ended") };
    app.stop().await;
}

fn check(
    (name, code): (&str, &str),
    last: &Value,
    task: &Value,
    id: &str,
    after_acceptance: bool,
) -> Result<(), String> {
    let said = if code.is_empty() {
        last["type"] == "complete" && last["task_id"] == id && task["state"] == "success"
    } else {
        let message = last["message"].as_str().is_some_and(|message| message.len() > 20);
        last["type"] == "error" && last["code"] == code && message && task["error"]["code"] == code
    };
    let middle = if after_acceptance { &["created", "processing"][..] } else { &["created"] };
    let end = if code.is_empty() { "success" } else { "failed" };
    if said && states(task) == [middle, &[end]].concat() {
        return Ok(());
    }
    Err(format!("{name}: expected {code:?}, is {last} by {:?}: {}", states(task), task["error"]))
}

#[actix_web::test]
async fn what_is_odd_but_whole_is_music() {
    holds(good(), true).await;
}

#[actix_web::test]
async fn every_answer_without_a_first_line_has_its_outcome() {
    holds(untaken(), false).await;
}

#[actix_web::test]
async fn every_stream_that_goes_wrong_has_its_outcome() {
    holds(broken(), true).await;
}
