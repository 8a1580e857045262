//! The composition root: builds the service from its modules, runs it, and stops it in order. Also used by the tests.

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use actix_web::dev::ServerHandle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::actors::poller::VendorState;
use crate::actors::system::Actors;
use crate::actors::usage_counters::UsageCounters;
use crate::audit::Audit;
use crate::config::Settings;
use crate::data_dir::DataDir;
use crate::domain::bearer_secret;
use crate::environment::Environment;
use crate::events::shared::engine::Engine;
use crate::events::sled_log::SledLog;
use crate::http::api::state::LogProber;
use crate::http::server::{AdminCredential, AuthServices, OperationServices, Readiness, RegistryServices, Services};
use crate::http::startup_server::StartupServer;
use crate::projections::ReadModels;
use crate::projections::node::view::Links;
use crate::quota::DailyQuota;

mod address_file;
mod bootstrap;
mod cluster;
mod cluster_engine;
mod error;
mod files;
mod interrupted_streams;
mod limits;
mod metrics_history;
mod missing_log_guard;
mod oidc;
mod options;
mod probes;
mod process;
mod reactors;
mod readiness_monitor;
mod recovery;
mod shared_location;
mod snapshots;
mod span_export;
mod startup;
mod tariff;
mod upload_key;
mod vendor_tools;
mod vendors;

pub use address_file::{expected_local_url, read_address_file};
pub use bootstrap::{AdminTokenSource, BOOTSTRAP_ADMIN};
pub use cluster::{
    AloneEvidence, EngineAccess, EngineContents, EngineReport, RebuildOptions, check_cluster, init_cluster,
    leave_cluster, rebuild_engine, verify_engine,
};
pub use cluster_engine::{
    EngineOpener, check_engine, connect_engine, create_engine, delete_engine, deletion_command, list_generations,
};
pub use error::{StartError, StopError};
pub use missing_log_guard::MissingLog;
pub use process::StopSignals;
pub use recovery::{OpenedLog, SnapshotPolicy, log_options, open_models};
pub use shared_location::files_of;
pub use startup::open_data_dir;
pub use upload_key::MissingUploadKey;
pub use vendor_tools::{VendorResultFile, VendorTool, VendorToolOverrides, video_tariff};

use address_file::{remove_address_file, write_address_file};
use bootstrap::create_bootstrap_admin;
use cluster::{ClusterNode, ClusterRole};
use files::snapshot_remover;
use metrics_history::MetricsHistoryThread;
use options::{actor_options, http_options};
use probes::{build_audit, build_checkpointer, build_prober, readiness_probe, storage_probe};
use process::{ignore_file_size_signal, raise_file_limit};
use reactors::{CallbackSetup, MediaSetup, ReactorDeps, Reactors};
use readiness_monitor::ReadinessMonitor;
use snapshots::SnapshotThread;
use span_export::SpanExportTask;
use startup::{BoundService, OpenedService};
use vendors::{build_vendors, vendor_webhooks};

/// A running service.
pub struct App {
    address: SocketAddr,
    public_url: String,
    admin_token: AdminTokenSource,
    reports: Vec<String>,
    /// Tells endless responses, such as event streams, that the service is stopping.
    closing: watch::Sender<bool>,
    parts: ServiceParts,
    server: ServerHandle,
    server_task: JoinHandle<std::io::Result<()>>,
}

/// Everything below HTTP, and the data directory, whose lock excludes a second process.
struct ServiceParts {
    log: Arc<SledLog>,
    node: Option<ClusterNode>,
    models: ReadModels,
    actors: Actors,
    reactors: Reactors,
    snapshot_thread: SnapshotThread,
    metrics_history: MetricsHistoryThread,
    readiness_monitor: ReadinessMonitor,
    span_export: SpanExportTask,
    data_dir: DataDir,
}

/// Runs a future on a new actix system of this thread: the outermost call of the program.
pub fn block_on<F: Future>(future: F) -> F::Output {
    actix_web::rt::System::new().block_on(future)
}

impl App {
    /// Builds and starts everything. When this returns, requests are served.
    ///
    /// # Errors
    /// Returns [`StartError`]. The program should end then, because started threads are not stopped.
    pub async fn start(settings: Settings, environment: Environment) -> Result<Self, StartError> {
        Self::start_with_engine(settings, environment, None).await
    }

    /// Like [`App::start`], with this engine in place of the one in the settings.
    ///
    /// # Errors
    /// Same as [`App::start`].
    pub async fn start_with_engine(
        settings: Settings,
        environment: Environment,
        engine: Option<Arc<dyn Engine>>,
    ) -> Result<Self, StartError> {
        let opener = engine.map(|engine| Arc::new(move |_| Ok(Arc::clone(&engine))) as EngineOpener);
        Self::start_with_opener(settings, environment, opener).await
    }

    /// Like [`App::start`], with an engine in place of the one in the settings, of which this function opens the streams.
    ///
    /// # Errors
    /// Same as [`App::start`].
    pub async fn start_with_opener(
        settings: Settings,
        environment: Environment,
        opener: Option<EngineOpener>,
    ) -> Result<Self, StartError> {
        match Box::pin(Self::start_bound(settings, environment, opener, std::future::pending())).await? {
            Some(app) => Ok(app),
            // Never happens, because the stop signal never completes.
            None => std::future::pending().await,
        }
    }

    /// Like [`App::start`], but returns `None` if `stop_signal` completes while the log is being opened. The program
    /// then ends as well; the next start continues as after a crash.
    ///
    /// # Errors
    /// Same as [`App::start`].
    pub async fn start_cancellable(
        settings: Settings,
        environment: Environment,
        stop_signal: impl Future<Output = ()>,
    ) -> Result<Option<Self>, StartError> {
        Self::start_bound(settings, environment, None, stop_signal).await
    }

    async fn start_bound(
        settings: Settings,
        environment: Environment,
        engine: Option<EngineOpener>,
        stop_signal: impl Future<Output = ()>,
    ) -> Result<Option<Self>, StartError> {
        ignore_file_size_signal();
        raise_file_limit(settings.limits.connections, options::workers(&settings))?;

        let bound = BoundService::new(settings, environment, engine)?;
        let startup_server =
            bound.listener.try_clone().and_then(|listener| StartupServer::serve(listener, &bound.environment));
        let startup_server = startup_server.map_err(|error| StartError::part("the startup probe server", &error))?;
        let opened = tokio::select! {
            opened = bound.open_in_background() => Some(opened),
            () = stop_signal => None,
        };

        startup_server.stop().await;
        match opened.transpose()? {
            Some(opened) => Self::start_serving(opened).await.map(Some),
            None => Ok(None),
        }
    }

    /// Starts the active parts and the HTTP server.
    async fn start_serving(opened: OpenedService) -> Result<Self, StartError> {
        let OpenedService {
            bound,
            store,
            upload_key,
            keys: idempotency_keys,
            webhook_key: (signing_key, webhook_key),
            metrics,
            log,
            node,
            models,
            reports,
            snapshot_position,
            keyring,
            archives,
        } = opened;
        let BoundService {
            settings,
            environment,
            data: data_dir,
            tariff,
            listener,
            address,
            public_url,
            token,
            admin_token,
            ..
        } = bound;

        let (tracer, span_export) = span_export::build_tracer(&settings, &environment, &metrics)?;
        let audit = build_audit(&log, Links { public_url: public_url.clone() }, &keyring);

        let role = ClusterRole::new(node.as_ref(), &log, &settings);
        let options = actor_options(&settings);
        let actors =
            Actors::start(role.events.clone(), models.clone(), environment.clone(), options, metrics.clone()).await;

        create_bootstrap_admin(&actors.dispatch, &models, &keyring, &environment).await?;
        interrupted_streams::fail_interrupted(&actors.dispatch, &models, &environment, role.stream_age_min).await;

        let webhooks = vendor_webhooks(&upload_key, node.is_some());
        let usage_counters = UsageCounters::default();
        let vendor_set = build_vendors(&settings, &store, &upload_key, &models, &metrics, &environment)?;
        let media = MediaSetup { store: store.clone(), vendor_set, webhooks: webhooks.clone(), duties: role.duties };
        let callbacks = CallbackSetup { key: signing_key, keyring: keyring.clone(), tracer: tracer.clone() };
        let reactor_deps = ReactorDeps::new(&settings, media, callbacks, &public_url, &environment)?;
        let bytes_per_day = DailyQuota::new(settings.limits.bytes_per_day, environment.clone());
        let reactors = Reactors::start(
            reactor_deps,
            usage_counters.clone(),
            &actors.dispatch,
            &models,
            &environment,
            &settings,
            bytes_per_day.clone(),
        );

        ClusterNode::exchange_hints(node.as_ref(), reactors.hints(&webhooks));
        let readiness = readiness_probe(&log, role.shared, actors.writer_liveness());
        let readiness_monitor = ReadinessMonitor::start(&readiness)?;
        let snapshot_thread =
            SnapshotThread::start(&data_dir, &settings, &log, &models, snapshot_position, &environment)?;
        let (closing, closing_receiver) = watch::channel(false);
        let oidc = oidc::build_oidc(&settings, &upload_key, &metrics)?;

        let prober = build_prober(&log, role.viewer, actors.writer_queue_length(), &reports, environment.now());
        let operations =
            operation_services(&log, &data_dir, (readiness, prober), audit, webhook_key, reactors.vendors.clone());
        let media = reactors.media_services(store, tariff, webhooks);
        let admin = AdminCredential { user: BOOTSTRAP_ADMIN, secret_hash: bearer_secret::hash(&token) };
        let services = Services {
            dispatch: actors.dispatch.clone(),
            models: models.clone(),
            idempotency_keys,
            keyring,
            environment,
            cluster: role.gate,
            space: log.space().clone(),
            closing: closing_receiver,
            metrics,
            tracer,
            bytes_per_day,
            auth: AuthServices { admin, oidc },
            registry: RegistryServices { archives, upload_key, usage_counters },
            media,
            operations,
            options: http_options(&settings, &public_url),
        };

        let metrics_history = MetricsHistoryThread::start(&data_dir, services.clone())?;
        let (server, server_task) = spawn_server(listener, services)?;
        write_address_file(&data_dir, address);

        let parts = ServiceParts {
            log,
            node,
            models,
            actors,
            reactors,
            snapshot_thread,
            metrics_history,
            readiness_monitor,
            span_export,
            data_dir,
        };
        Ok(Self { address, public_url, admin_token, reports, closing, parts, server, server_task })
    }

    /// Returns the bound address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base of all URLs that the service hands out.
    #[must_use]
    pub fn public_url(&self) -> &str {
        &self.public_url
    }

    /// Returns the location of the first administrator's token.
    #[must_use]
    pub fn admin_token(&self) -> &AdminTokenSource {
        &self.admin_token
    }

    /// Returns the problems that the start found and repaired, one sentence each.
    #[must_use]
    pub fn reports(&self) -> &[String] {
        &self.reports
    }

    /// Returns the read models, for comparison with a rebuild.
    #[must_use]
    pub fn models(&self) -> &ReadModels {
        &self.parts.models
    }

    /// Returns the event log.
    #[must_use]
    pub fn log(&self) -> &Arc<SledLog> {
        &self.parts.log
    }

    /// Serves until a stop signal arrives, then stops in order.
    ///
    /// # Errors
    /// Returns [`StopError`] if the server failed or the log did not close cleanly.
    pub async fn run_until_stopped(mut self, mut signals: StopSignals) -> Result<(), StopError> {
        tokio::select! {
            () = signals.recv() => {
                tracing::info!("stopping, can take up to 30 s");
                self.stop().await
            }
            result = &mut self.server_task => {
                self.parts.stop().await?;
                result.map_err(std::io::Error::other).flatten().map_err(StopError::Server)
            }
        }
    }

    /// Stops accepting connections, lets requests in flight finish (10 s at most), writes queued appends, and closes
    /// the log.
    ///
    /// # Errors
    /// Returns [`StopError`] if the server failed or the log did not close cleanly.
    pub async fn stop(self) -> Result<(), StopError> {
        self.closing.send_replace(true);
        self.server.stop(true).await;
        let result = self.server_task.await.map_err(std::io::Error::other).flatten();
        self.parts.stop().await?;
        result.map_err(StopError::Server)
    }
}

/// Serves requests on a task of its own.
fn spawn_server(
    listener: TcpListener,
    services: Services,
) -> Result<(ServerHandle, JoinHandle<std::io::Result<()>>), StartError> {
    let server =
        crate::http::server::serve(listener, services).map_err(|error| StartError::part("the HTTP server", &error))?;
    Ok((server.handle(), actix_web::rt::spawn(server)))
}

/// Returns the dependencies of the endpoints for operators.
fn operation_services(
    log: &Arc<SledLog>,
    data_dir: &DataDir,
    (readiness, prober): (Readiness, LogProber),
    audit: Audit,
    webhook_key: String,
    vendors: Vec<VendorState>,
) -> OperationServices {
    OperationServices {
        storage: storage_probe(log),
        readiness,
        prober,
        audit,
        checkpoint: build_checkpointer(log),
        drop_snapshots: snapshot_remover(data_dir),
        webhook_key,
        history: metrics_history::load(data_dir, &vendors),
        vendors,
    }
}

impl ServiceParts {
    /// Stops the readiness monitor first, because readiness ends next, and the history, which samples all parts. Then
    /// come the reactors, which send commands, and the actors, which send the writer its last appends. A snapshot
    /// covers these. The log closes last.
    async fn stop(self) -> Result<(), StopError> {
        self.readiness_monitor.stop();
        self.metrics_history.stop();
        self.reactors.stop().await;
        if let Some(node) = &self.node {
            node.stop_if_cut_off();
        }
        self.actors.stop();
        self.span_export.stop().await;
        remove_address_file(&self.data_dir);
        drop(self.node);
        self.snapshot_thread.stop();
        self.log.close().map_err(|failure| StopError::Log(failure.to_string()))
    }
}
