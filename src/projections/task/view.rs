//! Tasks as they are shown to their owners and told to their webhooks.

use serde::Serialize;

use crate::domain::ids::TaskId;
use crate::domain::image::Picture;
use crate::domain::task::{Failure, Results, Stage, TaskRecord, TaskStatus};
use crate::domain::video::{Clip, Credits};

/// An image task as it is shown to its owner and told to its webhook: the seed's `ImageTask`, and why it failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImageTaskView {
    /// URLs of the results.
    pub generated: Vec<String>,
    pub status: &'static str,
    pub task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<FailureView>,
}

/// Why a task failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureView {
    pub code: String,
    pub message: String,
}

impl FailureView {
    /// As it is shown.
    #[must_use]
    pub fn of(failure: &Failure) -> Self {
        Self { code: failure.code.to_string(), message: failure.message.to_string() }
    }
}

impl ImageTaskView {
    /// The task as it is now.
    #[must_use]
    pub fn of_record(record: &TaskRecord, public_url: &str) -> Self {
        let failure = if let Stage::Failed { failure } = &record.stage { Some(failure) } else { None };
        Self::new(record.submission.task, record.status, record.results(), failure, public_url)
    }

    /// A task by its parts; results are served below `public_url`, which has no trailing slash.
    #[must_use]
    pub fn new(
        task: TaskId,
        status: TaskStatus,
        results: Option<&Results>,
        failure: Option<&Failure>,
        public_url: &str,
    ) -> Self {
        Self {
            generated: results.map_or_else(Vec::new, |results| urls(results, public_url)),
            status: status.of_image().as_str(),
            task_id: task.to_string(),
            error: failure.map(FailureView::of),
        }
    }
}

/// Where what was made is served, below `public_url`, which has no trailing slash.
#[must_use]
pub fn urls(results: &Results, public_url: &str) -> Vec<String> {
    let names: Vec<String> = match results {
        Results::Pictures(pictures) => pictures.iter().map(Picture::file_name).collect(),
        Results::Video(creation) => vec![creation.video.file_name()],
        Results::Music(_) => Vec::new(),
    };
    names.into_iter().map(|name| format!("{public_url}/media/{name}")).collect()
}

/// A video task as it is shown and told to its callback: the creations answer (contract 7).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CreationsView {
    pub id: String,
    pub state: &'static str,
    /// Empty when there is none.
    pub err_code: String,
    /// Why it failed, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    pub credits: Credits,
    /// As it was given, while it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// From 0 to 1; never falls.
    pub progress: f64,
    pub creations: Vec<CreationView>,
}

/// A video that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CreationView {
    pub id: String,
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cover_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermarked_url: Option<String>,
}

/// A video task at one moment, as far as a view is made of it.
#[derive(Debug, Clone, Copy)]
pub struct VideoMoment<'m> {
    pub task: TaskId,
    pub status: TaskStatus,
    /// How far it came before it ended, if it has.
    pub reached: TaskStatus,
    pub credits: Credits,
    pub results: Option<&'m Results>,
    pub failure: Option<&'m Failure>,
}

impl CreationsView {
    /// The task as it is now, without its payload; `reached` is how far it came before it ended, if it has.
    #[must_use]
    pub fn of_record(record: &TaskRecord, reached: TaskStatus, public_url: &str) -> Self {
        let failure = if let Stage::Failed { failure } = &record.stage { Some(failure) } else { None };
        let (task, status, credits) = (record.submission.task, record.status, record.submission.work.credits());
        Self::new(VideoMoment { task, status, reached, credits, results: record.results(), failure }, None, public_url)
    }

    /// The task at that moment; results are served below `public_url`, which has no trailing slash.
    #[must_use]
    pub fn new(moment: VideoMoment<'_>, payload: Option<String>, public_url: &str) -> Self {
        let VideoMoment { task, status, reached, credits, results, failure } = moment;
        Self {
            id: task.to_string(),
            state: status.of_video().as_str(),
            err_code: failure.map(|failure| failure.code.to_string()).unwrap_or_default(),
            message: failure.map(|failure| failure.message.to_string()),
            credits,
            payload,
            progress: progress(status, reached),
            creations: creations(task, results, public_url),
        }
    }
}

/// The one video of a task has the id of the task.
fn creations(task: TaskId, results: Option<&Results>, public_url: &str) -> Vec<CreationView> {
    let Some(Results::Video(creation)) = results else { return Vec::new() };
    let url = |name: String| format!("{public_url}/media/{name}");
    let clip = |clip: &Clip| url(clip.file_name());
    vec![CreationView {
        id: task.to_string(),
        url: clip(&creation.video),
        cover_url: creation.cover.as_ref().map(|cover| url(cover.file_name())),
        watermarked_url: creation.watermarked.as_ref().map(clip),
    }]
}

/// How far a task is by its states alone: one that fails stays as far as it was.
#[must_use]
pub fn progress(status: TaskStatus, reached: TaskStatus) -> f64 {
    match (status, reached) {
        (TaskStatus::Completed, _) => 1.0,
        (_, TaskStatus::InProgress) => 0.5,
        (_, TaskStatus::Queueing) => 0.1,
        _ => 0.0,
    }
}
