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
        Vec::deserialize(deserializer).map(|values: Vec<T>| values.into_iter().map(Arc::new).collect())
    }
}
