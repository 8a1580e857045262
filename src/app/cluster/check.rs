//! `mediary cluster check`: checks the engine of the settings without starting a node.

use anyhow::Context as _;
use uuid::Uuid;

use crate::app::cluster_engine::{check_engine, connect_engine};
use crate::cluster::membership::Membership;
use crate::config::Settings;
use crate::events::shared::checkpoint::EngineCheckpoint;
use crate::events::shared::engine_check::{CheckStatus, EngineCheck};

/// Result of a check of the engine.
pub struct EngineReport {
    /// Log of the data directory; `None` if it is no node, so that only the servers were checked.
    pub log_id: Option<Uuid>,
    pub checks: Vec<EngineCheck>,
}

impl EngineReport {
    /// Returns `true` if a node can start.
    #[must_use]
    pub fn is_suitable(&self) -> bool {
        self.checks.iter().all(|check| check.status != CheckStatus::Failed)
    }
}

/// Checks the servers of the engine and, if the data directory is a node, the stored log. The node may be running.
///
/// # Errors
/// If the servers do not respond, or the data directory cannot be read.
pub fn check_cluster(settings: &Settings) -> anyhow::Result<EngineReport> {
    let membership = Membership::read(&settings.data_dir)?;
    let log_id = membership.as_ref().map(Membership::log_id);
    let mut report = EngineReport { log_id, checks: check_engine(&settings.cluster, log_id)? };
    if let Some(log_id) = log_id
        && report.is_suitable()
    {
        report.checks.push(check_not_shorter(settings, log_id)?);
    }
    Ok(report)
}

/// Checks that the engine has all groups that the data directory has applied.
fn check_not_shorter(settings: &Settings, log_id: Uuid) -> anyhow::Result<EngineCheck> {
    let checkpoint = EngineCheckpoint::read(&settings.data_dir.join("log"), log_id).map_err(anyhow::Error::msg)?;
    let applied = checkpoint.map_or(0, |checkpoint| checkpoint.sequence);
    let last = connect_engine(&settings.cluster, log_id)?
        .last()
        .context("the last group of the engine cannot be determined")?;

    let found = format!("the engine ends at group {last}, and this node has applied group {applied}");
    let subject = format!("log {log_id}");
    Ok(if last >= applied {
        EngineCheck::met(subject, found)
    } else {
        EngineCheck::failed(subject, format!("{found}: the engine has lost groups"))
    })
}
