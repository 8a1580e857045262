//! `mediary cluster init` and `leave`: a data directory becomes the first node of a cluster, or the last one leaves it.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use uuid::Uuid;

use super::alone::{self, AloneEvidence};
use super::{ensure_checkpoint, prepare_files};
use crate::app::bucket::{bucket_of, files_of};
use crate::app::open_data_dir;
use crate::app::recovery::log_options;
use crate::cluster::leave_marker::{LEAVE_FILE, LeaveMarker};
use crate::cluster::membership::{FilePlace, Membership};
use crate::cluster::{bucket_files, shared_files};
use crate::config::{Settings, SharedFiles};
use crate::data_dir::DataDir;
use crate::environment::{Environment, FailPoint, LeaveStep};
use crate::events::log::LogFailure;
use crate::events::shared::checkpoint::EngineCheckpoint;
use crate::events::shared::engine::Engine;
use crate::events::shared::shared_log::{SharedLog, SharedLogOptions};
use crate::events::sled_log::SledLog;
use crate::events::stream::Position;
use crate::file_tree::FileTree;
use crate::http::server::IdempotencyKeys;
use crate::projections::snapshot::{self, snapshot_dir};
use crate::telemetry::metrics::ClusterMetrics;

/// Turns the data directory of a stopped service into the first node of a cluster.
///
/// # Errors
/// If the directory cannot be used, or the engine has the log already.
pub fn init_cluster(
    settings: &Settings,
    environment: &Environment,
    create_engine: impl FnOnce(Uuid) -> anyhow::Result<Arc<dyn Engine>>,
) -> anyhow::Result<()> {
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
    let place = match settings.cluster.files {
        Some(SharedFiles::Directory(_)) => FilePlace::Directory,
        Some(SharedFiles::Bucket(_)) => FilePlace::Bucket,
        None => anyhow::bail!("cluster.files is not set"),
    };
    let membership = Membership::of(data.root(), local.log_id(), head, place)?;

    let engine = create_engine(local.log_id())?;
    anyhow::ensure!(engine.last()? == 0, "the engine has the log {} already", local.log_id());
    share_files(data.root(), settings, local.log_id(), head.position, environment)?;
    local.close()?;
    // Of an earlier cluster.
    LeaveMarker::remove(data.root())?;
    membership.write(data.root())?;
    Ok(())
}

/// Moves the files of the first node to the place that all nodes use.
fn share_files(
    data_dir: &Path,
    settings: &Settings,
    log_id: Uuid,
    position: Position,
    environment: &Environment,
) -> anyhow::Result<()> {
    if let Some(bucket) = bucket_of(&settings.cluster)? {
        let files = FileTree::with_bucket(data_dir, Arc::clone(&bucket), environment);
        return Ok(bucket_files::share(&files, &bucket, log_id, position, environment)?);
    }
    if let Some(SharedFiles::Directory(directory)) = &settings.cluster.files {
        shared_files::share(data_dir, directory, log_id)?;
    }
    Ok(())
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
    open_engine: impl FnOnce(Uuid) -> anyhow::Result<Arc<dyn Engine>>,
) -> anyhow::Result<()> {
    let data = open_data_dir(&settings.data_dir)?;
    let Some(membership) = Membership::read(data.root())? else {
        // An attempt that was interrupted before its last step.
        if data.root().join(LEAVE_FILE).exists() {
            return Ok(LeaveMarker::remove(data.root())?);
        }
        anyhow::bail!("{} is no node of a cluster", data.root().display());
    };
    let (local, _) = SledLog::open(&log_options(data.root(), settings), environment, |_| {})?;
    membership.check(data.root(), local.log_id())?;
    ensure_checkpoint(&membership, data.root(), local.log_id())?;

    let is_leaving = LeaveMarker::read(data.root(), local.log_id())?.is_some();

    let local = Arc::new(local);
    let engine = open_engine(local.log_id())?;
    alone::check(&*engine, evidence, environment)?;
    let files = files_of(data.root(), &settings.cluster, environment)?;
    if !is_leaving {
        // A restored backup that never ran has copies, perhaps old ones.
        prepare_files(&data, &settings.cluster, &membership, environment)?;
    }
    remove_derived_personal_data(&data, environment)?;
    end_log(&data, &local, engine, settings, environment)?;
    environment.hit(FailPoint::Leave(LeaveStep::LogEnded), "");
    local.close()?;

    match files.bucket() {
        Some(_) => bucket_files::unshare(&files)?,
        None => shared_files::unshare(data.root())?,
    }
    environment.hit(FailPoint::Leave(LeaveStep::FilesCopied), "");
    EngineCheckpoint::remove(&data.root().join("log"))?;
    environment.hit(FailPoint::Leave(LeaveStep::CheckpointRemoved), "");
    Membership::remove(data.root())?;
    environment.hit(FailPoint::Leave(LeaveStep::MembershipRemoved), "");
    // Last: without it, the directory could not continue an interrupted attempt.
    LeaveMarker::remove(data.root())?;
    Ok(())
}

/// Removes what may contain personal data of users whose erasure this directory has not applied yet. Before it applies
/// them, so that a crash in between leaves nothing; the next start replays the log instead of reading a snapshot.
fn remove_derived_personal_data(data: &DataDir, environment: &Environment) -> anyhow::Result<()> {
    let keys = IdempotencyKeys::open(data, environment).context("cannot open the stored answers")?;
    keys.purge_responses().context("cannot remove the stored answers")?;
    snapshot::remove_all(&snapshot_dir(data.root())).context("cannot remove the snapshots")
}

/// Applies everything that the cluster has recorded, and ends the log for all other nodes.
fn end_log(
    data: &DataDir,
    local: &Arc<SledLog>,
    engine: Arc<dyn Engine>,
    settings: &Settings,
    environment: &Environment,
) -> anyhow::Result<()> {
    let log_id = local.log_id();
    let options = SharedLogOptions {
        directory: data.root().join("log"),
        session: environment.uuid(),
        write_timeout: settings.cluster.write_timeout,
        metrics: ClusterMetrics::default(),
    };
    let shared = SharedLog::open(Arc::clone(local), engine, options, Box::new(|_| {}))?;
    match shared.wait_until_caught_up(settings.cluster.write_timeout) {
        Ok(true) => {
            // Durable before the group is sent, so that this directory, and only this one, recognizes the group.
            let attempt = LeaveMarker::begin(data.root(), log_id, environment)?.attempt();
            environment.hit(FailPoint::Leave(LeaveStep::MarkerWritten), "");
            shared.end(attempt)?;
        }
        Ok(false) => anyhow::bail!("the engine did not return everything that the cluster recorded in time: try again"),
        // Perhaps by an earlier attempt of this directory.
        Err(LogFailure::Closed) => {}
        Err(failure) => return Err(failure.into()),
    }

    let own_attempt = LeaveMarker::read(data.root(), log_id)?.map(|marker| marker.attempt());
    anyhow::ensure!(
        own_attempt.is_some() && shared.ended_by() == own_attempt,
        "`mediary cluster leave` on another directory, or an earlier release, has ended the log of this cluster. Complete it \
         there: if this directory served alone too, there would be two different logs with the same id. If that directory is \
         lost, follow \"Make a new stream\" in docs/cluster.md"
    );
    Ok(())
}
