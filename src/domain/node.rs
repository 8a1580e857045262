//! Nodes and their versions: one aggregate, because version numbers are unique within a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::decider::Decider;
use super::event_enum::event_enum;
use super::field_set::{PART_BYTES_MAX, field_set};
use super::ids::{NodeId, PublisherId, StreamKind, UserId, VersionId};
use super::value::{Label, Labels, Link, Name, Reason, Text, Timestamp, Transition, named_values};
use super::version::{
    Archive, Dependencies, NodeVersion, SemVer, VersionAdminFields, VersionDraft, VersionFields, VersionRef,
    VersionStatus,
};

mod rating;
mod reviews;

pub use rating::{Rating, Stars};
pub use reviews::Reviews;

/// Description of a node (contract 4).
pub type NodeDescription = Text<1000>;
/// License of a node: its name, the path of its file, or its text (contract 4).
pub type License = Text<10_000>;

/// Texts of a node in one language: field → text.
pub type LocalizedTexts = BTreeMap<Label, Text<1000>>;
/// Translated texts of a node: language → field → text.
pub type Translations = BTreeMap<Label, LocalizedTexts>;
/// Maximum languages of a node.
pub const LANGUAGES_MAX: usize = 100;
/// Maximum texts of one language; together they fit into one event.
pub const TEXTS_MAX: usize = 20;

named_values! {
    /// States of a node (seed specification, States and transitions).
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
        license: License,
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

impl NodeFields {
    /// Replaces the URLs of icon and banner by paths if they are media files of this service, whose base is
    /// `public_url`.
    #[must_use]
    pub fn relative_to(self, public_url: &str) -> Self {
        let relative = |link: Option<Link>| link.map(|link| link.relative_to(public_url));
        Self { icon: relative(self.icon), banner_url: relative(self.banner_url), ..self }
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

/// A node whose id is claimed. Large parts are shared between copies, because readers may hold a copy while the node
/// changes.
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
    /// The id was claimed; `status` shows whether it is deleted.
    Present(Box<NodeProfile>),
}

impl NodeProfile {
    /// Returns the display name, or the id without one (contract 4).
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

    /// Returns [`NodeProfile::rating`] as a fixed-point number, which can be ordered.
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

impl NodeCommand {
    /// Combines one or more commands into one.
    #[must_use]
    pub fn batch(first: Self, others: impl IntoIterator<Item = Self>) -> Self {
        let mut others = others.into_iter().peekable();
        if others.peek().is_none() {
            return first;
        }
        Self::Batch(std::iter::once(first).chain(others).collect())
    }
}

event_enum! {
    /// Events of a node and its versions.
    NodeEvent {
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
        /// Continues the dependencies that the event before it set, because they do not fit into one event.
        DependenciesContinued { id: VersionId, dependencies: Dependencies },
    }
}

/// Reason why a command on a node was rejected.
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

type NodeDecision = Result<Vec<NodeEvent>, NodeRejection>;

impl Decider for Node {
    const KIND: StreamKind = StreamKind::Node;
    type State = Self;
    type Command = NodeCommand;
    type Event = NodeEvent;
    type Rejection = NodeRejection;

    fn decide(state: &Self, command: NodeCommand, now: Timestamp) -> Result<Vec<NodeEvent>, NodeRejection> {
        match state {
            Self::Unclaimed => decide_initial(command, now),
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
}

/// Decides a command while the id is free.
fn decide_initial(command: NodeCommand, now: Timestamp) -> NodeDecision {
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

/// Decides each command on the state after the previous ones.
fn decide_batch(mut node: Node, commands: Vec<NodeCommand>, now: Timestamp) -> NodeDecision {
    let mut all_events = Vec::new();
    for command in commands {
        let events = Node::decide(&node, command, now)?;
        for event in &events {
            Node::evolve(&mut node, event, now);
        }
        all_events.extend(events);
    }
    Ok(all_events)
}

/// Decisions on a node that exists or is deleted.
impl NodeProfile {
    fn decide(&self, command: NodeCommand, now: Timestamp) -> NodeDecision {
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

    /// Changes a node as an administrator. A change of the status precedes that of the other admin fields, because it
    /// resets the status detail; a deletion comes last, because no event may follow it.
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

fn illegal_transition(subject: &'static str, from: &'static str, to: &'static str) -> NodeRejection {
    NodeRejection::IllegalTransition(Transition { subject, from, to })
}

/// Returns the text, or `None` if it is empty.
fn non_empty(text: Text<1000>) -> Option<Text<1000>> {
    Some(text).filter(|text| !text.as_str().is_empty())
}

/// Returns the events that create a node; the first one contains as many fields as fit into it.
fn creation_events(
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
fn registration_events(mut version: VersionDraft, register: fn(VersionDraft) -> NodeEvent) -> Vec<NodeEvent> {
    let id = version.id;
    let mut parts = version.fields.split().into_iter();
    let mut first_part = parts.next().unwrap_or_default();
    let continued = split_dependencies(id, &mut first_part);
    version.fields = first_part;

    let mut events = vec![register(version)];
    events.extend(continued);
    events.extend(parts.flat_map(|change| version_part_events(id, change)));
    events
}

/// Returns the events that record one part of changed fields.
fn version_part_events(id: VersionId, mut change: VersionFields) -> Vec<NodeEvent> {
    let continued = split_dependencies(id, &mut change);
    std::iter::once(NodeEvent::VersionRevised { id, change }).chain(continued).collect()
}

/// Reduces dependencies to what fits into one event; returns the events that continue them.
fn split_dependencies(id: VersionId, fields: &mut VersionFields) -> Vec<NodeEvent> {
    let Some(dependencies) = &mut fields.dependencies else { return Vec::new() };
    let mut lists = dependencies.split(PART_BYTES_MAX).into_iter();
    *dependencies = lists.next().unwrap_or_default();
    lists.map(|dependencies| NodeEvent::DependenciesContinued { id, dependencies }).collect()
}

fn version_released(version: VersionDraft) -> NodeEvent {
    NodeEvent::VersionReleased { version }
}

fn version_published(version: VersionDraft) -> NodeEvent {
    NodeEvent::VersionPublished { version }
}

fn admin_field_events(admin_fields: NodeAdminFields, current: &NodeAdminFields) -> Vec<NodeEvent> {
    admin_fields
        .changing(current)
        .into_iter()
        .map(|admin_fields| NodeEvent::NodeAdministered { admin_fields })
        .collect()
}

/// Returns one event per language whose texts change.
fn translation_events(translations: Translations, current: &Translations) -> NodeDecision {
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

fn version_revision_events(
    version: &NodeVersion,
    change: VersionFields,
    admin_fields: VersionAdminFields,
) -> Vec<NodeEvent> {
    let id = version.id;
    let changes = change.changing(&version.fields).into_iter();
    let admin_changes = admin_fields.changing(&version.admin_fields()).into_iter();

    let revised = changes.flat_map(|change| version_part_events(id, change));
    let administered = admin_changes.map(|admin_fields| NodeEvent::VersionAdministered { id, admin_fields });
    revised.chain(administered).collect()
}

/// Effects of events.
impl NodeProfile {
    fn new(id: &NodeId, publisher: &PublisherId, fields: &NodeFields, at: Timestamp) -> Self {
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
    fn evolve(&mut self, event: &NodeEvent, at: Timestamp) {
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
            | NodeEvent::DependenciesContinued { id, .. }
            | NodeEvent::ArchiveStored { version: id, .. } => return self.apply_to_version(*id, event),
        }
        true
    }

    fn apply_to_version(&mut self, id: VersionId, event: &NodeEvent) -> bool {
        let Some(version) = self.versions.iter_mut().find(|version| version.id == id) else { return false };
        let version = Arc::make_mut(version);

        match event {
            NodeEvent::VersionRevised { change, .. } => version.fields.apply(change),
            NodeEvent::DependenciesContinued { dependencies, .. } => {
                version.fields.dependencies.get_or_insert_default().append(dependencies);
            }
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
