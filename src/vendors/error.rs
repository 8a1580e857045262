//! Errors of vendor calls, classified by the possible reactions.

use std::time::Duration;

/// Effect of a failed call at the vendor, which determines whether it may be repeated (contract 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VendorErrorKind {
    /// The vendor rejected the call and would do so again.
    Refused,
    /// The call certainly did not arrive.
    Unreached,
    /// An input cannot be read in this service; nothing was sent. Says nothing about the vendor.
    InputUnreadable,
    /// The vendor is overloaded (429, 503); nothing was started.
    Busy,
    /// The vendor rejects every call of this service (credentials, credit, address); nothing was started.
    Unserved,
    /// The call was sent, but no usable response came: the vendor may have started.
    Unknown,
}

impl VendorErrorKind {
    /// Returns `true` if repeating the call cannot create a second job, even without idempotency keys.
    #[must_use]
    pub const fn is_repeatable(self) -> bool {
        match self {
            Self::Unreached | Self::InputUnreadable | Self::Busy | Self::Unserved => true,
            Self::Refused | Self::Unknown => false,
        }
    }
}

/// Error of a vendor call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct VendorError {
    pub kind: VendorErrorKind,
    /// A sentence for the owner of the task, without secrets.
    pub message: String,
    /// Pause that the vendor requests.
    pub retry_after: Option<Duration>,
}

impl VendorError {
    /// Returns an error without a requested pause.
    pub fn new(kind: VendorErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_that_certainly_started_nothing_are_repeatable() {
        for kind in [
            VendorErrorKind::Unreached,
            VendorErrorKind::InputUnreadable,
            VendorErrorKind::Busy,
            VendorErrorKind::Unserved,
        ] {
            assert!(kind.is_repeatable(), "{kind:?}");
        }
        assert!(!VendorErrorKind::Refused.is_repeatable() && !VendorErrorKind::Unknown.is_repeatable());
    }
}
