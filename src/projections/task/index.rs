//! Index of all tasks ever submitted, for task lists and the retention of files.
//!
//! A task takes 72 bytes, plus 4 in the list of its owner. Entries are stored in blocks that a snapshot shares instead
//! of copying (measurements: `docs/limits.md`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

use crate::domain::ids::{TaskId, UserId};
use crate::domain::task::{Payers, TaskEvent, TaskKind, TaskRecord, TaskStage, TaskStatus};
use crate::domain::value::{Digest, Timestamp};
use crate::domain::video::Credits;
use crate::events::stream::Position;

mod ledger;
mod usage;

use usage::{changes_vendor, get_or_insert_number};

pub use ledger::{EntryState, Ledger, LedgerEntry};
pub use usage::{UsageCounts, UsageQuery, UsageScan, UsedTask, VendorTerms};

/// Tasks per block.
const BLOCK_TASKS: usize = 1024;
/// File marks stored in the entry itself: two inputs and a result.
const ENTRY_MARKS: usize = 3;

/// End time of an unfinished task; an `Option` would add 8 bytes.
const NOT_ENDED: Timestamp = Timestamp::from_micros(i64::MAX);

/// Entry of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskIndexEntry {
    pub id: TaskId,
    /// Position of its submission in the log.
    pub position: Position,
    pub created_at: Timestamp,
    /// Time of its end; [`NOT_ENDED`] until then.
    ended_at: Timestamp,
    /// Number of its owner.
    owner: u32,
    /// Number of its payers; 0 without any.
    payers: u32,
    /// Number of its vendor; 0 without one.
    vendor: u32,
    /// Marks of its files; 0 is unused.
    files: [FileMark; ENTRY_MARKS],
    pub credits: Credits,
    pub kind: TaskKind,
    pub status: TaskStatus,
    pub credit_state: EntryState,
    is_cancelled: bool,
}

/// Prefix of a file's hash. Files with the same mark are treated as one and retained while either is needed.
pub type FileMark = u32;

/// Returns the mark of a file, which is never 0.
#[must_use]
pub fn mark_of(digest: &Digest) -> FileMark {
    let [a, b, c, d, ..] = digest.0;
    u32::from_le_bytes([a, b, c, d]).max(1)
}

/// The index. Cloning shares the blocks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskIndex {
    /// Entries in log order; all blocks except the last are full.
    blocks: Vec<Arc<Vec<TaskIndexEntry>>>,
    /// Owners by number; `None` stands for all anonymous callers.
    owners: Arc<Vec<Option<UserId>>>,
    by_owner: HashMap<Option<UserId>, OwnerTasks>,
    /// Payers of all tasks, each once. A task has the number of its payers, counted from 1.
    payers: Arc<IndexSet<Payers>>,
    /// Vendors of all tasks, each once for each of its prices; numbered in the same way.
    vendors: Arc<IndexSet<VendorTerms>>,
    /// Marks that do not fit into the entry of their task.
    extra_marks: HashMap<TaskId, Vec<FileMark>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct OwnerTasks {
    number: u32,
    ledger: Ledger,
    /// Indices of the tasks, in log order.
    indices: Vec<u32>,
}

/// Conditions of a task list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// Tasks of this owner; `None` is all owners.
    pub owner: Option<UserId>,
    /// Any of these kinds; empty is all kinds.
    pub kinds: Vec<TaskKind>,
    /// Any of these states; empty is all states.
    pub states: Vec<TaskStatus>,
    /// Submitted at this time or later.
    pub from: Option<Timestamp>,
    /// Submitted before this time.
    pub to: Option<Timestamp>,
}

impl TaskFilter {
    fn matching_id(&self, task: &TaskIndexEntry) -> Option<TaskId> {
        self.matches(task).then_some(task.id)
    }

    fn matches(&self, task: &TaskIndexEntry) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&task.kind))
            && (self.states.is_empty() || self.states.contains(&task.status))
            && self.from.is_none_or(|from| task.created_at >= from)
            && self.to.is_none_or(|to| task.created_at < to)
    }
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskListPart<T = TaskId> {
    /// Tasks, newest first.
    pub tasks: Vec<T>,
    /// Position before which the list continues; `None` at the end.
    pub continue_before: Option<Position>,
}

impl<T> Default for TaskListPart<T> {
    fn default() -> Self {
        Self { tasks: Vec::new(), continue_before: None }
    }
}

impl TaskIndex {
    /// Applies an event of a task; `record` is the state after it.
    pub fn apply(&mut self, record: &TaskRecord, event: &TaskEvent, submitted: Position) {
        let task = record.submission.task;
        match event {
            TaskEvent::TaskSubmitted(submission) => {
                self.push(record, submitted);
                self.add_file_marks(task, submitted, &submission.work.files());
            }
            TaskEvent::InputsFetched { inputs } => {
                let files: Vec<_> = inputs.iter().map(|input| input.digest).collect();
                self.add_file_marks(task, submitted, &files);
            }
            TaskEvent::FootageFetched { clip } => self.add_file_marks(task, submitted, &[clip.digest]),
            _ => {
                if let Some(results) = event.results() {
                    self.add_file_marks(task, submitted, &results.files());
                }
            }
        }

        let vendor = if changes_vendor(event) {
            Some(VendorTerms::after(event, record).map_or(0, |terms| get_or_insert_number(&mut self.vendors, &terms)))
        } else {
            None
        };
        let Some(entry) = self.entry_mut(submitted) else { return };
        entry.vendor = vendor.unwrap_or(entry.vendor);
        if entry.status == record.status {
            return;
        }

        entry.status = record.status;
        entry.is_cancelled = matches!(&record.stage, TaskStage::Failed { failure } if failure.is_cancellation());
        entry.ended_at = if record.is_terminal() { record.updated_at } else { NOT_ENDED };
        entry.credit_state = EntryState::from_record(record);
        let credits = entry.credits;
        let state = entry.credit_state;
        if let Some(owner_tasks) = self.by_owner.get_mut(&record.submission.owner) {
            owner_tasks.ledger.settle(credits, state);
        }
    }

    fn push(&mut self, record: &TaskRecord, position: Position) {
        let submission = &record.submission;
        let payers = submission.payers.as_ref().map_or(0, |payers| get_or_insert_number(&mut self.payers, payers));
        let owner_number = u32::try_from(self.owners.len()).unwrap_or(u32::MAX);
        let owner_tasks = self.by_owner.entry(submission.owner).or_insert_with(|| {
            Arc::make_mut(&mut self.owners).push(submission.owner);
            OwnerTasks { number: owner_number, ..OwnerTasks::default() }
        });

        let entry = TaskIndexEntry {
            id: submission.task,
            position,
            created_at: record.created_at,
            ended_at: NOT_ENDED,
            owner: owner_tasks.number,
            payers,
            vendor: 0,
            files: [0; ENTRY_MARKS],
            credits: submission.work.credits(),
            kind: submission.work.kind(),
            status: record.status,
            credit_state: EntryState::from_record(record),
            is_cancelled: false,
        };
        owner_tasks.ledger.hold(entry.credits);

        let is_full = self.blocks.last().is_none_or(|block| block.len() >= BLOCK_TASKS);
        if is_full {
            self.blocks.push(Arc::new(Vec::with_capacity(BLOCK_TASKS)));
        }

        let index = (self.blocks.len() - 1) * BLOCK_TASKS + self.blocks.last().map_or(0, |block| block.len());
        owner_tasks.indices.push(u32::try_from(index).unwrap_or(u32::MAX));
        if let Some(block) = self.blocks.last_mut() {
            Arc::make_mut(block).push(entry);
        }
    }

    fn add_file_marks(&mut self, task: TaskId, submitted: Position, files: &[Digest]) {
        for digest in files {
            let mark = mark_of(digest);
            let Some(entry) = self.entry_mut(submitted) else { return };
            match entry.files.iter_mut().find(|slot| **slot == 0 || **slot == mark) {
                Some(slot) => *slot = mark,
                None => self.extra_marks.entry(task).or_default().push(mark),
            }
        }
    }

    fn entry_mut(&mut self, submitted: Position) -> Option<&mut TaskIndexEntry> {
        let index = self.index_from(submitted);
        let block = Arc::make_mut(self.blocks.get_mut(index / BLOCK_TASKS)?);
        block.get_mut(index % BLOCK_TASKS).filter(|entry| entry.position == submitted)
    }

    /// Returns the index of the first task submitted at `position` or later.
    fn index_from(&self, position: Position) -> usize {
        let is_before = |task: &TaskIndexEntry| task.position < position;
        let block_index = self.blocks.partition_point(|block| block.last().is_some_and(is_before));
        let index_in_block = self.blocks.get(block_index).map_or(0, |block| block.partition_point(is_before));
        block_index * BLOCK_TASKS + index_in_block
    }

    fn get(&self, index: usize) -> Option<&TaskIndexEntry> {
        self.blocks.get(index / BLOCK_TASKS)?.get(index % BLOCK_TASKS)
    }

    /// Returns at most `limit` matching tasks before a position, newest first; examines at most `scan_limit` tasks.
    #[must_use]
    pub fn newest(
        &self,
        filter: &TaskFilter,
        before: Option<Position>,
        limit: usize,
        scan_limit: usize,
    ) -> TaskListPart {
        let end = before.map_or_else(|| self.len(), |before| self.index_from(before));
        let Some(owner) = filter.owner else {
            return self.collect_matching((0..end).rev(), |task| filter.matching_id(task), limit, scan_limit);
        };
        let Some(OwnerTasks { indices, .. }) = self.by_owner.get(&Some(owner)) else {
            return TaskListPart::default();
        };
        let end_in_owner = indices.partition_point(|index| (*index as usize) < end);
        self.collect_matching(
            indices[..end_in_owner].iter().rev().map(|index| *index as usize),
            |task| filter.matching_id(task),
            limit,
            scan_limit,
        )
    }

    /// Returns the credits of a caller; anonymous callers share one ledger.
    #[must_use]
    pub fn ledger_of(&self, owner: Option<UserId>) -> Ledger {
        self.by_owner.get(&owner).map(|owner_tasks| owner_tasks.ledger).unwrap_or_default()
    }

    /// Returns the number of tasks that a caller has submitted since a time; anonymous callers share one count.
    #[must_use]
    pub fn count_since(&self, owner: Option<UserId>, since: Timestamp) -> u64 {
        let indices = self.by_owner.get(&owner).map_or(&[][..], |owner_tasks| &owner_tasks.indices);
        let is_before = |index: &u32| self.get(*index as usize).is_some_and(|task| task.created_at < since);
        (indices.len() - indices.partition_point(is_before)) as u64
    }

    /// Returns the credits that a caller has spent since a time, without refunds; anonymous callers share one sum.
    /// Examines only the tasks in that period.
    #[must_use]
    pub fn spent_since(&self, owner: Option<UserId>, since: Timestamp) -> u64 {
        let indices = self.by_owner.get(&owner).map_or(&[][..], |owner_tasks| &owner_tasks.indices);
        let tasks = indices.iter().rev().filter_map(|index| self.get(*index as usize));
        let recent = tasks.take_while(|task| task.created_at >= since);
        recent.map(TaskIndexEntry::spent).fold(0, u64::saturating_add)
    }

    /// Returns the ledger entries of a caller, newest first; the limits are those of [`TaskIndex::newest`].
    #[must_use]
    pub fn ledger_entries(
        &self,
        owner: Option<UserId>,
        before: Option<Position>,
        limit: usize,
        scan_limit: usize,
    ) -> TaskListPart<LedgerEntry> {
        let end = before.map_or_else(|| self.len(), |before| self.index_from(before));
        let Some(OwnerTasks { indices, .. }) = self.by_owner.get(&owner) else {
            return TaskListPart::default();
        };
        let end_in_owner = indices.partition_point(|index| (*index as usize) < end);
        self.collect_matching(
            indices[..end_in_owner].iter().rev().map(|index| *index as usize),
            LedgerEntry::from_task,
            limit,
            scan_limit,
        )
    }

    fn collect_matching<T>(
        &self,
        indices: impl Iterator<Item = usize>,
        map_matching: impl Fn(&TaskIndexEntry) -> Option<T>,
        limit: usize,
        scan_limit: usize,
    ) -> TaskListPart<T> {
        let mut part = TaskListPart::default();
        let mut last_position = None;

        for (scanned, task) in indices.filter_map(|index| self.get(index)).enumerate() {
            if part.tasks.len() >= limit || scanned >= scan_limit {
                part.continue_before = last_position;
                break;
            }
            last_position = Some(task.position);
            part.tasks.extend(map_matching(task));
        }
        part
    }

    /// Returns the number of all tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks.last().map_or(0, |last| (self.blocks.len() - 1) * BLOCK_TASKS + last.len())
    }

    /// Returns `true` if no task was ever submitted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns the file marks of all tasks that are unfinished or ended after `since`.
    #[must_use]
    pub fn marks_since(&self, since: Timestamp) -> HashSet<FileMark> {
        let mut marks = HashSet::new();
        for task in self.blocks.iter().flat_map(|block| block.iter()) {
            if task.ended_at > since {
                marks.extend(task.files.into_iter().filter(|mark| *mark != 0));
                marks.extend(self.extra_marks.get(&task.id).into_iter().flatten());
            }
        }
        marks
    }

    /// Returns a copy for a snapshot, which shares the blocks and omits derived data.
    #[must_use]
    pub fn snapshot_copy(&self) -> Self {
        let blocks = self.blocks.clone();
        let owners = Arc::clone(&self.owners);
        let payers = Arc::clone(&self.payers);
        let vendors = Arc::clone(&self.vendors);
        let extra_marks = self.extra_marks.clone();
        Self { blocks, owners, by_owner: HashMap::new(), payers, vendors, extra_marks }
    }

    /// Returns the parts of a snapshot: owners by number, blocks, and additional marks.
    #[expect(clippy::type_complexity, reason = "three parts, named above")]
    pub fn snapshot_parts(
        &self,
    ) -> (&[Option<UserId>], impl Iterator<Item = &Vec<TaskIndexEntry>>, &HashMap<TaskId, Vec<FileMark>>) {
        (&self.owners, self.blocks.iter().map(|block| &**block), &self.extra_marks)
    }

    /// Returns the payers and vendors in the order of their numbers, for a snapshot.
    #[must_use]
    pub fn snapshot_tables(&self) -> (&IndexSet<Payers>, &IndexSet<VendorTerms>) {
        (&self.payers, &self.vendors)
    }

    /// Restores payers in the order of their numbers.
    pub fn restore_payers(&mut self, payers: Vec<Payers>) {
        Arc::make_mut(&mut self.payers).extend(payers);
    }

    /// Restores vendors in the order of their numbers.
    pub fn restore_vendors(&mut self, vendors: Vec<VendorTerms>) {
        Arc::make_mut(&mut self.vendors).extend(vendors);
    }

    /// Restores owners in the order of their numbers.
    pub fn restore_owners(&mut self, owners: Vec<Option<UserId>>) {
        for owner in owners {
            let number = u32::try_from(self.owners.len()).unwrap_or(u32::MAX);
            self.by_owner.insert(owner, OwnerTasks { number, ..OwnerTasks::default() });
            Arc::make_mut(&mut self.owners).push(owner);
        }
    }

    /// Restores blocks in order; the owners must be restored first.
    pub fn restore_blocks(&mut self, blocks: Vec<Vec<TaskIndexEntry>>) {
        for block in blocks {
            let first = self.blocks.len() * BLOCK_TASKS;
            for (index, task) in (first..).zip(&block) {
                let owner = self.owners.get(task.owner as usize);
                if let Some(owner_tasks) = owner.and_then(|owner| self.by_owner.get_mut(owner)) {
                    owner_tasks.indices.push(u32::try_from(index).unwrap_or(u32::MAX));
                    owner_tasks.ledger.hold(task.credits);
                    owner_tasks.ledger.settle(task.credits, task.credit_state);
                }
            }
            self.blocks.push(Arc::new(block));
        }
    }

    /// Restores additional marks.
    pub fn restore_extra_marks(&mut self, marks: Vec<(TaskId, Vec<FileMark>)>) {
        self.extra_marks.extend(marks);
    }
}

#[cfg(test)]
mod tests;
