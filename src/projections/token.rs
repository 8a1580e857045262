//! Tokens by the hash of their secret: what authentication asks at every request.

use std::collections::HashMap;

use crate::domain::token::{TokenEvent, TokenGrant};
use crate::domain::value::Digest;

/// All valid tokens.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tokens {
    by_secret: HashMap<Digest, TokenGrant>,
}

impl Tokens {
    /// Folds an event of a token.
    pub fn apply(&mut self, event: &TokenEvent) {
        let TokenEvent::TokenIssued(grant) = event;
        self.by_secret.insert(grant.secret_hash, grant.clone());
    }

    /// What the secret with this hash opens. The look-up needs no constant time: it compares hashes, and knowing how much of
    /// a hash matched does not help to find a secret of 256 random bits.
    #[must_use]
    pub fn by_secret(&self, secret_hash: &Digest) -> Option<&TokenGrant> {
        self.by_secret.get(secret_hash)
    }
}
