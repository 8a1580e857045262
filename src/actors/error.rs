//! Why a command had no effect: refused by a rule, or not carried out.

use crate::events::log::LogFailure;

/// Why a command had no effect. `R` is the refusal of the aggregate's own rules: a normal answer, not a failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError<R> {
    /// A rule forbids it.
    #[error("refused by a rule")]
    Rejected(R),
    /// One of its events would be larger than the log takes.
    #[error("an event of {bytes} bytes is too large")]
    TooLarge { bytes: usize },
    /// A queue is full; nothing was done, and it may be tried again soon.
    #[error("overloaded")]
    Overloaded,
    /// There is no room on the disk; nothing was done, and it may be tried again once there is.
    #[error("full: {reason}")]
    Full { reason: String },
    /// The log takes no more events until it is healed.
    #[error("read-only: {reason}")]
    ReadOnly { reason: String },
    /// The log could not be read or written.
    #[error("{reason}")]
    Failed { reason: String },
    /// The actor died while it worked on the command; whether the command took effect is not known here.
    #[error("interrupted")]
    Interrupted,
}

impl<R> From<LogFailure> for CommandError<R> {
    fn from(failure: LogFailure) -> Self {
        match failure {
            LogFailure::Full { reason } => Self::Full { reason },
            LogFailure::ReadOnly { reason } => Self::ReadOnly { reason },
            LogFailure::Storage { .. } | LogFailure::Damaged { .. } => Self::Failed { reason: failure.to_string() },
        }
    }
}
