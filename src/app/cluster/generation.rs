//! The generation of the log that a data directory belongs to, compared with the latest recorded one.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use super::{ClusterMember, CommitReceivers, wait_for_engine};
use crate::cluster::generation::{GenerationRecord, StoredHead};
use crate::cluster::membership::{Membership, MembershipError};
use crate::cluster::shared_location::{SharedLocation, SharedLocationError};
use crate::config::Settings;
use crate::environment::Environment;
use crate::events::journal::JournalHead;
use crate::events::log::LogFailure;
use crate::events::shared::engine::Engine;
use crate::events::shared::generation::LogGeneration;
use crate::events::shared::shared_log::{SharedLog, SharedLogOptions};
use crate::events::sled_log::SledLog;
use crate::telemetry::metrics::ClusterMetrics;

/// Interval at which a running node looks for the next generation.
const WATCH_INTERVAL: Duration = Duration::from_secs(3);
/// Interval while the location cannot be read.
const WATCH_ERROR_INTERVAL: Duration = Duration::from_secs(30);

/// Reason why a data directory does not belong to the recorded generation.
#[derive(Debug, thiserror::Error)]
pub(super) enum GenerationError {
    #[error("{0}, so its log cannot continue: {REPLACE}")]
    Outdated(GenerationGap),
    #[error("{0}: start the node first, which applies the rest of the former stream. If it is refused, {REPLACE}")]
    Behind(GenerationGap),
    #[error(
        "for this directory, {log} begins at {own}, but the location in cluster.files records {recorded}: correct \
         cluster.files, or replace this directory by a backup of a node"
    )]
    OtherBase { log: LogGeneration, own: StoredHead, recorded: StoredHead },
    #[error(transparent)]
    Location(#[from] SharedLocationError),
    #[error(transparent)]
    Membership(#[from] MembershipError),
}

/// Remedy for a directory whose log differs from that of the others.
pub(super) const REPLACE: &str = "replace it by a backup of a node that has been made since";

/// End of the log of a data directory, and the beginning of a later generation.
#[derive(Debug)]
pub(super) struct GenerationGap {
    pub own: LogGeneration,
    pub end: StoredHead,
    pub current: GenerationRecord,
}

impl GenerationGap {
    /// Returns `true` if applying the rest of its own stream could bring the directory to the beginning of the later
    /// generation.
    pub(super) fn is_closable(&self) -> bool {
        self.own.next() == self.current.log() && self.end.position() < self.current.base().position()
    }
}

impl fmt::Display for GenerationGap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { own, end, current } = self;
        let base = current.base();
        write!(formatter, "this directory belongs to {own} and ends at {end}, but {} begins at {base}", current.log())
    }
}

/// Stops a running node once a later generation is recorded: `rebuild-engine --lost` cannot hear the node.
pub(super) struct GenerationWatch {
    pub log: Weak<SharedLog>,
    pub own: GenerationRecord,
    pub location: SharedLocation,
}

impl GenerationWatch {
    pub fn watch_until(self, stop_requested: &Arc<AtomicBool>) -> impl FnOnce() + Send + use<> {
        let stop_requested = Arc::clone(stop_requested);
        move || {
            // The startup may not have read the records of the location.
            let mut is_latest_read = false;
            while !stop_requested.load(Ordering::Acquire) {
                let pause = match self.find_later(is_latest_read) {
                    Ok(None) => {
                        is_latest_read = true;
                        WATCH_INTERVAL
                    }
                    Ok(Some(later)) => return self.stop(&format!("{} begins at {}", later.log(), later.base())),
                    // The record exists, perhaps in the format of a later release.
                    Err(SharedLocationError::Record { name, reason }) => return self.stop(&format!("{name} {reason}")),
                    Err(error) => {
                        tracing::warn!(%error, "generation not checked");
                        WATCH_ERROR_INTERVAL
                    }
                };
                thread::park_timeout(pause);
            }
        }
    }

    /// Returns the record of a generation that makes the node's own one outdated.
    fn find_later(&self, is_latest_read: bool) -> Result<Option<GenerationRecord>, SharedLocationError> {
        let own = self.own.log();
        if is_latest_read {
            // Read one record instead of listing all, because a bucket bills every request.
            return self.location.find_generation(own.next());
        }
        let latest = self.location.read_generation(own.log_id)?;
        Ok(latest.filter(|latest| latest.log().number >= own.number && *latest != self.own))
    }

    fn stop(&self, reason: &str) {
        self.log.upgrade().inspect(|log| log.stop_as_ended(reason));
    }
}

/// Applies the rest of a stream that was ended to a directory that is behind.
///
/// # Errors
/// If the stream differs from the log, or was not ended.
pub(super) fn apply_former_stream(
    settings: &Settings,
    former: LogGeneration,
    local: &Arc<SledLog>,
    engine: Arc<dyn Engine>,
    receivers: &Arc<CommitReceivers>,
    environment: &Environment,
) -> Result<(), String> {
    let options = SharedLogOptions {
        directory: settings.data_dir.join("log"),
        generation: former.number,
        session: environment.uuid(),
        write_timeout: settings.cluster.write_timeout,
        metrics: ClusterMetrics::default(),
    };
    let log = SharedLog::open(Arc::clone(local), engine, options, CommitReceivers::callback(receivers));
    let log = log.map_err(|failure| failure.to_string())?;
    match wait_for_engine(&log) {
        Ok(()) => Err("it has no end".to_owned()),
        Err(_) if matches!(log.state(), Err(LogFailure::Closed)) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Compares the generation of a data directory, whose log ends at `head`, with the latest recorded one.
///
/// A directory of an earlier generation joins the latest one if its log ends exactly where that generation begins. If
/// only earlier generations are recorded, the location was restored from a copy or belongs to another cluster: see
/// [`record_again`].
///
/// # Errors
/// If the directory cannot continue, or the location cannot be read.
pub(super) fn settle_generation(
    membership: Membership,
    data_dir: &Path,
    location: &SharedLocation,
    head: JournalHead,
) -> Result<Membership, GenerationError> {
    let own = membership.record();
    let recorded = location.read_generation(membership.log_id())?;
    let recorded = match recorded {
        Some(recorded) if recorded.log().number >= own.log().number => recorded,
        _ => return Ok(membership),
    };

    if recorded == own {
        return Ok(membership);
    }
    if recorded.log() == own.log() {
        let own_base = own.base().clone();
        return Err(GenerationError::OtherBase { log: own.log(), own: own_base, recorded: recorded.base().clone() });
    }
    let end = StoredHead::from(head);
    if end != *recorded.base() {
        let gap = GenerationGap { own: own.log(), end, current: recorded };
        return Err(if gap.is_closable() { GenerationError::Behind(gap) } else { GenerationError::Outdated(gap) });
    }

    let number = recorded.log().number;
    let membership = membership.in_generation(number, end);
    membership.write(data_dir)?;
    tracing::info!(
        generation = number,
        position = head.position.0,
        "data directory joined a new generation of the log"
    );
    Ok(membership)
}

/// Records the generation of a node in a location that has only earlier ones. Call it only after the node has caught up
/// on its stream: otherwise the directory of a former cluster could make the location useless for its present cluster.
///
/// # Errors
/// If the location cannot be read or written, except a bucket that does not respond.
pub(super) fn record_again(member: &ClusterMember, environment: &Environment) -> Result<(), SharedLocationError> {
    let ClusterMember { membership, location } = member;
    let own = membership.record();
    let record = || {
        let recorded = location.read_generation(membership.log_id())?;
        if recorded.is_none_or(|recorded| recorded.log().number < own.log().number) {
            location.record_generation(&own, environment.uuid())?;
            tracing::warn!(generation = own.log().number, "generation recorded again");
        }
        Ok(())
    };
    match record() {
        Err(error) if SharedLocationError::is_outage(&error) => {
            tracing::warn!(%error, "generation not recorded again");
            Ok(())
        }
        recorded => recorded,
    }
}
