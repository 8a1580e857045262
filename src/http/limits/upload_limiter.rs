//! Limits of concurrent uploads, of archives and of input files, so that no account blocks the others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::ids::VersionId;
use crate::domain::value::Digest;
use crate::fairness::{FairPermit, FairSemaphore};
use crate::http::limits::account_pool::{AccountPool, PoolPermit};
use crate::http::response::error::{Code, Problem};
use crate::media::archive::store::ArchiveStore;
use crate::quota::Account;

/// Maximum number of concurrent uploads of each kind.
const UPLOADS_MAX: usize = 32;
/// Maximum number of concurrent uploads of each kind per account.
const UPLOADS_PER_ACCOUNT: usize = 4;
/// Maximum number of archives unpacked concurrently.
const CHECKS_MAX: u64 = 2;
/// Maximum number of archives unpacked concurrently per account.
const CHECKS_PER_ACCOUNT: u64 = 1;

/// Limiter of uploads. Input files have separate slots, because they may take four times as long as archives.
pub struct UploadLimiter {
    archives: AccountPool,
    files: AccountPool,
    /// Limits the archives that are unpacked, to check them.
    checks: FairSemaphore<Account>,
    /// Versions with an upload in progress.
    in_progress: Arc<Mutex<HashSet<VersionId>>>,
    recordings: Arc<Mutex<HashMap<Digest, PendingRecordings>>>,
}

/// Uploads of the same content that are stored but not yet recorded.
#[derive(Default)]
struct PendingRecordings {
    count: usize,
    any_refused: bool,
}

impl Default for UploadLimiter {
    fn default() -> Self {
        let pool = |noun| AccountPool::with_share(UPLOADS_MAX, UPLOADS_PER_ACCOUNT, Code::TooManyTransfers, noun);
        Self {
            archives: pool("uploads"),
            files: pool("uploads of files"),
            checks: FairSemaphore::with_share(CHECKS_MAX, CHECKS_PER_ACCOUNT),
            in_progress: Arc::default(),
            recordings: Arc::default(),
        }
    }
}

impl UploadLimiter {
    /// Begins the upload of an archive, which ends when the [`ActiveUpload`] is dropped.
    ///
    /// # Errors
    /// 409 if another upload for the version is in progress; 429 if the account has too many; 503 if there are too many
    /// in total.
    pub fn start_archive(&self, version: VersionId, account: Account) -> Result<ActiveUpload, Problem> {
        let mut in_progress = self.in_progress.lock();
        if in_progress.contains(&version) {
            let detail = "another upload for this version is in progress; retry when it has ended";
            return Err(Problem::new(Code::Conflict, detail).retry_after(5));
        }

        let permit = self.archives.try_acquire(account)?;
        in_progress.insert(version);
        Ok(ActiveUpload { in_progress: Arc::clone(&self.in_progress), version, _permit: permit })
    }

    /// Begins the upload of an input file, which ends when the permit is dropped.
    ///
    /// # Errors
    /// Same as [`UploadLimiter::start_archive`], except the 409.
    pub fn start_file(&self, account: Account) -> Result<PoolPermit, Problem> {
        self.files.try_acquire(account)
    }

    /// Protects the file with this digest from removal until [`PendingRecording::finish`]. Call it before the file gets
    /// its name. If the recording is dropped without `finish`, the file stays; the next start removes it if no version
    /// refers to it.
    #[must_use]
    pub fn start_recording(&self, digest: Digest) -> PendingRecording {
        self.recordings.lock().entry(digest).or_default().count += 1;
        PendingRecording { recordings: Arc::clone(&self.recordings), digest }
    }

    /// Waits for a permit to unpack an archive. Accounts take turns, each with at most `CHECKS_PER_ACCOUNT` permits at
    /// a time.
    pub async fn acquire_check_permit(&self, account: Account) -> FairPermit<Account> {
        self.checks.acquire(account, 1).await
    }
}

/// Stored file whose event is not recorded yet.
pub struct PendingRecording {
    recordings: Arc<Mutex<HashMap<Digest, PendingRecordings>>>,
    digest: Digest,
}

impl PendingRecording {
    /// Ends the recording. The last recording of a digest removes the file if any of them was refused and no version
    /// refers to the file. Blocks on the disk.
    pub fn finish(self, was_refused: bool, archives: &ArchiveStore, is_referenced: impl FnOnce(&Digest) -> bool) {
        let mut recordings = self.recordings.lock();
        let Some(pending) = recordings.get_mut(&self.digest) else { return };
        pending.count -= 1;
        pending.any_refused |= was_refused;
        if pending.count > 0 {
            return;
        }

        let any_refused = pending.any_refused;
        recordings.remove(&self.digest);

        // Remove the file under the lock, so that an upload of the same content waits and then stores its own file.
        if any_refused
            && !is_referenced(&self.digest)
            && let Err(error) = archives.remove(&self.digest)
        {
            tracing::warn!(%error, digest = %self.digest, "orphaned archive not removed");
        }
    }
}

/// Upload in progress.
pub struct ActiveUpload {
    in_progress: Arc<Mutex<HashSet<VersionId>>>,
    version: VersionId,
    _permit: PoolPermit,
}

impl Drop for ActiveUpload {
    fn drop(&mut self) {
        self.in_progress.lock().remove(&self.version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::UserId;
    use futures_util::FutureExt as _;
    use uuid::Uuid;

    fn start(uploads: &UploadLimiter, user: u128, version: u128) -> Result<ActiveUpload, Problem> {
        uploads.start_archive(VersionId(Uuid::from_u128(version)), Account::User(UserId(Uuid::from_u128(user))))
    }

    /// Tries to start an upload, which ends at once. Returns the code of the refusal, if it is refused.
    fn refusal(uploads: &UploadLimiter, user: u128, version: u128) -> Option<Code> {
        start(uploads, user, version).err().map(|problem| problem.code())
    }

    #[test]
    fn uploads_are_limited_per_version_and_account() {
        // Given an account that uploads the versions 1 to 4
        let uploads = UploadLimiter::default();
        let mut active: Vec<_> = (1..=4).map(|version| start(&uploads, 1, version).ok().unwrap()).collect();

        // Then it can upload no other, and another account only other versions
        assert_eq!(refusal(&uploads, 1, 5), Some(Code::TooManyTransfers));
        assert_eq!(refusal(&uploads, 2, 4), Some(Code::Conflict));
        assert_eq!(refusal(&uploads, 2, 5), None);

        // When the upload of version 4 ends, then account and version are free again
        active.pop();
        assert_eq!(refusal(&uploads, 2, 4), None);
        assert_eq!(refusal(&uploads, 1, 5), None);
        drop(active);
        assert!(uploads.in_progress.lock().is_empty());
    }

    #[test]
    fn files_and_archives_do_not_share_slots() {
        let uploads = UploadLimiter::default();
        let start_file = |user: u128| uploads.start_file(Account::User(UserId(Uuid::from_u128(user))));
        // Given eight accounts with the maximum of four files each, which use all slots of files
        let _files: Vec<_> = (0..32).map(|number| start_file(number / 4).ok().unwrap()).collect();
        assert_eq!(start_file(0).err().map(|problem| problem.code()), Some(Code::TooManyTransfers));
        assert_eq!(start_file(99).err().map(|problem| problem.code()), Some(Code::Overloaded));
        assert_eq!(refusal(&uploads, 0, 1), None);
    }

    #[tokio::test]
    async fn accounts_take_turns_at_checks() {
        let [ada, bob] = [1, 2].map(|user| Account::User(UserId(Uuid::from_u128(user))));

        // Given a check of an account, and a second check of the account that waits for it
        let uploads = UploadLimiter::default();
        let first = uploads.acquire_check_permit(ada).await;
        let mut second = Box::pin(uploads.acquire_check_permit(ada));
        assert!((&mut second).now_or_never().is_none());

        // Then another account does not wait
        assert!(uploads.acquire_check_permit(bob).now_or_never().is_some());

        // And the second check follows the first
        drop(first);
        assert!(second.now_or_never().is_some());
    }

    #[test]
    fn the_last_upload_of_the_same_bytes_removes_an_unreferenced_file() {
        let root = tempfile::tempdir().unwrap();
        let archives = ArchiveStore::open(root.path()).unwrap();
        let uploads = UploadLimiter::default();
        let store_archive = || {
            let mut upload = archives.create_upload().unwrap();
            upload.write(b"abc").unwrap();
            let recording = uploads.start_recording(upload.digest());
            (recording, archives.path_of(&archives.commit_upload(&upload).unwrap().digest))
        };
        let finish_refused = |recording: PendingRecording| recording.finish(true, &archives, |_| false);
        let finish_recorded = |recording: PendingRecording| recording.finish(false, &archives, |_| true);
        let (first, path) = store_archive();
        let (second, _) = store_archive();

        // When one of two uploads is refused, then the file stays for the other one
        finish_refused(first);
        assert!(path.exists(), "removed before the other upload of the same bytes was recorded");
        finish_recorded(second);
        assert!(path.exists(), "removed although a version refers to it");

        // When the only upload is refused, then the file is removed
        finish_refused(store_archive().0);
        assert!(!path.exists());

        // When the result of another upload is unknown, then the file stays
        drop(store_archive());
        finish_refused(store_archive().0);
        assert!(path.exists(), "removed although the other upload may have been recorded");
    }

    #[test]
    fn the_total_number_of_uploads_is_limited() {
        let uploads = UploadLimiter::default();
        let active: Vec<_> = (0..32).map(|number| start(&uploads, number, number).ok().unwrap()).collect();
        assert_eq!(refusal(&uploads, 99, 99), Some(Code::Overloaded));
        drop(active);
        assert_eq!(refusal(&uploads, 99, 99), None);
    }
}
