//! Content-addressed store: a picture, video or text is named by the SHA-256 of its bytes and never changes.
//!
//! Inputs and results are in separate areas, so that no name, guessed or known, serves a client's input: only results
//! are served. A file is complete or absent: it is written under a temporary name, synced and renamed, and the
//! directory is synced before [`MediaStore::put`] returns. All calls block on the disk; call them from a blocking
//! thread.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::data_dir::sync_parent;
use crate::domain::image::{ImageFormat, Picture};
use crate::domain::music::{MusicFile, MusicFormat};
use crate::domain::value::{Digest, Timestamp};
use crate::domain::video::{AttachedDocument, Clip, VideoFormat};
use crate::environment::{CommitStep, Environment};
use crate::file_tree::{FileTree, RemoteFile, is_outage, is_unavailable};

use super::decoders::PictureDecoders;
use super::hash_directories::HashDirectories;
use super::incoming_file::IncomingFile;
use super::input::PictureInfo;
use super::part_files::{FileSharing, PART_SUFFIX, PartFiles};
use super::uploaded_files::{UploadedFile, UploadedFiles};

/// Area of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MediaArea {
    /// Sent by a client; never served.
    Input,
    /// Made by a vendor; served to every client that knows the name.
    Result,
    /// Icon or banner of a node; served to every client, and kept for good, because the event log names it.
    NodePicture,
}

impl MediaArea {
    /// Areas whose files are removed when no task refers to them.
    const TEMPORARY: [Self; 2] = [Self::Input, Self::Result];

    const fn directory(self) -> &'static str {
        match self {
            Self::Input => "inputs",
            Self::Result => "results",
            Self::NodePicture => "nodes",
        }
    }
}

/// Time for which an unreferenced new file is kept, so that an event referring to it can be recorded.
pub const GRACE_PERIOD: Duration = Duration::from_hours(2);

/// Time in which music, which exists nowhere else, is stored in a bucket again and again if that fails.
const MUSIC_PATIENCE: Duration = Duration::from_secs(30);
/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Result of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MediaSweepReport {
    pub files: u64,
    pub bytes: u64,
}

/// The file store. Cheap to clone; only one process may use a root, unless its [`PartFiles`] are shared.
#[derive(Clone)]
pub struct MediaStore {
    tree: FileTree,
    inputs: HashDirectories,
    results: HashDirectories,
    node_pictures: HashDirectories,
    part_files: PartFiles,
    /// New files with their times, about to be referenced by events. Locked while a file is removed.
    recent_files: Arc<Mutex<HashMap<PathBuf, Timestamp>>>,
    environment: Environment,
    decoders: PictureDecoders,
    uploads: UploadedFiles,
}

impl MediaStore {
    /// Opens or creates the store below `root` and removes unfinished files left by a crash.
    ///
    /// # Errors
    /// If a directory cannot be created, read or synced.
    pub fn open(root: &Path) -> io::Result<Self> {
        Self::open_with(FileTree::local(root), PartFiles::new(FileSharing::Alone, &Environment::system()))
    }

    /// Like [`MediaStore::open`], for files that other nodes may use too.
    ///
    /// # Errors
    /// Same as [`MediaStore::open`].
    pub fn open_with(tree: FileTree, part_files: PartFiles) -> io::Result<Self> {
        let root = tree.root();
        let open = |area: MediaArea| HashDirectories::open(root.join(area.directory()));
        let inputs = open(MediaArea::Input)?;
        let results = open(MediaArea::Result)?;
        let node_pictures = open(MediaArea::NodePicture)?;
        for directories in [&inputs, &results, &node_pictures] {
            directories.list()?.iter().try_for_each(|directory| part_files.remove_leftovers(directory))?;
        }

        sync_directory(root)?;
        let environment = Environment::system();
        let recent_files = Arc::default();
        let decoders = PictureDecoders::default();
        let uploads = UploadedFiles::open_with(tree.subtree("uploads"), part_files.clone())?;

        Ok(Self { tree, inputs, results, node_pictures, part_files, recent_files, environment, decoders, uploads })
    }

    /// Replaces the clock and the fail points.
    #[must_use]
    pub fn with_environment(self, environment: Environment) -> Self {
        let uploads = self.uploads.with_fail_points(environment.fail_points());
        Self { environment, uploads, ..self }
    }

    /// Replaces the decoders.
    #[must_use]
    pub fn with_decoders(self, decoders: PictureDecoders) -> Self {
        Self { decoders, ..self }
    }

    /// Returns the decoders for all pictures of this store, with one memory budget.
    #[must_use]
    pub fn decoders(&self) -> &PictureDecoders {
        &self.decoders
    }

    /// Returns the files of the store.
    #[must_use]
    pub fn tree(&self) -> &FileTree {
        &self.tree
    }

    /// Returns the files that clients uploaded to use them as inputs.
    #[must_use]
    pub fn uploads(&self) -> &UploadedFiles {
        &self.uploads
    }

    /// Stores a picture durably and returns its name. An existing file is kept.
    ///
    /// # Errors
    /// If the file cannot be written or synced. If only its directory could not be synced, a sweep removes the file.
    pub fn put(
        &self,
        area: MediaArea,
        bytes: &[u8],
        format: ImageFormat,
        width: u32,
        height: u32,
    ) -> io::Result<Picture> {
        let picture = Picture { digest: digest_of(bytes), format, bytes: bytes.len() as u64, width, height };
        self.put_file(area, bytes, &picture.file_name())?;
        Ok(picture)
    }

    /// Stores a video, as [`MediaStore::put`].
    ///
    /// # Errors
    /// Same as [`MediaStore::put`].
    pub fn put_clip(&self, area: MediaArea, bytes: &[u8], format: VideoFormat) -> io::Result<Clip> {
        let clip = Clip { digest: digest_of(bytes), format, bytes: bytes.len() as u64 };
        self.put_file(area, bytes, &clip.file_name())?;
        Ok(clip)
    }

    /// Stores an uploaded video as the input of a task, without a copy where the file system has hard links.
    ///
    /// # Errors
    /// Same as [`MediaStore::put`]; `NotFound` if the upload has been removed.
    pub fn put_uploaded_clip(&self, upload: &UploadedFile, format: VideoFormat) -> io::Result<Clip> {
        let clip = Clip { digest: upload.digest, format, bytes: upload.bytes };
        self.put_upload(upload, &clip.file_name())?;
        Ok(clip)
    }

    /// Stores an uploaded picture, as [`MediaStore::put_uploaded_clip`]. `info` describes its content.
    ///
    /// # Errors
    /// Same as [`MediaStore::put_uploaded_clip`].
    pub fn put_uploaded_picture(&self, upload: &UploadedFile, info: &PictureInfo) -> io::Result<Picture> {
        let PictureInfo { format, width, height } = *info;
        let picture = Picture { digest: upload.digest, format, bytes: upload.bytes, width, height };
        self.put_upload(upload, &picture.file_name())?;
        Ok(picture)
    }

    fn put_upload(&self, upload: &UploadedFile, file_name: &str) -> io::Result<()> {
        let source = self.uploads.path_of(upload);
        self.tree.fetch(&source)?;
        self.place_file(MediaArea::Input, file_name, upload.bytes, Duration::ZERO, |unfinished| {
            fs::hard_link(&source, unfinished).or_else(|_| {
                fs::copy(&source, unfinished)?;
                File::open(unfinished)?.sync_all()
            })
        })
    }

    /// Creates a result that is written while it is made. It is removed on drop unless [`MediaStore::put_music`] stored
    /// it.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create_result(&self) -> io::Result<IncomingFile> {
        // In a directory of results, so that the next start removes what a crash leaves.
        let path = self.results.path_of(&format!("00-stream.{}", self.part_files.next_ending()));
        self.results.create_for(&path)?;
        IncomingFile::create(path)
    }

    /// Stores music, as [`MediaStore::put`].
    ///
    /// # Errors
    /// Same as [`MediaStore::put`].
    pub fn put_music(&self, incoming: &IncomingFile, format: MusicFormat) -> io::Result<MusicFile> {
        let file = MusicFile { digest: incoming.digest(), format, bytes: incoming.bytes() };
        incoming.sync()?;
        let write = |unfinished: &Path| fs::rename(incoming.path(), unfinished);
        self.place_file(MediaArea::Result, &file.file_name(), file.bytes, MUSIC_PATIENCE, write)?;
        Ok(file)
    }

    /// Stores text that a client sent, as [`MediaStore::put`].
    ///
    /// # Errors
    /// Same as [`MediaStore::put`].
    pub fn put_document(&self, text: &str) -> io::Result<AttachedDocument> {
        let document = AttachedDocument { digest: digest_of(text.as_bytes()), bytes: text.len() as u64 };
        self.put_file(MediaArea::Input, text.as_bytes(), &document.file_name())?;
        Ok(document)
    }

    /// Stores a file. `file_name` must begin with the hash of `bytes`.
    fn put_file(&self, area: MediaArea, bytes: &[u8], file_name: &str) -> io::Result<()> {
        let write = |unfinished: &Path| self.write_synced(unfinished, bytes);
        self.place_file(area, file_name, bytes.len() as u64, Duration::ZERO, write)
    }

    /// Makes a file of this length durable, unless it exists; `write` writes it under a temporary name. While the
    /// bucket cannot be used, tries again for `patience`.
    fn place_file(
        &self,
        area: MediaArea,
        file_name: &str,
        length: u64,
        patience: Duration,
        write: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let directories = self.directories(area);
        let path = &directories.path_of(file_name);
        directories.create_for(path)?;

        // From here on a sweep skips the file. If it was removed just before, it is written again.
        self.recent_files.lock().insert(path.to_owned(), self.environment.now());

        if is_complete(path, length)? {
            self.part_files.keep(path)?;
            retry_for(patience, || self.tree.republish(path, path))?;
        } else {
            let unfinished = path.with_extension(self.part_files.next_ending());
            let publish = || retry_for(patience, || self.tree.publish(&unfinished, path));
            let written = write(&unfinished).and_then(|()| publish());
            if let Err(error) = written.and_then(|()| fs::rename(&unfinished, path)) {
                let _ = fs::remove_file(&unfinished);
                return Err(error);
            }
            // Renaming a link to a file that has the name already has no effect.
            let _ = fs::remove_file(&unfinished);
            self.environment.fail_points().hit_after(CommitStep::MediaFileRenamed);
        }

        sync_parent(path)?;
        self.environment.fail_points().hit_after(CommitStep::MediaDirSynced);
        Ok(())
    }

    /// Reads a picture and verifies its hash.
    ///
    /// # Errors
    /// `NotFound` if it does not exist; `InvalidData` if its bytes do not have the hash in its name.
    pub fn read(&self, area: MediaArea, picture: &Picture) -> io::Result<Vec<u8>> {
        self.read_file(area, &picture.digest, &picture.file_name())
    }

    /// Reads a video, as [`MediaStore::read`].
    ///
    /// # Errors
    /// Same as [`MediaStore::read`].
    pub fn read_clip(&self, area: MediaArea, clip: &Clip) -> io::Result<Vec<u8>> {
        self.read_file(area, &clip.digest, &clip.file_name())
    }

    /// Reads text that a client sent, as [`MediaStore::read`].
    ///
    /// # Errors
    /// Same as [`MediaStore::read`].
    pub fn read_document(&self, document: &AttachedDocument) -> io::Result<String> {
        let bytes = self.read_file(MediaArea::Input, &document.digest, &document.file_name())?;
        String::from_utf8(bytes).map_err(io::Error::other)
    }

    fn read_file(&self, area: MediaArea, digest: &Digest, file_name: &str) -> io::Result<Vec<u8>> {
        let bytes = self.tree.read(&self.path(area, file_name))?;
        if digest_of(&bytes) != *digest {
            let reason = format!("file {file_name} is damaged: its hash differs from its name");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        Ok(bytes)
    }

    /// Removes the expired uploads, and the files for which `is_referenced` returns `false`, except those stored within
    /// [`GRACE_PERIOD`]. With a bucket, removes them from the directory alone; see [`MediaStore::sweep_bucket`].
    ///
    /// # Errors
    /// If a directory cannot be read or a file cannot be removed.
    pub fn sweep(&self, is_referenced: &dyn Fn(&Digest) -> bool) -> io::Result<MediaSweepReport> {
        let now = self.environment.now();
        self.recent_files.lock().retain(|_, put_at| now.since(*put_at) < GRACE_PERIOD);

        let expired = self.uploads.sweep(now);
        let bytes = expired.iter().map(|upload| upload.bytes).sum();
        let mut report = MediaSweepReport { files: expired.len() as u64, bytes };

        let listed: io::Result<Vec<_>> =
            MediaArea::TEMPORARY.into_iter().map(|area| self.directories(area).list()).collect();
        for directory in listed?.concat() {
            for entry in fs::read_dir(directory)? {
                let entry = entry?;
                let name = entry.file_name();
                let digest = name.to_str().and_then(|name| name.split_once('.')).map(|(stem, _)| Digest::parse(stem));
                let Some(Ok(digest)) = digest else { continue };
                if is_referenced(&digest) || name.to_string_lossy().ends_with(PART_SUFFIX) {
                    continue;
                }
                let metadata = entry.metadata()?;
                let bytes = metadata.len();
                if !self.part_files.may_remove(&metadata) {
                    continue;
                }
                let recent = self.recent_files.lock();
                if !recent.contains_key(&entry.path()) {
                    fs::remove_file(entry.path())?;
                    report = MediaSweepReport { files: report.files + 1, bytes: report.bytes + bytes };
                }
            }
        }

        Ok(report)
    }

    /// Removes files from the bucket, if there is one, that no node needs.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn sweep_bucket(&self, is_referenced: &dyn Fn(&Digest) -> bool) -> io::Result<MediaSweepReport> {
        let mut report = MediaSweepReport::default();
        if self.tree.bucket().is_none() {
            return Ok(report);
        }

        // A file that cannot be removed does not keep the others.
        let mut failure = self.uploads.sweep_bucket(self.environment.now()).err();
        for area in MediaArea::TEMPORARY {
            let listed = self.tree.list_remote(&self.tree.root().join(area.directory()))?;
            for RemoteFile { path, bytes, .. } in listed.unwrap_or_default() {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let digest = name.split_once('.').and_then(|(stem, _)| Digest::parse(stem).ok());
                let is_unused = digest.is_some_and(|digest| !is_referenced(&digest));
                if !is_unused || self.recent_files.lock().contains_key(&path) {
                    continue;
                }
                match self.tree.remove_unreferenced(&path) {
                    Ok(true) => report = MediaSweepReport { files: report.files + 1, bytes: report.bytes + bytes },
                    Ok(false) => {}
                    Err(error) if is_outage(&error) => return Err(error),
                    Err(error) => failure = Some(error),
                }
            }
        }
        failure.map_or(Ok(report), Err)
    }

    fn directories(&self, area: MediaArea) -> &HashDirectories {
        match area {
            MediaArea::Input => &self.inputs,
            MediaArea::Result => &self.results,
            MediaArea::NodePicture => &self.node_pictures,
        }
    }

    fn write_synced(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        self.environment.fail_points().hit_after(CommitStep::MediaFileWritten);
        file.sync_all()?;
        self.environment.fail_points().hit_after(CommitStep::MediaFileSynced);
        Ok(())
    }

    /// Returns the path of a file, whether it exists or not. `None` unless the name consists of 64 lowercase
    /// hexadecimal digits, a dot and a known extension, so that no name leads out of the area.
    #[must_use]
    pub fn path_of(&self, area: MediaArea, file_name: &str) -> Option<PathBuf> {
        let (digest, extension) = file_name.split_once('.')?;
        Digest::parse(digest).ok()?;
        let is_video_or_music = || VideoFormat::parse(extension).is_ok() || MusicFormat::parse(extension).is_ok();
        if ImageFormat::parse(extension).is_err() && !is_video_or_music() {
            return None;
        }
        Some(self.path(area, file_name))
    }

    /// Returns the path. `file_name` must begin with the hexadecimal digits of a hash.
    fn path(&self, area: MediaArea, file_name: &str) -> PathBuf {
        self.directories(area).path_of(file_name)
    }
}

/// Repeats an operation for a while if it fails because the bucket cannot be used.
fn retry_for(patience: Duration, operation: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        match operation() {
            Err(error) if is_unavailable(&error) && Instant::now() < deadline => thread::sleep(RETRY_PAUSE),
            result => return result,
        }
    }
}

pub(super) fn digest_of(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// Returns `true` if the file exists with the right length. Another length means damage, so the file may be replaced.
pub(super) fn is_complete(path: &Path, length: u64) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_file() && metadata.len() == length),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    use crate::domain::ids::{FileId, UserId};
    use crate::file_tree::Bucket;

    fn store() -> (tempfile::TempDir, MediaStore) {
        let root = tempfile::tempdir().unwrap();
        let store = MediaStore::open(root.path()).unwrap();
        (root, store)
    }

    #[test]
    fn a_stored_picture_is_named_by_its_hash_and_read_back() {
        let (_root, store) = store();
        let picture = store.put(MediaArea::Result, b"abc", ImageFormat::Png, 3, 1).unwrap();
        assert_eq!(picture.file_name(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad.png");
        assert_eq!((picture.bytes, picture.width, picture.height), (3, 3, 1));
        assert_eq!(store.read(MediaArea::Result, &picture).unwrap(), b"abc");
    }

    #[test]
    fn videos_and_texts_are_read_back_unchanged() {
        let (_root, store) = store();
        let clip = store.put_clip(MediaArea::Result, b"film", VideoFormat::Mp4).unwrap();
        assert_eq!(store.read_clip(MediaArea::Result, &clip).unwrap(), b"film");
        let text = "\u{1F3B5} \" \n".repeat(1000);
        let document = store.put_document(&text).unwrap();
        assert_eq!((document.bytes, store.read_document(&document).unwrap()), (text.len() as u64, text));
        assert!(store.read_clip(MediaArea::Input, &clip).is_err());
    }

    #[test]
    fn inputs_are_not_served_as_results() {
        let (_root, store) = store();
        let picture = store.put(MediaArea::Input, b"abc", ImageFormat::Png, 3, 1).unwrap();
        assert_eq!(store.read(MediaArea::Result, &picture).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!store.path_of(MediaArea::Result, &picture.file_name()).unwrap().exists());
    }

    #[test]
    fn an_existing_file_is_not_rewritten() {
        let (_root, store) = store();
        let picture = store.put(MediaArea::Result, b"abc", ImageFormat::Png, 3, 1).unwrap();
        let path = store.path_of(MediaArea::Result, &picture.file_name()).unwrap();
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(store.put(MediaArea::Result, b"abc", ImageFormat::Png, 3, 1).unwrap(), picture);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written);
    }

    #[test]
    fn damage_is_detected_and_a_truncated_file_is_replaced_by_the_next_put() {
        let (_root, store) = store();
        let picture = store.put(MediaArea::Result, b"abc", ImageFormat::Png, 3, 1).unwrap();
        fs::write(store.path_of(MediaArea::Result, &picture.file_name()).unwrap(), b"ab").unwrap();
        assert_eq!(store.read(MediaArea::Result, &picture).unwrap_err().kind(), io::ErrorKind::InvalidData);
        store.put(MediaArea::Result, b"abc", ImageFormat::Png, 3, 1).unwrap();
        assert_eq!(store.read(MediaArea::Result, &picture).unwrap(), b"abc");
    }

    #[test]
    fn opening_removes_part_files_and_keeps_the_rest() {
        let (root, store) = store();
        let picture = store.put(MediaArea::Input, b"abc", ImageFormat::Jpeg, 3, 1).unwrap();
        let leftover = store.path_of(MediaArea::Input, &picture.file_name()).unwrap().with_file_name("x.7.part");
        fs::write(&leftover, b"half").unwrap();
        let store = MediaStore::open(root.path()).unwrap();
        assert!(!leftover.exists());
        assert_eq!(store.read(MediaArea::Input, &picture).unwrap(), b"abc");
    }

    #[test]
    fn a_sweep_removes_unreferenced_files_after_the_grace_period() {
        let environment = Environment::manual(Timestamp::from_micros(0), 1);
        let (_root, store) = store();
        let store = store.with_environment(environment.clone());
        let referenced = store.put(MediaArea::Input, b"kept", ImageFormat::Png, 1, 1).unwrap();
        let old = store.put(MediaArea::Result, b"old", ImageFormat::Png, 1, 1).unwrap();
        let again = store.put(MediaArea::Result, b"again", ImageFormat::Png, 1, 1).unwrap();
        let is_referenced = |digest: &Digest| *digest == referenced.digest;
        assert_eq!(store.sweep(&is_referenced).unwrap(), MediaSweepReport::default());

        environment.advance(GRACE_PERIOD);
        store.put(MediaArea::Result, b"again", ImageFormat::Png, 1, 1).unwrap();
        assert_eq!(store.sweep(&is_referenced).unwrap(), MediaSweepReport { files: 1, bytes: 3 });
        assert!(store.read(MediaArea::Input, &referenced).is_ok() && store.read(MediaArea::Result, &again).is_ok());
        assert!(store.read(MediaArea::Result, &old).is_err());
        assert_eq!(store.sweep(&is_referenced).unwrap(), MediaSweepReport::default());
    }

    #[test]
    fn a_sweep_keeps_the_pictures_of_nodes() {
        let environment = Environment::manual(Timestamp::from_micros(0), 1);
        let (_root, store) = store();
        let store = store.with_environment(environment.clone());
        let icon = store.put(MediaArea::NodePicture, b"icon", ImageFormat::Png, 1, 1).unwrap();

        environment.advance(GRACE_PERIOD);

        assert_eq!(store.sweep(&|_| false).unwrap(), MediaSweepReport::default());
        assert_eq!(store.read(MediaArea::NodePicture, &icon).unwrap(), b"icon");
    }

    #[test]
    fn an_upload_becomes_an_input_without_leaving_a_part_file() {
        // Given an uploaded picture
        let (_root, store) = store();
        let mut incoming = store.uploads().create_upload().unwrap();
        incoming.write(b"\x89PNG\r\n\x1a\n").unwrap();
        let (id, owner) = (FileId(Uuid::from_u128(1)), UserId(Uuid::from_u128(2)));
        let (now, later) = (Timestamp::from_micros(0), Timestamp::from_micros(1));
        let upload = store.uploads().commit_upload(&incoming, id, owner, later, now).unwrap().file;
        let info = PictureInfo { format: ImageFormat::Png, width: 1, height: 1 };

        // When it is stored as an input, even after a damaged file of this name was replaced
        let picture = store.put_uploaded_picture(&upload, &info).unwrap();
        let path = store.path_of(MediaArea::Input, &picture.file_name()).unwrap();
        fs::write(&path, b"damaged").unwrap();
        fs::write(store.uploads().path_of(&upload), b"\x89PNG\r\n\x1a\n").unwrap();
        store.put_uploaded_picture(&upload, &info).unwrap();

        // Then the directory has this file only, which does not depend on the upload
        store.uploads().remove_all_of(owner).unwrap();
        assert_eq!(store.read(MediaArea::Input, &picture).unwrap(), b"\x89PNG\r\n\x1a\n");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        fs::remove_file(&path).unwrap();
        let error = store.put_uploaded_picture(&upload, &info).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_link_to_the_file_that_has_the_name_already_is_removed() {
        // Given an input that is a link to an upload, and so has the length that it should have only after the upload
        // was completed
        let (root, store) = store();
        let source = root.path().join("source");
        fs::write(&source, b"abc").unwrap();
        let name = format!("{}.png", "a5".repeat(32));
        let path = store.path(MediaArea::Input, &name);
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::hard_link(&source, &path).unwrap();

        // When the same file is placed there
        let write = |unfinished: &Path| fs::hard_link(&source, unfinished);
        store.place_file(MediaArea::Input, &name, 4, Duration::ZERO, write).unwrap();

        // Then no other name of it remains
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn music_is_stored_under_its_hash_or_removed() {
        // Given two recordings
        let (root, store) = store();
        let mut kept = store.create_result().unwrap();
        let dropped = store.create_result().unwrap();
        kept.write(b"Ogg").unwrap();
        kept.write(b"S").unwrap();

        // When one is stored, twice, and the other is not
        let file = store.put_music(&kept, MusicFormat::Ogg).unwrap();
        drop((kept, dropped));
        let mut again = store.create_result().unwrap();
        again.write(b"OggS").unwrap();
        assert_eq!(store.put_music(&again, MusicFormat::Ogg).unwrap(), file);
        drop(again);

        // Then only the stored file remains
        let path = store.path_of(MediaArea::Result, &file.file_name()).unwrap();
        assert_eq!(fs::read(path).unwrap(), b"OggS");
        assert_eq!(fs::read_dir(root.path().join("results/00")).unwrap().count(), 0);
    }

    #[test]
    fn music_is_stored_although_the_bucket_is_interrupted() {
        // Given a recording, and a bucket that cannot be used for a moment
        let root = tempfile::tempdir().unwrap();
        let (bucket, environment) = (Bucket::in_memory(), Environment::system());
        let tree = FileTree::with_bucket(root.path(), Arc::clone(&bucket), &environment).subtree("media");
        let store = MediaStore::open_with(tree, PartFiles::new(FileSharing::Shared, &environment)).unwrap();
        let mut music = store.create_result().unwrap();
        music.write(b"OggS").unwrap();
        bucket.interrupt(Duration::from_millis(700));

        // Then it is stored nevertheless, while other files are refused at once
        assert!(is_unavailable(&store.put(MediaArea::Input, b"abc", ImageFormat::Png, 3, 1).unwrap_err()));
        let file = store.put_music(&music, MusicFormat::Ogg).unwrap();
        assert_eq!(bucket.list("media/results").unwrap().len(), 1);
        assert!(store.path_of(MediaArea::Result, &file.file_name()).unwrap().exists());
    }

    #[test]
    fn only_hashes_with_known_extensions_have_a_path() {
        let (_root, store) = store();
        let hash = "a5".repeat(32);
        assert!(
            ["png", "mp4", "ogg"]
                .iter()
                .all(|known| store.path_of(MediaArea::Result, &format!("{hash}.{known}")).is_some())
        );

        let upper = hash.to_uppercase();

        for bad in [
            String::new(),
            hash.clone(),
            format!("{hash}.exe"),
            format!("{hash}.txt"),
            format!("{hash}.png.png"),
            format!("{hash}./png"),
            format!("../{hash}.png"),
            format!("{hash}.png/.."),
            format!("{upper}.png"),
            format!("/etc/passwd.{hash}.png"),
        ] {
            assert_eq!(store.path_of(MediaArea::Result, &bad), None, "{bad}");
        }
    }
}
