//! `GET /admin/state`: how far everything is, for operators.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::answer::Answer;
use super::error::Problem;
use super::gate::Call;
use super::server::Services;
use crate::domain::policy::Action;
use crate::domain::value::Timestamp;
use crate::space::{StorageKind, StorageState};

/// What only the composition root can see of the log and of the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The position of the last event.
    pub head: u64,
    /// How far the index of the log has followed the journal.
    pub indexed: u64,
    /// Appends that wait for the writer.
    pub waiting: usize,
    /// What the start found and mended, a sentence each.
    pub mended: Vec<String>,
    /// When the service started.
    pub started_at: Timestamp,
    /// Bytes of the index on the disk, where that is known.
    pub index_bytes: Option<u64>,
    /// Up to where the end of the journal is signed.
    pub signed: u64,
    pub verification: Verification,
    /// How long the disk has been at the group of changes that it was given; zero when it is at none.
    pub sync_pending: Duration,
}

/// What was verified of the log, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verification {
    pub state: VerificationKind,
    /// Up to where everything was read and found sound; 0: nothing as yet.
    pub position: u64,
    /// Where the verification ends: the last event at the start.
    pub until: u64,
    /// Since when the state is what it is.
    pub since: String,
    /// What is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What came of verifying the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerificationKind {
    /// It is under way: what lies after its position is not verified yet.
    Checking,
    /// Everything that was there at the start is sound.
    Sound,
    Damaged,
    /// This start began the log: nothing of it was read back yet.
    Unverified,
}

impl VerificationKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Checking, Self::Sound, Self::Damaged, Self::Unverified];

    /// As it is shown.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Checking => "checking",
            Self::Sound => "sound",
            Self::Damaged => "damaged",
            Self::Unverified => "unverified",
        }
    }
}

/// Looks now.
pub type Prober = Arc<dyn Fn() -> Probe + Send + Sync>;

#[derive(Serialize)]
struct StateView {
    log: LogView,
    verification: Verification,
    /// What lists and reads are answered from.
    read_models: ReachView,
    /// The index of the log behind the journal.
    index: ReachView,
    queues: QueuesView,
    storage: StorageView,
    /// Who makes media.
    vendors: Vec<VendorView>,
    start: StartView,
}

#[derive(Serialize)]
struct LogView {
    head: u64,
    /// Up to where the end of the journal is signed.
    signed: u64,
}

#[derive(Serialize)]
struct ReachView {
    position: u64,
    /// How many events are still to come.
    lag: u64,
}

#[derive(Serialize)]
struct QueuesView {
    /// Changes that wait to be made durable.
    appends: usize,
    /// Media tasks that have not ended.
    tasks: usize,
    /// Callbacks that are still to be made.
    deliveries: usize,
}

#[derive(Serialize)]
struct StorageView {
    state: StorageKind,
    /// Why no change is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_bytes: Option<u64>,
    reserve_bytes: u64,
}

#[derive(Serialize)]
struct VendorView {
    name: &'static str,
    /// Whether calls are made: closed, yes; open, not for a while; half open, one, to see; held, not before the vendor wants them.
    circuit: &'static str,
}

#[derive(Serialize)]
struct StartView {
    at: String,
    mended: Vec<String>,
}

/// States of the storage, as they are shown.
pub const STORAGE_STATES: [&str; 3] = ["ok", "full", "read_only"];
/// States of the verification, as they are shown.
pub const VERIFICATION_STATES: [&str; 4] = {
    let [one, two, three, four] = VerificationKind::ALL;
    [one.name(), two.name(), three.name(), four.name()]
};

/// What can be seen of the service at one time.
pub(super) struct Seen {
    /// The position that lists and reads show.
    pub read_models: u64,
    pub tasks: usize,
    pub deliveries: usize,
    pub probe: Probe,
    pub storage: StorageState,
}

impl Seen {
    /// Looks now. Read models first: the log is never behind them.
    pub(super) fn now(services: &Services) -> Self {
        let (read_models, tasks, deliveries) = {
            let models = services.models.read();
            (models.position.0, models.tasks.unfinished_count(), models.deliveries.pending())
        };
        Self { read_models, tasks, deliveries, probe: (services.prober)(), storage: (services.storage)() }
    }
}

/// `GET /admin/state`.
pub(super) async fn show(call: Call<{ Action::Administer as u8 }>) -> Result<Answer, Problem> {
    let services = call.services();
    let Seen { read_models, tasks, deliveries, probe, storage } = Seen::now(services);
    let Probe { head, indexed, waiting, mended, started_at, index_bytes: _, signed, verification, sync_pending: _ } =
        probe;
    let StorageState { state, reason, free_bytes, reserve_bytes } = storage;
    let vendors = services.vendors.iter();
    let vendors = vendors.map(|vendor| VendorView { name: vendor.name, circuit: vendor.circuit().name() }).collect();
    let reach = |position: u64| ReachView { position, lag: head.saturating_sub(position) };
    Answer::ok(&StateView {
        log: LogView { head, signed },
        verification,
        read_models: reach(read_models),
        index: reach(indexed),
        queues: QueuesView { appends: waiting, tasks, deliveries },
        storage: StorageView { state, reason, free_bytes, reserve_bytes },
        vendors,
        start: StartView { at: started_at.to_string(), mended },
    })
}
