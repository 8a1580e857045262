//! Follows the groups: queries new ones at once after a group of this node, else at short intervals.
//!
//! Polls instead of using notifications: `NOTIFY` takes a lock of the whole server at commit, which a group would hold
//! while it waits for the standby.

use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use super::session::PostgresFailure;
use super::store::{PostgresStore, READ_MAX};
use crate::client_thread::ClientThread;
use crate::events::shared::engine::{EngineFault, EngineSignal};
use crate::events::shared::engine_events::{self, FollowEnd, FollowEvent, SignalSender};

/// Pause between two questions while groups arrive.
const BUSY_INTERVAL: Duration = Duration::from_millis(3);
/// Pause between two questions at other times.
const IDLE_INTERVAL: Duration = Duration::from_millis(20);
/// Time since the last group from which there are fewer questions.
const BUSY_FOR: Duration = Duration::from_secs(1);
/// Interval between two questions for the end, which show a loss.
const HEAD_INTERVAL: Duration = Duration::from_millis(400);
/// Pause after a failure.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Starts to follow the groups after a sequence. It ends when the receiver is dropped.
pub fn start(thread: &ClientThread, store: PostgresStore, after: u64) -> mpsc::Receiver<FollowEvent> {
    let stored = store.stored();
    engine_events::start(thread, async move |signals| {
        let mut follower = PostgresFollower {
            store,
            signals,
            stored,
            delivered: after,
            page: PageSize(READ_MAX),
            group_at: Instant::now(),
            head_asked_at: None,
        };
        loop {
            if let Err(end) = follower.step().await {
                return end;
            }
        }
    })
}

/// Number of groups to ask for. A page of large groups may take longer than a question may.
struct PageSize(i64);

impl PageSize {
    fn note<T>(&mut self, read: &Result<T, PostgresFailure>) {
        self.0 = match read {
            Ok(_) => READ_MAX.min(self.0 * 2),
            Err(PostgresFailure::NoResponse(_)) => 1.max(self.0 / 2),
            Err(_) => self.0,
        };
    }
}

struct PostgresFollower {
    store: PostgresStore,
    signals: SignalSender,
    stored: watch::Receiver<u64>,
    /// Last sequence that was passed on.
    delivered: u64,
    page: PageSize,
    /// Time of the last group.
    group_at: Instant,
    head_asked_at: Option<Instant>,
}

impl PostgresFollower {
    /// Asks once and passes the groups on.
    async fn step(&mut self) -> Result<(), FollowEnd> {
        let read = self.signals.wait_for(self.store.read(self.delivered, self.page.0)).await?;
        self.page.note(&read);
        match read {
            Ok(groups) if groups.is_empty() => {
                if self.head_asked_at.is_none_or(|at| at.elapsed() >= HEAD_INTERVAL) {
                    self.check_head().await?;
                }
                let interval = if self.group_at.elapsed() < BUSY_FOR { BUSY_INTERVAL } else { IDLE_INTERVAL };
                let _ = self.signals.wait_for(timeout(interval, self.stored.changed())).await?;
            }
            Ok(groups) => {
                for (sequence, group) in groups {
                    let expected = self.delivered + 1;
                    if sequence != expected {
                        return Err(FollowEnd::Fault(EngineFault::Gap { expected, found: sequence }));
                    }
                    self.signals.send(EngineSignal::Group { sequence, group }).await?;
                    self.delivered = sequence;
                }
                self.group_at = Instant::now();
            }
            Err(failure) => self.pause_after(&failure).await?,
        }
        Ok(())
    }

    /// Signals that the engine is alive, unless it has lost groups.
    async fn check_head(&mut self) -> Result<(), FollowEnd> {
        let fault = |reason| Err(FollowEnd::Fault(EngineFault::Unsuitable(reason)));
        match self.signals.wait_for(self.store.head()).await? {
            Ok(Some(head)) if !head.is_same_store => return fault(self.store.recreated_message()),
            Ok(None) => return fault(format!("table head of schema {} is empty", self.store.schema())),
            Ok(Some(head)) if head.last < self.delivered => {
                let fault = EngineFault::Shorter { last: head.last, applied: self.delivered };
                return Err(FollowEnd::Fault(fault));
            }
            // The next group is the signal, if there is one.
            Ok(Some(head)) if head.last > self.delivered => {}
            Ok(Some(_)) => {
                self.signals.send(EngineSignal::Alive).await?;
                self.head_asked_at = Some(Instant::now());
            }
            Err(failure) => self.pause_after(&failure).await?,
        }
        Ok(())
    }

    async fn pause_after(&mut self, failure: &PostgresFailure) -> Result<(), FollowEnd> {
        if failure.is_missing_table() {
            let reason = format!("PostgreSQL has no schema {} with its tables any more", self.store.schema());
            return Err(FollowEnd::Fault(EngineFault::Unsuitable(reason)));
        }
        tracing::debug!(%failure, "postgres silent");
        self.signals.wait_for(sleep(RETRY_DELAY)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_takes_too_long_is_halved_until_it_arrives() {
        let mut page = PageSize(READ_MAX);
        let sizes = [false, false, true, false, false, false, false, true, true].map(|is_read| {
            page.note(&if is_read { Ok(()) } else { Err(PostgresFailure::NoResponse("no response".to_owned())) });
            page.0
        });
        assert_eq!(sizes, [16, 8, 16, 8, 4, 2, 1, 2, 4]);
    }
}
