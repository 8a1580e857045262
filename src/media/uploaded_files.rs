//! Files that clients uploaded to use them as inputs: owned by one user, and kept until they expire.
//!
//! A file has a directory of its owner and a name that holds everything known about it:
//! `<owner>/<id>.<expiry in microseconds>.<hash>.<extension>`. So a rename makes an upload complete, and a scan at the
//! start finds all of them; no event is recorded until a task uses the content. A task that uses a file gets its own
//! link to the content (`MediaStore`), so it does not depend on the expiry. All calls block on the disk.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::incoming_file::IncomingFile;
use super::part_files::{FileSharing, PartFiles};
use super::store::{digest_of, sync_directory};
use crate::data_dir::create_durably;
use crate::domain::ids::{FileId, UserId};
use crate::domain::image::{INPUT_BYTES_MAX, ImageFormat};
use crate::domain::value::{Digest, InvalidValue, Timestamp};
use crate::domain::video::VideoFormat;
use crate::environment::{CommitStep, Environment, FailPoints};
use crate::file_tree::{FileTree, RemoteFile, is_outage};

/// Maximum size of an uploaded file in bytes (contract 11).
pub const UPLOADED_BYTES_MAX: usize = 512 << 20;
/// Maximum number of files of one owner.
pub const FILES_PER_OWNER_MAX: usize = 1000;

/// Time for which an expired file stays, for submissions that found it just before.
const REMOVAL_DELAY: Duration = Duration::from_mins(10);

/// Minimum time between two listings of the files of other nodes because of an unknown id, which anyone can send.
const RELIST_INTERVAL: Duration = Duration::from_secs(1);

/// Directory of uploads that are incomplete.
const INCOMING: &str = "incoming";

/// Format of a file that a task can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFormat {
    Picture(ImageFormat),
    Video(VideoFormat),
}

impl InputFormat {
    /// Returns all formats.
    pub fn all() -> impl Iterator<Item = Self> {
        let videos = VideoFormat::ALL.iter().copied().map(Self::Video);
        ImageFormat::ALL.iter().copied().map(Self::Picture).chain(videos)
    }

    /// Returns the extension of file names.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Picture(format) => format.as_str(),
            Self::Video(format) => format.as_str(),
        }
    }

    /// Returns the media type for `Content-Type`.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Picture(format) => format.media_type(),
            Self::Video(format) => format.media_type(),
        }
    }

    /// Returns the format of an extension.
    #[must_use]
    pub fn from_extension(extension: &str) -> Option<Self> {
        Self::all().find(|format| format.extension() == extension)
    }

    /// Detects the format from the first bytes of a file.
    ///
    /// # Errors
    /// If no task can use the file.
    pub fn detect(head: &[u8]) -> Result<Self, InvalidValue> {
        let video = || VideoFormat::detect(head).map(Self::Video);
        let found = super::input::detect_picture(head).map(Self::Picture).or_else(video);
        found.ok_or_else(|| {
            InvalidValue::new("must be a PNG, JPEG, WebP, GIF, BMP or TIFF picture, or an mp4 or webm video")
        })
    }
}

/// A complete file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadedFile {
    pub id: FileId,
    pub owner: UserId,
    pub format: InputFormat,
    pub digest: Digest,
    /// File size in bytes.
    pub bytes: u64,
    /// Time from which the file can no longer be used.
    pub expires_at: Timestamp,
}

impl UploadedFile {
    fn file_name(&self) -> String {
        let Self { id, format, digest, expires_at, .. } = self;
        format!("{id}.{}.{digest}.{}", expires_at.micros(), format.extension())
    }

    fn from_file_name(owner: UserId, name: &str, bytes: u64) -> Option<Self> {
        let mut parts = name.split('.');
        let id = FileId::parse(parts.next()?).ok()?;
        let expires_at = Timestamp::from_micros(parts.next()?.parse().ok()?);
        let digest = Digest::parse(parts.next()?).ok()?;
        let format = InputFormat::from_extension(parts.next()?)?;
        Some(Self { id, owner, format, digest, bytes, expires_at })
    }
}

/// Reason why an upload was not stored.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The content is not acceptable.
    #[error("{0}")]
    Invalid(InvalidValue),
    /// The id has another content already.
    #[error("the file has been uploaded with different content")]
    Conflict,
    /// The owner has too many files.
    #[error("the account has {FILES_PER_OWNER_MAX} files")]
    TooMany,
    /// The permission expired while the content arrived.
    #[error("the file has expired")]
    Expired,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Result of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredUpload {
    pub file: UploadedFile,
    /// `true` if the same content was stored under this id before.
    pub is_repetition: bool,
}

/// Store of uploaded files. Cheap to clone; only one process may use a root, unless its [`PartFiles`] are shared.
#[derive(Clone)]
pub struct UploadedFiles {
    tree: FileTree,
    part_files: PartFiles,
    /// Held while directories change, so that they agree with `files`. Blocks on the disk, unlike the lock of `files`.
    directory_guard: Arc<Mutex<()>>,
    files: Arc<Mutex<HashMap<FileId, UploadedFile>>>,
    /// Time of the last listing of the files of other nodes.
    listed_at: Arc<Mutex<Option<Instant>>>,
    fail_points: FailPoints,
}

impl UploadedFiles {
    /// Opens or creates the store below `root` and removes interrupted uploads and files that cannot be listed.
    ///
    /// # Errors
    /// If a directory cannot be created or read.
    pub fn open(root: &Path) -> io::Result<Self> {
        Self::open_with(FileTree::local(root), PartFiles::new(FileSharing::Alone, &Environment::system()))
    }

    /// Like [`UploadedFiles::open`], for files that other nodes may use too.
    ///
    /// # Errors
    /// Same as [`UploadedFiles::open`].
    pub fn open_with(tree: FileTree, part_files: PartFiles) -> io::Result<Self> {
        let incoming = tree.root().join(INCOMING);
        create_durably(&incoming)?;
        part_files.remove_leftovers(&incoming)?;
        // The files in a bucket are listed when they are needed: the start does not depend on it.
        let files = match tree.bucket() {
            Some(_) => HashMap::new(),
            None => list_files(tree.root(), part_files.sharing())?,
        };
        Ok(Self {
            tree,
            part_files,
            directory_guard: Arc::default(),
            files: Arc::new(Mutex::new(files)),
            listed_at: Arc::default(),
            fail_points: Environment::system().fail_points(),
        })
    }

    /// Replaces the fail points.
    #[must_use]
    pub fn with_fail_points(self, fail_points: FailPoints) -> Self {
        Self { fail_points, ..self }
    }

    /// Creates an empty upload.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create_upload(&self) -> io::Result<IncomingFile> {
        IncomingFile::create(self.tree.root().join(INCOMING).join(self.part_files.next_ending()))
    }

    /// Stores an upload durably. The same content under the same id is stored once; the earlier file is returned then.
    /// An earlier file that has expired is replaced.
    ///
    /// # Errors
    /// If no task can use the content, if the id has another content, if the owner has too many files, if `expires_at`
    /// has passed, or if the file cannot be synced or renamed.
    pub fn commit_upload(
        &self,
        upload: &IncomingFile,
        id: FileId,
        owner: UserId,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<StoredUpload, UploadError> {
        if now >= expires_at {
            return Err(UploadError::Expired);
        }
        let format = InputFormat::detect(upload.head()).map_err(UploadError::Invalid)?;
        if matches!(format, InputFormat::Picture(_)) && upload.bytes() > INPUT_BYTES_MAX as u64 {
            let reason = format!("must be at most {} MB, as a picture", INPUT_BYTES_MAX / 1_000_000);
            return Err(UploadError::Invalid(InvalidValue::new(reason)));
        }

        // A form may be a little longer than its file.
        if upload.bytes() > UPLOADED_BYTES_MAX as u64 {
            let reason = format!("must be at most {} MiB", UPLOADED_BYTES_MAX >> 20);
            return Err(UploadError::Invalid(InvalidValue::new(reason)));
        }

        let file = UploadedFile { id, owner, format, digest: upload.digest(), bytes: upload.bytes(), expires_at };
        upload.sync()?;
        self.fail_points.hit_after(CommitStep::InputFileSynced);

        self.list_again_if_shared(Duration::ZERO, Some(owner))?;
        if let Some(earlier) = self.earlier_upload(&file, now)? {
            return Ok(StoredUpload { file: earlier, is_repetition: true });
        }

        // Without the guard, because it may take minutes.
        self.tree.publish(upload.path(), &self.path_of(&file))?;
        let expired = self.files.lock().get(&id).copied();
        if let Some(expired) = expired.filter(|expired| now >= expired.expires_at) {
            self.tree.remove_remote(&self.path_of(&expired))?;
        }

        let stored = self.place_upload(upload, file, now);
        let is_unused = match &stored {
            Ok(stored) => stored.file != file,
            // Another upload with the same permission has the same path and may have been acknowledged: expiry removes
            // it.
            Err(UploadError::Io(_)) => false,
            Err(_) => true,
        };
        if is_unused {
            self.tree.remove_remote(&self.path_of(&file))?;
        }
        stored
    }

    /// Gives an upload its name, unless another one has been stored under its id.
    fn place_upload(
        &self,
        upload: &IncomingFile,
        file: UploadedFile,
        now: Timestamp,
    ) -> Result<StoredUpload, UploadError> {
        let UploadedFile { id, owner, .. } = file;
        let directory = self.directory_of(owner);

        // Held until the file has its name, so that an id has one content and the count is exact.
        let _guard = self.directory_guard.lock();
        if let Some(earlier) = self.earlier_upload(&file, now)? {
            // The commit that stored it may have failed to sync.
            sync_existing(&directory)?;
            return Ok(StoredUpload { file: earlier, is_repetition: true });
        }
        let expired = self.files.lock().get(&id).copied();
        if let Some(expired) = expired {
            self.remove_copy(&expired)?;
        }

        create_durably(&directory)?;
        fs::rename(upload.path(), self.path_of(&file))?;
        // Listed even if the sync fails, so that a sweep removes it.
        self.files.lock().insert(id, file);
        self.fail_points.hit_after(CommitStep::InputFileRenamed);
        sync_directory(&directory)?;
        self.fail_points.hit_after(CommitStep::InputFileDirSynced);
        Ok(StoredUpload { file, is_repetition: false })
    }

    /// Returns the earlier upload of the same content under the same id, if it has not expired.
    fn earlier_upload(&self, file: &UploadedFile, now: Timestamp) -> Result<Option<UploadedFile>, UploadError> {
        let files = self.files.lock();
        match files.get(&file.id).copied().filter(|earlier| now < earlier.expires_at) {
            Some(earlier) if (earlier.owner, earlier.digest) == (file.owner, file.digest) => Ok(Some(earlier)),
            Some(_) => Err(UploadError::Conflict),
            None if files.values().filter(|other| other.owner == file.owner && other.id != file.id).count()
                >= FILES_PER_OWNER_MAX =>
            {
                Err(UploadError::TooMany)
            }
            None => Ok(None),
        }
    }

    /// Returns `true` if [`UploadedFiles::get`] lists the files of other nodes to find a file.
    #[must_use]
    pub fn must_list_for(&self, id: FileId) -> bool {
        self.part_files.sharing() == FileSharing::Shared && !self.files.lock().contains_key(&id)
    }

    /// Returns a file that has not expired. Blocks if [`UploadedFiles::must_list_for`] returns `true`.
    ///
    /// # Errors
    /// If the files of other nodes cannot be listed.
    pub fn get(&self, id: FileId, now: Timestamp) -> io::Result<Option<UploadedFile>> {
        if !self.files.lock().contains_key(&id) {
            self.list_again_if_shared(RELIST_INTERVAL, None)?;
        }
        Ok(self.files.lock().get(&id).copied().filter(|file| now < file.expires_at))
    }

    /// Returns the files of an owner that have not expired, in the order of their ids.
    ///
    /// # Errors
    /// If the files of other nodes cannot be listed.
    pub fn all_of(&self, owner: UserId, now: Timestamp) -> io::Result<Vec<UploadedFile>> {
        self.list_again_if_shared(Duration::ZERO, Some(owner))?;
        let mut files: Vec<_> = self.files.lock().values().copied().filter(|file| file.owner == owner).collect();
        files.retain(|file| now < file.expires_at);
        files.sort_unstable_by_key(|file| file.id);
        Ok(files)
    }

    /// Lists the files, or those of an owner, again if other nodes may have stored or removed some, unless the last
    /// listing is newer than `interval`. Blocks.
    fn list_again_if_shared(&self, interval: Duration, owner: Option<UserId>) -> io::Result<()> {
        if self.part_files.sharing() == FileSharing::Alone {
            return Ok(());
        }
        let is_recent = |at: Option<Instant>| at.is_some_and(|at| at.elapsed() < interval);
        if self.tree.bucket().is_some() {
            if owner.is_some() {
                return self.list_bucket(owner);
            }
            // Others wait for the listing without a lock, and not longer than for a file.
            let _listing = self.tree.begin_listing(self.tree.root())?;
            if !is_recent(*self.listed_at.lock()) {
                self.list_bucket(None)?;
                *self.listed_at.lock() = Some(Instant::now());
            }
            return Ok(());
        }

        let mut listed_at = self.listed_at.lock();
        if !is_recent(*listed_at) {
            let _guard = self.directory_guard.lock();
            let listed = list_files(self.tree.root(), self.part_files.sharing())?;
            *self.files.lock() = listed;
            *listed_at = Some(Instant::now());
        }
        Ok(())
    }

    /// Lists the files that the bucket has, or those of an owner.
    fn list_bucket(&self, owner: Option<UserId>) -> io::Result<()> {
        let root = self.tree.root();
        let directory = owner.map_or_else(|| root.to_owned(), |owner| self.directory_of(owner));
        let known: HashSet<_> = self.files.lock().keys().copied().collect();
        let listed = self.tree.list_remote(&directory)?.unwrap_or_default();

        let mut found: HashMap<FileId, UploadedFile> = HashMap::new();
        for RemoteFile { path, bytes, .. } in listed {
            let Some(file) = uploaded_file_at(&path, bytes) else { continue };
            // Two nodes may have replaced an expired file at once.
            if found.get(&file.id).is_none_or(|other| other.expires_at < file.expires_at) {
                found.insert(file.id, file);
            }
        }
        // Files that were stored during the listing stay.
        let mut files = self.files.lock();
        files.retain(|id, file| !known.contains(id) || owner.is_some_and(|owner| owner != file.owner));
        files.extend(found);
        Ok(())
    }

    /// Returns the path of a file.
    #[must_use]
    pub fn path_of(&self, file: &UploadedFile) -> PathBuf {
        path_in(self.tree.root(), file)
    }

    /// Reads a file and verifies its hash.
    ///
    /// # Errors
    /// `NotFound` if it has been removed; `InvalidData` if its bytes do not have the hash in its name.
    pub fn read(&self, file: &UploadedFile) -> io::Result<Vec<u8>> {
        let bytes = self.tree.read(&self.path_of(file))?;
        if digest_of(&bytes) != file.digest {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the hash of the file differs from its name"));
        }
        Ok(bytes)
    }

    fn directory_of(&self, owner: UserId) -> PathBuf {
        self.tree.root().join(owner.to_string())
    }

    /// Removes the expired files, with a bucket only their local copies. Returns the removed files. A file that cannot
    /// be removed stays listed, and the next sweep tries again.
    #[must_use]
    pub fn sweep(&self, now: Timestamp) -> Vec<UploadedFile> {
        if self.tree.bucket().is_some() {
            return self.remove_copies(|file| is_removable(file, now));
        }
        self.remove_where(None, |file| is_removable(file, now)).0
    }

    /// Removes the expired files from the bucket.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn sweep_bucket(&self, now: Timestamp) -> io::Result<()> {
        let (_, failure) = self.remove_where(None, |file| is_removable(file, now));
        failure.map_or(Ok(()), Err)
    }

    /// Removes the copies of an erased owner's files from the directory. The node that erases the owner removes the
    /// files from the bucket.
    pub fn remove_copies_of(&self, owner: UserId) {
        self.files.lock().retain(|_, file| file.owner != owner);
        let _ = self.remove_copies(|file| file.owner == owner);
    }

    /// Removes the selected files, and what a crash left of a fetch, from the directory alone.
    fn remove_copies(&self, is_removed: impl Fn(&UploadedFile) -> bool) -> Vec<UploadedFile> {
        let mut removed = Vec::new();
        for directory in fs::read_dir(self.tree.root()).into_iter().flatten().flatten() {
            let is_owner = directory.file_name().to_str().is_some_and(|name| UserId::parse(name).is_ok());
            if !is_owner {
                continue;
            }
            let _ = self.part_files.remove_leftovers(&directory.path());
            for entry in fs::read_dir(directory.path()).into_iter().flatten().flatten() {
                let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
                let Some(file) = uploaded_file_at(&entry.path(), bytes).filter(&is_removed) else { continue };
                match fs::remove_file(entry.path()) {
                    Ok(()) => removed.push(file),
                    Err(error) => tracing::error!(%error, file = %file.id, "copy of an uploaded file not removed"),
                }
            }
            // Fails unless it is empty.
            let _ = fs::remove_dir(directory.path());
        }
        removed
    }

    /// Removes all files of an owner.
    ///
    /// # Errors
    /// If a file cannot be removed; the others are removed nevertheless.
    pub fn remove_all_of(&self, owner: UserId) -> io::Result<()> {
        let (_, failure) = self.remove_where(Some(owner), |file| file.owner == owner);
        failure.map_or(Ok(()), Err)
    }

    /// Removes the selected files; returns those removed, and the last failure.
    fn remove_where(
        &self,
        owner: Option<UserId>,
        is_removed: impl Fn(&UploadedFile) -> bool,
    ) -> (Vec<UploadedFile>, Option<io::Error>) {
        if let Err(error) = self.list_again_if_shared(Duration::ZERO, owner) {
            tracing::warn!(%error, "uploaded files not listed");
            if self.tree.bucket().is_some() {
                return (Vec::new(), Some(error));
            }
        }
        let selected: Vec<_> = self.files.lock().values().copied().filter(is_removed).collect();
        let mut removed = Vec::new();
        let mut failure = None;

        for file in selected {
            match self.remove_file(&file) {
                Ok(is_removed) => removed.extend(is_removed.then_some(file)),
                Err(error) => {
                    tracing::error!(%error, file = %file.id, "uploaded file not removed");
                    let is_hopeless = is_outage(&error);
                    failure = Some(error);
                    if is_hopeless {
                        break;
                    }
                }
            }
        }

        (removed, failure)
    }

    /// Removes a file that is listed. Returns `false` if an upload has replaced it.
    fn remove_file(&self, file: &UploadedFile) -> io::Result<bool> {
        // Without the guard, because it may take seconds.
        self.tree.remove_remote(&self.path_of(file))?;
        let _guard = self.directory_guard.lock();
        if self.files.lock().get(&file.id) != Some(file) {
            return Ok(false);
        }
        self.remove_copy(file).map(|()| true)
    }

    /// Removes a file from the directory, and the directory of its owner if it was the last. The caller holds the
    /// guard.
    fn remove_copy(&self, file: &UploadedFile) -> io::Result<()> {
        match fs::remove_file(self.path_of(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.files.lock().remove(&file.id);
        // Fails unless it is empty.
        let _ = fs::remove_dir(self.directory_of(file.owner));
        Ok(())
    }
}

/// Lists the files below a root; removes those that cannot be listed, unless they may be those of a newer node.
fn list_files(root: &Path, sharing: FileSharing) -> io::Result<HashMap<FileId, UploadedFile>> {
    let mut files: HashMap<FileId, UploadedFile> = HashMap::new();
    for directory in fs::read_dir(root)? {
        let directory = directory?;
        let Some(Ok(owner)) = directory.file_name().to_str().map(UserId::parse) else { continue };
        let entries = match fs::read_dir(directory.path()) {
            Err(error) if sharing == FileSharing::Shared && error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let bytes = match entry.metadata() {
                Err(error) if sharing == FileSharing::Shared && error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?.len(),
            };
            let name = entry.file_name();
            let file = name.to_str().and_then(|name| UploadedFile::from_file_name(owner, name, bytes));
            // A crash while an expired file was being replaced leaves two.
            let is_newest =
                |file: &UploadedFile| files.get(&file.id).is_none_or(|other| other.expires_at < file.expires_at);
            let Some(file) = file.filter(is_newest) else {
                if sharing == FileSharing::Shared {
                    continue;
                }
                tracing::warn!(path = %entry.path().display(), "unknown or outdated upload removed");
                fs::remove_file(entry.path())?;
                continue;
            };
            if let Some(outdated) = files.insert(file.id, file)
                && sharing == FileSharing::Alone
            {
                fs::remove_file(path_in(root, &outdated))?;
            }
        }
    }
    Ok(files)
}

/// Returns `true` if a file has expired, and no submission can have found it before.
fn is_removable(file: &UploadedFile, now: Timestamp) -> bool {
    now >= file.expires_at.saturating_add(REMOVAL_DELAY)
}

/// Returns the file with this path; `None` if the path is not that of an upload.
fn uploaded_file_at(path: &Path, bytes: u64) -> Option<UploadedFile> {
    let owner = UserId::parse(path.parent()?.file_name()?.to_str()?).ok()?;
    UploadedFile::from_file_name(owner, path.file_name()?.to_str()?, bytes)
}

/// Syncs a directory. A node that did not store the files of an owner has none.
fn sync_existing(directory: &Path) -> io::Result<()> {
    match sync_directory(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn path_in(root: &Path, file: &UploadedFile) -> PathBuf {
    root.join(file.owner.to_string()).join(file.file_name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    use crate::file_tree::Bucket;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and more";
    const NOW: Timestamp = Timestamp::from_micros(0);
    const LATER: Timestamp = Timestamp::from_micros(1000);

    fn upload(files: &UploadedFiles, bytes: &[u8]) -> IncomingFile {
        let mut upload = files.create_upload().unwrap();
        for byte in bytes {
            upload.write(&[*byte]).unwrap();
        }
        upload
    }

    fn commit(files: &UploadedFiles, id: u128, owner: u128, bytes: &[u8]) -> Result<UploadedFile, UploadError> {
        let (id, owner) = (FileId(Uuid::from_u128(id)), UserId(Uuid::from_u128(owner)));
        files.commit_upload(&upload(files, bytes), id, owner, LATER, NOW).map(|stored| stored.file)
    }

    #[test]
    fn a_file_is_found_after_a_restart_until_it_expires() {
        let root = tempfile::tempdir().unwrap();
        let files = UploadedFiles::open(root.path()).unwrap();
        let file = commit(&files, 1, 2, PNG).unwrap();
        std::mem::forget(upload(&files, b"half"));

        let files = UploadedFiles::open(root.path()).unwrap();
        assert_eq!(files.get(file.id, Timestamp::from_micros(999)).unwrap(), Some(file));
        assert_eq!(fs::read(files.path_of(&file)).unwrap(), PNG);
        assert_eq!(files.get(file.id, LATER).unwrap(), None);
        assert_eq!(fs::read_dir(root.path().join(INCOMING)).unwrap().count(), 0);

        assert_eq!(files.sweep(LATER), []);
        assert_eq!(files.sweep(LATER.saturating_add(REMOVAL_DELAY)), [file]);
        assert!(!files.path_of(&file).exists() && !files.directory_of(file.owner).exists());
    }

    #[test]
    fn an_id_has_one_content() {
        let root = tempfile::tempdir().unwrap();
        let files = UploadedFiles::open(root.path()).unwrap();
        let file = commit(&files, 1, 2, PNG).unwrap();
        assert_eq!(commit(&files, 1, 2, PNG).unwrap(), file);
        assert!(matches!(commit(&files, 1, 2, b"\x89PNG\r\n\x1a\n"), Err(UploadError::Conflict)));
        assert!(matches!(commit(&files, 1, 3, PNG), Err(UploadError::Conflict)));
        assert_eq!(fs::read_dir(root.path().join(INCOMING)).unwrap().count(), 0);
    }

    #[test]
    fn only_pictures_and_videos_are_stored() {
        let root = tempfile::tempdir().unwrap();
        let files = UploadedFiles::open(root.path()).unwrap();
        for bytes in [&b""[..], b"text", b"PK\x03\x04"] {
            assert!(matches!(commit(&files, 1, 2, bytes), Err(UploadError::Invalid(_))));
        }
        let video = commit(&files, 1, 2, b"\0\0\0\x20ftypisom").unwrap();
        assert_eq!(video.format, InputFormat::Video(VideoFormat::Mp4));
    }

    #[test]
    fn the_files_of_an_owner_are_removed_together() {
        let root = tempfile::tempdir().unwrap();
        let files = UploadedFiles::open(root.path()).unwrap();
        let [first, second, others] =
            [(1, 7), (2, 7), (3, 8)].map(|(id, owner)| commit(&files, id, owner, PNG).unwrap());
        files.remove_all_of(first.owner).unwrap();
        let known =
            [first, second, others].map(|file| files.get(file.id, Timestamp::from_micros(0)).unwrap().is_some());
        assert_eq!(known, [false, false, true]);
        assert!(files.path_of(&others).exists());
    }

    #[test]
    fn an_expired_file_is_replaced_and_an_expired_permission_stores_nothing() {
        let root = tempfile::tempdir().unwrap();
        let files = UploadedFiles::open(root.path()).unwrap();
        let first = commit(&files, 1, 2, PNG).unwrap();
        let put = |expires_at: i64, now: Timestamp| {
            let expires_at = Timestamp::from_micros(expires_at);
            files.commit_upload(&upload(&files, PNG), first.id, first.owner, expires_at, now)
        };

        assert!(matches!(put(1000, LATER), Err(UploadError::Expired)));
        assert_eq!(put(2000, NOW).unwrap(), StoredUpload { file: first, is_repetition: true });

        let second = put(2000, LATER).unwrap();
        assert!(!second.is_repetition && second.file.expires_at == Timestamp::from_micros(2000));
        assert!(!files.path_of(&first).exists() && files.path_of(&second.file).exists());
    }

    #[test]
    fn two_simultaneous_uploads_store_one_content() {
        let root = tempfile::tempdir().unwrap();
        let files = UploadedFiles::open(root.path()).unwrap();
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8_u8)
                .map(|number| {
                    let files = &files;
                    scope.spawn(move || commit(files, 1, 2, &[PNG, &[number % 2]].concat()))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let conflicts = results.iter().filter(|result| matches!(result, Err(UploadError::Conflict))).count();
        assert_eq!((results.iter().filter(|result| result.is_ok()).count(), conflicts), (4, 4));
        assert_eq!(fs::read_dir(root.path().join(UserId(Uuid::from_u128(2)).to_string())).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_is_not_removed_under_an_upload() {
        let root = tempfile::tempdir().unwrap();
        let files = UploadedFiles::open(root.path()).unwrap();
        std::thread::scope(|scope| {
            // Given a thread that removes the only file of an owner, and with it the directory, again and again
            let owner = UserId(Uuid::from_u128(2));
            let uploads = scope.spawn(|| (0..300).try_for_each(|id| commit(&files, id, 2, PNG).map(drop)));
            while !uploads.is_finished() {
                files.remove_all_of(owner).unwrap();
            }
            // Then no upload fails
            uploads.join().unwrap().unwrap();
        });
    }

    #[test]
    fn an_owner_has_a_maximum_number_of_files() {
        let root = tempfile::tempdir().unwrap();
        let files = UploadedFiles::open(root.path()).unwrap();
        let file = commit(&files, 0, 7, PNG).unwrap();
        let others =
            (1..FILES_PER_OWNER_MAX as u128).map(|id| UploadedFile { id: FileId(Uuid::from_u128(id)), ..file });
        files.files.lock().extend(others.map(|file| (file.id, file)));

        assert!(matches!(commit(&files, 5000, 7, PNG), Err(UploadError::TooMany)));
        assert_eq!(commit(&files, 0, 7, PNG).unwrap(), file, "a repetition does not count as another file");
        assert!(commit(&files, 5000, 8, PNG).is_ok());
    }

    #[test]
    fn a_file_that_cannot_be_removed_does_not_stop_the_others() {
        let root = tempfile::tempdir().unwrap();
        let files = UploadedFiles::open(root.path()).unwrap();
        let [stuck, other] = [(1, 7), (2, 8)].map(|(id, owner)| commit(&files, id, owner, PNG).unwrap());
        // A directory in place of the file cannot be removed as a file.
        fs::remove_file(files.path_of(&stuck)).unwrap();
        fs::create_dir(files.path_of(&stuck)).unwrap();

        assert!(files.remove_all_of(stuck.owner).is_err());
        assert_eq!(files.sweep(LATER.saturating_add(REMOVAL_DELAY)), [other]);
        fs::remove_dir(files.path_of(&stuck)).unwrap();
        assert_eq!(files.sweep(LATER.saturating_add(REMOVAL_DELAY)), [stuck]);
    }

    #[test]
    fn opening_removes_outdated_and_unknown_files() {
        let root = tempfile::tempdir().unwrap();
        let files = UploadedFiles::open(root.path()).unwrap();
        let file = commit(&files, 1, 2, PNG).unwrap();
        let newer = UploadedFile { expires_at: Timestamp::from_micros(2000), ..file };
        fs::copy(files.path_of(&file), files.path_of(&newer)).unwrap();
        fs::write(files.directory_of(file.owner).join("unknown"), b"x").unwrap();

        let files = UploadedFiles::open(root.path()).unwrap();
        assert_eq!(files.get(file.id, LATER).unwrap(), Some(newer));
        assert_eq!(fs::read_dir(files.directory_of(file.owner)).unwrap().count(), 1);
    }

    #[test]
    fn nodes_with_a_bucket_find_the_files_of_each_other() {
        // Given two nodes
        let bucket = Bucket::in_memory();
        let environment = Environment::system();
        let roots = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [first, second] = roots.each_ref().map(|root| {
            let tree = FileTree::with_bucket(root.path(), Arc::clone(&bucket), &environment).subtree("uploads");
            UploadedFiles::open_with(tree, PartFiles::new(FileSharing::Shared, &environment)).unwrap()
        });

        // When one stores a file
        let file = commit(&first, 1, 2, PNG).unwrap();

        // Then the other finds and reads it, repeats it, and refuses another content
        assert_eq!(second.get(file.id, NOW).unwrap(), Some(file));
        assert_eq!(second.read(&file).unwrap(), PNG);
        assert_eq!(second.all_of(file.owner, NOW).unwrap(), [file]);
        assert_eq!(commit(&second, 1, 2, PNG).unwrap(), file);
        assert!(matches!(commit(&second, 1, 2, &[PNG, b"x"].concat()), Err(UploadError::Conflict)));
        assert_eq!(bucket.list("").unwrap().len(), 1);

        // And when it expires, the copies and the object are removed separately
        let end = LATER.saturating_add(REMOVAL_DELAY);
        assert_eq!(second.sweep(end), [file]);
        assert_eq!(first.get(file.id, NOW).unwrap(), Some(file));
        first.sweep_bucket(end).unwrap();
        assert!(bucket.list("").unwrap().is_empty() && !first.path_of(&file).exists());

        // And those of an erased owner too
        let file = commit(&first, 3, 4, PNG).unwrap();
        second.all_of(file.owner, NOW).unwrap();
        second.read(&file).unwrap();
        second.remove_copies_of(file.owner);
        assert!(!second.path_of(&file).exists());
        first.remove_all_of(file.owner).unwrap();
        assert!(second.all_of(file.owner, NOW).unwrap().is_empty() && bucket.list("").unwrap().is_empty());
    }

    #[test]
    fn an_upload_that_fails_in_the_directory_leaves_the_object_of_an_equal_one() {
        // Given a node on which the directory of an owner cannot be created
        let (bucket, environment) = (Bucket::in_memory(), Environment::system());
        let root = tempfile::tempdir().unwrap();
        let tree = FileTree::with_bucket(root.path(), Arc::clone(&bucket), &environment).subtree("uploads");
        let files = UploadedFiles::open_with(tree, PartFiles::new(FileSharing::Shared, &environment)).unwrap();
        let directory = files.directory_of(UserId(Uuid::from_u128(2)));
        fs::write(&directory, b"in the way").unwrap();

        // When an upload fails, which another node may have acknowledged
        assert!(matches!(commit(&files, 1, 2, PNG), Err(UploadError::Io(_))));

        // Then its object stays until it expires
        assert_eq!(bucket.list("uploads").unwrap().len(), 1);
        fs::remove_file(directory).unwrap();
        files.sweep_bucket(LATER.saturating_add(REMOVAL_DELAY)).unwrap();
        assert!(bucket.list("").unwrap().is_empty());
    }
}
