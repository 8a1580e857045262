//! The writer of a journal. A commit is acknowledged only after it is durable here.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uuid::Uuid;

use crate::anchor::Anchor;
use crate::chain::{HeadFile, JournalHead};
use crate::checkpoint::SignedCheckpoint;
use crate::environment::{Environment, JournalStep};
use crate::error::{JournalError, WriteError, missing_resource};
use crate::frame::{self, FRAME_BYTES, RECORDS_START, SegmentHeader};
use crate::location::JournalLocation;
use crate::open;
use crate::payload::{PAYLOAD_BYTES_MAX, PayloadDecoder, PayloadTooLarge};
use crate::position::Position;
use crate::reader::{JournalReader, JournalRecord};
use crate::records::RecordLocation;
use crate::repair::{CopySource, JournalRepair};
use crate::segment::{self, SegmentPreparation};

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
}

impl JournalOptions {
    /// Creates options with segments of 64 MiB, synced by fdatasync.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        let sync = Arc::new(File::sync_data);
        Self { directory: directory.into(), segment_bytes: 64 * 1024 * 1024, sync }
    }

    pub(crate) fn journal_directory(&self) -> PathBuf {
        self.directory.join("journal")
    }
}

/// The end of a group that was never acknowledged, removed at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The segment.
    pub file: PathBuf,
    /// Offset of the first bad byte.
    pub offset: u64,
    /// Position that the first bad record would have had.
    pub position: Position,
    /// Number of bytes removed.
    pub bytes: u64,
    /// Defect of the first bad byte.
    pub reason: String,
}

/// An opened journal, with what had to be removed and repaired.
pub struct OpenedJournal<D: PayloadDecoder> {
    /// The journal.
    pub journal: Journal<D>,
    /// The removed torn tail.
    pub torn_tail: Option<TornTail>,
    /// The repaired parts.
    pub repairs: Vec<JournalRepair>,
}

/// A journal open for appending by one thread.
pub struct Journal<D: PayloadDecoder> {
    options: JournalOptions,
    header: SegmentHeader,
    head_file: HeadFile,
    /// The last durable record.
    head: JournalHead,
    /// The position in the signed HEAD.
    signed_position: Position,
    file: File,
    /// The first position of the segment in `file`.
    segment_start: u64,
    /// Offset in `file` of the next record.
    offset: u64,
    /// The segment after the current one, once its preparation has begun.
    next: Option<SegmentPreparation>,
    group: StagedGroup,
    sync_count: u64,
    environment: Arc<dyn Environment>,
    decoder: PhantomData<fn() -> D>,
}

/// Purpose of the required disk space, in messages for operators.
const SEGMENT_PURPOSE: &str = "a new journal segment";

/// The records that the next write makes durable together.
struct StagedGroup {
    bytes: Vec<u8>,
    /// Offset in `bytes` and checksum of each record.
    records: Vec<(usize, u32)>,
    /// The last record of the group, or the head of the journal if the group is empty.
    end: JournalHead,
}

impl StagedGroup {
    /// Creates an empty group after `head`.
    fn new(head: JournalHead) -> Self {
        Self { bytes: Vec::new(), records: Vec::new(), end: head }
    }
}

impl<D: PayloadDecoder> Journal<D> {
    /// Opens or creates the journal. `processed` is the position up to which an index holds events; 0 without one. An
    /// index only receives durable events, so a journal that ends earlier was cut. Calls `on_record` with every
    /// verified record in order.
    ///
    /// # Errors
    /// If the journal is damaged, or the file system fails.
    pub fn open(
        options: JournalOptions,
        environment: Arc<dyn Environment>,
        processed: Position,
        on_record: impl FnMut(JournalRecord<'_, D>),
    ) -> Result<(Self, Option<TornTail>), JournalError> {
        Self::open_and_repair(options, environment, processed, None, &mut |_| None, on_record)
            .map(|opened| (opened.journal, opened.torn_tail))
    }

    /// Opens the journal like [`Journal::open`], and repairs damaged records. `copies` returns the payload of the
    /// commit that begins at a position; a copy is used if the chain proves it. With an anchor, the check of the
    /// records before it is left for later: `on_record` receives those after it, or after `processed` if that is
    /// earlier.
    ///
    /// # Errors
    /// See [`Journal::open`]; also if the journal does not hold the anchor.
    pub fn open_and_repair(
        options: JournalOptions,
        environment: Arc<dyn Environment>,
        processed: Position,
        anchor: Option<&Anchor>,
        copies: &mut CopySource<'_>,
        on_record: impl FnMut(JournalRecord<'_, D>),
    ) -> Result<OpenedJournal<D>, JournalError> {
        let open::JournalState { header, head_file, head, file, segment_start, offset, torn_tail, repairs } =
            open::open(&options, &environment, processed, anchor, copies, on_record)?;

        let journal = Self {
            options,
            header,
            head_file,
            head,
            signed_position: head.position,
            file,
            segment_start,
            offset,
            next: None,
            group: StagedGroup::new(head),
            sync_count: 0,
            environment,
            decoder: PhantomData,
        };
        Ok(OpenedJournal { journal, torn_tail, repairs })
    }

    /// Returns the last durable event.
    #[must_use]
    pub fn head(&self) -> Position {
        self.head.position
    }

    /// Returns the position up to which HEAD is signed.
    #[must_use]
    pub fn signed_position(&self) -> Position {
        self.signed_position
    }

    /// Returns the last staged event, or the head if nothing is staged.
    #[must_use]
    pub fn staged_head(&self) -> Position {
        self.group.end.position
    }

    /// Returns the end of the durable records, with its chain hash.
    #[must_use]
    pub fn journal_head(&self) -> JournalHead {
        self.head
    }

    /// Returns the id of the log.
    #[must_use]
    pub fn log_id(&self) -> Uuid {
        self.header.log
    }

    /// Returns the number of groups synced since the journal was opened.
    #[must_use]
    pub fn sync_count(&self) -> u64 {
        self.sync_count
    }

    /// Adds a commit of `events` events to the group. `encode` appends its payload, in which the first event must have
    /// the position after [`Journal::staged_head`].
    ///
    /// # Errors
    /// If `encode` fails, or the payload exceeds [`PAYLOAD_BYTES_MAX`]. The group is then unchanged.
    pub fn stage(
        &mut self,
        events: u64,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), PayloadTooLarge>,
    ) -> Result<(), PayloadTooLarge> {
        let StagedGroup { bytes, records, end } = &mut self.group;
        let start = bytes.len();
        let payload_start = start + FRAME_BYTES;
        bytes.resize(payload_start, 0);

        let result = encode(bytes).and_then(|()| match bytes.len() - payload_start {
            length if length <= PAYLOAD_BYTES_MAX => Ok(()),
            length => Err(PayloadTooLarge { bytes: length }),
        });
        if let Err(error) = result {
            bytes.truncate(start);
            return Err(error);
        }

        let chain = end.chain.next(&bytes[payload_start..]);
        let checksum = frame::write_frame(&mut bytes[start..], end.position.0 + 1, self.head.position.0 + 1, &chain);
        records.push((start, checksum));
        *end = JournalHead { position: Position(end.position.0 + events), chain };

        self.environment.step_done(JournalStep::Staged);
        Ok(())
    }

    /// Makes the group durable with one write and one sync, and returns the locations of its records in order.
    ///
    /// # Errors
    /// Returns [`WriteError::Full`] if disk space or a file descriptor is missing: the group is dropped and the journal
    /// unchanged. After any other failure the state of the disk is unknown, and the journal must not be written again.
    pub fn write_group(&mut self) -> Result<Vec<RecordLocation>, WriteError> {
        self.make_durable().inspect_err(|_| self.discard_group())?;
        let StagedGroup { bytes, records, end } = &mut self.group;
        let segment = self.segment_start;
        let location = |(at, checksum)| RecordLocation { segment, offset: self.offset + at as u64, checksum };
        let locations = records.drain(..).map(location).collect();

        self.offset += bytes.len() as u64;
        self.head = *end;
        bytes.clear();
        self.prepare_next();
        Ok(locations)
    }

    /// Drops the staged commits.
    pub fn discard_group(&mut self) {
        self.group = StagedGroup::new(self.head);
    }

    fn make_durable(&mut self) -> Result<(), WriteError> {
        let remaining = self.options.segment_bytes.saturating_sub(self.offset);
        if self.group.bytes.len() as u64 > remaining && self.offset > RECORDS_START as u64 {
            self.start_segment()?;
        }
        self.write_staged()?;
        self.environment.step_done(JournalStep::Written);

        self.sync_count += 1;
        (self.options.sync)(&self.file).map_err(WriteError::storage("sync the journal"))?;
        self.environment.step_done(JournalStep::Synced);
        Ok(())
    }

    /// Writes the group. If the disk is full, removes the partial write.
    fn write_staged(&self) -> Result<(), WriteError> {
        let length = self.file.metadata().map_err(WriteError::storage("read the journal"))?.len();
        let (written, error) = segment::write_counted(&self.file, &self.group.bytes, self.offset);
        let Some(error) = error else { return Ok(()) };

        let Some(full) = WriteError::full("write to the journal", &error) else {
            return Err(WriteError::storage("write to the journal")(error));
        };

        segment::revert_write(&self.file, self.offset, self.offset + written, length)
            .and_then(|()| (self.options.sync)(&self.file))
            .map_err(WriteError::storage("truncate the journal after a failed write"))?;
        Err(full)
    }

    /// Starts preparing the next segment when the current one is half full, if there is disk space.
    fn prepare_next(&mut self) {
        let bytes = self.options.segment_bytes;
        if self.next.is_none()
            && self.offset >= bytes / 2
            && self.environment.check_space(SEGMENT_PURPOSE, bytes).is_ok()
        {
            self.next = Some(SegmentPreparation::start(&self.options.journal_directory(), bytes, &self.environment));
        }
    }

    /// Continues in a new segment.
    fn start_segment(&mut self) -> Result<(), WriteError> {
        let directory = self.options.journal_directory();
        let file = self.take_prepared_segment(&directory)?;
        let header = SegmentHeader { log: self.header.log, first: self.head.position.0 + 1, chain: self.head.chain };

        segment::activate(&directory, &file, &header, self.environment.as_ref()).map_err(|error| {
            // A segment whose name may or may not be durable would be read at the next start.
            if segment::segment_path(&directory, header.first).exists() {
                return WriteError::storage("start a journal segment")(error);
            }
            let _ = segment::remove_unfinished(&directory);
            WriteError::before_write("start a journal segment")(error)
        })?;
        self.file = file;
        self.segment_start = header.first;
        self.offset = RECORDS_START as u64;

        match self.sign_head().and_then(|()| self.head_file.sync()) {
            // An older HEAD covers less, but nothing wrong.
            Err(error) if missing_resource(&error).is_some() => {
                tracing::warn!(%error, "HEAD write failed, will retry");
            }
            result => result.map_err(WriteError::storage("sign the end of a journal segment"))?,
        }
        Ok(())
    }

    /// Returns the prepared segment, or prepares one now, even if there was no space for it before.
    fn take_prepared_segment(&mut self, directory: &Path) -> Result<File, WriteError> {
        match self.next.take().map(SegmentPreparation::finish) {
            Some(Ok(file)) => return Ok(file),
            Some(Err(error)) => tracing::warn!(%error, "journal segment not prepared, will retry"),
            None => {}
        }

        let bytes = self.options.segment_bytes;
        self.environment.check_space(SEGMENT_PURPOSE, bytes).map_err(|reason| WriteError::Full { reason })?;
        let preparation = SegmentPreparation::start(directory, bytes, &self.environment);
        preparation.finish().map_err(WriteError::before_write("prepare a journal segment"))
    }

    /// Signs the end of the acknowledged records into HEAD, without syncing.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn sign_head(&mut self) -> io::Result<()> {
        if self.signed_position != self.head.position {
            self.head_file.write(&self.head)?;
            self.signed_position = self.head.position;
            self.environment.step_done(JournalStep::HeadSigned);
        }
        Ok(())
    }

    /// Signs a checkpoint at the last durable record. `at_micros` is the time in microseconds since 1970.
    #[must_use]
    pub fn checkpoint(&self, at_micros: i64) -> SignedCheckpoint {
        self.head_file.checkpoint(self.head, at_micros)
    }

    /// Makes HEAD durable and joins the preparing thread.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn close(&mut self) -> io::Result<()> {
        self.sign_head()?;
        self.head_file.sync()?;
        self.environment.step_done(JournalStep::HeadSynced);
        self.join_preparation();
        Ok(())
    }

    /// Waits for the segment in preparation, so that its thread does not interfere with a journal opened next in the
    /// same directory.
    fn join_preparation(&mut self) {
        if let Some(Err(error)) = self.next.take().map(SegmentPreparation::finish) {
            tracing::warn!(%error, "journal segment not prepared");
        }
    }

    /// Reads the durable records that hold events after `after`. The first record may begin before it.
    ///
    /// # Errors
    /// If the file system fails, or the first segment to read is damaged.
    pub fn read_from(&self, after: Position) -> Result<JournalReader<D>, JournalError> {
        self.location().read(after, self.head.position)
    }

    /// Returns the location of the records, for readers other than the writer.
    #[must_use]
    pub fn location(&self) -> JournalLocation {
        JournalLocation::new(self.options.journal_directory(), self.header.log)
    }
}

impl<D: PayloadDecoder> Drop for Journal<D> {
    fn drop(&mut self) {
        self.join_preparation();
    }
}
