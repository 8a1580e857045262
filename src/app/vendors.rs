//! Creates and configures the vendors of each gateway.

use std::fmt::Display;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use super::StartError;
use super::reactors::{FETCHED_BYTES_MAX, address_rules};
use crate::actors::music_vendor::{MusicPool, PoolMusicVendor};
use crate::actors::poller::backoff::Backoff;
use crate::actors::poller::breaker::BreakerOptions;
use crate::actors::poller::{PollerOptions, PoolVendor, PoolVendorOptions};
use crate::actors::vendor_webhooks::VendorWebhooks;
use crate::config::{
    MusicVendorSettings, RecoverySetting, Secret, Settings, VendorProfile, VendorSelection, VendorSettings,
};
use crate::domain::ids::TaskId;
use crate::domain::image::INPUT_BYTES_MAX;
use crate::domain::task::{Gateway, RecordedVendor};
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
use crate::vendors::local::music::{LocalMusic, background_music};
use crate::vendors::local::video::{LocalVideo, VideoEngineOptions as LocalVideoOptions};
use crate::vendors::metered_vendor::MeteredVendor;
use crate::vendors::music::MusicVendor;
use crate::vendors::profile::{Profile, ProfileAuth};
use crate::vendors::profile_vendor::{ProfileMusic, ProfileMusicOptions, ProfileVendor, ProfileVendorOptions};
use crate::vendors::traced_vendor::TracedVendor;
use crate::vendors::webhook_ticket::{PURPOSE, WebhookTicketKey};
use crate::vendors::{SubmissionRecovery, Vendor};

/// Vendors of one gateway, in order of configuration.
pub(super) struct GatewayVendors {
    pub vendors: Vec<PoolVendor>,
    pub options: PollerOptions,
}

/// Vendors of all gateways.
pub(super) struct VendorSet {
    pub image: GatewayVendors,
    pub video: GatewayVendors,
    pub music_pool: MusicPool,
}

impl VendorSet {
    /// Adds spans to the calls, if tracing is on.
    pub(super) fn with_tracing(mut self, tracer: &Tracer) -> Self {
        if tracer.is_enabled() {
            for pooled in self.image.vendors.iter_mut().chain(&mut self.video.vendors) {
                pooled.vendor = Arc::new(TracedVendor::new(Arc::clone(&pooled.vendor), tracer.clone()));
            }
        }
        self
    }
}

/// Time after the timeout of a submission in which its node can still record the result before another node takes over.
const SUBMISSION_MARGIN: Duration = Duration::from_secs(5);

/// Returns the configured vendors of each gateway. Their calls are measured.
pub(super) fn build_vendors(
    settings: &Settings,
    store: &MediaStore,
    key: &UploadKey,
    models: &ReadModels,
    metrics: &Metrics,
    environment: &Environment,
) -> Result<VendorSet, StartError> {
    let builder = VendorBuilder { settings, store, key, metrics, environment, is_job_wanted: build_job_check(models) };
    Ok(VendorSet {
        image: builder.gateway_vendors(Gateway::Image, &settings.image_vendors)?,
        video: builder.gateway_vendors(Gateway::Video, &settings.video_vendors)?,
        music_pool: builder.music_pool()?,
    })
}

/// Returns a check that lets built-in engines skip jobs of ended tasks. The key of a job is the id of its task.
fn build_job_check(models: &ReadModels) -> IsJobWanted {
    let models = models.clone();
    Arc::new(move |key| TaskId::parse(key.as_str()).is_ok_and(|task| models.read().tasks.gateway_of(task).is_some()))
}

/// Returns the queue of vendor webhooks; its ticket key is derived from that of the upload links.
pub(super) fn vendor_webhooks(key: &UploadKey, has_other_nodes: bool) -> VendorWebhooks {
    let webhooks = VendorWebhooks::new(webhook_ticket_key(key));
    if has_other_nodes { webhooks.with_other_nodes() } else { webhooks }
}

fn webhook_ticket_key(key: &UploadKey) -> WebhookTicketKey {
    WebhookTicketKey::new(key.derive_key(PURPOSE))
}

/// Creates vendors from their settings.
struct VendorBuilder<'a> {
    settings: &'a Settings,
    store: &'a MediaStore,
    key: &'a UploadKey,
    metrics: &'a Metrics,
    environment: &'a Environment,
    is_job_wanted: IsJobWanted,
}

impl VendorBuilder<'_> {
    fn gateway_vendors(&self, gateway: Gateway, vendor_list: &[VendorSettings]) -> Result<GatewayVendors, StartError> {
        let vendors = vendor_list.iter().map(|vendor_settings| self.pool_vendor(gateway, vendor_settings));
        let mut options = PollerOptions::new(gateway, self.settings.tasks.deadline);
        if self.settings.cluster.is_member() {
            let remote = vendor_list.iter().filter(|vendor| vendor.url.is_some());
            let longest = remote.map(|vendor| vendor.submit_timeout).max();
            options.takeover_delay = longest.map_or(SUBMISSION_MARGIN, |longest| longest + SUBMISSION_MARGIN);
        }
        Ok(GatewayVendors { vendors: vendors.collect::<Result<_, _>>()?, options })
    }

    /// Returns a vendor of images or videos: the remote one, if it has a URL, or the built-in engine.
    fn pool_vendor(&self, gateway: Gateway, vendor_settings: &VendorSettings) -> Result<PoolVendor, StartError> {
        let selection = &vendor_settings.selection;
        let (vendor, profile): (Arc<dyn Vendor>, _) = match &vendor_settings.url {
            Some(url) => {
                let part = if gateway == Gateway::Video { "a video vendor" } else { "an image vendor" };
                let failed = |error: &dyn Display| failed_vendor(part, selection, error);
                let profile = remote_profile(selection).map_err(|error| failed(&error))?;
                let client = VendorClient::new(&endpoint(url, vendor_settings, &profile));
                let client = client.map_err(|error| failed(&error))?;
                let vendor = self.remote_vendor(gateway, client, vendor_settings, &profile);
                (vendor.map_err(|error| failed(&error))?, Some(profile))
            }
            None => (self.built_in_vendor(gateway), None),
        };
        let vendor = MeteredVendor::new(vendor, selection.name.clone(), self.metrics.clone());

        let options = match &profile {
            Some(_) => remote_pool_options(vendor_settings),
            None => PoolVendorOptions::built_in(),
        };
        let default_slots = (gateway == Gateway::Video).then_some(self.settings.video.slots);
        Ok(PoolVendor {
            vendor: Arc::new(vendor),
            identity: identity(selection, profile.as_deref()),
            jobs: vendor_settings.jobs.clone(),
            priority: selection.priority,
            weight: selection.weight,
            options: PoolVendorOptions { slots: vendor_settings.slots.or(default_slots), ..options },
        })
    }

    fn remote_vendor(
        &self,
        gateway: Gateway,
        client: VendorClient,
        vendor_settings: &VendorSettings,
        profile: &Arc<Profile>,
    ) -> Result<Arc<dyn Vendor>, ClientSetupError> {
        let result_bytes = if gateway == Gateway::Video { Clip::BYTES_MAX } else { INPUT_BYTES_MAX };
        let fetcher = result_fetcher(self.settings, vendor_settings, result_bytes, self.environment)?;
        let options = self.remote_options(gateway, vendor_settings);
        let store = self.store.clone();
        let environment = self.environment.clone();
        Ok(Arc::new(ProfileVendor::new(Arc::clone(profile), client, options, store, fetcher, environment)))
    }

    /// Returns the options of a remote vendor. It gets a webhook URL only if the public URL of this service is
    /// configured.
    fn remote_options(&self, gateway: Gateway, vendor_settings: &VendorSettings) -> ProfileVendorOptions {
        let webhook_url = self.settings.public_url.clone().map(|base| {
            let key = webhook_ticket_key(self.key);
            let url: Arc<dyn Fn(_) -> String + Send + Sync> =
                Arc::new(move |task| format!("{base}/vendor-webhooks/{}", key.issue(task)));
            url
        });

        let selection = &vendor_settings.selection;
        ProfileVendorOptions {
            name: selection.name.clone(),
            gateway,
            recovery: (selection.profile == VendorProfile::Mediary).then_some(match vendor_settings.recovery {
                RecoverySetting::Key => SubmissionRecovery::Key,
                RecoverySetting::Search => SubmissionRecovery::Search,
                RecoverySetting::Nothing => SubmissionRecovery::Nothing,
            }),
            key_header: if_mediary_profile(selection, &vendor_settings.key_header),
            search_path: if_mediary_profile(selection, &vendor_settings.search_path),
            webhook_url,
            api_key: vendor_settings.api_key.as_ref().map(Secret::expose).map(str::to_owned),
            is_wanted: Arc::clone(&self.is_job_wanted),
        }
    }

    fn built_in_vendor(&self, gateway: Gateway) -> Arc<dyn Vendor> {
        let store = self.store.clone();
        let is_job_wanted = Arc::clone(&self.is_job_wanted);
        if gateway == Gateway::Video {
            let options = LocalVideoOptions::default();
            return Arc::new(LocalVideo::new(store, options, Some(Arc::new(background_music)), is_job_wanted));
        }
        let kilopixels_max = u32::try_from(self.settings.local_image.pixel_budget / 1000).unwrap_or(u32::MAX);
        let options = LocalImageOptions { kilopixels_max, ..LocalImageOptions::default() };
        Arc::new(LocalImage::new(store, options, is_job_wanted))
    }

    fn music_pool(&self) -> Result<MusicPool, StartError> {
        let vendors = self.settings.music_vendors.iter().map(|vendor_settings| self.music_vendor(vendor_settings));
        Ok(MusicPool::new(vendors.collect::<Result<_, _>>()?, self.environment.clone()))
    }

    /// Returns a vendor of music: the remote one, if it has a URL, or the built-in engine with as many threads as HTTP
    /// workers.
    fn music_vendor(&self, vendor_settings: &MusicVendorSettings) -> Result<PoolMusicVendor, StartError> {
        let selection = &vendor_settings.selection;
        let workers = self.settings.workers;
        let (vendor, profile): (Arc<dyn MusicVendor>, _) = if let Some(url) = &vendor_settings.url {
            let failed = |error: &dyn Display| failed_vendor("a music vendor", selection, error);
            let profile = remote_profile(selection).map_err(|error| failed(&error))?;
            let endpoint = music_endpoint(url, vendor_settings, &profile);
            let client = VendorClient::new(&endpoint).map_err(|error| failed(&error))?;
            let missing = || failed(&"its profile has no music");
            let vendor = self.remote_music(client, vendor_settings, &profile).ok_or_else(missing)?;
            (Arc::new(vendor), Some(profile))
        } else {
            let threads = if workers == 0 { available_parallelism().map_or(1, NonZero::get) } else { workers };
            (Arc::new(LocalMusic::new(threads)), None)
        };

        let breaker = profile.as_ref().map(|_| {
            let MusicVendorSettings { breaker_failures, breaker_pause, breaker_pause_max, .. } = vendor_settings;
            breaker_options(*breaker_failures, *breaker_pause, *breaker_pause_max)
        });
        Ok(PoolMusicVendor {
            vendor: Arc::new(MeteredVendor::new(vendor, selection.name.clone(), self.metrics.clone())),
            identity: identity(selection, profile.as_deref()),
            priority: selection.priority,
            weight: selection.weight,
            slots: vendor_settings.slots,
            breaker,
        })
    }

    /// Returns the remote vendor of music; `None` if its profile has no music.
    fn remote_music(
        &self,
        client: VendorClient,
        vendor_settings: &MusicVendorSettings,
        profile: &Arc<Profile>,
    ) -> Option<ProfileMusic> {
        let options = ProfileMusicOptions {
            name: vendor_settings.selection.name.clone(),
            key_header: if_mediary_profile(&vendor_settings.selection, &vendor_settings.key_header),
            line_timeout: vendor_settings.line_timeout,
            line_bytes: usize::try_from(vendor_settings.line_bytes).unwrap_or(usize::MAX),
            api_key: vendor_settings.api_key.as_ref().map(|key| key.expose().to_owned()),
        };
        ProfileMusic::new(Arc::clone(profile), client, options, self.environment.clone())
    }
}

fn failed_vendor(part: &'static str, selection: &VendorSelection, error: &dyn Display) -> StartError {
    StartError::part(part, &format!("{}: {error}", selection.name))
}

/// Returns the identity of a vendor that each submission records. The built-in engine has no profile.
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

pub(super) fn music_endpoint(url: &str, settings: &MusicVendorSettings, profile: &Profile) -> VendorEndpoint {
    VendorEndpoint {
        base: url.to_owned(),
        auth: auth(&settings.selection, profile, &settings.auth_header),
        api_key: settings.api_key.as_ref().map(|key| key.expose().to_owned()),
        connect_timeout: settings.connect_timeout,
        submit_timeout: settings.line_timeout,
        poll_timeout: settings.line_timeout,
        download_timeout: settings.line_timeout,
    }
}

/// Returns the profile of a remote vendor.
fn remote_profile(selection: &VendorSelection) -> Result<Arc<Profile>, String> {
    let name = selection.profile.name();
    selection.profile.load().ok_or_else(|| format!("the profile {name} describes no remote vendor"))
}

/// Returns a setting that applies only to the profile `mediary`; other profiles define the value themselves.
pub(super) fn if_mediary_profile(selection: &VendorSelection, setting: &str) -> Option<String> {
    (selection.profile == VendorProfile::Mediary).then(|| setting.to_owned())
}

/// Returns the location of the API key: as the profile defines, otherwise the header of the settings.
pub(super) fn auth(selection: &VendorSelection, profile: &Profile, header: &str) -> VendorAuth {
    match profile.auth() {
        ProfileAuth::Header { name, scheme } if selection.profile != VendorProfile::Mediary => {
            VendorAuth::Header { name, scheme }
        }
        ProfileAuth::Query { name } if selection.profile != VendorProfile::Mediary => VendorAuth::Query { name },
        _ => header_auth(header),
    }
}

/// Returns the location of the API key in a header: `Authorization` contains it as a bearer token, any other header
/// contains only the key.
fn header_auth(name: &str) -> VendorAuth {
    let scheme = name.eq_ignore_ascii_case("authorization").then(|| "Bearer".to_owned());
    VendorAuth::Header { name: name.to_owned(), scheme }
}

fn remote_pool_options(vendor_settings: &VendorSettings) -> PoolVendorOptions {
    PoolVendorOptions {
        slots: vendor_settings.slots,
        concurrency: vendor_settings.concurrency,
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
