//! The engine of a shared log: an external service that orders and stores groups, whose content it does not know.

use std::ops::ControlFlow;

/// Result of sending a group once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendResult {
    /// The engine has stored the group durably, under this sequence.
    Stored { sequence: u64 },
    /// The group may be stored, now or later.
    Unknown { reason: String },
    /// The group is not stored and will not be.
    NotStored { reason: String },
    /// The group is not stored and will not be, because the engine has no more space.
    Full { reason: String },
}

/// Signal from the engine to a follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineSignal {
    /// The next group.
    Group { sequence: u64, group: Vec<u8> },
    /// The engine responds and has nothing new.
    Alive,
    /// The engine does not respond at the moment.
    Silent,
}

/// Reason why the engine cannot be reached at the moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EngineUnreachable(pub String);

/// Reason why the engine was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineOpenError {
    /// The servers do not respond; they may later.
    #[error("{0}")]
    Unreachable(String),
    /// The options, the servers or the settings of the stored log must be changed first.
    #[error("{0}")]
    Unsuitable(String),
    /// The servers have no such log.
    #[error("{0}")]
    Missing(String),
    /// The stored log lacks groups.
    #[error("{0}")]
    Damaged(String),
}

/// Reason why the engine must no longer be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineFault {
    /// A group is missing.
    #[error("the engine returned group {found} instead of group {expected}")]
    Gap { expected: u64, found: u64 },
    /// The engine has fewer groups than it had.
    #[error("the engine ends at group {last}, but the node has applied group {applied}")]
    Shorter { last: u64, applied: u64 },
    /// The settings of the engine permit the loss of groups, or it belongs to another log.
    #[error("{0}")]
    Unsuitable(String),
}

/// Incidents since the engine was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineIncidents {
    /// Lost connections.
    pub connections_lost: u64,
    /// Groups that a server did not have although it had later ones.
    pub groups_missing: u64,
}

/// An ordered, durable sequence of groups, numbered from 1.
///
/// All calls block. Every engine guarantees:
/// - *Durable*: a group for which [`Engine::send`] returned [`SendResult::Stored`] survives everything that the engine
///   promises to survive.
/// - *Ordered*: all followers receive the same groups in the same order, without gaps.
/// - *At any time*: a group may appear once, twice, late or never, even after a later one of its sender. The rules of
///   the log make repeated and late groups harmless.
pub trait Engine: Send + Sync + 'static {
    /// Sends a group once and waits a limited time for the engine to store it.
    fn send(&self, group: &[u8]) -> SendResult;

    /// Calls `each` with the groups after sequence `after`, and at least once a second, until it breaks. Waits while the
    /// engine does not respond.
    ///
    /// # Errors
    /// If the engine must no longer be used.
    fn follow(&self, after: u64, each: &mut dyn FnMut(EngineSignal) -> ControlFlow<()>) -> Result<(), EngineFault>;

    /// Returns the sequence of the last group stored before the call, or 0 without one.
    ///
    /// # Errors
    /// If the engine does not respond.
    fn last(&self) -> Result<u64, EngineUnreachable>;

    /// Returns what has happened since the engine was opened.
    fn incidents(&self) -> EngineIncidents {
        EngineIncidents::default()
    }

    /// Sends a message to all listeners, this process included. It is not stored and may be lost.
    fn announce(&self, message: &[u8]);

    /// Calls `each` with the messages announced from now on, and at least once a second with `None`, until it breaks.
    fn listen(&self, each: &mut dyn FnMut(Option<&[u8]>) -> ControlFlow<()>);
}
