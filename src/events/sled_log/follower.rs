//! The thread that fills sled from the journal, in runs of records. Nothing waits for it: locations that sled lacks are
//! in memory.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::follower_signal::FollowerEnd;
use super::state::SledLogState;
use super::{IndexRun, SledIndex};
use crate::environment::CommitStep;
use crate::events::stream::Position;
use crate::events::stream_counts::StreamHash;

/// Maximum size of a run in bytes, unless a single record is larger.
const RUN_BYTES: usize = 1024 * 1024;
/// Pause before new records are inserted, so that they become one run.
const GATHER_TIME: Duration = Duration::from_millis(50);
/// Pause before another attempt after a failure. It doubles up to the maximum, because an attempt may read the whole
/// journal.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_mins(5);
/// Interval of the check for remaining readers of a sled that is to be deleted.
const READER_POLL_INTERVAL: Duration = Duration::from_millis(1);

impl SledLogState {
    /// Fills sled until the log is closed.
    pub fn run_follower(&self) {
        let mut failure = None;
        let mut retry = RETRY_MIN;
        loop {
            let ending = self.follower.ending();
            let filled = self.fill_to_head();
            if ending.is_some() {
                return;
            }

            match filled {
                Ok(()) => {
                    retry = RETRY_MIN;
                    if failure.take().is_some() {
                        tracing::info!("index filled");
                    }
                    self.follower.wait_for_work();
                    self.follower.sleep(GATHER_TIME);
                }
                Err(reason) => {
                    if failure.as_ref() != Some(&reason) {
                        tracing::warn!(reason, "index not filled, missing locations stay in memory");
                    }
                    failure = Some(reason);
                    self.follower.sleep(retry);
                    retry = (2 * retry).min(RETRY_MAX);
                }
            }
        }
    }

    /// Inserts runs until sled is complete or an immediate stop is requested.
    fn fill_to_head(&self) -> Result<(), String> {
        let mut is_new = false;
        loop {
            if self.follower.ending() == Some(FollowerEnd::Stop) {
                return Ok(());
            }
            let (sled, indexed, head) = {
                let index = self.index.read();
                (index.sled.clone(), index.indexed, index.head)
            };
            if sled.is_some() && indexed >= head {
                // A new sled is written out, so that the next kill does not cost all of it again.
                if let Some(sled) = sled.filter(|_| is_new) {
                    sled.flush()?;
                }
                return Ok(());
            }

            self.space.check().map_err(|disk_full| disk_full.to_string())?;
            let Some(sled) = sled else {
                self.recreate_sled()?;
                is_new = true;
                continue;
            };
            self.fill_run(&sled, indexed, head)?;
        }
    }

    /// Inserts the next run.
    fn fill_run(&self, sled: &Arc<SledIndex>, indexed: Position, head: Position) -> Result<(), String> {
        let mut run = IndexRun::default();
        let walked = self.records.walk(indexed, head, |record| {
            if !run.entries.is_empty() && run.bytes.len() + record.bytes.len() > RUN_BYTES {
                return ControlFlow::Break(());
            }
            let first = &record.commit[0];
            run.entries.push((StreamHash::from(&first.stream), first.position, record.location));
            run.bytes.extend_from_slice(record.bytes);
            run.last = Position(first.position.0 + record.commit.len() as u64 - 1);
            ControlFlow::Continue(())
        });
        walked.map_err(|error| self.report_journal_error(error).to_string())?;

        let filled = sled.insert(&mut run, || self.fail_points.hit_after(CommitStep::SledIndexed));
        if let Err(reason) = filled {
            // After an error, sled no longer works.
            self.replace_index(Some(sled), &reason).map_err(|failure| failure.to_string())?;
            return Err(reason);
        }
        self.fail_points.hit_after(CommitStep::SledInserted);

        let mut index = self.index.write();
        if index.sled.as_ref().is_some_and(|current| Arc::ptr_eq(current, sled)) {
            index.indexed = run.last;
            for (stream, position, _) in &run.entries {
                index.recent.remove(&(*stream, *position));
            }
        }
        Ok(())
    }

    /// Deletes sled and creates an empty one. All locations are in memory, and the whole journal has been read.
    fn recreate_sled(&self) -> Result<(), String> {
        let retired = self.retired.lock().take();
        if let Some(mut retired) = retired {
            loop {
                match Arc::try_unwrap(retired) {
                    Ok(sled) => break sled.close(),
                    Err(still_read) => retired = still_read,
                }
                thread::sleep(READER_POLL_INTERVAL);
            }
        }

        let removed = if self.directory.is_dir() {
            fs::remove_dir_all(&self.directory)
        } else {
            fs::remove_file(&self.directory)
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(format!("cannot remove sled: {error}"));
            }
            _ => self.fail_points.hit_after(CommitStep::SledRemoved),
        }

        let sled = SledIndex::open(&self.directory).map_err(|error| error.reason)?;
        self.index.write().sled = Some(Arc::new(sled));
        Ok(())
    }
}
