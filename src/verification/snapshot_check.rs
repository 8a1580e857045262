//! Verification of the read model snapshot against a replay of the log up to the snapshot's position.

use std::path::{Path, PathBuf};

use crate::events::journal::ScannedRecord;
use crate::events::verify::Finding;
use crate::projections::node::view::Links;
use crate::projections::read_models::Models;
use crate::projections::snapshot::{OpenedSnapshot, SnapshotError, snapshot_dir};

/// State of the comparison.
pub(super) enum SnapshotCheck {
    Absent,
    /// The snapshot's position has not been reached.
    Pending(Box<OpenedSnapshot>),
    /// No start uses the snapshot, and nothing is wrong.
    Unused(String),
    /// The snapshot is damaged, for the given reason.
    Damaged(PathBuf, String),
    /// Difference from the log, if any.
    Compared(PathBuf, Option<String>),
}

impl SnapshotCheck {
    /// Looks for the snapshot of a data directory.
    pub fn open(root: &Path) -> Self {
        match OpenedSnapshot::open(&snapshot_dir(root)) {
            Ok(None) => Self::Absent,
            Ok(Some(snapshot)) => Self::Pending(Box::new(snapshot)),
            Err(error) => Self::from_error(error),
        }
    }

    fn from_error(error: SnapshotError) -> Self {
        match error {
            SnapshotError::OtherRelease(_) => {
                Self::Unused(format!("a snapshot of the read models was not compared: {error}"))
            }
            SnapshotError::Damaged { file, reason } => Self::Damaged(file, reason),
        }
    }

    /// Compares the snapshot with the replayed models, if it was taken at this record.
    pub fn compare(&mut self, record: &ScannedRecord<'_>, models: &Models) {
        let Self::Pending(snapshot) = self else { return };
        let anchor = snapshot.anchor;
        if record.end.position < anchor.position {
            return;
        }

        let Self::Pending(snapshot) = std::mem::replace(self, Self::Absent) else { return };
        let file = snapshot.path().to_owned();
        let position = anchor.position;
        *self = if record.end != anchor.head() {
            Self::Compared(file, Some(format!("the journal has another history up to position {position}")))
        } else if record.offset != anchor.offset {
            Self::Compared(file, Some(format!("position {position} is elsewhere in the journal")))
        } else {
            match snapshot.load(Links::default()) {
                Err(error) => Self::from_error(error),
                Ok(saved) => Self::Compared(file, describe(&saved.differences(models))),
            }
        };
    }

    /// Reports the result. `findings` already contains the defects of the journal.
    pub fn finish(self, running: bool, findings: &mut Vec<Finding>, notes: &mut Vec<String>) {
        match self {
            Self::Absent | Self::Compared(_, None) => {}
            Self::Unused(note) => notes.push(note),
            Self::Pending(_) if running => {
                notes.push("the snapshot of the read models is later than the signed HEAD: not compared".to_owned());
            }
            Self::Damaged(file, reason) => {
                let problem = format!("{reason}; the next start ignores it and replays the log");
                findings.push(Finding::in_file(file, problem));
            }
            // The replay lacks unreadable records.
            Self::Pending(_) | Self::Compared(..) if !findings.is_empty() => {
                notes.push("the snapshot of the read models was not compared: the journal is damaged".to_owned());
            }
            Self::Pending(snapshot) => {
                let problem =
                    format!("the journal ends before position {}, at which it was taken", snapshot.anchor.position);
                findings.push(Finding::in_file(snapshot.path(), problem));
            }
            Self::Compared(file, Some(problem)) => findings.push(Finding::in_file(file, problem)),
        }
    }
}

/// Describes the differences in a sentence.
fn describe(differences: &[String]) -> Option<String> {
    let summary = differences.join(", ");
    (!differences.is_empty())
        .then(|| format!("it differs from the log ({summary}): remove it, and the next start replays the log"))
}
