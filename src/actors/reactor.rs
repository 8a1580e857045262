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

    /// What is due now, most urgent first: of all that is due, what `take` takes. `take` is told the key and the lane: no
    /// lane gets more than [`ReactorOptions::lane`] places, so that one slow receiver never delays another.
    fn due(&self, take: &mut dyn FnMut(&Self::Key, &str) -> bool) -> Vec<(Self::Key, Self::Work)>;

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

/// The actor around a [`Reactor`].
pub struct ReactorActor<R: Reactor> {
    reactor: R,
    options: ReactorOptions,
    surroundings: Surroundings,
    /// What is being done, and in which lane.
    under_way: HashMap<R::Key, String>,
    lanes: HashMap<String, usize>,
    resting: HashMap<R::Key, Instant>,
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
        let (under_way, lanes, resting) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (hinted, next_look) = (HashSet::new(), Instant::now());
        Self { reactor, options, surroundings, under_way, lanes, resting, hinted, next_look, look_arranged: false }
    }

    /// Looks for work at once, unless all hands are full, or the last look took so long that this one has to wait.
    fn look(&mut self, context: &mut Context<Self>) {
        if self.under_way.len() >= self.options.concurrency || self.look_arranged {
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
        self.resting.retain(|_, until| *until > Instant::now());
        let Self { reactor, options, under_way, lanes, resting, .. } = self;
        let due = reactor.due(&mut |key, lane| {
            if under_way.len() >= options.concurrency || under_way.contains_key(key) || resting.contains_key(key) {
                return false;
            }
            let taken = lanes.get(lane).copied().unwrap_or(0);
            let free = taken < options.lane;
            if free {
                lanes.insert(lane.to_owned(), taken + 1);
                under_way.insert(key.clone(), lane.to_owned());
            }
            free
        });
        for (key, work) in due {
            self.start_one(context, key, work);
        }
    }

    fn finish(&mut self, key: &R::Key) {
        let Some(lane) = self.under_way.remove(key) else { return };
        let left = self.lanes.get(&lane).map_or(0, |places| places - 1);
        if left == 0 {
            self.lanes.remove(&lane);
        } else {
            self.lanes.insert(lane, left);
        }
    }

    fn rest(&mut self, context: &mut Context<Self>, key: R::Key, rest: Duration) {
        self.resting.insert(key, Instant::now() + rest);
        if rest < TICK {
            context.run_later(rest, Self::look);
        }
        self.look(context);
    }

    /// Ends the rests of what was hinted at.
    fn take_hints(&mut self) {
        for key in self.reactor.hinted() {
            if self.under_way.contains_key(&key) {
                self.hinted.insert(key);
            } else {
                self.resting.remove(&key);
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
            actor.finish(&key);
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
            self.resting.clear();
        }
        self.take_hints();
        self.look(context);
    }
}
