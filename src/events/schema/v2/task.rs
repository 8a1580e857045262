//! Tasks in schema version 2: all image jobs, inputs at URLs, and further task events. The variants of version 1 keep
//! their bytes. New kinds of jobs may be appended at the end of their enum.

use serde::{Deserialize, Serialize};

use super::super::bytes::StoredSha256;
use super::super::v1::{self, FailureV1, PictureV1, StoredId, Str, UpscaleV1};
use super::video::{ClipV2, CreationV2, MusicFileV2, MusicStreamV2, VideoWorkV2};

#[derive(Debug, Serialize, Deserialize)]
pub enum TaskEventV2<'a> {
    TaskSubmitted {
        task: StoredId,
        owner: StoredId,
        work: WorkV2<'a>,
        webhook: Option<Str<'a>>,
    },
    SubmissionStarted {
        attempt: u32,
        key: Str<'a>,
    },
    VendorAccepted {
        reference: Str<'a>,
    },
    VendorRefused {
        failure: FailureV1<'a>,
    },
    OutcomeUnknown {
        reason: Str<'a>,
    },
    VendorForgot,
    TaskCompleted {
        results: Vec<PictureV1<'a>>,
    },
    TaskFailed {
        failure: FailureV1<'a>,
    },
    InputsFetched {
        inputs: Vec<PictureV1<'a>>,
    },
    SubmissionUndelivered {
        reason: Str<'a>,
    },
    TaskCancelled,
    AnonymousTaskSubmitted {
        task: StoredId,
        work: WorkV2<'a>,
        webhook: Option<Str<'a>>,
    },
    TaskQueued,
    FootageFetched {
        clip: ClipV2<'a>,
    },
    WorkBegan,
    VideoCompleted {
        creation: CreationV2<'a>,
    },
    StreamCompleted {
        stream: MusicStreamV2<'a>,
    },
    VendorSubmissionStarted {
        attempt: u32,
        key: Str<'a>,
        vendor: VendorV2<'a>,
    },
    PaidTaskSubmitted {
        task: StoredId,
        owner: Option<StoredId>,
        work: WorkV2<'a>,
        webhook: Option<Str<'a>>,
        payers: PayersV2<'a>,
    },
    StoredStreamCompleted {
        stream: MusicStreamV2<'a>,
        files: Vec<MusicFileV2<'a>>,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub struct PayersV2<'a> {
    pub token: Option<StoredId>,
    pub former_accounts: Vec<StoredId>,
    pub publishers: Vec<Str<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct VendorV2<'a> {
    pub name: Str<'a>,
    pub profile: Str<'a>,
    pub profile_hash: Option<StoredSha256>,
    pub price_thousandths: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum WorkV2<'a> {
    ImageUpscale {
        input: PictureV1<'a>,
        parameters: UpscaleV1<'a>,
    },
    Image {
        job: Box<ImageJobV2<'a>>,
        image: SourceV2<'a>,
        reference: Option<SourceV2<'a>>,
        seed: Option<u32>,
    },
    Video(Box<VideoWorkV2<'a>>),
    Music {
        prompt: Str<'a>,
        seconds: Option<u16>,
    },
    PricedImage {
        job: Box<ImageJobV2<'a>>,
        image: SourceV2<'a>,
        reference: Option<SourceV2<'a>>,
        seed: Option<u32>,
        credits: u32,
    },
    PricedMusic {
        prompt: Str<'a>,
        seconds: Option<u16>,
        credits: u32,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum SourceV2<'a> {
    Kept(PictureV1<'a>),
    Remote(Str<'a>),
}

#[derive(Debug, Serialize, Deserialize)]
pub enum ImageJobV2<'a> {
    Upscale(UpscaleV1<'a>),
    UpscalePrecision(UpscalePrecisionV2<'a>),
    StyleTransfer(StyleTransferV2<'a>),
    SkinEnhance(SkinEnhanceV2<'a>),
    Relight(RelightV2<'a>),
}

#[derive(Debug, Serialize, Deserialize)]
pub struct UpscalePrecisionV2<'a> {
    pub scale_factor: u8,
    pub flavor: Str<'a>,
    pub sharpen: u8,
    pub smart_grain: u8,
    pub ultra_detail: u8,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct StyleTransferV2<'a> {
    pub engine: Str<'a>,
    pub flavor: Str<'a>,
    pub portrait: Option<PortraitV2<'a>>,
    pub prompt: Option<Str<'a>>,
    pub structure_strength: u8,
    pub style_strength: u8,
    pub fixed_generation: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct PortraitV2<'a> {
    pub beautifier: Option<Str<'a>>,
    pub style: Str<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct SkinEnhanceV2<'a> {
    pub mode: SkinModeV2<'a>,
    pub sharpen: u8,
    pub smart_grain: u8,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum SkinModeV2<'a> {
    Creative,
    Faithful { detail: u8 },
    Flexible { focus: Str<'a> },
}

#[derive(Debug, Serialize, Deserialize)]
pub struct RelightV2<'a> {
    pub prompt: Option<Str<'a>>,
    pub source: Str<'a>,
    pub light_transfer_strength: u8,
    pub interpolate_from_original: bool,
    pub change_background: bool,
    pub preserve_details: bool,
    pub style: Str<'a>,
    pub advanced: LightSettingsV2<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct LightSettingsV2<'a> {
    pub whites: u8,
    pub blacks: u8,
    pub brightness: u8,
    pub contrast: u8,
    pub saturation: u8,
    pub engine: Str<'a>,
    pub transfer_light_a: Str<'a>,
    pub transfer_light_b: Str<'a>,
    pub fixed_generation: bool,
}

impl<'a> From<v1::TaskEventV1<'a>> for TaskEventV2<'a> {
    fn from(old: v1::TaskEventV1<'a>) -> Self {
        match old {
            v1::TaskEventV1::TaskSubmitted { task, owner, work, webhook } => {
                let v1::WorkV1::ImageUpscale { input, parameters } = work;
                Self::TaskSubmitted { task, owner, work: WorkV2::ImageUpscale { input, parameters }, webhook }
            }
            v1::TaskEventV1::SubmissionStarted { attempt, key } => Self::SubmissionStarted { attempt, key },
            v1::TaskEventV1::VendorAccepted { reference } => Self::VendorAccepted { reference },
            v1::TaskEventV1::VendorRefused { failure } => Self::VendorRefused { failure },
            v1::TaskEventV1::OutcomeUnknown { reason } => Self::OutcomeUnknown { reason },
            v1::TaskEventV1::VendorForgot => Self::VendorForgot,
            v1::TaskEventV1::TaskCompleted { results } => Self::TaskCompleted { results },
            v1::TaskEventV1::TaskFailed { failure } => Self::TaskFailed { failure },
        }
    }
}
