//! Snapshot representation of nodes, without derived data.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::bitset::Slot;
use super::cache::GenerationCache;
use super::daily_downloads::DailyDownloads;
use super::entry::NodeEntry;
use super::owners::Owners;
use super::{LIST_CACHE_BYTES, Nodes};
use crate::domain::node::Node;

/// A node read from a snapshot.
#[derive(Debug, Deserialize)]
pub struct NodeSnapshotRow {
    key: String,
    node: Node,
    daily_downloads: DailyDownloads,
    owner: u32,
    /// Displayed name and visibility of the publisher, if they differ from the publisher's current ones.
    displayed_owner: Option<(String, bool)>,
}

/// A node to write to a snapshot.
#[derive(Debug, Serialize)]
pub struct NodeSnapshotRowRef<'n> {
    key: &'n str,
    node: &'n Node,
    daily_downloads: &'n DailyDownloads,
    owner: u32,
    displayed_owner: Option<(&'n str, bool)>,
}

/// A publisher read from a snapshot.
#[derive(Debug, Deserialize)]
pub struct OwnerSnapshotRow {
    id: String,
    name: String,
    hidden: bool,
    slots: Vec<Slot>,
}

/// A publisher to write to a snapshot.
#[derive(Debug, Serialize)]
pub struct OwnerSnapshotRowRef<'o> {
    id: &'o str,
    name: &'o str,
    hidden: bool,
    slots: &'o [Slot],
}

impl Nodes {
    /// Returns a copy for a snapshot, which shares the nodes and omits derived data.
    #[must_use]
    pub fn snapshot_copy(&self) -> Self {
        Self {
            links: self.links.clone(),
            entries: self.entries.clone(),
            keys: self.keys.clone(),
            fragments: Vec::new(),
            by_key: HashMap::new(),
            by_version: HashMap::new(),
            owners: self.owners.clone(),
            generation: self.generation,
            indexes: OnceLock::new(),
            list_cache: GenerationCache::new(LIST_CACHE_BYTES),
        }
    }

    /// Returns the first difference in data folded from the log, if any.
    #[must_use]
    pub fn first_difference(&self, other: &Self) -> Option<String> {
        let mut pairs = self.entries.iter().zip(&other.entries).zip(self.keys.iter().zip(&other.keys));
        if let Some((_, (key, _))) = pairs.find(|((a, b), (key, other_key))| a != b || key != other_key) {
            return Some(format!("node {key}"));
        }

        let own_count = self.entries.len();
        let other_count = other.entries.len();
        if own_count != other_count {
            return Some(format!("nodes ({own_count} and {other_count})"));
        }

        let is_equal = self.owners == other.owners && self.generation == other.generation;
        (!is_equal).then(|| "the publishers of nodes".to_owned())
    }

    /// Returns all publishers, by number.
    pub fn owner_rows(&self) -> impl Iterator<Item = OwnerSnapshotRowRef<'_>> {
        self.owners.iter().map(|(_, id, owner)| OwnerSnapshotRowRef {
            id,
            name: &owner.name,
            hidden: owner.hidden,
            slots: owner.slots(),
        })
    }

    /// Returns all nodes, by slot.
    pub fn node_rows(&self) -> impl Iterator<Item = NodeSnapshotRowRef<'_>> {
        self.entries.iter().zip(&self.keys).map(|(entry, key)| {
            let (node, name, hidden) = entry.snapshot_fields();
            let matches_owner = self
                .owners
                .by_number(entry.owner_number())
                .is_some_and(|(_, owner)| owner.name == *name && owner.hidden == hidden);
            let displayed_owner = (!matches_owner).then_some((&**name, hidden));
            let daily_downloads = entry.daily_downloads();
            NodeSnapshotRowRef { key, node, daily_downloads, owner: entry.owner_number(), displayed_owner }
        })
    }

    /// Restores publishers, which must precede the nodes.
    pub fn restore_owners(&mut self, owners: Vec<OwnerSnapshotRow>) {
        for OwnerSnapshotRow { id, name, hidden, slots } in owners {
            self.owners.restore(&id, &name, hidden, slots);
        }
    }

    /// Restores nodes, in order.
    pub fn restore(&mut self, nodes: Vec<NodeSnapshotRow>) {
        for NodeSnapshotRow { key, node, daily_downloads, owner, displayed_owner } in nodes {
            let slot = Slot::try_from(self.entries.len()).unwrap_or(Slot::MAX);
            let (name, hidden) = match displayed_owner {
                Some((name, hidden)) => (name.into(), hidden),
                None => owner_display(&self.owners, owner),
            };
            if let Node::Present(profile) = &node {
                self.by_version.extend(profile.versions.iter().map(|version| (version.id, slot)));
            }

            let key: Arc<str> = key.into();
            let entry = NodeEntry::from_snapshot(node, daily_downloads, owner, name, hidden);
            self.entries.push(Arc::new(entry));
            self.keys.push(key.clone());
            self.fragments.push(OnceLock::new());
            self.by_key.insert(key, slot);
        }
    }

    /// Restores the generation.
    pub fn restore_generation(&mut self, generation: u64) {
        self.generation = generation;
    }
}

fn owner_display(owners: &Owners, number: u32) -> (Arc<str>, bool) {
    owners.by_number(number).map(|(_, owner)| (owner.name.clone(), owner.hidden)).unwrap_or_default()
}
