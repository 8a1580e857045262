//! Bodies of the video endpoints. Ranges and defaults come from the domain types (contract 7).

use serde_json::{Value, json};

use crate::domain::ids::TaskId;
use crate::domain::value::{CallbackUrl, InvalidValue};
use crate::domain::video::{
    AspectRatio, ExtendJob, ExtendModel, ExtendResolution, Footage, GenerateJob, KeyFrame, MultiframeJob,
    PAYLOAD_CHARS_MAX, Seed, VendorCreationId, VideoJob, VideoModel, VideoPrompt, VideoSeconds, Watermark,
    WatermarkPosition,
};
use crate::http::request::body::json_shape::PICTURE_MARK;
use crate::http::request::fields::Fields;
use crate::http::request::json_object::{FlattenedFields, JsonObject, JsonValue, RequiredField, json_object};
use crate::http::request::json_value::{Objects, WebhookUrl};
use crate::media::input::PictureInput;

/// Maximum number of images of `start-end2video`, regardless of `video.max_images` (contract 7).
pub const START_END_IMAGES_MAX: usize = 2;
/// Maximum number of images of `reference2video`, regardless of `video.max_images` (contract 7).
pub const REFERENCE_IMAGES_MAX: usize = 7;
/// Maximum number of images of `extend`: the end frame.
const EXTEND_IMAGES_MAX: usize = 1;

// Descriptions of fields in the OpenAPI document.
pub const MODEL: &str =
    "Model. It determines the price, the maximum duration and which of the other fields have an effect.";
pub const RESOLUTION: &str = "Number of lines on the shorter side; 2K is 1440.";
pub const STYLE: &str = "Style of drawing: that of the pictures (`general`) or `anime`.";

/// Body of a submission.
pub(super) trait VideoBody: JsonObject {
    /// Checks the fields together and returns the submission; `None` only after adding an error.
    fn into_submission(self, fields: &mut Fields<'_, '_>, video: &VideoToExtend) -> Option<ParsedVideoSubmission>;
}

/// Parsed submission; its pictures are not checked yet.
pub(super) struct ParsedVideoSubmission {
    pub job: VideoJob<VideoPictureField>,
    pub images: Vec<VideoPictureField>,
    pub seed: Option<Seed>,
    pub payload: Option<String>,
    pub meta_data: Option<String>,
    pub callback: Option<CallbackUrl>,
}

/// Video that `video_creation_id` names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct VideoToExtend {
    /// The caller's task that made the video; `None` for a video made elsewhere.
    pub creation: Option<TaskId>,
    /// The video's id at the vendor; for a video made elsewhere, the `video_creation_id` of the request.
    pub vendor_id: Option<VendorCreationId>,
}

json_object! {
    /// Fields of all endpoints.
    pub struct CommonVideoFields {
        /// Text that is returned unchanged.
        payload: Option<Payload>,
        /// JSON in a string, stored with the task.
        meta_data: Option<MetaData>,
        /// URL of a webhook for every change of state; empty means none.
        callback_url: Option<WebhookUrl>,
    }
}

impl CommonVideoFields {
    fn into_submission(self, job: VideoJob<VideoPictureField>) -> ParsedVideoSubmission {
        let payload = self.payload.map(|Payload(text)| text);
        let meta_data = self.meta_data.map(|MetaData(text)| text);
        let callback = self.callback_url.and_then(|WebhookUrl(url)| url);
        ParsedVideoSubmission { job, images: Vec::new(), seed: None, payload, meta_data, callback }
    }
}

json_object! {
    impl GenerateJob<VideoPictureField> {
        #[doc = MODEL]
        model,
        #[doc = RESOLUTION]
        /// Only resolutions with a price for the model are accepted.
        resolution,
        #[doc = describe_durations()]
        #[name("duration")]
        seconds,
        #[doc = format!(
            "Aspect ratio, width to height: each from 1 to {}, and neither more than four times the other. Defaults \
             to that of the first picture, or to {} without pictures.", AspectRatio::SIDE_MAX, AspectRatio::DEFAULT
        )]
        aspect_ratio,
        /// Amount of movement. No effect for q2 and q3 models.
        movement_amplitude,
        #[doc = STYLE]
        style,
        /// Kind of sound if `audio` is `true`: `all` is sound effects and voices. No effect for q3 models.
        audio_type,
        /// `true` to add background music. No effect for q3 models.
        bgm,
        /// Id of the voice. No effect for q3 models.
        voice_id,
        /// `true` to enhance the picture.
        enhance,
        /// `true` to use the recommended prompt, for 10 more credits.
        is_rec,
        /// `true` to have the video made at any time within 48 hours, for half the price.
        off_peak,
        /// Priority among waiting tasks; higher values go first.
        priority,
        /// Prompt that describes the video; required if there are no images.
        prompt,
    }
}

json_object! {
    /// Fields of both endpoints that make a video from pictures and a prompt; they differ in the meaning of the
    /// pictures.
    pub struct GenerateFields {
        /// Seed of the random generator; chosen at random if absent.
        seed: Option<Seed>,
        job: FlattenedFields<GenerateJob<VideoPictureField>>,
        /// `true` to add sound; the default is `true` for vq3-pro, otherwise `false`.
        audio: Option<bool>,
        /// Position of the watermark: 1 top left, 2 top right, 3 bottom right, 4 bottom left. Ignored without
        /// `watermark`.
        wm_position: WatermarkPosition = WatermarkPosition::BottomRight,
        /// Picture of the watermark: an http(s) URL without user name and password, the URL of an uploaded file
        /// (`POST /files`), base64, or a data URI with base64; in a form also a file. The default watermark if absent or
        /// empty. Ignored without `watermark`.
        wm_url: Option<WatermarkPicture>,
        /// `true` to add a watermark.
        watermark: bool = false,
    }
}

impl GenerateFields {
    fn into_submission<const MAX: usize>(
        self,
        fields: &mut Fields<'_, '_>,
        common: CommonVideoFields,
        images: Option<Images<MAX>>,
        to_job: fn(GenerateJob<VideoPictureField>) -> VideoJob<VideoPictureField>,
    ) -> ParsedVideoSubmission {
        let generate = self.job.0;
        let defaults = GenerateJob::<VideoPictureField>::new(generate.model);
        let watermark_image = self.wm_url.and_then(|WatermarkPicture(picture)| picture);

        let generate = GenerateJob {
            audio: self.audio.unwrap_or(defaults.audio),
            prompt: not_blank(generate.prompt),
            watermark: self.watermark.then_some(Watermark { position: self.wm_position, image: watermark_image }),
            ..generate
        };

        if fields.value("images").is_none_or(|images| images.as_array().is_some_and(Vec::is_empty))
            && fields.value("prompt").is_none_or(|prompt| prompt.as_str().is_some_and(|text| text.trim().is_empty()))
        {
            fields.add_error("prompt", "is required, and must not be blank, if there are no images");
        }

        let images = images.map(|Images(pictures)| pictures).unwrap_or_default();
        ParsedVideoSubmission { images, seed: self.seed, ..common.into_submission(to_job(generate)) }
    }
}

json_object! {
    pub struct StartEndVideoBody {
        common: FlattenedFields<CommonVideoFields>,
        /// Start frame. A second picture, the end frame, requires the setting `video.max_images` to be at least 2.
        images: Option<Images<START_END_IMAGES_MAX>>,
        fields: FlattenedFields<GenerateFields>,
    }
}

impl VideoBody for StartEndVideoBody {
    fn into_submission(self, fields: &mut Fields<'_, '_>, _: &VideoToExtend) -> Option<ParsedVideoSubmission> {
        Some(self.fields.0.into_submission(fields, self.common.0, self.images, VideoJob::StartEnd))
    }
}

json_object! {
    pub struct ReferenceVideoBody {
        common: FlattenedFields<CommonVideoFields>,
        /// Pictures of what appears in the video. More than one requires the setting `video.max_images`, up to 7.
        images: Option<Images<REFERENCE_IMAGES_MAX>>,
        fields: FlattenedFields<GenerateFields>,
    }
}

impl VideoBody for ReferenceVideoBody {
    fn into_submission(self, fields: &mut Fields<'_, '_>, _: &VideoToExtend) -> Option<ParsedVideoSubmission> {
        Some(self.fields.0.into_submission(fields, self.common.0, self.images, VideoJob::Reference))
    }
}

json_object! {
    pub struct ExtendVideoBody {
        common: FlattenedFields<CommonVideoFields>,
        /// End frame.
        images: Option<Images<EXTEND_IMAGES_MAX>>,
        #[doc = MODEL]
        model: RequiredField<ExtendModel>,
        #[doc = RESOLUTION]
        resolution: ExtendResolution = ExtendResolution::P720,
        /// Number of seconds to add.
        duration: Seconds<{ ExtendJob::SECONDS_MAX }> = Seconds(VideoSeconds::DEFAULT),
        /// Prompt that describes the video.
        prompt: Option<VideoPrompt>,
        /// Id of the video: the id of a creation of the caller, or of a video made elsewhere. Required together with
        /// `video_url`.
        #[schema(required())]
        video_creation_id: Option<VendorCreationId>,
        /// URL of the video, such as that of the creation: MP4 or WebM, at most 100 MiB.
        #[schema(required())]
        video_url: Option<CallbackUrl>,
    }
}

impl VideoBody for ExtendVideoBody {
    fn into_submission(self, fields: &mut Fields<'_, '_>, video: &VideoToExtend) -> Option<ParsedVideoSubmission> {
        for (name, companion) in [("video_creation_id", "video_url"), ("video_url", "video_creation_id")] {
            if fields.value(name).is_none() {
                fields.add_error(name, format!("is required, together with {companion}"));
            }
        }
        if self.video_creation_id.is_some_and(|id| id.as_str().trim().is_empty()) {
            fields.add_error("video_creation_id", "must not be empty");
        }

        let VideoToExtend { creation, vendor_id } = video.clone();
        let video = Footage { creation, url: self.video_url?, stored: None, vendor_id };
        let model = self.model.0?;
        let prompt = not_blank(self.prompt);
        let job = ExtendJob { model, resolution: self.resolution, seconds: self.duration.0, prompt, video };
        let images = self.images.map(|Images(pictures)| pictures).unwrap_or_default();
        Some(ParsedVideoSubmission { images, ..self.common.0.into_submission(VideoJob::Extend(job)) })
    }
}

json_object! {
    pub struct MultiframeBody {
        common: FlattenedFields<CommonVideoFields>,
        #[doc = MODEL]
        model: ExtendModel = ExtendModel::Vq2Turbo,
        #[doc = RESOLUTION]
        resolution: ExtendResolution = ExtendResolution::P720,
        /// First frame; defaults to the first key frame.
        start_image: Option<VideoPictureField>,
        /// Key frames in order.
        image_settings: Objects<KeyFrameBody, { *KEY_FRAMES.start() }, { *KEY_FRAMES.end() }>,
    }
}

/// Allowed number of key frames.
const KEY_FRAMES: std::ops::RangeInclusive<usize> = MultiframeJob::<VideoPictureField>::COUNT;

json_object! {
    pub struct KeyFrameBody {
        /// Key frame.
        key_image: RequiredField<VideoPictureField>,
        /// Seconds from the previous frame to this one.
        duration: Seconds<{ KeyFrame::<VideoPictureField>::SECONDS_MAX }> = Seconds(VideoSeconds::DEFAULT),
        /// Prompt that describes the way to this frame.
        prompt: Option<VideoPrompt>,
    }
}

impl VideoBody for MultiframeBody {
    fn into_submission(self, _: &mut Fields<'_, '_>, _: &VideoToExtend) -> Option<ParsedVideoSubmission> {
        let key_frame = |KeyFrameBody { key_image, duration, prompt }: KeyFrameBody| {
            Some(KeyFrame { image: key_image.0?, seconds: duration.0, prompt: not_blank(prompt) })
        };
        let Self { common, model, resolution, start_image, image_settings: Objects(frames) } = self;
        let key_frames = frames.into_iter().map(key_frame).collect::<Option<Vec<_>>>()?;
        let job = MultiframeJob { model, resolution, start_image, key_frames };
        Some(common.0.into_submission(VideoJob::Multiframe(job)))
    }
}

/// Describes the duration limits of each model, as the validation applies them.
fn describe_durations() -> String {
    let of_models = VideoModel::ALL.iter().map(|model| format!("{} 1 to {}", model.as_str(), model.seconds_max()));
    format!("Duration in seconds: {}.", of_models.collect::<Vec<_>>().join(", "))
}

/// Removes a blank prompt, which counts as absent.
fn not_blank(prompt: Option<VideoPrompt>) -> Option<VideoPrompt> {
    prompt.filter(|prompt| !prompt.as_str().trim().is_empty())
}

/// Picture of a submission and its JSON pointer.
pub struct VideoPictureField {
    pub pointer: String,
    pub input: PictureInput,
}

impl JsonValue for VideoPictureField {
    const ABOUT: &'static str = "An http(s) URL without user name and password, the URL of an uploaded file \
                                 (`POST /files`), base64, or a data URI with base64; in a form also a file.";

    fn schema() -> Value {
        json!({"type": "string", "minLength": 1, PICTURE_MARK: true})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        let pointer = fields.pointer_to(name);
        fields.text(name, PictureInput::parse).map(|input| Self { pointer, input })
    }
}

/// At most `MAX` pictures, or as many as the setting `video.max_images` allows.
pub struct Images<const MAX: usize>(Vec<VideoPictureField>);

impl<const MAX: usize> JsonValue for Images<MAX> {
    const ABOUT: &'static str = "Each an http(s) URL without user name and password, the URL of an uploaded file \
                                 (`POST /files`), base64, or a data URI with base64; in a form also a file.";

    fn schema() -> Value {
        json!({"type": "array", "items": VideoPictureField::schema(), "maxItems": MAX})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        let images = fields.texts(name, MAX.min(fields.context().max_images), PictureInput::parse).into_iter();
        Some(Self(images.map(|(pointer, input)| VideoPictureField { pointer, input }).collect()))
    }
}

/// Picture of a watermark; an empty text means the built-in one.
pub struct WatermarkPicture(Option<VideoPictureField>);

impl JsonValue for WatermarkPicture {
    fn schema() -> Value {
        json!({"type": "string", PICTURE_MARK: true})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        let is_empty = fields.value(name).and_then(Value::as_str) == Some("");
        if is_empty {
            Some(Self(None))
        } else {
            VideoPictureField::read(fields, name).map(|picture| Self(Some(picture)))
        }
    }
}

impl JsonValue for WatermarkPosition {
    fn schema() -> Value {
        json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 4})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        fields.integer(name, Self::from_number)
    }

    fn to_default(&self) -> Option<Value> {
        Some(self.number().into())
    }
}

/// Duration of at most as many seconds as the `model` of the same body allows.
impl JsonValue for VideoSeconds {
    fn schema() -> Value {
        Seconds::<{ Self::MAX }>::schema()
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        let model = fields.value("model").and_then(Value::as_str).and_then(|model| VideoModel::parse(model).ok());
        let max = model.unwrap_or(GenerateJob::<VideoPictureField>::default().model).seconds_max();
        fields.integer(name, |value| Self::with_max(value, max))
    }

    fn to_default(&self) -> Option<Value> {
        Some(self.get().into())
    }
}

/// Duration of at most `MAX` seconds.
pub struct Seconds<const MAX: u8>(VideoSeconds);

impl<const MAX: u8> JsonValue for Seconds<MAX> {
    fn schema() -> Value {
        json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": MAX})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        fields.integer(name, |value| VideoSeconds::with_max(value, MAX)).map(Self)
    }

    fn to_default(&self) -> Option<Value> {
        Some(self.0.get().into())
    }
}

/// Text that is passed back to the client, of any characters.
pub struct Payload(String);

impl JsonValue for Payload {
    fn schema() -> Value {
        json!({"type": "string", "maxLength": PAYLOAD_CHARS_MAX})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        let text = fields.value(name)?.as_str().filter(|text| is_within_payload_limit(text));
        if text.is_none() {
            fields.add_error(name, format!("must be a string of at most {PAYLOAD_CHARS_MAX} characters"));
        }
        text.map(|text| Self(text.to_owned()))
    }
}

/// JSON in a string.
pub struct MetaData(String);

impl JsonValue for MetaData {
    fn schema() -> Value {
        json!({"type": "string", "maxLength": PAYLOAD_CHARS_MAX, "contentMediaType": "application/json"})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        let reason = || format!("must be JSON, as a string of at most {PAYLOAD_CHARS_MAX} characters");
        fields.text(name, |text| {
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
            if is_json && is_within_payload_limit(text) {
                Ok(Self(text.to_owned()))
            } else {
                Err(InvalidValue::new(reason()))
            }
        })
    }
}

/// Checks the length in characters, not bytes (contract 7).
fn is_within_payload_limit(text: &str) -> bool {
    text.chars().nth(PAYLOAD_CHARS_MAX).is_none()
}
