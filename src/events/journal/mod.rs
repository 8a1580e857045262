//! The journal: append-only segment files, synced once per group. A commit is acknowledged only after it is durable
//! here.
//!
//! ```text
//! signing.key                            signs HEAD; readable by its owner only
//! journal/HEAD                           end of the acknowledged records, signed
//! journal/00000000000000000001.seg       positions from 1 on, full
//! journal/00000000000000170001.seg       positions from 170001 on, in use: records, then zeros
//! journal/next.tmp                       zeros, for the next segment
//! ```
//!
//! A record is a commit, so a commit is in the journal completely or not at all. A group is one write and one sync. If
//! the sync fails, the state of the disk is unknown: nothing of the group is acknowledged, this process writes nothing
//! more, and the next start decides. It may find the group intact and keep it; as after any command without a response,
//! the client cannot know.
//!
//! A full disk is different: the remains of the failed write are wiped, so that nothing of the group exists, and the
//! next group is tried normally.

mod anchor;
mod error;
mod frame;
mod heal;
mod open;
mod passing;
mod place;
mod pump;
mod reader;
mod segment;
mod stopped;
pub mod walk;

use std::fs::File;
use std::io;
use std::mem;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use anchor::Anchor;
pub use error::OpenError;
pub use heal::{Mended, MendedPart};
pub use place::Place;
pub use reader::{JournalReader, Record};
pub use stopped::StoppedJournal;

use super::chain::{Head, HeadFile};
use super::checkpoint::SignedCheckpoint;
use super::codec::{self, TooLarge};
use super::envelope::RecordedEvent;
use super::log::LogFailure;
use super::stream::Position;
use crate::clock::{Mishaps, Step, Surroundings};
use crate::domain::value::Timestamp;
use crate::space::{Part, Space, lacking};
use frame::{FRAME_BYTES, Header, RECORDS_START};
use segment::Preparation;

/// Makes the data of a file durable. Tests count the calls, or fail them.
pub type SyncFile = Arc<dyn Fn(&File) -> io::Result<()> + Send + Sync>;

/// Location of the journal, and how it is written.
#[derive(Clone)]
pub struct JournalOptions {
    /// The directory of the log, which contains `journal`.
    pub directory: PathBuf,
    /// Size of a segment in bytes. A group is never split; a larger group gets a segment of its own.
    pub segment_bytes: u64,
    /// Makes a group durable.
    pub sync: SyncFile,
    /// Free space on the disk.
    pub space: Space,
}

impl JournalOptions {
    /// Segments of 64 MiB, synced by fdatasync, without a reserve of disk space.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        let sync = Arc::new(File::sync_data);
        Self { directory: directory.into(), segment_bytes: 64 * 1024 * 1024, sync, space: Space::default() }
    }

    fn journal_directory(&self) -> PathBuf {
        self.directory.join("journal")
    }
}

/// The end of a group that was never acknowledged, removed at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    pub file: PathBuf,
    /// Offset of the first bad byte.
    pub offset: u64,
    /// Position that the first bad record would have had.
    pub position: Position,
    /// Number of bytes removed.
    pub bytes: u64,
    pub reason: String,
}

/// An opened journal, with what had to be removed and repaired.
pub struct Found {
    pub journal: Journal,
    pub torn: Option<TornTail>,
    pub mended: Vec<Mended>,
}

/// A journal open for appending by one thread.
pub struct Journal {
    options: JournalOptions,
    header: Header,
    head_file: HeadFile,
    /// The last durable record.
    head: Head,
    /// The position in the signed HEAD.
    signed: Position,
    file: File,
    offset: u64,
    next: Option<Preparation>,
    group: Group,
    syncs: u64,
    mishaps: Mishaps,
}

/// Purpose of the required disk space, in messages for operators.
const SEGMENT: &str = "a new journal segment";

/// The records that the next write makes durable together.
struct Group {
    bytes: Vec<u8>,
    /// The last record of the group, or the head of the journal if the group is empty.
    end: Head,
}

impl Journal {
    /// Opens or creates the journal. `followed` is the position of the follower, which only receives durable events: a
    /// journal that ends earlier was cut. Calls `each` with every verified record in order.
    ///
    /// # Errors
    /// If the journal is damaged, or the file system fails.
    pub fn open(
        options: JournalOptions,
        surroundings: &Surroundings,
        followed: Position,
        each: impl FnMut(Record<'_>),
    ) -> Result<(Self, Option<TornTail>), OpenError> {
        Self::open_healing(options, surroundings, followed, None, &mut |_| None, each)
            .map(|found| (found.journal, found.torn))
    }

    /// Opens the journal like [`Journal::open`], and repairs damaged records. `copies` returns the payload of the
    /// commit that begins at a position; a copy is used if the chain proves it. With an anchor, the check of the
    /// records before it is left for later: `each` receives those after it, or after `followed` if that is earlier.
    ///
    /// # Errors
    /// See [`Journal::open`]; also if the journal does not hold the anchor.
    pub fn open_healing(
        options: JournalOptions,
        surroundings: &Surroundings,
        followed: Position,
        anchor: Option<&Anchor>,
        copies: &mut dyn FnMut(Position) -> Option<Vec<u8>>,
        each: impl FnMut(Record<'_>),
    ) -> Result<Found, OpenError> {
        let open::Opened { header, head_file, head, file, offset, torn, mended } =
            open::open(&options, surroundings, (followed, anchor), copies, each)?;
        let signed = head.position;
        let group = Group { bytes: Vec::new(), end: head };
        let mishaps = surroundings.mishaps();
        let journal =
            Self { options, header, head_file, head, signed, file, offset, next: None, group, syncs: 0, mishaps };
        Ok(Found { journal, torn, mended })
    }

    /// The last durable event.
    #[must_use]
    pub fn head(&self) -> Position {
        self.head.position
    }

    /// The position up to which HEAD is signed.
    #[must_use]
    pub fn signed(&self) -> Position {
        self.signed
    }

    /// The last staged event, or the head if nothing is staged.
    #[must_use]
    pub fn staged_head(&self) -> Position {
        self.group.end.position
    }

    /// Number of groups synced since the journal was opened.
    #[must_use]
    pub fn sync_count(&self) -> u64 {
        self.syncs
    }

    /// Adds a commit, which must begin after [`Journal::staged_head`], to the group. Returns the range of its payload
    /// in the result of [`Journal::write_group`].
    ///
    /// # Errors
    /// If the commit is too large. The group is then unchanged.
    pub fn stage(&mut self, commit: &[RecordedEvent]) -> Result<Range<usize>, TooLarge> {
        let Group { bytes, end } = &mut self.group;
        let start = bytes.len();
        bytes.resize(start + FRAME_BYTES, 0);
        if let Err(refusal) = codec::encode(commit, bytes) {
            bytes.truncate(start);
            return Err(refusal);
        }

        let payload = start + FRAME_BYTES..bytes.len();
        let chain = end.chain.next(&bytes[payload.clone()]);
        frame::seal(&mut bytes[start..], end.position.0 + 1, self.head.position.0 + 1, &chain);
        *end = Head { position: Position(end.position.0 + commit.len() as u64), chain };

        self.mishaps.done(Step::Staged);
        Ok(payload)
    }

    /// Makes the group durable with one write and one sync, and returns its bytes.
    ///
    /// # Errors
    /// Returns [`LogFailure::Full`] if there is no disk space: the group is dropped and the journal unchanged. After
    /// any other failure the state of the disk is unknown, and the journal must not be written again.
    pub fn write_group(&mut self) -> Result<Vec<u8>, LogFailure> {
        self.make_durable().inspect_err(|_| self.forget_group())?;
        self.offset += self.group.bytes.len() as u64;
        self.head = self.group.end;
        let next_group = Vec::with_capacity(self.group.bytes.len());
        let written = mem::replace(&mut self.group.bytes, next_group);
        self.prepare_next();
        Ok(written)
    }

    /// Drops the staged commits.
    pub fn forget_group(&mut self) {
        self.group = Group { bytes: Vec::new(), end: self.head };
    }

    fn make_durable(&mut self) -> Result<(), LogFailure> {
        let room = self.options.segment_bytes.saturating_sub(self.offset);
        if self.group.bytes.len() as u64 > room && self.offset > RECORDS_START as u64 {
            self.roll()?;
        }
        self.write()?;
        self.mishaps.done(Step::Written);
        self.syncs += 1;
        (self.options.sync)(&self.file).map_err(storage("sync the journal"))?;
        self.mishaps.done(Step::Synced);
        Ok(())
    }

    /// Writes the group. If the disk is full, removes the partial write.
    fn write(&self) -> Result<(), LogFailure> {
        let length = self.file.metadata().map_err(storage("look at the journal"))?.len();
        let (written, error) = segment::write_counted(&self.file, &self.group.bytes, self.offset);
        let Some(error) = error else { return Ok(()) };

        let Some(full) = LogFailure::full("write to the journal", &error) else {
            return Err(storage("write to the journal")(error));
        };

        segment::wipe(&self.file, self.offset, self.offset + written, length)
            .and_then(|()| (self.options.sync)(&self.file))
            .map_err(storage("take back what did not fit into the journal"))?;
        Err(full)
    }

    /// Starts preparing the next segment when the current one is half full, if there is disk space.
    fn prepare_next(&mut self) {
        let bytes = self.options.segment_bytes;
        if self.next.is_none()
            && self.offset >= bytes / 2
            && self.options.space.check_for(Part::Log, SEGMENT, bytes).is_ok()
        {
            self.next = Some(Preparation::start(&self.options.journal_directory(), bytes, &self.mishaps));
        }
    }

    fn roll(&mut self) -> Result<(), LogFailure> {
        let directory = self.options.journal_directory();
        let file = self.prepared(&directory)?;
        let header = Header { log: self.header.log, first: self.head.position.0 + 1, chain: self.head.chain };

        segment::put_to_use(&directory, &file, &header, &self.mishaps).map_err(|error| {
            // A segment whose name may or may not be durable would be read at the next start.
            if segment::path_of(&directory, header.first).exists() {
                return storage("begin a journal segment")(error);
            }
            let _ = segment::remove_unfinished(&directory);
            refused("begin a journal segment")(error)
        })?;
        self.file = file;
        self.offset = RECORDS_START as u64;

        match self.sign_head().and_then(|()| self.head_file.sync()) {
            // An older HEAD covers less, but nothing wrong.
            Err(error) if lacking(&error).is_some() => {
                tracing::warn!(%error, "HEAD could not be written; it is tried again");
            }
            signed => signed.map_err(storage("sign the end of a journal segment"))?,
        }
        Ok(())
    }

    /// Returns the prepared segment, or prepares one now, even if there was no space for it before.
    fn prepared(&mut self, directory: &Path) -> Result<File, LogFailure> {
        let ready = self.next.take().map(Preparation::finish);
        if let Some(ready) = ready {
            match ready {
                Ok(file) => return Ok(file),
                Err(error) => tracing::warn!(%error, "a journal segment could not be prepared; it is tried again"),
            }
        }

        let bytes = self.options.segment_bytes;
        let shortage = self.options.space.check_for(Part::Log, SEGMENT, bytes);
        shortage.map_err(|shortage| LogFailure::Full { reason: shortage.to_string() })?;
        Preparation::start(directory, bytes, &self.mishaps).finish().map_err(refused("prepare a journal segment"))
    }

    /// Signs the end of the acknowledged records into HEAD, without syncing.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn sign_head(&mut self) -> io::Result<()> {
        if self.signed != self.head.position {
            self.head_file.write(&self.head)?;
            self.signed = self.head.position;
            self.mishaps.done(Step::HeadSigned);
        }
        Ok(())
    }

    /// Signs a checkpoint at the last durable record.
    #[must_use]
    pub fn checkpoint(&self, at: Timestamp) -> SignedCheckpoint {
        self.head_file.checkpoint(self.head, at)
    }

    /// Makes HEAD durable and joins the preparing thread.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn close(&mut self) -> io::Result<()> {
        self.sign_head()?;
        self.head_file.sync()?;
        self.mishaps.done(Step::HeadSynced);
        self.let_go();
        Ok(())
    }

    /// Waits for the segment in preparation, so that its thread does not interfere with a journal opened next in the
    /// same directory.
    fn let_go(&mut self) {
        if let Some(Err(error)) = self.next.take().map(Preparation::finish) {
            tracing::warn!(%error, "a journal segment could not be prepared");
        }
    }

    /// Reads the durable records that hold events after `after`. The first record may begin before it.
    ///
    /// # Errors
    /// If the file system fails, or the first segment to read is damaged.
    pub fn read_from(&self, after: Position) -> Result<JournalReader, OpenError> {
        self.place().read(after, self.head.position)
    }

    /// The location of the records, for readers other than the writer.
    #[must_use]
    pub fn place(&self) -> Place {
        Place::new(self.options.journal_directory(), self.header.log)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// A failure after which the state of the disk is unknown.
fn storage(doing: &'static str) -> impl FnOnce(io::Error) -> LogFailure {
    move |error| LogFailure::Storage { doing: doing.to_owned(), reason: error.to_string() }
}

/// A failure before anything of the group was written.
fn refused(doing: &'static str) -> impl FnOnce(io::Error) -> LogFailure {
    move |error| LogFailure::full(doing, &error).unwrap_or_else(|| storage(doing)(error))
}
