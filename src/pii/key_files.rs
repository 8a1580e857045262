//! Keys on disk: a file of 32 bytes per user, `<data dir>/personal/<last two digits of the id>/<id>`, readable by its
//! owner only. Directories are created when needed.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::UserKeyError;
use super::seal::KEY_BYTES;
use crate::data_dir::{sync_parent, write_private};
use crate::domain::ids::UserId;

/// The secret of a user, wiped from memory on drop.
pub type UserKeySecret = Zeroizing<[u8; KEY_BYTES]>;

/// Directory of the keys.
pub struct KeyFiles {
    root: PathBuf,
}

impl KeyFiles {
    /// Uses the keys below this directory, which need not exist.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Reads the secret of a user, if any.
    ///
    /// # Errors
    /// If the file exists and cannot be read, or is damaged.
    pub fn read(&self, user: UserId) -> Result<Option<UserKeySecret>, UserKeyError> {
        let path = self.path(user);
        let bytes = match fs::read(&path) {
            Ok(bytes) => Zeroizing::new(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(UserKeyError::File { path, source }),
        };
        match <[u8; KEY_BYTES]>::try_from(&bytes[..]) {
            Ok(secret) => Ok(Some(Zeroizing::new(secret))),
            Err(_) => Err(UserKeyError::Malformed { path }),
        }
    }

    /// Writes the secret of a user, unless another node has just written one. The secret survives a power cut once this
    /// returns.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, user: UserId, secret: &UserKeySecret) -> Result<(), UserKeyError> {
        let path = self.path(user);
        let directory = path.parent().unwrap_or(&self.root);
        // Nodes have different secrets, so they never write to the same draft.
        let hash = Sha256::digest(&secret[..]);
        let draft = path.with_extension(format!("{:02x}{:02x}{:02x}{:02x}", hash[0], hash[1], hash[2], hash[3]));
        let write = || {
            create_directory(directory)?;
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            file.write_all(&secret[..])?;
            file.sync_all()?;
            publish_draft(&draft, &path)
        };
        let result = write().inspect_err(|_| {
            let _ = fs::remove_file(&draft);
        });
        let result = result.and_then(|()| sync_parent(&path));
        result.map_err(|source| UserKeyError::File { path, source })
    }

    /// Overwrites and removes the secret of a user, durably once this returns. Succeeds if there is none.
    ///
    /// # Errors
    /// If the file cannot be overwritten or removed.
    pub fn destroy(&self, user: UserId) -> Result<(), UserKeyError> {
        let path = self.path(user);
        let mark = self.mark_path(user);
        for draft in self.drafts(user) {
            ignore_not_found(overwrite(&draft).and_then(|()| remove(&draft)), draft)?;
        }
        ignore_not_found(overwrite(&path).and_then(|()| remove(&path)), path)?;
        ignore_not_found(remove(&mark), mark)
    }

    /// Records durably that an erasure has begun. Not needed while a key exists, because the key itself shows that the
    /// erasure is unfinished.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn mark_erasing(&self, user: UserId) -> Result<(), UserKeyError> {
        if self.path(user).exists() {
            return Ok(());
        }
        let path = self.mark_path(user);
        let result = create_directory(path.parent().unwrap_or(&self.root)).and_then(|()| write_private(&path, b""));
        result.map_err(|source| UserKeyError::File { path, source })
    }

    /// Returns `true` if a key or an erasure mark of the user exists.
    #[must_use]
    pub fn has_key_or_mark(&self, user: UserId) -> bool {
        self.path(user).exists() || self.mark_path(user).exists()
    }

    /// Returns the drafts that a crash left beside the key.
    fn drafts(&self, user: UserId) -> Vec<PathBuf> {
        let path = self.path(user);
        let mark = self.mark_path(user);
        let is_draft = |other: &PathBuf| *other != path && *other != mark && other.file_stem() == path.file_name();
        let entries = path.parent().and_then(|directory| fs::read_dir(directory).ok()).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_draft).collect()
    }

    fn mark_path(&self, user: UserId) -> PathBuf {
        self.path(user).with_extension("erasing")
    }

    /// Returns the path of a user's key.
    #[must_use]
    pub fn path(&self, user: UserId) -> PathBuf {
        let name = user.to_string();
        // Ids begin with their time, so the first digits would put nearly all keys into one directory.
        self.root.join(&name[name.len() - 2..]).join(name)
    }
}

/// Creates a directory and its parent, whose names survive a power cut.
fn create_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    sync_parent(directory)?;
    directory.parent().map_or(Ok(()), sync_parent)
}

/// Gives a draft the name of the key, unless another node has just written that key; then removes the draft.
fn publish_draft(draft: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(draft, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            // The file system has no hard links, which only several nodes need.
            if path.exists() { fs::remove_file(draft) } else { fs::rename(draft, path) }
        }
        _ => fs::remove_file(draft),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    sync_parent(path)
}

fn ignore_not_found(result: io::Result<()>, path: PathBuf) -> Result<(), UserKeyError> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(|source| UserKeyError::File { path, source }),
    }
}

/// Overwrites in place. If the file system writes in place too, nothing of the secret is left on the disk.
fn overwrite(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(&[0; KEY_BYTES])?;
    file.sync_all()
}
