//! Idempotency keys (contract 2, ADR 6): a request that comes again with its key is not carried out again, and gets the
//! answer that it had. For every POST and PUT whose body is received whole; elsewhere the header has no meaning.
//!
//! ```text
//! claimed in the log?  answer kept?
//!        no               no         it is new: done, and its answer kept
//!        –                yes        the kept answer; 422 when something else was asked with the key
//!        yes              no         a crash came between: the handler runs again, its commands are passed over
//!         –         all but the body  it was too large: made anew, by a handler that changes nothing
//! ```
//!
//! Of an answer that is sent while it is made nothing is kept ([`MadeAgain`]; ADR 18).

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

/// `true` on the answer to a request that had been carried out before.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// How often answers that are too old are removed.
const SWEPT_EVERY: Duration = Duration::from_hours(1);

/// The keys that are in use, and the answers that are kept. Cheap to clone.
#[derive(Clone)]
pub struct Keys(Arc<Inner>);

struct Inner {
    vault: Vault,
    /// The keys of requests that are being carried out, and what they ask for.
    in_flight: Mutex<HashMap<Digest, Digest>>,
}

/// Stands in the extensions of an answer that goes on for long and is sent as it comes: it is not kept, and the handler makes it anew
/// when the request comes again, or says why it cannot.
#[derive(Debug, Clone, Copy)]
pub struct MadeAgain;

/// How a request with a key goes on.
pub enum Begun {
    /// With the answer that it had.
    Replay(HttpResponse),
    /// With its handler.
    Run(Turn, Box<Keyed>),
}

impl Keys {
    /// Opens the answers of a data directory, and the secret that seals them.
    ///
    /// # Errors
    /// `VaultFailure`, when they cannot be used.
    pub fn open(data: &DataDir, surroundings: &Surroundings) -> Result<Self, VaultFailure> {
        let vault = Vault::open(data, surroundings)?;
        Ok(Self(Arc::new(Inner { vault, in_flight: Mutex::default() })))
    }

    /// Finds out whether a request was carried out before; if not, it has its turn now, alone.
    ///
    /// # Errors
    /// 409 while another request with this key is carried out, 422 when the key was used for something else.
    pub async fn begin(&self, asked: Asked, services: &Services) -> Result<Begun, Problem> {
        let hold = self.hold(&asked)?;
        // Before anything is looked at that the answer may show.
        let begun = self.0.vault.epoch();
        let now = services.surroundings.now();
        let claimed = services.models.read().claims.get(&asked.id, now).cloned();
        let (inner, sought) = (Arc::clone(&self.0), asked.clone());
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

    /// Removes the answers that can show users: those to requests with commands, which are made anew when they come again. Of requests
    /// that are being carried out none is kept. Blocks.
    ///
    /// # Errors
    /// When one is still there, or may be after a power cut.
    pub fn forget_answers(&self) -> std::io::Result<()> {
        self.0.vault.forget()
    }

    /// Removes answers that are too old, now and every hour, until the service is gone. Needs the runtime of a server.
    pub fn keep_swept(&self, surroundings: Surroundings) {
        let keys = Arc::downgrade(&self.0);
        rt::spawn(async move {
            while let Some(inner) = keys.upgrade() {
                let now = surroundings.now();
                // The service is stopping when there is no thread for it.
                let _ = web::block(move || inner.vault.sweep(now)).await;
                rt::time::sleep(SWEPT_EVERY).await;
            }
        });
    }
}

/// Keeps others with the same key away until it is dropped.
struct Hold {
    keys: Keys,
    id: Digest,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.keys.0.in_flight.lock().remove(&self.id);
    }
}

/// What a handler works with in a request that has a key: its chance follows from the key, so that a second run makes the
/// same ids and secrets, and its commands claim the key.
pub struct Keyed {
    services: Services,
    claim: Claim,
    at: Timestamp,
    commands: Cell<u16>,
}

impl Keyed {
    /// What the service is made of, with chance that follows from the key.
    #[must_use]
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// When the request began. All its commands happen then, so that none of them sees the key grow too old.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// What the next command of the request is recorded with.
    #[must_use]
    pub fn next_claim(&self) -> Claim {
        let nth = self.commands.replace(self.commands.get().saturating_add(1));
        Claim { nth, ..self.claim }
    }
}

/// The right to carry out a request, until its answer is kept.
pub struct Turn {
    hold: Hold,
    asked: Asked,
    /// When the request was first carried out.
    first: Timestamp,
    /// Whether some command of it was carried out before this turn.
    again: bool,
    begun: Epoch,
}

impl Turn {
    /// Keeps the answer, if it is one that stays the same, and gives it back for sending.
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
        // Without room it is made anew when the request comes again: what was done is claimed in the log.
        if let Some(kept) = kept.filter(|_| services.space.check().is_ok()) {
            // The log grows with every command; answers to requests that gave none must be bounded otherwise.
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
