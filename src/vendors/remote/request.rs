//! Request for an image job: path and body of the seed's image interface. Pure.

use std::fmt::Write;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::domain::image::{ImageJob, SkinMode};
use crate::domain::parameter::JobParameters;

/// Path below the vendor's base URL.
const IMAGE_API_PATH: &str = "/proxy/imagevendor/v1/ai/";

/// Pictures of a job, in base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EncodedPictures {
    pub image: String,
    pub reference: Option<String>,
}

/// Path and body of a POST request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VendorRequest {
    /// Below the vendor's base URL.
    pub path: String,
    pub body: Map<String, Value>,
}

/// Returns the request for a job. Every parameter is explicit, so that the vendor's defaults do not matter.
pub(super) fn build_request(job: &ImageJob, pictures: EncodedPictures, webhook: Option<String>) -> VendorRequest {
    let endpoint = match job {
        ImageJob::Upscale(_) => "image-upscaler",
        ImageJob::UpscalePrecision(_) => "image-upscaler-precision-v2",
        ImageJob::StyleTransfer(_) => "image-style-transfer",
        ImageJob::SkinEnhance(job) => match job.mode {
            SkinMode::Creative => "skin-enhancer/creative",
            SkinMode::Faithful { .. } => "skin-enhancer/faithful",
            SkinMode::Flexible { .. } => "skin-enhancer/flexible",
        },
        ImageJob::Relight(_) => "image-relight",
    };

    let body = to_json_fields(&job.parameters(pictures.image, pictures.reference));
    VendorRequest { path: format!("{IMAGE_API_PATH}{endpoint}"), body: with_field(body, "webhook_url", webhook) }
}

/// Returns the parameters as JSON fields.
pub(super) fn to_json_fields(parameters: &JobParameters<impl Serialize>) -> Map<String, Value> {
    match serde_json::to_value(parameters).expect("written to memory, under names that are text") {
        Value::Object(members) => members,
        other => unreachable!("parameters are an object, not {other}"),
    }
}

/// Sets one field of the body, if `text` is given.
pub(super) fn with_field(mut body: Map<String, Value>, field: &str, text: Option<String>) -> Map<String, Value> {
    if let Some(text) = text {
        body.insert(field.to_owned(), Value::String(text));
    }
    body
}

/// Returns the path segment for polling jobs of this kind.
pub(super) const fn status_family(job: &ImageJob) -> &'static str {
    match job {
        ImageJob::Upscale(_) | ImageJob::UpscalePrecision(_) => "image-upscaler",
        ImageJob::StyleTransfer(_) => "image-style-transfer",
        ImageJob::SkinEnhance(_) => "skin-enhancer",
        ImageJob::Relight(_) => "image-relight",
    }
}

/// Returns the path for polling a job.
pub(super) fn status_path(family: &str, id: &str) -> String {
    format!("{IMAGE_API_PATH}{family}/{}", encode_segment(id))
}

/// Encodes an id as one segment of a path.
pub(super) fn encode_segment(id: &str) -> String {
    let mut segment = String::with_capacity(id.len());
    for byte in id.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => segment.push(char::from(byte)),
            _ => {
                let _ = write!(segment, "%{byte:02X}");
            }
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::image::{
        ImagePrompt, LightSource, PortraitBeautifier, PortraitSettings, PortraitStyle, PrecisionUpscaleJob, RelightJob,
        SkinEnhanceJob, SkinFocus, StyleTransferJob, UpscaleJob,
    };

    fn jobs() -> Vec<ImageJob> {
        let prompt = Some(ImagePrompt::from_recorded("soft light".to_owned()));
        let portrait = PortraitSettings { beautifier: Some(PortraitBeautifier::FaceMax), style: PortraitStyle::Pop };
        let style =
            StyleTransferJob { portrait: Some(portrait), fixed_generation: true, ..StyleTransferJob::default() };
        let skin = |mode| ImageJob::SkinEnhance(SkinEnhanceJob::new(mode));

        vec![
            ImageJob::Upscale(UpscaleJob { prompt: prompt.clone(), ..UpscaleJob::default() }),
            ImageJob::Upscale(UpscaleJob::default()),
            ImageJob::UpscalePrecision(PrecisionUpscaleJob::default()),
            ImageJob::StyleTransfer(style),
            ImageJob::StyleTransfer(StyleTransferJob { prompt: prompt.clone(), ..StyleTransferJob::default() }),
            skin(SkinMode::Creative),
            skin(SkinMode::Faithful { detail: SkinMode::DETAIL_DEFAULT }),
            skin(SkinMode::Flexible { focus: SkinFocus::NoMakeUp }),
            ImageJob::Relight(RelightJob { prompt, source: LightSource::Lightmap, ..RelightJob::default() }),
            ImageJob::Relight(RelightJob { source: LightSource::Reference, ..RelightJob::default() }),
        ]
    }

    /// The expected requests are recorded by hand from the seed's interface.
    #[test]
    fn every_request_is_as_recorded() {
        let recorded: Vec<Value> =
            serde_json::from_str(include_str!("../../../tests/golden/vendor/requests.json")).unwrap();
        let requests: Vec<_> = jobs()
            .iter()
            .map(|job| {
                let reference = matches!(job, ImageJob::StyleTransfer(_) | ImageJob::Relight(_));
                let pictures =
                    EncodedPictures { image: "aW1hZ2U=".to_owned(), reference: reference.then(|| "cmVm".to_owned()) };
                let webhook_url = Some("https://media.example/vendor-webhooks/t".to_owned());
                let VendorRequest { path, body } = build_request(job, pictures, webhook_url);
                json!({"post": path, "body": body, "get": status_path(status_family(job), "3f2c")})
            })
            .collect();

        assert_eq!(requests, recorded, "requested:\n{}", serde_json::to_string_pretty(&requests).unwrap());
    }

    #[test]
    fn an_id_stays_one_segment_of_the_path() {
        let path = status_path("image-relight", "a/../b?c#d%e é");
        assert_eq!(path, "/proxy/imagevendor/v1/ai/image-relight/a%2F..%2Fb%3Fc%23d%25e%20%C3%A9");
    }
}
