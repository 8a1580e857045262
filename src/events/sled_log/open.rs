//! Reconciliation of sled with the journal during startup.
//!
//! One pass over the journal checks it, calls the caller's callback, and inserts the events that sled lacks. Another
//! thread computes a sum over everything in sled, which must equal the sum of the same commits in the journal. The sum
//! is necessary because a flipped bit can make sled drop records silently. If the sums differ, or sled does not open,
//! sled is rebuilt completely.
//!
//! Sled is opened first and deleted last: its records repair the journal if the chain proves them, even if sled as a
//! whole cannot be trusted.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::thread;

use super::log::{BATCH_EVENTS, SledLogOptions};
use super::recovery::{OpenProgress, OpenStep};
use super::scrub::DeferredCheck;
use super::{SledOpenError, SledTrees, stream_entry};
use crate::data_dir::write_private;
use crate::environment::{CommitStep, Environment};
use crate::events::codec;
use crate::events::envelope::Commit;
use crate::events::journal::{
    Anchor, Journal, JournalEnvironment, JournalReader, JournalRepair, OpenedJournal, RepairedPart, TornTail,
};
use crate::events::open_error::OpenError;
use crate::events::stream::Position;
use crate::events::version_cache::VersionCache;

/// Result of opening a log, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenReport {
    /// The last event.
    pub head: Position,
    /// The torn tail removed from the journal.
    pub torn_tail: Option<TornTail>,
    /// Repaired parts of the journal.
    pub repairs: Vec<JournalRepair>,
    pub sled: SledReport,
    /// Position up to which the journal and sled are still to be checked in the background.
    pub deferred: Option<Position>,
}

/// Changes made to sled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SledReport {
    /// Number of events inserted; all events after a rebuild.
    pub inserted: u64,
    /// Reason of a rebuild.
    pub rebuilt: Option<SledRebuild>,
}

/// Reason why sled was rebuilt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SledRebuild {
    pub reason: String,
    /// The resource that was missing at opening; `None` if sled was damaged, or a rebuild was requested.
    pub missing_resource: Option<&'static str>,
}

impl SledRebuild {
    fn damaged(reason: String) -> Self {
        Self { reason, missing_resource: None }
    }

    fn describe(&self, inserted: u64) -> String {
        let Self { reason, missing_resource } = self;
        let description = match missing_resource {
            None => "a damaged index".to_owned(),
            Some(resource) => format!("an index that could not be opened ({resource})"),
        };
        format!("{description}, rebuilt from the journal: events 1 to {inserted} ({reason})")
    }
}

impl OpenReport {
    /// Messages for the operator, one sentence each; empty if there was nothing unusual.
    #[must_use]
    pub fn messages(&self) -> Vec<String> {
        let torn_message = self.torn_tail.as_ref().map(|TornTail { file, offset, position, bytes, reason }| {
            let location = format!("{bytes} bytes of {} from {offset} on, position {position}", file.display());
            format!("an unfinished write after the last signed position, cut off: {location} ({reason})")
        });
        let rebuild = self.sled.rebuilt.as_ref().map(|rebuild| rebuild.describe(self.sled.inserted));
        torn_message.into_iter().chain(self.repairs.iter().map(describe_repair)).chain(rebuild).collect()
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
    pub trees: SledTrees,
    pub versions: VersionCache,
    pub report: OpenReport,
    /// The part left for the background check.
    pub deferred: Option<DeferredCheck>,
}

/// Marker file that requests a rebuild of sled.
pub(super) fn sled_damage_mark(options: &SledLogOptions) -> PathBuf {
    options.journal.directory.join("sled.damaged")
}

/// Marker file that requests a full check of the journal.
pub(super) fn journal_damage_mark(options: &SledLogOptions) -> PathBuf {
    options.journal.directory.join("journal.damaged")
}

/// Removes the marker after a full check.
fn remove_journal_damage_mark(options: &SledLogOptions) -> Result<(), OpenError> {
    let path = journal_damage_mark(options);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(OpenError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Makes the next opening delete sled and rebuild it from the journal.
///
/// # Errors
/// If the marker file cannot be written.
pub fn request_sled_rebuild(options: &SledLogOptions, reason: &str) -> std::io::Result<()> {
    write_private(&sled_damage_mark(options), reason.as_bytes())
}

/// End of sled's content.
#[derive(Clone, Copy, Default)]
pub(super) struct SledExtent {
    /// The first position of its last commit.
    pub last_commit: Position,
    /// The position of its last event.
    pub end: Position,
}

/// Order-independent sum over keys and values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ContentSum(u64);

impl ContentSum {
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let mut hasher = DefaultHasher::new();
        (key, value).hash(&mut hasher);
        self.0 = self.0.wrapping_add(hasher.finish());
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
    let directory = options.journal.directory.join("sled");
    let mark = sled_damage_mark(options);
    let progress = options.progress.as_ref();
    let (trees, extent, mut rebuild) = match open_existing(&directory, &mark) {
        Ok((trees, extent)) => (Some(trees), extent, None),
        Err(UnusableSled { trees, rebuild }) => (trees.map(|trees| *trees), SledExtent::default(), Some(rebuild)),
    };

    let after = anchor.map_or(Position(0), |anchor| anchor.position);
    // A rebuild of sled, or damage found in the deferred part earlier, requires reading everything.
    let deferred_to = anchor.filter(|_| rebuild.is_none() && !journal_damage_mark(options).exists());
    let mut versions = VersionCache::new(options.versions_max);
    if deferred_to.is_some() {
        versions.mark_incomplete();
    }

    let mut filler = SledFiller::new(trees.as_ref().filter(|_| rebuild.is_none()), extent, progress);
    let (actual_sum, opened_journal) = thread::scope(|scope| {
        let intact_trees = trees.as_ref().filter(|_| rebuild.is_none() && deferred_to.is_none());
        let sum_thread = intact_trees.map(|trees| scope.spawn(move || sum_content(trees, extent)));
        let copies = &mut |position| trees.as_ref().and_then(|trees| trees.payload_at(position));
        let environment = JournalEnvironment::new(environment, &options.space);
        let options = options.journal.clone();

        let result = Journal::open_and_repair(options, environment, extent.end, deferred_to, copies, |record| {
            filler.add(&record.commit, record.payload);
            if let Some(last) = record.commit.last() {
                versions.set(&last.stream, last.version);
                versions.rotate();
            }
            if record.commit[0].position > after {
                on_commit(&record.commit);
            }
        });
        (sum_thread.map(|thread| thread.join().unwrap_or_else(|_| Err("sled panicked".to_owned()))), result)
    });

    let OpenedJournal { journal, torn_tail, repairs } = opened_journal?;
    let head = journal.head();
    let outcome = filler.finish(actual_sum);
    let (trees, inserted) = match (trees, outcome) {
        (Some(trees), Ok(inserted)) if rebuild.is_none() => (trees, inserted),
        (old_trees, outcome) => {
            if let Some(old_trees) = old_trees {
                old_trees.close();
            }
            rebuild = rebuild.or(outcome.err().map(SledRebuild::damaged));
            let trees = recreate(&directory)?;
            environment.fail_points().hit_after(CommitStep::SledRemoved);
            let inserted = refill(&trees, journal.read_from(Position(0))?, &directory, progress.zip(Some(head)))?;
            (trees, inserted)
        }
    };

    if rebuild.is_some() && mark.exists() {
        trees.flush().map_err(sled_error(&directory))?;
        fs::remove_file(&mark).map_err(OpenError::io("remove", &mark))?;
    }

    let deferred = match deferred_to.filter(|_| rebuild.is_none()) {
        Some(anchor) => Some(DeferredCheck::new(&journal, *anchor, extent)?),
        None => remove_journal_damage_mark(options).map(|()| None)?,
    };

    let report = OpenReport {
        head,
        torn_tail,
        repairs,
        sled: SledReport { inserted, rebuilt: rebuild },
        deferred: deferred.as_ref().map(|check| check.anchor.position),
    };
    Ok(OpenedSledLog { journal, trees, versions, report, deferred })
}

fn sled_error(directory: &Path) -> impl FnOnce(String) -> OpenError {
    move |reason| OpenError::Sled { directory: directory.to_owned(), reason }
}

/// Reason why sled cannot be used. If it opens, it may still hold copies of records.
pub(super) struct UnusableSled {
    trees: Option<Box<SledTrees>>,
    pub rebuild: SledRebuild,
}

impl UnusableSled {
    fn damaged(trees: Option<SledTrees>, reason: String) -> Self {
        Self { trees: trees.map(Box::new), rebuild: SledRebuild::damaged(reason) }
    }
}

/// Opens the existing sled.
pub(super) fn open_existing(directory: &Path, mark: &Path) -> Result<(SledTrees, SledExtent), UnusableSled> {
    let trees = SledTrees::open(directory);
    if let Ok(reason) = fs::read_to_string(mark) {
        return Err(UnusableSled::damaged(trees.ok(), reason));
    }

    let to_unusable = |SledOpenError { reason, missing_resource: lacking }| UnusableSled {
        trees: None,
        rebuild: SledRebuild { reason, missing_resource: lacking },
    };
    let trees = trees.map_err(to_unusable)?;

    match read_extent(&trees) {
        Ok(extent) => Ok((trees, extent)),
        Err(reason) => Err(UnusableSled::damaged(Some(trees), reason)),
    }
}

fn read_extent(trees: &SledTrees) -> Result<SledExtent, String> {
    let Some(payload) = trees.last_payload()? else { return Ok(SledExtent::default()) };
    let commit = codec::decode(&payload).map_err(|error| error.to_string())?;
    Ok(SledExtent { last_commit: commit[0].position, end: commit[commit.len() - 1].position })
}

/// Deletes sled and creates an empty one. Nothing is lost, because the journal holds everything.
pub(super) fn recreate(directory: &Path) -> Result<SledTrees, OpenError> {
    let result = if directory.is_dir() { fs::remove_dir_all(directory) } else { fs::remove_file(directory) };
    match result {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(OpenError::io("remove", directory)(error)),
        _ => SledTrees::open(directory).map_err(|error| sled_error(directory)(error.reason)),
    }
}

fn sum_content(trees: &SledTrees, extent: SledExtent) -> Result<ContentSum, String> {
    let mut sum = ContentSum::default();
    trees.for_each_entry(extent.last_commit, |key, value| sum.add(key, value))?;
    Ok(sum)
}

/// Inserts the events that sled lacks, and computes the sum that sled should have.
struct SledFiller<'t> {
    /// `None` to insert nothing.
    trees: Option<&'t SledTrees>,
    extent: SledExtent,
    expected: ContentSum,
    pending: Vec<(Commit, Vec<u8>)>,
    inserted: u64,
    /// The first failure, after which nothing is inserted.
    outcome: Result<(), String>,
    progress: Option<&'t OpenProgress>,
    /// The end of the journal, if it is known and sled is filled from the beginning.
    head: Option<Position>,
}

impl<'t> SledFiller<'t> {
    fn new(trees: Option<&'t SledTrees>, extent: SledExtent, progress: Option<&'t OpenProgress>) -> Self {
        let expected = ContentSum::default();
        let pending = Vec::new();
        let outcome = Ok(());
        Self { trees, extent, expected, pending, inserted: 0, outcome, progress, head: None }
    }

    fn add(&mut self, commit: &Commit, payload: &[u8]) {
        if self.trees.is_none() {
            return;
        }

        if commit[0].position <= self.extent.last_commit {
            let (key, value) = stream_entry(commit);
            self.expected.add(&key, &value);
            self.expected.add(&commit[0].position.0.to_be_bytes(), payload);
            return;
        }

        self.pending.push((commit.clone(), payload.to_vec()));
        if self.pending.len() >= BATCH_EVENTS {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let records: Vec<_> = self.pending.iter().map(|(commit, payload)| (commit, payload.as_slice())).collect();
        if let Some(trees) = self.trees
            && self.outcome.is_ok()
        {
            self.outcome = trees.insert(&records, || {});
        }

        self.inserted += records.iter().map(|(commit, _)| commit.len() as u64).sum::<u64>();
        let last_position = records.last().and_then(|(commit, _)| commit.last()).map(|event| event.position);

        if let (Some(progress), Some(position)) = (self.progress, last_position) {
            progress(OpenStep { position, head: self.head, rebuilding: self.head.is_some() });
        }

        self.pending.clear();
    }

    /// Returns the number of inserted events, or the reason why sled cannot be used. `found` is the sum of sled's
    /// content, if computed.
    fn finish(mut self, actual: Option<Result<ContentSum, String>>) -> Result<u64, String> {
        self.flush();
        self.outcome?;
        if actual.transpose()?.is_none_or(|actual| actual == self.expected) {
            Ok(self.inserted)
        } else {
            Err("sled differs from the journal".to_owned())
        }
    }
}

/// Fills empty trees with the whole journal. `progress` includes the position of the journal's head.
pub(super) fn refill(
    trees: &SledTrees,
    mut journal: JournalReader,
    directory: &Path,
    progress: Option<(&OpenProgress, Position)>,
) -> Result<u64, OpenError> {
    let mut filler = SledFiller::new(Some(trees), SledExtent::default(), progress.map(|(progress, _)| progress));
    filler.head = progress.map(|(_, head)| head);
    while let Some(record) = journal.next_record()? {
        filler.add(&record.commit, record.payload);
    }
    filler.finish(None).map_err(sled_error(directory))
}

/// Inserts the events that the trees lack. The inner error is the reason why the trees cannot be used.
pub(super) fn catch_up(
    trees: &SledTrees,
    extent: SledExtent,
    mut journal: JournalReader,
) -> Result<Result<u64, String>, OpenError> {
    let mut filler = SledFiller::new(Some(trees), extent, None);

    thread::scope(|scope| {
        let sum_thread = scope.spawn(|| sum_content(trees, extent));
        while let Some(record) = journal.next_record()? {
            filler.add(&record.commit, record.payload);
        }
        Ok(filler.finish(Some(sum_thread.join().unwrap_or_else(|_| Err("sled panicked".to_owned())))))
    })
}
