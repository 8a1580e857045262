//! Nodes and versions: by id, by publisher, by version, and as lists.
//!
//! [`Nodes`] is folded from the log; the indexes of lists (`index::Indexes`) are derived from it. The writer changes
//! nodes in place without writing JSON. Readers take shared entries, release the read models, and render the JSON of
//! entries that changed since they were last read.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bitset::Slot;
use cache::GenerationCache;
use entry::NodeEntry;
use index::{IndexedParts, Indexes, NodeIndexTerms};
use list::CachedSlots;
use owners::Owners;
use view::{Links, NodeFragment, effective_status, publisher_name};

use super::page::{Page, PageRequest};
use crate::domain::ids::{NodeKey, PublisherId, VersionId};
use crate::domain::node::{NodeEvent, NodeProfile, NodeStatus};
use crate::domain::publisher::{PublisherProfile, PublisherStatus};
use crate::domain::value::Timestamp;
use crate::domain::version::{Archive, NodeVersion};

mod bitset;
pub mod cache;
pub mod column;
pub mod daily_downloads;
pub mod entry;
pub mod facets;
pub mod host_version;
mod index;
pub mod list;
mod owners;
pub mod search;
mod snapshot_row;
pub(super) mod sorted_list;
mod tokenize;
pub mod view;

pub use column::{Sort, SortColumn};
pub use list::{NodeFilter, NodeQuery};
pub use snapshot_row::{NodeSnapshotRow, OwnerSnapshotRow};

/// Maximum bytes of cached pages of slots.
const LIST_CACHE_BYTES: u64 = 16 << 20;

/// All nodes.
#[derive(Clone)]
pub struct Nodes {
    links: Links,
    /// Entries by slot, including deleted nodes.
    entries: Vec<Arc<NodeEntry>>,
    /// Lowercase ids by slot.
    keys: Vec<Arc<str>>,
    /// Rendered JSON by slot. Entries hold it too, but are scattered in memory; this array makes reading a page faster.
    fragments: Vec<OnceLock<NodeFragment>>,
    by_key: HashMap<Arc<str>, Slot>,
    by_version: HashMap<VersionId, Slot>,
    owners: Owners,
    /// Number of changes that a list can show.
    generation: u64,
    indexes: OnceLock<Box<Indexes>>,
    list_cache: GenerationCache<NodeQuery, CachedSlots>,
}

impl Nodes {
    /// Creates an empty registry; `links` are the base of generated URLs.
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
            list_cache: GenerationCache::new(LIST_CACHE_BYTES),
        }
    }

    /// Applies an event of the node with key `key`.
    pub fn apply(&mut self, key: &str, event: &NodeEvent, at: Timestamp) {
        let slot = match (self.by_key.get(key), event) {
            (Some(slot), _) => *slot,
            (None, NodeEvent::NodeCreated { publisher, .. }) => self.add_slot(key, publisher),
            (None, _) => return,
        };

        self.generation += 1;
        let index = slot as usize;
        let parts = self.indexes.get().and_then(|_| indexed_parts_changed_by(event));
        let previous_terms = parts.map(|parts| NodeIndexTerms::from_entry(&self.entries[index], parts));
        let entry = Arc::make_mut(&mut self.entries[index]);
        entry.evolve(event, at);
        self.fragments[index].take();

        if let NodeEvent::VersionReleased { version } | NodeEvent::VersionPublished { version } = event {
            self.by_version.insert(version.id, slot);
        }

        if entry.profile().is_none()
            && let Some(owner) = self.owners.by_number_mut(entry.owner_number())
        {
            owner.remove(slot);
        }

        if let Some(indexes) = self.indexes.get_mut() {
            if changes_listing(event) {
                indexes.update_node(slot, entry, &self.keys[index], &self.owners);
            } else {
                indexes.update_numbers(slot, entry);
            }
            if let Some(previous_terms) = previous_terms {
                indexes.update_terms(slot, &previous_terms, entry);
            }
        }
    }

    /// Adds a slot for a node of this publisher.
    fn add_slot(&mut self, key: &str, publisher: &PublisherId) -> Slot {
        let slot = Slot::try_from(self.entries.len()).unwrap_or(Slot::MAX);
        let owner_number = self.owner_number(publisher.as_str());
        let mut entry = NodeEntry::new(owner_number);
        let key: Arc<str> = key.into();
        let keys = &self.keys;

        if let Some(owner) = self.owners.by_number_mut(owner_number) {
            entry.set_owner_display(&owner.name, owner.hidden);
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
        let owner_number = self.owners.get_or_insert(id);
        if is_new {
            // Misspelt searches are also corrected to the names of publishers.
            self.generation += 1;
        }
        if let Some(indexes) = self.indexes.get_mut().filter(|_| is_new) {
            indexes.search.rename_owner(owner_number, id, None, id);
        }
        owner_number
    }

    /// Updates the data of a publisher that its nodes show; `None` if it was deleted.
    pub fn update_publisher(&mut self, id: &str, profile: Option<&PublisherProfile>) {
        let name = profile.map_or(id, publisher_name);
        let hidden = profile.is_none_or(|profile| profile.status == PublisherStatus::Banned);
        let owner_number = self.owner_number(id);
        let Some(owner) = self.owners.by_number_mut(owner_number) else { return };

        if *owner.name == *name && owner.hidden == hidden {
            return;
        }

        self.generation += 1;
        let previous_name = std::mem::replace(&mut owner.name, name.into());
        owner.hidden = hidden;
        for slot in owner.slots() {
            Arc::make_mut(&mut self.entries[*slot as usize]).set_owner_display(&owner.name, hidden);
            self.fragments[*slot as usize].take();
        }

        if let Some(indexes) = self.indexes.get_mut() {
            indexes.search.rename_owner(owner_number, id, Some(&previous_name), name);
            indexes.update_visibility(owner.slots(), &self.entries);
        }
    }

    /// Builds the indexes, so that the first reader does not wait for them.
    pub fn warm_up(&self) {
        self.indexes();
    }

    fn indexes(&self) -> &Indexes {
        self.indexes.get_or_init(|| Box::new(Indexes::build(&self.entries, &self.keys, &self.owners)))
    }

    /// Returns the generation, which changes whenever a list or a node in it may have changed.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the base of generated URLs.
    #[must_use]
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Returns the node's entry, which can be read after the read models are released; `None` if deleted.
    #[must_use]
    pub fn entry(&self, key: &NodeKey) -> Option<Arc<NodeEntry>> {
        let slot = self.by_key.get(key.as_str())?;
        Some(&self.entries[*slot as usize]).filter(|entry| entry.profile().is_some()).cloned()
    }

    /// Returns the node; `None` if deleted.
    #[must_use]
    pub fn get(&self, key: &NodeKey) -> Option<&NodeProfile> {
        self.entry_at(*self.by_key.get(key.as_str())?).profile()
    }

    /// Returns a version and its node, unless the node was deleted.
    #[must_use]
    pub fn by_version(&self, id: VersionId) -> Option<(&NodeProfile, &NodeVersion)> {
        let node = self.entry_at(*self.by_version.get(&id)?).profile()?;
        Some((node, node.versions.iter().find(|version| version.id == id)?.as_ref()))
    }

    /// Returns the archives of all versions, including deleted ones. Scans all nodes.
    pub fn archives(&self) -> impl Iterator<Item = &Archive> {
        self.entries.iter().flat_map(|entry| entry.archives())
    }

    /// Returns all nodes that are not deleted.
    pub fn all(&self) -> impl Iterator<Item = &NodeProfile> {
        self.entries.iter().filter_map(|entry| entry.profile())
    }

    /// Returns the JSON of a node if it was rendered since the node changed.
    fn cached_fragment(&self, slot: Slot) -> Option<&NodeFragment> {
        let fragment = &self.fragments[slot as usize];
        fragment.get().or_else(|| {
            let rendered = self.entry_at(slot).cached_fragment()?;
            Some(fragment.get_or_init(|| rendered.clone()))
        })
    }

    fn entry_at(&self, slot: Slot) -> &NodeEntry {
        &self.entries[slot as usize]
    }

    /// Returns `true` if public lists show the node: neither it nor its publisher is banned.
    #[must_use]
    pub fn is_visible(&self, key: &NodeKey) -> bool {
        self.by_key.get(key.as_str()).is_some_and(|slot| self.entry_at(*slot).is_visible())
    }

    /// Returns the status of a node and its detail, taking a ban of the publisher into account.
    #[must_use]
    pub fn status_of<'n>(&self, node: &'n NodeProfile) -> (NodeStatus, Option<&'n str>) {
        effective_status(node, self.owners.get(node.publisher.as_str()).is_some_and(|owner| owner.hidden))
    }

    /// Returns the node as JSON.
    #[must_use]
    pub fn fragment(&self, key: &NodeKey) -> Option<NodeFragment> {
        self.entry_at(*self.by_key.get(key.as_str())?).fragment(&self.links).cloned()
    }

    /// Returns one page of a publisher's nodes, by id.
    #[must_use]
    pub fn page_of_publisher(
        &self,
        publisher: &PublisherId,
        page: PageRequest,
        include_banned: bool,
    ) -> Page<Arc<NodeEntry>> {
        let slots = self.owners.get(publisher.as_str()).map_or(&[][..], |owner| owner.slots());
        let entry = |slot: Slot| self.entries[slot as usize].clone();
        if include_banned {
            return page.paginate(slots.iter().copied()).map(entry);
        }
        let visible = &self.indexes().visible;
        let slots: Vec<Slot> = slots.iter().copied().filter(|slot| visible.contains(*slot)).collect();
        page.paginate(slots.into_iter()).map(entry)
    }

    /// Returns the number of a publisher's nodes that are not deleted.
    #[must_use]
    pub fn count_of_publisher(&self, publisher: &PublisherId) -> usize {
        self.owners.get(publisher.as_str()).map_or(0, |owner| owner.slots().len())
    }
}

/// Returns `true` if the event can change more than the numeric columns of a node in lists.
fn changes_listing(event: &NodeEvent) -> bool {
    matches!(
        event,
        NodeEvent::NodeCreated { .. }
            | NodeEvent::NodeRevised { .. }
            | NodeEvent::NodeDeleted
            | NodeEvent::NodeBanned { .. }
            | NodeEvent::NodeUnbanned { .. }
    )
}

/// Returns the index entries of a node that the event can change, besides its id; `None` if it changes none.
fn indexed_parts_changed_by(event: &NodeEvent) -> Option<IndexedParts> {
    match event {
        NodeEvent::NodeCreated { .. } | NodeEvent::NodeRevised { .. } | NodeEvent::NodeDeleted => {
            Some(IndexedParts::All)
        }
        NodeEvent::VersionReleased { .. } | NodeEvent::VersionStatusChanged { .. } => Some(IndexedParts::Declarations),
        NodeEvent::VersionRevised { change, .. } => {
            let changes_declarations = change.supported_os.is_some()
                || change.supported_accelerators.is_some()
                || change.supported_host_version.is_some()
                || change.deprecated.is_some();
            changes_declarations.then_some(IndexedParts::Declarations)
        }
        // Only the latest version contributes declarations, and a pending version cannot be the latest.
        NodeEvent::VersionPublished { .. }
        | NodeEvent::ArchiveStored { .. }
        | NodeEvent::VersionAdministered { .. }
        | NodeEvent::DependenciesContinued { .. }
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

/// Compares the nodes and all derived indexes.
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
