//! Who reviewed a node, and with how many stars: kept in shared pieces, so that a popular node is copied as cheaply as any
//! other, with their sum, so that nobody has to walk all of them for the mean.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::rating::{Rating, Stars};
use crate::domain::ids::UserId;

/// A longer piece is cut in two.
const PIECE_MAX: usize = 256;

/// The last review of each user.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Reviews {
    /// Ascending by user, in pieces of which none is empty.
    #[serde(with = "crate::domain::shared::list")]
    pieces: Vec<Arc<Vec<(UserId, Stars)>>>,
    count: u64,
    sum: u64,
}

impl Reviews {
    /// What a user gave.
    #[must_use]
    pub fn of(&self, user: UserId) -> Option<Stars> {
        let piece = self.pieces.get(self.piece_of(user))?;
        piece.binary_search_by_key(&user, |(user, _)| *user).ok().map(|at| piece[at].1)
    }

    /// Takes a review; an earlier one of the same user counts no more.
    pub fn give(&mut self, user: UserId, stars: Stars) {
        self.sum += u64::from(stars.get());
        let at = self.piece_of(user);
        let Some(piece) = self.pieces.get_mut(at).map(Arc::make_mut) else {
            self.pieces.push(Arc::new(vec![(user, stars)]));
            self.count += 1;
            return;
        };
        match piece.binary_search_by_key(&user, |(user, _)| *user) {
            Ok(known) => {
                let before = std::mem::replace(&mut piece[known].1, stars);
                self.sum -= u64::from(before.get());
            }
            Err(place) => {
                piece.insert(place, (user, stars));
                self.count += 1;
                if piece.len() > PIECE_MAX {
                    let upper = piece.split_off(PIECE_MAX / 2);
                    self.pieces.insert(at + 1, Arc::new(upper));
                }
            }
        }
    }

    /// The mean, if there are any.
    #[must_use]
    pub fn mean(&self) -> Option<Rating> {
        Rating::of_sum(self.sum, self.count)
    }

    /// All of them, ascending by user.
    pub fn iter(&self) -> impl Iterator<Item = (UserId, Stars)> {
        self.pieces.iter().flat_map(|piece| piece.iter()).copied()
    }

    /// The piece in which a user is, or would be.
    fn piece_of(&self, user: UserId) -> usize {
        let after = self.pieces.partition_point(|piece| piece.first().is_some_and(|(first, _)| *first <= user));
        after.saturating_sub(1)
    }
}

/// Equal as lists, however they are cut into pieces.
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
            given in prop::collection::vec((0..700_u128, 1..6_i64), 0..1500),
        ) {
            let (mut reviews, mut model) = (Reviews::default(), BTreeMap::new());
            for (user, stars) in given {
                let (user, stars) = (UserId(Uuid::from_u128(user.wrapping_mul(0x9e37_79b9_7f4a_7c15))), Stars::new(stars).unwrap());
                let copy = reviews.clone();
                prop_assert_eq!(copy.of(user), model.get(&user).copied());
                reviews.give(user, stars);
                prop_assert_eq!(copy.of(user), model.insert(user, stars), "a copy stays as it is");
                prop_assert_eq!(reviews.of(user), Some(stars));
            }
            prop_assert!(reviews.iter().eq(model.iter().map(|(user, stars)| (*user, *stars))));
            prop_assert_eq!(reviews.mean(), Rating::mean(model.values().copied()));
            prop_assert!(reviews.pieces.iter().all(|piece| (1..=PIECE_MAX).contains(&piece.len())));
        }
    }
}
