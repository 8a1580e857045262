//! Events for the fields of nodes and versions, split so that each fits into the log (ADR 5).

use super::Events;
use crate::domain::ids::{NodeId, PublisherId};
use crate::domain::node::{LANGUAGES_MAX, NodeEvent, NodeFacts, NodeFields, NodeRejection, Texts, Translations};
use crate::domain::version::{NodeVersion, VersionDraft, VersionFacts, VersionFields};

pub(super) fn creation(id: NodeId, publisher: PublisherId, mut fields: NodeFields, facts: NodeFacts) -> Events {
    let translated = translation(fields.translations.take().unwrap_or_default(), &Translations::new())?;
    let mut parts = fields.split().into_iter();
    let fields = parts.next().unwrap_or_default();
    let mut events = vec![NodeEvent::NodeCreated { id, publisher, fields }];
    events.extend(parts.map(|change| NodeEvent::NodeRevised { change }));
    events.extend(translated);
    events.extend(administration(facts, &NodeFacts::default()));
    Ok(events)
}

pub(super) fn registration(mut version: VersionDraft, register: fn(VersionDraft) -> NodeEvent) -> Vec<NodeEvent> {
    let id = version.id;
    let mut parts = version.fields.split().into_iter();
    version.fields = parts.next().unwrap_or_default();
    let mut events = vec![register(version)];
    events.extend(parts.map(|change| NodeEvent::VersionRevised { id, change }));
    events
}

pub(super) fn released(version: VersionDraft) -> NodeEvent {
    NodeEvent::VersionReleased { version }
}

pub(super) fn published(version: VersionDraft) -> NodeEvent {
    NodeEvent::VersionPublished { version }
}

pub(super) fn administration(facts: NodeFacts, current: &NodeFacts) -> Vec<NodeEvent> {
    facts.changing(current).into_iter().map(|facts| NodeEvent::NodeAdministered { facts }).collect()
}

/// Returns one event per language whose texts change.
pub(super) fn translation(translations: Translations, current: &Translations) -> Events {
    let differs = |(language, texts): &(_, Texts)| match current.get(language) {
        Some(known) => known != texts,
        None => !texts.is_empty(),
    };

    let changed: Translations = translations.into_iter().filter(differs).collect();
    let added = changed.keys().filter(|language| !current.contains_key(*language)).count();
    let dropped = changed.values().filter(|texts| texts.is_empty()).count();
    if added > 0 && current.len() + added - dropped > LANGUAGES_MAX {
        return Err(NodeRejection::TooManyLanguages);
    }
    Ok(changed.into_iter().map(|(language, texts)| NodeEvent::NodeTranslated { language, texts }).collect())
}

pub(super) fn revision_of(version: &NodeVersion, change: VersionFields, facts: VersionFacts) -> Vec<NodeEvent> {
    let id = version.id;
    let revised = change.changing(&version.fields).into_iter();
    let administered = facts.changing(&version.facts()).into_iter();
    let revised = revised.map(|change| NodeEvent::VersionRevised { id, change });
    revised.chain(administered.map(|facts| NodeEvent::VersionAdministered { id, facts })).collect()
}

#[cfg(test)]
mod tests;
