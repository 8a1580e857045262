//! Starts all actors; [`Dispatch`] is the only entry for commands.

use std::sync::{Arc, Weak};

use actix::prelude::*;
use tokio::sync::oneshot;

use super::CommandContext;
use super::aggregate::{Outcome, Tools};
use super::error::CommandError;
use super::projector::Projector;
use super::router::{CountLive, Route, Router, RouterOptions};
use super::writer::Writer;
use crate::clock::Surroundings;
use crate::domain::decider::Decider;
use crate::domain::delivery::{Delivery, DeliveryCommand};
use crate::domain::ids::{DeliveryId, NodeKey, PublisherId, TaskId, TokenId, UserId};
use crate::domain::node::{Node, NodeCommand};
use crate::domain::publisher::{Publisher, PublisherCommand};
use crate::domain::task::{Task, TaskCommand};
use crate::domain::token::{Token, TokenCommand};
use crate::domain::user::{User, UserCommand};
use crate::events::log::EventLog;
use crate::events::stream::StreamId;
use crate::projections::ReadModels;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::trace::{self, Span, Value};

pub use super::aggregate::Done;

/// The only entry for commands. Cheap to clone.
#[derive(Clone)]
pub struct Dispatch {
    users: Addr<Router<User>>,
    publishers: Addr<Router<Publisher>>,
    tokens: Addr<Router<Token>>,
    nodes: Addr<Router<Node>>,
    tasks: Addr<Router<Task>>,
    deliveries: Addr<Router<Delivery>>,
}

/// Limits of the actors.
#[derive(Debug, Clone, Copy)]
pub struct ActorOptions {
    /// Maximum number of appends that wait for the writer.
    pub writer_queue: usize,
    pub router: RouterOptions,
}

/// Owner of the running actors.
pub struct Actors {
    pub dispatch: Dispatch,
    arbiter: Arbiter,
    /// Returns the number of waiting appends.
    waiting: Arc<dyn Fn() -> usize + Send + Sync>,
    /// Upgradable while the writer runs.
    alive: Weak<()>,
}

impl Actors {
    /// Starts the writer and the routers; returns once all routers accept commands. They share one arbiter with all
    /// aggregates, so a command changes threads only twice: to the arbiter and back.
    pub async fn start(
        log: Arc<dyn EventLog>,
        models: ReadModels,
        surroundings: Surroundings,
        options: ActorOptions,
        metrics: Metrics,
    ) -> Self {
        let projector = Projector::new(models.clone(), metrics);
        let (writer, worker, alive) =
            Writer::new(Arc::clone(&log), projector, options.writer_queue, surroundings.mishaps());
        let waiting = Arc::new(writer.waiting());
        let arbiter = Arbiter::new();
        arbiter.spawn(worker.run());

        let tools = Tools { log, writer, models, surroundings };
        let dispatch = Dispatch {
            users: start_router(&arbiter, &tools, options.router),
            publishers: start_router(&arbiter, &tools, options.router),
            tokens: start_router(&arbiter, &tools, options.router),
            nodes: start_router(&arbiter, &tools, options.router),
            tasks: start_router(&arbiter, &tools, options.router),
            deliveries: start_router(&arbiter, &tools, options.router),
        };

        dispatch.await_routers().await;
        Self { dispatch, arbiter, waiting, alive }
    }

    /// Returns a function that returns `false` once the writer has died, so no command can be written.
    pub fn pulse(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let alive = Weak::clone(&self.alive);
        move || alive.strong_count() > 0
    }

    /// Returns a function that returns the number of appends waiting for the writer.
    pub fn waiting(&self) -> impl Fn() -> usize + Send + Sync + use<> {
        let waiting = Arc::clone(&self.waiting);
        move || waiting()
    }

    /// Stops the actors after the group being written. Blocks.
    pub fn stop(self) {
        drop(self.dispatch);
        self.arbiter.stop();
        if self.arbiter.join().is_err() {
            tracing::error!("the thread of the actors had died");
        }
    }
}

fn start_router<D: Decider>(arbiter: &Arbiter, tools: &Tools, options: RouterOptions) -> Addr<Router<D>> {
    let tools = tools.clone();
    Router::start_in_arbiter(&arbiter.handle(), move |_| Router::new(tools, options))
}

impl Dispatch {
    /// Sends a command to a user.
    ///
    /// # Errors
    /// Returns the rejection, or the reason why the command was not executed.
    pub async fn user(&self, id: UserId, command: UserCommand, why: CommandContext) -> Outcome<User> {
        send(&self.users, StreamId::from(&id), command, why).await
    }

    /// Sends a command to a publisher.
    ///
    /// # Errors
    /// Returns the rejection, or the reason why the command was not executed.
    pub async fn publisher(
        &self,
        id: &PublisherId,
        command: PublisherCommand,
        why: CommandContext,
    ) -> Outcome<Publisher> {
        send(&self.publishers, StreamId::from(id), command, why).await
    }

    /// Sends a command to a token.
    ///
    /// # Errors
    /// Returns the rejection, or the reason why the command was not executed.
    pub async fn token(&self, id: TokenId, command: TokenCommand, why: CommandContext) -> Outcome<Token> {
        send(&self.tokens, StreamId::from(&id), command, why).await
    }

    /// Sends a command to a node.
    ///
    /// # Errors
    /// Returns the rejection, or the reason why the command was not executed.
    pub async fn node(&self, key: &NodeKey, command: NodeCommand, why: CommandContext) -> Outcome<Node> {
        send(&self.nodes, StreamId::from(key), command, why).await
    }

    /// Sends a command to a task.
    ///
    /// # Errors
    /// Returns the rejection, or the reason why the command was not executed.
    pub async fn task(&self, id: TaskId, command: TaskCommand, why: CommandContext) -> Outcome<Task> {
        if matches!(command, TaskCommand::Submit(_)) {
            trace::remember(id.0);
        }
        send(&self.tasks, StreamId::from(&id), command, why).await
    }

    /// Sends a command to a delivery.
    ///
    /// # Errors
    /// Returns the rejection, or the reason why the command was not executed.
    pub async fn delivery(&self, id: DeliveryId, command: DeliveryCommand, why: CommandContext) -> Outcome<Delivery> {
        send(&self.deliveries, StreamId::from(&id), command, why).await
    }

    /// Waits until all routers have started: before that, their mailboxes have the default capacity of actix.
    async fn await_routers(&self) {
        // An error means that the router died with its arbiter; every command will report that.
        let _ = tokio::join!(
            self.users.send(CountLive),
            self.publishers.send(CountLive),
            self.tokens.send(CountLive),
            self.nodes.send(CountLive),
            self.tasks.send(CountLive),
            self.deliveries.send(CountLive),
        );
    }

    /// Returns the number of live publisher actors.
    pub async fn live_publishers(&self) -> usize {
        self.publishers.send(CountLive).await.unwrap_or(0)
    }
}

async fn send<D: Decider>(
    router: &Addr<Router<D>>,
    stream: StreamId,
    command: D::Command,
    why: CommandContext,
) -> Outcome<D> {
    let mut span = trace::part(|| format!("append {}", D::KIND.as_str()));
    let (reply, answered) = oneshot::channel();
    let outcome = match router.try_send(Route { stream, command, why, reply }) {
        Ok(()) => answered.await.unwrap_or(Err(CommandError::Interrupted)),
        Err(SendError::Full(_)) => Err(CommandError::Overloaded),
        Err(SendError::Closed(_)) => Err(CommandError::Interrupted),
    };

    if let (Some(span), Err(error)) = (&mut span, &outcome) {
        end(span, error);
    }

    outcome
}

/// Records the outcome of a command that was not executed. A rejection is a normal response, not a failure.
fn end<R>(span: &mut Span, error: &CommandError<R>) {
    let (outcome, is_failure) = match error {
        CommandError::Rejected(_) => ("rejected", false),
        CommandError::TooLarge { .. } => ("too large", false),
        CommandError::Overloaded => ("overloaded", true),
        CommandError::Full { .. } => ("no room", true),
        CommandError::ReadOnly { .. } => ("read only", true),
        CommandError::Failed { .. } => ("failed", true),
        CommandError::Interrupted => ("interrupted", true),
    };

    span.note("mediary.outcome", Value::Text(outcome.to_owned()));
    if is_failure {
        span.fail(outcome);
    }
}
