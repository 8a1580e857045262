//! The HTTP server: its dependencies, settings and bounds (contract 10).

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::Server;
use actix_web::http::header::HeaderValue;
use actix_web::web::Data;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::actors::music_vendor::MusicPool;
use crate::actors::poller::VendorState;
use crate::actors::system::Dispatch;
use crate::actors::task_progress::TaskProgress;
use crate::actors::usage_counters::UsageCounters;
use crate::actors::vendor_cancellations::VendorCancellations;
use crate::actors::vendor_webhooks::VendorWebhooks;
use crate::audit::Audit;
use crate::disk_space::{DiskSpace, StorageState};
use crate::domain::ids::UserId;
use crate::domain::music::MusicWork;
use crate::domain::value::{Digest, Timestamp};
use crate::domain::video::Tariff;
use crate::environment::Environment;
use crate::fairness::{FairPermit, FairSemaphore};
use crate::http::api::account_export::{ACCOUNT_EXPORTS_MAX, ACCOUNT_EXPORTS_PER_ACCOUNT};
use crate::http::api::archive_file::ARCHIVE_READS_MAX;
use crate::http::api::audit_stream::AUDIT_STREAMS_MAX;
use crate::http::api::file::DOWNLOADS_MAX;
use crate::http::api::metrics;
use crate::http::api::node::PageCaches;
use crate::http::api::state::LogProber;
use crate::http::connection::{self, ConnectionLimit, ConnectionOptions};
use crate::http::console;
use crate::http::limits::account_pool::AccountPool;
use crate::http::limits::daily_quotas::DailyQuotas;
use crate::http::limits::rate_limit::RateLimiters;
use crate::http::limits::task_quota::PendingSubmissions;
use crate::http::limits::upload_limiter::UploadLimiter;
use crate::http::middleware::allowed_hosts::AllowedHosts;
use crate::http::middleware::csrf::OriginPolicy;
use crate::http::middleware::stack::application;
use crate::http::prompt_reports::PromptReports;
use crate::http::request::body::BodyBudget;
use crate::http::response::error::{Code, Problem};
use crate::http::response::sse::{TASK_STREAMS_MAX, TASK_STREAMS_PER_ACCOUNT};
use crate::media::archive::store::ArchiveStore;
use crate::media::archive::upload_token::UploadKey;
use crate::media::store::MediaStore;
use crate::media::thumbnail::Thumbnails;
use crate::oidc::OidcAuthenticator;
use crate::pii::Keyring;
use crate::priority::BackgroundThreads;
use crate::priority::BackgroundWork::Inspection;
use crate::projections::ReadModels;
use crate::quota::{Account, DailyQuota};
use crate::telemetry::ClientAddressDetail;
use crate::telemetry::history::MetricsHistory;
use crate::telemetry::metrics::{ClusterMetrics, Metrics};
use crate::telemetry::trace::Tracer;

pub use crate::cluster::read_barrier::ReadBarrier;
pub use crate::http::api::models::VendorJobs;
pub use crate::http::idempotency::IdempotencyKeys;
pub use crate::http::limits::daily_quotas::DailyLimits;
pub use crate::http::limits::rate_limit::{ForwardedHeader, Rate, RateLimits, TrustedProxies};
pub use crate::http::limits::task_quota::TaskQuotas;

/// Maximum number of worker threads; the framework panics above it.
pub const WORKERS_MAX: u16 = 512;
/// Maximum number of thumbnails that are made at the same time; each may read a file of 50 MB.
const THUMBNAILS_AT_ONCE_MAX: usize = 4;

/// Dependencies of the handlers. Cheap to clone.
#[derive(Clone)]
pub struct Services {
    pub dispatch: Dispatch,
    pub models: ReadModels,
    pub idempotency_keys: IdempotencyKeys,
    /// Keys that decrypt the personal fields of users.
    pub keyring: Keyring,
    pub environment: Environment,
    /// Present in a node of a cluster.
    pub cluster: Option<ClusterGate>,
    /// Checked before every change: rejects writes while the disk is full.
    pub space: DiskSpace,
    /// `true` once the service shuts down; ends open-ended streams.
    pub closing: watch::Receiver<bool>,
    pub metrics: Metrics,
    /// Records trace spans.
    pub tracer: Tracer,
    /// Daily upload quota of an account, in bytes.
    pub bytes_per_day: DailyQuota<Account>,
    pub auth: AuthServices,
    pub registry: RegistryServices,
    pub media: MediaServices,
    pub operations: OperationServices,
    pub options: HttpOptions,
}

/// Validates credentials.
#[derive(Clone)]
pub struct AuthServices {
    pub admin: AdminCredential,
    /// Validates tokens of an `OpenID` Connect issuer, if one is configured.
    pub oidc: Option<OidcAuthenticator>,
}

/// Dependencies of the node registry.
#[derive(Clone)]
pub struct RegistryServices {
    pub archives: ArchiveStore,
    pub upload_key: UploadKey,
    pub usage_counters: UsageCounters,
}

/// Dependencies of the image, video and music gateways.
#[derive(Clone)]
pub struct MediaServices {
    pub store: MediaStore,
    /// Progress of the running vendor tasks.
    pub task_progress: TaskProgress,
    /// Receives vendor webhooks.
    pub vendor_webhooks: VendorWebhooks,
    /// Passes cancellations on to vendors.
    pub vendor_cancellations: VendorCancellations,
    /// Vendors of the music gateway.
    pub music_pool: MusicPool,
    /// Prices of videos.
    pub tariff: Arc<Tariff>,
}

/// Dependencies of the endpoints for operators.
#[derive(Clone)]
pub struct OperationServices {
    /// Reports the storage state to administrators.
    pub storage: StorageProbe,
    /// Readiness probe; its error has a reason for the operator.
    pub readiness: Readiness,
    /// Reads the state of the log.
    pub prober: LogProber,
    /// Runs audit queries.
    pub audit: Audit,
    /// Signs the current state of the log.
    pub checkpoint: Checkpointer,
    /// Deletes the snapshots of the read models.
    pub drop_snapshots: SnapshotRemover,
    /// Public key of the webhook signatures, as text.
    pub webhook_key: String,
    /// State of each vendor.
    pub vendors: Vec<VendorState>,
    /// Main metrics of the last 24 hours.
    pub history: MetricsHistory,
}

/// Checks of every request to a cluster node, and the metrics of the node's log.
#[derive(Clone)]
pub struct ClusterGate {
    pub freshness: FreshnessCheck,
    pub barrier: ReadBarrier,
    pub metrics: ClusterMetrics,
}

/// Checks that the state of a node is recent enough to answer requests. The error says why not.
pub type FreshnessCheck = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Readiness probe.
pub type Readiness = Arc<dyn Fn() -> Result<(), ReadinessFailure> + Send + Sync>;

/// Reason why the service is not ready.
#[derive(Debug, Clone)]
pub struct ReadinessFailure {
    /// Kind of the reason.
    pub kind: ReadinessFailureKind,
    /// Message for anonymous callers; contains no paths or internals.
    pub public_message: String,
    /// Details for the operator's log.
    pub reason: String,
}

/// Kind of a failed readiness probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadinessFailureKind {
    /// The disk is full or file descriptors have run out. Temporary.
    Full,
    /// The log rejects writes until a restart.
    ReadOnly,
    /// A component has terminated.
    Dead,
    /// The disk does not respond.
    Hanging,
    /// The engine of the cluster does not respond.
    CutOff,
}

/// Signs the state of the log at a time and returns the checkpoint as JSON. Blocks while an append is running.
pub type Checkpointer = Arc<dyn Fn(Timestamp) -> Value + Send + Sync>;

/// Deletes the snapshots of the read models, which may contain erased data. Blocks.
pub type SnapshotRemover = Arc<dyn Fn() -> std::io::Result<()> + Send + Sync>;

/// Reports the storage state and the free space.
pub type StorageProbe = Arc<dyn Fn() -> StorageState + Send + Sync>;

/// Hash of the bootstrap token, and the administrator it authenticates.
#[derive(Debug, Clone, Copy)]
pub struct AdminCredential {
    pub user: UserId,
    pub secret_hash: Digest,
}

/// Origins whose pages may call the service from a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CorsOrigins {
    /// Pages of any origin may read; none may write.
    Any,
    /// Pages of these origins may read and write; all others are rejected.
    Only(Vec<String>),
}

/// Issuer at which people sign in to the console, and how they do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerSignIn {
    /// Issuer, as its tokens name it.
    pub issuer: String,
    /// Client id of the console at the issuer.
    pub client_id: String,
    /// Audience that tokens must have.
    pub audience: String,
}

/// Settings of the HTTP layer.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Base of every URL in responses, without a trailing slash.
    pub public_url: String,
    /// Accepted values of the `Host` header.
    pub allowed_hosts: AllowedHosts,
    /// Worker threads: 1 to [`WORKERS_MAX`].
    pub workers: usize,
    /// Maximum number of open connections.
    pub max_connections: usize,
    /// Maximum number of open connections of one address; trusted proxies are exempt.
    pub connections_per_address: usize,
    /// Maximum time without write progress before a connection is closed.
    pub write_timeout: Duration,
    pub cors_origins: CorsOrigins,
    /// `true` if only approved users may submit media tasks.
    pub require_approval: bool,
    /// Sign-in of the console at an issuer, if there is one.
    pub issuer_sign_in: Option<IssuerSignIn>,
    /// `true` if video tasks require a token.
    pub video_needs_token: bool,
    /// Maximum length of `images` of a video task, for endpoints that take several.
    pub video_max_images: usize,
    /// Reports of the built-in engine on prompts, for the media that only this engine generates.
    pub prompt_reports: PromptReports,
    /// Jobs of each vendor.
    pub vendor_jobs: Vec<VendorJobs>,
    /// Quotas of one caller for media tasks.
    pub quotas: TaskQuotas,
    /// Daily quotas of one account or publisher in the registry.
    pub daily_limits: DailyLimits,
    /// Rate limits of one caller.
    pub rate_limits: RateLimits,
    /// Proxies whose forwarding headers are trusted.
    pub proxies: TrustedProxies,
    /// Detail of client addresses in log lines.
    pub log_client: ClientAddressDetail,
    /// Retention of task results after the task has ended.
    pub media_retention: Duration,
    /// Maximum number of pending webhook deliveries of one account.
    pub callbacks_per_account: usize,
    /// `true` if versions stay `Pending` after their upload.
    pub moderation: bool,
    /// Heartbeat interval of event streams, and maximum interval between checks of the reader's permission.
    pub heartbeat: Duration,
    pub music: MusicGatewayOptions,
}

/// Settings of the music gateway.
#[derive(Debug, Clone, Copy)]
pub struct MusicGatewayOptions {
    /// Maximum number of concurrent streams.
    pub streams: usize,
    /// Maximum duration of one stream.
    pub deadline: Duration,
    /// Price of one second, in credits, as reported to the client.
    pub billing_rate_per_sec: u32,
    /// Returns the length for which a task is charged, in seconds.
    pub seconds_of: fn(&MusicWork) -> u16,
}

/// Maximum wait for a turn to decode pictures.
const DECODER_WAIT_MAX: Duration = Duration::from_secs(30);

/// State shared by all workers.
pub struct AppState {
    pub services: Services,
    /// Rate limiters.
    pub rate_limiters: RateLimiters,
    /// Daily quotas of accounts and publishers.
    pub daily_quotas: DailyQuotas,
    /// Submissions being validated.
    pub pending_submissions: PendingSubmissions,
    /// Memory budget of request bodies.
    pub body_budget: BodyBudget,
    /// Limits the submissions whose pictures are decoded concurrently. Accounts take turns; one account holds at most
    /// half of the permits.
    pub decoders: FairSemaphore<Option<UserId>>,
    /// Threads that check submitted pictures, videos and archives.
    pub inspectors: BackgroundThreads,
    /// Small versions of pictures.
    pub thumbnails: Thumbnails,
    /// Limits the thumbnails that are made at the same time, apart from `decoders`, so that lists do not delay jobs.
    pub thumbnail_slots: FairSemaphore<Account>,
    /// Threads that hash uploads and write them to disk.
    pub upload_writers: BackgroundThreads,
    /// Content security policy of the console.
    pub console_policy: HeaderValue,
    /// Page cache of node lists.
    pub page_caches: PageCaches,
    /// Limits concurrent uploads.
    pub upload_limiter: Arc<UploadLimiter>,
    /// Limits concurrent file downloads.
    pub downloads: AccountPool,
    /// Limits concurrent reads of the files in archives.
    pub archive_reads: AccountPool,
    /// Limits exports of accounts in progress.
    pub account_exports: AccountPool,
    /// Limits open audit log streams.
    pub audit_streams: AccountPool,
    /// Limits open task event streams.
    pub task_streams: AccountPool,
    /// Limits open music streams.
    pub music_streams: AccountPool,
}

impl AppState {
    /// Creates the shared state with empty counters.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn new(services: Services) -> std::io::Result<Self> {
        let workers = services.options.workers.max(1);
        let decoders = FairSemaphore::with_share(2 * workers as u64, workers as u64);
        let thumbnails = Thumbnails::new(services.media.store.decoders().memory() / 2);
        let thumbnails_at_once = workers.min(THUMBNAILS_AT_ONCE_MAX) as u64;
        let thumbnail_slots = FairSemaphore::with_share(thumbnails_at_once, thumbnails_at_once.div_ceil(2));
        // Twice as many threads as decoder permits: after decoding, a thread still waits for the disk.
        let inspectors = BackgroundThreads::start(Inspection, 4 * workers).map_err(std::io::Error::other)?;
        let upload_writers = BackgroundThreads::start(Inspection, 2 * workers).map_err(std::io::Error::other)?;
        let pending_submissions = PendingSubmissions::default();
        let body_budget = BodyBudget::default();
        let upload_limiter = Arc::default();

        let rate_limiters = RateLimiters::new(&services.options.rate_limits, services.options.proxies.clone());
        let bytes = services.bytes_per_day.clone();
        let clock = &services.environment;
        let daily_quotas = DailyQuotas::new(bytes, services.options.daily_limits, &services.models, clock);

        let downloads = AccountPool::new(DOWNLOADS_MAX, Code::TooManyTransfers, "downloads");
        let archive_reads = AccountPool::new(ARCHIVE_READS_MAX, Code::TooManyTransfers, "reads of archives");
        let account_exports = AccountPool::with_share(
            ACCOUNT_EXPORTS_MAX,
            ACCOUNT_EXPORTS_PER_ACCOUNT,
            Code::TooManyTransfers,
            "exports of the account",
        );
        let audit_streams = AccountPool::new(AUDIT_STREAMS_MAX, Code::TooManyStreams, "event streams");
        let task_streams =
            AccountPool::with_share(TASK_STREAMS_MAX, TASK_STREAMS_PER_ACCOUNT, Code::TooManyStreams, "event streams");
        let music_streams = AccountPool::new(services.options.music.streams, Code::TooManyStreams, "music streams");

        let console_policy = console::content_security_policy(services.options.issuer_sign_in.as_ref());

        Ok(Self {
            services,
            console_policy,
            rate_limiters,
            daily_quotas,
            pending_submissions,
            body_budget,
            decoders,
            inspectors,
            thumbnails,
            thumbnail_slots,
            upload_writers,
            page_caches: PageCaches::default(),
            upload_limiter,
            downloads,
            archive_reads,
            account_exports,
            audit_streams,
            task_streams,
            music_streams,
        })
    }

    /// Waits for the turn of an account to decode pictures.
    ///
    /// # Errors
    /// If its turn does not come in time.
    pub async fn acquire_decoder(&self, owner: Option<UserId>) -> Result<FairPermit<Option<UserId>>, Problem> {
        let permit = timeout(DECODER_WAIT_MAX, self.decoders.acquire(owner, 1)).await;
        permit.map_err(|_| Problem::overloaded())
    }
}

/// Serves on a bound listener. The caller handles signals.
///
/// # Errors
/// If the listener cannot be used.
pub fn serve(listener: TcpListener, services: Services) -> std::io::Result<Server> {
    let options = services.options.clone();
    let workers = options.workers.clamp(1, usize::from(WORKERS_MAX));

    services.idempotency_keys.spawn_sweeper(services.environment.clone());
    services.metrics.register_known_series(&metrics::known_labels(&services));

    let shared = Data::new(AppState::new(services)?);
    let origins = Arc::new(OriginPolicy::new(options.cors_origins, &options.public_url));

    let connection_options = ConnectionOptions {
        workers,
        max_connections: options.max_connections,
        per_address: ConnectionLimit::new(options.connections_per_address, options.proxies),
        write_timeout: options.write_timeout,
    };

    connection::serve(listener, connection_options, move || application(&shared, &origins))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_framework_accepts_the_maximum_number_of_workers() {
        let _builder = Server::build().workers(usize::from(WORKERS_MAX));
    }
}
