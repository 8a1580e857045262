//! Opening a journal: every record is checked, a torn tail is cut, and anything else that is wrong stops the start.
//!
//! What may be wrong, and what it means:
//! - bad bytes after HEAD, with nothing after them but zeros or records of the same group: a group that was never
//!   acknowledged was not written to its end. It is cut and reported.
//! - bad bytes at or before HEAD, a whole record of a later group after bad bytes, a whole record that does not follow from
//!   the one before it or that this release cannot read, a HEAD or a sled beyond the last record: damage, or history that was cut.
//!   The start stops.
//!
//! A start may be killed at any moment. The order in which the first one creates things makes every half-way state
//! recognisable: the signing key, the first segment, HEAD (synced), and only then the first record. So a missing HEAD is
//! innocent exactly when no record was ever written.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;

use super::anchor::{Anchor, reader_from};
use super::error::OpenError;
use super::frame::{self, Header, RECORDS_START};
use super::reader::{JournalReader, Record};
use super::segment::{self, Preparation};
use super::window::Window;
use super::{JournalOptions, TornTail, pump};
use crate::clock::Surroundings;
use crate::data_dir::sync_parent;
use crate::events::chain::{self, ChainHash, Head, HeadError, HeadFile};
use crate::events::stream::Position;

/// A journal that was checked to its end.
pub struct Opened {
    pub header: Header,
    pub head_file: HeadFile,
    /// The last record there is, acknowledged or not.
    pub head: Head,
    /// The segment to append to.
    pub file: File,
    pub offset: u64,
    pub torn: Option<TornTail>,
}

/// What must be in the journal.
struct Known {
    head: Head,
    /// How far a follower has taken it over.
    followed: Position,
}

impl Known {
    /// Who knows of an event after `end`.
    fn beyond(&self, end: Position) -> Option<String> {
        if self.head.position > end {
            Some(format!("HEAD says that events up to position {} were acknowledged", self.head.position))
        } else {
            (self.followed > end).then(|| format!("sled holds events up to position {}", self.followed))
        }
    }
}

/// Creates or checks the journal, and hands every record to `each`.
pub fn open(
    options: &JournalOptions,
    surroundings: &Surroundings,
    followed: Position,
    anchor: Option<&Anchor>,
    each: impl FnMut(Record<'_>),
) -> Result<Opened, OpenError> {
    let directory = options.journal_directory();
    fs::create_dir_all(&directory).map_err(OpenError::io("create", &directory))?;
    sync_parent(&directory).map_err(OpenError::io("sync", &directory))?;
    segment::remove_unfinished(&directory).map_err(OpenError::io("clean", &directory))?;
    let found = segment::list(&directory).map_err(OpenError::io("list", &directory))?;
    let head_path = directory.join("HEAD");
    let key = signing_key(options, surroundings, found.is_empty() && !head_path.exists())?;
    let segments = if found.is_empty() { vec![first_segment(options, surroundings, &head_path)?] } else { found };
    sync_last(&segments)?;
    let first = Window::open(segments[0].clone(), 1)?;
    let (head_file, head) = head_of(&head_path, key, &first, segments.len())?;
    let known = Known { head, followed };
    walk(options, segments, first.header, head_file, &known, anchor, each)
}

fn signing_key(options: &JournalOptions, surroundings: &Surroundings, new: bool) -> Result<SigningKey, OpenError> {
    let path = options.directory.join("signing.key");
    match chain::load_key(&path) {
        Ok(Some(key)) => Ok(key),
        Ok(None) if new => chain::create_key(&path, surroundings).map_err(OpenError::io("create", &path)),
        Ok(None) => Err(OpenError::Unvouched { file: path, reason: "the signing key is missing".to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(OpenError::Unvouched { file: path, reason: error.to_string() })
        }
        Err(error) => Err(OpenError::io("read", &path)(error)),
    }
}

fn first_segment(options: &JournalOptions, surroundings: &Surroundings, head: &Path) -> Result<PathBuf, OpenError> {
    if head.exists() {
        return Err(OpenError::Unvouched { file: head.to_owned(), reason: "all segments are missing".to_owned() });
    }
    let directory = options.journal_directory();
    let log = surroundings.uuid();
    let header = Header { log, first: 1, chain: ChainHash::genesis(log) };
    Preparation::start(&directory, options.segment_bytes)
        .finish()
        .and_then(|file| segment::put_to_use(&directory, &file, &header))
        .map_err(OpenError::io("create a segment in", &directory))
}

/// What is served from now on must be durable: after kill -9 the last group may be in the page cache only.
fn sync_last(segments: &[PathBuf]) -> Result<(), OpenError> {
    let Some(path) = segments.last() else { return Ok(()) };
    File::open(path).and_then(|file| file.sync_all()).map_err(OpenError::io("sync", path))
}

fn head_of(path: &Path, key: SigningKey, first: &Window, segments: usize) -> Result<(HeadFile, Head), OpenError> {
    let unvouched = |reason: String| OpenError::Unvouched { file: path.to_owned(), reason };
    let log = first.header.log;
    if path.exists() {
        return HeadFile::open(path, key, log).map_err(|error| match error {
            HeadError::Io(reason) => OpenError::io("read", path)(reason),
            other => unvouched(other.to_string()),
        });
    }
    if segments == 1 && first.is_unused()? {
        HeadFile::create(path, key, log).map_err(OpenError::io("create", path))
    } else {
        Err(unvouched("it is missing, and the journal is not empty".to_owned()))
    }
}

fn walk(
    options: &JournalOptions,
    segments: Vec<PathBuf>,
    header: Header,
    mut head_file: HeadFile,
    known: &Known,
    anchor: Option<&Anchor>,
    each: impl FnMut(Record<'_>),
) -> Result<Opened, OpenError> {
    let genesis = ChainHash::genesis(header.log);
    let reader = match anchor {
        None => JournalReader::new(segments, 1, genesis),
        Some(anchor) => reader_from(segments, anchor, known.head.position.min(known.followed))?,
    };
    let start = Head { position: Position(reader.next_position().0 - 1), chain: reader.chain() };
    let wanted: Vec<Head> = [known.head].into_iter().chain(anchor.map(Anchor::head)).collect();
    let wanted: Vec<Head> = wanted.into_iter().filter(|head| *head != start).collect();
    let (reader, missed) = pump::pump(reader, wanted, each)?;
    let vouched = missed.is_empty();
    let end = Head { position: Position(reader.next_position().0 - 1), chain: reader.chain() };
    let directory = options.journal_directory();
    let Some((segment, offset, flaw)) = reader.into_end() else {
        return Err(OpenError::Unvouched { file: directory, reason: "it has no segments".to_owned() });
    };
    let torn = judge_tail(&segment, offset, &flaw, &end, known)?;
    if !vouched {
        let position = missed.first().unwrap_or(&known.head).position;
        let who = if position == known.head.position { "HEAD was signed" } else { "the snapshot was taken" };
        let reason = format!("{who} for another history up to position {position}");
        return Err(segment.damaged(offset, position.0, reason));
    }
    let file = OpenOptions::new().read(true).write(true).open(&segment.path);
    let file = file.map_err(OpenError::io("open", &segment.path))?;
    if torn.is_some() {
        let length = options.segment_bytes.max(segment.length());
        blank(&file, offset as u64, length).map_err(OpenError::io("cut the tail of", &segment.path))?;
    }
    head_file.write(&end).map_err(OpenError::io("write HEAD in", &directory))?;
    Ok(Opened { header, head_file, head: end, file, offset: offset as u64, torn })
}

/// Decides whether what lies after the last whole record is nothing, a torn tail, or damage.
fn judge_tail(
    segment: &Window,
    offset: usize,
    flaw: &str,
    end: &Head,
    known: &Known,
) -> Result<Option<TornTail>, OpenError> {
    let next = end.position.0 + 1;
    let blank = segment.is_blank_from(offset)?;
    if let Some(witness) = known.beyond(end.position) {
        let what = if blank { "the journal ends here" } else { flaw };
        return Err(segment.damaged(offset, next, format!("{what}, but {witness}")));
    }
    if blank {
        return Ok(None);
    }
    let segment = segment.whole()?;
    if frame::parse(&segment.bytes, offset).is_ok() {
        return Err(segment.damaged(offset, next, flaw));
    }
    if let Some((at, later)) = frame::later_group(&segment.bytes, offset, next) {
        let reason = format!("{flaw}, but position {} at offset {at} was written later and is whole", later.position);
        return Err(segment.damaged(offset, next, reason));
    }
    let used = segment.bytes.iter().rposition(|byte| *byte != 0).map_or(offset, |last| last + 1);
    Ok(Some(TornTail {
        file: segment.path.clone(),
        offset: offset as u64,
        position: Position(next),
        bytes: (used - offset) as u64,
        reason: flaw.to_owned(),
    }))
}

/// Overwrites with zeros from the end to the front, so that a kill half-way leaves a tail that is judged as before.
fn blank(file: &File, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; 64 * 1024];
    let mut end = to;
    while end > from {
        let start = end.saturating_sub(zeros.len() as u64).max(from).max(RECORDS_START as u64);
        let length = usize::try_from(end - start).unwrap_or(0);
        file.write_all_at(&zeros[..length], start)?;
        end = start;
    }
    file.sync_all()
}
