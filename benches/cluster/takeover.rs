//! Time until another node takes over the work of a killed node.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::http::{Connection, request};
use crate::median;
use crate::nodes::BenchCluster;
use crate::service::{TOKEN, block_on};

/// Short video. One node of the cluster, the owner, works on all videos.
const JOB: &str = r#"{"model": "vq2-turbo", "prompt": "a beach at sunset", "duration": 1}"#;
const SUBMIT: &str = "/proxy/videovendor/start-end2video";
/// Deadline of a task.
const TASK_DEADLINE: Duration = Duration::from_mins(2);
/// Pause after a restart, because a new owner waits for 5 seconds before it acts.
const PAUSE_AFTER_RESTART: Duration = Duration::from_secs(6);

/// Kills the owner several times and prints how long a task takes that is submitted right after.
pub fn measure(cluster: &mut BenchCluster, times: usize) {
    let undisturbed: Vec<_> = (0..times).map(|_| run_task(&cluster.addresses())).collect();
    let mut after_kill = Vec::new();
    for _ in 0..times {
        let owner = owner(cluster.addresses()[0]);
        let index = cluster.nodes.iter().position(|node| node.as_ref().is_some_and(|node| node.address == owner));
        let index = index.expect("one of the nodes is the owner");
        // Dropping the node kills its process.
        drop(cluster.nodes[index].take());
        after_kill.push(run_task(&cluster.addresses()));
        cluster.nodes[index] = Some(cluster.start(index));
        std::thread::sleep(PAUSE_AFTER_RESTART);
    }
    let (undisturbed, after_kill) = (median(undisturbed), median(after_kill));
    println!("A video takes {undisturbed:.1} s, and {after_kill:.1} s if the owner was killed just before.");
}

/// Submits a task to the first node; returns the seconds until it is completed.
fn run_task(addresses: &[&str]) -> f64 {
    let submitted_at = Instant::now();
    let created = exchange(addresses[0], &request("POST", SUBMIT, TOKEN, JOB));
    let id = created["task_id"].as_str().expect("a task").to_owned();
    loop {
        let task = exchange(addresses[0], &request("GET", &format!("/tasks/{id}"), TOKEN, ""));
        match task["state"].as_str() {
            Some("success") => return submitted_at.elapsed().as_secs_f64(),
            Some("failed") => panic!("{task}"),
            _ => assert!(submitted_at.elapsed() < TASK_DEADLINE, "{task}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the address of the owner, as the node at `address` reports it.
fn owner(address: &str) -> String {
    let state = exchange(address, &request("GET", "/admin/state", TOKEN, ""));
    let nodes = state["cluster"]["nodes"].as_array().expect("nodes");
    let owner = nodes.iter().find(|node| node["owner"] == true).expect("an owner");
    owner["url"].as_str().and_then(|url| url.strip_prefix("http://")).expect("a URL").trim_end_matches('/').to_owned()
}

/// Sends a request on a new connection; returns the body of the response, which must be a success.
fn exchange(address: &str, request: &[u8]) -> Value {
    block_on(async {
        let mut connection = Connection::open(address).await;
        let response = connection.exchange(request).await;
        assert!((200..300).contains(&response.status), "{}\n{}", response.head, String::from_utf8_lossy(response.body));
        serde_json::from_slice(response.body).expect("JSON")
    })
}
