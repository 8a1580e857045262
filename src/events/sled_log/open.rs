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
use super::repair::{OpenProgress, OpenStep};
use super::scrub::Older;
use super::{Trees, Unopened, stream_entry};
use crate::clock::{Step, Surroundings};
use crate::data_dir::write_private;
use crate::events::codec;
use crate::events::envelope::Commit;
use crate::events::journal::{Anchor, Found, Journal, JournalEnvironment, JournalReader, Mended, MendedPart, TornTail};
use crate::events::open_error::OpenError;
use crate::events::stream::Position;
use crate::events::versions::VersionCache;

/// Result of opening a log, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenReport {
    /// The last event.
    pub head: Position,
    /// The torn tail removed from the journal.
    pub torn: Option<TornTail>,
    /// Repaired parts of the journal.
    pub mended: Vec<Mended>,
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
    pub rebuilt: Option<Rebuilt>,
}

/// Reason why sled was rebuilt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    pub reason: String,
    /// The resource that was missing at opening; `None` if sled was damaged, or a rebuild was requested.
    pub lacking: Option<&'static str>,
}

impl Rebuilt {
    fn damaged(reason: String) -> Self {
        Self { reason, lacking: None }
    }

    fn told(&self, inserted: u64) -> String {
        let Self { reason, lacking } = self;
        let what = match lacking {
            None => "a damaged index of the log".to_owned(),
            Some(lacking) => format!("an index of the log that could not be opened ({lacking})"),
        };
        format!("{what}, made anew from the journal: events 1 to {inserted} ({reason})")
    }
}

impl OpenReport {
    /// Messages for the operator, one sentence each; empty if there was nothing unusual.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let torn = self.torn.as_ref().map(|TornTail { file, offset, position, bytes, reason }| {
            let place = format!("{bytes} bytes of {} from {offset} on, position {position}", file.display());
            format!("an unfinished write after the last signed position, cut off: {place} ({reason})")
        });
        let rebuilt = self.sled.rebuilt.as_ref().map(|rebuilt| rebuilt.told(self.sled.inserted));
        torn.into_iter().chain(self.mended.iter().map(told)).chain(rebuilt).collect()
    }
}

fn told(Mended { file, offset, position, part }: &Mended) -> String {
    let place = format!("{} at offset {offset}, position {position}", file.display());
    match part {
        MendedPart::Records(1) => format!("a damaged record in the journal, healed from its copy in sled: {place}"),
        MendedPart::Records(count) => {
            format!("{count} damaged records in the journal, healed from their copies in sled: {place}")
        }
        MendedPart::Header => format!("a damaged header of a journal segment, made anew: {place}"),
        MendedPart::Segment(count) => {
            format!("a missing segment of the journal, made anew from {count} records in sled: {place}")
        }
        MendedPart::Rest => format!("bytes after the end of a full journal segment, cleared: {place}"),
    }
}

/// An opened log.
pub(super) struct Opened {
    pub journal: Journal,
    pub trees: Trees,
    pub versions: VersionCache,
    pub report: OpenReport,
    /// The part left for the background check.
    pub older: Option<Older>,
}

/// Marker file that requests a rebuild of sled.
pub(super) fn damage_mark(options: &SledLogOptions) -> PathBuf {
    options.journal.directory.join("sled.damaged")
}

/// Marker file that requests a full check of the journal.
pub(super) fn suspicion(options: &SledLogOptions) -> PathBuf {
    options.journal.directory.join("journal.damaged")
}

/// Removes the marker after a full check.
fn forget_suspicion(options: &SledLogOptions) -> Result<(), OpenError> {
    let path = suspicion(options);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(OpenError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Makes the next opening delete sled and rebuild it from the journal.
///
/// # Errors
/// If the marker file cannot be written.
pub fn distrust_sled(options: &SledLogOptions, reason: &str) -> std::io::Result<()> {
    write_private(&damage_mark(options), reason.as_bytes())
}

/// End of sled's content.
#[derive(Clone, Copy, Default)]
pub(super) struct Reach {
    /// The first position of its last commit.
    pub last_commit: Position,
    /// The position of its last event.
    pub end: Position,
}

/// Order-independent sum over keys and values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum(u64);

impl Sum {
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
    surroundings: &Surroundings,
    anchor: Option<&Anchor>,
    mut on_commit: impl FnMut(&Commit),
) -> Result<Opened, OpenError> {
    let directory = options.journal.directory.join("sled");
    let mark = damage_mark(options);
    let progress = options.progress.as_ref();
    let (trees, reach, mut rebuilt) = match open_existing(&directory, &mark) {
        Ok((trees, reach)) => (Some(trees), reach, None),
        Err(Unusable { trees, why }) => (trees.map(|trees| *trees), Reach::default(), Some(why)),
    };

    let after = anchor.map_or(Position(0), |anchor| anchor.position);
    // A rebuild of sled, or damage found in the deferred part earlier, requires reading everything.
    let deferred = anchor.filter(|_| rebuilt.is_none() && !suspicion(options).exists());
    let mut versions = VersionCache::new(options.versions_max);
    if deferred.is_some() {
        versions.forget();
    }

    let mut filling = Filling::new(trees.as_ref().filter(|_| rebuilt.is_none()), reach, progress);
    let (summed, found) = thread::scope(|scope| {
        let trusted = trees.as_ref().filter(|_| rebuilt.is_none() && deferred.is_none());
        let summing = trusted.map(|trees| scope.spawn(move || sum_of(trees, reach)));
        let copies = &mut |position| trees.as_ref().and_then(|trees| trees.payload_at(position));
        let environment = JournalEnvironment::new(surroundings, &options.space);
        let options = options.journal.clone();
        let found = Journal::open_healing(options, environment, reach.end, deferred, copies, |record| {
            filling.take(&record.commit, record.payload);
            if let Some(last) = record.commit.last() {
                versions.set(&last.stream, last.version);
                versions.age();
            }
            if record.commit[0].position > after {
                on_commit(&record.commit);
            }
        });
        (summing.map(|summing| summing.join().unwrap_or_else(|_| Err("sled panicked".to_owned()))), found)
    });

    let Found { journal, torn, mended } = found?;
    let head = journal.head();
    let filled = filling.finish(summed);
    let (trees, inserted) = match (trees, filled) {
        (Some(trees), Ok(inserted)) if rebuilt.is_none() => (trees, inserted),
        (distrusted, filled) => {
            if let Some(distrusted) = distrusted {
                distrusted.close();
            }
            rebuilt = rebuilt.or(filled.err().map(Rebuilt::damaged));
            let trees = start_over(&directory)?;
            surroundings.mishaps().done(Step::SledRemoved);
            let inserted = refill(&trees, journal.read_from(Position(0))?, &directory, progress.zip(Some(head)))?;
            (trees, inserted)
        }
    };

    if rebuilt.is_some() && mark.exists() {
        trees.flush().map_err(sled_refuses(&directory))?;
        fs::remove_file(&mark).map_err(OpenError::io("remove", &mark))?;
    }
    let older = match deferred.filter(|_| rebuilt.is_none()) {
        Some(anchor) => Some(Older::of(&journal, *anchor, reach)?),
        None => forget_suspicion(options).map(|()| None)?,
    };
    let deferred = older.as_ref().map(|older| older.anchor.position);
    let report = OpenReport { head, torn, mended, sled: SledReport { inserted, rebuilt }, deferred };
    Ok(Opened { journal, trees, versions, report, older })
}

fn sled_refuses(directory: &Path) -> impl FnOnce(String) -> OpenError {
    move |reason| OpenError::Sled { directory: directory.to_owned(), reason }
}

/// Reason why sled cannot be used. If it opens, it may still hold copies of records.
pub(super) struct Unusable {
    trees: Option<Box<Trees>>,
    pub why: Rebuilt,
}

impl Unusable {
    fn damaged(trees: Option<Trees>, reason: String) -> Self {
        Self { trees: trees.map(Box::new), why: Rebuilt::damaged(reason) }
    }
}

/// Opens the existing sled.
pub(super) fn open_existing(directory: &Path, mark: &Path) -> Result<(Trees, Reach), Unusable> {
    let trees = Trees::open(directory);
    if let Ok(reason) = fs::read_to_string(mark) {
        return Err(Unusable::damaged(trees.ok(), reason));
    }

    let why = |Unopened { reason, lacking }| Unusable { trees: None, why: Rebuilt { reason, lacking } };
    let trees = trees.map_err(why)?;

    match reach_of(&trees) {
        Ok(reach) => Ok((trees, reach)),
        Err(reason) => Err(Unusable::damaged(Some(trees), reason)),
    }
}

fn reach_of(trees: &Trees) -> Result<Reach, String> {
    let Some(payload) = trees.last_payload()? else { return Ok(Reach::default()) };
    let commit = codec::decode(&payload).map_err(|error| error.to_string())?;
    Ok(Reach { last_commit: commit[0].position, end: commit[commit.len() - 1].position })
}

/// Deletes sled and creates an empty one. Nothing is lost, because the journal holds everything.
pub(super) fn start_over(directory: &Path) -> Result<Trees, OpenError> {
    let removed = if directory.is_dir() { fs::remove_dir_all(directory) } else { fs::remove_file(directory) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(OpenError::io("remove", directory)(error)),
        _ => Trees::open(directory).map_err(|unopened| sled_refuses(directory)(unopened.reason)),
    }
}

fn sum_of(trees: &Trees, reach: Reach) -> Result<Sum, String> {
    let mut sum = Sum::default();
    trees.each_entry(reach.last_commit, |key, value| sum.add(key, value))?;
    Ok(sum)
}

/// Inserts the events that sled lacks, and computes the sum that sled should have.
struct Filling<'t> {
    /// `None` to insert nothing.
    trees: Option<&'t Trees>,
    reach: Reach,
    expected: Sum,
    pending: Vec<(Commit, Vec<u8>)>,
    inserted: u64,
    /// The first failure, after which nothing is inserted.
    outcome: Result<(), String>,
    progress: Option<&'t OpenProgress>,
    /// The end of the journal, if it is known and sled is filled from the beginning.
    head: Option<Position>,
}

impl<'t> Filling<'t> {
    fn new(trees: Option<&'t Trees>, reach: Reach, progress: Option<&'t OpenProgress>) -> Self {
        let expected = Sum::default();
        let pending = Vec::new();
        let outcome = Ok(());
        Self { trees, reach, expected, pending, inserted: 0, outcome, progress, head: None }
    }

    fn take(&mut self, commit: &Commit, payload: &[u8]) {
        if self.trees.is_none() {
            return;
        }

        if commit[0].position <= self.reach.last_commit {
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
        let reached = records.last().and_then(|(commit, _)| commit.last()).map(|event| event.position);

        if let (Some(progress), Some(position)) = (self.progress, reached) {
            progress(OpenStep { position, head: self.head, rebuilding: self.head.is_some() });
        }

        self.pending.clear();
    }

    /// Returns the number of inserted events, or the reason why sled cannot be used. `found` is the sum of sled's
    /// content, if computed.
    fn finish(mut self, found: Option<Result<Sum, String>>) -> Result<u64, String> {
        self.flush();
        self.outcome?;
        if found.transpose()?.is_none_or(|found| found == self.expected) {
            Ok(self.inserted)
        } else {
            Err("sled does not hold what the journal holds".to_owned())
        }
    }
}

/// Fills empty trees with the whole journal. `progress` includes the position of the journal's head.
pub(super) fn refill(
    trees: &Trees,
    mut journal: JournalReader,
    directory: &Path,
    progress: Option<(&OpenProgress, Position)>,
) -> Result<u64, OpenError> {
    let mut filling = Filling::new(Some(trees), Reach::default(), progress.map(|(progress, _)| progress));
    filling.head = progress.map(|(_, head)| head);
    while let Some(record) = journal.next_record()? {
        filling.take(&record.commit, record.payload);
    }
    filling.finish(None).map_err(sled_refuses(directory))
}

/// Inserts the events that the trees lack. The inner error is the reason why the trees cannot be used.
pub(super) fn catch_up(
    trees: &Trees,
    reach: Reach,
    mut journal: JournalReader,
) -> Result<Result<u64, String>, OpenError> {
    let mut filling = Filling::new(Some(trees), reach, None);

    thread::scope(|scope| {
        let summing = scope.spawn(|| sum_of(trees, reach));
        while let Some(record) = journal.next_record()? {
            filling.take(&record.commit, record.payload);
        }
        Ok(filling.finish(Some(summing.join().unwrap_or_else(|_| Err("sled panicked".to_owned())))))
    })
}
