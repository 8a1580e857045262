//! kill -9 under load: acknowledged writes survive, without gaps or duplicates, and unfinished work continues.
//!
//! The suite runs 10 rounds; `CRASH_ROUNDS=500 cargo test --test it crash::` runs more. Every round checks all new
//! events and the writes acknowledged in the last [`RECENT`] rounds; every [`WHOLE_EVERY`]th round, and the end, checks
//! everything.

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
use check::{Followed, Told, verify, verify_log, verify_task_ended};
use load::{Answered, write_until_killed};

const WRITERS: usize = 64;
/// Number of earlier rounds that every round checks again.
const RECENT: u64 = 3;
/// Interval in rounds at which all rounds are checked, and log and read models are read in every way.
const WHOLE_EVERY: u64 = 50;
/// Interval in rounds at which a round runs until a snapshot is taken, and at which a start uses none.
const SNAPSHOT_EVERY: u64 = 4;
const PLAIN_EVERY: u64 = 5;

#[actix_web::test]
async fn answered_commands_survive_kill_9() {
    let rounds: u64 = std::env::var("CRASH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    let data = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    let answered = Arc::new(Mutex::new(Answered::default()));
    let (mut moments, mut followed, mut snapshots) = (StdRng::seed_from_u64(0xA11CE), Followed::default(), 0);

    for round in 0..rounds {
        // Given a service that may have been killed before: every acknowledged write is there, once
        let service = started(data.path(), round);
        let whole = round % WHOLE_EVERY == WHOLE_EVERY - 1;
        let so_far = answered.lock().since(if whole { 0 } else { round.saturating_sub(RECENT) });
        verify(&service, &so_far).await;
        followed.follow(&service).await;
        // When it is killed while 64 clients write
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (base, answered, webhook) = (service.url(""), answered.clone(), receiver.url("/hook"));
                actix_web::rt::spawn(async move { write_until_killed(base, writer, round, &answered, &webhook).await })
            })
            .collect();
        if round % SNAPSHOT_EVERY == 1 && round % PLAIN_EVERY != 0 {
            check::snapshot_taken(data.path()).await;
            snapshots += 1;
        }
        tokio::time::sleep(Duration::from_millis(moments.gen_range(20..400))).await;
        service.kill();
        for writer in writers {
            writer.await.unwrap();
        }
        if whole || rounds <= WHOLE_EVERY {
            verify_log(data.path());
        }
    }
    let all = answered.lock().since(0);
    everything_ends(data.path(), &all, &receiver, followed).await;
    assert!(rounds < 2 || snapshots > 0, "no start began with a snapshot: that was not tried");
    println!("{rounds} kills, {snapshots} of them after a snapshot was taken under load");
}

/// Most starts may use a snapshot, however short the log is; some replay all of it.
fn started(data: &Path, round: u64) -> Process {
    let mut program = command(data);
    let begin = if round.is_multiple_of(PLAIN_EVERY) { without_snapshots } else { with_snapshots };
    let service = Process::from_command(begin(&mut program));
    assert!(!service.printed().contains("ignored a snapshot"), "round {round}: {}", service.printed());
    service
}

/// Checks after the last start that every task ends, that every change of status is delivered in order, and that the
/// log has no gap or duplicate and gives the same read models however it is read.
async fn everything_ends(data: &Path, answered: &Answered, receiver: &Receiver, mut followed: Followed) {
    let service = started(data, 1);
    verify(&service, answered).await;
    followed.follow(&service).await;
    assert!(!answered.tasks.is_empty(), "no task was answered: the test shows nothing");
    let callbacks =
        receiver.wait_until(|received| Told::by(received).all_ended(answered.tasks.iter().map(|(_, id)| id))).await;
    let told = Told::by(&callbacks);
    for (_, task) in &answered.tasks {
        assert_eq!(told.of(task), ["IN_PROGRESS", "COMPLETED"], "task {task}");
        verify_task_ended(&service, task).await;
    }
    let (status, errors) = service.terminate();
    assert!(status.success(), "{status}: {errors}");

    let events = verify_log(data);
    // This also compares the snapshot of the stop with the log.
    run(data, &["audit", "verify"]).expect(0);
    let (nodes, tasks) = (answered.nodes(), answered.tasks.len());
    println!("{nodes} nodes and {tasks} tasks answered and there, {events} events without gap or double");
}
