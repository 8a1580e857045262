//! kill -9 under load: what was answered is there, nothing has a gap or a double, unfinished work goes on.
//!
//! The suite does 10 rounds; `CRASH_ROUNDS=500 cargo test --test it crash::` does more. Every round looks at everything that
//! was answered in the rounds before it, as far back as [`RECENT`], and at every event that is new; every [`WHOLE_EVERY`]th
//! round, and the end, at everything.

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
/// How many rounds back every round looks.
const RECENT: u64 = 3;
/// How often all rounds are looked at, and the log and its read models are read in every way.
const WHOLE_EVERY: u64 = 50;
/// How often a round goes on until a snapshot is taken, and how often a start is made without one.
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
        // Given a service that may have been killed before: everything answered is there, once
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

/// Most starts may begin with a snapshot, however short the log is; some read all of it.
fn started(data: &Path, round: u64) -> Process {
    let mut program = command(data);
    let begin = if round.is_multiple_of(PLAIN_EVERY) { without_snapshots } else { with_snapshots };
    let service = Process::from_command(begin(&mut program));
    assert!(!service.printed().contains("was not used"), "round {round}: {}", service.printed());
    service
}

/// After the last start too, every task ends, and every change of status is told in order; and the log has no gap and no
/// double, and gives the same read models however it is read.
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
    // The snapshot of the stop is compared with the log as well.
    run(data, &["audit", "verify"]).expect(0);
    let (nodes, tasks) = (answered.nodes(), answered.tasks.len());
    println!("{nodes} nodes and {tasks} tasks answered and there, {events} events without gap or double");
}
