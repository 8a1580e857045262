//! `mediary cluster check`: checks the engine of the settings, and that the data directory fits it, without starting a
//! node.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use uuid::Uuid;

use super::verify::read_groups;
use crate::app::bucket::bucket_of;
use crate::cluster::membership::{FilePlace, Membership};
use crate::cluster::{bucket_files, shared_files};
use crate::config::{Settings, SharedFiles};
use crate::environment::Environment;
use crate::events::journal::scan;
use crate::events::log::LogFailure;
use crate::events::shared::checkpoint::EngineCheckpoint;
use crate::events::shared::engine::Engine;
use crate::events::shared::engine_check::{CheckStatus, EngineCheck};
use crate::events::shared::format::Group;
use crate::file_tree::Bucket;

/// Result of a check of the engine and a data directory.
pub struct EngineReport {
    /// Log of the data directory; `None` if it is no node, so that only the servers were checked.
    pub log_id: Option<Uuid>,
    pub checks: Vec<EngineCheck>,
}

impl EngineReport {
    /// Returns `true` if no check failed.
    #[must_use]
    pub fn is_suitable(&self) -> bool {
        self.checks.iter().all(|check| check.status != CheckStatus::Failed)
    }
}

/// Checks the servers of the engine and, if the data directory is a node, its secrets, the shared files and the stored
/// log. Changes nothing; a node may run on the directory.
///
/// # Errors
/// If the servers do not respond, or the data directory cannot be read.
pub fn check_cluster(
    settings: &Settings,
    check_engine: impl FnOnce(Option<Uuid>) -> anyhow::Result<Vec<EngineCheck>>,
    open_engine: impl FnOnce(Uuid) -> anyhow::Result<Arc<dyn Engine>>,
) -> anyhow::Result<EngineReport> {
    let membership = Membership::read(&settings.data_dir)?;
    let log_id = membership.as_ref().map(Membership::log_id);
    let mut report = EngineReport { log_id, checks: check_engine(log_id)? };
    let is_engine_suitable = report.is_suitable();
    if membership.is_none()
        && let Some(location) = bucket_location(settings)
    {
        let result =
            bucket_of(&settings.cluster).and_then(|bucket| bucket.map_or(Ok(()), |bucket| check_bucket(&bucket)));
        report.checks.push(check_of(&location, result, SUITABLE));
    }

    if let Some(membership) = membership {
        report.checks.push(check_directory(&settings.data_dir, &membership)?);
        report.checks.extend(check_files(settings, &membership));
        if is_engine_suitable {
            let log_id = membership.log_id();
            report.checks.push(check_log(&settings.data_dir, log_id, &*open_engine(log_id)?)?);
        }
    }
    Ok(report)
}

/// Checks that the data directory has the log and the secrets of the cluster.
fn check_directory(data_dir: &Path, membership: &Membership) -> anyhow::Result<EngineCheck> {
    let subject = data_dir.display().to_string();
    let segments = scan::segments(&data_dir.join("log/journal"))?;
    let Some(log_id) = scan::read_log_id(&segments) else {
        return Ok(EngineCheck::failed(subject, "no segment of the journal has an intact header"));
    };
    Ok(match membership.check(data_dir, log_id) {
        Ok(()) => EngineCheck::met(subject, "it has the log and the secrets of the cluster"),
        Err(error) => EngineCheck::failed(subject, error.to_string()),
    })
}

fn check_files(settings: &Settings, membership: &Membership) -> Vec<EngineCheck> {
    const OWNED: &str = "it has the shared files of the cluster";
    let place = |place| membership.check_files(place).map_err(anyhow::Error::from);
    let log_id = membership.log_id();

    if let Some(location) = bucket_location(settings) {
        return match bucket_of(&settings.cluster) {
            Ok(Some(bucket)) => {
                let owned = place(FilePlace::Bucket).and_then(|()| Ok(bucket_files::check_owner(&bucket, log_id)?));
                let suitable = check_bucket(&bucket);
                vec![check_of(&location, owned, OWNED), check_of(&location, suitable, SUITABLE)]
            }
            Ok(None) => Vec::new(),
            Err(error) => vec![check_of(&location, Err(error), OWNED)],
        };
    }
    let Some(SharedFiles::Directory(directory)) = &settings.cluster.files else { return Vec::new() };
    let owned =
        place(FilePlace::Directory).and_then(|()| Ok(shared_files::check(&settings.data_dir, directory, log_id)?));
    vec![check_of(&directory.display().to_string(), owned, OWNED)]
}

/// Finding for a bucket that can be used.
const SUITABLE: &str = "an object was written, read and removed, and the bucket keeps no versions";

/// Returns the name of the bucket of the settings.
fn bucket_location(settings: &Settings) -> Option<String> {
    match &settings.cluster.files {
        Some(SharedFiles::Bucket(location)) => Some(location.to_string()),
        _ => None,
    }
}

/// Checks the access to a bucket and what the files need of it. Writes and removes an object.
fn check_bucket(bucket: &Bucket) -> anyhow::Result<()> {
    Ok(bucket_files::check_suitable(bucket, &Environment::system())?)
}

fn check_of(subject: &str, result: anyhow::Result<()>, met: &str) -> EngineCheck {
    match result {
        Ok(()) => EngineCheck::met(subject, met),
        Err(error) => EngineCheck::failed(subject, format!("{error:#}")),
    }
}

/// Checks that the engine has all groups that the data directory has applied, and that none of the others ended the log.
fn check_log(data_dir: &Path, log_id: Uuid, engine: &dyn Engine) -> anyhow::Result<EngineCheck> {
    let checkpoint = EngineCheckpoint::read(&data_dir.join("log"), log_id).map_err(anyhow::Error::msg)?;
    let applied = checkpoint.map_or(0, |checkpoint| checkpoint.sequence);
    let last = engine.last().context("the last group of the engine cannot be determined")?;

    let found = format!("the engine ends at group {last}, and this node has applied group {applied}");
    let subject = format!("log {log_id}");
    if last < applied {
        return Ok(EngineCheck::failed(subject, format!("{found}: the engine has lost groups")));
    }
    Ok(match find_refusal(engine, applied, last)? {
        None => EngineCheck::met(subject, found),
        Some(reason) => EngineCheck::failed(subject, format!("{found}: {reason}")),
    })
}

/// Reads the groups that the node has not applied. Returns the reason if one of them ended the log or cannot be read, or
/// the engine has a fault.
fn find_refusal(engine: &dyn Engine, applied: u64, last: u64) -> anyhow::Result<Option<String>> {
    let mut refusal = None;
    let fault = read_groups(engine, applied, last, |sequence, group| {
        // The group that ended the log need not be the last one: late ones may follow it.
        refusal = match Group::decode(group) {
            Ok(group) if group.closing_attempt().is_some() => Some(LogFailure::Closed.to_string()),
            Ok(_) => None,
            Err(error) => Some(format!("group {sequence} cannot be read: {error}")),
        };
        if refusal.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(refusal.or_else(|| fault.map(|fault| fault.to_string())))
}
