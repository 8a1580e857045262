//! Reactors: perform the external effects of recorded events and return the outcome as commands.
//!
//! A reactor is a reconciler. A change or a timer wakes it; it reads the due work from a projection, acts, and records
//! the outcome. It has no state of its own that matters: after a crash at any point it finds the same work again.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::hash::Hash;
use std::time::{Duration, Instant};

use actix::dev::SendError;
use actix::prelude::*;

use crate::clock::{Place, Surroundings};

/// Interval at which a reactor looks for work without being woken.
const TICK: Duration = Duration::from_millis(250);
/// Limits the search for work to about a tenth of the time, however much work there is.
const LOOKING_PART: u32 = 10;
/// Pause of work whose attempt panicked.
const REST_AFTER_PANIC: Duration = Duration::from_secs(1);

/// Time at which a piece of work is considered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// As soon as the projection reports it as due.
    WhenDue,
    /// After this pause, or earlier if the work is hinted at.
    After(Duration),
}

/// A kind of work that is found in a projection and performed outside.
pub trait Reactor: Clone + Send + Unpin + 'static {
    /// Identifies a piece of work; it stays the same until the work is done.
    type Key: Clone + Eq + Hash + Send + Unpin + 'static;
    /// A piece of work with all data needed to perform it.
    type Work: Send + 'static;
    /// Name in logs.
    const NAME: &'static str;

    /// Returns the due work that `hands` accept, most urgent first.
    fn due(&self, hands: &mut Hands<Self::Key>) -> Vec<(Self::Key, Self::Work)>;

    /// Performs one piece of work and records the outcome.
    fn act(&self, work: Self::Work) -> impl Future<Output = Next> + Send;

    /// Completes when there may be new work. `true` ends all pauses, because their reason may be gone.
    fn changed(&mut self) -> impl Future<Output = bool> + Send;

    /// Returns the work that was hinted at since the last call; its pauses end.
    fn hinted(&self) -> Vec<Self::Key> {
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
pub struct Hands<K> {
    options: ReactorOptions,
    now: Instant,
    /// Work in progress, with its lane.
    under_way: HashMap<K, String>,
    lanes: HashMap<String, usize>,
    /// End of each pause. Expired entries are removed by [`Hands::forget_ended_rests`].
    resting: HashMap<K, Instant>,
    forgotten_at: Instant,
}

impl<K: Clone + Eq + Hash> Hands<K> {
    fn new(options: ReactorOptions) -> Self {
        let under_way = HashMap::new();
        let lanes = HashMap::new();
        let resting = HashMap::new();
        let now = Instant::now();
        Self { options, now, under_way, lanes, resting, forgotten_at: now }
    }

    /// Returns `true` if the work is in progress or paused, so [`Hands::take`] would reject it. Cheaper than trying.
    #[must_use]
    pub fn are_off(&self, key: &K) -> bool {
        self.resting.get(key).is_some_and(|until| *until > self.now) || self.under_way.contains_key(key)
    }

    /// Reserves a slot for the work and returns `true`, unless all slots or those of its lane are in use. No lane gets
    /// more than [`ReactorOptions::lane`] slots, so that one slow receiver does not delay the others.
    pub fn take(&mut self, key: &K, lane: &str) -> bool {
        let taken = self.lanes.get(lane).copied().unwrap_or(0);
        if self.are_full() || taken >= self.options.lane || self.are_off(key) {
            return false;
        }
        self.lanes.insert(lane.to_owned(), taken + 1);
        self.under_way.insert(key.clone(), lane.to_owned());
        true
    }

    fn are_full(&self) -> bool {
        self.under_way.len() >= self.options.concurrency
    }

    fn finish(&mut self, key: &K) {
        let Some(lane) = self.under_way.remove(key) else { return };
        let left = self.lanes.get(&lane).map_or(0, |places| places - 1);
        if left == 0 {
            self.lanes.remove(&lane);
        } else {
            self.lanes.insert(lane, left);
        }
    }

    fn forget_ended_rests(&mut self) {
        if self.now.saturating_duration_since(self.forgotten_at) >= TICK {
            let now = self.now;
            self.resting.retain(|_, until| *until > now);
            self.forgotten_at = now;
        }
    }
}

/// Actor that runs a [`Reactor`].
pub struct ReactorActor<R: Reactor> {
    reactor: R,
    surroundings: Surroundings,
    hands: Hands<R::Key>,
    /// Work that was hinted at while in progress: it is not paused afterwards.
    hinted: HashSet<R::Key>,
    /// Earliest time of the next search for work.
    next_look: Instant,
    /// `true` if that search is scheduled.
    look_arranged: bool,
}

/// Wakes the actor to look for work.
#[derive(Debug, Clone, Copy)]
struct Wake {
    hinted: bool,
}

impl Message for Wake {
    type Result = ();
}

/// Starts a reactor on the current arbiter and restarts it whenever it dies.
pub fn keep_running<R: Reactor>(reactor: R, options: ReactorOptions, surroundings: Surroundings) {
    let start = {
        let reactor = reactor.clone();
        move || ReactorActor::new(reactor.clone(), options, surroundings.clone()).start()
    };

    let mut changes = reactor;

    actix::spawn(async move {
        let mut address = start();
        let mut hinted = false;
        loop {
            if let Err(SendError::Closed(_)) = address.try_send(Wake { hinted }) {
                tracing::error!(reactor = R::NAME, "died, starting it anew");
                address = start();
                continue;
            }
            hinted = tokio::time::timeout(TICK, changes.changed()).await.unwrap_or(false);
        }
    });
}

impl<R: Reactor> ReactorActor<R> {
    fn new(reactor: R, options: ReactorOptions, surroundings: Surroundings) -> Self {
        let hands = Hands::new(options);
        let hinted = HashSet::new();
        let next_look = Instant::now();
        Self { reactor, surroundings, hands, hinted, next_look, look_arranged: false }
    }

    /// Looks for work now, unless all slots are in use; delays the search if the previous one took long.
    fn look(&mut self, context: &mut Context<Self>) {
        if self.hands.are_full() || self.look_arranged {
            return;
        }

        let wait = self.next_look.saturating_duration_since(Instant::now());

        if wait.is_zero() {
            let started = Instant::now();
            self.start_due(context);
            self.next_look = Instant::now() + started.elapsed() * LOOKING_PART;
        } else {
            self.look_arranged = true;
            context.run_later(wait, |actor, context| {
                actor.look_arranged = false;
                actor.look(context);
            });
        }
    }

    fn start_due(&mut self, context: &mut Context<Self>) {
        self.hands.now = Instant::now();
        self.hands.forget_ended_rests();
        for (key, work) in self.reactor.due(&mut self.hands) {
            self.start_one(context, key, work);
        }
    }

    fn rest(&mut self, context: &mut Context<Self>, key: R::Key, rest: Duration) {
        self.hands.resting.insert(key, Instant::now() + rest);
        if rest < TICK {
            context.run_later(rest, Self::look);
        }
        self.look(context);
    }

    /// Ends the pauses of work that was hinted at.
    fn take_hints(&mut self) {
        for key in self.reactor.hinted() {
            if self.hands.under_way.contains_key(&key) {
                self.hinted.insert(key);
            } else {
                self.hands.resting.remove(&key);
            }
        }
    }

    fn start_one(&mut self, context: &mut Context<Self>, key: R::Key, work: R::Work) {
        let reactor = self.reactor.clone();
        let surroundings = self.surroundings.clone();

        // A separate task, so that a panic is reported here instead of ending the actor.
        let working = actix::spawn(async move {
            surroundings.reach(Place::Reactor, R::NAME);
            reactor.act(work).await
        });

        let finished = working.into_actor(self).map(move |next, actor, context| {
            actor.hands.finish(&key);
            let rest = match next {
                Ok(Next::WhenDue) => None,
                Ok(Next::After(rest)) => Some(rest),
                Err(panic) => {
                    tracing::error!(reactor = R::NAME, %panic, "an attempt died");
                    Some(REST_AFTER_PANIC)
                }
            };
            let hinted = actor.hinted.remove(&key);
            match rest {
                Some(rest) if !hinted => actor.rest(context, key, rest),
                _ => actor.look(context),
            }
        });

        context.spawn(finished);
    }
}

impl<R: Reactor> Actor for ReactorActor<R> {
    type Context = Context<Self>;
}

impl<R: Reactor> Handler<Wake> for ReactorActor<R> {
    type Result = ();

    fn handle(&mut self, wake: Wake, context: &mut Context<Self>) {
        if wake.hinted {
            self.hands.resting.clear();
        }
        self.take_hints();
        self.look(context);
    }
}
