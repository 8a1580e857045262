//! `mediary cluster check`: checks the engine of the settings, and that the data directory fits it, without starting a
//! node.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;

use super::generation::{GenerationError, GenerationGap, REPLACE};
use super::verify::{is_ended, read_groups};
use crate::app::shared_location::open_location;
use crate::cluster::bucket_files;
use crate::cluster::generation::GenerationRecord;
use crate::cluster::membership::Membership;
use crate::cluster::shared_location::SharedLocation;
use crate::config::Settings;
use crate::environment::Environment;
use crate::events::journal::{ReadOnlyJournal, scan};
use crate::events::log::LogFailure;
use crate::events::shared::checkpoint::EngineCheckpoint;
use crate::events::shared::engine::Engine;
use crate::events::shared::engine_check::{CheckStatus, EngineCheck};
use crate::events::shared::format::Group;
use crate::events::shared::generation::LogGeneration;

/// Result of a check of the engine and a data directory.
pub struct EngineReport {
    /// Latest generation of the log of the data directory; `None` if the directory is not a node, so that only the
    /// servers were checked.
    pub log: Option<LogGeneration>,
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
/// log. Changes nothing, except that it writes an object to a bucket and removes it; a node may run on the directory.
///
/// # Errors
/// If the servers do not respond, or the data directory cannot be read.
pub fn check_cluster(
    settings: &Settings,
    check_engine: impl FnOnce(Option<LogGeneration>) -> anyhow::Result<Vec<EngineCheck>>,
    open_engine: impl Fn(LogGeneration) -> anyhow::Result<Arc<dyn Engine>>,
) -> anyhow::Result<EngineReport> {
    let membership = Membership::read(&settings.data_dir)?;
    let log = membership.as_ref().map(|membership| latest_generation(settings, membership));
    let mut report = EngineReport { log, checks: check_engine(log)? };
    let is_engine_suitable = report.is_suitable();
    if let Some(files) = &settings.cluster.files {
        report.checks.extend(check_files(settings, &files.to_string(), membership.as_ref(), &open_engine));
    }

    if let Some((membership, log)) = membership.zip(log) {
        report.checks.push(check_directory(&settings.data_dir, &membership)?);
        if is_engine_suitable {
            report.checks.push(match open_engine(log) {
                Ok(engine) => check_log(&settings.data_dir, log, &*engine)?,
                Err(error) => EngineCheck::failed(log.to_string(), format!("{error:#}")),
            });
        }
    }
    Ok(report)
}

/// Returns the generation that a start would use.
fn latest_generation(settings: &Settings, membership: &Membership) -> LogGeneration {
    let location = open_location(&settings.cluster);
    // The check of the shared files reports an error.
    let latest = location.ok().and_then(|location| location.read_generation(membership.log_id()).ok().flatten());
    let latest = latest.map(|latest| latest.log()).filter(|latest| latest.number > membership.log().number);
    latest.unwrap_or_else(|| membership.log())
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

/// Checks the location that all nodes use. If the data directory is not a node, only checks whether a bucket is
/// suitable.
fn check_files(
    settings: &Settings,
    subject: &str,
    membership: Option<&Membership>,
    open_engine: &dyn Fn(LogGeneration) -> anyhow::Result<Arc<dyn Engine>>,
) -> Vec<EngineCheck> {
    let failed = |error: anyhow::Error| EngineCheck::failed(subject, format!("{error:#}"));
    let location = match open_location(&settings.cluster) {
        Ok(location) => location,
        Err(error) => return vec![failed(error)],
    };

    let mut checks = Vec::new();
    if let Some(membership) = membership {
        let checked = check_location(settings, subject, &location, membership, open_engine);
        checks.push(checked.unwrap_or_else(failed));
    }
    if let SharedLocation::Bucket(bucket) = &location {
        let suitable = "an object was written, read and removed, and the bucket keeps no versions";
        let checked = bucket_files::check_suitable(bucket, &Environment::system());
        checks.push(checked.map_or_else(|error| failed(error.into()), |()| EngineCheck::met(subject, suitable)));
    }
    checks
}

/// Checks that the location has the files of the log, and compares the generation of the data directory with the latest
/// one.
fn check_location(
    settings: &Settings,
    subject: &str,
    location: &SharedLocation,
    membership: &Membership,
    open_engine: &dyn Fn(LogGeneration) -> anyhow::Result<Arc<dyn Engine>>,
) -> anyhow::Result<EngineCheck> {
    membership.check_files(location.kind())?;
    location.check(&settings.data_dir, membership.log_id())?;

    let own = membership.record();
    Ok(match location.read_generation(membership.log_id())? {
        Some(latest) if latest.log().number > own.log().number => {
            check_joining(settings, own.log(), latest, open_engine)?
        }
        Some(recorded) if recorded.log() == own.log() && recorded != own => {
            let own_base = own.base().clone();
            let recorded = recorded.base().clone();
            let error = GenerationError::OtherBase { log: own.log(), own: own_base, recorded };
            EngineCheck::failed(subject, error.to_string())
        }
        _ => EngineCheck::met(subject, "it has the shared files of the cluster"),
    })
}

/// Checks that a start brings a directory of an earlier generation to the latest one.
fn check_joining(
    settings: &Settings,
    own: LogGeneration,
    current: GenerationRecord,
    open_engine: &dyn Fn(LogGeneration) -> anyhow::Result<Arc<dyn Engine>>,
) -> anyhow::Result<EngineCheck> {
    let head = ReadOnlyJournal::open(&settings.data_dir.join("log"))?.journal_head()?;
    let gap = GenerationGap { own, end: head.into(), current };
    let subject = gap.current.log().to_string();
    if gap.end == *gap.current.base() {
        return Ok(EngineCheck::risk(subject, format!("{gap}: a start joins it")));
    }
    if !gap.is_closable() {
        return Ok(EngineCheck::failed(subject, format!("{gap}: {REPLACE}")));
    }

    let is_former_ended = open_engine(own).and_then(|former| is_ended(&*former));
    Ok(match is_former_ended {
        Ok(true) => EngineCheck::risk(subject, format!("{gap}: a start first applies the rest of the former stream")),
        Ok(false) => EngineCheck::failed(subject, format!("{gap}, and the former stream has no end: {REPLACE}")),
        Err(error) => {
            EngineCheck::failed(subject, format!("{gap}, and the former stream cannot be used ({error:#}): {REPLACE}"))
        }
    })
}

/// Checks that the engine has all groups that the data directory has applied, and that none of the others ended the log.
fn check_log(data_dir: &Path, log: LogGeneration, engine: &dyn Engine) -> anyhow::Result<EngineCheck> {
    let checkpoint = EngineCheckpoint::read(&data_dir.join("log"), log).map_err(anyhow::Error::msg)?;
    let applied = checkpoint.map_or(0, |checkpoint| checkpoint.sequence);
    let last = engine.last().context("the last group of the engine cannot be determined")?;

    let found = format!("the engine ends at group {last}, and this node has applied group {applied}");
    let subject = log.to_string();
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
