//! Files of the journal: names, preparation and reading.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::environment::{Environment, JournalStep};
use crate::error::JournalError;
use crate::frame::{RECORDS_START, SegmentHeader};
use crate::position::Position;

const EXTENSION: &str = "seg";
/// The segment in preparation.
const PREPARED: &str = "next.tmp";
/// Number of zeros written between two syncs.
const CHUNK_BYTES: usize = 1024 * 1024;

/// Returns the segments of a journal, in order.
pub fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            segments.push(path);
        }
    }
    segments.sort();
    Ok(segments)
}

/// Removes the segment that an interrupted start left in preparation.
pub fn remove_unfinished(directory: &Path) -> io::Result<()> {
    match fs::remove_file(directory.join(PREPARED)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A segment of zeros, written by its own thread.
pub struct SegmentPreparation(JoinHandle<io::Result<File>>);

impl SegmentPreparation {
    /// Starts writing zeros.
    pub fn start(directory: &Path, bytes: u64, environment: &Arc<dyn Environment>) -> Self {
        let path = directory.join(PREPARED);
        let environment = Arc::clone(environment);
        let prepare = move || prepare(&path, bytes).inspect(|_| environment.step_done(JournalStep::SegmentZeroed));
        Self(thread::spawn(prepare))
    }

    /// Waits until the zeros are on disk.
    pub fn finish(self) -> io::Result<File> {
        self.0.join().unwrap_or_else(|_| Err(io::Error::other("the thread that prepares segments panicked")))
    }
}

/// Writes zeros. If the disk is full, frees the space again.
fn prepare(path: &Path, bytes: u64) -> io::Result<File> {
    write_zeros(path, bytes).inspect_err(|_| {
        // Best effort: the next preparation truncates the file, and a start removes it.
        let _ = fs::remove_file(path);
    })
}

/// Writes real zeros, because appends to a merely reserved segment make each sync slower. Syncs in chunks, so that
/// concurrent appends never wait for a whole segment.
fn write_zeros(path: &Path, bytes: u64) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
    let zeros = vec![0; CHUNK_BYTES];
    let mut zeros_left = bytes;

    while zeros_left > 0 {
        let chunk = usize::try_from(zeros_left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        file.write_all(&zeros[..chunk])?;
        file.sync_data()?;
        zeros_left -= chunk as u64;
    }
    Ok(file)
}

/// Returns the path of the segment that begins with this position.
pub fn segment_path(directory: &Path, first: u64) -> PathBuf {
    directory.join(format!("{first:020}.{EXTENSION}"))
}

/// Reverts a write from `from` to `to` into a file that had `length` bytes.
pub fn revert_write(file: &File, from: u64, to: u64, length: u64) -> io::Result<()> {
    let length_to_clear = usize::try_from(to.min(length).saturating_sub(from)).unwrap_or(0);
    file.write_all_at(&vec![0; length_to_clear], from)?;
    if to > length { file.set_len(length) } else { Ok(()) }
}

/// Writes bytes; returns the number written, and the error that stopped the write.
pub fn write_counted(file: &File, bytes: &[u8], offset: u64) -> (u64, Option<io::Error>) {
    let mut written = 0;
    while written < bytes.len() {
        match file.write_at(&bytes[written..], offset + written as u64) {
            Ok(0) => return (written as u64, Some(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written as u64, Some(error)),
        }
    }
    (written as u64, None)
}

/// Puts a prepared segment into use. Its header and name are durable when this returns.
pub fn activate(
    directory: &Path,
    file: &File,
    header: &SegmentHeader,
    environment: &dyn Environment,
) -> io::Result<PathBuf> {
    // Opened before the rename: if no descriptor were left afterwards, the name could not be made durable, and the
    // journal would have to close.
    let folder = File::open(directory)?;

    file.write_all_at(&header.to_bytes(), 0)?;
    file.sync_all()?;
    environment.step_done(JournalStep::SegmentBegun);

    let path = segment_path(directory, header.first);
    fs::rename(directory.join(PREPARED), &path)?;
    environment.step_done(JournalStep::SegmentRenamed);

    folder.sync_all()?;
    environment.step_done(JournalStep::SegmentNamed);
    Ok(path)
}

/// Returns the header of a segment that should begin with position `expected`.
pub fn read_header(path: &Path, expected: u64) -> Result<SegmentHeader, JournalError> {
    let mut bytes = Vec::new();
    let result = File::open(path).and_then(|file| file.take(RECORDS_START as u64).read_to_end(&mut bytes));
    result.map_err(JournalError::io("read", path))?;
    SegmentHeader::parse(&bytes).map_err(|reason| damage_error(path, 0, expected, reason))
}

/// A segment in memory.
pub struct LoadedSegment {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
    pub header: SegmentHeader,
}

impl LoadedSegment {
    /// Loads a segment and checks its header. `expected` is the position that it should begin with.
    pub fn load(path: PathBuf, expected: u64) -> Result<Self, JournalError> {
        let bytes = fs::read(&path).map_err(JournalError::io("read", &path))?;
        match SegmentHeader::parse(&bytes) {
            Ok(header) => Ok(Self { path, bytes, header }),
            Err(reason) => Err(damage_error(&path, 0, expected, reason)),
        }
    }

    /// Returns `true` if there are only zeros from `offset` on.
    pub fn is_blank_from(&self, offset: usize) -> bool {
        self.bytes.get(offset..).unwrap_or_default().iter().all(|byte| *byte == 0)
    }

    /// Returns `true` if the segment contains no record.
    pub fn has_no_records(&self) -> bool {
        self.is_blank_from(RECORDS_START)
    }

    /// Describes damage in this segment.
    pub fn damage_error(&self, offset: usize, position: u64, reason: impl Into<String>) -> JournalError {
        damage_error(&self.path, offset, position, reason)
    }
}

/// Describes damage in a segment.
pub fn damage_error(file: &Path, offset: usize, position: u64, reason: impl Into<String>) -> JournalError {
    JournalError::Damaged {
        file: file.to_owned(),
        offset: offset as u64,
        position: Position(position),
        reason: reason.into(),
    }
}
