//! The composition root: builds the service out of its parts, runs it and takes it down in order. The tests use it too.

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::dev::ServerHandle;
use parking_lot::Mutex;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::actors::router::RouterOptions;
use crate::actors::system::{ActorOptions, Actors};
use crate::actors::tally::Tally;
use crate::clock::Surroundings;
use crate::config::{AllowedOrigins, Settings};
use crate::data_dir::{DataDir, DataDirError};
use crate::domain::secret;
use crate::events::log::EventLog;
use crate::events::sled_log::{OpenProgress, OpenStep, SledLog};
use crate::http::server::{AdminCredential, CorsOrigins, HttpOptions, Keys, MusicOptions, Services};
use crate::projections::ReadModels;
use crate::projections::node::view::Links;
use crate::space::Space;
use crate::telemetry::metrics::Metrics;

mod address;
mod bootstrap;
mod files;
mod issuer;
mod limits;
mod lost_log;
mod opening;
mod prices;
mod probes;
mod reactors;
mod snapshots;
mod streams;
mod traces;
mod vendors;

pub use address::kept_address;
pub use bootstrap::{AdminToken, BOOTSTRAP_ADMIN};
pub use lost_log::{LostLog, check_log};
use opening::timed;
pub use opening::{OpenedLog, SnapshotUse, log_options, open_models};

use address::{announce, withdraw};
use bootstrap::{admin_token, create_bootstrap_admin};
use files::{open_archives, open_keyring, open_store, open_upload_key, open_webhook_key, snapshot_remover};
use prices::open_tariff;
use probes::{auditing, checkpointer, prober, readiness, storage};
use reactors::{Callbacks, Outside, Reactors};
use snapshots::Snapshots;
use traces::Traces;
use vendors::{hints, makers};

/// How many commands of one kind may wait for their router.
const ROUTER_QUEUE: usize = 8192;

/// How often a start that takes long says how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error("cannot listen on {address}: {reason}{}", listen_hint(.reason))]
    Listen { address: SocketAddr, reason: std::io::Error },
    #[error(transparent)]
    LostLog(#[from] LostLog),
    #[error("the event log cannot be opened: {0}")]
    Log(String),
    #[error("starting {what}: {reason}")]
    Part { what: &'static str, reason: String },
}

/// What helps when an address cannot be listened on.
fn listen_hint(reason: &std::io::Error) -> &'static str {
    match reason.kind() {
        std::io::ErrorKind::AddrInUse => {
            "; another program listens there: stop it, or give this one an address of its own with --listen or MEDIARY_LISTEN \
             (port 0 takes a free one)"
        }
        std::io::ErrorKind::AddrNotAvailable => "; this machine does not have that address: see `ip address`",
        std::io::ErrorKind::PermissionDenied => "; ports below 1024 need a privilege: take a higher one",
        _ => "",
    }
}

impl StartError {
    fn part(what: &'static str, reason: &dyn std::fmt::Display) -> Self {
        Self::Part { what, reason: reason.to_string() }
    }
}

/// Why the service did not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    #[error("the HTTP server failed: {0}")]
    Server(std::io::Error),
    #[error("the event log did not close cleanly: {0}")]
    Log(String),
}

/// The running service.
pub struct App {
    address: SocketAddr,
    public_url: String,
    admin_token: AdminToken,
    reports: Vec<String>,
    /// Tells what has no end by itself that the service stops.
    closing: watch::Sender<bool>,
    parts: Parts,
    server: ServerHandle,
    serving: JoinHandle<std::io::Result<()>>,
}

/// Everything below HTTP, and the directory, whose lock keeps a second service away.
struct Parts {
    log: Arc<SledLog>,
    models: ReadModels,
    actors: Actors,
    reactors: Reactors,
    snapshots: Snapshots,
    sending: Traces,
    data: DataDir,
}

/// Runs a future on a new system of this thread: the program's outermost call.
pub fn block_on<F: Future>(future: F) -> F::Output {
    actix_web::rt::System::new().block_on(future)
}

impl App {
    /// Builds and starts everything. When this returns, requests are answered.
    ///
    /// # Errors
    /// [`StartError`]. The program ends then: threads that were started are not taken down.
    pub async fn start(settings: Settings, surroundings: Surroundings) -> Result<Self, StartError> {
        outlive_file_size_limits();
        let (data, tariff) = (open_data_dir(&settings.data_dir)?, open_tariff(settings.video.pricing.as_deref())?);
        let (listener, address) = listen(settings.listen)?;
        let (token, admin_token) = admin_token(&data, settings.admin_token.as_ref(), &surroundings)?;
        let public_url = settings.public_url.clone().unwrap_or_else(|| format!("http://{address}"));

        let (store, upload_key) = (open_store(&data, &surroundings)?, open_upload_key(&data, &surroundings)?);
        let keys = Keys::open(&data, &surroundings).map_err(|error| StartError::part("idempotency keys", &error))?;
        let (key, webhook_key) = open_webhook_key(&data, &surroundings)?;
        let links = Links { public_url: public_url.clone() };
        let (metrics, snapshots) = (Metrics::default(), SnapshotUse::of(&data, &settings));
        let (tracer, sending) = traces::traces(&settings, &surroundings, &metrics)?;
        let log_settings = timed(log_options(data.root(), &settings), &metrics);
        let opened = open_models(&log_settings, snapshots.as_ref(), &surroundings, &links);
        let OpenedLog { log, models, mut reports, snapshot } =
            opened.map_err(|error| StartError::Log(error.to_string()))?;
        let personal = open_keyring(&data, &models, &keys);
        let audit = auditing(&log, links, &personal);
        let archives = open_archives(&data, &models, &surroundings, &mut reports)?;
        let shared_log: Arc<dyn EventLog> = log.clone();
        let (options, models) = (actor_options(&settings), ReadModels::new(shared_log.clone(), models));
        let actors = Actors::start(shared_log, models.clone(), surroundings.clone(), options, metrics.clone()).await;
        create_bootstrap_admin(&actors.dispatch, &models, &personal, &surroundings).await?;
        streams::end_interrupted(&actors.dispatch, &models, &surroundings).await;
        let (hints, tally) = (hints(&upload_key), Tally::default());
        let makers = (makers(&settings, &store, &upload_key, &surroundings, &metrics)?, hints.clone());
        let callbacks = Callbacks { key, keyring: personal.clone(), tracer: tracer.clone() };
        let outside = Outside::new(&settings, store.clone(), callbacks, &public_url, makers, &surroundings)?;
        let reactors = Reactors::start(outside, tally.clone(), &actors.dispatch, &models, &surroundings, &settings);

        let snapshots = Snapshots::of(&data, &settings, &log, &models, snapshot, &surroundings)?;
        let ((closing, closes), oidc) = (watch::channel(false), issuer::oidc(&settings, &upload_key)?);
        let services = Services {
            dispatch: actors.dispatch.clone(),
            models: models.clone(),
            store,
            keys,
            archives,
            upload_key,
            tally,
            personal,
            oidc,
            prober: prober(&log, actors.waiting(), &reports, surroundings.now()),
            surroundings,
            admin: AdminCredential { user: BOOTSTRAP_ADMIN, secret_hash: secret::hash(&token) },
            space: log.space().clone(),
            storage: storage(&log),
            readiness: readiness(&log, actors.pulse()),
            audit,
            closing: closes,
            checkpoint: checkpointer(&log),
            drop_snapshots: snapshot_remover(&data),
            webhook_key,
            hints,
            musician: reactors.musician.clone(),
            vendors: reactors.vendors.clone(),
            live: reactors.live.clone(),
            metrics,
            tracer,
            tariff: Arc::new(tariff),
            options: http_options(&settings, &public_url),
        };
        let server = crate::http::server::serve(listener, services)
            .map_err(|error| StartError::part("the HTTP server", &error))?;
        let (handle, serving) = (server.handle(), actix_web::rt::spawn(server));
        announce(&data, address);
        let parts = Parts { log, models, actors, reactors, snapshots, sending, data };
        Ok(Self { address, public_url, admin_token, reports, closing, parts, server: handle, serving })
    }

    /// The address that is really bound.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base of every URL that the service hands out.
    #[must_use]
    pub fn public_url(&self) -> &str {
        &self.public_url
    }

    /// Where the first administrator's token is.
    #[must_use]
    pub fn admin_token(&self) -> &AdminToken {
        &self.admin_token
    }

    /// What the start found and mended, a sentence each.
    #[must_use]
    pub fn reports(&self) -> &[String] {
        &self.reports
    }

    /// The read models, to compare them with a rebuild.
    #[must_use]
    pub fn models(&self) -> &ReadModels {
        &self.parts.models
    }

    /// The event log.
    #[must_use]
    pub fn log(&self) -> &Arc<SledLog> {
        &self.parts.log
    }

    /// Serves until one of the signals comes, then stops in order.
    ///
    /// # Errors
    /// [`StopError`] when the server failed or the log did not close cleanly.
    pub async fn run_until_stopped(mut self, signals: StopSignals) -> Result<(), StopError> {
        tokio::select! {
            () = signals.come() => self.stop().await,
            served = &mut self.serving => {
                self.parts.stop().await?;
                served.map_err(std::io::Error::other).flatten().map_err(StopError::Server)
            }
        }
    }

    /// Stops accepting, lets requests in flight finish (10 s at most), writes what is queued, closes the log.
    ///
    /// # Errors
    /// [`StopError`] when the server failed or the log did not close cleanly.
    pub async fn stop(self) -> Result<(), StopError> {
        self.closing.send_replace(true);
        self.server.stop(true).await;
        let served = self.serving.await.map_err(std::io::Error::other).flatten();
        self.parts.stop().await?;
        served.map_err(StopError::Server)
    }
}

impl Parts {
    /// Reactors first: they give commands. Then the actors, which give the writer its last appends; what they left is worth a
    /// snapshot. The log closes last.
    async fn stop(self) -> Result<(), StopError> {
        self.reactors.stop().await;
        self.actors.stop();
        self.sending.stop().await;
        withdraw(&self.data);
        self.snapshots.stop();
        self.log.close().map_err(|failure| StopError::Log(failure.to_string()))
    }
}

/// A write beyond the largest size of files that the operating system allows is refused like one on a full disk; without
/// this the process would be killed by it.
fn outlive_file_size_limits() {
    let handled = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
    if let Err(error) = handled {
        tracing::warn!(%error, "a limit of file sizes would kill the service");
    }
}

/// SIGTERM and SIGINT.
pub struct StopSignals(Option<[Signal; 2]>);

impl StopSignals {
    /// From now on the signals wait to be asked for, and do not end the process any more.
    #[must_use]
    pub fn listen() -> Self {
        let both = signal(SignalKind::terminate()).and_then(|first| Ok([first, signal(SignalKind::interrupt())?]));
        if let Err(error) = &both {
            tracing::error!(%error, "signals cannot be received; stop the service by killing it, which loses nothing");
        }
        Self(both.ok())
    }

    async fn come(self) {
        let Some([mut terminate, mut interrupt]) = self.0 else { return std::future::pending().await };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}

/// Locks the directory, whose log must be there unless nothing ever ran in it.
fn open_data_dir(root: &Path) -> Result<DataDir, StartError> {
    let data = DataDir::open(root)?;
    check_log(data.root())?;
    Ok(data)
}

/// A listener, and the address that is really bound. Before the token is made: one that a start without a port had made would
/// never be shown.
fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let refused = |reason| StartError::Listen { address, reason };
    let listener = TcpListener::bind(address).map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    Ok((listener, bound))
}

fn actor_options(settings: &Settings) -> ActorOptions {
    let router = RouterOptions { queue: ROUTER_QUEUE, mailbox: settings.actors.mailbox, idle: settings.actors.idle };
    ActorOptions { writer_queue: settings.journal.queue, router }
}

fn http_options(settings: &Settings, public_url: &str) -> HttpOptions {
    HttpOptions {
        public_url: public_url.to_owned(),
        workers: match settings.workers {
            0 => std::thread::available_parallelism().map_or(1, NonZero::get),
            workers => workers,
        },
        connections: settings.limits.connections,
        cors_origins: match &settings.cors.allowed_origins {
            AllowedOrigins::Any => CorsOrigins::Any,
            AllowedOrigins::Listed(origins) => CorsOrigins::Only(origins.clone()),
        },
        require_approval: settings.auth.require_approval,
        video_needs_token: settings.auth.video_required || settings.video_vendor.url.is_some(),
        video_max_images: settings.video.max_images,
        quotas: limits::quotas(&settings.limits),
        rates: limits::rates(&settings.limits),
        proxies: limits::proxies(&settings.limits),
        log_client: settings.log.client,
        callbacks_per_account: settings.callbacks.pending_per_account,
        moderation: settings.registry.moderation,
        media_retention: settings.media.retention,
        heartbeat: settings.streams.heartbeat,
        music: MusicOptions {
            streams: settings.music.streams,
            deadline: settings.tasks.deadline,
            billing_rate_per_sec: settings.music.billing_rate_per_sec,
        },
    }
}

/// The room in the data directory, of which each part may be on a disk of its own.
fn space(data_dir: &Path, settings: &Settings) -> Space {
    let parts = ["", "log", "media", "archives"].map(|part| data_dir.join(part));
    Space::new(parts.to_vec(), settings.storage.reserve)
}

/// Log lines that say how far the opening of the log is, when it takes long.
fn progress() -> OpenProgress {
    let said = Mutex::new(Instant::now());
    Arc::new(move |OpenStep { position, head, rebuilding }| {
        let mut said = said.lock();
        if said.elapsed() < PROGRESS_EVERY {
            return;
        }
        *said = Instant::now();
        match head {
            Some(head) if rebuilding => {
                tracing::info!(%position, %head, "the index of the log (sled) is being made anew from the journal");
            }
            _ => tracing::info!(%position, "the index of the log (sled) is being filled from the journal"),
        }
    })
}
