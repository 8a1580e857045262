//! The first half of a start: the quick checks that can reject it, then the steps that may take long.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use tokio::sync::oneshot;

use super::StartError;
use super::address::withdraw;
use super::bootstrap::{AdminToken, admin_token};
use super::files::{open_archives, open_keyring, open_store, open_webhook_key};
use super::lost_log::check_log;
use super::opening::{OpenedLog, SnapshotUse, log_options, open_models, timed};
use super::prices::open_tariff;
use super::upload_key::{kept_upload_key, new_upload_key};
use crate::clock::Surroundings;
use crate::config::{PrivateRule, Settings};
use crate::data_dir::DataDir;
use crate::domain::video::Tariff;
use crate::events::sled_log::SledLog;
use crate::events::stream::Position;
use crate::http::server::Keys;
use crate::media::archive::store::Archives;
use crate::media::archive::ticket::UploadKey;
use crate::media::store::Store;
use crate::outbound::signature::WebhookKey;
use crate::personal::Keyring;
use crate::projections::node::view::Links;
use crate::projections::read_models::Models;
use crate::telemetry::metrics::Metrics;

/// State of a start once the directory is locked and the port is bound.
pub(super) struct Bound {
    pub settings: Settings,
    pub surroundings: Surroundings,
    pub data: DataDir,
    pub tariff: Tariff,
    pub listener: TcpListener,
    pub address: SocketAddr,
    pub public_url: String,
    pub token: String,
    pub admin_token: AdminToken,
}

/// State of a start once the log and the files beside it are open.
pub(super) struct Begun {
    pub bound: Bound,
    pub store: Store,
    pub upload_key: UploadKey,
    pub keys: Keys,
    /// Key that signs webhooks, and its public half as text.
    pub webhook_key: (WebhookKey, String),
    pub metrics: Metrics,
    pub log: Arc<SledLog>,
    pub models: Models,
    pub reports: Vec<String>,
    /// Position of the snapshot used by this start.
    pub snapshot: Position,
    pub personal: Keyring,
    pub archives: Archives,
}

impl Bound {
    pub(super) fn new(settings: Settings, surroundings: Surroundings) -> Result<Self, StartError> {
        let root = &settings.data_dir;
        // A directory in use is reported before a port in use; a new directory is created only after the port is bound.
        let held = root.is_dir().then(|| open_data_dir(root)).transpose()?;
        let tariff = open_tariff(settings.video.pricing.as_deref())?;
        let (listener, address) = listen(settings.listen)?;
        let data = held.map_or_else(|| open_data_dir(root), Ok)?;
        let (token, admin_token) = admin_token(&data, settings.admin_token.as_ref(), &surroundings)?;
        log_egress_rule(&settings);
        let public_url = settings.public_url.clone().unwrap_or_else(|| format!("http://{address}"));
        Ok(Self { settings, surroundings, data, tariff, listener, address, public_url, token, admin_token })
    }

    /// Opens everything on a separate thread: replaying a long log takes time, and meanwhile probes and signals must be
    /// handled. If this future is dropped, the thread continues until the program ends, which is as harmless as a
    /// crash.
    pub(super) async fn opened(self) -> Result<Begun, StartError> {
        let (told, opened) = oneshot::channel();
        let thread = thread::Builder::new().name("opening".to_owned()).spawn(move || drop(told.send(self.open())));
        let thread = thread.map_err(|error| StartError::part("the thread that opens the log", &error))?;
        match opened.await {
            Ok(opened) => opened,
            Err(_) => std::panic::resume_unwind(thread.join().expect_err("it tells before it ends, unless it panics")),
        }
    }

    fn open(self) -> Result<Begun, StartError> {
        let Self { data, settings, surroundings, public_url, .. } = &self;
        let store = open_store(data, surroundings, settings.media.decode_memory)?;
        let upload_key = kept_upload_key(data)?;
        let keys = Keys::open(data, surroundings).map_err(|error| StartError::part("idempotency keys", &error))?;
        let webhook_key = open_webhook_key(data, surroundings)?;
        let metrics = Metrics::default();
        let snapshots = SnapshotUse::of(data.root(), settings);
        let log_settings = timed(log_options(data.root(), settings), &metrics);
        let links = Links { public_url: public_url.clone() };
        let opened = open_models(&log_settings, snapshots.as_ref(), surroundings, &links);
        let OpenedLog { log, models, mut reports, snapshot } =
            opened.map_err(|error| StartError::Log(error.to_string()))?;
        let upload_key = upload_key.map_or_else(|| new_upload_key(data, &*log, &models.users, surroundings), Ok)?;
        let personal = open_keyring(data, &models, &keys);
        let archives = open_archives(data, &models, surroundings, &mut reports)?;

        Ok(Begun {
            bound: self,
            store,
            upload_key,
            keys,
            webhook_key,
            metrics,
            log,
            models,
            reports,
            snapshot,
            personal,
            archives,
        })
    }
}

/// Locks the data directory and checks that its log exists, unless it was never used.
///
/// # Errors
/// Returns [`StartError`] if the directory is in use, unusable, or has lost its log.
pub fn open_data_dir(root: &Path) -> Result<DataDir, StartError> {
    let data = DataDir::open(root)?;
    // Left by a crashed service, which no longer listens there.
    withdraw(&data);
    check_log(data.root())?;
    if let Some(command) = data.to_close() {
        tracing::warn!("others can read what is kept in the data directory; if they should not: {command}");
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
    let refused = |reason| StartError::Listen { address, reason };
    let listener = TcpListener::bind(address).map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    Ok((listener, bound))
}
