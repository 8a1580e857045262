//! Upload links: authenticated tokens with version, holder and expiry.
//!
//! Nothing is stored about a link, so it works across restarts. It is a credential and must not appear in logs, events
//! or errors.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac};
use sha2::{Digest as _, Sha256};
use uuid::{Builder, Uuid};

use crate::data_dir::{read_private, to_help, write_private};
use crate::domain::ids::{TokenId, UserId, VersionId};
use crate::domain::value::Timestamp;
use crate::environment::Environment;

/// Validity of a link (contract 4).
pub const UPLOAD_TOKEN_VALIDITY: Duration = Duration::from_mins(15);

/// Prefix of the key.
const KEY_PREFIX: &str = "mduk_";
/// Prefix of the authenticated data, so that no other use of the key yields a valid link.
const TOKEN_CONTEXT: &[u8] = b"mediary upload link 1\n";
/// Prefix for deriving keys for other purposes.
const DERIVATION_CONTEXT: &[u8] = b"mediary key derived from that of the upload links 1\n";
/// Holder, version and time, in this order.
const GRANT_BYTES: usize = 1 + 16 + 16 + 8;
const MAC_BYTES: usize = 32;

/// Permission given by a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadGrant {
    pub version: VersionId,
    /// The upload is recorded as an action of the holder.
    pub holder: UploadTokenHolder,
    /// Time from which the upload link is rejected.
    pub expires_at: Timestamp,
}

/// Requester of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UploadTokenHolder {
    User(UserId),
    Token(TokenId),
}

/// Reason why a link is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadTokenError {
    /// This service did not create the link.
    Invalid,
    /// The link has expired.
    Expired,
}

/// Reason why the key is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum UploadKeyError {
    /// The file cannot be read or written.
    #[error("upload link key {path}: {source}{}", to_help(path, source))]
    File { path: PathBuf, source: io::Error },
    /// The file does not contain a key.
    #[error("upload link key {path}: must be {KEY_PREFIX} and 32 bytes in base64")]
    Malformed { path: PathBuf },
}

/// Key that authenticates links.
#[derive(Clone)]
pub struct UploadKey([u8; 32]);

impl UploadKey {
    /// Reads the key from a file; `None` if the file does not exist.
    ///
    /// # Errors
    /// Returns [`UploadKeyError`] if the file cannot be read or is damaged.
    pub fn read(path: &Path) -> Result<Option<Self>, UploadKeyError> {
        let text = read_private(path).map_err(|source| UploadKeyError::File { path: path.to_owned(), source })?;
        let key = text
            .map(|text| Self::parse(text.trim()).ok_or_else(|| UploadKeyError::Malformed { path: path.to_owned() }));
        key.transpose()
    }

    /// Creates a key and writes it to a file that only its owner can read.
    ///
    /// # Errors
    /// Returns [`UploadKeyError`] if the file cannot be written.
    pub fn generate(path: &Path, environment: &Environment) -> Result<Self, UploadKeyError> {
        let key = Self(environment.random_bytes());
        let text = format!("{KEY_PREFIX}{}\n", STANDARD.encode(key.0));
        write_private(path, text.as_bytes())
            .map_err(|source| UploadKeyError::File { path: path.to_owned(), source })?;
        Ok(key)
    }

    /// Derives a key for another purpose, which reveals nothing about this one.
    #[must_use]
    pub fn derive_key(&self, purpose: &[u8]) -> [u8; 32] {
        Sha256::new().chain_update(DERIVATION_CONTEXT).chain_update(self.0).chain_update(purpose).finalize().into()
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.strip_prefix(KEY_PREFIX)?).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// Returns the text of a link, safe for a URL path.
    #[must_use]
    pub fn issue_token(&self, grant: &UploadGrant) -> String {
        self.seal(TOKEN_CONTEXT, &grant.to_bytes())
    }

    /// Returns `bytes` with a MAC, as text that is safe for a URL path. Text sealed in one context is invalid in every
    /// other.
    #[must_use]
    pub fn seal(&self, context: &[u8], bytes: &[u8]) -> String {
        let code = self.mac(context, bytes).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode([bytes, &code[..]].concat())
    }

    /// Returns the bytes that [`UploadKey::seal`] was given; `None` if the MAC is wrong.
    #[must_use]
    pub fn unseal(&self, context: &[u8], text: &str) -> Option<Vec<u8>> {
        let mut bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let mac = bytes.split_off(bytes.len().checked_sub(MAC_BYTES)?);
        // Compares in constant time.
        self.mac(context, &bytes).verify_slice(&mac).ok()?;
        Some(bytes)
    }

    /// Returns a signature of `bytes`, as text that is safe for a URL. It is invalid in every other context.
    #[must_use]
    pub fn sign(&self, context: &[u8], bytes: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(self.mac(context, bytes).finalize().into_bytes())
    }

    /// Returns `true` if [`UploadKey::sign`] returned this signature for the bytes.
    #[must_use]
    pub fn has_signed(&self, context: &[u8], bytes: &[u8], signature: &str) -> bool {
        let signature = URL_SAFE_NO_PAD.decode(signature);
        signature.is_ok_and(|signature| self.mac(context, bytes).verify_slice(&signature).is_ok())
    }

    /// Derives an id from `bytes` that cannot be guessed without the key. The same bytes have the same id.
    #[must_use]
    pub fn derive_id(&self, context: &[u8], bytes: &[u8]) -> Uuid {
        let mut id = [0; 16];
        id.copy_from_slice(&self.mac(context, bytes).finalize().into_bytes()[..16]);
        Builder::from_random_bytes(id).into_uuid()
    }

    /// Verifies a link and returns its permission.
    ///
    /// # Errors
    /// Returns [`UploadTokenError`] if the link was not created by this service, or has expired.
    pub fn verify_token(&self, token: &str, now: Timestamp) -> Result<UploadGrant, UploadTokenError> {
        let grant = self.decode_token(token).ok_or(UploadTokenError::Invalid)?;
        if now < grant.expires_at { Ok(grant) } else { Err(UploadTokenError::Expired) }
    }

    fn decode_token(&self, token: &str) -> Option<UploadGrant> {
        let bytes = self.unseal(TOKEN_CONTEXT, token).filter(|bytes| bytes.len() == GRANT_BYTES)?;
        UploadGrant::from_bytes(&bytes)
    }

    fn mac(&self, context: &[u8], bytes: &[u8]) -> Hmac<Sha256> {
        let hmac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of every length");
        hmac.chain_update(context).chain_update(bytes)
    }
}

impl UploadGrant {
    fn to_bytes(self) -> Vec<u8> {
        let (kind, holder) = match self.holder {
            UploadTokenHolder::User(UserId(id)) => (0, id),
            UploadTokenHolder::Token(TokenId(id)) => (1, id),
        };
        let expires_at = self.expires_at.micros().to_be_bytes();
        [&[kind], &holder.as_bytes()[..], &self.version.0.as_bytes()[..], &expires_at[..]].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, remaining) = bytes.split_first()?;
        let (holder, remaining) = remaining.split_at_checked(16)?;
        let (version, expires_at) = remaining.split_at_checked(16)?;
        let holder = Uuid::from_slice(holder).ok()?;
        let holder = if *kind == 0 {
            UploadTokenHolder::User(UserId(holder))
        } else {
            UploadTokenHolder::Token(TokenId(holder))
        };
        let expires_at = Timestamp::from_micros(i64::from_be_bytes(expires_at.try_into().ok()?));
        Some(Self { version: VersionId(Uuid::from_slice(version).ok()?), holder, expires_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const NOW: Timestamp = Timestamp::from_micros(1_614_265_330_000_000);

    fn grant(holder: UploadTokenHolder) -> UploadGrant {
        let expires_at = Timestamp::from_micros(NOW.micros() + 1);
        UploadGrant { version: VersionId(Uuid::from_u128(7)), holder, expires_at }
    }

    #[test]
    fn a_token_yields_its_grant_until_it_expires() {
        let key = UploadKey([7; 32]);
        for holder in
            [UploadTokenHolder::User(UserId(Uuid::from_u128(1))), UploadTokenHolder::Token(TokenId(Uuid::from_u128(2)))]
        {
            let grant = grant(holder);
            let token = key.issue_token(&grant);
            assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "{token}");
            assert_eq!(key.verify_token(&token, NOW), Ok(grant));
            assert_eq!(key.verify_token(&token, grant.expires_at), Err(UploadTokenError::Expired));
        }
    }

    #[test]
    fn no_part_of_a_token_can_be_changed() {
        let key = UploadKey([7; 32]);
        let token = key.issue_token(&grant(UploadTokenHolder::User(UserId(Uuid::nil()))));
        for at in 0..token.len() {
            let mut forged = token.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert_eq!(key.verify_token(&forged, NOW), Err(UploadTokenError::Invalid), "{at}");
        }
        for bad in ["", "x", &token[1..], &format!("{token}A"), &token.replace(['-', '_'], "+"), "äöü"] {
            assert!(bad == token || key.verify_token(bad, NOW) == Err(UploadTokenError::Invalid), "{bad}");
        }
        assert_eq!(UploadKey([8; 32]).verify_token(&token, NOW), Err(UploadTokenError::Invalid));
    }

    #[test]
    fn signatures_and_ids_depend_on_key_context_and_bytes() {
        let key = UploadKey([7; 32]);
        let signature = key.sign(b"a", b"bytes");
        assert!(key.has_signed(b"a", b"bytes", &signature));
        let id = key.derive_id(b"a", b"bytes");
        assert_eq!(key.derive_id(b"a", b"bytes"), id);

        for (key, context, bytes) in
            [(UploadKey([8; 32]), b"a", b"bytes"), (key.clone(), b"b", b"bytes"), (key.clone(), b"a", b"other")]
        {
            assert!(!key.has_signed(context, bytes, &signature));
            assert_ne!(key.derive_id(context, bytes), id);
        }
        for bad in ["", "AAAA", &signature[1..], &format!("{signature}A")] {
            assert!(!key.has_signed(b"a", b"bytes", bad), "{bad}");
        }
    }

    #[test]
    fn a_key_is_readable_by_its_owner_only_and_a_damaged_one_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url-key");
        assert!(UploadKey::read(&path).unwrap().is_none());
        let generated = UploadKey::generate(&path, &Environment::manual(NOW, 1)).unwrap();
        let found = UploadKey::read(&path).unwrap();
        assert_eq!(found.map(|key| key.0), Some(generated.0));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        for damaged in ["", "mduk_", "mduk_AAAA"] {
            std::fs::write(&path, damaged).unwrap();
            assert!(matches!(UploadKey::read(&path), Err(UploadKeyError::Malformed { .. })));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
        }
    }
}
