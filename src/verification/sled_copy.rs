//! Verification of sled, the index of the journal, on a copy, because opening sled writes to it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::VerificationFindings;
use crate::environment::Environment;
use crate::events::journal::ScannedRecord;
use crate::events::sled_log::{IndexEnd, SledIndex};
use crate::events::stream::Position;
use crate::events::stream_counts::StreamHash;
use crate::events::verify::Finding;
use crate::pluralize::pluralize;

/// A copy of sled, with the state of the comparison.
pub(super) enum SledCopy {
    Absent,
    /// Sled cannot be copied; its state is unknown.
    Skipped(String),
    Unusable(String),
    Open(Box<OpenCopy>),
}

/// An open copy.
pub(super) struct OpenCopy {
    sled: SledIndex,
    end: Option<IndexEnd>,
    /// The last event of the journal so far.
    head: Position,
    /// Number of events that sled does not hold yet.
    behind: u64,
    wrong: Option<WrongEntries>,
    _scratch: ScratchDir,
}

/// Entries that do not lead to their records.
struct WrongEntries {
    first: Position,
    count: u64,
}

impl SledCopy {
    /// Copies sled from a data directory that is not in use.
    pub fn create(root: &Path, environment: &Environment) -> Self {
        let sled = root.join("log/sled");
        if !sled.is_dir() {
            return if sled.exists() { Self::Unusable("it is not a directory".to_owned()) } else { Self::Absent };
        }

        let copied = ScratchDir::new(environment).and_then(|scratch| copy_tree(&sled, &scratch.0).map(|()| scratch));
        let scratch = match copied {
            Err(error) => return Self::Skipped(format!("sled was not compared: it could not be copied ({error})")),
            Ok(scratch) => scratch,
        };

        let opened = SledIndex::open(&scratch.0).map_err(|error| error.reason);
        match opened.and_then(|sled| sled.end().map(|end| (sled, end))) {
            Err(reason) => Self::Unusable(reason),
            Ok((sled, end)) => {
                let head = Position(0);
                Self::Open(Box::new(OpenCopy { sled, end, head, behind: 0, wrong: None, _scratch: scratch }))
            }
        }
    }

    /// Compares the next record of the journal.
    pub fn compare(&mut self, record: &ScannedRecord<'_>) {
        if let Self::Open(copy) = self {
            copy.compare(record);
        }
    }

    /// Reports the result.
    pub fn finish(self, sled: &Path, found: &mut VerificationFindings) {
        match self {
            Self::Absent => {
                found.notes.push("sled is missing: the next start rebuilds it from the journal".to_owned());
            }
            Self::Skipped(reason) => found.unverified.push(reason),
            Self::Unusable(reason) => {
                let problem = format!("cannot open sled: {reason}; the next start rebuilds it from the journal");
                found.findings.push(Finding::in_file(sled, problem));
            }
            Self::Open(copy) => copy.finish(sled, found),
        }
    }
}

impl OpenCopy {
    fn compare(&mut self, record: &ScannedRecord<'_>) {
        let first = &record.commit[0];
        self.head = record.end.position;
        let Some(end) = self.end.filter(|end| first.position <= end.position) else {
            self.behind += record.commit.len() as u64;
            return;
        };

        let is_other_history = first.position == end.commit && record.end.chain != end.chain;
        let found = self.sled.location(StreamHash::from(&first.stream), first.position);
        if is_other_history || found != Ok(Some(record.location)) {
            let wrong = self.wrong.get_or_insert(WrongEntries { first: first.position, count: 0 });
            wrong.count += 1;
        }
    }

    fn finish(self, sled: &Path, found: &mut VerificationFindings) {
        let Self { end, head, behind, wrong, .. } = self;
        let mut report = |position, problem: String| {
            let problem = format!("{problem}; the next start rebuilds sled from the journal");
            found.findings.push(Finding { file: sled.to_owned(), offset: None, position: Some(position), problem });
        };

        if let Some(WrongEntries { first, count }) = wrong {
            let records = pluralize(count, "record");
            report(first, format!("the index does not lead to the record of the journal ({records} in total)"));
        }
        if let Some(end) = end.filter(|end| end.position > head) {
            let problem = format!("the record is not in the journal; sled ends at position {}", end.position);
            let position = Some(Position(head.0 + 1));
            found.findings.push(Finding { file: sled.to_owned(), offset: None, position, problem });
        }
        if behind > 0 {
            let behind = pluralize(behind, "event");
            found.notes.push(format!("sled is {behind} behind the journal: the next start updates it"));
        }
    }
}

/// Temporary directory, removed on drop.
pub(super) struct ScratchDir(PathBuf);

impl ScratchDir {
    fn new(environment: &Environment) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("mediary-verify-{}", environment.random_uuid()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // Best effort: the directory is in the system's temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
