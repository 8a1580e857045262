//! Archive store: each archive is named by the SHA-256 of its bytes, complete or absent, and never changed.
//!
//! An upload is written to `incoming/` and renamed to its final place only after the check. The next start removes what
//! a crash left in `incoming/`. All calls block on the disk; call them from a blocking thread.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::data_dir::create_durably;
use crate::domain::value::Digest;
use crate::domain::version::Archive;
use crate::environment::{CommitStep, Environment, FailPoints};
use crate::file_tree::FileTree;
use crate::media::hash_directories::HashDirectories;
use crate::media::incoming_file::IncomingFile;
use crate::media::part_files::{FileSharing, PartFiles};
use crate::media::store::{is_complete, sync_directory};

/// Directory of uploads that are incomplete or unchecked.
const INCOMING: &str = "incoming";
/// Directory of unreferenced archives. The service never deletes anything in it.
pub const ORPHANS: &str = "orphans";

/// Result of a sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArchiveSweepReport {
    /// Unreferenced archives that were moved to [`ORPHANS`].
    pub orphaned: usize,
    /// Referenced archives that were moved back from [`ORPHANS`].
    pub restored: usize,
}

/// The archives of versions. Cheap to clone; only one process may use a root, unless its [`PartFiles`] are shared.
#[derive(Clone)]
pub struct ArchiveStore {
    tree: FileTree,
    directories: HashDirectories,
    part_files: PartFiles,
    fail_points: FailPoints,
}

impl ArchiveStore {
    /// Opens or creates the store below `root` and removes interrupted uploads.
    ///
    /// # Errors
    /// If a directory cannot be created, read or synced.
    pub fn open(root: &Path) -> io::Result<Self> {
        Self::open_with(FileTree::local(root), PartFiles::new(FileSharing::Alone, &Environment::system()))
    }

    /// Like [`ArchiveStore::open`], for files that other nodes may use too.
    ///
    /// # Errors
    /// Same as [`ArchiveStore::open`].
    pub fn open_with(tree: FileTree, part_files: PartFiles) -> io::Result<Self> {
        let directories = HashDirectories::open(tree.root().to_owned())?;
        let incoming = tree.root().join(INCOMING);
        fs::create_dir_all(&incoming)?;
        part_files.remove_leftovers(&incoming)?;
        if tree.bucket().is_some() {
            directories.list()?.iter().try_for_each(|directory| part_files.remove_leftovers(directory))?;
        }
        sync_directory(tree.root())?;

        Ok(Self { tree, directories, part_files, fail_points: FailPoints::default() })
    }

    /// Replaces the fail points.
    #[must_use]
    pub fn with_fail_points(self, fail_points: FailPoints) -> Self {
        Self { fail_points, ..self }
    }

    /// Returns the files of the store.
    #[must_use]
    pub fn tree(&self) -> &FileTree {
        &self.tree
    }

    /// Creates an empty upload.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create_upload(&self) -> io::Result<IncomingFile> {
        IncomingFile::create(self.tree.root().join(INCOMING).join(self.part_files.next_ending()))
    }

    /// Makes an upload an archive, durable when this returns. An existing archive is kept.
    ///
    /// # Errors
    /// If it cannot be synced or renamed.
    pub fn commit_upload(&self, upload: &IncomingFile) -> io::Result<Archive> {
        upload.sync()?;
        self.fail_points.hit_after(CommitStep::ArchiveSynced);
        let archive = Archive { digest: upload.digest(), bytes: upload.bytes() };
        let path = self.path_of(&archive.digest);
        self.directories.create_for(&path)?;
        if is_complete(&path, archive.bytes)? {
            self.part_files.keep(&path)?;
            self.tree.republish(&path, &path)?;
        } else {
            self.tree.publish(upload.path(), &path)?;
            fs::rename(upload.path(), &path)?;
            self.fail_points.hit_after(CommitStep::ArchiveRenamed);
        }
        sync_directory(path.parent().unwrap_or(self.tree.root()))?;
        self.fail_points.hit_after(CommitStep::ArchiveDirSynced);
        Ok(archive)
    }

    /// Removes an unreferenced archive. A shared one stays, because another node may be about to refer to it.
    ///
    /// # Errors
    /// If it exists and cannot be removed.
    pub fn remove(&self, digest: &Digest) -> io::Result<()> {
        if self.part_files.sharing() == FileSharing::Shared {
            return Ok(());
        }
        match fs::remove_file(self.path_of(digest)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Moves every unreferenced archive to [`ORPHANS`], and referenced ones back. Must run at the start, before
    /// uploads. Unreferenced archives result from a crash between file and event, or from an older copy of the log,
    /// which may later be replaced. So nothing is deleted.
    ///
    /// # Errors
    /// If a directory cannot be read or a file cannot be moved.
    pub fn sweep(&self, referenced: &HashSet<Digest>) -> io::Result<ArchiveSweepReport> {
        let mut report = ArchiveSweepReport::default();

        for directory in self.directories.list()? {
            for (path, digest) in list_archives(&directory)? {
                if self.path_of(&digest) == path && !referenced.contains(&digest) {
                    create_durably(&self.tree.root().join(ORPHANS))?;
                    self.move_durably(&path, &self.orphan_path(&digest))?;
                    report.orphaned += 1;
                }
            }
        }

        for (path, digest) in list_archives(&self.tree.root().join(ORPHANS))? {
            let target = self.path_of(&digest);
            if referenced.contains(&digest) && !target.exists() {
                self.directories.create_for(&target)?;
                self.move_durably(&path, &target)?;
                report.restored += 1;
            }
        }

        Ok(report)
    }

    fn orphan_path(&self, digest: &Digest) -> PathBuf {
        self.tree.root().join(ORPHANS).join(format!("{digest}.zip"))
    }

    /// Moves a file; the new name is durable before the old one is removed.
    fn move_durably(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        sync_directory(to.parent().unwrap_or(self.tree.root()))?;
        sync_directory(from.parent().unwrap_or(self.tree.root()))
    }

    /// Returns the path of the archive with this hash, whether it exists or not.
    #[must_use]
    pub fn path_of(&self, digest: &Digest) -> PathBuf {
        self.directories.path_of(&format!("{digest}.zip"))
    }
}

/// Returns the files of a directory with the names of archives; none if the directory does not exist. Other files are
/// not from this service.
fn list_archives(directory: &Path) -> io::Result<Vec<(PathBuf, Digest)>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".zip"));
        found.extend(name.and_then(|name| Digest::parse(name).ok()).map(|digest| (path, digest)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    const NAME: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn start_upload(archives: &ArchiveStore, bytes: &[u8]) -> IncomingFile {
        let mut upload = archives.create_upload().unwrap();
        for byte in bytes {
            upload.write(&[*byte]).unwrap();
        }
        upload
    }

    fn incoming_files(root: &Path) -> usize {
        fs::read_dir(root.join(INCOMING)).unwrap().count()
    }

    #[test]
    fn a_committed_upload_is_stored_under_its_hash() {
        let root = tempfile::tempdir().unwrap();
        let archives = ArchiveStore::open(root.path()).unwrap();
        for _ in 0..2 {
            let mut upload = start_upload(&archives, b"abc");
            let mut stored_bytes = Vec::new();
            upload.reader().unwrap().read_to_end(&mut stored_bytes).unwrap();
            let archive = archives.commit_upload(&upload).unwrap();
            assert_eq!((archive.digest.to_string().as_str(), archive.bytes), (NAME, 3));
            assert_eq!(fs::read(archives.path_of(&archive.digest)).unwrap(), stored_bytes);
        }
        assert_eq!(incoming_files(root.path()), 0);
    }

    #[test]
    fn an_uncommitted_upload_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let archives = ArchiveStore::open(root.path()).unwrap();
        let upload = start_upload(&archives, b"abc");
        assert_eq!(incoming_files(root.path()), 1);
        drop(upload);
        assert_eq!(incoming_files(root.path()), 0);
    }

    #[test]
    fn opening_removes_interrupted_uploads_and_keeps_archives() {
        let root = tempfile::tempdir().unwrap();
        let archives = ArchiveStore::open(root.path()).unwrap();
        let stored = archives.commit_upload(&start_upload(&archives, b"abc")).unwrap();
        std::mem::forget(start_upload(&archives, b"half"));
        let archives = ArchiveStore::open(root.path()).unwrap();
        assert_eq!(incoming_files(root.path()), 0);
        assert!(archives.path_of(&stored.digest).exists());
    }

    #[test]
    fn a_sweep_moves_unreferenced_archives_aside_and_referenced_ones_back() {
        let root = tempfile::tempdir().unwrap();
        let archives = ArchiveStore::open(root.path()).unwrap();
        let [referenced, unreferenced] =
            [&b"abc"[..], b"abd"].map(|bytes| archives.commit_upload(&start_upload(&archives, bytes)).unwrap().digest);
        let foreign_file = archives.path_of(&unreferenced).with_file_name("notes.txt");
        fs::write(&foreign_file, b"x").unwrap();
        let exist = || [referenced, unreferenced].map(|digest| archives.path_of(&digest).exists());

        assert_eq!(
            archives.sweep(&HashSet::from([referenced])).unwrap(),
            ArchiveSweepReport { orphaned: 1, restored: 0 }
        );
        assert_eq!(exist(), [true, false]);
        assert_eq!(fs::read(archives.orphan_path(&unreferenced)).unwrap(), b"abd");
        assert!(foreign_file.exists());

        assert_eq!(
            archives.sweep(&HashSet::from([referenced, unreferenced])).unwrap(),
            ArchiveSweepReport { orphaned: 0, restored: 1 }
        );
        assert_eq!(exist(), [true, true]);
        assert_eq!(fs::read(archives.path_of(&unreferenced)).unwrap(), b"abd");
    }

    #[test]
    fn removing_an_archive_is_idempotent() {
        let root = tempfile::tempdir().unwrap();
        let archives = ArchiveStore::open(root.path()).unwrap();
        let digest = archives.commit_upload(&start_upload(&archives, b"abc")).unwrap().digest;
        for _ in 0..2 {
            archives.remove(&digest).unwrap();
            assert!(!archives.path_of(&digest).exists());
        }
    }

    #[test]
    fn a_damaged_archive_is_replaced_by_the_next_upload() {
        let root = tempfile::tempdir().unwrap();
        let archives = ArchiveStore::open(root.path()).unwrap();
        let stored = archives.commit_upload(&start_upload(&archives, b"abc")).unwrap();
        fs::write(archives.path_of(&stored.digest), b"ab").unwrap();
        archives.commit_upload(&start_upload(&archives, b"abc")).unwrap();
        assert_eq!(fs::read(archives.path_of(&stored.digest)).unwrap(), b"abc");
    }
}
