//! Personal data and its erasure (ADR 11): e-mail addresses, names and webhook secrets are recorded sealed with one key
//! per user, which is stored outside the log. Without the key they are unreadable in every copy of the log.
//!
//! A key is durable before the first event that needs it, and destroyed after the event of the user's erasure.

mod key_files;
mod seal;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use quick_cache::sync::Cache;
use zeroize::Zeroizing;

use self::key_files::KeyFiles;
use self::seal::UserKey;
use crate::data_dir::to_help;
use crate::domain::ids::UserId;
use crate::domain::personal::{PersonalField, PersonalValue};
use crate::file_tree::{FileTree, is_unavailable};

pub use self::seal::KEY_BYTES;

/// Maximum number of cached keys.
const CACHED_MAX: usize = 65_536;
/// Number of locks, large enough that users rarely share one.
const LOCK_COUNT: usize = 256;

/// Reason why the key of a user cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UserKeyError {
    #[error("{path}: {source}{}", to_help(path, source), path = path.display())]
    File { path: PathBuf, source: io::Error },
    /// A damaged key is never replaced, because a backup may hold the intact one.
    #[error("{path}: must be a key of {KEY_BYTES} bytes; restore it from a backup", path = path.display())]
    Malformed { path: PathBuf },
    /// A lost key is never replaced: a new key would make the sealed data permanently unreadable, and data sealed with
    /// it would be unreadable once the old key is restored.
    #[error("{path}: the key of the user is missing; restore it from a backup", path = path.display())]
    Missing { path: PathBuf },
    /// The user was erased.
    #[error("the user was erased")]
    Erased,
}

impl UserKeyError {
    /// Returns `true` if the key cannot be used at the moment, because the bucket that has it cannot be used.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::File { source, .. } if is_unavailable(source))
    }
}

/// The keys of all users. Cheap to clone.
#[derive(Clone)]
pub struct Keyring(Arc<KeyringInner>);

struct KeyringInner {
    files: KeyFiles,
    cache: Cache<UserId, Arc<UserKey>>,
    /// Locks by user, held while a key file is created, read or destroyed.
    key_locks: Box<[Mutex<()>]>,
    erased: RwLock<HashSet<UserId>>,
}

impl Keyring {
    /// Uses the keys in `<data dir>/personal`, which need not exist.
    #[must_use]
    pub fn open(data_dir: &Path) -> Self {
        Self::open_with(&FileTree::local(data_dir))
    }

    /// Like [`Keyring::open`], for a data directory whose files a bucket may have.
    #[must_use]
    pub fn open_with(data: &FileTree) -> Self {
        Self(Arc::new(KeyringInner {
            files: KeyFiles::new(data),
            cache: Cache::new(CACHED_MAX),
            key_locks: (0..LOCK_COUNT).map(|_| Mutex::default()).collect(),
            erased: RwLock::default(),
        }))
    }

    /// Seals fields of a user. If the user has no key, one is created from `random_bytes` and made durable first;
    /// callers pass `None` if sealed data of the user exists, because then a key must exist. Blocks.
    ///
    /// # Errors
    /// If there is no key and none may be created or it cannot be written, or if the user was erased.
    pub fn seal<'t>(
        &self,
        user: UserId,
        random_bytes: Option<[u8; KEY_BYTES]>,
        texts: impl IntoIterator<Item = (PersonalField, &'t str)>,
    ) -> Result<Vec<PersonalValue>, UserKeyError> {
        let random_bytes = random_bytes.map(Zeroizing::new);
        let key = match self.cached(user) {
            Some(key) => key,
            None => self.read_or_create(user, random_bytes.as_ref())?.ok_or_else(|| self.missing_key(user))?,
        };
        Ok(texts.into_iter().map(|(field, text)| PersonalValue::Sealed(key.seal(field, text))).collect())
    }

    /// Returns the text of a field if it is readable: the user's key exists and the user was not erased. Blocks on one
    /// small file if the key is not cached; see [`Keyring::preload`].
    #[must_use]
    pub fn read(&self, user: UserId, field: PersonalField, value: &PersonalValue) -> Option<String> {
        if self.is_erased(user) {
            return None;
        }

        let sealed = match value {
            PersonalValue::Plain(text) => return Some(text.to_string()),
            PersonalValue::Sealed(sealed) => sealed,
        };

        let key = self.cached(user).or_else(|| self.read_key(user))?;
        let text = key.open(field, sealed);
        if text.is_none() {
            tracing::error!(%user, field = field.as_str(), "personal field not decryptable");
        }
        text
    }

    /// Returns the users whose keys are not cached.
    #[must_use]
    pub fn uncached(&self, users: impl IntoIterator<Item = UserId>) -> Vec<UserId> {
        users.into_iter().filter(|user| !self.0.cache.contains_key(user)).collect()
    }

    /// Reads existing keys into the cache. Blocks.
    ///
    /// # Errors
    /// If keys cannot be read at the moment, because the bucket that has them cannot be used.
    pub fn preload(&self, users: &[UserId]) -> Result<(), UserKeyError> {
        users.iter().try_for_each(|user| match self.read_or_report(*user) {
            Err(failure) if failure.is_unavailable() => Err(failure),
            _ => Ok(()),
        })
    }

    /// Destroys the key of an erased user. Nothing of the user can be read or sealed afterwards. Succeeds if the key is
    /// already destroyed. Blocks.
    ///
    /// # Errors
    /// If the file cannot be overwritten and removed; the next start retries.
    pub fn destroy_key(&self, user: UserId) -> Result<(), UserKeyError> {
        let _guard = self.lock_user(user);
        self.mark_erased(user);
        self.0.files.destroy(user)
    }

    /// Destroys the copy of an erased user's key on this node, without the bucket. Returns `true` if there was one:
    /// [`Keyring::forget_key`] must follow. Until it succeeds, the erasure counts as unfinished. Blocks.
    ///
    /// # Errors
    /// If the file cannot be overwritten and removed.
    pub fn destroy_copy(&self, user: UserId) -> Result<bool, UserKeyError> {
        let _guard = self.lock_user(user);
        if !self.0.files.has_copy(user) {
            return Ok(false);
        }
        let marked = self.0.files.mark_here(user);
        self.0.files.destroy_copy(user)?;
        marked.map(|()| true)
    }

    /// Removes the key of an erased user from the bucket if this node had a copy of it: the node may have created the key
    /// after another one had destroyed it. Blocks.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn forget_key(&self, user: UserId) -> Result<(), UserKeyError> {
        let _guard = self.lock_user(user);
        self.0.files.remove_remote(user)?;
        self.0.files.remove_mark_here(user)
    }

    /// Destroys the copies of the keys of all erased users, as [`Keyring::destroy_copy`]. Returns the first failure, and
    /// continues nevertheless. Blocks.
    ///
    /// # Errors
    /// If the directory cannot be read, or a copy cannot be destroyed.
    pub fn destroy_copies_of_erased(&self) -> Result<(), UserKeyError> {
        let path = self.0.files.root().to_owned();
        let users = self.0.files.local_users().map_err(|source| UserKeyError::File { path, source })?;
        let erased = users.into_iter().filter(|user| self.is_erased(*user));
        erased.map(|user| self.destroy_copy(user).map(drop)).fold(Ok(()), Result::and)
    }

    /// Removes the marks of erasures that began a day ago and have no event. Blocks.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn remove_stale_marks(&self) -> Result<(), UserKeyError> {
        self.0.files.remove_stale_marks(|user| self.is_erased(user))
    }

    /// Returns the users for whom [`Keyring::mark_erased`] was called.
    #[must_use]
    pub fn erased_users(&self) -> Vec<UserId> {
        self.0.erased.read().iter().copied().collect()
    }

    /// Prevents reading and sealing of the user's data. The key stays on disk.
    pub fn mark_erased(&self, user: UserId) {
        self.0.erased.write().insert(user);
        self.0.cache.remove(&user);
    }

    /// Returns `true` if the user was erased.
    #[must_use]
    pub fn is_erased(&self, user: UserId) -> bool {
        self.0.erased.read().contains(&user)
    }

    /// Returns `true` if a key of the user is on disk.
    #[must_use]
    pub fn has_key(&self, user: UserId) -> bool {
        self.0.files.path(user).exists()
    }

    /// Records durably that the erasure of a user begins, so that [`Keyring::is_erasure_unfinished`] returns `true`
    /// until [`Keyring::destroy_key`] succeeds. Has no effect without the event of the erasure. Blocks.
    ///
    /// # Errors
    /// If the mark cannot be written.
    pub fn begin_erasure(&self, user: UserId) -> Result<(), UserKeyError> {
        let _guard = self.lock_user(user);
        self.0.files.mark_erasing(user)
    }

    /// Returns `true` if a key of an erased user, or the mark of [`Keyring::begin_erasure`], still exists.
    /// Blocks.
    ///
    /// # Errors
    /// If the bucket that has the keys cannot be used.
    pub fn is_erasure_unfinished(&self, user: UserId) -> Result<bool, UserKeyError> {
        self.0.files.has_key_or_mark(user)
    }

    /// Returns those of erased users whose erasure is unfinished. Blocks.
    ///
    /// # Errors
    /// Same as [`Keyring::is_erasure_unfinished`].
    pub fn unfinished_erasures(&self, erased: &[UserId]) -> Result<Vec<UserId>, UserKeyError> {
        self.0.files.with_key_or_mark(erased)
    }

    fn missing_key(&self, user: UserId) -> UserKeyError {
        UserKeyError::Missing { path: self.0.files.path(user) }
    }

    fn cached(&self, user: UserId) -> Option<Arc<UserKey>> {
        self.0.cache.get(&user)
    }

    fn read_key(&self, user: UserId) -> Option<Arc<UserKey>> {
        self.read_or_report(user).ok().flatten()
    }

    /// Reads the key of a user; logs if it is missing or unreadable.
    fn read_or_report(&self, user: UserId) -> Result<Option<Arc<UserKey>>, UserKeyError> {
        let result = self.read_or_create(user, None);
        match &result {
            Ok(None) => tracing::warn!(%user, "user key missing, name and email unreadable"),
            Ok(Some(_)) | Err(UserKeyError::Erased) => {}
            Err(failure) => tracing::error!(%user, %failure, "user key unreadable"),
        }
        result
    }

    fn read_or_create(
        &self,
        user: UserId,
        random_bytes: Option<&Zeroizing<[u8; KEY_BYTES]>>,
    ) -> Result<Option<Arc<UserKey>>, UserKeyError> {
        let _guard = self.lock_user(user);
        if self.is_erased(user) {
            return Err(UserKeyError::Erased);
        }

        let secret = match (self.0.files.read(user)?, random_bytes) {
            (Some(secret), _) => secret,
            (None, None) => return Ok(None),
            (None, Some(random_bytes)) => {
                self.0.files.write(user, random_bytes)?;
                self.0.files.read(user)?.ok_or_else(|| self.missing_key(user))?
            }
        };

        let key = Arc::new(UserKey::new(user, &secret));
        self.0.cache.insert(user, Arc::clone(&key));
        Ok(Some(key))
    }

    fn lock_user(&self, user: UserId) -> parking_lot::MutexGuard<'_, ()> {
        self.0.key_locks[usize::from(user.0.as_bytes()[15]) % LOCK_COUNT].lock()
    }
}

#[cfg(test)]
mod tests;
