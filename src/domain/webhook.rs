//! Webhooks of a publisher: receivers of the events of its nodes. They are part of the publisher.

use serde::{Deserialize, Serialize};

use super::ids::{UserId, WebhookId};
use super::value::{CallbackUrl, InvalidValue, Timestamp, named_values};

/// Maximum number of webhooks of a publisher.
pub const WEBHOOKS_MAX: usize = 5;

named_values! {
    /// Kinds of events that webhooks report.
    RegistryEventKind {
        /// A version was registered.
        VersionPublished = "version.published",
        /// A version became Active.
        VersionApproved = "version.approved",
        VersionFlagged = "version.flagged",
        VersionBanned = "version.banned",
        VersionDeleted = "version.deleted",
        /// The ban of a node was lifted.
        NodeApproved = "node.approved",
        NodeBanned = "node.banned",
        NodeDeleted = "node.deleted",
    }
}

/// Kinds of events that a webhook reports: at least one, each once, in the order of the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSelection(Vec<RegistryEventKind>);

impl EventSelection {
    /// Creates a selection; the order does not matter, and neither do duplicates.
    ///
    /// # Errors
    /// If `kinds` is empty.
    pub fn new(kinds: &[RegistryEventKind]) -> Result<Self, InvalidValue> {
        if kinds.is_empty() {
            return Err(InvalidValue::new("must contain at least one event"));
        }
        Ok(Self(RegistryEventKind::ALL.iter().copied().filter(|kind| kinds.contains(kind)).collect()))
    }

    /// Returns the selection of all kinds.
    #[must_use]
    pub fn all() -> Self {
        Self(RegistryEventKind::ALL.to_vec())
    }

    /// Creates a recorded selection without validation.
    #[must_use]
    pub fn from_recorded(kinds: Vec<RegistryEventKind>) -> Self {
        Self(kinds)
    }

    /// Returns the kinds.
    #[must_use]
    pub fn kinds(&self) -> &[RegistryEventKind] {
        &self.0
    }
}

/// A webhook of a publisher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    pub id: WebhookId,
    pub url: CallbackUrl,
    pub events: EventSelection,
    /// A disabled webhook gets no new deliveries, and pending ones wait.
    pub is_enabled: bool,
    /// The account that set the URL. Its webhook secrets sign the deliveries.
    pub account: UserId,
    pub created_at: Timestamp,
}

/// A webhook to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookDraft {
    pub id: WebhookId,
    pub url: CallbackUrl,
    pub events: EventSelection,
    pub is_enabled: bool,
    pub account: UserId,
}

/// Fields of a webhook that change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookChange {
    pub url: Option<CallbackUrl>,
    /// The account that sets the URL, present exactly if the URL is.
    pub account: Option<UserId>,
    pub events: Option<EventSelection>,
    pub is_enabled: Option<bool>,
}

impl WebhookChange {
    /// Returns the change without its URL and account if the URL equals the current URL, so that the account that set
    /// the URL stays the same.
    #[must_use]
    pub fn changing(self, current: &Webhook) -> Self {
        if self.url.as_ref() == Some(&current.url) { Self { url: None, account: None, ..self } } else { self }
    }
}

impl Webhook {
    /// Creates the webhook.
    #[must_use]
    pub fn new(draft: &WebhookDraft, at: Timestamp) -> Self {
        let WebhookDraft { id, url, events, is_enabled, account } = draft.clone();
        Self { id, url, events, is_enabled, account, created_at: at }
    }

    /// Overwrites the fields that are present in `change`.
    pub fn apply(&mut self, change: &WebhookChange) {
        let WebhookChange { url, account, events, is_enabled } = change.clone();
        self.url = url.unwrap_or_else(|| self.url.clone());
        self.account = account.unwrap_or(self.account);
        self.events = events.unwrap_or_else(|| self.events.clone());
        self.is_enabled = is_enabled.unwrap_or(self.is_enabled);
    }

    /// Returns `true` if the webhook is enabled and reports events of this kind.
    #[must_use]
    pub fn reports(&self, kind: RegistryEventKind) -> bool {
        self.is_enabled && self.events.kinds().contains(&kind)
    }
}
