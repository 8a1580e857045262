//! Node lists: filtering, searching and sorting.
//!
//! ```text
//! filters ─▶ candidates (a set of slots) ─▶ search (scores) ─▶ stored orders ─▶ page of slots
//! ```

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use super::Nodes;
use super::bitset::{Slot, SlotSet};
use super::column::{Sort, SortColumn, compare_rows};
use super::entry::NodeEntry;
use super::facets::FormFactor;
use super::host_version::HostVersion;
use super::index::Indexes;
use super::search::SearchQuery;
use super::sorted_list::SortedList;
use super::view::NodeFragment;
use crate::domain::ids::NodeKey;
use crate::domain::value::Timestamp;
use crate::projections::page::{Page, PageRequest};

/// Cost of sorting one node of a set, in steps through a stored order.
const SORT_STEPS: usize = if cfg!(test) { 1 } else { 128 };
/// Maximum number of ties before and after a page that are sorted with it. Longer runs are paged by the further
/// columns.
const TIES_MAX: usize = if cfg!(test) { 3 } else { 256 };

/// A request for one page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeQuery {
    pub page: PageRequest,
    pub selection: Selection,
}

/// The filter and order of a list, independent of the page.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Selection {
    /// Keys from [`Sort::effective`], most significant first; ties are broken by id. Empty sorts by relevance with a
    /// search, otherwise by id.
    pub sort: Vec<Sort>,
    pub filter: NodeFilter,
    /// Search text. An empty one selects all nodes, the most downloaded first.
    pub search: Option<SearchQuery>,
    /// Includes banned nodes and nodes of banned publishers.
    pub include_banned: bool,
}

/// Conditions of a list; the default selects all nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NodeFilter {
    /// Nodes that support any of these operating systems, folded by [`super::facets::normalize`]; all if empty.
    pub systems: Vec<String>,
    /// Nodes that support any of these accelerators, as for `systems`.
    pub accelerators: Vec<String>,
    /// Created or changed after this time.
    pub after: Option<Timestamp>,
    /// Restricts the list to these nodes.
    pub node_ids: Option<Vec<NodeKey>>,
    /// Nodes whose host range contains this version.
    pub host: Option<HostVersion>,
    /// Nodes that do not exclude this platform.
    pub form_factor: Option<FormFactor>,
}

/// A page of a list, with the number of nodes of all pages.
#[derive(Debug, Clone)]
pub struct CachedSlots {
    slots: Arc<[Slot]>,
    total: u64,
}

/// Selected nodes.
#[derive(Debug, Default)]
struct Matches {
    slots: SlotSet,
    /// Scores by slot, if the nodes are sorted by relevance; nodes with equal scores are sorted by downloads.
    scores: Option<Vec<u16>>,
}

impl Selection {
    /// Returns the requested sort keys, or the default: downloads for an empty search, else ids.
    fn sort_keys(&self) -> &[Sort] {
        let default_sort =
            if self.search.is_some() && self.search_query().is_none() { &[Sort::DOWNLOADS] } else { &[Sort::ID] };
        if self.sort.is_empty() { default_sort } else { &self.sort }
    }

    /// Returns the search text unless it is empty.
    fn search_query(&self) -> Option<&SearchQuery> {
        self.search.as_ref().filter(|search| !search.is_empty())
    }

    /// Returns the approximate memory use in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        let NodeFilter { systems, accelerators, node_ids, .. } = &self.filter;
        let id_lengths = node_ids.iter().flatten().map(|id| id.as_str().len());
        let lengths = systems.iter().chain(accelerators).map(String::len).chain(id_lengths);
        let search = self.search.as_ref().map_or(0, SearchQuery::weight);
        lengths.map(|length| length + 32).sum::<usize>() + search + 1024
    }
}

impl Nodes {
    /// Returns one page of a query. With `bypass_cache`, neither reads nor fills the cache; the result is the same.
    #[must_use]
    pub fn list(&self, query: &NodeQuery, bypass_cache: bool) -> Page<Slot> {
        let NodeQuery { page, selection } = query;
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        if let Some(order) = self.indexes().stored_order(selection) {
            let entries = order.iter_from_offset(page.offset()).take(limit).collect();
            return Page { entries, total: order.len() as u64, request: *page };
        }

        if !bypass_cache && let Some(cached) = self.list_cache.get(query, self.generation) {
            return Page { entries: cached.slots.to_vec(), total: cached.total, request: *page };
        }

        let matches = self.matches(selection);
        let entries = self.indexes().page(&matches, selection.sort_keys(), page.offset(), limit);
        let total = matches.slots.count() as u64;
        // Pages beyond the end must not displace others.
        let is_beyond_end = entries.is_empty() && page.offset() > 0;
        if !bypass_cache && !is_beyond_end {
            let weight = entries.len() * size_of::<Slot>() + selection.weight();
            let cached = CachedSlots { slots: entries.as_slice().into(), total };
            self.list_cache.insert(query.clone(), self.generation, cached, weight);
        }
        Page { entries, total, request: *page }
    }

    /// Returns the entries of a page, which can be read after the read models are released.
    #[must_use]
    pub fn entries(&self, page: Page<Slot>) -> Page<Arc<NodeEntry>> {
        page.map(|slot| self.entries[slot as usize].clone())
    }

    /// Returns the JSON of a page if all of it is rendered.
    #[must_use]
    pub fn fragments(&self, page: &Page<Slot>) -> Option<Page<&NodeFragment>> {
        let entries = page.entries.iter().map(|slot| self.cached_fragment(*slot)).collect::<Option<_>>()?;
        Some(Page { entries, total: page.total, request: page.request })
    }

    /// Returns the selected nodes.
    fn matches(&self, selection: &Selection) -> Matches {
        let mut slots = self.candidates(selection);
        let Some(search) = selection.search_query() else { return Matches { slots, scores: None } };
        if search.is_wordless() {
            return Matches::default();
        }

        let indexes = self.indexes();
        let mut scores = indexes.search.score(search, &self.owners, &mut slots, indexes.rows.len());
        // Words with a typing error match nothing.
        let corrected = if slots.is_empty() { indexes.search.correct(search) } else { None };
        let search = corrected.as_ref().unwrap_or(search);
        if corrected.is_some() {
            slots = self.candidates(selection);
            scores = indexes.search.score(search, &self.owners, &mut slots, indexes.rows.len());
        }

        if !selection.sort.is_empty() {
            return Matches { slots, scores: None };
        }
        if let Some(exact) = self.by_key.get(search.exact()).filter(|slot| slots.contains(**slot)) {
            scores[*exact as usize] = search.exact_score();
        }
        Matches { slots, scores: Some(scores) }
    }

    /// Returns the slots that pass the filter.
    fn candidates(&self, Selection { filter, include_banned, .. }: &Selection) -> SlotSet {
        let indexes = self.indexes();
        let eligible = if *include_banned { &indexes.present } else { &indexes.visible };
        let mut candidates = match &filter.node_ids {
            Some(ids) => {
                let slots = ids.iter().filter_map(|id| self.by_key.get(id.as_str()).copied());
                slots.filter(|slot| eligible.contains(*slot)).collect()
            }
            None => eligible.clone(),
        };

        if !filter.systems.is_empty() {
            candidates.intersect(&indexes.facets.systems(&filter.systems));
        }
        if !filter.accelerators.is_empty() {
            candidates.intersect(&indexes.facets.accelerators(&filter.accelerators));
        }
        if let Some(excluding) = filter.form_factor.and_then(|factor| indexes.facets.excluding(factor)) {
            candidates.subtract(excluding);
        }
        if let Some(host) = &filter.host {
            candidates.subtract(&indexes.facets.excluding_host(host));
        }

        match filter.after {
            // The few nodes of a list are checked one by one.
            Some(after) if filter.node_ids.is_some() => {
                candidates.retain(|slot| indexes.rows[slot as usize].last_changed_at() > after);
            }
            Some(after) => candidates.intersect(&indexes.changed_after(after)),
            None => {}
        }
        candidates
    }
}

impl Indexes {
    /// Returns the stored order that equals the whole list, if there is one.
    fn stored_order(&self, selection: &Selection) -> Option<&SortedList> {
        let includes_only_visible = !selection.include_banned || self.visible == self.present;
        let is_unfiltered = selection.filter == NodeFilter::default() && selection.search_query().is_none();
        let keys = selection.sort_keys();
        (includes_only_visible && is_unfiltered && keys.len() == 1).then(|| self.orders.order_by(keys[0]))
    }

    /// Returns the nodes created or changed after a time. Takes one step per such node and per banned node.
    fn changed_after(&self, after: Timestamp) -> SlotSet {
        let mut changed = self.present.clone();
        changed.subtract(&self.visible);
        changed.retain(|slot| self.rows[slot as usize].last_changed_at() > after);
        for column in [SortColumn::UpdatedAt, SortColumn::CreatedAt] {
            let newest = self.orders.order_by(Sort { column, descending: true }).iter();
            let changed_later = newest.take_while(|slot| self.rows[*slot as usize].time(column) > Some(after));
            changed_later.for_each(|slot| changed.set(slot, true));
        }
        changed
    }

    /// Returns `limit` of the matches from an offset on.
    fn page(&self, matches: &Matches, keys: &[Sort], offset: usize, limit: usize) -> Vec<Slot> {
        let Matches { slots, scores } = matches;
        let Some(scores) = scores else { return self.page_by_keys(slots, keys, offset, limit) };

        let mut counts: Vec<usize> = Vec::new();
        for score in slots.iter().map(|slot| usize::from(scores[slot as usize])) {
            if score >= counts.len() {
                counts.resize(score + 1, 0);
            }
            counts[score] += 1;
        }

        // A list by relevance consists of one list by downloads for each score.
        let mut page = Vec::new();
        let mut skipped = offset;
        for (score, count) in counts.into_iter().enumerate().rev() {
            if skipped < count && page.len() < limit {
                let mut tied = slots.clone();
                tied.retain(|slot| usize::from(scores[slot as usize]) == score);
                page.extend(self.page_by_keys(&tied, &[Sort::DOWNLOADS], skipped, limit - page.len()));
            }
            skipped = skipped.saturating_sub(count);
        }
        page
    }

    /// Returns `limit` slots of a set from an offset on, in order.
    fn page_by_keys(&self, slots: &SlotSet, keys: &[Sort], offset: usize, limit: usize) -> Vec<Slot> {
        let count = slots.count();
        if offset >= count {
            return Vec::new();
        }

        // A walk begins at the nearer end, and takes about rows / count steps for each node of the set.
        let steps_to_page = offset.min(count.saturating_sub(offset)).saturating_add(limit).min(count);
        let walk_steps = self.rows.len() * steps_to_page / count.max(1);
        if count * SORT_STEPS <= walk_steps {
            return self.page_by_sorting(slots, keys, offset, limit);
        }

        if slots.is_subset(&self.visible) {
            return self.page_from_order(slots, count, keys, offset, limit);
        }
        self.page_with_hidden(slots, keys, offset, limit)
    }

    /// Returns a page of a set with hidden nodes, which the stored orders do not contain. They are few, so all of them
    /// are merged into a page of the visible nodes. Up to all hidden nodes may precede the requested page, so the page
    /// of visible nodes begins that many nodes earlier.
    fn page_with_hidden(&self, slots: &SlotSet, keys: &[Sort], offset: usize, limit: usize) -> Vec<Slot> {
        let mut hidden = slots.clone();
        hidden.subtract(&self.visible);
        let mut visible = slots.clone();
        visible.subtract(&hidden);

        let hidden = self.sort_directly(&hidden, keys);
        let start = offset.saturating_sub(hidden.len()).min(visible.count());
        let preceding = offset - start;
        let page = self.page_by_keys(&visible, keys, start, limit.saturating_add(preceding));
        self.merge_sorted(page, &hidden, keys).into_iter().skip(preceding).take(limit).collect()
    }

    /// Returns a page of a small set. Sorts only the page.
    fn page_by_sorting(&self, slots: &SlotSet, keys: &[Sort], offset: usize, limit: usize) -> Vec<Slot> {
        let compare = |a: &Slot, b: &Slot| self.compare(keys, *a, *b);
        let mut slots: Vec<Slot> = slots.iter().collect();
        let end = offset.saturating_add(limit);
        if end < slots.len() {
            slots.select_nth_unstable_by(end, compare);
            slots.truncate(end);
        }
        slots.sort_unstable_by(compare);
        slots.split_off(offset.min(slots.len()))
    }

    /// Returns a page of visible nodes from the stored order of the first column. Further columns matter only for ties
    /// at the page, which are sorted if they are few.
    fn page_from_order(&self, slots: &SlotSet, count: usize, keys: &[Sort], offset: usize, limit: usize) -> Vec<Slot> {
        let (first, other_keys) = keys.split_first().unwrap_or((&Sort::ID, &[]));
        let order = self.orders.order_by(*first);
        let start = if count == order.len() { offset } else { order.offset_within(slots, offset, count) };
        let mut following = order.iter_from_offset(start).filter(|slot| slots.contains(*slot));
        let mut page: Vec<Slot> = following.by_ref().take(limit).collect();
        let (Some(first_slot), Some(last_slot)) = (page.first().copied(), page.last().copied()) else { return page };
        if other_keys.is_empty() {
            return page;
        }

        // Adds the nodes that are equal in the first column to the last node of the page, or to its first node.
        let is_tied = |a: Slot, b: Slot| first.compare(&self.rows[a as usize], &self.rows[b as usize]).is_eq();
        page.extend(following.take_while(|slot| is_tied(*slot, last_slot)).take(TIES_MAX));
        let following_count = page.len();
        let preceding = order.iter_rev_from_end(order.len() - start).filter(|slot| slots.contains(*slot));
        page.extend(preceding.take_while(|slot| is_tied(*slot, first_slot)).take(TIES_MAX));
        let skipped = page.len() - following_count;
        if skipped >= TIES_MAX || following_count >= limit.saturating_add(TIES_MAX) {
            return self.page_of_ties(slots, *first, other_keys, start, limit);
        }

        page.sort_unstable_by(|a, b| self.compare(keys, *a, *b));
        page.into_iter().skip(skipped).take(limit).collect()
    }

    /// Returns a page that starts at this offset of the order by the first key, if many nodes are equal by it: each
    /// group of equal nodes is a list by the other keys.
    fn page_of_ties(
        &self,
        slots: &SlotSet,
        first: Sort,
        other_keys: &[Sort],
        mut start: usize,
        limit: usize,
    ) -> Vec<Slot> {
        let order = self.orders.order_by(first);
        let selected_in = |range: Range<usize>| {
            order.iter_from_offset(range.start).take(range.len()).filter(|slot| slots.contains(*slot))
        };

        let mut page = Vec::new();
        while page.len() < limit {
            let Some(next) = selected_in(start..order.len()).next() else { break };
            let row = &self.rows[next as usize];
            let group = order.range_of(|other| first.compare(&self.rows[other as usize], row));

            // Only the first group can begin before the page.
            let preceding = selected_in(group.start..start.max(group.start)).count();
            let missing = limit - page.len();
            if group.len() <= TIES_MAX {
                let mut tied: Vec<Slot> = selected_in(group.clone()).collect();
                tied.sort_unstable_by(|a, b| self.compare(other_keys, *a, *b));
                page.extend(tied.into_iter().skip(preceding).take(missing));
            } else {
                page.extend(self.page_by_keys(&selected_in(group.clone()).collect(), other_keys, preceding, missing));
            }
            start = group.end;
        }
        page
    }

    /// Compares two nodes by the keys.
    fn compare(&self, keys: &[Sort], a: Slot, b: Slot) -> Ordering {
        compare_rows(keys, &self.rows[a as usize], &self.rows[b as usize])
    }

    /// Returns the slots of a set in the order of the keys, without the stored orders.
    fn sort_directly(&self, slots: &SlotSet, keys: &[Sort]) -> Vec<Slot> {
        let mut slots: Vec<Slot> = slots.iter().collect();
        slots.sort_unstable_by(|a, b| self.compare(keys, *a, *b));
        slots
    }

    /// Merges `additions` into `slots`; both are sorted by the keys.
    fn merge_sorted(&self, slots: Vec<Slot>, additions: &[Slot], keys: &[Sort]) -> Vec<Slot> {
        if additions.is_empty() {
            return slots;
        }
        let mut merged = Vec::with_capacity(slots.len() + additions.len());
        let mut copied = 0;

        for slot in additions {
            let row = &self.rows[*slot as usize];
            let insertion_point = copied
                + slots[copied..].partition_point(|other| compare_rows(keys, &self.rows[*other as usize], row).is_lt());
            merged.extend_from_slice(&slots[copied..insertion_point]);
            merged.push(*slot);
            copied = insertion_point;
        }

        merged.extend_from_slice(&slots[copied..]);
        merged
    }
}
