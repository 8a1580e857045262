//! `GET /admin/state`: the state of the log, the queues, the storage and the vendors, for operators.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use uuid::Uuid;

use crate::actors::poller::{VendorDescription, VendorState};
use crate::disk_space::{StorageState, StorageStatus};
use crate::domain::policy::Action;
use crate::domain::task::{Gateway, RecordedVendor};
use crate::domain::value::Timestamp;
use crate::http::pipeline::Call;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::http::server::Services;
use crate::projections::task::{Tasks, VendorTaskCount};

/// State of the log and of the startup, as seen by the composition root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogProbe {
    /// Position of the last event.
    pub head: u64,
    /// Position up to which the index of the log has followed the journal.
    pub indexed: u64,
    /// Appends waiting for the writer.
    pub queued_appends: usize,
    /// Repairs of the startup, one sentence each.
    pub repairs: Vec<String>,
    /// Start time of the service.
    pub started_at: Timestamp,
    /// Size of the index on disk in bytes, if known.
    pub index_bytes: Option<u64>,
    /// Position up to which the end of the journal is signed.
    pub signed: u64,
    pub verification: VerificationView,
    /// Time that the current commit has been waiting for the disk, or zero.
    pub sync_pending: Duration,
    /// The cluster as this node sees it.
    pub cluster: Option<ClusterView>,
}

/// A cluster as one of its nodes sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClusterView {
    /// Id of this run of the node.
    pub session: Uuid,
    /// Number of the generation of the log.
    pub generation: u64,
    /// Last group of its stream that this node has applied.
    pub sequence: u64,
    /// Time since the engine responded, in milliseconds.
    pub engine_silence_ms: u64,
    /// Connections to the engine that were lost since the start.
    pub connections_lost: u64,
    /// Groups that were missing on a server of the engine although it had later ones, counted since the start.
    pub groups_missing: u64,
    /// `true` if this node applies no more groups. It then answers only probes and metrics.
    #[serde(skip)]
    pub is_stopped: bool,
    /// Nodes heard in the last 10 minutes, the longest running first.
    pub nodes: Vec<ClusterNodeView>,
}

/// A node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClusterNodeView {
    pub session: Uuid,
    pub url: String,
    pub release: String,
    pub started_at: String,
    /// Position of the last event that it had applied when it was last heard.
    pub position: u64,
    /// Last group that it had applied when it was last heard.
    pub sequence: u64,
    /// `false` if it has not been heard for some seconds.
    pub present: bool,
    /// `true` if its log has other events than that of this node.
    pub differs: bool,
    /// `true` if it owns the work that only one node does.
    pub owner: bool,
    /// Time since it was heard, in milliseconds.
    pub silence_ms: u64,
    /// Offset of its clock from that of this node, in milliseconds.
    pub clock_offset_ms: i64,
}

/// Reads the cluster as this node sees it now.
pub type ClusterViewer = Arc<dyn Fn() -> ClusterView + Send + Sync>;

/// Progress and result of the verification of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerificationView {
    pub state: LogVerificationState,
    /// Position up to which all events were verified; 0 if none.
    pub position: u64,
    /// Position at which the verification ends: the last event at startup.
    pub until: u64,
    /// Time of the last state change.
    pub since: String,
    /// Description of the damage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Result of the verification of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogVerificationState {
    /// Running; events after the reported position are not verified yet.
    Checking,
    /// All events present at startup are valid.
    Sound,
    Damaged,
    /// This start created the log; none of it was read back yet.
    Unverified,
}

impl LogVerificationState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Checking, Self::Sound, Self::Damaged, Self::Unverified];

    /// Returns the name in responses.
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

/// Reads the current state.
pub type LogProber = Arc<dyn Fn() -> LogProbe + Send + Sync>;

#[derive(Serialize)]
struct StateView {
    log: LogView,
    verification: VerificationView,
    /// Position of the read models.
    read_models: PositionView,
    /// Position of the log index, which follows the journal.
    index: PositionView,
    queues: QueuesView,
    storage: StorageView,
    /// Circuit state of each vendor.
    vendors: Vec<VendorView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterView>,
    start: StartView,
}

#[derive(Serialize)]
struct LogView {
    head: u64,
    /// Position up to which the end of the journal is signed.
    signed: u64,
}

#[derive(Serialize)]
struct PositionView {
    position: u64,
    /// Number of events not applied yet.
    lag: u64,
}

#[derive(Serialize)]
struct QueuesView {
    /// Changes waiting to become durable.
    appends: usize,
    /// Media tasks that have not ended.
    tasks: usize,
    /// Pending webhook deliveries.
    deliveries: usize,
}

#[derive(Serialize)]
struct StorageView {
    state: StorageStatus,
    /// Reason why changes are rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_bytes: Option<u64>,
    reserve_bytes: u64,
}

#[derive(Serialize)]
struct VendorView {
    name: String,
    profile: String,
    /// `image`, `video` or `music`.
    medium: &'static str,
    /// Circuit breaker state: `closed` (calls go through), `open` (no calls for a while), `half_open` (one trial call),
    /// `held` (no calls until the time the vendor asked for).
    circuit: &'static str,
    slots: VendorSlotsView,
    /// Unfinished tasks that the vendor has, or may have.
    tasks: usize,
}

/// Slots of a vendor.
#[derive(Serialize)]
struct VendorSlotsView {
    used: usize,
    /// `null`: any number.
    total: Option<usize>,
}

#[derive(Serialize)]
struct StartView {
    at: String,
    mended: Vec<String>,
}

/// Names of the storage states in responses.
pub const STORAGE_STATES: [&str; 3] = {
    let [one, two, three] = StorageStatus::ALL;
    [one.name(), two.name(), three.name()]
};
/// Names of the verification states in responses.
pub const VERIFICATION_STATES: [&str; 4] = {
    let [one, two, three, four] = LogVerificationState::ALL;
    [one.name(), two.name(), three.name(), four.name()]
};

/// State of the service at one time.
pub(in crate::http) struct ServiceSnapshot {
    /// Position of the read models.
    pub read_models: u64,
    pub tasks: usize,
    /// Unfinished tasks of each vendor, in the order of `OperationServices::vendors`.
    pub vendor_tasks: Vec<VendorTaskCount>,
    pub deliveries: usize,
    pub probe: LogProbe,
    pub storage: StorageState,
}

impl ServiceSnapshot {
    /// Reads the current state. The read models are read first, so that the log is never behind them.
    pub(in crate::http) fn read(services: &Services) -> Self {
        let (read_models, tasks, deliveries, vendor_tasks) = {
            let models = services.models.read();
            let vendor_tasks = count_vendor_tasks(&models.tasks, &services.operations.vendors);
            (models.position.0, models.tasks.unfinished_count(), models.deliveries.pending_count(), vendor_tasks)
        };

        let probe = (services.operations.prober)();
        let storage = (services.operations.storage)();
        Self { read_models, tasks, vendor_tasks, deliveries, probe, storage }
    }
}

/// Counts the unfinished tasks of each vendor.
fn count_vendor_tasks(tasks: &Tasks, vendors: &[VendorState]) -> Vec<VendorTaskCount> {
    let mut by_gateway = HashMap::new();
    for vendor in vendors {
        let gateway = vendor.description().gateway;
        by_gateway.entry(gateway).or_insert_with(|| tasks.count_by_vendor(gateway));
    }

    let count = |description: &VendorDescription| {
        // Music of the built-in engine is recorded without a vendor.
        if description.gateway == Gateway::Music && &*description.profile == RecordedVendor::BUILT_IN_PROFILE {
            let streams = tasks.built_in_stream_count();
            return Some(VendorTaskCount { tasks: streams, in_slots: streams });
        }
        let counts: &HashMap<String, VendorTaskCount> = by_gateway.get(&description.gateway)?;
        counts.get(&*description.name).copied()
    };
    vendors.iter().map(|vendor| count(vendor.description()).unwrap_or_default()).collect()
}

/// `GET /admin/state`.
pub(in crate::http) async fn show(call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let services = call.services();
    let ServiceSnapshot { read_models, tasks, vendor_tasks, deliveries, probe, storage } =
        ServiceSnapshot::read(services);
    let LogProbe {
        head,
        indexed,
        queued_appends,
        repairs,
        started_at,
        index_bytes: _,
        signed,
        verification,
        sync_pending: _,
        cluster,
    } = probe;
    let StorageState { state, reason, free_bytes, reserve_bytes } = storage;

    let vendors = services.operations.vendors.iter().zip(vendor_tasks).map(|(vendor, count)| {
        let VendorDescription { name, profile, gateway, slots } = vendor.description();
        VendorView {
            name: name.to_string(),
            profile: profile.to_string(),
            medium: gateway.name(),
            circuit: vendor.circuit().name(),
            slots: VendorSlotsView { used: count.in_slots, total: *slots },
            tasks: count.tasks,
        }
    });
    let vendors = vendors.collect();
    let position_view = |position: u64| PositionView { position, lag: head.saturating_sub(position) };

    ApiResponse::ok(&StateView {
        log: LogView { head, signed },
        verification,
        read_models: position_view(read_models),
        index: position_view(indexed),
        queues: QueuesView { appends: queued_appends, tasks, deliveries },
        storage: StorageView { state, reason, free_bytes, reserve_bytes },
        vendors,
        cluster,
        start: StartView { at: started_at.to_string(), mended: repairs },
    })
}
