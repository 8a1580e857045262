//! Decides the commands of a node.

use events_from::{
    admin_field_events, creation_events, registration_events, translation_events, version_published, version_released,
    version_revision_events,
};

use super::batch::decide_batch;
use super::{
    Node, NodeAdminFields, NodeCommand, NodeEvent, NodeFields, NodeProfile, NodeRejection, NodeStatus, Stars,
    Translations,
};
use crate::domain::ids::{PublisherId, UserId, VersionId};
use crate::domain::value::{Reason, Timestamp, Transition};
use crate::domain::version::{
    Archive, NodeVersion, VersionAdminFields, VersionDraft, VersionFields, VersionRef, VersionStatus,
};

mod events_from;

type NodeDecision = Result<Vec<NodeEvent>, NodeRejection>;

/// Decides a command while the id is free.
pub(super) fn decide_initial(command: NodeCommand, now: Timestamp) -> NodeDecision {
    match command {
        NodeCommand::Create { id, publisher, fields, admin_fields, first_version } => {
            let mut events = creation_events(id, publisher, fields, admin_fields)?;
            events.extend(first_version.into_iter().flat_map(|version| registration_events(version, version_released)));
            Ok(events)
        }
        NodeCommand::Publish { id, publisher, fields, version } => {
            let mut events = creation_events(id, publisher, fields, NodeAdminFields::default())?;
            events.extend(registration_events(version, version_published));
            Ok(events)
        }
        NodeCommand::Batch(commands) => decide_batch(Node::Unclaimed, commands, now),
        _ => Err(NodeRejection::NotFound),
    }
}

/// Returns the reason, or `None` if it is empty.
fn non_empty(reason: Reason) -> Option<Reason> {
    Some(reason).filter(|reason| !reason.as_str().is_empty())
}

impl NodeProfile {
    /// Decides a command on a node that exists or is deleted.
    pub(super) fn decide(&self, command: NodeCommand, now: Timestamp) -> NodeDecision {
        match command {
            NodeCommand::Create { .. } => Err(NodeRejection::AlreadyExists { id: self.id.clone() }),
            NodeCommand::Batch(commands) => decide_batch(Node::Present(Box::new(self.clone())), commands, now),
            _ if self.status == NodeStatus::Deleted => Err(NodeRejection::NotFound),
            NodeCommand::Revise { publisher, change, admin_fields } => {
                self.check_owner(Some(&publisher))?;
                Ok([self.revision_events(change)?, admin_field_events(admin_fields, &self.admin_fields())].concat())
            }
            NodeCommand::Publish { publisher, fields, version, .. } => self.publish(&publisher, fields, version),
            NodeCommand::ReviseVersion { publisher, version, change, admin_fields } => {
                self.check_owner(Some(&publisher))?;
                Ok(version_revision_events(self.existing_version(&version)?, change, admin_fields))
            }
            NodeCommand::SetVersionStatus { publisher, version, status, reason } => {
                self.set_version_status(publisher.as_ref(), &version, status, reason)
            }
            NodeCommand::StoreArchive { version, archive, hold } => self.store_archive(version, archive, hold),
            NodeCommand::Administer { change, admin_fields, status } => self.administer(change, admin_fields, status),
            NodeCommand::AdministerVersion { version, change, admin_fields, status, reason } => {
                let version = self.version(&version).ok_or(NodeRejection::VersionNotFound)?;
                administer_version(version, change, admin_fields, status, reason)
            }
            NodeCommand::Ban { reason } => self.change_status(NodeStatus::Banned, reason),
            NodeCommand::Unban { reason } => self.change_status(NodeStatus::Active, reason),
            NodeCommand::Delete { publisher } => {
                self.check_owner(publisher.as_ref())?;
                self.change_status(NodeStatus::Deleted, Reason::default())
            }
            NodeCommand::Review { user, stars } => self.review(user, stars),
            NodeCommand::Translate { publisher, translations } => {
                self.check_owner(publisher.as_ref())?;
                self.check_not_banned()?;
                translation_events(translations, self.translations())
            }
            NodeCommand::CountDownloads { count } => {
                Ok((count > 0).then_some(NodeEvent::DownloadsCounted { count }).into_iter().collect())
            }
        }
    }

    /// Checks that a publisher owns the node and that it is not banned. An administrator (`None`) always passes.
    fn check_owner(&self, publisher: Option<&PublisherId>) -> Result<(), NodeRejection> {
        match publisher {
            None => Ok(()),
            Some(publisher) if *publisher == self.publisher => self.check_not_banned(),
            Some(_) => Err(NodeRejection::NotFound),
        }
    }

    fn check_not_banned(&self) -> Result<(), NodeRejection> {
        if self.status == NodeStatus::Banned {
            return Err(NodeRejection::Banned { reason: self.status_detail.clone() });
        }
        Ok(())
    }

    /// Returns the named version unless it is deleted.
    fn existing_version(&self, reference: &VersionRef) -> Result<&NodeVersion, NodeRejection> {
        let version = self.version(reference).filter(|version| version.status != VersionStatus::Deleted);
        version.ok_or(NodeRejection::VersionNotFound)
    }

    fn translations(&self) -> &Translations {
        static NONE: Translations = Translations::new();
        self.fields.translations.as_ref().unwrap_or(&NONE)
    }

    fn revision_events(&self, mut change: NodeFields) -> NodeDecision {
        let translated = translation_events(change.translations.take().unwrap_or_default(), self.translations())?;
        let revised = change.changing(&self.fields).into_iter().map(|change| NodeEvent::NodeRevised { change });
        Ok(revised.chain(translated).collect())
    }

    fn publish(&self, publisher: &PublisherId, fields: NodeFields, version: VersionDraft) -> NodeDecision {
        if self.publisher != *publisher {
            return Err(NodeRejection::AlreadyExists { id: self.id.clone() });
        }
        self.check_not_banned()?;
        if self.versions.iter().any(|existing| existing.number.has_same_precedence(&version.number)) {
            return Err(NodeRejection::VersionExists { number: version.number });
        }
        Ok([self.revision_events(fields)?, registration_events(version, version_published)].concat())
    }

    fn set_version_status(
        &self,
        publisher: Option<&PublisherId>,
        version: &VersionRef,
        status: VersionStatus,
        reason: Option<Reason>,
    ) -> NodeDecision {
        self.check_owner(publisher)?;
        let version = match publisher {
            Some(_) => self.existing_version(version)?,
            None => self.version(version).ok_or(NodeRejection::VersionNotFound)?,
        };
        Ok(version_status_event(version, status, reason)?.into_iter().collect())
    }

    fn store_archive(&self, id: VersionId, archive: Archive, hold: bool) -> NodeDecision {
        self.check_not_banned()?;
        let version = self.existing_version(&VersionRef::Id(id))?;

        if version.archive.is_some() {
            return Err(NodeRejection::ArchiveExists);
        }

        let stored = NodeEvent::ArchiveStored { version: id, archive };
        match version.status {
            // An Active version is downloadable at once, which would bypass moderation.
            VersionStatus::Active if hold => Err(NodeRejection::ReleasedWithoutArchive),
            VersionStatus::Active => Ok(vec![stored]),
            VersionStatus::Pending if hold => Ok(vec![stored]),
            VersionStatus::Pending => {
                let status_changed = version_status_event(version, VersionStatus::Active, None)?;
                Ok(std::iter::once(stored).chain(status_changed).collect())
            }
            from => Err(illegal_transition("node version", from.as_str(), VersionStatus::Active.as_str())),
        }
    }

    /// Changes a node as an administrator. The change of the status precedes that of the other admin fields, so that it
    /// does not overwrite a detail set with it; a deletion comes last, because no event may follow it.
    fn administer(
        &self,
        change: NodeFields,
        admin_fields: NodeAdminFields,
        status: Option<NodeStatus>,
    ) -> NodeDecision {
        let revised = self.revision_events(change)?;

        let detail = admin_fields.status_detail.clone().unwrap_or_default();
        let status_changed = match status.filter(|status| *status != self.status) {
            Some(status) => self.change_status(status, detail)?,
            None => Vec::new(),
        };

        let administered = admin_field_events(admin_fields, &self.admin_fields());
        if status == Some(NodeStatus::Deleted) {
            return Ok([revised, administered, status_changed].concat());
        }
        Ok([revised, status_changed, administered].concat())
    }

    /// Changes the status: Active to Banned and back, Active to Deleted (contract 4).
    fn change_status(&self, to: NodeStatus, reason: Reason) -> NodeDecision {
        match (self.status, to) {
            (NodeStatus::Active, NodeStatus::Banned) if non_empty(reason.clone()).is_none() => {
                Err(NodeRejection::BanWithoutReason)
            }
            (NodeStatus::Active, NodeStatus::Banned) => Ok(vec![NodeEvent::NodeBanned { reason }]),
            (NodeStatus::Active, NodeStatus::Deleted) => Ok(vec![NodeEvent::NodeDeleted]),
            (NodeStatus::Banned, NodeStatus::Active) => Ok(vec![NodeEvent::NodeUnbanned { reason }]),
            (from, to) => Err(illegal_transition("node", from.as_str(), to.as_str())),
        }
    }

    fn review(&self, user: UserId, stars: Stars) -> NodeDecision {
        self.check_not_banned()?;
        let is_unchanged = self.reviews.stars_of(user) == Some(stars);
        Ok((!is_unchanged).then_some(NodeEvent::NodeReviewed { user, stars }).into_iter().collect())
    }
}

fn illegal_transition(subject: &'static str, from: &'static str, to: &'static str) -> NodeRejection {
    NodeRejection::IllegalTransition(Transition { subject, from, to })
}

/// Changes a version as an administrator. Of a deleted version, only the reason of its status can change.
fn administer_version(
    version: &NodeVersion,
    change: VersionFields,
    admin_fields: VersionAdminFields,
    status: Option<VersionStatus>,
    reason: Option<Reason>,
) -> NodeDecision {
    let status_changed = version_status_event(version, status.unwrap_or(version.status), reason)?;
    let revised = version_revision_events(version, change, admin_fields);
    if version.status == VersionStatus::Deleted && !revised.is_empty() {
        return Err(NodeRejection::VersionDeleted);
    }
    Ok(revised.into_iter().chain(status_changed).collect())
}

/// Returns the event of a status change. With an unchanged status, only a new reason gives an event.
fn version_status_event(
    version: &NodeVersion,
    status: VersionStatus,
    reason: Option<Reason>,
) -> Result<Option<NodeEvent>, NodeRejection> {
    if version.status == status {
        let new_reason = reason.map(non_empty).filter(|reason| *reason != version.status_reason);
        return Ok(new_reason.map(|reason| NodeEvent::VersionStatusChanged { id: version.id, status, reason }));
    }

    if !version.status.can_transition_to(status) {
        return Err(illegal_transition("node version", version.status.as_str(), status.as_str()));
    }

    let reason = reason.and_then(non_empty);
    if status == VersionStatus::Banned && reason.is_none() {
        return Err(NodeRejection::VersionBanWithoutReason);
    }

    Ok(Some(NodeEvent::VersionStatusChanged { id: version.id, status, reason }))
}

#[cfg(test)]
mod tests;
