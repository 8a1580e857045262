//! Largest inputs that contract 4 allows: they are recorded in full and survive a restart (ADR 5).

use mediary::domain::decider::Decider;
use mediary::domain::ids::{EventId, NodeId, PublisherId, VersionId};
use mediary::domain::node::{LocalizedTexts, Node, NodeAdminFields, NodeCommand, NodeEvent, NodeFields, TEXTS_MAX};
use mediary::domain::value::{LIST_MAX, Labels, Text, TextList};
use mediary::domain::version::{Dependencies, SemVer, VersionAdminFields, VersionDraft, VersionFields, VersionRef};
use mediary::environment::Environment;
use mediary::events::codec;
use mediary::events::envelope::{Append, NewEvent};
use mediary::events::log::EVENT_BYTES_MAX;
use mediary::events::stream::{Position, StreamId, Version};
use serde_json::json;

use crate::samples;
use crate::support::TestApp;

/// Character of four bytes in UTF-8.
const WIDE: &str = "𝒳";

fn widest<const MAX: usize, const MULTILINE: bool>() -> Text<MAX, MULTILINE> {
    Text::parse(WIDE.repeat(MAX)).unwrap()
}

fn longest_labels() -> Labels {
    Labels::new(vec![widest(); LIST_MAX]).unwrap()
}

/// `true` if the log accepts these events as one append.
fn fits_into_append(events: Vec<NodeEvent>) -> bool {
    let new = |(index, event): (u128, NodeEvent)| NewEvent { id: EventId(samples::id(index)), event: event.into() };
    let append = Append {
        stream: StreamId::from(&NodeId::parse("tools").unwrap().key()),
        expected: Version(1 << 40),
        context: samples::command_context(),
        events: (0..).zip(events).map(new).collect(),
        guards: Vec::new(),
    };
    codec::encode(&append.into_commit(Position(1 << 40)), &mut Vec::new()).is_ok()
}

fn decide(history: &[NodeEvent], command: NodeCommand) -> Vec<NodeEvent> {
    let mut state = Node::default();
    for event in history {
        Node::evolve(&mut state, event, samples::AT);
    }
    Node::decide(&state, command, samples::AT).unwrap()
}

fn creation() -> NodeCommand {
    NodeCommand::Create {
        id: NodeId::parse(&"x".repeat(100)).unwrap(),
        publisher: PublisherId::parse(&"x".repeat(63)).unwrap(),
        fields: NodeFields {
            author: Some(widest()),
            category: Some(widest()),
            description: Some(widest()),
            license: Some(widest()),
            name: Some(widest()),
            preempted_host_node_names: Some(longest_labels()),
            supported_accelerators: Some(longest_labels()),
            supported_os: Some(longest_labels()),
            tags: Some(longest_labels()),
            ..NodeFields::default()
        },
        admin_fields: NodeAdminFields {
            status_detail: Some(widest()),
            tags_admin: Some(longest_labels()),
            ..NodeAdminFields::default()
        },
        first_version: Some(VersionDraft {
            id: VersionId(samples::id(1)),
            number: SemVer::parse("1.0.0").unwrap(),
            fields: VersionFields {
                changelog: Some(widest()),
                dependencies: Some(TextList::from_recorded(vec![WIDE.repeat(200); LIST_MAX])),
                supported_accelerators: Some(longest_labels()),
                supported_os: Some(longest_labels()),
                tags: Some(longest_labels()),
                ..VersionFields::default()
            },
        }),
    }
}

#[test]
fn the_largest_version_fits_into_the_log() {
    let mut events = decide(&[], creation());
    let administered = NodeCommand::AdministerVersion {
        version: VersionRef::Id(VersionId(samples::id(1))),
        change: VersionFields::default(),
        admin_fields: VersionAdminFields { tags_admin: Some(longest_labels()), ..VersionAdminFields::default() },
        status: None,
        reason: None,
    };
    events.extend(decide(&events, administered));
    let largest = events.iter().filter(|event| !fits_into_append(vec![(*event).clone()])).map(NodeEvent::name);
    assert_eq!(largest.collect::<Vec<_>>(), [""; 0], "events that are too large");
    assert!(fits_into_append(events), "all together are too large");
}

#[test]
fn the_longest_dependencies_are_recorded_over_several_events() {
    // Given a version with the most and longest dependencies
    let dependencies: Dependencies = TextList::new(vec![Text::parse("x".repeat(1000)).unwrap(); 500]).unwrap();
    let fields = VersionFields { dependencies: Some(dependencies.clone()), ..VersionFields::default() };
    let NodeCommand::Create { id, publisher, first_version: Some(version), .. } = creation() else { unreachable!() };
    let first_version = Some(VersionDraft { fields: fields.clone(), ..version });
    let fields_of_node = NodeFields::default();
    let admin_fields = NodeAdminFields::default();

    // When it is released, and its dependencies are replaced and set again
    let creation = NodeCommand::Create { id, publisher, fields: fields_of_node, admin_fields, first_version };
    let mut events = decide(&[], creation);
    let revise = |dependencies| NodeCommand::AdministerVersion {
        version: VersionRef::Id(VersionId(samples::id(1))),
        change: VersionFields { dependencies: Some(dependencies), ..VersionFields::default() },
        admin_fields: VersionAdminFields::default(),
        status: None,
        reason: None,
    };
    let released = events.clone();
    events.extend(decide(&events, revise(TextList::from_recorded(vec!["numpy".to_owned()]))));
    let replaced = decide(&events, revise(dependencies.clone()));
    events.extend(replaced.clone());

    // Then each time all of them fit into the log, and none is missing or doubled
    assert!(fits_into_append(released) && fits_into_append(replaced));
    let mut node = Node::default();
    for event in &events {
        Node::evolve(&mut node, event, samples::AT);
    }
    let Node::Present(node) = node else { panic!("the node exists") };
    assert_eq!(node.versions[0].fields, fields);
}

#[test]
fn the_largest_translation_fits_into_an_event() {
    let field = |index: usize| Text::parse(format!("{index:04}{}", WIDE.repeat(196))).unwrap();
    let texts: LocalizedTexts = (0..TEXTS_MAX).map(|index| (field(index), widest())).collect();
    let event = NodeEvent::NodeTranslated { language: widest(), texts };
    assert!(fits_into_append(vec![event]), "at most {EVENT_BYTES_MAX} bytes");
}

#[actix_web::test]
async fn the_largest_fields_survive_a_restart_unchanged() {
    let app = TestApp::start().await;
    let admin = app.admin_token().to_owned();
    let list = vec![WIDE.repeat(200); LIST_MAX];
    let (description, changelog) = (WIDE.repeat(10_000), WIDE.repeat(20_000));
    let publisher = json!({"id": "acme", "name": WIDE.repeat(200), "description": description});
    app.post_as(&admin, "/publishers", publisher).await.expect(201);

    let node = json!({
        "id": "large", "description": WIDE.repeat(1000), "preempted_host_node_names": list, "tags": list,
        "supported_accelerators": list, "supported_os": list,
        "latest_version": {
            "version": "1.0.0", "changelog": changelog, "dependencies": list, "tags": list,
            "supported_accelerators": list, "supported_os": list,
        },
    });
    let created = app.post_as(&admin, "/publishers/acme/nodes", node.clone()).await.expect(201).json();
    for field in ["description", "preempted_host_node_names", "tags", "supported_accelerators", "supported_os"] {
        assert!(created[field] == node[field], "{field}");
    }

    for field in ["changelog", "dependencies", "tags", "supported_accelerators", "supported_os"] {
        assert!(created["latest_version"][field] == node["latest_version"][field], "{field}");
    }

    let app = TestApp::start_in(app.stop().await, |_| {}, Environment::system()).await;
    assert!(app.get("/nodes/large").await.expect(200).json() == created, "the node has changed");

    let publisher = app.get("/publishers/acme").await.expect(200).json();
    assert_eq!(publisher["description"].as_str().map(|text| text.chars().count()), Some(10_000));
    app.stop().await;
}
