//! All versions of all nodes in the order in which they were made, for those who moderate them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::node::Nodes;
use super::node::entry::Entry;
use super::page::{Page, PageRequest};
use crate::domain::ids::{NodeId, NodeKey, VersionId};
use crate::domain::node::{NodeEvent, NodeProfile};
use crate::domain::value::Timestamp;
use crate::domain::version::{NodeVersion, VersionRef, VersionStatus};

/// Where a version stands among all: later ones are greater, and of those made at once the one with the lower id.
type Rank = (Timestamp, Reverse<VersionId>);

/// A version to be read after the read models were let go.
#[derive(Debug, Clone)]
pub struct Held {
    node: Arc<Entry>,
    id: VersionId,
}

impl Held {
    /// The node and the version; `None` when the node was deleted.
    #[must_use]
    pub fn look(&self) -> Option<(&NodeProfile, &NodeVersion)> {
        let node = self.node.profile()?;
        Some((node, node.version(&VersionRef::Id(self.id))?))
    }
}

/// Which versions are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionQuery {
    pub page: PageRequest,
    /// Only those of these statuses; all when empty.
    pub statuses: Vec<VersionStatus>,
    /// Only those of these nodes.
    pub nodes: Option<Vec<NodeKey>>,
}

/// Ranks in ascending order. A version that is made now goes to the end, so that adding is cheap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Order(Vec<Rank>);

/// The versions of all nodes that are not deleted, in order: all of them, and those of each status.
#[derive(Debug, Clone, Default)]
pub struct Versions {
    all: Order,
    by_status: BTreeMap<VersionStatus, Order>,
}

/// Equal when the same versions are in each order, whatever states there were before.
impl PartialEq for Versions {
    fn eq(&self, other: &Self) -> bool {
        let ranks =
            |versions: &Self, status| versions.by_status.get(status).map_or(&[][..], |order| &order.0[..]).to_vec();
        self.all == other.all && VersionStatus::ALL.iter().all(|status| ranks(self, status) == ranks(other, status))
    }
}

impl Order {
    fn insert(&mut self, rank: Rank) {
        if let Err(at) = self.0.binary_search(&rank) {
            self.0.insert(at, rank);
        }
    }

    fn remove(&mut self, rank: &Rank) {
        if let Ok(at) = self.0.binary_search(rank) {
            self.0.remove(at);
        }
    }

    fn newest_first(&self) -> impl ExactSizeIterator<Item = Rank> {
        self.0.iter().rev().copied()
    }
}

impl Versions {
    /// Folds an event of the node whose key is `key`; `nodes` is what was before the event.
    pub fn apply(&mut self, key: &str, event: &NodeEvent, at: Timestamp, nodes: &Nodes) {
        let known = |id: VersionId| nodes.by_version(id).map(|(_, version)| (version.status, version.created_at));
        match event {
            NodeEvent::VersionReleased { version } => self.insert(version.id, VersionStatus::Active, at),
            NodeEvent::VersionPublished { version } => self.insert(version.id, VersionStatus::Pending, at),
            NodeEvent::VersionStatusChanged { id, status, .. } => {
                let may_become = |(before, _): &(VersionStatus, _)| before.may_become(*status);
                let Some((before, made)) = known(*id).filter(may_become) else { return };
                if let Some(order) = self.by_status.get_mut(&before) {
                    order.remove(&(made, Reverse(*id)));
                }
                self.by_status.entry(*status).or_default().insert((made, Reverse(*id)));
            }
            NodeEvent::VersionAdministered { id, facts } => {
                let (Some((status, before)), Some(made)) = (known(*id), facts.created_at) else { return };
                self.remove(*id, status, before);
                self.insert(*id, status, made);
            }
            NodeEvent::NodeDeleted => {
                let key = NodeId::parse(key).map(|id| id.key()).ok();
                let versions = key.and_then(|key| nodes.get(&key)).map(|node| node.versions.as_slice());
                let ranks =
                    versions.unwrap_or_default().iter().map(|version| (version.created_at, Reverse(version.id)));
                self.remove_all(&ranks.collect());
            }
            _ => {}
        }
    }

    /// The versions of these nodes.
    #[must_use]
    pub fn of(nodes: &Nodes) -> Self {
        let mut versions = Self::default();
        for node in nodes.all() {
            let ranked =
                node.versions.iter().map(|version| (version.status, (version.created_at, Reverse(version.id))));
            for (status, rank) in ranked {
                versions.all.0.push(rank);
                versions.by_status.entry(status).or_default().0.push(rank);
            }
        }
        for order in versions.by_status.values_mut().chain([&mut versions.all]) {
            order.0.sort_unstable();
        }
        versions
    }

    fn insert(&mut self, id: VersionId, status: VersionStatus, made: Timestamp) {
        self.all.insert((made, Reverse(id)));
        self.by_status.entry(status).or_default().insert((made, Reverse(id)));
    }

    fn remove(&mut self, id: VersionId, status: VersionStatus, made: Timestamp) {
        self.all.remove(&(made, Reverse(id)));
        if let Some(order) = self.by_status.get_mut(&status) {
            order.remove(&(made, Reverse(id)));
        }
    }

    /// In one pass, however many there are.
    fn remove_all(&mut self, gone: &BTreeSet<Rank>) {
        for order in self.by_status.values_mut().chain([&mut self.all]) {
            order.0.retain(|rank| !gone.contains(rank));
        }
    }

    /// One page of the versions that `query` asks for, newest first.
    #[must_use]
    pub fn page(&self, nodes: &Nodes, query: &VersionQuery) -> Page<Held> {
        if let Some(keys) = &query.nodes {
            return of_nodes(nodes, keys, query);
        }
        let statuses: BTreeSet<VersionStatus> = query.statuses.iter().copied().collect();
        let orders: Vec<&Order> = statuses.iter().filter_map(|status| self.by_status.get(status)).collect();
        let page = match (statuses.len(), orders.as_slice()) {
            (0, _) => query.page.cut(self.all.newest_first()),
            (_, [order]) => query.page.cut(order.newest_first()),
            (_, orders) => merged(orders, query.page),
        };
        let hold = |Reverse(id)| {
            let (node, _) = nodes.by_version(id)?;
            Some(Held { node: nodes.entry(&node.id.key())?, id })
        };
        let entries = page.entries.into_iter().filter_map(|(_, id)| hold(id)).collect();
        Page { entries, total: page.total, request: page.request }
    }
}

/// A page of several orders as one. Costs a step for every version up to the end of the page.
fn merged(orders: &[&Order], request: PageRequest) -> Page<Rank> {
    let mut rest: Vec<&[Rank]> = orders.iter().map(|order| order.0.as_slice()).collect();
    let total: usize = rest.iter().map(|ranks| ranks.len()).sum();
    let newest_first = std::iter::from_fn(|| {
        let ranks = rest.iter_mut().max_by_key(|ranks| ranks.last().copied())?;
        let (newest, before) = ranks.split_last()?;
        *ranks = before;
        Some(*newest)
    });
    Page { entries: request.part(newest_first), total: total as u64, request }
}

fn of_nodes(nodes: &Nodes, keys: &[NodeKey], query: &VersionQuery) -> Page<Held> {
    let keys: BTreeSet<&NodeKey> = keys.iter().collect();
    let mut found = Vec::new();
    for entry in keys.into_iter().filter_map(|key| nodes.entry(key)) {
        let versions = entry.profile().map_or(&[][..], |node| node.versions.as_slice());
        let wanted =
            |version: &&Arc<NodeVersion>| query.statuses.is_empty() || query.statuses.contains(&version.status);
        let ranks = versions.iter().filter(wanted).map(|version| (version.created_at, Reverse(version.id)));
        found.extend(ranks.map(|rank| (rank, entry.clone())));
    }
    found.sort_by_key(|(rank, _)| Reverse(*rank));
    query.page.cut(found.into_iter()).map(|((_, Reverse(id)), node)| Held { node, id })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::PublisherId;
    use crate::domain::node::NodeFields;
    use crate::domain::version::{SemVer, VersionDraft, VersionFacts, VersionFields};
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};
    use uuid::Uuid;

    const NODES: [&str; 3] = ["a", "b", "c"];

    fn made(id: VersionId) -> VersionDraft {
        let number = SemVer::parse(&format!("1.{}.0", id.0.as_u128())).unwrap();
        VersionDraft { id, number, fields: VersionFields::default() }
    }

    /// Something that happens to the node with this key; each version belongs to one node.
    fn events() -> impl Strategy<Value = (usize, NodeEvent)> {
        (0..NODES.len(), 0..5_u128, 0..4_i64, select(VersionStatus::ALL), 0..20).prop_map(
            |(node, n, time, status, what)| {
                let id = VersionId(Uuid::from_u128(n * 3 + node as u128));
                let facts = VersionFacts { created_at: Some(Timestamp::from_micros(time)), ..VersionFacts::default() };
                let event = match what {
                    0 => NodeEvent::NodeDeleted,
                    1..4 => NodeEvent::VersionReleased { version: made(id) },
                    4..8 => NodeEvent::VersionPublished { version: made(id) },
                    8..11 => NodeEvent::VersionAdministered { id, facts },
                    _ => NodeEvent::VersionStatusChanged { id, status, reason: None },
                };
                (node, event)
            },
        )
    }

    fn folded(history: &[(usize, NodeEvent)]) -> (Nodes, Versions) {
        let (mut nodes, mut versions) = (Nodes::default(), Versions::default());
        let mut registered = BTreeSet::new();
        for key in NODES {
            let (id, publisher) = (NodeId::parse(key).unwrap(), PublisherId::parse("acme").unwrap());
            let created = NodeEvent::NodeCreated { id, publisher, fields: NodeFields::default() };
            nodes.apply(key, &created, Timestamp::from_micros(0));
        }
        for (index, (node, event)) in history.iter().enumerate() {
            if let NodeEvent::VersionReleased { version } | NodeEvent::VersionPublished { version } = event
                && (!registered.insert(version.id)
                    || nodes.entry(&NodeId::parse(NODES[*node]).unwrap().key()).is_none())
            {
                continue;
            }
            let at = Timestamp::from_micros(i64::try_from(index / 3).unwrap());
            versions.apply(NODES[*node], event, at, &nodes);
            nodes.apply(NODES[*node], event, at);
        }
        (nodes, versions)
    }

    fn ids(entries: &[Held]) -> Vec<VersionId> {
        entries.iter().map(|held| held.look().unwrap().1.id).collect()
    }

    proptest! {
        #[test]
        fn pages_hold_every_version_of_the_statuses_once_and_newest_first(
            history in prop::collection::vec(events(), 0..60),
            statuses in subsequence(VersionStatus::ALL, 0..=5),
            limit in 1..4_u64,
        ) {
            let (nodes, versions) = folded(&history);
            let keys: Vec<NodeKey> = NODES.iter().map(|key| NodeId::parse(key).unwrap().key()).collect();
            let all = keys.iter().filter_map(|key| nodes.get(key)).flat_map(|node| &node.versions);
            let mut expected: Vec<_> =
                all.filter(|version| statuses.is_empty() || statuses.contains(&version.status)).collect();
            expected.sort_by_key(|version| (Reverse(version.created_at), version.id));
            let expected: Vec<VersionId> = expected.into_iter().map(|version| version.id).collect();

            let page = |page, nodes_asked: Option<Vec<NodeKey>>| {
                let request = PageRequest { page, limit };
                versions.page(&nodes, &VersionQuery { page: request, statuses: statuses.clone(), nodes: nodes_asked })
            };
            for asked in [None, Some(keys)] {
                let mut seen = Vec::new();
                for number in 1..=expected.len() as u64 + 1 {
                    let page = page(number, asked.clone());
                    prop_assert_eq!(page.total, expected.len() as u64);
                    seen.extend(ids(&page.entries));
                }
                prop_assert_eq!(&seen, &expected);
            }
            prop_assert!(page(u64::MAX, None).entries.is_empty());
        }
    }
}
