//! The router: finds or starts the live actor of a stream, and stops it when it is idle.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::dev::SendError;
use actix::prelude::*;
use tokio::sync::oneshot;

use super::aggregate::{AggregateActor, AggregateDeps, CommandOutcome, Execute};
use super::error::CommandError;
use crate::domain::event::Aggregate;
use crate::events::envelope::CommandContext;
use crate::events::stream::StreamId;

/// Limits of a router.
#[derive(Debug, Clone, Copy)]
pub struct RouterOptions {
    /// Maximum number of commands that wait for the router.
    pub queue: usize,
    /// Maximum number of commands that wait for one aggregate.
    pub mailbox: usize,
    /// Time after which an aggregate without commands leaves memory.
    pub idle: Duration,
}

/// A command for the aggregate of `stream`.
pub struct RouteCommand<D: Aggregate> {
    pub stream: StreamId,
    pub command: D::Command,
    pub command_context: CommandContext,
    pub reply: oneshot::Sender<CommandOutcome<D>>,
}

impl<D: Aggregate> Message for RouteCommand<D> {
    type Result = ();
}

/// Asks a router for the number of its live aggregates.
#[derive(Debug, Clone, Copy)]
pub struct CountLiveAggregates;

impl Message for CountLiveAggregates {
    type Result = usize;
}

/// Router of one kind of aggregate. Its aggregates run on its arbiter, so no thread switch is needed.
pub struct Router<D: Aggregate> {
    deps: AggregateDeps,
    options: RouterOptions,
    live: HashMap<StreamId, LiveAggregate<D>>,
}

struct LiveAggregate<D: Aggregate> {
    address: Addr<AggregateActor<D>>,
    /// Shared with every unfinished command of the actor: more than one reference means that it is busy.
    busy: Arc<()>,
    last_used: Instant,
}

impl<D: Aggregate> Router<D> {
    /// Creates a router without live aggregates.
    #[must_use]
    pub fn new(deps: AggregateDeps, options: RouterOptions) -> Self {
        Self { deps, options, live: HashMap::new() }
    }

    fn start_aggregate(&self, stream: &StreamId) -> LiveAggregate<D> {
        let actor = AggregateActor::new(stream.clone(), self.deps.clone(), self.options.mailbox);
        LiveAggregate { address: actor.start(), busy: Arc::new(()), last_used: Instant::now() }
    }

    /// Drops the addresses of idle aggregates, which stops them; the next command replays the stream.
    fn passivate(&mut self) {
        let idle = self.options.idle;
        self.live.retain(|_, entry| Arc::strong_count(&entry.busy) > 1 || entry.last_used.elapsed() < idle);
    }
}

impl<D: Aggregate> Actor for Router<D> {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        context.set_mailbox_capacity(self.options.queue);
        context.run_interval(self.options.idle / 2, |router, _| router.passivate());
    }
}

impl<D: Aggregate> Handler<RouteCommand<D>> for Router<D> {
    type Result = ();

    fn handle(&mut self, message: RouteCommand<D>, _: &mut Context<Self>) {
        let RouteCommand { stream, command, command_context, reply } = message;
        let is_running = self.live.get(&stream).is_some_and(|entry| entry.address.connected());

        if !is_running {
            // Never started, passivated or dead after a panic: a new actor replays the stream.
            let entry = self.start_aggregate(&stream);
            self.live.insert(stream.clone(), entry);
        }

        let Some(entry) = self.live.get_mut(&stream) else { return };
        entry.last_used = Instant::now();

        let command = Execute { command, command_context, reply, busy: Arc::clone(&entry.busy) };
        if let Err(SendError::Full(rejected) | SendError::Closed(rejected)) = entry.address.try_send(command) {
            let _ = rejected.reply.send(Err(CommandError::Overloaded));
        }
    }
}

impl<D: Aggregate> Handler<CountLiveAggregates> for Router<D> {
    type Result = usize;

    fn handle(&mut self, _: CountLiveAggregates, _: &mut Context<Self>) -> usize {
        self.live.len()
    }
}
