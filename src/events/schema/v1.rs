//! Schema version 1, frozen: the order of fields and variants is the format. New event types may be appended at the end
//! of their enum; any other change needs a new version.
//!
//! Enumerations of the API are stored by name, identifiers as 16 bytes, durations and times in microseconds.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use super::bytes::{StoredId, StoredSha256};

/// Text, borrowed when written and owned when read.
pub type Str<'a> = Cow<'a, str>;
/// A list of short texts.
pub type Strs<'a> = Vec<Str<'a>>;
/// Texts by language and field.
pub type TranslationsV1<'a> = BTreeMap<Str<'a>, BTreeMap<Str<'a>, Str<'a>>>;

/// All events of one append; the record of the journal.
#[derive(Debug, Serialize, Deserialize)]
pub struct CommitV1<'a> {
    /// Position of the first event.
    pub position: u64,
    pub stream: Str<'a>,
    /// Version of the stream after the first event.
    pub version: u64,
    pub at_micros: i64,
    pub actor: ActorV1,
    pub request: Option<Str<'a>>,
    pub causation: Option<StoredId>,
    pub events: Vec<EntryV1<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum ActorV1 {
    System,
    User(StoredId),
    Token(StoredId),
    Anonymous,
}

/// One event of a commit.
#[derive(Debug, Serialize, Deserialize)]
pub struct EntryV1<'a> {
    pub id: StoredId,
    pub event: EventV1<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum EventV1<'a> {
    User(UserEventV1<'a>),
    Publisher(PublisherEventV1<'a>),
    Token(TokenEventV1<'a>),
    Node(NodeEventV1<'a>),
    Task(TaskEventV1<'a>),
    Delivery(DeliveryEventV1<'a>),
    Claim(ClaimEventV1),
}

#[derive(Debug, Serialize, Deserialize)]
pub enum UserEventV1<'a> {
    UserCreated { id: StoredId, email: Option<Str<'a>>, name: Option<Str<'a>>, is_admin: bool, is_approved: bool },
    UserRevised { change: UserFieldsV1<'a> },
    UserBanned { reason: Str<'a> },
    UserUnbanned { reason: Str<'a> },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum PublisherEventV1<'a> {
    PublisherCreated {
        id: Str<'a>,
        owner: StoredId,
        fields: PublisherFieldsV1<'a>,
    },
    PublisherRevised {
        change: PublisherFieldsV1<'a>,
    },
    PublisherAdministered {
        created_at_micros: Option<i64>,
    },
    MemberAdded {
        user: StoredId,
        role: Str<'a>,
    },
    MemberRoleChanged {
        user: StoredId,
        role: Str<'a>,
    },
    MemberRemoved {
        user: StoredId,
    },
    PublisherBanned {
        reason: Str<'a>,
    },
    PublisherUnbanned {
        reason: Str<'a>,
    },
    PublisherDeleted,
    WebhookCreated {
        id: StoredId,
        url: Str<'a>,
        events: Strs<'a>,
        enabled: bool,
        account: StoredId,
    },
    WebhookRevised {
        webhook: StoredId,
        url: Option<Str<'a>>,
        account: Option<StoredId>,
        events: Option<Strs<'a>>,
        enabled: Option<bool>,
    },
    WebhookRemoved {
        webhook: StoredId,
    },
    WebhookTested {
        webhook: StoredId,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum TokenEventV1<'a> {
    TokenIssued {
        id: StoredId,
        subject: TokenSubjectV1<'a>,
        name: Str<'a>,
        description: Option<Str<'a>>,
        secret_hash: StoredSha256,
    },
    TokenRevoked,
    TokenUsed {
        at_micros: i64,
    },
    LimitedTokenIssued {
        id: StoredId,
        subject: TokenSubjectV1<'a>,
        name: Str<'a>,
        description: Option<Str<'a>>,
        secret_hash: StoredSha256,
        scope: Str<'a>,
        expires_at_micros: Option<i64>,
        issued_with: Option<StoredId>,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum NodeEventV1<'a> {
    NodeCreated { id: Str<'a>, publisher: Str<'a>, fields: NodeFieldsV1<'a> },
    NodeRevised { change: NodeFieldsV1<'a> },
    VersionReleased { version: VersionDraftV1<'a> },
    VersionPublished { version: VersionDraftV1<'a> },
    VersionRevised { id: StoredId, change: VersionFieldsV1<'a> },
    NodeAdministered { facts: NodeFactsV1<'a> },
    NodeTranslated { language: Str<'a>, texts: BTreeMap<Str<'a>, Str<'a>> },
    NodeBanned { reason: Str<'a> },
    NodeUnbanned { reason: Str<'a> },
    NodeDeleted,
    NodeReviewed { user: StoredId, stars: u8 },
    DownloadsCounted { count: u64 },
    ArchiveStored { version: StoredId, digest: StoredSha256, bytes: u64 },
    VersionStatusChanged { id: StoredId, status: Str<'a>, reason: Option<Str<'a>> },
    VersionAdministered { id: StoredId, facts: VersionFactsV1<'a> },
    DependenciesContinued { id: StoredId, dependencies: Strs<'a> },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum TaskEventV1<'a> {
    TaskSubmitted { task: StoredId, owner: StoredId, work: WorkV1<'a>, webhook: Option<Str<'a>> },
    SubmissionStarted { attempt: u32, key: Str<'a> },
    VendorAccepted { reference: Str<'a> },
    VendorRefused { failure: FailureV1<'a> },
    OutcomeUnknown { reason: Str<'a> },
    VendorForgot,
    TaskCompleted { results: Vec<PictureV1<'a>> },
    TaskFailed { failure: FailureV1<'a> },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum DeliveryEventV1<'a> {
    AttemptFailed {
        delivery: StoredId,
        task: StoredId,
        attempt: u32,
        outcome: AttemptOutcomeV1<'a>,
        next_at_micros: i64,
    },
    DeliverySucceeded {
        delivery: StoredId,
        task: StoredId,
        attempt: u32,
        status: u16,
    },
    DeliveryDeadLettered {
        delivery: StoredId,
        task: StoredId,
        attempt: u32,
        outcome: AttemptOutcomeV1<'a>,
    },
    RedeliveryRequested {
        delivery: StoredId,
        task: StoredId,
        owner: StoredId,
        url: Str<'a>,
        change: u64,
    },
    AnonymousRedeliveryRequested {
        delivery: StoredId,
        task: StoredId,
        url: Str<'a>,
        change: u64,
    },
    EventAttemptFailed {
        delivery: StoredId,
        webhook: StoredId,
        attempt: u32,
        outcome: AttemptOutcomeV1<'a>,
        next_at_micros: i64,
    },
    EventDeliverySucceeded {
        delivery: StoredId,
        webhook: StoredId,
        attempt: u32,
        status: u16,
    },
    EventDeliveryDeadLettered {
        delivery: StoredId,
        webhook: StoredId,
        attempt: u32,
        outcome: AttemptOutcomeV1<'a>,
    },
    EventRedeliveryRequested {
        delivery: StoredId,
        webhook: StoredId,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub struct UserFieldsV1<'a> {
    pub email: Option<Str<'a>>,
    pub name: Option<Str<'a>>,
    pub is_admin: Option<bool>,
    pub is_approved: Option<bool>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum ClaimEventV1 {
    KeyClaimed { key: StoredSha256, fingerprint: StoredSha256, nth: u16 },
}

#[derive(Debug, Serialize, Deserialize)]
pub struct PublisherFieldsV1<'a> {
    pub name: Option<Str<'a>>,
    pub description: Option<Str<'a>>,
    pub logo: Option<Str<'a>>,
    pub source_code_repo: Option<Str<'a>>,
    pub support: Option<Str<'a>>,
    pub website: Option<Str<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum TokenSubjectV1<'a> {
    User(StoredId),
    Publisher { publisher: Str<'a>, issued_by: StoredId },
}

#[derive(Debug, Serialize, Deserialize)]
pub struct NodeFieldsV1<'a> {
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
    pub translations: Option<TranslationsV1<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct NodeFactsV1<'a> {
    pub created_at_micros: Option<i64>,
    pub downloads: Option<u64>,
    pub rating_hundredths: Option<u16>,
    pub github_stars: Option<u64>,
    pub search_ranking: Option<i64>,
    pub status_detail: Option<Str<'a>>,
    pub tags_admin: Option<Strs<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct VersionDraftV1<'a> {
    pub id: StoredId,
    pub number: Str<'a>,
    pub fields: VersionFieldsV1<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct VersionFieldsV1<'a> {
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
pub struct VersionFactsV1<'a> {
    pub created_at_micros: Option<i64>,
    pub tags_admin: Option<Strs<'a>>,
    pub host_node_extract_status: Option<Str<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum WorkV1<'a> {
    ImageUpscale { input: PictureV1<'a>, parameters: UpscaleV1<'a> },
}

#[derive(Debug, Serialize, Deserialize)]
pub struct PictureV1<'a> {
    pub digest: StoredSha256,
    pub format: Str<'a>,
    pub bytes: u64,
    pub width: u32,
    pub height: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct UpscaleV1<'a> {
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
pub struct FailureV1<'a> {
    pub code: Str<'a>,
    pub message: Str<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum AttemptOutcomeV1<'a> {
    Answered { status: u16, retry_after_micros: Option<u64> },
    Unreachable { reason: Str<'a> },
}
