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
fn the_texts_of_a_language_replace_those_it_had() {
    let history = [created(), translated("de", "Werkzeug"), translated("fr", "Outils")];
    let asked = translations(&[("de", "Werkzeuge"), ("fr", "Outils"), ("it", "Attrezzi"), ("ja", "")]);
    let expected = [translated("de", "Werkzeuge"), translated("it", "Attrezzi")];
    assert_eq!(translate(&history, asked.clone()), Ok(expected.to_vec()));
    let change = NodeFields { translations: Some(asked), ..NodeFields::default() };
    assert_eq!(given_when::<Node>(&history, revise(change)), Ok(expected.to_vec()));
    let node = profile(&[&history[..], &expected].concat());
    let now = translations(&[("de", "Werkzeuge"), ("fr", "Outils"), ("it", "Attrezzi")]);
    assert_eq!(node.fields.translations, Some(now));
}

#[test]
fn a_node_is_created_with_its_facts_and_its_languages() {
    let languages = Some(translations(&[("de", "Werkzeug"), ("fr", "")]));
    let fields = NodeFields { translations: languages, ..NodeFields::default() };
    let facts = NodeAdminFields { downloads: Some(7), ..NodeAdminFields::default() };
    let command = NodeCommand::Create {
        id: tools(),
        publisher: acme(),
        fields,
        admin_fields: facts.clone(),
        first_version: None,
    };
    let expected = [created(), translated("de", "Werkzeug"), NodeEvent::NodeAdministered { admin_fields: facts }];
    assert_eq!(given_when::<Node>(&[], command), Ok(expected.to_vec()));
}

#[test]
fn a_language_without_texts_is_dropped() {
    let history = [created(), translated("de", "Werkzeug"), translated("fr", "Outils")];
    assert_eq!(translate(&history, translations(&[("de", "")])), Ok(vec![translated("de", "")]));
    let one = [&history[..], &[translated("de", "")]].concat();
    assert_eq!(profile(&one).fields.translations, Some(translations(&[("fr", "Outils")])));
    assert_eq!(profile(&[&one[..], &[translated("fr", "")]].concat()).fields.translations, None);
}

#[test]
fn a_node_has_a_number_of_languages() {
    let names: Vec<_> = (0..=LANGUAGES_MAX).map(|nth| format!("x-{nth:03}")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), "a")).collect();
    assert_eq!(translate(&[created()], translations(&all)), Err(NodeRejection::TooManyLanguages));
    let mut history = vec![created()];
    history.extend(translate(&[created()], translations(&all[..LANGUAGES_MAX])).unwrap());
    let first = names[0].as_str();
    let last = names[LANGUAGES_MAX].as_str();
    assert_eq!(translate(&history, translations(&[(last, "a")])), Err(NodeRejection::TooManyLanguages));
    let changed = Ok(vec![translated(first, "b")]);
    assert_eq!(translate(&history, translations(&[(first, "b")])), changed);
    let exchanged = Ok(vec![translated(first, ""), translated(last, "a")]);
    assert_eq!(translate(&history, translations(&[(first, ""), (last, "a")])), exchanged);
}

/// Returns the longest text of the field, in four-byte characters.
fn widest<const MAX: usize, const MULTILINE: bool>() -> Text<MAX, MULTILINE> {
    text(&"𝒳".repeat(MAX))
}

fn longest() -> Labels {
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
        author: Some(widest()),
        banner_url: Some(link()),
        category: Some(widest()),
        description: Some(widest()),
        icon: Some(link()),
        license: Some(widest()),
        name: Some(widest()),
        preempted_host_node_names: Some(longest()),
        repository: Some(link()),
        supported_accelerators: Some(longest()),
        supported_host_frontend_version: Some(widest()),
        supported_host_version: Some(widest()),
        supported_os: Some(longest()),
        tags: Some(longest()),
        translations: None,
    }
}

fn largest_version() -> VersionFields {
    VersionFields {
        changelog: Some(widest()),
        dependencies: Some(longest()),
        deprecated: Some(true),
        supported_accelerators: Some(longest()),
        supported_host_frontend_version: Some(widest()),
        supported_host_version: Some(widest()),
        supported_os: Some(longest()),
        tags: Some(longest()),
    }
}

fn largest_facts() -> NodeAdminFields {
    NodeAdminFields { status_detail: Some(widest()), tags_admin: Some(longest()), ..NodeAdminFields::default() }
}

fn largest_version_facts() -> VersionAdminFields {
    VersionAdminFields { created_at: Some(NOW), tags_admin: Some(longest()), host_node_extract_status: Some(widest()) }
}

/// Returns `true` if no event can be split further.
fn are_split(events: &[NodeEvent]) -> bool {
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
    let facts = largest_facts();
    let first = Some(draft(largest_version()));
    let create = NodeCommand::Create {
        id: tools(),
        publisher: acme(),
        fields: fields.clone(),
        admin_fields: facts.clone(),
        first_version: first,
    };
    let events = given_when::<Node>(&[], create).unwrap();
    assert!(are_split(&events));
    assert_eq!(events.len(), 15, "7 of the node, 6 of the version, 2 of the facts");
    let node = profile(&events);
    assert_eq!((&*node.fields, &node.versions[0].fields), (&fields, &largest_version()));
    assert_eq!((&node.tags_admin, &node.status_detail), (&facts.tags_admin, &facts.status_detail));
    let publish = NodeCommand::Publish { id: tools(), publisher: acme(), fields, version: draft(largest_version()) };
    for history in [&[][..], &[created()]] {
        let events = given_when::<Node>(history, publish.clone()).unwrap();
        let node = profile(&[history, &events].concat());
        assert_eq!((&*node.fields, &node.versions[0].fields), (&largest_node(), &largest_version()));
        assert!(are_split(&events));
    }
}

#[test]
fn the_largest_revisions_are_recorded_whole() {
    let history = vec![created(), NodeEvent::VersionPublished { version: draft(VersionFields::default()) }];
    let version = VersionRef::Id(ID);
    let change = largest_version();
    let facts = largest_version_facts();
    let commands = [
        revise(largest_node()),
        NodeCommand::ReviseVersion { publisher: acme(), version, change, admin_fields: facts },
        NodeCommand::Administer { change: NodeFields::default(), admin_fields: largest_facts(), status: None },
    ];
    let mut state = state_after::<Node>(&history);
    let mut all = history;
    for command in commands {
        for event in Node::decide(&state, command, NOW).unwrap() {
            Node::evolve(&mut state, &event, NOW);
            all.push(event);
        }
    }
    assert!(are_split(&all));
    let node = profile(&all);
    assert_eq!((&*node.fields, &node.versions[0].fields), (&largest_node(), &largest_version()));
    assert_eq!((node.tags_admin, node.versions[0].admin_fields()), (Some(longest()), largest_version_facts()));
}

#[test]
fn of_a_deleted_version_an_administrator_changes_the_reason_alone() {
    let status = VersionStatus::Deleted;
    let because = Some(text("because"));
    let deleted = NodeEvent::VersionStatusChanged { id: ID, status, reason: because };
    let history = [created(), NodeEvent::VersionPublished { version: draft(VersionFields::default()) }, deleted];
    let put = |change, facts, status| {
        let version = VersionRef::Id(ID);
        let reason = Some(text("why"));
        given_when::<Node>(
            &history,
            NodeCommand::AdministerVersion { version, change, admin_fields: facts, status, reason },
        )
    };
    let change = VersionFields { deprecated: Some(true), ..VersionFields::default() };
    let facts = VersionAdminFields { host_node_extract_status: Some(text("failed")), ..VersionAdminFields::default() };
    let reasoned = NodeEvent::VersionStatusChanged { id: ID, status, reason: Some(text("why")) };
    for status in [None, Some(status)] {
        assert_eq!(put(change.clone(), VersionAdminFields::default(), status), Err(NodeRejection::VersionDeleted));
        assert_eq!(put(VersionFields::default(), facts.clone(), status), Err(NodeRejection::VersionDeleted));
        assert_eq!(put(VersionFields::default(), VersionAdminFields::default(), status), Ok(vec![reasoned.clone()]));
    }
}

#[test]
fn the_largest_language_is_one_event() {
    let fields = (0..TEXTS_MAX).map(|nth| (text(&format!("{nth:02}{}", "𝒳".repeat(198))), text(&"𝒳".repeat(1000))));
    let texts: LocalizedTexts = fields.collect();
    let language: Label = text(&"𝒳".repeat(200));
    let events = translate(&[created()], [(language.clone(), texts.clone())].into()).unwrap();
    assert_eq!(events, [NodeEvent::NodeTranslated { language, texts }]);
}
