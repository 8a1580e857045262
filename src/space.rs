//! Free disk space of the data directory's file systems, and whether writes are accepted.
//!
//! A reserve is kept free so that work after the journal (sled, file drafts) does not fail halfway on a full disk.
//! Checks measure at most once a second. A write that the file system refused counts as a full disk for a second.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;

/// Maximum age of a measurement, and the time for which a refused write counts.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;

/// Parts of the data directory that can be on separate file systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The directory itself, with everything outside of the other parts.
    Directory,
    Log,
    Media,
    Archives,
}

const PARTS: [Part; 4] = [Part::Directory, Part::Log, Part::Media, Part::Archives];

/// Measured state of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Device number of the file system.
    pub disk: u64,
    /// Bytes available to this process.
    pub free: u64,
}

/// Measures the file system of a directory.
pub type Measure = Arc<dyn Fn(&Path) -> io::Result<Room> + Send + Sync>;

/// Monitor of the free space. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct Space(Arc<Inner>);

struct Inner {
    /// The data directory; `None` disables measurements.
    root: Option<PathBuf>,
    /// Bytes to keep free; 0 disables the check.
    reserve: u64,
    measure: Measure,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    looked: Option<Instant>,
    /// Last measurement, without parts that could not be measured.
    rooms: Vec<(Part, Room)>,
    /// Bytes claimed by incoming archives and not yet written.
    claimed: u64,
    /// Reason for which the last measurement refuses changes.
    shortage: Option<Shortage>,
    refused: Option<(Instant, Shortage)>,
}

/// Reason for which writes are refused, as a message for clients without paths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Shortage(String);

/// State of the storage, for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StorageState {
    pub state: StorageKind,
    /// Reason for which writes are refused.
    pub reason: Option<String>,
    /// Free bytes of the fullest file system; `None` if not measured.
    pub free_bytes: Option<u64>,
    /// Writes are refused if fewer bytes are free; 0 disables the check.
    pub reserve_bytes: u64,
}

/// Acceptance of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageKind {
    /// Writes are accepted.
    Ok,
    /// Writes are refused until there is space again; no restart is necessary.
    Full,
    /// Writes are refused until a restart.
    ReadOnly,
}

/// Returns the missing resource if an error can pass without a restart: disk space (also a quota or file size limit),
/// or open files of the process or the system. `None` for other errors.
#[must_use]
pub fn lacking(error: &io::Error) -> Option<&'static str> {
    mediary_journal::missing_resource(error)
}

impl Default for Space {
    /// Returns a monitor without a reserve: only refused writes count.
    fn default() -> Self {
        Self::watching(None, 0, Arc::new(room_of))
    }
}

impl Space {
    /// Monitors the file systems of a data directory and keeps `reserve` bytes free.
    #[must_use]
    pub fn new(data_dir: &Path, reserve: u64) -> Self {
        Self::measured(data_dir, reserve, Arc::new(room_of))
    }

    /// Creates a monitor with another way to measure, for tests.
    #[must_use]
    pub fn measured(data_dir: &Path, reserve: u64, measure: Measure) -> Self {
        Self::watching(Some(data_dir.to_owned()), reserve, measure)
    }

    fn watching(root: Option<PathBuf>, reserve: u64, measure: Measure) -> Self {
        Self(Arc::new(Inner { root, reserve, measure, state: Mutex::default() }))
    }

    /// Checks that writes are accepted.
    ///
    /// # Errors
    /// [`Shortage`] if less than the reserve is free, or a write was refused within the last second.
    pub fn check(&self) -> Result<(), Shortage> {
        self.look();
        let state = self.0.state.lock();
        let refused = state.refused.as_ref().filter(|(at, _)| at.elapsed() < LOOK_EVERY).map(|(_, shortage)| shortage);
        refused.or(state.shortage.as_ref()).map_or(Ok(()), |shortage| Err(shortage.clone()))
    }

    /// Checks that a part has `bytes` free above the reserve, for `what`.
    ///
    /// # Errors
    /// [`Shortage`] if it has not.
    pub fn check_for(&self, part: Part, what: &str, bytes: u64) -> Result<(), Shortage> {
        self.look();
        self.0.fits(&self.0.state.lock(), part, what, bytes, 0)
    }

    /// Claims space for an incoming archive of a known size, or 0. Other archives cannot claim it, but
    /// [`Space::check_for`] ignores claims.
    ///
    /// # Errors
    /// [`Shortage`] if there is not enough space above the reserve.
    pub fn claim(&self, what: &'static str, bytes: u64) -> Result<Claim, Shortage> {
        let mut claim = Claim { space: self.clone(), what, bytes: 0 };
        claim.grow(bytes)?;
        Ok(claim)
    }

    /// Records that the file system refused a write, which counts as a full disk for a second.
    pub fn refused(&self, reason: &str) {
        let mut state = self.0.state.lock();
        if state.refused.as_ref().is_none_or(|(_, known)| known.0 != reason) {
            tracing::error!(reason, "no changes are taken; the service goes on reading, and tries again every second");
        }
        state.refused = Some((Instant::now(), Shortage(reason.to_owned())));
        state.looked = None;
    }

    /// Records that a write succeeded after a refusal.
    pub fn taken(&self) {
        let mut state = self.0.state.lock();
        if state.refused.take().is_some() {
            tracing::info!("changes are taken again");
        }
    }

    /// Converts a file system error; `Some` if a resource is missing temporarily, which is also recorded as a refusal.
    #[must_use]
    pub fn shortage(&self, error: &io::Error) -> Option<Shortage> {
        lacking(error).map(|lacking| {
            let reason = format!("{lacking}: {error}");
            self.refused(&reason);
            Shortage(reason)
        })
    }

    /// Returns the state for operators.
    #[must_use]
    pub fn state(&self) -> StorageState {
        let reason = self.check().err().map(|shortage| shortage.0);
        let state = if reason.is_some() { StorageKind::Full } else { StorageKind::Ok };
        let free_bytes = self.0.state.lock().rooms.iter().map(|(_, room)| room.free).min();
        StorageState { state, reason, free_bytes, reserve_bytes: self.0.reserve }
    }

    fn look(&self) {
        let Inner { root, reserve, state, .. } = &*self.0;
        {
            let mut state = state.lock();
            if state.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
                return;
            }
            state.looked = Some(Instant::now());
        }

        // Measure without the lock, because a file system may respond slowly.
        let rooms = root.as_deref().map(|root| self.0.measured(root)).unwrap_or_default();
        let short = rooms.iter().copied().min_by_key(|(_, room)| room.free).filter(|(_, room)| room.free < *reserve);

        let mut state = state.lock();
        state.rooms = rooms;
        match (&state.shortage, short) {
            (None, Some((part, Room { free, .. }))) => {
                let place = root.as_deref().map(|root| part.within(root)).unwrap_or_default();
                let place = place.display();
                tracing::error!(free, reserve, %place, "the disk is full: no changes are taken until there is room");
            }
            (Some(_), None) => tracing::info!("there is room on the disk again: changes are taken"),
            _ => {}
        }

        state.shortage = short.map(|(_, room)| {
            let free = mib(room.free);
            let reserve = mib(*reserve);
            Shortage(format!(
                "no room on the disk: {free} are free, and {reserve} are kept in reserve (storage.reserve_mib)"
            ))
        });
    }
}

impl Part {
    fn within(self, data_dir: &Path) -> PathBuf {
        match self {
            Self::Directory => data_dir.to_owned(),
            Self::Log => data_dir.join("log"),
            Self::Media => data_dir.join("media"),
            Self::Archives => data_dir.join("archives"),
        }
    }
}

impl State {
    fn room(&self, part: Part) -> Option<Room> {
        self.rooms.iter().find(|(known, _)| *known == part).map(|(_, room)| *room)
    }

    /// Subtracts written bytes from the last measurement, because much can be written before the next one.
    fn written(&mut self, part: Part, bytes: u64) {
        let Some(Room { disk, .. }) = self.room(part) else { return };
        let there = self.rooms.iter_mut().filter(|(_, room)| room.disk == disk);
        there.for_each(|(_, room)| room.free = room.free.saturating_sub(bytes));
    }
}

impl Inner {
    /// Measures every part. A missing part is measured at the root; a part that cannot be measured is omitted.
    fn measured(&self, root: &Path) -> Vec<(Part, Room)> {
        let measure = |part: Part| (self.measure)(&part.within(root)).or_else(|_| (self.measure)(root));
        PARTS.into_iter().filter_map(|part| Some((part, measure(part).ok()?))).collect()
    }

    /// Checks that `bytes` fit above the reserve of a part and the space `promised` to others.
    fn fits(&self, state: &State, part: Part, what: &str, bytes: u64, promised: u64) -> Result<(), Shortage> {
        match state.room(part) {
            Some(Room { free, .. })
                if self.reserve > 0 && free < self.reserve.saturating_add(promised).saturating_add(bytes) =>
            {
                let free = mib(free);
                let takes = mib(bytes.next_multiple_of(MIB));
                let reserve = mib(self.reserve);
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

/// Space claimed by an incoming archive. Dropping it releases the unwritten rest.
pub struct Claim {
    space: Space,
    what: &'static str,
    /// Claimed bytes that are not yet written.
    bytes: u64,
}

impl Claim {
    /// Must be called before `bytes` are written. Extends the claim if necessary.
    ///
    /// # Errors
    /// [`Shortage`] if there is not enough space, or the reserve is in use.
    pub fn spend(&mut self, bytes: u64) -> Result<(), Shortage> {
        self.space.check()?;
        if bytes > self.bytes {
            self.grow(bytes - self.bytes)?;
        }
        self.bytes -= bytes;
        let mut state = self.space.0.state.lock();
        state.claimed -= bytes;
        state.written(Part::Archives, bytes);
        Ok(())
    }

    fn grow(&mut self, bytes: u64) -> Result<(), Shortage> {
        self.space.look();
        let mut state = self.space.0.state.lock();
        let others = state.claimed - self.bytes;
        self.space.0.fits(&state, Part::Archives, self.what, self.bytes + bytes, others)?;
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

/// Formats bytes in MiB, rounded down so that too little space never looks sufficient.
fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes / MIB)
}

fn room_of(place: &Path) -> io::Result<Room> {
    let found = rustix::fs::statvfs(place)?;
    Ok(Room { disk: fs::metadata(place)?.dev(), free: found.f_bavail.saturating_mul(found.f_frsize) })
}

#[cfg(test)]
mod tests;
