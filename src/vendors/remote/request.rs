//! Our job as the vendor is asked for it: the path and the body of the seed's image interface. Pure.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::domain::image::{
    ImageJob, LightSettings, LightSource, Relight, SkinEnhance, SkinMode, StyleTransfer, Upscale, UpscalePrecision,
};

/// Below the vendor's base URL.
const INTERFACE: &str = "/proxy/imagevendor/v1/ai/";

/// The pictures of a job, in base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pictures {
    pub image: String,
    pub reference: Option<String>,
}

/// What is posted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    /// Below the vendor's base URL.
    pub path: String,
    pub body: Map<String, Value>,
}

/// The request for a job. Every parameter is spelled out, so that the vendor's own defaults decide nothing.
pub(super) fn request(job: &ImageJob, pictures: Pictures, webhook: Option<String>) -> Request {
    let (endpoint, mut body) = match job {
        ImageJob::Upscale(job) => ("image-upscaler", upscale(job)),
        ImageJob::UpscalePrecision(job) => ("image-upscaler-precision-v2", upscale_precisely(*job)),
        ImageJob::StyleTransfer(job) => ("image-style-transfer", transfer_style(job)),
        ImageJob::SkinEnhance(job) => enhance_skin(*job),
        ImageJob::Relight(job) => ("image-relight", relight(job)),
    };
    let mut set = |field: &str, text: Option<String>| {
        if let Some(text) = text {
            body.insert(field.to_owned(), Value::String(text));
        }
    };
    set("image", Some(pictures.image));
    set(reference_field(job), pictures.reference);
    set("prompt", prompt(job));
    set("webhook_url", webhook);
    Request { path: format!("{INTERFACE}{endpoint}"), body }
}

/// The segment of the path at which jobs of this kind are asked after.
pub(super) const fn status_family(job: &ImageJob) -> &'static str {
    match job {
        ImageJob::Upscale(_) | ImageJob::UpscalePrecision(_) => "image-upscaler",
        ImageJob::StyleTransfer(_) => "image-style-transfer",
        ImageJob::SkinEnhance(_) => "skin-enhancer",
        ImageJob::Relight(_) => "image-relight",
    }
}

/// Where the vendor is asked how a job stands.
pub(super) fn status_path(family: &str, id: &str) -> String {
    format!("{INTERFACE}{family}/{}", segment(id))
}

/// An id as one segment of a path.
pub(super) fn segment(id: &str) -> String {
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

fn reference_field(job: &ImageJob) -> &'static str {
    match job {
        ImageJob::Relight(Relight { source: LightSource::Lightmap, .. }) => "transfer_light_from_lightmap",
        ImageJob::Relight(_) => "transfer_light_from_reference_image",
        _ => "reference_image",
    }
}

fn prompt(job: &ImageJob) -> Option<String> {
    let prompt = match job {
        ImageJob::Upscale(job) => &job.prompt,
        ImageJob::StyleTransfer(job) => &job.prompt,
        ImageJob::Relight(job) => &job.prompt,
        ImageJob::UpscalePrecision(_) | ImageJob::SkinEnhance(_) => &None,
    };
    prompt.as_ref().map(|prompt| prompt.as_str().to_owned())
}

fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn upscale(job: &Upscale) -> Map<String, Value> {
    fields([
        ("scale_factor", json!(job.scale_factor.as_str())),
        ("engine", json!(job.engine.as_str())),
        ("optimized_for", json!(job.optimized_for.as_str())),
        ("creativity", json!(job.creativity.get())),
        ("fractality", json!(job.fractality.get())),
        ("hdr", json!(job.hdr.get())),
        ("resemblance", json!(job.resemblance.get())),
    ])
}

fn upscale_precisely(job: UpscalePrecision) -> Map<String, Value> {
    fields([
        ("scale_factor", json!(job.scale_factor.get())),
        ("flavor", json!(job.flavor.as_str())),
        ("sharpen", json!(job.sharpen.get())),
        ("smart_grain", json!(job.smart_grain.get())),
        ("ultra_detail", json!(job.ultra_detail.get())),
    ])
}

fn transfer_style(job: &StyleTransfer) -> Map<String, Value> {
    let mut body = fields([
        ("engine", json!(job.engine.as_str())),
        ("flavor", json!(job.flavor.as_str())),
        ("is_portrait", json!(job.portrait.is_some())),
        ("structure_strength", json!(job.structure_strength.get())),
        ("style_strength", json!(job.style_strength.get())),
        ("fixed_generation", json!(job.fixed_generation)),
    ]);
    if let Some(portrait) = &job.portrait {
        body.insert("portrait_style".to_owned(), json!(portrait.style.as_str()));
        if let Some(beautifier) = portrait.beautifier {
            body.insert("portrait_beautifier".to_owned(), json!(beautifier.as_str()));
        }
    }
    body
}

fn enhance_skin(job: SkinEnhance) -> (&'static str, Map<String, Value>) {
    let mut body = fields([("sharpen", json!(job.sharpen.get())), ("smart_grain", json!(job.smart_grain.get()))]);
    let endpoint = match job.mode {
        SkinMode::Creative => "skin-enhancer/creative",
        SkinMode::Faithful { detail } => {
            body.insert("skin_detail".to_owned(), json!(detail.get()));
            "skin-enhancer/faithful"
        }
        SkinMode::Flexible { focus } => {
            body.insert("optimized_for".to_owned(), json!(focus.as_str()));
            "skin-enhancer/flexible"
        }
    };
    (endpoint, body)
}

fn relight(job: &Relight) -> Map<String, Value> {
    fields([
        ("light_transfer_strength", json!(job.light_transfer_strength.get())),
        ("interpolate_from_original", json!(job.interpolate_from_original)),
        ("change_background", json!(job.change_background)),
        ("preserve_details", json!(job.preserve_details)),
        ("style", json!(job.style.as_str())),
        ("advanced_settings", Value::Object(light_settings(&job.advanced))),
    ])
}

fn light_settings(settings: &LightSettings) -> Map<String, Value> {
    fields([
        ("whites", json!(settings.whites.get())),
        ("blacks", json!(settings.blacks.get())),
        ("brightness", json!(settings.brightness.get())),
        ("contrast", json!(settings.contrast.get())),
        ("saturation", json!(settings.saturation.get())),
        ("engine", json!(settings.engine.as_str())),
        ("transfer_light_a", json!(settings.transfer_light_a.as_str())),
        ("transfer_light_b", json!(settings.transfer_light_b.as_str())),
        ("fixed_generation", json!(settings.fixed_generation)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::image::{Portrait, PortraitBeautifier, PortraitStyle, Prompt, SkinFocus};

    fn jobs() -> Vec<ImageJob> {
        let prompt = Some(Prompt::recorded("soft light".to_owned()));
        let portrait = Portrait { beautifier: Some(PortraitBeautifier::FaceMax), style: PortraitStyle::Pop };
        let style = StyleTransfer { portrait: Some(portrait), fixed_generation: true, ..StyleTransfer::default() };
        let skin = |mode| ImageJob::SkinEnhance(SkinEnhance::of(mode));
        vec![
            ImageJob::Upscale(Upscale { prompt: prompt.clone(), ..Upscale::default() }),
            ImageJob::Upscale(Upscale::default()),
            ImageJob::UpscalePrecision(UpscalePrecision::default()),
            ImageJob::StyleTransfer(style),
            ImageJob::StyleTransfer(StyleTransfer { prompt: prompt.clone(), ..StyleTransfer::default() }),
            skin(SkinMode::Creative),
            skin(SkinMode::Faithful { detail: SkinMode::DETAIL_DEFAULT }),
            skin(SkinMode::Flexible { focus: SkinFocus::NoMakeUp }),
            ImageJob::Relight(Relight { prompt, source: LightSource::Lightmap, ..Relight::default() }),
            ImageJob::Relight(Relight { source: LightSource::Reference, ..Relight::default() }),
        ]
    }

    /// The recording is what the seed's interface takes, kept by hand.
    #[test]
    fn every_job_is_asked_for_as_recorded() {
        let recorded: Vec<Value> =
            serde_json::from_str(include_str!("../../../tests/golden/vendor/requests.json")).unwrap();
        let asked: Vec<_> = jobs()
            .iter()
            .map(|job| {
                let reference = matches!(job, ImageJob::StyleTransfer(_) | ImageJob::Relight(_));
                let pictures =
                    Pictures { image: "aW1hZ2U=".to_owned(), reference: reference.then(|| "cmVm".to_owned()) };
                let hook = Some("https://media.example/hints/t".to_owned());
                let Request { path, body } = request(job, pictures, hook);
                json!({"post": path, "body": body, "get": status_path(status_family(job), "3f2c")})
            })
            .collect();
        assert_eq!(asked, recorded, "asked for:\n{}", serde_json::to_string_pretty(&asked).unwrap());
    }

    #[test]
    fn an_id_stays_one_segment_of_the_path() {
        let path = status_path("image-relight", "a/../b?c#d%e é");
        assert_eq!(path, "/proxy/imagevendor/v1/ai/image-relight/a%2F..%2Fb%3Fc%23d%25e%20%C3%A9");
    }
}
