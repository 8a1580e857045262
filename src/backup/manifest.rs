//! The manifest of a backup: a signed list of files with their hashes.

use std::fs;
use std::io;
use std::path::{Component, Path};

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::BackupError;
use crate::data_dir::write_private;
use crate::domain::value::Digest;
use crate::events::journal::{SignedCheckpoint, hex};

/// Name of the manifest file.
pub const MANIFEST_FILE: &str = "manifest.json";
/// Format tag of a manifest, and prefix of the signed message.
const FORMAT: &str = "mediary backup 1";

/// A file of the data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupFile {
    /// Relative to the data directory, with slashes.
    pub path: String,
    pub sha256: String,
    pub bytes: u64,
    /// Permissions, in octal digits.
    pub mode: String,
    /// Length to which a restore pads the file with zeros. Set for the segment of the journal that is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padded_to: Option<u64>,
}

/// A directory of the data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupDirectory {
    pub path: String,
    pub mode: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct ManifestBody {
    format: String,
    release: String,
    checkpoint: Value,
    directories: Vec<BackupDirectory>,
    files: Vec<BackupFile>,
}

#[derive(Serialize, Deserialize)]
struct SignedManifestJson {
    backup: ManifestBody,
    signature: String,
}

/// Content of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// State and time of the log at the position of the backup.
    pub checkpoint: SignedCheckpoint,
    /// Parents before their content.
    pub directories: Vec<BackupDirectory>,
    pub files: Vec<BackupFile>,
}

impl Manifest {
    /// Writes the manifest atomically.
    ///
    /// # Errors
    /// If the manifest cannot be written.
    pub fn write(&self, backup: &Path, key: &SigningKey) -> io::Result<()> {
        let body = ManifestBody {
            format: FORMAT.to_owned(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            checkpoint: self.checkpoint.to_json(),
            directories: self.directories.clone(),
            files: self.files.clone(),
        };

        let signature = hex::encode(&key.sign(&signed_message(&body)).to_bytes());
        let mut bytes = serde_json::to_vec_pretty(&SignedManifestJson { backup: body, signature })?;
        bytes.push(b'\n');
        write_private(&backup.join(MANIFEST_FILE), &bytes)
    }

    /// Reads the manifest of a backup and checks its signature; `None` if there is no manifest.
    ///
    /// # Errors
    /// If the manifest is damaged.
    pub fn read(backup: &Path) -> Result<Option<Self>, BackupError> {
        let path = backup.join(MANIFEST_FILE);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            result => result.map_err(BackupError::file(&path))?,
        };

        Self::parse(&bytes)
            .map(Some)
            .map_err(|reason| BackupError::Refused(format!("{} is damaged: {reason}", path.display())))
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let SignedManifestJson { backup, signature } =
            serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if backup.format != FORMAT {
            return Err(format!("its format is {:?}, not {FORMAT:?}", backup.format));
        }

        let checkpoint = SignedCheckpoint::from_json(&backup.checkpoint).map_err(|error| error.to_string())?;
        let is_valid_signature = VerifyingKey::from_bytes(&checkpoint.public_key())
            .ok()
            .zip(hex::decode(&signature))
            .is_some_and(|(key, signature)| {
                key.verify_strict(&signed_message(&backup), &Signature::from_bytes(&signature)).is_ok()
            });
        if !is_valid_signature {
            return Err("its signature is invalid".to_owned());
        }

        let manifest = Self { checkpoint, directories: backup.directories, files: backup.files };
        let paths =
            manifest.files.iter().map(|entry| &entry.path).chain(manifest.directories.iter().map(|entry| &entry.path));
        match paths.into_iter().find(|path| !is_inside(path)) {
            Some(path) => Err(format!("{path:?} leads out of the data directory")),
            None => Ok(manifest),
        }
    }

    /// Returns the file at a path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&BackupFile> {
        self.files.iter().find(|entry| entry.path == path)
    }
}

fn signed_message(backup: &ManifestBody) -> Vec<u8> {
    let bytes = serde_json::to_vec(backup).expect("structs with string keys always serialize");
    [FORMAT.as_bytes(), b"\n", &bytes].concat()
}

fn is_inside(path: &str) -> bool {
    let path = Path::new(path);
    path.components().next().is_some() && path.components().all(|part| matches!(part, Component::Normal(_)))
}

impl BackupFile {
    /// Returns the file's hash, if `sha256` is valid.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        Digest::parse(&self.sha256).ok()
    }
}

/// Parses permissions in octal digits; invalid text means read and write for the owner only.
#[must_use]
pub fn parse_mode(text: &str) -> u32 {
    u32::from_str_radix(text, 8).map_or(0o600, |mode| mode & 0o777)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::journal::{ChainHash, Checkpoint, JournalHead};
    use crate::events::stream::Position;

    /// Returns the bytes of a signed manifest with one file at this path.
    fn write_manifest(path: &str) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let key = SigningKey::from_bytes(&[9; 32]);
        let head = JournalHead { position: Position(3), chain: ChainHash([7; 32]) };
        let checkpoint = Checkpoint { log: uuid::Uuid::nil(), head, at_micros: 0 }.sign(&key);
        let path = path.to_owned();
        let mode = "600".to_owned();
        let file = BackupFile { path, sha256: "a5".repeat(32), bytes: 3, mode, padded_to: None };

        let manifest = Manifest { checkpoint, directories: Vec::new(), files: vec![file] };
        manifest.write(folder.path(), &key).unwrap();
        assert!(Manifest::read(folder.path()).is_err() || Manifest::read(folder.path()).unwrap() == Some(manifest));
        fs::read(folder.path().join(MANIFEST_FILE)).unwrap()
    }

    #[test]
    fn every_change_of_a_manifest_is_detected() {
        let bytes = write_manifest("log/signing.key");
        assert!(Manifest::parse(&bytes).is_ok());
        for at in (0..bytes.len()).filter(|at| !bytes[*at].is_ascii_whitespace()) {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Manifest::parse(&changed).is_err(), "byte {at}");
        }
    }

    #[test]
    fn paths_that_lead_out_of_the_data_directory_are_rejected() {
        for bad in ["../x", "/etc/passwd", "log/../../x", ""] {
            let error = Manifest::parse(&write_manifest(bad)).unwrap_err();
            assert!(error.contains("leads out"), "{bad}: {error}");
        }
    }
}
