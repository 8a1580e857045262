//! Completion of ids that the service knows. The user waits for the candidates while typing, so their number and the
//! time to read them are limited.

use std::ffi::OsStr;
use std::time::Duration;

use clap_complete::CompletionCandidate;
use serde_json::Value;

use super::job::Job;
use super::login;
use super::search::completion_path;
use super::service::{ServiceArguments, ServiceConnection};
use super::task;
use crate::app;
use crate::cli::CliError;

/// Maximum duration of a completion.
const TIME_MAX: Duration = Duration::from_secs(1);
/// Maximum number of candidates.
const CANDIDATES_MAX: u64 = 50;

/// Returns the nodes whose ids begin with `current`, or the versions of the node before `@`.
pub(super) fn nodes(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy().into_owned();
    if let Some((node, version)) = current.split_once('@') {
        let path = format!("/nodes/{node}/versions");
        return candidates(
            version,
            |version| format!("{node}@{version}"),
            async |service| Ok(text_pairs(&service.get(&path).await?, "version", "changelog")),
        );
    }
    candidates(&current, str::to_owned, async |service| {
        let page = service.get(&completion_path(&current, CANDIDATES_MAX)).await?;
        Ok(text_pairs(&page["nodes"], "id", "description"))
    })
}

/// Returns the publishers of the user.
pub(super) fn publishers(current: &OsStr) -> Vec<CompletionCandidate> {
    candidates(&current.to_string_lossy(), str::to_owned, async |service| {
        let ids = login::own_publishers(service).await?;
        Ok(ids.into_iter().map(|id| (id, String::new())).collect())
    })
}

/// Returns the jobs of the service.
pub(super) fn jobs(current: &OsStr) -> Vec<CompletionCandidate> {
    candidates(&current.to_string_lossy(), str::to_owned, async |service| {
        Ok(Job::list(service).await?.into_iter().map(|job| (job.name, job.medium)).collect())
    })
}

/// Returns the newest tasks of the user.
pub(super) fn tasks(current: &OsStr) -> Vec<CompletionCandidate> {
    candidates(&current.to_string_lossy(), str::to_owned, async |service| task::newest(service, CANDIDATES_MAX).await)
}

/// Returns a candidate for each value that begins with `current`. `read` reads pairs of a value and its description
/// from the service; `format` turns a value into the completed word. Returns no candidates after a failure or a
/// timeout.
///
/// Blocks for at most [`TIME_MAX`].
fn candidates(
    current: &str,
    format: impl Fn(&str) -> String,
    read: impl AsyncFnOnce(&ServiceConnection) -> Result<Vec<(String, String)>, CliError>,
) -> Vec<CompletionCandidate> {
    // Completion does not see the flag `--url`, so the service comes from the environment or the login.
    let Ok(service) = ServiceConnection::open(&ServiceArguments::default()) else { return Vec::new() };
    let result = app::block_on(async { tokio::time::timeout(TIME_MAX, read(&service)).await });
    let Ok(Ok(pairs)) = result else { return Vec::new() };
    let matching = pairs.into_iter().filter(|(value, _)| value.starts_with(current));
    matching
        .map(|(value, description)| {
            let line = description.lines().next().unwrap_or_default().to_owned();
            CompletionCandidate::new(format(&value)).help((!line.is_empty()).then(|| line.into()))
        })
        .collect()
}

/// Returns the text fields `value` and `description` of each object in a list.
fn text_pairs(list: &Value, value: &str, description: &str) -> Vec<(String, String)> {
    let text = |object: &Value, name: &str| object[name].as_str().unwrap_or_default().to_owned();
    list.as_array().into_iter().flatten().map(|object| (text(object, value), text(object, description))).collect()
}
