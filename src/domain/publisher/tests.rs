//! Tests of the rules of publishers and their members.

use uuid::Uuid;

use super::*;
use crate::domain::decider::testing::{RECORDED_AT, given};
use crate::domain::value::CallbackUrl;
use crate::domain::webhook::EventSelection;

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
        source_code_repo: Some(Text::parse("https://acme.example/code").unwrap()),
        support: Some(Text::parse("help@acme.example").unwrap()),
        website: Some(Text::parse("https://acme.example").unwrap()),
    }
}

fn created(owner: UserId, fields: PublisherFields) -> PublisherEvent {
    PublisherEvent::PublisherCreated { id: acme(), owner, fields }
}

fn create(fields: PublisherFields) -> PublisherCommand {
    PublisherCommand::Create { id: acme(), owner: OWNER, fields, admin_fields: PublisherAdminFields::default() }
}

fn revise(change: PublisherFields) -> PublisherCommand {
    PublisherCommand::Revise { change, admin_fields: PublisherAdminFields::default() }
}

fn profile(history: &[PublisherEvent]) -> PublisherProfile {
    match given::<Publisher>(history).state {
        Publisher::Present(profile) => profile,
        Publisher::Unclaimed | Publisher::Deleted => panic!("there is no publisher"),
    }
}

#[test]
fn a_free_id_is_claimed() {
    given::<Publisher>([]).when(create(full())).then([created(OWNER, full())]);
}

#[test]
fn the_creator_is_the_only_owner() {
    let profile = profile(&[created(OWNER, full())]);
    let other_user = UserId(Uuid::from_u128(2));
    assert_eq!((profile.id.clone(), profile.created_at), (acme(), RECORDED_AT));
    assert_eq!((profile.role_of(OWNER), profile.role_of(other_user)), (Some(MemberRole::Owner), None));
}

#[test]
fn an_id_is_used_only_once() {
    let history = [created(OWNER, full())];
    given::<Publisher>(history).when(create(full())).then_rejected(PublisherRejection::AlreadyExists);
}

#[test]
fn an_unknown_publisher_cannot_be_revised() {
    given::<Publisher>([]).when(revise(named("Acme"))).then_rejected(PublisherRejection::NotFound);
}

#[test]
fn a_revision_changes_only_what_is_present() {
    let history = [created(OWNER, named("Acme"))];
    let revised = PublisherEvent::PublisherRevised { change: described("Nodes") };
    given::<Publisher>(&history).when(revise(described("Nodes"))).then([revised.clone()]);
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
        given::<Publisher>(&history).when(revise(change)).then_nothing();
    }
}

#[test]
fn events_that_do_not_fit_change_nothing() {
    let revised = PublisherEvent::PublisherRevised { change: full() };
    assert_eq!(given::<Publisher>([revised]).state, Publisher::Unclaimed);
    let second_creation = created(UserId(Uuid::from_u128(2)), full());
    let first = created(OWNER, named("Acme"));
    assert_eq!(profile(&[first.clone(), second_creation]), profile(&[first]));
}

fn member(nth: u128) -> UserId {
    UserId(Uuid::from_u128(nth))
}

fn added(nth: u128, role: MemberRole) -> PublisherEvent {
    PublisherEvent::MemberAdded { user: member(nth), role }
}

fn reason() -> Reason {
    Reason::parse("spam").unwrap()
}

fn banned() -> PublisherEvent {
    PublisherEvent::PublisherBanned { reason: reason() }
}

fn unbanned() -> PublisherEvent {
    PublisherEvent::PublisherUnbanned { reason: reason() }
}

fn set(nth: u128, role: MemberRole) -> PublisherCommand {
    PublisherCommand::SetMember { user: member(nth), role }
}

fn remove(nth: u128) -> PublisherCommand {
    PublisherCommand::RemoveMember { user: member(nth) }
}

#[test]
fn members_are_added_changed_and_removed() {
    use MemberRole::{Member, Owner};
    let created_event = created(OWNER, full());
    let history = [created_event.clone(), added(2, Member)];
    let changed = PublisherEvent::MemberRoleChanged { user: member(2), role: Owner };
    let removed = PublisherEvent::MemberRemoved { user: member(2) };

    given::<Publisher>(&history[..1]).when(set(2, Member)).then([added(2, Member)]);
    given::<Publisher>(&history).when(set(2, Member)).then_nothing();
    given::<Publisher>(&history).when(set(2, Owner)).then([changed.clone()]);
    given::<Publisher>(&history).when(remove(2)).then([removed.clone()]);
    given::<Publisher>(&history).when(remove(3)).then_rejected(PublisherRejection::MemberNotFound);

    let members = |last: &[PublisherEvent]| profile(&[&history[..], last].concat()).members;
    assert_eq!(members(&[]), [(OWNER, Owner), (member(2), Member)]);
    assert_eq!(members(&[changed]), [(OWNER, Owner), (member(2), Owner)]);
    assert_eq!(members(&[removed]), [(OWNER, Owner)]);
}

#[test]
fn the_last_owner_cannot_leave_or_lose_the_role() {
    use MemberRole::{Member, Owner};
    let history = [created(OWNER, full()), added(2, Member)];
    for command in [set(1, Member), remove(1)] {
        given::<Publisher>(&history).when(command).then_rejected(PublisherRejection::LastOwner);
    }
    given::<Publisher>(&history).when(set(1, Owner)).then_nothing();

    let two_owners = [&history[..], &[added(3, Owner)]].concat();
    for command in [set(1, Member), remove(1), set(3, Member), remove(3)] {
        assert_eq!(given::<Publisher>(&two_owners).when(command).events().len(), 1);
    }
}

#[test]
fn a_publisher_is_active_banned_or_deleted() {
    let ban = PublisherCommand::Ban { reason: reason() };
    let unban = PublisherCommand::Unban { reason: reason() };
    let active_status = "PublisherStatusActive";
    let banned_status = "PublisherStatusBanned";
    let illegal = |from, to| PublisherRejection::IllegalTransition(Transition { subject: "publisher", from, to });

    let history = [created(OWNER, full()), banned(), unbanned()];
    for active_history in [&history[..1], &history] {
        given::<Publisher>(active_history).when(ban.clone()).then([banned()]);
        given::<Publisher>(active_history).when(unban.clone()).then_rejected(illegal(active_status, active_status));
        given::<Publisher>(active_history).when(PublisherCommand::Delete).then([PublisherEvent::PublisherDeleted]);
    }

    let banned_history = &history[..2];
    given::<Publisher>(banned_history).when(ban).then_rejected(illegal(banned_status, banned_status));
    given::<Publisher>(banned_history).when(unban).then([unbanned()]);
    given::<Publisher>(banned_history)
        .when(PublisherCommand::Delete)
        .then_rejected(illegal(banned_status, "PublisherStatusDeleted"));
    assert_eq!(
        (profile(banned_history).status, profile(banned_history).ban_reason),
        (PublisherStatus::Banned, Some(reason()))
    );

    assert_eq!(profile(&history), profile(&history[..1]));
}

#[test]
fn a_deleted_publisher_is_not_found_and_its_id_stays_taken() {
    let history = [created(OWNER, full()), PublisherEvent::PublisherDeleted];
    assert_eq!(given::<Publisher>(&history).state, Publisher::Deleted);

    given::<Publisher>(&history).when(create(full())).then_rejected(PublisherRejection::AlreadyExists);

    let commands = [
        revise(full()),
        set(2, MemberRole::Member),
        remove(1),
        PublisherCommand::Ban { reason: reason() },
        PublisherCommand::Unban { reason: reason() },
        PublisherCommand::Delete,
    ];
    for command in commands {
        for history in [&history[..], &[]] {
            given::<Publisher>(history).when(command.clone()).then_rejected(PublisherRejection::NotFound);
        }
    }

    let with_later_events = [&history[..], &[created(OWNER, full()), banned()]].concat();
    assert_eq!(given::<Publisher>(&with_later_events).state, Publisher::Deleted);
}

#[test]
fn administrators_set_the_creation_time() {
    let admin_fields = PublisherAdminFields { created_at: Some(Timestamp::from_micros(5)) };
    let administered = PublisherEvent::PublisherAdministered { admin_fields: admin_fields.clone() };
    let create = PublisherCommand::Create {
        id: acme(),
        owner: OWNER,
        fields: named("Acme"),
        admin_fields: admin_fields.clone(),
    };

    let history = [created(OWNER, named("Acme")), administered.clone()];
    given::<Publisher>([]).when(create).then(&history);
    assert_eq!(profile(&history).created_at, Timestamp::from_micros(5));

    let revise_again = PublisherCommand::Revise { change: PublisherFields::default(), admin_fields };
    given::<Publisher>(&history[..1]).when(revise_again.clone()).then([administered]);
    given::<Publisher>(&history).when(revise_again).then_nothing();
}

#[test]
fn a_revision_records_only_what_differs() {
    let fields = PublisherFields { name: named("Acme").name, ..described("Nodes") };
    given::<Publisher>([created(OWNER, named("Acme"))])
        .when(revise(fields))
        .then([PublisherEvent::PublisherRevised { change: described("Nodes") }]);
}

/// Returns the longest text of the field, in four-byte characters.
fn longest_text<const MAX: usize, const MULTILINE: bool>() -> Text<MAX, MULTILINE> {
    Text::parse("𝒳".repeat(MAX)).unwrap()
}

#[test]
fn the_largest_publisher_is_recorded_whole() {
    let logo = Link::parse(&format!("https://acme.example/{}", "x".repeat(2000))).unwrap();
    let fields = PublisherFields {
        name: Some(longest_text()),
        description: Some(longest_text()),
        logo: Some(logo),
        source_code_repo: Some(longest_text()),
        support: Some(longest_text()),
        website: Some(longest_text()),
    };

    let events = given::<Publisher>([]).when(create(fields.clone())).events();
    assert_eq!(profile(&events).fields, fields);

    let revised = given::<Publisher>([created(OWNER, PublisherFields::default())]).when(revise(fields)).events();
    assert!(!revised.is_empty() && events.len() == revised.len());
}

fn webhook_id(nth: u128) -> WebhookId {
    WebhookId(Uuid::from_u128(nth))
}

fn draft(nth: u128) -> WebhookDraft {
    let url = CallbackUrl::parse("https://acme.example/hook").unwrap();
    WebhookDraft { id: webhook_id(nth), url, events: EventSelection::all(), is_enabled: true, account: OWNER }
}

fn with_webhooks(count: u128) -> Vec<PublisherEvent> {
    let webhooks = (1..=count).map(|nth| PublisherEvent::WebhookCreated(draft(nth)));
    std::iter::once(created(OWNER, full())).chain(webhooks).collect()
}

#[test]
fn a_publisher_has_at_most_five_webhooks() {
    let create = |nth| PublisherCommand::CreateWebhook(draft(nth));
    given::<Publisher>(with_webhooks(4)).when(create(5)).then([PublisherEvent::WebhookCreated(draft(5))]);
    given::<Publisher>(with_webhooks(5)).when(create(6)).then_rejected(PublisherRejection::TooManyWebhooks);
}

#[test]
fn a_webhook_is_revised_tested_and_removed() {
    let webhook = webhook_id(1);
    let disabled = WebhookChange { is_enabled: Some(false), ..WebhookChange::default() };
    let revise = || PublisherCommand::ReviseWebhook { webhook, change: disabled.clone() };
    let revised = PublisherEvent::WebhookRevised { webhook, change: disabled.clone() };
    let test = || PublisherCommand::TestWebhook { webhook };

    let history = with_webhooks(1);
    given::<Publisher>(&history).when(revise()).then([revised.clone()]);
    given::<Publisher>(&history).when(test()).then([PublisherEvent::WebhookTested { webhook }]);

    let history = [history, vec![revised]].concat();
    assert!(!profile(&history).webhook(webhook).unwrap().is_enabled);
    given::<Publisher>(&history).when(revise()).then_nothing();
    given::<Publisher>(&history).when(test()).then_rejected(PublisherRejection::WebhookDisabled);

    let removed = PublisherEvent::WebhookRemoved { webhook };
    let remove = PublisherCommand::RemoveWebhook { webhook };
    given::<Publisher>(&history).when(remove).then([removed.clone()]);
    let history = [history, vec![removed]].concat();
    for command in [revise(), test(), PublisherCommand::RemoveWebhook { webhook }] {
        given::<Publisher>(&history).when(command).then_rejected(PublisherRejection::WebhookNotFound);
    }
}

#[test]
fn the_account_of_a_webhook_is_the_one_that_sets_its_url() {
    let webhook = webhook_id(1);
    let history = with_webhooks(1);
    let other = UserId(Uuid::from_u128(77));
    let change = |url: &str| WebhookChange {
        url: Some(CallbackUrl::parse(url).unwrap()),
        account: Some(other),
        ..WebhookChange::default()
    };
    let revise = |change: &WebhookChange| PublisherCommand::ReviseWebhook { webhook, change: change.clone() };

    given::<Publisher>(&history).when(revise(&change("https://acme.example/hook"))).then_nothing();
    let moved = change("https://acme.example/other");
    let revised = PublisherEvent::WebhookRevised { webhook, change: moved.clone() };
    given::<Publisher>(&history).when(revise(&moved)).then([revised.clone()]);
    assert_eq!(profile(&[history, vec![revised]].concat()).webhook(webhook).unwrap().account, other);
}

#[test]
fn a_selection_of_events_is_ordered_without_duplicates() {
    use crate::domain::webhook::RegistryEventKind::{NodeBanned, VersionPublished};
    let selection = EventSelection::new(&[NodeBanned, VersionPublished, NodeBanned]).unwrap();
    assert_eq!(selection.kinds(), [VersionPublished, NodeBanned]);
    assert!(EventSelection::new(&[]).is_err());
}
