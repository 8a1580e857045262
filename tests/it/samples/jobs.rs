//! Submissions of image jobs: one of each kind, with every field filled in at least one.

use mediary::domain::event::Event;
use mediary::domain::ids::{PublisherId, TaskId, TokenId, UserId};
use mediary::domain::image::{
    ImageJob, ImageWork, LightSettings, LightSource, OptimizedFor, Percent, PictureSource, PortraitBeautifier,
    PortraitSettings, PortraitStyle, PrecisionFlavor, PrecisionScaleFactor, PrecisionUpscaleJob, RelightEngine,
    RelightJob, RelightStyle, ScaleFactor, SignedStrength, SkinEnhanceJob, SkinFocus, SkinMode, StyleEngine,
    StyleFlavor, StyleTransferJob, TransferLightA, TransferLightB, UpscaleEngine, UpscaleJob,
};
use mediary::domain::task::{Payers, Submission, TaskEvent, TaskWork};
use mediary::domain::value::CallbackUrl;

use super::{id, picture, text};

/// Returns the oldest kind of submission: an upscale of a picture in the body.
pub(super) fn submitted() -> Event {
    submission_of(ImageWork { job: upscale(), image: stored_source(), reference: None, seed: None, credits: 0 })
}

/// Returns the name of each later kind of job, and its submission.
pub fn every_job() -> Vec<(&'static str, Event)> {
    let work = |job, image, reference, seed| submission_of(ImageWork { job, image, reference, seed, credits: 0 });
    let skin =
        |mode| ImageJob::SkinEnhance(SkinEnhanceJob { sharpen: Percent::saturating(3), ..SkinEnhanceJob::new(mode) });
    let flexible = SkinMode::Flexible { focus: SkinFocus::NoMakeUp };
    vec![
        ("upscale-of-url", work(upscale(), at("image.png"), None, None)),
        ("upscale-precision", work(precision(), stored_source(), None, None)),
        ("style-transfer", work(style(), stored_source(), Some(at("reference.webp")), Some(u32::MAX))),
        ("skin-creative", work(skin(SkinMode::Creative), stored_source(), None, Some(0))),
        (
            "skin-faithful",
            work(skin(SkinMode::Faithful { detail: Percent::saturating(81) }), stored_source(), None, Some(1)),
        ),
        ("skin-flexible", work(skin(flexible), stored_source(), None, Some(2))),
        ("relight", work(relight(), at("image.jpg"), Some(stored_source()), None)),
    ]
}

/// Returns an image with a price.
pub fn priced() -> Event {
    submission_of(ImageWork { job: relight(), image: stored_source(), reference: None, seed: Some(9), credits: 7 })
}

/// Returns an image that a token and a publisher pay for too.
pub fn paid() -> Event {
    let work = ImageWork { job: upscale(), image: stored_source(), reference: None, seed: None, credits: 7 };
    let payers = Payers {
        token: Some(TokenId(id(0x70))),
        former_accounts: vec![UserId(id(0x71))],
        publishers: vec![PublisherId::parse("acme").unwrap()],
    };
    TaskEvent::TaskSubmitted(Submission { payers: payers.into_option(), ..submission(work) }).into()
}

fn submission_of(work: ImageWork) -> Event {
    TaskEvent::TaskSubmitted(submission(work)).into()
}

fn submission(work: ImageWork) -> Submission {
    Submission {
        task: TaskId(id(0x7A)),
        owner: Some(UserId(id(0xA))),
        work: TaskWork::Image(work),
        webhook: Some(CallbackUrl::parse("https://example.com/hook").unwrap()),
        payers: None,
    }
}

fn stored_source() -> PictureSource {
    PictureSource::Stored(picture())
}

fn at(name: &str) -> PictureSource {
    PictureSource::Remote(CallbackUrl::parse(&format!("https://example.com/{name}")).unwrap())
}

fn upscale() -> ImageJob {
    ImageJob::Upscale(UpscaleJob {
        scale_factor: ScaleFactor::X4,
        engine: UpscaleEngine::Sparkle,
        optimized_for: OptimizedFor::Renders3d,
        creativity: SignedStrength::new(-10).unwrap(),
        fractality: SignedStrength::new(10).unwrap(),
        hdr: SignedStrength::new(0).unwrap(),
        resemblance: SignedStrength::new(3).unwrap(),
        prompt: Some(text("a harbour at night")),
    })
}

fn precision() -> ImageJob {
    ImageJob::UpscalePrecision(PrecisionUpscaleJob {
        scale_factor: PrecisionScaleFactor::new(7).unwrap(),
        flavor: PrecisionFlavor::PhotoDenoiser,
        sharpen: Percent::saturating(1),
        smart_grain: Percent::saturating(2),
        ultra_detail: Percent::saturating(99),
    })
}

fn style() -> ImageJob {
    ImageJob::StyleTransfer(StyleTransferJob {
        engine: StyleEngine::Cartoon3d,
        flavor: StyleFlavor::DonotstyleSharp,
        portrait: Some(PortraitSettings {
            beautifier: Some(PortraitBeautifier::FaceMax),
            style: PortraitStyle::SuperPop,
        }),
        prompt: Some(text("as of clay")),
        structure_strength: Percent::saturating(40),
        style_strength: Percent::saturating(60),
        fixed_generation: false,
    })
}

fn relight() -> ImageJob {
    ImageJob::Relight(RelightJob {
        prompt: Some(text("late sun")),
        source: LightSource::Lightmap,
        light_transfer_strength: Percent::saturating(70),
        interpolate_from_original: true,
        change_background: false,
        preserve_details: true,
        style: RelightStyle::ContrastedNHdr,
        advanced: LightSettings {
            whites: Percent::saturating(51),
            blacks: Percent::saturating(52),
            brightness: Percent::saturating(53),
            contrast: Percent::saturating(54),
            saturation: Percent::saturating(55),
            engine: RelightEngine::Fairy,
            transfer_light_a: TransferLightA::HighOnFaces,
            transfer_light_b: TransferLightB::SoftMid,
            fixed_generation: true,
        },
    })
}
