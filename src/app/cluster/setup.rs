//! `mediary cluster init` and `leave`: a data directory becomes the first node of a cluster, or the last one leaves it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::ensure_checkpoint;
use crate::app::open_data_dir;
use crate::app::recovery::log_options;
use crate::cluster::membership::Membership;
use crate::cluster::presence::Beat;
use crate::cluster::shared_files;
use crate::config::Settings;
use crate::environment::Environment;
use crate::events::log::LogFailure;
use crate::events::shared::checkpoint::EngineCheckpoint;
use crate::events::shared::engine::Engine;
use crate::events::shared::shared_log::{SharedLog, SharedLogOptions};
use crate::events::sled_log::SledLog;
use crate::telemetry::metrics::ClusterMetrics;

/// Time for which `leave` listens for other nodes.
const LISTEN_TIME: Duration = Duration::from_secs(4);

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
    let Some(files) = &settings.cluster.files else { anyhow::bail!("cluster.files is not set") };
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
    let membership = Membership::of(data.root(), local.log_id(), head)?;

    let engine = create_engine(local.log_id())?;
    anyhow::ensure!(engine.last()? == 0, "the engine has the log {} already", local.log_id());
    shared_files::share(data.root(), files, local.log_id())?;
    local.close()?;
    membership.write(data.root())?;
    Ok(())
}

/// Takes the data directory of the last node out of its cluster and ends the shared log.
///
/// # Errors
/// If another node is present, the engine does not respond, or the files cannot be copied.
pub fn leave_cluster(
    settings: &Settings,
    environment: &Environment,
    open_engine: impl FnOnce(Uuid) -> anyhow::Result<Arc<dyn Engine>>,
) -> anyhow::Result<()> {
    let data = open_data_dir(&settings.data_dir)?;
    let Some(membership) = Membership::read(data.root())? else {
        anyhow::bail!("{} is no node of a cluster", data.root().display());
    };
    let (local, _) = SledLog::open(&log_options(data.root(), settings), environment, |_| {})?;
    membership.check(data.root(), local.log_id())?;
    ensure_checkpoint(&membership, data.root(), local.log_id())?;

    let log_dir = data.root().join("log");
    let local = Arc::new(local);
    let engine = open_engine(local.log_id())?;
    check_alone(&*engine)?;
    let options = SharedLogOptions {
        directory: log_dir.clone(),
        session: environment.uuid(),
        write_timeout: settings.cluster.write_timeout,
        metrics: ClusterMetrics::default(),
    };
    let shared = SharedLog::open(Arc::clone(&local), engine, options, Box::new(|_| {}))?;
    let ended = match shared.wait_until_caught_up(settings.cluster.write_timeout) {
        Ok(true) => shared.end(),
        Ok(false) => Err(LogFailure::Unreachable { reason: "not caught up in time".to_owned() }),
        // An earlier attempt was interrupted after it had ended the log.
        Err(LogFailure::Closed) => Ok(()),
        Err(failure) => Err(failure),
    };
    shared.close();
    ended?;
    local.close()?;

    shared_files::unshare(data.root())?;
    EngineCheckpoint::remove(&log_dir)?;
    Membership::remove(data.root())?;
    Ok(())
}

/// Checks that no node is running.
fn check_alone(engine: &dyn Engine) -> anyhow::Result<()> {
    let deadline = Instant::now() + LISTEN_TIME;
    let mut heard = None;
    engine.listen(&mut |message| {
        heard = message.and_then(|message| serde_json::from_slice::<Beat>(message).ok());
        if heard.is_some() || Instant::now() >= deadline { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    match heard {
        Some(beat) => anyhow::bail!("the node {} is running: stop it first", beat.url),
        None => Ok(()),
    }
}
