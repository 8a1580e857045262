//! Nodes and their versions: by key, by publisher, by version, and in any order that a list may ask for.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::page::{Page, PageRequest};
use crate::domain::decider::Decider;
use crate::domain::ids::{NodeKey, PublisherId};
use crate::domain::node::{Node, NodeEvent, NodeProfile};
use crate::domain::value::{Text, Timestamp, named_values};

named_values! {
    /// The columns that a list can be sorted by (contract 4).
    SortColumn {
        Id = "id",
        Name = "name",
        Author = "author",
        Publisher = "publisher",
        CreatedAt = "created_at",
        UpdatedAt = "updated_at",
        Downloads = "downloads",
        GithubStars = "github_stars",
        Rating = "rating",
        SearchRanking = "search_ranking",
    }
}

/// One sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort {
    pub column: SortColumn,
    pub descending: bool,
}

/// What a list of nodes is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeQuery {
    pub page: PageRequest,
    /// The first key counts most; ties are broken by id, so that the order is total.
    pub sort: Vec<Sort>,
    /// Only these nodes; all when empty.
    pub node_ids: Vec<NodeKey>,
}

/// All nodes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Nodes {
    by_key: BTreeMap<String, Node>,
    by_publisher: BTreeMap<PublisherId, BTreeSet<String>>,
}

impl Nodes {
    /// Folds an event of the node whose key is `key`.
    pub fn apply(&mut self, key: &str, event: &NodeEvent, at: Timestamp) {
        if let NodeEvent::NodeCreated { publisher, .. } = event {
            self.by_publisher.entry(publisher.clone()).or_default().insert(key.to_owned());
            self.by_key.entry(key.to_owned()).or_default();
        }
        if let Some(node) = self.by_key.get_mut(key) {
            Node::evolve(node, event, at);
        }
        if *event == NodeEvent::NodeDeleted {
            self.forget(key);
        }
    }

    /// Nobody is shown a node that was deleted.
    fn forget(&mut self, key: &str) {
        if let Some(Node::Present(node)) = self.by_key.remove(key)
            && let Some(keys) = self.by_publisher.get_mut(&node.publisher)
        {
            keys.remove(key);
        }
    }

    /// The node with this key.
    #[must_use]
    pub fn get(&self, key: &NodeKey) -> Option<&NodeProfile> {
        self.by_key.get(key.as_str()).and_then(active)
    }

    /// One page of the nodes that `query` asks for.
    #[must_use]
    pub fn list(&self, query: &NodeQuery) -> Page<&NodeProfile> {
        if query.node_ids.is_empty() && query.sort.is_empty() {
            // Every entry of the map has been created, so none is left out here and the total stays right.
            let Page { entries, total, request } = query.page.cut(self.by_key.values());
            return Page { entries: entries.into_iter().filter_map(active).collect(), total, request };
        }
        let mut nodes: Vec<&NodeProfile> = if query.node_ids.is_empty() {
            self.by_key.values().filter_map(active).collect()
        } else {
            let wanted: BTreeSet<&NodeKey> = query.node_ids.iter().collect();
            wanted.into_iter().filter_map(|key| self.get(key)).collect()
        };
        nodes.sort_by(|a, b| in_order(&query.sort, a, b));
        query.page.cut(nodes.into_iter())
    }

    /// One page of a publisher's nodes, by id.
    #[must_use]
    pub fn of_publisher(&self, publisher: &PublisherId, page: PageRequest) -> Page<&NodeProfile> {
        let keys = self.by_publisher.get(publisher);
        let nodes: Vec<_> = keys.into_iter().flatten().filter_map(|key| active(self.by_key.get(key)?)).collect();
        page.cut(nodes.into_iter())
    }
}

fn active(node: &Node) -> Option<&NodeProfile> {
    match node {
        Node::Present(profile) => Some(profile),
        Node::Unclaimed => None,
    }
}

fn in_order(sort: &[Sort], a: &NodeProfile, b: &NodeProfile) -> Ordering {
    let mut by_columns = sort.iter().map(|Sort { column, descending }| {
        let ascending = compare(*column, a, b);
        if *descending { ascending.reverse() } else { ascending }
    });
    by_columns.find(|order| order.is_ne()).unwrap_or_else(|| compare(SortColumn::Id, a, b))
}

/// Columns of counts that nothing counts yet (downloads, stars, rating, ranking) are equal for all nodes.
fn compare(column: SortColumn, a: &NodeProfile, b: &NodeProfile) -> Ordering {
    fn lower(text: &str) -> impl Iterator<Item = char> {
        text.chars().flat_map(char::to_lowercase)
    }
    fn author(node: &NodeProfile) -> &str {
        node.fields.author.as_ref().map_or("", Text::as_str)
    }
    match column {
        SortColumn::Id => lower(a.id.as_str()).cmp(lower(b.id.as_str())),
        SortColumn::Name => lower(a.display_name()).cmp(lower(b.display_name())),
        SortColumn::Author => lower(author(a)).cmp(lower(author(b))),
        SortColumn::Publisher => a.publisher.cmp(&b.publisher),
        SortColumn::CreatedAt => a.created_at.cmp(&b.created_at),
        SortColumn::UpdatedAt => a.updated_at.cmp(&b.updated_at),
        SortColumn::Downloads | SortColumn::GithubStars | SortColumn::Rating | SortColumn::SearchRanking => {
            Ordering::Equal
        }
    }
}
