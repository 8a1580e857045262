//! Columns of the history, and the sampler that fills them from counters and gauges.

use std::borrow::Cow;
use std::sync::Arc;

use super::{HistoryValue, MetricsHistory};
use crate::telemetry::latency::LatencyCounts;
use crate::telemetry::metrics::{GaugeReadings, Metrics, OTHER_CODE, StateGauge};

/// Column of the history.
#[derive(Debug, Clone)]
pub struct HistoryColumn {
    /// Name of the quantity.
    pub name: &'static str,
    /// Error code, queue or vendor, if several columns have the name.
    pub label: Option<Cow<'static, str>>,
    /// Unit of the values; [`HistoryColumn::STATE_UNIT`] if they are indices of states.
    pub unit: &'static str,
    source: ColumnSource,
}

/// Source of the values of a column.
#[derive(Debug, Clone)]
enum ColumnSource {
    /// Events of these types during the minute.
    Events(&'static [&'static str]),
    /// Tasks that failed with this code during the minute.
    Failures(&'static str),
    /// Requests during the minute.
    Requests,
    /// Percentile of the request latencies of the minute.
    RequestPercentile(u64),
    /// Percentile of the durations of the tasks that were completed in the minute.
    TaskPercentile(u64),
    Gauge(fn(&GaugeReadings) -> Option<u64>),
    /// Length of the queue of the label.
    Queue,
    /// Unfinished tasks of the vendor of the label.
    VendorTasks,
    /// Circuit breaker state of the vendor of the label.
    VendorCircuit,
}

/// Names of the queues in [`GaugeReadings::queues`], each with the unit of its column.
const QUEUES: [(&str, &str); 3] = [("appends", "changes"), ("tasks", "tasks"), ("deliveries", "webhooks")];

impl HistoryColumn {
    /// Unit of a column whose values are indices of states.
    pub const STATE_UNIT: &'static str = "state";

    fn new(name: &'static str, unit: &'static str, source: ColumnSource) -> Self {
        Self { name, label: None, unit, source }
    }

    fn with_label(self, label: impl Into<Cow<'static, str>>) -> Self {
        Self { label: Some(label.into()), ..self }
    }

    /// Returns `true` if the values are indices of states.
    #[must_use]
    pub fn is_state(&self) -> bool {
        matches!(self.source, ColumnSource::VendorCircuit)
    }

    /// Returns the name of the column in a file.
    pub(super) fn key(&self) -> String {
        self.label.as_ref().map_or_else(|| self.name.to_owned(), |label| format!("{}/{label}", self.name))
    }

    fn label(&self) -> &str {
        self.label.as_deref().unwrap_or_default()
    }
}

/// Returns the columns of a service with these failure codes and vendors.
pub(super) fn build(failure_codes: &[&'static str], vendors: &[Arc<str>]) -> Vec<HistoryColumn> {
    use ColumnSource::{
        Events, Failures, Gauge, Queue, RequestPercentile, Requests, TaskPercentile, VendorCircuit, VendorTasks,
    };
    let column = HistoryColumn::new;

    let mut columns = vec![
        column("tasks_submitted", "tasks", Events(&["TaskSubmitted"])),
        column("tasks_completed", "tasks", Events(&["TaskCompleted", "VideoCompleted", "StreamCompleted"])),
        column("tasks_failed", "tasks", Events(&["TaskFailed"])),
        column("tasks_cancelled", "tasks", Events(&["TaskCancelled"])),
        column("task_duration_p50", "seconds", TaskPercentile(50)),
        column("task_duration_p95", "seconds", TaskPercentile(95)),
        column("requests", "requests", Requests),
        column("request_duration_p50", "seconds", RequestPercentile(50)),
        column("request_duration_p95", "seconds", RequestPercentile(95)),
        column("deliveries_succeeded", "webhooks", Events(&["DeliverySucceeded"])),
        column("delivery_attempts_failed", "attempts", Events(&["AttemptFailed"])),
        column("deliveries_dead_lettered", "webhooks", Events(&["DeliveryDeadLettered"])),
        column("storage_free", "bytes", Gauge(|gauges| gauges.free_bytes)),
        column("storage_reserve", "bytes", Gauge(|gauges| Some(gauges.reserve_bytes))),
        column("resident_memory", "bytes", Gauge(|gauges| gauges.resident_bytes)),
        column("log_position", "events", Gauge(|gauges| Some(gauges.log_position))),
    ];

    columns.extend(QUEUES.map(|(queue, unit)| column("queue", unit, Queue).with_label(queue)));
    let codes = failure_codes.iter().chain(&[OTHER_CODE]);
    columns.extend(codes.map(|code| column("task_failures", "tasks", Failures(code)).with_label(*code)));
    for vendor in vendors {
        columns.push(column("vendor_tasks", "tasks", VendorTasks).with_label(vendor.to_string()));
        let circuit = column("vendor_circuit", HistoryColumn::STATE_UNIT, VendorCircuit);
        columns.push(circuit.with_label(vendor.to_string()));
    }
    columns
}

/// Reads counters and gauges into samples. A count is the difference to the previous sample.
pub struct HistorySampler {
    metrics: Metrics,
    history: MetricsHistory,
    task_kinds: Vec<&'static str>,
    /// Counters at the previous sample, by column.
    counts: Vec<u64>,
    requests: LatencyCounts,
    tasks: LatencyCounts,
}

impl HistorySampler {
    /// Creates a sampler whose first sample covers the time since the start of the service.
    #[must_use]
    pub fn new(metrics: Metrics, history: MetricsHistory, task_kinds: Vec<&'static str>) -> Self {
        let counts = vec![0; history.columns().len()];
        let requests = Metrics::default().request_latencies();
        let tasks = Metrics::default().task_latencies();
        Self { metrics, history, task_kinds, counts, requests, tasks }
    }

    /// Adds the sample of a minute, given in minutes since 1970.
    pub fn sample(&mut self, minute: i64, gauges: &GaugeReadings) {
        let requests = self.metrics.request_latencies();
        let tasks = self.metrics.task_latencies();
        let new_requests = requests.since(&self.requests);
        let new_tasks = tasks.since(&self.tasks);

        let percentile = |latencies: &LatencyCounts, percent| {
            latencies.percentile(percent).map_or(HistoryValue::UNKNOWN, HistoryValue::new)
        };
        let gauge = |value: Option<u64>| value.map_or(HistoryValue::UNKNOWN, HistoryValue::from_count);

        let columns = Arc::clone(&self.history.columns);
        let mut values = Vec::with_capacity(columns.len());
        for (column, previous) in columns.iter().zip(&mut self.counts) {
            let mut increase = |count: u64| {
                let before = std::mem::replace(previous, count);
                HistoryValue::from_count(count.saturating_sub(before))
            };

            values.push(match &column.source {
                ColumnSource::Events(names) => increase(names.iter().map(|name| self.metrics.event_count(name)).sum()),
                ColumnSource::Failures(code) => increase(self.metrics.failure_count(&self.task_kinds, code)),
                ColumnSource::Requests => HistoryValue::from_count(new_requests.total()),
                ColumnSource::RequestPercentile(percent) => percentile(&new_requests, *percent),
                ColumnSource::TaskPercentile(percent) => percentile(&new_tasks, *percent),
                ColumnSource::Gauge(read) => gauge(read(gauges)),
                ColumnSource::Queue => gauge(find(&gauges.queues, column.label()).copied()),
                ColumnSource::VendorTasks => gauge(find(&gauges.vendor_tasks, column.label()).copied()),
                ColumnSource::VendorCircuit => gauge(find(&gauges.circuits, column.label()).and_then(state_index)),
            });
        }

        (self.requests, self.tasks) = (requests, tasks);
        self.history.record(minute, values.into());
    }
}

fn find<'g, N: AsRef<str>, T>(entries: &'g [(N, T)], name: &str) -> Option<&'g T> {
    entries.iter().find(|(entry, _)| entry.as_ref() == name).map(|(_, value)| value)
}

fn state_index(state: &StateGauge) -> Option<u64> {
    state.all.iter().position(|name| *name == state.current).map(|index| index as u64)
}
