//! Prefetching: one thread reads and checks records while another applies them, because both cost about the same.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use crate::anchor::Anchor;
use crate::chain::Head;
use crate::error::JournalError;
use crate::payload::PayloadDecoder;
use crate::reader::{JournalReader, Record};

/// Bytes of payload per batch.
const BATCH_BYTES: usize = 256 * 1024;
/// Maximum number of batches in the channel.
const WAITING: usize = 4;

/// Consecutive records.
struct Batch<D: PayloadDecoder> {
    bytes: Vec<u8>,
    records: Vec<(D::Commit, Range<usize>)>,
}

impl<D: PayloadDecoder> Default for Batch<D> {
    fn default() -> Self {
        Self { bytes: Vec::new(), records: Vec::new() }
    }
}

/// Records that a reader must encounter, and those it has encountered.
pub struct Course {
    head: Head,
    /// Place where the record of HEAD ends, once it was read: the first position of its segment, and the offset.
    pub vouched: Option<(u64, usize)>,
    /// The record of the anchor, until it was read.
    pub missed: Option<Head>,
}

impl Course {
    /// Begins a course. The record before the reader counts as read.
    pub fn start<D: PayloadDecoder>(reader: &JournalReader<D>, head: Head, anchor: Option<&Anchor>) -> Self {
        let mut course = Self { head, vouched: None, missed: anchor.map(Anchor::head) };
        course.note(reader);
        course
    }

    fn note<D: PayloadDecoder>(&mut self, reader: &JournalReader<D>) {
        let reached = reader.reached();
        if reached == self.head {
            self.vouched = Some((reader.begun_at(), reader.offset));
        }
        if self.missed == Some(reached) {
            self.missed = None;
        }
    }
}

/// Calls `each` with all records of `reader` in order. Returns the reader at the place after the last intact record,
/// with the damage there, if any.
pub fn pump<D: PayloadDecoder>(
    reader: JournalReader<D>,
    course: Course,
    each: &mut impl FnMut(Record<'_, D>),
) -> (JournalReader<D>, Course, Option<JournalError>) {
    thread::scope(|scope| {
        let (full, batches) = sync_channel::<Batch<D>>(WAITING);

        // Processed batches go back to the reader thread, to be freed where they were allocated.
        let (back, used) = channel::<Batch<D>>();
        let reading = scope.spawn(move || read(reader, course, &full, &used));

        for batch in batches {
            for (commit, place) in &batch.records {
                each(Record { commit: commit.clone(), payload: &batch.bytes[place.clone()] });
            }
            // The send fails if the reader thread has ended.
            let _ = back.send(batch);
        }

        reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn read<D: PayloadDecoder>(
    mut reader: JournalReader<D>,
    mut course: Course,
    full: &SyncSender<Batch<D>>,
    used: &Receiver<Batch<D>>,
) -> (JournalReader<D>, Course, Option<JournalError>) {
    let mut batch = Batch::default();

    let stopped = loop {
        match reader.next_record() {
            Ok(Some(Record { commit, payload })) => {
                let start = batch.bytes.len();
                batch.bytes.extend_from_slice(payload);
                batch.records.push((commit, start..batch.bytes.len()));
            }
            Ok(None) => break None,
            Err(damage) => break Some(damage),
        }

        course.note(&reader);
        if batch.bytes.len() >= BATCH_BYTES {
            let mut next = used.try_recv().unwrap_or_default();
            next.bytes.clear();
            next.records.clear();
            // The receiver lives until the last batch.
            let _ = full.send(std::mem::replace(&mut batch, next));
        }
    };

    let _ = full.send(batch);
    (reader, course, stopped)
}
