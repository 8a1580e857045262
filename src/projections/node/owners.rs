//! Publishers of nodes: their displayed data and their nodes.

use std::sync::Arc;

use indexmap::IndexMap;

use super::bitset::Slot;

/// All publishers, numbered in the order of their first appearance.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Owners {
    by_id: IndexMap<Arc<str>, Owner>,
}

/// Data of a publisher that its nodes show.
#[derive(Debug, Clone, PartialEq)]
pub struct Owner {
    /// Display name.
    pub name: Arc<str>,
    /// `true` if public lists omit its nodes.
    pub hidden: bool,
    /// Its nodes that are not deleted, by id.
    slots: Vec<Slot>,
}

impl Owners {
    /// Returns the number of a publisher. Adds an unknown publisher, with its id as name.
    pub fn get_or_insert(&mut self, id: &str) -> u32 {
        let index = self.by_id.get_index_of(id).unwrap_or_else(|| {
            let id: Arc<str> = id.into();
            self.by_id.insert_full(id.clone(), Owner { name: id, hidden: false, slots: Vec::new() }).0
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    /// Restores a publisher from a snapshot; must be called in the order of the numbers.
    pub fn restore(&mut self, id: &str, name: &str, hidden: bool, slots: Vec<Slot>) {
        let id: Arc<str> = id.into();
        let name = if *id == *name { id.clone() } else { name.into() };
        self.by_id.insert(id, Owner { name, hidden, slots });
    }

    /// Returns the publisher with this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Owner> {
        self.by_id.get(id)
    }

    /// Returns the id and data of the publisher with this number.
    #[must_use]
    pub fn by_number(&self, number: u32) -> Option<(&Arc<str>, &Owner)> {
        self.by_id.get_index(number as usize)
    }

    /// Returns the publisher with this number for changes.
    pub fn by_number_mut(&mut self, number: u32) -> Option<&mut Owner> {
        self.by_id.get_index_mut(number as usize).map(|(_, owner)| owner)
    }

    /// Returns the nodes of a publisher, by id.
    #[must_use]
    pub fn slots(&self, number: u32) -> &[Slot] {
        self.by_number(number).map_or(&[], |(_, owner)| owner.slots())
    }

    /// Returns all publishers with numbers and ids.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Arc<str>, &Owner)> {
        (0..).zip(&self.by_id).map(|(number, (id, owner))| (number, id, owner))
    }
}

impl Owner {
    /// Returns its nodes that are not deleted, by id.
    #[must_use]
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Adds a node; `is_before` returns `true` for nodes that precede it by id.
    pub fn add(&mut self, slot: Slot, is_before: impl Fn(Slot) -> bool) {
        let index = self.slots.partition_point(|other| is_before(*other));
        self.slots.insert(index, slot);
    }

    /// Removes a node.
    pub fn remove(&mut self, slot: Slot) {
        self.slots.retain(|other| *other != slot);
    }
}
