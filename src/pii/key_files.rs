//! Keys on disk: a file of 32 bytes per user, `<data dir>/personal/<last two digits of the id>/<id>`, readable by its
//! owner only. Directories are created when needed. With a bucket, a key is created and destroyed there first.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::UserKeyError;
use super::seal::KEY_BYTES;
use crate::data_dir::{sync_parent, write_private};
use crate::domain::ids::UserId;
use crate::file_tree::FileTree;

/// The secret of a user, wiped from memory on drop.
pub type UserKeySecret = Zeroizing<[u8; KEY_BYTES]>;

/// Directory of the keys.
pub struct KeyFiles {
    tree: FileTree,
    /// Directory of the bucket with an object for each erasure in progress: unlike keys, they can be listed quickly.
    marks: FileTree,
}

impl KeyFiles {
    /// Uses the keys of a data directory, which need not exist.
    #[must_use]
    pub fn new(data: &FileTree) -> Self {
        Self { tree: data.subtree("personal"), marks: data.subtree("erasing") }
    }

    /// Reads the secret of a user, if any.
    ///
    /// # Errors
    /// If the file exists and cannot be read, or is damaged.
    pub fn read(&self, user: UserId) -> Result<Option<UserKeySecret>, UserKeyError> {
        let path = self.path(user);
        match fs::read(&path) {
            Ok(bytes) => parse_secret(bytes, path).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.fetch(user),
            Err(source) => Err(UserKeyError::File { path, source }),
        }
    }

    /// Reads a secret that only the bucket has, and copies it to the directory.
    fn fetch(&self, user: UserId) -> Result<Option<UserKeySecret>, UserKeyError> {
        let path = self.path(user);
        let found = self.tree.read_secret(&path).map_err(file_error(&path))?;
        let Some(secret) = found.map(|bytes| parse_secret(bytes, path)).transpose()? else { return Ok(None) };
        self.write_copy(user, &secret)?;
        Ok(Some(secret))
    }

    /// Writes the secret of a user, unless another node has just written one. The secret survives a power cut once this
    /// returns.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, user: UserId, secret: &UserKeySecret) -> Result<(), UserKeyError> {
        let path = self.path(user);
        match self.tree.create_secret(&path, &secret[..]).map_err(file_error(&path))? {
            // That of the node that was first.
            Some(created) => self.write_copy(user, &parse_secret(created, path)?),
            None => self.write_copy(user, secret),
        }
    }

    fn write_copy(&self, user: UserId, secret: &UserKeySecret) -> Result<(), UserKeyError> {
        let path = self.path(user);
        let directory = path.parent().unwrap_or(self.tree.root());
        // Nodes have different secrets, so they never write to the same draft.
        let hash = Sha256::digest(&secret[..]);
        let draft = path.with_extension(format!("{:02x}{:02x}{:02x}{:02x}", hash[0], hash[1], hash[2], hash[3]));
        let write = || {
            create_directory(&self.tree, directory)?;
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            file.write_all(&secret[..])?;
            file.sync_all()?;
            self.tree.give_to_owner(&draft)?;
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
    /// If the file cannot be overwritten or removed, or the bucket cannot be used. The copy here is then removed
    /// nevertheless.
    pub fn destroy(&self, user: UserId) -> Result<(), UserKeyError> {
        let path = self.path(user);
        let removed = self.tree.remove_remote(&path).map_err(file_error(&path));
        self.destroy_copy(user)?;
        removed?;

        let mark = self.mark_path(user);
        self.marks.remove_remote(&mark).map_err(file_error(&mark))?;
        ignore_not_found(remove(&mark), mark)
    }

    /// Records durably that this node had a copy of the key of an erased user, so that it removes the key from the bucket.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn mark_here(&self, user: UserId) -> Result<(), UserKeyError> {
        let path = self.mark_path(user);
        let result = create_directory(&self.marks, self.marks.root()).and_then(|()| write_private(&path, b""));
        result.map_err(|source| UserKeyError::File { path, source })
    }

    /// Removes what [`KeyFiles::mark_here`] wrote.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn remove_mark_here(&self, user: UserId) -> Result<(), UserKeyError> {
        let mark = self.mark_path(user);
        ignore_not_found(remove(&mark), mark)
    }

    /// Removes old marks from the bucket of users who are not erased: the event of their erasure was never recorded.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn remove_stale_marks(&self, is_erased: impl Fn(UserId) -> bool) -> Result<(), UserKeyError> {
        let root = self.marks.root();
        let remove = || {
            for mark in self.marks.list_remote(root)?.unwrap_or_default() {
                if user_of(&mark.path).is_some_and(|user| !is_erased(user)) {
                    self.marks.remove_unreferenced(&mark.path)?;
                }
            }
            Ok(())
        };
        remove().map_err(file_error(root))
    }

    /// Returns the users of whom the directory has a key or a draft of one.
    ///
    /// # Errors
    /// If a directory cannot be read.
    pub fn local_users(&self) -> io::Result<HashSet<UserId>> {
        let mut users = HashSet::new();
        let directories = match fs::read_dir(self.tree.root()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(users),
            directories => directories?,
        };
        for directory in directories {
            let directory = directory?;
            if directory.file_type()?.is_dir() {
                for file in fs::read_dir(directory.path())? {
                    users.extend(user_of(&file?.path()));
                }
            }
        }
        Ok(users)
    }

    /// Returns `true` if the directory has a key or a draft of one.
    pub fn has_copy(&self, user: UserId) -> bool {
        self.path(user).exists() || !self.drafts(user).is_empty()
    }

    /// Overwrites and removes the copy of a secret in the directory.
    ///
    /// # Errors
    /// If it cannot be overwritten or removed.
    pub fn destroy_copy(&self, user: UserId) -> Result<(), UserKeyError> {
        let path = self.path(user);
        for draft in self.drafts(user) {
            ignore_not_found(overwrite(&draft).and_then(|()| remove(&draft)), draft)?;
        }
        ignore_not_found(overwrite(&path).and_then(|()| remove(&path)), path)
    }

    /// Removes a secret from the bucket, if there is one.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn remove_remote(&self, user: UserId) -> Result<(), UserKeyError> {
        let path = self.path(user);
        self.tree.remove_remote(&path).map_err(file_error(&path))
    }

    /// Records durably that an erasure has begun. Not needed while a key exists in the directory, because the key itself
    /// shows that the erasure is unfinished. In a bucket, the mark shows it to all nodes.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn mark_erasing(&self, user: UserId) -> Result<(), UserKeyError> {
        let path = self.mark_path(user);
        if self.marks.create_secret(&path, b"").map_err(file_error(&path))?.is_some() || self.path(user).exists() {
            return Ok(());
        }
        let result = create_directory(&self.tree, path.parent().unwrap_or(self.tree.root()))
            .and_then(|()| write_private(&path, b""));
        result.map_err(|source| UserKeyError::File { path, source })
    }

    /// Returns `true` if a key or an erasure mark of the user exists.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn has_key_or_mark(&self, user: UserId) -> Result<bool, UserKeyError> {
        let mark = self.mark_path(user);
        if self.path(user).exists() || mark.exists() {
            return Ok(true);
        }
        self.marks.read_secret(&mark).map(|found| found.is_some()).map_err(file_error(&mark))
    }

    /// Returns those of erased users of whom a key or an erasure mark exists. Lists the marks in the bucket once.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn with_key_or_mark(&self, erased: &[UserId]) -> Result<Vec<UserId>, UserKeyError> {
        if erased.is_empty() {
            return Ok(Vec::new());
        }
        let root = self.marks.root();
        let marked = self.marks.list_remote(root).map_err(file_error(root))?.unwrap_or_default();
        let marked: HashSet<_> = marked.into_iter().map(|mark| mark.path).collect();
        let is_unfinished = |user: &UserId| {
            let mark = self.mark_path(*user);
            self.path(*user).exists() || mark.exists() || marked.contains(&mark)
        };
        Ok(erased.iter().copied().filter(is_unfinished).collect())
    }

    /// Returns the drafts that a crash of a write or of a fetch left beside the key.
    fn drafts(&self, user: UserId) -> Vec<PathBuf> {
        let path = self.path(user);
        let mark = self.mark_path(user);
        let is_draft = |other: &PathBuf| *other != mark && other.extension().is_some() && user_of(other) == Some(user);
        let entries = path.parent().and_then(|directory| fs::read_dir(directory).ok()).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_draft).collect()
    }

    fn mark_path(&self, user: UserId) -> PathBuf {
        if self.marks.bucket().is_some() {
            return self.marks.root().join(user.to_string());
        }
        self.path(user).with_extension("erasing")
    }

    /// Returns the directory of the keys.
    pub fn root(&self) -> &Path {
        self.tree.root()
    }

    /// Returns the path of a user's key.
    #[must_use]
    pub fn path(&self, user: UserId) -> PathBuf {
        let name = user.to_string();
        // Ids begin with their time, so the first digits would put nearly all keys into one directory.
        self.tree.root().join(&name[name.len() - 2..]).join(name)
    }
}

/// Returns the user of a key, of a draft or of a mark: names begin with the id.
fn user_of(path: &Path) -> Option<UserId> {
    UserId::parse(path.file_name()?.to_str()?.split('.').next()?).ok()
}

fn parse_secret(bytes: Vec<u8>, path: PathBuf) -> Result<UserKeySecret, UserKeyError> {
    let bytes = Zeroizing::new(bytes);
    match <[u8; KEY_BYTES]>::try_from(&bytes[..]) {
        Ok(secret) => Ok(Zeroizing::new(secret)),
        Err(_) => Err(UserKeyError::Malformed { path }),
    }
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> UserKeyError + use<> {
    let path = path.to_owned();
    move |source| UserKeyError::File { path, source }
}

/// Creates a directory and its parent, whose names survive a power cut.
fn create_directory(tree: &FileTree, directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    tree.create_directory(directory)?;
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
