//! A data directory, verified whole: the journal by itself, sled against the journal, content files against their names and
//! against the versions that name them.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::saved_models::SavedModels;
use super::{Progress, findings_json, key_text};
use crate::clock::Surroundings;
use crate::events::checkpoint::SignedCheckpoint;
use crate::events::hex;
use crate::events::journal::OpenError;
use crate::events::journal::walk::Walked;
use crate::events::sled_log::compare::{Compared, Comparison};
use crate::events::verify::{Finding, JournalReport, Verification};
use crate::media::contents::{self, AREAS, Contents};
use crate::projections::read_models::Models;

/// Why a directory cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum Unverifiable {
    #[error("{} is not a data directory: there is no log/journal in it", .0.display())]
    NoDirectory(PathBuf),
    #[error(transparent)]
    Journal(#[from] OpenError),
    #[error("{path}: {reason}", path = path.display())]
    File { path: PathBuf, reason: io::Error },
}

impl Unverifiable {
    /// Wraps a refusal of the file system.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |reason| Self::File { path, reason }
    }
}

/// What a data directory turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub journal: JournalReport,
    pub archives: u64,
    pub pictures: u64,
    /// Everything that is wrong, of the journal and beyond.
    pub findings: Vec<Finding>,
    /// What is no damage and should be known.
    pub notes: Vec<String>,
}

/// Whether a service holds the directory.
pub enum Use {
    /// None does, and none can start while this is held.
    Free(Option<File>),
    Running,
}

/// Looks whether a service holds the directory, without making or changing anything.
///
/// # Errors
/// When it is no data directory, or cannot be read.
pub fn use_of(root: &Path) -> Result<Use, Unverifiable> {
    if !root.join("log/journal").is_dir() {
        return Err(Unverifiable::NoDirectory(root.to_owned()));
    }
    let path = root.join("lock");
    let lock = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Use::Free(None)),
        opened => opened.map_err(Unverifiable::file(&path))?,
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(Use::Free(Some(lock))),
        Err(TryLockError::WouldBlock) => Ok(Use::Running),
        Err(TryLockError::Error(error)) => Err(Unverifiable::file(&path)(error)),
    }
}

/// Verifies everything. `since` is a checkpoint that the history must contain.
///
/// # Errors
/// When it could not be verified; what is wrong with it is in the report.
pub fn verify(
    root: &Path,
    since: Option<&SignedCheckpoint>,
    surroundings: &Surroundings,
    progress: Progress<'_>,
) -> Result<Report, Unverifiable> {
    let in_use = use_of(root)?;
    let mut saved = SavedModels::look(root);
    let total = journal_bytes(root) + content_bytes(root)?;
    let mut done = 0;
    let mut advance = |bytes: u64| {
        done += bytes;
        progress(done.min(total), total);
    };
    let (mut models, mut notes) = (Models::default(), Vec::new());
    let mut sled = match in_use {
        Use::Running => {
            notes.push(
                "a service is running on it: the journal was read up to its signed HEAD, sled was not compared"
                    .to_owned(),
            );
            None
        }
        Use::Free(_) => Some(SledCopy::of(root, surroundings)).filter(|sled| !matches!(sled, SledCopy::Absent)),
    };
    let mut each = |record: &Walked<'_>| {
        record.commit.iter().for_each(|event| models.apply(event));
        saved.compare(record, &models);
        if let Some(SledCopy::Open { comparison, .. }) = &mut sled {
            comparison.take(&record.commit, record.payload);
        }
    };
    let directory = root.join("log");
    let running = matches!(in_use, Use::Running);
    let verification =
        Verification { directory: &directory, in_use: running, since, each: &mut each, progress: &mut advance };
    let mut journal = verification.run()?;
    let mut findings = std::mem::take(&mut journal.findings);
    notes.append(&mut journal.notes);
    saved.finish(running, &mut findings, &mut notes);
    if let Some(sled) = sled {
        sled.finish(&directory.join("sled"), &mut findings, &mut notes);
    } else if !running {
        notes.push("there is no sled: the next start makes it from the journal".to_owned());
    }
    let named: Vec<_> = models.nodes.archives().copied().collect();
    let Contents { archives, pictures, findings: files } =
        contents::check(root, &named, advance).map_err(Unverifiable::file(root))?;
    findings.extend(files.into_iter().map(|(file, what)| Finding::of_file(file, what)));
    Ok(Report { journal, archives, pictures, findings, notes })
}

fn journal_bytes(root: &Path) -> u64 {
    let entries = fs::read_dir(root.join("log/journal")).into_iter().flatten().flatten();
    let segments = entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "seg"));
    segments.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

fn content_bytes(root: &Path) -> Result<u64, Unverifiable> {
    let mut bytes = 0;
    for area in AREAS {
        let files = contents::files(root, area).map_err(Unverifiable::file(root))?;
        bytes += files.iter().filter_map(|(path, _)| Some(fs::metadata(path).ok()?.len())).sum::<u64>();
    }
    Ok(bytes)
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// What came out, in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let JournalReport { events, head, public_key, .. } = &self.journal;
        let (position, chain) = head.map_or((0, String::new()), |head| (head.position.0, hex::encode(&head.chain.0)));
        let files = format!("{} archives, {} pictures", self.archives, self.pictures);
        if self.is_clean() {
            let key = key_text(*public_key).unwrap_or_default();
            return format!(
                "clean: {events} events up to position {position}, {files}; chain {chain}, signed with key {key}"
            );
        }
        let count = match self.findings.len() {
            1 => "1 finding".to_owned(),
            many => format!("{many} findings"),
        };
        format!("damaged: {count} in {events} events up to position {position}, {files}")
    }

    /// For machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let JournalReport { log, public_key, head, events, schemas, .. } = &self.journal;
        let schemas: serde_json::Map<_, _> =
            schemas.iter().map(|(version, records)| (version.to_string(), (*records).into())).collect();
        let mut json = json!({
            "result": if self.is_clean() { "clean" } else { "damaged" },
            "events": events,
            "records_by_schema": schemas,
            "archives": self.archives,
            "pictures": self.pictures,
            "findings": findings_json(&self.findings),
            "notes": self.notes,
        });
        if let Some(log) = log {
            json["log"] = log.to_string().into();
        }
        if let Some(key) = key_text(*public_key) {
            json["public_key"] = key.into();
        }
        if let Some(head) = head {
            json["position"] = head.position.0.into();
            json["chain"] = hex::encode(&head.chain.0).into();
        }
        json
    }
}

/// A copy of sled, because opening it writes to it.
enum SledCopy {
    Absent,
    /// It is marked for a rebuild, or there is no room for the copy: said, not found.
    Skipped(String),
    Unusable(String),
    Open {
        comparison: Box<Comparison>,
        _copy: Scratch,
    },
}

impl SledCopy {
    fn of(root: &Path, surroundings: &Surroundings) -> Self {
        let (sled, mark) = (root.join("log/sled"), root.join("log/sled.damaged"));
        if let Ok(reason) = fs::read_to_string(&mark) {
            return Self::Skipped(format!("sled is marked for a rebuild at the next start ({reason}): not compared"));
        }
        if !sled.is_dir() {
            return if sled.exists() { Self::Unusable("it is no directory".to_owned()) } else { Self::Absent };
        }
        let copied = Scratch::new(surroundings).and_then(|scratch| copy_tree(&sled, &scratch.0).map(|()| scratch));
        match copied {
            Err(error) => Self::Skipped(format!("sled was not compared: it could not be copied ({error})")),
            Ok(copy) => match Comparison::open(&copy.0) {
                Ok(comparison) => Self::Open { comparison: Box::new(comparison), _copy: copy },
                Err(reason) => Self::Unusable(reason),
            },
        }
    }

    fn finish(self, sled: &Path, findings: &mut Vec<Finding>, notes: &mut Vec<String>) {
        match self {
            Self::Absent => {}
            Self::Skipped(note) => notes.push(note),
            Self::Unusable(reason) => {
                let what = format!("sled does not open: {reason}; the next start makes it anew from the journal");
                findings.push(Finding::of_file(sled, what));
            }
            Self::Open { comparison, _copy } => {
                let Compared { differences, behind } = comparison.finish();
                let finding = |what, position| Finding { file: sled.to_owned(), offset: None, position, what };
                findings.extend(differences.into_iter().map(|difference| {
                    let what = format!("{}; the next start makes sled anew from the journal", difference.what);
                    finding(what, difference.position)
                }));
                if behind > 0 {
                    notes.push(format!("sled is {behind} events behind the journal: the next start fills them in"));
                }
            }
        }
    }
}

/// A directory that is removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(surroundings: &Surroundings) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("mediary-verify-{}", surroundings.random_uuid()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left lies where temporary files lie.
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
