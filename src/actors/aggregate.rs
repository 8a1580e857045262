//! The aggregate actor: holds the state of one stream and executes one command at a time, from load to reply.
//!
//! The handler returns an [`AtomicResponse`], which keeps the mailbox closed until the command is done. With a
//! `ResponseActFuture`, the next command could decide and append in between (ADR 4).

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::oneshot;

use super::error::CommandError;
use super::writer::{AppendError, EventWriter};
use crate::domain::claim::ClaimEvent;
use crate::domain::decider::Decider;
use crate::domain::event::{Aggregate, Event};
use crate::domain::ids::EventId;
use crate::environment::{Environment, FailPoint};
use crate::events::envelope::{Append, CommandClaim, CommandContext, Commit, NewEvent, RecordedEvent};
use crate::events::log::{AppendRejection, EventLog, LogFailure};
use crate::events::stream::{StreamId, Version};
use crate::projections::ReadModels;

/// Maximum number of times that a command is decided again because another node appended first.
const OVERTAKEN_RETRIES: u32 = 8;
/// Maximum pause before a retry. The pause is random, so that two nodes do not collide repeatedly.
const RETRY_DELAY_MAX: Duration = Duration::from_millis(20);

/// Result of an executed command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandEffect {
    /// `false` if the state was already as requested, or the command had been executed before (ADR 6).
    pub changed: bool,
    /// First event that the command recorded.
    pub event: Option<EventId>,
}

/// Reply to a command.
pub type CommandOutcome<D> = Result<CommandEffect, CommandError<<D as Decider>::Rejection>>;

/// Dependencies of every aggregate. Cheap to clone.
#[derive(Clone)]
pub struct AggregateDeps {
    pub log: Arc<dyn EventLog>,
    pub writer: EventWriter,
    /// Contains the claimed idempotency keys.
    pub models: ReadModels,
    pub environment: Environment,
}

/// A command on its way to its aggregate.
pub struct Execute<D: Aggregate> {
    pub command: D::Command,
    pub command_context: CommandContext,
    /// Dropped without a reply if the actor dies.
    pub reply: oneshot::Sender<CommandOutcome<D>>,
    /// Held while the command waits or runs, so that the router does not passivate the actor.
    pub busy: Arc<()>,
}

impl<D: Aggregate> Message for Execute<D> {
    type Result = ();
}

/// The only live actor of a stream.
pub struct AggregateActor<D: Aggregate> {
    stream: StreamId,
    deps: AggregateDeps,
    mailbox_capacity: usize,
    /// `None` before the first command and after a failure; the next command then replays the stream.
    loaded: Option<LoadedState<D>>,
}

impl<D: Aggregate> AggregateActor<D> {
    /// Creates an actor that has not loaded its stream yet. At most `mailbox_capacity` commands wait for it.
    #[must_use]
    pub fn new(stream: StreamId, deps: AggregateDeps, mailbox_capacity: usize) -> Self {
        Self { stream, deps, mailbox_capacity, loaded: None }
    }
}

impl<D: Aggregate> Actor for AggregateActor<D> {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        context.set_mailbox_capacity(self.mailbox_capacity);
    }
}

impl<D: Aggregate> Handler<Execute<D>> for AggregateActor<D> {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, message: Execute<D>, _: &mut Context<Self>) -> Self::Result {
        let Execute { command, command_context, reply, busy } = message;
        let loaded = self.loaded.take();
        let stream = self.stream.clone();
        let deps = self.deps.clone();
        let work = async move {
            let (loaded, outcome) = execute(loaded, stream, &deps, command, command_context).await;
            // The caller may be gone; the command takes effect nevertheless.
            let _ = reply.send(outcome);
            drop(busy);
            loaded
        };
        AtomicResponse::new(Box::pin(work.into_actor(self).map(|loaded, actor, _| actor.loaded = loaded)))
    }
}

/// State of a stream in memory.
struct LoadedState<D: Aggregate> {
    state: D::State,
    version: Version,
}

impl<D: Aggregate> LoadedState<D> {
    fn evolve(&mut self, events: &[RecordedEvent]) {
        for recorded in events {
            if let Some(event) = recorded.event.downcast() {
                D::evolve(&mut self.state, event, recorded.at);
            }
            self.version = recorded.version;
        }
    }
}

/// Executes one command, from load to reply. Returns the state unless it may differ from the log.
///
/// Another node may append to a shared log between the decision and the append. Then the command is decided again.
async fn execute<D: Aggregate>(
    mut loaded: Option<LoadedState<D>>,
    stream: StreamId,
    deps: &AggregateDeps,
    command: D::Command,
    command_context: CommandContext,
) -> (Option<LoadedState<D>>, CommandOutcome<D>) {
    if deps.log.is_shared() {
        for _ in 0..OVERTAKEN_RETRIES {
            let attempt = try_execute(loaded, &stream, deps, command.clone(), command_context.clone()).await;
            let (still_loaded, Err(CommandError::Overtaken)) = attempt else { return attempt };
            loaded = still_loaded;
            tokio::time::sleep(RETRY_DELAY_MAX.mul_f64(deps.environment.random_f64())).await;
        }
    }

    try_execute(loaded, &stream, deps, command, command_context).await
}

/// State of the idempotency key of a command.
enum ClaimState {
    /// The command has no key, or has not run.
    Free,
    /// The command ran before.
    Ran,
    /// Another node runs the request, with other ids.
    OfAnotherNode,
}

/// Looks up the idempotency key of a command among the claimed keys.
fn claim_state(models: &ReadModels, context: &CommandContext) -> ClaimState {
    let Some(CommandClaim { claim, first_run_at }) = &context.claim else { return ClaimState::Free };
    let claims = &models.read().claims;
    match claims.get(&claim.key, context.at) {
        Some(held) if held.at != *first_run_at => ClaimState::OfAnotherNode,
        Some(_) if claims.contains(claim, context.at) => ClaimState::Ran,
        _ => ClaimState::Free,
    }
}

/// Makes one attempt to execute a command. Returns the state unless it may differ from the log.
async fn try_execute<D: Aggregate>(
    loaded: Option<LoadedState<D>>,
    stream: &StreamId,
    deps: &AggregateDeps,
    command: D::Command,
    command_context: CommandContext,
) -> (Option<LoadedState<D>>, CommandOutcome<D>) {
    match claim_state(&deps.models, &command_context) {
        ClaimState::Free => {}
        ClaimState::Ran => return (loaded, Ok(CommandEffect { changed: false, event: None })),
        ClaimState::OfAnotherNode => return (loaded, Err(CommandError::Claimed)),
    }

    let mut loaded = match load(loaded, stream, deps).await {
        Ok(loaded) => loaded,
        Err(failure) => return (None, Err(failure.into())),
    };

    deps.environment.hit(FailPoint::Decide, stream.as_str());
    let events = match D::decide(&loaded.state, command, command_context.at) {
        // With a key, the claim is appended even if there is no other event.
        Ok(events) if events.is_empty() && command_context.claim.is_none() => {
            return (Some(loaded), Ok(CommandEffect { changed: false, event: None }));
        }
        Ok(events) => events,
        Err(rejection) => return (Some(loaded), Err(CommandError::Rejected(rejection))),
    };

    let changed = !events.is_empty();
    deps.environment.hit(FailPoint::Append, stream.as_str());

    match append::<D>(stream.clone(), loaded.version, deps, events, command_context).await {
        Ok(commit) => {
            loaded.evolve(&commit);
            // If nothing changed, the commit contains only the claim.
            let event = if changed { commit.first().map(|recorded| recorded.id) } else { None };
            (Some(loaded), Ok(CommandEffect { changed, event }))
        }
        Err(error) => (loaded.keep_after_error(&error), Err(error.into())),
    }
}

impl<D: Aggregate> LoadedState<D> {
    /// Returns the state if it still matches the log after `error`.
    fn keep_after_error(self, error: &AppendError) -> Option<Self> {
        match error {
            AppendError::Overloaded
            | AppendError::CrossStreamConflict
            | AppendError::BudgetExceeded(_)
            | AppendError::Refused(AppendRejection::TooLarge { .. })
            | AppendError::Log(LogFailure::Full { .. }) => Some(self),
            AppendError::Refused(
                AppendRejection::Conflict { .. } | AppendRejection::Claimed | AppendRejection::Overtaken { .. },
            )
            | AppendError::Log(_)
            | AppendError::Interrupted => None,
        }
    }
}

/// Returns the state with all events that this node knows; reads those that `loaded` lacks from the log.
async fn load<D: Aggregate>(
    loaded: Option<LoadedState<D>>,
    stream: &StreamId,
    deps: &AggregateDeps,
) -> Result<LoadedState<D>, LogFailure> {
    let mut loaded = match loaded {
        // No other node appends to an embedded log.
        Some(loaded) if !deps.log.is_shared() => return Ok(loaded),
        Some(loaded) if loaded.version.0 >= deps.models.read().streams.get(stream.into()) => return Ok(loaded),
        Some(loaded) => loaded,
        None => LoadedState { state: D::State::default(), version: Version(0) },
    };

    let log = Arc::clone(&deps.log);
    let stream = stream.clone();
    let version = loaded.version;
    let read = tokio::task::spawn_blocking(move || log.read_stream(&stream, version));
    let history = read
        .await
        .map_err(|error| LogFailure::Storage { doing: "read a stream".to_owned(), reason: error.to_string() })??;
    loaded.evolve(&history);
    Ok(loaded)
}

/// Appends the events, and the claim of the idempotency key if the command has one.
async fn append<D: Aggregate>(
    stream: StreamId,
    expected: Version,
    deps: &AggregateDeps,
    events: Vec<D::Event>,
    context: CommandContext,
) -> Result<Commit, AppendError> {
    let new_event = |event: Event| NewEvent { id: EventId(deps.environment.uuid()), event };
    // Part of the same commit, so that neither the command nor its claim exists without the other.
    let claim = context.claim.map(|claim| ClaimEvent::KeyClaimed(claim.claim).into());
    let events = events.into_iter().map(D::Event::into).chain(claim).map(new_event).collect();
    deps.writer.append(Append { stream, expected, context, events, guards: Vec::new() }).await
}

impl<R> From<AppendError> for CommandError<R> {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Overloaded | AppendError::CrossStreamConflict => Self::Overloaded,
            AppendError::Refused(AppendRejection::Conflict { .. } | AppendRejection::Overtaken { .. }) => {
                Self::Overtaken
            }
            AppendError::Refused(AppendRejection::Claimed) => Self::Claimed,
            AppendError::BudgetExceeded(exceeded) => Self::BudgetExceeded(exceeded),
            AppendError::Refused(AppendRejection::TooLarge { bytes }) => Self::TooLarge { bytes },
            AppendError::Log(failure) => failure.into(),
            AppendError::Interrupted => Self::Interrupted,
        }
    }
}
