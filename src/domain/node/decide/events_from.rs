//! Events for the fields of nodes and versions, split so that each fits into the log (ADR 5).

use super::NodeDecision;
use crate::domain::ids::{NodeId, PublisherId};
use crate::domain::node::{
    LANGUAGES_MAX, LocalizedTexts, NodeAdminFields, NodeEvent, NodeFields, NodeRejection, Translations,
};
use crate::domain::version::{NodeVersion, VersionAdminFields, VersionDraft, VersionFields};

/// Returns the events that create a node; the first one contains as many fields as fit into it.
pub(super) fn creation_events(
    id: NodeId,
    publisher: PublisherId,
    mut fields: NodeFields,
    admin_fields: NodeAdminFields,
) -> NodeDecision {
    let translated = translation_events(fields.translations.take().unwrap_or_default(), &Translations::new())?;

    let mut parts = fields.split().into_iter();
    let fields = parts.next().unwrap_or_default();

    let mut events = vec![NodeEvent::NodeCreated { id, publisher, fields }];
    events.extend(parts.map(|change| NodeEvent::NodeRevised { change }));
    events.extend(translated);
    events.extend(admin_field_events(admin_fields, &NodeAdminFields::default()));
    Ok(events)
}

/// Returns the events that register a version. `register` creates the first one, which contains as many fields as fit.
pub(super) fn registration_events(
    mut version: VersionDraft,
    register: fn(VersionDraft) -> NodeEvent,
) -> Vec<NodeEvent> {
    let id = version.id;
    let mut parts = version.fields.split().into_iter();
    version.fields = parts.next().unwrap_or_default();
    let mut events = vec![register(version)];
    events.extend(parts.map(|change| NodeEvent::VersionRevised { id, change }));
    events
}

pub(super) fn version_released(version: VersionDraft) -> NodeEvent {
    NodeEvent::VersionReleased { version }
}

pub(super) fn version_published(version: VersionDraft) -> NodeEvent {
    NodeEvent::VersionPublished { version }
}

pub(super) fn admin_field_events(admin_fields: NodeAdminFields, current: &NodeAdminFields) -> Vec<NodeEvent> {
    admin_fields
        .changing(current)
        .into_iter()
        .map(|admin_fields| NodeEvent::NodeAdministered { admin_fields })
        .collect()
}

/// Returns one event per language whose texts change.
pub(super) fn translation_events(translations: Translations, current: &Translations) -> NodeDecision {
    let has_changed = |(language, texts): &(_, LocalizedTexts)| match current.get(language) {
        Some(existing) => existing != texts,
        None => !texts.is_empty(),
    };

    let changed: Translations = translations.into_iter().filter(has_changed).collect();
    let added = changed.keys().filter(|language| !current.contains_key(*language)).count();
    let removed = changed.values().filter(|texts| texts.is_empty()).count();
    if added > 0 && current.len() + added - removed > LANGUAGES_MAX {
        return Err(NodeRejection::TooManyLanguages);
    }
    Ok(changed.into_iter().map(|(language, texts)| NodeEvent::NodeTranslated { language, texts }).collect())
}

pub(super) fn version_revision_events(
    version: &NodeVersion,
    change: VersionFields,
    admin_fields: VersionAdminFields,
) -> Vec<NodeEvent> {
    let id = version.id;
    let changes = change.changing(&version.fields).into_iter();
    let admin_changes = admin_fields.changing(&version.admin_fields()).into_iter();

    let revised = changes.map(|change| NodeEvent::VersionRevised { id, change });
    let administered = admin_changes.map(|admin_fields| NodeEvent::VersionAdministered { id, admin_fields });
    revised.chain(administered).collect()
}

#[cfg(test)]
mod tests;
