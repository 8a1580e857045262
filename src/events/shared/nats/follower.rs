//! Follows the stream: passes its groups on in order, with one consumer after another, and signals if the engine is alive.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use super::consumer::{NatsConsumer, NatsDelivery};
use super::leader::{self, LeaderReport};
use super::stream::NatsStream;
use crate::client_thread::ClientThread;
use crate::events::shared::engine::{EngineFault, EngineSignal};
use crate::events::shared::engine_events::{self, FollowEnd, FollowEvent, SignalSender};

/// Time without a message or heartbeat after which a consumer is given up.
const CONSUMER_TIMEOUT: Duration = Duration::from_millis(1500);
/// Pause before the next consumer.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// Consumers that must miss a group before it counts as lost.
const GAP_TRIES: u32 = 3;
/// Consumers that must miss it if all of them read the same server.
const GAP_TRIES_ON_ONE_SERVER: u32 = 12;

/// Starts to follow the groups after a sequence. It ends when the receiver is dropped.
pub fn start(thread: &ClientThread, stream: NatsStream, after: u64) -> mpsc::Receiver<FollowEvent> {
    engine_events::start(thread, async move |signals| {
        let delivered = AtomicU64::new(after);
        let (report, reports) = watch::channel(LeaderReport::Silent);
        let follower = NatsFollower {
            stream: stream.clone(),
            signals,
            delivered: &delivered,
            reports,
            gap: GapEvidence::default(),
        };
        tokio::select! {
            end = follower.run() => end,
            () = leader::watch(stream, &delivered, report) => FollowEnd::Closed,
        }
    })
}

struct NatsFollower<'a> {
    stream: NatsStream,
    signals: SignalSender,
    /// Last sequence that was passed on.
    delivered: &'a AtomicU64,
    reports: watch::Receiver<LeaderReport>,
    gap: GapEvidence,
}

impl NatsFollower<'_> {
    async fn run(mut self) -> FollowEnd {
        loop {
            let created = NatsConsumer::create(self.stream.clone(), self.last_delivered());
            let read = match self.wait_for(created).await {
                Ok(Ok(consumer)) => self.read(consumer).await,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "nats consumer not made");
                    Ok(())
                }
                Err(end) => Err(end),
            };
            let paused = match read {
                Ok(()) => self.wait_for(sleep(RETRY_DELAY)).await,
                Err(end) => Err(end),
            };
            if let Err(end) = paused {
                return end;
            }
        }
    }

    /// Passes the groups of a consumer on until it is of no more use.
    async fn read(&mut self, mut consumer: NatsConsumer) -> Result<(), FollowEnd> {
        let mut progress_at = Instant::now();
        loop {
            let next = timeout(CONSUMER_TIMEOUT, consumer.next());
            match self.wait_for(next).await? {
                Ok(Some(NatsDelivery::Group { sequence, number, group })) => {
                    let expected = self.last_delivered() + 1;
                    if sequence != expected {
                        return self.note_gap(&consumer, expected, sequence, number);
                    }
                    self.signals.send(EngineSignal::Group { sequence, group }).await?;
                    self.delivered.store(sequence, Ordering::Release);
                    progress_at = Instant::now();
                }
                Ok(Some(NatsDelivery::Heartbeat { reply })) => {
                    if let Some(reply) = reply {
                        let client = self.stream.connection.client.clone();
                        // The consumer asks again if the response is lost.
                        let _ = self.wait_for(timeout(RETRY_DELAY, client.publish(reply, Bytes::new()))).await?;
                    } else if self.is_behind() && progress_at.elapsed() >= CONSUMER_TIMEOUT {
                        tracing::warn!(server = consumer.server, "nats consumer behind its stream");
                        return Ok(());
                    }
                }
                Ok(Some(NatsDelivery::Malformed { reason })) => {
                    tracing::warn!(%reason, "nats delivery not understood");
                    return Ok(());
                }
                Ok(None) | Err(_) => {
                    tracing::debug!(server = consumer.server, "nats consumer silent");
                    return Ok(());
                }
            }
        }
    }

    /// Waits for a future, and signals the reports of the leader in the meantime.
    async fn wait_for<T>(&mut self, future: impl Future<Output = T>) -> Result<T, FollowEnd> {
        let mut future = pin!(future);
        loop {
            tokio::select! {
                biased;
                output = &mut future => return Ok(output),
                changed = self.reports.changed() => {
                    if changed.is_err() {
                        return Err(FollowEnd::Closed);
                    }
                    self.signal_report().await?;
                }
                () = self.signals.wait_until_due() => self.signals.send(EngineSignal::Silent).await?,
            }
        }
    }

    async fn signal_report(&mut self) -> Result<(), FollowEnd> {
        let report = self.reports.borrow_and_update().clone();
        match report {
            LeaderReport::Fault(fault) => Err(FollowEnd::Fault(fault)),
            LeaderReport::Last(last) if last <= self.last_delivered() => self.signals.send(EngineSignal::Alive).await,
            // The next group is the signal, or its absence.
            LeaderReport::Last(_) | LeaderReport::Silent => Ok(()),
        }
    }

    fn last_delivered(&self) -> u64 {
        self.delivered.load(Ordering::Acquire)
    }

    /// `true` if the leader had more groups than were passed on.
    fn is_behind(&self) -> bool {
        matches!(*self.reports.borrow(), LeaderReport::Last(last) if last > self.last_delivered())
    }

    /// Ends the follower if a missing group is lost. If a consumer does not begin with it, its server does not have it; later
    /// ones may be lost with a connection, and the next consumer begins with them.
    fn note_gap(&mut self, consumer: &NatsConsumer, expected: u64, found: u64, number: u64) -> Result<(), FollowEnd> {
        if number != 1 {
            return Ok(());
        }
        if found < expected {
            // A server that has just started begins with its own last group if it does not have the wanted one yet. If no
            // server gets it, the leader ends before it, which `leader::watch` reports.
            tracing::debug!(server = consumer.server, expected, found, "nats server behind the node");
            return Ok(());
        }
        tracing::warn!(server = consumer.server, expected, found, "nats server without a group");
        self.stream.connection.count_missing_group();
        if self.gap.add(expected, &consumer.server, self.stream.replicas) {
            return Err(FollowEnd::Fault(EngineFault::Gap { expected, found }));
        }
        Ok(())
    }
}

/// Consumers that do not have a group.
#[derive(Default)]
struct GapEvidence {
    expected: u64,
    tries: u32,
    servers: BTreeSet<String>,
}

impl GapEvidence {
    /// Adds a consumer. Returns `true` if the group is lost: a single damaged replica does not prove it.
    fn add(&mut self, expected: u64, server: &str, replicas: usize) -> bool {
        if self.expected != expected {
            *self = Self { expected, ..Self::default() };
        }
        self.tries += 1;
        self.servers.insert(server.to_owned());

        let is_one_of_many = self.servers.len() == 1 && replicas > 1;
        self.tries >= if is_one_of_many { GAP_TRIES_ON_ONE_SERVER } else { GAP_TRIES }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_on_one_replica_is_not_a_loss_until_others_have_it_too() {
        let mut evidence = GapEvidence::default();
        assert!(!evidence.add(5, "a", 3));
        assert!(!evidence.add(5, "a", 3));
        assert!(!evidence.add(5, "a", 3));
        assert!(evidence.add(5, "b", 3));

        assert!(!evidence.add(9, "b", 3), "another gap");
    }

    #[test]
    fn a_gap_on_the_only_replica_is_a_loss_after_three_tries() {
        let mut evidence = GapEvidence::default();
        assert_eq!([(); 3].map(|()| evidence.add(5, "", 1)), [false, false, true]);
    }

    #[test]
    fn a_gap_that_every_consumer_shows_is_a_loss_in_the_end() {
        let mut evidence = GapEvidence::default();
        assert_eq!((0..GAP_TRIES_ON_ONE_SERVER).filter(|_| evidence.add(5, "a", 3)).count(), 1);
    }
}
