//! The dispatcher: sends signed webhooks about task changes, in order per task, at least once (contract 8).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use zeroize::Zeroizing;

use super::CommandContext;
use super::error::CommandError;
use super::reactor::{Hands, Next, Reactor};
use super::shares::{Share, Shares};
use super::system::Dispatch;
use crate::clock::Surroundings;
use crate::domain::delivery::{AttemptOutcome, DeliveryCommand};
use crate::domain::ids::{EventId, TaskId, UserId};
use crate::domain::personal::{Personal, PersonalField};
use crate::domain::task::{Gateway, TaskStatus};
use crate::domain::video::Document;
use crate::domain::webhook_secret;
use crate::events::stream::Position;
use crate::fairness::Turns;
use crate::media::store::Store;
use crate::outbound::callback::{Callback, CallbackSender};
use crate::personal::Keyring;
use crate::projections::ReadModels;
use crate::projections::delivery::{Content, DeliveryTurn, Due};
use crate::projections::task::{CreationsView, ImageTaskView, VideoMoment};
use crate::telemetry::trace::{Span, Tracer, Value};

/// Rejected offers to one receiver, beyond those already in progress, after which the next receiver gets its turn.
const REFUSALS_MAX: usize = 16;
/// Pause of a delivery whose attempt could not be made or recorded.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Reactor that makes the deliveries.
#[derive(Clone)]
pub struct CallbackDispatcher {
    dispatch: Dispatch,
    models: ReadModels,
    surroundings: Surroundings,
    sender: CallbackSender,
    tracer: Tracer,
    /// Stores the payloads of callers.
    store: Store,
    /// Opens the webhook secrets of accounts.
    keyring: Keyring,
    /// Base of the URLs in bodies, without a trailing slash.
    public_url: String,
    shares: Shares,
    turns: Arc<Mutex<Turns<DeliveryTurn>>>,
    /// Rejected offers to one receiver after which the next one gets its turn.
    refusals_max: usize,
    changes: tokio::sync::watch::Receiver<Position>,
}

/// Dependencies of the dispatcher for sending webhooks.
pub struct Telling {
    pub sender: CallbackSender,
    /// Records a span for each attempt.
    pub tracer: Tracer,
    /// Stores the payloads of callers.
    pub store: Store,
    /// Opens the webhook secrets of accounts.
    pub keyring: Keyring,
    /// Base of the URLs in bodies, without a trailing slash.
    pub public_url: String,
}

/// Returns the status as far as progress is concerned: a terminal status shows none.
fn in_sight(status: TaskStatus) -> TaskStatus {
    if status.is_terminal() { TaskStatus::Created } else { status }
}

/// A due delivery with its slot in the owner's concurrency limit.
pub struct Work {
    due: Due,
    _share: Share,
}

impl CallbackDispatcher {
    /// Returns a dispatcher of the due deliveries in `models`, with at most `per_account` concurrent deliveries per
    /// account and `per_receiver` per receiver.
    #[must_use]
    pub fn new(
        dispatch: Dispatch,
        models: ReadModels,
        surroundings: Surroundings,
        telling: Telling,
        (per_account, per_receiver): (usize, usize),
    ) -> Self {
        let changes = models.delivery_changes();
        let shares = Shares::new(per_account);
        let Telling { sender, tracer, store, keyring, public_url } = telling;

        // Offers of work in progress are rejected too.
        let turns = Arc::default();
        let refusals_max = per_receiver + REFUSALS_MAX;

        Self {
            dispatch,
            models,
            surroundings,
            sender,
            tracer,
            store,
            keyring,
            public_url,
            shares,
            turns,
            refusals_max,
            changes,
        }
    }

    async fn attempt(&self, due: &Due, content: Content) -> AttemptOutcome {
        let body = self.body_of(due.task, &content).await;
        let url = content.url;
        let webhook_id = due.id.webhook_id();
        let secrets = self.secrets_of(due.owner).await;
        let at = self.surroundings.now();
        let span = self.tracer.call("POST callback", due.task.0);
        let outcome = self.sender.send(Callback { url, webhook_id, body: body.into(), at, secrets }).await;
        if let Some(span) = span {
            end(span, &outcome);
        }
        outcome
    }

    /// Returns the body: for an image task its status view, for a video task its creations view (contract 8).
    async fn body_of(&self, task: TaskId, content: &Content) -> Vec<u8> {
        let Content { subject, change, results, failure, .. } = content;
        let results = results.as_ref();
        let failure = failure.as_ref();
        let written = if subject.gateway == Gateway::Image {
            serde_json::to_vec(&ImageTaskView::new(task, change.to, results, failure, &self.public_url))
        } else {
            let status = change.to;
            let reached = change.from;
            let credits = subject.credits;
            let moment =
                VideoMoment { task, status, reached: reached.max(in_sight(status)), credits, results, failure };
            serde_json::to_vec(&CreationsView::new(moment, self.payload(subject.payload).await, &self.public_url))
        };

        written.expect("a struct of strings and numbers can be written as JSON")
    }

    /// Returns the caller's payload unchanged, if it is still stored.
    async fn payload(&self, payload: Option<Document>) -> Option<String> {
        let store = self.store.clone();
        let document = payload?;
        tokio::task::spawn_blocking(move || store.read_document(&document).ok()).await.ok().flatten()
    }

    /// Returns the content from memory, or, after a failed attempt, from the log.
    async fn content_of(&self, due: &Due) -> Option<Content> {
        if let Some(content) = &due.content {
            return Some(content.clone());
        }

        match self.models.announcement(due.task, due.id).await {
            Ok(Some(told)) => Some(told.content),
            Ok(None) => {
                tracing::error!(delivery = %due.id, task = %due.task, "the log does not say what is to be told");
                None
            }
            Err(error) => {
                tracing::warn!(delivery = %due.id, %error, "what is to be told could not be read");
                None
            }
        }
    }

    /// Returns the account's valid signing secrets, newest first. A secret that cannot be opened does not block the
    /// webhook, because the key of the service always signs it.
    async fn secrets_of(&self, owner: Option<UserId>) -> Vec<Zeroizing<Vec<u8>>> {
        let Some(owner) = owner else { return Vec::new() };
        let sealed: Vec<Personal> = {
            let models = self.models.read();
            let now = self.surroundings.now();
            models.users.get(owner).map_or_else(Vec::new, |user| user.webhook_secrets.valid(now).cloned().collect())
        };

        if sealed.is_empty() {
            return Vec::new();
        }

        let keyring = self.keyring.clone();
        let opening = move || {
            let open = |secret| keyring.read(owner, PersonalField::WebhookSecret, secret).map(Zeroizing::new);
            let bytes = |text: Zeroizing<String>| webhook_secret::bytes_of(&text).map(Zeroizing::new);
            sealed.iter().filter_map(|secret| open(secret).and_then(bytes)).collect()
        };

        tokio::task::spawn_blocking(opening).await.unwrap_or_default()
    }
}

/// Ends the span of an attempt. It contains neither the URL nor the response, because they are private to the account.
fn end(mut span: Span, outcome: &AttemptOutcome) {
    match outcome {
        AttemptOutcome::Answered { status, .. } => {
            span.note("http.response.status_code", Value::Number((*status).into()));
            if !(200..300).contains(status) {
                span.fail(status.to_string());
            }
        }
        AttemptOutcome::Unreachable { .. } => span.fail("unreachable"),
    }
}

impl Reactor for CallbackDispatcher {
    /// One delivery of a task at a time.
    type Key = TaskId;
    type Work = Work;
    const NAME: &'static str = "callback-dispatcher";

    fn due(&self, hands: &mut Hands<TaskId>) -> Vec<(TaskId, Work)> {
        let mut shares = Vec::new();
        let mut served = Vec::new();
        let mut turns = self.turns.lock();
        let now = self.surroundings.now();
        let due = self.models.read().deliveries.due(now, &turns, self.refusals_max, |task, owner, lane| {
            let Some(share) = self.shares.take(owner).filter(|_| hands.take(&task, lane)) else { return false };
            shares.push(share);
            served.push((lane.into(), owner));
            true
        });

        for turn in served {
            turns.serve(turn);
        }

        due.into_iter().zip(shares).map(|(due, share)| (due.task, Work { due, _share: share })).collect()
    }

    async fn act(&self, Work { due, _share }: Work) -> Next {
        let Some(content) = self.content_of(&due).await else { return Next::After(RETRY_PAUSE) };
        let outcome = self.attempt(&due, content).await;
        let Due { id, task, .. } = due;
        let command = DeliveryCommand::RecordAttempt { delivery: id, task, outcome, chance: self.surroundings.ratio() };
        let causation = Some(EventId(id.0));
        let at = self.surroundings.now();
        let why = CommandContext::from_system(causation, at);

        match self.dispatch.delivery(id, command, why).await {
            Ok(_) | Err(CommandError::Rejected(_)) => Next::WhenDue,
            Err(error) => {
                tracing::warn!(delivery = %id, %error, "could not record an attempt; the receiver will hear of it again");
                Next::After(RETRY_PAUSE)
            }
        }
    }

    async fn changed(&mut self) -> bool {
        // An error means that the read models were dropped: the service is stopping.
        let _ = self.changes.changed().await;
        false
    }
}
