//! How much room the file systems of the data directory have, and whether it is enough to take changes.
//!
//! A reserve is kept free, so that what follows the journal (sled, drafts of files) does not meet a full disk in the middle
//! of its work. Looked at when somebody asks, at most once a second; a write that was refused all the same counts as
//! a full disk for as long.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;
use serde::Serialize;

/// How old the last look may be, and how long a refused write counts.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;

/// Asks a file system how many bytes are free for this program.
pub type Measure = Arc<dyn Fn(&Path) -> io::Result<u64> + Send + Sync>;

/// The room that there is. Cheap to clone; all clones see the same.
#[derive(Clone)]
pub struct Space(Arc<Inner>);

struct Inner {
    /// Directories, perhaps each on a file system of its own.
    places: Vec<PathBuf>,
    /// Bytes that are to stay free; 0: nothing is refused before the disk does.
    reserve: u64,
    measure: Measure,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    looked: Option<Instant>,
    /// Of the fullest place.
    free: Option<u64>,
    /// Promised to what comes in, and not written yet.
    claimed: u64,
    /// Why changes were refused at the last look.
    shortage: Option<Shortage>,
    refused: Option<(Instant, Shortage)>,
}

/// Why no change is taken: a sentence for whoever asks, without any path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Shortage(String);

/// Whether changes are taken, and how much room there is, for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StorageState {
    pub state: StorageKind,
    /// Why no change is taken.
    pub reason: Option<String>,
    /// Of the fullest file system of the data directory; none when it was not looked at.
    pub free_bytes: Option<u64>,
    /// Changes are refused while less is free; 0: however little is.
    pub reserve_bytes: u64,
}

/// Whether changes are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageKind {
    /// They are.
    Ok,
    /// Not until there is room; then again without a restart.
    Full,
    /// Not before a restart.
    ReadOnly,
}

/// What a write lacked, where that passes without a restart: room (also for this user, or in a file of this size), or a file that may be
/// open, in this process or on the machine. `None` for every other error.
#[must_use]
pub fn lacking(error: &io::Error) -> Option<&'static str> {
    if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge) {
        return Some("no room on the disk");
    }
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE)).then_some("too many files are open")
}

impl Default for Space {
    /// No reserve: only what was refused counts.
    fn default() -> Self {
        Self::new(Vec::new(), 0)
    }
}

impl Space {
    /// Watches the file systems of `places`, of which `reserve` bytes are to stay free.
    #[must_use]
    pub fn new(places: Vec<PathBuf>, reserve: u64) -> Self {
        Self::measured(places, reserve, Arc::new(free_bytes))
    }

    /// The same with another way to measure.
    #[must_use]
    pub fn measured(places: Vec<PathBuf>, reserve: u64, measure: Measure) -> Self {
        Self(Arc::new(Inner { places, reserve, measure, state: Mutex::default() }))
    }

    /// Whether there is room for changes.
    ///
    /// # Errors
    /// [`Shortage`] when less than the reserve is free, or a write was refused a moment ago.
    pub fn check(&self) -> Result<(), Shortage> {
        self.look();
        let state = self.0.state.lock();
        let refused = state.refused.as_ref().filter(|(at, _)| at.elapsed() < LOOK_EVERY).map(|(_, shortage)| shortage);
        refused.or(state.shortage.as_ref()).map_or(Ok(()), |shortage| Err(shortage.clone()))
    }

    /// Whether there is room for `what`, which takes `bytes` at once, besides the reserve.
    ///
    /// # Errors
    /// [`Shortage`] when there is not.
    pub fn check_for(&self, what: &str, bytes: u64) -> Result<(), Shortage> {
        self.look();
        self.0.fits(&self.0.state.lock(), what, bytes, 0)
    }

    /// Room for `what` comes in bit by bit: `bytes`, as far as they are known, which nobody else is promised. What cannot wait
    /// ([`Space::check_for`]) takes it all the same.
    ///
    /// # Errors
    /// [`Shortage`] when there is not so much besides the reserve.
    pub fn claim(&self, what: &'static str, bytes: u64) -> Result<Claim, Shortage> {
        let mut claim = Claim { space: self.clone(), what, bytes: 0 };
        claim.grow(bytes)?;
        Ok(claim)
    }

    /// Notes that the file system refused to write: for a second that counts as a full disk.
    pub fn refused(&self, reason: &str) {
        let mut state = self.0.state.lock();
        if state.refused.as_ref().is_none_or(|(_, known)| known.0 != reason) {
            tracing::error!(reason, "no changes are taken; the service goes on reading, and tries again every second");
        }
        state.refused = Some((Instant::now(), Shortage(reason.to_owned())));
        state.looked = None;
    }

    /// Notes that something could be written that was refused before.
    pub fn taken(&self) {
        let mut state = self.0.state.lock();
        if state.refused.take().is_some() {
            tracing::info!("changes are taken again");
        }
    }

    /// What an error of the file system comes to: `Some` when it says that something is lacking for now, which is then known here.
    #[must_use]
    pub fn shortage(&self, error: &io::Error) -> Option<Shortage> {
        lacking(error).map(|lacking| {
            let reason = format!("{lacking}: {error}");
            self.refused(&reason);
            Shortage(reason)
        })
    }

    /// How it is.
    #[must_use]
    pub fn state(&self) -> StorageState {
        let reason = self.check().err().map(|shortage| shortage.0);
        let state = if reason.is_some() { StorageKind::Full } else { StorageKind::Ok };
        StorageState { state, reason, free_bytes: self.0.state.lock().free, reserve_bytes: self.0.reserve }
    }

    fn look(&self) {
        let Inner { places, reserve, measure, state } = &*self.0;
        {
            let mut state = state.lock();
            if state.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
                return;
            }
            state.looked = Some(Instant::now());
        }
        // Not under the lock: a file system may be slow to answer. A place that cannot be asked is no shortage.
        let measured = places.iter().filter_map(|place| Some((measure(place).ok()?, place)));
        let fullest = measured.min_by_key(|(free, _)| *free);
        let mut state = state.lock();
        state.free = fullest.map(|(free, _)| free);
        let short = fullest.filter(|(free, _)| free < reserve);
        match (&state.shortage, short) {
            (None, Some((free, place))) => {
                let place = place.display();
                tracing::error!(free, reserve, %place, "the disk is full: no changes are taken until there is room");
            }
            (Some(_), None) => tracing::info!("there is room on the disk again: changes are taken"),
            _ => {}
        }
        state.shortage = short.map(|(free, _)| {
            let (free, reserve) = (mib(free), mib(*reserve));
            Shortage(format!(
                "no room on the disk: {free} are free, and {reserve} are kept in reserve (storage.reserve_mib)"
            ))
        });
    }
}

impl Inner {
    /// Whether `bytes` leave the reserve, besides what was `promised` to others.
    fn fits(&self, state: &State, what: &str, bytes: u64, promised: u64) -> Result<(), Shortage> {
        match state.free {
            Some(free) if self.reserve > 0 && free < self.reserve + promised + bytes => {
                let (free, takes, reserve) = (mib(free), mib(bytes.next_multiple_of(MIB)), mib(self.reserve));
                let others = if promised > 0 { format!(", others take {}", mib(promised)) } else { String::new() };
                Err(Shortage(format!(
                    "no room on the disk: {free} are free, {what} takes {takes}{others}, and {reserve} are kept in reserve \
                     (storage.reserve_mib)"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Room that is promised to what comes in; what was not written is given back when this is dropped.
pub struct Claim {
    space: Space,
    what: &'static str,
    /// Promised and not written yet.
    bytes: u64,
}

impl Claim {
    /// Before `bytes` are written. What goes beyond what was claimed is claimed now.
    ///
    /// # Errors
    /// [`Shortage`] when there is no room for it, or the reserve was touched meanwhile.
    pub fn spend(&mut self, bytes: u64) -> Result<(), Shortage> {
        self.space.check()?;
        if bytes > self.bytes {
            self.grow(bytes - self.bytes)?;
        }
        self.bytes -= bytes;
        let mut state = self.space.0.state.lock();
        state.claimed -= bytes;
        // The next look may be a second away, and much is written in a second.
        state.free = state.free.map(|free| free.saturating_sub(bytes));
        Ok(())
    }

    fn grow(&mut self, bytes: u64) -> Result<(), Shortage> {
        self.space.look();
        let mut state = self.space.0.state.lock();
        self.space.0.fits(&state, self.what, self.bytes + bytes, state.claimed - self.bytes)?;
        state.claimed += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.space.0.state.lock().claimed -= self.bytes;
    }
}

/// Rounded down, so that what is too little never looks enough.
fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes / MIB)
}

fn free_bytes(place: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(place)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A space of which `free` says how much is free.
    fn space(reserve: u64, free: &Arc<AtomicU64>) -> Space {
        let free = Arc::clone(free);
        let measure = move |_: &Path| Ok(free.load(Ordering::SeqCst));
        Space::measured(vec![PathBuf::from("a")], reserve, Arc::new(measure))
    }

    /// As if the last look and the last refusal were long ago.
    fn later(space: &Space) {
        let mut state = space.0.state.lock();
        state.looked = None;
        state.refused = state.refused.take().map(|(at, reason)| (at.checked_sub(LOOK_EVERY).unwrap_or(at), reason));
    }

    #[test]
    fn less_than_the_reserve_is_a_shortage_until_there_is_room() {
        let free = Arc::new(AtomicU64::new(64 * MIB));
        let space = space(64 * MIB, &free);
        assert_eq!(space.check(), Ok(()));
        free.store(12 * MIB + 7, Ordering::SeqCst);
        assert_eq!(space.check(), Ok(()), "looked at once a second only");
        later(&space);
        let shortage = space.check().unwrap_err().to_string();
        let said = "no room on the disk: 12 MiB are free, and 64 MiB are kept in reserve (storage.reserve_mib)";
        assert_eq!(shortage, said);
        assert_eq!(space.state().free_bytes, Some(12 * MIB + 7));
        free.store(64 * MIB, Ordering::SeqCst);
        later(&space);
        assert_eq!((space.check(), space.state().state), (Ok(()), StorageKind::Ok));
    }

    #[test]
    fn what_takes_much_at_once_must_leave_the_reserve() {
        let free = Arc::new(AtomicU64::new(100 * MIB));
        let reason = space(64 * MIB, &free).check_for("a segment", 64 * MIB).unwrap_err().to_string();
        assert!(reason.contains("100 MiB are free, a segment takes 64 MiB, and 64 MiB are kept"), "{reason}");
        assert_eq!(space(36 * MIB, &free).check_for("a segment", 64 * MIB), Ok(()));
        let without = space(0, &free);
        assert_eq!(without.check_for("a segment", u64::MAX), Ok(()), "switched off");
        assert_eq!(without.state().free_bytes, Some(100 * MIB), "but told");
    }

    #[test]
    fn what_comes_in_is_promised_its_room_and_gives_back_what_it_did_not_take() {
        let free = Arc::new(AtomicU64::new(200 * MIB));
        let space = space(64 * MIB, &free);
        // Given two that come in and have said how large they are
        let mut first = space.claim("the archive", 100 * MIB).unwrap();
        let second = space.claim("the archive", 30 * MIB).unwrap();
        // Then a third finds no room, also when the first has written what it said, and it is not told on the disk yet
        let refusal = || space.claim("the archive", 10 * MIB).err().map(|shortage| shortage.to_string());
        let told = refusal().unwrap();
        assert!(told.contains("200 MiB are free, the archive takes 10 MiB, others take 130 MiB, and 64 MiB"), "{told}");
        first.spend(100 * MIB).unwrap();
        free.store(100 * MIB, Ordering::SeqCst);
        assert!(refusal().is_some_and(|told| told.contains("100 MiB are free")), "{:?}", refusal());
        // nor does the first find more than it has said
        assert!(first.spend(7 * MIB).is_err() && first.spend(6 * MIB).is_ok());
        // What the log needs is not kept from it
        assert_eq!(space.check_for("a segment", 20 * MIB), Ok(()));
        drop((first, second));
        assert_eq!(refusal(), None, "what was promised is free again");
    }

    #[test]
    fn what_was_promised_room_goes_on_until_the_reserve_is_touched() {
        let free = Arc::new(AtomicU64::new(200 * MIB));
        let space = space(64 * MIB, &free);
        // Given one that has said how large it is, and less room than that, because the log took some
        let mut claim = space.claim("the archive", 100 * MIB).unwrap();
        free.store(120 * MIB, Ordering::SeqCst);
        later(&space);
        // Then it goes on: another one may end meanwhile, and leave its room
        claim.spend(30 * MIB).unwrap();
        // What it takes beyond that is told with what it was promised, and nobody else takes anything
        let told = claim.spend(80 * MIB).unwrap_err().to_string();
        assert!(told.contains("90 MiB are free, the archive takes 80 MiB, and 64 MiB are kept"), "{told}");
        free.store(63 * MIB, Ordering::SeqCst);
        later(&space);
        let told = claim.spend(MIB).unwrap_err().to_string();
        assert!(told.contains("63 MiB are free, and 64 MiB are kept"), "{told}");
    }

    #[test]
    fn a_refused_write_counts_for_a_second() {
        let space = Space::default();
        assert_eq!(space.shortage(&io::Error::other("x")), None);
        let too_many = io::Error::from_raw_os_error(Errno::MFILE.raw_os_error());
        assert!(space.shortage(&too_many).is_some_and(|shortage| shortage.0.starts_with("too many files are open: ")));
        let refusal = space.shortage(&ErrorKind::StorageFull.into());
        assert_eq!(space.check().err(), refusal);
        assert_eq!(space.state().state, StorageKind::Full);
        later(&space);
        assert_eq!(space.check(), Ok(()));
    }

    #[test]
    fn the_operating_system_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let space = Space::new(vec![folder.path().to_owned(), folder.path().join("absent")], 1);
        assert!(space.state().free_bytes.is_some_and(|free| free > 0));
    }
}
