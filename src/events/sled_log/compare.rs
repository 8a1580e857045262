//! Comparison of sled with the journal, record by record in both directions, which reports every difference.
//!
//! Opening sled writes to its directory, so the comparison works on a copy that the caller provides. It needs constant
//! memory, because both are ordered by position.

use std::fs::File;
use std::io::{BufReader, Read};
use std::iter::Peekable;
use std::path::Path;

use super::{SledTrees, read_commit, stream_entry, u64_at};
use crate::events::envelope::Commit;
use crate::events::stream::Position;

/// Maximum number of differences listed individually.
const DIFFERENCES_MAX: usize = 100;

type SledEntries = Peekable<Box<dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), String>>>>;

/// A difference between sled and the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SledDifference {
    pub position: Option<Position>,
    pub description: String,
}

/// A comparison in progress.
pub struct Comparison {
    trees: SledTrees,
    entries: SledEntries,
    /// The last commit in sled. Later ones are behind, not missing.
    last_position: u64,
    /// Number of records that both hold.
    common: u64,
    /// Number of events that sled does not hold yet.
    behind: u64,
    /// `true` if the file has bytes that sled does not recognize as its own. Sled then silently holds nothing.
    is_foreign: bool,
    reported: Vec<SledDifference>,
    omitted: usize,
}

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparisonReport {
    pub differences: Vec<SledDifference>,
    /// Number of events that sled does not hold yet. The next start fills them in.
    pub behind: u64,
}

impl Comparison {
    /// Opens the copy of a sled directory.
    ///
    /// # Errors
    /// Returns the reason if sled does not open the copy.
    pub fn open(copy: &Path) -> Result<Self, String> {
        let had_data = has_nonzero_bytes(&copy.join("db"));
        let trees = SledTrees::open(copy).map_err(|error| error.reason)?;
        let is_foreign = had_data && !trees.db.was_recovered();

        let entries: Box<dyn Iterator<Item = _>> = Box::new(SledTrees::entries(&trees.events));
        let last_key = trees.last_key()?;
        let last_position = last_key.and_then(|key| u64_at(&key, 0)).unwrap_or_default();

        Ok(Self {
            trees,
            entries: entries.peekable(),
            last_position,
            common: 0,
            behind: 0,
            is_foreign,
            reported: Vec::new(),
            omitted: 0,
        })
    }

    /// Compares the next record of the journal.
    pub fn compare_next(&mut self, commit: &Commit, payload: &[u8]) {
        let position = commit[0].position;
        self.skip_to(position);
        if position.0 > self.last_position {
            self.behind += commit.len() as u64;
            return;
        }

        let key = position.0.to_be_bytes();
        match self.entries.next_if(|entry| matches!(entry, Ok((found, _)) if *found == key)) {
            Some(Ok((_, value))) if value == payload => {
                self.common += 1;
                self.check_stream(commit);
            }
            Some(_) => self.report(Some(position), "the record differs from that of the journal"),
            None => self.report(Some(position), "the record is missing"),
        }
    }

    /// Reports records before a position that only sled holds.
    fn skip_to(&mut self, position: Position) {
        let is_before = |entry: &Result<(Vec<u8>, Vec<u8>), String>| {
            entry.as_ref().map_or(true, |(key, _)| u64_at(key, 0).is_none_or(|key_position| key_position < position.0))
        };

        while let Some(entry) = self.entries.next_if(is_before) {
            match entry {
                Ok((key, _)) => {
                    let found_position = u64_at(&key, 0).map(Position);
                    self.report(found_position, "the record is not in the journal");
                }
                Err(reason) => {
                    self.report(None, &format!("reading it failed: {reason}"));
                    self.entries = (Box::new(std::iter::empty()) as Box<dyn Iterator<Item = _>>).peekable();
                }
            }
        }
    }

    /// Checks that the stream index leads to the record.
    fn check_stream(&mut self, commit: &Commit) {
        let (key, value) = stream_entry(commit);
        let indexed = self.trees.stream_value(&key);
        if indexed.as_ref().is_ok_and(|stored| stored.as_deref() == Some(&value[..])) {
            return;
        }
        let stream = &commit[0].stream;
        let version = commit[0].version;
        self.report(
            Some(commit[0].position),
            &format!("the index does not lead to version {version} of stream {stream}"),
        );
    }

    /// Ends the comparison. Records left in sled are not in the journal.
    #[must_use]
    pub fn finish(mut self) -> ComparisonReport {
        self.skip_to(Position(u64::MAX));

        let mut indexed = 0;
        for entry in SledTrees::entries(&self.trees.streams) {
            indexed += u64::from(entry.is_ok());
        }
        if indexed > self.common {
            self.check_index();
        }

        if self.is_foreign && self.behind > 0 {
            self.report(None, "it is empty, although its file is not");
            self.behind = 0;
        }

        if self.omitted > 0 {
            let description = format!("and {} more differences", self.omitted);
            self.reported.push(SledDifference { position: None, description });
        }

        ComparisonReport { differences: self.reported, behind: self.behind }
    }

    /// Reports index entries without a record. Skips entries after the last record, which are just being inserted.
    fn check_index(&mut self) {
        for entry in SledTrees::entries(&self.trees.streams) {
            let Ok((key, value)) = entry else { continue };
            let position = Position(u64_at(&value, 0).unwrap_or_default());
            if position.0 > self.last_position {
                continue;
            }
            let event_key = position.0.to_be_bytes();
            let commit = self
                .trees
                .event_value(&event_key)
                .ok()
                .flatten()
                .and_then(|payload| read_commit(&event_key, &payload).ok());
            if commit.is_none_or(|commit| stream_entry(&commit).0 != key) {
                self.report(Some(position), "an entry of the index leads to no record");
            }
        }
    }

    fn report(&mut self, position: Option<Position>, description: &str) {
        if self.reported.len() < DIFFERENCES_MAX {
            self.reported.push(SledDifference { position, description: description.to_owned() });
        } else {
            self.omitted += 1;
        }
    }
}

/// Returns `true` if a file has a byte other than zero.
fn has_nonzero_bytes(file: &Path) -> bool {
    let Ok(file) = File::open(file) else { return false };
    BufReader::new(file).bytes().any(|byte| byte.is_ok_and(|byte| byte != 0))
}
