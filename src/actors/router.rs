//! The router: finds the one live actor of a stream, starts it when there is none, and puts it to sleep when it is idle.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::dev::SendError;
use actix::prelude::*;
use tokio::sync::oneshot;

use super::aggregate::{AggregateActor, Execute, Outcome, Tools};
use super::error::CommandError;
use crate::domain::decider::Decider;
use crate::events::envelope::Circumstances;
use crate::events::stream::StreamId;

/// Bounds of a router.
#[derive(Debug, Clone, Copy)]
pub struct RouterOptions {
    /// How many commands may wait for the router.
    pub queue: usize,
    /// How many commands may wait for one aggregate.
    pub mailbox: usize,
    /// How long an aggregate stays in memory without a command.
    pub idle: Duration,
}

/// A command on its way to the router.
pub struct Route<D: Decider> {
    pub stream: StreamId,
    pub command: D::Command,
    pub why: Circumstances,
    pub reply: oneshot::Sender<Outcome<D>>,
}

impl<D: Decider> Message for Route<D> {
    type Result = ();
}

/// How many aggregates are live; for tests and for the state that operators see.
#[derive(Debug, Clone, Copy)]
pub struct CountLive;

impl Message for CountLive {
    type Result = usize;
}

/// The router of one kind of aggregate. Its aggregates live on its own arbiter: a hop between them costs no thread switch.
pub struct Router<D: Decider> {
    tools: Tools,
    options: RouterOptions,
    live: HashMap<StreamId, Entry<D>>,
}

struct Entry<D: Decider> {
    address: Addr<AggregateActor<D>>,
    /// Shared with every command that the actor has not finished.
    busy: Arc<()>,
    last_used: Instant,
}

impl<D: Decider> Router<D> {
    /// A router without live aggregates.
    #[must_use]
    pub fn new(tools: Tools, options: RouterOptions) -> Self {
        Self { tools, options, live: HashMap::new() }
    }

    fn wake(&self, stream: &StreamId) -> Entry<D> {
        let actor = AggregateActor::new(stream.clone(), self.tools.clone(), self.options.mailbox);
        Entry { address: actor.start(), busy: Arc::new(()), last_used: Instant::now() }
    }

    /// Lets idle aggregates go: without an address they stop, and the next command replays them.
    fn passivate(&mut self) {
        let idle = self.options.idle;
        self.live.retain(|_, entry| Arc::strong_count(&entry.busy) > 1 || entry.last_used.elapsed() < idle);
    }
}

impl<D: Decider> Actor for Router<D> {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        context.set_mailbox_capacity(self.options.queue);
        context.run_interval(self.options.idle / 2, |router, _| router.passivate());
    }
}

impl<D: Decider> Handler<Route<D>> for Router<D> {
    type Result = ();

    fn handle(&mut self, message: Route<D>, _: &mut Context<Self>) {
        let Route { stream, command, why, reply } = message;
        let known = self.live.get(&stream).is_some_and(|entry| entry.address.connected());
        if !known {
            // Never seen, asleep, or killed by a panic: a new actor replays the stream.
            let entry = self.wake(&stream);
            self.live.insert(stream.clone(), entry);
        }
        let Some(entry) = self.live.get_mut(&stream) else { return };
        entry.last_used = Instant::now();
        let command = Execute { command, why, reply, busy: Arc::clone(&entry.busy) };
        if let Err(SendError::Full(refused) | SendError::Closed(refused)) = entry.address.try_send(command) {
            let _ = refused.reply.send(Err(CommandError::Overloaded));
        }
    }
}

impl<D: Decider> Handler<CountLive> for Router<D> {
    type Result = usize;

    fn handle(&mut self, _: CountLive, _: &mut Context<Self>) -> usize {
        self.live.len()
    }
}
