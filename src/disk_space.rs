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
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;

/// Parts of the data directory that can be on separate file systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataDirPart {
    /// The directory itself, with everything outside of the other parts.
    Directory,
    Log,
    Media,
    Archives,
}

const PARTS: [DataDirPart; 4] = [DataDirPart::Directory, DataDirPart::Log, DataDirPart::Media, DataDirPart::Archives];

/// Measured state of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystemSpace {
    /// Device number of the file system.
    pub device: u64,
    /// Bytes available to this process.
    pub free: u64,
}

/// Measures the file system of a directory.
pub type MeasureFn = Arc<dyn Fn(&Path) -> io::Result<FileSystemSpace> + Send + Sync>;

/// Monitor of the free space. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct DiskSpace(Arc<DiskSpaceInner>);

struct DiskSpaceInner {
    /// The data directory; `None` disables measurements.
    root: Option<PathBuf>,
    /// Bytes to keep free; 0 disables the check.
    reserve: u64,
    measure: MeasureFn,
    /// Held while the space is measured, so that no older measurement replaces a newer one.
    measuring: Mutex<()>,
    state: Mutex<DiskSpaceState>,
}

#[derive(Default)]
struct DiskSpaceState {
    measured_at: Option<Instant>,
    /// Last measurement, without parts that could not be measured.
    measurements: Vec<(DataDirPart, FileSystemSpace)>,
    /// Bytes claimed by incoming files and not yet written, on all file systems together.
    claimed: u64,
    /// Reason why the last measurement refuses changes.
    disk_full: Option<DiskFull>,
    last_refusal: Option<(Instant, DiskFull)>,
}

/// Reason why writes are refused, as a message for clients without paths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DiskFull(String);

/// State of the storage, for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StorageState {
    pub state: StorageStatus,
    /// Reason why writes are refused.
    pub reason: Option<String>,
    /// Free bytes of the fullest file system; `None` if not measured.
    pub free_bytes: Option<u64>,
    /// Writes are refused if fewer bytes are free; 0 disables the check.
    pub reserve_bytes: u64,
}

/// Acceptance of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageStatus {
    /// Writes are accepted.
    Ok,
    /// Writes are refused until there is space again; no restart is necessary.
    Full,
    /// Writes are refused until a restart.
    ReadOnly,
}

impl StorageStatus {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Ok, Self::Full, Self::ReadOnly];

    /// Returns the name in responses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Full => "full",
            Self::ReadOnly => "read_only",
        }
    }
}

/// Returns the missing resource if an error can pass without a restart: disk space (also a quota or file size limit),
/// or open files of the process or the system. `None` for other errors.
#[must_use]
pub fn missing_resource(error: &io::Error) -> Option<&'static str> {
    mediary_journal::missing_resource(error)
}

impl Default for DiskSpace {
    /// Returns a monitor without a reserve: only refused writes count.
    fn default() -> Self {
        Self::with_root(None, 0, Arc::new(measure_file_system))
    }
}

impl DiskSpace {
    /// Monitors the file systems of a data directory and keeps `reserve` bytes free.
    #[must_use]
    pub fn new(data_dir: &Path, reserve: u64) -> Self {
        Self::with_measure(data_dir, reserve, Arc::new(measure_file_system))
    }

    /// Creates a monitor with another way to measure, for tests.
    #[must_use]
    pub fn with_measure(data_dir: &Path, reserve: u64, measure: MeasureFn) -> Self {
        Self::with_root(Some(data_dir.to_owned()), reserve, measure)
    }

    fn with_root(root: Option<PathBuf>, reserve: u64, measure: MeasureFn) -> Self {
        Self(Arc::new(DiskSpaceInner { root, reserve, measure, measuring: Mutex::default(), state: Mutex::default() }))
    }

    /// Checks that writes are accepted.
    ///
    /// # Errors
    /// [`DiskFull`] if less than the reserve is free, or a write was refused within the last second.
    pub fn check(&self) -> Result<(), DiskFull> {
        self.measure_if_due();
        let state = self.0.state.lock();
        let refusal = state
            .last_refusal
            .as_ref()
            .filter(|(at, _)| at.elapsed() < MEASURE_INTERVAL)
            .map(|(_, disk_full)| disk_full);
        refusal.or(state.disk_full.as_ref()).map_or(Ok(()), |disk_full| Err(disk_full.clone()))
    }

    /// Checks that a part has `bytes` free above the reserve, for `purpose`.
    ///
    /// # Errors
    /// [`DiskFull`] if it has less.
    pub fn check_available(&self, part: DataDirPart, purpose: &str, bytes: u64) -> Result<(), DiskFull> {
        self.measure_if_due();
        self.0.check_fits(&self.0.state.lock(), part, purpose, bytes, 0)
    }

    /// Claims space in a part for an incoming file of a known size, or 0. Other files cannot claim it, but
    /// [`DiskSpace::check_available`] ignores claims.
    ///
    /// # Errors
    /// [`DiskFull`] if there is not enough space above the reserve.
    pub fn claim(&self, part: DataDirPart, purpose: &'static str, bytes: u64) -> Result<SpaceClaim, DiskFull> {
        let mut claim = SpaceClaim { disk_space: self.clone(), part, purpose, bytes: 0 };
        claim.extend(bytes)?;
        Ok(claim)
    }

    /// Records that the file system refused a write, which counts as a full disk for a second.
    pub fn record_refusal(&self, reason: &str) {
        let mut state = self.0.state.lock();
        if state.last_refusal.as_ref().is_none_or(|(_, last)| last.0 != reason) {
            tracing::error!(reason, "disk write refused, changes rejected, retrying every second");
        }
        state.last_refusal = Some((Instant::now(), DiskFull(reason.to_owned())));
        state.measured_at = None;
    }

    /// Records that a write succeeded after a refusal.
    pub fn record_success(&self) {
        let mut state = self.0.state.lock();
        if state.last_refusal.take().is_some() {
            tracing::info!("disk write succeeded, changes accepted again");
        }
    }

    /// Converts a file system error; `Some` if a resource is missing temporarily, which is also recorded as a refusal.
    #[must_use]
    pub fn to_disk_full(&self, error: &io::Error) -> Option<DiskFull> {
        missing_resource(error).map(|resource| {
            let reason = format!("{resource}: {error}");
            self.record_refusal(&reason);
            DiskFull(reason)
        })
    }

    /// Returns the state for operators.
    #[must_use]
    pub fn state(&self) -> StorageState {
        let reason = self.check().err().map(|disk_full| disk_full.0);
        let state = if reason.is_some() { StorageStatus::Full } else { StorageStatus::Ok };
        let free_bytes = self.0.state.lock().measurements.iter().map(|(_, space)| space.free).min();
        StorageState { state, reason, free_bytes, reserve_bytes: self.0.reserve }
    }

    fn measure_if_due(&self) {
        let DiskSpaceInner { root, reserve, measuring, state, .. } = &*self.0;
        let Some(_measuring) = measuring.try_lock() else { return };
        {
            let mut state = state.lock();
            if state.measured_at.is_some_and(|measured_at| measured_at.elapsed() < MEASURE_INTERVAL) {
                return;
            }
            state.measured_at = Some(Instant::now());
        }

        // Measure without the lock, because a file system may respond slowly.
        let measurements = root.as_deref().map(|root| self.0.measure_all(root)).unwrap_or_default();
        let fullest =
            measurements.iter().copied().min_by_key(|(_, space)| space.free).filter(|(_, space)| space.free < *reserve);

        let mut state = state.lock();
        state.measurements = measurements;
        match (&state.disk_full, fullest) {
            (None, Some((part, FileSystemSpace { free, .. }))) => {
                let path = root.as_deref().map(|root| part.path_in(root)).unwrap_or_default();
                let path = path.display();
                tracing::error!(free, reserve, %path, "disk full, changes rejected");
            }
            (Some(_), None) => tracing::info!("disk space available again, changes accepted"),
            _ => {}
        }

        state.disk_full = fullest.map(|(_, space)| {
            let free = mib(space.free);
            let reserve = mib(*reserve);
            DiskFull(format!("disk full: {free} free, {reserve} reserved (storage.reserve_mib)"))
        });
    }
}

impl DataDirPart {
    fn path_in(self, data_dir: &Path) -> PathBuf {
        match self {
            Self::Directory => data_dir.to_owned(),
            Self::Log => data_dir.join("log"),
            Self::Media => data_dir.join("media"),
            Self::Archives => data_dir.join("archives"),
        }
    }
}

impl DiskSpaceState {
    fn measurement_of(&self, part: DataDirPart) -> Option<FileSystemSpace> {
        self.measurements.iter().find(|(measured, _)| *measured == part).map(|(_, space)| *space)
    }

    /// Subtracts written bytes from the last measurement, because much can be written before the next one.
    fn subtract_written(&mut self, part: DataDirPart, bytes: u64) {
        let Some(FileSystemSpace { device, .. }) = self.measurement_of(part) else { return };
        let same_device = self.measurements.iter_mut().filter(|(_, space)| space.device == device);
        same_device.for_each(|(_, space)| space.free = space.free.saturating_sub(bytes));
    }
}

impl DiskSpaceInner {
    /// Measures every part. A missing part is measured at the root; a part that cannot be measured is omitted.
    fn measure_all(&self, root: &Path) -> Vec<(DataDirPart, FileSystemSpace)> {
        let measure = |part: DataDirPart| (self.measure)(&part.path_in(root)).or_else(|_| (self.measure)(root));
        PARTS.into_iter().filter_map(|part| Some((part, measure(part).ok()?))).collect()
    }

    /// Checks that `bytes` fit above the reserve of a part and the space `claimed` by others.
    fn check_fits(
        &self,
        state: &DiskSpaceState,
        part: DataDirPart,
        purpose: &str,
        bytes: u64,
        claimed: u64,
    ) -> Result<(), DiskFull> {
        match state.measurement_of(part) {
            Some(FileSystemSpace { free, .. })
                if self.reserve > 0 && free < self.reserve.saturating_add(claimed).saturating_add(bytes) =>
            {
                let free = mib(free);
                let size = mib(bytes.next_multiple_of(MIB));
                let reserve = mib(self.reserve);
                let other_claims = if claimed > 0 { format!(", others need {}", mib(claimed)) } else { String::new() };
                Err(DiskFull(format!(
                    "disk full: {free} free, {purpose} needs {size}{other_claims}, {reserve} reserved (storage.reserve_mib)"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Space claimed by an incoming file. Dropping it releases the unwritten rest.
pub struct SpaceClaim {
    disk_space: DiskSpace,
    part: DataDirPart,
    purpose: &'static str,
    /// Claimed bytes that are not yet written.
    bytes: u64,
}

impl SpaceClaim {
    /// Uses up `bytes` of the claim, which is extended if necessary. Must be called before they are written.
    ///
    /// # Errors
    /// [`DiskFull`] if there is not enough space for an extension, or less than the reserve is free.
    pub fn consume(&mut self, bytes: u64) -> Result<(), DiskFull> {
        self.disk_space.check()?;
        if bytes > self.bytes {
            self.extend(bytes - self.bytes)?;
        }
        self.bytes -= bytes;
        let mut state = self.disk_space.0.state.lock();
        state.claimed -= bytes;
        state.subtract_written(self.part, bytes);
        Ok(())
    }

    fn extend(&mut self, bytes: u64) -> Result<(), DiskFull> {
        self.disk_space.measure_if_due();
        let mut state = self.disk_space.0.state.lock();
        let other_claims = state.claimed - self.bytes;
        self.disk_space.0.check_fits(&state, self.part, self.purpose, self.bytes + bytes, other_claims)?;
        state.claimed += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for SpaceClaim {
    fn drop(&mut self) {
        self.disk_space.0.state.lock().claimed -= self.bytes;
    }
}

/// Formats bytes in MiB, rounded down so that too little space never looks sufficient.
fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes / MIB)
}

fn measure_file_system(path: &Path) -> io::Result<FileSystemSpace> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(FileSystemSpace { device: fs::metadata(path)?.dev(), free: stat.f_bavail.saturating_mul(stat.f_frsize) })
}

#[cfg(test)]
mod tests;
