//! How much room the file systems of the data directory have, and whether it is enough to take changes.
//!
//! A reserve is kept free, so that what follows the journal (sled, drafts of files) does not meet a full disk in the middle
//! of its work. Looked at when somebody asks, at most once a second; a write that was refused all the same counts as
//! a full disk for as long.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;
use serde::Serialize;

/// How old the last look may be, and how long a refused write counts.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;

/// Parts of the data directory that may each be on a file system of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The directory itself, with all that is no other part.
    Directory,
    Log,
    Media,
    Archives,
}

const PARTS: [Part; 4] = [Part::Directory, Part::Log, Part::Media, Part::Archives];

/// What a file system says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Which one it is.
    pub disk: u64,
    /// How many bytes are free for this program.
    pub free: u64,
}

/// Asks the file system of a directory.
pub type Measure = Arc<dyn Fn(&Path) -> io::Result<Room> + Send + Sync>;

/// The room that there is. Cheap to clone; all clones see the same.
#[derive(Clone)]
pub struct Space(Arc<Inner>);

struct Inner {
    /// The data directory; none when no room is watched.
    root: Option<PathBuf>,
    /// Bytes that are to stay free; 0: nothing is refused before the disk does.
    reserve: u64,
    measure: Measure,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    looked: Option<Instant>,
    /// As of the last look; without the parts that could not be asked.
    rooms: Vec<(Part, Room)>,
    /// Promised to archives that come in, and not written yet.
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
        Self::watching(None, 0, Arc::new(room_of))
    }
}

impl Space {
    /// Watches the file systems of a data directory, of which `reserve` bytes are to stay free.
    #[must_use]
    pub fn new(data_dir: &Path, reserve: u64) -> Self {
        Self::measured(data_dir, reserve, Arc::new(room_of))
    }

    /// The same with another way to measure.
    #[must_use]
    pub fn measured(data_dir: &Path, reserve: u64, measure: Measure) -> Self {
        Self::watching(Some(data_dir.to_owned()), reserve, measure)
    }

    fn watching(root: Option<PathBuf>, reserve: u64, measure: Measure) -> Self {
        Self(Arc::new(Inner { root, reserve, measure, state: Mutex::default() }))
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

    /// Whether there is room in a part for `what`, which takes `bytes` at once, besides the reserve.
    ///
    /// # Errors
    /// [`Shortage`] when there is not.
    pub fn check_for(&self, part: Part, what: &str, bytes: u64) -> Result<(), Shortage> {
        self.look();
        self.0.fits(&self.0.state.lock(), part, what, bytes, 0)
    }

    /// Room for an archive, which comes in bit by bit: `bytes`, as far as they are known, which nobody else is promised. What cannot wait
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
        // Not under the lock: a file system may be slow to answer.
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
            let (free, reserve) = (mib(room.free), mib(*reserve));
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

    /// The next look may be a second away, and much is written in a second.
    fn written(&mut self, part: Part, bytes: u64) {
        let Some(Room { disk, .. }) = self.room(part) else { return };
        let there = self.rooms.iter_mut().filter(|(_, room)| room.disk == disk);
        there.for_each(|(_, room)| room.free = room.free.saturating_sub(bytes));
    }
}

impl Inner {
    /// What is not there yet will be made in the directory itself; a part that cannot be asked at all is no shortage.
    fn measured(&self, root: &Path) -> Vec<(Part, Room)> {
        let measure = |part: Part| (self.measure)(&part.within(root)).or_else(|_| (self.measure)(root));
        PARTS.into_iter().filter_map(|part| Some((part, measure(part).ok()?))).collect()
    }

    /// Whether `bytes` leave the reserve of a part, besides what was `promised` to others.
    fn fits(&self, state: &State, part: Part, what: &str, bytes: u64, promised: u64) -> Result<(), Shortage> {
        match state.room(part) {
            Some(Room { free, .. })
                if self.reserve > 0 && free < self.reserve.saturating_add(promised).saturating_add(bytes) =>
            {
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

/// Room that is promised to an archive that comes in; what was not written is given back when this is dropped.
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

/// Rounded down, so that what is too little never looks enough.
fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes / MIB)
}

fn room_of(place: &Path) -> io::Result<Room> {
    let found = rustix::fs::statvfs(place)?;
    Ok(Room { disk: fs::metadata(place)?.dev(), free: found.f_bavail.saturating_mul(found.f_frsize) })
}

#[cfg(test)]
mod tests;
