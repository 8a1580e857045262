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
        match (&mut *state, event) {
            (Self::Unclaimed, PublisherEvent::PublisherCreated { id, owner, fields }) => {
                *state = Self::Active(PublisherProfile {
                    id: id.clone(),
                    fields: fields.clone(),
                    members: vec![(*owner, MemberRole::Owner)],
                    created_at: at,
                });
            }
            (Self::Active(profile), PublisherEvent::PublisherRevised { change }) => profile.fields.apply(change),
            (Self::Active(_), PublisherEvent::PublisherCreated { .. })
            | (Self::Unclaimed, PublisherEvent::PublisherRevised { .. }) => {}
        }
    }

    fn narrow(event: &Event) -> Option<&PublisherEvent> {
        if let Event::Publisher(event) = event { Some(event) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::decider::testing::{THEN, given_when, state_after};
    use uuid::Uuid;

    const OWNER: UserId = UserId(Uuid::from_u128(1));

    fn acme() -> PublisherId {
        PublisherId::parse("acme").unwrap()
    }

    fn named(name: &str) -> PublisherFields {
        PublisherFields { name: Some(Name::parse(name).unwrap()), ..PublisherFields::default() }
    }

    fn described(description: &str) -> PublisherFields {
        let description = Some(PublisherDescription::parse(description).unwrap());
        PublisherFields { description, ..PublisherFields::default() }
    }

    fn full() -> PublisherFields {
        PublisherFields {
            name: Some(Name::parse("Acme").unwrap()),
            description: Some(PublisherDescription::parse("Nodes").unwrap()),
            logo: Some(Link::parse("https://acme.example/logo.png").unwrap()),
            source_code_repo: Some(Link::parse("https://acme.example/code").unwrap()),
            support: Some(Label::parse("help@acme.example").unwrap()),
            website: Some(Link::parse("https://acme.example").unwrap()),
        }
    }

    fn created(owner: UserId, fields: PublisherFields) -> PublisherEvent {
        PublisherEvent::PublisherCreated { id: acme(), owner, fields }
    }

    fn profile(history: &[PublisherEvent]) -> PublisherProfile {
        match state_after::<Publisher>(history) {
            Publisher::Active(profile) => profile,
            Publisher::Unclaimed => panic!("the id is unclaimed"),
        }
    }

    #[test]
    fn a_free_id_is_claimed() {
        let command = PublisherCommand::Create { id: acme(), owner: OWNER, fields: full() };
        assert_eq!(given_when::<Publisher>(&[], command), Ok(vec![created(OWNER, full())]));
    }

    #[test]
    fn the_creator_is_the_only_owner() {
        let profile = profile(&[created(OWNER, full())]);
        let stranger = UserId(Uuid::from_u128(2));
        assert_eq!((profile.id.clone(), profile.created_at), (acme(), THEN));
        assert_eq!((profile.role_of(OWNER), profile.role_of(stranger)), (Some(MemberRole::Owner), None));
    }

    #[test]
    fn an_id_is_given_once() {
        let command = PublisherCommand::Create { id: acme(), owner: OWNER, fields: full() };
        let answer = given_when::<Publisher>(&[created(OWNER, full())], command);
        assert_eq!(answer, Err(PublisherRejection::AlreadyExists));
    }

    #[test]
    fn only_what_exists_is_revised() {
        let answer = given_when::<Publisher>(&[], PublisherCommand::Revise { change: named("Acme") });
        assert_eq!(answer, Err(PublisherRejection::NotFound));
    }

    #[test]
    fn a_revision_changes_only_what_is_present() {
        let history = [created(OWNER, named("Acme"))];
        let revised = PublisherEvent::PublisherRevised { change: described("Nodes") };
        let answer = given_when::<Publisher>(&history, PublisherCommand::Revise { change: described("Nodes") });
        assert_eq!(answer, Ok(vec![revised.clone()]));
        let [created] = history;
        let expected = PublisherFields { name: named("Acme").name, ..described("Nodes") };
        assert_eq!(profile(&[created, revised]).fields, expected);
    }

    #[test]
    fn every_field_can_be_revised() {
        let revised = PublisherEvent::PublisherRevised { change: full() };
        assert_eq!(profile(&[created(OWNER, PublisherFields::default()), revised]).fields, full());
    }

    #[test]
    fn a_revision_without_a_difference_records_nothing() {
        let history = [created(OWNER, full())];
        for change in [full(), named("Acme"), PublisherFields::default()] {
            assert_eq!(given_when::<Publisher>(&history, PublisherCommand::Revise { change }), Ok(vec![]));
        }
    }

    #[test]
    fn events_that_do_not_fit_change_nothing() {
        let revised = PublisherEvent::PublisherRevised { change: full() };
        assert_eq!(state_after::<Publisher>(&[revised]), Publisher::Unclaimed);
        let usurped = created(UserId(Uuid::from_u128(2)), full());
        let first = created(OWNER, named("Acme"));
        assert_eq!(profile(&[first.clone(), usurped]), profile(&[first]));
    }

    #[test]
    fn events_are_told_apart_from_those_of_other_kinds() {
        let event = Event::from(created(OWNER, full()));
        assert_eq!(event.name(), "PublisherCreated");
        assert!(Publisher::narrow(&event).is_some());
        assert!(crate::domain::user::User::narrow(&event).is_none());
    }
}
