//! Tasks in schema version 2: all image jobs, inputs at URLs, and further task events. The variants of version 1 keep
//! their bytes. New kinds of jobs may be appended at the end of their enum.

use serde::{Deserialize, Serialize};

use super::super::v1::{self, Failure, Id, Picture, Str, Upscale};
use super::video::{Clip, Creation, MusicStream, VideoWork};

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
    InputsFetched { inputs: Vec<Picture<'a>> },
    SubmissionUndelivered { reason: Str<'a> },
    TaskCancelled,
    AnonymousTaskSubmitted { task: Id, work: Work<'a>, webhook: Option<Str<'a>> },
    TaskQueued,
    FootageFetched { clip: Clip<'a> },
    WorkBegan,
    VideoCompleted { creation: Creation<'a> },
    StreamCompleted { stream: MusicStream<'a> },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Work<'a> {
    ImageUpscale { input: Picture<'a>, parameters: Upscale<'a> },
    Image { job: Box<ImageJob<'a>>, image: Source<'a>, reference: Option<Source<'a>>, seed: Option<u32> },
    Video(Box<VideoWork<'a>>),
    Music { prompt: Str<'a>, seconds: Option<u16> },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Source<'a> {
    Kept(Picture<'a>),
    Remote(Str<'a>),
}

#[derive(Debug, Serialize, Deserialize)]
pub enum ImageJob<'a> {
    Upscale(Upscale<'a>),
    UpscalePrecision(UpscalePrecision<'a>),
    StyleTransfer(StyleTransfer<'a>),
    SkinEnhance(SkinEnhance<'a>),
    Relight(Relight<'a>),
}

#[derive(Debug, Serialize, Deserialize)]
pub struct UpscalePrecision<'a> {
    pub scale_factor: u8,
    pub flavor: Str<'a>,
    pub sharpen: u8,
    pub smart_grain: u8,
    pub ultra_detail: u8,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct StyleTransfer<'a> {
    pub engine: Str<'a>,
    pub flavor: Str<'a>,
    pub portrait: Option<Portrait<'a>>,
    pub prompt: Option<Str<'a>>,
    pub structure_strength: u8,
    pub style_strength: u8,
    pub fixed_generation: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Portrait<'a> {
    pub beautifier: Option<Str<'a>>,
    pub style: Str<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct SkinEnhance<'a> {
    pub mode: SkinMode<'a>,
    pub sharpen: u8,
    pub smart_grain: u8,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum SkinMode<'a> {
    Creative,
    Faithful { detail: u8 },
    Flexible { focus: Str<'a> },
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Relight<'a> {
    pub prompt: Option<Str<'a>>,
    pub source: Str<'a>,
    pub light_transfer_strength: u8,
    pub interpolate_from_original: bool,
    pub change_background: bool,
    pub preserve_details: bool,
    pub style: Str<'a>,
    pub advanced: LightSettings<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct LightSettings<'a> {
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

impl<'a> From<v1::TaskEvent<'a>> for TaskEvent<'a> {
    fn from(old: v1::TaskEvent<'a>) -> Self {
        match old {
            v1::TaskEvent::TaskSubmitted { task, owner, work, webhook } => {
                let v1::Work::ImageUpscale { input, parameters } = work;
                Self::TaskSubmitted { task, owner, work: Work::ImageUpscale { input, parameters }, webhook }
            }
            v1::TaskEvent::SubmissionStarted { attempt, key } => Self::SubmissionStarted { attempt, key },
            v1::TaskEvent::VendorAccepted { reference } => Self::VendorAccepted { reference },
            v1::TaskEvent::VendorRefused { failure } => Self::VendorRefused { failure },
            v1::TaskEvent::OutcomeUnknown { reason } => Self::OutcomeUnknown { reason },
            v1::TaskEvent::VendorForgot => Self::VendorForgot,
            v1::TaskEvent::TaskCompleted { results } => Self::TaskCompleted { results },
            v1::TaskEvent::TaskFailed { failure } => Self::TaskFailed { failure },
        }
    }
}
