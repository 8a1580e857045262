//! A node of a cluster: its shared log, and its presence among the other nodes.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use uuid::Uuid;

use self::beats::{BeatListener, BeatSource, HintExchange};
use self::copy_remover::CopyRemover;
use self::generation::{
    GenerationError, GenerationWatch, REPLACE, apply_former_stream, record_again, settle_generation,
};
use super::StartError;
use super::files::ErasureTargets;
use super::shared_location::open_location;
use crate::actors::projector::Projector;
use crate::actors::reactor::Duty;
use crate::cluster::bucket_files;
use crate::cluster::leave_marker::LeaveMarker;
use crate::cluster::membership::{Membership, check_configured};
use crate::cluster::presence::{Beat, HeardNode, PRESENT_FOR, Presence};
use crate::cluster::shared_location::SharedLocation;
use crate::cluster::work_share::WorkShare;
use crate::config::{ClusterSettings, Settings};
use crate::data_dir::DataDir;
use crate::domain::event::Event;
use crate::domain::ids::UserId;
use crate::domain::user::UserEvent;
use crate::domain::value::Timestamp;
use crate::environment::Environment;
use crate::events::envelope::EncodedCommit;
use crate::events::log::{EventLog, LogFailure};
use crate::events::shared::applier::OnCommits;
use crate::events::shared::checkpoint::EngineCheckpoint;
use crate::events::shared::engine::{Engine, EngineIncidents};
use crate::events::shared::generation::LogGeneration;
use crate::events::shared::shared_log::{SharedLog, SharedLogOptions};
use crate::events::sled_log::SledLog;
use crate::http::api::state::{ClusterNodeView, ClusterView, ClusterViewer};
use crate::http::server::{ClusterGate, FreshnessCheck, ReadBarrier};
use crate::telemetry::metrics::ClusterMetrics;

mod alone;
pub(super) mod beats;
mod check;
mod copy_remover;
mod generation;
mod rebuild;
mod setup;
mod verify;

pub use alone::AloneEvidence;
pub use check::{EngineReport, check_cluster};
pub use rebuild::{EngineAccess, RebuildOptions, rebuild_engine};
pub use setup::{init_cluster, leave_cluster};
pub use verify::{EngineContents, verify_engine};

/// Interval of messages while a start waits for the engine.
const WAIT_REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The running parts of a node. They stop when this is dropped.
pub(super) struct ClusterNode {
    pub log: Arc<SharedLog>,
    pub presence: Presence,
    hints: Arc<OnceLock<HintExchange>>,
    stop_requested: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// The parts besides the log that an applied commit updates.
pub(super) struct CommitReceivers {
    projector: Projector,
    erasures: ErasureTargets,
    /// Removes the copies that this node has of files of erased users; `None` if the nodes share a directory.
    copies: Option<CopyRemover>,
}

impl CommitReceivers {
    pub(super) fn new(projector: Projector, erasures: ErasureTargets) -> Result<Self, StartError> {
        let has_copies = erasures.store.tree().bucket().is_some();
        let copies = has_copies.then(|| CopyRemover::start(erasures.clone())).transpose()?;
        Ok(Self { projector, erasures, copies })
    }

    /// Returns a function that passes commits on.
    fn callback(receivers: &Arc<Self>) -> OnCommits {
        let receivers = Arc::clone(receivers);
        Box::new(move |commits| receivers.receive(commits))
    }

    fn receive(&self, commits: &[EncodedCommit]) {
        self.projector.project(commits.iter().map(|encoded| &encoded.commit));
        let events = commits.iter().flat_map(|encoded| encoded.commit.iter());
        let erased = events.filter(|recorded| matches!(recorded.event, Event::User(UserEvent::UserErased)));
        erased.filter_map(|recorded| UserId::parse(recorded.stream.key()).ok()).for_each(|user| self.forget(user));
    }

    /// Removes what this node stores about an erased user. The node that erases the user destroys the key for all nodes.
    fn forget(&self, user: UserId) {
        self.erasures.keyring.mark_erased(user);
        if let Err(error) = self.erasures.remove_derived() {
            tracing::error!(%user, %error, "erasure incomplete: remove stored responses and snapshots of this node");
        }
        if let Some(copies) = &self.copies {
            copies.remove(user);
        }
    }
}

/// A data directory as a node, and the location with the files of all nodes.
pub(super) struct ClusterMember {
    pub membership: Membership,
    pub location: SharedLocation,
}

impl ClusterMember {
    /// Opens the location of the settings for a node and checks that it is of the recorded kind.
    fn open(membership: Membership, settings: &ClusterSettings) -> anyhow::Result<Self> {
        let location = open_location(settings)?;
        membership.check_files(location.kind())?;
        Ok(Self { membership, location })
    }

    /// Links the shared files, or prepares their copies.
    fn prepare_files(&self, data: &DataDir, environment: &Environment) -> anyhow::Result<()> {
        Ok(self.location.prepare(data.root(), self.membership.log_id(), environment)?)
    }
}

/// Checks that the data directory is a node if an engine is configured, and prepares the shared files.
pub(super) fn prepare_data_dir(
    data: &DataDir,
    settings: &ClusterSettings,
    environment: &Environment,
) -> Result<Option<ClusterMember>, StartError> {
    let membership =
        check_configured(data.root(), settings.is_member()).map_err(|error| StartError::part("the cluster", &error))?;
    let Some(membership) = membership else {
        bucket_files::forget_bucket(data.root()).map_err(|error| StartError::part("the data directory", &error))?;
        return Ok(None);
    };
    let member = ClusterMember::open(membership, settings)
        .and_then(|member| member.prepare_files(data, environment).map(|()| member));
    member.map(Some).map_err(|error| StartError::part("the shared files", &format!("{error:#}")))
}

/// Which background work this node does.
#[derive(Clone)]
pub(super) struct Duties {
    /// Work that one node does as a whole.
    pub of_owner: Duty,
    /// Work that all nodes share.
    pub shared: Duty,
}

impl Duties {
    fn alone() -> Self {
        Self { of_owner: Duty::always(), shared: Duty::always() }
    }
}

/// The objects through which the rest of the service uses a cluster, or does without one.
pub(super) struct ClusterRole {
    /// The log that appends go to.
    pub events: Arc<dyn EventLog>,
    /// The same, if it is shared.
    pub shared: Option<Arc<SharedLog>>,
    pub duties: Duties,
    /// Age from which an unfinished music stream counts as interrupted by a crash. Until its deadline, another node may
    /// be sending it.
    pub stream_age_min: Duration,
    pub viewer: Option<ClusterViewer>,
    /// Checks of requests in a cluster: their freshness, and what they wait for.
    pub gate: Option<ClusterGate>,
}

impl ClusterRole {
    /// Returns the role of a node, or of a service that runs alone.
    pub(super) fn new(node: Option<&ClusterNode>, local: &Arc<SledLog>, settings: &Settings) -> Self {
        Self {
            events: node.map_or_else(|| Arc::clone(local) as Arc<dyn EventLog>, |node| Arc::clone(&node.log) as _),
            shared: node.map(|node| Arc::clone(&node.log)),
            duties: node.map_or_else(Duties::alone, ClusterNode::duties),
            stream_age_min: node.map_or(Duration::ZERO, |_| settings.tasks.deadline),
            viewer: node.map(ClusterNode::viewer),
            gate: node.map(|node| node.gate(settings.cluster.stale_after)),
        }
    }
}

impl ClusterNode {
    /// Joins the cluster and waits until the node has everything that the engine had.
    pub(super) fn join(
        settings: &Settings,
        url: &str,
        member: &ClusterMember,
        local: &Arc<SledLog>,
        engine: &Arc<dyn Engine>,
        receivers: &Arc<CommitReceivers>,
        environment: &Environment,
    ) -> Result<Self, StartError> {
        let session = environment.uuid();
        let generation = member.membership.log();
        let options = SharedLogOptions {
            directory: settings.data_dir.join("log"),
            generation: generation.number,
            session,
            write_timeout: settings.cluster.write_timeout,
            metrics: ClusterMetrics::default(),
        };
        let on_commits = CommitReceivers::callback(receivers);
        let log = SharedLog::open(Arc::clone(local), Arc::clone(engine), options, on_commits);
        let log = Arc::new(log.map_err(|failure| StartError::Log(failure.to_string()))?);
        wait_for_engine(&log)?;
        record_again(member, environment).map_err(|error| StartError::part("the cluster", &error))?;
        // A crash may have followed an erasure before the stored responses were removed.
        receivers.erasures.keys.purge_responses().map_err(|error| StartError::part("the stored responses", &error))?;

        let presence = Presence::new(session);
        let stop_requested = Arc::new(AtomicBool::new(false));
        let hints = Arc::new(OnceLock::new());
        let beats = BeatSource {
            engine: Arc::clone(engine),
            log: Arc::clone(&log),
            presence: presence.clone(),
            started_micros: environment.now().micros(),
            url: url.to_owned(),
            environment: environment.clone(),
            hints: Arc::clone(&hints),
            reported_until: 0,
        };
        let listener = BeatListener {
            engine: Arc::clone(engine),
            log: Arc::clone(&log),
            presence: presence.clone(),
            environment: environment.clone(),
            hints: Arc::clone(&hints),
            clock_warned: false,
        };
        let threads = [
            spawn("cluster-beats", beats.send_until(&stop_requested))?,
            spawn("cluster-presence", listener.listen_until(&stop_requested))?,
        ];
        let watch = GenerationWatch {
            log: Arc::downgrade(&log),
            own: member.membership.record(),
            location: member.location.clone(),
        };
        // The thread is not joined: a location that does not respond would delay the stop.
        drop(spawn("cluster-generation", watch.watch_until(&stop_requested))?);
        Ok(Self { log, presence, hints, stop_requested, threads: threads.into() })
    }

    /// Begins to exchange with the other nodes what they know of running tasks.
    pub(super) fn exchange_hints(node: Option<&Self>, exchange: HintExchange) {
        if let Some(node) = node {
            let _ = node.hints.set(exchange);
        }
    }

    fn duties(&self) -> Duties {
        let owner = self.presence.clone();
        let sharing = self.presence.clone();
        Duties {
            of_owner: Duty::new(move || if owner.is_owner() { WorkShare::Everything } else { WorkShare::Nothing }),
            shared: Duty::new(move || sharing.work_share()),
        }
    }

    fn gate(&self, stale_after: Duration) -> ClusterGate {
        ClusterGate {
            freshness: self.freshness(stale_after),
            barrier: ReadBarrier::new(Arc::clone(&self.log)),
            metrics: self.log.metrics().clone(),
        }
    }

    /// Returns a check that the engine was heard within `stale_after`, and that the node has not diverged.
    fn freshness(&self, stale_after: Duration) -> FreshnessCheck {
        let log = Arc::clone(&self.log);
        Arc::new(move || match log.state() {
            Err(LogFailure::Diverged { .. }) => Err("this node has diverged from its cluster".to_owned()),
            Err(LogFailure::Closed) => Err("the log of this cluster was ended".to_owned()),
            _ if log.staleness() >= stale_after => {
                Err("this node is cut off from its cluster, and its state may be outdated".to_owned())
            }
            _ => Ok(()),
        })
    }

    /// Returns a function that shows the cluster to operators.
    fn viewer(&self) -> ClusterViewer {
        let log = Arc::clone(&self.log);
        let presence = self.presence.clone();
        Arc::new(move || {
            let owner = presence.owner();
            let nodes = presence.nodes().into_iter().map(|node| view_of(node, owner)).collect();
            let EngineIncidents { connections_lost, groups_missing } = log.engine_incidents();
            ClusterView {
                session: presence.session(),
                generation: log.generation(),
                sequence: log.sequence(),
                engine_silence_ms: milliseconds(log.engine_silence()),
                connections_lost,
                groups_missing,
                is_stopped: log.state().is_err(),
                nodes,
            }
        })
    }

    /// Closes the log if the engine does not respond: requests that wait for it would delay the stop of the service.
    pub(super) fn stop_if_cut_off(&self) {
        if self.log.engine_silence() >= PRESENT_FOR {
            self.log.close();
        }
    }
}

impl Drop for ClusterNode {
    fn drop(&mut self) {
        self.stop_requested.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("thread of the cluster panicked");
            }
        }
        self.log.close();
    }
}

fn view_of(node: HeardNode, owner: Option<Uuid>) -> ClusterNodeView {
    let HeardNode { beat, silence, clock_offset_micros, is_present, is_differing } = node;
    let Beat { session, started_micros, url, release, position, sequence, .. } = beat;
    ClusterNodeView {
        session,
        url,
        release,
        started_at: Timestamp::from_micros(started_micros).to_string(),
        position,
        sequence,
        present: is_present,
        differs: is_differing,
        owner: owner == Some(session),
        silence_ms: milliseconds(silence),
        clock_offset_ms: clock_offset_micros / 1000,
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StartError> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|error| StartError::part("the cluster", &error))
}

/// Waits for the engine as long as it takes: until then, a probe says that the service is starting.
fn wait_for_engine(log: &SharedLog) -> Result<(), StartError> {
    loop {
        match log.wait_until_caught_up(WAIT_REPORT_INTERVAL) {
            Ok(true) => return Ok(()),
            Ok(false) => {
                let silence = format!("{:.0?}", log.engine_silence());
                tracing::warn!(
                    sequence = log.sequence(),
                    engine_silence = silence,
                    "not caught up with the cluster yet"
                );
            }
            Err(failure) => return Err(StartError::Log(failure.to_string())),
        }
    }
}

/// Checks that a data directory has the secrets and the log of its cluster, brings it to the latest generation, and notes
/// where it continues. Returns the node in this generation.
pub(super) fn join_generation(
    member: &ClusterMember,
    settings: &Settings,
    local: &Arc<SledLog>,
    receivers: &Arc<CommitReceivers>,
    open_engine: &dyn Fn(LogGeneration) -> Result<Arc<dyn Engine>, StartError>,
    environment: &Environment,
) -> Result<ClusterMember, StartError> {
    let failed = |error: &dyn std::fmt::Display| StartError::part("the cluster", error);
    let data_dir = &settings.data_dir;
    let ClusterMember { membership, location } = member;
    membership.check(data_dir, local.log_id()).map_err(|error| failed(&error))?;

    let settle = || match settle_generation(membership.clone(), data_dir, location, local.journal_head()) {
        // The node can serve what it has. `GenerationWatch` reads the latest generation once the location responds.
        Err(GenerationError::Location(error)) if error.is_outage() => {
            tracing::warn!(%error, "generation not checked");
            Ok(membership.clone())
        }
        settled => settled,
    };
    let mut settled = settle();
    if let Err(GenerationError::Behind(gap)) = &settled {
        let former = gap.own;
        ensure_checkpoint(membership, data_dir).map_err(|error| failed(&error.root_cause()))?;
        let applied = open_engine(former)
            .map_err(|error| error.to_string())
            .and_then(|engine| apply_former_stream(settings, former, local, engine, receivers, environment));
        applied.map_err(|reason| {
            failed(&format!("{gap}, and the former stream does not bring it there ({reason}): {REPLACE}"))
        })?;
        settled = settle();
    }

    let membership = settled.map_err(|error| match error {
        // The former stream had nothing more.
        GenerationError::Behind(gap) => failed(&GenerationError::Outdated(gap)),
        error => failed(&error),
    })?;
    LeaveMarker::remove_outdated(data_dir, membership.log()).map_err(|error| failed(&error))?;
    ensure_checkpoint(&membership, data_dir).map_err(|error| failed(&error.root_cause()))?;
    Ok(ClusterMember { membership, location: location.clone() })
}

/// Writes an empty checkpoint unless there is one. Without one, at the first start of a generation and after a restored
/// backup, the node reads the engine from its beginning and compares it with the journal.
fn ensure_checkpoint(membership: &Membership, data_dir: &Path) -> anyhow::Result<()> {
    let directory = data_dir.join("log");
    let log = membership.log();
    if EngineCheckpoint::read(&directory, log).map_err(anyhow::Error::msg)?.is_none() {
        let head = membership.base(data_dir)?;
        EngineCheckpoint { head, ..EngineCheckpoint::empty(log.log_id) }.write(&directory, log)?;
    }
    Ok(())
}
