//! Tokens of an `OpenID` Connect issuer as credentials (contract 3, ADR 17): what such a token says is believed when its
//! signature is by a key of the issuer, it is meant for this service, and its time has come and is not over.
//!
//! ```text
//! token ─▶ jwt (form, signature, claims: pure) ◀── keys (kept, asked for again now and then) ◀── issuer (through outbound)
//! ```

mod issuer;
mod jwks;
mod jwt;
mod keys;

use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, Mac};
use sha2::Sha256;

pub use self::issuer::{IssuerPlace, PlaceError};
pub use self::jwt::Person;

use self::issuer::Issuer;
use self::jwt::{Expected, Judged, Token};
use self::keys::Keys;
use crate::domain::ids::UserId;
use crate::domain::value::Timestamp;
use crate::telemetry::metrics::Metrics;

/// Goes before what an id is made of, so that the key is of no use for anything else.
pub const PURPOSE: &[u8] = b"mediary users of an issuer 1\n";

/// Why nobody is known by a token. What is wrong with it is for the log: whoever forges one learns nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("{0}")]
    Token(&'static str),
    /// The issuer's keys are not known, and cannot be had before it is asked again, after this time.
    #[error("the issuer cannot be asked for its keys")]
    Unavailable { again_after: Duration },
}

/// Knows people by the tokens of an issuer. Cheap to clone.
#[derive(Clone)]
pub struct Oidc(Arc<Inner>);

struct Inner {
    expected: Expected,
    keys: Arc<Keys>,
    id_key: [u8; 32],
}

impl Oidc {
    /// Believes the issuer at a place. Its keys are asked for with the first token, which is counted. `id_key` makes the ids of users.
    ///
    /// # Errors
    /// [`PlaceError`] when the place cannot be used.
    pub fn new(place: IssuerPlace, audience: String, id_key: [u8; 32], metrics: Metrics) -> Result<Self, PlaceError> {
        let expected = Expected { issuer: place.issuer.clone(), audience };
        let keys = Arc::new(Keys::new(Issuer::new(place)?, metrics));
        Ok(Self(Arc::new(Inner { expected, keys, id_key })))
    }

    /// Whether a secret has the form of such a token: three parts. Secrets of our own have none.
    #[must_use]
    pub fn might_be(secret: &str) -> bool {
        secret.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// Who is known by a token, at this time.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn judge(&self, token: &str, now: Timestamp) -> Result<Person, Refused> {
        let token = Token::parse(token).map_err(Refused::Token)?;
        // What its claims rule out needs no key: a forged token makes nobody ask the issuer.
        token.check(&self.0.expected, now).map_err(Refused::Token)?;
        let known = self.0.keys.known(now).await;
        let keys = known.map_err(|again_after| Refused::Unavailable { again_after })?;
        match token.judge(&keys) {
            Judged::Signed => {}
            Judged::UnknownKey => {
                let keys =
                    self.0.keys.newer_than(&keys, now).await.ok_or(Refused::Token("no key of the issuer fits"))?;
                if token.judge(&keys) != Judged::Signed {
                    return Err(Refused::Token("no key of the issuer fits"));
                }
            }
            Judged::Forged => return Err(Refused::Token("the signature does not fit")),
        }
        Ok(token.person())
    }

    /// The id of a person's account. An account that was erased is never opened again, so the next one is the `nth`.
    #[must_use]
    pub fn user_id(&self, person: &Person, nth: u32) -> UserId {
        let code = code(&self.0.id_key, &self.0.expected.issuer, &person.subject, nth);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&code[..16]);
        UserId(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }
}

fn code(key: &[u8; 32], issuer: &str, subject: &str, nth: u32) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    for part in [issuer.as_bytes(), subject.as_bytes()] {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac.update(&nth.to_be_bytes());
    mac.finalize().into_bytes().into()
}
