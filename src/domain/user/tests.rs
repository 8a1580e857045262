//! Tests of the rules of users.

use uuid::Uuid;

use super::*;
use crate::domain::decider::testing::{RECORDED_AT, given};

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

fn all_fields() -> UserFields {
    UserFields {
        email: Some(sealed("b@example.org")),
        name: Some(sealed("Ann")),
        is_admin: Some(true),
        is_approved: Some(false),
    }
}

fn profile(history: &[UserEvent]) -> UserProfile {
    match given::<User>(history).state {
        User::Present(profile) => profile,
        User::Absent | User::Erased(_) => panic!("no user has the id"),
    }
}

fn illegal(from: &'static str, to: &'static str) -> UserRejection {
    UserRejection::IllegalTransition(Transition { subject: "user", from, to })
}

#[test]
fn an_account_is_opened_as_requested() {
    given::<User>([]).when(UserCommand::Create(new_user("a@example.org"))).then([created()]);
    let user = profile(&[created()]);
    assert_eq!(user, UserProfile::new(new_user("a@example.org"), RECORDED_AT));
    assert_eq!((user.created_at, user.ban_reason.as_ref(), user.status()), (RECORDED_AT, None, UserStatus::Active));
}

#[test]
fn an_id_is_used_only_once() {
    given::<User>([created()])
        .when(UserCommand::Create(new_user("b@example.org")))
        .then_rejected(UserRejection::AlreadyExists);
}

#[test]
fn an_unknown_user_is_not_found() {
    let commands = [
        UserCommand::Revise { change: all_fields() },
        UserCommand::Ban { reason: reason() },
        UserCommand::Unban { reason: reason() },
        UserCommand::Erase,
    ];
    for command in commands {
        given::<User>([]).when(command).then_rejected(UserRejection::NotFound);
    }
}

#[test]
fn an_erased_user_stays_erased() {
    for history in [vec![created()], vec![created(), banned()]] {
        given::<User>(&history).when(UserCommand::Erase).then([UserEvent::UserErased]);
        let erased = [&history[..], &[UserEvent::UserErased]].concat();
        let tombstone =
            User::Erased(Tombstone { id: new_user("").id, created_at: RECORDED_AT, erased_at: RECORDED_AT });
        assert_eq!(given::<User>(&erased).state, tombstone);
        given::<User>(&erased).when(UserCommand::Erase).then_nothing();

        let create = UserCommand::Create(new_user("b@example.org"));
        given::<User>(&erased).when(create).then_rejected(UserRejection::AlreadyExists);

        let commands = [
            UserCommand::Revise { change: all_fields() },
            UserCommand::Ban { reason: reason() },
            UserCommand::Unban { reason: reason() },
        ];
        for command in commands {
            given::<User>(&erased).when(command).then_rejected(UserRejection::Erased);
        }

        let with_later_events =
            [&erased[..], &[created(), UserEvent::UserRevised { change: all_fields() }, banned()]].concat();
        assert_eq!(given::<User>(&with_later_events).state, tombstone, "later events change nothing");
    }
}

#[test]
fn a_plain_field_of_an_old_log_is_sealed_by_its_next_revision() {
    let old_user = NewUser { email: Some(PersonalValue::Plain("a@example.org".into())), ..new_user("") };
    let change = UserFields { email: Some(sealed("a@example.org")), ..UserFields::default() };
    given::<User>([UserEvent::UserCreated(old_user)])
        .when(UserCommand::Revise { change: change.clone() })
        .then([UserEvent::UserRevised { change: change.clone() }]);
    given::<User>([created()]).when(UserCommand::Revise { change }).then_nothing();
}

#[test]
fn a_revision_changes_only_what_is_present_and_differs() {
    let revise = |history: &[UserEvent], change| given::<User>(history).when(UserCommand::Revise { change });
    let with_approval = |is_approved| UserFields { is_approved: Some(is_approved), ..UserFields::default() };
    revise(&[created()], with_approval(true)).then_nothing();
    revise(&[created()], UserFields::default()).then_nothing();
    let revised = UserEvent::UserRevised { change: with_approval(false) };
    revise(&[created()], with_approval(false)).then([revised.clone()]);
    assert_eq!(profile(&[created(), revised]), UserProfile { is_approved: false, ..profile(&[created()]) });
}

#[test]
fn every_field_can_be_revised() {
    given::<User>([created()])
        .when(UserCommand::Revise { change: all_fields() })
        .then([UserEvent::UserRevised { change: all_fields() }]);
    assert_eq!(profile(&[created(), UserEvent::UserRevised { change: all_fields() }]).fields(), all_fields());
}

#[test]
fn users_are_banned_and_unbanned() {
    let ban = UserCommand::Ban { reason: reason() };
    let unban = UserCommand::Unban { reason: reason() };
    let active_status = "UserStatusActive";
    let banned_status = "UserStatusBanned";

    given::<User>([created()]).when(ban.clone()).then([banned()]);
    given::<User>([created()]).when(unban.clone()).then_rejected(illegal(active_status, active_status));

    let history = [created(), banned()];
    given::<User>(&history).when(ban).then_rejected(illegal(banned_status, banned_status));
    given::<User>(&history).when(unban).then([unbanned()]);
    assert_eq!((profile(&history).ban_reason, profile(&history).status()), (Some(reason()), UserStatus::Banned));
    assert_eq!(profile(&[created(), banned(), unbanned()]), profile(&[created()]));
}

#[test]
fn events_that_do_not_fit_change_nothing() {
    let second_creation = UserEvent::UserCreated(new_user("b@example.org"));
    assert_eq!(profile(&[created(), second_creation]), profile(&[created()]));
    let events = [UserEvent::UserRevised { change: all_fields() }, banned(), unbanned()];
    assert_eq!(given::<User>(&events).state, User::Absent);
}

#[test]
fn webhook_secrets_are_rotated_and_revoked() {
    let rotated = |text| UserEvent::WebhookSecretRotated { secret: sealed(text) };
    let rotate = |text| UserCommand::RotateWebhookSecret { secret: sealed(text) };
    let revoke = |history: &[UserEvent]| given::<User>(history).when(UserCommand::RevokeWebhookSecrets);

    given::<User>([created()]).when(rotate("a")).then([rotated("a")]);
    revoke(&[created()]).then_nothing();
    revoke(&[created(), rotated("a")]).then([UserEvent::WebhookSecretsRevoked]);

    let mut history = vec![created()];
    history.extend(["a", "b", "c", "d", "e"].map(rotated));
    let rejected = given::<User>(&history).when(rotate("f")).rejection();
    assert!(matches!(rejected, UserRejection::TooManySecrets { .. }), "{rejected:?}");
    history.push(UserEvent::WebhookSecretsRevoked);
    given::<User>(&history).when(rotate("f")).then([rotated("f")]);

    for history in [vec![], vec![created(), UserEvent::UserErased]] {
        given::<User>(&history).when(rotate("a")).rejection();
        revoke(&history).rejection();
    }
}
