//! Signatures of webhooks (Standard Webhooks 1.0), and the key of the service.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signer, SigningKey};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::data_dir::{read_private, to_help, write_private};
use crate::domain::value::Timestamp;
use crate::environment::Environment;

/// Prefix of a secret key.
const SECRET_PREFIX: &str = "whsk_";
/// Prefix of a public key.
const PUBLIC_PREFIX: &str = "whpk_";

/// Signed content. The parts are separated by dots, so `id` must not contain one (Standard Webhooks, Signature scheme).
#[derive(Debug, Clone, Copy)]
pub struct WebhookMessage<'m> {
    /// The `webhook-id`, the same for all attempts.
    pub id: &'m str,
    /// Time of this attempt, signed in whole seconds.
    pub at: Timestamp,
    /// Body, exactly as sent.
    pub body: &'m [u8],
}

impl WebhookMessage<'_> {
    fn signed_content(&self) -> Vec<u8> {
        let head = format!("{}.{}.", self.id, self.at.seconds());
        [head.as_bytes(), self.body].concat()
    }
}

/// Returns the value of the `webhook-signature` header: `v1a` by the key of the service, then `v1` for each valid
/// secret of the account.
#[must_use]
pub fn sign(message: WebhookMessage<'_>, key: &WebhookKey, secrets: &[&[u8]]) -> String {
    let content = message.signed_content();
    let asymmetric = format!("v1a,{}", STANDARD.encode(key.0.sign(&content).to_bytes()));
    let shared = secrets.iter().map(|secret| format!("v1,{}", STANDARD.encode(hmac_sha256(secret, &content))));
    std::iter::once(asymmetric).chain(shared).collect::<Vec<_>>().join(" ")
}

fn hmac_sha256(secret: &[u8], content: &[u8]) -> [u8; 32] {
    let mut hmac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of every length");
    hmac.update(content);
    hmac.finalize().into_bytes().into()
}

/// Reason why the key is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum WebhookKeyError {
    /// The file cannot be read or written.
    #[error("webhook key {path}: {source}{}", to_help(path, source))]
    File { path: PathBuf, source: io::Error },
    /// The file does not contain a key.
    #[error("webhook key {path}: must be {SECRET_PREFIX} and 32 bytes in base64")]
    Malformed { path: PathBuf },
}

/// The ed25519 key of the service, which signs every webhook.
pub struct WebhookKey(SigningKey);

impl WebhookKey {
    /// Reads the key from a file, or creates one that only its owner can read.
    ///
    /// # Errors
    /// Returns [`WebhookKeyError`] if the file cannot be read or written, or is damaged. A damaged file is never
    /// replaced, because receivers rely on the old key.
    pub fn load_or_create(path: &Path, environment: &Environment) -> Result<Self, WebhookKeyError> {
        let failure = |source| WebhookKeyError::File { path: path.to_owned(), source };
        if let Some(text) = read_private(path).map_err(failure)? {
            return Self::parse(text.trim()).ok_or_else(|| WebhookKeyError::Malformed { path: path.to_owned() });
        }
        let key = Self(SigningKey::from_bytes(&environment.random_bytes()));
        write_private(path, key.secret_text().as_bytes()).map_err(failure)?;
        Ok(key)
    }

    /// Returns the public key for receivers: `whpk_` and base64.
    #[must_use]
    pub fn public_key(&self) -> String {
        format!("{PUBLIC_PREFIX}{}", STANDARD.encode(self.0.verifying_key().to_bytes()))
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.strip_prefix(SECRET_PREFIX)?).ok()?;
        bytes.try_into().ok().map(|seed| Self(SigningKey::from_bytes(&seed)))
    }

    fn secret_text(&self) -> String {
        format!("{SECRET_PREFIX}{}\n", STANDARD.encode(self.0.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use ed25519_dalek::{Signature, VerifyingKey};

    use super::*;

    const AT: Timestamp = Timestamp::from_micros(1_614_265_330_999_999);
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const MESSAGE: WebhookMessage<'static> = WebhookMessage { id: "msg_p5jXN8AQM9LWM0D4loKWxJek", at: AT, body: BODY };

    fn key() -> WebhookKey {
        WebhookKey(SigningKey::from_bytes(&[7; 32]))
    }

    fn environment() -> Environment {
        Environment::manual(AT, 1)
    }

    #[test]
    fn the_test_vector_of_the_specification_is_met() {
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let header = sign(MESSAGE, &key(), &[&secret]);
        assert_eq!(header.split(' ').nth(1), Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
    }

    #[test]
    fn symmetric_signatures_equal_those_of_another_implementation() {
        let old: &[u8] = &[1; 24];
        let new: &[u8] = &[2; 64];
        let header = sign(MESSAGE, &key(), &[old, new]);
        for (secret, signature) in [old, new].into_iter().zip(header.split(' ').skip(1)) {
            let webhook = standardwebhooks::Webhook::from_bytes(secret.to_vec()).unwrap();
            assert_eq!(webhook.sign(MESSAGE.id, 1_614_265_330, BODY).unwrap(), signature);
        }
    }

    #[test]
    fn the_public_key_verifies_the_asymmetric_signature() {
        let key = key();
        let header = sign(MESSAGE, &key, &[]);
        let public = STANDARD.decode(key.public_key().strip_prefix("whpk_").unwrap()).unwrap();
        let public = VerifyingKey::from_bytes(&public.try_into().unwrap()).unwrap();
        let signature = STANDARD.decode(header.strip_prefix("v1a,").unwrap()).unwrap();
        let signature = Signature::from_slice(&signature).unwrap();

        let content = |body: &str| format!("msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{body}").into_bytes();
        assert!(public.verify_strict(&content(r#"{"test": 2432232314}"#), &signature).is_ok());
        assert!(public.verify_strict(&content(r#"{"test": 2432232315}"#), &signature).is_err());
    }

    /// RFC 8032, 7.1, test 1.
    #[test]
    fn the_public_key_is_derived_as_in_rfc_8032() {
        let key = WebhookKey::parse("whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=").unwrap();
        assert_eq!(key.public_key(), "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=");
    }

    #[test]
    fn a_key_is_created_once_and_readable_by_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("webhook-key");
        let key = WebhookKey::load_or_create(&path, &environment()).unwrap();
        let reloaded = WebhookKey::load_or_create(&path, &Environment::manual(AT, 2)).unwrap();
        assert_eq!(key.public_key(), reloaded.public_key());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_key_is_reported_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("webhook-key");
        for damaged in ["", "whsk_", "whsk_AAAA", "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="] {
            std::fs::write(&path, damaged).unwrap();
            assert!(matches!(
                WebhookKey::load_or_create(&path, &environment()),
                Err(WebhookKeyError::Malformed { .. })
            ));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
        }
    }
}
