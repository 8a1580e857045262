//! Submissions of image jobs.

use serde_json::{Value, json};

use super::image::created_example;
use super::operation::{Operation, operation};
use crate::http::api::image::jobs::{
    CreativeSkinBody, FaithfulSkinBody, FlexibleSkinBody, PrecisionBody, RelightBody, StyleTransferBody, UpscaleBody,
};
use crate::http::request::json_object::JsonObject;
use crate::http::response::error::Code;

const WEBHOOK_EVERY_CHANGE: &str =
    "The webhook receives every change of status, signed according to Standard Webhooks.";

pub(super) fn operations() -> Vec<Operation> {
    let mut operations = vec![upscale(), upscale_precisely(), transfer_style(), relight()];
    operations.extend(enhance_skin());
    operations
}

fn upscale() -> Operation {
    let example = json!({"image": PIXEL, "scale_factor": "2x", "optimized_for": "soft_portraits"});
    with_enveloped_response(submission::<UpscaleBody>("upscaleImage", "Upscale an image", &example))
        .description(WEBHOOK_EVERY_CHANGE)
        .error(Code::InvalidInput, INVALID_OR_TOO_LARGE)
}

fn upscale_precisely() -> Operation {
    let example = json!({"image": PIXEL, "scale_factor": 3, "flavor": "photo", "sharpen": 20});
    let summary = "Upscale an image with precision settings";
    with_enveloped_response(submission::<PrecisionBody>("upscaleImagePrecisely", summary, &example))
        .description(
            "Upscales an image and can add detail. The webhook receives only the end of the task, signed according to \
             Standard Webhooks.",
        )
        .error(Code::InvalidInput, INVALID_OR_TOO_LARGE)
}

fn transfer_style() -> Operation {
    let example =
        json!({"image": PIXEL, "reference_image": "https://pictures.example/harbour.webp", "engine": "softy"});
    submission::<StyleTransferBody>("transferStyle", "Transfer a style to an image", &example)
        .fields_first(&["image", "reference_image"])
        .description(format!(
            "Applies the style of a reference picture, or without one the style of engine, flavor and prompt. The \
             response is the task itself, not wrapped in `data`. {WEBHOOK_EVERY_CHANGE}"
        ))
        .ok_response("The task.", "ImageTask", &created_example())
        .prefer_wait()
        .error(Code::InvalidInput, INVALID_INPUT)
}

fn relight() -> Operation {
    let example = json!({"image": PIXEL, "prompt": "late sun from the left", "advanced_settings": {"whites": 60}});
    with_enveloped_response(submission::<RelightBody>("relightImage", "Relight an image", &example))
        .description(format!(
            "Changes the lighting of an image to that of a reference picture or a light map, or according to prompt \
             and style alone. {WEBHOOK_EVERY_CHANGE}"
        ))
        .error(
            Code::InvalidInput,
            "a field is invalid; both a reference picture and a light map are given; or a picture cannot be decoded, \
             or exceeds 50 MB or 100 megapixels",
        )
}

fn enhance_skin() -> [Operation; 3] {
    let example = json!({"image": PIXEL, "sharpen": 10, "smart_grain": 5});
    let creative = submission::<CreativeSkinBody>("enhanceSkinCreatively", "Enhance skin (creative)", &example);

    let example = json!({"image": PIXEL, "skin_detail": 90});
    let faithful = submission::<FaithfulSkinBody>("enhanceSkinFaithfully", "Enhance skin (faithful)", &example);

    let example = json!({"image": PIXEL, "optimized_for": "improve_lighting"});
    let flexible = submission::<FlexibleSkinBody>("enhanceSkinFlexibly", "Enhance skin (flexible)", &example);

    [creative, faithful, flexible].map(|operation| {
        with_enveloped_response(operation).description(WEBHOOK_EVERY_CHANGE).error(Code::InvalidInput, INVALID_INPUT)
    })
}

/// Declares a submission with the parts that all submissions share.
fn submission<T: JsonObject>(id: &'static str, summary: &'static str, example: &Value) -> Operation {
    operation(id, summary)
        .json_or_form::<T>(example)
        .error(Code::ApprovalRequired, "the service requires approved accounts")
        .error(Code::TooManySubmissions, "the caller has reached the limit of unfinished tasks")
        .error(Code::BudgetExceeded, "the task costs more than is left of a budget")
        .error(Code::QuotaExceeded, "the caller has reached the daily limit of tasks")
        .error(
            Code::TooManyCallbacks,
            "the task has a webhook, and the account has reached the limit of undelivered webhooks",
        )
}

fn with_enveloped_response(operation: Operation) -> Operation {
    operation.ok_response("The task.", "ImageTaskData", &json!({"data": created_example()})).prefer_wait()
}

const INVALID_INPUT: &str = "a field is invalid, or a picture cannot be decoded, or exceeds 50 MB or 100 megapixels";
const INVALID_OR_TOO_LARGE: &str = "a field is invalid; or the image cannot be decoded, or exceeds 50 MB or 100 megapixels, or \
                         its result exceeds 25.3 megapixels";

/// A picture of one pixel.
pub(super) const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNQaDgAAAIkAWHdFJqQAAAAAElFTkSuQmCC";
