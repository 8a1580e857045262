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
use uuid::Uuid;

use crate::clock::Surroundings;
use crate::data_dir::{read_private, to_help, write_private};
use crate::domain::ids::{TokenId, UserId, VersionId};
use crate::domain::value::Timestamp;

/// Validity of a link (contract 4).
pub const VALID_FOR: Duration = Duration::from_mins(15);

/// Prefix of the key.
const KEY_PREFIX: &str = "mduk_";
/// Prefix of the authenticated data, so that no other use of the key yields a valid link.
const PURPOSE: &[u8] = b"mediary upload link 1\n";
/// Prefix for deriving keys for other purposes.
const DERIVED: &[u8] = b"mediary key derived from that of the upload links 1\n";
/// Holder, version and time, in this order.
const GRANT_BYTES: usize = 1 + 16 + 16 + 8;
const CODE_BYTES: usize = 32;

/// Permission given by a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub version: VersionId,
    /// The upload is recorded as an action of the holder.
    pub holder: Holder,
    /// Expiry.
    pub until: Timestamp,
}

/// Requester of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holder {
    User(UserId),
    Token(TokenId),
}

/// Reason why a link is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketRefusal {
    /// Not created by this service.
    Invalid,
    /// Expired.
    Expired,
}

/// Reason why the key is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum KeyFailure {
    /// The file cannot be read or written.
    #[error("key of the upload links {path}: {source}{}", to_help(path, source))]
    File { path: PathBuf, source: io::Error },
    /// The file does not contain a key.
    #[error("key of the upload links {path}: does not hold {KEY_PREFIX} and 32 bytes in base64")]
    Malformed { path: PathBuf },
}

/// Key that authenticates links.
#[derive(Clone)]
pub struct UploadKey([u8; 32]);

impl UploadKey {
    /// Reads the key from a file; `None` if the file does not exist.
    ///
    /// # Errors
    /// Returns [`KeyFailure`] if the file cannot be read or is damaged.
    pub fn read(path: &Path) -> Result<Option<Self>, KeyFailure> {
        let text = read_private(path).map_err(|source| KeyFailure::File { path: path.to_owned(), source })?;
        let key =
            text.map(|text| Self::parse(text.trim()).ok_or_else(|| KeyFailure::Malformed { path: path.to_owned() }));
        key.transpose()
    }

    /// Creates a key and writes it to a file that only its owner can read.
    ///
    /// # Errors
    /// Returns [`KeyFailure`] if the file cannot be written.
    pub fn make(path: &Path, surroundings: &Surroundings) -> Result<Self, KeyFailure> {
        let key = Self(surroundings.secret());
        let text = format!("{KEY_PREFIX}{}\n", STANDARD.encode(key.0));
        write_private(path, text.as_bytes()).map_err(|source| KeyFailure::File { path: path.to_owned(), source })?;
        Ok(key)
    }

    /// Derives a key for another purpose, which reveals nothing about this one.
    #[must_use]
    pub fn derived(&self, purpose: &[u8]) -> [u8; 32] {
        Sha256::new().chain_update(DERIVED).chain_update(self.0).chain_update(purpose).finalize().into()
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.strip_prefix(KEY_PREFIX)?).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// Returns the text of a link, safe for a URL path.
    #[must_use]
    pub fn ticket(&self, grant: &Grant) -> String {
        let bytes = grant.to_bytes();
        let code = self.code(&bytes).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode([&bytes[..], &code[..]].concat())
    }

    /// Verifies a link and returns its permission.
    ///
    /// # Errors
    /// Returns [`TicketRefusal`] if the link was not created by this service, or has expired.
    pub fn grant(&self, ticket: &str, now: Timestamp) -> Result<Grant, TicketRefusal> {
        let grant = self.recognise(ticket).ok_or(TicketRefusal::Invalid)?;
        if now < grant.until { Ok(grant) } else { Err(TicketRefusal::Expired) }
    }

    fn recognise(&self, ticket: &str) -> Option<Grant> {
        let bytes = URL_SAFE_NO_PAD.decode(ticket).ok().filter(|bytes| bytes.len() == GRANT_BYTES + CODE_BYTES)?;
        let (grant, code) = bytes.split_at(GRANT_BYTES);
        // Compares in constant time.
        self.code(grant).verify_slice(code).ok()?;
        Grant::from_bytes(grant)
    }

    fn code(&self, grant: &[u8]) -> Hmac<Sha256> {
        let hmac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of every length");
        hmac.chain_update(PURPOSE).chain_update(grant)
    }
}

impl Grant {
    fn to_bytes(self) -> Vec<u8> {
        let (kind, holder) = match self.holder {
            Holder::User(UserId(id)) => (0, id),
            Holder::Token(TokenId(id)) => (1, id),
        };
        let until = self.until.micros().to_be_bytes();
        [&[kind], &holder.as_bytes()[..], &self.version.0.as_bytes()[..], &until[..]].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (holder, rest) = rest.split_at_checked(16)?;
        let (version, until) = rest.split_at_checked(16)?;
        let holder = Uuid::from_slice(holder).ok()?;
        let holder = if *kind == 0 { Holder::User(UserId(holder)) } else { Holder::Token(TokenId(holder)) };
        let until = Timestamp::from_micros(i64::from_be_bytes(until.try_into().ok()?));
        Some(Self { version: VersionId(Uuid::from_slice(version).ok()?), holder, until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const NOW: Timestamp = Timestamp::from_micros(1_614_265_330_000_000);

    fn grant(holder: Holder) -> Grant {
        let until = Timestamp::from_micros(NOW.micros() + 1);
        Grant { version: VersionId(Uuid::from_u128(7)), holder, until }
    }

    #[test]
    fn a_ticket_says_what_it_was_made_for_and_only_until_then() {
        let key = UploadKey([7; 32]);
        for holder in [Holder::User(UserId(Uuid::from_u128(1))), Holder::Token(TokenId(Uuid::from_u128(2)))] {
            let grant = grant(holder);
            let ticket = key.ticket(&grant);
            assert!(ticket.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "{ticket}");
            assert_eq!(key.grant(&ticket, NOW), Ok(grant));
            assert_eq!(key.grant(&ticket, grant.until), Err(TicketRefusal::Expired));
        }
    }

    #[test]
    fn no_part_of_a_ticket_can_be_changed() {
        let key = UploadKey([7; 32]);
        let ticket = key.ticket(&grant(Holder::User(UserId(Uuid::nil()))));
        for at in 0..ticket.len() {
            let mut forged = ticket.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert_eq!(key.grant(&forged, NOW), Err(TicketRefusal::Invalid), "{at}");
        }
        for bad in ["", "x", &ticket[1..], &format!("{ticket}A"), &ticket.replace(['-', '_'], "+"), "äöü"] {
            assert!(bad == ticket || key.grant(bad, NOW) == Err(TicketRefusal::Invalid), "{bad}");
        }
        assert_eq!(UploadKey([8; 32]).grant(&ticket, NOW), Err(TicketRefusal::Invalid));
    }

    #[test]
    fn a_key_is_kept_only_its_owner_reads_it_and_a_damaged_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url-key");
        assert!(UploadKey::read(&path).unwrap().is_none());
        let made = UploadKey::make(&path, &Surroundings::manual(NOW, 1)).unwrap();
        let found = UploadKey::read(&path).unwrap();
        assert_eq!(found.map(|key| key.0), Some(made.0));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        for damaged in ["", "mduk_", "mduk_AAAA"] {
            std::fs::write(&path, damaged).unwrap();
            assert!(matches!(UploadKey::read(&path), Err(KeyFailure::Malformed { .. })));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
        }
    }
}
