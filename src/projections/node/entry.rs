//! A shared node entry, whose JSON readers can render after they release the read models.

use std::sync::{Arc, OnceLock};

use super::daily_downloads::DailyDownloads;
use super::view::{Links, NodeFragment, NodeView, effective_status};
use crate::domain::decider::Decider;
use crate::domain::node::{Node, NodeEvent, NodeProfile, NodeStatus};
use crate::domain::value::Timestamp;
use crate::domain::version::Archive;

/// Number of versions below which the vector is kept without spare capacity: most nodes have few, and additions are
/// rare.
const SHRINK_BELOW_VERSIONS: usize = 64;

/// A node, the displayed data of its publisher, and its JSON once rendered.
#[derive(Debug, Default)]
pub struct NodeEntry {
    node: Node,
    daily_downloads: DailyDownloads,
    /// Number of the publisher.
    owner: u32,
    owner_name: Arc<str>,
    /// `true` if the publisher is banned or deleted.
    owner_hidden: bool,
    fragment: OnceLock<NodeFragment>,
}

impl NodeEntry {
    /// Creates an entry that has only a publisher.
    #[must_use]
    pub fn new(owner: u32) -> Self {
        Self { owner, ..Self::default() }
    }

    /// Restores an entry from a snapshot.
    #[must_use]
    pub fn from_snapshot(
        node: Node,
        daily_downloads: DailyDownloads,
        owner: u32,
        owner_name: Arc<str>,
        owner_hidden: bool,
    ) -> Self {
        Self { node, daily_downloads, owner, owner_name, owner_hidden, fragment: OnceLock::new() }
    }

    /// Returns the downloads by day.
    #[must_use]
    pub fn daily_downloads(&self) -> &DailyDownloads {
        &self.daily_downloads
    }

    /// Returns the node, even if deleted, the name of its publisher, and `true` if the publisher is banned or deleted.
    #[must_use]
    pub fn snapshot_fields(&self) -> (&Node, &Arc<str>, bool) {
        (&self.node, &self.owner_name, self.owner_hidden)
    }

    /// Applies an event.
    pub fn evolve(&mut self, event: &NodeEvent, at: Timestamp) {
        self.fragment.take();
        Node::evolve(&mut self.node, event, at);
        if let NodeEvent::DownloadsCounted { count } = event {
            self.daily_downloads.add(*count, at);
        }
        if let Node::Present(profile) = &mut self.node
            && profile.versions.len() < SHRINK_BELOW_VERSIONS
        {
            profile.versions.shrink_to_fit();
        }
    }

    /// Updates the displayed data of the publisher.
    pub fn set_owner_display(&mut self, name: &Arc<str>, hidden: bool) {
        self.fragment.take();
        self.owner_name = name.clone();
        self.owner_hidden = hidden;
    }

    /// Returns the number of the publisher.
    #[must_use]
    pub fn owner_number(&self) -> u32 {
        self.owner
    }

    /// Returns the node unless it is deleted.
    #[must_use]
    pub fn profile(&self) -> Option<&NodeProfile> {
        match &self.node {
            Node::Present(profile) if profile.status != NodeStatus::Deleted => Some(profile),
            Node::Present(_) | Node::Unclaimed => None,
        }
    }

    /// Returns `true` if the publisher is banned or deleted.
    #[must_use]
    pub fn is_owner_hidden(&self) -> bool {
        self.owner_hidden
    }

    /// Returns the archives of all versions, including those of deleted versions and nodes.
    pub fn archives(&self) -> impl Iterator<Item = &Archive> {
        let versions = match &self.node {
            Node::Present(profile) => profile.versions.as_slice(),
            Node::Unclaimed => &[],
        };
        versions.iter().filter_map(|version| version.archive.as_ref())
    }

    /// Returns `true` if public lists show the node.
    #[must_use]
    pub fn is_visible(&self) -> bool {
        !self.owner_hidden && self.profile().is_some_and(|profile| profile.status == NodeStatus::Active)
    }

    /// Returns the effective status and its detail.
    #[must_use]
    pub fn status(&self) -> Option<(NodeStatus, Option<&str>)> {
        self.profile().map(|profile| effective_status(profile, self.owner_hidden))
    }

    /// Returns the JSON if it was rendered since the last change.
    #[must_use]
    pub fn cached_fragment(&self) -> Option<&NodeFragment> {
        self.fragment.get()
    }

    /// Returns the JSON, rendering it if necessary; `None` if the node is deleted.
    pub fn fragment(&self, links: &Links) -> Option<&NodeFragment> {
        // A fragment exists only for nodes that are not deleted, and every change drops it.
        if let Some(fragment) = self.cached_fragment() {
            return Some(fragment);
        }
        let profile = self.profile()?;
        let render =
            || NodeFragment::render(&NodeView::with_publisher(profile, &self.owner_name, self.owner_hidden, links));
        Some(self.fragment.get_or_init(render))
    }
}

/// Omits the JSON, because an entry is cloned in order to change it.
impl Clone for NodeEntry {
    fn clone(&self) -> Self {
        Self {
            node: self.node.clone(),
            daily_downloads: self.daily_downloads.clone(),
            owner: self.owner,
            owner_name: self.owner_name.clone(),
            owner_hidden: self.owner_hidden,
            fragment: OnceLock::new(),
        }
    }
}

/// Compares the contents, regardless of rendered JSON.
impl PartialEq for NodeEntry {
    fn eq(&self, other: &Self) -> bool {
        (self.owner, &self.owner_name, self.owner_hidden) == (other.owner, &other.owner_name, other.owner_hidden)
            && self.node == other.node
            && self.daily_downloads == other.daily_downloads
    }
}
