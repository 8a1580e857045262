//! The reactors: what each of them is made of, and how they are started and taken down.

use std::sync::Arc;
use std::time::Duration;

use actix::Arbiter;

use super::StartError;
use crate::actors::dispatcher::CallbackDispatcher;
use crate::actors::inputs::Inputs;
use crate::actors::poller::ImagePoller;
use crate::actors::reactor::{ReactorOptions, keep_running};
use crate::actors::sweeper::Sweeper;
use crate::actors::system::Dispatch;
use crate::actors::tally::{Recorder, Tally};
use crate::clock::{Names, Surroundings};
use crate::config::Settings;
use crate::domain::image::INPUT_BYTES_MAX;
use crate::media::store::Store;
use crate::outbound::address::AddressRules;
use crate::outbound::callback::CallbackSender;
use crate::outbound::client::{Client, Limits};
use crate::outbound::fetch::Fetcher;
use crate::outbound::signature::WebhookKey;
use crate::personal::Keyring;
use crate::projections::ReadModels;
use crate::vendors::local::image::{LocalImage, Options as LocalImageOptions};

/// How many tasks the poller has under way at the vendor, and how many whose inputs it fetches.
const POLLER_CONCURRENCY: usize = 256;
/// How many callbacks may be under way to one receiver.
const CALLBACKS_PER_RECEIVER: usize = 8;
/// How long an input may take to arrive.
const FETCH_WITHIN: Duration = Duration::from_mins(1);
/// Bytes of inputs that are fetched and not stored yet, at most: five of the largest.
const FETCHED_BYTES_MAX: usize = 256 << 20;
/// How long the stop waits for work in progress.
const GRACE: Duration = Duration::from_secs(5);

/// What the reactors reach.
pub(super) struct Outside {
    pub store: Store,
    pub sender: CallbackSender,
    pub fetcher: Fetcher,
    pub keyring: Keyring,
    pub public_url: String,
}

/// The reactors that run.
pub(super) struct Reactors {
    arbiter: Arbiter,
    recorder: Recorder,
}

pub(super) fn callback_sender(
    settings: &Settings,
    key: WebhookKey,
    names: Option<&Names>,
) -> Result<CallbackSender, StartError> {
    let limits = Limits { total: settings.callbacks.timeout, ..Limits::default() };
    let client = Client::resolving(address_rules(settings), limits, names);
    let client = client.map_err(|error| StartError::part("the callbacks", &error))?;
    Ok(CallbackSender::new(client, Arc::new(key)))
}

/// What fetches inputs that clients name by their URLs.
pub(super) fn fetcher(settings: &Settings, names: Option<&Names>) -> Result<Fetcher, StartError> {
    let limits = Limits { total: FETCH_WITHIN, body_bytes: INPUT_BYTES_MAX, ..Limits::default() };
    let client = Client::resolving(address_rules(settings), limits, names);
    client
        .map(|client| Fetcher::new(client, FETCHED_BYTES_MAX))
        .map_err(|error| StartError::part("the fetcher of inputs", &error))
}

fn address_rules(settings: &Settings) -> AddressRules {
    AddressRules { allow_private: settings.private_addresses_allowed(), allow: settings.egress.allow.clone() }
}

impl Reactors {
    pub(super) fn start(
        outside: Outside,
        tally: Tally,
        dispatch: &Dispatch,
        models: &ReadModels,
        surroundings: &Surroundings,
        settings: &Settings,
    ) -> Self {
        let arbiter = Arbiter::new();
        let recorder = Recorder::new(tally, dispatch.clone(), surroundings.clone());
        let (recording, dispatch, models) = (recorder.clone(), dispatch.clone(), models.clone());
        let surroundings = surroundings.clone();
        let (deadline, concurrency) = (settings.tasks.deadline, settings.callbacks.concurrency);
        let retention = settings.media.retention;
        let kilopixels_max = u32::try_from(settings.local_image.pixel_budget / 1000).unwrap_or(u32::MAX);
        arbiter.spawn(async move {
            let Outside { store, sender, fetcher, keyring, public_url } = outside;
            let sweeper = Sweeper::new(store.clone(), models.clone(), surroundings.clone(), retention);
            keep_running(sweeper, ReactorOptions { concurrency: 1, lane: 1 }, surroundings.clone());
            let inputs = Inputs::new(fetcher, store.clone());
            let vendor =
                Arc::new(LocalImage::new(store, LocalImageOptions { kilopixels_max, ..LocalImageOptions::default() }));
            let poller =
                ImagePoller::new(dispatch.clone(), models.clone(), surroundings.clone(), vendor, inputs, deadline);
            let polling = ReactorOptions { concurrency: 2 * POLLER_CONCURRENCY, lane: POLLER_CONCURRENCY };
            keep_running(poller, polling, surroundings.clone());
            let per_account = (concurrency / 4 * 3).max(CALLBACKS_PER_RECEIVER + 1);
            let dispatcher = CallbackDispatcher::new(
                dispatch,
                models,
                surroundings.clone(),
                sender,
                keyring,
                public_url,
                per_account,
            );
            let calling = ReactorOptions { concurrency, lane: CALLBACKS_PER_RECEIVER };
            keep_running(dispatcher, calling, surroundings.clone());
            keep_running(recording, ReactorOptions { concurrency: 1, lane: 1 }, surroundings);
        });
        Self { arbiter, recorder }
    }

    /// Records what was counted, and then waits for the reactors, but not for pictures that are being made: those are made
    /// anew after the next start.
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
            Err(_) => tracing::warn!("work in progress was left; it goes on after the next start"),
        }
    }
}
