//! Why a vendor could not be asked, told apart by what may be done next.

use std::time::Duration;

/// Whether a call reached the vendor, which decides whether it may be repeated (contract 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The vendor answered no: the same call would be refused again.
    Refused,
    /// The call surely did not arrive.
    Unreached,
    /// The vendor answered that it has too much to do (429, 503): nothing was begun.
    Busy,
    /// The vendor answered that it does not serve this service (credentials, credit, place): nothing was begun.
    Unserved,
    /// The call was sent and no answer came: the vendor may or may not have begun.
    Unknown,
}

impl ErrorKind {
    /// Whether the call may be repeated without the risk of a second job, whatever the vendor does with keys.
    #[must_use]
    pub const fn is_repeatable(self) -> bool {
        match self {
            Self::Unreached | Self::Busy | Self::Unserved => true,
            Self::Refused | Self::Unknown => false,
        }
    }
}

/// A call to a vendor that brought no answer to the question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct VendorError {
    pub kind: ErrorKind,
    /// A sentence for the owner of the task; holds no secrets.
    pub message: String,
    /// How long the vendor asks to be left alone.
    pub retry_after: Option<Duration>,
}

impl VendorError {
    /// An error without a wish for a pause.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_surely_began_nothing_is_repeated() {
        for kind in [ErrorKind::Unreached, ErrorKind::Busy, ErrorKind::Unserved] {
            assert!(kind.is_repeatable(), "{kind:?}");
        }
        assert!(!ErrorKind::Refused.is_repeatable() && !ErrorKind::Unknown.is_repeatable());
    }
}
