//! Nodes and their versions: one aggregate, because version numbers are unique within a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::decider::Decider;
use super::event::{Event, part_of_event};
use super::field_set::field_set;
use super::ids::{NodeId, PublisherId, StreamKind, UserId, VersionId};
use super::value::{Label, Labels, Link, Name, Reason, Text, Timestamp, Transition, named_values};
use super::version::{
    Archive, NodeVersion, SemVer, VersionAdminFields, VersionDraft, VersionFields, VersionRef, VersionStatus,
};

mod batch;
mod decide;
mod evolve;
mod rating;
mod reviews;

pub use rating::{Rating, Stars};
pub use reviews::Reviews;

/// Description of a node (contract 4).
pub type NodeDescription = Text<1000>;

/// Texts of a node in one language: field → text.
pub type LocalizedTexts = BTreeMap<Label, Text<1000>>;
/// Translated texts of a node: language → field → text.
pub type Translations = BTreeMap<Label, LocalizedTexts>;

/// Maximum languages of a node.
pub const LANGUAGES_MAX: usize = 100;
/// Maximum texts of one language; together they fit into one event.
pub const TEXTS_MAX: usize = 20;

named_values! {
    /// States of a node (seed, States and transitions).
    NodeStatus { Active = "NodeStatusActive", Deleted = "NodeStatusDeleted", Banned = "NodeStatusBanned" }
}

field_set! {
    /// The descriptive fields of a node; a command or event contains only those that change.
    ///
    /// New events record translations separately, one language at a time; only events of the first release contain them
    /// here.
    NodeFields {
        author: Name,
        banner_url: Link,
        category: Label,
        description: NodeDescription,
        icon: Link,
        license: Label,
        name: Name,
        preempted_host_node_names: Labels,
        repository: Link,
        supported_accelerators: Labels,
        supported_host_frontend_version: Label,
        supported_host_version: Label,
        supported_os: Labels,
        tags: Labels,
        translations: Translations,
    }
}

field_set! {
    /// Fields that only administrators can set.
    NodeAdminFields {
        created_at: Timestamp,
        downloads: u64,
        rating: Rating,
        github_stars: u64,
        search_ranking: i64,
        /// Empty means none.
        status_detail: Text<1000>,
        tags_admin: Labels,
    }
}

/// Reason for which a command on a node was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeRejection {
    /// The id is taken, ignoring case: by any publisher, or by a deleted node.
    AlreadyExists { id: NodeId },
    /// The node does not exist or belongs to another publisher.
    NotFound,
    /// The node has no such version.
    VersionNotFound,
    /// The version number is or was registered.
    VersionExists { number: SemVer },
    /// The node is banned, so only administrators can change it.
    Banned { reason: Option<Reason> },
    /// The version is deleted; only the reason of its status can change.
    VersionDeleted,
    /// The version already has its archive, which is final.
    ArchiveExists,
    /// The version was released without an archive, and moderation currently holds new archives.
    ReleasedWithoutArchive,
    /// The node would have more than [`LANGUAGES_MAX`] languages.
    TooManyLanguages,
    /// The transition between two states of the node or version does not exist.
    IllegalTransition(Transition),
    /// A ban of a node requires a reason.
    BanWithoutReason,
    /// A ban of a version requires a reason.
    VersionBanWithoutReason,
}

/// A node whose id is claimed. Large parts are shared between copies, because readers hold one during the next change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeProfile {
    pub id: NodeId,
    pub publisher: PublisherId,
    #[serde(with = "super::shared")]
    pub fields: Arc<NodeFields>,
    /// All versions in the order of registration, including deleted ones.
    #[serde(with = "super::shared::list")]
    pub versions: Vec<Arc<NodeVersion>>,
    pub status: NodeStatus,
    /// Reason of the ban, or an administrator's remark on the status.
    pub status_detail: Option<Text<1000>>,
    pub downloads: u64,
    pub github_stars: Option<u64>,
    pub search_ranking: Option<i64>,
    pub tags_admin: Option<Labels>,
    pub reviews: Reviews,
    /// Rating set by an administrator; used until the first review.
    pub admin_rating: Option<Rating>,
    pub created_at: Timestamp,
    /// Time of the last change of the node or its versions. A changed download count does not update it.
    pub updated_at: Timestamp,
}

/// State of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Node {
    /// The id is free.
    #[default]
    Unclaimed,
    /// The id was claimed; `status` tells whether the node is deleted.
    Present(Box<NodeProfile>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeEvent {
    /// The id was claimed.
    NodeCreated { id: NodeId, publisher: PublisherId, fields: NodeFields },
    /// Some descriptive fields changed.
    NodeRevised { change: NodeFields },
    /// A version was registered and is installable immediately.
    VersionReleased { version: VersionDraft },
    /// A version was registered and waits for its archive.
    VersionPublished { version: VersionDraft },
    /// Descriptive fields of a version changed.
    VersionRevised { id: VersionId, change: VersionFields },
    /// An administrator set fields that only administrators can set.
    NodeAdministered { admin_fields: NodeAdminFields },
    /// The texts of one language were replaced; an empty map removes the language.
    NodeTranslated { language: Label, texts: LocalizedTexts },
    /// The node was banned: publishers cannot change it, and lists omit it.
    NodeBanned { reason: Reason },
    /// The ban was lifted.
    NodeUnbanned { reason: Reason },
    /// The node was deleted.
    NodeDeleted,
    /// A user rated the node; replaces the user's earlier rating.
    NodeReviewed { user: UserId, stars: Stars },
    /// The node was downloaded `count` more times.
    DownloadsCounted { count: u64 },
    /// The archive of a version was stored.
    ArchiveStored { version: VersionId, archive: Archive },
    /// A version got another status, or another reason for the same status.
    VersionStatusChanged { id: VersionId, status: VersionStatus, reason: Option<Reason> },
    /// An administrator set fields of a version that only administrators can set.
    VersionAdministered { id: VersionId, admin_fields: VersionAdminFields },
}

part_of_event!(NodeEvent as Node {
    NodeCreated,
    NodeRevised,
    VersionReleased,
    VersionPublished,
    VersionRevised,
    NodeAdministered,
    NodeTranslated,
    NodeBanned,
    NodeUnbanned,
    NodeDeleted,
    NodeReviewed,
    DownloadsCounted,
    ArchiveStored,
    VersionStatusChanged,
    VersionAdministered,
});

/// Commands of a node. With a `publisher`, the node must belong to it and must not be banned; `None` is an
/// administrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeCommand {
    /// Claims the id and, if given, releases a first version.
    Create {
        id: NodeId,
        publisher: PublisherId,
        fields: NodeFields,
        admin_fields: NodeAdminFields,
        first_version: Option<VersionDraft>,
    },
    /// Changes the fields that are present. Only administrators send `admin_fields`.
    Revise { publisher: PublisherId, change: NodeFields, admin_fields: NodeAdminFields },
    /// Registers a version, creating or revising the node.
    Publish { id: NodeId, publisher: PublisherId, fields: NodeFields, version: VersionDraft },
    /// Changes descriptive fields of a version.
    ReviseVersion {
        publisher: PublisherId,
        version: VersionRef,
        change: VersionFields,
        admin_fields: VersionAdminFields,
    },
    /// Changes the status of a version, or the reason for its current status.
    SetVersionStatus {
        publisher: Option<PublisherId>,
        version: VersionRef,
        status: VersionStatus,
        reason: Option<Reason>,
    },
    /// Records the archive of a version; the version becomes Active unless `hold` keeps it for moderation.
    StoreArchive { version: VersionId, archive: Archive, hold: bool },
    /// Changes a node as an administrator, even while it is banned.
    Administer { change: NodeFields, admin_fields: NodeAdminFields, status: Option<NodeStatus> },
    /// Changes a version as an administrator, even while it is banned.
    AdministerVersion {
        version: VersionRef,
        change: VersionFields,
        admin_fields: VersionAdminFields,
        status: Option<VersionStatus>,
        reason: Option<Reason>,
    },
    /// Bans the node.
    Ban { reason: Reason },
    /// Lifts the ban.
    Unban { reason: Reason },
    /// Deletes the node permanently.
    Delete { publisher: Option<PublisherId> },
    /// Rates the node.
    Review { user: UserId, stars: Stars },
    /// Replaces the texts of the given languages; an empty map removes the language.
    Translate { publisher: Option<PublisherId>, translations: Translations },
    /// Adds downloads.
    CountDownloads { count: u64 },
    /// Runs several commands in order, each on the state after the previous ones. All succeed, or none is recorded.
    Batch(Vec<NodeCommand>),
}

impl Decider for Node {
    const KIND: StreamKind = StreamKind::Node;
    type State = Self;
    type Command = NodeCommand;
    type Event = NodeEvent;
    type Rejection = NodeRejection;

    fn decide(state: &Self, command: NodeCommand, now: Timestamp) -> Result<Vec<NodeEvent>, NodeRejection> {
        match state {
            Self::Unclaimed => decide::decide_initial(command, now),
            Self::Present(node) => node.decide(command, now),
        }
    }

    fn evolve(state: &mut Self, event: &NodeEvent, at: Timestamp) {
        match (&mut *state, event) {
            (Self::Unclaimed, NodeEvent::NodeCreated { id, publisher, fields }) => {
                *state = Self::Present(Box::new(NodeProfile::new(id, publisher, fields, at)));
            }
            (Self::Present(node), event) => node.evolve(event, at),
            (Self::Unclaimed, _) => {}
        }
    }

    fn downcast(event: &Event) -> Option<&NodeEvent> {
        if let Event::Node(event) = event { Some(event) } else { None }
    }
}

impl NodeProfile {
    /// Returns the display name, or the id if there is none (contract 4).
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.fields.name.as_ref().map(Text::as_str).filter(|name| !name.is_empty()).unwrap_or(self.id.as_str())
    }

    /// Returns the version named by `reference`, even if deleted.
    #[must_use]
    pub fn version(&self, reference: &VersionRef) -> Option<&NodeVersion> {
        self.versions.iter().map(Arc::as_ref).find(|version| reference.matches(version))
    }

    /// Returns the rating with two decimals: the mean of the reviews or, without reviews, the administrator's value.
    #[must_use]
    pub fn rating(&self) -> Option<f64> {
        self.mean_rating().map(Rating::get)
    }

    /// Returns the exact value of [`NodeProfile::rating`].
    #[must_use]
    pub fn mean_rating(&self) -> Option<Rating> {
        self.reviews.mean().or(self.admin_rating)
    }

    /// Returns the current values of the fields that only administrators can set.
    #[must_use]
    pub fn admin_fields(&self) -> NodeAdminFields {
        NodeAdminFields {
            created_at: Some(self.created_at),
            downloads: Some(self.downloads),
            rating: self.admin_rating,
            github_stars: self.github_stars,
            search_ranking: self.search_ranking,
            status_detail: Some(self.status_detail.clone().unwrap_or_default()),
            tags_admin: self.tags_admin.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
