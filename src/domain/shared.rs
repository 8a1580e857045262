//! How caches keep what is behind shared pointers: the values themselves.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes the value.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<T: Serialize, S: Serializer>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().serialize(serializer)
}

/// Reads the value.
///
/// # Errors
/// Those of the deserializer.
pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<T>, D::Error> {
    T::deserialize(deserializer).map(Arc::new)
}

/// The same for lists of them.
pub mod list {
    use super::{Arc, Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the values.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<T: Serialize, S: Serializer>(values: &[Arc<T>], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(Arc::as_ref))
    }

    /// Reads the values.
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Arc<T>>, D::Error> {
        Vec::deserialize(deserializer).map(|values: Vec<T>| values.into_iter().map(Arc::new).collect())
    }
}
