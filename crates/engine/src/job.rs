//! Parameters of picture jobs: strengths are fractions, and everything else is a choice from a list.

use crate::picture::DecodedPicture;
use crate::precision::precision;
use crate::relight::relight;
use crate::skin::skin;
use crate::style::style;
use crate::upscale::upscale;

/// Defines an enumeration with a list of its variants.
macro_rules! choices {
    ($(#[$meta:meta])* $name:ident { $($(#[$about:meta])* $variant:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$about])* $variant),+ }

        impl $name {
            /// All variants in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
        }
    };
}

/// A picture job.
#[derive(Debug, Clone, PartialEq)]
pub enum PictureJob {
    /// Enlargement that may add detail.
    Upscale(PictureUpscale),
    /// Enlargement that stays true to the picture.
    Precision(PrecisionJob),
    /// Style transfer.
    Style(StyleJob),
    /// Skin retouching.
    Skin(SkinJob),
    /// New light.
    Relight(PictureRelight),
}

impl PictureJob {
    /// Computes the result. `reference` is the picture that a style transfer or a relighting refers to, if any.
    ///
    /// The result is deterministic; `seed` determines everything random.
    #[must_use]
    pub fn run(&self, picture: DecodedPicture, reference: Option<&DecodedPicture>, seed: u32) -> DecodedPicture {
        match self {
            Self::Upscale(job) => upscale(picture, job, seed),
            Self::Precision(job) => precision(picture, job, seed),
            Self::Style(job) => style(picture, reference, job, seed),
            Self::Skin(job) => skin(picture, job, seed),
            Self::Relight(job) => relight(picture, reference, job, seed),
        }
    }
}

/// Parameters of an enlargement. Numbers range from -1 to 1; 0 has no effect.
#[derive(Debug, Clone, PartialEq)]
pub struct PictureUpscale {
    /// Factor by which each side grows.
    pub scale_factor: UpscaleFactor,
    /// Character of the sharpening.
    pub engine: UpscaleCharacter,
    /// Kind of picture to optimize for.
    pub optimized_for: PictureKind,
    /// Synthesized detail; negative values simplify.
    pub creativity: f32,
    /// Detail of the picture repeated at a smaller scale, and the strength of the prompt.
    pub fractality: f32,
    /// Local contrast.
    pub hdr: f32,
    /// Faithfulness to the input; negative values add styling.
    pub resemblance: f32,
    /// Keywords that add to the other parameters.
    pub prompt: Option<String>,
}

impl Default for PictureUpscale {
    /// Returns a job that doubles the size without further processing.
    fn default() -> Self {
        Self {
            scale_factor: UpscaleFactor::X2,
            engine: UpscaleCharacter::Automatic,
            optimized_for: PictureKind::Standard,
            creativity: 0.0,
            fractality: 0.0,
            hdr: 0.0,
            resemblance: 0.0,
            prompt: None,
        }
    }
}

choices! {
    /// Factor of a [`PictureUpscale`] per side.
    UpscaleFactor {
        /// Twice as wide and high.
        X2,
        /// Four times.
        X4,
        /// Eight times, in two steps.
        X8,
        /// Sixteen times, in two steps.
        X16,
    }
}

choices! {
    /// Character of the sharpening.
    UpscaleCharacter {
        /// Follows the statistics of the picture.
        Automatic,
        /// Soft and painterly.
        Illusio,
        /// Crisp.
        Sharpy,
        /// Between both, with highlights.
        Sparkle,
    }
}

choices! {
    /// Kind of picture to optimize for.
    PictureKind {
        /// No particular kind.
        Standard,
        /// Portraits with smooth skin.
        SoftPortraits,
        /// Portraits with contrast and texture.
        HardPortraits,
        /// Drawings with clean lines and even areas.
        ArtNIllustration,
        /// Game assets with hard edges.
        VideogameAssets,
        /// Landscapes with rich texture and greens.
        NatureNLandscapes,
        /// Photographs with the grain of film.
        FilmsNPhotography,
        /// Computer renders without noise.
        Renders3d,
        /// Dark and cool scenes.
        ScienceFictionNHorror,
    }
}

/// Parameters of a precise enlargement. Strengths range from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrecisionJob {
    /// Factor by which each side grows, 2 to 16.
    pub scale_factor: usize,
    /// Kind of content to optimize for.
    pub flavor: PrecisionPreset,
    /// Strength of the edge sharpening.
    pub sharpen: f32,
    /// Strength of the added fine grain.
    pub smart_grain: f32,
    /// Amount of synthesized detail between the input pixels.
    pub ultra_detail: f32,
}

impl Default for PrecisionJob {
    /// Returns a job that doubles the size of a photograph, with slight sharpening, grain and detail.
    fn default() -> Self {
        Self { scale_factor: 2, flavor: PrecisionPreset::Photo, sharpen: 0.07, smart_grain: 0.07, ultra_detail: 0.3 }
    }
}

choices! {
    /// Kind of content of a [`PrecisionJob`].
    PrecisionPreset {
        /// Smooth gradients and clean lines, for drawn or generated pictures.
        Sublime,
        /// The natural texture of a photograph.
        Photo,
        /// A photograph, denoised first.
        PhotoDenoiser,
    }
}

/// Parameters of a style transfer. Strengths range from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct StyleJob {
    /// Look of the result, in addition to the style of the reference.
    pub engine: StylePreset,
    /// Method of the transfer.
    pub flavor: StyleMethod,
    /// Present if the picture is processed as a portrait.
    pub portrait: Option<PortraitAdjustments>,
    /// Keywords that add to the other parameters.
    pub prompt: Option<String>,
    /// Strength with which the picture's structure is kept.
    pub structure_strength: f32,
    /// Strength with which the style is applied; 0 returns the picture unchanged.
    pub style_strength: f32,
}

impl Default for StyleJob {
    /// Returns the full style with half of the structure.
    fn default() -> Self {
        Self {
            engine: StylePreset::Balanced,
            flavor: StyleMethod::Faithful,
            portrait: None,
            prompt: None,
            structure_strength: 0.5,
            style_strength: 1.0,
        }
    }
}

choices! {
    /// Look of a style transfer.
    StylePreset {
        /// Half painting, half photograph.
        Balanced,
        /// Emphasis on edges and texture.
        Definio,
        /// Painting.
        Illusio,
        /// Rendered cartoon: plain surfaces, rounded forms, strong warm colours.
        Cartoon3d,
        /// Drawn animation: flat tones, dark lines, strong light colours.
        ColorfulAnime,
        /// Magnified focus, drawn with a bold pen.
        Caricature,
        /// Photograph of a good camera.
        Real,
        /// Hyperrealism: full detail in shadows and highlights.
        SuperReal,
        /// Soft focus: bloom, gentle contrast, smooth surfaces.
        Softy,
    }
}

choices! {
    /// Method of a style transfer.
    StyleMethod {
        /// The unmodified style.
        Faithful,
        /// Neon colours, colour fringes and grain.
        GenZ,
        /// Waves and cycling colours.
        Psychedelia,
        /// More detail.
        Detaily,
        /// Clean surfaces.
        Clear,
        /// Transfers structure and light, not the colours of the reference.
        Donotstyle,
        /// As `Donotstyle`, with sharpening.
        DonotstyleSharp,
    }
}

/// Settings of portraits in a style transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortraitAdjustments {
    /// Skin smoothing, if any.
    pub beautifier: Option<SkinSmoothing>,
    /// Colour strength.
    pub style: ColourStrength,
}

choices! {
    /// Skin smoothing in portraits.
    SkinSmoothing {
        /// Smooth skin.
        Face,
        /// Very smooth skin.
        FaceMax,
    }
}

choices! {
    /// Colour strength of portraits.
    ColourStrength {
        /// Unchanged.
        Standard,
        /// Stronger.
        Pop,
        /// Strongest.
        SuperPop,
    }
}

/// Parameters of a skin retouching. Strengths range from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SkinJob {
    /// Treatment of skin.
    pub mode: SkinTreatment,
    /// Strength of the edge sharpening.
    pub sharpen: f32,
    /// Strength of the added fine grain.
    pub smart_grain: f32,
}

impl SkinJob {
    /// Creates a job without sharpening and with hardly visible grain.
    #[must_use]
    pub const fn new(mode: SkinTreatment) -> Self {
        Self { mode, sharpen: 0.0, smart_grain: 0.02 }
    }
}

/// Treatment of skin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SkinTreatment {
    /// Artistic and stylized.
    Creative,
    /// Natural.
    Faithful {
        /// Fraction of the skin texture that is kept.
        detail: f32,
    },
    /// Optimized for one purpose.
    Flexible {
        /// The purpose.
        focus: SkinPurpose,
    },
}

choices! {
    /// Purpose of a flexible skin treatment.
    SkinPurpose {
        /// Even skin.
        EnhanceSkin,
        /// Better light on faces.
        ImproveLighting,
        /// Skin, light and detail.
        EnhanceEverything,
        /// Natural texture on skin that looks artificial.
        TransformToReal,
        /// Skin without visible make-up.
        NoMakeUp,
    }
}

/// Parameters of a relighting. Strengths range from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct PictureRelight {
    /// Keywords that describe the light.
    pub prompt: Option<String>,
    /// Meaning of the reference picture.
    pub source: LightOrigin,
    /// Strength of the new light.
    pub light_transfer_strength: f32,
    /// Keeps the result near the original, for pictures whose shape must not drift.
    pub interpolate_from_original: bool,
    /// Relights the background as well as the subject.
    pub change_background: bool,
    /// Restores small text and texture after relighting.
    pub preserve_details: bool,
    /// Character of the new light.
    pub style: LightCharacter,
    /// Fine adjustments.
    pub advanced: LightAdjustments,
}

impl Default for PictureRelight {
    /// Returns a job that follows its prompt with full strength.
    fn default() -> Self {
        Self {
            prompt: None,
            source: LightOrigin::Prompt,
            light_transfer_strength: 1.0,
            interpolate_from_original: false,
            change_background: true,
            preserve_details: true,
            style: LightCharacter::Standard,
            advanced: LightAdjustments::default(),
        }
    }
}

choices! {
    /// Source of the light.
    LightOrigin {
        /// The prompt alone.
        Prompt,
        /// The light of the reference picture.
        Reference,
        /// A light map over the picture: white is lit, black is not.
        Lightmap,
    }
}

choices! {
    /// Character of the new light.
    LightCharacter {
        /// No particular character.
        Standard,
        /// Darker, with muted colours.
        DarkerButRealistic,
        /// Bright, with neutral greys.
        Clean,
        /// Soft, with smooth surfaces.
        Smooth,
        /// Brighter.
        Brighter,
        /// Strong local contrast.
        ContrastedNHdr,
        /// New light and shadow, unchanged colours.
        JustComposition,
    }
}

/// Fine adjustments of a relighting. Amounts range from 0 to 1; 0.5 is neutral.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LightAdjustments {
    /// Brightness of bright tones.
    pub whites: f32,
    /// Depth of dark tones.
    pub blacks: f32,
    /// Brightness of middle tones.
    pub brightness: f32,
    /// Contrast of the whole picture.
    pub contrast: f32,
    /// Strength of colours.
    pub saturation: f32,
    /// Algorithm.
    pub engine: RelightAlgorithm,
    /// Strength and region of the transfer.
    pub transfer_light_a: LightTransfer,
    /// Curve of the transfer.
    pub transfer_light_b: LightCurve,
}

impl Default for LightAdjustments {
    /// Returns neutral adjustments.
    fn default() -> Self {
        Self {
            whites: 0.5,
            blacks: 0.5,
            brightness: 0.5,
            contrast: 0.5,
            saturation: 0.5,
            engine: RelightAlgorithm::Automatic,
            transfer_light_a: LightTransfer::Automatic,
            transfer_light_b: LightCurve::Automatic,
        }
    }
}

choices! {
    /// Algorithm of a relighting.
    RelightAlgorithm {
        /// Follows the statistics of the picture.
        Automatic,
        /// Light as computed.
        Balanced,
        /// Cooler light.
        Cool,
        /// Strong light with contrast.
        Real,
        /// Painterly surfaces and strong colours.
        Illusio,
        /// Bright, soft light with bloom.
        Fairy,
        /// Light in steps, strong colours.
        ColorfulAnime,
        /// The strongest light, with hard borders.
        HardTransform,
        /// Weak, soft light.
        Softy,
    }
}

choices! {
    /// Strength and region of the light transfer.
    LightTransfer {
        /// Slightly weaker, stronger on faces.
        Automatic,
        /// Weak.
        Low,
        /// Less than normal.
        Medium,
        /// As computed.
        Normal,
        /// Strong.
        High,
        /// Normal, and twice as strong on faces.
        HighOnFaces,
    }
}

choices! {
    /// Curve of the transfer from dark to bright tones.
    LightCurve {
        /// Slightly more in middle tones.
        Automatic,
        /// All tones, blurred.
        Composition,
        /// All tones.
        Straight,
        /// Rising from dark tones.
        SmoothIn,
        /// Falling towards bright tones.
        SmoothOut,
        /// Middle tones.
        SmoothBoth,
        /// Dark and bright tones.
        ReverseBoth,
        /// As `SmoothIn`, half as strong.
        SoftIn,
        /// As `SmoothOut`, half as strong.
        SoftOut,
        /// Less in middle tones.
        SoftMid,
        /// More in middle tones.
        StrongMid,
        /// More colour than light.
        StyleShift,
        /// More colour and light.
        StrongShift,
    }
}
