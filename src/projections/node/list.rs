//! Node lists: filtering, searching and sorting.
//!
//! ```text
//! filters ─▶ candidates (a set of slots) ─▶ search (scores) ─▶ stored orders ─▶ slots ─▶ page
//! ```

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

/// Comparing two nodes costs about as much as this many steps through a stored order.
const COMPARISON_STEPS: usize = 32;
/// Maximum nodes with equal first sort column that are sorted for one page.
const TIES_MAX: usize = if cfg!(test) { 3 } else { 4096 };

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
    /// Any of these, folded by [`super::facets::normalize`]; all if empty.
    pub systems: Vec<String>,
    /// Like `systems`.
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

impl Selection {
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
        lengths.map(|length| length + 32).sum::<usize>() + 1024
    }
}

impl Nodes {
    /// Returns one page of a query. `fresh` bypasses the cache; the result is the same.
    #[must_use]
    pub fn list(&self, query: &NodeQuery, fresh: bool) -> Page<Slot> {
        let NodeQuery { page, selection } = query;
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        if let Some(order) = self.indexes().stored_order(selection) {
            let entries = order.iter_from_offset(page.offset()).take(limit).collect();
            return Page { entries, total: order.len() as u64, request: *page };
        }

        let cached = if fresh { None } else { self.list_cache.get(selection, self.generation) };
        let slots = match cached {
            Some(slots) => slots,
            // Relevance needs the score of every candidate. Other selections are sorted completely only if a second
            // page is requested.
            None if selection.search_query().is_some()
                || !fresh && self.recent_selections.contains_or_insert(&(selection, self.generation)) =>
            {
                self.select(selection, fresh)
            }
            None => {
                let candidates = self.candidates(selection);
                let entries = self.indexes().page(&candidates, selection, *page);
                return Page { entries, total: candidates.count() as u64, request: *page };
            }
        };

        page.paginate(slots.iter().copied())
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

    /// Returns all selected slots in order.
    fn select(&self, selection: &Selection, fresh: bool) -> Arc<[Slot]> {
        let slots: Arc<[Slot]> = self.select_uncached(selection).into();
        if !fresh {
            let weight = slots.len() * size_of::<Slot>() + selection.weight();
            self.list_cache.insert(selection.clone(), self.generation, slots.clone(), weight);
        }
        slots
    }

    fn select_uncached(&self, selection: &Selection) -> Vec<Slot> {
        let indexes = self.indexes();
        let mut candidates = self.candidates(selection);

        let Some(search) = selection.search_query() else {
            return indexes.sort_candidates(&candidates, selection.sort_keys());
        };
        if search.is_wordless() {
            return Vec::new();
        }

        let slots = indexes.rows.len();
        let mut scores = indexes.search.score(search, &self.owners, &mut candidates, slots);
        // Words with a typing error match nothing.
        let corrected = if candidates.count() == 0 { indexes.search.correct(search) } else { None };
        let search = corrected.as_ref().unwrap_or(search);
        if corrected.is_some() {
            candidates = self.candidates(selection);
            scores = indexes.search.score(search, &self.owners, &mut candidates, slots);
        }

        if !selection.sort.is_empty() {
            return indexes.sort_candidates(&candidates, selection.sort_keys());
        }

        let exact = self.by_key.get(search.exact()).filter(|slot| candidates.contains(**slot));
        if let Some(exact) = exact {
            scores[*exact as usize] = search.exact_score();
        }
        let slots = indexes.sort_candidates(&candidates, &[Sort::DOWNLOADS]);
        bucket_sort(&slots, usize::from(search.exact_score()) + 1, |slot| {
            usize::from(search.exact_score() - scores[slot as usize])
        })
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
        let all_visible = !selection.include_banned || self.visible == self.present;
        let unfiltered = selection.filter == NodeFilter::default() && selection.search_query().is_none();
        let keys = selection.sort_keys();
        (all_visible && unfiltered && keys.len() == 1).then(|| self.orders.order_by(keys[0]))
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

    /// Returns one page of a set in order.
    fn page(&self, candidates: &SlotSet, selection: &Selection, page: PageRequest) -> Vec<Slot> {
        let slots = self.page_from_order(candidates, selection, page);
        slots.unwrap_or_else(|| page.slice(self.sort_candidates(candidates, selection.sort_keys()).into_iter()))
    }

    /// Returns one page from the stored order of the first column. Further columns matter only for ties at the page,
    /// which are sorted. `None` if sorting the whole set is cheaper.
    fn page_from_order(&self, candidates: &SlotSet, selection: &Selection, page: PageRequest) -> Option<Vec<Slot>> {
        let keys = selection.sort_keys();
        let offset = page.offset();
        let includes_hidden = selection.include_banned && self.visible != self.present;
        if includes_hidden || Self::is_sorting_cheaper(candidates.count(), self.rows.len(), keys.len()) {
            return None;
        }

        let first = *keys.first()?;
        let order = self.orders.order_by(first);
        let tie_key = (keys.len() > 1).then_some(first);
        let (mut slots, skipped) = if *candidates == self.visible {
            let preceding = order.iter_rev_from_end(order.len().saturating_sub(offset));
            self.with_ties(tie_key, preceding, order.iter_from_offset(offset), page)?
        } else {
            let mut slots = order.iter().filter(|slot| candidates.contains(*slot));
            let preceding: Vec<Slot> = slots.by_ref().take(offset).collect();
            self.with_ties(tie_key, preceding.into_iter().rev(), slots, page)?
        };

        slots.sort_unstable_by(|a, b| compare_rows(keys, &self.rows[*a as usize], &self.rows[*b as usize]));
        Some(PageRequest { page: 1, limit: page.limit }.slice(slots.into_iter().skip(skipped)))
    }

    /// Returns the slots of the page at the start of `following`, extended by the ties at both ends, and the number of
    /// ties before the page; `None` if there are too many. `preceding` is in reverse order.
    fn with_ties(
        &self,
        key: Option<Sort>,
        preceding: impl Iterator<Item = Slot>,
        mut following: impl Iterator<Item = Slot>,
        page: PageRequest,
    ) -> Option<(Vec<Slot>, usize)> {
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        let mut slots: Vec<Slot> = following.by_ref().take(limit).collect();
        let (Some(first), Some(last)) = (slots.first().copied(), slots.last().copied()) else {
            return Some((slots, 0));
        };

        let equal = |a: Slot, b: Slot| {
            key.is_some_and(|key| key.compare(&self.rows[a as usize], &self.rows[b as usize]).is_eq())
        };

        slots.extend(following.take_while(|slot| equal(*slot, last)).take(TIES_MAX));
        let following_count = slots.len();
        slots.extend(preceding.take_while(|slot| equal(*slot, first)).take(TIES_MAX));
        let skipped = slots.len() - following_count;
        (skipped < TIES_MAX && following_count < limit.saturating_add(TIES_MAX)).then_some((slots, skipped))
    }

    /// Returns `true` if sorting this many nodes is cheaper than scanning the stored orders.
    fn is_sorting_cheaper(count: usize, rows: usize, keys: usize) -> bool {
        let comparisons = count * (count.checked_ilog2().unwrap_or(0) as usize + 1);
        comparisons * COMPARISON_STEPS < rows * keys
    }

    /// Sorts a set: small sets directly, large ones by scanning the stored orders.
    fn sort_candidates(&self, candidates: &SlotSet, keys: &[Sort]) -> Vec<Slot> {
        let count = candidates.count();
        if Self::is_sorting_cheaper(count, self.rows.len(), keys.len()) {
            return self.sort_directly(candidates, keys);
        }

        let (last, higher_keys) = keys.split_last().unwrap_or((&Sort::ID, &[]));
        let mut slots: Vec<Slot> = Vec::with_capacity(count);
        slots.extend(self.orders.order_by(*last).iter().filter(|slot| candidates.contains(*slot)));
        for key in higher_keys.iter().rev() {
            slots = self.stable_sort_by(&slots, candidates, *key);
        }

        let mut hidden = candidates.clone();
        hidden.subtract(&self.visible);
        self.merge_sorted(slots, &self.sort_directly(&hidden, keys), keys)
    }

    fn sort_directly(&self, slots: &SlotSet, keys: &[Sort]) -> Vec<Slot> {
        let mut slots: Vec<Slot> = slots.iter().collect();
        slots.sort_unstable_by(|a, b| compare_rows(keys, &self.rows[*a as usize], &self.rows[*b as usize]));
        slots
    }

    /// Sorts slots, already ordered by the following keys, by a key. The sort is stable; the stored order gives the
    /// groups of equal nodes.
    fn stable_sort_by(&self, slots: &[Slot], candidates: &SlotSet, key: Sort) -> Vec<Slot> {
        let mut groups = vec![0_u32; self.rows.len()];
        let mut group = 0_u32;
        let mut previous_row = None;
        for slot in self.orders.order_by(key).iter().filter(|slot| candidates.contains(*slot)) {
            let row = &self.rows[slot as usize];
            if previous_row.is_some_and(|previous| key.compare(previous, row).is_ne()) {
                group += 1;
            }
            groups[slot as usize] = group;
            previous_row = Some(row);
        }
        bucket_sort(slots, group as usize + 1, |slot| groups[slot as usize] as usize)
    }

    /// Merges two sorted lists.
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

/// Stable sort by a small number.
fn bucket_sort(slots: &[Slot], buckets: usize, bucket: impl Fn(Slot) -> usize) -> Vec<Slot> {
    let mut positions = vec![0_usize; buckets];
    for slot in slots {
        positions[bucket(*slot)] += 1;
    }

    let mut end = 0;
    for bucket_start in &mut positions {
        let count = std::mem::replace(bucket_start, end);
        end += count;
    }

    let mut sorted = vec![0; slots.len()];
    for slot in slots {
        let next_index = &mut positions[bucket(*slot)];
        sorted[*next_index] = *slot;
        *next_index += 1;
    }
    sorted
}
