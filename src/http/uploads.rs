//! What archives take while they come in: bounded, so that nobody keeps the others from uploading.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::{Code, Problem};
use crate::domain::ids::VersionId;
use crate::domain::value::Digest;
use crate::media::archive::store::Archives;
use crate::media::archive::ticket::{Grant, Holder};

/// Archives that may come in at a time.
const UPLOADS_MAX: usize = 32;
/// Archives that may come in at a time by the links of one holder.
const UPLOADS_PER_HOLDER_MAX: usize = 4;
/// Archives that may be unpacked at a time.
const CHECKS_MAX: usize = 2;

/// Bounds what archives take while they come in.
pub struct Uploads {
    places: Arc<Semaphore>,
    checks: Arc<Semaphore>,
    flying: Arc<Mutex<Flying>>,
    recordings: Arc<Mutex<HashMap<Digest, Recordings>>>,
}

/// Whose archives are coming in, and for which versions.
#[derive(Default)]
struct Flying {
    versions: HashSet<VersionId>,
    holders: HashMap<Holder, usize>,
}

/// Uploads of the same bytes whose files are kept while their events are not yet written.
#[derive(Default)]
struct Recordings {
    count: usize,
    any_refused: bool,
}

impl Default for Uploads {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(UPLOADS_MAX)),
            checks: Arc::new(Semaphore::new(CHECKS_MAX)),
            flying: Arc::default(),
            recordings: Arc::default(),
        }
    }
}

impl Uploads {
    /// Begins an upload, which lasts until the flight is dropped.
    ///
    /// # Errors
    /// 409 while another archive comes in for the version; 503 while the holder of the link sends as many as one may, or
    /// all together do.
    pub fn begin(&self, grant: &Grant) -> Result<Flight, Problem> {
        let mut flying = self.flying.lock();
        if flying.versions.contains(&grant.version) {
            let detail = "an archive of this version is being uploaded; try again when that has ended";
            return Err(Problem::new(Code::Conflict, detail).retry_after(5));
        }
        if flying.holders.get(&grant.holder).is_some_and(|count| *count >= UPLOADS_PER_HOLDER_MAX) {
            let detail = format!("one caller may upload {UPLOADS_PER_HOLDER_MAX} archives at a time; try again soon");
            return Err(Problem::new(Code::Overloaded, detail).retry_after(5));
        }
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| Problem::overloaded())?;
        flying.versions.insert(grant.version);
        *flying.holders.entry(grant.holder).or_default() += 1;
        Ok(Flight { flying: Arc::clone(&self.flying), grant: *grant, _place: place })
    }

    /// To be called before the file gets its name: until the recording has ended, nobody removes a file of these bytes. One
    /// that is dropped keeps it until the next start, which knows whether a version names it.
    #[must_use]
    pub fn record(&self, digest: Digest) -> Recording {
        self.recordings.lock().entry(digest).or_default().count += 1;
        Recording { recordings: Arc::clone(&self.recordings), digest }
    }

    /// Waits until an archive may be unpacked.
    ///
    /// # Errors
    /// When the service is stopping.
    pub async fn turn(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.checks).acquire_owned().await.map_err(Problem::internal)
    }
}

/// A file that is being named by a version.
pub struct Recording {
    recordings: Arc<Mutex<HashMap<Digest, Recordings>>>,
    digest: Digest,
}

impl Recording {
    /// The version names the file, or refused it. The last to end removes a file that was refused and that no version names;
    /// blocks on the disk then.
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
        // Still locked: an upload of the same bytes waits, and then finds that it has to bring its own file.
        if any_refused
            && !is_named(&self.digest)
            && let Err(error) = archives.remove(&self.digest)
        {
            tracing::warn!(%error, digest = %self.digest, "an archive that no version names could not be removed");
        }
    }
}

/// An upload that has begun.
pub struct Flight {
    flying: Arc<Mutex<Flying>>,
    grant: Grant,
    _place: OwnedSemaphorePermit,
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut flying = self.flying.lock();
        flying.versions.remove(&self.grant.version);
        if let Some(count) = flying.holders.get_mut(&self.grant.holder) {
            *count -= 1;
            if *count == 0 {
                flying.holders.remove(&self.grant.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::UserId;
    use crate::domain::value::Timestamp;
    use uuid::Uuid;

    fn grant(user: u128, version: u128) -> Grant {
        let (version, holder) = (VersionId(Uuid::from_u128(version)), Holder::User(UserId(Uuid::from_u128(user))));
        Grant { version, holder, until: Timestamp::from_micros(0) }
    }

    fn refusal(uploads: &Uploads, user: u128, version: u128) -> Option<Code> {
        uploads.begin(&grant(user, version)).err().map(|problem| problem.code())
    }

    #[test]
    fn a_version_takes_one_upload_at_a_time_and_a_holder_a_few() {
        let uploads = Uploads::default();
        let mut flights: Vec<_> = (1..=4).map(|version| uploads.begin(&grant(1, version)).ok().unwrap()).collect();
        assert_eq!(refusal(&uploads, 1, 5), Some(Code::Overloaded));
        assert_eq!(refusal(&uploads, 2, 4), Some(Code::Conflict));
        assert_eq!(refusal(&uploads, 2, 5), None);
        flights.pop();
        assert_eq!(refusal(&uploads, 2, 4), None);
        assert_eq!(refusal(&uploads, 1, 5), None);
        drop(flights);
        assert!(uploads.flying.lock().versions.is_empty() && uploads.flying.lock().holders.is_empty());
    }

    #[test]
    fn the_last_of_the_same_bytes_removes_what_nobody_names() {
        let root = tempfile::tempdir().unwrap();
        let (archives, uploads) = (Archives::open(root.path()).unwrap(), Uploads::default());
        let keep = || {
            let mut upload = archives.receive().unwrap();
            upload.write(b"abc").unwrap();
            let recording = uploads.record(upload.digest());
            (recording, archives.path_of(&archives.keep(&upload).unwrap().digest))
        };
        let ((first, path), (second, _)) = (keep(), keep());
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
        let flights: Vec<_> = (0..32).map(|n| uploads.begin(&grant(n, n)).ok().unwrap()).collect();
        assert_eq!(refusal(&uploads, 99, 99), Some(Code::Overloaded));
        drop(flights);
        assert_eq!(refusal(&uploads, 99, 99), None);
    }
}
