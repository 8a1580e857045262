//! Stored shapes of events, independent of the domain types.
//!
//! One file per released version holds its frozen structs; only they are ever encoded. [`mapping`] converts between
//! domain values and the newest shapes. To change a shape:
//! 1. Declare it, and every shape that contains it, in a file with the next number. Unchanged shapes are used from the
//!    older file, which stays frozen.
//! 2. Increase [`VERSION`] and upcast the old shape in `codec::decode`.
//! 3. Keep the golden bytes of both versions.

pub mod bytes;
pub mod mapping;
pub mod v1;
pub mod v2;

/// The version in which commits are written.
pub const VERSION: u16 = 2;

/// Reason why stored bytes are not a commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitDecodeError {
    /// The bytes end before the schema version does.
    #[error("the record ends before its schema version")]
    Short,
    /// A newer release wrote the record.
    #[error("schema version {0} is newer than {VERSION}, the newest that this release reads")]
    UnknownVersion(u16),
    /// The bytes do not have the shape of their schema version.
    #[error("cannot decode the record: {0}")]
    Malformed(String),
    /// Bytes remain after the record.
    #[error("{0} extra bytes after the record")]
    Trailing(usize),
    /// A value has a form that was never recorded.
    #[error("{field} {reason}")]
    Value { field: &'static str, reason: String },
    /// A commit without events was never recorded.
    #[error("the commit has no events")]
    Empty,
}
