//! Every metric, named once: what is counted while the service works, and what is looked at when somebody asks.
//!
//! Nothing of what a caller sends becomes a label, so their number is bounded by the program: routes, statuses, kinds of events.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// The media type of [`Metrics::told`].
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the route of a request is called that none fits.
const UNMATCHED: &str = "unmatched";

/// From a tenth of a millisecond to 13 s: reads of pages lie at its beginning, uploads at its end.
fn request_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 18))
}

/// From 32 µs, which is a disk that promises too much, to 1 s, which is one that stalls.
fn sync_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_032, 2.0, 16))
}

type Labels<const N: usize> = [(&'static str, &'static str); N];

/// The metrics of one service. Clones count together.
#[derive(Clone)]
pub struct Metrics(Arc<Counted>);

struct Counted {
    /// What is counted.
    registry: Registry,
    requests: Family<(Labels<2>, StatusLabel), Counter>,
    seconds: Family<Labels<2>, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    refused: Family<Labels<1>, Counter>,
    spans: Family<Labels<1>, Counter>,
    events: Family<Labels<1>, Counter>,
    failures: Family<Labels<2>, Counter>,
    syncs: Histogram,
}

/// The label of a status.
#[derive(Debug, Clone, PartialEq, Eq, Hash, prometheus_client::encoding::EncodeLabelSet)]
struct StatusLabel {
    /// 0 of a request whose caller went away before it was answered.
    status: u16,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("mediary");
        let (requests, in_flight, events) = (Family::default(), Gauge::default(), Family::default());
        let seconds: Family<_, _, fn() -> Histogram> = Family::new_with_constructor(request_seconds);
        let syncs = sync_seconds();
        registry.register(
            "http_requests",
            "Requests by route, method and status; status 0: the caller went away first",
            Family::clone(&requests),
        );
        registry.register_with_unit(
            "http_request_duration",
            "From the head of a request to the head of its answer, with the body of the request",
            Unit::Seconds,
            seconds.clone(),
        );
        registry.register("http_requests_in_flight", "Requests that are being answered", in_flight.clone());
        let refused = Family::default();
        registry.register(
            "limit_refusals",
            "Requests that were answered 429, by the limit that they came up against",
            Family::clone(&refused),
        );
        let spans = Family::default();
        registry.register(
            "spans",
            "Spans of traces: sent to the collector, lost because it did not take them, dropped because too many waited",
            Family::clone(&spans),
        );
        registry.register("events", "Events recorded since the start, by name", Family::clone(&events));
        let failures = Family::default();
        registry.register(
            "task_failures",
            "Tasks that failed since the start, by kind and code; what this program has no name for is `other`",
            Family::clone(&failures),
        );
        registry.register_with_unit(
            "journal_sync_duration",
            "How long the disk takes to confirm a group of changes",
            Unit::Seconds,
            syncs.clone(),
        );
        Self(Arc::new(Counted { registry, requests, seconds, in_flight, refused, spans, events, failures, syncs }))
    }
}

impl Metrics {
    /// A request has come for this route; it is counted when the meter is dropped.
    #[must_use]
    pub fn request(&self, method: &'static str, route: &'static str) -> Meter {
        self.0.in_flight.inc();
        Meter {
            metrics: self.clone(),
            labels: [("method", method), ("route", route)],
            begun: Instant::now(),
            status: 0,
        }
    }

    /// A request was refused because no route, or no method of one, fits.
    pub fn unmatched(&self, status: u16) {
        self.answered([("method", "any"), ("route", UNMATCHED)], status);
    }

    /// A request was refused because its caller asked for too much.
    pub fn refused(&self, limit: &'static str) {
        self.0.refused.get_or_create(&[("limit", limit)]).inc();
    }

    /// Spans came to an end of this kind.
    pub fn spans(&self, outcome: &'static str, spans: u64) {
        self.0.spans.get_or_create(&[("outcome", outcome)]).inc_by(spans);
    }

    /// An event was recorded.
    pub fn recorded(&self, name: &'static str) {
        self.0.events.get_or_create(&[("event", name)]).inc();
    }

    /// A task of this kind has failed.
    pub fn failed(&self, kind: &'static str, code: Option<&'static str>) {
        self.0.failures.get_or_create(&[("kind", kind), ("code", code.unwrap_or("other"))]).inc();
    }

    /// A group of the journal was synced.
    pub fn synced(&self, took: Duration) {
        self.0.syncs.observe(took.as_secs_f64());
    }

    /// Everything in the text format of `OpenMetrics`, with what is looked at now.
    #[must_use]
    pub fn told(&self, looked: &Looked) -> String {
        let mut text = String::new();
        let told = encode_registry(&mut text, &self.0.registry)
            .and_then(|()| encode_registry(&mut text, &looked.registry()))
            .and_then(|()| encode_eof(&mut text));
        // Writing to a string does not fail.
        told.map_or_else(|fmt::Error| String::new(), |()| text)
    }

    fn answered(&self, labels: Labels<2>, status: u16) {
        self.0.requests.get_or_create(&(labels, StatusLabel { status })).inc();
    }
}

/// A request that is being answered.
pub struct Meter {
    metrics: Metrics,
    labels: Labels<2>,
    begun: Instant,
    status: u16,
}

impl Meter {
    /// It is answered with this status.
    pub fn answer(mut self, status: u16) {
        self.status = status;
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.metrics.0.in_flight.dec();
        self.metrics.answered(self.labels, self.status);
        if self.status > 0 {
            self.metrics.0.seconds.get_or_create(&self.labels).observe(self.begun.elapsed().as_secs_f64());
        }
    }
}

/// What is looked at when somebody asks.
#[derive(Debug, Clone, Default)]
pub struct Looked {
    /// The position of the last event.
    pub head: u64,
    /// How far lists and reads are.
    pub read_models: u64,
    /// How far the index of the log is.
    pub index: u64,
    /// Bytes of the index on the disk.
    pub index_bytes: Option<u64>,
    /// What waits, by queue.
    pub queues: Vec<(&'static str, u64)>,
    /// What came of verifying the log.
    pub verification: State,
    /// Up to where the log was verified since the start.
    pub verified: u64,
    pub storage: State,
    /// Bytes of the disk that are free.
    pub free_bytes: Option<u64>,
    /// Bytes of the disk that are kept free.
    pub reserve_bytes: u64,
    /// The circuits of vendors, by name.
    pub circuits: Vec<(&'static str, State)>,
    /// Bytes of memory that the process has.
    pub resident_bytes: Option<u64>,
    /// Seconds since 1970 at which the service started.
    pub started_at_seconds: u64,
}

/// One of several states.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// All that there are.
    pub all: &'static [&'static str],
    /// The one that is the case.
    pub is: &'static str,
}

impl Looked {
    fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix("mediary");
        let mut tell = |name: &str, help: &str, value: u64| {
            registry.register(name, help, of(value));
        };
        tell("log_position", "The position of the last event", self.head);
        tell("read_models_position", "The position that lists and reads show", self.read_models);
        tell(
            "read_models_lag_events",
            "Events that lists and reads do not show yet",
            self.head.saturating_sub(self.read_models),
        );
        tell("index_position", "The position that the index of the log has reached", self.index);
        tell(
            "index_lag_events",
            "Events that the index of the log does not have yet",
            self.head.saturating_sub(self.index),
        );
        tell("verified_position", "The position up to which the log was verified since the start", self.verified);
        tell("storage_reserve_bytes", "Bytes of the disk that are kept free", self.reserve_bytes);
        tell("start_time_seconds", "When the service started, in seconds since 1970", self.started_at_seconds);
        for (name, help, value) in [
            ("index_bytes", "Size of the index of the log (sled)", self.index_bytes),
            ("storage_free_bytes", "Bytes that are free where the data directory is", self.free_bytes),
            ("process_resident_memory_bytes", "Memory of the process", self.resident_bytes),
        ] {
            if let Some(value) = value {
                tell(name, help, value);
            }
        }
        let queues = Family::<Labels<1>, Gauge>::default();
        for (queue, waiting) in &self.queues {
            queues.get_or_create(&[("queue", queue)]).set(signed(*waiting));
        }
        registry.register(
            "queue",
            "What waits: changes to be written, tasks that have not ended, callbacks to be made",
            queues,
        );
        let (about, verification) = ("1 for what came of verifying the log", states(&self.verification));
        registry.register("verification_state", about, verification);
        registry.register("storage_state", "1 for the state that the storage is in", states(&self.storage));
        let circuits = Family::<Labels<2>, Gauge>::default();
        for (vendor, state) in &self.circuits {
            for name in state.all {
                circuits.get_or_create(&[("vendor", vendor), ("state", name)]).set(i64::from(*name == state.is));
            }
        }
        registry.register("vendor_circuit", "1 for the state that the circuit of a vendor is in", circuits);
        let version: Labels<1> = [("version", env!("CARGO_PKG_VERSION"))];
        registry.register("build", "The program", prometheus_client::metrics::info::Info::new(version));
        registry
    }
}

fn of(value: u64) -> Gauge {
    let gauge = Gauge::default();
    gauge.set(signed(value));
    gauge
}

/// A gauge is signed; nothing here comes near its end.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn states(state: &State) -> Family<Labels<1>, Gauge> {
    let family = Family::<Labels<1>, Gauge>::default();
    for name in state.all {
        family.get_or_create(&[("state", name)]).set(i64::from(*name == state.is));
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(metrics: &Metrics, looked: &Looked) -> Vec<String> {
        metrics.told(looked).lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn requests_are_counted_once_by_route_and_status_also_those_that_nobody_waits_for() {
        let metrics = Metrics::default();
        let open = metrics.request("GET", "/nodes");
        metrics.request("GET", "/nodes").answer(200);
        metrics.request("POST", "/nodes/{node_id}/reviews").answer(503);
        drop(metrics.request("GET", "/nodes"));
        metrics.unmatched(404);

        let told = lines(&metrics, &Looked::default());
        for line in [
            "mediary_http_requests_total{method=\"GET\",route=\"/nodes\",status=\"200\"} 1",
            "mediary_http_requests_total{method=\"GET\",route=\"/nodes\",status=\"0\"} 1",
            "mediary_http_requests_total{method=\"POST\",route=\"/nodes/{node_id}/reviews\",status=\"503\"} 1",
            "mediary_http_requests_total{method=\"any\",route=\"unmatched\",status=\"404\"} 1",
            "mediary_http_request_duration_seconds_count{method=\"GET\",route=\"/nodes\"} 1",
            "mediary_http_requests_in_flight 1",
        ] {
            assert!(told.iter().any(|told| told == line), "{line} is missing in {told:#?}");
        }
        drop(open);
        assert!(lines(&metrics, &Looked::default()).contains(&"mediary_http_requests_in_flight 0".to_owned()));
    }

    #[test]
    fn tasks_that_failed_are_counted_by_kind_and_code() {
        let metrics = Metrics::default();
        for code in [Some("vendor_lost"), None, Some("vendor_lost")] {
            metrics.failed("extend", code);
        }
        let told = lines(&metrics, &Looked::default());
        for (code, count) in [("vendor_lost", 2), ("other", 1)] {
            let line = format!("mediary_task_failures_total{{kind=\"extend\",code=\"{code}\"}} {count}");
            assert!(told.contains(&line), "{line} is missing in {told:#?}");
        }
    }

    #[test]
    fn a_sync_is_found_in_the_bucket_of_its_length() {
        let metrics = Metrics::default();
        metrics.synced(Duration::from_micros(150));
        let told = lines(&metrics, &Looked::default());
        let bucket = |bound: &str| format!("mediary_journal_sync_duration_seconds_bucket{{le=\"{bound}\"}}");
        assert!(told.contains(&format!("{} 0", bucket("0.000128"))), "{told:#?}");
        assert!(told.contains(&format!("{} 1", bucket("0.000256"))), "{told:#?}");
    }

    #[test]
    fn of_several_states_one_is_the_case_and_lags_are_what_is_missing() {
        const STATES: &[&str] = &["closed", "open"];
        let circuits = vec![("imagevendor", State { all: STATES, is: "open" })];
        let looked = Looked { head: 10, read_models: 10, index: 7, circuits, ..Looked::default() };
        let told = lines(&Metrics::default(), &looked);
        for line in [
            "mediary_vendor_circuit{vendor=\"imagevendor\",state=\"open\"} 1",
            "mediary_vendor_circuit{vendor=\"imagevendor\",state=\"closed\"} 0",
            "mediary_index_lag_events 3",
            "mediary_read_models_lag_events 0",
        ] {
            assert!(told.iter().any(|told| told == line), "{line} is missing in {told:#?}");
        }
        assert!(!told.iter().any(|line| line.contains("index_bytes")), "what is not known is not told");
    }
}
