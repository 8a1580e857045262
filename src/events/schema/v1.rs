//! Schema version 1, frozen: the order of fields and variants is the format. New event types may be appended at the end
//! of their enum; any other change needs a new version.
//!
//! Enumerations of the API are stored by name, identifiers as 16 bytes, durations and times in microseconds.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use super::bytes::{Id, Sha};

/// Text, borrowed when written and owned when read.
pub type Str<'a> = Cow<'a, str>;
/// A list of short texts.
pub type Strs<'a> = Vec<Str<'a>>;
/// Texts by language and field.
pub type Translations<'a> = BTreeMap<Str<'a>, BTreeMap<Str<'a>, Str<'a>>>;

/// All events of one append; the record of the journal.
#[derive(Debug, Serialize, Deserialize)]
pub struct Commit<'a> {
    /// Position of the first event.
    pub position: u64,
    pub stream: Str<'a>,
    /// Version of the stream after the first event.
    pub version: u64,
    pub at_micros: i64,
    pub actor: Actor,
    pub request: Option<Str<'a>>,
    pub causation: Option<Id>,
    pub events: Vec<Entry<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Actor {
    System,
    User(Id),
    Token(Id),
    Anonymous,
}

/// One event of a commit.
#[derive(Debug, Serialize, Deserialize)]
pub struct Entry<'a> {
    pub id: Id,
    pub event: Event<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Event<'a> {
    User(UserEvent<'a>),
    Publisher(PublisherEvent<'a>),
    Token(TokenEvent<'a>),
    Node(NodeEvent<'a>),
    Task(TaskEvent<'a>),
    Delivery(DeliveryEvent<'a>),
    Claim(ClaimEvent),
}

#[derive(Debug, Serialize, Deserialize)]
pub enum UserEvent<'a> {
    UserCreated { id: Id, email: Option<Str<'a>>, name: Option<Str<'a>>, is_admin: bool, is_approved: bool },
    UserRevised { change: UserFields<'a> },
    UserBanned { reason: Str<'a> },
    UserUnbanned { reason: Str<'a> },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum PublisherEvent<'a> {
    PublisherCreated { id: Str<'a>, owner: Id, fields: PublisherFields<'a> },
    PublisherRevised { change: PublisherFields<'a> },
    PublisherAdministered { created_at_micros: Option<i64> },
    MemberAdded { user: Id, role: Str<'a> },
    MemberRoleChanged { user: Id, role: Str<'a> },
    MemberRemoved { user: Id },
    PublisherBanned { reason: Str<'a> },
    PublisherUnbanned { reason: Str<'a> },
    PublisherDeleted,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum TokenEvent<'a> {
    TokenIssued { id: Id, subject: TokenSubject<'a>, name: Str<'a>, description: Option<Str<'a>>, secret_hash: Sha },
    TokenRevoked,
    TokenUsed { at_micros: i64 },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum NodeEvent<'a> {
    NodeCreated { id: Str<'a>, publisher: Str<'a>, fields: NodeFields<'a> },
    NodeRevised { change: NodeFields<'a> },
    VersionReleased { version: VersionDraft<'a> },
    VersionPublished { version: VersionDraft<'a> },
    VersionRevised { id: Id, change: VersionFields<'a> },
    NodeAdministered { facts: NodeFacts<'a> },
    NodeTranslated { language: Str<'a>, texts: BTreeMap<Str<'a>, Str<'a>> },
    NodeBanned { reason: Str<'a> },
    NodeUnbanned { reason: Str<'a> },
    NodeDeleted,
    NodeReviewed { user: Id, stars: u8 },
    DownloadsCounted { count: u64 },
    ArchiveStored { version: Id, digest: Sha, bytes: u64 },
    VersionStatusChanged { id: Id, status: Str<'a>, reason: Option<Str<'a>> },
    VersionAdministered { id: Id, facts: VersionFacts<'a> },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum TaskEvent<'a> {
    TaskSubmitted { task: Id, owner: Id, work: Work<'a>, webhook: Option<Str<'a>> },
    SubmissionStarted { attempt: u32, key: Str<'a> },
    VendorAccepted { reference: Str<'a> },
    VendorRefused { failure: Failure<'a> },
    OutcomeUnknown { reason: Str<'a> },
    VendorForgot,
    TaskCompleted { results: Vec<Picture<'a>> },
    TaskFailed { failure: Failure<'a> },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum DeliveryEvent<'a> {
    AttemptFailed { delivery: Id, task: Id, attempt: u32, outcome: AttemptOutcome<'a>, next_at_micros: i64 },
    DeliverySucceeded { delivery: Id, task: Id, attempt: u32, status: u16 },
    DeliveryDeadLettered { delivery: Id, task: Id, attempt: u32, outcome: AttemptOutcome<'a> },
    RedeliveryRequested { delivery: Id, task: Id, owner: Id, url: Str<'a>, change: u64 },
    AnonymousRedeliveryRequested { delivery: Id, task: Id, url: Str<'a>, change: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
pub struct UserFields<'a> {
    pub email: Option<Str<'a>>,
    pub name: Option<Str<'a>>,
    pub is_admin: Option<bool>,
    pub is_approved: Option<bool>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum ClaimEvent {
    KeyClaimed { key: Sha, fingerprint: Sha, nth: u16 },
}

#[derive(Debug, Serialize, Deserialize)]
pub struct PublisherFields<'a> {
    pub name: Option<Str<'a>>,
    pub description: Option<Str<'a>>,
    pub logo: Option<Str<'a>>,
    pub source_code_repo: Option<Str<'a>>,
    pub support: Option<Str<'a>>,
    pub website: Option<Str<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum TokenSubject<'a> {
    User(Id),
    Publisher { publisher: Str<'a>, issued_by: Id },
}

#[derive(Debug, Serialize, Deserialize)]
pub struct NodeFields<'a> {
    pub author: Option<Str<'a>>,
    pub banner_url: Option<Str<'a>>,
    pub category: Option<Str<'a>>,
    pub description: Option<Str<'a>>,
    pub icon: Option<Str<'a>>,
    pub license: Option<Str<'a>>,
    pub name: Option<Str<'a>>,
    pub preempted_host_node_names: Option<Strs<'a>>,
    pub repository: Option<Str<'a>>,
    pub supported_accelerators: Option<Strs<'a>>,
    pub supported_host_frontend_version: Option<Str<'a>>,
    pub supported_host_version: Option<Str<'a>>,
    pub supported_os: Option<Strs<'a>>,
    pub tags: Option<Strs<'a>>,
    pub translations: Option<Translations<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct NodeFacts<'a> {
    pub created_at_micros: Option<i64>,
    pub downloads: Option<u64>,
    pub rating_hundredths: Option<u16>,
    pub github_stars: Option<u64>,
    pub search_ranking: Option<i64>,
    pub status_detail: Option<Str<'a>>,
    pub tags_admin: Option<Strs<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct VersionDraft<'a> {
    pub id: Id,
    pub number: Str<'a>,
    pub fields: VersionFields<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct VersionFields<'a> {
    pub changelog: Option<Str<'a>>,
    pub dependencies: Option<Strs<'a>>,
    pub deprecated: Option<bool>,
    pub supported_accelerators: Option<Strs<'a>>,
    pub supported_host_frontend_version: Option<Str<'a>>,
    pub supported_host_version: Option<Str<'a>>,
    pub supported_os: Option<Strs<'a>>,
    pub tags: Option<Strs<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct VersionFacts<'a> {
    pub created_at_micros: Option<i64>,
    pub tags_admin: Option<Strs<'a>>,
    pub host_node_extract_status: Option<Str<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Work<'a> {
    ImageUpscale { input: Picture<'a>, parameters: Upscale<'a> },
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Picture<'a> {
    pub digest: Sha,
    pub format: Str<'a>,
    pub bytes: u64,
    pub width: u32,
    pub height: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Upscale<'a> {
    pub scale_factor: Str<'a>,
    pub engine: Str<'a>,
    pub optimized_for: Str<'a>,
    pub creativity: i8,
    pub fractality: i8,
    pub hdr: i8,
    pub resemblance: i8,
    pub prompt: Option<Str<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Failure<'a> {
    pub code: Str<'a>,
    pub message: Str<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum AttemptOutcome<'a> {
    Answered { status: u16, retry_after_micros: Option<u64> },
    Unreachable { reason: Str<'a> },
}
