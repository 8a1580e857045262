//! Usage: tasks, credits and costs, summed over the tasks of a period (contract 11).

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

use super::{EntryState, TaskIndex, TaskIndexEntry};
use crate::domain::budget::BudgetSubject;
use crate::domain::ids::{TokenId, UserId};
use crate::domain::task::{Payers, TaskEvent, TaskKind, TaskRecord, TaskStatus, VendorPrice};
use crate::domain::value::{Text, Timestamp};

/// Vendor of tasks, with its price at that time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VendorTerms {
    pub name: Text<64>,
    pub price: VendorPrice,
}

impl VendorTerms {
    /// Returns the vendor that has a task, may have it, or had it at its end, after an event that
    /// [changes](changes_vendor) it. A job that the vendor refused costs nothing.
    pub(super) fn after(event: &TaskEvent, record: &TaskRecord) -> Option<Self> {
        let vendor = record.vendor.as_ref()?.recorded.as_ref()?;
        let was_refused = matches!(event, TaskEvent::VendorRefused { .. });
        let price = if was_refused { VendorPrice::default() } else { vendor.price };
        Some(Self { name: vendor.name.clone(), price })
    }
}

/// Returns `true` for the events that change the vendor of a task or its cost.
pub(super) const fn changes_vendor(event: &TaskEvent) -> bool {
    matches!(
        event,
        TaskEvent::SubmissionStarted { .. }
            | TaskEvent::SubmissionUndelivered { .. }
            | TaskEvent::VendorForgot
            | TaskEvent::VendorRefused { .. }
    )
}

/// Returns the number of a value, from 1, in a table; the value is added if it is new.
pub(super) fn get_or_insert_number<T: Hash + Eq + Clone>(table: &mut Arc<IndexSet<T>>, value: &T) -> u32 {
    let index = table.get_index_of(value).unwrap_or_else(|| Arc::make_mut(table).insert_full(value.clone()).0);
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

/// Returns the value with a number; `None` for 0.
fn with_number<T>(table: &IndexSet<T>, number: u32) -> Option<&T> {
    table.get_index((number as usize).checked_sub(1)?)
}

/// Tasks whose usage is summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageQuery {
    /// Earliest time of submission, inclusive.
    pub from: Timestamp,
    /// End of the range of submission times, exclusive.
    pub to: Timestamp,
    /// Owner of the tasks; `None` selects the tasks of all callers, including anonymous ones.
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
    /// Credits of completed tasks, and of streams that their client ended.
    pub charged: u64,
    /// Credits of other failed and cancelled tasks.
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
    owners: Arc<Vec<Option<UserId>>>,
    payers: Arc<IndexSet<Payers>>,
    vendors: Arc<IndexSet<VendorTerms>>,
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
            owners: Arc::clone(&self.owners),
            payers: Arc::clone(&self.payers),
            vendors: Arc::clone(&self.vendors),
            indices: query.owner.map(indices_of),
        }
    }

    /// Returns the tasks that the budget of a subject counts. Reads only the owner's tasks, unless the subject is among
    /// the payers of some task.
    pub fn paid_by(&self, subject: &BudgetSubject) -> impl Iterator<Item = &TaskIndexEntry> {
        let owner = if let BudgetSubject::User(user) = subject { self.by_owner.get(&Some(*user)) } else { None };
        let own_tasks =
            owner.into_iter().flat_map(|owner| &owner.indices).filter_map(|index| self.get(*index as usize));

        let pays = |payers: &Payers| payers.budget_subjects().any(|payer| payer == *subject);
        let numbers: HashSet<u32> =
            (1..).zip(self.payers.iter()).filter(|(_, payers)| pays(payers)).map(|(number, _)| number).collect();
        let blocks = if numbers.is_empty() { &[][..] } else { &self.blocks };
        let paid = blocks.iter().flat_map(|block| block.iter()).filter(move |task| numbers.contains(&task.payers));
        own_tasks.chain(paid)
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
        let payers = with_number(&self.payers, entry.payers);
        let vendor = with_number(&self.vendors, entry.vendor);
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

        let credits = match task.entry.credit_state {
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
