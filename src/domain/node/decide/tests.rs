//! Tests of the states of nodes and versions and of administrators' commands.

use super::super::{LocalizedTexts, Node, Rating};
use super::*;
use crate::domain::decider::testing::{given_when, state_after};
use crate::domain::ids::NodeId;
use crate::domain::value::{Digest, Labels, Text, Timestamp};
use crate::domain::version::SemVer;
use uuid::Uuid;

const ARCHIVE: Archive = Archive { digest: Digest([7; 32]), bytes: 100 };

fn acme() -> PublisherId {
    PublisherId::parse("acme").unwrap()
}

fn text<const MAX: usize, const MULTILINE: bool>(text: &str) -> Text<MAX, MULTILINE> {
    Text::parse(text).unwrap()
}

fn named(name: &str) -> NodeFields {
    NodeFields { name: Some(text(name)), ..NodeFields::default() }
}

fn created() -> NodeEvent {
    NodeEvent::NodeCreated { id: NodeId::parse("tools").unwrap(), publisher: acme(), fields: named("Tools") }
}

fn version_id(nth: u128) -> VersionId {
    VersionId(Uuid::from_u128(nth))
}

fn draft(nth: u128, number: &str) -> VersionDraft {
    let number = SemVer::parse(number).unwrap();
    VersionDraft { id: version_id(nth), number, fields: VersionFields::default() }
}

fn banned() -> NodeEvent {
    NodeEvent::NodeBanned { reason: text("malware") }
}

fn unbanned() -> NodeEvent {
    NodeEvent::NodeUnbanned { reason: text("cleaned") }
}

fn status_changed(status: VersionStatus, reason: Option<&str>) -> NodeEvent {
    NodeEvent::VersionStatusChanged { id: version_id(1), status, reason: reason.map(text) }
}

fn stored() -> NodeEvent {
    NodeEvent::ArchiveStored { version: version_id(1), archive: ARCHIVE }
}

fn user(nth: u128) -> UserId {
    UserId(Uuid::from_u128(nth))
}

fn stars(n: i64) -> Stars {
    Stars::new(n).unwrap()
}

fn profile(history: &[NodeEvent]) -> NodeProfile {
    match state_after::<Node>(history) {
        Node::Present(profile) => *profile,
        Node::Unclaimed => panic!("the id is unclaimed"),
    }
}

/// Returns a history with one version, 1.0.0, in the given status.
fn with_version(status: VersionStatus) -> Vec<NodeEvent> {
    let mut history = vec![created(), NodeEvent::VersionPublished { version: draft(1, "1.0.0") }];
    if status == VersionStatus::Banned || status == VersionStatus::Flagged {
        history.push(status_changed(VersionStatus::Active, None));
    }
    if status != VersionStatus::Pending {
        history.push(status_changed(status, Some("because")));
    }
    assert_eq!(profile(&history).versions[0].status, status);
    history
}

fn illegal_node(from: NodeStatus, to: NodeStatus) -> NodeDecision {
    Err(illegal_transition("node", from.as_str(), to.as_str()))
}

fn version_ref(text: &str) -> VersionRef {
    VersionRef::parse(text).unwrap()
}

fn set_status(publisher: Option<&str>, status: VersionStatus, reason: Option<&str>) -> NodeCommand {
    let publisher = publisher.map(|id| PublisherId::parse(id).unwrap());
    NodeCommand::SetVersionStatus { publisher, version: version_ref("1.0.0"), status, reason: reason.map(text) }
}

fn store(hold: bool) -> NodeCommand {
    NodeCommand::StoreArchive { version: version_id(1), archive: ARCHIVE, hold }
}

fn administer(change: NodeFields, admin_fields: NodeAdminFields, status: Option<NodeStatus>) -> NodeCommand {
    NodeCommand::Administer { change, admin_fields, status }
}

fn detail(detail: &str) -> NodeAdminFields {
    NodeAdminFields { status_detail: Some(text(detail)), ..NodeAdminFields::default() }
}

/// Returns every command except creations, with a publisher where possible.
fn every_command() -> Vec<NodeCommand> {
    let change = VersionFields { deprecated: Some(true), ..VersionFields::default() };
    let admin_fields = VersionAdminFields::default();
    let translations = translations(&[("de", "Werkzeug")]);
    vec![
        NodeCommand::Revise { publisher: acme(), change: named("New"), admin_fields: NodeAdminFields::default() },
        NodeCommand::Publish {
            id: NodeId::parse("tools").unwrap(),
            publisher: acme(),
            fields: NodeFields::default(),
            version: draft(2, "2.0.0"),
        },
        NodeCommand::ReviseVersion { publisher: acme(), version: version_ref("1.0.0"), change, admin_fields },
        set_status(Some("acme"), VersionStatus::Deleted, None),
        store(false),
        NodeCommand::Delete { publisher: Some(acme()) },
        NodeCommand::Review { user: user(1), stars: stars(5) },
        NodeCommand::Translate { publisher: Some(acme()), translations: translations.clone() },
        NodeCommand::Translate { publisher: None, translations },
        // A ban stops all commands above this line.
        NodeCommand::CountDownloads { count: 3 },
        set_status(None, VersionStatus::Deleted, None),
        administer(named("New"), NodeAdminFields::default(), None),
        administer_version(VersionFields::default(), VersionAdminFields::default(), Some(VersionStatus::Deleted), None),
        NodeCommand::Unban { reason: text("cleaned") },
    ]
}

const STOPPED_BY_BAN: usize = 9;

fn administer_version(
    change: VersionFields,
    admin_fields: VersionAdminFields,
    status: Option<VersionStatus>,
    reason: Option<&str>,
) -> NodeCommand {
    NodeCommand::AdministerVersion {
        version: version_ref("1.0.0"),
        change,
        admin_fields,
        status,
        reason: reason.map(text),
    }
}

fn translations(languages: &[(&str, &str)]) -> Translations {
    languages.iter().map(|(language, name)| (text(language), texts(name))).collect()
}

/// Returns a translated name; no texts if `name` is empty.
fn texts(name: &str) -> LocalizedTexts {
    if name.is_empty() { LocalizedTexts::new() } else { [(text::<200, true>("name"), text(name))].into() }
}

#[test]
fn a_node_is_active_banned_or_deleted() {
    use NodeStatus::{Active, Banned, Deleted};
    let ban = NodeCommand::Ban { reason: text("malware") };
    let unban = NodeCommand::Unban { reason: text("cleaned") };
    let delete = NodeCommand::Delete { publisher: None };
    let deleted = Ok(vec![NodeEvent::NodeDeleted]);

    let history = [created(), banned(), unbanned()];
    for active in [&history[..1], &history] {
        assert_eq!(given_when::<Node>(active, ban.clone()), Ok(vec![banned()]));
        assert_eq!(given_when::<Node>(active, unban.clone()), illegal_node(Active, Active));
        assert_eq!(given_when::<Node>(active, delete.clone()), deleted);
        assert_eq!((profile(active).status, profile(active).status_detail), (Active, None));
    }

    let banned_history = &history[..2];
    assert_eq!(given_when::<Node>(banned_history, ban), illegal_node(Banned, Banned));
    assert_eq!(given_when::<Node>(banned_history, unban), Ok(vec![unbanned()]));
    assert_eq!(given_when::<Node>(banned_history, delete), illegal_node(Banned, Deleted));
    assert_eq!(
        (profile(banned_history).status, profile(banned_history).status_detail),
        (Banned, Some(text("malware")))
    );
}

#[test]
fn only_administrators_change_a_banned_node_but_downloads_are_counted() {
    let history = [&with_version(VersionStatus::Pending)[..], &[banned()]].concat();
    let rejected = Err(NodeRejection::Banned { reason: Some(text("malware")) });
    for (index, command) in every_command().into_iter().enumerate() {
        let result = given_when::<Node>(&history, command.clone());
        if index < STOPPED_BY_BAN {
            assert_eq!(result, rejected, "{command:?}");
        } else {
            assert!(result.is_ok_and(|events| events.len() == 1), "{command:?}");
        }
    }
}

#[test]
fn a_deleted_node_is_not_found_and_its_id_stays_taken() {
    let history = [&with_version(VersionStatus::Active)[..], &[NodeEvent::NodeDeleted]].concat();
    assert_eq!(profile(&history).status, NodeStatus::Deleted);

    let id = NodeId::parse("TOOLS").unwrap();
    let fields = NodeFields::default();
    let admin_fields = NodeAdminFields::default();
    let first_version = None;
    let create = NodeCommand::Create { id, publisher: acme(), fields, admin_fields, first_version };
    let already_exists = Err(NodeRejection::AlreadyExists { id: NodeId::parse("tools").unwrap() });
    assert_eq!(given_when::<Node>(&history, create), already_exists);

    for command in every_command() {
        assert_eq!(given_when::<Node>(&history, command.clone()), Err(NodeRejection::NotFound), "{command:?}");
    }

    let events = [created(), banned(), unbanned(), stored(), NodeEvent::DownloadsCounted { count: 1 }];
    assert_eq!(profile(&[&history[..], &events].concat()), profile(&history));
}

#[test]
fn only_publishing_works_on_an_unknown_node() {
    for command in every_command() {
        let publishes = matches!(command, NodeCommand::Publish { .. });
        let not_found = given_when::<Node>(&[], command.clone()) == Err(NodeRejection::NotFound);
        assert_eq!(not_found, !publishes, "{command:?}");
    }
}

#[test]
fn a_node_of_another_publisher_is_not_found() {
    let other_publisher = || PublisherId::parse("rival").unwrap();
    let change = named("New");
    let admin_fields = NodeAdminFields::default();
    let commands = [
        NodeCommand::Revise { publisher: other_publisher(), change, admin_fields },
        set_status(Some("rival"), VersionStatus::Deleted, None),
        NodeCommand::Delete { publisher: Some(other_publisher()) },
        NodeCommand::Translate {
            publisher: Some(other_publisher()),
            translations: translations(&[("de", "Werkzeug")]),
        },
    ];
    for history in [with_version(VersionStatus::Active), [with_version(VersionStatus::Active), vec![banned()]].concat()]
    {
        for command in commands.clone() {
            assert_eq!(given_when::<Node>(&history, command.clone()), Err(NodeRejection::NotFound), "{command:?}");
        }
    }
}

#[test]
fn only_the_transitions_of_the_contract_change_a_version_status() {
    for from in VersionStatus::ALL {
        for to in VersionStatus::ALL.iter().filter(|to| *to != from) {
            let commands = [
                set_status(None, *to, Some("why")),
                administer_version(VersionFields::default(), VersionAdminFields::default(), Some(*to), Some("why")),
            ];
            for command in commands {
                let result = given_when::<Node>(&with_version(*from), command);
                let expected = if from.can_transition_to(*to) {
                    Ok(vec![status_changed(*to, Some("why"))])
                } else {
                    Err(illegal_transition("node version", from.as_str(), to.as_str()))
                };
                assert_eq!(result, expected, "{from:?} to {to:?}");
            }
        }
    }
}

#[test]
fn the_same_status_again_changes_only_a_reason_that_is_given() {
    for status in VersionStatus::ALL.iter().copied().filter(|status| *status != VersionStatus::Pending) {
        let decide = |reason| given_when::<Node>(&with_version(status), set_status(None, status, reason));
        assert_eq!(decide(None), Ok(vec![]));
        assert_eq!(decide(Some("because")), Ok(vec![]));
        assert_eq!(decide(Some("other")), Ok(vec![status_changed(status, Some("other"))]));
        assert_eq!(decide(Some("")), Ok(vec![status_changed(status, None)]));
    }
}

#[test]
fn a_new_status_drops_the_reason_of_the_previous_one() {
    let history = [with_version(VersionStatus::Flagged), vec![status_changed(VersionStatus::Active, None)]].concat();
    assert_eq!(profile(&history[..4]).versions[0].status_reason, Some(text("because")));
    assert_eq!(profile(&history).versions[0].status_reason, None);
}

#[test]
fn recorded_transitions_that_do_not_exist_are_ignored() {
    let deleted = with_version(VersionStatus::Deleted);
    let with_transition = [deleted.clone(), vec![status_changed(VersionStatus::Active, None)]].concat();
    assert_eq!(profile(&with_transition), profile(&deleted));
}

#[test]
fn a_deleted_version_is_not_found_by_its_publisher_and_its_number_stays_taken() {
    let history = with_version(VersionStatus::Deleted);
    let change = VersionFields { deprecated: Some(true), ..VersionFields::default() };
    let publisher = acme();
    let version = version_ref("1.0.0");
    let admin_fields = VersionAdminFields::default();

    let commands = [
        NodeCommand::ReviseVersion { publisher, version, change, admin_fields },
        set_status(Some("acme"), VersionStatus::Deleted, None),
        store(false),
    ];
    for command in commands {
        assert_eq!(given_when::<Node>(&history, command.clone()), Err(NodeRejection::VersionNotFound), "{command:?}");
    }

    let id = NodeId::parse("tools").unwrap();
    let fields = NodeFields::default();
    let version = draft(2, "1.0.0+b");
    let publish = NodeCommand::Publish { id, publisher: acme(), fields, version: version.clone() };
    assert_eq!(given_when::<Node>(&history, publish), Err(NodeRejection::VersionExists { number: version.number }));
}

#[test]
fn an_archive_makes_a_pending_version_active_unless_moderation_holds_it() {
    let pending = with_version(VersionStatus::Pending);
    let active = [stored(), status_changed(VersionStatus::Active, None)];
    assert_eq!(given_when::<Node>(&pending, store(false)), Ok(active.to_vec()));
    assert_eq!(given_when::<Node>(&pending, store(true)), Ok(vec![stored()]));
    let version = &profile(&[&pending[..], &active].concat()).versions[0];
    assert_eq!((version.status, version.archive), (VersionStatus::Active, Some(ARCHIVE)));
}

#[test]
fn a_version_gets_one_archive() {
    for status in VersionStatus::ALL.iter().copied().filter(|status| *status != VersionStatus::Deleted) {
        let history = with_version(status);
        let illegal = || Err(illegal_transition("node version", status.as_str(), VersionStatus::Active.as_str()));
        let (with_hold, without_hold) = match status {
            VersionStatus::Pending => {
                (Ok(vec![stored()]), Ok(vec![stored(), status_changed(VersionStatus::Active, None)]))
            }
            VersionStatus::Active => (Err(NodeRejection::ReleasedWithoutArchive), Ok(vec![stored()])),
            _ => (illegal(), illegal()),
        };

        assert_eq!(given_when::<Node>(&history, store(true)), with_hold);
        assert_eq!(given_when::<Node>(&history, store(false)), without_hold);
        let result = given_when::<Node>(&[&history[..], &[stored()]].concat(), store(false));
        assert_eq!(result, Err(NodeRejection::ArchiveExists), "{status:?}");
    }

    let unknown = NodeCommand::StoreArchive { version: version_id(9), archive: ARCHIVE, hold: false };
    assert_eq!(given_when::<Node>(&with_version(VersionStatus::Pending), unknown), Err(NodeRejection::VersionNotFound));
}

#[test]
fn an_administrator_sets_the_admin_fields() {
    let admin_fields = NodeAdminFields {
        created_at: Some(Timestamp::from_micros(5)),
        downloads: Some(1000),
        rating: Some(Rating::new(4.25).unwrap()),
        github_stars: Some(7),
        search_ranking: Some(-3),
        status_detail: Some(text("watched")),
        tags_admin: Some(Labels::new(vec![text("security")]).unwrap()),
    };
    let administered = NodeEvent::NodeAdministered { admin_fields: admin_fields.clone() };

    let revise =
        NodeCommand::Revise { publisher: acme(), change: NodeFields::default(), admin_fields: admin_fields.clone() };
    for command in [administer(NodeFields::default(), admin_fields.clone(), None), revise] {
        assert_eq!(given_when::<Node>(&[created()], command.clone()), Ok(vec![administered.clone()]));
        assert_eq!(given_when::<Node>(&[created(), administered.clone()], command), Ok(vec![]));
    }

    let node = profile(&[created(), administered.clone()]);
    assert_eq!((node.admin_fields(), node.rating()), (admin_fields.clone(), Some(4.25)));
    let cleared = profile(&[created(), administered, NodeEvent::NodeAdministered { admin_fields: detail("") }]);
    assert_eq!(cleared.admin_fields(), NodeAdminFields { status_detail: Some(text("")), ..admin_fields });
}

#[test]
fn an_administrator_bans_unbans_and_deletes_by_status() {
    use NodeStatus::{Active, Banned, Deleted};
    let administer_status = |history: &[NodeEvent], admin_fields, status| {
        given_when::<Node>(history, administer(NodeFields::default(), admin_fields, Some(status)))
    };
    let detail_recorded = |value| NodeEvent::NodeAdministered { admin_fields: detail(value) };

    assert_eq!(administer_status(&[created()], NodeAdminFields::default(), Active), Ok(vec![]));
    assert_eq!(
        administer_status(&[created()], detail("malware"), Banned),
        Ok(vec![banned(), detail_recorded("malware")])
    );

    let banned_history = [created(), banned()];
    assert_eq!(administer_status(&banned_history, NodeAdminFields::default(), Banned), Ok(vec![]));
    assert_eq!(administer_status(&banned_history, detail("virus"), Banned), Ok(vec![detail_recorded("virus")]));
    assert_eq!(
        administer_status(&banned_history, detail("cleaned"), Active),
        Ok(vec![unbanned(), detail_recorded("cleaned")])
    );
    assert_eq!(administer_status(&banned_history, NodeAdminFields::default(), Deleted), illegal_node(Banned, Deleted));
    assert_eq!(
        administer_status(&[created()], detail("gone"), Deleted),
        Ok(vec![detail_recorded("gone"), NodeEvent::NodeDeleted])
    );

    let unbanning = administer_status(&banned_history, detail("cleaned"), Active).unwrap();
    assert_eq!(profile(&[&banned_history[..], &unbanning].concat()).status_detail, Some(text("cleaned")));
}

#[test]
fn an_administrator_changes_everything_of_a_version_at_once() {
    let history = with_version(VersionStatus::Pending);
    let change = VersionFields { deprecated: Some(true), ..VersionFields::default() };
    let admin_fields = VersionAdminFields {
        created_at: Some(Timestamp::from_micros(5)),
        tags_admin: Some(Labels::new(vec![text("security")]).unwrap()),
        host_node_extract_status: Some(text("success")),
    };
    let command = administer_version(change.clone(), admin_fields.clone(), Some(VersionStatus::Flagged), Some("why"));

    let events = given_when::<Node>(&history, command.clone()).unwrap();
    let id = version_id(1);
    let expected = [
        NodeEvent::VersionRevised { id, change: change.clone() },
        NodeEvent::VersionAdministered { id, admin_fields: admin_fields.clone() },
        status_changed(VersionStatus::Flagged, Some("why")),
    ];
    assert_eq!(events, expected);

    let history = [&history[..], &events].concat();
    let version = &profile(&history).versions[0];
    assert_eq!(
        (&version.fields, version.admin_fields(), version.status),
        (&change, admin_fields, VersionStatus::Flagged)
    );
    assert_eq!(given_when::<Node>(&history, command), Ok(vec![]));

    let unknown = NodeCommand::SetVersionStatus {
        publisher: None,
        version: version_ref("9.0.0"),
        status: VersionStatus::Banned,
        reason: None,
    };
    assert_eq!(given_when::<Node>(&history, unknown), Err(NodeRejection::VersionNotFound));
}
