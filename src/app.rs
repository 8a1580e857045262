//! The composition root: builds the service from its modules, runs it, and stops it in order. Also used by the tests.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use actix_web::dev::ServerHandle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::actors::system::Actors;
use crate::actors::tally::Tally;
use crate::clock::Surroundings;
use crate::config::Settings;
use crate::data_dir::DataDir;
use crate::domain::secret;
use crate::events::log::EventLog;
use crate::events::sled_log::SledLog;
use crate::http::server::{AdminCredential, Services};
use crate::http::starting::Starting;
use crate::projections::ReadModels;
use crate::projections::node::view::Links;
use crate::quota::DailyQuota;

mod address;
mod begin;
mod bootstrap;
mod error;
mod files;
mod issuer;
mod limits;
mod lookout;
mod lost_log;
mod opening;
mod options;
mod prices;
mod probes;
mod process;
mod reactors;
mod snapshots;
mod streams;
mod traces;
mod upload_key;
mod vendors;

pub use address::{expected_at, kept_address};
pub use begin::open_data_dir;
pub use bootstrap::{AdminToken, BOOTSTRAP_ADMIN};
pub use error::{StartError, StopError};
pub use lost_log::LostLog;
pub use opening::{OpenedLog, SnapshotUse, log_options, open_models};
pub use process::StopSignals;
pub use upload_key::LostKey;

use address::{announce, withdraw};
use begin::{Begun, Bound};
use bootstrap::create_bootstrap_admin;
use files::snapshot_remover;
use lookout::Lookout;
use options::{actor_options, http_options};
use probes::{auditing, checkpointer, prober, readiness, storage};
use process::{outlive_file_size_limits, raise_file_limit};
use reactors::{Callbacks, Outside, Reactors};
use snapshots::Snapshots;
use traces::Traces;
use vendors::{hints, makers};

/// A running service.
pub struct App {
    address: SocketAddr,
    public_url: String,
    admin_token: AdminToken,
    reports: Vec<String>,
    /// Tells endless responses, such as event streams, that the service is stopping.
    closing: watch::Sender<bool>,
    parts: Parts,
    server: ServerHandle,
    serving: JoinHandle<std::io::Result<()>>,
}

/// Everything below HTTP, and the data directory, whose lock excludes a second process.
struct Parts {
    log: Arc<SledLog>,
    models: ReadModels,
    actors: Actors,
    reactors: Reactors,
    snapshots: Snapshots,
    lookout: Lookout,
    sending: Traces,
    data: DataDir,
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
    pub async fn start(settings: Settings, surroundings: Surroundings) -> Result<Self, StartError> {
        match Box::pin(Self::start_unless(settings, surroundings, std::future::pending())).await? {
            Some(app) => Ok(app),
            // The future `stopped` never completes.
            None => std::future::pending().await,
        }
    }

    /// Like [`App::start`], but returns `None` if `stopped` completes while the log is being opened. The program then
    /// ends as well; the next start continues as after a crash.
    ///
    /// # Errors
    /// As [`App::start`].
    pub async fn start_unless(
        settings: Settings,
        surroundings: Surroundings,
        stopped: impl Future<Output = ()>,
    ) -> Result<Option<Self>, StartError> {
        outlive_file_size_limits();
        raise_file_limit(settings.limits.connections, options::workers(&settings))?;

        let bound = Bound::new(settings, surroundings)?;
        let served = bound.listener.try_clone().and_then(|listener| Starting::serve(listener, &bound.surroundings));
        let starting = served.map_err(|error| StartError::part("the answers to probes", &error))?;
        let begun = tokio::select! {
            begun = bound.opened() => Some(begun),
            () = stopped => None,
        };

        starting.stop().await;
        match begun.transpose()? {
            Some(begun) => Self::served(begun).await.map(Some),
            None => Ok(None),
        }
    }

    /// Starts the active parts and the HTTP server.
    async fn served(begun: Begun) -> Result<Self, StartError> {
        let Begun { bound, store, upload_key, keys, webhook_key, metrics, log, models, reports, .. } = begun;
        let snapshot = begun.snapshot;
        let personal = begun.personal;
        let archives = begun.archives;
        let Bound { settings, surroundings, data, tariff, listener, address, public_url, token, admin_token } = bound;
        let (key, webhook_key) = webhook_key;

        let (tracer, sending) = traces::traces(&settings, &surroundings, &metrics)?;
        let audit = auditing(&log, Links { public_url: public_url.clone() }, &personal);

        let shared_log: Arc<dyn EventLog> = log.clone();
        let options = actor_options(&settings);
        let models = ReadModels::new(shared_log.clone(), models);
        let actors = Actors::start(shared_log, models.clone(), surroundings.clone(), options, metrics.clone()).await;
        create_bootstrap_admin(&actors.dispatch, &models, &personal, &surroundings).await?;
        streams::end_interrupted(&actors.dispatch, &models, &surroundings).await;

        let hints = hints(&upload_key);
        let tally = Tally::default();
        let makers = (makers(&settings, &store, &upload_key, (&models, &metrics), &surroundings)?, hints.clone());
        let callbacks = Callbacks { key, keyring: personal.clone(), tracer: tracer.clone() };
        let outside = Outside::new(&settings, store.clone(), callbacks, &public_url, makers, &surroundings)?;
        let bytes_per_day = DailyQuota::new(settings.limits.bytes_per_day, surroundings.clone());
        let dispatch = &actors.dispatch;
        let bytes = bytes_per_day.clone();
        let reactors = Reactors::start(outside, tally.clone(), dispatch, &models, &surroundings, &settings, bytes);

        let readiness = readiness(&log, actors.pulse());
        let lookout = Lookout::start(&readiness)?;
        let snapshots = Snapshots::of(&data, &settings, &log, &models, snapshot, &surroundings)?;
        let (closing, closes) = watch::channel(false);
        let oidc = issuer::oidc(&settings, &upload_key, &metrics)?;

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
            readiness,
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
            bytes_per_day,
            tariff: Arc::new(tariff),
            options: http_options(&settings, &public_url),
        };

        let server = crate::http::server::serve(listener, services)
            .map_err(|error| StartError::part("the HTTP server", &error))?;
        let handle = server.handle();
        let serving = actix_web::rt::spawn(server);
        announce(&data, address);
        let parts = Parts { log, models, actors, reactors, snapshots, lookout, sending, data };
        Ok(Self { address, public_url, admin_token, reports, closing, parts, server: handle, serving })
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
    pub fn admin_token(&self) -> &AdminToken {
        &self.admin_token
    }

    /// Returns what the start found and repaired, one sentence each.
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
            () = signals.come() => {
                tracing::info!("stopping; this may take half a minute");
                self.stop().await
            }
            served = &mut self.serving => {
                self.parts.stop().await?;
                served.map_err(std::io::Error::other).flatten().map_err(StopError::Server)
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
        let served = self.serving.await.map_err(std::io::Error::other).flatten();
        self.parts.stop().await?;
        served.map_err(StopError::Server)
    }
}

impl Parts {
    /// Stops the readiness monitor first, because readiness ends next. Then come the reactors, which send commands, and
    /// the actors, which send the writer its last appends. A snapshot covers these. The log closes last.
    async fn stop(self) -> Result<(), StopError> {
        self.lookout.stop();
        self.reactors.stop().await;
        self.actors.stop();
        self.sending.stop().await;
        withdraw(&self.data);
        self.snapshots.stop();
        self.log.close().map_err(|failure| StopError::Log(failure.to_string()))
    }
}
