//! Video and music jobs in schema version 2, and their results. Enumerations of the API are stored by name.

use serde::{Deserialize, Serialize};

use super::super::v1::{PictureV1, StoredId, StoredSha256, Str};
use super::SourceV2;

#[derive(Debug, Serialize, Deserialize)]
pub struct VideoWorkV2<'a> {
    pub job: VideoJobV2<'a>,
    pub images: Vec<SourceV2<'a>>,
    pub seed: u32,
    pub payload: Option<DocumentV2>,
    pub meta_data: Option<DocumentV2>,
    pub credits: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum VideoJobV2<'a> {
    StartEnd(GenerateV2<'a>),
    Reference(GenerateV2<'a>),
    Extend(ExtendV2<'a>),
    Multiframe(MultiframeV2<'a>),
}

#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the API")]
pub struct GenerateV2<'a> {
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
    pub watermark: Option<WatermarkV2<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct WatermarkV2<'a> {
    pub position: Str<'a>,
    pub image: Option<SourceV2<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ExtendV2<'a> {
    pub model: Str<'a>,
    pub resolution: Str<'a>,
    pub seconds: u8,
    pub prompt: Option<Str<'a>>,
    pub creation: StoredId,
    pub url: Str<'a>,
    pub clip: Option<ClipV2<'a>>,
    pub at_vendor: Option<Str<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct MultiframeV2<'a> {
    pub model: Str<'a>,
    pub resolution: Str<'a>,
    pub start_image: Option<SourceV2<'a>>,
    pub key_frames: Vec<KeyFrameV2<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct KeyFrameV2<'a> {
    pub image: SourceV2<'a>,
    pub seconds: u8,
    pub prompt: Option<Str<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct DocumentV2 {
    pub digest: StoredSha256,
    pub bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ClipV2<'a> {
    pub digest: StoredSha256,
    pub format: Str<'a>,
    pub bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct CreationV2<'a> {
    pub video: ClipV2<'a>,
    pub cover: Option<PictureV1<'a>>,
    pub watermarked: Option<ClipV2<'a>>,
    pub at_vendor: Option<Str<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct MusicStreamV2<'a> {
    pub title: Str<'a>,
    pub millis: u64,
    pub bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct MusicFileV2<'a> {
    pub digest: StoredSha256,
    pub format: Str<'a>,
    pub bytes: u64,
}
