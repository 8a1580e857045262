//! Pages of lists.

/// A request for one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageRequest {
    /// Page number, from 1.
    pub page: u64,
    /// Entries per page, at least 1.
    pub limit: u64,
}

/// One page of a list, and the size of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    pub entries: Vec<T>,
    /// Entries of all pages.
    pub total: u64,
    pub request: PageRequest,
}

impl PageRequest {
    /// Returns the number of entries before this page.
    #[must_use]
    pub fn offset(self) -> usize {
        usize::try_from(self.page.saturating_sub(1).saturating_mul(self.limit)).unwrap_or(usize::MAX)
    }

    /// Returns this page of a list, with the length of the list.
    pub fn paginate<T>(self, entries: impl ExactSizeIterator<Item = T>) -> Page<T> {
        let total = entries.len() as u64;
        Page { entries: self.slice(entries), total, request: self }
    }

    /// Returns the entries of this page.
    pub fn slice<T>(self, entries: impl Iterator<Item = T>) -> Vec<T> {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        entries.skip(self.offset()).take(limit).collect()
    }
}

impl<T> Page<T> {
    /// Returns the number of pages.
    #[must_use]
    pub fn total_pages(&self) -> u64 {
        self.total.div_ceil(self.request.limit.max(1))
    }

    /// Converts every entry of the page.
    pub fn map<U>(self, map_entry: impl FnMut(T) -> U) -> Page<U> {
        Page { entries: self.entries.into_iter().map(map_entry).collect(), total: self.total, request: self.request }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_partition_a_list() {
        let list: Vec<u32> = (0..10).collect();
        let page = |page| PageRequest { page, limit: 4 }.paginate(list.iter().copied());
        assert_eq!(page(1).entries, [0, 1, 2, 3]);
        assert_eq!(page(3).entries, [8, 9]);
        assert_eq!((page(4).entries, page(4).total, page(4).total_pages()), (vec![], 10, 3));
        assert!(PageRequest { page: u64::MAX, limit: u64::MAX }.paginate(list.iter()).entries.is_empty());
    }
}
