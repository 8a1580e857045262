//! The settings: plain, typed and checked. Meanings and defaults are documented in `default.toml`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::cluster::ClusterSettings;
use super::egress::EgressSettings;
use super::limits::LimitSettings;
use super::oidc::OidcSettings;
use super::problem::{ConfigProblem, ConfigProblems, format_masked};
use super::setting_kinds::{
    SettingKind, address, base_url, boolean, choice, directory, duration, existing_directory, file, hosts, integer,
    log_filter, origins, size, token,
};
use super::source::{SettingEntry, SettingLayers, SettingSource};
use super::telemetry::TelemetrySettings;
use super::vendor::{MusicVendorSettings, VendorSettings, check_vendor_lists};
use crate::domain::task::Gateway;
use crate::http::server::WORKERS_MAX;
use crate::telemetry::{ClientAddressDetail, LogFilter, LogFormat};

/// All settings of the service.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Port 0 lets the operating system choose one.
    pub listen: SocketAddr,
    pub data_dir: PathBuf,
    /// Created on the first start if `None`.
    pub admin_token: Option<Secret>,
    /// Without a trailing slash; `http://` and the bound address if `None`.
    pub public_url: Option<String>,
    /// Hosts accepted in requests besides the local ones and that of `public_url`; `*` accepts any.
    pub allowed_hosts: Vec<String>,
    /// HTTP worker threads; 0 means one per core.
    pub workers: usize,
    pub auth: AuthSettings,
    pub registry: RegistrySettings,
    pub egress: EgressSettings,
    pub cors: CorsSettings,
    pub log: LogSettings,
    pub telemetry: TelemetrySettings,
    pub journal: JournalSettings,
    pub snapshots: SnapshotSettings,
    pub storage: StorageSettings,
    pub cluster: ClusterSettings,
    pub actors: ActorSettings,
    pub engine: EngineSettings,
    pub local_image: LocalImageSettings,
    pub tasks: TaskSettings,
    pub media: MediaSettings,
    /// Directory with the operator's vendor profiles.
    pub vendor_profiles: Option<PathBuf>,
    /// `vendors.image`; never empty.
    pub image_vendors: Vec<VendorSettings>,
    /// `vendors.video`; never empty.
    pub video_vendors: Vec<VendorSettings>,
    /// `vendors.music`; never empty.
    pub music_vendors: Vec<MusicVendorSettings>,
    pub video: VideoSettings,
    pub music: MusicSettings,
    pub callbacks: CallbackSettings,
    pub streams: StreamSettings,
    pub limits: LimitSettings,
}

/// Permission to submit media tasks.
#[derive(Debug, Clone)]
pub struct AuthSettings {
    /// `true` if an administrator must approve a user first.
    pub require_approval: bool,
    /// `true` if video tasks require a token.
    pub video_token_required: bool,
    /// Issuer whose tokens are also accepted.
    pub oidc: Option<OidcSettings>,
}

/// Publishing of versions.
#[derive(Debug, Clone)]
pub struct RegistrySettings {
    /// `true` if a version stays pending after its upload until an administrator approves it.
    pub moderation: bool,
}

/// Web pages that may call the service from a browser.
#[derive(Debug, Clone)]
pub struct CorsSettings {
    pub allowed_origins: AllowedOrigins,
}

/// Log output.
#[derive(Debug, Clone)]
pub struct LogSettings {
    pub format: LogFormat,
    pub filter: LogFilter,
    /// Detail of the client address in request logs.
    pub client: ClientAddressDetail,
}

/// The journal, which makes events durable.
#[derive(Debug, Clone)]
pub struct JournalSettings {
    pub segment_bytes: u64,
    /// Maximum number of appends that wait for the writer.
    pub queue: usize,
}

/// Snapshots of the read models, used by the next start.
#[derive(Debug, Clone)]
pub struct SnapshotSettings {
    /// Events between two snapshots; 0 disables them.
    pub every_events: u64,
    /// Size of the journal in bytes below which a start reads and checks all of it.
    pub whole_below: u64,
}

/// Disk space.
#[derive(Debug, Clone)]
pub struct StorageSettings {
    /// Bytes to keep free; 0 disables the check.
    pub reserve: u64,
}

/// Live aggregates.
#[derive(Debug, Clone)]
pub struct ActorSettings {
    /// Maximum number of messages that wait for one actor.
    pub mailbox: usize,
    /// Time without a message after which an actor is passivated.
    pub idle: Duration,
}

/// The built-in engines.
#[derive(Debug, Clone, Copy)]
pub struct EngineSettings {
    /// `true` to reject a video from text alone if the engine understands no word of the prompt.
    pub strict_prompts: bool,
}

/// The built-in image engine.
#[derive(Debug, Clone)]
pub struct LocalImageSettings {
    /// Maximum number of pixels processed at a time.
    pub pixel_budget: u64,
}

/// Media tasks.
#[derive(Debug, Clone)]
pub struct TaskSettings {
    /// Time after which an unfinished task fails.
    pub deadline: Duration,
}

/// The video gateway.
#[derive(Debug, Clone)]
pub struct VideoSettings {
    /// File with the prices; `data/pricing.toml` if `None`.
    pub pricing: Option<PathBuf>,
    /// Maximum number of `images` in endpoints that accept several.
    pub max_images: usize,
    /// Maximum number of tasks at the vendor.
    pub slots: usize,
}

/// The music gateway.
#[derive(Debug, Clone)]
pub struct MusicSettings {
    /// Maximum number of concurrent streams.
    pub streams: usize,
    /// Displayed cost of a second, in credits.
    pub billing_rate_per_sec: u32,
}

/// Files of media tasks.
#[derive(Debug, Clone)]
pub struct MediaSettings {
    /// Time for which files are kept after the end of their task.
    pub retention: Duration,
    /// Memory of all picture decoders together, in bytes.
    pub decode_memory: u64,
}

/// Webhooks.
#[derive(Debug, Clone)]
pub struct CallbackSettings {
    pub timeout: Duration,
    /// Maximum number of concurrent calls.
    pub concurrency: usize,
    /// Maximum number of concurrent calls to one receiver: a host and a port.
    pub per_receiver: usize,
    /// Maximum number of undelivered webhooks of an account, and of undelivered calls of one webhook of a publisher.
    pub pending_per_account: usize,
}

/// Event streams.
#[derive(Debug, Clone)]
pub struct StreamSettings {
    /// Interval of heartbeats in a stream without events.
    pub heartbeat: Duration,
}

/// Allowed origins of web pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedOrigins {
    /// Any origin.
    Any,
    /// These origins, written `scheme://host[:port]`.
    Listed(Vec<String>),
}

/// Text that is never printed: `Debug` masks it, and there is no `Display`.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, to compare or send it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(********)")
    }
}

impl Settings {
    /// Reads all settings and returns them with the source of each value.
    pub(super) fn check(mut layers: SettingLayers) -> Result<(Self, Vec<SettingEntry>), ConfigProblems> {
        layers.drop_replaced_tables();
        let mut reader = SettingsReader(layers);
        let settings = reader.read_settings();
        check_vendor_lists(&mut reader, &settings);
        let SettingsReader(SettingLayers { entries, problems }) = reader;
        if problems.is_empty() { Ok((settings, entries)) } else { Err(ConfigProblems(problems)) }
    }
}

impl Default for Settings {
    /// Returns the built-in defaults.
    fn default() -> Self {
        SettingsReader(SettingLayers::defaults()).read_settings()
    }
}

/// Reads the values one by one and collects all problems.
pub(super) struct SettingsReader(SettingLayers);

impl SettingsReader {
    fn read_settings(&mut self) -> Settings {
        Settings {
            listen: self.read("listen", &address()),
            data_dir: self.read("data_dir", &directory()),
            admin_token: self.read("admin_token", &token()),
            public_url: self.read("public_url", &base_url()),
            allowed_hosts: self.read("allowed_hosts", &hosts()),
            workers: self.read("workers", &integer(0, i64::from(WORKERS_MAX))),
            auth: AuthSettings {
                require_approval: self.read("auth.require_approval", &boolean()),
                video_token_required: self.read("auth.video", &choice([("optional", false), ("required", true)])),
                oidc: OidcSettings::read(self),
            },
            registry: RegistrySettings { moderation: self.read("registry.moderation", &boolean()) },
            egress: EgressSettings::read(self),
            cors: CorsSettings { allowed_origins: self.read("cors.allowed_origins", &origins()) },
            log: self.read_log(),
            telemetry: TelemetrySettings::read(self),
            journal: JournalSettings {
                segment_bytes: self.read("journal.segment_bytes", &size("256KiB", "4GiB")),
                queue: self.read("journal.queue", &integer(1, 1_000_000)),
            },
            snapshots: SnapshotSettings {
                every_events: self.read("snapshots.every_events", &integer(0, 1_000_000_000)),
                whole_below: self.read("snapshots.whole_below", &size("0", "1024GiB")),
            },
            storage: StorageSettings {
                reserve: self.read::<u64>("storage.reserve_mib", &integer(0, 1 << 40)).saturating_mul(1 << 20),
            },
            cluster: ClusterSettings::read(self),
            actors: ActorSettings {
                mailbox: self.read("actors.mailbox", &integer(1, 65_536)),
                idle: self.read("actors.idle", &duration("1s", "1d")),
            },
            engine: EngineSettings { strict_prompts: self.read("engine.strict_prompts", &boolean()) },
            local_image: LocalImageSettings {
                pixel_budget: self.read("local_image.pixel_budget", &integer(1_000_000, 10_000_000_000)),
            },
            tasks: TaskSettings { deadline: self.read("tasks.deadline", &duration("1s", "7d")) },
            media: MediaSettings {
                retention: self.read("media.retention", &duration("1m", "3650d")),
                decode_memory: self.read("media.decode_memory", &size("64MiB", "1024GiB")),
            },
            vendor_profiles: self.read("vendors.profiles", &existing_directory()),
            image_vendors: VendorSettings::read_all(self, Gateway::Image),
            video_vendors: VendorSettings::read_all(self, Gateway::Video),
            music_vendors: MusicVendorSettings::read_all(self),
            video: VideoSettings {
                pricing: self.read("video.pricing", &file()),
                max_images: self.read("video.max_images", &integer(1, 7)),
                slots: self.read("video.slots", &integer(1, 65_536)),
            },
            music: MusicSettings {
                streams: self.read("music.streams", &integer(1, 65_536)),
                billing_rate_per_sec: self.read("music.billing_rate_per_sec", &integer(0, 1_000_000)),
            },
            callbacks: CallbackSettings {
                timeout: self.read("callbacks.timeout", &duration("100ms", "5m")),
                concurrency: self.read("callbacks.concurrency", &integer(1, 65_536)),
                per_receiver: self.read("callbacks.per_receiver", &integer(1, 65_536)),
                pending_per_account: self.read("callbacks.pending_per_account", &integer(1, 10_000_000)),
            },
            streams: StreamSettings { heartbeat: self.read("streams.heartbeat", &duration("100ms", "5m")) },
            limits: LimitSettings::read(self),
        }
    }

    fn read_log(&mut self) -> LogSettings {
        let details = [
            ("full", ClientAddressDetail::Full),
            ("network", ClientAddressDetail::Network),
            ("none", ClientAddressDetail::None),
        ];
        LogSettings {
            format: self.read("log.format", &choice([("text", LogFormat::Text), ("json", LogFormat::Json)])),
            filter: self.read("log.level", &log_filter()),
            client: self.read("log.client", &choice(details)),
        }
    }

    /// Returns the keys of the vendors of a section: of the items of a list, or of the single table.
    pub(super) fn items(&self, section: &str) -> Vec<String> {
        self.0.items(section)
    }

    /// Records that the value of a setting conflicts with another setting.
    pub(super) fn reject(&mut self, key: &str, allowed: &str) {
        let SettingLayers { entries, problems } = &mut self.0;
        problems.extend(entries.iter().find(|entry| entry.key == key).map(|entry| ConfigProblem::NotAllowed {
            key: key.to_owned(),
            value: format_masked(key, &entry.value),
            from: entry.source.clone(),
            allowed: allowed.to_owned(),
        }));
    }

    /// Rejects a setting that is given although another setting leaves it no effect.
    pub(super) fn reject_if_given(&mut self, key: &str, allowed: &str) {
        if self.is_given(key) {
            self.reject(key, allowed);
        }
    }

    /// Returns `true` if a setting does not have its built-in default.
    pub(super) fn is_given(&self, key: &str) -> bool {
        self.0.entries.iter().any(|entry| entry.key == key && entry.source != SettingSource::Default)
    }

    /// Returns the value of a setting, or `T::default()` if it is not allowed. Records no problem, because
    /// [`Self::read`] does so elsewhere.
    pub(super) fn peek<T: Default>(&self, key: &str, kind: &SettingKind<T>) -> T {
        let entry = self.0.entries.iter().find(|entry| entry.key == key);
        entry.and_then(|entry| kind.read(&entry.value)).unwrap_or_default()
    }

    /// Returns the value of a setting. If it is not allowed, records the problem and returns the default.
    pub(super) fn read<T>(&mut self, key: &str, kind: &SettingKind<T>) -> T {
        let SettingLayers { entries, problems } = &mut self.0;
        let entry = entries.iter().find(|entry| entry.key == key).expect("a test compares the keys with default.toml");
        kind.read(&entry.value).unwrap_or_else(|| {
            problems.push(ConfigProblem::NotAllowed {
                key: key.to_owned(),
                value: format_masked(key, &entry.value),
                from: entry.source.clone(),
                allowed: kind.allowed.clone(),
            });
            kind.read(&entry.default).expect("a test reads every default")
        })
    }
}
