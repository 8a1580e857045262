//! Views of tasks for their owners and webhooks.

use serde::Serialize;

use crate::domain::ids::TaskId;
use crate::domain::image::Picture;
use crate::domain::music::MusicFile;
use crate::domain::task::{PromptReport, TaskFailure, TaskRecord, TaskResults, TaskStage, TaskStatus};
use crate::domain::video::{Clip, Creation, Credits};

/// View of an image task: the API's `ImageTask`, extended by the failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImageTaskView {
    /// URLs of the results.
    pub generated: Vec<String>,
    pub status: &'static str,
    pub task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<FailureView>,
    /// Interpretation of the prompt by the built-in engine; absent in webhooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_report: Option<PromptReport>,
}

/// View of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureView {
    pub code: String,
    pub message: String,
}

impl FailureView {
    /// Creates the view of a failure.
    #[must_use]
    pub fn from_failure(failure: &TaskFailure) -> Self {
        Self { code: failure.code.to_string(), message: failure.message.to_string() }
    }
}

impl ImageTaskView {
    /// Creates the view of a task's current state.
    #[must_use]
    pub fn from_record(record: &TaskRecord, public_url: &str) -> Self {
        let failure = if let TaskStage::Failed { failure } = &record.stage { Some(failure) } else { None };
        Self::new(record.submission.task, record.status, record.results(), failure, public_url)
    }

    /// Creates the view from parts. Result URLs start with `public_url`, which has no trailing slash.
    #[must_use]
    pub fn new(
        task: TaskId,
        status: TaskStatus,
        results: Option<&TaskResults>,
        failure: Option<&TaskFailure>,
        public_url: &str,
    ) -> Self {
        Self {
            generated: results.map_or_else(Vec::new, |results| result_urls(results, public_url)),
            status: status.to_image_status().as_str(),
            task_id: task.to_string(),
            error: failure.map(FailureView::from_failure),
            prompt_report: None,
        }
    }
}

/// Returns the URLs of results; they start with `public_url`, which has no trailing slash.
#[must_use]
pub fn result_urls(results: &TaskResults, public_url: &str) -> Vec<String> {
    let names: Vec<String> = match results {
        TaskResults::Pictures(pictures) => pictures.iter().map(Picture::file_name).collect(),
        TaskResults::Video(creation) => vec![creation.video.file_name()],
        TaskResults::Music(stream) => stream.files.iter().flatten().map(MusicFile::file_name).collect(),
    };
    names.into_iter().map(|name| format!("{public_url}/media/{name}")).collect()
}

/// Returns the URL of the still picture of a video, as [`result_urls`].
#[must_use]
pub fn cover_url(results: &TaskResults, public_url: &str) -> Option<String> {
    let TaskResults::Video(Creation { cover: Some(cover), .. }) = results else { return None };
    Some(format!("{public_url}/media/{}", cover.file_name()))
}

/// View of a video task: the response of `creations` (contract 7).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CreationsView {
    pub id: String,
    pub state: &'static str,
    /// Empty without a failure.
    pub err_code: String,
    /// Message of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    pub credits: Credits,
    /// The payload as submitted, while it is retained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// From 0 to 1; never decreases.
    pub progress: f64,
    pub creations: Vec<CreationView>,
}

/// A generated video.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CreationView {
    pub id: String,
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cover_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermarked_url: Option<String>,
}

/// State of a video task, as needed for its view.
#[derive(Debug, Clone, Copy)]
pub struct VideoTaskState<'m> {
    pub task: TaskId,
    pub status: TaskStatus,
    /// Last status before the end, or the current status.
    pub reached: TaskStatus,
    pub credits: Credits,
    pub results: Option<&'m TaskResults>,
    pub failure: Option<&'m TaskFailure>,
}

impl CreationsView {
    /// Creates the view of the current state without the payload. `reached` is the last status before the end.
    #[must_use]
    pub fn from_record(record: &TaskRecord, reached: TaskStatus, public_url: &str) -> Self {
        let failure = if let TaskStage::Failed { failure } = &record.stage { Some(failure) } else { None };
        let task = record.submission.task;
        let status = record.status;
        let credits = record.submission.work.credits();
        Self::new(
            VideoTaskState { task, status, reached, credits, results: record.results(), failure },
            None,
            public_url,
        )
    }

    /// Creates the view of a state. Result URLs start with `public_url`, which has no trailing slash.
    #[must_use]
    pub fn new(task_state: VideoTaskState<'_>, payload: Option<String>, public_url: &str) -> Self {
        let VideoTaskState { task, status, reached, credits, results, failure } = task_state;
        Self {
            id: task.to_string(),
            state: status.to_video_state().as_str(),
            err_code: failure.map(|failure| failure.code.to_string()).unwrap_or_default(),
            message: failure.map(|failure| failure.message.to_string()),
            credits,
            payload,
            progress: progress(status, reached),
            creations: creations(task, results, public_url),
        }
    }
}

/// Returns the video of a task, which has the id of the task.
fn creations(task: TaskId, results: Option<&TaskResults>, public_url: &str) -> Vec<CreationView> {
    let Some(TaskResults::Video(creation)) = results else { return Vec::new() };
    let url = |name: String| format!("{public_url}/media/{name}");
    let clip = |clip: &Clip| url(clip.file_name());
    vec![CreationView {
        id: task.to_string(),
        url: clip(&creation.video),
        cover_url: creation.cover.as_ref().map(|cover| url(cover.file_name())),
        watermarked_url: creation.watermarked.as_ref().map(clip),
    }]
}

/// Returns the progress derived from states alone; a failed task keeps the progress that it had reached.
#[must_use]
pub fn progress(status: TaskStatus, reached: TaskStatus) -> f64 {
    match (status, reached) {
        (TaskStatus::Completed, _) => 1.0,
        (_, TaskStatus::InProgress) => 0.1,
        (_, TaskStatus::Queueing) => 0.05,
        _ => 0.0,
    }
}
