//! kill -9 under load: what was answered is there, nothing has a gap or a double, unfinished work goes on.
//!
//! The suite does 10 rounds; `CRASH_ROUNDS=500 cargo test --test it crash` does more.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use mediary::actors::projector::rebuild;
use mediary::clock::Surroundings;
use mediary::events::log::EventLog;
use mediary::events::sled_log::SledLog;
use mediary::events::stream::Position;
use mediary::projections::read_models::Models;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::support::process::{Process, TOKEN};
use crate::support::receiver::{Received, Receiver};
use crate::support::{client, picture};

const WRITERS: usize = 64;
const UPSCALER: &str = "/proxy/imagevendor/v1/ai/image-upscaler";

/// What the service has answered so far: it must never forget it.
#[derive(Default, Clone)]
pub struct Answered {
    /// Node → the changelog numbers that its version may carry: the last answered one, and later ones that were asked for.
    changelogs: BTreeMap<String, (u64, u64)>,
    pub tasks: Vec<String>,
}

#[actix_web::test]
async fn answered_commands_survive_kill_9() {
    let rounds: u64 = std::env::var("CRASH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    let data = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    let answered = Arc::new(Mutex::new(Answered::default()));
    let mut moments = StdRng::seed_from_u64(0xA11CE);

    for round in 0..rounds {
        // Given a service that may have been killed before: everything answered is there, once
        let service = Process::start(data.path());
        let so_far = answered.lock().clone();
        verify(&service, so_far).await;
        // When it is killed while 64 clients write
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (base, answered, webhook) = (service.url(""), answered.clone(), receiver.url("/hook"));
                actix_web::rt::spawn(async move { write_until_killed(base, writer, round, &answered, &webhook).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(moments.gen_range(20..400))).await;
        service.kill();
        for writer in writers {
            writer.await.unwrap();
        }
        verify_log(data.path());
    }

    // Then after the last start too, every task ends, and every change of status is told in order
    let service = Process::start(data.path());
    let so_far = answered.lock().clone();
    verify(&service, so_far).await;
    let tasks = answered.lock().tasks.clone();
    assert!(!tasks.is_empty(), "no task was answered in {rounds} rounds: the test shows nothing");
    let received = receiver.wait_until(|received| tasks.iter().all(|task| ended(received, task))).await;
    for task in &tasks {
        assert_eq!(told(&received, task), ["IN_PROGRESS", "COMPLETED"], "task {task}");
        let state = get(&client(), &service.url(&format!("{UPSCALER}/{task}"))).await;
        assert_eq!(state["data"]["status"], "COMPLETED");
    }
    let (status, errors) = service.terminate();
    assert!(status.success(), "{status}: {errors}");

    // And the log has no gap and no double, and gives the same read models however it is read
    let events = verify_log(data.path());
    let nodes = answered.lock().changelogs.len();
    println!(
        "{rounds} kills: {nodes} nodes and {} tasks answered and there, {events} events without gap or double",
        tasks.len()
    );
}

/// Writes as fast as it is answered, and notes every answer; returns when there is none.
pub async fn write_until_killed(base: String, writer: usize, round: u64, answered: &Mutex<Answered>, webhook: &str) {
    let client = client();
    let publisher = format!("p{writer}");
    let body = json!({"id": publisher});
    if post(&client, &format!("{base}/publishers"), &body).await.is_none() {
        return;
    }
    if writer < 2 {
        let body = json!({"image": picture::base64_png(24, 24), "webhook_url": webhook});
        match post(&client, &format!("{base}{UPSCALER}"), &body).await {
            Some((200, task)) => answered.lock().tasks.push(task["data"]["task_id"].as_str().unwrap().to_owned()),
            Some((status, task)) => panic!("{status}: {task}"),
            None => return,
        }
    }
    for number in 0.. {
        let node = format!("n{writer}-{round}-{number}");
        let body = json!({"id": node, "latest_version": {"version": "1.0.0", "changelog": "0"}});
        match post(&client, &format!("{base}/publishers/{publisher}/nodes"), &body).await {
            Some((201, _)) => answered.lock().changelogs.insert(node.clone(), (0, 0)),
            Some((status, body)) => panic!("{status}: {body}"),
            None => return,
        };
        for changelog in 1..=3 {
            answered.lock().changelogs.entry(node.clone()).and_modify(|(_, asked)| *asked = changelog);
            let url = format!("{base}/publishers/{publisher}/nodes/{node}/versions/1.0.0");
            let body = json!({"changelog": changelog.to_string()});
            match send(client.put(url).bearer_auth(TOKEN).json(&body)).await {
                Some((200, _)) => {
                    answered.lock().changelogs.entry(node.clone()).and_modify(|(done, _)| *done = changelog)
                }
                Some((status, body)) => panic!("{status}: {body}"),
                None => return,
            };
        }
    }
}

/// The answer, or nothing when the service was killed.
async fn send(request: reqwest::RequestBuilder) -> Option<(u16, Value)> {
    let answer = request.send().await.ok()?;
    let status = answer.status().as_u16();
    Some((status, answer.json().await.ok()?))
}

async fn post(client: &Client, url: &str, body: &Value) -> Option<(u16, Value)> {
    send(client.request(Method::POST, url).bearer_auth(TOKEN).json(body)).await
}

async fn get(client: &Client, url: &str) -> Value {
    client.get(url).bearer_auth(TOKEN).send().await.unwrap().json().await.unwrap()
}

/// Every command that was answered is there, once.
pub async fn verify(service: &Process, answered: Answered) {
    let client = client();
    let nodes: Vec<_> = answered.changelogs.iter().collect();
    for chunk in nodes.chunks(1000) {
        let asked: Vec<_> = chunk.iter().map(|(node, _)| json!({"node_id": node, "version": "1.0.0"})).collect();
        let url = service.url("/bulk/nodes/versions");
        let (status, found) = post(&client, &url, &json!({"node_versions": asked})).await.unwrap();
        assert_eq!(status, 200, "{found}");
        for ((node, (done, asked)), found) in chunk.iter().zip(found["node_versions"].as_array().unwrap()) {
            assert_eq!(found["status"], "success", "{node} was answered and is lost: {found}");
            let changelog: u64 = found["node_version"]["changelog"].as_str().unwrap().parse().unwrap();
            assert!((*done..=*asked).contains(&changelog), "{node}: answered {done}, asked {asked}, found {changelog}");
        }
    }
    for task in &answered.tasks {
        let found = get(&client, &service.url(&format!("{UPSCALER}/{task}"))).await;
        assert_eq!(found["data"]["task_id"], **task, "a task was answered and is lost: {found}");
    }
}

/// The statuses that a receiver was told of, each message counted once.
pub fn told(received: &[Received], task: &str) -> Vec<String> {
    let mut messages: Vec<(&str, String)> = Vec::new();
    for callback in received.iter().filter(|callback| callback.task() == task) {
        if messages.iter().all(|(id, _)| *id != callback.header("webhook-id")) {
            messages.push((callback.header("webhook-id"), callback.status()));
        }
    }
    messages.into_iter().map(|(_, status)| status).collect()
}

pub fn ended(received: &[Received], task: &str) -> bool {
    told(received, task).last().is_some_and(|status| status == "COMPLETED" || status == "FAILED")
}

/// The log has no gap and no double, and gives the same read models however it is read. Says how many events it has.
pub fn verify_log(data: &std::path::Path) -> u64 {
    let mut from_journal = Models::default();
    let fold = |commit: &mediary::events::envelope::Commit| commit.iter().for_each(|event| from_journal.apply(event));
    let options = mediary::app::log_options(data, &mediary::config::Settings::default());
    let (log, _) = SledLog::open(&options, &Surroundings::real(), fold).unwrap();
    let events = log.read_all(Position(0), usize::MAX).unwrap();
    let mut versions: HashMap<String, u64> = HashMap::new();
    for (position, event) in (1..).zip(&events) {
        assert_eq!(event.position, Position(position), "a gap or a double in the log");
        let version = versions.entry(event.stream.to_string()).or_default();
        *version += 1;
        assert_eq!(event.version.0, *version, "a gap or a double in {}", event.stream);
    }
    assert_eq!(log.head().0, events.len() as u64);
    assert_eq!(rebuild(&log).unwrap(), from_journal, "read models differ by the way they were read");
    log.head().0
}
