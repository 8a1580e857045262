//! Checks after all faults: the logs of the nodes are equal, and have every acknowledged change once.

use std::collections::{BTreeSet, HashMap, HashSet};

use mediary::config::Settings;
use mediary::domain::claim::ClaimEvent;
use mediary::domain::event::Event;
use mediary::environment::Environment;
use mediary::events::envelope::RecordedEvent;
use mediary::events::log::EventLog;
use mediary::events::sled_log::SledLog;
use mediary::events::stream::Position;

use super::clients::Command;
use crate::nats_cluster::{NODES, NodeDirectories};
use crate::support::process::run;
use crate::support::receiver::ReceivedRequest;
use crate::support::vendor_sim::Charge;

/// Events of commands that have a marker.
const MARKED: [&str; 4] = ["PublisherCreated", "PublisherRevised", "NodeCreated", "NodeRevised"];

/// Checks that all nodes have the same events, chain and read models, and returns the events.
pub fn equal_events(cluster: &NodeDirectories) -> Vec<RecordedEvent> {
    let mut first = None;
    for index in 0..NODES {
        let data_dir = cluster.data_dir(index);
        run(&data_dir, &["audit", "verify"]).expect(0);

        let options = mediary::app::log_options(&data_dir, &Settings::default());
        let (log, _) = SledLog::open(&options, &Environment::system(), |_| {}).unwrap();
        let head = log.journal_head();
        let events = log.read_all(Position(0), usize::MAX).unwrap();
        log.close().unwrap();
        let (first_head, first_events) = first.get_or_insert_with(|| (head, events.clone()));
        assert_eq!(*first_head, head, "node {index}");
        assert!(*first_events == events, "the index of node {index} has other events");
    }
    first.expect("a node").1
}

/// Checks that every command is recorded once, and no idempotency key has been used twice.
pub fn check_commands(events: &[RecordedEvent], commands: &[Command]) {
    let mut recorded: HashMap<(&str, String), usize> = HashMap::new();
    let mut claims = HashSet::new();
    for event in events {
        if let Event::Claim(ClaimEvent::KeyClaimed(claim)) = &event.event {
            assert!(claims.insert((claim.key, claim.command_index)), "a key was claimed twice, at {}", event.position);
        }
        let name = event.event.name();
        if MARKED.contains(&name) {
            for marker in markers(&format!("{} {:?}", event.stream.as_str(), event.event)) {
                *recorded.entry((name, marker)).or_default() += 1;
            }
        }
    }

    for Command { event, marker } in commands {
        let times = recorded.remove(&(*event, marker.clone())).unwrap_or(0);
        assert_eq!(times, 1, "{event} {marker}");
    }
    assert!(recorded.is_empty(), "events that no client has sent: {recorded:?}");
}

fn markers(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| word.starts_with("mk")).map(str::to_owned).collect()
}

/// Checks that every task is recorded, submitted to the vendor and completed once, and its completion was delivered.
pub fn check_tasks(
    events: &[RecordedEvent],
    tasks: &[String],
    charges: &[Charge],
    received: &[ReceivedRequest],
) -> String {
    let mut ends: HashMap<&str, Vec<String>> = HashMap::new();
    for event in events.iter().filter(|event| matches!(event.event, Event::Task(_))) {
        let ends = ends.entry(event.stream.key()).or_default();
        match event.event.name() {
            "TaskCompleted" => ends.push("completed".to_owned()),
            "TaskFailed" => ends.push(format!("{:?}", event.event)),
            _ => {}
        }
    }
    let mut jobs: HashMap<&str, usize> = HashMap::new();
    for charge in charges {
        *jobs.entry(charge.key.as_str()).or_default() += 1;
    }
    let delivered: HashSet<(String, String)> =
        received.iter().map(|callback| (callback.task_id(), callback.status())).collect();

    let distinct: HashSet<_> = tasks.iter().map(String::as_str).collect();
    assert_eq!(distinct.len(), tasks.len(), "two requests made the same task");
    assert_eq!(distinct, ends.keys().copied().collect::<HashSet<_>>(), "tasks that were acknowledged, and recorded");

    let mut failures = Vec::new();
    let mut problems = Vec::new();
    for (task, ends) in &ends {
        let job_count = jobs.remove(task).unwrap_or(0);
        if job_count > 1 {
            problems.push(format!("{task} is {job_count} jobs of the vendor"));
        }
        match &ends[..] {
            [end] if end == "completed" => {
                if job_count == 0 {
                    problems.push(format!("{task} is completed without a job"));
                }
                if !delivered.contains(&((*task).to_owned(), "COMPLETED".to_owned())) {
                    problems.push(format!("the completion of {task} was not delivered"));
                }
            }
            [failure] => failures.push(failure.clone()),
            ends => problems.push(format!("{task} has ended {} times: {ends:?}", ends.len())),
        }
    }
    assert!(jobs.is_empty(), "jobs without a task: {jobs:?}");
    assert!(problems.is_empty(), "{} tasks: {problems:#?}", tasks.len());

    failures.sort();
    failures.dedup();
    format!(
        "{} tasks, {} jobs of the vendor, {} callbacks, failures: {failures:?}",
        tasks.len(),
        charges.len(),
        received.len()
    )
}

/// Checks that no node has panicked, and prints what they complained about.
pub fn check_logs(logs: &[String]) {
    let mut complaints: HashMap<&str, usize> = HashMap::new();
    for line in logs.iter().flat_map(|log| log.lines()) {
        assert!(!line.contains("panicked"), "{line}");
        let Some(at) = line.find("ERROR").or_else(|| line.find("WARN")) else { continue };
        let end = line.char_indices().map(|(at, _)| at).find(|end| *end >= at + 110).unwrap_or(line.len());
        *complaints.entry(&line[at..end]).or_default() += 1;
    }
    let mut complaints: Vec<_> = complaints.into_iter().collect();
    complaints.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    complaints.iter().take(30).for_each(|(line, count)| println!("{count:5} {line}"));
}
