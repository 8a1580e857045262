//! Usage: tasks, credits and costs, summed over the tasks of a period (contract 11).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{EntryState, TaskIndex, TaskIndexEntry};
use crate::domain::ids::{TokenId, UserId};
use crate::domain::task::{Payers, TaskKind, TaskRecord, TaskStatus, VendorPrice};
use crate::domain::value::{Text, Timestamp};

/// Vendor of tasks, with its price at that time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VendorTerms {
    pub name: Text<64>,
    pub price: VendorPrice,
}

impl VendorTerms {
    /// Returns the vendor that has a task, may have it, or had it at its end.
    pub(super) fn from_record(record: &TaskRecord) -> Option<Self> {
        let vendor = record.vendor.as_ref()?.recorded.as_ref()?;
        Some(Self { name: vendor.name.clone(), price: vendor.price })
    }
}

/// Tasks whose usage is summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageQuery {
    /// Submitted at this time or later.
    pub from: Timestamp,
    /// Submitted before this time.
    pub to: Timestamp,
    /// Of this owner; `None` is all, with anonymous callers.
    pub owner: Option<UserId>,
}

/// Sums over tasks. `held + charged + refunded` are the credits of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageCounts {
    pub submissions: u64,
    pub completed: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Credits of unfinished tasks.
    pub held: u64,
    /// Credits of completed tasks.
    pub charged: u64,
    /// Credits of failed and cancelled tasks.
    pub refunded: u64,
    /// Cost at the vendors, in thousandths.
    pub cost_thousandths: u64,
}

/// One task of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsedTask<'s> {
    pub created_at: Timestamp,
    /// `None` for anonymous callers.
    pub user: Option<UserId>,
    /// Token that authenticated the submission; `None` for anonymous callers and other credentials.
    pub token: Option<TokenId>,
    pub kind: TaskKind,
    /// Name of the vendor; `None` if no vendor has the task.
    pub vendor: Option<&'s str>,
    entry: &'s TaskIndexEntry,
    price: VendorPrice,
}

/// The tasks of a query, independent of later changes, so that they are summed without a lock.
#[derive(Debug)]
pub struct UsageScan {
    query: UsageQuery,
    blocks: Vec<Arc<Vec<TaskIndexEntry>>>,
    owners: Vec<Option<UserId>>,
    payers: Vec<Payers>,
    vendors: Vec<VendorTerms>,
    /// Indices of the owner's tasks; `None` for all tasks.
    indices: Option<Vec<u32>>,
}

impl TaskIndex {
    /// Prepares a scan. Copies no tasks.
    #[must_use]
    pub fn usage_scan(&self, query: UsageQuery) -> UsageScan {
        let indices_of = |owner| self.by_owner.get(&Some(owner)).map(|tasks| tasks.indices.clone()).unwrap_or_default();
        UsageScan {
            query,
            blocks: self.blocks.clone(),
            owners: self.owners.clone(),
            payers: self.payers.values().to_vec(),
            vendors: self.vendors.values().to_vec(),
            indices: query.owner.map(indices_of),
        }
    }

    /// Returns the entries of all tasks with their payers, oldest first.
    pub fn entries_with_payers(&self) -> impl Iterator<Item = (&TaskIndexEntry, Option<UserId>, Option<&Payers>)> {
        let entries = self.blocks.iter().flat_map(|block| block.iter());
        entries.map(|entry| {
            let owner = self.owners.get(entry.owner as usize).copied().flatten();
            (entry, owner, self.payers.get(entry.payers))
        })
    }
}

impl UsageScan {
    /// Sums the tasks in groups.
    pub fn sum_by<G: Ord>(&self, group_of: impl Fn(&UsedTask<'_>) -> G) -> BTreeMap<G, UsageCounts> {
        let mut sums = BTreeMap::<G, UsageCounts>::new();
        for entry in self.entries().filter(|entry| self.is_selected(entry)) {
            let task = self.used_task(entry);
            sums.entry(group_of(&task)).or_default().add(&task);
        }
        sums
    }

    fn entries(&self) -> Box<dyn Iterator<Item = &TaskIndexEntry> + '_> {
        let get = |index: &u32| {
            let index = *index as usize;
            self.blocks.get(index / super::BLOCK_TASKS)?.get(index % super::BLOCK_TASKS)
        };
        match &self.indices {
            Some(indices) => Box::new(indices.iter().filter_map(get)),
            None => Box::new(self.blocks.iter().flat_map(|block| block.iter())),
        }
    }

    fn is_selected(&self, entry: &TaskIndexEntry) -> bool {
        (self.query.from..self.query.to).contains(&entry.created_at)
    }

    fn used_task<'s>(&'s self, entry: &'s TaskIndexEntry) -> UsedTask<'s> {
        let in_table = |number: u32| (number as usize).checked_sub(1);
        let payers = in_table(entry.payers).and_then(|index| self.payers.get(index));
        let vendor = in_table(entry.vendor).and_then(|index| self.vendors.get(index));
        UsedTask {
            created_at: entry.created_at,
            user: self.owners.get(entry.owner as usize).copied().flatten(),
            token: payers.and_then(|payers| payers.token),
            kind: entry.kind,
            vendor: vendor.map(|vendor| vendor.name.as_str()),
            entry,
            price: vendor.map_or(VendorPrice::default(), |vendor| vendor.price),
        }
    }
}

impl UsageCounts {
    fn add(&mut self, task: &UsedTask<'_>) {
        self.submissions += 1;
        match task.entry.status {
            TaskStatus::Completed => self.completed += 1,
            TaskStatus::Failed if task.entry.is_cancelled => self.cancelled += 1,
            TaskStatus::Failed => self.failed += 1,
            TaskStatus::Created | TaskStatus::Queueing | TaskStatus::InProgress => {}
        }

        let credits = match EntryState::from_status(task.entry.status) {
            EntryState::Held => &mut self.held,
            EntryState::Charged => &mut self.charged,
            EntryState::Refunded => &mut self.refunded,
        };
        *credits += u64::from(task.entry.credits);
        self.cost_thousandths += task.price.thousandths();
    }

    /// Adds other sums.
    pub fn merge(&mut self, other: &Self) {
        self.submissions += other.submissions;
        self.completed += other.completed;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.held += other.held;
        self.charged += other.charged;
        self.refunded += other.refunded;
        self.cost_thousandths += other.cost_thousandths;
    }

    /// Returns the number of unfinished tasks.
    #[must_use]
    pub const fn unfinished(&self) -> u64 {
        self.submissions - self.completed - self.failed - self.cancelled
    }
}
