//! The file that makes a data directory a node of a cluster. A backup contains it, so a restored backup is one too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::generation::{GenerationRecord, StoredHead};
use crate::data_dir::{shell_quote, sync_parent, to_help, write_private};
use crate::events::journal::{JournalHead, hex};
use crate::events::shared::generation::LogGeneration;

const MEMBERSHIP_FILE: &str = "cluster.json";
/// Format of the first generation.
const FORMAT: u32 = 1;
/// Format of later generations, so that releases that know only the first one do not open its stream.
const GENERATION_FORMAT: u32 = 2;
/// Files with secrets that all nodes need: tokens and signatures of one are checked by the others.
const SECRET_FILES: [&str; 4] = ["admin-token", "url-key", "webhook-key", "idempotency-key"];

/// Membership of a data directory in a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    format: u32,
    log_id: Uuid,
    /// Absent in the first generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    /// End of the log when the generation began, which its stream continues.
    base: StoredHead,
    /// Hash of the secrets, by file.
    secrets: Vec<(String, String)>,
    #[serde(default)]
    files: LocationKind,
}

/// Kind of the location that has the files of all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LocationKind {
    /// A directory that all nodes mount.
    #[default]
    Directory,
    Bucket,
}

impl LocationKind {
    fn name(self) -> &'static str {
        match self {
            Self::Directory => "a directory",
            Self::Bucket => "a bucket",
        }
    }
}

/// Reason why a data directory cannot be used as it is configured.
#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    #[error("{path}: {reason}", path = .path.display())]
    File { path: PathBuf, reason: String },
    #[error(
        "{} is a node of a cluster, but cluster.engine is not set: set it, or take the directory out of the cluster with \
         `mediary cluster leave`", .0.display()
    )]
    NotConfigured(PathBuf),
    #[error(
        "cluster.engine is set, but {} is not a node of a cluster: start the first node once without it and run \
         `mediary cluster init`; any other node starts on a restored backup of a node", .0.display()
    )]
    NotMember(PathBuf),
    #[error("{path} belongs to the log {expected}, but the directory has the log {found}: restore a backup of a node", path = .path.display())]
    OtherLog { path: PathBuf, expected: Uuid, found: Uuid },
    #[error(
        "cluster.files is {configured}, but the files of this cluster are in {recorded}: name that one. To move them, stop all \
         nodes, run `mediary cluster leave`, change cluster.files and run `mediary cluster init`",
        configured = .configured.name(), recorded = .recorded.name()
    )]
    OtherLocation { configured: LocationKind, recorded: LocationKind },
    #[error(
        "the secrets of this node differ from those of its cluster: {files}. Copy them from another node, or restore a backup \
         of one", files = .files.iter().map(|file| shell_quote(&file.display().to_string())).collect::<Vec<_>>().join(", ")
    )]
    OtherSecrets { files: Vec<PathBuf> },
}

impl Membership {
    /// Returns the membership of a data directory with these secrets. Its log ends at `base`, where the generation begins.
    ///
    /// # Errors
    /// If a secret cannot be read.
    pub fn of(
        data_dir: &Path,
        log: impl Into<LogGeneration>,
        base: JournalHead,
        files: LocationKind,
    ) -> Result<Self, MembershipError> {
        let log = log.into();
        let first = Self {
            format: FORMAT,
            log_id: log.log_id,
            generation: None,
            base: base.into(),
            secrets: hash_secrets(data_dir)?,
            files,
        };
        Ok(if log.is_first() { first } else { first.in_generation(log.number, base.into()) })
    }

    /// Checks that the settings name the kind of location that has the files.
    ///
    /// # Errors
    /// If the check fails.
    pub fn check_files(&self, configured: LocationKind) -> Result<(), MembershipError> {
        let recorded = self.files;
        if configured == recorded { Ok(()) } else { Err(MembershipError::OtherLocation { configured, recorded }) }
    }

    /// Returns the kind of location that has the files.
    #[must_use]
    pub fn files(&self) -> LocationKind {
        self.files
    }

    /// Returns the membership in another generation.
    #[must_use]
    pub fn in_generation(self, generation: u64, base: StoredHead) -> Self {
        Self { format: GENERATION_FORMAT, generation: Some(generation), base, ..self }
    }

    /// Returns the beginning of the generation.
    #[must_use]
    pub fn record(&self) -> GenerationRecord {
        GenerationRecord::new(self.log(), self.base.clone())
    }

    /// Returns the end of the log when the generation began.
    ///
    /// # Errors
    /// If the file is malformed.
    pub fn base(&self, data_dir: &Path) -> Result<JournalHead, MembershipError> {
        self.base.decode().ok_or_else(|| MembershipError::File {
            path: data_dir.join(MEMBERSHIP_FILE),
            reason: "has no valid chain hash".to_owned(),
        })
    }

    /// Reads the membership of a data directory; `None` if it is not a node.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(data_dir: &Path) -> Result<Option<Self>, MembershipError> {
        let path = data_dir.join(MEMBERSHIP_FILE);
        let failed = |reason: String| MembershipError::File { path: path.clone(), reason };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(format!("{error}{}", to_help(&path, &error)))),
        };
        let membership: Self = serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?;
        if ![FORMAT, GENERATION_FORMAT].contains(&membership.format) {
            return Err(failed(format!(
                "has format {}, but this release reads {FORMAT} and {GENERATION_FORMAT}",
                membership.format
            )));
        }
        Ok(Some(membership))
    }

    /// Writes the membership.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, data_dir: &Path) -> Result<(), MembershipError> {
        let path = data_dir.join(MEMBERSHIP_FILE);
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other);
        let written = text.and_then(|text| write_private(&path, &text));
        written.map_err(|error| MembershipError::File { path, reason: error.to_string() })
    }

    /// Removes the membership.
    ///
    /// # Errors
    /// If the file cannot be removed durably.
    pub fn remove(data_dir: &Path) -> Result<(), MembershipError> {
        let path = data_dir.join(MEMBERSHIP_FILE);
        let removed = fs::remove_file(&path).and_then(|()| sync_parent(&path));
        removed.map_err(|error| MembershipError::File { path, reason: error.to_string() })
    }

    /// Returns the id of the cluster's log.
    #[must_use]
    pub fn log_id(&self) -> Uuid {
        self.log_id
    }

    /// Returns the log and its generation.
    #[must_use]
    pub fn log(&self) -> LogGeneration {
        LogGeneration { log_id: self.log_id, number: self.generation.unwrap_or(LogGeneration::FIRST) }
    }

    /// Checks that the data directory has the log and the secrets of the cluster.
    ///
    /// # Errors
    /// If the check fails.
    pub fn check(&self, data_dir: &Path, log_id: Uuid) -> Result<(), MembershipError> {
        if self.log_id != log_id {
            let path = data_dir.join(MEMBERSHIP_FILE);
            return Err(MembershipError::OtherLog { path, expected: self.log_id, found: log_id });
        }

        let own = hash_secrets(data_dir)?;
        let differs = |(file, _): &&(String, String)| {
            let hash_in = |secrets: &[(String, String)]| secrets.iter().find(|other| other.0 == *file).cloned();
            hash_in(&own) != hash_in(&self.secrets)
        };
        let files: Vec<_> = self.secrets.iter().filter(differs).map(|(file, _)| data_dir.join(file)).collect();
        if files.is_empty() { Ok(()) } else { Err(MembershipError::OtherSecrets { files }) }
    }
}

/// Checks that a data directory is a node if, and only if, an engine is configured. Returns its membership.
///
/// # Errors
/// If the check fails.
pub fn check_configured(data_dir: &Path, has_engine: bool) -> Result<Option<Membership>, MembershipError> {
    match (Membership::read(data_dir)?, has_engine) {
        (Some(_), false) => Err(MembershipError::NotConfigured(data_dir.to_owned())),
        (None, true) => Err(MembershipError::NotMember(data_dir.to_owned())),
        (membership, _) => Ok(membership),
    }
}

fn hash_secrets(data_dir: &Path) -> Result<Vec<(String, String)>, MembershipError> {
    let mut hashes = Vec::new();
    for file in SECRET_FILES {
        let path = data_dir.join(file);
        match fs::read(&path) {
            // The secrets have 128 random bits or more, so the hash does not reveal them.
            Ok(bytes) => hashes.push((file.to_owned(), hex::encode(&Sha256::digest(bytes)))),
            // The administrator's token may be configured instead.
            Err(error) if error.kind() == io::ErrorKind::NotFound && file == "admin-token" => {}
            Err(error) => return Err(MembershipError::File { path, reason: error.to_string() }),
        }
    }
    Ok(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::journal::ChainHash;
    use crate::events::stream::Position;

    fn directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for file in SECRET_FILES {
            fs::write(directory.path().join(file), format!("secret of {file}")).unwrap();
        }
        directory
    }

    #[test]
    fn a_directory_is_a_node_exactly_if_it_has_an_engine() {
        let directory = directory();
        let root = directory.path();
        assert_eq!(check_configured(root, false).unwrap(), None);
        assert!(matches!(check_configured(root, true), Err(MembershipError::NotMember(_))));

        let log = Uuid::from_u128(1);
        let base = JournalHead { position: Position(7), chain: ChainHash::genesis(log) };
        let membership = Membership::of(root, log, base, LocationKind::Directory).unwrap();
        membership.write(root).unwrap();
        let read = check_configured(root, true).unwrap().unwrap();
        assert_eq!(read, membership);
        assert_eq!(read.base(root).unwrap(), base);
        assert!(matches!(check_configured(root, false), Err(MembershipError::NotConfigured(_))));

        // A later generation has a format that earlier releases refuse.
        let second = membership.in_generation(2, JournalHead { position: Position(9), ..base }.into());
        second.write(root).unwrap();
        let read = Membership::read(root).unwrap().unwrap();
        assert_eq!((read.log().number, read.base(root).unwrap().position, read.format), (2, Position(9), 2));

        Membership::remove(root).unwrap();
        assert_eq!(check_configured(root, false).unwrap(), None);
    }

    #[test]
    fn other_secrets_and_other_logs_are_named() {
        let directory = directory();
        let root = directory.path();
        let [log, other] = [1, 2].map(Uuid::from_u128);
        let base = JournalHead { position: Position(7), chain: ChainHash::genesis(log) };
        let membership = Membership::of(root, log, base, LocationKind::Directory).unwrap();
        assert!(membership.check(root, log).is_ok());
        assert!(matches!(membership.check(root, other), Err(MembershipError::OtherLog { .. })));

        fs::write(root.join("webhook-key"), "another").unwrap();
        let message = membership.check(root, log).unwrap_err().to_string();
        assert!(message.contains("webhook-key") && !message.contains("url-key"), "{message}");
    }
}
