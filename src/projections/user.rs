//! Users by id, in the order in which they came.

use std::collections::HashSet;

use indexmap::IndexMap;

use super::page::{Page, PageRequest};
use crate::domain::decider::Decider;
use crate::domain::ids::UserId;
use crate::domain::user::{User, UserEvent, UserProfile};
use crate::domain::value::Timestamp;

/// All users.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Users {
    by_id: IndexMap<UserId, User>,
}

impl Users {
    /// Folds an event of the user with this id.
    pub fn apply(&mut self, id: UserId, event: &UserEvent, at: Timestamp) {
        User::evolve(self.by_id.entry(id).or_default(), event, at);
    }

    /// Every user, for a snapshot.
    pub(super) fn saved(&self) -> impl Iterator<Item = (&UserId, &User)> {
        self.by_id.iter()
    }

    /// Takes back what was saved, in its order.
    pub(super) fn restore(&mut self, users: Vec<(UserId, User)>) {
        self.by_id.extend(users);
    }

    /// The user with this id, unless it was erased.
    #[must_use]
    pub fn get(&self, id: UserId) -> Option<&UserProfile> {
        self.find(id)?.profile()
    }

    /// Whoever has or had this id: never [`User::Absent`].
    #[must_use]
    pub fn find(&self, id: UserId) -> Option<&User> {
        self.by_id.get(&id).filter(|user| **user != User::Absent)
    }

    /// A page of all users, or of these alone, oldest first, and what is left of those who were erased.
    #[must_use]
    pub fn page(&self, request: PageRequest, only: &HashSet<UserId>) -> Page<&User> {
        let listed = |(id, user): &(&UserId, &User)| **user != User::Absent && (only.is_empty() || only.contains(id));
        let users: Vec<_> = self.by_id.iter().filter(listed).map(|(_, user)| user).collect();
        request.cut(users.into_iter())
    }

    /// Those who have an account.
    pub fn present(&self) -> impl Iterator<Item = &UserProfile> {
        self.by_id.values().filter_map(User::profile)
    }

    /// Those who were erased.
    pub fn erased(&self) -> impl Iterator<Item = UserId> {
        self.by_id
            .values()
            .filter_map(|user| if let User::Erased(tombstone) = user { Some(tombstone.id) } else { None })
    }
}
