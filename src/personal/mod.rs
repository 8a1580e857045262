//! What is personal, and how it is forgotten (ADR 11): e-mail addresses and names are recorded sealed, each user's with a key
//! of its own, which is kept outside the log. Without its key nobody can read them, in whatever copy of the log.
//!
//! A key is durable before the first event that needs it, and is destroyed after the event that the user was erased.

mod cache;
mod files;
mod seal;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use zeroize::Zeroizing;

use self::cache::Cache;
use self::files::KeyFiles;
use self::seal::UserKey;
use crate::data_dir::to_help;
use crate::domain::ids::UserId;
use crate::domain::personal::{Personal, PersonalField};

pub use self::seal::KEY_BYTES;

/// How many keys are kept in memory.
const CACHED_MAX: usize = 65_536;
/// Two users share a lock only by chance.
const LOCKS: usize = 256;

/// Why the key of a user cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFailure {
    #[error("{path}: {source}{}", to_help(path, source), path = path.display())]
    File { path: PathBuf, source: io::Error },
    /// A damaged key is never replaced: a backup may hold the right one.
    #[error("{path}: does not hold a key of {KEY_BYTES} bytes; put the one of a backup there", path = path.display())]
    Malformed { path: PathBuf },
    /// A lost key is never replaced: what is sealed would be unreadable for ever, and the right key, once it is put back, would not
    /// open what was sealed with another one.
    #[error("{path}: the key of the user is missing; put the one of a backup there", path = path.display())]
    Missing { path: PathBuf },
    /// The user was erased.
    #[error("the user was erased")]
    Forgotten,
}

/// The keys of all users. Cheap to clone.
#[derive(Clone)]
pub struct Keyring(Arc<Inner>);

struct Inner {
    files: KeyFiles,
    cache: Mutex<Cache>,
    /// Held while the file of a user's key is made, read or destroyed.
    turns: Box<[Mutex<()>]>,
    forgotten: RwLock<HashSet<UserId>>,
}

impl Keyring {
    /// The keys in `<data dir>/personal`, of which nothing need be there yet.
    #[must_use]
    pub fn open(data_dir: &Path) -> Self {
        Self(Arc::new(Inner {
            files: KeyFiles::new(data_dir.join("personal")),
            cache: Mutex::new(Cache::new(CACHED_MAX)),
            turns: (0..LOCKS).map(|_| Mutex::default()).collect(),
            forgotten: RwLock::default(),
        }))
    }

    /// Seals fields of a user, whose key is made of `chance` when there is none yet, and is then durable. Of whom something is sealed
    /// already there must be a key: no chance is given then. Blocks.
    ///
    /// # Errors
    /// When there is no key and it must not be made or cannot be written, or the user was erased.
    pub fn seal<'t>(
        &self,
        user: UserId,
        chance: Option<[u8; KEY_BYTES]>,
        texts: impl IntoIterator<Item = (PersonalField, &'t str)>,
    ) -> Result<Vec<Personal>, KeyFailure> {
        let chance = chance.map(Zeroizing::new);
        let key = match self.cached(user) {
            Some(key) => key,
            None => self.read_or_make(user, chance.as_ref())?.ok_or_else(|| self.missing_key(user))?,
        };
        Ok(texts.into_iter().map(|(field, text)| Personal::Sealed(key.seal(field, text))).collect())
    }

    /// The text of a field, if it can be read still: its key is there, and the user was not erased. Blocks for one small file when
    /// the key is not in memory; see [`Keyring::load`].
    #[must_use]
    pub fn read(&self, user: UserId, field: PersonalField, value: &Personal) -> Option<String> {
        if self.has_forgotten(user) {
            return None;
        }
        let sealed = match value {
            Personal::Plain(text) => return Some(text.to_string()),
            Personal::Sealed(sealed) => sealed,
        };
        let key = self.cached(user).or_else(|| self.read_key(user))?;
        let text = key.open(field, sealed);
        if text.is_none() {
            tracing::error!(%user, field = field.as_str(), "a personal field cannot be opened with the user's key");
        }
        text
    }

    /// Which of these users' keys are not in memory.
    #[must_use]
    pub fn missing(&self, users: impl IntoIterator<Item = UserId>) -> Vec<UserId> {
        let mut cache = self.0.cache.lock();
        users.into_iter().filter(|user| cache.get(*user).is_none()).collect()
    }

    /// Reads keys into memory, as far as they are there. Blocks.
    pub fn load(&self, users: &[UserId]) {
        for user in users {
            let _ = self.read_key(*user);
        }
    }

    /// Destroys the key of a user who was erased: from now on nothing of the user can be read or sealed. Fine when it is
    /// destroyed already. Blocks.
    ///
    /// # Errors
    /// When the file cannot be overwritten and removed; it is tried again at the next start.
    pub fn forget(&self, user: UserId) -> Result<(), KeyFailure> {
        let _turn = self.turn(user);
        self.mark_erased(user);
        self.0.files.destroy(user)
    }

    /// From now on nothing of the user can be read or sealed; the key stays where it is.
    pub fn mark_erased(&self, user: UserId) {
        self.0.forgotten.write().insert(user);
        self.0.cache.lock().remove(user);
    }

    /// Whether a user was erased.
    #[must_use]
    pub fn has_forgotten(&self, user: UserId) -> bool {
        self.0.forgotten.read().contains(&user)
    }

    /// Whether there is a key of this user on the disk.
    #[must_use]
    pub fn has_key(&self, user: UserId) -> bool {
        self.0.files.path(user).exists()
    }

    /// Notes durably that the erasure of a user begins, so that [`Keyring::is_unfinished`] tells it until [`Keyring::forget`] is done.
    /// Without the event it means nothing. Blocks.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin_erasure(&self, user: UserId) -> Result<(), KeyFailure> {
        let _turn = self.turn(user);
        self.0.files.mark(user)
    }

    /// Of a user who was erased: whether there is something left to be done. A key that is there tells it, or the note of
    /// [`Keyring::begin_erasure`].
    #[must_use]
    pub fn is_unfinished(&self, user: UserId) -> bool {
        self.0.files.has(user)
    }

    fn missing_key(&self, user: UserId) -> KeyFailure {
        KeyFailure::Missing { path: self.0.files.path(user) }
    }

    fn cached(&self, user: UserId) -> Option<Arc<UserKey>> {
        self.0.cache.lock().get(user)
    }

    fn read_key(&self, user: UserId) -> Option<Arc<UserKey>> {
        match self.read_or_make(user, None) {
            Ok(key) => {
                if key.is_none() {
                    tracing::warn!(%user, "the key of this user is not there: name and e-mail address cannot be read");
                }
                key
            }
            Err(KeyFailure::Forgotten) => None,
            Err(failure) => {
                tracing::error!(%user, %failure, "a user's key cannot be read");
                None
            }
        }
    }

    fn read_or_make(
        &self,
        user: UserId,
        chance: Option<&Zeroizing<[u8; KEY_BYTES]>>,
    ) -> Result<Option<Arc<UserKey>>, KeyFailure> {
        let _turn = self.turn(user);
        if self.has_forgotten(user) {
            return Err(KeyFailure::Forgotten);
        }
        let secret = match (self.0.files.read(user)?, chance) {
            (Some(secret), _) => secret,
            (None, None) => return Ok(None),
            (None, Some(chance)) => {
                self.0.files.write(user, chance)?;
                chance.clone()
            }
        };
        let key = Arc::new(UserKey::new(user, &secret));
        self.0.cache.lock().insert(user, Arc::clone(&key));
        Ok(Some(key))
    }

    fn turn(&self, user: UserId) -> parking_lot::MutexGuard<'_, ()> {
        self.0.turns[usize::from(user.0.as_bytes()[15]) % LOCKS].lock()
    }
}

#[cfg(test)]
mod tests;
