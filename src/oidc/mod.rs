//! Tokens of an `OpenID` Connect issuer as credentials (contract 3, ADR 17). A token is accepted if a key of the issuer
//! signed it, its audience is this service, and it is valid at this time.
//!
//! ```text
//! token ─▶ jwt (form, signature, claims: pure) ◀── key_cache (refreshed) ◀── issuer (through outbound)
//! ```

mod issuer;
mod jwks;
mod jwt;
mod key_cache;

use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, Mac};
use sha2::Sha256;

pub use self::issuer::{IssuerConfig, IssuerSetupError};
pub use self::jwt::OidcIdentity;

use self::issuer::IssuerClient;
use self::jwks::SignatureCheck;
use self::jwt::{SignedJwt, TokenRequirements};
use self::key_cache::IssuerKeyCache;
use crate::domain::ids::UserId;
use crate::domain::value::Timestamp;
use crate::telemetry::metrics::Metrics;

/// Label under which the key of user ids is derived, so that the derived key has no other use.
pub const PURPOSE: &[u8] = b"mediary users of an issuer 1\n";

/// Reason why a token is rejected. The details are for the log only, so that a forger learns nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OidcRejection {
    #[error("{0}")]
    Token(&'static str),
    /// The issuer's keys are not known, and the next attempt is after this time.
    #[error("the keys of the issuer cannot be fetched")]
    Unavailable { retry_after: Duration },
}

/// Authenticates people by the tokens of an issuer. Cheap to clone.
#[derive(Clone)]
pub struct OidcAuthenticator(Arc<OidcInner>);

struct OidcInner {
    requirements: TokenRequirements,
    keys: Arc<IssuerKeyCache>,
    id_key: [u8; 32],
}

impl OidcAuthenticator {
    /// Creates an authenticator for one issuer, whose keys are fetched with the first token. User ids derive from
    /// `id_key`.
    ///
    /// # Errors
    /// Returns [`IssuerSetupError`] if the HTTP client cannot be set up.
    pub fn new(
        config: IssuerConfig,
        audience: String,
        id_key: [u8; 32],
        metrics: Metrics,
    ) -> Result<Self, IssuerSetupError> {
        let requirements = TokenRequirements { issuer: config.issuer.clone(), audience };
        let keys = Arc::new(IssuerKeyCache::new(IssuerClient::new(config)?, metrics));
        Ok(Self(Arc::new(OidcInner { requirements, keys, id_key })))
    }

    /// Returns `true` if a secret has the three parts of such a token. The service's own secrets contain no dots.
    #[must_use]
    pub fn looks_like_jwt(secret: &str) -> bool {
        secret.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// Returns the person that a token identifies at this time.
    ///
    /// # Errors
    /// Returns [`OidcRejection`].
    pub async fn authenticate(&self, token: &str, now: Timestamp) -> Result<OidcIdentity, OidcRejection> {
        let token = SignedJwt::parse(token).map_err(OidcRejection::Token)?;

        // Claims are checked first, so that a token they rule out causes no fetch.
        token.validate_claims(&self.0.requirements, now).map_err(OidcRejection::Token)?;

        let cached = self.0.keys.current(now).await;
        let keys = cached.map_err(|retry_after| OidcRejection::Unavailable { retry_after })?;

        match token.verify_signature(&keys) {
            SignatureCheck::Valid => {}
            SignatureCheck::UnknownKey => {
                let keys = self
                    .0
                    .keys
                    .newer_than(&keys, now)
                    .await
                    .ok_or(OidcRejection::Token("no key of the issuer matches"))?;
                if token.verify_signature(&keys) != SignatureCheck::Valid {
                    return Err(OidcRejection::Token("no key of the issuer matches"));
                }
            }
            SignatureCheck::Invalid => return Err(OidcRejection::Token("the signature is invalid")),
        }

        Ok(token.into_identity())
    }

    /// Returns the id of a person's account. An erased account is never reopened: the next one has the next
    /// `generation`.
    #[must_use]
    pub fn user_id(&self, identity: &OidcIdentity, generation: u32) -> UserId {
        let code = user_id_mac(&self.0.id_key, &self.0.requirements.issuer, &identity.subject, generation);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&code[..16]);
        UserId(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }
}

fn user_id_mac(key: &[u8; 32], issuer: &str, subject: &str, generation: u32) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts keys of any length");
    for part in [issuer.as_bytes(), subject.as_bytes()] {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac.update(&generation.to_be_bytes());
    mac.finalize().into_bytes().into()
}
