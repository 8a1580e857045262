//! All metrics: those counted while the service runs, and gauges read at each scrape.
//!
//! No client input becomes a label, so the number of time series is bounded by the program's routes, statuses and event
//! types. Known series start at 0 ([`KnownSeries`]).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

mod cluster;
mod gauges;
mod zero_init;

pub use cluster::{AppendOutcome, ClusterMetrics, ClusterReadings};
pub use gauges::{GaugeReadings, StateGauge};
pub use zero_init::{CALL_OUTCOMES, KnownSeries, VENDOR_CALLS};

use super::latency::{LatencyCounts, LatencyHistogram};
use zero_init::ISSUER_OUTCOMES;

/// The media type of [`Metrics::render`].
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Route label of requests without a matching route.
const UNMATCHED_ROUTE: &str = "unmatched";
/// Code label of failures with a code that this program does not define.
pub(super) const OTHER_CODE: &str = "other";

/// Smallest bucket of requests, in seconds.
const REQUEST_BUCKET: f64 = 0.0001;
/// Smallest bucket of tasks, in seconds.
const TASK_BUCKET: f64 = 0.05;

/// Buckets from 0.1 ms to 13 s: reads of pages are in the lowest, uploads in the highest.
fn request_seconds() -> Histogram {
    Histogram::new(exponential_buckets(REQUEST_BUCKET, 2.0, 18))
}

/// Buckets from 50 ms to almost two hours: pictures of the built-in engine are in the lowest, videos that wait for a
/// slot in the highest.
fn task_seconds() -> Histogram {
    Histogram::new(exponential_buckets(TASK_BUCKET, 2.0, 18))
}

/// Buckets from 1 ms to 131 s: the built-in engine is in the lowest, downloads of videos in the highest.
fn call_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 18))
}

/// Buckets from 32 µs, a disk that probably does not sync, to 1 s, a disk that stalls.
fn sync_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_032, 2.0, 16))
}

type LabelPairs<const N: usize> = [(&'static str, &'static str); N];
/// Labels with names that the operator chooses.
type VendorLabels<const N: usize> = [(&'static str, Cow<'static, str>); N];

/// Metrics of one service. Clones share their values.
#[derive(Clone)]
pub struct Metrics(Arc<MetricFamilies>);

struct MetricFamilies {
    /// Registry of the counters below.
    registry: Registry,
    requests: Family<(LabelPairs<2>, StatusLabel), Counter>,
    request_seconds: Family<LabelPairs<2>, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    rate_limited: Family<LabelPairs<1>, Counter>,
    spans: Family<LabelPairs<1>, Counter>,
    issuer_fetches: Family<LabelPairs<1>, Counter>,
    events: Family<LabelPairs<1>, Counter>,
    failures: Family<LabelPairs<2>, Counter>,
    task_seconds: Family<LabelPairs<1>, Histogram, fn() -> Histogram>,
    vendor_calls: Family<VendorLabels<3>, Counter>,
    vendor_call_seconds: Family<VendorLabels<2>, Histogram, fn() -> Histogram>,
    sync_seconds: Histogram,
    /// Latencies of all requests and tasks, for the history.
    request_latency: LatencyHistogram,
    task_latency: LatencyHistogram,
}

/// Status label.
#[derive(Debug, Clone, PartialEq, Eq, Hash, prometheus_client::encoding::EncodeLabelSet)]
struct StatusLabel {
    /// 0 if the client disconnected before the response.
    status: u16,
}

impl Default for Metrics {
    fn default() -> Self {
        let families = MetricFamilies {
            registry: Registry::with_prefix("mediary"),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(request_seconds),
            in_flight: Gauge::default(),
            rate_limited: Family::default(),
            spans: Family::default(),
            issuer_fetches: Family::default(),
            events: Family::default(),
            failures: Family::default(),
            task_seconds: Family::new_with_constructor(task_seconds),
            vendor_calls: Family::default(),
            vendor_call_seconds: Family::new_with_constructor(call_seconds),
            sync_seconds: sync_seconds(),
            request_latency: LatencyHistogram::new(REQUEST_BUCKET),
            task_latency: LatencyHistogram::new(TASK_BUCKET),
        };
        Self(Arc::new(families.register_all()))
    }
}

impl MetricFamilies {
    /// Registers all metrics, each with its help text.
    fn register_all(mut self) -> Self {
        let registry = &mut self.registry;
        let help = "Requests. Status 0: the client disconnected before the response. \
                    Route `unmatched`: no such route, or the host or origin was rejected";
        registry.register("http_requests", help, self.requests.clone());

        let help = "Time from the request headers to the response headers, including the request body";
        registry.register_with_unit("http_request_duration", help, Unit::Seconds, self.request_seconds.clone());
        registry.register("http_requests_in_flight", "Requests in progress", self.in_flight.clone());

        let help = "Responses with 429, by error code";
        registry.register("limit_refusals", help, self.rate_limited.clone());

        let help = "Trace spans: `sent` to the collector, `lost` after failed attempts, or `dropped` from a full queue";
        registry.register("spans", help, self.spans.clone());

        let help = "Fetches of the OIDC issuer's keys: `ok` or `failed`";
        registry.register("issuer_key_fetches", help, self.issuer_fetches.clone());

        registry.register("events", "Recorded events, by the name that `mediary audit log` shows", self.events.clone());

        let help = "Failed tasks by kind and error code; unknown codes are `other`";
        registry.register("task_failures", help, self.failures.clone());

        let help = "Time from the submission of a task to its completion";
        registry.register_with_unit("task_duration", help, Unit::Seconds, self.task_seconds.clone());

        let help = "Calls to vendors, including the built-in engines";
        registry.register("vendor_calls", help, self.vendor_calls.clone());
        let help = "Duration of vendor calls; for `result` including the download of the files";
        registry.register_with_unit("vendor_call_duration", help, Unit::Seconds, self.vendor_call_seconds.clone());

        let help = "Duration of disk syncs, one per group of writes";
        registry.register_with_unit("journal_sync_duration", help, Unit::Seconds, self.sync_seconds.clone());
        self
    }
}

impl Metrics {
    /// Begins a request to this route. The request is counted when the meter is dropped.
    #[must_use]
    pub fn start_request(&self, method: &'static str, route: &'static str) -> RequestMeter {
        self.0.in_flight.inc();
        RequestMeter {
            metrics: self.clone(),
            labels: [("method", method), ("route", route)],
            started_at: Instant::now(),
            status: 0,
        }
    }

    /// Counts a request rejected because no route, or no method of the route, matches.
    pub fn count_unmatched(&self, status: u16) {
        self.count_response([("method", "any"), ("route", UNMATCHED_ROUTE)], status);
    }

    /// Creates the known series with value 0, so that `rate()` sees their first increment.
    pub fn register_known_series(&self, series: &KnownSeries) {
        series.init_at_zero(&self.0);
    }

    /// Counts a 429 response with an error of this code.
    pub fn count_rate_limited(&self, code: &'static str) {
        self.0.rate_limited.get_or_create(&[("code", code)]).inc();
    }

    /// Counts spans by outcome.
    pub fn count_spans(&self, outcome: &'static str, spans: u64) {
        self.0.spans.get_or_create(&[("outcome", outcome)]).inc_by(spans);
    }

    /// Counts a fetch of the token issuer's keys.
    pub fn count_issuer_fetch(&self, succeeded: bool) {
        let [ok, failed] = ISSUER_OUTCOMES;
        let outcome = if succeeded { ok } else { failed };
        self.0.issuer_fetches.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// Counts a recorded event.
    pub fn count_event(&self, name: &'static str) {
        self.0.events.get_or_create(&[("event", name)]).inc();
    }

    /// Counts a failed task of this kind.
    pub fn count_task_failure(&self, kind: &'static str, code: Option<&'static str>) {
        self.0.failures.get_or_create(&[("kind", kind), ("code", code.unwrap_or(OTHER_CODE))]).inc();
    }

    /// Observes the time from the submission of a task of this kind to its completion.
    pub fn observe_task(&self, kind: &'static str, elapsed: Duration) {
        self.0.task_seconds.get_or_create(&[("kind", kind)]).observe(elapsed.as_secs_f64());
        self.0.task_latency.observe(elapsed);
    }

    /// Counts a call to a vendor, one of [`VENDOR_CALLS`], with its outcome, one of [`CALL_OUTCOMES`].
    pub fn observe_vendor_call(&self, vendor: &str, call: &'static str, outcome: &'static str, elapsed: Duration) {
        let vendor = ("vendor", Cow::Owned(vendor.to_owned()));
        let call = ("call", call.into());
        let calls = [vendor.clone(), call.clone(), ("outcome", outcome.into())];
        self.0.vendor_calls.get_or_create(&calls).inc();
        let seconds = self.0.vendor_call_seconds.get_or_create(&[vendor, call]);
        seconds.observe(elapsed.as_secs_f64());
    }

    /// Observes the duration of a journal sync.
    pub fn observe_sync(&self, elapsed: Duration) {
        self.0.sync_seconds.observe(elapsed.as_secs_f64());
    }

    /// Renders everything in the `OpenMetrics` text format, including the given gauges.
    #[must_use]
    pub fn render(&self, gauges: &GaugeReadings) -> String {
        let mut text = String::new();
        let result = encode_registry(&mut text, &self.0.registry)
            .and_then(|()| encode_registry(&mut text, &gauges.registry()))
            .and_then(|()| encode_eof(&mut text));
        // Writing to a string does not fail.
        result.map_or_else(|fmt::Error| String::new(), |()| text)
    }

    /// Returns the number of recorded events of this type.
    pub(super) fn event_count(&self, name: &'static str) -> u64 {
        self.0.events.get(&[("event", name)]).map_or(0, |count| count.get())
    }

    /// Returns the number of failed tasks of these kinds with this code.
    pub(super) fn failure_count(&self, kinds: &[&'static str], code: &'static str) -> u64 {
        let count =
            |kind: &&'static str| self.0.failures.get(&[("kind", *kind), ("code", code)]).map(|count| count.get());
        kinds.iter().filter_map(count).sum()
    }

    /// Returns the latencies of all requests since the start.
    pub(super) fn request_latencies(&self) -> LatencyCounts {
        self.0.request_latency.read()
    }

    /// Returns the durations of all completed tasks since the start.
    pub(super) fn task_latencies(&self) -> LatencyCounts {
        self.0.task_latency.read()
    }

    fn count_response(&self, labels: LabelPairs<2>, status: u16) {
        self.0.requests.get_or_create(&(labels, StatusLabel { status })).inc();
    }
}

/// A request in progress.
pub struct RequestMeter {
    metrics: Metrics,
    labels: LabelPairs<2>,
    started_at: Instant,
    status: u16,
}

impl RequestMeter {
    /// Counts a 429 response with an error of this code.
    pub fn count_rate_limited(&self, code: &'static str) {
        self.metrics.count_rate_limited(code);
    }

    /// Records the status of the response.
    pub fn finish(mut self, status: u16) {
        self.status = status;
    }
}

impl Drop for RequestMeter {
    fn drop(&mut self) {
        self.metrics.0.in_flight.dec();
        self.metrics.count_response(self.labels, self.status);
        if self.status > 0 {
            let elapsed = self.started_at.elapsed();
            self.metrics.0.request_seconds.get_or_create(&self.labels).observe(elapsed.as_secs_f64());
            self.metrics.0.request_latency.observe(elapsed);
        }
    }
}

#[cfg(test)]
mod tests;
