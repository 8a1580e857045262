//! Every task that was ever submitted, in a few words each: what lists of tasks and the retention of files look at.
//!
//! A task takes 64 bytes, and 4 more in the list of its owner; entries lie in blocks that
//! a snapshot shares instead of copying them (`docs/tasks.md` has the figures as they were measured).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::ids::{TaskId, UserId};
use crate::domain::task::{TaskEvent, TaskKind, TaskRecord, TaskStatus};
use crate::domain::value::{Digest, Timestamp};
use crate::domain::video::Credits;
use crate::events::stream::Position;

mod ledger;

pub use ledger::{Entry, EntryState, Ledger};

/// Tasks a block.
const BLOCK: usize = 1024;
/// Marks of files that stand with the task itself: two inputs and a result.
const MARKS: usize = 3;

/// The end of a task that has none yet: an `Option` would take another 8 bytes.
const NOT_ENDED: Timestamp = Timestamp::from_micros(i64::MAX);

/// What is remembered of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub id: TaskId,
    /// Where it was submitted in the log.
    pub position: Position,
    pub created_at: Timestamp,
    /// When it ended; [`NOT_ENDED`] before.
    ended_at: Timestamp,
    /// The number of its owner.
    owner: u32,
    /// The files that it names; 0 is none.
    files: [Mark; MARKS],
    pub credits: Credits,
    pub kind: TaskKind,
    pub status: TaskStatus,
}

/// A file by a part of its hash: two files that share one are taken for one, and kept as long as either is needed.
pub type Mark = u32;

/// The mark of a file, which is never 0.
#[must_use]
pub fn mark_of(digest: &Digest) -> Mark {
    let [a, b, c, d, ..] = digest.0;
    u32::from_le_bytes([a, b, c, d]).max(1)
}

/// The index. Cheap to clone as far as blocks are concerned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Index {
    /// In the order of the log; all but the last are full.
    blocks: Vec<Arc<Vec<Listed>>>,
    /// Owners by their numbers; nobody is one of them, whose are the tasks of anonymous callers.
    owners: Vec<Option<UserId>>,
    of_owner: HashMap<Option<UserId>, Owned>,
    /// Marks of tasks that name more files than an entry has room for.
    more: HashMap<TaskId, Vec<Mark>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Owned {
    number: u32,
    ledger: Ledger,
    /// Places of the tasks in the order of the log.
    places: Vec<u32>,
}

/// Which tasks a list has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this owner; `None`: of all.
    pub owner: Option<UserId>,
    /// Of one of these kinds; empty: of any.
    pub kinds: Vec<TaskKind>,
    /// In one of these states; empty: in any.
    pub states: Vec<TaskStatus>,
    /// Submitted at this time or later.
    pub from: Option<Timestamp>,
    /// Submitted before this time.
    pub to: Option<Timestamp>,
}

impl Filter {
    fn pick(&self, task: &Listed) -> Option<TaskId> {
        self.lets_through(task).then_some(task.id)
    }

    fn lets_through(&self, task: &Listed) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&task.kind))
            && (self.states.is_empty() || self.states.contains(&task.status))
            && self.from.is_none_or(|from| task.created_at >= from)
            && self.to.is_none_or(|to| task.created_at < to)
    }
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<T = TaskId> {
    /// The newest first.
    pub tasks: Vec<T>,
    /// Before which position to go on; `None`: there is nothing more.
    pub rest: Option<Position>,
}

impl<T> Default for Found<T> {
    fn default() -> Self {
        Self { tasks: Vec::new(), rest: None }
    }
}

impl Index {
    /// Takes in what happened to a task; `record` is how it is now.
    pub fn apply(&mut self, record: &TaskRecord, event: &TaskEvent, submitted: Position) {
        let task = record.submission.task;
        match event {
            TaskEvent::TaskSubmitted(submission) => {
                self.push(record, submitted);
                self.name_files(task, submitted, &submission.work.files());
            }
            TaskEvent::InputsFetched { inputs } => {
                let files: Vec<_> = inputs.iter().map(|input| input.digest).collect();
                self.name_files(task, submitted, &files);
            }
            TaskEvent::FootageFetched { clip } => self.name_files(task, submitted, &[clip.digest]),
            _ => {
                if let Some(results) = event.results() {
                    self.name_files(task, submitted, &results.files());
                }
            }
        }
        let Some(entry) = self.entry_mut(submitted).filter(|entry| entry.status != record.status) else { return };
        entry.status = record.status;
        entry.ended_at = if record.is_terminal() { record.updated_at } else { NOT_ENDED };
        let (credits, status) = (entry.credits, entry.status);
        if let Some(owned) = self.of_owner.get_mut(&record.submission.owner) {
            owned.ledger.settle(credits, status);
        }
    }

    fn push(&mut self, record: &TaskRecord, position: Position) {
        let submission = &record.submission;
        let next = u32::try_from(self.owners.len()).unwrap_or(u32::MAX);
        let own = self.of_owner.entry(submission.owner).or_insert_with(|| {
            self.owners.push(submission.owner);
            Owned { number: next, ..Owned::default() }
        });
        let entry = Listed {
            id: submission.task,
            position,
            created_at: record.created_at,
            ended_at: NOT_ENDED,
            owner: own.number,
            files: [0; MARKS],
            credits: submission.work.credits(),
            kind: submission.work.kind(),
            status: record.status,
        };
        own.ledger.hold(entry.credits);
        let full = self.blocks.last().is_none_or(|block| block.len() >= BLOCK);
        if full {
            self.blocks.push(Arc::new(Vec::with_capacity(BLOCK)));
        }
        let place = (self.blocks.len() - 1) * BLOCK + self.blocks.last().map_or(0, |block| block.len());
        own.places.push(u32::try_from(place).unwrap_or(u32::MAX));
        if let Some(block) = self.blocks.last_mut() {
            Arc::make_mut(block).push(entry);
        }
    }

    fn name_files(&mut self, task: TaskId, submitted: Position, files: &[Digest]) {
        for file in files {
            let mark = mark_of(file);
            let Some(entry) = self.entry_mut(submitted) else { return };
            match entry.files.iter_mut().find(|place| **place == 0 || **place == mark) {
                Some(place) => *place = mark,
                None => self.more.entry(task).or_default().push(mark),
            }
        }
    }

    fn entry_mut(&mut self, submitted: Position) -> Option<&mut Listed> {
        let place = self.first_from(submitted);
        let block = Arc::make_mut(self.blocks.get_mut(place / BLOCK)?);
        block.get_mut(place % BLOCK).filter(|entry| entry.position == submitted)
    }

    /// The place of the first task that was submitted at `position` or later.
    fn first_from(&self, position: Position) -> usize {
        let block = self.blocks.partition_point(|block| block.last().is_some_and(|last| last.position < position));
        let within = self.blocks.get(block);
        block * BLOCK + within.map_or(0, |tasks| tasks.partition_point(|task| task.position < position))
    }

    fn at(&self, place: usize) -> Option<&Listed> {
        self.blocks.get(place / BLOCK)?.get(place % BLOCK)
    }

    /// The tasks before a position that a filter lets through, at most `limit` after looking at no more than `looked`.
    #[must_use]
    pub fn newest(&self, filter: &Filter, before: Option<Position>, limit: usize, looked: usize) -> Found {
        let end = before.map_or_else(|| self.len(), |before| self.first_from(before));
        let Some(owner) = filter.owner else {
            return self.gather((0..end).rev(), |task| filter.pick(task), limit, looked);
        };
        let Some(Owned { places, .. }) = self.of_owner.get(&Some(owner)) else { return Found::default() };
        let own = places.partition_point(|place| (*place as usize) < end);
        self.gather(places[..own].iter().rev().map(|place| *place as usize), |task| filter.pick(task), limit, looked)
    }

    /// What a caller has spent and what is held; anonymous callers are one.
    #[must_use]
    pub fn ledger_of(&self, owner: Option<UserId>) -> Ledger {
        self.of_owner.get(&owner).map(|owned| owned.ledger).unwrap_or_default()
    }

    /// Returns the number of tasks that a caller has submitted since a time; anonymous callers are one.
    #[must_use]
    pub fn count_since(&self, owner: Option<UserId>, since: Timestamp) -> u64 {
        let places = self.of_owner.get(&owner).map_or(&[][..], |owned| &owned.places);
        let is_before = |place: &u32| self.at(*place as usize).is_some_and(|task| task.created_at < since);
        (places.len() - places.partition_point(is_before)) as u64
    }

    /// Returns the credits that a caller has spent since a time, without those that were refunded; anonymous callers are one.
    /// Looks at those tasks and no others.
    #[must_use]
    pub fn spent_since(&self, owner: Option<UserId>, since: Timestamp) -> u64 {
        let places = self.of_owner.get(&owner).map_or(&[][..], |owned| &owned.places);
        let tasks = places.iter().rev().filter_map(|place| self.at(*place as usize));
        let recent = tasks.take_while(|task| task.created_at >= since);
        recent.map(Listed::spent).fold(0, u64::saturating_add)
    }

    /// The entries of a caller's ledger, the newest first, as [`Index::newest`].
    #[must_use]
    pub fn entries_of(
        &self,
        owner: Option<UserId>,
        before: Option<Position>,
        limit: usize,
        looked: usize,
    ) -> Found<Entry> {
        let end = before.map_or_else(|| self.len(), |before| self.first_from(before));
        let Some(Owned { places, .. }) = self.of_owner.get(&owner) else { return Found::default() };
        let own = places.partition_point(|place| (*place as usize) < end);
        self.gather(places[..own].iter().rev().map(|place| *place as usize), Entry::of, limit, looked)
    }

    fn gather<T>(
        &self,
        places: impl Iterator<Item = usize>,
        lets_through: impl Fn(&Listed) -> Option<T>,
        limit: usize,
        looked: usize,
    ) -> Found<T> {
        let mut found = Found::default();
        let mut last = None;
        for (nth, task) in places.filter_map(|place| self.at(place)).enumerate() {
            if found.tasks.len() >= limit || nth >= looked {
                found.rest = last;
                break;
            }
            last = Some(task.position);
            found.tasks.extend(lets_through(task));
        }
        found
    }

    /// How many tasks there ever were.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks.last().map_or(0, |last| (self.blocks.len() - 1) * BLOCK + last.len())
    }

    /// Whether there never was a task.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The marks of the files of every task that has not ended, or ended after `since`.
    #[must_use]
    pub fn marks_since(&self, since: Timestamp) -> HashSet<Mark> {
        let mut marks = HashSet::new();
        for task in self.blocks.iter().flat_map(|block| block.iter()) {
            if task.ended_at > since {
                marks.extend(task.files.into_iter().filter(|mark| *mark != 0));
                marks.extend(self.more.get(&task.id).into_iter().flatten());
            }
        }
        marks
    }

    /// The same index without what is made anew from it; shares the blocks.
    #[must_use]
    pub fn captured(&self) -> Self {
        let (blocks, owners, more) = (self.blocks.clone(), self.owners.clone(), self.more.clone());
        Self { blocks, owners, of_owner: HashMap::new(), more }
    }

    /// What a snapshot keeps: owners by their numbers, blocks, and the marks that stand apart.
    #[expect(clippy::type_complexity, reason = "three parts, named above")]
    pub fn saved(&self) -> (&[Option<UserId>], impl Iterator<Item = &Vec<Listed>>, &HashMap<TaskId, Vec<Mark>>) {
        (&self.owners, self.blocks.iter().map(|block| &**block), &self.more)
    }

    /// Puts owners back, in the order of their numbers.
    pub fn restore_owners(&mut self, owners: Vec<Option<UserId>>) {
        for owner in owners {
            let number = u32::try_from(self.owners.len()).unwrap_or(u32::MAX);
            self.of_owner.insert(owner, Owned { number, ..Owned::default() });
            self.owners.push(owner);
        }
    }

    /// Puts blocks back, after their owners and in their order.
    pub fn restore_blocks(&mut self, blocks: Vec<Vec<Listed>>) {
        for block in blocks {
            let first = self.blocks.len() * BLOCK;
            for (place, task) in (first..).zip(&block) {
                let owner = self.owners.get(task.owner as usize);
                if let Some(owned) = owner.and_then(|owner| self.of_owner.get_mut(owner)) {
                    owned.places.push(u32::try_from(place).unwrap_or(u32::MAX));
                    owned.ledger.hold(task.credits);
                    owned.ledger.settle(task.credits, task.status);
                }
            }
            self.blocks.push(Arc::new(block));
        }
    }

    /// Puts back the marks that stand apart.
    pub fn restore_more(&mut self, more: Vec<(TaskId, Vec<Mark>)>) {
        self.more.extend(more);
    }
}

#[cfg(test)]
mod tests;
