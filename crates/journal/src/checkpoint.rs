//! Checkpoints: signed states of the history at a position, small enough to be kept where the operator of the service
//! cannot change them. A history that was rewritten, cut or replaced no longer matches its earlier checkpoints.
//!
//! The signature (Ed25519, RFC 8032) covers these bytes, with numbers in little endian:
//!
//! ```text
//! "mediary checkpoint 1\n" │ log id 16 │ position 8 │ chain hash 32 │ microseconds since 1970 8
//! ```

use chrono::{DateTime, SecondsFormat, Utc};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::chain::{ChainHash, JournalHead};
use crate::hex;
use crate::position::Position;

/// Format tag of a checkpoint, and prefix of the signed message.
const FORMAT: &str = "mediary checkpoint 1";

/// State of the history at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// The id of the log.
    pub log: Uuid,
    /// The last event, and the hash of everything up to it.
    pub head: JournalHead,
    /// Time at which the checkpoint was taken, in microseconds since 1970.
    pub at_micros: i64,
}

/// A checkpoint whose signature matches the public key in it. The caller must compare that key with the key of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedCheckpoint {
    checkpoint: Checkpoint,
    public_key: [u8; 32],
    signature: [u8; 64],
}

/// Reason why data is not a valid checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The text is not JSON.
    #[error("it is not JSON: {0}")]
    NotJson(String),
    /// A field is missing or malformed.
    #[error("{0} is missing or malformed")]
    Field(&'static str),
    /// The signature does not match the content.
    #[error("its signature is invalid: it was changed or not signed with its public key")]
    Forged,
}

impl Checkpoint {
    /// Signs the checkpoint with the key of the log.
    #[must_use]
    pub fn sign(self, key: &SigningKey) -> SignedCheckpoint {
        let signature = key.sign(&self.signed_message()).to_bytes();
        SignedCheckpoint { checkpoint: self, public_key: key.verifying_key().to_bytes(), signature }
    }

    fn signed_message(&self) -> Vec<u8> {
        let Self { log, head, at_micros } = self;
        let position = head.position.0.to_le_bytes();
        let at = at_micros.to_le_bytes();
        [FORMAT.as_bytes(), b"\n", log.as_bytes(), &position, &head.chain.0, &at].concat()
    }
}

impl SignedCheckpoint {
    /// Returns the signed content.
    #[must_use]
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Returns the public key that verifies the signature.
    #[must_use]
    pub fn public_key(&self) -> [u8; 32] {
        self.public_key
    }

    /// Returns the checkpoint as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Checkpoint { log, head, at_micros } = &self.checkpoint;
        json!({
            "format": FORMAT,
            "log": log.to_string(),
            "position": head.position.0,
            "chain": hex::encode(&head.chain.0),
            "at": format_time(*at_micros),
            "public_key": hex::encode(&self.public_key),
            "signature": hex::encode(&self.signature),
        })
    }

    /// Parses the text of a checkpoint and checks its signature.
    ///
    /// # Errors
    /// Returns [`CheckpointError`].
    pub fn parse(text: &str) -> Result<Self, CheckpointError> {
        let json = serde_json::from_str(text).map_err(|error| CheckpointError::NotJson(error.to_string()))?;
        Self::from_json(&json)
    }

    /// Parses a checkpoint and checks its signature.
    ///
    /// # Errors
    /// Returns [`CheckpointError`].
    pub fn from_json(json: &Value) -> Result<Self, CheckpointError> {
        let text = |name: &'static str| json[name].as_str().ok_or(CheckpointError::Field(name));
        if text("format")? != FORMAT {
            return Err(CheckpointError::Field("format"));
        }

        let log = text("log")?.parse().map_err(|_| CheckpointError::Field("log"))?;
        let position = json["position"].as_u64().map(Position).ok_or(CheckpointError::Field("position"))?;
        let chain = hex::decode(text("chain")?).map(ChainHash).ok_or(CheckpointError::Field("chain"))?;
        let at = DateTime::parse_from_rfc3339(text("at")?).map_err(|_| CheckpointError::Field("at"))?;
        let public_key = hex::decode(text("public_key")?).ok_or(CheckpointError::Field("public_key"))?;
        let signature = hex::decode(text("signature")?).ok_or(CheckpointError::Field("signature"))?;

        let checkpoint = Checkpoint { log, head: JournalHead { position, chain }, at_micros: at.timestamp_micros() };
        let signed = Self { checkpoint, public_key, signature };
        if signed.has_valid_signature() { Ok(signed) } else { Err(CheckpointError::Forged) }
    }

    fn has_valid_signature(&self) -> bool {
        let signature = Signature::from_bytes(&self.signature);
        VerifyingKey::from_bytes(&self.public_key)
            .is_ok_and(|key| key.verify_strict(&self.checkpoint.signed_message(), &signature).is_ok())
    }
}

/// Formats a time as RFC 3339 in UTC with microseconds.
fn format_time(micros: i64) -> String {
    let time = DateTime::<Utc>::from_timestamp_micros(micros).unwrap_or(DateTime::<Utc>::MAX_UTC);
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed_checkpoint() -> SignedCheckpoint {
        let head = JournalHead { position: Position(12_034), chain: ChainHash([7; 32]) };
        let at_micros = 1_764_000_000_123_456;
        Checkpoint { log: Uuid::from_u128(5), head, at_micros }.sign(&SigningKey::from_bytes(&[9; 32]))
    }

    #[test]
    fn checkpoints_round_trip() {
        assert_eq!(signed_checkpoint().to_json()["at"], "2025-11-24T16:00:00.123456Z");
        assert_eq!(SignedCheckpoint::parse(&signed_checkpoint().to_json().to_string()), Ok(signed_checkpoint()));
    }

    #[test]
    fn every_change_is_detected() {
        let original = signed_checkpoint().to_json();
        for (name, value) in original.as_object().unwrap() {
            let mut changed = original.clone();
            changed[name] = match value {
                Value::String(text) if text.contains('7') => text.replacen('7', "8", 1).into(),
                Value::String(text) if text.contains('0') => text.replacen('0', "1", 1).into(),
                Value::String(text) => format!("{text}x").into(),
                number => (number.as_u64().unwrap() + 1).into(),
            };
            assert!(SignedCheckpoint::from_json(&changed).is_err(), "{name} of {changed}");
            changed.as_object_mut().unwrap().remove(name);
            assert!(SignedCheckpoint::from_json(&changed).is_err(), "without {name}");
        }
    }
}
