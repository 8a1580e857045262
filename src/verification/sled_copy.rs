//! Verification of sled against the journal, on a copy, because opening sled writes to it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::VerificationFindings;
use crate::environment::Environment;
use crate::events::envelope::Commit;
use crate::events::sled_log::compare::{Comparison, ComparisonReport};
use crate::events::verify::Finding;
use crate::pluralize::pluralize;

/// A copy of sled, with the state of the comparison.
pub(super) enum SledCopy {
    Absent,
    /// Sled is marked for a rebuild, or cannot be copied; its state is unknown.
    Skipped(String),
    Unusable(String),
    Open {
        comparison: Box<Comparison>,
        _copy: ScratchDir,
    },
}

impl SledCopy {
    /// Copies sled from a data directory that is not in use.
    pub fn create(root: &Path, environment: &Environment) -> Self {
        let sled = root.join("log/sled");
        let mark = root.join("log/sled.damaged");
        if let Ok(reason) = fs::read_to_string(&mark) {
            return Self::Skipped(format!("sled is marked for a rebuild at the next start ({reason}): not compared"));
        }

        if !sled.is_dir() {
            return if sled.exists() { Self::Unusable("it is not a directory".to_owned()) } else { Self::Absent };
        }

        let copied = ScratchDir::new(environment).and_then(|scratch| copy_tree(&sled, &scratch.0).map(|()| scratch));
        match copied {
            Err(error) => Self::Skipped(format!("sled was not compared: it could not be copied ({error})")),
            Ok(copy) => match Comparison::open(&copy.0) {
                Ok(comparison) => Self::Open { comparison: Box::new(comparison), _copy: copy },
                Err(reason) => Self::Unusable(reason),
            },
        }
    }

    /// Compares the next record of the journal.
    pub fn compare(&mut self, commit: &Commit, payload: &[u8]) {
        if let Self::Open { comparison, .. } = self {
            comparison.compare_next(commit, payload);
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
            Self::Open { comparison, _copy } => {
                let ComparisonReport { differences, behind } = comparison.finish();
                let finding = |problem, position| Finding { file: sled.to_owned(), offset: None, position, problem };
                found.findings.extend(differences.into_iter().map(|difference| {
                    let problem = format!("{}; the next start rebuilds sled from the journal", difference.description);
                    finding(problem, difference.position)
                }));
                if behind > 0 {
                    let behind = pluralize(behind, "event");
                    found.notes.push(format!("sled is {behind} behind the journal: the next start updates it"));
                }
            }
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
