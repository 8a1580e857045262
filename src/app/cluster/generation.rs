//! The generation of the log that a data directory belongs to, compared with that of the place that all nodes use.

use std::path::Path;
use std::sync::Arc;

use super::{CommitReceivers, wait_for_engine};
use crate::cluster::generation::StoredHead;
use crate::cluster::membership::{Membership, MembershipError};
use crate::cluster::shared_place::{SharedPlace, SharedPlaceError};
use crate::config::Settings;
use crate::environment::Environment;
use crate::events::journal::JournalHead;
use crate::events::log::LogFailure;
use crate::events::shared::engine::Engine;
use crate::events::shared::generation::LogGeneration;
use crate::events::shared::shared_log::{SharedLog, SharedLogOptions};
use crate::events::sled_log::SledLog;
use crate::telemetry::metrics::ClusterMetrics;

/// Reason why a data directory does not belong to the recorded generation.
#[derive(Debug, thiserror::Error)]
pub(super) enum GenerationError {
    #[error(
        "this directory belongs to {own} and ends at {end}, but {current} begins at {base}, so its log cannot continue: \
         replace it by a backup of a node that has been made since"
    )]
    Outdated { own: LogGeneration, end: StoredHead, current: LogGeneration, base: StoredHead },
    #[error(
        "for this directory, {log} begins at {own}, but cluster.files records {recorded}: correct cluster.files, or \
         replace this directory by a backup of a node"
    )]
    OtherBase { log: LogGeneration, own: StoredHead, recorded: StoredHead },
    #[error(transparent)]
    Place(#[from] SharedPlaceError),
    #[error(transparent)]
    Membership(#[from] MembershipError),
}

impl GenerationError {
    /// Returns the generation of the directory if the rest of its stream could bring it to the beginning of the next one.
    pub(super) fn generation_behind(&self) -> Option<LogGeneration> {
        match self {
            Self::Outdated { own, end, current, base } => {
                (own.next() == *current && end.position() < base.position()).then_some(*own)
            }
            _ => None,
        }
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
/// A directory of an earlier generation joins the latest one if its log ends exactly where that begins. If only earlier
/// ones are recorded, the place was restored from a copy, and gets the record of the node. If it cannot be reached, the
/// directory keeps its generation.
///
/// # Errors
/// If the directory cannot continue.
pub(super) fn settle_generation(
    membership: Membership,
    data_dir: &Path,
    place: &SharedPlace,
    head: JournalHead,
    environment: &Environment,
) -> Result<Membership, GenerationError> {
    let own = membership.record();
    let recorded = match place.read_generation(membership.log_id()) {
        Err(error) if error.is_unavailable() => {
            tracing::warn!(%error, "generation not checked");
            return Ok(membership);
        }
        recorded => recorded?,
    };
    let recorded = match recorded {
        Some(recorded) if recorded.log().number >= own.log().number => recorded,
        // Every directory has the record of the first generation, so the shared one does not.
        _ if own.log().is_first() => return Ok(membership),
        _ => {
            let recorded = place.record_generation(&own, environment.uuid())?;
            tracing::warn!(generation = own.log().number, "generation recorded again");
            recorded
        }
    };

    if recorded == own {
        return Ok(membership);
    }
    if recorded.log() == own.log() {
        let (own_base, recorded) = (own.base().clone(), recorded.base().clone());
        return Err(GenerationError::OtherBase { log: own.log(), own: own_base, recorded });
    }
    let end = StoredHead::from(head);
    if end != *recorded.base() {
        let (current, base) = (recorded.log(), recorded.base().clone());
        return Err(GenerationError::Outdated { own: own.log(), end, current, base });
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
