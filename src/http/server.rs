//! The HTTP server: what it is given, how the application is put together, and its bounds (contract 10).

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use actix_web::App;
use actix_web::dev::Server;
use actix_web::web::Data;
use serde_json::Value;
use tokio::sync::watch;

use super::account_pool::AccountPool;
use super::audit_stream::AUDIT_STREAMS_MAX;
use super::body::BodyBudget;
use super::connection::{self, ConnectionLimit, ConnectionOptions};
use super::daily_quotas::DailyQuotas;
use super::error::Code;
use super::file::DOWNLOADS_MAX;
use super::foreign::Pages;
use super::front::Front;
use super::host::AllowedHosts;
use super::limits::Limits;
use super::node::ReadyPages;
use super::sse::{TASK_STREAMS_MAX, TASK_STREAMS_PER_ACCOUNT};
use super::state::Prober;
use super::submissions::Submissions;
use super::uploads::Uploads;
use super::{metrics, routes};
use crate::actors::hints::Hints;
use crate::actors::live::Live;
use crate::actors::musician::Musician;
use crate::actors::poller::VendorState;
use crate::actors::system::Dispatch;
use crate::actors::tally::Tally;
use crate::audit::Audit;
use crate::clock::Surroundings;
use crate::domain::ids::UserId;
use crate::domain::value::{Digest, Timestamp};
use crate::domain::video::Tariff;
use crate::fairness::FairSemaphore;
use crate::media::archive::store::Archives;
use crate::media::archive::ticket::UploadKey;
use crate::media::store::Store;
use crate::oidc::Oidc;
use crate::personal::Keyring;
use crate::projections::ReadModels;
use crate::quota::{Account, DailyQuota};
use crate::space::{Space, StorageState};
use crate::telemetry::ClientAddress;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::trace::Tracer;

pub use super::daily_quotas::DailyLimits;
pub use super::idempotency::Keys;
pub use super::limits::{ForwardedHeader, Rate, Rates, TrustedProxies};
pub use super::submissions::Quotas;

/// As many threads as the framework takes; with one more it panics.
pub const WORKERS_MAX: u16 = 512;

/// What the handlers work with.
#[derive(Clone)]
pub struct Services {
    pub dispatch: Dispatch,
    pub models: ReadModels,
    pub store: Store,
    pub keys: Keys,
    pub archives: Archives,
    pub upload_key: UploadKey,
    pub tally: Tally,
    /// What opens the personal fields of users.
    pub personal: Keyring,
    pub surroundings: Surroundings,
    pub admin: AdminCredential,
    /// Knows people by tokens of an issuer, where one is configured.
    pub oidc: Option<Oidc>,
    /// Asked before every change: whether there is room for it.
    pub space: Space,
    /// Whether changes are taken, and how much room there is, for administrators.
    pub storage: StorageProbe,
    /// Whether the service can do its work, and if not, why not in a sentence for operators.
    pub readiness: Readiness,
    /// Looks how far the log is.
    pub prober: Prober,
    /// Answers questions about the log.
    pub audit: Audit,
    /// True once the service stops: what has no end by itself ends then.
    pub closing: watch::Receiver<bool>,
    /// Signs what the log is now.
    pub checkpoint: Checkpointer,
    /// Removes the snapshots of the read models.
    pub drop_snapshots: SnapshotRemover,
    /// The public key with which callbacks are signed, as text.
    pub webhook_key: String,
    /// Takes what vendors hint at.
    pub hints: Hints,
    /// Plays music.
    pub musician: Musician,
    /// What can be seen of the vendors.
    pub vendors: Vec<VendorState>,
    /// How far their tasks are.
    pub live: Live,
    pub metrics: Metrics,
    /// Notes spans of what is done.
    pub tracer: Tracer,
    /// Bytes that accounts may send to be stored per day.
    pub bytes_per_day: DailyQuota<Account>,
    /// What videos cost.
    pub tariff: Arc<Tariff>,
    pub options: HttpOptions,
}

/// Tells whether the service can do its work.
pub type Readiness = Arc<dyn Fn() -> Result<(), Unready> + Send + Sync>;

/// Why the service cannot do its work.
#[derive(Debug, Clone)]
pub struct Unready {
    /// What kind of reason it is.
    pub by: Hindered,
    /// For whoever asks, who may be anybody: nothing of where and what.
    pub told: String,
    /// For the operator, in the log.
    pub reason: String,
}

/// What keeps the service from its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hindered {
    /// Room on the disk is lacking, or files that may be open: that passes.
    Full,
    /// The log takes nothing before a restart.
    ReadOnly,
    /// A part has died.
    Dead,
    /// The disk does not answer.
    Hanging,
}

/// Signs what the log is at this time, as the JSON of a checkpoint. Blocks while an append is going on.
pub type Checkpointer = Arc<dyn Fn(Timestamp) -> Value + Send + Sync>;

/// Removes the snapshots of the read models, which may hold what nobody may read any more. Blocks.
pub type SnapshotRemover = Arc<dyn Fn() -> std::io::Result<()> + Send + Sync>;

/// Tells whether changes are taken, and how much room there is.
pub type StorageProbe = Arc<dyn Fn() -> StorageState + Send + Sync>;

/// The bootstrap token, by its hash, and the administrator for whom it speaks.
#[derive(Debug, Clone, Copy)]
pub struct AdminCredential {
    pub user: UserId,
    pub secret_hash: Digest,
}

/// Whose pages may call the service from a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CorsOrigins {
    /// Any page may read; none may change anything.
    Any,
    /// Pages of these origins may do everything; others nothing.
    Only(Vec<String>),
}

/// The settings of the HTTP side.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The base of every URL that the service hands out, without a slash at the end.
    pub public_url: String,
    /// Hosts by which the service may be addressed.
    pub allowed_hosts: AllowedHosts,
    /// Threads that serve requests: 1 to [`WORKERS_MAX`].
    pub workers: usize,
    /// Connections that may be open at a time.
    pub connections: usize,
    /// Connections of one address, unless it is that of a trusted proxy.
    pub connections_per_address: usize,
    /// How long a client may take nothing of an answer.
    pub write_within: Duration,
    pub cors_origins: CorsOrigins,
    /// Whether only approved users may submit media tasks.
    pub require_approval: bool,
    /// Whether videos are made for callers with a token only.
    pub video_needs_token: bool,
    /// Entries that `images` of a video may have, where an endpoint takes so many.
    pub video_max_images: usize,
    /// What one caller may have and do of media tasks.
    pub quotas: Quotas,
    /// What one account or publisher may do per day in the registry.
    pub daily_limits: DailyLimits,
    /// How often one caller may ask.
    pub rates: Rates,
    /// Who is believed when they say for whom they ask.
    pub proxies: TrustedProxies,
    /// How much log lines tell of where a request comes from.
    pub log_client: ClientAddress,
    /// How long the results of a task are kept once it has ended.
    pub media_retention: Duration,
    /// Callbacks of one account that may wait to be delivered.
    pub callbacks_per_account: usize,
    /// Whether versions stay Pending after their upload.
    pub moderation: bool,
    /// How long a stream of events is silent at most, and how often its reader's rights are looked at again.
    pub heartbeat: Duration,
    pub music: MusicOptions,
}

/// The settings of the music gateway.
#[derive(Debug, Clone, Copy)]
pub struct MusicOptions {
    /// Streams that are sent at a time.
    pub streams: usize,
    /// How long one may take.
    pub deadline: Duration,
    /// What a second is said to cost, in credits.
    pub billing_rate_per_sec: u32,
}

/// What all workers share.
pub struct Shared {
    pub services: Services,
    /// What callers have asked for of late.
    pub limits: Limits,
    /// Daily quotas of accounts and publishers.
    pub daily: DailyQuotas,
    /// Submissions that are being checked.
    pub submissions: Submissions,
    /// Memory for request bodies.
    pub bodies: BodyBudget,
    /// Bounds how many submissions have their pictures decoded at a time; accounts take turns.
    pub decoders: FairSemaphore<Option<UserId>>,
    /// Pages of lists of nodes.
    pub ready_pages: ReadyPages,
    /// Bounds the archives that come in.
    pub uploads: Arc<Uploads>,
    /// Bounds the files that are sent.
    pub downloads: AccountPool,
    /// Bounds the open streams of the audit log.
    pub audit_streams: AccountPool,
    /// Bounds the open streams of tasks.
    pub task_streams: AccountPool,
    /// Bounds the streams of music.
    pub music_streams: AccountPool,
}

impl Shared {
    /// What a service with these parts starts with.
    #[must_use]
    pub fn new(services: Services) -> Self {
        let decoders = FairSemaphore::new(services.options.workers.max(1) as u64);
        let (submissions, bodies, uploads) = (Submissions::default(), BodyBudget::default(), Arc::default());
        let limits = Limits::new(&services.options.rates, services.options.proxies.clone());
        let (bytes, clock) = (services.bytes_per_day.clone(), &services.surroundings);
        let daily = DailyQuotas::new(bytes, services.options.daily_limits, &services.models, clock);
        let downloads = AccountPool::new(DOWNLOADS_MAX, Code::TooManyTransfers, "downloads");
        let audit_streams = AccountPool::new(AUDIT_STREAMS_MAX, Code::TooManyStreams, "event streams");
        let task_streams =
            AccountPool::with_share(TASK_STREAMS_MAX, TASK_STREAMS_PER_ACCOUNT, Code::TooManyStreams, "event streams");
        let music_streams = AccountPool::new(services.options.music.streams, Code::TooManyStreams, "music streams");
        Self {
            services,
            limits,
            daily,
            submissions,
            bodies,
            decoders,
            ready_pages: ReadyPages::default(),
            uploads,
            downloads,
            audit_streams,
            task_streams,
            music_streams,
        }
    }
}

/// Serves on a listener that is bound already. Signals are left to the caller.
///
/// # Errors
/// When the listener cannot be used.
pub fn serve(listener: TcpListener, services: Services) -> std::io::Result<Server> {
    let options = services.options.clone();
    let workers = options.workers.clamp(1, usize::from(WORKERS_MAX));
    services.keys.keep_swept(services.surroundings.clone());
    services.metrics.foresee(&metrics::foreseen(&services));
    let shared = Data::new(Shared::new(services));
    let pages = Arc::new(Pages::new(options.cors_origins, &options.public_url));
    let bounds = ConnectionOptions {
        workers,
        connections: options.connections,
        per_address: ConnectionLimit::new(options.connections_per_address, options.proxies),
        write_within: options.write_within,
    };
    connection::serve(listener, bounds, move || {
        let front = Front { shared: shared.clone(), pages: Arc::clone(&pages) };
        App::new().wrap(front).configure(|config| routes::register(config, shared.clone()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_framework_takes_as_many_threads_as_may_be_set() {
        let _taken = Server::build().workers(usize::from(WORKERS_MAX));
    }
}
