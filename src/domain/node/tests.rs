//! Tests of the rules of nodes and their versions.

use super::*;
use crate::domain::decider::testing::{NOW, RECORDED_AT, given_when, state_after};
use uuid::Uuid;

fn id(text: &str) -> NodeId {
    NodeId::parse(text).unwrap()
}

fn publisher(text: &str) -> PublisherId {
    PublisherId::parse(text).unwrap()
}

fn label(text: &str) -> Label {
    Label::parse(text).unwrap()
}

fn labels(text: &str) -> Labels {
    Labels::new(vec![label(text)]).unwrap()
}

fn named(name: &str) -> NodeFields {
    NodeFields { name: Some(Name::parse(name).unwrap()), ..NodeFields::default() }
}

/// Returns all fields, so that a test finds one that `apply` misses.
fn full() -> NodeFields {
    let texts = BTreeMap::from([(Text::parse("name").unwrap(), Text::parse("Visages").unwrap())]);
    NodeFields {
        author: Some(Name::parse("Ann").unwrap()),
        banner_url: Some(Link::parse("https://acme.example/banner.png").unwrap()),
        category: Some(label("images")),
        description: Some(NodeDescription::parse("Faces").unwrap()),
        icon: Some(Link::parse("https://acme.example/icon.png").unwrap()),
        license: Some(label("LICENSE")),
        name: Some(Name::parse("Face tools").unwrap()),
        preempted_host_node_names: Some(labels("FaceCrop")),
        repository: Some(Link::parse("https://acme.example/code").unwrap()),
        supported_accelerators: Some(labels("CUDA")),
        supported_host_frontend_version: Some(label(">=1.0.0")),
        supported_host_version: Some(label(">=0.3.0")),
        supported_os: Some(labels("Linux")),
        tags: Some(labels("face")),
        translations: Some(BTreeMap::from([(Text::parse("fr").unwrap(), texts)])),
    }
}

fn full_version() -> VersionFields {
    VersionFields {
        changelog: Some(Text::parse("Faster").unwrap()),
        dependencies: Some(labels("numpy")),
        deprecated: Some(true),
        supported_accelerators: Some(labels("CUDA")),
        supported_host_frontend_version: Some(label(">=1.0.0")),
        supported_host_version: Some(label(">=0.3.0")),
        supported_os: Some(labels("Linux")),
        tags: Some(labels("face")),
    }
}

fn deprecation() -> VersionFields {
    VersionFields { deprecated: Some(true), ..VersionFields::default() }
}

fn draft(nth: u128, number: &str) -> VersionDraft {
    let number = SemVer::parse(number).unwrap();
    VersionDraft { id: VersionId(Uuid::from_u128(nth)), number, fields: VersionFields::default() }
}

fn created() -> NodeEvent {
    NodeEvent::NodeCreated { id: id("Face-Tools"), publisher: publisher("acme"), fields: named("Face tools") }
}

fn released(nth: u128, number: &str) -> NodeEvent {
    NodeEvent::VersionReleased { version: draft(nth, number) }
}

fn published(nth: u128, number: &str) -> NodeEvent {
    NodeEvent::VersionPublished { version: draft(nth, number) }
}

fn revised(nth: u128, change: VersionFields) -> NodeEvent {
    NodeEvent::VersionRevised { id: VersionId(Uuid::from_u128(nth)), change }
}

fn create(first_version: Option<VersionDraft>) -> NodeCommand {
    let fields = named("Face tools");
    NodeCommand::Create {
        id: id("Face-Tools"),
        publisher: publisher("acme"),
        fields,
        admin_fields: NodeAdminFields::default(),
        first_version,
    }
}

fn publish(owner: &str, fields: NodeFields, version: VersionDraft) -> NodeCommand {
    NodeCommand::Publish { id: id("Face-Tools"), publisher: publisher(owner), fields, version }
}

fn revise(owner: &str, version: &str, change: VersionFields) -> NodeCommand {
    let version = VersionRef::parse(version).unwrap();
    NodeCommand::ReviseVersion {
        publisher: publisher(owner),
        version,
        change,
        admin_fields: VersionAdminFields::default(),
    }
}

fn profile(history: &[NodeEvent]) -> NodeProfile {
    match state_after::<Node>(history) {
        Node::Present(profile) => *profile,
        Node::Unclaimed => panic!("the id is unclaimed"),
    }
}

#[test]
fn a_free_id_is_claimed() {
    assert_eq!(given_when::<Node>(&[], create(None)), Ok(vec![created()]));
    let node = profile(&[created()]);
    assert_eq!((node.id, node.publisher, &*node.fields), (id("Face-Tools"), publisher("acme"), &named("Face tools")));
    assert_eq!((node.versions, node.created_at, node.updated_at), (vec![], RECORDED_AT, RECORDED_AT));
}

#[test]
fn a_first_version_is_active_at_once() {
    let history = [created(), released(1, "1.0.0")];
    assert_eq!(given_when::<Node>(&[], create(Some(draft(1, "1.0.0")))), Ok(history.to_vec()));
    let expected = NodeVersion::new(&draft(1, "1.0.0"), VersionStatus::Active, RECORDED_AT);
    assert_eq!(profile(&history).versions, [expected.into()]);
}

#[test]
fn a_taken_id_is_rejected_with_its_registered_form() {
    let fields = NodeFields::default();
    for owner in ["acme", "rival"] {
        let command = NodeCommand::Create {
            id: id("face-tools"),
            publisher: publisher(owner),
            fields: fields.clone(),
            admin_fields: NodeAdminFields::default(),
            first_version: None,
        };
        let rejected = given_when::<Node>(&[created()], command);
        assert_eq!(rejected, Err(NodeRejection::AlreadyExists { id: id("Face-Tools") }), "{owner}");
    }
}

#[test]
fn publishing_creates_a_new_node_whose_version_is_pending() {
    let history = [created(), published(1, "1.0.0")];
    let result = given_when::<Node>(&[], publish("acme", named("Face tools"), draft(1, "1.0.0")));
    assert_eq!(result, Ok(history.to_vec()));
    assert_eq!(profile(&history).versions[0].status, VersionStatus::Pending);
}

#[test]
fn publishing_revises_the_node_only_where_it_differs() {
    for fields in [NodeFields::default(), named("Face tools")] {
        let result = given_when::<Node>(&[created()], publish("acme", fields, draft(1, "1.0.0")));
        assert_eq!(result, Ok(vec![published(1, "1.0.0")]));
    }
    let result = given_when::<Node>(&[created()], publish("acme", named("Faces"), draft(1, "1.0.0")));
    assert_eq!(result, Ok(vec![NodeEvent::NodeRevised { change: named("Faces") }, published(1, "1.0.0")]));
}

#[test]
fn publishing_into_another_publishers_node_is_refused() {
    let result = given_when::<Node>(&[created()], publish("rival", full(), draft(1, "1.0.0")));
    assert_eq!(result, Err(NodeRejection::AlreadyExists { id: id("Face-Tools") }));
}

#[test]
fn a_version_number_is_unique_regardless_of_build_metadata() {
    let history = [created(), released(1, "1.0.0+a"), published(2, "2.0.0-rc.1")];
    for number in ["1.0.0", "1.0.0+a", "1.0.0+b", "2.0.0-rc.1", "2.0.0-rc.1+b"] {
        let result = given_when::<Node>(&history, publish("acme", NodeFields::default(), draft(3, number)));
        assert_eq!(result, Err(NodeRejection::VersionExists { number: SemVer::parse(number).unwrap() }));
    }
}

#[test]
fn versions_need_not_be_published_in_order() {
    let mut history = vec![created(), published(1, "2.0.0")];
    for (nth, number) in (2..).zip(["2.0.1", "1.0.0", "2.0.0-rc.1", "10.0.0"]) {
        let result = given_when::<Node>(&history, publish("acme", NodeFields::default(), draft(nth, number)));
        assert_eq!(result, Ok(vec![published(nth, number)]));
        history.push(published(nth, number));
    }
    let numbers: Vec<_> = profile(&history).versions.iter().map(|version| version.number.to_string()).collect();
    assert_eq!(numbers, ["2.0.0", "2.0.1", "1.0.0", "2.0.0-rc.1", "10.0.0"]);
}

#[test]
fn a_version_is_revised_by_its_id_or_its_number() {
    let history = [created(), released(1, "1.0.0+a"), published(2, "2.0.0")];
    for name in ["00000000-0000-0000-0000-000000000001", "1.0.0", "1.0.0+a", "1.0.0+b"] {
        let result = given_when::<Node>(&history, revise("acme", name, deprecation()));
        assert_eq!(result, Ok(vec![revised(1, deprecation())]), "{name}");
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
        let result = given_when::<Node>(history, revise(owner, name, deprecation()));
        assert_eq!(result, Err(rejection), "{owner} {name}");
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
        assert_eq!(given_when::<Node>(&history, revise("acme", "1.0.0", change)), Ok(vec![]));
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
        let mut state = state_after::<Node>(&[created(), released(1, "1.0.0")]);
        Node::evolve(&mut state, &change, NOW);
        let Node::Present(node) = state else { panic!("{change:?}") };
        assert_eq!((node.created_at, node.updated_at), (RECORDED_AT, NOW), "{change:?}");
        assert_eq!(node.versions[0].created_at, RECORDED_AT);
    }
}

#[test]
fn events_that_do_not_fit_change_nothing() {
    let before = state_after::<Node>(&[created(), released(1, "1.0.0")]);
    let second_creation = NodeEvent::NodeCreated { id: id("x"), publisher: publisher("rival"), fields: full() };
    for event in [second_creation, revised(9, deprecation())] {
        let mut state = before.clone();
        Node::evolve(&mut state, &event, NOW);
        assert_eq!(state, before, "{event:?}");
    }
    let events = [
        NodeEvent::NodeRevised { change: full() },
        released(1, "1.0.0"),
        published(1, "1.0.0"),
        revised(1, deprecation()),
    ];
    assert_eq!(state_after::<Node>(&events), Node::Unclaimed);
}

#[test]
fn only_events_of_the_aggregate_are_downcast() {
    let event = Event::from(created());
    assert_eq!((Node::downcast(&event), event.name()), (Some(&created()), "NodeCreated"));
    assert_eq!(crate::domain::user::User::downcast(&event), None);
}
