//! Payloads of records: opaque bytes, and the decoder of the application.

use crate::position::Position;

/// Maximum size of a payload in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;

/// Decoder of payloads. Readers number the events with it, and report a record that it does not understand as damage.
pub trait PayloadDecoder: 'static {
    /// A decoded payload: the events of one commit. Cheap to clone.
    type Commit: Clone + Send;

    /// Decodes a payload.
    ///
    /// # Errors
    /// Returns the reason if the bytes are not exactly one commit.
    fn decode(payload: &[u8]) -> Result<Self::Commit, String>;

    /// Returns the position of the first event, as the payload states it.
    fn first_position(commit: &Self::Commit) -> Position;

    /// Returns the number of events; at least 1.
    fn event_count(commit: &Self::Commit) -> u64;
}

/// A payload, or a part of it, exceeds its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadTooLarge {
    /// Size in bytes.
    pub bytes: usize,
}
