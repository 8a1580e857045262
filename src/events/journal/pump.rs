//! Reading on one thread, working on another: checking and decoding a record costs about as much as folding it.

use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use super::error::OpenError;
use super::reader::{JournalReader, Record};
use crate::events::chain::Head;
use crate::events::envelope::Commit;
use crate::events::stream::Position;

/// Bytes of payload that are handed over at once.
const BATCH_BYTES: usize = 256 * 1024;
/// Batches that may wait.
const WAITING: usize = 4;

/// Records that follow each other.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    records: Vec<(Commit, Range<usize>)>,
}

/// Hands all that `reader` reads to `each`, in order. Gives the reader back where nothing whole is left, and those of
/// `heads` that it did not come by.
///
/// # Errors
/// As [`JournalReader::next_record`].
pub fn pump(
    reader: JournalReader,
    heads: Vec<Head>,
    mut each: impl FnMut(Record<'_>),
) -> Result<(JournalReader, Vec<Head>), OpenError> {
    thread::scope(|scope| {
        let (full, batches) = sync_channel::<Batch>(WAITING);
        // What was worked on goes back, to be freed where it was allocated.
        let (back, used) = channel::<Batch>();
        let reading = scope.spawn(move || read(reader, heads, &full, &used));
        for batch in batches {
            for (commit, place) in &batch.records {
                each(Record { commit: commit.clone(), payload: &batch.bytes[place.clone()] });
            }
            // The reader may have come to its end.
            let _ = back.send(batch);
        }
        reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn read(
    mut reader: JournalReader,
    mut heads: Vec<Head>,
    full: &SyncSender<Batch>,
    used: &Receiver<Batch>,
) -> Result<(JournalReader, Vec<Head>), OpenError> {
    let mut batch = Batch::default();
    let outcome = loop {
        match reader.next_record() {
            Ok(Some(Record { commit, payload })) => {
                let start = batch.bytes.len();
                batch.bytes.extend_from_slice(payload);
                batch.records.push((commit, start..batch.bytes.len()));
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
        let reached = Head { position: Position(reader.next_position().0 - 1), chain: reader.chain() };
        heads.retain(|head| *head != reached);
        if batch.bytes.len() >= BATCH_BYTES {
            let mut next = used.try_recv().unwrap_or_default();
            next.bytes.clear();
            next.records.clear();
            // Whoever works on them is there until the last one.
            let _ = full.send(std::mem::replace(&mut batch, next));
        }
    };
    let _ = full.send(batch);
    outcome.map(|()| (reader, heads))
}
