//! Responses to video submissions: the accepted values, and the request fields listed for each endpoint.

use serde::Serialize;
use serde_json::Value;

use crate::domain::ids::TaskId;
use crate::domain::task::{PromptReport, TaskStatus};
use crate::domain::value::Timestamp;
use crate::domain::video::{GenerateJob, KeyFrame, VideoJob, VideoWork};

/// Fields of every response.
#[derive(Serialize)]
pub(super) struct VideoSubmissionView<'b> {
    task_id: String,
    state: &'static str,
    credits: u32,
    created_at: String,
    model: &'static str,
    resolution: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'b Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_report: Option<PromptReport>,
    #[serde(flatten)]
    job: VideoJobEcho<'b>,
}

/// Fields that depend on the endpoint.
#[derive(Serialize)]
#[serde(untagged)]
enum VideoJobEcho<'b> {
    Generate {
        #[serde(skip_serializing_if = "Option::is_none")]
        aspect_ratio: Option<String>,
        bgm: bool,
        duration: u8,
        #[serde(skip_serializing_if = "Option::is_none")]
        images: Option<&'b Value>,
        movement_amplitude: &'static str,
        off_peak: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        prompt: Option<&'b Value>,
        seed: u32,
        style: &'static str,
        watermark: bool,
    },
    Extend {
        duration: u8,
        #[serde(skip_serializing_if = "Option::is_none")]
        images: Option<&'b Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        prompt: Option<&'b Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        video_creation_id: Option<&'b Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        video_url: Option<&'b Value>,
    },
    Multiframe {
        image_settings: Vec<KeyFrameEcho<'b>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        start_image: Option<&'b Value>,
    },
}

#[derive(Serialize)]
struct KeyFrameEcho<'b> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key_image: Option<&'b Value>,
    duration: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'b Value>,
}

/// Returns a field of the request; `None` if it is absent or null.
fn present_field<'b>(object: &'b Value, name: &str) -> Option<&'b Value> {
    object.get(name).filter(|value| !value.is_null())
}

/// Builds the response for a task submitted at `at` and now in `state`. Request fields are returned unchanged; missing
/// ones with the value in effect.
pub(super) fn submission_view<'b>(
    task: TaskId,
    at: Timestamp,
    work: &VideoWork,
    body: &'b Value,
    state: TaskStatus,
    prompt_report: Option<PromptReport>,
) -> VideoSubmissionView<'b> {
    let field = |name: &str| present_field(body, name);

    VideoSubmissionView {
        task_id: task.to_string(),
        state: state.to_video_state().as_str(),
        credits: work.credits,
        created_at: at.to_string(),
        model: work.job.model(),
        resolution: work.job.resolution(),
        payload: field("payload"),
        prompt_report,
        job: match &work.job {
            VideoJob::StartEnd(job) | VideoJob::Reference(job) => generate_echo(job, work, body),
            VideoJob::Extend(job) => VideoJobEcho::Extend {
                duration: job.seconds.get(),
                images: field("images"),
                prompt: field("prompt"),
                video_creation_id: field("video_creation_id"),
                video_url: field("video_url"),
            },
            VideoJob::Multiframe(job) => {
                let settings = body.get("image_settings").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let echo_frame = |(frame, setting): (&KeyFrame, &'b Value)| {
                    let field = |name: &str| present_field(setting, name);
                    let key_image = field("key_image");
                    let prompt = field("prompt");
                    KeyFrameEcho { key_image, duration: frame.seconds.get(), prompt }
                };
                let image_settings = job.key_frames.iter().zip(settings).map(echo_frame).collect();
                VideoJobEcho::Multiframe { image_settings, start_image: field("start_image") }
            }
        },
    }
}

fn generate_echo<'b>(job: &GenerateJob, work: &VideoWork, body: &'b Value) -> VideoJobEcho<'b> {
    let field = |name: &str| present_field(body, name);

    VideoJobEcho::Generate {
        aspect_ratio: work.aspect_ratio().map(|ratio| ratio.to_string()),
        bgm: job.bgm,
        duration: job.seconds.get(),
        images: field("images"),
        movement_amplitude: job.movement_amplitude.as_str(),
        off_peak: job.off_peak,
        prompt: field("prompt"),
        seed: work.seed.get(),
        style: job.style.as_str(),
        watermark: job.watermark.is_some(),
    }
}
