//! Scan of the files of a journal that reports every defect. It changes nothing. At damage that would prevent a start,
//! it reports the damage and continues at the next intact record.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::chain::{ChainHash, JournalHead};
use crate::error::JournalError;
use crate::frame::{self, FRAME_BYTES, RECORDS_START, RecordFrame, SegmentHeader};
use crate::location::position_in_name;
use crate::payload::{PAYLOAD_BYTES_MAX, PayloadDecoder};
use crate::position::Position;
use crate::records::RecordLocation;
use crate::segment;

/// An intact record. Gaps before it have already been reported.
pub struct ScannedRecord<'w, D: PayloadDecoder> {
    /// The decoded payload.
    pub commit: D::Commit,
    /// The bytes that [`PayloadDecoder::decode`] reads.
    pub payload: &'w [u8],
    /// The last event of the record, with its chain hash.
    pub end: JournalHead,
    /// The segment.
    pub file: &'w Path,
    /// Offset of the record in the file.
    pub offset: u64,
    /// Location of the record, for an index.
    pub location: RecordLocation,
}

/// A defect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalDamage {
    /// File of the damage.
    pub file: PathBuf,
    /// Offset in the file.
    pub offset: u64,
    /// The affected position, or the next expected one.
    pub position: Position,
    /// Description of the defect.
    pub reason: String,
}

/// Receives the results of a scan, in the order of the journal.
pub trait ScanVisitor<D: PayloadDecoder> {
    /// Called for each intact record.
    fn visit_record(&mut self, record: &ScannedRecord<'_, D>);
    /// Called for each defect.
    fn visit_damage(&mut self, damage: JournalDamage);
    /// Called at the end of a segment. `used` holds its bytes without the zeros after the last record.
    ///
    /// # Errors
    /// An error ends the scan.
    fn visit_segment(&mut self, path: &Path, used: &[u8]) -> Result<(), JournalError>;
}

/// End of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanEnd {
    /// The last intact record, or the state before the first one.
    pub head: JournalHead,
    /// Defect after the last record, in bytes that were never acknowledged. The next start removes them.
    pub torn: Option<JournalDamage>,
}

/// Records that a scan reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanExtent {
    /// Records up to HEAD, because a service may be writing after it.
    UpToHead,
    /// All records.
    Everything,
}

/// Returns the segments of a journal, in order.
///
/// # Errors
/// If the directory cannot be read.
pub fn segments(directory: &Path) -> Result<Vec<PathBuf>, JournalError> {
    segment::list(directory).map_err(JournalError::io("list", directory))
}

/// Returns the id of the log that these segments belong to, from the first intact header.
#[must_use]
pub fn read_log_id(segments: &[PathBuf]) -> Option<Uuid> {
    segments.iter().find_map(|path| Some(segment::read_header(path, 1).ok()?.log))
}

/// Scans the segments of `log`. `acknowledged` is the signed HEAD: bad bytes after it may belong to a write that was
/// never acknowledged.
///
/// # Errors
/// If a file cannot be read, or the visitor ends the scan.
pub fn scan<D: PayloadDecoder>(
    segments: &[PathBuf],
    log: Uuid,
    acknowledged: Option<JournalHead>,
    extent: ScanExtent,
    visitor: &mut dyn ScanVisitor<D>,
) -> Result<ScanEnd, JournalError> {
    let until = match (extent, acknowledged) {
        (ScanExtent::UpToHead, Some(head)) => head.position.0,
        _ => u64::MAX,
    };
    let acknowledged = acknowledged.map_or(0, |head| head.position.0);
    let mut scanner =
        Scanner { log, next: 1, chain: Some(ChainHash::genesis(log)), acknowledged, until, torn: None, visitor };

    for (index, path) in segments.iter().enumerate() {
        if scanner.next > until {
            break;
        }
        scanner.scan_segment(path, index + 1 == segments.len())?;
    }

    let chain = scanner.chain.unwrap_or(ChainHash([0; 32]));
    Ok(ScanEnd { head: JournalHead { position: Position(scanner.next - 1), chain }, torn: scanner.torn })
}

struct Scanner<'w, D> {
    log: Uuid,
    next: u64,
    /// `None` if damage hides the previous record.
    chain: Option<ChainHash>,
    acknowledged: u64,
    until: u64,
    torn: Option<JournalDamage>,
    visitor: &'w mut dyn ScanVisitor<D>,
}

impl<D: PayloadDecoder> Scanner<'_, D> {
    fn scan_segment(&mut self, path: &Path, is_last: bool) -> Result<(), JournalError> {
        let bytes = fs::read(path).map_err(JournalError::io("read", path))?;
        self.check_header(path, &bytes);
        let mut offset = RECORDS_START.min(bytes.len());

        while self.next <= self.until {
            match frame::parse(&bytes, offset) {
                Ok(frame) => {
                    self.check_record(path, &bytes, offset, &frame);
                    offset = frame.payload.end;
                }
                Err(_) if is_blank(&bytes[offset..]) => {
                    self.check_end(path, offset, is_last);
                    break;
                }
                Err(flaw) => match self.find_next_record(path, &bytes, offset, flaw, is_last) {
                    Some(next) => offset = next,
                    None => break,
                },
            }
        }

        self.visitor.visit_segment(path, &bytes[..offset])
    }

    /// Compares the header of a segment with the records before it.
    fn check_header(&mut self, path: &Path, bytes: &[u8]) {
        let header = match SegmentHeader::parse(bytes) {
            Ok(header) if header.log == self.log => header,
            Ok(header) => {
                return self.report(path, 0, format!("the segment belongs to another log ({})", header.log));
            }
            Err(reason) => {
                self.report(path, 0, reason.to_owned());
                // The file name still states its first position.
                let expected = position_in_name(path).unwrap_or(self.next);
                self.chain = self.chain.filter(|_| expected == self.next);
                self.next = expected;
                return;
            }
        };

        if header.first > self.next {
            self.report(
                path,
                0,
                format!("the segment begins with position {}: {}", header.first, self.describe_gap(header.first)),
            );
        } else if header.first < self.next {
            self.report(path, 0, format!("the segment begins again with position {}", header.first));
        } else if self.chain.is_some_and(|chain| chain != header.chain) {
            self.report(path, 0, "the segment belongs to another history".to_owned());
        }
        self.next = header.first;
        self.chain = Some(header.chain);

        if position_in_name(path).is_some_and(|position| position != header.first) {
            self.report(path, 0, format!("the segment begins with position {}, which is not its name", header.first));
        }
    }

    fn check_record(&mut self, path: &Path, bytes: &[u8], offset: usize, frame: &RecordFrame) {
        let payload = &bytes[frame.payload.clone()];
        if frame.position > self.next {
            self.report(path, offset, self.describe_gap(frame.position));
        } else if frame.position < self.next {
            self.report(path, offset, format!("the record has position {} again", frame.position));
        } else if self.chain.is_some_and(|chain| frame.chain != chain.next(payload)) {
            let reason = "the record does not follow from the one before it (hash chain)";
            self.report(path, offset, reason.to_owned());
        }
        self.next = frame.position;
        self.chain = Some(frame.chain);

        match D::decode(payload) {
            Ok(commit) if D::first_position(&commit).0 == frame.position => {
                self.next += D::event_count(&commit);
                let end = JournalHead { position: Position(self.next - 1), chain: frame.chain };
                let offset = offset as u64;
                let segment = position_in_name(path).unwrap_or_default();
                let location = RecordLocation { segment, offset, checksum: frame.checksum };
                self.visitor.visit_record(&ScannedRecord { commit, payload, end, file: path, offset, location });
            }
            Ok(commit) => {
                self.report(path, offset, format!("the record holds position {}", D::first_position(&commit)));
                self.next += D::event_count(&commit);
            }
            Err(reason) => {
                self.report(path, offset, reason);
                // The number of events is unknown, so the next record determines the position.
                self.next = position_after(bytes, frame).unwrap_or(frame.position + 1);
            }
        }
    }

    /// Reports the defect at `offset`, and finds the next intact record.
    fn find_next_record(
        &mut self,
        path: &Path,
        bytes: &[u8],
        offset: usize,
        flaw: &str,
        is_last: bool,
    ) -> Option<usize> {
        if let Some((at, frame)) = find_intact_record(bytes, offset + 1, self.next) {
            let is_unfinished =
                is_last && self.next > self.acknowledged && frame::find_later_group(bytes, offset, self.next).is_none();
            if is_unfinished {
                self.torn = Some(self.damage(path, offset, flaw.to_owned()));
                return None;
            }

            let missing = if frame.position > self.next {
                self.describe_gap(frame.position)
            } else {
                "no event is missing".to_owned()
            };
            self.report(path, offset, format!("{flaw}; {missing}; the next intact record is at offset {at}"));
            // The damage hides the hashes up to this record, whose own hash continues the chain.
            self.next = frame.position;
            self.chain = None;
            return Some(at);
        }

        if is_last && self.next > self.acknowledged {
            self.torn = Some(self.damage(path, offset, flaw.to_owned()));
        } else {
            self.report(path, offset, format!("{flaw}; nothing after it in this file is intact"));
            self.chain = None;
        }
        None
    }

    fn check_end(&mut self, path: &Path, offset: usize, is_last: bool) {
        if is_last && self.next <= self.acknowledged {
            let head = self.acknowledged;
            self.report(
                path,
                offset,
                format!("the journal ends here, but HEAD says that events up to position {head} were acknowledged"),
            );
        }
    }

    /// Describes the positions that are missing before `position`.
    fn describe_gap(&self, position: u64) -> String {
        match position - self.next {
            1 => format!("position {} is missing", self.next),
            _ => format!("positions {} to {} are missing", self.next, position - 1),
        }
    }

    fn report(&mut self, path: &Path, offset: usize, reason: String) {
        let damage = self.damage(path, offset, reason);
        self.visitor.visit_damage(damage);
    }

    fn damage(&self, path: &Path, offset: usize, reason: String) -> JournalDamage {
        JournalDamage { file: path.to_owned(), offset: offset as u64, position: Position(self.next), reason }
    }
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Returns the position of the record directly after another one.
fn position_after(bytes: &[u8], frame: &RecordFrame) -> Option<u64> {
    frame::parse(bytes, frame.payload.end).ok().map(|next| next.position).filter(|next| *next > frame.position)
}

/// Returns the offset and the frame of the first intact record from `offset` on that may come after position `next`.
fn find_intact_record(bytes: &[u8], offset: usize, next: u64) -> Option<(usize, RecordFrame)> {
    // A segment cannot contain more events than bytes.
    let plausible: Range<u64> = next..next.saturating_add(bytes.len() as u64);

    (offset..bytes.len().saturating_sub(FRAME_BYTES)).find_map(|at| {
        let u64_at = |from: usize| bytes[from..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let length = bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)) as usize;
        // A frame begins with the length of its payload, and has its position at offset 8.
        let is_plausible = (1..=PAYLOAD_BYTES_MAX).contains(&length) && plausible.contains(&u64_at(at + 8));
        let frame = is_plausible.then(|| frame::parse(bytes, at))?.ok()?;
        Some((at, frame))
    })
}
