//! The publishers of nodes: what nodes show of them, and which nodes are theirs.

use std::sync::Arc;

use indexmap::IndexMap;

use super::slots::Slot;

/// What nodes show of their publishers, by the order in which they were first heard of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Owners {
    by_id: IndexMap<Arc<str>, Owner>,
}

/// A publisher as its nodes show it.
#[derive(Debug, Clone, PartialEq)]
pub struct Owner {
    /// The name for people.
    pub name: Arc<str>,
    /// Its nodes are in no list.
    pub hidden: bool,
    /// Its nodes that are not deleted, by id.
    slots: Vec<Slot>,
}

impl Owners {
    /// The number of the publisher with this id; it is made known by its id alone, if it is not known yet.
    pub fn number(&mut self, id: &str) -> u32 {
        let index = self.by_id.get_index_of(id).unwrap_or_else(|| {
            let id: Arc<str> = id.into();
            self.by_id.insert_full(id.clone(), Owner { name: id, hidden: false, slots: Vec::new() }).0
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    /// Takes back a publisher that was saved; they come by their numbers.
    pub fn restore(&mut self, id: &str, name: &str, hidden: bool, slots: Vec<Slot>) {
        let id: Arc<str> = id.into();
        let name = if *id == *name { id.clone() } else { name.into() };
        self.by_id.insert(id, Owner { name, hidden, slots });
    }

    /// The publisher with this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Owner> {
        self.by_id.get(id)
    }

    /// The publisher with this number, and its id.
    #[must_use]
    pub fn at(&self, number: u32) -> Option<(&Arc<str>, &Owner)> {
        self.by_id.get_index(number as usize)
    }

    /// The same, to be changed.
    pub fn at_mut(&mut self, number: u32) -> Option<&mut Owner> {
        self.by_id.get_index_mut(number as usize).map(|(_, owner)| owner)
    }

    /// The nodes of a publisher, by id.
    #[must_use]
    pub fn slots(&self, number: u32) -> &[Slot] {
        self.at(number).map_or(&[], |(_, owner)| owner.slots())
    }

    /// Every publisher with its number and id.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Arc<str>, &Owner)> {
        (0..).zip(&self.by_id).map(|(number, (id, owner))| (number, id, owner))
    }
}

impl Owner {
    /// Its nodes that are not deleted, by id.
    #[must_use]
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// A node of its own came; `before` tells whether a node comes before it by id.
    pub fn add(&mut self, slot: Slot, before: impl Fn(Slot) -> bool) {
        let at = self.slots.partition_point(|other| before(*other));
        self.slots.insert(at, slot);
    }

    /// A node of its own was deleted.
    pub fn remove(&mut self, slot: Slot) {
        self.slots.retain(|other| *other != slot);
    }
}
