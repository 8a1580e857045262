//! Webhook secrets of an account (contract 8): the current one, and replaced ones that stay valid for a while so that
//! receivers can switch.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::personal::PersonalValue;
use super::value::Timestamp;

/// Validity of a replaced secret (contract 8).
pub const OVERLAP: Duration = Duration::from_hours(24);

/// Maximum number of replaced secrets that sign at a time. Each adds a signature to the header of every webhook.
pub const REPLACED_MAX: usize = 4;

/// Length of a secret in bytes; Standard Webhooks allows 24 to 64.
pub const SECRET_BYTES: usize = 32;

/// Prefix of a secret (Standard Webhooks 1.0).
pub const PREFIX: &str = "whsec_";

/// Encodes a secret for its owner.
#[must_use]
pub fn encode_secret(secret: &[u8; SECRET_BYTES]) -> String {
    format!("{PREFIX}{}", STANDARD.encode(secret))
}

/// Decodes a secret encoded by [`encode_secret`].
#[must_use]
pub fn decode_secret(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text.strip_prefix(PREFIX)?).ok()
}

/// The sealed secrets of one account.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WebhookSecrets {
    current: Option<PersonalValue>,
    /// Replaced secrets with their expiry, oldest first.
    replaced: Vec<(PersonalValue, Timestamp)>,
}

impl WebhookSecrets {
    /// Replaces the current secret at time `at`.
    pub fn rotate(&mut self, secret: PersonalValue, at: Timestamp) {
        self.replaced.retain(|(_, until)| *until > at);
        self.replaced.extend(self.current.replace(secret).map(|replaced| (replaced, at.saturating_add(OVERLAP))));
    }

    /// Removes all secrets.
    pub fn revoke(&mut self) {
        *self = Self::default();
    }

    /// Returns the secrets that sign at `now`, newest first.
    pub fn valid_at(&self, now: Timestamp) -> impl Iterator<Item = &PersonalValue> {
        let still_valid = self.replaced.iter().rev().filter(move |(_, until)| *until > now).map(|(secret, _)| secret);
        self.current.iter().chain(still_valid)
    }

    /// Returns all stored secrets, including expired ones.
    pub fn stored(&self) -> impl Iterator<Item = &PersonalValue> {
        self.current.iter().chain(self.replaced.iter().map(|(secret, _)| secret))
    }

    /// Returns the time from which another rotation is possible, or `None` if one is possible at `now`.
    #[must_use]
    pub fn rotation_blocked_until(&self, now: Timestamp) -> Option<Timestamp> {
        let expirations: Vec<Timestamp> =
            self.replaced.iter().map(|(_, until)| *until).filter(|until| *until > now).collect();
        expirations.first().copied().filter(|_| expirations.len() >= REPLACED_MAX)
    }

    /// Returns `true` if there is no secret to revoke.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.current.is_none() && self.replaced.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn at(hours: u32) -> Timestamp {
        Timestamp::from_micros(0).saturating_add(HOUR * hours)
    }

    fn secret(text: &str) -> PersonalValue {
        PersonalValue::Sealed(text.as_bytes().into())
    }

    fn signing(secrets: &WebhookSecrets, hours: u32) -> Vec<PersonalValue> {
        secrets.valid_at(at(hours)).cloned().collect()
    }

    #[test]
    fn secrets_are_encoded_as_standard_webhooks_defines() {
        let text = encode_secret(&[7; SECRET_BYTES]);
        assert_eq!(text, "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=");
        assert_eq!(decode_secret(&text), Some(vec![7; SECRET_BYTES]));
        assert!(decode_secret("whsk_AAAA").is_none() && decode_secret("whsec_?").is_none());
    }

    #[test]
    fn a_replaced_secret_signs_for_another_day() {
        let mut secrets = WebhookSecrets::default();
        assert!(secrets.is_empty() && signing(&secrets, 0).is_empty());

        secrets.rotate(secret("a"), at(0));
        assert_eq!(signing(&secrets, 1000), [secret("a")]);

        secrets.rotate(secret("b"), at(1));
        assert_eq!(signing(&secrets, 24), [secret("b"), secret("a")]);
        assert_eq!(signing(&secrets, 25), [secret("b")]);

        secrets.rotate(secret("c"), at(2));
        assert_eq!(signing(&secrets, 24), [secret("c"), secret("b"), secret("a")]);
        assert_eq!(signing(&secrets, 25), [secret("c"), secret("b")]);

        secrets.rotate(secret("d"), at(30));
        assert_eq!(secrets.stored().count(), 2, "expired secrets are removed");

        secrets.revoke();
        assert!(secrets.is_empty());
    }

    #[test]
    fn rotation_is_blocked_while_too_many_replaced_secrets_are_valid() {
        let mut secrets = WebhookSecrets::default();
        for (hour, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            assert_eq!(secrets.rotation_blocked_until(at(u32::try_from(hour).unwrap())), None);
            secrets.rotate(secret(name), at(u32::try_from(hour).unwrap()));
        }
        assert_eq!(secrets.rotation_blocked_until(at(5)), Some(at(25)), "the first was replaced in hour 1");
        assert_eq!(secrets.rotation_blocked_until(at(25)), None);
    }
}
