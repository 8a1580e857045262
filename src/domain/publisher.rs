//! Publishers: the owners of nodes, and their members.

use super::decider::Decider;
use super::event::{Event, part_of_event};
use super::ids::{PublisherId, StreamKind, UserId};
use super::value::{Label, Link, Name, Text, Timestamp, named_values};

named_values! {
    /// What a member may do: an owner everything, a member create and update nodes and versions (contract 3).
    MemberRole { Owner = "owner", Member = "member" }
}

/// A publisher's description (contract 4).
pub type PublisherDescription = Text<10_000>;

/// The descriptive fields; in a command and an event only those that are present change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PublisherFields {
    pub name: Option<Name>,
    pub description: Option<PublisherDescription>,
    pub logo: Option<Link>,
    pub source_code_repo: Option<Link>,
    pub support: Option<Label>,
    pub website: Option<Link>,
}

impl PublisherFields {
    /// Takes over every field that `change` carries.
    pub fn apply(&mut self, change: &Self) {
        take(&mut self.name, change.name.as_ref());
        take(&mut self.description, change.description.as_ref());
        take(&mut self.logo, change.logo.as_ref());
        take(&mut self.source_code_repo, change.source_code_repo.as_ref());
        take(&mut self.support, change.support.as_ref());
        take(&mut self.website, change.website.as_ref());
    }
}

/// Replaces a value when a new one is given.
pub(super) fn take<T: Clone>(current: &mut Option<T>, change: Option<&T>) {
    if let Some(value) = change {
        *current = Some(value.clone());
    }
}

/// Why a command on a publisher was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublisherRejection {
    /// The id is taken.
    AlreadyExists,
    /// No publisher has this id.
    NotFound,
}

/// A publisher that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublisherProfile {
    pub id: PublisherId,
    pub fields: PublisherFields,
    /// Who belongs to it, in the order of joining.
    pub members: Vec<(UserId, MemberRole)>,
    pub created_at: Timestamp,
}

impl PublisherProfile {
    /// The role of a user, if it has one.
    #[must_use]
    pub fn role_of(&self, user: UserId) -> Option<MemberRole> {
        self.members.iter().find(|(member, _)| *member == user).map(|(_, role)| *role)
    }
}

/// A publisher's life.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Publisher {
    /// The id is free.
    #[default]
    Unclaimed,
    /// The publisher exists.
    Active(PublisherProfile),
}

/// What happened to a publisher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublisherEvent {
    /// The id was claimed; the creator became owner.
    PublisherCreated { id: PublisherId, owner: UserId, fields: PublisherFields },
    /// Some descriptive fields changed.
    PublisherRevised { change: PublisherFields },
}

part_of_event!(PublisherEvent as Publisher { PublisherCreated, PublisherRevised });

/// What can be asked of a publisher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublisherCommand {
    /// Claims the id.
    Create { id: PublisherId, owner: UserId, fields: PublisherFields },
    /// Changes the fields that are present.
    Revise { change: PublisherFields },
}

impl Decider for Publisher {
    const KIND: StreamKind = StreamKind::Publisher;
    type State = Self;
    type Command = PublisherCommand;
    type Event = PublisherEvent;
    type Rejection = PublisherRejection;

    fn decide(
        state: &Self,
        command: PublisherCommand,
        _now: Timestamp,
    ) -> Result<Vec<PublisherEvent>, PublisherRejection> {
        match (state, command) {
            (Self::Unclaimed, PublisherCommand::Create { id, owner, fields }) => {
                Ok(vec![PublisherEvent::PublisherCreated { id, owner, fields }])
            }
            (Self::Active(_), PublisherCommand::Create { .. }) => Err(PublisherRejection::AlreadyExists),
            (Self::Unclaimed, PublisherCommand::Revise { .. }) => Err(PublisherRejection::NotFound),
            (Self::Active(profile), PublisherCommand::Revise { change }) => {
                let mut revised = profile.fields.clone();
                revised.apply(&change);
                let changes = revised != profile.fields;
                Ok(changes.then_some(PublisherEvent::PublisherRevised { change }).into_iter().collect())
            }
        }
    }

    fn evolve(state: &mut Self, event: &PublisherEvent, at: Timestamp) {
        match (state, event) {
            (state, PublisherEvent::PublisherCreated { id, owner, fields }) => {
                *state = Self::Active(PublisherProfile {
                    id: id.clone(),
                    fields: fields.clone(),
                    members: vec![(*owner, MemberRole::Owner)],
                    created_at: at,
                });
            }
            (Self::Active(profile), PublisherEvent::PublisherRevised { change }) => profile.fields.apply(change),
            (Self::Unclaimed, PublisherEvent::PublisherRevised { .. }) => {}
        }
    }

    fn narrow(event: &Event) -> Option<&PublisherEvent> {
        if let Event::Publisher(event) = event { Some(event) } else { None }
    }
}
