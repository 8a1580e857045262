//! Power cuts: the service runs on its own file system, is stopped under load, and restarts with the content that the
//! disk had at that moment, without the page cache. Unlike kill -9, this shows whether acknowledged writes were synced.
//!
//! Needs root, mkfs.ext4 and loop devices; without them the tests say so and do nothing. The suite cuts the power once;
//! `POWER_CUTS=50 cargo test --test it power_cut -- --nocapture` cuts it 50 times.

mod disk;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use disk::SimulatedDisk;
use mediary::environment::Environment;
use mediary::events::journal::SyncFile;
use mediary::events::log::EventLog;
use mediary::events::sled_log::{SledLog, SledLogOptions};
use mediary::events::stream::Position;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::journal::{all, write_group};
use crate::samples::AT;
use crate::slow::crash::check::{verify, verify_log, wait_for_new_snapshot};
use crate::slow::crash::load::{AcknowledgedWrites, write_until_killed};
use crate::support::eventually::eventually;
use crate::support::process::{Process, command, with_snapshots};
use crate::support::receiver::Receiver;

/// Number of clients that write at the same time.
const WRITERS: usize = 16;
/// Number of groups of commits that the tests of the log write.
const GROUPS: u64 = 40;

/// Returns a disk for `cuts` power cuts; prints a message and returns `None` if this machine cannot provide one.
fn create_disk(cuts: u64) -> Option<SimulatedDisk> {
    match SimulatedDisk::new(cuts) {
        Ok(disk) => Some(disk),
        Err(reason) => {
            eprintln!("SKIPPED: no power cut was tested, because this machine has no disk for it: {reason}");
            None
        }
    }
}

#[actix_web::test]
async fn acknowledged_commands_survive_a_power_cut() {
    let cuts: u64 = std::env::var("POWER_CUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let Some(mut disk) = create_disk(cuts) else { return };
    let receiver = Receiver::start().await;
    let acknowledged = Arc::new(Mutex::new(AcknowledgedWrites::default()));
    let mut rng = StdRng::seed_from_u64(0xD15C);
    for cut in 0..cuts {
        // Given a service that may have lost its power before; all acknowledged writes are present
        let data = disk.root().join("data");
        let uses_snapshots = cut.is_multiple_of(2);
        let mut program = command(&data);
        if uses_snapshots {
            with_snapshots(&mut program);
        }
        let service = Process::from_command(&mut program);
        assert!(!service.printed().contains("ignored a snapshot"), "cut {cut}: {}", service.printed());
        let so_far = acknowledged.lock().clone();
        verify(&service, &so_far).await;

        // When the power is cut while clients write
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let base = service.url("");
                let acknowledged = acknowledged.clone();
                let webhook = receiver.url("/hook");
                actix_web::rt::spawn(
                    async move { write_until_killed(base, writer, cut, &acknowledged, &webhook).await },
                )
            })
            .collect();
        // Waits until a write of each kind is acknowledged, however slow the machine is.
        eventually("a task is acknowledged", async || {
            let all_ended = writers.iter().all(actix_web::rt::task::JoinHandle::is_finished);
            !acknowledged.lock().tasks.is_empty() || all_ended
        })
        .await;
        if uses_snapshots {
            wait_for_new_snapshot(&data).await;
        }
        tokio::time::sleep(Duration::from_millis(rng.gen_range(100..600))).await;
        service.pause();
        let disk_after_cut = disk.after_power_cut();
        service.kill();
        for writer in writers {
            writer.await.unwrap();
        }
        disk = disk_after_cut;

        // Then the log has no gap
        verify_log(&disk.root().join("data"));
    }

    // And after the last cut, all acknowledged writes are present
    let mut program = command(&disk.root().join("data"));
    let service = Process::from_command(with_snapshots(&mut program));
    let so_far = acknowledged.lock().clone();
    assert!(!so_far.tasks.is_empty(), "no task was acknowledged: the test shows nothing");
    verify(&service, &so_far).await;
    let (status, errors) = service.terminate();
    assert!(status.success(), "{status}: {errors}");
    println!("{cuts} power cuts: {} events, nothing acknowledged is lost", verify_log(&disk.root().join("data")));
}

#[test]
fn the_log_survives_a_power_cut() {
    let Some(disk) = create_disk(1) else { return };
    let (written, recovered) = write_and_cut_power(&disk, Arc::new(File::sync_data));
    assert_eq!(recovered, Ok(written));
}

/// Proves that the harness detects missing syncs.
#[test]
fn a_log_that_does_not_sync_loses_events_in_a_power_cut() {
    let Some(disk) = create_disk(1) else { return };
    let (written, recovered) = write_and_cut_power(&disk, Arc::new(|_: &File| Ok(())));
    let is_lossy = recovered.as_ref().map_or(true, |position| *position < written);
    assert!(is_lossy, "nothing was lost without syncs: {recovered:?} of {written}");
}

/// Writes a log with `sync` as its sync function, cuts the power, and opens the log again. Returns the position of the
/// last written event, and that of the last event after the cut or the error of opening the log.
fn write_and_cut_power(disk: &SimulatedDisk, sync: SyncFile) -> (Position, Result<Position, String>) {
    let mut options = options(&disk.root());
    options.journal.sync = sync;
    let (log, _) = SledLog::open(&options, &Environment::manual(AT, 7), |_| {}).unwrap();
    for index in 0..GROUPS {
        write_group(&log, index);
    }
    let written = log.head();
    let disk_after_cut = disk.after_power_cut();
    drop(log);
    let reopened = SledLog::open(&self::options(&disk_after_cut.root()), &Environment::manual(AT, 7), |_| {});
    (written, reopened.map(|(log, _)| Position(all(&log).len() as u64)).map_err(|error| error.to_string()))
}

fn options(root: &Path) -> SledLogOptions {
    let mut options = SledLogOptions::new(root.join("log"));
    // Segments so small that the test fills several.
    options.journal.segment_bytes = 8 * 1024;
    options
}
