//! The file with which a data directory begins to leave its cluster. Its attempt is that of the group that ends the log,
//! so of several directories only one goes on alone. Backups do not contain it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::data_dir::{sync_parent, write_private};
use crate::environment::Environment;

/// Name of the file in the data directory.
pub const LEAVE_FILE: &str = "cluster-leave.json";
const FORMAT: u32 = 1;

/// An attempt of a data directory to end the shared log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaveMarker {
    format: u32,
    log_id: Uuid,
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
    /// Reads the marker of a data directory; `None` if there is none.
    ///
    /// # Errors
    /// If the file cannot be read, or belongs to another log.
    pub fn read(data_dir: &Path, log_id: Uuid) -> Result<Option<Self>, LeaveMarkerError> {
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
        if marker.log_id != log_id {
            return Err(failed(format!("belongs to the log {}, this is {log_id}: remove it", marker.log_id)));
        }
        Ok(Some(marker))
    }

    /// Begins an attempt: writes a marker durably. An interrupted attempt goes on under its id, because the engine may
    /// store its group at any time.
    ///
    /// # Errors
    /// If the file cannot be read or written, or belongs to another log.
    pub fn begin(data_dir: &Path, log_id: Uuid, environment: &Environment) -> Result<Self, LeaveMarkerError> {
        if let Some(interrupted) = Self::read(data_dir, log_id)? {
            return Ok(interrupted);
        }

        let path = data_dir.join(LEAVE_FILE);
        let marker = Self { format: FORMAT, log_id, attempt: new_attempt(environment) };
        let bytes = serde_json::to_vec_pretty(&marker).map_err(io::Error::other);
        let written = bytes.and_then(|bytes| write_private(&path, &bytes));
        written.map(|()| marker).map_err(|error| LeaveMarkerError { path, reason: error.to_string() })
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
        let [log, other] = [1, 2].map(Uuid::from_u128);
        let environment = Environment::system();
        let begin = |log| LeaveMarker::begin(directory.path(), log, &environment);

        let first = begin(log).unwrap();
        assert_eq!(begin(log).unwrap(), first);
        assert!(begin(other).is_err());

        for _ in 0..2 {
            LeaveMarker::remove(directory.path()).unwrap();
        }
        assert_ne!(begin(log).unwrap().attempt(), first.attempt());
    }
}
