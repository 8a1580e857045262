//! Tests of the rules of users.

use super::*;
use crate::domain::decider::testing::{RECORDED_AT, given_when, state_after};
use uuid::Uuid;

fn sealed(text: &str) -> PersonalValue {
    PersonalValue::Sealed(text.as_bytes().into())
}

fn new_user(email: &str) -> NewUser {
    NewUser {
        id: UserId(Uuid::from_u128(1)),
        email: Some(sealed(email)),
        name: None,
        is_admin: false,
        is_approved: true,
    }
}

fn created() -> UserEvent {
    UserEvent::UserCreated(new_user("a@example.org"))
}

fn reason() -> Reason {
    Reason::parse("spam").unwrap()
}

fn banned() -> UserEvent {
    UserEvent::UserBanned { reason: reason() }
}

fn unbanned() -> UserEvent {
    UserEvent::UserUnbanned { reason: reason() }
}

fn full() -> UserFields {
    UserFields {
        email: Some(sealed("b@example.org")),
        name: Some(sealed("Ann")),
        is_admin: Some(true),
        is_approved: Some(false),
    }
}

fn profile(history: &[UserEvent]) -> UserProfile {
    match state_after::<User>(history) {
        User::Present(profile) => profile,
        User::Absent | User::Erased(_) => panic!("no user has the id"),
    }
}

fn illegal(from: &'static str, to: &'static str) -> Result<Vec<UserEvent>, UserRejection> {
    Err(UserRejection::IllegalTransition(Transition { subject: "user", from, to }))
}

#[test]
fn an_account_is_opened_as_requested() {
    let result = given_when::<User>(&[], UserCommand::Create(new_user("a@example.org")));
    assert_eq!(result, Ok(vec![created()]));
    let user = profile(&[created()]);
    assert_eq!(user, UserProfile::new(new_user("a@example.org"), RECORDED_AT));
    assert_eq!((user.created_at, user.ban_reason.as_ref(), user.status()), (RECORDED_AT, None, UserStatus::Active));
}

#[test]
fn an_id_is_used_only_once() {
    let result = given_when::<User>(&[created()], UserCommand::Create(new_user("b@example.org")));
    assert_eq!(result, Err(UserRejection::AlreadyExists));
}

#[test]
fn an_unknown_user_is_not_found() {
    let commands = [
        UserCommand::Revise { change: full() },
        UserCommand::Ban { reason: reason() },
        UserCommand::Unban { reason: reason() },
        UserCommand::Erase,
    ];
    for command in commands {
        assert_eq!(given_when::<User>(&[], command), Err(UserRejection::NotFound));
    }
}

#[test]
fn an_erased_user_stays_erased() {
    for history in [vec![created()], vec![created(), banned()]] {
        assert_eq!(given_when::<User>(&history, UserCommand::Erase), Ok(vec![UserEvent::UserErased]));
        let erased = [&history[..], &[UserEvent::UserErased]].concat();
        let tombstone =
            User::Erased(Tombstone { id: new_user("").id, created_at: RECORDED_AT, erased_at: RECORDED_AT });
        assert_eq!(state_after::<User>(&erased), tombstone);
        assert_eq!(given_when::<User>(&erased, UserCommand::Erase), Ok(vec![]), "a repeated erasure is accepted");

        let create = UserCommand::Create(new_user("b@example.org"));
        assert_eq!(given_when::<User>(&erased, create), Err(UserRejection::AlreadyExists));

        let commands = [
            UserCommand::Revise { change: full() },
            UserCommand::Ban { reason: reason() },
            UserCommand::Unban { reason: reason() },
        ];
        for command in commands {
            assert_eq!(given_when::<User>(&erased, command), Err(UserRejection::Erased));
        }

        let with_later_events =
            [&erased[..], &[created(), UserEvent::UserRevised { change: full() }, banned()]].concat();
        assert_eq!(state_after::<User>(&with_later_events), tombstone, "later events change nothing");
    }
}

#[test]
fn a_plain_field_of_an_old_log_is_sealed_by_its_next_revision() {
    let old_user = NewUser { email: Some(PersonalValue::Plain("a@example.org".into())), ..new_user("") };
    let change = UserFields { email: Some(sealed("a@example.org")), ..UserFields::default() };
    let result =
        given_when::<User>(&[UserEvent::UserCreated(old_user)], UserCommand::Revise { change: change.clone() });
    assert_eq!(result, Ok(vec![UserEvent::UserRevised { change: change.clone() }]));
    assert_eq!(given_when::<User>(&[created()], UserCommand::Revise { change }), Ok(vec![]));
}

#[test]
fn a_revision_changes_only_what_is_present_and_differs() {
    let revise = |history: &[UserEvent], change| given_when::<User>(history, UserCommand::Revise { change });
    let with_approval = |is_approved| UserFields { is_approved: Some(is_approved), ..UserFields::default() };
    assert_eq!(revise(&[created()], with_approval(true)), Ok(vec![]));
    assert_eq!(revise(&[created()], UserFields::default()), Ok(vec![]));
    let revised = UserEvent::UserRevised { change: with_approval(false) };
    assert_eq!(revise(&[created()], with_approval(false)), Ok(vec![revised.clone()]));
    assert_eq!(profile(&[created(), revised]), UserProfile { is_approved: false, ..profile(&[created()]) });
}

#[test]
fn every_field_can_be_revised() {
    let result = given_when::<User>(&[created()], UserCommand::Revise { change: full() });
    assert_eq!(result, Ok(vec![UserEvent::UserRevised { change: full() }]));
    assert_eq!(profile(&[created(), UserEvent::UserRevised { change: full() }]).fields(), full());
}

#[test]
fn users_are_banned_and_unbanned() {
    let ban = UserCommand::Ban { reason: reason() };
    let unban = UserCommand::Unban { reason: reason() };
    let active_status = "UserStatusActive";
    let banned_status = "UserStatusBanned";

    assert_eq!(given_when::<User>(&[created()], ban.clone()), Ok(vec![banned()]));
    assert_eq!(given_when::<User>(&[created()], unban.clone()), illegal(active_status, active_status));

    let history = [created(), banned()];
    assert_eq!(given_when::<User>(&history, ban), illegal(banned_status, banned_status));
    assert_eq!(given_when::<User>(&history, unban), Ok(vec![unbanned()]));
    assert_eq!((profile(&history).ban_reason, profile(&history).status()), (Some(reason()), UserStatus::Banned));
    assert_eq!(profile(&[created(), banned(), unbanned()]), profile(&[created()]));
}

#[test]
fn events_that_do_not_fit_change_nothing() {
    let second_creation = UserEvent::UserCreated(new_user("b@example.org"));
    assert_eq!(profile(&[created(), second_creation]), profile(&[created()]));
    let events = [UserEvent::UserRevised { change: full() }, banned(), unbanned()];
    assert_eq!(state_after::<User>(&events), User::Absent);
}

#[test]
fn only_events_of_the_aggregate_are_downcast() {
    let event = Event::from(created());
    assert_eq!((User::downcast(&event), event.name()), (Some(&created()), "UserCreated"));
    assert_eq!(crate::domain::token::Token::downcast(&event), None);
}

#[test]
fn webhook_secrets_are_rotated_and_revoked() {
    let rotated = |text| UserEvent::WebhookSecretRotated { secret: sealed(text) };
    let rotate = |text| UserCommand::RotateWebhookSecret { secret: sealed(text) };
    let revoke = |history: &[UserEvent]| given_when::<User>(history, UserCommand::RevokeWebhookSecrets);

    assert_eq!(given_when::<User>(&[created()], rotate("a")), Ok(vec![rotated("a")]));
    assert_eq!(revoke(&[created()]), Ok(Vec::new()));
    assert_eq!(revoke(&[created(), rotated("a")]), Ok(vec![UserEvent::WebhookSecretsRevoked]));

    let mut history = vec![created()];
    history.extend(["a", "b", "c", "d", "e"].map(rotated));
    let rejected = given_when::<User>(&history, rotate("f"));
    assert!(matches!(rejected, Err(UserRejection::TooManySecrets { .. })), "{rejected:?}");
    history.push(UserEvent::WebhookSecretsRevoked);
    assert_eq!(given_when::<User>(&history, rotate("f")), Ok(vec![rotated("f")]));

    for history in [vec![], vec![created(), UserEvent::UserErased]] {
        assert!(given_when::<User>(&history, rotate("a")).is_err());
        assert!(revoke(&history).is_err());
    }
}
