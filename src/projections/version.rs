//! All versions of all nodes in the order of creation, for moderation.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::node::Nodes;
use super::node::entry::NodeEntry;
use super::node::sorted_list::SortedList;
use super::page::{Page, PageRequest};
use crate::domain::ids::{NodeId, NodeKey, VersionId};
use crate::domain::node::{NodeEvent, NodeProfile};
use crate::domain::value::Timestamp;
use crate::domain::version::{NodeVersion, VersionRef, VersionStatus};

/// Sort key of a version: by time, then by descending id.
type VersionRank = (Timestamp, Reverse<VersionId>);

/// A version that can be read after the read models are released.
#[derive(Debug, Clone)]
pub struct VersionHandle {
    node: Arc<NodeEntry>,
    id: VersionId,
}

impl VersionHandle {
    /// Returns the entry, the node and the version; `None` if the node is deleted.
    #[must_use]
    pub fn resolve(&self) -> Option<(&NodeEntry, &NodeProfile, &NodeVersion)> {
        let node = self.node.profile()?;
        Some((&self.node, node, node.version(&VersionRef::Id(self.id))?))
    }
}

/// A request for one page of versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionQuery {
    pub page: PageRequest,
    /// Any of these statuses; empty is all.
    pub statuses: Vec<VersionStatus>,
    /// Restricts the list to these nodes.
    pub nodes: Option<Vec<NodeKey>>,
}

/// Versions of all nodes that are not deleted, oldest first, by status.
#[derive(Debug, Clone, Default)]
pub struct Versions {
    by_status: BTreeMap<VersionStatus, SortedList<VersionRank>>,
}

/// Compares the versions of each status; a missing status equals an empty one.
impl PartialEq for Versions {
    fn eq(&self, other: &Self) -> bool {
        let ranks = |versions: &Self, status| versions.by_status.get(status).cloned().unwrap_or_default();
        VersionStatus::ALL.iter().all(|status| ranks(self, status) == ranks(other, status))
    }
}

impl Versions {
    /// Applies an event of the node `key`; `nodes` is the state before the event.
    pub fn apply(&mut self, key: &str, event: &NodeEvent, at: Timestamp, nodes: &Nodes) {
        let status_and_time =
            |id: VersionId| nodes.by_version(id).map(|(_, version)| (version.status, version.created_at));

        match event {
            NodeEvent::VersionReleased { version } => self.insert(version.id, VersionStatus::Active, at),
            NodeEvent::VersionPublished { version } => self.insert(version.id, VersionStatus::Pending, at),
            NodeEvent::VersionStatusChanged { id, status, .. } => {
                let is_allowed = |(current, _): &(VersionStatus, _)| current.can_transition_to(*status);
                let Some((previous_status, created_at)) = status_and_time(*id).filter(is_allowed) else { return };
                self.remove(*id, previous_status, created_at);
                self.insert(*id, *status, created_at);
            }
            NodeEvent::VersionAdministered { id, admin_fields } => {
                let Some((status, previous_time)) = status_and_time(*id) else { return };
                let Some(created_at) = admin_fields.created_at else { return };
                self.remove(*id, status, previous_time);
                self.insert(*id, status, created_at);
            }
            NodeEvent::NodeDeleted => {
                let key = NodeId::parse(key).map(|id| id.key()).ok();
                let node = key.and_then(|key| nodes.get(&key));
                for version in node.into_iter().flat_map(|node| &node.versions) {
                    self.remove(version.id, version.status, version.created_at);
                }
            }
            _ => {}
        }
    }

    /// Indexes the versions of all nodes.
    #[must_use]
    pub fn from_nodes(nodes: &Nodes) -> Self {
        let mut ranks: BTreeMap<VersionStatus, Vec<VersionRank>> = BTreeMap::new();
        for version in nodes.all().flat_map(|node| &node.versions) {
            ranks.entry(version.status).or_default().push((version.created_at, Reverse(version.id)));
        }
        let sorted = |mut ranks: Vec<VersionRank>| {
            ranks.par_sort_unstable();
            SortedList::from_sorted(&ranks)
        };
        Self { by_status: ranks.into_iter().map(|(status, ranks)| (status, sorted(ranks))).collect() }
    }

    fn insert(&mut self, id: VersionId, status: VersionStatus, created_at: Timestamp) {
        self.by_status.entry(status).or_default().insert_natural((created_at, Reverse(id)));
    }

    fn remove(&mut self, id: VersionId, status: VersionStatus, created_at: Timestamp) {
        if let Some(ranks) = self.by_status.get_mut(&status) {
            ranks.remove_natural((created_at, Reverse(id)));
        }
    }

    /// Returns one page of a query, newest first.
    #[must_use]
    pub fn page(&self, nodes: &Nodes, query: &VersionQuery) -> Page<VersionHandle> {
        if let Some(keys) = &query.nodes {
            return page_of_nodes(nodes, keys, query);
        }

        let is_requested = |status: &VersionStatus| query.statuses.is_empty() || query.statuses.contains(status);
        let orders = self.by_status.iter().filter(|(status, _)| is_requested(status)).map(|(_, order)| order);
        let page = merge_page(&orders.collect::<Vec<_>>(), query.page);

        let resolve_handle = |Reverse(id)| {
            let (node, _) = nodes.by_version(id)?;
            Some(VersionHandle { node: nodes.entry(&node.id.key())?, id })
        };
        let entries = page.entries.into_iter().filter_map(|(_, id)| resolve_handle(id)).collect();
        Page { entries, total: page.total, request: page.request }
    }
}

/// Returns one page of several orders merged, newest first. The cost does not depend on the page number.
fn merge_page(orders: &[&SortedList<VersionRank>], request: PageRequest) -> Page<VersionRank> {
    let total: usize = orders.iter().map(|order| order.len()).sum();
    let mut iterators: Vec<_> = orders
        .iter()
        .zip(counts_before_page(orders, request.offset().min(total)))
        .map(|(order, skipped)| order.iter_rev_from_end(skipped).peekable())
        .collect();

    let newest_first = std::iter::from_fn(|| {
        let peek_newest = |ranks: &mut std::iter::Peekable<_>| ranks.peek().copied();
        let (index, _) = iterators.iter_mut().map(peek_newest).enumerate().max_by_key(|(_, rank)| *rank)?;
        iterators[index].next()
    });

    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    Page { entries: newest_first.take(limit).collect(), total: total as u64, request }
}

/// Returns how many entries at the end of each order are among the `offset` newest of all.
///
/// Each step of the binary search halves the open range of one order and locates its middle entry in all orders.
fn counts_before_page(orders: &[&SortedList<VersionRank>], offset: usize) -> Vec<usize> {
    let mut open_ranges: Vec<Range<usize>> = orders.iter().map(|order| 0..order.len().min(offset)).collect();
    while let Some(index) = (0..open_ranges.len())
        .max_by_key(|index| open_ranges[*index].len())
        .filter(|index| !open_ranges[*index].is_empty())
    {
        let middle = open_ranges[index].start.midpoint(open_ranges[index].end);
        let Some(pivot) = orders[index].iter_rev_from_end(middle).next() else { break };
        let newer_counts: Vec<usize> = orders.iter().map(|order| order.count_after(pivot)).collect();
        let is_before_page = newer_counts.iter().sum::<usize>() < offset;

        for (range, newer_count) in open_ranges.iter_mut().zip(newer_counts) {
            let bound = newer_count.clamp(range.start, range.end);
            if is_before_page {
                range.start = bound;
            } else {
                range.end = bound;
            }
        }
        if is_before_page {
            // The pivot itself is before the page, too.
            open_ranges[index].start += 1;
        }
    }
    open_ranges.into_iter().map(|range| range.start).collect()
}

fn page_of_nodes(nodes: &Nodes, keys: &[NodeKey], query: &VersionQuery) -> Page<VersionHandle> {
    let keys: BTreeSet<&NodeKey> = keys.iter().collect();
    let mut ranked = Vec::new();
    for entry in keys.into_iter().filter_map(|key| nodes.entry(key)) {
        let versions = entry.profile().map_or(&[][..], |node| node.versions.as_slice());
        let is_requested =
            |version: &&Arc<NodeVersion>| query.statuses.is_empty() || query.statuses.contains(&version.status);
        let ranks = versions.iter().filter(is_requested).map(|version| (version.created_at, Reverse(version.id)));
        ranked.extend(ranks.map(|rank| (rank, entry.clone())));
    }
    ranked.sort_by_key(|(rank, _)| Reverse(*rank));
    query.page.paginate(ranked.into_iter()).map(|((_, Reverse(id)), node)| VersionHandle { node, id })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};
    use uuid::Uuid;

    use super::*;
    use crate::domain::ids::PublisherId;
    use crate::domain::node::NodeFields;
    use crate::domain::version::{SemVer, VersionAdminFields, VersionDraft, VersionFields};

    const NODES: [&str; 3] = ["a", "b", "c"];

    fn draft(id: VersionId) -> VersionDraft {
        let number = SemVer::parse(&format!("1.{}.0", id.0.as_u128())).unwrap();
        VersionDraft { id, number, fields: VersionFields::default() }
    }

    /// Generates an event and the index of its node in [`NODES`]; each version belongs to one node.
    fn events() -> impl Strategy<Value = (usize, NodeEvent)> {
        (0..NODES.len(), 0..5_u128, 0..4_i64, select(VersionStatus::ALL), 0..20).prop_map(
            |(node, n, time, status, choice)| {
                let id = VersionId(Uuid::from_u128(n * 3 + node as u128));
                let admin_fields = VersionAdminFields {
                    created_at: Some(Timestamp::from_micros(time)),
                    ..VersionAdminFields::default()
                };
                let event = match choice {
                    0 => NodeEvent::NodeDeleted,
                    1..4 => NodeEvent::VersionReleased { version: draft(id) },
                    4..8 => NodeEvent::VersionPublished { version: draft(id) },
                    8..11 => NodeEvent::VersionAdministered { id, admin_fields },
                    _ => NodeEvent::VersionStatusChanged { id, status, reason: None },
                };
                (node, event)
            },
        )
    }

    fn replay(history: &[(usize, NodeEvent)]) -> (Nodes, Versions) {
        let mut nodes = Nodes::default();
        let mut versions = Versions::default();
        let mut registered = BTreeSet::new();
        for key in NODES {
            let id = NodeId::parse(key).unwrap();
            let publisher = PublisherId::parse("acme").unwrap();
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

    fn ids(entries: &[VersionHandle]) -> Vec<VersionId> {
        entries.iter().map(|handle| handle.resolve().unwrap().2.id).collect()
    }

    #[test]
    fn every_page_of_a_long_list_is_correct() {
        let rank =
            |n: i64| (Timestamp::from_micros(n / 3), Reverse(VersionId(Uuid::from_u128(n.unsigned_abs().into()))));
        let mut all_ranks: Vec<VersionRank> = (0..4000).map(rank).collect();
        all_ranks.sort_unstable();

        // The newest and the oldest have one status, the others alternate between two more.
        let ranks_of = |status: usize| {
            let status_at = |index: usize| if (500..3500).contains(&index) { 1 + index % 2 } else { 0 };
            let ranks =
                all_ranks.iter().enumerate().filter(|(index, _)| status_at(*index) == status).map(|(_, rank)| *rank);
            SortedList::from_sorted(&ranks.collect::<Vec<_>>())
        };
        let orders = [ranks_of(0), ranks_of(1), ranks_of(2), SortedList::default()];

        let limit = 7;
        for page in (1..=573).step_by(11).chain([572, 573, u64::MAX]) {
            let request = PageRequest { page, limit };
            let expected: Vec<VersionRank> = request.slice(all_ranks.iter().rev().copied());
            let found = merge_page(&orders.each_ref(), request);
            assert_eq!((found.entries, found.total), (expected, 4000), "{page}");
        }
    }

    proptest! {
        #[test]
        fn pages_contain_every_matching_version_once_newest_first(
            history in prop::collection::vec(events(), 0..60),
            statuses in subsequence(VersionStatus::ALL, 0..=5),
            limit in 1..4_u64,
        ) {
            let (nodes, versions) = replay(&history);
            let keys: Vec<NodeKey> = NODES.iter().map(|key| NodeId::parse(key).unwrap().key()).collect();
            let all = keys.iter().filter_map(|key| nodes.get(key)).flat_map(|node| &node.versions);
            let mut expected: Vec<_> =
                all.filter(|version| statuses.is_empty() || statuses.contains(&version.status)).collect();
            expected.sort_by_key(|version| (Reverse(version.created_at), version.id));
            let expected: Vec<VersionId> = expected.into_iter().map(|version| version.id).collect();

            let page = |page, node_filter: Option<Vec<NodeKey>>| {
                let request = PageRequest { page, limit };
                versions.page(&nodes, &VersionQuery { page: request, statuses: statuses.clone(), nodes: node_filter })
            };
            for node_filter in [None, Some(keys)] {
                let mut seen = Vec::new();
                for number in 1..=expected.len() as u64 + 1 {
                    let page = page(number, node_filter.clone());
                    prop_assert_eq!(page.total, expected.len() as u64);
                    seen.extend(ids(&page.entries));
                }
                prop_assert_eq!(&seen, &expected);
            }
            prop_assert!(page(u64::MAX, None).entries.is_empty());
        }
    }
}
