//! kill -9 under load: acknowledged writes survive, without gaps or duplicates, and unfinished work continues.
//!
//! The suite runs 10 rounds; `CRASH_ROUNDS=500 cargo test --test it slow::crash` runs more. Every round checks all new
//! events and the writes acknowledged in the last [`RECENT_ROUNDS`] rounds; every [`CHECK_ALL_EVERY`]th round, and the
//! end, checks everything.

pub mod check;
pub mod load;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::process::{Process, command, run, with_snapshots, without_snapshots};
use crate::support::receiver::Receiver;
use check::{FollowedLog, ReportedStatuses, verify, verify_log, verify_task_completed};
use load::{AcknowledgedWrites, write_until_killed};

/// Number of clients that write at the same time.
const WRITERS: usize = 64;
/// Number of earlier rounds that every round checks again.
const RECENT_ROUNDS: u64 = 3;
/// Interval in rounds at which the writes of all rounds and the whole log are checked.
const CHECK_ALL_EVERY: u64 = 50;
/// Interval in rounds at which a round runs until a snapshot is taken.
const SNAPSHOT_EVERY: u64 = 4;
/// Interval in rounds at which a start uses no snapshot and replays the whole log.
const REPLAY_EVERY: u64 = 5;

#[actix_web::test]
async fn acknowledged_commands_survive_kill_9() {
    let rounds: u64 = std::env::var("CRASH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    let data = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    let acknowledged = Arc::new(Mutex::new(AcknowledgedWrites::default()));
    let mut rng = StdRng::seed_from_u64(0xA11CE);
    let mut followed_log = FollowedLog::default();
    let mut snapshots = 0;

    for round in 0..rounds {
        // Given a service that may have been killed before; every acknowledged write is present once
        let service = start_service(data.path(), round);
        let checks_all = round % CHECK_ALL_EVERY == CHECK_ALL_EVERY - 1;
        let so_far = acknowledged.lock().since(if checks_all { 0 } else { round.saturating_sub(RECENT_ROUNDS) });
        verify(&service, &so_far).await;
        followed_log.follow(&service).await;

        // When it is killed while 64 clients write
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let base = service.url("");
                let acknowledged = acknowledged.clone();
                let webhook = receiver.url("/hook");
                actix_web::rt::spawn(
                    async move { write_until_killed(base, writer, round, &acknowledged, &webhook).await },
                )
            })
            .collect();
        if round % SNAPSHOT_EVERY == 1 && round % REPLAY_EVERY != 0 {
            check::wait_for_new_snapshot(data.path()).await;
            snapshots += 1;
        }
        tokio::time::sleep(Duration::from_millis(rng.gen_range(20..400))).await;
        service.kill();
        for writer in writers {
            writer.await.unwrap();
        }
        if checks_all || rounds <= CHECK_ALL_EVERY {
            verify_log(data.path());
        }
    }

    // Then all unfinished work ends, and log and read models are complete
    let acknowledged_all = acknowledged.lock().since(0);
    verify_everything_ends(data.path(), &acknowledged_all, &receiver, followed_log).await;
    assert!(rounds < 2 || snapshots > 0, "no snapshot was taken under load, so no start could use one");
    println!("{rounds} kills, {snapshots} of them after a snapshot was taken under load");
}

/// Starts the service. Every [`REPLAY_EVERY`]th start replays the whole log; the others may use a snapshot, however
/// short the log is.
fn start_service(data: &Path, round: u64) -> Process {
    let mut program = command(data);
    let start = if round.is_multiple_of(REPLAY_EVERY) { without_snapshots } else { with_snapshots };
    let service = Process::from_command(start(&mut program));
    assert!(!service.printed().contains("ignored a snapshot"), "round {round}: {}", service.printed());
    service
}

/// Starts the service once more. Asserts that every task ends, that every change of status is delivered in order, and
/// that the log has no gap or duplicate and yields the same read models as the snapshot and a replay.
async fn verify_everything_ends(
    data: &Path,
    acknowledged: &AcknowledgedWrites,
    receiver: &Receiver,
    mut followed_log: FollowedLog,
) {
    let service = start_service(data, 1);
    verify(&service, acknowledged).await;
    followed_log.follow(&service).await;
    assert!(!acknowledged.tasks.is_empty(), "no task was acknowledged: the test shows nothing");
    let callbacks = receiver
        .wait_until(|received| {
            ReportedStatuses::from_callbacks(received).all_ended(acknowledged.tasks.iter().map(|(_, id)| id))
        })
        .await;
    let deliveries = ReportedStatuses::from_callbacks(&callbacks);
    for (_, task) in &acknowledged.tasks {
        assert_eq!(deliveries.statuses_of(task), ["IN_PROGRESS", "COMPLETED"], "task {task}");
        verify_task_completed(&service, task).await;
    }
    let (status, errors) = service.terminate();
    assert!(status.success(), "{status}: {errors}");

    let events = verify_log(data);
    // The command also compares the snapshot that the service took when it stopped with the log.
    run(data, &["audit", "verify"]).expect(0);
    let (nodes, tasks) = (acknowledged.node_count(), acknowledged.tasks.len());
    println!("{nodes} nodes and {tasks} tasks acknowledged and present, {events} events without gap or duplicate");
}
