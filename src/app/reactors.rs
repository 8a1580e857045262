//! Builds, starts and stops the reactors.

use std::sync::Arc;
use std::time::Duration;

use actix::Arbiter;

use super::StartError;
use super::cluster::Duties;
use super::cluster::beats::HintExchange;
use super::vendors::{GatewayVendors, VendorSet};
use crate::actors::callback_dispatcher::{CallbackConcurrency, CallbackDeps, CallbackDispatcher};
use crate::actors::input_fetcher::InputFetcher;
use crate::actors::music_vendor::MusicPool;
use crate::actors::poller::{Poller, VendorState};
use crate::actors::reactor::{Duty, ReactorOptions, spawn_supervised};
use crate::actors::retention::RetentionSweeper;
use crate::actors::system::Dispatch;
use crate::actors::task_progress::TaskProgress;
use crate::actors::usage_counters::{UsageCounters, UsageRecorder};
use crate::actors::vendor_cancellations::{VendorCancellations, VendorCanceller};
use crate::actors::vendor_webhooks::VendorWebhooks;
use crate::config::Settings;
use crate::domain::image::INPUT_BYTES_MAX;
use crate::domain::video::{Clip, Tariff};
use crate::environment::{Environment, HostResolver};
use crate::http::server::MediaServices;
use crate::media::store::MediaStore;
use crate::outbound::address::AddressRules;
use crate::outbound::callback::CallbackSender;
use crate::outbound::client::{ClientLimits, OutboundClient};
use crate::outbound::fetch::Fetcher;
use crate::outbound::signature::WebhookKey;
use crate::pii::Keyring;
use crate::priority::{BackgroundWork, lower_priority};
use crate::projections::ReadModels;
use crate::quota::{Account, DailyQuota};
use crate::telemetry::trace::Tracer;

/// Timeout for fetching an input.
const FETCH_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum number of fetched bytes not yet stored: five of the largest pictures.
pub(super) const FETCHED_BYTES_MAX: usize = 256 << 20;
/// Time that a stop waits for work in progress.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// External dependencies of the reactors.
pub(super) struct ReactorDeps {
    pub store: MediaStore,
    pub sender: CallbackSender,
    pub tracer: Tracer,
    pub fetcher: Fetcher,
    pub keyring: Keyring,
    pub public_url: String,
    pub footage_fetcher: Fetcher,
    pub vendor_set: VendorSet,
    pub webhooks: VendorWebhooks,
    /// Tasks and webhooks that this node works on, and whether it removes expired files.
    pub duties: Duties,
}

/// Running reactors.
pub(super) struct Reactors {
    arbiter: Arbiter,
    usage_recorder: UsageRecorder,
    /// Observable state of the vendors.
    pub vendors: Vec<VendorState>,
    /// Music vendors; used directly, not by a reactor.
    pub music_pool: MusicPool,
    /// Passes cancellations on to vendors.
    pub cancellations: VendorCancellations,
    /// Progress of the tasks of all pollers.
    pub task_progress: TaskProgress,
}

/// Media files and vendors of the reactors, and the part of the work that this node does.
pub(super) struct MediaSetup {
    pub store: MediaStore,
    pub vendor_set: VendorSet,
    pub webhooks: VendorWebhooks,
    pub duties: Duties,
}

/// Dependencies of webhooks.
pub(super) struct CallbackSetup {
    pub key: WebhookKey,
    pub keyring: Keyring,
    /// Records spans of webhooks and vendor calls.
    pub tracer: Tracer,
}

impl ReactorDeps {
    pub(super) fn new(
        settings: &Settings,
        MediaSetup { store, vendor_set, webhooks, duties }: MediaSetup,
        CallbackSetup { key, keyring, tracer }: CallbackSetup,
        public_url: &str,
        environment: &Environment,
    ) -> Result<Self, StartError> {
        let resolver = environment.host_resolver();
        let resolver = resolver.as_ref();
        let sender = callback_sender(settings, key, resolver)?;
        let footage_fetcher = fetcher(settings, Clip::BYTES_MAX, resolver)?;
        let fetcher = fetcher(settings, INPUT_BYTES_MAX, resolver)?;
        let public_url = public_url.to_owned();
        let vendor_set = vendor_set.with_tracing(&tracer);

        Ok(Self { store, sender, tracer, fetcher, keyring, public_url, footage_fetcher, vendor_set, webhooks, duties })
    }
}

fn callback_sender(
    settings: &Settings,
    key: WebhookKey,
    resolver: Option<&HostResolver>,
) -> Result<CallbackSender, StartError> {
    let limits = ClientLimits { total: settings.callbacks.timeout, ..ClientLimits::default() };
    let client = OutboundClient::with_resolver(address_rules(settings), limits, resolver);
    let client = client.map_err(|error| StartError::part("webhooks", &error))?;
    Ok(CallbackSender::new(client, Arc::new(key)))
}

/// Returns a fetcher of inputs, given by clients as URLs, of at most `body_bytes`.
fn fetcher(settings: &Settings, body_bytes: usize, resolver: Option<&HostResolver>) -> Result<Fetcher, StartError> {
    let limits = ClientLimits { total: FETCH_TIMEOUT, body_bytes, ..ClientLimits::default() };
    let client = OutboundClient::with_resolver(address_rules(settings), limits, resolver);
    client
        .map(|client| Fetcher::new(client, FETCHED_BYTES_MAX))
        .map_err(|error| StartError::part("the input fetcher", &error))
}

/// Returns the rules for addresses that webhooks, inputs and results may use.
pub(super) fn address_rules(settings: &Settings) -> AddressRules {
    AddressRules { allow_private: settings.private_rule().is_allowed, allow: settings.egress.allow.clone() }
}

impl Reactors {
    pub(super) fn start(
        deps: ReactorDeps,
        usage_counters: UsageCounters,
        dispatch: &Dispatch,
        models: &ReadModels,
        environment: &Environment,
        settings: &Settings,
        daily_bytes: DailyQuota<Account>,
    ) -> Self {
        let arbiter = Arbiter::new();
        let usage_recorder = UsageRecorder::new(usage_counters, dispatch.clone(), environment.clone());
        let recorder = usage_recorder.clone();
        let dispatch = dispatch.clone();
        let models = models.clone();
        let environment = environment.clone();
        let concurrency = settings.callbacks.concurrency;
        let retention = settings.media.retention;
        let per_receiver = settings.callbacks.per_receiver;
        let ReactorDeps {
            store,
            sender,
            tracer,
            fetcher,
            keyring,
            public_url,
            footage_fetcher,
            vendor_set,
            webhooks,
            duties,
        } = deps;

        let task_progress = TaskProgress::default();
        let inputs = InputFetcher::new(fetcher, store.clone())
            .with_video_fetcher(footage_fetcher, &public_url)
            .with_daily_bytes(daily_bytes);

        let cancellations = VendorCancellations::default();
        let polled_vendors = vendor_set.image.vendors.iter().chain(&vendor_set.video.vendors);
        let canceller = VendorCanceller::new(cancellations.clone(), polled_vendors, environment.clone());

        let pollers = [vendor_set.image, vendor_set.video].map(|GatewayVendors { vendors, options }| {
            let models = models.clone();
            let inputs = inputs.clone();
            let poller = Poller::new(dispatch.clone(), models, environment.clone(), vendors, inputs, options);
            let poller = poller.with_webhooks(webhooks.clone()).with_task_progress(task_progress.clone());
            poller.with_cancellations(cancellations.clone())
        });

        let music_pool = vendor_set.music_pool;
        let vendors = pollers.iter().flat_map(Poller::vendor_states).chain(music_pool.vendor_states()).collect();

        arbiter.spawn(async move {
            lower_priority(BackgroundWork::OutboundCalls);

            // Each node removes its own copies of the files in a bucket.
            let has_copies = store.tree().bucket().is_some();
            let sweep_duty = if has_copies { Duty::always() } else { duties.of_owner.clone() };
            let of_owner = duties.of_owner.clone();
            let sweeper =
                RetentionSweeper::new(store.clone(), models.clone(), environment.clone(), retention, of_owner);
            let one_by_one = ReactorOptions { concurrency: 1, lane: 1 };
            spawn_supervised(sweeper, one_by_one, sweep_duty, environment.clone());

            for poller in pollers {
                let reactor_options = poller.reactor_options();
                let duty = if poller.is_shareable() { &duties.shared } else { &duties.of_owner };
                spawn_supervised(poller, reactor_options, duty.clone(), environment.clone());
            }
            // The node that received a cancellation passes it on.
            spawn_supervised(canceller, VendorCanceller::OPTIONS, Duty::always(), environment.clone());

            // One account gets at most three quarters, so that others are served too, but always more than one
            // receiver needs.
            let per_account = (concurrency / 4 * 3).max(per_receiver + 1);
            let callback_deps = CallbackDeps { sender, tracer, store, keyring, public_url };
            let limits = CallbackConcurrency { per_account, per_receiver };
            let dispatcher = CallbackDispatcher::new(dispatch, models, environment.clone(), callback_deps, limits);
            let callback_options = ReactorOptions { concurrency, lane: per_receiver };
            spawn_supervised(dispatcher, callback_options, duties.shared, environment.clone());

            spawn_supervised(recorder, one_by_one, Duty::always(), environment);
        });

        Self { arbiter, usage_recorder, vendors, music_pool, cancellations, task_progress }
    }

    /// Returns the exchange of hints about running tasks between the nodes of a cluster.
    pub(super) fn hints(&self, webhooks: &VendorWebhooks) -> HintExchange {
        HintExchange { progress: self.task_progress.clone(), webhooks: webhooks.clone() }
    }

    /// Returns the dependencies of the media gateways.
    pub(super) fn media_services(&self, store: MediaStore, tariff: Tariff, webhooks: VendorWebhooks) -> MediaServices {
        MediaServices {
            store,
            task_progress: self.task_progress.clone(),
            vendor_webhooks: webhooks,
            vendor_cancellations: self.cancellations.clone(),
            music_pool: self.music_pool.clone(),
            tariff: Arc::new(tariff),
        }
    }

    /// Records the counts, then waits for the reactors, but not for jobs in progress: those are repeated after the next
    /// start.
    pub(super) async fn stop(self) {
        if tokio::time::timeout(STOP_TIMEOUT, self.usage_recorder.record()).await.is_err() {
            tracing::warn!("usage counts lost, recording timed out");
        }
        self.arbiter.stop();
        let (ended, awaited) = std::sync::mpsc::channel();
        std::thread::spawn(move || ended.send(self.arbiter.join().is_ok()));
        match awaited.recv_timeout(STOP_TIMEOUT) {
            Ok(true) => {}
            Ok(false) => tracing::error!("reactor thread died"),
            Err(_) => tracing::info!("unfinished jobs continue after the next start"),
        }
    }
}
