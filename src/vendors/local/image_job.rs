//! Image job with all inputs, and its mapping to the parameters of the engine.

use mediary_engine::{
    ColourStrength, LightAdjustments, LightCharacter, LightCurve, LightOrigin, LightTransfer, PictureJob, PictureKind,
    PictureRelight, PictureUpscale, PortraitAdjustments, PrecisionJob, PrecisionPreset, RelightAlgorithm, SkinJob,
    SkinPurpose, SkinSmoothing, SkinTreatment, StyleJob, StyleMethod, StylePreset, UpscaleCharacter, UpscaleFactor,
    prompt_seed,
};

use crate::domain::image::{
    ImageJob, ImagePrompt, ImageWork, LightSource, OptimizedFor, Picture, PictureSource, PortraitBeautifier,
    PortraitSettings, PortraitStyle, PrecisionFlavor, PrecisionUpscaleJob, RelightEngine, RelightJob, RelightStyle,
    ScaleFactor, SkinEnhanceJob, SkinFocus, SkinMode, StyleEngine, StyleFlavor, StyleTransferJob, TransferLightA,
    TransferLightB, UpscaleEngine, UpscaleJob,
};
use crate::media::input::DecodedPicture;

/// Job whose pictures are all stored.
pub(super) struct ReadyImageJob {
    pub job: ImageJob,
    pub image: Picture,
    pub reference: Option<Picture>,
    seed: Option<u32>,
}

impl ReadyImageJob {
    /// Creates the job.
    ///
    /// # Errors
    /// Returns a message if a picture is not stored or the size of the result is not allowed.
    pub fn from_work(work: ImageWork) -> Result<Self, String> {
        let stored = |source: &PictureSource| source.stored().copied().ok_or("a picture is missing");
        let image = stored(&work.image)?;
        let reference = work.reference.as_ref().map(stored).transpose()?;
        work.job.check_output_size(image.width, image.height).map_err(|reason| format!("image {reason}"))?;
        Ok(Self { job: work.job, image, reference, seed: work.seed })
    }

    /// Computes the result from the decoded pictures.
    pub fn render(&self, picture: DecodedPicture, reference: Option<&DecodedPicture>) -> DecodedPicture {
        picture_job(&self.job).run(picture, reference, self.seed())
    }

    /// Returns the seed of the task, otherwise that of the prompt, otherwise one derived from the digest of the
    /// picture.
    fn seed(&self) -> u32 {
        let prompt = match &self.job {
            ImageJob::Upscale(job) => job.prompt.as_ref(),
            ImageJob::StyleTransfer(job) => job.prompt.as_ref(),
            ImageJob::Relight(job) => job.prompt.as_ref(),
            ImageJob::UpscalePrecision(_) | ImageJob::SkinEnhance(_) => None,
        };

        let [a, b, c, d, ..] = self.image.digest.0;

        self.seed
            .or_else(|| prompt.and_then(|text| prompt_seed(text.as_str())))
            .unwrap_or(u32::from_le_bytes([a, b, c, d]))
    }
}

/// Returns the job of the engine.
fn picture_job(job: &ImageJob) -> PictureJob {
    match job {
        ImageJob::Upscale(job) => PictureJob::Upscale(upscale(job)),
        ImageJob::UpscalePrecision(job) => PictureJob::Precision(precision(*job)),
        ImageJob::StyleTransfer(job) => PictureJob::Style(style(job)),
        ImageJob::SkinEnhance(job) => PictureJob::Skin(skin(*job)),
        ImageJob::Relight(job) => PictureJob::Relight(relight(job)),
    }
}

fn prompt_text(prompt: Option<&ImagePrompt>) -> Option<String> {
    prompt.map(|prompt| prompt.as_str().to_owned())
}

fn upscale(job: &UpscaleJob) -> PictureUpscale {
    PictureUpscale {
        scale_factor: match job.scale_factor {
            ScaleFactor::X2 => UpscaleFactor::X2,
            ScaleFactor::X4 => UpscaleFactor::X4,
            ScaleFactor::X8 => UpscaleFactor::X8,
            ScaleFactor::X16 => UpscaleFactor::X16,
        },
        engine: match job.engine {
            UpscaleEngine::Automatic => UpscaleCharacter::Automatic,
            UpscaleEngine::Illusio => UpscaleCharacter::Illusio,
            UpscaleEngine::Sharpy => UpscaleCharacter::Sharpy,
            UpscaleEngine::Sparkle => UpscaleCharacter::Sparkle,
        },
        optimized_for: match job.optimized_for {
            OptimizedFor::Standard => PictureKind::Standard,
            OptimizedFor::SoftPortraits => PictureKind::SoftPortraits,
            OptimizedFor::HardPortraits => PictureKind::HardPortraits,
            OptimizedFor::ArtNIllustration => PictureKind::ArtNIllustration,
            OptimizedFor::VideogameAssets => PictureKind::VideogameAssets,
            OptimizedFor::NatureNLandscapes => PictureKind::NatureNLandscapes,
            OptimizedFor::FilmsNPhotography => PictureKind::FilmsNPhotography,
            OptimizedFor::Renders3d => PictureKind::Renders3d,
            OptimizedFor::ScienceFictionNHorror => PictureKind::ScienceFictionNHorror,
        },
        creativity: job.creativity.fraction(),
        fractality: job.fractality.fraction(),
        hdr: job.hdr.fraction(),
        resemblance: job.resemblance.fraction(),
        prompt: prompt_text(job.prompt.as_ref()),
    }
}

fn precision(job: PrecisionUpscaleJob) -> PrecisionJob {
    PrecisionJob {
        scale_factor: usize::from(job.scale_factor.get()),
        flavor: match job.flavor {
            PrecisionFlavor::Sublime => PrecisionPreset::Sublime,
            PrecisionFlavor::Photo => PrecisionPreset::Photo,
            PrecisionFlavor::PhotoDenoiser => PrecisionPreset::PhotoDenoiser,
        },
        sharpen: job.sharpen.fraction(),
        smart_grain: job.smart_grain.fraction(),
        ultra_detail: job.ultra_detail.fraction(),
    }
}

fn style(job: &StyleTransferJob) -> StyleJob {
    StyleJob {
        engine: match job.engine {
            StyleEngine::Balanced => StylePreset::Balanced,
            StyleEngine::Definio => StylePreset::Definio,
            StyleEngine::Illusio => StylePreset::Illusio,
            StyleEngine::Cartoon3d => StylePreset::Cartoon3d,
            StyleEngine::ColorfulAnime => StylePreset::ColorfulAnime,
            StyleEngine::Caricature => StylePreset::Caricature,
            StyleEngine::Real => StylePreset::Real,
            StyleEngine::SuperReal => StylePreset::SuperReal,
            StyleEngine::Softy => StylePreset::Softy,
        },
        flavor: match job.flavor {
            StyleFlavor::Faithful => StyleMethod::Faithful,
            StyleFlavor::GenZ => StyleMethod::GenZ,
            StyleFlavor::Psychedelia => StyleMethod::Psychedelia,
            StyleFlavor::Detaily => StyleMethod::Detaily,
            StyleFlavor::Clear => StyleMethod::Clear,
            StyleFlavor::Donotstyle => StyleMethod::Donotstyle,
            StyleFlavor::DonotstyleSharp => StyleMethod::DonotstyleSharp,
        },
        portrait: job.portrait.map(portrait),
        prompt: prompt_text(job.prompt.as_ref()),
        structure_strength: job.structure_strength.fraction(),
        style_strength: job.style_strength.fraction(),
    }
}

fn portrait(settings: PortraitSettings) -> PortraitAdjustments {
    PortraitAdjustments {
        beautifier: settings.beautifier.map(|beautifier| match beautifier {
            PortraitBeautifier::Face => SkinSmoothing::Face,
            PortraitBeautifier::FaceMax => SkinSmoothing::FaceMax,
        }),
        style: match settings.style {
            PortraitStyle::Standard => ColourStrength::Standard,
            PortraitStyle::Pop => ColourStrength::Pop,
            PortraitStyle::SuperPop => ColourStrength::SuperPop,
        },
    }
}

fn skin(job: SkinEnhanceJob) -> SkinJob {
    let mode = match job.mode {
        SkinMode::Creative => SkinTreatment::Creative,
        SkinMode::Faithful { detail } => SkinTreatment::Faithful { detail: detail.fraction() },
        SkinMode::Flexible { focus } => SkinTreatment::Flexible {
            focus: match focus {
                SkinFocus::EnhanceSkin => SkinPurpose::EnhanceSkin,
                SkinFocus::ImproveLighting => SkinPurpose::ImproveLighting,
                SkinFocus::EnhanceEverything => SkinPurpose::EnhanceEverything,
                SkinFocus::TransformToReal => SkinPurpose::TransformToReal,
                SkinFocus::NoMakeUp => SkinPurpose::NoMakeUp,
            },
        },
    };

    SkinJob { mode, sharpen: job.sharpen.fraction(), smart_grain: job.smart_grain.fraction() }
}

fn relight(job: &RelightJob) -> PictureRelight {
    PictureRelight {
        prompt: prompt_text(job.prompt.as_ref()),
        source: match job.source {
            LightSource::Prompt => LightOrigin::Prompt,
            LightSource::Reference => LightOrigin::Reference,
            LightSource::Lightmap => LightOrigin::Lightmap,
        },
        light_transfer_strength: job.light_transfer_strength.fraction(),
        interpolate_from_original: job.interpolate_from_original,
        change_background: job.change_background,
        preserve_details: job.preserve_details,
        style: match job.style {
            RelightStyle::Standard => LightCharacter::Standard,
            RelightStyle::DarkerButRealistic => LightCharacter::DarkerButRealistic,
            RelightStyle::Clean => LightCharacter::Clean,
            RelightStyle::Smooth => LightCharacter::Smooth,
            RelightStyle::Brighter => LightCharacter::Brighter,
            RelightStyle::ContrastedNHdr => LightCharacter::ContrastedNHdr,
            RelightStyle::JustComposition => LightCharacter::JustComposition,
        },
        advanced: LightAdjustments {
            whites: job.advanced.whites.fraction(),
            blacks: job.advanced.blacks.fraction(),
            brightness: job.advanced.brightness.fraction(),
            contrast: job.advanced.contrast.fraction(),
            saturation: job.advanced.saturation.fraction(),
            engine: algorithm(job.advanced.engine),
            transfer_light_a: transfer(job.advanced.transfer_light_a),
            transfer_light_b: curve(job.advanced.transfer_light_b),
        },
    }
}

fn algorithm(engine: RelightEngine) -> RelightAlgorithm {
    match engine {
        RelightEngine::Automatic => RelightAlgorithm::Automatic,
        RelightEngine::Balanced => RelightAlgorithm::Balanced,
        RelightEngine::Cool => RelightAlgorithm::Cool,
        RelightEngine::Real => RelightAlgorithm::Real,
        RelightEngine::Illusio => RelightAlgorithm::Illusio,
        RelightEngine::Fairy => RelightAlgorithm::Fairy,
        RelightEngine::ColorfulAnime => RelightAlgorithm::ColorfulAnime,
        RelightEngine::HardTransform => RelightAlgorithm::HardTransform,
        RelightEngine::Softy => RelightAlgorithm::Softy,
    }
}

fn transfer(transfer: TransferLightA) -> LightTransfer {
    match transfer {
        TransferLightA::Automatic => LightTransfer::Automatic,
        TransferLightA::Low => LightTransfer::Low,
        TransferLightA::Medium => LightTransfer::Medium,
        TransferLightA::Normal => LightTransfer::Normal,
        TransferLightA::High => LightTransfer::High,
        TransferLightA::HighOnFaces => LightTransfer::HighOnFaces,
    }
}

fn curve(curve: TransferLightB) -> LightCurve {
    match curve {
        TransferLightB::Automatic => LightCurve::Automatic,
        TransferLightB::Composition => LightCurve::Composition,
        TransferLightB::Straight => LightCurve::Straight,
        TransferLightB::SmoothIn => LightCurve::SmoothIn,
        TransferLightB::SmoothOut => LightCurve::SmoothOut,
        TransferLightB::SmoothBoth => LightCurve::SmoothBoth,
        TransferLightB::ReverseBoth => LightCurve::ReverseBoth,
        TransferLightB::SoftIn => LightCurve::SoftIn,
        TransferLightB::SoftOut => LightCurve::SoftOut,
        TransferLightB::SoftMid => LightCurve::SoftMid,
        TransferLightB::StrongMid => LightCurve::StrongMid,
        TransferLightB::StyleShift => LightCurve::StyleShift,
        TransferLightB::StrongShift => LightCurve::StrongShift,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::image::ImageFormat;
    use crate::domain::value::Digest;

    fn ready_job(picture: u8, prompt: Option<&str>, seed: Option<u32>) -> ReadyImageJob {
        let image =
            Picture { digest: Digest([picture; 32]), format: ImageFormat::Png, bytes: 100, width: 8, height: 8 };
        let prompt = prompt.map(|text| ImagePrompt::parse(text).unwrap());
        let job = ImageJob::Upscale(UpscaleJob { prompt, ..UpscaleJob::default() });
        let work = ImageWork { job, image: PictureSource::Stored(image), reference: None, seed, credits: 0 };
        ReadyImageJob::from_work(work).unwrap_or_else(|reason| panic!("{reason}"))
    }

    #[test]
    fn the_seed_follows_from_the_prompt_or_else_from_the_picture() {
        assert_eq!(ready_job(1, Some("a cat"), None).seed(), ready_job(2, Some("a cat"), None).seed());
        assert_ne!(ready_job(1, Some("a cat"), None).seed(), ready_job(1, Some("a dog"), None).seed());
        assert_ne!(ready_job(1, None, None).seed(), ready_job(2, None, None).seed());
    }

    #[test]
    fn the_defaults_of_the_api_equal_those_of_the_engine() {
        assert_eq!(upscale(&UpscaleJob::default()), PictureUpscale::default());
        assert_eq!(precision(PrecisionUpscaleJob::default()), PrecisionJob::default());
        assert_eq!(style(&StyleTransferJob::default()), StyleJob::default());
        assert_eq!(skin(SkinEnhanceJob::new(SkinMode::Creative)), SkinJob::new(SkinTreatment::Creative));
        assert_eq!(relight(&RelightJob::default()), PictureRelight::default());
    }

    #[test]
    fn choices_keep_their_order_and_number() {
        let engines = RelightEngine::ALL.iter().map(|engine| algorithm(*engine));
        let transfers = TransferLightA::ALL.iter().map(|choice| transfer(*choice));
        let curves = TransferLightB::ALL.iter().map(|choice| curve(*choice));

        assert!(engines.eq(RelightAlgorithm::ALL.iter().copied()));
        assert!(transfers.eq(LightTransfer::ALL.iter().copied()));
        assert!(curves.eq(LightCurve::ALL.iter().copied()));
    }

    #[test]
    fn the_seed_of_the_task_takes_precedence() {
        assert_eq!(ready_job(1, Some("a cat"), Some(7)).seed(), 7);
    }

    #[test]
    fn a_picture_that_was_not_fetched_is_rejected() {
        let url = crate::domain::value::CallbackUrl::parse("https://a.example/x.png").unwrap();
        let job = ImageJob::Upscale(UpscaleJob::default());
        let work = ImageWork { job, image: PictureSource::Remote(url), reference: None, seed: None, credits: 0 };
        assert!(ReadyImageJob::from_work(work).is_err());
    }
}
