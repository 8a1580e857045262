//! Applies events to a node.

use std::sync::Arc;

use super::{LocalizedTexts, NodeAdminFields, NodeEvent, NodeFields, NodeProfile, NodeStatus, Reviews};
use crate::domain::ids::{NodeId, PublisherId, VersionId};
use crate::domain::value::{Label, Text, Timestamp};
use crate::domain::version::{NodeVersion, VersionStatus};

/// Returns the text, or `None` if it is empty.
fn non_empty(detail: Text<1000>) -> Option<Text<1000>> {
    Some(detail).filter(|detail| !detail.as_str().is_empty())
}

impl NodeProfile {
    pub(super) fn new(id: &NodeId, publisher: &PublisherId, fields: &NodeFields, at: Timestamp) -> Self {
        Self {
            id: id.clone(),
            publisher: publisher.clone(),
            fields: Arc::new(fields.clone()),
            versions: Vec::new(),
            status: NodeStatus::Active,
            status_detail: None,
            downloads: 0,
            github_stars: None,
            search_ranking: None,
            tags_admin: None,
            reviews: Reviews::default(),
            admin_rating: None,
            created_at: at,
            updated_at: at,
        }
    }

    /// Applies an event. One that does not fit the state is ignored and leaves `updated_at` unchanged.
    pub(super) fn evolve(&mut self, event: &NodeEvent, at: Timestamp) {
        if self.status != NodeStatus::Deleted && self.apply(event, at) {
            self.updated_at = at;
        }
    }

    /// Applies an event; returns `true` if it updates `updated_at`.
    fn apply(&mut self, event: &NodeEvent, at: Timestamp) -> bool {
        match event {
            NodeEvent::NodeCreated { .. } => return false,
            NodeEvent::NodeRevised { change } => Arc::make_mut(&mut self.fields).apply(change),
            NodeEvent::NodeAdministered { admin_fields } => return self.apply_admin_fields(admin_fields),
            NodeEvent::NodeTranslated { language, texts } => self.apply_translation(language, texts),
            NodeEvent::NodeBanned { reason } => {
                self.status = NodeStatus::Banned;
                self.status_detail = non_empty(reason.clone());
            }
            NodeEvent::NodeUnbanned { .. } => {
                self.status = NodeStatus::Active;
                self.status_detail = None;
            }
            NodeEvent::NodeDeleted => self.status = NodeStatus::Deleted,
            NodeEvent::NodeReviewed { user, stars } => self.reviews.set(*user, *stars),
            NodeEvent::DownloadsCounted { count } => {
                self.downloads = self.downloads.saturating_add(*count);
                return false;
            }
            NodeEvent::VersionReleased { version } => {
                self.versions.push(Arc::new(NodeVersion::new(version, VersionStatus::Active, at)));
            }
            NodeEvent::VersionPublished { version } => {
                self.versions.push(Arc::new(NodeVersion::new(version, VersionStatus::Pending, at)));
            }
            NodeEvent::VersionRevised { id, .. }
            | NodeEvent::VersionStatusChanged { id, .. }
            | NodeEvent::VersionAdministered { id, .. }
            | NodeEvent::ArchiveStored { version: id, .. } => return self.apply_to_version(*id, event),
        }
        true
    }

    fn apply_to_version(&mut self, id: VersionId, event: &NodeEvent) -> bool {
        let Some(version) = self.versions.iter_mut().find(|version| version.id == id) else { return false };
        let version = Arc::make_mut(version);

        match event {
            NodeEvent::VersionRevised { change, .. } => version.fields.apply(change),
            NodeEvent::VersionAdministered { admin_fields, .. } => version.apply_admin_fields(admin_fields),
            NodeEvent::ArchiveStored { archive, .. } => version.archive = Some(*archive),
            NodeEvent::VersionStatusChanged { status, reason, .. }
                if version.status == *status || version.status.can_transition_to(*status) =>
            {
                version.status = *status;
                version.status_reason.clone_from(reason);
            }
            _ => return false,
        }
        true
    }

    /// Applies admin fields; returns `true` if more than the number of downloads was set.
    fn apply_admin_fields(&mut self, admin_fields: &NodeAdminFields) -> bool {
        let mut merged = self.admin_fields();
        merged.apply(admin_fields);
        self.created_at = merged.created_at.unwrap_or(self.created_at);
        self.downloads = merged.downloads.unwrap_or(self.downloads);
        self.admin_rating = merged.rating;
        self.github_stars = merged.github_stars;
        self.search_ranking = merged.search_ranking;
        self.tags_admin = merged.tags_admin;
        self.status_detail = merged.status_detail.and_then(non_empty);
        *admin_fields != NodeAdminFields { downloads: admin_fields.downloads, ..NodeAdminFields::default() }
    }

    fn apply_translation(&mut self, language: &Label, texts: &LocalizedTexts) {
        let fields = Arc::make_mut(&mut self.fields);
        let mut translations = fields.translations.take().unwrap_or_default();
        if texts.is_empty() {
            translations.remove(language);
        } else {
            translations.insert(language.clone(), texts.clone());
        }
        fields.translations = Some(translations).filter(|translations| !translations.is_empty());
    }
}

#[cfg(test)]
mod tests;
