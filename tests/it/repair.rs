//! Repairs at a start: the repaired parts, the evidence for them, and the exact errors of a refused start.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use mediary::events::envelope::RecordedEvent;
use mediary::events::journal::RepairedPart;
use mediary::events::log::EventLog;
use mediary::events::open_error::OpenError;
use mediary::events::sled_log::OpenReport;
use mediary::events::stream::Position;

use crate::journal::{LogFixture, all, flip, write_group};
use crate::support::client;
use crate::support::eventually::eventually;
use crate::support::process::{Process, TOKEN, command, run};

const RECORDS_START: usize = 512;
const FRAME_BYTES: usize = 56;

/// Log on disk, to be damaged, and its original content.
struct RepairCase {
    fixture: LogFixture,
    before: Vec<RecordedEvent>,
    files: Vec<(PathBuf, Vec<u8>)>,
}

/// Location of a record: its segment, its offset, its length with the frame.
type RecordRange = (PathBuf, usize, usize);

impl RepairCase {
    /// Creates and closes a log of `groups` groups of two records; sled has all of them.
    fn with_groups(groups: u64) -> Self {
        let fixture = LogFixture::with_groups(groups);
        let (log, report) = fixture.open();
        assert_eq!(report.messages(), [""; 0]);
        let before = all(&log);
        log.close().unwrap();
        drop(log);
        let journal = fs::read_dir(fixture.path("journal")).unwrap().map(|entry| entry.unwrap().path());
        let files = journal.map(|path| (path.clone(), fs::read(&path).unwrap())).collect();
        Self { fixture, before, files }
    }

    fn segments(&self) -> Vec<PathBuf> {
        let mut segments: Vec<_> = self.files.iter().map(|(path, _)| path.clone()).collect();
        segments.retain(|path| path.extension().is_some_and(|kind| kind == "seg"));
        segments.sort();
        segments
    }

    fn original(&self, path: &Path) -> &[u8] {
        &self.files.iter().find(|(file, _)| file == path).unwrap().1
    }

    /// Returns the records of a segment, before any damage.
    fn records(&self, segment: &Path) -> Vec<RecordRange> {
        let bytes = self.original(segment);
        let mut at = RECORDS_START;
        let mut ranges = Vec::new();
        while let Some(length) = bytes.get(at..at + 4).map(|length| u32::from_le_bytes(length.try_into().unwrap())) {
            if length == 0 {
                break;
            }
            let length = FRAME_BYTES + usize::try_from(length).unwrap();
            ranges.push((segment.to_owned(), at, length));
            at += length;
        }
        ranges
    }

    /// Starts and asserts that content and journal bytes are the original ones, and that the next start reports
    /// nothing.
    fn assert_repaired(&self) -> OpenReport {
        let (log, report) = self.fixture.open();
        assert_eq!(all(&log), self.before);
        log.close().unwrap();
        drop(log);
        for path in self.segments() {
            assert!(fs::read(&path).unwrap() == self.original(&path), "{} has other bytes", path.display());
        }
        let (log, second) = self.fixture.open();
        assert_eq!((all(&log), second.messages()), (self.before.clone(), Vec::new()));
        report
    }

    /// Like [`RepairCase::assert_repaired`], with `count` repaired records at one location.
    fn assert_records_repaired(&self, (segment, offset, _): &RecordRange, count: usize) {
        let report = self.assert_repaired();
        let [repaired] = report.repairs.as_slice() else { panic!("{report:?}") };
        assert_eq!((&repaired.file, repaired.offset), (segment, *offset as u64));
        assert_eq!(repaired.part, RepairedPart::Records(count), "{report:?}");
    }
}

fn overwrite(path: &Path, offset: usize, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, offset as u64).unwrap();
}

fn garbage((segment, offset, length): &RecordRange) {
    overwrite(segment, *offset, &vec![0xA5; *length]);
}

#[test]
fn a_damaged_record_is_repaired_if_its_own_chain_hash_proves_the_copy() {
    let case = RepairCase::with_groups(3);
    let (segment, offset, length) = case.records(&case.segments()[0])[2].clone();
    // Every byte of the frame except the chain hash, and some of the payload including its last byte.
    let frame = (0..24).step_by(5).chain([FRAME_BYTES, length - 1]);
    for byte in frame {
        flip(&segment, (offset + byte) as u64);
        case.assert_records_repaired(&(segment.clone(), offset, length), 1);
    }
    // The whole payload
    overwrite(&segment, offset + FRAME_BYTES, &vec![0; length - FRAME_BYTES]);
    case.assert_records_repaired(&(segment, offset, length), 1);
}

#[test]
fn a_garbage_record_is_repaired_if_the_next_record_proves_the_copy() {
    let case = RepairCase::with_groups(3);
    for record in &case.records(&case.segments()[0])[..5] {
        garbage(record);
        let report = case.fixture.open().1;
        assert_eq!(report.repairs[0].part, RepairedPart::Records(1), "{report:?}");
        let message = &report.messages()[0];
        let expected = format!("{} at offset {}, position", record.0.display(), record.1);
        assert!(message.starts_with("a damaged record in the journal, repaired from its copy in sled: "), "{message}");
        assert!(message.contains(&expected), "{message}");
    }
    assert_eq!(all(&case.fixture.open().0), case.before);
}

#[test]
fn the_last_record_is_repaired_if_head_proves_the_copy() {
    let case = RepairCase::with_groups(3);
    let last = case.records(&case.segments()[0]).pop().unwrap();
    garbage(&last);
    let report = case.fixture.open().1;
    assert_eq!((report.repairs[0].part, report.torn_tail), (RepairedPart::Records(1), None));
    assert_eq!(all(&case.fixture.open().0), case.before);
}

#[test]
fn the_last_record_of_a_segment_is_repaired_if_the_next_header_proves_the_copy() {
    let case = RepairCase::with_groups(60);
    let segments = case.segments();
    assert!(segments.len() > 1, "the log has one segment");
    garbage(&case.records(&segments[0]).pop().unwrap());
    assert_eq!(case.fixture.open().1.repairs[0].part, RepairedPart::Records(1));
    assert_eq!(all(&case.fixture.open().0), case.before);
}

#[test]
fn adjacent_damaged_records_are_repaired_together() {
    let case = RepairCase::with_groups(60);
    for segment in &case.segments()[..2] {
        let records = case.records(segment);
        for run in [&records[..1], &records[3..9], &records[..]] {
            run.iter().for_each(garbage);
            let report = case.fixture.open().1;
            assert_eq!(report.repairs.len(), 1, "{report:?}");
            assert_eq!(report.repairs[0].part, RepairedPart::Records(run.len()), "{report:?}");
        }
    }
    assert_eq!(all(&case.fixture.open().0), case.before);
}

#[test]
fn an_outdated_last_segment_is_completed_up_to_head() {
    let case = RepairCase::with_groups(3);
    let segment = case.segments().pop().unwrap();
    let from = case.records(&segment)[3].1;
    overwrite(&segment, from, &vec![0; case.original(&segment).len() - from]);
    let report = case.fixture.open().1;
    assert_eq!(report.repairs[0].part, RepairedPart::Records(3), "{report:?}");
    assert_eq!(all(&case.fixture.open().0), case.before);
}

#[test]
fn a_truncated_segment_is_repaired() {
    let case = RepairCase::with_groups(60);
    for segment in case.segments() {
        let (_, offset, length) = case.records(&segment).pop().unwrap();
        OpenOptions::new().write(true).open(&segment).unwrap().set_len((offset + length - 1) as u64).unwrap();
        assert_eq!(case.fixture.open().1.repairs[0].part, RepairedPart::Records(1));
        assert_eq!(all(&case.fixture.open().0), case.before);
    }
}

#[test]
fn a_damaged_segment_header_is_recomputed() {
    let case = RepairCase::with_groups(60);
    for segment in &case.segments()[..2] {
        for byte in [9, 30, 70] {
            flip(segment, byte);
            let report = case.assert_repaired();
            assert_eq!(report.repairs[0].part, RepairedPart::Header, "byte {byte} of {}", segment.display());
        }
        // A header is also recomputed if the first record is damaged as well
        overwrite(segment, 0, &[0xA5; 72]);
        garbage(&case.records(segment)[0]);
        let parts: Vec<_> = case.fixture.open().1.repairs.iter().map(|repaired| repaired.part).collect();
        assert_eq!(parts, [RepairedPart::Header, RepairedPart::Records(1)]);
        assert_eq!(all(&case.fixture.open().0), case.before);
    }
}

#[test]
fn a_missing_segment_is_rebuilt_from_sled() {
    let case = RepairCase::with_groups(200);
    let segments = case.segments();
    assert!(segments.len() > 3, "the log has too few segments");

    for missing in [0, 1] {
        fs::remove_file(&segments[missing]).unwrap();
        let report = case.fixture.open().1;
        let count = case.records(&segments[missing]).len();
        assert_eq!(
            (report.repairs[0].part, &report.repairs[0].file),
            (RepairedPart::Segment(count), &segments[missing])
        );
    }
    assert_eq!(all(&case.fixture.open().0), case.before);
    // The last segment is restored up to the position that HEAD confirms.
    fs::remove_file(&segments[segments.len() - 1]).unwrap();
    case.fixture.open();
    assert_eq!(all(&case.fixture.open().0), case.before);
}

#[test]
fn bytes_after_the_end_of_a_full_segment_are_cleared() {
    let case = RepairCase::with_groups(60);
    let segment = &case.segments()[0];
    let (_, offset, length) = case.records(segment).pop().unwrap();
    overwrite(segment, offset + length, &[7; 20]);
    let report = case.assert_repaired();
    assert_eq!(report.repairs[0].part, RepairedPart::Padding);
}

/// Adds a garbage entry after the last copy.
fn damage_last_copy(sled: &Path) {
    let db = sled::Config::new().path(sled).segment_size(8 * 1024 * 1024).open().unwrap();
    db.open_tree("copies").unwrap().insert(u64::MAX.to_be_bytes(), "garbage").unwrap();
    db.flush().unwrap();
}

#[test]
fn a_sled_with_a_damaged_last_copy_can_still_repair_the_journal() {
    let case = RepairCase::with_groups(3);
    garbage(&case.records(&case.segments()[0])[1]);
    // Its last copy is damaged, so it cannot be used as an index.
    damage_last_copy(&case.fixture.path("sled"));
    let (log, report) = case.fixture.open();
    assert_eq!(report.repairs[0].part, RepairedPart::Records(1));
    let failure = report.index_failure.expect("sled is replaced");
    assert_eq!(failure.reason, "its last copy is damaged");
    assert_eq!(all(&log), case.before);
}

#[test]
fn unprovable_damage_fails_the_start_with_instructions() {
    const REST: &str = "and no copy in the index is proven by the chain; keep a copy of the data directory, list all \
                        damage with `mediary audit verify`, then restore a backup into a new data directory with \
                        `mediary restore`";

    // Given a damaged record, and no sled
    let case = RepairCase::with_groups(3);
    let (segment, offset, _) = case.records(&case.segments()[0])[2].clone();
    fs::remove_dir_all(case.fixture.path("sled")).unwrap();
    flip(&segment, offset as u64 + 60);

    // Then the start fails with this error, twice
    for _ in 0..2 {
        let message = case.fixture.open_error().to_string();
        let expected = "position 3: the checksum of the record is wrong, but HEAD says that events up to position 6 were \
                    acknowledged";
        assert_eq!(message, format!("damage in {} at offset {offset}, {expected}, {REST}", segment.display()));
    }

    // And the same with the sled of another log, whose copies prove nothing
    flip(&segment, offset as u64 + 60);
    let other = RepairCase::with_groups(3);
    garbage(&other.records(&other.segments()[0])[2]);
    fs::remove_dir_all(other.fixture.path("sled")).unwrap();
    let foreign_log = LogFixture::new();
    let log = foreign_log.open().0;
    for index in 0..9 {
        assert!(log.append(vec![crate::samples::append(5, index, index, 1)]).unwrap()[0].is_ok());
    }
    log.close().unwrap();
    drop(log);
    fs::rename(foreign_log.path("sled"), other.fixture.path("sled")).unwrap();
    let OpenError::Damaged { position, .. } = other.fixture.open_error() else { panic!("another refusal") };
    assert_eq!(position, Position(3));
}

/// Damages the first record of the journal.
fn damage(data: &Path) {
    flip(&data.join("log/journal/00000000000000000001.seg"), (RECORDS_START + FRAME_BYTES + 5) as u64);
}

/// Starts a service and kills it once HEAD covers its log: damage behind HEAD is a torn tail.
fn start_and_kill(data: &Path) {
    let service = Process::start(data);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let is_signed = async || {
        let reply = client().get(service.url("/admin/state")).bearer_auth(TOKEN).send().await.unwrap();
        let state: serde_json::Value = reply.json().await.unwrap();
        state["log"]["signed"].as_u64() > Some(0) && state["log"]["signed"] == state["log"]["head"]
    };
    runtime.block_on(eventually("HEAD is signed", is_signed));
    service.kill();
}

/// Damages the first record of a data directory and starts on it.
fn started_with_damage(data: &Path) -> Result<Process, String> {
    damage(data);
    Process::try_start(&mut command(data))
}

#[test]
fn only_durable_copies_repair_records() {
    // Given a new log after a kill: sled has written nothing yet
    let dir = tempfile::tempdir().unwrap();
    start_and_kill(dir.path());
    assert_eq!(fs::metadata(dir.path().join("log/sled/db")).unwrap().len(), 0);

    // When a record is damaged, then the start names it and the remedy
    let message = started_with_damage(dir.path()).err().expect("no start");
    assert!(message.contains("no copy in the index is proven") && message.contains("mediary restore"), "{message}");

    // Given another one, with a kill and a clean stop since
    let dir = tempfile::tempdir().unwrap();
    start_and_kill(dir.path());
    let (status, errors) = Process::start(dir.path()).terminate();
    assert_eq!(status.code(), Some(0), "{errors}");

    // When a record is damaged, then it is repaired
    let restarted = started_with_damage(dir.path()).expect("it starts");
    assert!(restarted.printed().contains("repaired from its copy in sled"), "{}", restarted.printed());

    // And a rebuild repairs it too, and reports it
    restarted.terminate();
    damage(dir.path());
    let expected_lines = ["found a damaged record in the journal, repaired from its copy in sled", " replayed in"];
    run(dir.path(), &["projections", "rebuild"]).expect(0).assert_contains(&expected_lines);
}

#[test]
fn a_lost_tail_beyond_head_fails_the_start() {
    // Given a stale HEAD, a journal cut to it, and a sled with more records
    let case = RepairCase::with_groups(2);
    let segment = case.segments().pop().unwrap();
    write_more_and_forget(&case.fixture, &segment);

    // Then there is no evidence of the lost records
    let message = case.fixture.open_error().to_string();
    assert!(
        message.contains("the index holds events up to position 6, and no copy in the index is proven by the chain"),
        "{message}"
    );
}

/// Writes a third group that only sled keeps.
fn write_more_and_forget(fixture: &LogFixture, segment: &Path) {
    let head = fs::read(fixture.path("journal/HEAD")).unwrap();
    let bytes = fs::read(segment).unwrap();
    let log = fixture.open().0;
    write_group(&log, 2);
    log.close().unwrap();
    drop(log);
    fs::write(fixture.path("journal/HEAD"), head).unwrap();
    fs::write(segment, bytes).unwrap();
}

#[test]
fn damage_in_any_byte_is_repaired_or_reported_and_never_served() {
    // Given two segments, sled and HEAD, with any byte of the journal damaged
    let case = RepairCase::with_groups(40);
    let mut repaired = 0;
    for (path, bytes) in &case.files {
        for at in (0..bytes.len()).step_by(911) {
            flip(path, at as u64);

            // When the log opens, then the content is unchanged or the damage is named
            match case.fixture.try_open() {
                Ok((log, report)) => {
                    assert_eq!(all(&log), case.before, "byte {at} of {}", path.display());
                    repaired += report.repairs.len();
                }
                Err(error) => assert!(error.to_string().contains(path.to_str().unwrap()), "byte {at}: {error}"),
            }
            fs::write(path, bytes).unwrap();
        }
    }
    assert!(repaired > 3, "only {repaired} records were repaired");
    assert!(File::open(case.fixture.path("journal/HEAD")).is_ok());
}
