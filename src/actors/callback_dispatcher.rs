//! The dispatcher: sends signed webhooks about changes of tasks and nodes at least once, and those of one task or node
//! in order (contract 8).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use zeroize::Zeroizing;

use super::CommandContext;
use super::concurrency_limit::{AccountConcurrencyLimit, ConcurrencyPermit};
use super::error::CommandError;
use super::reactor::{Reactor, Reschedule, WorkerSlots};
use super::system::Dispatch;
use crate::domain::delivery::{AttemptOutcome, DeliveryCommand};
use crate::domain::ids::{DeliveryId, EventId, TaskId, UserId};
use crate::domain::personal::{PersonalField, PersonalValue};
use crate::domain::task::Gateway;
use crate::domain::value::CallbackUrl;
use crate::domain::video::AttachedDocument;
use crate::domain::webhook_secret;
use crate::environment::Environment;
use crate::events::stream::Position;
use crate::fairness::RoundRobinOrder;
use crate::file_tree::is_unavailable;
use crate::media::store::MediaStore;
use crate::outbound::callback::{CallbackAttempt, CallbackSender};
use crate::pii::Keyring;
use crate::projections::ReadModels;
use crate::projections::delivery::{
    DeliveryQueueId, DeliveryTurn, DueContent, DueDelivery, RegistryEventView, WebhookContent,
};
use crate::projections::task::{CreationsView, ImageTaskView, VideoTaskState};
use crate::telemetry::trace::{AttributeValue, Span, Tracer};

/// Number of due deliveries of one receiver that may exceed a limit before the next receiver gets its turn. Deliveries
/// in progress are not included.
const EXTRA_REJECTIONS_MAX: usize = 16;
/// Pause of a delivery whose attempt could not be started or recorded.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Reactor that sends the webhooks.
#[derive(Clone)]
pub struct CallbackDispatcher {
    dispatch: Dispatch,
    models: ReadModels,
    environment: Environment,
    sender: CallbackSender,
    tracer: Tracer,
    /// Stores the payloads of callers.
    store: MediaStore,
    /// Decrypts the webhook secrets of accounts.
    keyring: Keyring,
    /// Base of the URLs in bodies, without a trailing slash.
    public_url: String,

    account_limit: AccountConcurrencyLimit,
    turns: Arc<Mutex<RoundRobinOrder<DeliveryTurn>>>,
    /// Number of deliveries of one receiver that may be rejected before the next receiver gets its turn.
    rejections_max: usize,
    changes: tokio::sync::watch::Receiver<Position>,
}

/// Dependencies of the dispatcher for sending webhooks.
pub struct CallbackDeps {
    pub sender: CallbackSender,
    /// Records a span for each attempt.
    pub tracer: Tracer,
    /// Stores the payloads of callers.
    pub store: MediaStore,
    /// Decrypts the webhook secrets of accounts.
    pub keyring: Keyring,
    /// Base of the URLs in bodies, without a trailing slash.
    pub public_url: String,
}

/// Maximum numbers of concurrent deliveries.
#[derive(Debug, Clone, Copy)]
pub struct CallbackConcurrency {
    pub per_account: usize,
    pub per_receiver: usize,
}

/// A due delivery with its slot in the owner's concurrency limit.
pub struct DeliveryWork {
    due: DueDelivery,
    _permit: ConcurrencyPermit,
}

/// Request of an attempt.
struct PreparedDelivery {
    url: CallbackUrl,
    body: Vec<u8>,
    /// Signing secrets of the account.
    secrets: Vec<Zeroizing<Vec<u8>>>,
    /// The event that is reported.
    event: EventId,
}

impl CallbackDispatcher {
    /// Returns a dispatcher of the due deliveries in `models`.
    #[must_use]
    pub fn new(
        dispatch: Dispatch,
        models: ReadModels,
        environment: Environment,
        deps: CallbackDeps,
        concurrency: CallbackConcurrency,
    ) -> Self {
        let changes = models.delivery_changes();
        let account_limit = AccountConcurrencyLimit::new(concurrency.per_account);
        let turns = Arc::default();
        let CallbackDeps { sender, tracer, store, keyring, public_url } = deps;

        // Deliveries in progress are still due, and are rejected too.
        let rejections_max = concurrency.per_receiver + EXTRA_REJECTIONS_MAX;

        Self {
            dispatch,
            models,
            environment,
            sender,
            tracer,
            store,
            keyring,
            public_url,
            account_limit,
            turns,
            rejections_max,
            changes,
        }
    }

    async fn attempt(&self, due: &DueDelivery, prepared: PreparedDelivery) -> AttemptOutcome {
        let PreparedDelivery { url, body, secrets, .. } = prepared;
        let webhook_id = due.id.webhook_id();
        let at = self.environment.now();

        let span = match &due.content {
            DueContent::Task(task, _) => self.tracer.start_call_span("POST callback", task.0),
            DueContent::Registry { .. } => None,
        };
        let outcome = self.sender.send(CallbackAttempt { url, webhook_id, body: body.into(), at, secrets }).await;
        if let Some(span) = span {
            end_span(span, &outcome);
        }
        outcome
    }

    /// Returns the request of a delivery; `None` if its content or the key of its account cannot be read now.
    async fn prepare(&self, due: &DueDelivery) -> Option<PreparedDelivery> {
        let secrets = self.secrets_of(due.owner).await?;
        match &due.content {
            DueContent::Task(task, content) => {
                let content = match content {
                    Some(content) => content.clone(),
                    None => self.read_content(due.id, *task).await?,
                };
                let body = self.render_body(*task, &content).await?;
                Some(PreparedDelivery { url: content.url, body, secrets, event: EventId(due.id.0) })
            }
            DueContent::Registry { url, notification } => {
                let body = serde_json::to_vec(&RegistryEventView::new(notification))
                    .expect("a struct of strings and numbers can be written as JSON");
                Some(PreparedDelivery { url: url.clone(), body, secrets, event: notification.event })
            }
        }
    }

    /// Returns the body: for an image task its status view, for a video task its creations view (contract 8). `None` if
    /// the caller's payload cannot be read now.
    async fn render_body(&self, task: TaskId, content: &WebhookContent) -> Option<Vec<u8>> {
        let WebhookContent { subject, change, results, failure, .. } = content;
        let results = results.as_ref();
        let failure = failure.as_ref();
        let json = if subject.gateway == Gateway::Image {
            serde_json::to_vec(&ImageTaskView::new(task, change.to, results, failure, &self.public_url))
        } else {
            let status = change.to;
            let reached = if status.is_terminal() { change.from } else { change.from.max(status) };
            let credits = subject.credits;
            let task_state = VideoTaskState { task, status, reached, credits, results, failure };
            let payload = self.read_payload(subject.payload).await.ok()?;
            serde_json::to_vec(&CreationsView::new(task_state, payload, &self.public_url))
        };

        Some(json.expect("a struct of strings and numbers can be written as JSON"))
    }

    /// Returns the caller's payload unchanged, if it is still stored; an error if the bucket that has it cannot be
    /// used.
    async fn read_payload(&self, payload: Option<AttachedDocument>) -> io::Result<Option<String>> {
        let store = self.store.clone();
        let Some(document) = payload else { return Ok(None) };
        match tokio::task::spawn_blocking(move || store.read_document(&document)).await {
            Ok(Err(error)) if is_unavailable(&error) => Err(error),
            read => Ok(read.ok().and_then(Result::ok)),
        }
    }

    /// Returns the content of a task's delivery from the log.
    async fn read_content(&self, delivery: DeliveryId, task: TaskId) -> Option<WebhookContent> {
        match self.models.delivery_notification(task, delivery).await {
            Ok(Some(notification)) => Some(notification.content),
            Ok(None) => {
                tracing::error!(%delivery, %task, "delivery content missing from the log");
                None
            }
            Err(error) => {
                tracing::warn!(%delivery, %error, "delivery content unreadable");
                None
            }
        }
    }

    /// Returns the account's valid signing secrets, newest first; `None` if the bucket that has the key of the account
    /// cannot be used. A secret that cannot be decrypted does not block the webhook, because the key of the service
    /// always signs it.
    async fn secrets_of(&self, owner: Option<UserId>) -> Option<Vec<Zeroizing<Vec<u8>>>> {
        let Some(owner) = owner else { return Some(Vec::new()) };
        let sealed_secrets: Vec<PersonalValue> = {
            let models = self.models.read();
            let now = self.environment.now();
            models.users.get(owner).map_or_else(Vec::new, |user| user.webhook_secrets.valid_at(now).cloned().collect())
        };

        if sealed_secrets.is_empty() {
            return Some(Vec::new());
        }

        let keyring = self.keyring.clone();
        let decrypting = tokio::task::spawn_blocking(move || decrypt_secrets(&keyring, owner, &sealed_secrets));
        decrypting.await.unwrap_or_else(|_| Some(Vec::new()))
    }
}

/// Returns the secrets that can be decrypted; `None` if the key cannot be fetched now. Blocks.
fn decrypt_secrets(keyring: &Keyring, owner: UserId, sealed: &[PersonalValue]) -> Option<Vec<Zeroizing<Vec<u8>>>> {
    keyring.preload(&keyring.uncached([owner])).ok()?;
    let decrypt = |secret: &PersonalValue| {
        let text = Zeroizing::new(keyring.read(owner, PersonalField::WebhookSecret, secret)?);
        webhook_secret::decode_secret(&text).map(Zeroizing::new)
    };
    Some(sealed.iter().filter_map(decrypt).collect())
}

/// Ends the span of an attempt. It contains neither the URL nor the response, because they are private to the account.
fn end_span(mut span: Span, outcome: &AttemptOutcome) {
    match outcome {
        AttemptOutcome::Answered { status, .. } => {
            span.set_attribute("http.response.status_code", AttributeValue::Number((*status).into()));
            if !(200..300).contains(status) {
                span.set_failure(status.to_string());
            }
        }
        AttemptOutcome::Unreachable { .. } => span.set_failure("unreachable"),
    }
}

impl Reactor for CallbackDispatcher {
    /// One delivery of a task, or of a node to a webhook, at a time.
    type Key = DeliveryQueueId;
    type Work = DeliveryWork;
    const NAME: &'static str = "callback-dispatcher";

    fn due(&self, slots: &mut WorkerSlots<DeliveryQueueId>) -> Vec<(DeliveryQueueId, DeliveryWork)> {
        let mut permits = Vec::new();
        let mut served = Vec::new();
        let share = slots.share().clone();
        let is_own = |queue: &DeliveryQueueId| share.contains(queue.number());
        let try_take = |queue: &DeliveryQueueId, owner: Option<UserId>, receiver: &str| {
            let permit = self.account_limit.try_acquire(owner);
            let Some(permit) = permit.filter(|_| slots.try_reserve(queue, receiver)) else { return false };
            permits.push(permit);
            served.push((receiver.into(), owner));
            true
        };

        let now = self.environment.now();
        let mut turns = self.turns.lock();
        let due = self.models.read().deliveries.due(now, &turns, self.rejections_max, is_own, try_take);
        for turn in served {
            turns.record_served(turn);
        }

        let with_permits = due.into_iter().zip(permits);
        with_permits.map(|(due, permit)| (due.queue.clone(), DeliveryWork { due, _permit: permit })).collect()
    }

    async fn act(&self, DeliveryWork { due, _permit }: DeliveryWork) -> Reschedule {
        let Some(prepared) = self.prepare(&due).await else { return Reschedule::After(RETRY_PAUSE) };
        let causation = Some(prepared.event);
        let outcome = self.attempt(&due, prepared).await;

        let DueDelivery { id, queue, .. } = due;
        let subject = queue.subject();
        let jitter = self.environment.random_f64();
        let command = DeliveryCommand::RecordAttempt { delivery: id, subject, outcome, jitter };
        let at = self.environment.now();
        let command_context = CommandContext::from_system(causation, at);

        match self.dispatch.delivery(id, command, command_context).await {
            Ok(_) | Err(CommandError::Rejected(_)) => Reschedule::WhenDue,
            Err(error) => {
                tracing::warn!(delivery = %id, %error, "attempt not recorded, webhook will be resent");
                Reschedule::After(RETRY_PAUSE)
            }
        }
    }

    async fn changed(&mut self) -> Vec<String> {
        // An error means that the read models were dropped: the service is stopping.
        let _ = self.changes.changed().await;
        Vec::new()
    }
}
