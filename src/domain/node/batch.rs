//! Batches of commands: each is decided on the state after the previous ones; all succeed or none is recorded.

use super::{Node, NodeCommand, NodeEvent, NodeRejection};
use crate::domain::decider::Decider;
use crate::domain::value::Timestamp;

impl NodeCommand {
    /// Combines one or more commands into one.
    #[must_use]
    pub fn batch(first: Self, others: impl IntoIterator<Item = Self>) -> Self {
        let mut others = others.into_iter().peekable();
        if others.peek().is_none() {
            return first;
        }
        Self::Batch(std::iter::once(first).chain(others).collect())
    }
}

/// Decides each command on the state after the previous ones.
pub(super) fn decide_batch(
    mut node: Node,
    commands: Vec<NodeCommand>,
    now: Timestamp,
) -> Result<Vec<NodeEvent>, NodeRejection> {
    let mut all_events = Vec::new();
    for command in commands {
        let events = Node::decide(&node, command, now)?;
        for event in &events {
            Node::evolve(&mut node, event, now);
        }
        all_events.extend(events);
    }
    Ok(all_events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::decider::testing::given_when;
    use crate::domain::ids::{NodeId, PublisherId, VersionId};
    use crate::domain::node::{NodeAdminFields, NodeFields};
    use crate::domain::value::Reason;
    use crate::domain::version::{SemVer, VersionAdminFields, VersionDraft, VersionFields, VersionRef, VersionStatus};
    use uuid::Uuid;

    const VERSION: VersionId = VersionId(Uuid::from_u128(1));

    fn create() -> NodeCommand {
        let id = NodeId::parse("n").unwrap();
        let publisher = PublisherId::parse("acme").unwrap();
        let fields = NodeFields::default();
        let admin_fields = NodeAdminFields::default();
        NodeCommand::Create { id, publisher, fields, admin_fields, first_version: None }
    }

    fn publish() -> NodeCommand {
        let id = NodeId::parse("n").unwrap();
        let publisher = PublisherId::parse("acme").unwrap();
        let number = SemVer::parse("1.0.0").unwrap();
        let version = VersionDraft { id: VERSION, number, fields: VersionFields::default() };
        NodeCommand::Publish { id, publisher, fields: NodeFields::default(), version }
    }

    fn flag() -> NodeCommand {
        let version = VersionRef::Id(VERSION);
        let status = Some(VersionStatus::Flagged);
        let change = VersionFields::default();
        let admin_fields = VersionAdminFields::default();
        NodeCommand::AdministerVersion { version, change, admin_fields, status, reason: None }
    }

    fn names(result: Result<Vec<NodeEvent>, NodeRejection>) -> Vec<&'static str> {
        result.unwrap().iter().map(NodeEvent::name).collect()
    }

    #[test]
    fn each_command_sees_the_events_of_the_previous_ones() {
        let batch = NodeCommand::batch(create(), [publish(), flag()]);
        let expected = ["NodeCreated", "VersionPublished", "VersionStatusChanged"];
        assert_eq!(names(given_when::<Node>(&[], batch)), expected);
    }

    #[test]
    fn one_rejected_command_rejects_the_whole_batch() {
        let rejected = given_when::<Node>(&[], NodeCommand::batch(create(), [flag(), publish()]));
        assert_eq!(rejected, Err(NodeRejection::VersionNotFound));
        let history = given_when::<Node>(&[], create()).unwrap();
        let rejected = given_when::<Node>(&history, NodeCommand::batch(publish(), [create()]));
        assert!(matches!(rejected, Err(NodeRejection::AlreadyExists { .. })), "{rejected:?}");
    }

    #[test]
    fn a_deleted_node_rejects_a_batch_like_its_first_command() {
        let mut history = given_when::<Node>(&[], create()).unwrap();
        history.push(NodeEvent::NodeDeleted);
        let rejected = given_when::<Node>(&history, NodeCommand::batch(create(), [publish()]));
        assert!(matches!(rejected, Err(NodeRejection::AlreadyExists { .. })), "{rejected:?}");
        let rejected = given_when::<Node>(&history, NodeCommand::batch(publish(), [create()]));
        assert_eq!(rejected, Err(NodeRejection::NotFound));
    }

    #[test]
    fn a_batch_of_one_is_that_command() {
        assert_eq!(NodeCommand::batch(create(), []), create());
        let ban = NodeCommand::Ban { reason: Reason::parse("malware").unwrap() };
        assert_eq!(names(given_when::<Node>(&[], NodeCommand::batch(create(), [ban]))), ["NodeCreated", "NodeBanned"]);
    }
}
