//! Limits of concurrent archive uploads, so that no account blocks the others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::account_pool::{AccountPool, PoolPlace};
use super::error::{Code, Problem};
use crate::domain::ids::VersionId;
use crate::domain::value::Digest;
use crate::fairness::{FairPermit, FairSemaphore};
use crate::media::archive::store::Archives;
use crate::quota::Account;

/// Maximum number of concurrent uploads.
const UPLOADS_MAX: usize = 32;
/// Maximum number of concurrent uploads of one account.
const UPLOADS_PER_ACCOUNT: usize = 4;
/// Maximum number of archives unpacked concurrently.
const CHECKS_MAX: u64 = 2;
/// Maximum number of archives of one account unpacked concurrently.
const CHECKS_PER_ACCOUNT: u64 = 1;

/// Limiter of archive uploads.
pub struct Uploads {
    places: AccountPool,
    checks: FairSemaphore<Account>,
    /// Versions with an upload in progress.
    flying: Arc<Mutex<HashSet<VersionId>>>,
    recordings: Arc<Mutex<HashMap<Digest, Recordings>>>,
}

/// Uploads of the same content that are stored but not yet recorded.
#[derive(Default)]
struct Recordings {
    count: usize,
    any_refused: bool,
}

impl Default for Uploads {
    fn default() -> Self {
        Self {
            places: AccountPool::with_share(UPLOADS_MAX, UPLOADS_PER_ACCOUNT, Code::TooManyTransfers, "uploads"),
            checks: FairSemaphore::with_share(CHECKS_MAX, CHECKS_PER_ACCOUNT),
            flying: Arc::default(),
            recordings: Arc::default(),
        }
    }
}

impl Uploads {
    /// Begins an upload, which ends when the [`Flight`] is dropped.
    ///
    /// # Errors
    /// 409 if another upload for the version is in progress; 429 if the account has too many; 503 if there are too many
    /// in total.
    pub fn begin(&self, version: VersionId, account: Account) -> Result<Flight, Problem> {
        let mut flying = self.flying.lock();
        if flying.contains(&version) {
            let detail = "an archive of this version is being uploaded; try again when that has ended";
            return Err(Problem::new(Code::Conflict, detail).retry_after(5));
        }

        let place = self.places.take(account)?;
        flying.insert(version);
        Ok(Flight { flying: Arc::clone(&self.flying), version, _place: place })
    }

    /// Protects files with this digest from removal until the recording has ended. Call it before the file gets its
    /// name. A recording dropped without an end leaves the file; the next start removes it if no version refers to it.
    #[must_use]
    pub fn record(&self, digest: Digest) -> Recording {
        self.recordings.lock().entry(digest).or_default().count += 1;
        Recording { recordings: Arc::clone(&self.recordings), digest }
    }

    /// Waits for a turn to unpack an archive. Accounts take turns, and one account leaves room for the next.
    pub async fn turn(&self, account: Account) -> FairPermit<Account> {
        self.checks.acquire(account, 1).await
    }
}

/// Stored file whose event is not recorded yet.
pub struct Recording {
    recordings: Arc<Mutex<HashMap<Digest, Recordings>>>,
    digest: Digest,
}

impl Recording {
    /// Ends the recording. The last one of a digest removes the file if any was refused and no version refers to it; it
    /// then blocks on the disk.
    pub fn end(self, refused: bool, archives: &Archives, is_named: impl FnOnce(&Digest) -> bool) {
        let mut all = self.recordings.lock();
        let Some(these) = all.get_mut(&self.digest) else { return };
        these.count -= 1;
        these.any_refused |= refused;
        if these.count > 0 {
            return;
        }

        let any_refused = these.any_refused;
        all.remove(&self.digest);

        // Still under the lock, so that an upload of the same content waits and then stores its own file.
        if any_refused
            && !is_named(&self.digest)
            && let Err(error) = archives.remove(&self.digest)
        {
            tracing::warn!(%error, digest = %self.digest, "an archive that no version names could not be removed");
        }
    }
}

/// Upload in progress.
pub struct Flight {
    flying: Arc<Mutex<HashSet<VersionId>>>,
    version: VersionId,
    _place: PoolPlace,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.flying.lock().remove(&self.version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::UserId;
    use futures_util::FutureExt as _;
    use uuid::Uuid;

    fn begin(uploads: &Uploads, user: u128, version: u128) -> Result<Flight, Problem> {
        uploads.begin(VersionId(Uuid::from_u128(version)), Account::User(UserId(Uuid::from_u128(user))))
    }

    fn refusal(uploads: &Uploads, user: u128, version: u128) -> Option<Code> {
        begin(uploads, user, version).err().map(|problem| problem.code())
    }

    #[test]
    fn a_version_takes_one_upload_at_a_time_and_an_account_a_few() {
        let uploads = Uploads::default();
        let mut flights: Vec<_> = (1..=4).map(|version| begin(&uploads, 1, version).ok().unwrap()).collect();
        assert_eq!(refusal(&uploads, 1, 5), Some(Code::TooManyTransfers));
        assert_eq!(refusal(&uploads, 2, 4), Some(Code::Conflict));
        assert_eq!(refusal(&uploads, 2, 5), None);
        flights.pop();
        assert_eq!(refusal(&uploads, 2, 4), None);
        assert_eq!(refusal(&uploads, 1, 5), None);
        drop(flights);
        assert!(uploads.flying.lock().is_empty());
    }

    #[tokio::test]
    async fn accounts_take_turns_at_checks() {
        let [ada, bob] = [1, 2].map(|user| Account::User(UserId(Uuid::from_u128(user))));

        // Given a check of an account, and another one that waits for it
        let uploads = Uploads::default();
        let first = uploads.turn(ada).await;
        let mut second = Box::pin(uploads.turn(ada));
        assert!((&mut second).now_or_never().is_none());

        // Then another account does not wait
        assert!(uploads.turn(bob).now_or_never().is_some());

        // And the second check follows the first
        drop(first);
        assert!(second.now_or_never().is_some());
    }

    #[test]
    fn the_last_of_the_same_bytes_removes_what_nobody_names() {
        let root = tempfile::tempdir().unwrap();
        let archives = Archives::open(root.path()).unwrap();
        let uploads = Uploads::default();
        let keep = || {
            let mut upload = archives.receive().unwrap();
            upload.write(b"abc").unwrap();
            let recording = uploads.record(upload.digest());
            (recording, archives.path_of(&archives.keep(&upload).unwrap().digest))
        };
        let (first, path) = keep();
        let (second, _) = keep();
        first.end(true, &archives, |_| false);
        assert!(path.exists(), "another upload of the same bytes is not recorded yet");
        second.end(false, &archives, |_| true);
        assert!(path.exists(), "a version names it");
        keep().0.end(true, &archives, |_| false);
        assert!(!path.exists());
        drop(keep());
        keep().0.end(true, &archives, |_| false);
        assert!(path.exists(), "nobody knows what became of the first");
    }

    #[test]
    fn all_together_have_their_bound_too() {
        let uploads = Uploads::default();
        let flights: Vec<_> = (0..32).map(|n| begin(&uploads, n, n).ok().unwrap()).collect();
        assert_eq!(refusal(&uploads, 99, 99), Some(Code::Overloaded));
        drop(flights);
        assert_eq!(refusal(&uploads, 99, 99), None);
    }
}
