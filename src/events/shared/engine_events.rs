//! Ways from the thread of an engine's client to a blocked caller: signals of a follower, and announced messages.

use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::engine::{EngineFault, EngineSignal};
use crate::client_thread::ClientThread;

/// Groups that were received and not passed on yet.
const QUEUE_MAX: usize = 16;
/// Longest time between two signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(800);

/// Message of a follower.
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

/// Sends the signals of a follower, and knows when one is due.
pub struct SignalSender {
    events: mpsc::Sender<FollowEvent>,
    signalled_at: Instant,
}

impl SignalSender {
    /// Sends a signal. Waits while the receiver has too many groups.
    pub async fn send(&mut self, signal: EngineSignal) -> Result<(), FollowEnd> {
        self.events.send(FollowEvent::Signal(signal)).await.map_err(|_| FollowEnd::Closed)?;
        self.signalled_at = Instant::now();
        Ok(())
    }

    /// Waits until the next signal is due.
    pub async fn until_silent(&self) {
        sleep_until(self.signalled_at + SIGNAL_INTERVAL).await;
    }

    /// Waits for a future, and signals in the meantime that the engine is silent.
    pub async fn wait_for<T>(&mut self, future: impl Future<Output = T>) -> Result<T, FollowEnd> {
        let mut future = pin!(future);
        loop {
            tokio::select! {
                biased;
                output = &mut future => return Ok(output),
                () = self.until_silent() => self.send(EngineSignal::Silent).await?,
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

/// Calls `each` with the signals until it breaks or the follower ends; `None` if that gave no reason.
pub fn pass_on(
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

/// Calls `each` with the messages until it breaks or the listener ends.
pub fn pass_on_messages<M: AsRef<[u8]>>(
    mut messages: mpsc::Receiver<Option<M>>,
    each: &mut dyn FnMut(Option<&[u8]>) -> ControlFlow<()>,
) {
    while let Some(message) = messages.blocking_recv() {
        if each(message.as_ref().map(AsRef::as_ref)).is_break() {
            return;
        }
    }
}
