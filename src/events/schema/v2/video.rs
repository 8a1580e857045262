//! Video and music jobs in schema version 2, and their results. Enumerations of the API are stored by name.

use serde::{Deserialize, Serialize};

use super::super::v1::{Id, Picture, Sha, Str};
use super::Source;

#[derive(Debug, Serialize, Deserialize)]
pub struct VideoWork<'a> {
    pub job: VideoJob<'a>,
    pub images: Vec<Source<'a>>,
    pub seed: u32,
    pub payload: Option<Document>,
    pub meta_data: Option<Document>,
    pub credits: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum VideoJob<'a> {
    StartEnd(Generate<'a>),
    Reference(Generate<'a>),
    Extend(Extend<'a>),
    Multiframe(Multiframe<'a>),
}

#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the API")]
pub struct Generate<'a> {
    pub model: Str<'a>,
    pub resolution: Str<'a>,
    pub seconds: u8,
    pub aspect_ratio: Option<Str<'a>>,
    pub movement_amplitude: Str<'a>,
    pub style: Str<'a>,
    pub audio: bool,
    pub audio_type: Str<'a>,
    pub bgm: bool,
    pub voice_id: Option<Str<'a>>,
    pub enhance: bool,
    pub is_rec: bool,
    pub off_peak: bool,
    pub priority: i32,
    pub prompt: Option<Str<'a>>,
    pub watermark: Option<Watermark<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Watermark<'a> {
    pub position: Str<'a>,
    pub image: Option<Source<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Extend<'a> {
    pub model: Str<'a>,
    pub resolution: Str<'a>,
    pub seconds: u8,
    pub prompt: Option<Str<'a>>,
    pub creation: Id,
    pub url: Str<'a>,
    pub clip: Option<Clip<'a>>,
    pub at_vendor: Option<Str<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Multiframe<'a> {
    pub model: Str<'a>,
    pub resolution: Str<'a>,
    pub start_image: Option<Source<'a>>,
    pub key_frames: Vec<KeyFrame<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct KeyFrame<'a> {
    pub image: Source<'a>,
    pub seconds: u8,
    pub prompt: Option<Str<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Document {
    pub digest: Sha,
    pub bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Clip<'a> {
    pub digest: Sha,
    pub format: Str<'a>,
    pub bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Creation<'a> {
    pub video: Clip<'a>,
    pub cover: Option<Picture<'a>>,
    pub watermarked: Option<Clip<'a>>,
    pub at_vendor: Option<Str<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct MusicStream<'a> {
    pub title: Str<'a>,
    pub millis: u64,
    pub bytes: u64,
}
