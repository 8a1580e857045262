//! Tests with many languages and the largest inputs of contract 4: no field is lost and every event fits into the log.

use super::*;
use crate::domain::decider::Decider;
use crate::domain::decider::testing::{NOW, given_when, state_after};
use crate::domain::ids::VersionId;
use crate::domain::node::{Node, NodeCommand, NodeProfile, TEXTS_MAX};
use crate::domain::value::{LIST_MAX, Label, Labels, Link, Text};
use crate::domain::version::{SemVer, VersionRef, VersionStatus};
use uuid::Uuid;

const ID: VersionId = VersionId(Uuid::from_u128(1));

fn acme() -> PublisherId {
    PublisherId::parse("acme").unwrap()
}

fn tools() -> NodeId {
    NodeId::parse("tools").unwrap()
}

fn text<const MAX: usize, const MULTILINE: bool>(text: &str) -> Text<MAX, MULTILINE> {
    Text::parse(text).unwrap()
}

fn created() -> NodeEvent {
    NodeEvent::NodeCreated { id: tools(), publisher: acme(), fields: NodeFields::default() }
}

fn draft(fields: VersionFields) -> VersionDraft {
    VersionDraft { id: ID, number: SemVer::parse("1.0.0").unwrap(), fields }
}

fn texts(name: &str) -> LocalizedTexts {
    if name.is_empty() { LocalizedTexts::new() } else { [(text::<200, true>("name"), text(name))].into() }
}

fn translations(languages: &[(&str, &str)]) -> Translations {
    languages.iter().map(|(language, name)| (text(language), texts(name))).collect()
}

fn translated(language: &str, name: &str) -> NodeEvent {
    NodeEvent::NodeTranslated { language: text(language), texts: texts(name) }
}

fn translate(history: &[NodeEvent], languages: Translations) -> NodeDecision {
    given_when::<Node>(history, NodeCommand::Translate { publisher: Some(acme()), translations: languages })
}

fn revise(change: NodeFields) -> NodeCommand {
    NodeCommand::Revise { publisher: acme(), change, admin_fields: NodeAdminFields::default() }
}

fn profile(history: &[NodeEvent]) -> NodeProfile {
    match state_after::<Node>(history) {
        Node::Present(profile) => *profile,
        Node::Unclaimed => panic!("the id is unclaimed"),
    }
}

#[test]
fn the_texts_of_a_language_replace_the_previous_ones() {
    let history = [created(), translated("de", "Werkzeug"), translated("fr", "Outils")];
    let requested = translations(&[("de", "Werkzeuge"), ("fr", "Outils"), ("it", "Attrezzi"), ("ja", "")]);
    let expected = [translated("de", "Werkzeuge"), translated("it", "Attrezzi")];

    assert_eq!(translate(&history, requested.clone()), Ok(expected.to_vec()));
    let change = NodeFields { translations: Some(requested), ..NodeFields::default() };
    assert_eq!(given_when::<Node>(&history, revise(change)), Ok(expected.to_vec()));

    let node = profile(&[&history[..], &expected].concat());
    let expected_translations = translations(&[("de", "Werkzeuge"), ("fr", "Outils"), ("it", "Attrezzi")]);
    assert_eq!(node.fields.translations, Some(expected_translations));
}

#[test]
fn a_node_is_created_with_admin_fields_and_translations() {
    let languages = Some(translations(&[("de", "Werkzeug"), ("fr", "")]));
    let fields = NodeFields { translations: languages, ..NodeFields::default() };
    let admin_fields = NodeAdminFields { downloads: Some(7), ..NodeAdminFields::default() };
    let command = NodeCommand::Create {
        id: tools(),
        publisher: acme(),
        fields,
        admin_fields: admin_fields.clone(),
        first_version: None,
    };
    let expected = [created(), translated("de", "Werkzeug"), NodeEvent::NodeAdministered { admin_fields }];
    assert_eq!(given_when::<Node>(&[], command), Ok(expected.to_vec()));
}

#[test]
fn a_language_without_texts_is_dropped() {
    let history = [created(), translated("de", "Werkzeug"), translated("fr", "Outils")];
    assert_eq!(translate(&history, translations(&[("de", "")])), Ok(vec![translated("de", "")]));
    let without_de = [&history[..], &[translated("de", "")]].concat();
    assert_eq!(profile(&without_de).fields.translations, Some(translations(&[("fr", "Outils")])));
    assert_eq!(profile(&[&without_de[..], &[translated("fr", "")]].concat()).fields.translations, None);
}

#[test]
fn the_number_of_languages_is_limited() {
    let names: Vec<_> = (0..=LANGUAGES_MAX).map(|index| format!("x-{index:03}")).collect();
    let languages: Vec<_> = names.iter().map(|name| (name.as_str(), "a")).collect();
    assert_eq!(translate(&[created()], translations(&languages)), Err(NodeRejection::TooManyLanguages));

    let mut history = vec![created()];
    history.extend(translate(&[created()], translations(&languages[..LANGUAGES_MAX])).unwrap());

    let first = names[0].as_str();
    let last = names[LANGUAGES_MAX].as_str();
    assert_eq!(translate(&history, translations(&[(last, "a")])), Err(NodeRejection::TooManyLanguages));
    let changed = Ok(vec![translated(first, "b")]);
    assert_eq!(translate(&history, translations(&[(first, "b")])), changed);
    let replaced = Ok(vec![translated(first, ""), translated(last, "a")]);
    assert_eq!(translate(&history, translations(&[(first, ""), (last, "a")])), replaced);
}

/// Returns the longest text of the field, in four-byte characters.
fn longest_text<const MAX: usize, const MULTILINE: bool>() -> Text<MAX, MULTILINE> {
    text(&"𝒳".repeat(MAX))
}

fn longest_labels() -> Labels {
    let entry: Label = text(&"𝒳".repeat(200));
    Labels::new(vec![entry; LIST_MAX]).unwrap()
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

#[test]
fn the_largest_node_and_version_are_created_whole() {
    let fields = largest_node();
    let admin_fields = largest_admin_fields();
    let first_version = Some(draft(largest_version()));
    let create = NodeCommand::Create {
        id: tools(),
        publisher: acme(),
        fields: fields.clone(),
        admin_fields: admin_fields.clone(),
        first_version,
    };

    let events = given_when::<Node>(&[], create).unwrap();
    assert!(fit_in_one_part(&events));
    assert_eq!(events.len(), 15, "7 of the node, 6 of the version, 2 of the admin fields");
    let node = profile(&events);
    assert_eq!((&*node.fields, &node.versions[0].fields), (&fields, &largest_version()));
    assert_eq!((&node.tags_admin, &node.status_detail), (&admin_fields.tags_admin, &admin_fields.status_detail));

    let publish = NodeCommand::Publish { id: tools(), publisher: acme(), fields, version: draft(largest_version()) };
    for history in [&[][..], &[created()]] {
        let events = given_when::<Node>(history, publish.clone()).unwrap();
        let node = profile(&[history, &events].concat());
        assert_eq!((&*node.fields, &node.versions[0].fields), (&largest_node(), &largest_version()));
        assert!(fit_in_one_part(&events));
    }
}

#[test]
fn the_largest_revisions_are_recorded_whole() {
    let history = vec![created(), NodeEvent::VersionPublished { version: draft(VersionFields::default()) }];
    let version = VersionRef::Id(ID);
    let change = largest_version();
    let admin_fields = largest_version_admin_fields();
    let commands = [
        revise(largest_node()),
        NodeCommand::ReviseVersion { publisher: acme(), version, change, admin_fields },
        NodeCommand::Administer { change: NodeFields::default(), admin_fields: largest_admin_fields(), status: None },
    ];

    let mut state = state_after::<Node>(&history);
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
    let deleted = NodeEvent::VersionStatusChanged { id: ID, status, reason: deletion_reason };
    let history = [created(), NodeEvent::VersionPublished { version: draft(VersionFields::default()) }, deleted];

    let administer = |change, admin_fields, status| {
        let version = VersionRef::Id(ID);
        let reason = Some(text("why"));
        given_when::<Node>(&history, NodeCommand::AdministerVersion { version, change, admin_fields, status, reason })
    };

    let change = VersionFields { deprecated: Some(true), ..VersionFields::default() };
    let admin_fields =
        VersionAdminFields { host_node_extract_status: Some(text("failed")), ..VersionAdminFields::default() };
    let reason_changed = NodeEvent::VersionStatusChanged { id: ID, status, reason: Some(text("why")) };

    for status in [None, Some(status)] {
        assert_eq!(
            administer(change.clone(), VersionAdminFields::default(), status),
            Err(NodeRejection::VersionDeleted)
        );
        assert_eq!(
            administer(VersionFields::default(), admin_fields.clone(), status),
            Err(NodeRejection::VersionDeleted)
        );
        assert_eq!(
            administer(VersionFields::default(), VersionAdminFields::default(), status),
            Ok(vec![reason_changed.clone()])
        );
    }
}

#[test]
fn the_largest_language_is_one_event() {
    let fields = (0..TEXTS_MAX).map(|index| (text(&format!("{index:02}{}", "𝒳".repeat(198))), text(&"𝒳".repeat(1000))));
    let texts: LocalizedTexts = fields.collect();
    let language: Label = text(&"𝒳".repeat(200));
    let events = translate(&[created()], [(language.clone(), texts.clone())].into()).unwrap();
    assert_eq!(events, [NodeEvent::NodeTranslated { language, texts }]);
}
