//! Waits with a deadline: a regression fails with a message instead of hanging.

use std::fmt::Display;
use std::panic::Location;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Deadline for anything that takes a healthy service a moment. No test asserts it.
const DEADLINE: Duration = Duration::from_mins(3);
/// Interval between two polls.
const INTERVAL: Duration = Duration::from_millis(5);

/// Result of a poll. After `false` or `None`, the closure is called again.
pub trait Polled {
    type Value;

    fn reached(self) -> Option<Self::Value>;
}

impl Polled for bool {
    type Value = ();

    fn reached(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Polled for Option<T> {
    type Value = T;

    fn reached(self) -> Self {
        self
    }
}

/// Polls every few milliseconds until the closure returns `true` or a value, and returns that value; panics with
/// `what` at the deadline.
#[track_caller]
pub fn eventually<P: Polled>(what: impl Display, poll: impl AsyncFnMut() -> P) -> impl Future<Output = P::Value> {
    eventually_within(DEADLINE, what, poll)
}

/// Like [`eventually`], with another deadline.
#[track_caller]
pub fn eventually_within<P: Polled>(
    deadline: Duration,
    what: impl Display,
    mut poll: impl AsyncFnMut() -> P,
) -> impl Future<Output = P::Value> {
    within_deadline(deadline, what, async move {
        loop {
            if let Some(value) = poll().await.reached() {
                return value;
            }
            sleep(INTERVAL).await;
        }
    })
}

/// Like [`eventually`], polling after each change instead of at intervals.
#[track_caller]
pub fn eventually_on<C, P: Polled>(
    mut changes: watch::Receiver<C>,
    what: impl Display,
    mut poll: impl AsyncFnMut() -> P,
) -> impl Future<Output = P::Value> {
    within(what, async move {
        loop {
            if let Some(value) = poll().await.reached() {
                return value;
            }
            changes.changed().await.expect("the sender exists");
        }
    })
}

/// Like [`eventually`], outside an async runtime; blocks the thread.
#[track_caller]
pub fn eventually_blocking<P: Polled>(what: impl Display, mut poll: impl FnMut() -> P) -> P::Value {
    let started = Instant::now();
    loop {
        if let Some(value) = poll().reached() {
            return value;
        }
        assert!(started.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        std::thread::sleep(INTERVAL);
    }
}

/// Returns the output of the future; panics with `what` at the deadline.
#[track_caller]
pub fn within<T>(what: impl Display, future: impl Future<Output = T>) -> impl Future<Output = T> {
    within_deadline(DEADLINE, what, future)
}

#[track_caller]
fn within_deadline<T>(
    deadline: Duration,
    what: impl Display,
    future: impl Future<Output = T>,
) -> impl Future<Output = T> {
    let caller = Location::caller();
    let future = Box::pin(future);
    async move {
        let output = timeout(deadline, future).await;
        output.unwrap_or_else(|_| panic!("{what}: not within {deadline:?}, waited for at {caller}"))
    }
}
