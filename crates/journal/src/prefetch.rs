//! Prefetching: one thread reads and checks records while another applies them, because both cost about the same.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use crate::anchor::Anchor;
use crate::chain::JournalHead;
use crate::error::JournalError;
use crate::payload::PayloadDecoder;
use crate::reader::{JournalReader, JournalRecord};
use crate::records::RecordLocation;

/// Bytes of payload per batch.
const BATCH_BYTES: usize = 256 * 1024;
/// Maximum number of batches in the channel.
const BATCHES_MAX: usize = 4;

/// Consecutive records.
struct RecordBatch<D: PayloadDecoder> {
    /// Payloads of all records.
    bytes: Vec<u8>,
    /// Commit of each record, range of its payload in `bytes`, and location.
    records: Vec<(D::Commit, Range<usize>, RecordLocation)>,
}

impl<D: PayloadDecoder> Default for RecordBatch<D> {
    fn default() -> Self {
        Self { bytes: Vec::new(), records: Vec::new() }
    }
}

/// Records that a reader must encounter, and those it has encountered.
pub struct ExpectedRecords {
    head: JournalHead,
    /// End of the record of HEAD, once it was read: the first position of its segment, and the offset.
    pub head_end: Option<(u64, usize)>,
    /// The record of the anchor, until it was read.
    pub missing_anchor: Option<JournalHead>,
}

impl ExpectedRecords {
    /// Expects the records of HEAD and of the anchor. The record before the reader counts as read.
    pub fn new<D: PayloadDecoder>(reader: &JournalReader<D>, head: JournalHead, anchor: Option<&Anchor>) -> Self {
        let mut expected = Self { head, head_end: None, missing_anchor: anchor.map(Anchor::head) };
        expected.observe(reader);
        expected
    }

    fn observe<D: PayloadDecoder>(&mut self, reader: &JournalReader<D>) {
        let last_record = reader.last_record();
        if last_record == self.head {
            self.head_end = Some((reader.segment_start(), reader.offset));
        }
        if self.missing_anchor == Some(last_record) {
            self.missing_anchor = None;
        }
    }
}

/// Calls `on_record` with all records of `reader` in order. Returns the reader after the last intact record, with the
/// damage there, if any.
pub fn prefetch<D: PayloadDecoder>(
    reader: JournalReader<D>,
    expected: ExpectedRecords,
    on_record: &mut impl FnMut(JournalRecord<'_, D>),
) -> (JournalReader<D>, ExpectedRecords, Option<JournalError>) {
    thread::scope(|scope| {
        let (send_batch, batches) = sync_channel::<RecordBatch<D>>(BATCHES_MAX);

        // Processed batches go back to the reader thread, to be freed where they were allocated.
        let (return_batch, returned_batches) = channel::<RecordBatch<D>>();
        let reader_thread = scope.spawn(move || read_batches(reader, expected, &send_batch, &returned_batches));

        for batch in batches {
            for (commit, range, location) in &batch.records {
                let payload = &batch.bytes[range.clone()];
                on_record(JournalRecord { commit: commit.clone(), payload, location: *location });
            }
            // The send fails if the reader thread has ended.
            let _ = return_batch.send(batch);
        }

        reader_thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn read_batches<D: PayloadDecoder>(
    mut reader: JournalReader<D>,
    mut expected: ExpectedRecords,
    send_batch: &SyncSender<RecordBatch<D>>,
    returned_batches: &Receiver<RecordBatch<D>>,
) -> (JournalReader<D>, ExpectedRecords, Option<JournalError>) {
    let mut batch = RecordBatch::default();

    let damage = loop {
        match reader.next_record() {
            Ok(Some(JournalRecord { commit, payload, location })) => {
                let start = batch.bytes.len();
                batch.bytes.extend_from_slice(payload);
                batch.records.push((commit, start..batch.bytes.len(), location));
            }
            Ok(None) => break None,
            Err(damage) => break Some(damage),
        }

        expected.observe(&reader);
        if batch.bytes.len() >= BATCH_BYTES {
            let mut next = returned_batches.try_recv().unwrap_or_default();
            next.bytes.clear();
            next.records.clear();
            // The receiver lives until the last batch.
            let _ = send_batch.send(std::mem::replace(&mut batch, next));
        }
    };

    let _ = send_batch.send(batch);
    (reader, expected, damage)
}
