//! Schema version 2. It adds sealed personal fields, the erasure of users, and all image jobs. The other shapes are
//! those of version 1.
//!
//! Existing shapes of both versions are frozen. New event types are appended at the end of their enum.

use serde::{Deserialize, Serialize};

use super::v1::{
    self, ActorV1, ClaimEventV1, DeliveryEventV1, NodeEventV1, PublisherEventV1, StoredId, Str, TokenEventV1,
};

mod budget;
mod task;
mod user;
mod video;

pub use budget::BudgetEventV2;
pub use task::{
    ImageJobV2, LightSettingsV2, PayersV2, PortraitV2, RelightV2, SkinEnhanceV2, SkinModeV2, SourceV2, StyleTransferV2,
    TaskEventV2, UpscalePrecisionV2, VendorV2, WorkV2,
};
pub use user::{PersonalV2, SealedV2, UserEventV2, UserFieldsV2};
pub use video::{
    ClipV2, CreationV2, DocumentV2, ExtendV2, GenerateV2, KeyFrameV2, MultiframeV2, MusicFileV2, MusicStreamV2,
    VideoJobV2, VideoWorkV2, WatermarkV2,
};

/// All events of one append; the record of the journal.
#[derive(Debug, Serialize, Deserialize)]
pub struct CommitV2<'a> {
    /// Position of the first event.
    pub position: u64,
    pub stream: Str<'a>,
    /// Version of the stream after the first event.
    pub version: u64,
    pub at_micros: i64,
    pub actor: ActorV1,
    pub request: Option<Str<'a>>,
    pub causation: Option<StoredId>,
    pub events: Vec<EntryV2<'a>>,
}

/// One event of a commit.
#[derive(Debug, Serialize, Deserialize)]
pub struct EntryV2<'a> {
    pub id: StoredId,
    pub event: EventV2<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum EventV2<'a> {
    User(UserEventV2<'a>),
    Publisher(PublisherEventV1<'a>),
    Token(TokenEventV1<'a>),
    Node(NodeEventV1<'a>),
    Task(TaskEventV2<'a>),
    Delivery(DeliveryEventV1<'a>),
    Claim(ClaimEventV1),
    Budget(BudgetEventV2<'a>),
}

impl<'a> From<v1::CommitV1<'a>> for CommitV2<'a> {
    fn from(old: v1::CommitV1<'a>) -> Self {
        let v1::CommitV1 { position, stream, version, at_micros, actor, request, causation, events } = old;
        let events = events.into_iter().map(|entry| EntryV2 { id: entry.id, event: entry.event.into() }).collect();
        Self { position, stream, version, at_micros, actor, request, causation, events }
    }
}

impl<'a> From<v1::EventV1<'a>> for EventV2<'a> {
    fn from(old: v1::EventV1<'a>) -> Self {
        match old {
            v1::EventV1::User(event) => Self::User(event.into()),
            v1::EventV1::Publisher(event) => Self::Publisher(event),
            v1::EventV1::Token(event) => Self::Token(event),
            v1::EventV1::Node(event) => Self::Node(event),
            v1::EventV1::Task(event) => Self::Task(event.into()),
            v1::EventV1::Delivery(event) => Self::Delivery(event),
            v1::EventV1::Claim(event) => Self::Claim(event),
        }
    }
}
