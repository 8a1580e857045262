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
    Archive, NodeVersion, SemVer, VersionDraft, VersionFacts, VersionFields, VersionRef, VersionStatus,
};

mod decide;
mod evolve;
mod in_turn;
mod rating;
mod reviews;

pub use rating::{Rating, Stars};
pub use reviews::Reviews;

/// A node's description (contract 4).
pub type NodeDescription = Text<1000>;

/// The texts of a node in one language: field → text.
pub type Texts = BTreeMap<Label, Text<1000>>;
/// Node texts in other languages: language → field → text.
pub type Translations = BTreeMap<Label, Texts>;

/// Most languages of a node.
pub const LANGUAGES_MAX: usize = 100;
/// Most texts of one language: together they still fit into one event.
pub const TEXTS_MAX: usize = 20;

named_values! {
    /// The states of a node (seed, States and transitions).
    NodeStatus { Active = "NodeStatusActive", Deleted = "NodeStatusDeleted", Banned = "NodeStatusBanned" }
}

field_set! {
    /// The descriptive fields; in a command and an event only those that are present change.
    ///
    /// Translations are recorded a language at a time; only events of the first release carry them in here.
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
    /// What only administrators set.
    NodeFacts {
        created_at: Timestamp,
        downloads: u64,
        rating: Rating,
        github_stars: u64,
        search_ranking: i64,
        /// Empty: none.
        status_detail: Text<1000>,
        tags_admin: Labels,
    }
}

/// Why a command on a node was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeRejection {
    /// The id is taken, perhaps in another case, by another publisher, or by a node that was deleted.
    AlreadyExists { id: NodeId },
    /// There is no such node, or it is another publisher's.
    NotFound,
    /// The node has no such version.
    VersionNotFound,
    /// A version of this number is registered already, or was.
    VersionExists { number: SemVer },
    /// The node is banned: only administrators change it.
    Banned { reason: Option<Reason> },
    /// The version was deleted: but for the reason of its status nothing of it changes any more.
    VersionDeleted,
    /// The version has an archive; there is never another one.
    ArchiveExists,
    /// The version was released without an archive; while moderation holds archives it takes none.
    ReleasedWithoutArchive,
    /// The node would be translated into more than [`LANGUAGES_MAX`] languages.
    TooManyLanguages,
    /// The states of nodes or of versions do not follow each other so.
    IllegalTransition(Transition),
    /// The node would be banned without a reason.
    BanWithoutReason,
    /// The version would be banned without a reason.
    VersionBanWithoutReason,
}

/// A node whose id is claimed. What can be large is shared between copies: readers hold one while the next change is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeProfile {
    pub id: NodeId,
    pub publisher: PublisherId,
    #[serde(with = "super::shared")]
    pub fields: Arc<NodeFields>,
    /// In the order of registration; those that were deleted too.
    #[serde(with = "super::shared::list")]
    pub versions: Vec<Arc<NodeVersion>>,
    pub status: NodeStatus,
    /// Why the node is banned, or what an administrator has to say of its status.
    pub status_detail: Option<Text<1000>>,
    pub downloads: u64,
    pub github_stars: Option<u64>,
    pub search_ranking: Option<i64>,
    pub tags_admin: Option<Labels>,
    pub reviews: Reviews,
    /// What an administrator set; it counts as long as nobody has reviewed.
    pub rating_given: Option<Rating>,
    pub created_at: Timestamp,
    /// When the node or one of its versions last changed; downloads and reviews are no changes.
    pub updated_at: Timestamp,
}

/// A node's life.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Node {
    /// The id is free.
    #[default]
    Unclaimed,
    /// The node exists, or did: its status tells.
    Present(Box<NodeProfile>),
}

/// What happened to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeEvent {
    /// The id was claimed.
    NodeCreated { id: NodeId, publisher: PublisherId, fields: NodeFields },
    /// Some descriptive fields changed.
    NodeRevised { change: NodeFields },
    /// A version was registered and can be installed at once.
    VersionReleased { version: VersionDraft },
    /// A version was registered and waits for its archive.
    VersionPublished { version: VersionDraft },
    /// What is said of a version changed.
    VersionRevised { id: VersionId, change: VersionFields },
    /// An administrator set what nobody else may.
    NodeAdministered { facts: NodeFacts },
    /// These are the texts in one language now; none, when there are no texts.
    NodeTranslated { language: Label, texts: Texts },
    /// The node takes no more changes and leaves the lists.
    NodeBanned { reason: Reason },
    /// The ban was taken back.
    NodeUnbanned { reason: Reason },
    /// The node is gone.
    NodeDeleted,
    /// A user gave stars; earlier ones of the same user count no more.
    NodeReviewed { user: UserId, stars: Stars },
    /// The node was downloaded some more times.
    DownloadsCounted { count: u64 },
    /// The archive of a version arrived.
    ArchiveStored { version: VersionId, archive: Archive },
    /// A version has another status, or another reason for it.
    VersionStatusChanged { id: VersionId, status: VersionStatus, reason: Option<Reason> },
    /// An administrator set what nobody else may say of a version.
    VersionAdministered { id: VersionId, facts: VersionFacts },
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

/// What can be asked of a node. Where a publisher is named the node must be its own, and not banned; where one may be left
/// out an administrator asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeCommand {
    /// Claims the id; a first version is released with it.
    Create {
        id: NodeId,
        publisher: PublisherId,
        fields: NodeFields,
        facts: NodeFacts,
        first_version: Option<VersionDraft>,
    },
    /// Changes what is present. Facts come from administrators only.
    Revise { publisher: PublisherId, change: NodeFields, facts: NodeFacts },
    /// Registers a version; creates the node when it is new, revises it when it is not.
    Publish { id: NodeId, publisher: PublisherId, fields: NodeFields, version: VersionDraft },
    /// Changes what is said of a version.
    ReviseVersion { publisher: PublisherId, version: VersionRef, change: VersionFields, facts: VersionFacts },
    /// Moves a version to another status, or gives another reason for the one that it has.
    SetVersionStatus {
        publisher: Option<PublisherId>,
        version: VersionRef,
        status: VersionStatus,
        reason: Option<Reason>,
    },
    /// The archive of a version arrived; unless moderation holds it, the version becomes Active.
    StoreArchive { version: VersionId, archive: Archive, hold: bool },
    /// Whatever an administrator changes of a node, banned or not.
    Administer { change: NodeFields, facts: NodeFacts, status: Option<NodeStatus> },
    /// Whatever an administrator changes of a version, banned or not.
    AdministerVersion {
        version: VersionRef,
        change: VersionFields,
        facts: VersionFacts,
        status: Option<VersionStatus>,
        reason: Option<Reason>,
    },
    /// Bans the node.
    Ban { reason: Reason },
    /// Takes the ban back.
    Unban { reason: Reason },
    /// Removes the node, for ever.
    Delete { publisher: Option<PublisherId> },
    /// Gives stars.
    Review { user: UserId, stars: Stars },
    /// Replaces the texts of each language that is named; a language without texts is dropped.
    Translate { publisher: Option<PublisherId>, translations: Translations },
    /// Counts downloads that were made.
    CountDownloads { count: u64 },
    /// Several commands, each on what those before it made: all of them, or none.
    InTurn(Vec<NodeCommand>),
}

impl Decider for Node {
    const KIND: StreamKind = StreamKind::Node;
    type State = Self;
    type Command = NodeCommand;
    type Event = NodeEvent;
    type Rejection = NodeRejection;

    fn decide(state: &Self, command: NodeCommand, now: Timestamp) -> Result<Vec<NodeEvent>, NodeRejection> {
        match state {
            Self::Unclaimed => decide::on_nothing(command, now),
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

    fn narrow(event: &Event) -> Option<&NodeEvent> {
        if let Event::Node(event) = event { Some(event) } else { None }
    }
}

impl NodeProfile {
    /// The name for people: the id when none was given (contract 4).
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.fields.name.as_ref().map(Text::as_str).filter(|name| !name.is_empty()).unwrap_or(self.id.as_str())
    }

    /// The version that `reference` names, deleted or not.
    #[must_use]
    pub fn version(&self, reference: &VersionRef) -> Option<&NodeVersion> {
        self.versions.iter().map(Arc::as_ref).find(|version| reference.names(version))
    }

    /// Stars with two decimals: the mean of the reviews, or what an administrator set as long as there are none.
    #[must_use]
    pub fn rating(&self) -> Option<f64> {
        self.mean().map(Rating::get)
    }

    /// The same, exactly.
    #[must_use]
    pub fn mean(&self) -> Option<Rating> {
        self.reviews.mean().or(self.rating_given)
    }

    /// What administrators set of it, or what counts in its place.
    #[must_use]
    pub fn facts(&self) -> NodeFacts {
        NodeFacts {
            created_at: Some(self.created_at),
            downloads: Some(self.downloads),
            rating: self.rating_given,
            github_stars: self.github_stars,
            search_ranking: self.search_ranking,
            status_detail: Some(self.status_detail.clone().unwrap_or_default()),
            tags_admin: self.tags_admin.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
