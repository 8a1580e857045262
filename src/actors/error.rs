//! Errors of commands: rejected by a rule, not executed, or with an unknown outcome.

use crate::events::log::LogFailure;
use crate::projections::budget::BudgetExceeded;

/// Reason why a command had no effect, or why its outcome is unknown. `R` is a rejection by the aggregate's rules: a
/// normal response, not a failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError<R> {
    /// A rule of the aggregate forbids the command.
    #[error("rejected by a rule")]
    Rejected(R),
    /// The command would exceed a budget. Nothing was done.
    #[error("exceeds the budget of {}", .0.subject)]
    BudgetExceeded(Box<BudgetExceeded>),
    /// An event of the command exceeds the size limit of the log.
    #[error("an event of {bytes} bytes is too large")]
    TooLarge { bytes: usize },
    /// Another node is executing or has executed a request with the same idempotency key. Nothing was done; a retry
    /// gets the response.
    #[error("the idempotency key is in use")]
    Claimed,
    /// The decision was based on an outdated state. Nothing was done; a retry sees the new state.
    #[error("another change came first")]
    Overtaken,
    /// A queue is full. Nothing was done; a retry may succeed soon.
    #[error("overloaded")]
    Overloaded,
    /// The disk is full. Nothing was done; a retry succeeds once there is space.
    #[error("full: {reason}")]
    Full { reason: String },
    /// The shared log cannot be reached. Nothing was done; a retry may succeed later.
    #[error("unreachable: {reason}")]
    Unreachable { reason: String },
    /// The shared log did not confirm the append in time. The command may take effect later.
    #[error("outcome unknown: {reason}")]
    OutcomeUnknown { reason: String },
    /// The log is read-only until it is repaired.
    #[error("read-only: {reason}")]
    ReadOnly { reason: String },
    /// The log could not be read or written.
    #[error("{reason}")]
    Failed { reason: String },
    /// The actor died while it executed the command; it is unknown whether the command took effect.
    #[error("interrupted")]
    Interrupted,
}

impl<R> From<LogFailure> for CommandError<R> {
    fn from(failure: LogFailure) -> Self {
        match failure {
            LogFailure::Full { reason } => Self::Full { reason },
            LogFailure::ReadOnly { reason } => Self::ReadOnly { reason },
            LogFailure::Unreachable { reason } => Self::Unreachable { reason },
            LogFailure::OutcomeUnknown { reason } => Self::OutcomeUnknown { reason },
            LogFailure::Closed => Self::ReadOnly { reason: failure.to_string() },
            LogFailure::Storage { .. } | LogFailure::Damaged { .. } | LogFailure::Diverged { .. } => {
                Self::Failed { reason: failure.to_string() }
            }
        }
    }
}
