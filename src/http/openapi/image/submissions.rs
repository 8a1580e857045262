//! Described: the submissions of image jobs.

use serde_json::{Value, json};

use super::super::operation::{Operation, post};
use super::created;
use crate::http::error::Code;

const EVERY_CHANGE: &str = "The webhook is told of every change of status, signed as Standard Webhooks has it.";

pub(super) fn operations() -> Vec<Operation> {
    let mut operations = vec![upscale(), upscale_precisely(), transfer_style(), relight()];
    operations.extend(enhance_skin());
    operations
}

fn upscale() -> Operation {
    let path = "/proxy/imagevendor/v1/ai/image-upscaler";
    let example = json!({"image": PIXEL, "scale_factor": "2x", "optimized_for": "soft_portraits"});
    wrapped(submission(path, "upscaleImage", "Upscale an image", "UpscaleBody", &example))
        .about(EVERY_CHANGE)
        .fails(Code::InvalidInput, TOO_LARGE)
}

fn upscale_precisely() -> Operation {
    let path = "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2";
    let example = json!({"image": PIXEL, "scale_factor": 3, "flavor": "photo", "sharpen": 20});
    let operation =
        submission(path, "upscaleImagePrecisely", "Upscale an image, adding detail", "PrecisionBody", &example);
    wrapped(operation)
        .about("The webhook is told once, when the task has ended, signed as Standard Webhooks has it.")
        .fails(Code::InvalidInput, TOO_LARGE)
}

fn transfer_style() -> Operation {
    let path = "/proxy/imagevendor/v1/ai/image-style-transfer";
    let example =
        json!({"image": PIXEL, "reference_image": "https://pictures.example/harbour.webp", "engine": "softy"});
    submission(path, "transferStyle", "Give an image the style of another", "StyleTransferBody", &example)
        .about(format!(
            "The answer is the task itself, not wrapped in `data`. Without a reference the style is that of the engine, the \
             flavor and the prompt alone. {EVERY_CHANGE}"
        ))
        .shows("The task.", "ImageTask", &created())
        .waits()
        .fails(Code::InvalidInput, WRONG)
}

fn relight() -> Operation {
    let path = "/proxy/imagevendor/v1/ai/image-relight";
    let example = json!({"image": PIXEL, "prompt": "late sun from the left", "advanced_settings": {"whites": 60}});
    wrapped(submission(path, "relightImage", "Light an image anew", "RelightBody", &example))
        .about(format!("Light comes from a reference, or from a light map, or from the prompt and the style alone. {EVERY_CHANGE}"))
        .fails(
            Code::InvalidInput,
            "a field is wrong; both a reference and a light map are given; or a picture is none, over 50 MB or 100 megapixels",
        )
}

fn enhance_skin() -> [Operation; 3] {
    let mode = |path, id, summary, body, example: Value| {
        let operation = submission(path, id, summary, body, &example);
        wrapped(operation).about(EVERY_CHANGE).fails(Code::InvalidInput, WRONG)
    };
    [
        mode(
            "/proxy/imagevendor/v1/ai/skin-enhancer/creative",
            "enhanceSkinCreatively",
            "Enhance skin, artistic and stylised",
            "CreativeSkinBody",
            json!({"image": PIXEL, "sharpen": 10, "smart_grain": 5}),
        ),
        mode(
            "/proxy/imagevendor/v1/ai/skin-enhancer/faithful",
            "enhanceSkinFaithfully",
            "Enhance skin, keeping its texture",
            "FaithfulSkinBody",
            json!({"image": PIXEL, "skin_detail": 90}),
        ),
        mode(
            "/proxy/imagevendor/v1/ai/skin-enhancer/flexible",
            "enhanceSkinFlexibly",
            "Enhance skin for one purpose",
            "FlexibleSkinBody",
            json!({"image": PIXEL, "optimized_for": "improve_lighting"}),
        ),
    ]
}

/// What all submissions have in common.
fn submission(path: &'static str, id: &'static str, summary: &'static str, body: &str, example: &Value) -> Operation {
    post(path, id, summary)
        .takes(body, example)
        .fails(Code::ApprovalRequired, "where the service lets only approved users submit")
        .fails(Code::TooManySubmissions, "too many of the caller's tasks are unfinished")
        .fails(Code::QuotaExceeded, "the caller has submitted as many tasks as a day allows")
        .fails(
            Code::TooManyCallbacks,
            "the task has a webhook, and too many of the caller's callbacks wait for receivers",
        )
}

fn wrapped(operation: Operation) -> Operation {
    operation.shows("The task.", "ImageTaskData", &json!({"data": created()})).waits()
}

const WRONG: &str = "a field is wrong; or a picture is none, over 50 MB or 100 megapixels";
const TOO_LARGE: &str =
    "a field is wrong; or the image is no picture, over 50 MB or 100 megapixels, or its result over 25.3 megapixels";

/// A picture of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNQaDgAAAIkAWHdFJqQAAAAAElFTkSuQmCC";
