//! Generations of a shared log: each one is stored in its own stream or tables of the engine.
//!
//! The engine deletes no groups, so its stream grows, and a stream that has lost groups cannot be repaired. `mediary
//! cluster rebuild-engine` continues the log in an empty one, which is the next generation.

use std::fmt;

use uuid::Uuid;

/// A generation of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogGeneration {
    pub log_id: Uuid,
    /// Number of the generation, from 1 on.
    pub number: u64,
}

impl LogGeneration {
    /// Number of the first generation.
    pub const FIRST: u64 = 1;

    /// Returns `true` for the generation that `mediary cluster init` creates.
    #[must_use]
    pub fn is_first(self) -> bool {
        self.number == Self::FIRST
    }

    /// Returns the generation that follows this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self { number: self.number + 1, ..self }
    }

    /// Returns the name in the engine: the id of the log, and the number of every generation but the first.
    #[must_use]
    pub fn name(self) -> String {
        let id = self.log_id.simple();
        if self.is_first() { id.to_string() } else { format!("{id}_{}", self.number) }
    }

    /// Reads a name in the engine; `None` if it is that of another log.
    #[must_use]
    pub fn parse_name(log_id: Uuid, name: &str) -> Option<Self> {
        let number = match name.strip_prefix(&log_id.simple().to_string())? {
            "" => Self::FIRST,
            rest => rest.strip_prefix('_')?.parse().ok()?,
        };
        let log = Self { log_id, number };
        (log.name() == name).then_some(log)
    }
}

impl From<Uuid> for LogGeneration {
    /// Returns the first generation of a log.
    fn from(log_id: Uuid) -> Self {
        Self { log_id, number: Self::FIRST }
    }
}

impl fmt::Display for LogGeneration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { log_id, number } = self;
        if self.is_first() {
            write!(formatter, "log {log_id}")
        } else {
            write!(formatter, "generation {number} of log {log_id}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_later_generations_have_their_number_in_the_name() {
        let first = LogGeneration::from(Uuid::from_u128(1));
        assert_eq!(first.name(), format!("{:032}", 1));
        assert_eq!(first.next().name(), format!("{:032}_2", 1));
    }

    #[test]
    fn names_of_other_logs_are_not_read() {
        let first = LogGeneration::from(Uuid::from_u128(1));
        let parse = |name: &str| LogGeneration::parse_name(first.log_id, name);
        for log in [first, first.next()] {
            assert_eq!(parse(&log.name()), Some(log));
        }
        let other = LogGeneration::from(Uuid::from_u128(2)).next().name();
        let name = first.name();
        for other in [other, format!("{name}_"), format!("{name}2"), format!("{name}_1"), format!("{name}_02")] {
            assert_eq!(parse(&other), None, "{other}");
        }
    }
}
