//! Table of distinct values, which many tasks refer to by number.

use std::collections::HashMap;
use std::hash::Hash;

/// Distinct values with numbers from 1, in the order in which they were added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered<T: Hash + Eq> {
    values: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T: Hash + Eq> Default for Numbered<T> {
    fn default() -> Self {
        Self { values: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: Hash + Eq + Clone> Numbered<T> {
    /// Returns the number of a value, which is added if it is new.
    pub fn number_of(&mut self, value: &T) -> u32 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }

        self.values.push(value.clone());
        let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.numbers.insert(value.clone(), number);
        number
    }

    /// Returns the value with a number; `None` for 0.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&T> {
        self.values.get((number as usize).checked_sub(1)?)
    }

    /// Returns all values in the order of their numbers.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_one_number() {
        let mut table = Numbered::default();
        assert_eq!(["a", "b", "a"].map(|value| table.number_of(&value)), [1, 2, 1]);
        assert_eq!([0, 1, 2, 3].map(|number| table.get(number).copied()), [None, Some("a"), Some("b"), None]);
    }
}
