//! Metrics of a node of a cluster. Services that run alone do not show them.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::LabelPairs;
use super::gauges::gauge_with_value;

/// Outcomes of groups.
const GROUP_OUTCOMES: [&str; 2] = ["decided", "void"];
/// Outcomes of appends, in the order of [`AppendOutcome`].
const APPEND_OUTCOMES: [&str; 4] = ["admitted", "conflict", "claimed", "overtaken"];

/// Buckets from 0.5 ms, three servers in one rack, to 16 s, the election of a leader.
fn group_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_5, 2.0, 16))
}

/// Metrics of a node about the shared log. Clones share their values.
#[derive(Debug, Clone)]
pub struct ClusterMetrics {
    groups: Family<LabelPairs<1>, Counter>,
    group_bytes: Counter,
    appends: Family<LabelPairs<1>, Counter>,
    sends: Counter,
    group_seconds: Histogram,
}

impl Default for ClusterMetrics {
    fn default() -> Self {
        let metrics = Self {
            groups: Family::default(),
            group_bytes: Counter::default(),
            appends: Family::default(),
            sends: Counter::default(),
            group_seconds: group_seconds(),
        };
        for outcome in GROUP_OUTCOMES {
            drop(metrics.groups.get_or_create(&[("outcome", outcome)]));
        }
        for outcome in APPEND_OUTCOMES {
            drop(metrics.appends.get_or_create(&[("outcome", outcome)]));
        }
        metrics
    }
}

/// Outcome of an append to the shared log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendOutcome {
    Admitted,
    /// Its stream had another version.
    Conflict,
    /// Its idempotency key was used.
    Claimed,
    /// A condition on other streams no longer held.
    Overtaken,
}

impl AppendOutcome {
    fn label(self) -> &'static str {
        APPEND_OUTCOMES[self as usize]
    }
}

impl ClusterMetrics {
    /// Counts an applied group of any node, by its size in bytes.
    pub fn count_group(&self, bytes: usize, is_void: bool) {
        let [decided, void] = GROUP_OUTCOMES;
        self.groups.get_or_create(&[("outcome", if is_void { void } else { decided })]).inc();
        self.group_bytes.inc_by(bytes as u64);
    }

    /// Counts an append in a group of any node.
    pub fn count_append(&self, outcome: AppendOutcome) {
        self.appends.get_or_create(&[("outcome", outcome.label())]).inc();
    }

    /// Counts one attempt to send a group of this node.
    pub fn count_send(&self) {
        self.sends.inc();
    }

    /// Counts a group of this node that was applied; `elapsed` since it was first sent.
    pub fn observe_group(&self, elapsed: Duration) {
        self.group_seconds.observe(elapsed.as_secs_f64());
    }
}

/// The cluster as a node sees it at a scrape.
#[derive(Debug, Clone, Default)]
pub struct ClusterReadings {
    pub counted: ClusterMetrics,
    /// Last group of the engine that this node has applied.
    pub sequence: u64,
    /// Groups that another node has applied and this one has not.
    pub groups_behind: u64,
    pub engine_silence: Duration,
    /// Nodes that are present, this one included.
    pub nodes: usize,
    /// Nodes that have another log than this one.
    pub nodes_differing: usize,
    /// Largest difference between the clocks of this node and another one.
    pub clock_offset: Duration,
    pub is_owner: bool,
    /// `true` if this node applies no more groups.
    pub is_stopped: bool,
    /// Connections to the engine that were lost.
    pub connections_lost: u64,
    /// Groups that a server of the engine did not have.
    pub groups_missing: u64,
}

impl ClusterReadings {
    pub(super) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("cluster");
        self.register_counts(registry);

        let mut add_gauge = |name: &str, help: &str, value: u64| registry.register(name, help, gauge_with_value(value));
        add_gauge("sequence", "Last group of the engine that this node has applied", self.sequence);
        add_gauge(
            "groups_behind",
            "Groups that another node has applied and this one has not, by its last report",
            self.groups_behind,
        );
        add_gauge("nodes", "Nodes heard in the last 3 s, this one included", self.nodes as u64);
        add_gauge("nodes_differing", "Nodes whose log differs from that of this node", self.nodes_differing as u64);
        add_gauge(
            "owner",
            "1 if this node does the work that is not shared: videos, jobs of remote vendors, removal of files",
            u64::from(self.is_owner),
        );
        add_gauge("stopped", "1 if this node applies no more groups until it is repaired", u64::from(self.is_stopped));

        let mut add_seconds = |name: &str, help: &str, value: Duration| {
            let gauge = Gauge::<f64, AtomicU64>::default();
            gauge.set(value.as_secs_f64());
            registry.register_with_unit(name, help, Unit::Seconds, gauge);
        };
        add_seconds("engine_silence", "Time since the engine responded", self.engine_silence);
        add_seconds(
            "clock_offset",
            "Largest difference between the clocks of this node and another one",
            self.clock_offset,
        );
    }

    fn register_counts(&self, registry: &mut Registry) {
        let ClusterMetrics { groups, group_bytes, appends, sends, group_seconds } = self.counted.clone();
        let help = "Applied groups of all nodes: `decided`, or `void` if they appeared before";
        registry.register("groups", help, groups);
        registry.register_with_unit("group", "Size of the applied groups", Unit::Bytes, group_bytes);
        let help = "Appends in the applied groups: `admitted`, or refused by the version of their stream (`conflict`), an \
                    idempotency key (`claimed`) or a rule about other streams (`overtaken`). The node that sent a refused \
                    one decides again";
        registry.register("appends", help, appends);
        registry.register("group_sends", "Attempts to send a group of this node", sends);
        let help = "Time from the first attempt to send a group of this node until it was applied";
        registry.register_with_unit("group_duration", help, Unit::Seconds, group_seconds);

        let mut add_counter = |name: &str, help: &str, value: u64| {
            let counter = Counter::<u64>::default();
            counter.inc_by(value);
            registry.register(name, help, counter);
        };
        add_counter("connections_lost", "Lost connections to the engine", self.connections_lost);
        add_counter("groups_missing", "Groups that a server of the engine did not have", self.groups_missing);
    }
}
