//! Jobs of the commands that preview or try a request to a vendor. Their bodies are read exactly like those of HTTP
//! requests.

use serde_json::Value;

use crate::disk_space::DiskSpace;
use crate::domain::music::{MusicPrompt, MusicSeconds, MusicWork};
use crate::domain::task::TaskWork;
use crate::domain::video::Tariff;
use crate::http::api::models::JOBS;
use crate::http::api::{image, video};
use crate::http::request::fields::{self, Fields};
use crate::media::store::MediaStore;

/// Store for the pictures of a job, and the settings on which its values depend.
pub struct JobContext<'p> {
    pub store: &'p MediaStore,
    pub space: &'p DiskSpace,
    pub tariff: &'p Tariff,
    /// Seed of jobs that give none.
    pub seed: u32,
}

/// Reads the body of a job and stores its pictures. Blocks.
///
/// # Errors
/// If there is no such job, or a field is invalid; the message names each such field.
pub fn read_work(job: &str, body: &Value, context: &JobContext<'_>) -> Result<TaskWork, String> {
    let image = || image::read_work(job, body, context).map(|work| work.map(TaskWork::Image));
    let video = || video::read_work(job, body, context).map(|work| work.map(TaskWork::Video));
    let music = || (job == "music").then(|| fields::read(body, read_music).map(TaskWork::Music));

    let work = image().or_else(video).or_else(music);
    work.ok_or_else(|| format!("there is no job {job}"))?.map_err(|problem| problem.to_string())
}

/// Returns the names of the fields of a job; none if there is no such job.
#[must_use]
pub fn field_names(job: &str) -> Vec<String> {
    let endpoint = JOBS.iter().find(|endpoint| endpoint.job == job);
    let fields = endpoint.map(|endpoint| (endpoint.describe_fields)()).unwrap_or_default();
    fields.into_iter().map(|field| field.name.to_owned()).collect()
}

fn read_music(fields: &mut Fields<'_, '_>) -> Option<MusicWork> {
    let prompt = fields.text("prompt", MusicPrompt::parse);
    let prompt = fields.required("prompt", prompt);
    let seconds = fields.integer("duration", MusicSeconds::new);
    Some(MusicWork { prompt: prompt?, seconds, credits: 0 })
}
