//! Publishers by id.

use std::collections::BTreeMap;

use crate::domain::decider::Decider;
use crate::domain::ids::PublisherId;
use crate::domain::publisher::{Publisher, PublisherEvent, PublisherProfile};
use crate::domain::value::Timestamp;

/// All publishers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Publishers {
    by_id: BTreeMap<String, Publisher>,
}

impl Publishers {
    /// Folds an event of the publisher named `id`.
    pub fn apply(&mut self, id: &str, event: &PublisherEvent, at: Timestamp) {
        if !self.by_id.contains_key(id) {
            self.by_id.insert(id.to_owned(), Publisher::default());
        }
        if let Some(publisher) = self.by_id.get_mut(id) {
            Publisher::evolve(publisher, event, at);
        }
    }

    /// The publisher with this id.
    #[must_use]
    pub fn get(&self, id: &PublisherId) -> Option<&PublisherProfile> {
        match self.by_id.get(id.as_str())? {
            Publisher::Present(profile) => Some(profile),
            Publisher::Unclaimed | Publisher::Deleted => None,
        }
    }
}
