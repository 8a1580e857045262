//! Idempotency keys (contract 2, ADR 6): a repeated request with the same key is not executed again and gets the stored
//! response. Applies to every POST and PUT whose body is buffered. The handlers of streamed uploads compare a repeated
//! upload with the stored file instead; GET and DELETE ignore the header.
//!
//! ```text
//! claimed in the log?  response stored?
//!        no               no          new request: execute it, store the response
//!        –                yes         replay the response; 422 if the key was used for another request
//!        yes              no          crash in between: run the handler again, skip its recorded commands
//!         –         all but the body   too large to store: rebuild the response, by a handler that changes nothing
//!
//! – means either
//! ```
//!
//! Responses that are streamed while they are produced are not stored ([`RebuiltOnReplay`]; ADR 18).

mod buffered_body;
mod idempotent_request;
mod response_store;
mod stored_response;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::{HttpResponse, rt, web};
use parking_lot::Mutex;

use self::buffered_body::buffer_body;
use self::response_store::{PurgeEpoch, RequestKind, ResponseStore};
use self::stored_response::StoredResponse;
use crate::actors::CommandClaim;
use crate::data_dir::DataDir;
use crate::domain::claim::{IdempotencyClaim, RETENTION};
use crate::domain::value::{Digest, Timestamp};
use crate::environment::Environment;
use crate::http::response::error::{Code, Problem};
use crate::http::server::Services;

pub use self::idempotent_request::{IdempotentRequest, parse_key};
pub use self::response_store::ResponseStoreError;
pub use self::stored_response::{STORED_BODY_MAX, STORED_ERROR_STATUSES};

/// `true` on a replayed response.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Interval between sweeps of expired responses.
const SWEEP_INTERVAL: Duration = Duration::from_hours(1);

/// Idempotency keys in use, and the stored responses. Cheap to clone.
#[derive(Clone)]
pub struct IdempotencyKeys(Arc<IdempotencyState>);

struct IdempotencyState {
    store: ResponseStore,
    /// Keys of running requests, with the fingerprints of the requests.
    in_flight: Mutex<HashMap<Digest, Digest>>,
}

/// Response extension of long streamed responses: they are not stored. On a replay the handler rebuilds the response or
/// reports why it cannot.
#[derive(Debug, Clone, Copy)]
pub struct RebuiltOnReplay;

/// Outcome of [`IdempotencyKeys::start`].
pub enum IdempotencyOutcome {
    /// Replay the stored response.
    Replay(HttpResponse),
    /// Run the handler.
    Run(InFlightRequest, Box<IdempotentContext>),
}

impl IdempotencyKeys {
    /// Opens the response store of a data directory, and its secret.
    ///
    /// # Errors
    /// `ResponseStoreError` if the store cannot be used.
    pub fn open(data: &DataDir, environment: &Environment) -> Result<Self, ResponseStoreError> {
        let store = ResponseStore::open(data, environment)?;
        Ok(Self(Arc::new(IdempotencyState { store, in_flight: Mutex::default() })))
    }

    /// Looks up the stored response of a request. Without one, the request gets the exclusive right to run.
    ///
    /// # Errors
    /// 409 while another request with this key is running; 422 if the key was used for another request.
    pub async fn start(&self, request: IdempotentRequest, services: &Services) -> Result<IdempotencyOutcome, Problem> {
        let key_lock = self.lock_key(&request)?;
        // Read the epoch before any data that the response may contain.
        let epoch = self.0.store.epoch();
        let now = services.environment.now();

        let recorded_claim = services.models.read().claims.get(&request.id, now).cloned();

        let inner = Arc::clone(&self.0);
        let lookup = request.clone();
        let stored = web::block(move || inner.store.read(&lookup)).await.map_err(Problem::internal)?;
        let stored = stored.filter(|stored| now < stored.at.saturating_add(RETENTION));

        let fingerprints =
            [recorded_claim.as_ref().map(|claim| claim.fingerprint), stored.as_ref().map(|stored| stored.fingerprint)];
        if fingerprints.into_iter().flatten().any(|fingerprint| fingerprint != request.fingerprint) {
            return Err(key_reused());
        }

        let is_rerun = recorded_claim.is_some() || stored.is_some();
        if let Some(response) = stored.and_then(StoredResponse::into_response) {
            return Ok(IdempotencyOutcome::Replay(mark_replayed(response)));
        }

        let first_run_at = recorded_claim.as_ref().map_or(now, |claim| claim.at);
        let claim = IdempotencyClaim { key: request.id, fingerprint: request.fingerprint, command_index: 0 };
        let claim = CommandClaim { claim, first_run_at };
        let environment = services.environment.with_seed(self.0.store.seed(&request, first_run_at));
        let services = Services { environment, ..services.clone() };
        let in_flight = InFlightRequest { key_lock, request, first_run_at, is_rerun, epoch };
        Ok(IdempotencyOutcome::Run(
            in_flight,
            Box::new(IdempotentContext { services, claim, at: now, commands: Cell::new(0) }),
        ))
    }

    fn lock_key(&self, request: &IdempotentRequest) -> Result<IdempotencyKeyLock, Problem> {
        let mut in_flight = self.0.in_flight.lock();
        match in_flight.get(&request.id) {
            Some(fingerprint) if *fingerprint == request.fingerprint => Err(key_in_use()),
            Some(_) => Err(key_reused()),
            None => {
                in_flight.insert(request.id, request.fingerprint);
                Ok(IdempotencyKeyLock { keys: self.clone(), id: request.id })
            }
        }
    }

    /// Deletes the stored responses that may contain personal data: those to requests with commands, which are rebuilt
    /// on replay. Responses to requests that are still running will not be stored. Blocks.
    ///
    /// # Errors
    /// If a response could not be deleted durably.
    pub fn purge_responses(&self) -> std::io::Result<()> {
        self.0.store.purge()
    }

    /// Deletes expired responses, now and every hour, until the service has stopped. Requires the runtime of a server.
    pub fn spawn_sweeper(&self, environment: Environment) {
        let keys = Arc::downgrade(&self.0);
        rt::spawn(async move {
            while let Some(inner) = keys.upgrade() {
                let now = environment.now();
                // Fails only while the service is stopping.
                let _ = web::block(move || inner.store.sweep(now)).await;
                rt::time::sleep(SWEEP_INTERVAL).await;
            }
        });
    }
}

/// Lock on a key; released on drop.
struct IdempotencyKeyLock {
    keys: IdempotencyKeys,
    id: Digest,
}

impl Drop for IdempotencyKeyLock {
    fn drop(&mut self) {
        self.keys.0.in_flight.lock().remove(&self.id);
    }
}

/// Dependencies of a request with a key. Random numbers are derived from the key, so that a second run produces the
/// same ids and secrets, and the commands claim the key.
pub struct IdempotentContext {
    services: Services,
    claim: CommandClaim,
    /// Start time of the request.
    at: Timestamp,
    /// Number of commands so far.
    commands: Cell<u16>,
}

impl IdempotentContext {
    /// Returns the dependencies, with random numbers derived from the key.
    #[must_use]
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// Returns the start time of the request. All its commands use it, so that the key cannot expire between them.
    #[must_use]
    pub fn started_at(&self) -> Timestamp {
        self.at
    }

    /// Returns the claim of the next command of the request and counts the command.
    #[must_use]
    pub fn next_claim(&self) -> CommandClaim {
        let command_index = self.commands.replace(self.commands.get().saturating_add(1));
        CommandClaim { claim: IdempotencyClaim { command_index, ..self.claim.claim }, ..self.claim }
    }
}

/// Exclusive right to run a request, until its response is stored.
pub struct InFlightRequest {
    key_lock: IdempotencyKeyLock,
    request: IdempotentRequest,
    /// Time of the first execution of the request.
    first_run_at: Timestamp,
    /// `true` if an earlier run recorded commands or a response.
    is_rerun: bool,
    /// Number of purges of stored responses before the request began.
    epoch: PurgeEpoch,
}

impl InFlightRequest {
    /// Stores the response if it is final, and returns it for sending.
    pub async fn finish(self, response: HttpResponse, services: &Services) -> HttpResponse {
        let claimed_at = services.models.read().claims.get(&self.request.id, self.first_run_at).map(|claim| claim.at);
        if claimed_at.is_some_and(|at| at != self.first_run_at) {
            // Another node of the cluster runs the request, so this response may have other ids than that node's.
            return key_in_use().to_response("");
        }
        let is_rebuilt = response.extensions().contains::<RebuiltOnReplay>();
        if is_rebuilt {
            return if self.is_rerun && response.status().is_success() { mark_replayed(response) } else { response };
        }

        let (head, body) = response.into_parts();
        let Self { key_lock, request, first_run_at, is_rerun, epoch } = self;
        let (body, full_body) = buffer_body(body).await;
        let stored = match full_body {
            Some(full_body) => StoredResponse::new(first_run_at, request.fingerprint, &head, full_body, is_rerun),
            None => Some(StoredResponse::without_response(first_run_at, request.fingerprint)),
        };

        // While the disk is full the response is not stored; a replay rebuilds it, and the claim in the log prevents a
        // second execution.
        if let Some(stored) = stored.filter(|_| services.space.check().is_ok()) {
            let has_commands = services.models.read().claims.get(&request.id, first_run_at).is_some();
            let kind = if has_commands { RequestKind::WithCommands } else { RequestKind::WithoutCommands };
            let nonce = services.environment.random_bytes();
            let write = move || key_lock.keys.0.store.write(&request, &stored, nonce, kind, epoch);
            if let Err(error) = web::block(write).await.map_err(std::io::Error::other).flatten()
                && services.space.to_disk_full(&error).is_none()
            {
                tracing::warn!(%error, "response not stored for its idempotency key");
            }
        }

        let response = head.set_body(body);
        if is_rerun && response.status().is_success() { mark_replayed(response) } else { response }
    }
}

fn mark_replayed(mut response: HttpResponse) -> HttpResponse {
    response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    response
}

fn key_in_use() -> Problem {
    let detail = "a request with this Idempotency-Key is in progress; retry to get its response";
    Problem::new(Code::IdempotencyKeyInUse, detail).retry_after(1)
}

/// Returns the error for a key that was used for another request.
pub fn key_reused() -> Problem {
    let detail = "this Idempotency-Key was used for another request in the last 24 hours; use a new key";
    Problem::new(Code::IdempotencyKeyReused, detail)
}
