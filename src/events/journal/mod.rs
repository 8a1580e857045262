//! The journal: append-only segment files that are synced once a group. What is in it is what was acknowledged.
//!
//! ```text
//! signing.key                            signs HEAD; readable by its owner only
//! journal/HEAD                           how far it was acknowledged, signed
//! journal/00000000000000000001.seg       positions from 1 on, full
//! journal/00000000000000170001.seg       positions from 170001 on, in use: records, then zeros
//! journal/next.tmp                       zeros, to be used next
//! ```
//!
//! A record is a commit, so a commit is in the journal whole or not at all. A group is one write and one sync. When the
//! sync fails, nobody knows what the disk holds: nothing of the group is acknowledged, nothing more is written by this
//! process, and the next start decides. It may then find the group whole and keep it: as after any command that was not
//! answered, the client cannot know.

mod anchor;
mod error;
mod frame;
mod open;
mod pump;
mod reader;
mod segment;
pub mod walk;
mod window;

use std::fs::File;
use std::io;
use std::mem;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use anchor::Anchor;
pub use error::OpenError;
pub use reader::{JournalReader, Record};

use super::chain::{ChainHash, Head, HeadFile};
use super::checkpoint::SignedCheckpoint;
use super::codec::{self, TooLarge};
use super::envelope::RecordedEvent;
use super::log::LogFailure;
use super::stream::Position;
use crate::clock::Surroundings;
use crate::domain::value::Timestamp;
use frame::{FRAME_BYTES, Header, RECORDS_START};
use segment::Preparation;
use window::Window;

/// Makes the data of a file durable. Tests count the calls, or refuse.
pub type SyncFile = Arc<dyn Fn(&File) -> io::Result<()> + Send + Sync>;

/// Where the journal is, and how it is written.
#[derive(Clone)]
pub struct JournalOptions {
    /// The data directory.
    pub directory: PathBuf,
    /// Size of a segment in bytes. A group is never split: one that is larger has a segment of its own.
    pub segment_bytes: u64,
    /// How a group becomes durable.
    pub sync: SyncFile,
}

impl JournalOptions {
    /// Segments of 64 MiB, synced by fdatasync.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), segment_bytes: 64 * 1024 * 1024, sync: Arc::new(File::sync_data) }
    }

    fn journal_directory(&self) -> PathBuf {
        self.directory.join("journal")
    }
}

/// The end of a group that was never acknowledged and was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    pub file: PathBuf,
    /// Where the first bad byte was.
    pub offset: u64,
    /// The position that the first bad record would have had.
    pub position: Position,
    /// How many bytes were cut.
    pub bytes: u64,
    pub reason: String,
}

/// A journal open for appending, by one thread.
pub struct Journal {
    options: JournalOptions,
    header: Header,
    head_file: HeadFile,
    /// The last durable record.
    head: Head,
    /// What HEAD says.
    signed: Position,
    file: File,
    offset: u64,
    next: Option<Preparation>,
    group: Group,
    syncs: u64,
}

/// The records that the next write will make durable together.
struct Group {
    bytes: Vec<u8>,
    /// The last record of the group, or the head of the journal when the group is empty.
    end: Head,
}

impl Journal {
    /// Opens or creates the journal. `followed` is how far somebody else, who is only ever given what is durable, knows it:
    /// a journal that ends before was cut. `each` is given every record in order, when it was checked.
    ///
    /// # Errors
    /// When the journal is damaged, or the file system refuses.
    pub fn open(
        options: JournalOptions,
        surroundings: &Surroundings,
        followed: Position,
        each: impl FnMut(Record<'_>),
    ) -> Result<(Self, Option<TornTail>), OpenError> {
        Self::open_from(options, surroundings, followed, None, each)
    }

    /// The same, of which what comes before an anchor is left for later: `each` is given what comes after it, or after
    /// `followed` if that is earlier.
    ///
    /// # Errors
    /// As above, and when the journal does not have the anchor.
    pub fn open_from(
        options: JournalOptions,
        surroundings: &Surroundings,
        followed: Position,
        anchor: Option<&Anchor>,
        each: impl FnMut(Record<'_>),
    ) -> Result<(Self, Option<TornTail>), OpenError> {
        let open::Opened { header, head_file, head, file, offset, torn } =
            open::open(&options, surroundings, followed, anchor, each)?;
        let (signed, group) = (head.position, Group { bytes: Vec::new(), end: head });
        let journal = Self { options, header, head_file, head, signed, file, offset, next: None, group, syncs: 0 };
        Ok((journal, torn))
    }

    /// The last durable event.
    #[must_use]
    pub fn head(&self) -> Position {
        self.head.position
    }

    /// The last event staged, or the head when none is.
    #[must_use]
    pub fn staged_head(&self) -> Position {
        self.group.end.position
    }

    /// How many times a group was synced since the journal was opened.
    #[must_use]
    pub fn sync_count(&self) -> u64 {
        self.syncs
    }

    /// Adds a commit to the group; it must begin after [`Journal::staged_head`]. Gives the place of its payload in what
    /// [`Journal::write_group`] returns.
    ///
    /// # Errors
    /// When the commit is too large: then the group is as it was.
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
        Ok(payload)
    }

    /// Makes the group durable, with one write and one sync, and gives its bytes.
    ///
    /// # Errors
    /// When the file system refuses. What the disk then holds is unknown: the journal must not be written again.
    pub fn write_group(&mut self) -> Result<Vec<u8>, LogFailure> {
        let room = self.options.segment_bytes.saturating_sub(self.offset);
        let length = self.group.bytes.len() as u64;
        if length > room && self.offset > RECORDS_START as u64 {
            self.roll().map_err(storage("begin a journal segment"))?;
        }
        self.file.write_all_at(&self.group.bytes, self.offset).map_err(storage("write to the journal"))?;
        self.syncs += 1;
        (self.options.sync)(&self.file).map_err(storage("sync the journal"))?;
        self.offset += length;
        self.head = self.group.end;
        let next_group = Vec::with_capacity(self.group.bytes.len());
        let written = mem::replace(&mut self.group.bytes, next_group);
        if self.next.is_none() && self.offset >= self.options.segment_bytes / 2 {
            self.next = Some(Preparation::start(&self.options.journal_directory(), self.options.segment_bytes));
        }
        Ok(written)
    }

    fn roll(&mut self) -> io::Result<()> {
        let directory = self.options.journal_directory();
        let prepared = self.next.take().unwrap_or_else(|| Preparation::start(&directory, self.options.segment_bytes));
        let file = prepared.finish()?;
        let header = Header { log: self.header.log, first: self.head.position.0 + 1, chain: self.head.chain };
        segment::put_to_use(&directory, &file, &header)?;
        (self.file, self.offset) = (file, RECORDS_START as u64);
        self.sign_head()?;
        self.head_file.sync()
    }

    /// Writes down how far the journal was acknowledged; not synced.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn sign_head(&mut self) -> io::Result<()> {
        if self.signed != self.head.position {
            self.head_file.write(&self.head)?;
            self.signed = self.head.position;
        }
        Ok(())
    }

    /// Signs what the journal is now, up to its last durable record.
    #[must_use]
    pub fn checkpoint(&self, at: Timestamp) -> SignedCheckpoint {
        self.head_file.checkpoint(self.head, at)
    }

    /// Makes HEAD durable and lets the threads end.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn close(&mut self) -> io::Result<()> {
        self.sign_head()?;
        self.head_file.sync()?;
        self.next.take().map_or(Ok(()), |next| next.finish().map(drop))
    }

    /// Reads the durable records that hold events after `after`; the first record may begin before it.
    ///
    /// # Errors
    /// When the file system refuses, or the segment to begin with is damaged.
    pub fn read_from(&self, after: Position) -> Result<JournalReader, OpenError> {
        let directory = self.options.journal_directory();
        let segments = segment::list(&directory).map_err(OpenError::io("list", &directory))?;
        Ok(reader_of(segments, after, self.header.log)?.until(self.head.position))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // A journal opened next in the same directory must not meet the thread of this one.
        if let Some(Err(error)) = self.next.take().map(Preparation::finish) {
            tracing::warn!(%error, "a journal segment could not be prepared");
        }
    }
}

/// A reader of the records that hold events after `after`.
fn reader_of(mut segments: Vec<PathBuf>, after: Position, log: uuid::Uuid) -> Result<JournalReader, OpenError> {
    let begins_after = |path: &PathBuf| first_position(path).is_none_or(|first| first > after.0 + 1);
    let skipped = segments.partition_point(|path| !begins_after(path)).saturating_sub(1);
    segments.drain(..skipped);
    let (next, chain) = match segments.first() {
        Some(path) if skipped > 0 => {
            let header = Window::open(path.clone(), after.0 + 1)?.header;
            (header.first, header.chain)
        }
        _ => (1, ChainHash::genesis(log)),
    };
    Ok(JournalReader::new(segments, next, chain).after(after))
}

/// The position in the name of a segment.
fn first_position(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}

fn storage(doing: &'static str) -> impl FnOnce(io::Error) -> LogFailure {
    move |error| LogFailure::Storage { doing: doing.to_owned(), reason: error.to_string() }
}
