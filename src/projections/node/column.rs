//! Sort columns of lists, and the sorted order of all listed nodes by each column in both directions.

use std::cmp::Ordering;
use std::sync::Arc;

use rayon::prelude::*;

use super::bitset::{Slot, SlotSet};
use super::sorted_list::SortedList;
use crate::domain::node::{NodeProfile, Rating};
use crate::domain::value::{Text, Timestamp, named_values};

named_values! {
    /// Sort columns of node lists (contract 4).
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sort {
    pub column: SortColumn,
    pub descending: bool,
}

impl Sort {
    /// By id, ascending; breaks all ties.
    pub const ID: Self = Self { column: SortColumn::Id, descending: false };
    /// By downloads, descending.
    pub const DOWNLOADS: Self = Self { column: SortColumn::Downloads, descending: true };

    /// Drops keys without effect: repeated columns, and keys after the id, which has no ties.
    #[must_use]
    pub fn effective(keys: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut sort_keys: Vec<Self> = Vec::new();
        for key in keys {
            if sort_keys.iter().all(|earlier| earlier.column != key.column && earlier.column != SortColumn::Id) {
                sort_keys.push(key);
            }
        }
        sort_keys
    }

    /// Returns the index of this order in [`ColumnOrders`].
    fn order_index(self) -> usize {
        let column = SortColumn::ALL.iter().position(|column| *column == self.column).unwrap_or(0);
        2 * column + usize::from(self.descending)
    }

    /// Returns both directions of every column.
    fn all() -> impl Iterator<Item = Self> {
        SortColumn::ALL.iter().flat_map(|column| [false, true].map(|descending| Self { column: *column, descending }))
    }

    /// Compares two nodes by this key alone.
    #[must_use]
    pub fn compare(self, a: &NodeSortRow, b: &NodeSortRow) -> Ordering {
        let ordering = a.compare(b, self.column);
        if self.descending { ordering.reverse() } else { ordering }
    }
}

/// Sort keys of a node; text is in lowercase.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeSortRow {
    id: Arc<str>,
    name: Box<str>,
    author: Box<str>,
    publisher: Arc<str>,
    numbers: NumericSortKeys,
}

/// Numeric sort keys of a node, which change often.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NumericSortKeys {
    /// Microseconds since the Unix epoch.
    created_at: i64,
    /// Microseconds since the Unix epoch.
    updated_at: i64,
    downloads: u64,
    github_stars: Option<u64>,
    rating: Option<Rating>,
    search_ranking: Option<i64>,
}

impl NodeSortRow {
    /// Creates the keys of a node; `id` is its lowercase id.
    #[must_use]
    pub fn new(node: &NodeProfile, id: &Arc<str>, publisher: &Arc<str>) -> Self {
        let lower = |text: &str| text.to_lowercase().into_boxed_str();
        Self {
            id: id.clone(),
            name: lower(node.display_name()),
            author: lower(node.fields.author.as_ref().map_or("", Text::as_str)),
            publisher: publisher.clone(),
            numbers: NumericSortKeys::from_node(node),
        }
    }

    /// Returns the value of a time column.
    #[must_use]
    pub fn time(&self, column: SortColumn) -> Option<Timestamp> {
        match column {
            SortColumn::CreatedAt => Some(Timestamp::from_micros(self.numbers.created_at)),
            SortColumn::UpdatedAt => Some(Timestamp::from_micros(self.numbers.updated_at)),
            _ => None,
        }
    }

    /// Returns the later of creation and last change.
    #[must_use]
    pub fn last_changed_at(&self) -> Timestamp {
        Timestamp::from_micros(self.numbers.created_at.max(self.numbers.updated_at))
    }

    /// Replaces the numbers of a node that is not listed.
    pub fn set_numbers(&mut self, numbers: NumericSortKeys) {
        self.numbers = numbers;
    }

    /// Returns a fixed-size prefix key, which is compared without accessing the row.
    fn sort_prefix(&self, column: SortColumn) -> SortPrefix {
        match column {
            SortColumn::Id => SortPrefix::from_text(&self.id),
            SortColumn::Name => SortPrefix::from_text(&self.name),
            SortColumn::Author => SortPrefix::from_text(&self.author),
            SortColumn::Publisher => SortPrefix::from_text(&self.publisher),
            SortColumn::CreatedAt => SortPrefix::from_number(Some(self.numbers.created_at)),
            SortColumn::UpdatedAt => SortPrefix::from_number(Some(self.numbers.updated_at)),
            SortColumn::Downloads => SortPrefix::from_number(Some(self.numbers.downloads)),
            SortColumn::GithubStars => SortPrefix::from_number(self.numbers.github_stars),
            SortColumn::Rating => SortPrefix::from_number(self.numbers.rating.map(Rating::hundredths)),
            SortColumn::SearchRanking => SortPrefix::from_number(self.numbers.search_ranking),
        }
    }

    fn compare(&self, other: &Self, column: SortColumn) -> Ordering {
        match column {
            SortColumn::Id => self.id.cmp(&other.id),
            SortColumn::Name => self.name.cmp(&other.name),
            SortColumn::Author => self.author.cmp(&other.author),
            SortColumn::Publisher => self.publisher.cmp(&other.publisher),
            SortColumn::CreatedAt => self.numbers.created_at.cmp(&other.numbers.created_at),
            SortColumn::UpdatedAt => self.numbers.updated_at.cmp(&other.numbers.updated_at),
            SortColumn::Downloads => self.numbers.downloads.cmp(&other.numbers.downloads),
            SortColumn::GithubStars => self.numbers.github_stars.cmp(&other.numbers.github_stars),
            SortColumn::Rating => self.numbers.rating.cmp(&other.numbers.rating),
            SortColumn::SearchRanking => self.numbers.search_ranking.cmp(&other.numbers.search_ranking),
        }
    }
}

/// Order-preserving prefix of a value. It usually decides a comparison without access to the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SortPrefix {
    start: u128,
    /// `true` if the prefix is the complete value.
    is_complete: bool,
}

impl SortPrefix {
    fn from_text(text: &str) -> Self {
        let mut prefix = [0; 16];
        let length = text.len().min(16);
        prefix[..length].copy_from_slice(&text.as_bytes()[..length]);
        // Zero padding is ambiguous: a text that ends in zero bytes has the same prefix as a shorter one.
        Self { start: u128::from_be_bytes(prefix), is_complete: false }
    }

    /// Creates the prefix of a number; `None` sorts before every number.
    fn from_number(number: Option<impl Into<i128>>) -> Self {
        // Flips the sign bit, so that negative numbers sort before positive ones.
        let order_preserving = |number: i128| number.cast_unsigned() ^ 1 << 127;
        Self { start: number.map_or(0, |number| order_preserving(number.into())), is_complete: true }
    }
}

impl NumericSortKeys {
    /// Returns the numbers of a node.
    #[must_use]
    pub fn from_node(node: &NodeProfile) -> Self {
        Self {
            created_at: node.created_at.micros(),
            updated_at: node.updated_at.micros(),
            downloads: node.downloads,
            github_stars: node.github_stars,
            rating: node.mean_rating(),
            search_ranking: node.search_ranking,
        }
    }

    /// Returns the columns in which two nodes differ.
    fn differing_columns(self, other: Self) -> impl Iterator<Item = SortColumn> {
        let changes = [
            (SortColumn::CreatedAt, self.created_at != other.created_at),
            (SortColumn::UpdatedAt, self.updated_at != other.updated_at),
            (SortColumn::Downloads, self.downloads != other.downloads),
            (SortColumn::GithubStars, self.github_stars != other.github_stars),
            (SortColumn::Rating, self.rating != other.rating),
            (SortColumn::SearchRanking, self.search_ranking != other.search_ranking),
        ];
        changes.into_iter().filter_map(|(column, differs)| differs.then_some(column))
    }
}

/// Compares two nodes by some keys; ties are broken by ascending id.
#[must_use]
pub fn compare_rows(sort: &[Sort], a: &NodeSortRow, b: &NodeSortRow) -> Ordering {
    let mut by_keys = sort.iter().map(|key| key.compare(a, b));
    by_keys.find(|order| order.is_ne()).unwrap_or_else(|| a.id.cmp(&b.id))
}

/// All listed nodes, sorted by every column in both directions.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnOrders {
    orders: Vec<SortedList>,
}

impl ColumnOrders {
    /// Sorts the listed nodes.
    #[must_use]
    pub fn build(rows: &[NodeSortRow], listed: &SlotSet) -> Self {
        let by_id = slots_by_id(rows, listed);
        let pairs = SortColumn::ALL.par_iter().map(|column| {
            let (ascending, descending) = sort_both_directions(rows, &by_id, *column);
            [SortedList::from_sorted(&ascending), SortedList::from_sorted(&descending)]
        });
        Self { orders: pairs.collect::<Vec<_>>().into_iter().flatten().collect() }
    }

    /// Returns the order by one key.
    #[must_use]
    pub fn order_by(&self, sort: Sort) -> &SortedList {
        &self.orders[sort.order_index()]
    }

    /// Adds a node to the lists.
    pub fn insert(&mut self, slot: Slot, rows: &[NodeSortRow]) {
        Sort::all().for_each(|key| self.insert_by(key, slot, rows));
    }

    /// Removes a node from the lists; its row must be the row with which it was added.
    pub fn remove(&mut self, slot: Slot, rows: &[NodeSortRow]) {
        Sort::all().for_each(|key| self.remove_by(key, slot, rows));
    }

    /// Replaces the row of a listed node. The node moves only in the orders of columns that differ.
    pub fn replace(&mut self, slot: Slot, rows: &mut [NodeSortRow], row: NodeSortRow) {
        let index = slot as usize;
        let changed_keys: Vec<Sort> = Sort::all().filter(|key| key.compare(&rows[index], &row).is_ne()).collect();

        for key in &changed_keys {
            self.remove_by(*key, slot, rows);
        }
        rows[index] = row;
        for key in &changed_keys {
            self.insert_by(*key, slot, rows);
        }
    }

    /// Replaces the numbers of a listed node.
    pub fn update_numbers(&mut self, slot: Slot, rows: &mut [NodeSortRow], numbers: NumericSortKeys) {
        let index = slot as usize;
        let previous = rows[index].numbers;
        let changed_keys = || {
            previous
                .differing_columns(numbers)
                .flat_map(|column| [false, true].map(|descending| Sort { column, descending }))
        };

        changed_keys().for_each(|key| self.remove_by(key, slot, rows));
        rows[index].numbers = numbers;
        changed_keys().for_each(|key| self.insert_by(key, slot, rows));
    }

    /// Adds a node to the list by one key.
    fn insert_by(&mut self, key: Sort, slot: Slot, rows: &[NodeSortRow]) {
        let row = &rows[slot as usize];
        self.orders[key.order_index()].insert(slot, |other| compare_rows(&[key], &rows[other as usize], row));
    }

    /// Removes a node from the list by one key.
    fn remove_by(&mut self, key: Sort, slot: Slot, rows: &[NodeSortRow]) {
        let row = &rows[slot as usize];
        self.orders[key.order_index()].remove(slot, |other| compare_rows(&[key], &rows[other as usize], row));
    }

    /// Adds many nodes to the lists.
    pub fn insert_all(&mut self, slots: &SlotSet, rows: &[NodeSortRow]) {
        let by_id = slots_by_id(rows, slots);
        for key in Sort::all() {
            let compare = |a: Slot, b: Slot| compare_rows(&[key], &rows[a as usize], &rows[b as usize]);
            self.orders[key.order_index()].insert_all(&sort_by_key(rows, &by_id, key), compare);
        }
    }

    /// Removes many nodes from the lists.
    pub fn remove_all(&mut self, slots: &SlotSet) {
        self.orders.iter_mut().for_each(|order| order.retain(|slot| !slots.contains(slot)));
    }
}

fn slots_by_id(rows: &[NodeSortRow], slots: &SlotSet) -> Vec<Slot> {
    let mut keyed: Vec<(SortPrefix, Slot)> =
        slots.iter().map(|slot| (rows[slot as usize].sort_prefix(SortColumn::Id), slot)).collect();
    keyed.sort_unstable_by(|(prefix, slot), (other_prefix, other_slot)| {
        prefix.cmp(other_prefix).then_with(|| rows[*slot as usize].id.cmp(&rows[*other_slot as usize].id))
    });
    keyed.into_iter().map(|(_, slot)| slot).collect()
}

/// Sorts slots, given in the order of ids, by a column in both directions. The sort is stable.
fn sort_both_directions(rows: &[NodeSortRow], by_id: &[Slot], column: SortColumn) -> (Vec<Slot>, Vec<Slot>) {
    let compare = |(a, a_slot): &(SortPrefix, Slot), (b, b_slot): &(SortPrefix, Slot)| {
        a.start.cmp(&b.start).then_with(|| match (a.is_complete, b.is_complete) {
            (true, true) => Ordering::Equal,
            _ => rows[*a_slot as usize].compare(&rows[*b_slot as usize], column),
        })
    };
    let mut keyed: Vec<(SortPrefix, Slot)> =
        by_id.iter().map(|slot| (rows[*slot as usize].sort_prefix(column), *slot)).collect();
    keyed.sort_by(compare);

    let slots = |part: &[(SortPrefix, Slot)]| part.iter().map(|(_, slot)| *slot).collect::<Vec<_>>();
    let ascending = slots(&keyed);
    let groups: Vec<&[(SortPrefix, Slot)]> = keyed.chunk_by(|a, b| compare(a, b).is_eq()).collect();
    (ascending, groups.into_iter().rev().flat_map(slots).collect())
}

/// Sorts slots, given in the order of ids, by a key. The sort is stable.
fn sort_by_key(rows: &[NodeSortRow], by_id: &[Slot], key: Sort) -> Vec<Slot> {
    let mut slots = by_id.to_vec();
    slots.sort_by(|a, b| key.compare(&rows[*a as usize], &rows[*b as usize]));
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_key_of_a_column_counts() {
        let key = |column, descending| Sort { column, descending };
        let name = key(SortColumn::Name, true);
        let id = key(SortColumn::Id, false);
        let sort_keys = [name, Sort::DOWNLOADS, key(SortColumn::Name, false), id, key(SortColumn::Author, false)];
        assert_eq!(Sort::effective(sort_keys), [name, Sort::DOWNLOADS, id]);
    }
}
