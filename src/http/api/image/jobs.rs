//! Bodies of the image endpoints. Ranges and defaults come from the domain types (contract 6).

use serde_json::{Value, json};

use crate::domain::image::{
    ImageJob, LightSettings, LightSource, Percent, PortraitBeautifier, PortraitSettings, PortraitStyle,
    PrecisionUpscaleJob, RelightJob, SkinEnhanceJob, SkinFocus, SkinMode, StyleTransferJob, UpscaleJob,
};
use crate::domain::value::CallbackUrl;
use crate::http::request::body::json_shape::PICTURE_MARK;
use crate::http::request::fields::Fields;
use crate::http::request::json_object::{FlattenedFields, JsonObject, JsonValue, RequiredField, json_object};
use crate::http::request::json_value::WebhookUrl;
use crate::media::input::PictureInput;

/// Body of a submission.
pub(super) trait ImageBody: JsonObject {
    /// Checks the fields together and returns the submission.
    fn into_submission(self, fields: &mut Fields<'_, '_>) -> ParsedImageSubmission;
}

/// Parsed submission; its pictures are not checked yet.
pub(super) struct ParsedImageSubmission {
    pub job: ImageJob,
    /// Main picture; `None` if it was reported as missing or invalid.
    pub image: Option<PictureInput>,
    /// Second picture and its field.
    pub reference: Option<(&'static str, PictureInput)>,
    /// `true` if the result is random, so that equal requests give different pictures.
    pub is_random: bool,
    pub webhook: Option<CallbackUrl>,
}

impl ParsedImageSubmission {
    /// Creates a deterministic job on one picture.
    fn new(job: ImageJob, image: RequiredField<PictureInput>, webhook: Option<WebhookUrl>) -> Self {
        let webhook = webhook.and_then(|WebhookUrl(url)| url);
        Self { job, image: image.0, reference: None, is_random: false, webhook }
    }
}

impl JsonValue for PictureInput {
    const ABOUT: &'static str = "PNG, JPEG, WebP, GIF, BMP or TIFF: an http(s) URL without user name and password, the \
                                 URL of an uploaded file (`POST /files`), base64, or a data URI with base64; in a \
                                 form also a file.";

    fn schema() -> Value {
        json!({"type": "string", "minLength": 1, PICTURE_MARK: true})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        fields.text(name, Self::parse)
    }
}

json_object! {
    impl UpscaleJob {
        /// Factor by which each side grows.
        scale_factor,
        /// Upscaling engine, which determines how edges and fine detail are rendered.
        engine,
        /// Content that the upscaler is optimized for.
        optimized_for,
        /// Amount of new detail.
        creativity,
        /// Strength of the prompt and intricacy per square pixel.
        fractality,
        /// Level of definition and detail.
        hdr,
        /// Resemblance to the original.
        resemblance,
        /// Prompt that guides the upscale.
        prompt,
    }
}

json_object! {
    pub struct UpscaleBody {
        job: FlattenedFields<UpscaleJob>,
        /// URL of a webhook for every change of status; empty means none.
        webhook_url: Option<WebhookUrl>,
        /// Picture to upscale.
        image: RequiredField<PictureInput>,
    }
}

impl ImageBody for UpscaleBody {
    fn into_submission(self, _: &mut Fields<'_, '_>) -> ParsedImageSubmission {
        ParsedImageSubmission::new(ImageJob::Upscale(self.job.0), self.image, self.webhook_url)
    }
}

json_object! {
    impl PrecisionUpscaleJob {
        /// Factor by which each side grows.
        scale_factor,
        /// Kind of processing: general, for photographs, or with noise reduction.
        flavor,
        /// Sharpness of edges.
        sharpen,
        /// Amount of fine grain.
        smart_grain,
        /// Amount of new detail.
        ultra_detail,
    }
}

json_object! {
    pub struct PrecisionBody {
        job: FlattenedFields<PrecisionUpscaleJob>,
        /// URL of a webhook for the end of the task; empty means none.
        webhook_url: Option<WebhookUrl>,
        /// Picture to upscale.
        image: RequiredField<PictureInput>,
    }
}

impl ImageBody for PrecisionBody {
    fn into_submission(self, _: &mut Fields<'_, '_>) -> ParsedImageSubmission {
        ParsedImageSubmission::new(ImageJob::UpscalePrecision(self.job.0), self.image, self.webhook_url)
    }
}

json_object! {
    impl StyleTransferJob {
        /// Engine preset, which determines the look.
        engine,
        /// Style flavor, which determines how the style is applied.
        flavor,
        /// Prompt that guides the style.
        prompt,
        /// Percentage of the original structure that is kept.
        structure_strength,
        /// Percentage of the style that is applied.
        style_strength,
        /// `true` to get identical bytes for identical requests.
        fixed_generation,
    }
}

json_object! {
    pub struct StyleTransferBody {
        /// Skin smoothing of portraits; ignored unless `is_portrait`.
        portrait_beautifier: Option<PortraitBeautifier>,
        /// Style of portraits; ignored unless `is_portrait`.
        portrait_style: PortraitStyle = PortraitStyle::Standard,
        /// `true` to process the picture as a portrait.
        is_portrait: bool = false,
        job: FlattenedFields<StyleTransferJob>,
        /// Picture whose style is applied.
        reference_image: Option<PictureInput>,
        /// URL of a webhook for every change of status; empty means none.
        webhook_url: Option<WebhookUrl>,
        /// Picture to transform.
        image: RequiredField<PictureInput>,
    }
}

impl ImageBody for StyleTransferBody {
    fn into_submission(self, _: &mut Fields<'_, '_>) -> ParsedImageSubmission {
        let portrait = PortraitSettings { beautifier: self.portrait_beautifier, style: self.portrait_style };
        let job = StyleTransferJob { portrait: self.is_portrait.then_some(portrait), ..self.job.0 };
        let is_random = !job.fixed_generation;
        let reference = self.reference_image.map(|picture| ("reference_image", picture));
        let submission = ParsedImageSubmission::new(ImageJob::StyleTransfer(job), self.image, self.webhook_url);
        ParsedImageSubmission { reference, is_random, ..submission }
    }
}

json_object! {
    /// Fields of every skin enhancer.
    pub struct SkinFields {
        /// Sharpness of edges.
        sharpen: Percent = SkinEnhanceJob::new(SkinMode::Creative).sharpen,
        /// Amount of fine grain.
        smart_grain: Percent = SkinEnhanceJob::new(SkinMode::Creative).smart_grain,
        /// URL of a webhook for every change of status; empty means none.
        webhook_url: Option<WebhookUrl>,
        /// Picture to enhance.
        image: RequiredField<PictureInput>,
    }
}

impl SkinFields {
    fn into_submission(self, mode: SkinMode) -> ParsedImageSubmission {
        let job = ImageJob::SkinEnhance(SkinEnhanceJob { mode, sharpen: self.sharpen, smart_grain: self.smart_grain });
        let submission = ParsedImageSubmission::new(job, self.image, self.webhook_url);
        ParsedImageSubmission { is_random: true, ..submission }
    }
}

json_object! {
    pub struct CreativeSkinBody { skin: FlattenedFields<SkinFields> }
}

impl ImageBody for CreativeSkinBody {
    fn into_submission(self, _: &mut Fields<'_, '_>) -> ParsedImageSubmission {
        self.skin.0.into_submission(SkinMode::Creative)
    }
}

json_object! {
    pub struct FaithfulSkinBody {
        /// Percentage of the skin texture that is kept.
        skin_detail: Percent = SkinMode::DETAIL_DEFAULT,
        skin: FlattenedFields<SkinFields>,
    }
}

impl ImageBody for FaithfulSkinBody {
    fn into_submission(self, _: &mut Fields<'_, '_>) -> ParsedImageSubmission {
        self.skin.0.into_submission(SkinMode::Faithful { detail: self.skin_detail })
    }
}

json_object! {
    pub struct FlexibleSkinBody {
        /// Aspect of the picture to improve.
        optimized_for: SkinFocus = SkinFocus::EnhanceSkin,
        skin: FlattenedFields<SkinFields>,
    }
}

impl ImageBody for FlexibleSkinBody {
    fn into_submission(self, _: &mut Fields<'_, '_>) -> ParsedImageSubmission {
        self.skin.0.into_submission(SkinMode::Flexible { focus: self.optimized_for })
    }
}

json_object! {
    impl RelightJob {
        /// Prompt that describes the light.
        prompt,
        /// Percentage of the light that is transferred.
        light_transfer_strength,
        /// `true` to keep the result close to the original.
        interpolate_from_original,
        /// `true` to relight the background too.
        change_background,
        /// `true` to restore small text and texture.
        preserve_details,
        /// Style of the light.
        style,
        /// Tone, engine and how the light is transferred.
        #[name("advanced_settings")]
        advanced,
    }
}

json_object! {
    impl LightSettings {
        /// Level of the brightest parts. 50 leaves it unchanged.
        whites,
        /// Level of the darkest parts. 50 leaves it unchanged.
        blacks,
        /// Overall brightness. 50 leaves it unchanged.
        brightness,
        /// Contrast between bright and dark parts. 50 leaves it unchanged.
        contrast,
        /// Saturation of colours. 50 leaves it unchanged.
        saturation,
        /// Relight engine, which determines how the light is computed.
        engine,
        /// Strength of the light transfer.
        transfer_light_a,
        /// Tone curve of the light transfer, from dark to bright.
        transfer_light_b,
        /// `true` to get identical bytes for identical requests.
        fixed_generation,
    }
}

json_object! {
    pub struct RelightBody {
        /// Picture whose light is transferred. Mutually exclusive with `transfer_light_from_lightmap`.
        transfer_light_from_reference_image: Option<PictureInput>,
        /// Light map: white areas are lit, black ones are not. Mutually exclusive with
        /// `transfer_light_from_reference_image`.
        transfer_light_from_lightmap: Option<PictureInput>,
        job: FlattenedFields<RelightJob>,
        /// URL of a webhook for every change of status; empty means none.
        webhook_url: Option<WebhookUrl>,
        /// Picture to relight.
        image: RequiredField<PictureInput>,
    }
}

impl ImageBody for RelightBody {
    fn into_submission(self, fields: &mut Fields<'_, '_>) -> ParsedImageSubmission {
        const REFERENCE: &str = "transfer_light_from_reference_image";
        const LIGHTMAP: &str = "transfer_light_from_lightmap";
        if fields.value(REFERENCE).is_some() && fields.value(LIGHTMAP).is_some() {
            fields.add_error(LIGHTMAP, format!("must not be combined with {REFERENCE}"));
        }

        let (source, reference) = match (self.transfer_light_from_reference_image, self.transfer_light_from_lightmap) {
            (Some(picture), _) => (LightSource::Reference, Some((REFERENCE, picture))),
            (None, Some(picture)) => (LightSource::Lightmap, Some((LIGHTMAP, picture))),
            (None, None) => (LightSource::Prompt, None),
        };

        let job = RelightJob { source, ..self.job.0 };
        let is_random = !job.advanced.fixed_generation;
        let submission = ParsedImageSubmission::new(ImageJob::Relight(job), self.image, self.webhook_url);
        ParsedImageSubmission { reference, is_random, ..submission }
    }
}
