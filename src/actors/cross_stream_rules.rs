//! Rules that span streams. An aggregate sees only its own stream. The writer serializes all appends, so it also sees
//! those between a check and its append, and refuses one that would leave a node without its publisher.

use std::collections::HashSet;

use crate::domain::event::Event;
use crate::domain::ids::PublisherId;
use crate::domain::node::NodeEvent;
use crate::domain::publisher::PublisherEvent;
use crate::events::envelope::Append;
use crate::projections::ReadModels;

/// Changes of one group to publishers and their nodes, on top of the read models.
pub struct CrossStreamRules<'m> {
    models: &'m ReadModels,
    /// Publishers that receive a node in this group.
    gaining_nodes: HashSet<PublisherId>,
    /// Publishers that are deleted in this group.
    deleted: HashSet<PublisherId>,
}

impl<'m> CrossStreamRules<'m> {
    /// Returns the rules for a group. `models` contain everything appended before it.
    #[must_use]
    pub fn new(models: &'m ReadModels) -> Self {
        Self { models, gaining_nodes: HashSet::new(), deleted: HashSet::new() }
    }

    /// Returns `true` if the append may follow the ones checked before: a deleted publisher gets no node, and a
    /// publisher with nodes is not deleted.
    pub fn allows(&mut self, append: &Append) -> bool {
        append.events.iter().all(|new_event| match &new_event.event {
            Event::Node(NodeEvent::NodeCreated { publisher, .. }) => self.may_gain_node(publisher),
            Event::Publisher(PublisherEvent::PublisherDeleted) => {
                PublisherId::parse(append.stream.key()).is_ok_and(|publisher| self.may_be_deleted(publisher))
            }
            _ => true,
        })
    }

    fn may_gain_node(&mut self, publisher: &PublisherId) -> bool {
        if self.deleted.contains(publisher) || self.models.read().publishers.was_deleted(publisher) {
            return false;
        }
        self.gaining_nodes.insert(publisher.clone());
        true
    }

    fn may_be_deleted(&mut self, publisher: PublisherId) -> bool {
        let has_nodes =
            self.gaining_nodes.contains(&publisher) || self.models.read().nodes.count_of_publisher(&publisher) > 0;
        if !has_nodes {
            self.deleted.insert(publisher);
        }
        !has_nodes
    }
}
