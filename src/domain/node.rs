//! Nodes and their versions: one aggregate, because version numbers are unique within a node.

use std::collections::BTreeMap;

use super::decider::Decider;
use super::event::{Event, part_of_event};
use super::ids::{NodeId, PublisherId, StreamKind, VersionId};
use super::publisher::take;
use super::value::{Label, Labels, Link, Name, Text, Timestamp};
use super::version::{NodeVersion, SemVer, VersionDraft, VersionFields, VersionRef, VersionStatus};

/// A node's description (contract 4).
pub type NodeDescription = Text<1000>;

/// Node texts in other languages: language → field → text.
pub type Translations = BTreeMap<Text<35>, BTreeMap<Text<64>, Text<1000>>>;

/// The descriptive fields; in a command and an event only those that are present change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeFields {
    pub author: Option<Name>,
    pub banner_url: Option<Link>,
    pub category: Option<Label>,
    pub description: Option<NodeDescription>,
    pub icon: Option<Link>,
    pub license: Option<Label>,
    pub name: Option<Name>,
    pub preempted_host_node_names: Option<Labels>,
    pub repository: Option<Link>,
    pub supported_accelerators: Option<Labels>,
    pub supported_host_frontend_version: Option<Label>,
    pub supported_host_version: Option<Label>,
    pub supported_os: Option<Labels>,
    pub tags: Option<Labels>,
    pub translations: Option<Translations>,
}

impl NodeFields {
    /// Takes over every field that `change` carries.
    pub fn apply(&mut self, change: &Self) {
        take(&mut self.author, change.author.as_ref());
        take(&mut self.banner_url, change.banner_url.as_ref());
        take(&mut self.category, change.category.as_ref());
        take(&mut self.description, change.description.as_ref());
        take(&mut self.icon, change.icon.as_ref());
        take(&mut self.license, change.license.as_ref());
        take(&mut self.name, change.name.as_ref());
        take(&mut self.preempted_host_node_names, change.preempted_host_node_names.as_ref());
        take(&mut self.repository, change.repository.as_ref());
        take(&mut self.supported_accelerators, change.supported_accelerators.as_ref());
        take(&mut self.supported_host_frontend_version, change.supported_host_frontend_version.as_ref());
        take(&mut self.supported_host_version, change.supported_host_version.as_ref());
        take(&mut self.supported_os, change.supported_os.as_ref());
        take(&mut self.tags, change.tags.as_ref());
        take(&mut self.translations, change.translations.as_ref());
    }
}

/// Why a command on a node was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeRejection {
    /// The id is taken, perhaps in another case or by another publisher.
    AlreadyExists { id: NodeId },
    /// The node, or the version of that node and that publisher, does not exist.
    NotFound,
    /// A version of this number is registered already.
    VersionExists { number: SemVer },
}

/// A node that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeProfile {
    pub id: NodeId,
    pub publisher: PublisherId,
    pub fields: NodeFields,
    /// In the order of registration.
    pub versions: Vec<NodeVersion>,
    pub created_at: Timestamp,
    /// When the node or one of its versions last changed.
    pub updated_at: Timestamp,
}

/// A node's life.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Node {
    /// The id is free.
    #[default]
    Unclaimed,
    /// The node exists.
    Active(Box<NodeProfile>),
}

/// What happened to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeEvent {
    /// The id was claimed.
    NodeCreated { id: NodeId, publisher: PublisherId, fields: NodeFields },
    /// Some descriptive fields changed.
    NodeRevised { change: NodeFields },
    /// A version was registered and can be installed at once.
    VersionReleased { version: VersionDraft },
    /// A version was registered and waits for its archive.
    VersionPublished { version: VersionDraft },
    /// What is said of a version changed.
    VersionRevised { id: VersionId, change: VersionFields },
}

part_of_event!(NodeEvent as Node { NodeCreated, NodeRevised, VersionReleased, VersionPublished, VersionRevised });

/// What can be asked of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeCommand {
    /// Claims the id; a first version is released with it.
    Create { id: NodeId, publisher: PublisherId, fields: NodeFields, first_version: Option<VersionDraft> },
    /// Registers a version; creates the node when it is new, revises it when it is not.
    Publish { id: NodeId, publisher: PublisherId, fields: NodeFields, version: VersionDraft },
    /// Changes what is said of a version.
    ReviseVersion { publisher: PublisherId, version: VersionRef, change: VersionFields },
}

impl Decider for Node {
    const KIND: StreamKind = StreamKind::Node;
    type State = Self;
    type Command = NodeCommand;
    type Event = NodeEvent;
    type Rejection = NodeRejection;

    fn decide(state: &Self, command: NodeCommand, _now: Timestamp) -> Result<Vec<NodeEvent>, NodeRejection> {
        match (state, command) {
            (Self::Unclaimed, NodeCommand::Create { id, publisher, fields, first_version }) => {
                let created = NodeEvent::NodeCreated { id, publisher, fields };
                let released = first_version.map(|version| NodeEvent::VersionReleased { version });
                Ok(std::iter::once(created).chain(released).collect())
            }
            (Self::Active(node), NodeCommand::Create { .. }) => {
                Err(NodeRejection::AlreadyExists { id: node.id.clone() })
            }
            (Self::Unclaimed, NodeCommand::Publish { id, publisher, fields, version }) => {
                Ok(vec![NodeEvent::NodeCreated { id, publisher, fields }, NodeEvent::VersionPublished { version }])
            }
            (Self::Active(node), NodeCommand::Publish { publisher, fields, version, .. }) => {
                node.publish(&publisher, fields, version)
            }
            (Self::Unclaimed, NodeCommand::ReviseVersion { .. }) => Err(NodeRejection::NotFound),
            (Self::Active(node), NodeCommand::ReviseVersion { publisher, version, change }) => {
                node.revise_version(&publisher, &version, change)
            }
        }
    }

    fn evolve(state: &mut Self, event: &NodeEvent, at: Timestamp) {
        match (&mut *state, event) {
            (Self::Unclaimed, NodeEvent::NodeCreated { id, publisher, fields }) => {
                *state = Self::Active(Box::new(NodeProfile {
                    id: id.clone(),
                    publisher: publisher.clone(),
                    fields: fields.clone(),
                    versions: Vec::new(),
                    created_at: at,
                    updated_at: at,
                }));
            }
            (Self::Active(node), event) => node.evolve(event, at),
            (Self::Unclaimed, _) => {}
        }
    }

    fn narrow(event: &Event) -> Option<&NodeEvent> {
        if let Event::Node(event) = event { Some(event) } else { None }
    }
}

impl NodeProfile {
    /// The name for people: the id when none was given (contract 4).
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.fields.name.as_ref().map(Text::as_str).filter(|name| !name.is_empty()).unwrap_or(self.id.as_str())
    }

    /// The version that `reference` names.
    #[must_use]
    pub fn version(&self, reference: &VersionRef) -> Option<&NodeVersion> {
        self.versions.iter().find(|version| reference.names(version))
    }

    fn publish(
        &self,
        publisher: &PublisherId,
        fields: NodeFields,
        version: VersionDraft,
    ) -> Result<Vec<NodeEvent>, NodeRejection> {
        if self.publisher != *publisher {
            return Err(NodeRejection::AlreadyExists { id: self.id.clone() });
        }
        if self.versions.iter().any(|existing| existing.number.same_precedence(&version.number)) {
            return Err(NodeRejection::VersionExists { number: version.number });
        }
        let mut revised = self.fields.clone();
        revised.apply(&fields);
        let revision = (revised != self.fields).then_some(NodeEvent::NodeRevised { change: fields });
        Ok(revision.into_iter().chain([NodeEvent::VersionPublished { version }]).collect())
    }

    fn revise_version(
        &self,
        publisher: &PublisherId,
        reference: &VersionRef,
        change: VersionFields,
    ) -> Result<Vec<NodeEvent>, NodeRejection> {
        let owned = self.publisher == *publisher;
        let version = self.version(reference).filter(|_| owned).ok_or(NodeRejection::NotFound)?;
        let mut revised = version.fields.clone();
        revised.apply(&change);
        let revision = (revised != version.fields).then_some(NodeEvent::VersionRevised { id: version.id, change });
        Ok(revision.into_iter().collect())
    }

    fn evolve(&mut self, event: &NodeEvent, at: Timestamp) {
        match event {
            NodeEvent::NodeCreated { .. } => return,
            NodeEvent::NodeRevised { change } => self.fields.apply(change),
            NodeEvent::VersionReleased { version } => {
                self.versions.push(NodeVersion::new(version, VersionStatus::Active, at));
            }
            NodeEvent::VersionPublished { version } => {
                self.versions.push(NodeVersion::new(version, VersionStatus::Pending, at));
            }
            NodeEvent::VersionRevised { id, change } => {
                let Some(version) = self.versions.iter_mut().find(|version| version.id == *id) else { return };
                version.fields.apply(change);
            }
        }
        self.updated_at = at;
    }
}

#[cfg(test)]
mod tests;
