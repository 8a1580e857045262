//! Bringing sled and the journal together at the start.
//!
//! One pass over the journal checks it, feeds the caller, and inserts what sled lacks. Meanwhile another thread sums up
//! everything that sled has; at the end the sum must be that of the same commits in the journal. A flipped bit can make
//! sled drop records without a word, anywhere: then, or when sled does not open, it is rebuilt whole.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::thread;

use super::log::{BATCH_EVENTS, SledLogOptions};
use super::scrub::Older;
use super::{Trees, stream_entry};
use crate::clock::Surroundings;
use crate::events::codec;
use crate::events::envelope::Commit;
use crate::events::journal::{Anchor, Journal, JournalReader, OpenError, TornTail};
use crate::events::stream::Position;
use crate::events::versions::VersionCache;

/// What was found at the start, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenReport {
    /// The last event.
    pub head: Position,
    /// What was cut off the journal.
    pub torn: Option<TornTail>,
    pub sled: SledReport,
    /// Up to where the journal is still to be checked, in the background, and sled to be compared with it.
    pub deferred: Option<Position>,
}

/// How sled was brought up to the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SledReport {
    /// How many events sled had lacked; all of them after a rebuild.
    pub inserted: u64,
    /// Why it was rebuilt whole.
    pub rebuilt: Option<String>,
}

impl OpenReport {
    /// What the operator should know of the start, a sentence each; nothing when all was well.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let torn = self.torn.as_ref().map(|TornTail { file, offset, position, bytes, reason }| {
            let place = format!("{bytes} bytes of {} from {offset} on, position {position}", file.display());
            format!("an unfinished write after the last signed position, cut off: {place} ({reason})")
        });
        let rebuilt = self.sled.rebuilt.as_ref().map(|reason| {
            format!("a damaged index of the log, made anew from the journal: {} events ({reason})", self.sled.inserted)
        });
        torn.into_iter().chain(rebuilt).collect()
    }
}

/// A log that is ready.
pub(super) struct Opened {
    pub journal: Journal,
    pub trees: Trees,
    pub versions: VersionCache,
    pub report: OpenReport,
    /// What is left for later.
    pub older: Option<Older>,
}

/// The file that asks for a rebuild.
pub(super) fn damage_mark(options: &SledLogOptions) -> PathBuf {
    options.journal.directory.join("sled.damaged")
}

/// Lets the next opening drop sled's copy and make it anew from the journal, which keeps everything.
///
/// # Errors
/// When the file that asks for it cannot be written.
pub fn distrust_sled(options: &SledLogOptions, reason: &str) -> std::io::Result<()> {
    fs::write(damage_mark(options), reason)
}

/// How far sled is.
#[derive(Clone, Copy, Default)]
pub(super) struct Reach {
    /// The first position of its last commit.
    pub last_commit: Position,
    /// The position of its last event.
    pub end: Position,
}

/// A sum over keys and values in any order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum(u64);

impl Sum {
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let mut hasher = DefaultHasher::new();
        (key, value).hash(&mut hasher);
        self.0 = self.0.wrapping_add(hasher.finish());
    }
}

/// With an anchor, what comes before it is left for later: `on_commit` is given what comes after it.
pub(super) fn open(
    options: &SledLogOptions,
    surroundings: &Surroundings,
    anchor: Option<&Anchor>,
    mut on_commit: impl FnMut(&Commit),
) -> Result<Opened, OpenError> {
    let directory = options.journal.directory.join("sled");
    let mark = damage_mark(options);
    let (mut trees, reach, mut rebuilt) = match open_existing(&directory, &mark) {
        Ok((trees, reach)) => (trees, reach, None),
        Err(reason) => (start_over(&directory)?, Reach::default(), Some(reason)),
    };
    let after = anchor.map_or(Position(0), |anchor| anchor.position);
    // Everything is read when sled has to be made anew.
    let deferred = anchor.filter(|_| rebuilt.is_none());
    let mut versions = VersionCache::new(options.versions_max);
    if deferred.is_some() {
        versions.forget();
    }
    let mut filling = Filling::new(&trees, reach);
    let (found, opened) = thread::scope(|scope| {
        let summing = deferred.is_none().then(|| scope.spawn(|| sum_of(&trees, reach)));
        let opened = Journal::open_from(options.journal.clone(), surroundings, reach.end, deferred, |record| {
            filling.take(&record.commit, record.payload);
            if let Some(last) = record.commit.last() {
                versions.set(&last.stream, last.version);
                versions.age();
            }
            if record.commit[0].position > after {
                on_commit(&record.commit);
            }
        });
        (summing.map(|summing| summing.join().unwrap_or_else(|_| Err("sled panicked".to_owned()))), opened)
    });
    let (journal, torn) = opened?;
    let head = journal.head();
    let filled = filling.finish(found);
    let inserted = if let Ok(inserted) = filled {
        inserted
    } else {
        drop(trees);
        rebuilt = filled.err();
        trees = start_over(&directory)?;
        refill(&trees, journal.read_from(Position(0))?, &directory)?
    };
    if rebuilt.is_some() && mark.exists() {
        trees.flush().map_err(sled_refuses(&directory))?;
        fs::remove_file(&mark).map_err(OpenError::io("remove", &mark))?;
    }
    let older = match deferred.filter(|_| rebuilt.is_none()) {
        Some(anchor) => Some(Older::of(&journal, *anchor, reach)?),
        None => None,
    };
    let deferred = older.as_ref().map(|older| older.anchor.position);
    let report = OpenReport { head, torn, sled: SledReport { inserted, rebuilt }, deferred };
    Ok(Opened { journal, trees, versions, report, older })
}

fn sled_refuses(directory: &Path) -> impl FnOnce(String) -> OpenError {
    move |reason| OpenError::Sled { directory: directory.to_owned(), reason }
}

/// Opens sled as it is, or says why it cannot be used.
fn open_existing(directory: &Path, mark: &Path) -> Result<(Trees, Reach), String> {
    if let Ok(reason) = fs::read_to_string(mark) {
        return Err(reason);
    }
    let trees = Trees::open(directory)?;
    let Some(payload) = trees.last_payload()? else { return Ok((trees, Reach::default())) };
    let commit = codec::decode(&payload).map_err(|error| error.to_string())?;
    let end = commit[commit.len() - 1].position;
    Ok((trees, Reach { last_commit: commit[0].position, end }))
}

/// Deletes what is there: everything in it is in the journal.
fn start_over(directory: &Path) -> Result<Trees, OpenError> {
    let removed = if directory.is_dir() { fs::remove_dir_all(directory) } else { fs::remove_file(directory) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(OpenError::io("remove", directory)(error)),
        _ => Trees::open(directory).map_err(sled_refuses(directory)),
    }
}

fn sum_of(trees: &Trees, reach: Reach) -> Result<Sum, String> {
    let mut sum = Sum::default();
    trees.each_entry(reach.last_commit, |key, value| sum.add(key, value))?;
    Ok(sum)
}

/// Inserts what sled lacks, and sums up what it should have.
struct Filling<'t> {
    trees: &'t Trees,
    reach: Reach,
    expected: Sum,
    pending: Vec<(Commit, Vec<u8>)>,
    inserted: u64,
    /// The first failure; nothing is inserted after it.
    outcome: Result<(), String>,
}

impl<'t> Filling<'t> {
    fn new(trees: &'t Trees, reach: Reach) -> Self {
        Self { trees, reach, expected: Sum::default(), pending: Vec::new(), inserted: 0, outcome: Ok(()) }
    }

    fn take(&mut self, commit: &Commit, payload: &[u8]) {
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
        if self.outcome.is_ok() {
            self.outcome = self.trees.insert(&records);
        }
        self.inserted += records.iter().map(|(commit, _)| commit.len() as u64).sum::<u64>();
        self.pending.clear();
    }

    /// How many events were inserted, or why sled cannot be used as it is; `found` is what was summed up, if it was.
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

/// Fills empty trees with the whole journal.
fn refill(trees: &Trees, mut journal: JournalReader, directory: &Path) -> Result<u64, OpenError> {
    let mut filling = Filling::new(trees, Reach::default());
    while let Some(record) = journal.next_record()? {
        filling.take(&record.commit, record.payload);
    }
    filling.finish(None).map_err(sled_refuses(directory))
}
