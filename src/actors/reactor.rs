//! Reactors: what carries recorded events on to the outside, and comes back with commands.
//!
//! A reactor is a reconciler. Woken by a change or by a timer, it reads from a projection what is due, acts, and records
//! what came of it. It keeps nothing that it could not forget: killed at any instruction, it finds the same work again.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::hash::Hash;
use std::time::{Duration, Instant};

use actix::dev::SendError;
use actix::prelude::*;

use crate::clock::{Place, Surroundings};

/// How often a reactor looks without being woken.
const TICK: Duration = Duration::from_millis(250);
/// Looking for work takes at most this part of the time, however much of it there is.
const LOOKING_PART: u32 = 10;
/// How long work rests whose attempt died.
const REST_AFTER_PANIC: Duration = Duration::from_secs(1);

/// When to look at a piece of work again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// When the projection says that it is due.
    WhenDue,
    /// Not before this time has passed, unless the reactor is hinted.
    After(Duration),
}

/// One kind of work that is found in a projection and done outside.
pub trait Reactor: Clone + Send + Unpin + 'static {
    /// What names a piece of work; the same work has the same key until it is done.
    type Key: Clone + Eq + Hash + Send + Unpin + 'static;
    /// A piece of work, with all that is needed to do it.
    type Work: Send + 'static;
    /// Its name in logs.
    const NAME: &'static str;

    /// What is due now, most urgent first: of all that is due, what `hands` take.
    fn due(&self, hands: &mut Hands<Self::Key>) -> Vec<(Self::Key, Self::Work)>;

    /// Does one piece of work and records what came of it.
    fn act(&self, work: Self::Work) -> impl Future<Output = Next> + Send;

    /// Ends when there may be something new. `true` means: forget all rests, what was waited for may have happened.
    fn changed(&mut self) -> impl Future<Output = bool> + Send;

    /// Work that was hinted at since the last call: it does not rest any longer.
    fn hinted(&self) -> Vec<Self::Key> {
        Vec::new()
    }
}

/// Bounds of a reactor.
#[derive(Debug, Clone, Copy)]
pub struct ReactorOptions {
    /// How many pieces of work may be under way.
    pub concurrency: usize,
    /// How many of them in one lane.
    pub lane: usize,
}

/// What a reactor does at a time, and what it has laid aside.
pub struct Hands<K> {
    options: ReactorOptions,
    now: Instant,
    /// What is being done, and in which lane.
    under_way: HashMap<K, String>,
    lanes: HashMap<String, usize>,
    /// Until when work rests. What is over leaves with the next [`Hands::forget_ended_rests`].
    resting: HashMap<K, Instant>,
    forgotten_at: Instant,
}

impl<K: Clone + Eq + Hash> Hands<K> {
    fn new(options: ReactorOptions) -> Self {
        let (under_way, lanes, resting) = (HashMap::new(), HashMap::new(), HashMap::new());
        let now = Instant::now();
        Self { options, now, under_way, lanes, resting, forgotten_at: now }
    }

    /// Whether this work is being done, or rests: it would not be taken. Cheaper than offering it.
    #[must_use]
    pub fn are_off(&self, key: &K) -> bool {
        self.resting.get(key).is_some_and(|until| *until > self.now) || self.under_way.contains_key(key)
    }

    /// Takes this work, unless all hands are full, or those of its lane: no lane gets more than [`ReactorOptions::lane`]
    /// places, so that one slow receiver never delays another.
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

/// The actor around a [`Reactor`].
pub struct ReactorActor<R: Reactor> {
    reactor: R,
    surroundings: Surroundings,
    hands: Hands<R::Key>,
    /// What was hinted at while it was being done: it does not rest afterwards.
    hinted: HashSet<R::Key>,
    /// Not before this time is work looked for again.
    next_look: Instant,
    /// A look at that time is arranged.
    look_arranged: bool,
}

/// Look for work.
#[derive(Debug, Clone, Copy)]
struct Wake {
    hinted: bool,
}

impl Message for Wake {
    type Result = ();
}

/// Starts a reactor on the current arbiter, and starts it anew whenever it dies.
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
        let (hands, hinted, next_look) = (Hands::new(options), HashSet::new(), Instant::now());
        Self { reactor, surroundings, hands, hinted, next_look, look_arranged: false }
    }

    /// Looks for work at once, unless all hands are full, or the last look took so long that this one has to wait.
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

    /// Ends the rests of what was hinted at.
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
        let (reactor, surroundings) = (self.reactor.clone(), self.surroundings.clone());
        // A task of its own, so that a panic in it is an answer here and not the end of the actor.
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
