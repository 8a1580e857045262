//! Starts all actors; [`Dispatch`] is the only entry for commands.

use std::sync::{Arc, Weak};

use actix::prelude::*;
use tokio::sync::oneshot;

use super::CommandContext;
use super::aggregate::{AggregateDeps, CommandOutcome};
use super::error::CommandError;
use super::projector::Projector;
use super::router::{CountLiveAggregates, RouteCommand, Router, RouterOptions};
use super::writer::EventWriter;
use crate::domain::budget::{Budget, BudgetCommand, BudgetSubject};
use crate::domain::delivery::{Delivery, DeliveryCommand};
use crate::domain::event::Aggregate;
use crate::domain::ids::{DeliveryId, NodeKey, PublisherId, TaskId, TokenId, UserId};
use crate::domain::node::{Node, NodeCommand};
use crate::domain::publisher::{Publisher, PublisherCommand};
use crate::domain::task::{Task, TaskCommand};
use crate::domain::token::{Token, TokenCommand};
use crate::domain::user::{User, UserCommand};
use crate::environment::Environment;
use crate::events::log::EventLog;
use crate::events::stream::StreamId;
use crate::projections::ReadModels;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::trace::{self, AttributeValue, Span};

pub use super::aggregate::CommandEffect;

/// The only entry for commands. Cheap to clone.
#[derive(Clone)]
pub struct Dispatch {
    users: Addr<Router<User>>,
    publishers: Addr<Router<Publisher>>,
    tokens: Addr<Router<Token>>,
    nodes: Addr<Router<Node>>,
    tasks: Addr<Router<Task>>,
    deliveries: Addr<Router<Delivery>>,
    budgets: Addr<Router<Budget>>,
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
    /// Function that returns the number of appends waiting for the writer.
    writer_queue_length: Arc<dyn Fn() -> usize + Send + Sync>,
    /// Upgradable while the writer runs.
    writer_alive: Weak<()>,
}

impl Actors {
    /// Starts the writer and the routers; returns once all routers accept commands. They share one arbiter with all
    /// aggregates, so a command changes threads only twice: to the arbiter and back.
    pub async fn start(
        log: Arc<dyn EventLog>,
        models: ReadModels,
        environment: Environment,
        options: ActorOptions,
        metrics: Metrics,
    ) -> Self {
        let projector = Projector::new(models.clone(), metrics);
        let (writer, worker, writer_alive) =
            EventWriter::new(Arc::clone(&log), projector, options.writer_queue, environment.fail_points());
        let writer_queue_length = Arc::new(writer.queue_length());
        let arbiter = Arbiter::new();
        arbiter.spawn(worker.run());

        let deps = AggregateDeps { log, writer, models, environment };
        let dispatch = Dispatch {
            users: start_router(&arbiter, &deps, options.router),
            publishers: start_router(&arbiter, &deps, options.router),
            tokens: start_router(&arbiter, &deps, options.router),
            nodes: start_router(&arbiter, &deps, options.router),
            tasks: start_router(&arbiter, &deps, options.router),
            deliveries: start_router(&arbiter, &deps, options.router),
            budgets: start_router(&arbiter, &deps, options.router),
        };

        dispatch.await_routers().await;
        Self { dispatch, arbiter, writer_queue_length, writer_alive }
    }

    /// Returns a liveness check of the writer: `false` once the writer has died, so that no command can be written.
    pub fn writer_liveness(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let alive = Weak::clone(&self.writer_alive);
        move || alive.strong_count() > 0
    }

    /// Returns a function that returns the number of appends waiting for the writer.
    pub fn writer_queue_length(&self) -> impl Fn() -> usize + Send + Sync + use<> {
        let queue_length = Arc::clone(&self.writer_queue_length);
        move || queue_length()
    }

    /// Stops the actors after the group being written. Blocks.
    pub fn stop(self) {
        drop(self.dispatch);
        self.arbiter.stop();
        if self.arbiter.join().is_err() {
            tracing::error!("actor thread died");
        }
    }
}

fn start_router<D: Aggregate>(arbiter: &Arbiter, deps: &AggregateDeps, options: RouterOptions) -> Addr<Router<D>> {
    let deps = deps.clone();
    Router::start_in_arbiter(&arbiter.handle(), move |_| Router::new(deps, options))
}

impl Dispatch {
    /// Sends a command to a user.
    ///
    /// # Errors
    /// Returns the rejection, or the reason why the command was not executed.
    pub async fn user(
        &self,
        id: UserId,
        command: UserCommand,
        command_context: CommandContext,
    ) -> CommandOutcome<User> {
        send(&self.users, StreamId::from(&id), command, command_context).await
    }

    /// Sends a command to a publisher.
    ///
    /// # Errors
    /// Returns the rejection, or the reason why the command was not executed.
    pub async fn publisher(
        &self,
        id: &PublisherId,
        command: PublisherCommand,
        command_context: CommandContext,
    ) -> CommandOutcome<Publisher> {
        send(&self.publishers, StreamId::from(id), command, command_context).await
    }

    /// Sends a command to a token.
    ///
    /// # Errors
    /// Returns the rejection, or the reason why the command was not executed.
    pub async fn token(
        &self,
        id: TokenId,
        command: TokenCommand,
        command_context: CommandContext,
    ) -> CommandOutcome<Token> {
        send(&self.tokens, StreamId::from(&id), command, command_context).await
    }

    /// Sends a command to a node.
    ///
    /// # Errors
    /// Returns the rejection, or the reason why the command was not executed.
    pub async fn node(
        &self,
        key: &NodeKey,
        command: NodeCommand,
        command_context: CommandContext,
    ) -> CommandOutcome<Node> {
        send(&self.nodes, StreamId::from(key), command, command_context).await
    }

    /// Sends a command to a task.
    ///
    /// # Errors
    /// Returns the rejection, or the reason why the command was not executed.
    pub async fn task(
        &self,
        id: TaskId,
        command: TaskCommand,
        command_context: CommandContext,
    ) -> CommandOutcome<Task> {
        if matches!(command, TaskCommand::Submit(_)) {
            trace::remember_task(id.0);
        }
        send(&self.tasks, StreamId::from(&id), command, command_context).await
    }

    /// Sends a command to a delivery.
    ///
    /// # Errors
    /// Returns the rejection, or the reason why the command was not executed.
    pub async fn delivery(
        &self,
        id: DeliveryId,
        command: DeliveryCommand,
        command_context: CommandContext,
    ) -> CommandOutcome<Delivery> {
        send(&self.deliveries, StreamId::from(&id), command, command_context).await
    }

    /// Sends a command to a budget.
    ///
    /// # Errors
    /// Returns the rejection, or the reason why the command was not executed.
    pub async fn budget(
        &self,
        subject: &BudgetSubject,
        command: BudgetCommand,
        command_context: CommandContext,
    ) -> CommandOutcome<Budget> {
        send(&self.budgets, StreamId::from(subject), command, command_context).await
    }

    /// Waits until all routers have started: before that, their mailboxes have the default capacity of actix.
    async fn await_routers(&self) {
        // An error means that the router died with its arbiter; every command will report that.
        let _ = tokio::join!(
            self.users.send(CountLiveAggregates),
            self.publishers.send(CountLiveAggregates),
            self.tokens.send(CountLiveAggregates),
            self.nodes.send(CountLiveAggregates),
            self.tasks.send(CountLiveAggregates),
            self.deliveries.send(CountLiveAggregates),
            self.budgets.send(CountLiveAggregates),
        );
    }

    /// Returns the number of live publisher actors.
    pub async fn live_publishers(&self) -> usize {
        self.publishers.send(CountLiveAggregates).await.unwrap_or(0)
    }
}

async fn send<D: Aggregate>(
    router: &Addr<Router<D>>,
    stream: StreamId,
    command: D::Command,
    command_context: CommandContext,
) -> CommandOutcome<D> {
    let mut span = trace::child_span(|| format!("append {}", D::KIND.as_str()));
    let (reply, receiver) = oneshot::channel();
    let outcome = match router.try_send(RouteCommand { stream, command, command_context, reply }) {
        Ok(()) => receiver.await.unwrap_or(Err(CommandError::Interrupted)),
        Err(SendError::Full(_)) => Err(CommandError::Overloaded),
        Err(SendError::Closed(_)) => Err(CommandError::Interrupted),
    };

    if let (Some(span), Err(error)) = (&mut span, &outcome) {
        record_error(span, error);
    }

    outcome
}

/// Records in the span why a command had no effect. A rejection is a normal response, not a failure.
fn record_error<R>(span: &mut Span, error: &CommandError<R>) {
    let (outcome, is_failure) = match error {
        CommandError::Rejected(_) => ("rejected", false),
        CommandError::BudgetExceeded(_) => ("budget exceeded", false),
        CommandError::TooLarge { .. } => ("too large", false),
        CommandError::Overtaken => ("overtaken", true),
        CommandError::Overloaded => ("overloaded", true),
        CommandError::Claimed => ("claimed", false),
        CommandError::Full { .. } => ("full", true),
        CommandError::Unreachable { .. } => ("unreachable", true),
        CommandError::OutcomeUnknown { .. } => ("outcome unknown", true),
        CommandError::ReadOnly { .. } => ("read only", true),
        CommandError::Failed { .. } => ("failed", true),
        CommandError::Interrupted => ("interrupted", true),
    };

    span.set_attribute("mediary.outcome", AttributeValue::Text(outcome.to_owned()));
    if is_failure {
        span.set_failure(outcome);
    }
}
