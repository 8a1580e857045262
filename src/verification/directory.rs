//! Verification of a data directory: the journal itself, sled and the snapshot against the journal, user keys against
//! the data sealed with them, and content files against their hashes and the versions that refer to them.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::personal_keys::UserKeyCheck;
use super::sled_copy::SledCopy;
use super::snapshot_check::SnapshotCheck;
use super::{ProgressCallback, VerificationFindings, findings_json, key_hex};
use crate::data_dir::{is_directory, to_help};
use crate::environment::Environment;
use crate::events::journal::{ScannedRecord, SignedCheckpoint, hex};
use crate::events::open_error::OpenError;
use crate::events::verify::{Finding, JournalReport, LogReport, LogVerification};
use crate::media::content_check::{self, CONTENT_DIRECTORIES, ContentCounts, ContentReport};
use crate::pluralize::pluralize;
use crate::projections::read_models::Models;

/// Reason why a directory cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryVerificationError {
    #[error("{} is not a data directory: it has no log/journal; name one with --data-dir", .0.display())]
    NotADataDirectory(PathBuf),
    #[error(transparent)]
    Journal(#[from] OpenError),
    #[error("{path}: {reason}{}", to_help(path, reason), path = path.display())]
    File { path: PathBuf, reason: io::Error },
}

impl DirectoryVerificationError {
    /// Wraps a file system error.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |reason| Self::File { path, reason }
    }
}

/// Result of verifying a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryReport {
    pub journal: JournalReport,
    /// Number of records by schema version.
    pub schemas: BTreeMap<u16, u64>,
    pub files: ContentCounts,
    /// All defects, of the journal and beyond.
    pub findings: Vec<Finding>,
    /// Parts that could not be verified.
    pub unverified: Vec<String>,
    /// Remarks that are not defects.
    pub notes: Vec<String>,
}

/// Use of the directory by a service.
pub enum DirectoryUse {
    /// No service uses it, and none can start while this is held.
    Free(Option<File>),
    Running,
}

/// Checks whether a service holds the directory, without creating or changing anything.
///
/// # Errors
/// If it is not a data directory, or cannot be read.
pub fn directory_use(root: &Path) -> Result<DirectoryUse, DirectoryVerificationError> {
    if !is_directory(&root.join("log/journal")).map_err(DirectoryVerificationError::file(root))? {
        return Err(DirectoryVerificationError::NotADataDirectory(root.to_owned()));
    }

    let path = root.join("lock");
    let lock = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(DirectoryUse::Free(None)),
        opened => opened.map_err(DirectoryVerificationError::file(&path))?,
    };

    match lock.try_lock_shared() {
        Ok(()) => Ok(DirectoryUse::Free(Some(lock))),
        Err(TryLockError::WouldBlock) => Ok(DirectoryUse::Running),
        Err(TryLockError::Error(error)) => Err(DirectoryVerificationError::file(&path)(error)),
    }
}

/// Verifies everything. `since` is a checkpoint that the history must contain.
///
/// # Errors
/// If the directory cannot be verified. Defects are in the report instead.
pub fn verify(
    root: &Path,
    since: Option<&SignedCheckpoint>,
    environment: &Environment,
    progress: ProgressCallback<'_>,
) -> Result<DirectoryReport, DirectoryVerificationError> {
    // Holds the lock, if the directory is free, until the end.
    let directory_use = directory_use(root)?;
    let running = matches!(directory_use, DirectoryUse::Running);

    let total = journal_bytes(root) + content_bytes(root)?;
    let mut bytes_done = 0;
    let mut advance = |bytes: u64| {
        bytes_done += bytes;
        progress(bytes_done.min(total), total);
    };

    let mut models = Models::default();
    let mut snapshot = SnapshotCheck::open(root);
    let mut sled = (!running).then(|| SledCopy::create(root, environment));

    let mut found = VerificationFindings::default();
    if running {
        let note = "a service is running on it: the journal was read up to its signed HEAD, sled was not compared";
        found.notes.push(note.to_owned());
    }

    let mut on_record = |record: &ScannedRecord<'_>| {
        record.commit.iter().for_each(|event| models.apply(event));
        snapshot.compare(record, &models);
        if let Some(sled) = &mut sled {
            sled.compare(record);
        }
    };

    let directory = root.join("log");
    let verification = LogVerification {
        directory: &directory,
        in_use: running,
        since,
        on_record: &mut on_record,
        progress: &mut advance,
    };
    let LogReport { mut journal, schemas } = verification.run()?;
    found.findings = std::mem::take(&mut journal.findings);
    found.notes.append(&mut journal.notes);
    if let Some(unsigned) = &journal.unsigned {
        let first = unsigned.start();
        let last = unsigned.end();
        found.notes.push(format!(
            "positions {first} to {last} are unsigned: the service stopped before it signed them; the next start signs \
             them"
        ));
    }

    snapshot.finish(running, &mut found.findings, &mut found.notes);
    if let Some(sled) = sled {
        sled.finish(&directory.join("sled"), &mut found);
    }

    let referenced_archives: Vec<_> = models.nodes.archives().copied().collect();
    let mut keys = UserKeyCheck::check(root, &models.users);
    if let Some(head) = journal.head.filter(|_| running)
        && let Err(error) = keys.exclude_erased(&directory, head.position, &mut models)
    {
        found.unverified.push(format!("the keys of users, of whom some may have been erased a moment ago: {error}"));
    }
    keys.finish(root, &mut found.findings, &mut found.notes);

    let ContentReport { counts: files, findings: content_findings } =
        content_check::check(root, &referenced_archives, advance).map_err(DirectoryVerificationError::file(root))?;
    let VerificationFindings { mut findings, unverified, notes } = found;
    findings.extend(content_findings.into_iter().map(|(file, problem)| Finding::in_file(file, problem)));
    Ok(DirectoryReport { journal, schemas, files, findings, unverified, notes })
}

fn journal_bytes(root: &Path) -> u64 {
    let entries = fs::read_dir(root.join("log/journal")).into_iter().flatten().flatten();
    let segments = entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "seg"));
    segments.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

fn content_bytes(root: &Path) -> Result<u64, DirectoryVerificationError> {
    let mut bytes = 0;
    for area in CONTENT_DIRECTORIES {
        let files = content_check::list_files(root, area).map_err(DirectoryVerificationError::file(root))?;
        bytes += files.iter().filter_map(|(path, _)| Some(fs::metadata(path).ok()?.len())).sum::<u64>();
    }
    Ok(bytes)
}

impl DirectoryReport {
    /// Returns `true` if everything was verified and nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.unverified.is_empty()
    }

    /// Returns the result in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let JournalReport { events, head, public_key, .. } = &self.journal;
        let (position, chain) = head.map_or((0, String::new()), |head| (head.position.0, hex::encode(&head.chain.0)));
        let files = self.files;
        let events = pluralize(*events, "event");

        if self.is_clean() {
            let key = key_hex(*public_key).unwrap_or_default();
            return format!("clean: {events} up to position {position}, {files}; chain {chain}, signed with key {key}");
        }

        match self.findings.len() as u64 {
            0 => format!("incomplete: no damage found in {events} up to position {position}, {files}"),
            found => format!("damaged: {} in {events} up to position {position}, {files}", pluralize(found, "finding")),
        }
    }

    /// Returns the report for machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let JournalReport { log, public_key, head, events, .. } = &self.journal;
        let schemas: serde_json::Map<_, _> =
            self.schemas.iter().map(|(version, records)| (version.to_string(), (*records).into())).collect();

        let mut json = json!({
            "result": if self.is_clean() { "clean" } else if self.findings.is_empty() { "unverified" } else { "damaged" },
            "events": events,
            "records_by_schema": schemas,
            "archives": self.files.archives,
            "pictures": self.files.pictures,
            "videos": self.files.videos,
            "music": self.files.music,
            "texts": self.files.texts,
            "findings": findings_json(&self.findings),
            "unverified": self.unverified,
            "notes": self.notes,
        });

        if let Some(unsigned) = &self.journal.unsigned {
            json["unsigned"] = json!({"from": unsigned.start(), "to": unsigned.end()});
        }

        if let Some(log) = log {
            json["log"] = log.to_string().into();
        }
        if let Some(key) = key_hex(*public_key) {
            json["public_key"] = key.into();
        }
        if let Some(head) = head {
            json["position"] = head.position.0.into();
            json["chain"] = hex::encode(&head.chain.0).into();
        }

        json
    }
}
