//! Submissions of image jobs: one of each kind, with every field filled in at least one.

use mediary::domain::event::Event;
use mediary::domain::ids::{TaskId, UserId};
use mediary::domain::image::{
    Dial, Factor, ImageJob, ImageWork, LightSettings, LightSource, OptimizedFor, Percent, Portrait, PortraitBeautifier,
    PortraitStyle, PrecisionFlavor, Relight, RelightEngine, RelightStyle, ScaleFactor, SkinEnhance, SkinFocus,
    SkinMode, Source, StyleEngine, StyleFlavor, StyleTransfer, TransferLightA, TransferLightB, Upscale, UpscaleEngine,
    UpscalePrecision,
};
use mediary::domain::task::{Submission, TaskEvent, Work};
use mediary::domain::value::CallbackUrl;

use super::{id, picture, text};

/// The oldest kind of submission: an upscale of a picture in the body.
pub(super) fn submitted() -> Event {
    of_work(ImageWork { job: upscale(), image: kept(), reference: None, seed: None })
}

/// Name of each later kind of job, and its submission.
pub fn every_job() -> Vec<(&'static str, Event)> {
    let work = |job, image, reference, seed| of_work(ImageWork { job, image, reference, seed });
    let skin = |mode| ImageJob::SkinEnhance(SkinEnhance { sharpen: Percent::of(3), ..SkinEnhance::of(mode) });
    let flexible = SkinMode::Flexible { focus: SkinFocus::NoMakeUp };
    vec![
        ("upscale-of-url", work(upscale(), at("image.png"), None, None)),
        ("upscale-precision", work(precision(), kept(), None, None)),
        ("style-transfer", work(style(), kept(), Some(at("reference.webp")), Some(u32::MAX))),
        ("skin-creative", work(skin(SkinMode::Creative), kept(), None, Some(0))),
        ("skin-faithful", work(skin(SkinMode::Faithful { detail: Percent::of(81) }), kept(), None, Some(1))),
        ("skin-flexible", work(skin(flexible), kept(), None, Some(2))),
        ("relight", work(relight(), at("image.jpg"), Some(kept()), None)),
    ]
}

fn of_work(work: ImageWork) -> Event {
    TaskEvent::TaskSubmitted(Submission {
        task: TaskId(id(0x7A)),
        owner: Some(UserId(id(0xA))),
        work: Work::Image(work),
        webhook: Some(CallbackUrl::parse("https://example.com/hook").unwrap()),
    })
    .into()
}

fn kept() -> Source {
    Source::Kept(picture())
}

fn at(name: &str) -> Source {
    Source::Remote(CallbackUrl::parse(&format!("https://example.com/{name}")).unwrap())
}

fn upscale() -> ImageJob {
    ImageJob::Upscale(Upscale {
        scale_factor: ScaleFactor::X4,
        engine: UpscaleEngine::Sparkle,
        optimized_for: OptimizedFor::Renders3d,
        creativity: Dial::new(-10).unwrap(),
        fractality: Dial::new(10).unwrap(),
        hdr: Dial::new(0).unwrap(),
        resemblance: Dial::new(3).unwrap(),
        prompt: Some(text("a harbour at night")),
    })
}

fn precision() -> ImageJob {
    ImageJob::UpscalePrecision(UpscalePrecision {
        scale_factor: Factor::new(7).unwrap(),
        flavor: PrecisionFlavor::PhotoDenoiser,
        sharpen: Percent::of(1),
        smart_grain: Percent::of(2),
        ultra_detail: Percent::of(99),
    })
}

fn style() -> ImageJob {
    ImageJob::StyleTransfer(StyleTransfer {
        engine: StyleEngine::Cartoon3d,
        flavor: StyleFlavor::DonotstyleSharp,
        portrait: Some(Portrait { beautifier: Some(PortraitBeautifier::FaceMax), style: PortraitStyle::SuperPop }),
        prompt: Some(text("as of clay")),
        structure_strength: Percent::of(40),
        style_strength: Percent::of(60),
        fixed_generation: false,
    })
}

fn relight() -> ImageJob {
    ImageJob::Relight(Relight {
        prompt: Some(text("late sun")),
        source: LightSource::Lightmap,
        light_transfer_strength: Percent::of(70),
        interpolate_from_original: true,
        change_background: false,
        preserve_details: true,
        style: RelightStyle::ContrastedNHdr,
        advanced: LightSettings {
            whites: Percent::of(51),
            blacks: Percent::of(52),
            brightness: Percent::of(53),
            contrast: Percent::of(54),
            saturation: Percent::of(55),
            engine: RelightEngine::Fairy,
            transfer_light_a: TransferLightA::HighOnFaces,
            transfer_light_b: TransferLightB::SoftMid,
            fixed_generation: true,
        },
    })
}
