//! Opening the log: the journal is checked, and damaged records are repaired from their copies in sled. Then the end of
//! sled is compared with the journal.
//!
//! The start never waits for sled to catch up. Locations that sled lacks are collected while the journal is read. If
//! sled cannot be used, the whole journal is read, so that all locations are in memory, and the follower replaces sled
//! later.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use super::scrub::DeferredCheck;
use super::state::{JournalContents, LogIndex};
use super::{IndexEnd, SledIndex, SledLogOptions, SledOpenError};
use crate::environment::Environment;
use crate::events::envelope::Commit;
use crate::events::journal::{
    Anchor, Journal, JournalEnvironment, JournalRepair, OpenedJournal, RepairedPart, TornTail,
};
use crate::events::open_error::OpenError;
use crate::events::stream::Position;

/// Result of opening a log, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenReport {
    /// The last event.
    pub head: Position,
    /// The torn tail removed from the journal.
    pub torn_tail: Option<TornTail>,
    /// Repaired parts of the journal.
    pub repairs: Vec<JournalRepair>,
    /// Reason why the index is recreated in the background.
    pub index_failure: Option<IndexFailure>,
}

/// Reason why the index, which sled holds, cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexFailure {
    pub reason: String,
    /// Name of the resource that was missing at opening; `None` if sled is damaged or outdated.
    pub missing_resource: Option<&'static str>,
}

impl IndexFailure {
    pub(super) fn damaged(reason: String) -> Self {
        Self { reason, missing_resource: None }
    }

    fn describe(&self) -> String {
        let Self { reason, missing_resource } = self;
        let description = match missing_resource {
            None => "a damaged index".to_owned(),
            Some(resource) => format!("an index that could not be opened ({resource})"),
        };
        format!("{description}, rebuilt from the journal in the background ({reason})")
    }
}

impl OpenReport {
    /// Returns messages for the operator, each about one finding; empty if there was nothing unusual.
    #[must_use]
    pub fn messages(&self) -> Vec<String> {
        let torn_message = self.torn_tail.as_ref().map(|TornTail { file, offset, position, bytes, reason }| {
            let location = format!("{bytes} bytes of {} from {offset} on, position {position}", file.display());
            format!("an unfinished write after the last signed position, cut off: {location} ({reason})")
        });
        let failure = self.index_failure.as_ref().map(IndexFailure::describe);
        torn_message.into_iter().chain(self.repairs.iter().map(describe_repair)).chain(failure).collect()
    }
}

fn describe_repair(JournalRepair { file, offset, position, part }: &JournalRepair) -> String {
    let location = format!("{} at offset {offset}, position {position}", file.display());
    match part {
        RepairedPart::Records(1) => {
            format!("a damaged record in the journal, repaired from its copy in sled: {location}")
        }
        RepairedPart::Records(count) => {
            format!("{count} damaged records in the journal, repaired from their copies in sled: {location}")
        }
        RepairedPart::Header => format!("a damaged header of a journal segment, rebuilt: {location}"),
        RepairedPart::Segment(count) => {
            format!("a missing segment of the journal, rebuilt from {count} records in sled: {location}")
        }
        RepairedPart::Padding => format!("bytes after the end of a full journal segment, cleared: {location}"),
    }
}

/// An opened log.
pub(super) struct OpenedSledLog {
    pub journal: Journal,
    pub index: LogIndex,
    /// A sled that cannot be used. The follower deletes it.
    pub retired: Option<SledIndex>,
    /// The last commit in a usable sled.
    pub end: Option<IndexEnd>,
    pub report: OpenReport,
    /// The part left for the background check.
    pub deferred: Option<DeferredCheck>,
}

/// Returns the directory of sled.
pub(super) fn sled_directory(options: &SledLogOptions) -> PathBuf {
    options.journal.directory.join("sled")
}

/// Returns the path of the marker file that requests a full check of the journal.
pub(super) fn journal_damage_mark(options: &SledLogOptions) -> PathBuf {
    options.journal.directory.join("journal.damaged")
}

/// Removes a marker file, if it exists.
fn remove_mark(path: PathBuf) -> Result<(), OpenError> {
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(OpenError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Opens the log. With an anchor, the check of everything before it is deferred, and `on_commit` receives the commits
/// after it.
pub(super) fn open(
    options: &SledLogOptions,
    environment: &Environment,
    anchor: Option<&Anchor>,
    mut on_commit: impl FnMut(&Commit),
) -> Result<OpenedSledLog, OpenError> {
    let (sled, end, index_failure) = open_index(options);
    let indexed = end.map_or(Position(0), |end| end.position);

    // Without an index, or after damage was found in the deferred part earlier, everything is read.
    let deferred_to = anchor.filter(|_| end.is_some() && !journal_damage_mark(options).exists());
    let after = anchor.map_or(Position(0), |anchor| anchor.position);
    let mut contents = JournalContents::default();

    let copies = &mut |position| sled.as_ref().and_then(|sled| sled.payload_at(position));
    let journal_environment = JournalEnvironment::new(environment, &options.space);
    let journal_options = options.journal.clone();
    let opened =
        Journal::open_and_repair(journal_options, journal_environment, indexed, deferred_to, copies, |record| {
            contents.add(&record, indexed);
            if record.commit[0].position > after {
                on_commit(&record.commit);
            }
        });
    let OpenedJournal { journal, torn_tail, repairs } = opened?;

    let deferred = deferred_to.map(|anchor| DeferredCheck::new(&journal, *anchor)).transpose()?;
    if deferred.is_none() {
        // Everything was checked.
        remove_mark(journal_damage_mark(options))?;
    }
    // Older releases asked for a new sled with this file.
    remove_mark(options.journal.directory.join("sled.damaged"))?;

    let head = journal.head();
    let (sled, retired) = if index_failure.is_some() { (None, sled) } else { (sled, None) };
    // The counts are complete only if the whole journal was read.
    let counts = deferred.is_none().then_some(contents.counts);
    let index = LogIndex { head, sled: sled.map(Arc::new), indexed, recent: contents.locations, counts };
    let report = OpenReport { head, torn_tail, repairs, index_failure };
    Ok(OpenedSledLog { journal, index, retired, end, report, deferred })
}

/// Opens the index; returns it with its end. An index that cannot be used is returned too if sled opens, because it
/// may hold copies of damaged records.
fn open_index(options: &SledLogOptions) -> (Option<SledIndex>, Option<IndexEnd>, Option<IndexFailure>) {
    match SledIndex::open(&sled_directory(options)) {
        Err(SledOpenError { reason, missing_resource }) => {
            (None, None, Some(IndexFailure { reason, missing_resource }))
        }
        Ok(sled) => match sled.end() {
            Ok(end) => (Some(sled), end, None),
            Err(reason) => (Some(sled), None, Some(IndexFailure::damaged(reason))),
        },
    }
}
