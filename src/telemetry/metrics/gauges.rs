//! Gauges read at each scrape.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::cluster::ClusterReadings;
use super::{LabelPairs, VendorLabels};

/// Values of the gauges at a scrape.
#[derive(Debug, Clone, Default)]
pub struct GaugeReadings {
    /// Position of the last event.
    pub log_position: u64,
    /// The position of the read models.
    pub read_models_position: u64,
    /// The position of sled, the index of the log.
    pub index_position: u64,
    /// Size of sled on disk.
    pub index_bytes: Option<u64>,
    /// Length of each queue.
    pub queues: Vec<(&'static str, u64)>,
    /// Result of verifying the log.
    pub verification: StateGauge,
    /// Position up to which the log was verified since the start.
    pub verified_position: u64,
    pub storage: StateGauge,
    /// `true` if the service is ready.
    pub is_ready: bool,
    /// Age of the journal sync in progress, or zero without one.
    pub sync_pending: Duration,
    /// Free bytes on the disk.
    pub free_bytes: Option<u64>,
    /// Reserved disk space in bytes.
    pub reserve_bytes: u64,
    /// Circuit breaker states by vendor.
    pub circuits: Vec<(Arc<str>, StateGauge)>,
    /// Unfinished tasks by vendor.
    pub vendor_tasks: Vec<(Arc<str>, u64)>,
    /// The cluster, if the service is a node of one.
    pub cluster: Option<ClusterReadings>,
    /// Resident memory of the process, in bytes.
    pub resident_bytes: Option<u64>,
    /// Start time of the service, in seconds since 1970.
    pub started_at_seconds: u64,
}

/// One of several states.
#[derive(Debug, Clone, Default)]
pub struct StateGauge {
    /// All possible states.
    pub all: &'static [&'static str],
    /// The current state.
    pub current: &'static str,
}

impl GaugeReadings {
    pub(super) fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix("mediary");

        let mut add_gauge = |name: &str, help: &str, value: u64| {
            registry.register(name, help, gauge_with_value(value));
        };

        add_gauge("log_position", "Position of the last event", self.log_position);
        add_gauge(
            "read_models_position",
            "Position of the last event that the read models contain",
            self.read_models_position,
        );
        add_gauge(
            "read_models_lag_events",
            "Events not yet applied to the read models",
            self.log_position.saturating_sub(self.read_models_position),
        );
        add_gauge(
            "index_position",
            "Position of the last event that the index (sled) contains; it restarts at 0 when it is rebuilt",
            self.index_position,
        );
        add_gauge(
            "index_lag_events",
            "Events not yet applied to the index (sled)",
            self.log_position.saturating_sub(self.index_position),
        );
        add_gauge(
            "verified_position",
            "Position up to which the log has been verified since the start",
            self.verified_position,
        );
        add_gauge("ready", "1 if `/ready` answers 200", u64::from(self.is_ready));
        add_gauge("storage_reserve_bytes", "Reserved disk space, `storage.reserve_mib`, in bytes", self.reserve_bytes);
        add_gauge("start_time_seconds", "Start time of the service in seconds since 1970", self.started_at_seconds);

        for (name, help, value) in [
            (
                "index_bytes",
                "Size of the index (sled) on disk; 0 in a young log, because sled writes segments of 8 MiB",
                self.index_bytes,
            ),
            ("storage_free_bytes", "Free bytes on the fullest file system of the data directory", self.free_bytes),
            ("process_resident_memory_bytes", "Resident memory of the process in bytes", self.resident_bytes),
        ] {
            if let Some(value) = value {
                add_gauge(name, help, value);
            }
        }

        let queues = Family::<LabelPairs<1>, Gauge>::default();
        for (queue, length) in &self.queues {
            queues.get_or_create(&[("queue", queue)]).set(to_i64(*length));
        }
        let help = "Queue lengths. `appends`: writes waiting; `tasks`: unfinished tasks; `deliveries`: webhooks to be delivered";
        registry.register("queue", help, queues);

        let help = "1 for the current state of the log verification: `checking`, `sound`, `damaged`, `unverified`";
        let verification = state_family(&self.verification);
        registry.register("verification_state", help, verification);

        let pending = Gauge::<f64, AtomicU64>::default();
        pending.set(self.sync_pending.as_secs_f64());
        let help = "Duration of the disk sync in progress, else 0. The only metric that shows a hanging disk";
        registry.register_with_unit("journal_sync_pending", help, Unit::Seconds, pending);

        let help = "1 for the current storage state: `ok`, `full`, `read_only`";
        registry.register("storage_state", help, state_family(&self.storage));

        let circuits = Family::<VendorLabels<2>, Gauge>::default();
        for (vendor, state) in &self.circuits {
            for name in state.all {
                let labels = [("vendor", Cow::Owned(vendor.to_string())), ("state", Cow::Borrowed(*name))];
                circuits.get_or_create(&labels).set(i64::from(*name == state.current));
            }
        }
        let help = "1 for the current circuit breaker state of a vendor: `closed` (calls are made), `open` (paused), \
                    `half_open` (one trial call), `held` (the vendor asked for a pause)";
        registry.register("vendor_circuit", help, circuits);

        let vendor_tasks = Family::<VendorLabels<1>, Gauge>::default();
        for (vendor, tasks) in &self.vendor_tasks {
            let labels = [("vendor", Cow::Owned(vendor.to_string()))];
            vendor_tasks.get_or_create(&labels).set(to_i64(*tasks));
        }
        registry.register("vendor_tasks", "Unfinished tasks that a vendor has, or may have", vendor_tasks);

        if let Some(cluster) = &self.cluster {
            cluster.register(&mut registry);
        }

        let build: LabelPairs<2> = [("version", env!("CARGO_PKG_VERSION")), ("commit", env!("BUILD_COMMIT"))];
        registry.register(
            "build",
            "Version and commit of the service",
            prometheus_client::metrics::info::Info::new(build),
        );
        registry
    }
}

pub(super) fn gauge_with_value(value: u64) -> Gauge {
    let gauge = Gauge::default();
    gauge.set(to_i64(value));
    gauge
}

/// Converts to the signed type of a gauge. No value here comes near the maximum.
fn to_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn state_family(state: &StateGauge) -> Family<LabelPairs<1>, Gauge> {
    let family = Family::<LabelPairs<1>, Gauge>::default();
    for name in state.all {
        family.get_or_create(&[("state", name)]).set(i64::from(*name == state.current));
    }
    family
}
