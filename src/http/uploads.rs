//! What archives take while they come in: bounded, so that nobody keeps the others from uploading.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::{Code, Problem};
use crate::domain::ids::VersionId;
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
}

/// Whose archives are coming in, and for which versions.
#[derive(Default)]
struct Flying {
    versions: HashSet<VersionId>,
    holders: HashMap<Holder, usize>,
}

impl Default for Uploads {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(UPLOADS_MAX)),
            checks: Arc::new(Semaphore::new(CHECKS_MAX)),
            flying: Arc::default(),
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

    /// Waits until an archive may be unpacked.
    ///
    /// # Errors
    /// When the service is stopping.
    pub async fn turn(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.checks).acquire_owned().await.map_err(Problem::internal)
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
    fn all_together_have_their_bound_too() {
        let uploads = Uploads::default();
        let flights: Vec<_> = (0..32).map(|n| uploads.begin(&grant(n, n)).ok().unwrap()).collect();
        assert_eq!(refusal(&uploads, 99, 99), Some(Code::Overloaded));
        drop(flights);
        assert_eq!(refusal(&uploads, 99, 99), None);
    }
}
