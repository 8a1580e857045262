//! Identifiers and hashes in stored shapes: bytes in records, text in JSON.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

/// A UUID: 16 bytes, hyphenated in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct StoredId(pub [u8; 16]);

/// A SHA-256: 32 bytes, hexadecimal in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct StoredSha256(pub [u8; 32]);

impl From<Uuid> for StoredId {
    fn from(uuid: Uuid) -> Self {
        Self(uuid.into_bytes())
    }
}

impl Serialize for StoredId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(&Uuid::from_bytes(self.0))
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl Serialize for StoredSha256 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(&Hex(&self.0))
        } else {
            self.0.serialize(serializer)
        }
    }
}

/// Bytes as lower-case hexadecimal text.
pub struct Hex<'b>(pub &'b [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble & 15)]);
        for byte in self.0 {
            f.write_char(digit(byte >> 4))?;
            f.write_char(digit(*byte))?;
        }
        Ok(())
    }
}
