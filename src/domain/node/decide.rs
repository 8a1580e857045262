//! Decides the commands of a node.

use said::{administration, creation, published, registration, released, revision_of, translation};

use super::in_turn::in_turn;
use super::{
    Node, NodeCommand, NodeEvent, NodeFacts, NodeFields, NodeProfile, NodeRejection, NodeStatus, Stars, Translations,
};
use crate::domain::ids::{PublisherId, UserId, VersionId};
use crate::domain::value::{Reason, Timestamp, Transition};
use crate::domain::version::{Archive, NodeVersion, VersionDraft, VersionRef, VersionStatus};

mod said;

type Events = Result<Vec<NodeEvent>, NodeRejection>;

/// Decides a command while the id is free.
pub(super) fn on_nothing(command: NodeCommand, now: Timestamp) -> Events {
    match command {
        NodeCommand::Create { id, publisher, fields, facts, first_version } => {
            let mut events = creation(id, publisher, fields, facts)?;
            events.extend(first_version.into_iter().flat_map(|version| registration(version, released)));
            Ok(events)
        }
        NodeCommand::Publish { id, publisher, fields, version } => {
            let mut events = creation(id, publisher, fields, NodeFacts::default())?;
            events.extend(registration(version, published));
            Ok(events)
        }
        NodeCommand::InTurn(commands) => in_turn(Node::Unclaimed, commands, now),
        _ => Err(NodeRejection::NotFound),
    }
}

/// Returns the reason, or `None` if it is empty.
fn given(reason: Reason) -> Option<Reason> {
    Some(reason).filter(|reason| !reason.as_str().is_empty())
}

impl NodeProfile {
    /// Decides a command on a node that exists or is deleted.
    pub(super) fn decide(&self, command: NodeCommand, now: Timestamp) -> Events {
        match command {
            NodeCommand::Create { .. } => Err(NodeRejection::AlreadyExists { id: self.id.clone() }),
            NodeCommand::InTurn(commands) => in_turn(Node::Present(Box::new(self.clone())), commands, now),
            _ if self.status == NodeStatus::Deleted => Err(NodeRejection::NotFound),
            NodeCommand::Revise { publisher, change, facts } => {
                self.check_owner(Some(&publisher))?;
                Ok([self.revision(change)?, administration(facts, &self.facts())].concat())
            }
            NodeCommand::Publish { publisher, fields, version, .. } => self.publish(&publisher, fields, version),
            NodeCommand::ReviseVersion { publisher, version, change, facts } => {
                self.check_owner(Some(&publisher))?;
                Ok(revision_of(self.existing(&version)?, change, facts))
            }
            NodeCommand::SetVersionStatus { publisher, version, status, reason } => {
                self.set_version_status(publisher.as_ref(), &version, status, reason)
            }
            NodeCommand::StoreArchive { version, archive, hold } => self.store_archive(version, archive, hold),
            NodeCommand::Administer { change, facts, status } => self.administration(change, facts, status),
            NodeCommand::AdministerVersion { version, change, facts, status, reason } => {
                let version = self.version(&version).ok_or(NodeRejection::VersionNotFound)?;
                let moved = transition_of(version, status.unwrap_or(version.status), reason)?;
                let revised = revision_of(version, change, facts);
                if version.status == VersionStatus::Deleted && !revised.is_empty() {
                    return Err(NodeRejection::VersionDeleted);
                }
                Ok(revised.into_iter().chain(moved).collect())
            }
            NodeCommand::Ban { reason } => self.transition(NodeStatus::Banned, reason),
            NodeCommand::Unban { reason } => self.transition(NodeStatus::Active, reason),
            NodeCommand::Delete { publisher } => {
                self.check_owner(publisher.as_ref())?;
                self.transition(NodeStatus::Deleted, Reason::default())
            }
            NodeCommand::Review { user, stars } => self.review(user, stars),
            NodeCommand::Translate { publisher, translations } => {
                self.check_owner(publisher.as_ref())?;
                self.check_not_banned()?;
                translation(translations, self.translations())
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
    fn existing(&self, reference: &VersionRef) -> Result<&NodeVersion, NodeRejection> {
        let version = self.version(reference).filter(|version| version.status != VersionStatus::Deleted);
        version.ok_or(NodeRejection::VersionNotFound)
    }

    fn translations(&self) -> &Translations {
        static NONE: Translations = Translations::new();
        self.fields.translations.as_ref().unwrap_or(&NONE)
    }

    fn revision(&self, mut change: NodeFields) -> Events {
        let translated = translation(change.translations.take().unwrap_or_default(), self.translations())?;
        let revised = change.changing(&self.fields).into_iter().map(|change| NodeEvent::NodeRevised { change });
        Ok(revised.chain(translated).collect())
    }

    fn publish(&self, publisher: &PublisherId, fields: NodeFields, version: VersionDraft) -> Events {
        if self.publisher != *publisher {
            return Err(NodeRejection::AlreadyExists { id: self.id.clone() });
        }
        self.check_not_banned()?;
        if self.versions.iter().any(|existing| existing.number.same_precedence(&version.number)) {
            return Err(NodeRejection::VersionExists { number: version.number });
        }
        Ok([self.revision(fields)?, registration(version, published)].concat())
    }

    fn set_version_status(
        &self,
        publisher: Option<&PublisherId>,
        version: &VersionRef,
        status: VersionStatus,
        reason: Option<Reason>,
    ) -> Events {
        self.check_owner(publisher)?;
        let version = match publisher {
            Some(_) => self.existing(version)?,
            None => self.version(version).ok_or(NodeRejection::VersionNotFound)?,
        };
        Ok(transition_of(version, status, reason)?.into_iter().collect())
    }

    fn store_archive(&self, id: VersionId, archive: Archive, hold: bool) -> Events {
        self.check_not_banned()?;
        let version = self.existing(&VersionRef::Id(id))?;

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
                let moved = transition_of(version, VersionStatus::Active, None)?;
                Ok(std::iter::once(stored).chain(moved).collect())
            }
            from => Err(illegal("node version", from.as_str(), VersionStatus::Active.as_str())),
        }
    }

    /// Changes a node as an administrator. The status precedes the facts, so that it does not overwrite a detail set
    /// with it; a deletion comes last, because no event may follow it.
    fn administration(&self, change: NodeFields, facts: NodeFacts, status: Option<NodeStatus>) -> Events {
        let revised = self.revision(change)?;

        let detail = facts.status_detail.clone().unwrap_or_default();

        let moved = match status.filter(|status| *status != self.status) {
            Some(status) => self.transition(status, detail)?,
            None => Vec::new(),
        };

        let administered = administration(facts, &self.facts());
        if status == Some(NodeStatus::Deleted) {
            return Ok([revised, administered, moved].concat());
        }
        Ok([revised, moved, administered].concat())
    }

    /// Changes the status: Active to Banned and back, Active to Deleted (contract 4).
    fn transition(&self, to: NodeStatus, reason: Reason) -> Events {
        match (self.status, to) {
            (NodeStatus::Active, NodeStatus::Banned) if given(reason.clone()).is_none() => {
                Err(NodeRejection::BanWithoutReason)
            }
            (NodeStatus::Active, NodeStatus::Banned) => Ok(vec![NodeEvent::NodeBanned { reason }]),
            (NodeStatus::Active, NodeStatus::Deleted) => Ok(vec![NodeEvent::NodeDeleted]),
            (NodeStatus::Banned, NodeStatus::Active) => Ok(vec![NodeEvent::NodeUnbanned { reason }]),
            (from, to) => Err(illegal("node", from.as_str(), to.as_str())),
        }
    }

    fn review(&self, user: UserId, stars: Stars) -> Events {
        self.check_not_banned()?;
        let repeated = self.reviews.of(user) == Some(stars);
        Ok((!repeated).then_some(NodeEvent::NodeReviewed { user, stars }).into_iter().collect())
    }
}

fn illegal(what: &'static str, from: &'static str, to: &'static str) -> NodeRejection {
    NodeRejection::IllegalTransition(Transition { what, from, to })
}

/// Returns the event of a status change. With an unchanged status, only a new reason gives an event.
fn transition_of(
    version: &NodeVersion,
    status: VersionStatus,
    reason: Option<Reason>,
) -> Result<Option<NodeEvent>, NodeRejection> {
    if version.status == status {
        let changes = reason.map(given).filter(|reason| *reason != version.status_reason);
        return Ok(changes.map(|reason| NodeEvent::VersionStatusChanged { id: version.id, status, reason }));
    }

    if !version.status.may_become(status) {
        return Err(illegal("node version", version.status.as_str(), status.as_str()));
    }

    let reason = reason.and_then(given);
    if status == VersionStatus::Banned && reason.is_none() {
        return Err(NodeRejection::VersionBanWithoutReason);
    }

    Ok(Some(NodeEvent::VersionStatusChanged { id: version.id, status, reason }))
}

#[cfg(test)]
mod tests;
