//! Selects and configures the vendor of each gateway.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use super::StartError;
use super::reactors::{FETCHED_BYTES_MAX, address_rules};
use crate::actors::hints::Hints;
use crate::actors::musician::Musician;
use crate::actors::poller::breaker::BreakerOptions;
use crate::actors::poller::pace::Pauses;
use crate::actors::poller::{LANES, PollerOptions};
use crate::actors::reactor::ReactorOptions;
use crate::clock::Surroundings;
use crate::config::{RecoverySetting, Secret, Settings, VendorSettings};
use crate::domain::ids::TaskId;
use crate::domain::image::INPUT_BYTES_MAX;
use crate::domain::task::Gateway;
use crate::domain::video::Clip;
use crate::media::archive::ticket::UploadKey;
use crate::media::store::Store;
use crate::outbound::client::{Client, ClientFailure, Limits};
use crate::outbound::fetch::Fetcher;
use crate::outbound::vendor::{VendorCaller, VendorPlace};
use crate::projections::ReadModels;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::trace::Tracer;
use crate::vendors::hint::{HintKey, PURPOSE};
use crate::vendors::local::Wanted;
use crate::vendors::local::image::{LocalImage, Options as LocalImageOptions};
use crate::vendors::local::music::{LocalMusic, bed};
use crate::vendors::local::video::{LocalVideo, Options as LocalVideoOptions};
use crate::vendors::metered::Metered;
use crate::vendors::music::MusicVendor;
use crate::vendors::remote::{MusicOptions, Options as RemoteOptions, RemoteImage, RemoteMusic, RemoteVideo};
use crate::vendors::traced::Traced;
use crate::vendors::{Recovery, Vendor};

/// Maximum number of tasks in a built-in engine, and of inputs fetched for it.
const INSIDE_CONCURRENCY: usize = 256;

/// Vendor of one gateway with its options.
pub(super) struct Maker {
    pub vendor: Arc<dyn Vendor>,
    pub treatment: PollerOptions,
    pub bounds: ReactorOptions,
}

/// Vendors of all gateways.
pub(super) struct Makers {
    pub image: Maker,
    pub video: Maker,
    pub musician: Musician,
}

impl Makers {
    /// Adds spans to the calls, if tracing is on.
    pub(super) fn traced(mut self, tracer: &Tracer) -> Self {
        if tracer.is_on() {
            for maker in [&mut self.image, &mut self.video] {
                maker.vendor = Arc::new(Traced::new(Arc::clone(&maker.vendor), tracer.clone()));
            }
        }
        self
    }
}

/// Returns for each gateway the remote vendor, if configured, or the built-in engine. Their calls are measured.
pub(super) fn makers(
    settings: &Settings,
    store: &Store,
    key: &UploadKey,
    (models, metrics): (&ReadModels, &Metrics),
    surroundings: &Surroundings,
) -> Result<Makers, StartError> {
    let wanted = wanted(models);
    let mut image = image_vendor(settings, store.clone(), key, &wanted, surroundings)?;
    let mut video = video_vendor(settings, store.clone(), key, &wanted, surroundings)?;

    for maker in [&mut image, &mut video] {
        maker.vendor = Arc::new(Metered::new(Arc::clone(&maker.vendor), metrics.clone()));
    }

    Ok(Makers { image, video, musician: musician(settings, surroundings, metrics)? })
}

/// Returns a check that lets built-in engines skip jobs of ended tasks. The key of a job is the id of its task.
fn wanted(models: &ReadModels) -> Wanted {
    let models = models.clone();
    Arc::new(move |key| TaskId::parse(key.as_str()).is_ok_and(|task| models.read().tasks.gateway_of(task).is_some()))
}

/// Returns the hints; their ticket key is derived from that of the upload links.
pub(super) fn hints(key: &UploadKey) -> Hints {
    Hints::new(hint_key(key))
}

fn hint_key(key: &UploadKey) -> HintKey {
    HintKey::new(key.derived(PURPOSE))
}

fn image_vendor(
    settings: &Settings,
    store: Store,
    key: &UploadKey,
    wanted: &Wanted,
    surroundings: &Surroundings,
) -> Result<Maker, StartError> {
    let own = &settings.image_vendor;
    let Some(url) = &own.url else {
        let treatment = PollerOptions::inside(Gateway::Image, settings.tasks.deadline);
        return Ok(Maker { vendor: inside(settings, store, wanted), treatment, bounds: bounds(INSIDE_CONCURRENCY) });
    };

    let failed = |error: &dyn std::fmt::Display| StartError::part("the image vendor", error);
    let caller = VendorCaller::new(&place(url, own)).map_err(|error| failed(&error))?;
    let fetcher = result_fetcher(settings, own, INPUT_BYTES_MAX, surroundings).map_err(|error| failed(&error))?;
    let options = remote_options(settings, own, key);
    let vendor = Arc::new(RemoteImage::new(caller, options, store, fetcher, surroundings.clone()));
    let treatment = treatment(Gateway::Image, usize::MAX, settings, own);

    Ok(Maker { vendor, treatment, bounds: bounds(own.concurrency) })
}

fn video_vendor(
    settings: &Settings,
    store: Store,
    key: &UploadKey,
    wanted: &Wanted,
    surroundings: &Surroundings,
) -> Result<Maker, StartError> {
    let own = &settings.video_vendor;
    let Some(url) = &own.url else {
        let treatment = PollerOptions::inside(Gateway::Video, settings.tasks.deadline);
        let treatment = PollerOptions { slots: settings.video.slots, ..treatment };
        let vendor =
            Arc::new(LocalVideo::new(store, LocalVideoOptions::default(), Some(Arc::new(bed)), Arc::clone(wanted)));
        return Ok(Maker { vendor, treatment, bounds: bounds(INSIDE_CONCURRENCY) });
    };

    let failed = |error: &dyn std::fmt::Display| StartError::part("the video vendor", error);
    let caller = VendorCaller::new(&place(url, own)).map_err(|error| failed(&error))?;
    let fetcher = result_fetcher(settings, own, Clip::BYTES_MAX, surroundings).map_err(|error| failed(&error))?;
    let options = remote_options(settings, own, key);
    let vendor = Arc::new(RemoteVideo::new(caller, options, store, fetcher, surroundings.clone()));
    let treatment = treatment(Gateway::Video, settings.video.slots, settings, own);

    Ok(Maker { vendor, treatment, bounds: bounds(own.concurrency) })
}

/// Returns a fetcher of results of at most `body_bytes`.
fn result_fetcher(
    settings: &Settings,
    own: &VendorSettings,
    body_bytes: usize,
    surroundings: &Surroundings,
) -> Result<Fetcher, ClientFailure> {
    let limits = Limits { connect: own.connect_timeout, total: own.result_timeout, body_bytes };
    let client = Client::resolving(address_rules(settings), limits, surroundings.names().as_ref())?;
    Ok(Fetcher::new(client, FETCHED_BYTES_MAX))
}

/// Returns the music vendor: the remote one, if configured, or the built-in engine with as many threads as HTTP
/// workers.
fn musician(settings: &Settings, surroundings: &Surroundings, metrics: &Metrics) -> Result<Musician, StartError> {
    let metered = |vendor: Arc<dyn MusicVendor>| Arc::new(Metered::new(vendor, metrics.clone()));
    let own = &settings.music_vendor;
    let Some(url) = &own.url else {
        let threads =
            if settings.workers == 0 { available_parallelism().map_or(1, NonZero::get) } else { settings.workers };
        return Ok(Musician::new(metered(Arc::new(LocalMusic::new(threads))), None, surroundings.clone()));
    };

    let place = VendorPlace {
        base: url.clone(),
        auth_header: own.auth_header.clone(),
        api_key: own.api_key.as_ref().map(|key| key.expose().to_owned()),
        connect: own.connect_timeout,
        submit: own.line_timeout,
        poll: own.line_timeout,
    };

    let caller = VendorCaller::new(&place).map_err(|error| StartError::part("the music vendor", &error))?;
    let options = MusicOptions {
        key_header: own.key_header.clone(),
        line_timeout: own.line_timeout,
        line_bytes: usize::try_from(own.line_bytes).unwrap_or(usize::MAX),
        api_key: place.api_key,
    };

    let vendor = Arc::new(RemoteMusic::new(caller, options, surroundings.clone()));

    Ok(Musician::new(
        metered(vendor),
        Some(breaker(own.breaker_failures, own.breaker_pause, own.breaker_pause_max)),
        surroundings.clone(),
    ))
}

fn bounds(lane: usize) -> ReactorOptions {
    ReactorOptions { concurrency: LANES * lane, lane }
}

fn inside(settings: &Settings, store: Store, wanted: &Wanted) -> Arc<dyn Vendor> {
    let kilopixels_max = u32::try_from(settings.local_image.pixel_budget / 1000).unwrap_or(u32::MAX);
    let options = LocalImageOptions { kilopixels_max, ..LocalImageOptions::default() };
    Arc::new(LocalImage::new(store, options, Arc::clone(wanted)))
}

fn place(url: &str, settings: &VendorSettings) -> VendorPlace {
    VendorPlace {
        base: url.to_owned(),
        auth_header: settings.auth_header.clone(),
        api_key: settings.api_key.as_ref().map(|key| key.expose().to_owned()),
        connect: settings.connect_timeout,
        submit: settings.submit_timeout,
        poll: settings.poll_timeout,
    }
}

/// Returns the options of a remote vendor. It gets a webhook URL only if the public URL of this service is configured.
fn remote_options(settings: &Settings, own: &VendorSettings, key: &UploadKey) -> RemoteOptions {
    let hint_url = settings.public_url.clone().map(|base| {
        let key = hint_key(key);
        let url: Arc<dyn Fn(_) -> String + Send + Sync> =
            Arc::new(move |task| format!("{base}/hints/{}", key.ticket(task)));
        url
    });

    RemoteOptions {
        recovery: match own.recovery {
            RecoverySetting::Key => Recovery::Key,
            RecoverySetting::Search => Recovery::Search,
            RecoverySetting::Nothing => Recovery::Nothing,
        },
        key_header: own.key_header.clone(),
        search_path: own.search_path.clone(),
        hint_url,
        api_key: own.api_key.as_ref().map(Secret::expose).map(str::to_owned),
    }
}

fn treatment(gateway: Gateway, slots: usize, settings: &Settings, own: &VendorSettings) -> PollerOptions {
    PollerOptions {
        gateway,
        slots,
        deadline: settings.tasks.deadline,
        deadline_off_peak: PollerOptions::OFF_PEAK,
        poll: Pauses { min: own.poll_min, max: own.poll_max.max(own.poll_min) },
        retry: Pauses { min: own.retry_min, max: own.retry_max.max(own.retry_min) },
        lost_after: own.lost_after,
        search_settles: own.search_settles,
        breaker: Some(breaker(own.breaker_failures, own.breaker_pause, own.breaker_pause_max)),
    }
}

fn breaker(failures: u32, pause: Duration, pause_max: Duration) -> BreakerOptions {
    BreakerOptions { failures, pause, pause_max: pause_max.max(pause) }
}
