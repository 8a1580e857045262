//! Tokens of an `OpenID` Connect issuer as credentials (contract 3, ADR 17). A token is accepted if a key of the issuer
//! signed it, its audience is this service, and it is valid at this time.
//!
//! ```text
//! token ─▶ jwt (form, signature, claims: pure) ◀── keys (cached, refreshed) ◀── issuer (through outbound)
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

/// Label under which the key of user ids is derived, so that the derived key has no other use.
pub const PURPOSE: &[u8] = b"mediary users of an issuer 1\n";

/// Reason why a token identifies nobody. The details are for the log only, so that a forger learns nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("{0}")]
    Token(&'static str),
    /// The issuer's keys are not known, and the next attempt is after this time.
    #[error("the issuer cannot be asked for its keys")]
    Unavailable { again_after: Duration },
}

/// Authenticates people by the tokens of an issuer. Cheap to clone.
#[derive(Clone)]
pub struct Oidc(Arc<Inner>);

struct Inner {
    expected: Expected,
    keys: Arc<Keys>,
    id_key: [u8; 32],
}

impl Oidc {
    /// Trusts the issuer at a place. Fetches its keys with the first token. User ids derive from `id_key`.
    ///
    /// # Errors
    /// Returns [`PlaceError`] if the place cannot be used.
    pub fn new(place: IssuerPlace, audience: String, id_key: [u8; 32], metrics: Metrics) -> Result<Self, PlaceError> {
        let expected = Expected { issuer: place.issuer.clone(), audience };
        let keys = Arc::new(Keys::new(Issuer::new(place)?, metrics));
        Ok(Self(Arc::new(Inner { expected, keys, id_key })))
    }

    /// Returns `true` if a secret has the three parts of such a token. The service's own secrets contain no dots.
    #[must_use]
    pub fn might_be(secret: &str) -> bool {
        secret.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// Returns the person that a token identifies at this time.
    ///
    /// # Errors
    /// Returns [`Refused`].
    pub async fn judge(&self, token: &str, now: Timestamp) -> Result<Person, Refused> {
        let token = Token::parse(token).map_err(Refused::Token)?;

        // Claims are checked first, so that a token they rule out causes no fetch.
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

    /// The id of a person's account. An erased account is never reopened, so the next one is the `nth`.
    #[must_use]
    pub fn user_id(&self, person: &Person, nth: u32) -> UserId {
        let code = code(&self.0.id_key, &self.0.expected.issuer, &person.subject, nth);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&code[..16]);
        UserId(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }
}

fn code(key: &[u8; 32], issuer: &str, subject: &str, nth: u32) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts keys of any length");
    for part in [issuer.as_bytes(), subject.as_bytes()] {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac.update(&nth.to_be_bytes());
    mac.finalize().into_bytes().into()
}
