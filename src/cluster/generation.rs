//! Beginnings of the generations of a log, as the location that all nodes use and the nodes record them.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::events::journal::{ChainHash, JournalHead, hex};
use crate::events::shared::generation::LogGeneration;
use crate::events::stream::Position;

const FORMAT: u32 = 1;
/// Number of digits of a chain hash in messages.
const CHAIN_PREFIX_DIGITS: usize = 12;

/// End of a log in a JSON file: position and chain hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredHead(u64, String);

impl StoredHead {
    #[must_use]
    pub fn position(&self) -> Position {
        Position(self.0)
    }

    /// Returns the end of a log; `None` if the chain hash is malformed.
    #[must_use]
    pub fn decode(&self) -> Option<JournalHead> {
        let chain = hex::decode(&self.1).map(ChainHash)?;
        Some(JournalHead { position: Position(self.0), chain })
    }
}

impl From<JournalHead> for StoredHead {
    fn from(head: JournalHead) -> Self {
        Self(head.position.0, hex::encode(&head.chain.0))
    }
}

impl fmt::Display for StoredHead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(position, chain) = self;
        write!(formatter, "position {position} (chain {})", chain.get(..CHAIN_PREFIX_DIGITS).unwrap_or(chain))
    }
}

/// Beginning of a generation: the end of the log that its stream continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationRecord {
    format: u32,
    log_id: Uuid,
    generation: u64,
    base: StoredHead,
}

/// End of a cluster: `mediary cluster leave` has taken the last node out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaveRecord {
    format: u32,
    log_id: Uuid,
    /// The last generation of the cluster.
    generation: u64,
    /// End of the log.
    end: StoredHead,
    /// Attempt of the command, as in the marker of its directory.
    attempt: u64,
}

impl LeaveRecord {
    #[must_use]
    pub fn new(log: LogGeneration, end: StoredHead, attempt: u64) -> Self {
        Self { format: FORMAT, log_id: log.log_id, generation: log.number, end, attempt }
    }

    /// Reads the record of a generation.
    ///
    /// # Errors
    /// If it is malformed, or that of another log or generation.
    pub fn parse(bytes: &[u8], log: LogGeneration) -> Result<Self, String> {
        let record: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        check_record(record.format, record.log(), log).map(|()| record)
    }

    #[must_use]
    pub fn log(&self) -> LogGeneration {
        LogGeneration { log_id: self.log_id, number: self.generation }
    }

    #[must_use]
    pub fn end(&self) -> &StoredHead {
        &self.end
    }

    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.attempt
    }
}

/// Checks the format of a record, and that it is about `expected`.
fn check_record(format: u32, found: LogGeneration, expected: LogGeneration) -> Result<(), String> {
    if format != FORMAT {
        return Err(format!("has format {format}, but this release reads {FORMAT}"));
    }
    if found == expected { Ok(()) } else { Err(format!("is about {found}, not {expected}")) }
}

impl GenerationRecord {
    #[must_use]
    pub fn new(log: LogGeneration, base: StoredHead) -> Self {
        Self { format: FORMAT, log_id: log.log_id, generation: log.number, base }
    }

    /// Reads the record of a generation.
    ///
    /// # Errors
    /// If it is malformed, or that of another log or generation.
    pub fn parse(bytes: &[u8], log: LogGeneration) -> Result<Self, String> {
        let record: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        check_record(record.format, record.log(), log).map(|()| record)
    }

    #[must_use]
    pub fn log(&self) -> LogGeneration {
        LogGeneration { log_id: self.log_id, number: self.generation }
    }

    #[must_use]
    pub fn base(&self) -> &StoredHead {
        &self.base
    }
}
