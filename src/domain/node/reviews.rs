//! Reviews of a node: the last rating of each user.
//!
//! Chunks are shared between copies of the node, so copying a popular node stays cheap. The stored sum gives the mean
//! without a scan.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::rating::{Rating, Stars};
use crate::domain::ids::UserId;

/// Maximum number of entries of a chunk; a larger one is split in half.
const CHUNK_MAX: usize = 256;

/// The last rating of each user.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Reviews {
    /// Non-empty chunks, ascending by user.
    #[serde(with = "crate::domain::shared::list")]
    chunks: Vec<Arc<Vec<(UserId, Stars)>>>,
    count: u64,
    sum: u64,
}

impl Reviews {
    /// Returns a user's rating.
    #[must_use]
    pub fn stars_of(&self, user: UserId) -> Option<Stars> {
        let chunk = self.chunks.get(self.chunk_index(user))?;
        chunk.binary_search_by_key(&user, |(user, _)| *user).ok().map(|index| chunk[index].1)
    }

    /// Adds a rating, replacing the user's earlier one.
    pub fn set(&mut self, user: UserId, stars: Stars) {
        self.sum += u64::from(stars.get());
        let chunk_index = self.chunk_index(user);

        let Some(chunk) = self.chunks.get_mut(chunk_index).map(Arc::make_mut) else {
            self.chunks.push(Arc::new(vec![(user, stars)]));
            self.count += 1;
            return;
        };

        match chunk.binary_search_by_key(&user, |(user, _)| *user) {
            Ok(index) => {
                let previous = std::mem::replace(&mut chunk[index].1, stars);
                self.sum -= u64::from(previous.get());
            }
            Err(index) => {
                chunk.insert(index, (user, stars));
                self.count += 1;
                if chunk.len() > CHUNK_MAX {
                    let upper = chunk.split_off(CHUNK_MAX / 2);
                    self.chunks.insert(chunk_index + 1, Arc::new(upper));
                }
            }
        }
    }

    /// Returns the mean, or `None` without reviews.
    #[must_use]
    pub fn mean(&self) -> Option<Rating> {
        Rating::from_sum(self.sum, self.count)
    }

    /// Returns all ratings, ascending by user.
    pub fn iter(&self) -> impl Iterator<Item = (UserId, Stars)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).copied()
    }

    /// Returns the index of the chunk that contains the user or would contain it.
    fn chunk_index(&self, user: UserId) -> usize {
        let next_index = self.chunks.partition_point(|chunk| chunk.first().is_some_and(|(first, _)| *first <= user));
        next_index.saturating_sub(1)
    }
}

/// Compares the ratings, regardless of the chunks.
impl PartialEq for Reviews {
    fn eq(&self, other: &Self) -> bool {
        (self.count, self.sum) == (other.count, other.sum) && self.iter().eq(other.iter())
    }
}

impl Eq for Reviews {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    proptest! {
        #[test]
        fn each_user_counts_once_with_the_last_review(
            ratings in prop::collection::vec((0..700_u128, 1..6_i64), 0..1500),
        ) {
            let mut reviews = Reviews::default();
            let mut model = BTreeMap::new();
            for (user, stars) in ratings {
                // Spreads the ids, so that they arrive in no order.
                let user = UserId(Uuid::from_u128(user.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
                let stars = Stars::new(stars).unwrap();
                let copy = reviews.clone();
                prop_assert_eq!(copy.stars_of(user), model.get(&user).copied());
                reviews.set(user, stars);
                prop_assert_eq!(copy.stars_of(user), model.insert(user, stars), "a copy does not change");
                prop_assert_eq!(reviews.stars_of(user), Some(stars));
            }
            prop_assert!(reviews.iter().eq(model.iter().map(|(user, stars)| (*user, *stars))));
            prop_assert_eq!(reviews.mean(), Rating::mean(model.values().copied()));
            prop_assert!(reviews.chunks.iter().all(|chunk| (1..=CHUNK_MAX).contains(&chunk.len())));
        }
    }
}
