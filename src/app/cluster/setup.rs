//! `mediary cluster init` and `leave`: a data directory becomes the first node of a cluster, or the last one leaves it.

use std::sync::Arc;

use anyhow::Context;

use super::alone::{self, AloneEvidence};
use super::generation::settle_generation;
use super::rebuild::{EngineAccess, is_missing};
use super::verify::is_ended;
use super::{ClusterMember, ensure_checkpoint};
use crate::app::cluster_engine::deletion_command;
use crate::app::open_data_dir;
use crate::app::recovery::log_options;
use crate::app::shared_location::open_location;
use crate::cluster::generation::LeaveRecord;
use crate::cluster::leave_marker::{LEAVE_FILE, LeaveMarker};
use crate::cluster::membership::Membership;
use crate::cluster::shared_location::SharedLocation;
use crate::config::Settings;
use crate::data_dir::DataDir;
use crate::environment::{Environment, FailPoint, LeaveStep};
use crate::events::log::LogFailure;
use crate::events::shared::checkpoint::EngineCheckpoint;
use crate::events::shared::engine::Engine;
use crate::events::shared::generation::LogGeneration;
use crate::events::shared::shared_log::{SharedLog, SharedLogOptions, contains_head};
use crate::events::sled_log::SledLog;
use crate::http::server::IdempotencyKeys;
use crate::projections::snapshot::{self, snapshot_dir};
use crate::telemetry::metrics::ClusterMetrics;

/// Turns the data directory of a stopped service into the first node of a cluster.
///
/// # Errors
/// If the directory cannot be used, or the engine has a stream of the log that was not ended.
pub fn init_cluster(settings: &Settings, environment: &Environment, engine: &EngineAccess<'_>) -> anyhow::Result<()> {
    let data = open_data_dir(&settings.data_dir)?;
    if Membership::read(data.root())?.is_some() {
        anyhow::bail!("{} is a node of a cluster already", data.root().display());
    }

    let (local, _) = SledLog::open(&log_options(data.root(), settings), environment, |_| {})?;
    let head = local.journal_head();
    if head.position.0 == 0 {
        anyhow::bail!(
            "{} has no events: start the service once, so that it creates its secrets",
            data.root().display()
        );
    }
    let location = open_location(&settings.cluster)?;
    let log = first_generation(&location, &local, settings, engine)?;
    let membership = Membership::of(data.root(), log, head, location.kind())?;

    // Checked before the stream is created: a failure after that would leave a stream behind.
    location.check_vacant(data.root(), local.log_id(), environment)?;
    (engine.create)(log)?;
    location.share(data.root(), local.log_id(), environment)?;
    let record = membership.record();
    let recorded = location.record_generation(&record, environment.uuid())?;
    anyhow::ensure!(
        recorded == record,
        "another directory has begun {log} at {}: add this one as a node with a backup of that one",
        recorded.base()
    );
    local.close()?;
    // The directory may have left an earlier cluster.
    LeaveMarker::remove(data.root())?;
    membership.write(data.root())?;
    Ok(())
}

/// Returns the generation of a new cluster with this log: the first one, or the next one if the log has had a cluster
/// before, whose nodes must not start again.
fn first_generation(
    location: &SharedLocation,
    local: &SledLog,
    settings: &Settings,
    engine: &EngineAccess<'_>,
) -> anyhow::Result<LogGeneration> {
    let log_id = local.log_id();
    let (latest, leave) = match location.read_generation(log_id) {
        Err(error) if error.is_new() => (None, None),
        latest => (latest?, location.read_leave(log_id)?),
    };
    let mut log = match latest {
        None => LogGeneration::from(log_id),
        // An interrupted attempt may have recorded this generation.
        Some(latest) if *latest.base() == local.journal_head().into() => latest.log(),
        Some(latest) => latest.log().next(),
    };

    if let Some(leave) = leave {
        let has_end = leave.end().decode().map(|end| contains_head(local, end)).transpose()?;
        anyhow::ensure!(
            has_end == Some(true),
            "`mediary cluster leave` on another directory has ended the cluster of this log at {}, which this directory does not \
             have: use that directory, or a backup of it. If it is lost with all its backups, remove {}",
            leave.end(),
            location.leave_record_name(leave.log())
        );
        if leave.log().number >= log.number {
            log = leave.log().next();
        }
    }

    for listed in (engine.list)(log_id)? {
        let stream = match (engine.open)(listed) {
            Err(error) if is_missing(&error) => continue,
            stream => stream?,
        };

        if is_ended(&*stream)? {
            if listed.number >= log.number {
                log = listed.next();
            }
            continue;
        }

        // An interrupted attempt may have left an empty stream.
        let is_empty = stream.last()? == 0;
        let remedy = if is_empty {
            let delete = deletion_command(&settings.cluster, listed);
            format!(". It is empty: if no directory is a node of that cluster, delete the stream with `{delete}`")
        } else {
            String::new()
        };
        anyhow::ensure!(
            is_empty && listed == log,
            "the engine has the stream of {listed}, which was not ended: this log has a cluster already. Add a node with a \
             backup of one, or end that cluster with `mediary cluster leave`{remedy}"
        );
    }
    Ok(log)
}

/// Takes the data directory of the last node out of its cluster and ends the shared log. Run again, it continues an
/// interrupted attempt.
///
/// # Errors
/// If another node is present or has ended the log, the engine does not respond, or the files cannot be copied.
pub fn leave_cluster(
    settings: &Settings,
    environment: &Environment,
    evidence: AloneEvidence,
    open_engine: impl FnOnce(LogGeneration) -> anyhow::Result<Arc<dyn Engine>>,
) -> anyhow::Result<()> {
    let data = open_data_dir(&settings.data_dir)?;
    let Some(membership) = Membership::read(data.root())? else {
        // Without membership but with a marker, only the last step of an interrupted attempt is left.
        if data.root().join(LEAVE_FILE).exists() {
            return Ok(LeaveMarker::remove(data.root())?);
        }
        anyhow::bail!("{} is not a node of a cluster", data.root().display());
    };
    let is_leaving = LeaveMarker::read(data.root(), membership.log())?.is_some();
    let member = ClusterMember::open(membership, &settings.cluster)?;
    let location = member.location.clone();

    // An interrupted attempt that has already copied the files back has also ended the log.
    if !is_leaving || location.is_used_by(data.root())? {
        end_cluster(&data, member, settings, environment, evidence, open_engine)?;
    }

    location.unshare(data.root(), environment)?;
    environment.hit(FailPoint::Leave(LeaveStep::FilesCopied), "");
    EngineCheckpoint::remove(&data.root().join("log"))?;
    environment.hit(FailPoint::Leave(LeaveStep::CheckpointRemoved), "");
    Membership::remove(data.root())?;
    environment.hit(FailPoint::Leave(LeaveStep::MembershipRemoved), "");
    // Last: without it, the directory could not continue an interrupted attempt.
    LeaveMarker::remove(data.root())?;
    Ok(())
}

/// Ends the log of a cluster and records that in the location of its files.
fn end_cluster(
    data: &DataDir,
    member: ClusterMember,
    settings: &Settings,
    environment: &Environment,
    evidence: AloneEvidence,
    open_engine: impl FnOnce(LogGeneration) -> anyhow::Result<Arc<dyn Engine>>,
) -> anyhow::Result<()> {
    let (local, _) = SledLog::open(&log_options(data.root(), settings), environment, |_| {})?;
    member.membership.check(data.root(), local.log_id())?;
    let ClusterMember { membership, location } = member;
    let membership = settle_generation(membership, data.root(), &location, local.journal_head())?;
    let log = membership.log();
    ensure_checkpoint(&membership, data.root())?;

    LeaveMarker::remove_outdated(data.root(), log)?;
    let own_attempt = LeaveMarker::read(data.root(), log)?.map(|marker| marker.attempt());
    let recorded = location.read_leave(log.log_id)?.filter(|leave| leave.log() == log);
    if recorded.is_some_and(|leave| Some(leave.attempt()) == own_attempt) {
        // An interrupted attempt has ended the log. The engine may no longer have the stream.
        return Ok(local.close()?);
    }

    let local = Arc::new(local);
    let engine = open_engine(log)?;
    alone::check(&*engine, evidence, environment)?;
    if own_attempt.is_none() {
        // A backup that was restored and never ran has its own, perhaps outdated, copies of the shared files.
        location.prepare(data.root(), log.log_id, environment)?;
    }
    remove_derived_personal_data(data, environment)?;
    let marker_written = FailPoint::Leave(LeaveStep::MarkerWritten);
    let attempt = end_log(data, &local, log, engine, settings, environment, marker_written)?;
    environment.hit(FailPoint::Leave(LeaveStep::LogEnded), "");

    let record = LeaveRecord::new(log, local.journal_head().into(), attempt);
    location.record_leave(&record, environment.uuid())?;
    Ok(local.close()?)
}

/// Removes stored responses and snapshots: they may contain personal data of users whose erasure this directory has not
/// applied yet. Call it before the erasures are applied, so that a crash in between leaves no such data. Without a
/// snapshot, the next start replays the log.
pub(super) fn remove_derived_personal_data(data: &DataDir, environment: &Environment) -> anyhow::Result<()> {
    let keys = IdempotencyKeys::open(data, environment).context("cannot open the stored responses")?;
    keys.purge_responses().context("cannot remove the stored responses")?;
    snapshot::remove_all(&snapshot_dir(data.root())).context("cannot remove the snapshots")
}

/// Applies everything that the cluster has recorded, and ends the log for all other nodes. Hits `marker_written` before it
/// sends anything. Returns the attempt of this directory, which has ended the log.
pub(super) fn end_log(
    data: &DataDir,
    local: &Arc<SledLog>,
    log: LogGeneration,
    engine: Arc<dyn Engine>,
    settings: &Settings,
    environment: &Environment,
    marker_written: FailPoint,
) -> anyhow::Result<u64> {
    let options = SharedLogOptions {
        generation: log.number,
        directory: data.root().join("log"),
        session: environment.uuid(),
        write_timeout: settings.cluster.write_timeout,
        metrics: ClusterMetrics::default(),
    };
    let shared = SharedLog::open(Arc::clone(local), engine, options, Box::new(|_| {}))?;
    match shared.wait_until_caught_up(settings.cluster.write_timeout) {
        Ok(true) => {
            // The marker must be durable before the group is sent: it lets only this directory recognize the group.
            let attempt = LeaveMarker::begin(data.root(), log, environment)?.attempt();
            environment.hit(marker_written, "");
            shared.end(attempt)?;
        }
        Ok(false) => {
            anyhow::bail!("the engine did not return all recorded changes within cluster.write_timeout: try again")
        }
        // The log has already ended, perhaps by an earlier attempt of this directory.
        Err(LogFailure::Closed) => {}
        Err(failure) => return Err(failure.into()),
    }

    let own_attempt = LeaveMarker::read(data.root(), log)?.map(|marker| marker.attempt());
    let ended_by_this = own_attempt.filter(|attempt| shared.ended_by() == Some(*attempt));
    ended_by_this.context(
        "`mediary cluster leave` or `rebuild-engine` on another directory, or an earlier release, has ended the log of this \
         cluster. Complete it there: if this directory continued too, there would be two different logs with the same id. If \
         that directory is lost, see \"Make a new stream\" in docs/cluster.md",
    )
}
