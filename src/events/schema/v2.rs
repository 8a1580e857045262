//! Schema version 2, frozen. It adds sealed personal fields, the erasure of users, and all image jobs. Other shapes are
//! those of version 1, which is frozen too. New event types may be appended at the end of their enum here as well.

use serde::{Deserialize, Serialize};

use super::v1::{self, Actor, ClaimEvent, DeliveryEvent, Id, NodeEvent, PublisherEvent, Str, TokenEvent};

mod task;
mod user;
mod video;

pub use task::{
    ImageJob, LightSettings, Portrait, Relight, SkinEnhance, SkinMode, Source, StyleTransfer, TaskEvent,
    UpscalePrecision, Work,
};
pub use user::{Personal, Sealed, UserEvent, UserFields};
pub use video::{
    Clip, Creation, Document, Extend, Generate, KeyFrame, Multiframe, MusicStream, VideoJob, VideoWork, Watermark,
};

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

impl<'a> From<v1::Commit<'a>> for Commit<'a> {
    fn from(old: v1::Commit<'a>) -> Self {
        let v1::Commit { position, stream, version, at_micros, actor, request, causation, events } = old;
        let events = events.into_iter().map(|entry| Entry { id: entry.id, event: entry.event.into() }).collect();
        Self { position, stream, version, at_micros, actor, request, causation, events }
    }
}

impl<'a> From<v1::Event<'a>> for Event<'a> {
    fn from(old: v1::Event<'a>) -> Self {
        match old {
            v1::Event::User(event) => Self::User(event.into()),
            v1::Event::Publisher(event) => Self::Publisher(event),
            v1::Event::Token(event) => Self::Token(event),
            v1::Event::Node(event) => Self::Node(event),
            v1::Event::Task(event) => Self::Task(event.into()),
            v1::Event::Delivery(event) => Self::Delivery(event),
            v1::Event::Claim(event) => Self::Claim(event),
        }
    }
}
