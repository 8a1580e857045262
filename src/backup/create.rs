//! Creation of backups: the journal up to a signed HEAD first, then the files. The files that the journal's events
//! refer to were on disk before those events.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::BackupError;
use super::manifest::{self, BackupDirectory, BackupFile, Manifest};
use super::pool::{BackupFilePool, create_private_directory};
use crate::cluster::bucket_files::CACHE_FILE;
use crate::cluster::leave_marker::LEAVE_FILE;
use crate::domain::value::Digest;
use crate::environment::Environment;
use crate::events::journal::{
    self, ChainHash, Checkpoint, CommitDecoder, JournalDamage, JournalError, JournalHead, ScanExtent, ScanVisitor,
    ScannedRecord, scan,
};
use crate::events::shared::checkpoint::ENGINE_FILE;
use crate::events::stream::Position;
use crate::events::verify::Finding;
use crate::file_tree::{FileTree, KeysOfMarkedUsers, RemoteFile};
use crate::media::content_check::{self, CONTENT_DIRECTORIES};
use crate::verification::ProgressCallback;
use crate::verification::directory::{DirectoryUse, directory_use};
use crate::verification::export::{ExportError, SignedLogHead, read_signed_head};

/// Parts of a data directory that are not copied: they are recreated, belong to the running process, are incomplete, or
/// belong to this directory alone.
const EXCLUDED: [&str; 8] =
    ["lock", "address", "answers", "snapshots", "metrics-history", "erasing", LEAVE_FILE, CACHE_FILE];
/// Path of the checkpoint up to which a cluster node has applied its engine.
const ENGINE_CHECKPOINT: &str = "log/engine.json";
/// Key of the upload links.
const URL_KEY: &str = "url-key";
/// Directories that are copied completely.
const TREES: [&str; 1] = ["personal"];

/// Result of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    pub position: Position,
    /// Number of files in the backup, and their total size in bytes.
    pub files: u64,
    pub bytes: u64,
    /// Number of files that had to be copied, and their total size in bytes.
    pub copied_files: u64,
    pub copied_bytes: u64,
    /// Number of files of earlier backups that were removed.
    pub removed: u64,
    /// Damaged files without an earlier copy. They are not in the backup.
    pub findings: Vec<String>,
    pub notes: Vec<String>,
}

/// Copies a data directory to the backup directory `to`. Files that only the bucket has are fetched.
///
/// # Errors
/// If the backup cannot be made. The previous backup is then unchanged.
pub fn create(
    data: &FileTree,
    to: &Path,
    environment: &Environment,
    progress: ProgressCallback<'_>,
) -> Result<BackupReport, BackupError> {
    let root = data.root();
    // Hold the directory to the end, so that no service starts on it while it is copied.
    let in_use = directory_use(root)?;
    let running = matches!(in_use, DirectoryUse::Running);

    ensure_separate(root, to)?;
    let _lock = lock(to)?;
    let previous = Manifest::read(to)?;

    let log = root.join("log");
    // Read before the journal is copied: the copy may be ahead of this checkpoint, but must not be behind it.
    let engine_checkpoint = read_engine_checkpoint(&log)?;
    let signed_head = read_signed_head(&log)?;
    let total = total_bytes(root)?;

    let mut writer = BackupWriter {
        root,
        data,
        pool: BackupFilePool::open(to),
        manifest_files: Vec::new(),
        directories: Vec::new(),
        findings: Vec::new(),
        notes: Vec::new(),
        done: 0,
        total,
        progress,
    };

    let head = match writer.copy_journal(&log, &signed_head, running, previous.as_ref()) {
        Ok(head) => head,
        Err(error) => {
            writer.pool.remove_added();
            return Err(error);
        }
    };

    let SignedLogHead { key, log: id, .. } = signed_head;
    writer.store_file("log/journal/HEAD", &journal::encode_head_file(&key, id, &head), 0o600, None)?;
    writer.store_file("log/signing.key", &key.to_bytes(), 0o600, None)?;
    if let Some(bytes) = engine_checkpoint {
        writer.store_file(ENGINE_CHECKPOINT, &bytes, 0o600, None)?;
    }

    writer.copy_top_level()?;
    writer.preserve_url_key(previous.as_ref());
    for area in CONTENT_DIRECTORIES {
        writer.copy_area(area)?;
    }
    for tree in TREES {
        let directory = root.join(tree);
        data.fetch_all(&directory, KeysOfMarkedUsers::Skip).map_err(BackupError::file(&directory))?;
        writer.copy_tree(Path::new(tree))?;
    }
    writer.note_repaired();

    let BackupWriter { pool, manifest_files: files, directories, findings, notes, .. } = writer;
    let checkpoint = Checkpoint { log: id, head, at_micros: environment.now().micros() }.sign(&key);
    let manifest = Manifest { checkpoint, directories, files };
    manifest.write(to, &key).map_err(BackupError::file(&to.join(manifest::MANIFEST_FILE)))?;

    let referenced: HashSet<Digest> = manifest.files.iter().filter_map(BackupFile::digest).collect();
    let removed = pool.remove_unlisted(&referenced).map_err(BackupError::file(to))?;

    let files = manifest.files.len() as u64;
    let bytes = manifest.files.iter().map(|entry| entry.bytes).sum();
    Ok(BackupReport {
        position: head.position,
        files,
        bytes,
        copied_files: pool.written_files,
        copied_bytes: pool.written_bytes,
        removed,
        findings,
        notes,
    })
}

/// Reads the checkpoint up to which a cluster node has applied its engine; `None` if the directory is not a node's.
fn read_engine_checkpoint(log: &Path) -> Result<Option<Vec<u8>>, BackupError> {
    let path = log.join(ENGINE_FILE);
    match fs::read(&path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(BackupError::file(&path)(error)),
    }
}

fn ensure_separate(root: &Path, to: &Path) -> Result<(), BackupError> {
    let absolute = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path));
    let root = absolute(root).map_err(BackupError::file(root))?;
    let to = absolute(to).map_err(BackupError::file(to))?;
    if to.starts_with(&root) || root.starts_with(&to) {
        let message = format!(
            "the backup {} and the data directory {} must not contain each other: both could be lost together",
            to.display(),
            root.display()
        );
        return Err(BackupError::Refused(message));
    }
    Ok(())
}

/// Creates the backup directory and locks it. A directory with other content is rejected.
fn lock(to: &Path) -> Result<File, BackupError> {
    let file_error = || BackupError::file(to);
    create_private_directory(to).map_err(file_error())?;
    let own_names = ["lock", "files", manifest::MANIFEST_FILE, "manifest.draft"];

    for entry in fs::read_dir(to).map_err(file_error())? {
        let name = entry.map_err(file_error())?.file_name();
        if !own_names.iter().any(|own_name| name == *own_name) {
            let message = format!("{} is not a backup directory: it contains {}", to.display(), name.display());
            return Err(BackupError::Refused(message));
        }
    }

    let lock = File::options().create(true).truncate(false).write(true).open(to.join("lock")).map_err(file_error())?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            Err(BackupError::Refused(format!("another backup to {} is in progress", to.display())))
        }
        Err(TryLockError::Error(error)) => Err(file_error()(error)),
    }
}

fn total_bytes(root: &Path) -> Result<u64, BackupError> {
    let journal = root.join("log/journal");
    let mut bytes: u64 = scan::segments(&journal)?.iter().filter_map(|path| Some(fs::metadata(path).ok()?.len())).sum();
    for area in CONTENT_DIRECTORIES {
        let files = content_check::list_files(root, area).map_err(BackupError::file(root))?;
        bytes += files.iter().filter_map(|(path, _)| Some(fs::metadata(path).ok()?.len())).sum::<u64>();
    }
    Ok(bytes)
}

struct BackupWriter<'t> {
    root: &'t Path,
    data: &'t FileTree,
    pool: BackupFilePool,
    manifest_files: Vec<BackupFile>,
    directories: Vec<BackupDirectory>,
    findings: Vec<String>,
    notes: Vec<String>,
    done: u64,
    total: u64,
    progress: ProgressCallback<'t>,
}

impl BackupWriter<'_> {
    /// Verifies the journal and copies its segments without trailing zeros; up to HEAD if a service is writing to it.
    fn copy_journal(
        &mut self,
        log: &Path,
        signed_head: &SignedLogHead,
        running: bool,
        previous: Option<&Manifest>,
    ) -> Result<JournalHead, BackupError> {
        let previous = previous.map(|manifest| *manifest.checkpoint.checkpoint());
        if let Some(previous) = previous.filter(|previous| previous.log != signed_head.log) {
            return Err(BackupError::Refused(format!(
                "the backup is of log {}, but this log is {}",
                previous.log, signed_head.log
            )));
        }

        let empty_head = JournalHead { position: Position(0), chain: ChainHash::genesis(signed_head.log) };
        // Every history begins with the empty log, so no record has to be found for it.
        let is_previous_found = previous.is_none_or(|previous| previous.head == empty_head);
        let segments = scan::segments(&log.join("journal"))?;
        self.add_directory("log")?;
        self.add_directory("log/journal")?;

        let mut copier = SegmentCopier {
            writer: self,
            previous_head: previous.map(|previous| previous.head),
            is_previous_found,
            head: signed_head.head,
            is_head_found: signed_head.head == empty_head,
            damage: None,
            last: None,
        };

        let extent = if running { ScanExtent::UpToHead } else { ScanExtent::Everything };
        let end = scan::scan(&segments, signed_head.log, Some(signed_head.head), extent, &mut copier)?;
        let SegmentCopier { is_previous_found, is_head_found, damage, last, .. } = copier;

        if let Some(damage) = damage {
            return Err(ExportError::Damaged(damage).into());
        }
        if !is_head_found {
            // Signing the manifest would certify a history that was never acknowledged.
            return Err(ExportError::diverged(signed_head.head.position).into());
        }

        if let Some(previous) = previous.filter(|_| !is_previous_found) {
            let previous_position = previous.head.position;
            let end_position = end.head.position;
            let message = format!(
                "the existing backup, taken at position {previous_position}, has a different history than this log, which ends at \
                 {end_position}: back up to another directory"
            );
            return Err(BackupError::Refused(message));
        }

        // The segment in use is copied without its trailing zeros, so a restore pads it to its full length.
        if let Some((path, length)) = last
            && let Some(entry) = self.manifest_files.iter_mut().find(|entry| entry.path == path)
        {
            entry.padded_to = Some(length);
        }

        Ok(end.head)
    }

    fn store_file(&mut self, path: &str, bytes: &[u8], mode: u32, padded_to: Option<u64>) -> Result<(), BackupError> {
        let digest = self.pool.store(bytes).map_err(BackupError::file(&self.root.join(path)))?;
        self.add_file(path, digest, bytes.len() as u64, mode, padded_to);
        Ok(())
    }

    fn add_file(&mut self, path: &str, digest: Digest, bytes: u64, mode: u32, padded_to: Option<u64>) {
        let path = path.to_owned();
        let sha256 = digest.to_string();
        let mode = format!("{:o}", mode & 0o777);
        self.manifest_files.push(BackupFile { path, sha256, bytes, mode, padded_to });
    }

    fn add_directory(&mut self, path: &str) -> Result<(), BackupError> {
        let full = self.root.join(path);
        let mode = mode_of(&full).map_err(BackupError::file(&full))?;
        self.directories.push(BackupDirectory { path: path.to_owned(), mode: format!("{mode:o}") });
        Ok(())
    }

    fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        (self.progress)(self.done.min(self.total), self.total);
    }

    /// Copies the files in the data directory itself, which are the service's secrets.
    fn copy_top_level(&mut self) -> Result<(), BackupError> {
        let root = self.root;
        let handled: Vec<&str> =
            CONTENT_DIRECTORIES.iter().chain(&TREES).filter_map(|path| path.split('/').next()).collect();

        for (name, path) in entries(root).map_err(BackupError::file(root))? {
            if EXCLUDED.contains(&name.as_str()) || name == "log" || handled.contains(&name.as_str()) || is_draft(&path)
            {
                continue;
            }
            if path.is_file() {
                self.copy_file(&name)?;
            } else {
                self.notes.push(format!("{} is not part of a backup", path.display()));
            }
        }

        Ok(())
    }

    /// Keeps the previous backup's copy of the URL key if the data directory lacks it: the account ids of OIDC users
    /// derive from this key, and the copy may be the last one.
    fn preserve_url_key(&mut self, previous: Option<&Manifest>) {
        let find = |files: &[BackupFile]| files.iter().find(|entry| entry.path == URL_KEY).cloned();
        if find(&self.manifest_files).is_some() {
            return;
        }

        let Some(entry) = previous.and_then(|previous| find(&previous.files)) else {
            let warning = "is missing here and in earlier backups: account ids of OIDC users derive from it";
            return self.notes.push(format!("{URL_KEY} {warning}"));
        };

        let missing = "is missing in the data directory";
        if entry.digest().is_none_or(|digest| self.pool.size_if_intact(&digest).is_none()) {
            return self.findings.push(format!("{URL_KEY}: it {missing}, and its copy in the backup is damaged"));
        }

        self.notes.push(format!("{URL_KEY} {missing}: its copy in the backup is kept"));
        self.manifest_files.push(entry);
    }

    /// Copies a small file. Skips it if it has disappeared since it was listed.
    fn copy_file(&mut self, path: &str) -> Result<(), BackupError> {
        let full = self.root.join(path);
        match fs::read(&full).and_then(|bytes| Ok((bytes, mode_of(&full)?))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(BackupError::file(&full)(error)),
            Ok((bytes, mode)) => self.store_file(path, &bytes, mode, None),
        }
    }

    /// Copies new files of a content-addressed area. For a damaged file, an intact copy of the previous backup is kept.
    fn copy_area(&mut self, area: &str) -> Result<(), BackupError> {
        let root = self.root;
        for (path, digest) in self.list_area(area).map_err(BackupError::file(&root.join(area)))? {
            let relative = relative(root, &path);
            let metadata = fs::metadata(&path).ok();
            // Expired files may be removed during the backup.
            if metadata.is_none() && self.data.bucket().is_none() {
                continue;
            }
            let mode = metadata.as_ref().map_or(0o600, |metadata| metadata.permissions().mode());
            self.advance(metadata.map_or(0, |metadata| metadata.len()));

            if let Some(bytes) = self.pool.size_if_intact(&digest) {
                self.add_file(&relative, digest, bytes, mode, None);
                continue;
            }

            match self.data.fetch(&path).and_then(|()| self.pool.copy(&path, Some(digest))) {
                Ok((found, bytes)) if found == digest => self.add_file(&relative, digest, bytes, mode, None),
                Ok(_) => self
                    .findings
                    .push(format!("{}: its content does not match its name; not backed up", path.display())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(BackupError::file(&path)(error)),
            }
        }
        Ok(())
    }

    /// Returns the files of an area with their hashes, including those that only the bucket has.
    fn list_area(&self, area: &str) -> io::Result<Vec<(PathBuf, Digest)>> {
        let mut files: BTreeMap<PathBuf, Digest> = content_check::list_files(self.root, area)?.into_iter().collect();
        for RemoteFile { path, .. } in self.data.list_remote(&self.root.join(area))?.unwrap_or_default() {
            if let Some(digest) = content_check::digest_in(&path) {
                files.insert(path, digest);
            }
        }
        Ok(files.into_iter().collect())
    }

    /// Adds a note for each copy in the backup that was found damaged and rewritten.
    fn note_repaired(&mut self) {
        let repaired = self
            .manifest_files
            .iter()
            .filter(|entry| entry.digest().is_some_and(|digest| self.pool.repaired.contains(&digest)));
        let notes =
            repaired.map(|entry| format!("{}: its copy in the backup was damaged and has been rewritten", entry.path));
        self.notes.extend(notes);
    }

    /// Copies everything below a directory.
    fn copy_tree(&mut self, path: &Path) -> Result<(), BackupError> {
        let full = self.root.join(path);
        if !full.is_dir() {
            return Ok(());
        }

        self.add_directory(&path.to_string_lossy())?;
        for (name, entry) in entries(&full).map_err(BackupError::file(&full))? {
            let inner = path.join(name);
            if entry.is_dir() {
                self.copy_tree(&inner)?;
            } else if !is_draft(&entry) {
                self.copy_file(&inner.to_string_lossy())?;
            }
        }
        Ok(())
    }
}

fn entries(directory: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        entries.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    entries.sort();
    Ok(entries)
}

fn is_draft(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "draft" || extension == "part" || extension == "tmp")
}

fn mode_of(path: &Path) -> io::Result<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o777)
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

/// Copies segments during a scan of the journal.
struct SegmentCopier<'c, 't> {
    writer: &'c mut BackupWriter<'t>,
    /// Head of the previous backup; `is_previous_found` is `true` once the journal is found to contain it.
    previous_head: Option<JournalHead>,
    is_previous_found: bool,
    /// The signed HEAD; `is_head_found` is `true` once the journal is found to contain it.
    head: JournalHead,
    is_head_found: bool,
    damage: Option<Finding>,
    /// Path of the last segment, and its length including the trailing zeros.
    last: Option<(String, u64)>,
}

impl ScanVisitor<CommitDecoder> for SegmentCopier<'_, '_> {
    fn visit_record(&mut self, record: &ScannedRecord<'_>) {
        self.is_previous_found |= self.previous_head == Some(record.end);
        self.is_head_found |= self.head == record.end;
    }

    fn visit_damage(&mut self, damage: JournalDamage) {
        self.damage.get_or_insert(damage.into());
    }

    fn visit_segment(&mut self, path: &Path, used: &[u8]) -> Result<(), JournalError> {
        let length = fs::metadata(path).map_or(used.len() as u64, |file| file.len());
        self.writer.advance(length);

        if self.damage.is_some() {
            return Ok(());
        }

        let io_error = JournalError::io("back up", path);
        let digest = match self.writer.pool.store(used) {
            Ok(digest) => digest,
            Err(error) => return Err(io_error(error)),
        };

        let relative = relative(self.writer.root, path);
        let mode = mode_of(path).unwrap_or(0o600);
        self.writer.add_file(&relative, digest, used.len() as u64, mode, None);
        self.last = Some((relative, length));
        Ok(())
    }
}
