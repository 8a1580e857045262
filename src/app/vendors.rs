//! Selects and configures the vendor of each gateway.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use super::StartError;
use super::reactors::{FETCHED_BYTES_MAX, address_rules};
use crate::actors::music_vendor::GuardedMusicVendor;
use crate::actors::poller::backoff::Backoff;
use crate::actors::poller::breaker::BreakerOptions;
use crate::actors::poller::{LANES, PollerOptions};
use crate::actors::reactor::ReactorOptions;
use crate::actors::vendor_webhooks::VendorWebhooks;
use crate::config::{RecoverySetting, Secret, Settings, VendorProfile, VendorSelection, VendorSettings};
use crate::domain::ids::TaskId;
use crate::domain::image::INPUT_BYTES_MAX;
use crate::domain::task::{Gateway, JobFilter, RecordedVendor};
use crate::domain::value::Text;
use crate::domain::video::Clip;
use crate::environment::Environment;
use crate::media::archive::upload_token::UploadKey;
use crate::media::store::MediaStore;
use crate::outbound::client::{ClientLimits, ClientSetupError, OutboundClient};
use crate::outbound::fetch::Fetcher;
use crate::outbound::vendor_client::{VendorAuth, VendorClient, VendorEndpoint};
use crate::projections::ReadModels;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::trace::Tracer;
use crate::vendors::local::IsJobWanted;
use crate::vendors::local::image::{ImageEngineOptions as LocalImageOptions, LocalImage};
use crate::vendors::local::music::{LocalMusic, bed};
use crate::vendors::local::video::{LocalVideo, VideoEngineOptions as LocalVideoOptions};
use crate::vendors::metered_vendor::MeteredVendor;
use crate::vendors::music::MusicVendor;
use crate::vendors::profile::{Profile, ProfileAuth};
use crate::vendors::profile_vendor::{ProfileMusic, ProfileMusicOptions, ProfileVendor, ProfileVendorOptions};
use crate::vendors::traced_vendor::TracedVendor;
use crate::vendors::webhook_ticket::{PURPOSE, WebhookTicketKey};
use crate::vendors::{SubmissionRecovery, Vendor};

/// Maximum number of tasks in a built-in engine, and of inputs fetched for it.
const BUILT_IN_CONCURRENCY: usize = 256;

/// Vendor of one gateway with its options.
pub(super) struct GatewayVendor {
    pub vendor: Arc<dyn Vendor>,
    pub identity: RecordedVendor,
    /// Jobs that the vendor takes.
    pub jobs: JobFilter,
    pub poller_options: PollerOptions,
    pub reactor_options: ReactorOptions,
}

/// Vendors of all gateways.
pub(super) struct VendorSet {
    pub image: GatewayVendor,
    pub video: GatewayVendor,
    pub music_vendor: GuardedMusicVendor,
}

impl VendorSet {
    /// Adds spans to the calls, if tracing is on.
    pub(super) fn with_tracing(mut self, tracer: &Tracer) -> Self {
        if tracer.is_enabled() {
            for gateway_vendor in [&mut self.image, &mut self.video] {
                gateway_vendor.vendor = Arc::new(TracedVendor::new(Arc::clone(&gateway_vendor.vendor), tracer.clone()));
            }
        }
        self
    }
}

/// Returns for each gateway the remote vendor, if configured, or the built-in engine. Their calls are measured.
pub(super) fn build_vendors(
    settings: &Settings,
    store: &MediaStore,
    key: &UploadKey,
    (models, metrics): (&ReadModels, &Metrics),
    environment: &Environment,
) -> Result<VendorSet, StartError> {
    let is_job_wanted = is_wanted(models);
    let mut image = image_vendor(settings, store.clone(), key, &is_job_wanted, environment)?;
    let mut video = video_vendor(settings, store.clone(), key, &is_job_wanted, environment)?;

    for gateway_vendor in [&mut image, &mut video] {
        gateway_vendor.vendor = Arc::new(MeteredVendor::new(Arc::clone(&gateway_vendor.vendor), metrics.clone()));
    }

    Ok(VendorSet { image, video, music_vendor: music_vendor(settings, environment, metrics)? })
}

/// Returns a check that lets built-in engines skip jobs of ended tasks. The key of a job is the id of its task.
fn is_wanted(models: &ReadModels) -> IsJobWanted {
    let models = models.clone();
    Arc::new(move |key| TaskId::parse(key.as_str()).is_ok_and(|task| models.read().tasks.gateway_of(task).is_some()))
}

/// Returns the queue of vendor webhooks; its ticket key is derived from that of the upload links.
pub(super) fn vendor_webhooks(key: &UploadKey) -> VendorWebhooks {
    VendorWebhooks::new(webhook_ticket_key(key))
}

fn webhook_ticket_key(key: &UploadKey) -> WebhookTicketKey {
    WebhookTicketKey::new(key.derive_key(PURPOSE))
}

fn image_vendor(
    settings: &Settings,
    store: MediaStore,
    key: &UploadKey,
    is_job_wanted: &IsJobWanted,
    environment: &Environment,
) -> Result<GatewayVendor, StartError> {
    let vendor_settings = only_vendor(&settings.image_vendors);
    let Some(url) = &vendor_settings.url else {
        let poller_options = PollerOptions::built_in(Gateway::Image, settings.tasks.deadline);
        let poller_options = PollerOptions { slots: vendor_settings.slots.unwrap_or(usize::MAX), ..poller_options };
        return Ok(GatewayVendor {
            vendor: built_in_image_vendor(settings, store, is_job_wanted),
            identity: identity(&vendor_settings.selection, None),
            jobs: vendor_settings.jobs.clone(),
            poller_options,
            reactor_options: reactor_options(BUILT_IN_CONCURRENCY),
        });
    };

    let failed = |error: &dyn std::fmt::Display| StartError::part("the image vendor", error);
    let profile = remote_profile(&vendor_settings.selection).map_err(|error| failed(&error))?;
    let client = VendorClient::new(&endpoint(url, vendor_settings, &profile)).map_err(|error| failed(&error))?;
    let fetcher =
        result_fetcher(settings, vendor_settings, INPUT_BYTES_MAX, environment).map_err(|error| failed(&error))?;
    let identity = identity(&vendor_settings.selection, Some(&profile));
    let options = remote_options(Gateway::Image, settings, vendor_settings, (key, is_job_wanted));
    let vendor = Arc::new(ProfileVendor::new(profile, client, options, store, fetcher, environment.clone()));
    let poller_options =
        poller_options(Gateway::Image, vendor_settings.slots.unwrap_or(usize::MAX), settings, vendor_settings);

    Ok(GatewayVendor {
        vendor,
        identity,
        jobs: vendor_settings.jobs.clone(),
        poller_options,
        reactor_options: reactor_options(vendor_settings.concurrency),
    })
}

fn video_vendor(
    settings: &Settings,
    store: MediaStore,
    key: &UploadKey,
    is_job_wanted: &IsJobWanted,
    environment: &Environment,
) -> Result<GatewayVendor, StartError> {
    let vendor_settings = only_vendor(&settings.video_vendors);
    let Some(url) = &vendor_settings.url else {
        let poller_options = PollerOptions::built_in(Gateway::Video, settings.tasks.deadline);
        let poller_options =
            PollerOptions { slots: vendor_settings.slots.unwrap_or(settings.video.slots), ..poller_options };
        let vendor = Arc::new(LocalVideo::new(
            store,
            LocalVideoOptions::default(),
            Some(Arc::new(bed)),
            Arc::clone(is_job_wanted),
        ));
        return Ok(GatewayVendor {
            vendor,
            identity: identity(&vendor_settings.selection, None),
            jobs: vendor_settings.jobs.clone(),
            poller_options,
            reactor_options: reactor_options(BUILT_IN_CONCURRENCY),
        });
    };

    let failed = |error: &dyn std::fmt::Display| StartError::part("the video vendor", error);
    let profile = remote_profile(&vendor_settings.selection).map_err(|error| failed(&error))?;
    let client = VendorClient::new(&endpoint(url, vendor_settings, &profile)).map_err(|error| failed(&error))?;
    let fetcher =
        result_fetcher(settings, vendor_settings, Clip::BYTES_MAX, environment).map_err(|error| failed(&error))?;
    let identity = identity(&vendor_settings.selection, Some(&profile));
    let options = remote_options(Gateway::Video, settings, vendor_settings, (key, is_job_wanted));
    let vendor = Arc::new(ProfileVendor::new(profile, client, options, store, fetcher, environment.clone()));
    let poller_options = poller_options(
        Gateway::Video,
        vendor_settings.slots.unwrap_or(settings.video.slots),
        settings,
        vendor_settings,
    );

    Ok(GatewayVendor {
        vendor,
        identity,
        jobs: vendor_settings.jobs.clone(),
        poller_options,
        reactor_options: reactor_options(vendor_settings.concurrency),
    })
}

/// Returns the vendor of a medium; the check of the settings admits one.
fn only_vendor<V>(vendors: &[V]) -> &V {
    vendors.first().expect("the settings contain at least the built-in engine")
}

/// Returns the identity of a vendor, as it is recorded with each submission. The built-in engine has no profile.
fn identity(selection: &VendorSelection, profile: Option<&Profile>) -> RecordedVendor {
    RecordedVendor {
        name: Text::from_recorded(selection.name.clone()),
        profile: Text::from_recorded(selection.profile.name().to_owned()),
        profile_hash: profile.map(|profile| profile.identity().digest),
        price: selection.price,
    }
}

/// Returns a fetcher of results of at most `body_bytes`.
pub(super) fn result_fetcher(
    settings: &Settings,
    vendor_settings: &VendorSettings,
    body_bytes: usize,
    environment: &Environment,
) -> Result<Fetcher, ClientSetupError> {
    let limits =
        ClientLimits { connect: vendor_settings.connect_timeout, total: vendor_settings.result_timeout, body_bytes };
    let client = OutboundClient::with_resolver(address_rules(settings), limits, environment.host_resolver().as_ref())?;
    Ok(Fetcher::new(client, FETCHED_BYTES_MAX))
}

/// Returns the music vendor: the remote one, if configured, or the built-in engine with as many threads as HTTP
/// workers.
fn music_vendor(
    settings: &Settings,
    environment: &Environment,
    metrics: &Metrics,
) -> Result<GuardedMusicVendor, StartError> {
    let metered = |vendor: Arc<dyn MusicVendor>| Arc::new(MeteredVendor::new(vendor, metrics.clone()));
    let vendor_settings = only_vendor(&settings.music_vendors);
    let Some(url) = &vendor_settings.url else {
        let threads =
            if settings.workers == 0 { available_parallelism().map_or(1, NonZero::get) } else { settings.workers };
        return Ok(GuardedMusicVendor::new(metered(Arc::new(LocalMusic::new(threads))), None, environment.clone()));
    };

    let profile =
        remote_profile(&vendor_settings.selection).map_err(|error| StartError::part("the music vendor", &error))?;
    let endpoint = VendorEndpoint {
        base: url.clone(),
        auth: auth(&vendor_settings.selection, &profile, &vendor_settings.auth_header),
        api_key: vendor_settings.api_key.as_ref().map(|key| key.expose().to_owned()),
        connect_timeout: vendor_settings.connect_timeout,
        submit_timeout: vendor_settings.line_timeout,
        poll_timeout: vendor_settings.line_timeout,
        download_timeout: vendor_settings.line_timeout,
    };

    let client = VendorClient::new(&endpoint).map_err(|error| StartError::part("the music vendor", &error))?;
    let options = ProfileMusicOptions {
        name: vendor_settings.selection.name.clone(),
        key_header: unless_shipped(&vendor_settings.selection, &vendor_settings.key_header),
        line_timeout: vendor_settings.line_timeout,
        line_bytes: usize::try_from(vendor_settings.line_bytes).unwrap_or(usize::MAX),
        api_key: endpoint.api_key,
    };

    let missing = || StartError::part("the music vendor", &"its profile has no music");
    let vendor = Arc::new(ProfileMusic::new(profile, client, options, environment.clone()).ok_or_else(missing)?);

    Ok(GuardedMusicVendor::new(
        metered(vendor),
        Some(breaker_options(
            vendor_settings.breaker_failures,
            vendor_settings.breaker_pause,
            vendor_settings.breaker_pause_max,
        )),
        environment.clone(),
    ))
}

fn reactor_options(lane: usize) -> ReactorOptions {
    ReactorOptions { concurrency: LANES * lane, lane }
}

fn built_in_image_vendor(settings: &Settings, store: MediaStore, is_job_wanted: &IsJobWanted) -> Arc<dyn Vendor> {
    let kilopixels_max = u32::try_from(settings.local_image.pixel_budget / 1000).unwrap_or(u32::MAX);
    let options = LocalImageOptions { kilopixels_max, ..LocalImageOptions::default() };
    Arc::new(LocalImage::new(store, options, Arc::clone(is_job_wanted)))
}

pub(super) fn endpoint(url: &str, settings: &VendorSettings, profile: &Profile) -> VendorEndpoint {
    VendorEndpoint {
        base: url.to_owned(),
        auth: auth(&settings.selection, profile, &settings.auth_header),
        api_key: settings.api_key.as_ref().map(|key| key.expose().to_owned()),
        connect_timeout: settings.connect_timeout,
        submit_timeout: settings.submit_timeout,
        poll_timeout: settings.poll_timeout,
        download_timeout: settings.result_timeout,
    }
}

/// Returns the profile of a remote vendor.
fn remote_profile(selection: &VendorSelection) -> Result<Arc<Profile>, String> {
    let name = selection.profile.name();
    selection.profile.load().ok_or_else(|| format!("the profile {name} describes no remote vendor"))
}

/// Returns a setting that a shipped profile replaces by a value of its own.
pub(super) fn unless_shipped(selection: &VendorSelection, setting: &str) -> Option<String> {
    (selection.profile == VendorProfile::Mediary).then(|| setting.to_owned())
}

/// Returns where the API key goes: where a shipped profile says, otherwise in the header of the settings.
pub(super) fn auth(selection: &VendorSelection, profile: &Profile, header: &str) -> VendorAuth {
    match profile.auth() {
        ProfileAuth::Header { name, scheme } if selection.profile != VendorProfile::Mediary => {
            VendorAuth::Header { name, scheme }
        }
        ProfileAuth::Query { name } if selection.profile != VendorProfile::Mediary => VendorAuth::Query { name },
        _ => header_auth(header),
    }
}

/// Returns where the API key goes: in `Authorization` as a Bearer token, in any other header alone.
fn header_auth(name: &str) -> VendorAuth {
    let scheme = name.eq_ignore_ascii_case("authorization").then(|| "Bearer".to_owned());
    VendorAuth::Header { name: name.to_owned(), scheme }
}

/// Returns the options of a remote vendor. It gets a webhook URL only if the public URL of this service is configured.
fn remote_options(
    gateway: Gateway,
    settings: &Settings,
    vendor_settings: &VendorSettings,
    (key, is_job_wanted): (&UploadKey, &IsJobWanted),
) -> ProfileVendorOptions {
    let webhook_url = settings.public_url.clone().map(|base| {
        let key = webhook_ticket_key(key);
        let url: Arc<dyn Fn(_) -> String + Send + Sync> =
            Arc::new(move |task| format!("{base}/vendor-webhooks/{}", key.issue(task)));
        url
    });

    let selection = &vendor_settings.selection;
    ProfileVendorOptions {
        name: vendor_settings.selection.name.clone(),
        gateway,
        recovery: (selection.profile == VendorProfile::Mediary).then_some(match vendor_settings.recovery {
            RecoverySetting::Key => SubmissionRecovery::Key,
            RecoverySetting::Search => SubmissionRecovery::Search,
            RecoverySetting::Nothing => SubmissionRecovery::Nothing,
        }),
        key_header: unless_shipped(selection, &vendor_settings.key_header),
        search_path: unless_shipped(selection, &vendor_settings.search_path),
        webhook_url,
        api_key: vendor_settings.api_key.as_ref().map(Secret::expose).map(str::to_owned),
        is_wanted: Arc::clone(is_job_wanted),
    }
}

fn poller_options(
    gateway: Gateway,
    slots: usize,
    settings: &Settings,
    vendor_settings: &VendorSettings,
) -> PollerOptions {
    PollerOptions {
        gateway,
        slots,
        deadline: settings.tasks.deadline,
        deadline_off_peak: PollerOptions::OFF_PEAK_DEADLINE,
        poll: Backoff { min: vendor_settings.poll_min, max: vendor_settings.poll_max.max(vendor_settings.poll_min) },
        retry: Backoff {
            min: vendor_settings.retry_min,
            max: vendor_settings.retry_max.max(vendor_settings.retry_min),
        },
        lost_after: vendor_settings.lost_after,
        search_grace_period: vendor_settings.search_settles,
        breaker: Some(breaker_options(
            vendor_settings.breaker_failures,
            vendor_settings.breaker_pause,
            vendor_settings.breaker_pause_max,
        )),
    }
}

fn breaker_options(failures: u32, pause: Duration, pause_max: Duration) -> BreakerOptions {
    BreakerOptions { failures, pause, pause_max: pause_max.max(pause) }
}
