//! Indexes of node lists, derived from the nodes: built on first use, then updated with every change.
//!
//! A replay does not build them, so a start sorts once instead of after every event.

use std::sync::Arc;

use rayon::prelude::*;

use super::column::{Numbers, Orders, Row};
use super::entry::Entry;
use super::facets::{Declared, Facets};
use super::owners::Owners;
use super::search::{NodeWords, SearchIndex, words_of_node};
use super::slots::{Bits, Slot};

/// Moving one node in the orders costs about as much as copying this many nodes.
const MOVE_COPIES: usize = 1000;

/// All indexes of lists.
#[derive(Debug, Clone, PartialEq)]
pub struct Indexes {
    /// Sort keys by slot; empty for deleted nodes.
    pub rows: Vec<Row>,
    /// Nodes that are not deleted.
    pub present: Bits,
    /// Nodes that public lists show.
    pub visible: Bits,
    /// Orders of the visible nodes.
    pub orders: Orders,
    pub facets: Facets,
    pub search: SearchIndex,
}

/// Declarations and search words of a node. Expensive to collect, and rarely changed.
#[derive(Debug, Default)]
pub struct Described {
    declared: Declared,
    /// `None` if the event cannot change them.
    words: Option<NodeWords>,
}

/// Index entries that an event can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Declarations only.
    Declared,
    /// Declarations and search words.
    All,
}

impl Described {
    /// Collects the index entries; empty for a deleted node.
    #[must_use]
    pub fn of(entry: &Entry, told: Told) -> Self {
        let node = entry.profile();
        let words = || node.map(words_of_node).unwrap_or_default();
        Self { declared: node.map(Declared::of).unwrap_or_default(), words: (told == Told::All).then(words) }
    }
}

impl Indexes {
    /// Indexes all nodes; `keys` are their lowercase ids.
    #[must_use]
    pub fn build(entries: &[Arc<Entry>], keys: &[Arc<str>], owners: &Owners) -> Self {
        let slots = || (0..).zip(entries);
        let present: Bits = slots().filter(|(_, entry)| entry.profile().is_some()).map(|(slot, _)| slot).collect();
        let visible: Bits = slots().filter(|(_, entry)| entry.is_visible()).map(|(slot, _)| slot).collect();
        let sorted = || {
            let rows: Vec<Row> = entries.par_iter().zip(keys).map(|(entry, key)| row(entry, key, owners)).collect();
            let orders = Orders::build(&rows, &visible);
            (rows, orders)
        };
        let ((rows, orders), (facets, search)) =
            rayon::join(sorted, || rayon::join(|| facets(entries), || search(entries, owners)));
        Self { rows, present, visible, orders, facets, search }
    }

    /// Updates row, presence and visibility of a changed node.
    pub fn place(&mut self, slot: Slot, entry: &Entry, key: &Arc<str>, owners: &Owners) {
        let was_visible = self.visible.contains(slot);
        let is_visible = entry.is_visible();

        if slot as usize >= self.rows.len() {
            self.rows.resize_with(slot as usize + 1, Row::default);
        }
        self.present.set(slot, entry.profile().is_some());
        self.visible.set(slot, is_visible);
        let row = row(entry, key, owners);
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
    pub fn renumber(&mut self, slot: Slot, entry: &Entry) {
        let Some(numbers) = entry.profile().map(Numbers::of) else { return };
        if self.visible.contains(slot) {
            self.orders.renumber(slot, &mut self.rows, numbers);
        } else if let Some(row) = self.rows.get_mut(slot as usize) {
            row.renumber(numbers);
        }
    }

    /// Replaces the declarations and words of a node.
    pub fn describe(&mut self, slot: Slot, before: &Described, entry: &Entry) {
        let told = if before.words.is_some() { Told::All } else { Told::Declared };
        let after = Described::of(entry, told);
        self.facets.change(slot, &before.declared, &after.declared);
        if let (Some(before), Some(after)) = (&before.words, &after.words) {
            self.search.change(slot, before, after);
        }
    }

    /// Updates the visibility of many nodes, for example after a ban of their publisher.
    pub fn show(&mut self, slots: &[Slot], entries: &[Arc<Entry>]) {
        let turned = |on: bool| -> Bits {
            let turned = slots.iter().copied().filter(|slot| {
                let is_visible = entries[*slot as usize].is_visible();
                is_visible == on && self.visible.contains(*slot) != on
            });
            turned.collect()
        };
        let shown = turned(true);
        let hidden = turned(false);

        if slots.len() * MOVE_COPIES > self.rows.len() {
            self.orders.remove_all(&hidden);
            self.orders.insert_all(&shown, &self.rows);
        } else {
            hidden.iter().for_each(|slot| self.orders.remove(slot, &self.rows));
            shown.iter().for_each(|slot| self.orders.insert(slot, &self.rows));
        }

        hidden.iter().for_each(|slot| self.visible.set(slot, false));
        shown.iter().for_each(|slot| self.visible.set(slot, true));
    }
}

fn facets(entries: &[Arc<Entry>]) -> Facets {
    let mut facets = Facets::default();
    for (slot, node) in (0..).zip(entries).filter_map(|(slot, entry)| Some((slot, entry.profile()?))) {
        facets.change(slot, &Declared::default(), &Declared::of(node));
    }
    facets
}

fn search(entries: &[Arc<Entry>], owners: &Owners) -> SearchIndex {
    let mut search = SearchIndex::build(entries);
    for (number, id, owner) in owners.iter() {
        search.rename_owner(number, id, None, &owner.name);
    }
    search
}

fn row(entry: &Entry, key: &Arc<str>, owners: &Owners) -> Row {
    let owner = owners.at(entry.owner()).map(|(id, _)| id);
    entry.profile().zip(owner).map(|(node, owner)| Row::new(node, key, owner)).unwrap_or_default()
}
