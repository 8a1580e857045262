//! Jobs that clients can submit: parameters, prices and availability (contract 11). The parameters are those that the
//! endpoints read.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::actors::poller::breaker::CircuitState;
use crate::domain::policy::Action;
use crate::domain::task::{Gateway, TaskKind};
use crate::domain::video::{PriceList, Tariff};
use crate::http::api::image::jobs::{
    CreativeSkinBody, FaithfulSkinBody, FlexibleSkinBody, PrecisionBody, RelightBody, StyleTransferBody, UpscaleBody,
};
use crate::http::api::music::form;
use crate::http::api::video::jobs::{ExtendVideoBody, MultiframeBody, ReferenceVideoBody, StartEndVideoBody};
use crate::http::openapi::schema::SchemaField;
use crate::http::pipeline::Call;
use crate::http::request::json_object::JsonObject;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::http::server::{HttpOptions, Services};

/// A job that an endpoint takes.
pub struct JobEndpoint {
    pub kind: TaskKind,
    /// Name of the job: the kind, with the mode if it has several.
    pub job: &'static str,
    pub path: &'static str,
    pub describe_fields: fn() -> Vec<SchemaField>,
}

const fn endpoint<T: JsonObject>(kind: TaskKind, job: &'static str, path: &'static str) -> JobEndpoint {
    JobEndpoint { kind, job, path, describe_fields: T::describe_fields }
}

/// All jobs, by medium.
#[rustfmt::skip]
pub const JOBS: [JobEndpoint; 12] = [
    endpoint::<UpscaleBody>(TaskKind::ImageUpscaler, "image-upscaler", "/proxy/imagevendor/v1/ai/image-upscaler"),
    endpoint::<PrecisionBody>(TaskKind::ImageUpscalerPrecision, "image-upscaler-precision-v2", "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2"),
    endpoint::<StyleTransferBody>(TaskKind::ImageStyleTransfer, "image-style-transfer", "/proxy/imagevendor/v1/ai/image-style-transfer"),
    endpoint::<CreativeSkinBody>(TaskKind::SkinEnhancer, "skin-enhancer/creative", "/proxy/imagevendor/v1/ai/skin-enhancer/creative"),
    endpoint::<FaithfulSkinBody>(TaskKind::SkinEnhancer, "skin-enhancer/faithful", "/proxy/imagevendor/v1/ai/skin-enhancer/faithful"),
    endpoint::<FlexibleSkinBody>(TaskKind::SkinEnhancer, "skin-enhancer/flexible", "/proxy/imagevendor/v1/ai/skin-enhancer/flexible"),
    endpoint::<RelightBody>(TaskKind::ImageRelight, "image-relight", "/proxy/imagevendor/v1/ai/image-relight"),
    endpoint::<StartEndVideoBody>(TaskKind::StartEndToVideo, "start-end2video", "/proxy/videovendor/start-end2video"),
    endpoint::<ReferenceVideoBody>(TaskKind::ReferenceToVideo, "reference2video", "/proxy/videovendor/reference2video"),
    endpoint::<ExtendVideoBody>(TaskKind::ExtendVideo, "extend", "/proxy/videovendor/extend"),
    endpoint::<MultiframeBody>(TaskKind::MultiframeVideo, "multiframe", "/proxy/videovendor/multiframe"),
    JobEndpoint { kind: TaskKind::Music, job: "music", path: "/proxy/musicvendor/t2m/generate", describe_fields: form::describe_fields },
];

/// Jobs that a configured vendor takes.
#[derive(Debug, Clone)]
pub struct VendorJobs {
    pub gateway: Gateway,
    /// Name of the vendor.
    pub vendor: String,
    /// Kinds that the settings allow for the vendor; all if empty.
    pub kinds: Vec<TaskKind>,
    /// Names of the jobs that the profile of the vendor has; all if `None`.
    pub jobs: Option<Vec<String>>,
}

impl VendorJobs {
    fn includes(&self, endpoint: &JobEndpoint) -> bool {
        self.gateway == endpoint.kind.gateway()
            && (self.kinds.is_empty() || self.kinds.contains(&endpoint.kind))
            && self.jobs.as_ref().is_none_or(|jobs| jobs.iter().any(|job| job == endpoint.job))
    }
}

#[derive(Serialize)]
struct ModelList {
    models: Vec<ModelView>,
}

#[derive(Serialize)]
struct ModelView {
    /// `image`, `video` or `music`.
    medium: &'static str,
    job: &'static str,
    path: &'static str,
    /// JSON schemas, each with its name and whether it is required.
    parameters: Vec<Value>,
    price: PriceView,
    /// `true` if a vendor that takes the job can be called now.
    available: bool,
}

/// Price of a job. A submission with `?estimate=true` computes it.
#[derive(Serialize)]
struct PriceView {
    /// Price of each task; `None` for videos, whose price depends on the parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    credits: Option<u32>,
    /// Price of each second, in addition.
    #[serde(skip_serializing_if = "Option::is_none")]
    credits_per_second: Option<u32>,
    /// Prices of the first seconds and of each further one, by model and resolution.
    #[serde(skip_serializing_if = "Option::is_none")]
    by_model: Option<PriceList>,
    /// Surcharge for the recommended prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_rec: Option<u32>,
    /// Off-peak price in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    off_peak_percent: Option<u32>,
    rule: &'static str,
}

/// `GET /models`: every job that can be submitted.
pub async fn list(call: Call<{ Action::ReadServiceState as u8 }>) -> Result<ApiResponse, Problem> {
    let services = call.services();
    let models = JOBS.iter().map(|endpoint| describe_job(endpoint, services)).collect();
    ApiResponse::ok(&ModelList { models })
}

fn describe_job(endpoint: &JobEndpoint, services: &Services) -> ModelView {
    ModelView {
        medium: match endpoint.kind.gateway() {
            Gateway::Image => "image",
            Gateway::Video => "video",
            Gateway::Music => "music",
        },
        job: endpoint.job,
        path: endpoint.path,
        parameters: describe_parameters(endpoint, &services.options),
        price: describe_price(endpoint.kind, &services.media.tariff),
        available: is_available(endpoint, services),
    }
}

fn describe_parameters(endpoint: &JobEndpoint, options: &HttpOptions) -> Vec<Value> {
    let fields = (endpoint.describe_fields)().into_iter();
    fields
        .map(|SchemaField { name, mut schema, required }| {
            if name == "images"
                && let Some(max) = schema["maxItems"].as_u64()
            {
                schema["maxItems"] = max.min(options.video_max_images as u64).into();
            }

            let mut parameter =
                Map::from_iter([("name".to_owned(), json!(name)), ("required".to_owned(), json!(required))]);
            if let Value::Object(keywords) = schema {
                parameter.extend(keywords);
            }
            Value::Object(parameter)
        })
        .collect()
}

fn describe_price(kind: TaskKind, tariff: &Tariff) -> PriceView {
    let view = |credits| PriceView {
        credits,
        credits_per_second: None,
        by_model: None,
        is_rec: None,
        off_peak_percent: None,
        rule: "A fixed price for each task.",
    };

    match kind {
        TaskKind::Music => PriceView {
            credits_per_second: Some(tariff.music.second),
            rule: "A price for each task and each second. Without `duration`, the length is the one that the built-in \
                   engine reads from the prompt.",
            ..view(Some(tariff.music.task))
        },
        TaskKind::StartEndToVideo | TaskKind::ReferenceToVideo => PriceView {
            by_model: Some(tariff.generate.clone()),
            is_rec: Some(tariff.is_rec),
            off_peak_percent: Some(tariff.off_peak_percent),
            rule: "The price of the duration, for model and resolution: `seconds` has the prices of one second, two \
                   seconds and so on; each further second costs `more`. `off_peak` reduces it to `off_peak_percent`, \
                   rounded up; `is_rec` is added.",
            ..view(None)
        },
        TaskKind::ExtendVideo => PriceView {
            by_model: Some(tariff.extend.clone()),
            rule: "The price of the added duration, for model and resolution: `seconds` has the prices of one second, \
                   two seconds and so on; each further second costs `more`.",
            ..view(None)
        },
        TaskKind::MultiframeVideo => PriceView {
            by_model: Some(tariff.extend.clone()),
            rule: "For model and resolution: each key frame costs the first price in `seconds`, and each second of the \
                   video costs `more`. With `{\"seconds\": [20], \"more\": 8}`, a video of 3 key frames and 10 seconds \
                   costs 3 × 20 + 10 × 8 = 140 credits.",
            ..view(None)
        },
        _ => view(Some(tariff.image_price(kind.as_str()))),
    }
}

/// Returns `true` if a vendor that takes the job can be called now. A vendor without a circuit always can.
fn is_available(endpoint: &JobEndpoint, services: &Services) -> bool {
    let is_callable = |name: &str| {
        let guarded = services.operations.vendors.iter().find(|vendor| *vendor.description().name == *name);
        guarded.is_none_or(|vendor| matches!(vendor.circuit(), CircuitState::Closed | CircuitState::HalfOpen))
    };
    services.options.vendor_jobs.iter().any(|jobs| jobs.includes(endpoint) && is_callable(&jobs.vendor))
}
