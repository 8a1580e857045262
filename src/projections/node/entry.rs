//! One node as readers are given it: shared, so that they can write its JSON after they have let the read models go.

use std::sync::{Arc, OnceLock};

use super::view::{Fragment, Links, NodeView, effective_status};
use crate::domain::decider::Decider;
use crate::domain::node::{Node, NodeEvent, NodeProfile, NodeStatus};
use crate::domain::value::Timestamp;
use crate::domain::version::Archive;

/// Nodes with fewer versions keep no room for more: nearly all nodes are such, and a version is added seldom.
const VERSIONS_TIGHT: usize = 64;

/// A node, what it shows of its publisher, and its JSON once somebody has asked for it.
#[derive(Debug, Default)]
pub struct Entry {
    node: Node,
    owner: u32,
    owner_name: Arc<str>,
    owner_hidden: bool,
    fragment: OnceLock<Fragment>,
}

impl Entry {
    /// A node of which nothing is known but its publisher.
    #[must_use]
    pub fn new(owner: u32) -> Self {
        Self { owner, ..Self::default() }
    }

    /// A node as it was saved.
    #[must_use]
    pub fn restored(node: Node, owner: u32, owner_name: Arc<str>, owner_hidden: bool) -> Self {
        Self { node, owner, owner_name, owner_hidden, fragment: OnceLock::new() }
    }

    /// The node, deleted or not, and what it shows of its publisher.
    #[must_use]
    pub fn inside(&self) -> (&Node, &Arc<str>, bool) {
        (&self.node, &self.owner_name, self.owner_hidden)
    }

    /// Folds an event.
    pub fn evolve(&mut self, event: &NodeEvent, at: Timestamp) {
        self.fragment.take();
        Node::evolve(&mut self.node, event, at);
        if let Node::Present(profile) = &mut self.node
            && profile.versions.len() < VERSIONS_TIGHT
        {
            profile.versions.shrink_to_fit();
        }
    }

    /// Takes over what is shown of the publisher.
    pub fn show_owner(&mut self, name: &Arc<str>, hidden: bool) {
        self.fragment.take();
        (self.owner_name, self.owner_hidden) = (name.clone(), hidden);
    }

    /// The number of the publisher.
    #[must_use]
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// The node, unless it was deleted.
    #[must_use]
    pub fn profile(&self) -> Option<&NodeProfile> {
        match &self.node {
            Node::Present(profile) if profile.status != NodeStatus::Deleted => Some(profile),
            Node::Present(_) | Node::Unclaimed => None,
        }
    }

    /// Whether its publisher is banned.
    #[must_use]
    pub fn owner_is_banned(&self) -> bool {
        self.owner_hidden
    }

    /// The archives of its versions, also of deleted ones, and when it is deleted itself.
    pub fn archives(&self) -> impl Iterator<Item = &Archive> {
        let versions = match &self.node {
            Node::Present(profile) => profile.versions.as_slice(),
            Node::Unclaimed => &[],
        };
        versions.iter().filter_map(|version| version.archive.as_ref())
    }

    /// Whether lists show it to everybody.
    #[must_use]
    pub fn is_visible(&self) -> bool {
        !self.owner_hidden && self.profile().is_some_and(|profile| profile.status == NodeStatus::Active)
    }

    /// The status and what is said of it.
    #[must_use]
    pub fn status(&self) -> Option<(NodeStatus, Option<&str>)> {
        self.profile().map(|profile| effective_status(profile, self.owner_hidden))
    }

    /// The node as JSON, if it was written since it changed.
    #[must_use]
    pub fn known_fragment(&self) -> Option<&Fragment> {
        self.fragment.get()
    }

    /// The node as JSON, written when it is first asked for; `None` when it was deleted.
    pub fn fragment(&self, links: &Links) -> Option<&Fragment> {
        // Only what is there is written, and what changes is forgotten.
        if let Some(fragment) = self.known_fragment() {
            return Some(fragment);
        }
        let profile = self.profile()?;
        let write = || Fragment::write(&NodeView::of(profile, &self.owner_name, self.owner_hidden, links));
        Some(self.fragment.get_or_init(write))
    }
}

/// The JSON is left behind: whoever clones an entry does so to change it.
impl Clone for Entry {
    fn clone(&self) -> Self {
        Self {
            node: self.node.clone(),
            owner: self.owner,
            owner_name: self.owner_name.clone(),
            owner_hidden: self.owner_hidden,
            fragment: OnceLock::new(),
        }
    }
}

/// Equal when they show the same, whether anybody has looked or not.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.owner, &self.owner_name, self.owner_hidden) == (other.owner, &other.owner_name, other.owner_hidden)
            && self.node == other.node
    }
}
