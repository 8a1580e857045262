//! All actors together: how they are started, and the one way in for commands.

use std::sync::{Arc, Weak};

use actix::prelude::*;
use tokio::sync::oneshot;

use super::Circumstances;
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

/// The one way in for commands. Cheap to clone.
#[derive(Clone)]
pub struct Dispatch {
    users: Addr<Router<User>>,
    publishers: Addr<Router<Publisher>>,
    tokens: Addr<Router<Token>>,
    nodes: Addr<Router<Node>>,
    tasks: Addr<Router<Task>>,
    deliveries: Addr<Router<Delivery>>,
}

/// Bounds of the actors.
#[derive(Debug, Clone, Copy)]
pub struct ActorOptions {
    /// How many appends may wait for the writer.
    pub writer_queue: usize,
    pub router: RouterOptions,
}

/// What is left to hold while the actors run.
pub struct Actors {
    pub dispatch: Dispatch,
    arbiter: Arbiter,
    /// How many appends wait.
    waiting: Arc<dyn Fn() -> usize + Send + Sync>,
    /// Held by the writer's work.
    alive: Weak<()>,
}

impl Actors {
    /// Starts the writer and the routers. They share one arbiter with all aggregates, so that a command changes threads only
    /// twice: to the arbiter and back. Returns when all routers take commands.
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

    /// Tells whether commands can still be written: false once the writer has died.
    pub fn pulse(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let alive = Weak::clone(&self.alive);
        move || alive.strong_count() > 0
    }

    /// Tells how many appends wait for the writer.
    pub fn waiting(&self) -> impl Fn() -> usize + Send + Sync + use<> {
        let waiting = Arc::clone(&self.waiting);
        move || waiting()
    }

    /// Lets the actors go; a group that is being written is finished. Blocks.
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
    /// Asks a user.
    ///
    /// # Errors
    /// The rejection, or why the command was not carried out.
    pub async fn user(&self, id: UserId, command: UserCommand, why: Circumstances) -> Outcome<User> {
        send(&self.users, StreamId::from(&id), command, why).await
    }

    /// Asks a publisher.
    ///
    /// # Errors
    /// The rejection, or why the command was not carried out.
    pub async fn publisher(
        &self,
        id: &PublisherId,
        command: PublisherCommand,
        why: Circumstances,
    ) -> Outcome<Publisher> {
        send(&self.publishers, StreamId::from(id), command, why).await
    }

    /// Asks a token.
    ///
    /// # Errors
    /// The rejection, or why the command was not carried out.
    pub async fn token(&self, id: TokenId, command: TokenCommand, why: Circumstances) -> Outcome<Token> {
        send(&self.tokens, StreamId::from(&id), command, why).await
    }

    /// Asks a node.
    ///
    /// # Errors
    /// The rejection, or why the command was not carried out.
    pub async fn node(&self, key: &NodeKey, command: NodeCommand, why: Circumstances) -> Outcome<Node> {
        send(&self.nodes, StreamId::from(key), command, why).await
    }

    /// Asks a task.
    ///
    /// # Errors
    /// The rejection, or why the command was not carried out.
    pub async fn task(&self, id: TaskId, command: TaskCommand, why: Circumstances) -> Outcome<Task> {
        if matches!(command, TaskCommand::Submit(_)) {
            trace::remember(id.0);
        }
        send(&self.tasks, StreamId::from(&id), command, why).await
    }

    /// Asks a delivery.
    ///
    /// # Errors
    /// The rejection, or why the command was not carried out.
    pub async fn delivery(&self, id: DeliveryId, command: DeliveryCommand, why: Circumstances) -> Outcome<Delivery> {
        send(&self.deliveries, StreamId::from(&id), command, why).await
    }

    /// Until a router has started, its mailbox has the framework's size and not its own.
    async fn await_routers(&self) {
        // A router that does not answer has died with its arbiter, which every command will tell.
        let _ = tokio::join!(
            self.users.send(CountLive),
            self.publishers.send(CountLive),
            self.tokens.send(CountLive),
            self.nodes.send(CountLive),
            self.tasks.send(CountLive),
            self.deliveries.send(CountLive),
        );
    }

    /// How many publishers are live as actors.
    pub async fn live_publishers(&self) -> usize {
        self.publishers.send(CountLive).await.unwrap_or(0)
    }
}

async fn send<D: Decider>(
    router: &Addr<Router<D>>,
    stream: StreamId,
    command: D::Command,
    why: Circumstances,
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

/// Notes why a command was not carried out. A rejection is an answer like any other.
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
