//! Checks that every acknowledged write is present once, and that the log is complete.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use mediary::actors::projector::rebuild;
use mediary::environment::Environment;
use mediary::events::log::EventLog;
use mediary::events::sled_log::SledLog;
use mediary::events::stream::Position;
use mediary::projections::read_models::Models;
use reqwest::Client;
use serde_json::{Value, json};

use super::load::{AcknowledgedWrites, UPSCALER, post};
use crate::support::client;
use crate::support::eventually::eventually_within;
use crate::support::process::{Process, TOKEN};
use crate::support::receiver::ReceivedRequest;

/// Deadline for a snapshot while clients write.
const SNAPSHOT_WITHIN: Duration = Duration::from_mins(2);

/// Reads a URL as the administrator.
async fn get(client: &Client, url: &str) -> Value {
    client.get(url).bearer_auth(TOKEN).send().await.unwrap().json().await.unwrap()
}

/// Asserts that every acknowledged node and task is present.
pub async fn verify(service: &Process, acknowledged: &AcknowledgedWrites) {
    let client = client();
    let nodes: Vec<_> = acknowledged.changelogs.iter().collect();
    for chunk in nodes.chunks(1000) {
        let queries: Vec<_> = chunk.iter().map(|((_, node), _)| json!({"node_id": node, "version": "1.0.0"})).collect();
        let url = service.url("/bulk/nodes/versions");
        let (status, response) = post(&client, &url, &json!({"node_versions": queries})).await.unwrap();
        assert_eq!(status, 200, "{response}");
        let results = response["node_versions"].as_array().unwrap();
        assert_eq!(results.len(), chunk.len(), "results and queries of the bulk lookup");
        for (((_, node), (acknowledged, requested)), result) in chunk.iter().zip(results) {
            assert_eq!(result["status"], "success", "{node} was acknowledged but is lost: {result}");
            let changelog: u64 = result["node_version"]["changelog"].as_str().unwrap().parse().unwrap();
            assert!(
                (*acknowledged..=*requested).contains(&changelog),
                "{node}: acknowledged {acknowledged}, requested {requested}, found {changelog}"
            );
        }
    }
    for (_, task) in &acknowledged.tasks {
        let state = get(&client, &service.url(&format!("{UPSCALER}/{task}"))).await;
        assert_eq!(state["data"]["task_id"], **task, "{task} was acknowledged but is lost: {state}");
    }
}

/// Asserts that the task is completed.
pub async fn verify_task_completed(service: &Process, task: &str) {
    let state = get(&client(), &service.url(&format!("{UPSCALER}/{task}"))).await;
    assert_eq!(state["data"]["status"], "COMPLETED", "{state}");
}

/// Statuses that a receiver got, by task, in order of arrival. A callback that was delivered twice counts once.
pub struct ReportedStatuses(HashMap<String, Vec<String>>);

impl ReportedStatuses {
    /// Collects the statuses in received callbacks.
    pub fn from_callbacks(received: &[ReceivedRequest]) -> Self {
        let (mut seen_ids, mut statuses) = (HashSet::new(), HashMap::<_, Vec<_>>::new());
        for callback in received {
            if seen_ids.insert(callback.header("webhook-id")) {
                let body = callback.json();
                let text = |name: &str| body[name].as_str().expect("a text").to_owned();
                statuses.entry(text("task_id")).or_default().push(text("status"));
            }
        }
        Self(statuses)
    }

    pub fn statuses_of(&self, task: &str) -> &[String] {
        self.0.get(task).map_or(&[], Vec::as_slice)
    }

    /// Returns `true` if the final status of every task has arrived.
    pub fn all_ended<'t>(&self, mut tasks: impl Iterator<Item = &'t String>) -> bool {
        tasks
            .all(|task| self.statuses_of(task).last().is_some_and(|status| status == "COMPLETED" || status == "FAILED"))
    }
}

/// Events read so far, to detect gaps, duplicates and losses over all restarts.
#[derive(Default)]
pub struct FollowedLog {
    /// Position of the last event.
    head: u64,
    /// Version of each stream.
    versions: HashMap<String, u64>,
}

impl FollowedLog {
    /// Reads the events since the last call. Asserts that none is missing or duplicated, and that the log has not
    /// shrunk.
    pub async fn follow(&mut self, service: &Process) {
        let client = client();
        let state = get(&client, &service.url("/admin/state")).await;
        let head = state["log"]["head"].as_u64().unwrap_or_else(|| panic!("{state}"));
        assert!(head >= self.head, "the log had {} events, and now has {head}", self.head);
        while self.head < head {
            let page = get(&client, &service.url(&format!("/admin/events?after={}&limit=1000", self.head))).await;
            let events = page["events"].as_array().unwrap_or_else(|| panic!("{page}"));
            assert!(!events.is_empty(), "the events after {} of {head} are missing", self.head);
            for event in events {
                self.head += 1;
                assert_eq!(event["position"], self.head, "a gap or a duplicate in the log: {event}");
                let version = self.versions.entry(event["stream"].as_str().unwrap().to_owned()).or_default();
                *version += 1;
                assert_eq!(event["version"], *version, "a gap or a duplicate in the stream: {event}");
            }
        }
    }
}

/// Waits until the service takes a snapshot.
pub async fn wait_for_new_snapshot(data: &Path) {
    let path = data.join("snapshots/models");
    let file = || std::fs::metadata(&path).ok().map(|file| (file.ino(), file.mtime(), file.mtime_nsec()));
    let before = file();
    eventually_within(SNAPSHOT_WITHIN, "a snapshot is taken while others write", async || file() != before).await;
}

/// Asserts that the log has no gap or duplicate, and that the start and a later replay build the same read models.
/// Returns its number of events.
pub fn verify_log(data: &Path) -> u64 {
    let mut from_start = Models::default();
    let apply = |commit: &mediary::events::envelope::Commit| commit.iter().for_each(|event| from_start.apply(event));
    let options = mediary::app::log_options(data, &mediary::config::Settings::default());
    let (log, _) = SledLog::open(&options, &Environment::system(), apply).unwrap();
    let events = log.read_all(Position(0), usize::MAX).unwrap();
    let mut versions: HashMap<String, u64> = HashMap::new();
    for (position, event) in (1..).zip(&events) {
        assert_eq!(event.position, Position(position), "a gap or a duplicate in the log");
        let version = versions.entry(event.stream.to_string()).or_default();
        *version += 1;
        assert_eq!(event.version.0, *version, "a gap or a duplicate in {}", event.stream);
    }
    assert_eq!(log.head().0, events.len() as u64);
    assert_eq!(rebuild(&log).unwrap(), from_start, "a replay builds other read models than the start");
    log.head().0
}
