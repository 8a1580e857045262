//! Reactors: perform the external effects of recorded events and return the outcome as commands.
//!
//! A reactor is a reconciler. A change or a timer wakes it; it reads the due work from a projection, acts, and records
//! the outcome. It has no state of its own that matters: after a crash at any point it finds the same work again.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::dev::SendError;
use actix::prelude::*;

use crate::cluster::work_share::WorkShare;
use crate::environment::{Environment, FailPoint};

/// Interval at which a reactor looks for work without being woken.
const TICK: Duration = Duration::from_millis(250);
/// Minimum pause between two searches for work, as a multiple of the duration of the last one. Searches thus take at
/// most about a tenth of the time, however much work there is.
const SEARCH_PAUSE_FACTOR: u32 = 10;
/// Pause of work whose attempt panicked.
const PANIC_BACKOFF: Duration = Duration::from_secs(1);

/// Time at which a piece of work is considered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reschedule {
    /// As soon as the projection reports it as due.
    WhenDue,
    /// After this pause, or earlier if the work is woken ([`Reactor::take_woken`]).
    After(Duration),
}

/// Function that returns the share of the work that this node does at the moment. Cheap to clone.
#[derive(Clone)]
pub struct Duty(Arc<dyn Fn() -> WorkShare + Send + Sync>);

impl Duty {
    /// Returns the duty of a node without others.
    #[must_use]
    pub fn always() -> Self {
        Self::new(|| WorkShare::Everything)
    }

    /// Creates a duty whose share is returned by `share`, which is called each time.
    #[must_use]
    pub fn new(share: impl Fn() -> WorkShare + Send + Sync + 'static) -> Self {
        Self(Arc::new(share))
    }

    /// Returns the share of the work that this node does now.
    #[must_use]
    pub fn share(&self) -> WorkShare {
        (self.0)()
    }
}

/// A kind of work that is found in a projection and performed outside.
pub trait Reactor: Clone + Send + Unpin + 'static {
    /// Identifies a piece of work; it stays the same until the work is done.
    type Key: Clone + Eq + Hash + Send + Unpin + 'static;
    /// A piece of work with all data needed to perform it.
    type Work: Send + 'static;
    /// Name in logs.
    const NAME: &'static str;

    /// Returns the due work that `slots` accept, most urgent first.
    fn due(&self, slots: &mut WorkerSlots<Self::Key>) -> Vec<(Self::Key, Self::Work)>;

    /// Performs one piece of work and records the outcome.
    fn act(&self, work: Self::Work) -> impl Future<Output = Reschedule> + Send;

    /// Completes when there may be new work. Returns the lanes whose pauses end, because their reason may be gone.
    fn changed(&mut self) -> impl Future<Output = Vec<String>> + Send;

    /// Returns the work that was woken since the last call, such as by a webhook; its pauses end.
    fn take_woken(&self) -> Vec<Self::Key> {
        Vec::new()
    }
}

/// Limits of a reactor.
#[derive(Debug, Clone, Copy)]
pub struct ReactorOptions {
    /// Maximum number of concurrent pieces of work.
    pub concurrency: usize,
    /// Maximum number of them in one lane.
    pub lane: usize,
}

/// Concurrency slots of a reactor, and its paused work.
pub struct WorkerSlots<K> {
    options: ReactorOptions,
    now: Instant,
    /// Work in progress, with its lane.
    in_progress: HashMap<K, String>,
    lanes: HashMap<String, usize>,
    /// Expired entries are removed by [`WorkerSlots::prune_expired_pauses`].
    pauses: HashMap<K, WorkPause>,
    pruned_at: Instant,
    /// Part of the shared work that this node does.
    share: WorkShare,
}

/// Pause of a piece of work.
struct WorkPause {
    until: Instant,
    /// Lane of the attempt before the pause.
    lane: Option<String>,
}

impl<K: Clone + Eq + Hash> WorkerSlots<K> {
    pub(super) fn new(options: ReactorOptions) -> Self {
        let in_progress = HashMap::new();
        let lanes = HashMap::new();
        let pauses = HashMap::new();
        let now = Instant::now();
        Self { options, now, in_progress, lanes, pauses, pruned_at: now, share: WorkShare::Everything }
    }

    /// Returns the part of the shared work that this node does.
    #[must_use]
    pub fn share(&self) -> &WorkShare {
        &self.share
    }

    /// Returns `true` if the work is in progress, so [`WorkerSlots::try_reserve`] would reject it.
    #[must_use]
    pub fn is_in_progress(&self, key: &K) -> bool {
        self.in_progress.contains_key(key)
    }

    /// Returns the lane of work in progress.
    #[must_use]
    pub fn lane_of(&self, key: &K) -> Option<&str> {
        self.in_progress.get(key).map(String::as_str)
    }

    /// Returns `true` if the work is paused, so [`WorkerSlots::try_reserve`] would reject it.
    #[must_use]
    pub fn is_paused(&self, key: &K) -> bool {
        self.pauses.get(key).is_some_and(|pause| pause.until > self.now)
    }

    /// Returns `true` if the work is in progress or paused. Cheaper than trying to reserve a slot.
    #[must_use]
    pub fn is_busy_or_paused(&self, key: &K) -> bool {
        self.is_in_progress(key) || self.is_paused(key)
    }

    /// Reserves a slot for the work and returns `true`, unless all slots or those of its lane are in use. No lane gets
    /// more than [`ReactorOptions::lane`] slots, so that one slow receiver does not delay the others.
    pub fn try_reserve(&mut self, key: &K, lane: &str) -> bool {
        self.try_reserve_within(key, lane, self.options.lane)
    }

    /// Like [`WorkerSlots::try_reserve`], for a lane with its own number of slots.
    pub fn try_reserve_within(&mut self, key: &K, lane: &str, lane_slots: usize) -> bool {
        let used = self.lanes.get(lane).copied().unwrap_or(0);
        if self.is_full() || used >= lane_slots || self.is_busy_or_paused(key) {
            return false;
        }
        self.lanes.insert(lane.to_owned(), used + 1);
        self.in_progress.insert(key.clone(), lane.to_owned());
        true
    }

    /// Returns the number of free slots of a lane that has `lane_slots` slots.
    #[must_use]
    pub fn free_within(&self, lane: &str, lane_slots: usize) -> usize {
        lane_slots.saturating_sub(self.lanes.get(lane).copied().unwrap_or(0))
    }

    fn is_full(&self) -> bool {
        self.in_progress.len() >= self.options.concurrency
    }

    /// Releases the slot of the work and returns its lane.
    fn release(&mut self, key: &K) -> Option<String> {
        let lane = self.in_progress.remove(key)?;
        let remaining = self.lanes.get(&lane).map_or(0, |count| count - 1);
        if remaining == 0 {
            self.lanes.remove(&lane);
        } else {
            self.lanes.insert(lane.clone(), remaining);
        }
        Some(lane)
    }

    fn end_pauses_of(&mut self, lanes: &[String]) {
        if !lanes.is_empty() {
            self.pauses.retain(|_, pause| pause.lane.as_ref().is_none_or(|lane| !lanes.contains(lane)));
        }
    }

    fn prune_expired_pauses(&mut self) {
        if self.now.saturating_duration_since(self.pruned_at) >= TICK {
            let now = self.now;
            self.pauses.retain(|_, pause| pause.until > now);
            self.pruned_at = now;
        }
    }
}

/// Actor that runs a [`Reactor`].
pub struct ReactorActor<R: Reactor> {
    reactor: R,
    duty: Duty,
    environment: Environment,
    slots: WorkerSlots<R::Key>,
    /// Work that was woken while in progress: it is not paused afterwards.
    woken_in_progress: HashSet<R::Key>,
    /// Earliest time of the next search for work.
    next_poll_at: Instant,
    /// `true` if that search is scheduled.
    is_poll_scheduled: bool,
}

/// Wakes the actor to look for work.
#[derive(Debug, Clone)]
struct WakeReactor {
    /// Lanes whose pauses end.
    resumed_lanes: Vec<String>,
}

impl Message for WakeReactor {
    type Result = ();
}

/// Starts a reactor on the current arbiter and restarts it whenever it dies. It begins only the work in its `duty`.
pub fn spawn_supervised<R: Reactor>(reactor: R, options: ReactorOptions, duty: Duty, environment: Environment) {
    let start = {
        let reactor = reactor.clone();
        move || ReactorActor::new(reactor.clone(), options, duty.clone(), environment.clone()).start()
    };

    let mut changes = reactor;

    actix::spawn(async move {
        let mut address = start();
        let mut resumed_lanes = Vec::new();
        loop {
            if let Err(SendError::Closed(_)) = address.try_send(WakeReactor { resumed_lanes }) {
                tracing::error!(reactor = R::NAME, "reactor died, restarting");
                address = start();
                resumed_lanes = Vec::new();
                continue;
            }
            resumed_lanes = tokio::time::timeout(TICK, changes.changed()).await.unwrap_or_default();
        }
    });
}

impl<R: Reactor> ReactorActor<R> {
    fn new(reactor: R, options: ReactorOptions, duty: Duty, environment: Environment) -> Self {
        let slots = WorkerSlots::new(options);
        let woken_in_progress = HashSet::new();
        let next_poll_at = Instant::now();
        Self { reactor, duty, environment, slots, woken_in_progress, next_poll_at, is_poll_scheduled: false }
    }

    /// Looks for work now, unless all slots are in use; delays the search if the previous one took long.
    fn poll(&mut self, context: &mut Context<Self>) {
        if self.slots.is_full() || self.is_poll_scheduled {
            return;
        }

        self.slots.share = self.duty.share();
        if self.slots.share == WorkShare::Nothing {
            return;
        }

        let wait = self.next_poll_at.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            let started = Instant::now();
            self.start_due(context);
            self.next_poll_at = Instant::now() + started.elapsed() * SEARCH_PAUSE_FACTOR;
        } else {
            self.is_poll_scheduled = true;
            context.run_later(wait, |actor, context| {
                actor.is_poll_scheduled = false;
                actor.poll(context);
            });
        }
    }

    fn start_due(&mut self, context: &mut Context<Self>) {
        self.slots.now = Instant::now();
        self.slots.prune_expired_pauses();
        for (key, work) in self.reactor.due(&mut self.slots) {
            self.start_work(context, key, work);
        }
    }

    fn back_off(&mut self, context: &mut Context<Self>, key: R::Key, lane: Option<String>, delay: Duration) {
        self.slots.pauses.insert(key, WorkPause { until: Instant::now() + delay, lane });
        if delay < TICK {
            context.run_later(delay, Self::poll);
        }
        self.poll(context);
    }

    /// Ends the pauses of woken work.
    fn end_pauses_of_woken(&mut self) {
        for key in self.reactor.take_woken() {
            if self.slots.in_progress.contains_key(&key) {
                self.woken_in_progress.insert(key);
            } else {
                self.slots.pauses.remove(&key);
            }
        }
    }

    fn start_work(&mut self, context: &mut Context<Self>, key: R::Key, work: R::Work) {
        let reactor = self.reactor.clone();
        let environment = self.environment.clone();

        // A separate task, so that a panic is reported here instead of ending the actor.
        let handle = actix::spawn(async move {
            environment.hit(FailPoint::Reactor, R::NAME);
            reactor.act(work).await
        });

        let finished = handle.into_actor(self).map(move |next, actor, context| {
            let lane = actor.slots.release(&key);
            let delay = match next {
                Ok(Reschedule::WhenDue) => None,
                Ok(Reschedule::After(delay)) => Some(delay),
                Err(panic) => {
                    tracing::error!(reactor = R::NAME, %panic, "reactor attempt panicked");
                    Some(PANIC_BACKOFF)
                }
            };
            let was_woken = actor.woken_in_progress.remove(&key);
            match delay {
                Some(delay) if !was_woken => actor.back_off(context, key, lane, delay),
                _ => actor.poll(context),
            }
        });

        context.spawn(finished);
    }
}

impl<R: Reactor> Actor for ReactorActor<R> {
    type Context = Context<Self>;
}

impl<R: Reactor> Handler<WakeReactor> for ReactorActor<R> {
    type Result = ();

    fn handle(&mut self, wake: WakeReactor, context: &mut Context<Self>) {
        self.slots.end_pauses_of(&wake.resumed_lanes);
        self.end_pauses_of_woken();
        self.poll(context);
    }
}
