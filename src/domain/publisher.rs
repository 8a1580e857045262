//! Publishers: the owners of nodes, and their members.

use serde::{Deserialize, Serialize};

use super::decider::Decider;
use super::event_enum::event_enum;
use super::field_set::field_set;
use super::ids::{PublisherId, StreamKind, UserId, WebhookId};
use super::value::{Link, Name, Reason, Text, Timestamp, Transition, named_values};
use super::webhook::{WEBHOOKS_MAX, Webhook, WebhookChange, WebhookDraft};

named_values! {
    /// Role of a member. Owners have all rights; members create and update nodes and versions (contract 3).
    MemberRole { Owner = "owner", Member = "member" }
}

named_values! {
    /// States of a publisher (seed specification, States and transitions).
    PublisherStatus { Active = "PublisherStatusActive", Banned = "PublisherStatusBanned" }
}

/// State of a deleted publisher. Only errors contain it; the API reports such a publisher as not found.
const DELETED: &str = "PublisherStatusDeleted";

/// Description of a publisher (contract 4).
pub type PublisherDescription = Text<10_000>;
/// Contact or website of a publisher: a URL or any other text (contract 4).
pub type ContactText = Text<1000>;

field_set! {
    /// The descriptive fields of a publisher; a command or event contains only those that change.
    PublisherFields {
        name: Name,
        description: PublisherDescription,
        logo: Link,
        source_code_repo: ContactText,
        support: ContactText,
        website: ContactText,
    }
}

field_set! {
    /// Fields that only administrators can set.
    PublisherAdminFields { created_at: Timestamp }
}

/// A publisher that exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublisherProfile {
    pub id: PublisherId,
    pub fields: PublisherFields,
    /// Members in the order of joining.
    pub members: Vec<(UserId, MemberRole)>,
    pub created_at: Timestamp,
    pub status: PublisherStatus,
    /// Reason of the ban; `None` if not banned.
    pub ban_reason: Option<Reason>,
    /// Webhooks in the order of creation, at most [`WEBHOOKS_MAX`].
    pub webhooks: Vec<Webhook>,
}

/// State of a publisher.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Publisher {
    /// The id is free.
    #[default]
    Unclaimed,
    /// The publisher exists.
    Present(PublisherProfile),
    /// The publisher was deleted; its id stays taken.
    Deleted,
}

impl PublisherProfile {
    /// Returns the role of a user, or `None` if the user is not a member.
    #[must_use]
    pub fn role_of(&self, user: UserId) -> Option<MemberRole> {
        self.members.iter().find(|(member, _)| *member == user).map(|(_, role)| *role)
    }

    /// Returns the webhook with this id.
    #[must_use]
    pub fn webhook(&self, id: WebhookId) -> Option<&Webhook> {
        self.webhooks.iter().find(|webhook| webhook.id == id)
    }

    /// Returns `true` if the user is the only owner.
    #[must_use]
    pub fn is_last_owner(&self, user: UserId) -> bool {
        let mut owners = self.members.iter().filter(|(_, role)| *role == MemberRole::Owner);
        owners.next().is_some_and(|(owner, _)| *owner == user) && owners.next().is_none()
    }
}

/// Commands of a publisher. Permissions are checked by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublisherCommand {
    /// Claims the id.
    Create { id: PublisherId, owner: UserId, fields: PublisherFields, admin_fields: PublisherAdminFields },
    /// Changes the fields that are present.
    Revise { change: PublisherFields, admin_fields: PublisherAdminFields },
    /// Adds a member or changes the role of one.
    SetMember { user: UserId, role: MemberRole },
    /// Removes a member.
    RemoveMember { user: UserId },
    /// Bans the publisher.
    Ban { reason: Reason },
    /// Lifts the ban.
    Unban { reason: Reason },
    /// Deletes the publisher permanently.
    Delete,
    /// Creates a webhook.
    CreateWebhook(WebhookDraft),
    /// Changes the fields of a webhook that are present.
    ReviseWebhook { webhook: WebhookId, change: WebhookChange },
    /// Removes a webhook with its deliveries.
    RemoveWebhook { webhook: WebhookId },
    /// Sends a test event to a webhook.
    TestWebhook { webhook: WebhookId },
}

event_enum! {
    /// Events of a publisher.
    PublisherEvent {
        /// The id was claimed; the creator became owner.
        PublisherCreated { id: PublisherId, owner: UserId, fields: PublisherFields },
        /// Some descriptive fields changed.
        PublisherRevised { change: PublisherFields },
        /// An administrator set fields that only administrators can set.
        PublisherAdministered { admin_fields: PublisherAdminFields },
        /// A user joined.
        MemberAdded { user: UserId, role: MemberRole },
        /// A member got another role.
        MemberRoleChanged { user: UserId, role: MemberRole },
        /// A member left or was removed.
        MemberRemoved { user: UserId },
        /// The publisher was banned: it and its nodes cannot be changed, and lists omit them.
        PublisherBanned { reason: Reason },
        /// The ban was lifted.
        PublisherUnbanned { reason: Reason },
        /// The publisher was deleted.
        PublisherDeleted,
        /// A webhook was created.
        WebhookCreated(WebhookDraft),
        /// A webhook changed.
        WebhookRevised { webhook: WebhookId, change: WebhookChange },
        /// A webhook was removed; its deliveries end.
        WebhookRemoved { webhook: WebhookId },
        /// A test event is sent to a webhook.
        WebhookTested { webhook: WebhookId },
    }
}

/// Reason why a command on a publisher was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublisherRejection {
    /// The id is taken, perhaps by a deleted publisher.
    AlreadyExists,
    /// No publisher has this id.
    NotFound,
    /// The user is not a member.
    MemberNotFound,
    /// The user is the only owner, and a publisher needs at least one.
    LastOwner,
    /// The publisher has no such webhook.
    WebhookNotFound,
    /// The publisher has [`WEBHOOKS_MAX`] webhooks.
    TooManyWebhooks,
    /// The webhook is disabled, so a test event would wait.
    WebhookDisabled,
    /// The publisher is already banned, is not banned, or cannot be deleted because it is banned.
    IllegalTransition(Transition),
}

impl Decider for Publisher {
    const KIND: StreamKind = StreamKind::Publisher;
    type State = Self;
    type Command = PublisherCommand;
    type Event = PublisherEvent;
    type Rejection = PublisherRejection;

    fn decide(
        state: &Self,
        command: PublisherCommand,
        _now: Timestamp,
    ) -> Result<Vec<PublisherEvent>, PublisherRejection> {
        match (state, command) {
            (Self::Unclaimed, PublisherCommand::Create { id, owner, fields, admin_fields }) => {
                Ok(creation_events(id, owner, fields, admin_fields))
            }
            (Self::Deleted, PublisherCommand::Create { .. }) => Err(PublisherRejection::AlreadyExists),
            (Self::Unclaimed | Self::Deleted, _) => Err(PublisherRejection::NotFound),
            (Self::Present(publisher), command) => publisher.decide(command),
        }
    }

    fn evolve(state: &mut Self, event: &PublisherEvent, at: Timestamp) {
        match (&mut *state, event) {
            (Self::Unclaimed, PublisherEvent::PublisherCreated { id, owner, fields }) => {
                *state = Self::Present(PublisherProfile {
                    id: id.clone(),
                    fields: fields.clone(),
                    members: vec![(*owner, MemberRole::Owner)],
                    created_at: at,
                    status: PublisherStatus::Active,
                    ban_reason: None,
                    webhooks: Vec::new(),
                });
            }
            (Self::Present(_), PublisherEvent::PublisherDeleted) => *state = Self::Deleted,
            (Self::Present(publisher), event) => publisher.evolve(event, at),
            (Self::Unclaimed | Self::Deleted, _) => {}
        }
    }
}

fn creation_events(
    id: PublisherId,
    owner: UserId,
    fields: PublisherFields,
    admin_fields: PublisherAdminFields,
) -> Vec<PublisherEvent> {
    let mut parts = fields.split().into_iter();
    let fields = parts.next().unwrap_or_default();
    let mut events = vec![PublisherEvent::PublisherCreated { id, owner, fields }];
    events.extend(parts.map(|change| PublisherEvent::PublisherRevised { change }));
    events.extend(admin_field_events(admin_fields, &PublisherAdminFields::default()));
    events
}

fn admin_field_events(
    admin_fields: PublisherAdminFields,
    current: &PublisherAdminFields,
) -> impl Iterator<Item = PublisherEvent> + use<> {
    admin_fields
        .changing(current)
        .into_iter()
        .map(|admin_fields| PublisherEvent::PublisherAdministered { admin_fields })
}

/// Decisions on a publisher that exists.
impl PublisherProfile {
    fn decide(&self, command: PublisherCommand) -> Result<Vec<PublisherEvent>, PublisherRejection> {
        match command {
            PublisherCommand::Create { .. } => Err(PublisherRejection::AlreadyExists),
            PublisherCommand::Revise { change, admin_fields } => {
                let changes = change.changing(&self.fields).into_iter();
                let revised = changes.map(|change| PublisherEvent::PublisherRevised { change });
                let current = PublisherAdminFields { created_at: Some(self.created_at) };
                Ok(revised.chain(admin_field_events(admin_fields, &current)).collect())
            }
            PublisherCommand::SetMember { user, role } => self.set_member(user, role),
            PublisherCommand::RemoveMember { user } => self.remove_member(user),
            PublisherCommand::Ban { reason } => {
                self.check_transition(PublisherStatus::Banned.as_str())?;
                Ok(vec![PublisherEvent::PublisherBanned { reason }])
            }
            PublisherCommand::Unban { reason } => {
                self.check_transition(PublisherStatus::Active.as_str())?;
                Ok(vec![PublisherEvent::PublisherUnbanned { reason }])
            }
            PublisherCommand::Delete => {
                self.check_transition(DELETED)?;
                Ok(vec![PublisherEvent::PublisherDeleted])
            }
            PublisherCommand::CreateWebhook(draft) => {
                if self.webhooks.len() >= WEBHOOKS_MAX {
                    return Err(PublisherRejection::TooManyWebhooks);
                }
                Ok(vec![PublisherEvent::WebhookCreated(draft)])
            }
            PublisherCommand::ReviseWebhook { webhook, change } => {
                let current = self.existing_webhook(webhook)?;
                let change = change.changing(current);
                let mut revised = current.clone();
                revised.apply(&change);
                let has_changed = revised != *current;
                Ok(has_changed.then_some(PublisherEvent::WebhookRevised { webhook, change }).into_iter().collect())
            }
            PublisherCommand::RemoveWebhook { webhook } => {
                self.existing_webhook(webhook)?;
                Ok(vec![PublisherEvent::WebhookRemoved { webhook }])
            }
            PublisherCommand::TestWebhook { webhook } => {
                if !self.existing_webhook(webhook)?.is_enabled {
                    return Err(PublisherRejection::WebhookDisabled);
                }
                Ok(vec![PublisherEvent::WebhookTested { webhook }])
            }
        }
    }

    fn existing_webhook(&self, id: WebhookId) -> Result<&Webhook, PublisherRejection> {
        self.webhook(id).ok_or(PublisherRejection::WebhookNotFound)
    }

    fn set_member(&self, user: UserId, role: MemberRole) -> Result<Vec<PublisherEvent>, PublisherRejection> {
        match self.role_of(user) {
            None => Ok(vec![PublisherEvent::MemberAdded { user, role }]),
            Some(current) if current == role => Ok(Vec::new()),
            Some(_) if self.is_last_owner(user) => Err(PublisherRejection::LastOwner),
            Some(_) => Ok(vec![PublisherEvent::MemberRoleChanged { user, role }]),
        }
    }

    fn remove_member(&self, user: UserId) -> Result<Vec<PublisherEvent>, PublisherRejection> {
        match self.role_of(user) {
            None => Err(PublisherRejection::MemberNotFound),
            Some(_) if self.is_last_owner(user) => Err(PublisherRejection::LastOwner),
            Some(_) => Ok(vec![PublisherEvent::MemberRemoved { user }]),
        }
    }

    /// Checks a transition: Active to Banned or Deleted, Banned to Active.
    fn check_transition(&self, to: &'static str) -> Result<(), PublisherRejection> {
        let is_allowed = (self.status == PublisherStatus::Active) != (to == PublisherStatus::Active.as_str());
        let transition = Transition { subject: "publisher", from: self.status.as_str(), to };
        if is_allowed { Ok(()) } else { Err(PublisherRejection::IllegalTransition(transition)) }
    }
}

/// Effects of events.
impl PublisherProfile {
    fn evolve(&mut self, event: &PublisherEvent, at: Timestamp) {
        match event {
            PublisherEvent::PublisherCreated { .. }
            | PublisherEvent::PublisherDeleted
            | PublisherEvent::WebhookTested { .. } => {}
            PublisherEvent::WebhookCreated(draft) => self.webhooks.push(Webhook::new(draft, at)),
            PublisherEvent::WebhookRevised { webhook, change } => {
                for revised in self.webhooks.iter_mut().filter(|item| item.id == *webhook) {
                    revised.apply(change);
                }
            }
            PublisherEvent::WebhookRemoved { webhook } => self.webhooks.retain(|item| item.id != *webhook),
            PublisherEvent::PublisherRevised { change } => self.fields.apply(change),
            PublisherEvent::PublisherAdministered { admin_fields } => {
                self.created_at = admin_fields.created_at.unwrap_or(self.created_at);
            }
            PublisherEvent::MemberAdded { user, role } if self.role_of(*user).is_none() => {
                self.members.push((*user, *role));
            }
            PublisherEvent::MemberAdded { user, role } | PublisherEvent::MemberRoleChanged { user, role } => {
                for (_, member_role) in self.members.iter_mut().filter(|(member, _)| member == user) {
                    *member_role = *role;
                }
            }
            PublisherEvent::MemberRemoved { user } => self.members.retain(|(member, _)| member != user),
            PublisherEvent::PublisherBanned { reason } => {
                self.status = PublisherStatus::Banned;
                self.ban_reason = Some(reason.clone());
            }
            PublisherEvent::PublisherUnbanned { .. } => {
                self.status = PublisherStatus::Active;
                self.ban_reason = None;
            }
        }
    }
}

#[cfg(test)]
mod tests;
