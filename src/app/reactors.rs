//! Builds, starts and stops the reactors.

use std::sync::Arc;
use std::time::Duration;

use actix::Arbiter;

use super::StartError;
use super::vendors::{Maker, Makers};
use crate::actors::dispatcher::{CallbackDispatcher, Telling};
use crate::actors::hints::Hints;
use crate::actors::inputs::Inputs;
use crate::actors::live::Live;
use crate::actors::musician::Musician;
use crate::actors::poller::{Poller, VendorState};
use crate::actors::reactor::{ReactorOptions, keep_running};
use crate::actors::sweeper::Sweeper;
use crate::actors::system::Dispatch;
use crate::actors::tally::{Recorder, Tally};
use crate::clock::{Names, Surroundings};
use crate::config::Settings;
use crate::domain::image::INPUT_BYTES_MAX;
use crate::domain::video::Clip;
use crate::media::store::Store;
use crate::outbound::address::AddressRules;
use crate::outbound::callback::CallbackSender;
use crate::outbound::client::{Client, Limits};
use crate::outbound::fetch::Fetcher;
use crate::outbound::signature::WebhookKey;
use crate::personal::Keyring;
use crate::priority::{Work, yield_to_answers};
use crate::projections::ReadModels;
use crate::quota::{Account, DailyQuota};
use crate::telemetry::trace::Tracer;

/// Timeout for fetching an input.
const FETCH_WITHIN: Duration = Duration::from_mins(1);
/// Maximum number of fetched bytes not yet stored: five of the largest pictures.
pub(super) const FETCHED_BYTES_MAX: usize = 256 << 20;
/// Time that a stop waits for work in progress.
const GRACE: Duration = Duration::from_secs(5);

/// External dependencies of the reactors.
pub(super) struct Outside {
    pub store: Store,
    pub sender: CallbackSender,
    pub tracer: Tracer,
    pub fetcher: Fetcher,
    pub keyring: Keyring,
    pub public_url: String,
    pub footage_fetcher: Fetcher,
    pub makers: Makers,
    pub hints: Hints,
}

/// Running reactors.
pub(super) struct Reactors {
    arbiter: Arbiter,
    recorder: Recorder,
    /// Observable state of the vendors.
    pub vendors: Vec<VendorState>,
    /// Music vendor; used directly, not by a reactor.
    pub musician: Musician,
    /// Progress of their tasks.
    pub live: Live,
}

/// Dependencies of webhooks.
pub(super) struct Callbacks {
    pub key: WebhookKey,
    pub keyring: Keyring,
    /// Records spans of webhooks and vendor calls.
    pub tracer: Tracer,
}

impl Outside {
    pub(super) fn new(
        settings: &Settings,
        store: Store,
        Callbacks { key, keyring, tracer }: Callbacks,
        public_url: &str,
        (makers, hints): (Makers, Hints),
        surroundings: &Surroundings,
    ) -> Result<Self, StartError> {
        let names = surroundings.names();
        let names = names.as_ref();
        let sender = callback_sender(settings, key, names)?;
        let footage_fetcher = fetcher(settings, Clip::BYTES_MAX, names)?;
        let fetcher = fetcher(settings, INPUT_BYTES_MAX, names)?;
        let public_url = public_url.to_owned();
        let makers = makers.traced(&tracer);

        Ok(Self { store, sender, tracer, fetcher, keyring, public_url, footage_fetcher, makers, hints })
    }
}

fn callback_sender(settings: &Settings, key: WebhookKey, names: Option<&Names>) -> Result<CallbackSender, StartError> {
    let limits = Limits { total: settings.callbacks.timeout, ..Limits::default() };
    let client = Client::resolving(address_rules(settings), limits, names);
    let client = client.map_err(|error| StartError::part("the callbacks", &error))?;
    Ok(CallbackSender::new(client, Arc::new(key)))
}

/// Returns a fetcher of inputs, given by clients as URLs, of at most `body_bytes`.
fn fetcher(settings: &Settings, body_bytes: usize, names: Option<&Names>) -> Result<Fetcher, StartError> {
    let limits = Limits { total: FETCH_WITHIN, body_bytes, ..Limits::default() };
    let client = Client::resolving(address_rules(settings), limits, names);
    client
        .map(|client| Fetcher::new(client, FETCHED_BYTES_MAX))
        .map_err(|error| StartError::part("the fetcher of inputs", &error))
}

/// Returns the rules for addresses that webhooks, inputs and results may use.
pub(super) fn address_rules(settings: &Settings) -> AddressRules {
    AddressRules { allow_private: settings.private_rule().is_allowed, allow: settings.egress.allow.clone() }
}

impl Reactors {
    pub(super) fn start(
        outside: Outside,
        tally: Tally,
        dispatch: &Dispatch,
        models: &ReadModels,
        surroundings: &Surroundings,
        settings: &Settings,
        daily_bytes: DailyQuota<Account>,
    ) -> Self {
        let arbiter = Arbiter::new();
        let recorder = Recorder::new(tally, dispatch.clone(), surroundings.clone());
        let recording = recorder.clone();
        let dispatch = dispatch.clone();
        let models = models.clone();
        let surroundings = surroundings.clone();
        let concurrency = settings.callbacks.concurrency;
        let retention = settings.media.retention;
        let per_receiver = settings.callbacks.per_receiver;
        let Outside { store, sender, tracer, fetcher, keyring, public_url, footage_fetcher, makers, hints } = outside;
        let live = Live::default();
        let inputs = Inputs::new(fetcher, store.clone())
            .with_footage(footage_fetcher, &public_url)
            .with_daily_bytes(daily_bytes);
        let pollers = [makers.image, makers.video].map(|Maker { vendor, treatment, bounds }| {
            let models = models.clone();
            let inputs = inputs.clone();
            let poller = Poller::new(dispatch.clone(), models, surroundings.clone(), vendor, inputs, treatment);
            (poller.with_hints(hints.clone()).with_live(live.clone()), bounds)
        });

        let musician = makers.musician;
        let vendors = pollers.iter().map(|(poller, _)| poller.state()).chain([musician.state()]).collect();

        arbiter.spawn(async move {
            yield_to_answers(Work::Outside);
            let sweeper = Sweeper::new(store.clone(), models.clone(), surroundings.clone(), retention);
            keep_running(sweeper, ReactorOptions { concurrency: 1, lane: 1 }, surroundings.clone());
            for (poller, bounds) in pollers {
                keep_running(poller, bounds, surroundings.clone());
            }
            let per_account = (concurrency / 4 * 3).max(per_receiver + 1);
            let telling = Telling { sender, tracer, store, keyring, public_url };
            let bounds = (per_account, per_receiver);
            let dispatcher = CallbackDispatcher::new(dispatch, models, surroundings.clone(), telling, bounds);
            let calling = ReactorOptions { concurrency, lane: per_receiver };
            keep_running(dispatcher, calling, surroundings.clone());
            keep_running(recording, ReactorOptions { concurrency: 1, lane: 1 }, surroundings);
        });

        Self { arbiter, recorder, vendors, musician, live }
    }

    /// Records the counts, then waits for the reactors, but not for jobs in progress: those are repeated after the next
    /// start.
    pub(super) async fn stop(self) {
        if tokio::time::timeout(GRACE, self.recorder.record()).await.is_err() {
            tracing::warn!("some counts of installs and of uses of tokens are lost: recording them took too long");
        }
        self.arbiter.stop();
        let (ended, awaited) = std::sync::mpsc::channel();
        std::thread::spawn(move || ended.send(self.arbiter.join().is_ok()));
        match awaited.recv_timeout(GRACE) {
            Ok(true) => {}
            Ok(false) => tracing::error!("the reactors' thread had died"),
            Err(_) => tracing::info!("jobs that are not done go on after the next start"),
        }
    }
}
