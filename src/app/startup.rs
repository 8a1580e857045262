//! The first half of a start: the quick checks that can reject it, then the steps that may take long.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use tokio::sync::oneshot;

use super::StartError;
use super::address_file::remove_address_file;
use super::bootstrap::{AdminTokenSource, load_admin_token};
use super::cluster::{self, ClusterMember, ClusterNode, CommitReceivers};
use super::cluster_engine::{EngineOpener, open_engine};
use super::files::{ErasureTargets, open_archives, open_store, open_webhook_key};
use super::missing_log_guard::check_log_exists;
use super::recovery::{OpenedLog, SnapshotPolicy, log_options, open_models, with_sync_metrics};
use super::tariff::open_tariff;
use super::upload_key::{create_upload_key, read_upload_key};
use crate::actors::projector::Projector;
use crate::config::{PrivateRule, Settings};
use crate::data_dir::DataDir;
use crate::domain::video::Tariff;
use crate::environment::Environment;
use crate::events::shared::engine::Engine;
use crate::events::shared::generation::LogGeneration;
use crate::events::sled_log::SledLog;
use crate::events::stream::Position;
use crate::file_tree::FileTree;
use crate::http::server::IdempotencyKeys;
use crate::media::archive::store::ArchiveStore;
use crate::media::archive::upload_token::UploadKey;
use crate::media::part_files::{FileSharing, PartFiles};
use crate::media::store::MediaStore;
use crate::outbound::signature::WebhookKey;
use crate::pii::Keyring;
use crate::projections::ReadModels;
use crate::projections::node::view::Links;
use crate::projections::snapshot::snapshot_dir;
use crate::telemetry::metrics::Metrics;

/// State of a start once the directory is locked and the port is bound.
pub(super) struct BoundService {
    pub settings: Settings,
    pub environment: Environment,
    pub data: DataDir,
    pub tariff: Tariff,
    pub listener: TcpListener,
    pub address: SocketAddr,
    pub public_url: String,
    pub token: String,
    pub admin_token: AdminTokenSource,
    /// The node that the data directory is, if it is one.
    pub member: Option<ClusterMember>,
    /// Engine to use instead of the one in the settings.
    pub engine: Option<EngineOpener>,
}

/// State of a start once the log and the files beside it are open.
pub(super) struct OpenedService {
    pub bound: BoundService,
    pub store: MediaStore,
    pub upload_key: UploadKey,
    pub keys: IdempotencyKeys,
    /// Key that signs webhooks, and its public half as text.
    pub webhook_key: (WebhookKey, String),
    pub metrics: Metrics,
    pub log: Arc<SledLog>,
    /// The node, if the log is shared.
    pub node: Option<ClusterNode>,
    pub models: ReadModels,
    pub reports: Vec<String>,
    /// Position of the snapshot used by this start.
    pub snapshot_position: Position,
    pub keyring: Keyring,
    pub archives: ArchiveStore,
}

impl BoundService {
    pub(super) fn new(
        settings: Settings,
        environment: Environment,
        engine: Option<EngineOpener>,
    ) -> Result<Self, StartError> {
        let root = &settings.data_dir;
        // A directory in use is reported before a port in use; a new directory is created only after the port is bound.
        let existing = root.is_dir().then(|| open_data_dir(root)).transpose()?;
        let tariff = open_tariff(settings.video.pricing.as_deref())?;
        let (listener, address) = listen(settings.listen)?;
        let data = existing.map_or_else(|| open_data_dir(root), Ok)?;
        let member = cluster::prepare_data_dir(&data, &settings.cluster, &environment)?;
        let (token, admin_token) = load_admin_token(&data, settings.admin_token.as_ref(), &environment)?;
        log_egress_rule(&settings);
        let public_url = settings.public_url.clone().unwrap_or_else(|| format!("http://{address}"));
        Ok(Self {
            settings,
            environment,
            data,
            tariff,
            listener,
            address,
            public_url,
            token,
            admin_token,
            member,
            engine,
        })
    }

    /// Opens everything on a separate thread: replaying a long log takes time, and meanwhile probes and signals must be
    /// handled. If this future is dropped, the thread continues until the program ends, which is as harmless as a
    /// crash.
    pub(super) async fn open_in_background(self) -> Result<OpenedService, StartError> {
        let (sender, receiver) = oneshot::channel();
        let thread = thread::Builder::new().name("startup".to_owned()).spawn(move || drop(sender.send(self.open())));
        let thread = thread.map_err(|error| StartError::part("the startup thread", &error))?;
        match receiver.await {
            Ok(opened) => opened,
            Err(_) => {
                std::panic::resume_unwind(thread.join().expect_err("the thread sends its result unless it panics"))
            }
        }
    }

    fn open(self) -> Result<OpenedService, StartError> {
        let Self { data, settings, environment, public_url, .. } = &self;
        let sharing = if self.member.is_some() { FileSharing::Shared } else { FileSharing::Alone };
        let part_files = PartFiles::new(sharing, environment);
        let files = match &self.member {
            Some(member) => member.location.file_tree(data.root(), environment),
            None => FileTree::local(data.root()),
        };
        let store = open_store(&files, part_files.clone(), environment, settings.media.decode_memory)?;
        let upload_key = read_upload_key(data)?;
        let keys =
            IdempotencyKeys::open(data, environment).map_err(|error| StartError::part("idempotency keys", &error))?;
        let webhook_key = open_webhook_key(data, environment)?;

        let metrics = Metrics::default();
        let snapshots = SnapshotPolicy::from_settings(data.root(), settings);
        let log_options = with_sync_metrics(log_options(data.root(), settings), &metrics);
        let links = Links { public_url: public_url.clone() };
        let opened = open_models(&log_options, snapshots.as_ref(), environment, &links);
        let OpenedLog { log, models, mut reports, snapshot_position } =
            opened.map_err(|error| StartError::Log(error.to_string()))?;

        let upload_key = upload_key.map_or_else(|| create_upload_key(data, &*log, &models.users, environment), Ok)?;
        let keyring = Keyring::open_with(&files);
        let archives = open_archives(&files, &models, part_files, environment, &mut reports)?;
        let models = ReadModels::new(log.clone(), models);
        let erasures = ErasureTargets {
            snapshots: snapshot_dir(data.root()),
            store: store.clone(),
            keys: keys.clone(),
            keyring: keyring.clone(),
        };
        let node = self.join_cluster(&log, &models, &metrics, &erasures)?;
        // After a node has caught up: the one that erased a user may have died before it destroyed the key.
        models.read().users.erased_ids().for_each(|user| keyring.mark_erased(user));
        erasures.complete_erasures();

        Ok(OpenedService {
            bound: self,
            store,
            upload_key,
            keys,
            webhook_key,
            metrics,
            log,
            node,
            models,
            reports,
            snapshot_position,
            keyring,
            archives,
        })
    }

    /// Joins the cluster of the data directory, if it is a node.
    fn join_cluster(
        &self,
        log: &Arc<SledLog>,
        models: &ReadModels,
        metrics: &Metrics,
        erasures: &ErasureTargets,
    ) -> Result<Option<ClusterNode>, StartError> {
        let Self { settings, environment, public_url, member, engine, .. } = self;
        let Some(member) = member else { return Ok(None) };
        let open = |log: LogGeneration| -> Result<Arc<dyn Engine>, StartError> {
            let Some(engine) = engine else { return open_engine(&settings.cluster, log) };
            engine(log).map_err(|error| StartError::part("the engine", &error))
        };
        let projector = Projector::new(models.clone(), metrics.clone());
        let receivers = Arc::new(CommitReceivers::new(projector, erasures.clone())?);
        let member = cluster::join_generation(member, settings, log, &receivers, &open, environment)?;
        let engine = open(member.membership.log())?;
        ClusterNode::join(settings, public_url, &member, log, &engine, &receivers, environment).map(Some)
    }
}

/// Locks the data directory and checks that its log exists, unless it was never used.
///
/// # Errors
/// Returns [`StartError`] if the directory is in use, unusable, or has lost its log.
pub fn open_data_dir(root: &Path) -> Result<DataDir, StartError> {
    let data = DataDir::open(root)?;
    // Left by a crashed service, which no longer listens there.
    remove_address_file(&data);
    check_log_exists(data.root())?;
    if let Some(command) = data.chmod_advice() {
        tracing::warn!("data directory readable by other users, to restrict it: {command}");
    }
    Ok(data)
}

/// Logs the effective rule for private addresses and the setting that determines it.
fn log_egress_rule(settings: &Settings) {
    let PrivateRule { is_allowed, reason } = settings.private_rule();
    tracing::info!(private = if is_allowed { "allowed" } else { "denied" }, reason, "egress rule");
}

/// Binds the listener and returns it with its actual address. The token is created later: a start that fails to bind
/// would never display it.
fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |reason| StartError::Listen { address, reason };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let local_address = listener.local_addr().map_err(failed)?;
    Ok((listener, local_address))
}
