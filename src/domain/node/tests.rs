//! Tests of the rules of nodes and their versions.

use uuid::Uuid;

use super::*;
use crate::domain::decider::testing::{NOW, RECORDED_AT, When, given};
use crate::domain::value::{Digest, TextList};

const ARCHIVE: Archive = Archive { digest: Digest([7; 32]), bytes: 100 };

fn text<const MAX: usize, const MULTILINE: bool>(text: &str) -> Text<MAX, MULTILINE> {
    Text::parse(text).unwrap()
}

fn id(text: &str) -> NodeId {
    NodeId::parse(text).unwrap()
}

fn publisher(text: &str) -> PublisherId {
    PublisherId::parse(text).unwrap()
}

fn acme() -> PublisherId {
    publisher("acme")
}

fn version_id(nth: u128) -> VersionId {
    VersionId(Uuid::from_u128(nth))
}

fn labels<const ENTRIES: usize, const CHARS: usize>(text: &str) -> TextList<ENTRIES, CHARS> {
    TextList::new(vec![self::text(text)]).unwrap()
}

fn named(name: &str) -> NodeFields {
    NodeFields { name: Some(text(name)), ..NodeFields::default() }
}

/// Returns all fields, so that a test finds one that `apply` misses.
fn full() -> NodeFields {
    let texts = BTreeMap::from([(text("name"), text("Visages"))]);
    NodeFields {
        author: Some(text("Ann")),
        banner_url: Some(Link::parse("https://acme.example/banner.png").unwrap()),
        category: Some(text("images")),
        description: Some(text("Faces")),
        icon: Some(Link::parse("https://acme.example/icon.png").unwrap()),
        license: Some(text("LICENSE")),
        name: Some(text("Face tools")),
        preempted_host_node_names: Some(labels("FaceCrop")),
        repository: Some(Link::parse("https://acme.example/code").unwrap()),
        supported_accelerators: Some(labels("CUDA")),
        supported_host_frontend_version: Some(text(">=1.0.0")),
        supported_host_version: Some(text(">=0.3.0")),
        supported_os: Some(labels("Linux")),
        tags: Some(labels("face")),
        translations: Some(BTreeMap::from([(text("fr"), texts)])),
    }
}

fn full_version() -> VersionFields {
    VersionFields {
        changelog: Some(text("Faster")),
        dependencies: Some(labels("numpy")),
        deprecated: Some(true),
        supported_accelerators: Some(labels("CUDA")),
        supported_host_frontend_version: Some(text(">=1.0.0")),
        supported_host_version: Some(text(">=0.3.0")),
        supported_os: Some(labels("Linux")),
        tags: Some(labels("face")),
    }
}

fn deprecation() -> VersionFields {
    VersionFields { deprecated: Some(true), ..VersionFields::default() }
}

fn draft(nth: u128, number: &str) -> VersionDraft {
    let number = SemVer::parse(number).unwrap();
    VersionDraft { id: version_id(nth), number, fields: VersionFields::default() }
}

fn created() -> NodeEvent {
    NodeEvent::NodeCreated { id: id("Face-Tools"), publisher: acme(), fields: named("Face tools") }
}

fn released(nth: u128, number: &str) -> NodeEvent {
    NodeEvent::VersionReleased { version: draft(nth, number) }
}

fn published(nth: u128, number: &str) -> NodeEvent {
    NodeEvent::VersionPublished { version: draft(nth, number) }
}

fn revised(nth: u128, change: VersionFields) -> NodeEvent {
    NodeEvent::VersionRevised { id: version_id(nth), change }
}

fn create(first_version: Option<VersionDraft>) -> NodeCommand {
    create_as("Face-Tools", "acme", first_version)
}

fn create_as(id: &str, owner: &str, first_version: Option<VersionDraft>) -> NodeCommand {
    NodeCommand::Create {
        id: self::id(id),
        publisher: publisher(owner),
        fields: named("Face tools"),
        admin_fields: NodeAdminFields::default(),
        first_version,
    }
}

fn publish(owner: &str, fields: NodeFields, version: VersionDraft) -> NodeCommand {
    NodeCommand::Publish { id: id("Face-Tools"), publisher: publisher(owner), fields, version }
}

fn revise_version(owner: &str, version: &str, change: VersionFields) -> NodeCommand {
    let version = VersionRef::parse(version).unwrap();
    NodeCommand::ReviseVersion {
        publisher: publisher(owner),
        version,
        change,
        admin_fields: VersionAdminFields::default(),
    }
}

fn profile(history: &[NodeEvent]) -> NodeProfile {
    profile_of(given::<Node>(history).state)
}

fn profile_of(node: Node) -> NodeProfile {
    match node {
        Node::Present(profile) => *profile,
        Node::Unclaimed => panic!("the id is unclaimed"),
    }
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

fn illegal_node(from: NodeStatus, to: NodeStatus) -> NodeRejection {
    illegal_transition("node", from.as_str(), to.as_str())
}

fn version_ref(text: &str) -> VersionRef {
    VersionRef::parse(text).unwrap()
}

fn set_status(publisher: Option<&str>, status: VersionStatus, reason: Option<&str>) -> NodeCommand {
    let publisher = publisher.map(|id| PublisherId::parse(id).unwrap());
    NodeCommand::SetVersionStatus { publisher, version: version_ref("1.0.0"), status, reason: reason.map(text) }
}

fn store() -> NodeCommand {
    NodeCommand::StoreArchive { version: version_id(1), archive: ARCHIVE, hold: false }
}

fn store_and_hold() -> NodeCommand {
    NodeCommand::StoreArchive { version: version_id(1), archive: ARCHIVE, hold: true }
}

fn administer(change: NodeFields, admin_fields: NodeAdminFields, status: Option<NodeStatus>) -> NodeCommand {
    NodeCommand::Administer { change, admin_fields, status }
}

fn detail(detail: &str) -> NodeAdminFields {
    NodeAdminFields { status_detail: Some(text(detail)), ..NodeAdminFields::default() }
}

/// Returns every command except creations, with a publisher where possible.
fn every_command() -> Vec<NodeCommand> {
    [commands_stopped_by_ban(), commands_despite_ban()].concat()
}

fn commands_stopped_by_ban() -> Vec<NodeCommand> {
    let change = deprecation();
    let admin_fields = VersionAdminFields::default();
    let translations = translations(&[("de", "Werkzeug")]);
    vec![
        NodeCommand::Revise { publisher: acme(), change: named("New"), admin_fields: NodeAdminFields::default() },
        NodeCommand::Publish {
            id: id("Face-Tools"),
            publisher: acme(),
            fields: NodeFields::default(),
            version: draft(2, "2.0.0"),
        },
        NodeCommand::ReviseVersion { publisher: acme(), version: version_ref("1.0.0"), change, admin_fields },
        set_status(Some("acme"), VersionStatus::Deleted, None),
        store(),
        NodeCommand::Delete { publisher: Some(acme()) },
        NodeCommand::Review { user: user(1), stars: stars(5) },
        NodeCommand::Translate { publisher: Some(acme()), translations: translations.clone() },
        NodeCommand::Translate { publisher: None, translations },
    ]
}

fn commands_despite_ban() -> Vec<NodeCommand> {
    vec![
        NodeCommand::CountDownloads { count: 3 },
        set_status(None, VersionStatus::Deleted, None),
        administer(named("New"), NodeAdminFields::default(), None),
        administer_version(VersionFields::default(), VersionAdminFields::default(), Some(VersionStatus::Deleted), None),
        NodeCommand::Unban { reason: text("cleaned") },
    ]
}

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

fn downloads(downloads: u64) -> NodeAdminFields {
    NodeAdminFields { downloads: Some(downloads), ..NodeAdminFields::default() }
}

/// Returns a node with a version after the event.
fn profile_after(event: &NodeEvent) -> NodeProfile {
    profile_of(given::<Node>([created(), published(1, "1.0.0")]).and_now(event.clone()).state)
}

fn draft_with(fields: VersionFields) -> VersionDraft {
    VersionDraft { id: version_id(1), number: SemVer::parse("1.0.0").unwrap(), fields }
}

fn translated(language: &str, name: &str) -> NodeEvent {
    NodeEvent::NodeTranslated { language: text(language), texts: texts(name) }
}

fn translate(history: &[NodeEvent], languages: Translations) -> When<Node> {
    given::<Node>(history).when(NodeCommand::Translate { publisher: Some(acme()), translations: languages })
}

fn revise_node(change: NodeFields) -> NodeCommand {
    NodeCommand::Revise { publisher: acme(), change, admin_fields: NodeAdminFields::default() }
}

/// Returns the longest text of the field, in four-byte characters.
fn longest_text<const MAX: usize, const MULTILINE: bool>() -> Text<MAX, MULTILINE> {
    text(&"𝒳".repeat(MAX))
}

fn longest_labels<const ENTRIES: usize, const CHARS: usize>() -> TextList<ENTRIES, CHARS> {
    TextList::new(vec![longest_text(); ENTRIES]).unwrap()
}

fn link() -> Link {
    let link = format!("https://a.example/{}", "x".repeat(Link::MAX - 18));
    assert_eq!(link.len(), Link::MAX);
    Link::parse(&link).unwrap()
}

fn largest_node() -> NodeFields {
    NodeFields {
        author: Some(longest_text()),
        banner_url: Some(link()),
        category: Some(longest_text()),
        description: Some(longest_text()),
        icon: Some(link()),
        license: Some(longest_text()),
        name: Some(longest_text()),
        preempted_host_node_names: Some(longest_labels()),
        repository: Some(link()),
        supported_accelerators: Some(longest_labels()),
        supported_host_frontend_version: Some(longest_text()),
        supported_host_version: Some(longest_text()),
        supported_os: Some(longest_labels()),
        tags: Some(longest_labels()),
        translations: None,
    }
}

fn largest_version() -> VersionFields {
    VersionFields {
        changelog: Some(longest_text()),
        dependencies: Some(longest_labels()),
        deprecated: Some(true),
        supported_accelerators: Some(longest_labels()),
        supported_host_frontend_version: Some(longest_text()),
        supported_host_version: Some(longest_text()),
        supported_os: Some(longest_labels()),
        tags: Some(longest_labels()),
    }
}

fn largest_admin_fields() -> NodeAdminFields {
    NodeAdminFields {
        status_detail: Some(longest_text()),
        tags_admin: Some(longest_labels()),
        ..NodeAdminFields::default()
    }
}

fn largest_version_admin_fields() -> VersionAdminFields {
    VersionAdminFields {
        created_at: Some(NOW),
        tags_admin: Some(longest_labels()),
        host_node_extract_status: Some(longest_text()),
    }
}

/// Returns `true` if no event can be split further.
fn fit_in_one_part(events: &[NodeEvent]) -> bool {
    events.iter().all(|event| match event {
        NodeEvent::NodeCreated { fields, .. } | NodeEvent::NodeRevised { change: fields } => {
            fields.clone().split().len() == 1
        }
        NodeEvent::VersionReleased { version } | NodeEvent::VersionPublished { version } => {
            version.fields.clone().split().len() == 1
        }
        NodeEvent::VersionRevised { change, .. } => change.clone().split().len() == 1,
        _ => true,
    })
}

fn publish_first() -> NodeCommand {
    publish("acme", NodeFields::default(), draft(1, "1.0.0"))
}

/// Flags the first version.
fn flag() -> NodeCommand {
    administer_version(VersionFields::default(), VersionAdminFields::default(), Some(VersionStatus::Flagged), None)
}

/// Returns the names of the events of a command on a free id.
fn names_after(command: NodeCommand) -> Vec<&'static str> {
    given::<Node>([]).when(command).events().iter().map(NodeEvent::name).collect()
}

#[test]
fn a_free_id_is_claimed() {
    given::<Node>([]).when(create(None)).then([created()]);
    let node = profile(&[created()]);
    assert_eq!((node.id, node.publisher, &*node.fields), (id("Face-Tools"), acme(), &named("Face tools")));
    assert_eq!((node.versions, node.created_at, node.updated_at), (vec![], RECORDED_AT, RECORDED_AT));
}

#[test]
fn a_first_version_is_active_at_once() {
    let history = [created(), released(1, "1.0.0")];
    given::<Node>([]).when(create(Some(draft(1, "1.0.0")))).then(&history);
    let expected = NodeVersion::new(&draft(1, "1.0.0"), VersionStatus::Active, RECORDED_AT);
    assert_eq!(profile(&history).versions, [expected.into()]);
}

#[test]
fn a_taken_id_is_rejected_with_its_registered_form() {
    for owner in ["acme", "rival"] {
        given::<Node>([created()])
            .when(create_as("face-tools", owner, None))
            .then_rejected(NodeRejection::AlreadyExists { id: id("Face-Tools") });
    }
}

#[test]
fn publishing_creates_a_new_node_whose_version_is_pending() {
    let history = [created(), published(1, "1.0.0")];
    given::<Node>([]).when(publish("acme", named("Face tools"), draft(1, "1.0.0"))).then(&history);
    assert_eq!(profile(&history).versions[0].status, VersionStatus::Pending);
}

#[test]
fn publishing_revises_the_node_only_where_it_differs() {
    for fields in [NodeFields::default(), named("Face tools")] {
        given::<Node>([created()]).when(publish("acme", fields, draft(1, "1.0.0"))).then([published(1, "1.0.0")]);
    }
    given::<Node>([created()])
        .when(publish("acme", named("Faces"), draft(1, "1.0.0")))
        .then([NodeEvent::NodeRevised { change: named("Faces") }, published(1, "1.0.0")]);
}

#[test]
fn publishing_into_another_publishers_node_is_rejected() {
    given::<Node>([created()])
        .when(publish("rival", full(), draft(1, "1.0.0")))
        .then_rejected(NodeRejection::AlreadyExists { id: id("Face-Tools") });
}

#[test]
fn a_version_number_is_unique_regardless_of_build_metadata() {
    let history = [created(), released(1, "1.0.0+a"), published(2, "2.0.0-rc.1")];
    for number in ["1.0.0", "1.0.0+a", "1.0.0+b", "2.0.0-rc.1", "2.0.0-rc.1+b"] {
        given::<Node>(&history)
            .when(publish("acme", NodeFields::default(), draft(3, number)))
            .then_rejected(NodeRejection::VersionExists { number: SemVer::parse(number).unwrap() });
    }
}

#[test]
fn versions_need_not_be_published_in_order() {
    let mut history = vec![created(), published(1, "2.0.0")];
    for (nth, number) in (2..).zip(["2.0.1", "1.0.0", "2.0.0-rc.1", "10.0.0"]) {
        given::<Node>(&history)
            .when(publish("acme", NodeFields::default(), draft(nth, number)))
            .then([published(nth, number)]);
        history.push(published(nth, number));
    }
    let numbers: Vec<_> = profile(&history).versions.iter().map(|version| version.number.to_string()).collect();
    assert_eq!(numbers, ["2.0.0", "2.0.1", "1.0.0", "2.0.0-rc.1", "10.0.0"]);
}

#[test]
fn a_version_is_revised_by_its_id_or_its_number() {
    let history = [created(), released(1, "1.0.0+a"), published(2, "2.0.0")];
    for name in ["00000000-0000-0000-0000-000000000001", "1.0.0", "1.0.0+a", "1.0.0+b"] {
        given::<Node>(&history).when(revise_version("acme", name, deprecation())).then([revised(1, deprecation())]);
    }
}

#[test]
fn a_version_of_another_node_or_publisher_is_not_found() {
    let history = [created(), released(1, "1.0.0")];
    for (history, owner, name, rejection) in [
        (&history[..], "acme", "1.0.1", NodeRejection::VersionNotFound),
        (&history[..], "acme", "1.0.0-rc.1", NodeRejection::VersionNotFound),
        (&history[..], "acme", "00000000-0000-0000-0000-000000000002", NodeRejection::VersionNotFound),
        (&history[..], "rival", "1.0.0", NodeRejection::NotFound),
        (&history[..1], "acme", "1.0.0", NodeRejection::VersionNotFound),
        (&[], "acme", "1.0.0", NodeRejection::NotFound),
    ] {
        given::<Node>(history).when(revise_version(owner, name, deprecation())).then_rejected(rejection);
    }
}

#[test]
fn a_revision_changes_only_what_is_present() {
    let changelog = VersionFields { changelog: full_version().changelog, ..VersionFields::default() };
    let history =
        [created(), released(1, "1.0.0"), released(2, "2.0.0"), revised(1, changelog), revised(1, deprecation())];
    let node = profile(&history);
    let expected = VersionFields { changelog: full_version().changelog, ..deprecation() };
    assert_eq!((&node.versions[0].fields, &node.versions[1].fields), (&expected, &VersionFields::default()));
    assert_eq!(node.versions[0].status, VersionStatus::Active);
}

#[test]
fn a_revision_without_a_difference_records_nothing() {
    let history = [created(), released(1, "1.0.0"), revised(1, full_version())];
    for change in [full_version(), deprecation(), VersionFields::default()] {
        given::<Node>(&history).when(revise_version("acme", "1.0.0", change)).then_nothing();
    }
}

#[test]
fn every_field_can_be_revised() {
    let history =
        [created(), released(1, "1.0.0"), revised(1, full_version()), NodeEvent::NodeRevised { change: full() }];
    let node = profile(&history);
    assert_eq!((&*node.fields, &node.versions[0].fields), (&full(), &full_version()));
}

#[test]
fn a_change_updates_only_updated_at() {
    let changes = [
        NodeEvent::NodeRevised { change: full() },
        released(2, "2.0.0"),
        published(2, "2.0.0"),
        revised(1, deprecation()),
    ];
    for change in changes {
        let node = profile_after(&change);
        assert_eq!((node.created_at, node.updated_at), (RECORDED_AT, NOW), "{change:?}");
        assert_eq!(node.versions[0].created_at, RECORDED_AT);
    }
}

#[test]
fn events_that_do_not_fit_change_nothing() {
    let history = [created(), released(1, "1.0.0")];
    let second_creation = NodeEvent::NodeCreated { id: id("x"), publisher: publisher("rival"), fields: full() };
    for event in [second_creation, revised(9, deprecation())] {
        let after = given::<Node>(&history).and_now(event.clone()).state;
        assert_eq!(after, given::<Node>(&history).state, "{event:?}");
    }

    let events = [
        NodeEvent::NodeRevised { change: full() },
        released(1, "1.0.0"),
        published(1, "1.0.0"),
        revised(1, deprecation()),
    ];
    assert_eq!(given::<Node>(&events).state, Node::Unclaimed);
}

#[test]
fn a_node_is_active_banned_or_deleted() {
    use NodeStatus::{Active, Banned, Deleted};
    let ban = NodeCommand::Ban { reason: text("malware") };
    let unban = NodeCommand::Unban { reason: text("cleaned") };
    let delete = NodeCommand::Delete { publisher: None };

    let history = [created(), banned(), unbanned()];
    for active in [&history[..1], &history] {
        given::<Node>(active).when(ban.clone()).then([banned()]);
        given::<Node>(active).when(unban.clone()).then_rejected(illegal_node(Active, Active));
        given::<Node>(active).when(delete.clone()).then([NodeEvent::NodeDeleted]);
        assert_eq!((profile(active).status, profile(active).status_detail), (Active, None));
    }

    let banned_history = &history[..2];
    given::<Node>(banned_history).when(ban).then_rejected(illegal_node(Banned, Banned));
    given::<Node>(banned_history).when(unban).then([unbanned()]);
    given::<Node>(banned_history).when(delete).then_rejected(illegal_node(Banned, Deleted));
    assert_eq!(
        (profile(banned_history).status, profile(banned_history).status_detail),
        (Banned, Some(text("malware")))
    );
}

#[test]
fn only_administrators_change_a_banned_node_but_downloads_are_counted() {
    let history = [&with_version(VersionStatus::Pending)[..], &[banned()]].concat();
    for command in commands_stopped_by_ban() {
        let rejection = NodeRejection::Banned { reason: Some(text("malware")) };
        given::<Node>(&history).when(command).then_rejected(rejection);
    }
    for command in commands_despite_ban() {
        assert_eq!(given::<Node>(&history).when(command).events().len(), 1);
    }
}

#[test]
fn a_deleted_node_is_not_found_and_its_id_stays_taken() {
    let history = [&with_version(VersionStatus::Active)[..], &[NodeEvent::NodeDeleted]].concat();
    assert_eq!(profile(&history).status, NodeStatus::Deleted);

    given::<Node>(&history)
        .when(create_as("FACE-TOOLS", "acme", None))
        .then_rejected(NodeRejection::AlreadyExists { id: id("Face-Tools") });

    for command in every_command() {
        given::<Node>(&history).when(command.clone()).then_rejected(NodeRejection::NotFound);
    }

    let events = [created(), banned(), unbanned(), stored(), NodeEvent::DownloadsCounted { count: 1 }];
    assert_eq!(profile(&[&history[..], &events].concat()), profile(&history));
}

#[test]
fn only_publishing_works_on_an_unknown_node() {
    for command in every_command() {
        let publishes = matches!(command, NodeCommand::Publish { .. });
        let decided = given::<Node>([]).when(command);
        if publishes { drop(decided.events()) } else { decided.then_rejected(NodeRejection::NotFound) }
    }
}

#[test]
fn a_node_of_another_publisher_is_not_found() {
    let other_publisher = || publisher("rival");
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
            given::<Node>(&history).when(command.clone()).then_rejected(NodeRejection::NotFound);
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
                let expected = if from.can_transition_to(*to) {
                    Ok(vec![status_changed(*to, Some("why"))])
                } else {
                    Err(illegal_transition("node version", from.as_str(), to.as_str()))
                };
                given::<Node>(with_version(*from)).when(command).then_result(&expected);
            }
        }
    }
}

#[test]
fn the_same_status_again_changes_only_a_reason_that_is_given() {
    for status in VersionStatus::ALL.iter().copied().filter(|status| *status != VersionStatus::Pending) {
        let decide = |reason| given::<Node>(with_version(status)).when(set_status(None, status, reason));
        decide(None).then_nothing();
        decide(Some("because")).then_nothing();
        decide(Some("other")).then([status_changed(status, Some("other"))]);
        decide(Some("")).then([status_changed(status, None)]);
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
    let change = deprecation();
    let publisher = acme();
    let version = version_ref("1.0.0");
    let admin_fields = VersionAdminFields::default();

    let commands = [
        NodeCommand::ReviseVersion { publisher, version, change, admin_fields },
        set_status(Some("acme"), VersionStatus::Deleted, None),
        store(),
    ];
    for command in commands {
        given::<Node>(&history).when(command.clone()).then_rejected(NodeRejection::VersionNotFound);
    }

    let id = id("Face-Tools");
    let fields = NodeFields::default();
    let version = draft(2, "1.0.0+b");
    let publish = NodeCommand::Publish { id, publisher: acme(), fields, version: version.clone() };
    given::<Node>(&history).when(publish).then_rejected(NodeRejection::VersionExists { number: version.number });
}

#[test]
fn an_archive_makes_a_pending_version_active_unless_moderation_holds_it() {
    let pending = with_version(VersionStatus::Pending);
    let active = [stored(), status_changed(VersionStatus::Active, None)];
    given::<Node>(&pending).when(store()).then(&active);
    given::<Node>(&pending).when(store_and_hold()).then([stored()]);
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

        given::<Node>(&history).when(store_and_hold()).then_result(&with_hold);
        given::<Node>(&history).when(store()).then_result(&without_hold);
        given::<Node>(&[&history[..], &[stored()]].concat()).when(store()).then_rejected(NodeRejection::ArchiveExists);
    }

    let unknown = NodeCommand::StoreArchive { version: version_id(9), archive: ARCHIVE, hold: false };
    given::<Node>(with_version(VersionStatus::Pending)).when(unknown).then_rejected(NodeRejection::VersionNotFound);
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
        tags_admin: Some(labels("security")),
    };
    let administered = NodeEvent::NodeAdministered { admin_fields: admin_fields.clone() };

    let revise =
        NodeCommand::Revise { publisher: acme(), change: NodeFields::default(), admin_fields: admin_fields.clone() };
    for command in [administer(NodeFields::default(), admin_fields.clone(), None), revise] {
        given::<Node>([created()]).when(command.clone()).then([administered.clone()]);
        given::<Node>([created(), administered.clone()]).when(command).then_nothing();
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
        given::<Node>(history).when(administer(NodeFields::default(), admin_fields, Some(status)))
    };
    let detail_recorded = |value| NodeEvent::NodeAdministered { admin_fields: detail(value) };

    administer_status(&[created()], NodeAdminFields::default(), Active).then_nothing();
    administer_status(&[created()], detail("malware"), Banned).then([banned(), detail_recorded("malware")]);

    let banned_history = [created(), banned()];
    administer_status(&banned_history, NodeAdminFields::default(), Banned).then_nothing();
    administer_status(&banned_history, detail("virus"), Banned).then([detail_recorded("virus")]);
    administer_status(&banned_history, detail("cleaned"), Active).then([unbanned(), detail_recorded("cleaned")]);
    administer_status(&banned_history, NodeAdminFields::default(), Deleted)
        .then_rejected(illegal_node(Banned, Deleted));
    administer_status(&[created()], detail("gone"), Deleted).then([detail_recorded("gone"), NodeEvent::NodeDeleted]);

    let unbanning = administer_status(&banned_history, detail("cleaned"), Active).events();
    assert_eq!(profile(&[&banned_history[..], &unbanning].concat()).status_detail, Some(text("cleaned")));
}

#[test]
fn an_administrator_changes_everything_of_a_version_at_once() {
    let history = with_version(VersionStatus::Pending);
    let change = deprecation();
    let admin_fields = VersionAdminFields {
        created_at: Some(Timestamp::from_micros(5)),
        tags_admin: Some(labels("security")),
        host_node_extract_status: Some(text("success")),
    };
    let command = administer_version(change.clone(), admin_fields.clone(), Some(VersionStatus::Flagged), Some("why"));

    let events = given::<Node>(&history).when(command.clone()).events();
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
    given::<Node>(&history).when(command).then_nothing();

    let unknown = NodeCommand::SetVersionStatus {
        publisher: None,
        version: version_ref("9.0.0"),
        status: VersionStatus::Banned,
        reason: None,
    };
    given::<Node>(&history).when(unknown).then_rejected(NodeRejection::VersionNotFound);
}

#[test]
fn changes_update_updated_at() {
    let id = version_id(1);
    let status = VersionStatus::Active;
    let archive = Archive { digest: Digest([1; 32]), bytes: 1 };
    let admin_fields = NodeAdminFields { github_stars: Some(1), ..downloads(1) };
    let changes = [
        NodeEvent::NodeAdministered { admin_fields },
        NodeEvent::NodeTranslated { language: text("de"), texts: [(text("name"), text("Werkzeug"))].into() },
        NodeEvent::NodeBanned { reason: text("malware") },
        NodeEvent::NodeUnbanned { reason: text("cleaned") },
        NodeEvent::NodeDeleted,
        NodeEvent::NodeReviewed { user: user(1), stars: stars(1) },
        NodeEvent::ArchiveStored { version: id, archive },
        NodeEvent::VersionStatusChanged { id, status, reason: None },
        NodeEvent::VersionAdministered { id, admin_fields: VersionAdminFields::default() },
    ];
    for change in changes {
        let node = profile_after(&change);
        assert_eq!((node.created_at, node.updated_at), (RECORDED_AT, NOW), "{change:?}");
    }
}

#[test]
fn downloads_and_ignored_events_do_not_update_updated_at() {
    let id = version_id(9);
    let status = VersionStatus::Active;
    let unrelated = [
        created(),
        NodeEvent::NodeAdministered { admin_fields: downloads(1) },
        NodeEvent::DownloadsCounted { count: 1 },
        NodeEvent::VersionStatusChanged { id, status, reason: None },
    ];
    for event in unrelated {
        assert_eq!(profile_after(&event).updated_at, RECORDED_AT, "{event:?}");
    }
}

#[test]
fn an_empty_ban_reason_leaves_no_status_detail() {
    let node = profile_after(&NodeEvent::NodeBanned { reason: text("") });
    assert_eq!((node.status, node.status_detail), (NodeStatus::Banned, None));
}

#[test]
fn a_user_has_one_review_and_the_rating_is_their_mean() {
    let admin_rating = NodeAdminFields { rating: Some(Rating::new(1.5).unwrap()), ..NodeAdminFields::default() };
    let mut history = vec![created(), NodeEvent::NodeAdministered { admin_fields: admin_rating }];
    assert_eq!(profile(&history).rating(), Some(1.5));

    for (nth, n, rating) in [(1, 5, 5.0), (2, 4, 4.5), (3, 4, 4.33), (1, 1, 3.0)] {
        let reviewed = NodeEvent::NodeReviewed { user: user(nth), stars: stars(n) };
        let review = NodeCommand::Review { user: user(nth), stars: stars(n) };
        given::<Node>(&history).when(review.clone()).then([reviewed.clone()]);
        history.push(reviewed);
        given::<Node>(&history).when(review).then_nothing();
        assert_eq!(profile(&history).rating(), Some(rating));
    }
    assert_eq!(profile(&[created()]).rating(), None);
}

#[test]
fn downloads_are_counted_up() {
    let count = |count| given::<Node>([created()]).when(NodeCommand::CountDownloads { count });
    count(0).then_nothing();
    count(3).then([NodeEvent::DownloadsCounted { count: 3 }]);

    let downloads_counted = |count| NodeEvent::DownloadsCounted { count };
    let set = NodeEvent::NodeAdministered { admin_fields: downloads(10) };
    assert_eq!(profile(&[created(), downloads_counted(1), set, downloads_counted(2)]).downloads, 12);
    assert_eq!(profile(&[created(), downloads_counted(5), downloads_counted(u64::MAX)]).downloads, u64::MAX);
}

#[test]
fn the_texts_of_a_language_replace_the_previous_ones() {
    let history = [created(), translated("de", "Werkzeug"), translated("fr", "Outils")];
    let requested = translations(&[("de", "Werkzeuge"), ("fr", "Outils"), ("it", "Attrezzi"), ("ja", "")]);
    let expected = [translated("de", "Werkzeuge"), translated("it", "Attrezzi")];

    translate(&history, requested.clone()).then(&expected);
    let change = NodeFields { translations: Some(requested), ..NodeFields::default() };
    given::<Node>(&history).when(revise_node(change)).then(&expected);

    let node = profile(&[&history[..], &expected].concat());
    let expected_translations = translations(&[("de", "Werkzeuge"), ("fr", "Outils"), ("it", "Attrezzi")]);
    assert_eq!(node.fields.translations, Some(expected_translations));
}

#[test]
fn a_node_is_created_with_admin_fields_and_translations() {
    let languages = Some(translations(&[("de", "Werkzeug"), ("fr", "")]));
    let fields = NodeFields { translations: languages, ..named("Face tools") };
    let admin_fields = NodeAdminFields { downloads: Some(7), ..NodeAdminFields::default() };
    let command = NodeCommand::Create {
        id: id("Face-Tools"),
        publisher: acme(),
        fields,
        admin_fields: admin_fields.clone(),
        first_version: None,
    };
    let expected = [created(), translated("de", "Werkzeug"), NodeEvent::NodeAdministered { admin_fields }];
    given::<Node>([]).when(command).then(&expected);
}

#[test]
fn a_language_without_texts_is_dropped() {
    let history = [created(), translated("de", "Werkzeug"), translated("fr", "Outils")];
    translate(&history, translations(&[("de", "")])).then([translated("de", "")]);
    let without_de = [&history[..], &[translated("de", "")]].concat();
    assert_eq!(profile(&without_de).fields.translations, Some(translations(&[("fr", "Outils")])));
    assert_eq!(profile(&[&without_de[..], &[translated("fr", "")]].concat()).fields.translations, None);
}

#[test]
fn the_number_of_languages_is_limited() {
    let names: Vec<_> = (0..=LANGUAGES_MAX).map(|index| format!("x-{index:03}")).collect();
    let languages: Vec<_> = names.iter().map(|name| (name.as_str(), "a")).collect();
    translate(&[created()], translations(&languages)).then_rejected(NodeRejection::TooManyLanguages);

    let mut history = vec![created()];
    history.extend(translate(&[created()], translations(&languages[..LANGUAGES_MAX])).events());

    let first = names[0].as_str();
    let last = names[LANGUAGES_MAX].as_str();
    translate(&history, translations(&[(last, "a")])).then_rejected(NodeRejection::TooManyLanguages);
    translate(&history, translations(&[(first, "b")])).then([translated(first, "b")]);
    translate(&history, translations(&[(first, ""), (last, "a")])).then([translated(first, ""), translated(last, "a")]);
}

#[test]
fn the_largest_node_and_version_are_created_whole() {
    let fields = largest_node();
    let admin_fields = largest_admin_fields();
    let first_version = Some(draft_with(largest_version()));
    let create = NodeCommand::Create {
        id: id("Face-Tools"),
        publisher: acme(),
        fields: fields.clone(),
        admin_fields: admin_fields.clone(),
        first_version,
    };

    let events = given::<Node>([]).when(create).events();
    assert!(fit_in_one_part(&events));
    let continued = events.iter().filter(|event| matches!(event, NodeEvent::DependenciesContinued { .. })).count();
    assert_eq!(continued, 33, "15 of the longest dependencies fit into an event");
    assert_eq!(events.len() - continued, 15, "7 of the node, 6 of the version, 2 of the admin fields");

    let node = profile(&events);
    assert_eq!((&*node.fields, &node.versions[0].fields), (&fields, &largest_version()));
    assert_eq!((&node.tags_admin, &node.status_detail), (&admin_fields.tags_admin, &admin_fields.status_detail));

    let publish = NodeCommand::Publish {
        id: id("Face-Tools"),
        publisher: acme(),
        fields,
        version: draft_with(largest_version()),
    };
    for history in [&[][..], &[created()]] {
        let events = given::<Node>(history).when(publish.clone()).events();
        let node = profile(&[history, &events].concat());
        assert_eq!((&*node.fields, &node.versions[0].fields), (&largest_node(), &largest_version()));
        assert!(fit_in_one_part(&events));
    }
}

#[test]
fn the_largest_revisions_are_recorded_whole() {
    let history = vec![created(), NodeEvent::VersionPublished { version: draft_with(VersionFields::default()) }];
    let version = VersionRef::Id(version_id(1));
    let change = largest_version();
    let admin_fields = largest_version_admin_fields();
    let commands = [
        revise_node(largest_node()),
        NodeCommand::ReviseVersion { publisher: acme(), version, change, admin_fields },
        NodeCommand::Administer { change: NodeFields::default(), admin_fields: largest_admin_fields(), status: None },
    ];

    let mut state = given::<Node>(&history).state;
    let mut events = history;
    for command in commands {
        for event in Node::decide(&state, command, NOW).unwrap() {
            Node::evolve(&mut state, &event, NOW);
            events.push(event);
        }
    }

    assert!(fit_in_one_part(&events));
    let node = profile(&events);
    assert_eq!((&*node.fields, &node.versions[0].fields), (&largest_node(), &largest_version()));
    assert_eq!(
        (node.tags_admin, node.versions[0].admin_fields()),
        (Some(longest_labels()), largest_version_admin_fields())
    );
}

#[test]
fn an_administrator_can_change_only_the_reason_of_a_deleted_version() {
    let status = VersionStatus::Deleted;
    let deletion_reason = Some(text("because"));
    let deleted = NodeEvent::VersionStatusChanged { id: version_id(1), status, reason: deletion_reason };
    let history = [created(), NodeEvent::VersionPublished { version: draft_with(VersionFields::default()) }, deleted];

    let administer = |change, admin_fields, status| {
        let version = VersionRef::Id(version_id(1));
        let reason = Some(text("why"));
        given::<Node>(&history).when(NodeCommand::AdministerVersion { version, change, admin_fields, status, reason })
    };

    let change = deprecation();
    let admin_fields =
        VersionAdminFields { host_node_extract_status: Some(text("failed")), ..VersionAdminFields::default() };
    let reason_changed = NodeEvent::VersionStatusChanged { id: version_id(1), status, reason: Some(text("why")) };

    for status in [None, Some(status)] {
        administer(change.clone(), VersionAdminFields::default(), status).then_rejected(NodeRejection::VersionDeleted);
        administer(VersionFields::default(), admin_fields.clone(), status).then_rejected(NodeRejection::VersionDeleted);
        administer(VersionFields::default(), VersionAdminFields::default(), status).then([reason_changed.clone()]);
    }
}

#[test]
fn the_largest_language_is_one_event() {
    let fields = (0..TEXTS_MAX).map(|index| (text(&format!("{index:02}{}", "𝒳".repeat(198))), text(&"𝒳".repeat(1000))));
    let texts: LocalizedTexts = fields.collect();
    let language: Label = text(&"𝒳".repeat(200));
    translate(&[created()], [(language.clone(), texts.clone())].into())
        .then([NodeEvent::NodeTranslated { language, texts }]);
}

#[test]
fn each_command_sees_the_events_of_the_previous_ones() {
    let batch = NodeCommand::batch(create(None), [publish_first(), flag()]);
    assert_eq!(names_after(batch), ["NodeCreated", "VersionPublished", "VersionStatusChanged"]);
}

#[test]
fn one_rejected_command_rejects_the_whole_batch() {
    given::<Node>([])
        .when(NodeCommand::batch(create(None), [flag(), publish_first()]))
        .then_rejected(NodeRejection::VersionNotFound);
    given::<Node>([created()])
        .when(NodeCommand::batch(publish_first(), [create(None)]))
        .then_rejected(NodeRejection::AlreadyExists { id: id("Face-Tools") });
}

#[test]
fn a_deleted_node_rejects_a_batch_like_its_first_command() {
    let history = [created(), NodeEvent::NodeDeleted];
    given::<Node>(&history)
        .when(NodeCommand::batch(create(None), [publish_first()]))
        .then_rejected(NodeRejection::AlreadyExists { id: id("Face-Tools") });
    given::<Node>(&history)
        .when(NodeCommand::batch(publish_first(), [create(None)]))
        .then_rejected(NodeRejection::NotFound);
}

#[test]
fn a_batch_of_one_is_that_command() {
    assert_eq!(NodeCommand::batch(create(None), []), create(None));
    let ban = NodeCommand::Ban { reason: text("malware") };
    assert_eq!(names_after(NodeCommand::batch(create(None), [ban])), ["NodeCreated", "NodeBanned"]);
}
