//! The file with which a data directory begins to end the shared log, to leave the cluster or to begin a new
//! generation. Its attempt is that of the group that ends the log, so only one of several directories continues.
//! Backups do not contain it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::data_dir::{sync_parent, write_private};
use crate::environment::Environment;
use crate::events::shared::generation::LogGeneration;

/// Name of the file in the data directory.
pub const LEAVE_FILE: &str = "cluster-leave.json";
const FORMAT: u32 = 1;

/// An attempt of a data directory to end the shared log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaveMarker {
    format: u32,
    log_id: Uuid,
    /// Generation that the attempt ends.
    #[serde(default = "first_generation")]
    generation: u64,
    /// Id of the attempt.
    attempt: u64,
}

/// Reason why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}", path = .path.display())]
pub struct LeaveMarkerError {
    path: PathBuf,
    reason: String,
}

impl LeaveMarker {
    /// Reads the marker of a data directory; `None` if there is none, or only that of an earlier generation.
    ///
    /// # Errors
    /// If the file cannot be read, or belongs to another log or a later generation.
    pub fn read(data_dir: &Path, log: LogGeneration) -> Result<Option<Self>, LeaveMarkerError> {
        let marker = Self::read_any(data_dir, log)?;
        Ok(marker.filter(|marker| marker.generation == log.number))
    }

    fn read_any(data_dir: &Path, log: LogGeneration) -> Result<Option<Self>, LeaveMarkerError> {
        let path = data_dir.join(LEAVE_FILE);
        let failed = |reason: String| LeaveMarkerError { path: path.clone(), reason };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error.to_string())),
        };
        let marker: Self = serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?;
        if marker.format != FORMAT {
            return Err(failed(format!("has format {}, but this release reads {FORMAT}", marker.format)));
        }
        if marker.log_id != log.log_id || marker.generation > log.number {
            let ended = LogGeneration { log_id: marker.log_id, number: marker.generation };
            return Err(failed(format!("belongs to {ended}, this is {log}: remove it")));
        }
        Ok(Some(marker))
    }

    /// Begins an attempt: writes a marker durably. An interrupted attempt continues under its id, because the engine
    /// may store its group at any time.
    ///
    /// # Errors
    /// If the file cannot be read or written, or belongs to another log.
    pub fn begin(data_dir: &Path, log: LogGeneration, environment: &Environment) -> Result<Self, LeaveMarkerError> {
        if let Some(interrupted) = Self::read(data_dir, log)? {
            return Ok(interrupted);
        }

        let path = data_dir.join(LEAVE_FILE);
        let marker =
            Self { format: FORMAT, log_id: log.log_id, generation: log.number, attempt: new_attempt(environment) };
        let bytes = serde_json::to_vec_pretty(&marker).map_err(io::Error::other);
        let written = bytes.and_then(|bytes| write_private(&path, &bytes));
        written.map(|()| marker).map_err(|error| LeaveMarkerError { path, reason: error.to_string() })
    }

    /// Returns `true` if there is a marker of an earlier generation: the attempt was interrupted after the next one had
    /// begun.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn is_outdated(data_dir: &Path, log: LogGeneration) -> Result<bool, LeaveMarkerError> {
        Ok(Self::read_any(data_dir, log)?.is_some_and(|marker| marker.generation < log.number))
    }

    /// Removes the marker of an earlier generation, if there is one.
    ///
    /// # Errors
    /// If it cannot be read, or not be removed durably.
    pub fn remove_outdated(data_dir: &Path, log: LogGeneration) -> Result<(), LeaveMarkerError> {
        if Self::is_outdated(data_dir, log)? { Self::remove(data_dir) } else { Ok(()) }
    }

    /// Removes the marker, if there is one.
    ///
    /// # Errors
    /// If it cannot be removed durably.
    pub fn remove(data_dir: &Path) -> Result<(), LeaveMarkerError> {
        let path = data_dir.join(LEAVE_FILE);
        let removed = match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.and_then(|()| sync_parent(&path)),
        };
        removed.map_err(|error| LeaveMarkerError { path, reason: error.to_string() })
    }

    /// Returns the id of the attempt.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.attempt
    }
}

fn first_generation() -> u64 {
    LogGeneration::FIRST
}

/// Returns a random id, never the one of all attempts of the first release with clusters ([`u64::MAX`]).
fn new_attempt(environment: &Environment) -> u64 {
    u64::from_le_bytes(environment.random_bytes()) >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_keeps_its_id_until_the_marker_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let [log, other] = [1, 2].map(|id| LogGeneration::from(Uuid::from_u128(id)));
        let environment = Environment::system();
        let begin = |log| LeaveMarker::begin(directory.path(), log, &environment);

        let first = begin(log).unwrap();
        assert_eq!(begin(log).unwrap(), first);
        assert!(begin(other).is_err());

        // The next generation needs another attempt.
        let next = log.next();
        assert_eq!(LeaveMarker::read(directory.path(), next).unwrap(), None);
        assert!(LeaveMarker::is_outdated(directory.path(), next).unwrap());
        LeaveMarker::remove_outdated(directory.path(), next).unwrap();
        begin(next).unwrap();
        LeaveMarker::remove_outdated(directory.path(), next).unwrap();
        assert!(begin(log).is_err());

        for _ in 0..2 {
            LeaveMarker::remove(directory.path()).unwrap();
        }
        assert_ne!(begin(log).unwrap().attempt(), first.attempt());
    }
}
