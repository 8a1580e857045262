//! Pages of a list: which part was asked for, and how the parts add up.

/// Which part of a list: pages count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageRequest {
    /// From 1.
    pub page: u64,
    /// Entries a page, from 1.
    pub limit: u64,
}

/// One page of a list and the size of the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    pub entries: Vec<T>,
    /// Entries of all pages together.
    pub total: u64,
    pub request: PageRequest,
}

impl PageRequest {
    /// How many entries come before this page.
    #[must_use]
    pub fn offset(self) -> usize {
        usize::try_from(self.page.saturating_sub(1).saturating_mul(self.limit)).unwrap_or(usize::MAX)
    }

    /// Cuts this page out of a list whose length is known to the iterator.
    pub fn cut<T>(self, entries: impl ExactSizeIterator<Item = T>) -> Page<T> {
        let total = entries.len() as u64;
        Page { entries: self.part(entries), total, request: self }
    }

    /// The entries of this page out of a list.
    pub fn part<T>(self, entries: impl Iterator<Item = T>) -> Vec<T> {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        entries.skip(self.offset()).take(limit).collect()
    }
}

impl<T> Page<T> {
    /// How many pages there are.
    #[must_use]
    pub fn total_pages(&self) -> u64 {
        self.total.div_ceil(self.request.limit.max(1))
    }

    /// The same page with every entry turned into something else.
    pub fn map<U>(self, turn: impl FnMut(T) -> U) -> Page<U> {
        Page { entries: self.entries.into_iter().map(turn).collect(), total: self.total, request: self.request }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_partition_a_list() {
        let list: Vec<u32> = (0..10).collect();
        let page = |page| PageRequest { page, limit: 4 }.cut(list.iter().copied());
        assert_eq!(page(1).entries, [0, 1, 2, 3]);
        assert_eq!(page(3).entries, [8, 9]);
        assert_eq!((page(4).entries, page(4).total, page(4).total_pages()), (vec![], 10, 3));
        assert!(PageRequest { page: u64::MAX, limit: u64::MAX }.cut(list.iter()).entries.is_empty());
    }
}
