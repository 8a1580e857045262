//! Indexes of node lists, derived from the nodes: built on first use, then updated with every change.
//!
//! A replay does not build them, so a start sorts once instead of after every event.

use std::sync::Arc;

use rayon::prelude::*;

use super::bitset::{Slot, SlotSet};
use super::column::{ColumnOrders, NodeSortRow, NumericSortKeys};
use super::entry::NodeEntry;
use super::facets::{Facets, PlatformDeclarations};
use super::owners::Owners;
use super::search::{NodeWords, SearchIndex, words_of_node};

/// Number of nodes that can be copied at about the cost of moving one node in the orders.
const MOVE_COST: usize = 1000;

/// All indexes of lists.
#[derive(Debug, Clone, PartialEq)]
pub struct Indexes {
    /// Sort keys by slot; empty for deleted nodes.
    pub rows: Vec<NodeSortRow>,
    /// Nodes that are not deleted.
    pub present: SlotSet,
    /// Nodes that public lists show.
    pub visible: SlotSet,
    /// Orders of the visible nodes.
    pub orders: ColumnOrders,
    pub facets: Facets,
    pub search: SearchIndex,
}

/// Declarations and search words of a node. Expensive to collect, and rarely changed.
#[derive(Debug, Default)]
pub struct NodeIndexTerms {
    declared: PlatformDeclarations,
    /// `None` if the event cannot change them.
    words: Option<NodeWords>,
}

/// Index entries that an event can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexedParts {
    /// Declarations only.
    Declarations,
    /// Declarations and search words.
    All,
}

impl NodeIndexTerms {
    /// Collects the index entries; empty for a deleted node.
    #[must_use]
    pub fn from_entry(entry: &NodeEntry, parts: IndexedParts) -> Self {
        let node = entry.profile();
        let words = || node.map(words_of_node).unwrap_or_default();
        Self {
            declared: node.map(PlatformDeclarations::from_node).unwrap_or_default(),
            words: (parts == IndexedParts::All).then(words),
        }
    }
}

impl Indexes {
    /// Indexes all nodes; `keys` are their lowercase ids.
    #[must_use]
    pub fn build(entries: &[Arc<NodeEntry>], keys: &[Arc<str>], owners: &Owners) -> Self {
        let slots = || (0..).zip(entries);
        let present: SlotSet = slots().filter(|(_, entry)| entry.profile().is_some()).map(|(slot, _)| slot).collect();
        let visible: SlotSet = slots().filter(|(_, entry)| entry.is_visible()).map(|(slot, _)| slot).collect();

        let build_orders = || {
            let rows: Vec<NodeSortRow> =
                entries.par_iter().zip(keys).map(|(entry, key)| sort_row(entry, key, owners)).collect();
            let orders = ColumnOrders::build(&rows, &visible);
            (rows, orders)
        };
        let ((rows, orders), (facets, search)) =
            rayon::join(build_orders, || rayon::join(|| build_facets(entries), || build_search(entries, owners)));
        Self { rows, present, visible, orders, facets, search }
    }

    /// Updates row, presence and visibility of a changed node.
    pub fn update_node(&mut self, slot: Slot, entry: &NodeEntry, key: &Arc<str>, owners: &Owners) {
        let was_visible = self.visible.contains(slot);
        let is_visible = entry.is_visible();

        if slot as usize >= self.rows.len() {
            self.rows.resize_with(slot as usize + 1, NodeSortRow::default);
        }
        self.present.set(slot, entry.profile().is_some());
        self.visible.set(slot, is_visible);

        let row = sort_row(entry, key, owners);
        match (was_visible, is_visible) {
            (true, true) => self.orders.replace(slot, &mut self.rows, row),
            (true, false) => {
                self.orders.remove(slot, &self.rows);
                self.rows[slot as usize] = row;
            }
            (false, _) => {
                self.rows[slot as usize] = row;
                if is_visible {
                    self.orders.insert(slot, &self.rows);
                }
            }
        }
    }

    /// Updates a node of which only numbers changed.
    pub fn update_numbers(&mut self, slot: Slot, entry: &NodeEntry) {
        let Some(numbers) = entry.profile().map(NumericSortKeys::from_node) else { return };
        if self.visible.contains(slot) {
            self.orders.update_numbers(slot, &mut self.rows, numbers);
        } else if let Some(row) = self.rows.get_mut(slot as usize) {
            row.set_numbers(numbers);
        }
    }

    /// Replaces the declarations and words of a node.
    pub fn update_terms(&mut self, slot: Slot, previous: &NodeIndexTerms, entry: &NodeEntry) {
        let parts = if previous.words.is_some() { IndexedParts::All } else { IndexedParts::Declarations };
        let current = NodeIndexTerms::from_entry(entry, parts);
        self.facets.update(slot, &previous.declared, &current.declared);
        if let (Some(previous_words), Some(current_words)) = (&previous.words, &current.words) {
            self.search.update(slot, previous_words, current_words);
        }
    }

    /// Updates the visibility of many nodes, for example after a ban of their publisher.
    pub fn update_visibility(&mut self, slots: &[Slot], entries: &[Arc<NodeEntry>]) {
        let changed_to = |visible: bool| -> SlotSet {
            let changed = slots.iter().copied().filter(|slot| {
                let is_visible = entries[*slot as usize].is_visible();
                is_visible == visible && self.visible.contains(*slot) != visible
            });
            changed.collect()
        };
        let now_visible = changed_to(true);
        let now_hidden = changed_to(false);

        if slots.len() * MOVE_COST > self.rows.len() {
            self.orders.remove_all(&now_hidden);
            self.orders.insert_all(&now_visible, &self.rows);
        } else {
            now_hidden.iter().for_each(|slot| self.orders.remove(slot, &self.rows));
            now_visible.iter().for_each(|slot| self.orders.insert(slot, &self.rows));
        }

        now_hidden.iter().for_each(|slot| self.visible.set(slot, false));
        now_visible.iter().for_each(|slot| self.visible.set(slot, true));
    }
}

fn build_facets(entries: &[Arc<NodeEntry>]) -> Facets {
    let mut facets = Facets::default();
    for (slot, node) in (0..).zip(entries).filter_map(|(slot, entry)| Some((slot, entry.profile()?))) {
        facets.update(slot, &PlatformDeclarations::default(), &PlatformDeclarations::from_node(node));
    }
    facets
}

fn build_search(entries: &[Arc<NodeEntry>], owners: &Owners) -> SearchIndex {
    let mut search = SearchIndex::build(entries);
    for (owner_number, id, owner) in owners.iter() {
        search.rename_owner(owner_number, id, None, &owner.name);
    }
    search
}

fn sort_row(entry: &NodeEntry, key: &Arc<str>, owners: &Owners) -> NodeSortRow {
    let owner = owners.by_number(entry.owner_number()).map(|(id, _)| id);
    entry.profile().zip(owner).map(|(node, owner)| NodeSortRow::new(node, key, owner)).unwrap_or_default()
}
