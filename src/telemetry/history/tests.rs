//! Tests of the history.

use std::time::Duration;

use super::*;
use crate::telemetry::metrics::{GaugeReadings, Metrics, StateGauge};

const CODES: [&str; 2] = ["engine_failed", "vendor_lost"];
const NOW: i64 = 29_000_000;

fn history(vendors: &[&str]) -> MetricsHistory {
    let vendors: Vec<_> = vendors.iter().map(|name| Arc::from(*name)).collect();
    MetricsHistory::new(&CODES, &vendors)
}

/// Adds a sample in which every value is the same.
fn record(history: &MetricsHistory, minute: i64, value: u64) {
    let values = vec![HistoryValue::from_count(value); history.columns().len()];
    history.record(minute, values.into());
}

/// Returns the values of a column, `None` for a gap.
fn column(history: &MetricsHistory, key: &str, now: i64, minutes: u16) -> Vec<Option<f64>> {
    let index = history.columns().iter().position(|column| column.key() == key).unwrap();
    history.window(now, minutes).values[index].iter().map(|value| value.get()).collect()
}

#[test]
fn a_window_has_the_last_minutes_and_gaps() {
    // Given samples of three minutes, with a gap of one
    let history = history(&[]);
    for (minute, value) in [(NOW - 3, 1), (NOW - 2, 2), (NOW, 4)] {
        record(&history, minute, value);
    }

    // Then windows end with the last sample, and minutes without a sample have no value
    assert_eq!(column(&history, "requests", NOW, 4), [Some(1.0), Some(2.0), None, Some(4.0)]);
    assert_eq!(column(&history, "requests", NOW, 2), [None, Some(4.0)]);
    assert_eq!(history.window(NOW, 4).first_minute, NOW - 3);

    // And a minute whose sample is about to be taken is not shown as a gap
    assert_eq!(column(&history, "requests", NOW + 1, 2), [None, Some(4.0)]);
    assert_eq!(history.window(NOW + 1, 2).first_minute, NOW - 1);

    // And a service that has not sampled for some time has a gap at the end
    assert_eq!(column(&history, "requests", NOW + 3, 3), [Some(4.0), None, None]);
}

#[test]
fn the_history_is_bounded_to_24_hours() {
    let history = history(&[]);
    let day = i64::from(HISTORY_MINUTES);
    for minute in 0..3 * day {
        record(&history, minute, 1);
    }
    assert_eq!(history.samples.lock().0.len(), usize::from(HISTORY_MINUTES));
    // Samples before a long gap are dropped too
    record(&history, 5 * day, 1);
    assert_eq!(history.samples.lock().0.len(), 1);
}

#[test]
fn a_clock_that_is_set_back_replaces_the_later_samples() {
    let history = history(&[]);
    for (minute, value) in [(NOW, 1), (NOW + 1, 2), (NOW + 500, 3), (NOW + 1, 4)] {
        record(&history, minute, value);
    }
    assert_eq!(column(&history, "requests", NOW + 1, 2), [Some(1.0), Some(4.0)]);
    assert_eq!(history.samples.lock().0.len(), 2);
}

#[test]
fn a_sample_has_the_increase_of_counters_and_the_values_of_gauges() {
    const STATES: &[&str] = &["closed", "open"];

    // Given a service with some work before the first sample
    let metrics = Metrics::default();
    let history = history(&["remote-image"]);
    let mut sampler = HistorySampler::new(metrics.clone(), history.clone(), vec!["upscale", "extend"]);
    let gauges = GaugeReadings {
        log_position: 17,
        queues: vec![("tasks", 3)],
        circuits: vec![("remote-image".into(), StateGauge { all: STATES, current: "open" })],
        vendor_tasks: vec![("remote-image".into(), 2)],
        ..GaugeReadings::default()
    };

    metrics.count_event("TaskSubmitted");
    metrics.observe_task("upscale", Duration::from_millis(50));
    sampler.sample(NOW, &gauges);

    // When more is done in the next minute
    for _ in 0..2 {
        metrics.count_event("TaskSubmitted");
    }
    for (kind, code) in [("upscale", Some("vendor_lost")), ("extend", Some("vendor_lost")), ("extend", None)] {
        metrics.count_task_failure(kind, code);
    }
    metrics.count_event("TaskCompleted");
    metrics.count_event("StreamCompleted");
    metrics.start_request("GET", "/nodes").finish(200);
    sampler.sample(NOW + 1, &gauges);

    // Then each minute has its own counts and percentiles, and the gauges as they were
    let values = |key: &str| column(&history, key, NOW + 1, 2);
    assert_eq!(values("tasks_submitted"), [Some(1.0), Some(2.0)]);
    assert_eq!(values("tasks_completed"), [Some(0.0), Some(2.0)]);
    assert_eq!(values("task_failures/vendor_lost"), [Some(0.0), Some(2.0)]);
    assert_eq!(values("task_failures/other"), [Some(0.0), Some(1.0)]);
    assert_eq!(values("task_failures/engine_failed"), [Some(0.0), Some(0.0)]);

    assert_eq!(values("task_duration_p95"), [Some(0.05), None]);
    assert_eq!(values("requests"), [Some(0.0), Some(1.0)]);
    assert!(values("request_duration_p50")[1].is_some_and(|seconds| seconds > 0.0));

    assert_eq!(values("log_position"), [Some(17.0); 2]);
    assert_eq!(values("queue/tasks"), [Some(3.0); 2]);
    assert_eq!(values("queue/appends"), [None; 2]);
    assert_eq!(values("vendor_circuit/remote-image"), [Some(1.0); 2]);
    assert_eq!(values("vendor_tasks/remote-image"), [Some(2.0); 2]);
    assert_eq!(values("storage_free"), [None; 2]);
}

#[test]
fn a_file_restores_the_samples_and_keeps_gaps() {
    // Given a history with a gap and with decimals
    let old = history(&["gone", "stays"]);
    record(&old, NOW - 2, 7);
    let values = vec![HistoryValue::new(0.012_345_6); old.columns().len()];
    old.record(NOW, values.into());

    // When a service with other vendors loads its file
    let restored = history(&["new", "stays"]);
    assert_eq!(restored.restore(&old.encode()), Ok(2));

    // Then the values are those of the columns that both have
    assert_eq!(column(&restored, "requests", NOW, 3), [Some(7.0), None, Some(0.012_346)]);
    assert_eq!(column(&restored, "vendor_tasks/stays", NOW, 3), [Some(7.0), None, Some(0.012_346)]);
    assert_eq!(column(&restored, "vendor_tasks/new", NOW, 3), [None; 3]);
}

#[test]
fn a_damaged_or_foreign_file_changes_nothing() {
    let source = history(&[]);
    record(&source, NOW, 1);
    let good = source.encode();
    let text = String::from_utf8(good.clone()).unwrap();

    let history = history(&[]);
    record(&history, NOW, 5);
    let is_unchanged = || column(&history, "requests", NOW, 1) == [Some(5.0)];
    // Every truncated file and every changed byte is noticed
    for length in 0..good.len() {
        assert!(history.restore(&good[..length]).is_err() && is_unchanged(), "{length}");
        let mut changed = good.clone();
        changed[length] ^= 0x20;
        assert!(history.restore(&changed).is_err() && is_unchanged(), "{length}");
    }
    let other = history.restore(text.replacen(" 1 ", " 2 ", 1).as_bytes());
    assert_eq!(other, Err(HistoryFileError::OtherFormat("2".to_owned())));

    // And so are samples that only a defect of this program writes
    for body in [
        r#"{"columns": ["requests"], "samples": [[1]]}"#,
        r#"{"columns": ["requests"], "samples": [[null, 1]]}"#,
        r#"{"columns": ["requests"], "samples": [[1.5, 1]]}"#,
        r#"{"columns": ["requests"], "samples": [[1e300, 1]]}"#,
        r#"{"columns": ["requests"], "samples": [["x", 1]]}"#,
        "[]",
    ] {
        let file = format!("mediary-metrics-history 1 {:08x}\n{body}", crc32c::crc32c(body.as_bytes()));
        assert!(history.restore(file.as_bytes()).is_err() && is_unchanged(), "{body}");
    }
}

#[test]
fn values_are_numbers_without_needless_decimals() {
    let values = [HistoryValue::from_count(3), HistoryValue::new(0.25), HistoryValue::UNKNOWN, HistoryValue::new(-0.0)];
    assert_eq!(serde_json::to_string(&values).unwrap(), "[3,0.25,null,0]");
}
