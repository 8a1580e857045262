//! Verification of a backup on its own: the signature of the manifest, the hash of every file, and the whole journal.

use std::path::{Path, PathBuf};

use super::BackupError;
use super::manifest::{BackupFile, Manifest};
use super::pool::BackupFilePool;
use crate::events::journal::{
    self, Checkpoint, CommitDecoder, JournalDamage, JournalError, ScanExtent, ScanVisitor, ScannedRecord, scan,
};
use crate::events::verify::Finding;
use crate::media::content_check;
use crate::verification::ProgressCallback;

/// Result of verifying a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupCheckReport {
    pub manifest: Manifest,
    /// Number of events in the journal; 0 if a file is damaged, because the journal is then not read.
    pub events: u64,
    /// All defects, each with the file's path in the data directory.
    pub findings: Vec<Finding>,
}

/// Verifies the backup in a directory. Writes nothing.
///
/// # Errors
/// If there is no backup, or it cannot be read.
pub fn check(backup: &Path, progress: ProgressCallback<'_>) -> Result<BackupCheckReport, BackupError> {
    let manifest = read_manifest(backup)?;
    let pool = BackupFilePool::open(backup);
    let total = manifest.files.iter().map(|entry| entry.bytes).sum();

    let mut findings = Vec::new();
    let mut bytes_done = 0;
    for entry in &manifest.files {
        let problem = find_problem(&pool, entry, &mut |bytes| {
            bytes_done += bytes;
            progress(bytes_done, total);
        });
        findings.extend(problem.map(|problem| Finding::in_file(&entry.path, problem)));
    }

    let mut events = 0;
    if findings.is_empty() {
        events = check_journal(&manifest, &pool, &mut findings)?;
    }

    Ok(BackupCheckReport { manifest, events, findings })
}

/// Compares the copy of a file with the manifest; `None` if they agree. Calls `on_bytes` with the number of bytes read.
fn find_problem(pool: &BackupFilePool, entry: &BackupFile, on_bytes: &mut impl FnMut(u64)) -> Option<String> {
    let Some(digest) = entry.digest() else { return Some("the manifest has no hash for it".to_owned()) };
    let path = pool.path(&digest);
    match content_check::digest_of(&path, on_bytes) {
        Ok(found) if found == (digest, entry.bytes) => None,
        Ok(_) => Some(format!("its copy {} is damaged", path.display())),
        Err(error) => Some(format!("its copy {} cannot be read: {error}", path.display())),
    }
}

/// Reads the manifest of a backup.
///
/// # Errors
/// If there is no backup, or it cannot be read.
pub(super) fn read_manifest(backup: &Path) -> Result<Manifest, BackupError> {
    Manifest::read(backup)?.ok_or_else(|| {
        let directory = backup.display();
        let missing = if backup.is_dir() { "the manifest is missing" } else { "the directory does not exist" };
        BackupError::Refused(format!("{directory} is not a complete backup: {missing}"))
    })
}

/// Checks the journal of a backup: it must be complete up to the position of the manifest, and match its own HEAD and
/// key.
fn check_journal(manifest: &Manifest, pool: &BackupFilePool, findings: &mut Vec<Finding>) -> Result<u64, BackupError> {
    let Checkpoint { log, head, .. } = *manifest.checkpoint.checkpoint();
    let copy = |path: &str| manifest.file(path).and_then(BackupFile::digest).map(|digest| pool.path(&digest));
    let mut missing = |path: &str| findings.push(Finding::in_file(path, "it is not in the backup"));

    let Some(key_file) = copy("log/signing.key") else {
        missing("log/signing.key");
        return Ok(0);
    };

    let Some(head_file) = copy("log/journal/HEAD") else {
        missing("log/journal/HEAD");
        return Ok(0);
    };

    let key = journal::load_signing_key(&key_file).map_err(BackupError::file(&key_file))?;
    let key = key.filter(|key| key.verifying_key().to_bytes() == manifest.checkpoint.public_key());
    let Some(key) = key else {
        findings.push(Finding::in_file("log/signing.key", "it is not the key that signed the manifest"));
        return Ok(0);
    };

    if journal::read_head(&head_file, &key.verifying_key(), log).ok() != Some(head) {
        findings.push(Finding::in_file("log/journal/HEAD", "it differs from the manifest"));
    }

    let mut segments: Vec<_> = manifest.files.iter().filter(|entry| is_segment(&entry.path)).collect();
    segments.sort_by(|a, b| a.path.cmp(&b.path));
    let copies: Vec<PathBuf> = segments.iter().filter_map(|entry| Some(pool.path(&entry.digest()?))).collect();

    let mut checker = BackupJournalChecker { segments, copies: &copies, events: 0, findings };
    let end = scan::scan(&copies, log, Some(head), ScanExtent::Everything, &mut checker)?;
    let BackupJournalChecker { events, .. } = checker;

    if end.head != head {
        let problem = format!("it ends at position {}, the manifest says {}", end.head.position, head.position);
        findings.push(Finding::in_file("log/journal", problem));
    }

    Ok(events)
}

fn is_segment(path: &str) -> bool {
    let path = Path::new(path);
    path.starts_with("log/journal") && path.extension().is_some_and(|extension| extension == "seg")
}

/// Counts the events of a journal and collects its damage.
struct BackupJournalChecker<'s> {
    segments: Vec<&'s BackupFile>,
    /// Copies of the segments, in the same order.
    copies: &'s [PathBuf],
    events: u64,
    findings: &'s mut Vec<Finding>,
}

impl ScanVisitor<CommitDecoder> for BackupJournalChecker<'_> {
    fn visit_record(&mut self, record: &ScannedRecord<'_>) {
        self.events += record.commit.len() as u64;
    }

    fn visit_damage(&mut self, damage: JournalDamage) {
        let path =
            self.copies.iter().position(|copy| *copy == damage.file).map(|index| self.segments[index].path.clone());

        let mut finding = Finding::from(damage);
        finding.file = path.map_or(finding.file, PathBuf::from);
        self.findings.push(finding);
    }

    fn visit_segment(&mut self, _: &Path, _: &[u8]) -> Result<(), JournalError> {
        Ok(())
    }
}
