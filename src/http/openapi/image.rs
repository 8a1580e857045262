//! Described: image tasks and their results.

use serde_json::{Value, json};

use super::Group;
use super::operation::{Operation, get, post};
use super::schema::{Documented, Url, array, body, field, field_of, named, view};
use crate::domain::ids::TaskId;
use crate::domain::image::{Dial, OptimizedFor, Prompt, ScaleFactor, UpscaleEngine};
use crate::domain::task::TaskStatus;
use crate::domain::value::CallbackUrl;
use crate::http::error::Code;

pub fn group() -> Group {
    Group {
        tag: "Images",
        about: "Image generation. A submission is checked whole, becomes durable and is answered at once with a task; the work is \
                done after that.",
        operations: vec![upscale(), status(), result()],
        components: vec![
            ("UpscaleBody", upscale_body()),
            ("ImageTask", task_view()),
            ("ImageTaskData", view([field_of("data", "", named("ImageTask")).required()])),
        ],
    }
}

fn upscale() -> Operation {
    post("/proxy/imagevendor/v1/ai/image-upscaler", "upscaleImage", "Upscale an image")
        .about("The webhook is told of every change of status, signed as Standard Webhooks has it.")
        .takes("UpscaleBody", &json!({"image": PIXEL, "scale_factor": "2x", "optimized_for": "soft_portraits"}))
        .shows("The task.", "ImageTaskData", &json!({"data": {"generated": [], "status": "CREATED", "task_id": TASK}}))
        .fails(Code::InvalidInput, "a field is wrong; or the image is no picture, over 50 MB or 100 megapixels, or its result over 25.3 megapixels")
        .fails(Code::ApprovalRequired, "where the service lets only approved users submit")
        .fails(Code::TooManySubmissions, "too many of the caller's tasks are unfinished")
}

fn status() -> Operation {
    let done = "https://registry.example/media/3a7bd3e2360a3d29eea436fcfb7e44c735d117c42d1c1835420b6b9942dd4f1b.png";
    get("/proxy/imagevendor/v1/ai/image-upscaler/{task_id}", "getUpscaleTask", "Show an upscaling task")
        .about("Tasks of other users are not found, except by administrators.")
        .shows(
            "The task.",
            "ImageTaskData",
            &json!({"data": {"generated": [done], "status": "COMPLETED", "task_id": TASK}}),
        )
}

fn result() -> Operation {
    get("/media/{file}", "getResult", "Get a result")
        .about("A file never changes under its name. Ranges are answered.")
        .serves_file("The file.", "image/*")
}

fn upscale_body() -> Value {
    let image = json!({"type": "string", "minLength": 1, "contentEncoding": "base64"});
    let dial = |name, about| field::<Dial>(name, about);
    body([
        dial("creativity", "How much detail is invented."),
        field::<UpscaleEngine>("engine", "").with("default", "automatic"),
        dial("fractality", "Strength of the prompt, and intricacy per square pixel."),
        dial("hdr", "Level of definition and detail."),
        field_of("image", "Base64 or a data URI: png, jpeg, webp, gif, bmp or tiff.", image).required(),
        field::<OptimizedFor>("optimized_for", "").with("default", "standard"),
        field::<Prompt>("prompt", "Guides the upscale."),
        dial("resemblance", "To the original."),
        field::<ScaleFactor>("scale_factor", "How much each side grows.").with("default", "2x"),
        field::<CallbackUrl>("webhook_url", "Told of every change of status; empty means none."),
    ])
}

fn task_view() -> Value {
    let failure = view([field::<String>("code", "").required(), field::<String>("message", "").required()]);
    view([
        field_of("error", "Why it failed.", failure),
        field_of("generated", "URLs of the results.", array(&Url::schema())).required(),
        field::<TaskStatus>("status", "").required(),
        field::<TaskId>("task_id", "").required(),
    ])
}

const TASK: &str = "5a7f7a36-7a4e-4f0c-9f5e-2f6f3f0d9c11";

/// A picture of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNQaDgAAAIkAWHdFJqQAAAAAElFTkSuQmCC";
