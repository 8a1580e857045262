//! The beats of the nodes: each sends the others twice a second its state, and news of running tasks that are not in the
//! log.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::actors::task_progress::{TaskProgress, TaskReport};
use crate::actors::vendor_webhooks::VendorWebhooks;
use crate::cluster::presence::{BEAT_INTERVAL, Beat, PRESENT_FOR, Presence};
use crate::domain::ids::TaskId;
use crate::environment::Environment;
use crate::events::journal::{ChainHash, hex};
use crate::events::shared::engine::Engine;
use crate::events::shared::shared_log::SharedLog;

/// Difference of the clocks of two nodes from which the log warns.
const CLOCK_OFFSET_MAX: Duration = Duration::from_secs(2);
/// Reports of tasks in one message; the others follow in the next ones.
const REPORTS_MAX: usize = 500;

/// Message of a node to all.
#[derive(Serialize, Deserialize)]
struct NodeMessage {
    #[serde(flatten)]
    beat: Beat,
    #[serde(default)]
    hints: NodeHints,
}

/// News of running tasks that are not in the log. Nothing depends on their arrival.
#[derive(Default, Serialize, Deserialize)]
struct NodeHints {
    /// New reports of tasks that the node works on.
    progress: Vec<TaskReport>,
    /// Tasks for which the node received a webhook of a vendor.
    woken: Vec<TaskId>,
}

/// Where hints come from and go to.
#[derive(Clone)]
pub struct HintExchange {
    pub progress: TaskProgress,
    pub webhooks: VendorWebhooks,
}

impl HintExchange {
    fn gather(&self, reported_until: &mut u64) -> NodeHints {
        let (progress, until) = self.progress.reports_after(*reported_until, REPORTS_MAX);
        *reported_until = until;
        NodeHints { progress, woken: self.webhooks.take_accepted() }
    }

    fn adopt(&self, hints: NodeHints) {
        hints.progress.into_iter().for_each(|report| self.progress.adopt(report));
        self.webhooks.wake(hints.woken);
    }
}

/// Sends the beats of this node.
pub(super) struct BeatSource {
    pub engine: Arc<dyn Engine>,
    pub log: Arc<SharedLog>,
    pub presence: Presence,
    pub started_micros: i64,
    pub url: String,
    pub environment: Environment,
    pub hints: Arc<OnceLock<HintExchange>>,
    /// Number of the last report of a task that was sent to the other nodes.
    pub reported_until: u64,
}

impl BeatSource {
    pub fn send_until(mut self, stop_requested: &Arc<AtomicBool>) -> impl FnOnce() + Send + use<> {
        let stop_requested = Arc::clone(stop_requested);
        move || {
            while !stop_requested.load(Ordering::Acquire) {
                // A node that applies no groups must not own work: it would act on an old state.
                if self.log.state().is_ok() && self.log.staleness() < PRESENT_FOR {
                    self.send();
                }
                thread::park_timeout(BEAT_INTERVAL);
            }
        }
    }

    fn send(&mut self) {
        let (sequence, head) = self.log.applied();
        let beat = Beat {
            session: self.presence.session(),
            started_micros: self.started_micros,
            now_micros: self.environment.now().micros(),
            url: self.url.clone(),
            release: env!("BUILD_VERSION").to_owned(),
            position: head.position.0,
            sequence,
            chain: hex::encode(&head.chain.0),
            hears_itself: self.presence.hears_itself(),
        };
        let hints = self.hints.get().map(|hints| hints.gather(&mut self.reported_until)).unwrap_or_default();
        match serde_json::to_vec(&NodeMessage { beat, hints }) {
            Ok(message) => self.engine.announce(&message),
            Err(error) => tracing::error!(%error, "beat not sent"),
        }
    }
}

/// Listens to the beats of all nodes.
pub(super) struct BeatListener {
    pub engine: Arc<dyn Engine>,
    pub log: Arc<SharedLog>,
    pub presence: Presence,
    pub environment: Environment,
    pub hints: Arc<OnceLock<HintExchange>>,
    pub clock_warned: bool,
}

impl BeatListener {
    pub fn listen_until(mut self, stop_requested: &Arc<AtomicBool>) -> impl FnOnce() + Send + use<> {
        let stop_requested = Arc::clone(stop_requested);
        let engine = Arc::clone(&self.engine);
        move || {
            while !stop_requested.load(Ordering::Acquire) {
                engine.listen(&mut |message| {
                    if let Some(message) = message {
                        self.receive(message);
                    }
                    if stop_requested.load(Ordering::Acquire) {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                });
                // The client of the engine may have given up.
                thread::park_timeout(BEAT_INTERVAL);
            }
        }
    }

    fn receive(&mut self, message: &[u8]) {
        let Ok(NodeMessage { beat, hints }) = serde_json::from_slice(message) else { return };
        if beat.session != self.presence.session()
            && let Some(exchange) = self.hints.get()
        {
            exchange.adopt(hints);
        }
        self.hear(beat);
    }

    fn hear(&mut self, beat: Beat) {
        let now_micros = self.environment.now().micros();
        // Only a clock that is ahead counts: a delayed beat looks like one of a clock that is behind. Of two nodes whose
        // clocks differ, the one that is behind warns.
        let ahead = Duration::from_micros(beat.now_micros.saturating_sub(now_micros).try_into().unwrap_or(0));
        if ahead > CLOCK_OFFSET_MAX && !self.clock_warned {
            self.clock_warned = true;
            tracing::warn!(node = beat.url, ?ahead, "clocks of two nodes differ: synchronize them with NTP");
        }

        let session = beat.session;
        let chain = hex::decode(&beat.chain).map(ChainHash);
        let is_same = chain.and_then(|chain| self.log.compare(beat.sequence, chain));
        self.presence.hear(beat, now_micros);
        if let Some(is_same) = is_same {
            self.presence.note_agreement(session, is_same);
        }
        if self.log.state().is_ok() && self.presence.is_outvoted() {
            self.log.stop_as_diverged("most other nodes have another log");
        }
    }
}
