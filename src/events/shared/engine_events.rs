//! Channels from the thread of an engine's asynchronous client to the blocked callers of [`Engine::follow`] and
//! [`Engine::listen`].
//!
//! [`Engine::follow`]: super::engine::Engine::follow
//! [`Engine::listen`]: super::engine::Engine::listen

use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::engine::{EngineFault, EngineSignal};
use crate::client_thread::ClientThread;

/// Maximum number of events that the caller has not taken yet.
const QUEUE_MAX: usize = 16;
/// Longest time between two signals. Callers expect one at least once a second.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(800);

/// Event that a follower sends to its caller.
pub enum FollowEvent {
    Signal(EngineSignal),
    /// The last event.
    Fault(EngineFault),
}

/// Reason why a follower ends.
pub enum FollowEnd {
    /// The receiver of its events was dropped.
    Closed,
    Fault(EngineFault),
}

/// Sender of the signals of a follower. Knows when the next one is due.
pub struct SignalSender {
    events: mpsc::Sender<FollowEvent>,
    signalled_at: Instant,
}

impl SignalSender {
    /// Sends a signal. Waits while the channel is full.
    pub async fn send(&mut self, signal: EngineSignal) -> Result<(), FollowEnd> {
        self.events.send(FollowEvent::Signal(signal)).await.map_err(|_| FollowEnd::Closed)?;
        self.signalled_at = Instant::now();
        Ok(())
    }

    /// Waits until the next signal is due.
    pub async fn wait_until_due(&self) {
        sleep_until(self.signalled_at + SIGNAL_INTERVAL).await;
    }

    /// Waits for a future. Meanwhile, signals at intervals that the engine is silent, so that the caller can stop.
    pub async fn wait_for<T>(&mut self, future: impl Future<Output = T>) -> Result<T, FollowEnd> {
        let mut future = pin!(future);
        loop {
            tokio::select! {
                biased;
                output = &mut future => return Ok(output),
                () = self.wait_until_due() => self.send(EngineSignal::Silent).await?,
            }
        }
    }
}

/// Runs a follower until it ends or the receiver is dropped.
pub fn start<F>(thread: &ClientThread, follow: impl FnOnce(SignalSender) -> F) -> mpsc::Receiver<FollowEvent>
where
    F: Future<Output = FollowEnd> + Send + 'static,
{
    let (events, receiver) = mpsc::channel(QUEUE_MAX);
    let following = follow(SignalSender { events: events.clone(), signalled_at: Instant::now() });
    thread.spawn(async move {
        let end = tokio::select! {
            end = following => end,
            () = events.closed() => FollowEnd::Closed,
        };
        if let FollowEnd::Fault(fault) = end {
            let _ = events.send(FollowEvent::Fault(fault)).await;
        }
    });
    receiver
}

/// Calls `each` with the signals until it breaks or the follower ends. Returns `None` if the follower ended without a
/// fault. Blocks.
pub fn forward_signals(
    mut events: mpsc::Receiver<FollowEvent>,
    each: &mut dyn FnMut(EngineSignal) -> ControlFlow<()>,
) -> Option<Result<(), EngineFault>> {
    loop {
        match events.blocking_recv()? {
            FollowEvent::Signal(signal) => {
                if each(signal).is_break() {
                    return Some(Ok(()));
                }
            }
            FollowEvent::Fault(fault) => return Some(Err(fault)),
        }
    }
}

/// Calls `each` with the messages, or with `None` after a while without one, until it breaks or the listener ends.
/// Blocks.
pub fn forward_messages<M: AsRef<[u8]>>(
    mut messages: mpsc::Receiver<Option<M>>,
    each: &mut dyn FnMut(Option<&[u8]>) -> ControlFlow<()>,
) {
    while let Some(message) = messages.blocking_recv() {
        if each(message.as_ref().map(AsRef::as_ref)).is_break() {
            return;
        }
    }
}
