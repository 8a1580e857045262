//! Idempotency keys (contract 2, ADR 6): a repeated request with the same key is not executed again and gets the stored
//! response. Applies to every POST and PUT whose body is buffered; other routes ignore the header.
//!
//! ```text
//! claimed in the log?  response stored?
//!        no               no          new request: execute it, store the response
//!        –                yes         replay the response; 422 if the key was used for another request
//!        yes              no          crash in between: run the handler again, skip its recorded commands
//!         –         all but the body   too large to store: rebuild the response, by a handler that changes nothing
//! ```
//!
//! Nothing is stored of a response that is streamed while it is produced ([`MadeAgain`]; ADR 18).

mod asked;
mod gathered;
mod kept;
mod vault;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::{HttpResponse, rt, web};
use parking_lot::Mutex;

use self::gathered::gathered;
use self::kept::Kept;
use self::vault::{Epoch, Vault};
use super::error::{Code, Problem};
use super::server::Services;
use crate::clock::Surroundings;
use crate::data_dir::DataDir;
use crate::domain::claim::{Claim, KEPT};
use crate::domain::value::{Digest, Timestamp};

pub use self::asked::{Asked, key_in};
pub use self::kept::{ANSWER_MAX, REFUSALS_KEPT};
pub use self::vault::VaultFailure;

/// `true` on a replayed response.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Interval between sweeps of expired responses.
const SWEPT_EVERY: Duration = Duration::from_hours(1);

/// Idempotency keys in use, and the stored responses. Cheap to clone.
#[derive(Clone)]
pub struct Keys(Arc<Inner>);

struct Inner {
    vault: Vault,
    /// Keys of running requests, with the fingerprints of the requests.
    in_flight: Mutex<HashMap<Digest, Digest>>,
}

/// Response extension of long streamed responses: they are not stored. On a replay the handler rebuilds the response or
/// reports why it cannot.
#[derive(Debug, Clone, Copy)]
pub struct MadeAgain;

/// Outcome of [`Keys::begin`].
pub enum Begun {
    /// Replay the stored response.
    Replay(HttpResponse),
    /// Run the handler.
    Run(Turn, Box<Keyed>),
}

impl Keys {
    /// Opens the response store of a data directory, and its secret.
    ///
    /// # Errors
    /// `VaultFailure` if the store cannot be used.
    pub fn open(data: &DataDir, surroundings: &Surroundings) -> Result<Self, VaultFailure> {
        let vault = Vault::open(data, surroundings)?;
        Ok(Self(Arc::new(Inner { vault, in_flight: Mutex::default() })))
    }

    /// Looks up the stored response of a request. Without one, the request gets the exclusive right to run.
    ///
    /// # Errors
    /// 409 while another request with this key is running; 422 if the key was used for another request.
    pub async fn begin(&self, asked: Asked, services: &Services) -> Result<Begun, Problem> {
        let hold = self.hold(&asked)?;
        // Before reading any data that the response may contain.
        let begun = self.0.vault.epoch();
        let now = services.surroundings.now();

        let claimed = services.models.read().claims.get(&asked.id, now).cloned();

        let inner = Arc::clone(&self.0);
        let sought = asked.clone();
        let kept = web::block(move || inner.vault.read(&sought)).await.map_err(Problem::internal)?;
        let kept = kept.filter(|kept| now < kept.at.after(KEPT));

        let before = [claimed.as_ref().map(|claimed| claimed.fingerprint), kept.as_ref().map(|kept| kept.fingerprint)];
        if before.into_iter().flatten().any(|fingerprint| fingerprint != asked.fingerprint) {
            return Err(reused());
        }

        let again = claimed.is_some() || kept.is_some();
        if let Some(answer) = kept.and_then(Kept::respond) {
            return Ok(Begun::Replay(marked(answer)));
        }

        let first = claimed.as_ref().map_or(now, |claimed| claimed.at);
        let claim = Claim { key: asked.id, fingerprint: asked.fingerprint, nth: 0 };
        let chance = services.surroundings.seeded(self.0.vault.seed(&asked, first));
        let own = Services { surroundings: chance, ..services.clone() };
        let turn = Turn { hold, asked, first, again, begun };
        Ok(Begun::Run(turn, Box::new(Keyed { services: own, claim, at: now, commands: Cell::new(0) })))
    }

    fn hold(&self, asked: &Asked) -> Result<Hold, Problem> {
        let mut in_flight = self.0.in_flight.lock();
        match in_flight.get(&asked.id) {
            Some(fingerprint) if *fingerprint == asked.fingerprint => Err(in_use()),
            Some(_) => Err(reused()),
            None => {
                in_flight.insert(asked.id, asked.fingerprint);
                Ok(Hold { keys: self.clone(), id: asked.id })
            }
        }
    }

    /// Deletes the stored responses that may contain personal data: those to requests with commands, which are rebuilt
    /// on replay. No response of a running request is stored either. Blocks.
    ///
    /// # Errors
    /// If a response could not be deleted durably.
    pub fn forget_answers(&self) -> std::io::Result<()> {
        self.0.vault.forget()
    }

    /// Deletes expired responses, now and every hour, until the service has stopped. Requires the runtime of a server.
    pub fn keep_swept(&self, surroundings: Surroundings) {
        let keys = Arc::downgrade(&self.0);
        rt::spawn(async move {
            while let Some(inner) = keys.upgrade() {
                let now = surroundings.now();
                // Fails only while the service is stopping.
                let _ = web::block(move || inner.vault.sweep(now)).await;
                rt::time::sleep(SWEPT_EVERY).await;
            }
        });
    }
}

/// Lock on a key; released on drop.
struct Hold {
    keys: Keys,
    id: Digest,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.keys.0.in_flight.lock().remove(&self.id);
    }
}

/// Dependencies of a request with a key. Random numbers are derived from the key, so that a second run produces the
/// same ids and secrets, and the commands claim the key.
pub struct Keyed {
    services: Services,
    claim: Claim,
    at: Timestamp,
    commands: Cell<u16>,
}

impl Keyed {
    /// Returns the dependencies, with random numbers derived from the key.
    #[must_use]
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// Returns the start time of the request. All its commands use it, so that the key cannot expire between them.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// Returns the claim of the next command of the request.
    #[must_use]
    pub fn next_claim(&self) -> Claim {
        let nth = self.commands.replace(self.commands.get().saturating_add(1));
        Claim { nth, ..self.claim }
    }
}

/// Exclusive right to run a request, until its response is stored.
pub struct Turn {
    hold: Hold,
    asked: Asked,
    /// Time of the first execution of the request.
    first: Timestamp,
    /// `true` if an earlier run recorded commands or a response.
    again: bool,
    begun: Epoch,
}

impl Turn {
    /// Stores the response if it is final, and returns it for sending.
    pub async fn end(self, response: HttpResponse, services: &Services) -> HttpResponse {
        let is_made_again = response.extensions().contains::<MadeAgain>();
        if is_made_again {
            return if self.again && response.status().is_success() { marked(response) } else { response };
        }

        let (head, body) = response.into_parts();
        let Self { hold, asked, first, again, begun } = self;
        let (body, whole) = gathered(body).await;
        let kept = match whole {
            Some(whole) => Kept::new(first, asked.fingerprint, &head, whole, again),
            None => Some(Kept::without_answer(first, asked.fingerprint)),
        };

        // While the disk is full the response is not stored; a replay rebuilds it, and the claim in the log prevents a
        // second execution.
        if let Some(kept) = kept.filter(|_| services.space.check().is_ok()) {
            // The log bounds the number of requests with commands; responses to others need a limit of their own.
            let with_commands = services.models.read().claims.get(&asked.id, first).is_some();
            let nonce = services.surroundings.secret();
            let write = move || hold.keys.0.vault.write(&asked, &kept, nonce, (with_commands, begun));
            if let Err(error) = web::block(write).await.map_err(std::io::Error::other).flatten()
                && services.space.shortage(&error).is_none()
            {
                tracing::warn!(%error, "an answer could not be kept for its idempotency key");
            }
        }

        let response = head.set_body(body);
        if again && response.status().is_success() { marked(response) } else { response }
    }
}

fn marked(mut response: HttpResponse) -> HttpResponse {
    response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    response
}

fn in_use() -> Problem {
    let detail = "a request with this Idempotency-Key is being carried out; send it again when that one was answered";
    Problem::new(Code::IdempotencyKeyInUse, detail).retry_after(1)
}

fn reused() -> Problem {
    let detail = "this Idempotency-Key was used for another request within 24 hours; a new request needs a new key";
    Problem::new(Code::IdempotencyKeyReused, detail)
}
