//! Every rule of publishers and their members.

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

fn revise(change: PublisherFields) -> PublisherCommand {
    PublisherCommand::Revise { change, facts: PublisherFacts::default() }
}

fn profile(history: &[PublisherEvent]) -> PublisherProfile {
    match state_after::<Publisher>(history) {
        Publisher::Present(profile) => profile,
        Publisher::Unclaimed | Publisher::Deleted => panic!("there is no publisher"),
    }
}

#[test]
fn a_free_id_is_claimed() {
    let command =
        PublisherCommand::Create { id: acme(), owner: OWNER, fields: full(), facts: PublisherFacts::default() };
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
    let command =
        PublisherCommand::Create { id: acme(), owner: OWNER, fields: full(), facts: PublisherFacts::default() };
    let answer = given_when::<Publisher>(&[created(OWNER, full())], command);
    assert_eq!(answer, Err(PublisherRejection::AlreadyExists));
}

#[test]
fn only_what_exists_is_revised() {
    let answer = given_when::<Publisher>(&[], revise(named("Acme")));
    assert_eq!(answer, Err(PublisherRejection::NotFound));
}

#[test]
fn a_revision_changes_only_what_is_present() {
    let history = [created(OWNER, named("Acme"))];
    let revised = PublisherEvent::PublisherRevised { change: described("Nodes") };
    let answer = given_when::<Publisher>(&history, revise(described("Nodes")));
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
        assert_eq!(given_when::<Publisher>(&history, revise(change)), Ok(vec![]));
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
