//! Users by id, in the order of creation.

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
    /// Applies an event of the user with this id.
    pub fn apply(&mut self, id: UserId, event: &UserEvent, at: Timestamp) {
        User::evolve(self.by_id.entry(id).or_default(), event, at);
    }

    /// Returns all users, for a snapshot.
    pub(super) fn snapshot_entries(&self) -> impl Iterator<Item = (&UserId, &User)> {
        self.by_id.iter()
    }

    /// Restores users from a snapshot, in order.
    pub(super) fn restore(&mut self, users: Vec<(UserId, User)>) {
        self.by_id.extend(users);
    }

    /// Returns the user with this id, unless erased.
    #[must_use]
    pub fn get(&self, id: UserId) -> Option<&UserProfile> {
        self.find(id)?.profile()
    }

    /// Returns the user who has or had this id; never [`User::Absent`].
    #[must_use]
    pub fn find(&self, id: UserId) -> Option<&User> {
        self.by_id.get(&id).filter(|user| **user != User::Absent)
    }

    /// Returns a page of the users in `id_filter`, or of all users if it is empty; oldest first, with erased users.
    #[must_use]
    pub fn page(&self, request: PageRequest, id_filter: &HashSet<UserId>) -> Page<&User> {
        let is_listed =
            |(id, user): &(&UserId, &User)| **user != User::Absent && (id_filter.is_empty() || id_filter.contains(id));
        let users: Vec<_> = self.by_id.iter().filter(is_listed).map(|(_, user)| user).collect();
        request.paginate(users.into_iter())
    }

    /// Returns all open accounts.
    pub fn profiles(&self) -> impl Iterator<Item = &UserProfile> {
        self.by_id.values().filter_map(User::profile)
    }

    /// Returns the ids of erased users.
    pub fn erased_ids(&self) -> impl Iterator<Item = UserId> {
        self.by_id
            .values()
            .filter_map(|user| if let User::Erased(tombstone) = user { Some(tombstone.id) } else { None })
    }
}
