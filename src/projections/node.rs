//! Nodes and their versions: by id, by publisher, by version, and in any list that can be asked for.
//!
//! What is folded from the log is in [`Nodes`]; what lists are made from (`index::Indexes`) is derived from it. The writer
//! changes a node in place and never writes JSON; readers take shared entries, let the read models go, and write the JSON of
//! those that nobody has asked for since they changed.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use cache::Cache;
use entry::Entry;
use index::{Described, Indexes, Told};
use list::Selection;
use owners::Owners;
use slots::Slot;
use view::{Fragment, Links, effective_status, publisher_name};

use super::page::{Page, PageRequest};
use crate::domain::ids::{NodeKey, PublisherId, VersionId};
use crate::domain::node::{NodeEvent, NodeProfile, NodeStatus};
use crate::domain::publisher::{PublisherProfile, PublisherStatus};
use crate::domain::value::Timestamp;
use crate::domain::version::{Archive, NodeVersion};

pub mod cache;
pub mod column;
pub mod entry;
pub mod facets;
pub mod host;
mod index;
pub mod list;
pub(super) mod order;
mod owners;
mod saved;
pub mod search;
mod slots;
pub mod view;
mod words;

pub use column::{Sort, SortColumn};
pub use list::{Filter, NodeQuery};
pub use saved::{SavedNode, SavedOwner};

/// Bytes of all lists that are remembered until the next change.
const LISTS_MAX: usize = 16 << 20;

/// All nodes.
#[derive(Clone)]
pub struct Nodes {
    links: Links,
    /// By slot; those of deleted nodes stay.
    entries: Vec<Arc<Entry>>,
    /// By slot: the id without its case.
    keys: Vec<Arc<str>>,
    /// By slot: the JSON of those that somebody has asked for since they changed. It is with the entries too, but these lie
    /// wherever there was room: a page of them would be looked for all over the memory.
    fragments: Vec<OnceLock<Fragment>>,
    by_key: HashMap<Arc<str>, Slot>,
    by_version: HashMap<VersionId, Slot>,
    owners: Owners,
    /// Counts the changes that a list can show.
    generation: u64,
    indexes: OnceLock<Box<Indexes>>,
    lists: Cache<Selection, Arc<[Slot]>>,
}

impl Nodes {
    /// No nodes; what is handed out of them later is found by these links.
    #[must_use]
    pub fn new(links: Links) -> Self {
        Self {
            links,
            entries: Vec::new(),
            keys: Vec::new(),
            fragments: Vec::new(),
            by_key: HashMap::new(),
            by_version: HashMap::new(),
            owners: Owners::default(),
            generation: 0,
            indexes: OnceLock::new(),
            lists: Cache::new(LISTS_MAX),
        }
    }

    /// Folds an event of the node whose key is `key`.
    pub fn apply(&mut self, key: &str, event: &NodeEvent, at: Timestamp) {
        let slot = match (self.by_key.get(key), event) {
            (Some(slot), _) => *slot,
            (None, NodeEvent::NodeCreated { publisher, .. }) => self.claim(key, publisher),
            (None, _) => return,
        };
        self.generation += 1;
        let index = slot as usize;
        let told = self.indexes.get().and_then(|_| told_by(event));
        let before = told.map(|told| Described::of(&self.entries[index], told));
        let entry = Arc::make_mut(&mut self.entries[index]);
        entry.evolve(event, at);
        self.fragments[index].take();
        if let NodeEvent::VersionReleased { version } | NodeEvent::VersionPublished { version } = event {
            self.by_version.insert(version.id, slot);
        }
        if entry.profile().is_none()
            && let Some(owner) = self.owners.at_mut(entry.owner())
        {
            owner.remove(slot);
        }
        if let Some(indexes) = self.indexes.get_mut() {
            if shows(event) {
                indexes.place(slot, entry, &self.keys[index], &self.owners);
            } else {
                indexes.renumber(slot, entry);
            }
            if let Some(before) = before {
                indexes.describe(slot, &before, entry);
            }
        }
    }

    /// A new slot for a node of this publisher.
    fn claim(&mut self, key: &str, publisher: &PublisherId) -> Slot {
        let slot = Slot::try_from(self.entries.len()).unwrap_or(Slot::MAX);
        let number = self.owner_number(publisher.as_str());
        let mut entry = Entry::new(number);
        let (key, keys): (Arc<str>, _) = (key.into(), &self.keys);
        if let Some(owner) = self.owners.at_mut(number) {
            entry.show_owner(&owner.name, owner.hidden);
            owner.add(slot, |other| keys[other as usize] < key);
        }
        self.entries.push(Arc::new(entry));
        self.fragments.push(OnceLock::new());
        self.keys.push(key.clone());
        self.by_key.insert(key, slot);
        slot
    }

    fn owner_number(&mut self, id: &str) -> u32 {
        let is_new = self.owners.get(id).is_none();
        let number = self.owners.number(id);
        if let Some(indexes) = self.indexes.get_mut().filter(|_| is_new) {
            indexes.search.rename_owner(number, id, None, id);
        }
        number
    }

    /// Takes over what nodes show of a publisher; `None` when it was deleted.
    pub fn show_publisher(&mut self, id: &str, profile: Option<&PublisherProfile>) {
        let name = profile.map_or(id, publisher_name);
        let hidden = profile.is_none_or(|profile| profile.status == PublisherStatus::Banned);
        let number = self.owner_number(id);
        let Some(owner) = self.owners.at_mut(number) else { return };
        if *owner.name == *name && owner.hidden == hidden {
            return;
        }
        self.generation += 1;
        let before = std::mem::replace(&mut owner.name, name.into());
        owner.hidden = hidden;
        for slot in owner.slots() {
            Arc::make_mut(&mut self.entries[*slot as usize]).show_owner(&owner.name, hidden);
            self.fragments[*slot as usize].take();
        }
        if let Some(indexes) = self.indexes.get_mut() {
            indexes.search.rename_owner(number, id, Some(&before), name);
            indexes.show(owner.slots(), &self.entries);
        }
    }

    /// Makes what lists are made from, so that the first reader does not have to wait for it.
    pub fn warm_up(&self) {
        self.indexes();
    }

    fn indexes(&self) -> &Indexes {
        self.indexes.get_or_init(|| Box::new(Indexes::build(&self.entries, &self.keys, &self.owners)))
    }

    /// Changes whenever a list, or a node in it, can have changed.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Where what is handed out of nodes is found.
    #[must_use]
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// The node with this key, to be read after the read models were let go; `None` when it was deleted.
    #[must_use]
    pub fn entry(&self, key: &NodeKey) -> Option<Arc<Entry>> {
        let slot = self.by_key.get(key.as_str())?;
        Some(&self.entries[*slot as usize]).filter(|entry| entry.profile().is_some()).cloned()
    }

    /// The node with this key; `None` when it was deleted.
    #[must_use]
    pub fn get(&self, key: &NodeKey) -> Option<&NodeProfile> {
        self.at(*self.by_key.get(key.as_str())?).profile()
    }

    /// The version with this id and its node, unless that was deleted.
    #[must_use]
    pub fn by_version(&self, id: VersionId) -> Option<(&NodeProfile, &NodeVersion)> {
        let node = self.at(*self.by_version.get(&id)?).profile()?;
        Some((node, node.versions.iter().find(|version| version.id == id)?.as_ref()))
    }

    /// Every archive that a version names, whatever became of the version. Goes through all nodes.
    pub fn archives(&self) -> impl Iterator<Item = &Archive> {
        self.entries.iter().flat_map(|entry| entry.archives())
    }

    /// Every node that was not deleted.
    pub fn all(&self) -> impl Iterator<Item = &NodeProfile> {
        self.entries.iter().filter_map(|entry| entry.profile())
    }

    /// The JSON of the node in a slot, if it was written since the node changed.
    fn known_fragment(&self, slot: Slot) -> Option<&Fragment> {
        let kept = &self.fragments[slot as usize];
        kept.get().or_else(|| {
            let known = self.at(slot).known_fragment()?;
            Some(kept.get_or_init(|| known.clone()))
        })
    }

    fn at(&self, slot: Slot) -> &Entry {
        &self.entries[slot as usize]
    }

    /// Whether lists show the node to everybody: neither it nor its publisher is banned.
    #[must_use]
    pub fn visible(&self, key: &NodeKey) -> bool {
        self.by_key.get(key.as_str()).is_some_and(|slot| self.at(*slot).is_visible())
    }

    /// The status of a node and what is said of it, as its publisher lets it be.
    #[must_use]
    pub fn status_of<'n>(&self, node: &'n NodeProfile) -> (NodeStatus, Option<&'n str>) {
        effective_status(node, self.owners.get(node.publisher.as_str()).is_some_and(|owner| owner.hidden))
    }

    /// The node with this key as JSON.
    #[must_use]
    pub fn fragment(&self, key: &NodeKey) -> Option<Fragment> {
        self.at(*self.by_key.get(key.as_str())?).fragment(&self.links).cloned()
    }

    /// One page of a publisher's nodes, by id.
    #[must_use]
    pub fn of_publisher(&self, publisher: &PublisherId, page: PageRequest, include_banned: bool) -> Page<Arc<Entry>> {
        let slots = self.owners.get(publisher.as_str()).map_or(&[][..], |owner| owner.slots());
        let entry = |slot: Slot| self.entries[slot as usize].clone();
        if include_banned {
            return page.cut(slots.iter().copied()).map(entry);
        }
        let visible = &self.indexes().visible;
        let slots: Vec<Slot> = slots.iter().copied().filter(|slot| visible.contains(*slot)).collect();
        page.cut(slots.into_iter()).map(entry)
    }

    /// How many nodes a publisher has that are not deleted.
    #[must_use]
    pub fn count_of_publisher(&self, publisher: &PublisherId) -> usize {
        self.owners.get(publisher.as_str()).map_or(0, |owner| owner.slots().len())
    }
}

/// Whether the event can change more of how lists show and sort a node than numbers.
fn shows(event: &NodeEvent) -> bool {
    matches!(
        event,
        NodeEvent::NodeCreated { .. }
            | NodeEvent::NodeRevised { .. }
            | NodeEvent::NodeDeleted
            | NodeEvent::NodeBanned { .. }
            | NodeEvent::NodeUnbanned { .. }
    )
}

/// How much the event can change of what a node is looked up by, besides its id; `None` when nothing.
fn told_by(event: &NodeEvent) -> Option<Told> {
    match event {
        NodeEvent::NodeCreated { .. } | NodeEvent::NodeRevised { .. } | NodeEvent::NodeDeleted => Some(Told::All),
        NodeEvent::VersionReleased { .. } | NodeEvent::VersionStatusChanged { .. } => Some(Told::Declared),
        NodeEvent::VersionRevised { change, .. } => {
            let declares = change.supported_os.is_some()
                || change.supported_accelerators.is_some()
                || change.supported_host_version.is_some()
                || change.deprecated.is_some();
            declares.then_some(Told::Declared)
        }
        // A version that waits is not the latest, and only the latest one declares anything for its node.
        NodeEvent::VersionPublished { .. }
        | NodeEvent::ArchiveStored { .. }
        | NodeEvent::VersionAdministered { .. }
        | NodeEvent::DownloadsCounted { .. }
        | NodeEvent::NodeReviewed { .. }
        | NodeEvent::NodeTranslated { .. }
        | NodeEvent::NodeAdministered { .. }
        | NodeEvent::NodeBanned { .. }
        | NodeEvent::NodeUnbanned { .. } => None,
    }
}

impl Default for Nodes {
    fn default() -> Self {
        Self::new(Links::default())
    }
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes").field("entries", &self.entries).finish_non_exhaustive()
    }
}

/// Equal when every list and every node is: the indexes, however they came about, too.
impl PartialEq for Nodes {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
            && self.keys == other.keys
            && self.by_version == other.by_version
            && self.owners == other.owners
            && self.generation == other.generation
            && self.indexes() == other.indexes()
    }
}

#[cfg(test)]
mod tests;
