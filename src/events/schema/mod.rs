//! Stored shapes: what events look like on disk, apart from what they mean.
//!
//! One file per released version holds its frozen structs; only they are ever encoded. [`store`] turns domain values into
//! the newest shapes, [`restore`] turns the newest shapes into domain values. When a shape must change: declare it, and every
//! shape that holds it, in a file of the next number (what stays is used from the older file, frozen as it is), raise
//! [`VERSION`], upcast the old shape in `codec::decode`, and keep the golden bytes of both.

pub mod bytes;
pub mod restore;
pub mod store;
pub mod v1;
pub mod v2;

/// The version in which commits are written now.
pub const VERSION: u16 = 2;

/// Why stored bytes are not a commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are too few for even the schema version.
    #[error("the record ends before its schema version")]
    Short,
    /// The record was written by a newer release.
    #[error("schema version {0} is unknown to this release, which reads up to {VERSION}")]
    UnknownVersion(u16),
    /// The bytes do not have the shape of their schema version.
    #[error("the record does not decode: {0}")]
    Malformed(String),
    /// Some bytes are left after the record.
    #[error("{0} bytes are left after the record")]
    Trailing(usize),
    /// A value has a form that was never recorded.
    #[error("{field} {reason}")]
    Value { field: &'static str, reason: String },
    /// A commit without events was never recorded.
    #[error("the commit holds no events")]
    Empty,
}
