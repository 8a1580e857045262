//! Serde functions for fields behind `Arc`: snapshots contain the plain values.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Serializes the value behind the pointer.
///
/// # Errors
/// If the serializer fails.
pub fn serialize<T: Serialize, S: Serializer>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().serialize(serializer)
}

/// Deserializes a value.
///
/// # Errors
/// If the deserializer fails.
pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<T>, D::Error> {
    T::deserialize(deserializer).map(Arc::new)
}

/// The same functions for `Vec<Arc<T>>`.
pub mod list {
    use super::{Arc, Deserialize, Deserializer, Serialize, Serializer};

    /// Serializes the values behind the pointers.
    ///
    /// # Errors
    /// If the serializer fails.
    pub fn serialize<T: Serialize, S: Serializer>(values: &[Arc<T>], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(Arc::as_ref))
    }

    /// Deserializes a list of values.
    ///
    /// # Errors
    /// If the deserializer fails.
    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Arc<T>>, D::Error> {
        let values: Vec<T> = Vec::deserialize(deserializer)?;
        let mut list: Vec<Arc<T>> = values.into_iter().map(Arc::new).collect();
        // The standard library collects into the allocation of the values, which is far larger.
        list.shrink_to_fit();
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::value::{Error, SeqDeserializer};

    use super::*;

    /// A value that is larger than a pointer.
    struct Wide([u64; 8]);

    impl<'de> Deserialize<'de> for Wide {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            u64::deserialize(deserializer).map(|number| Self([number; 8]))
        }
    }

    #[test]
    fn a_read_list_has_no_spare_capacity() {
        let read: Vec<Arc<Wide>> = list::deserialize(SeqDeserializer::<_, Error>::new(0..5_u64)).unwrap();
        assert!(read.iter().map(|wide| wide.0[7]).eq(0..5));
        assert_eq!(read.capacity(), 5);
    }
}
