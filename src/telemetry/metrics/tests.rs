//! Tests of metrics.

use super::*;

fn lines(metrics: &Metrics, gauges: &GaugeReadings) -> Vec<String> {
    metrics.render(gauges).lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn requests_are_counted_once_by_route_and_status_even_if_the_client_disconnected() {
    let metrics = Metrics::default();
    let in_flight = metrics.start_request("GET", "/nodes");
    metrics.start_request("GET", "/nodes").finish(200);
    metrics.start_request("POST", "/nodes/{nodeId}/reviews").finish(503);
    drop(metrics.start_request("GET", "/nodes"));
    metrics.count_unmatched(404);

    let rendered = lines(&metrics, &GaugeReadings::default());
    for line in [
        "mediary_http_requests_total{method=\"GET\",route=\"/nodes\",status=\"200\"} 1",
        "mediary_http_requests_total{method=\"GET\",route=\"/nodes\",status=\"0\"} 1",
        "mediary_http_requests_total{method=\"POST\",route=\"/nodes/{nodeId}/reviews\",status=\"503\"} 1",
        "mediary_http_requests_total{method=\"any\",route=\"unmatched\",status=\"404\"} 1",
        "mediary_http_request_duration_seconds_count{method=\"GET\",route=\"/nodes\"} 1",
        "mediary_http_requests_in_flight 1",
    ] {
        assert!(rendered.iter().any(|other| other == line), "{line} is missing in {rendered:#?}");
    }

    drop(in_flight);
    assert!(lines(&metrics, &GaugeReadings::default()).contains(&"mediary_http_requests_in_flight 0".to_owned()));
}

#[test]
fn failed_tasks_are_counted_by_kind_and_code() {
    let metrics = Metrics::default();
    for code in [Some("vendor_lost"), None, Some("vendor_lost")] {
        metrics.count_task_failure("extend", code);
    }
    let rendered = lines(&metrics, &GaugeReadings::default());
    for (code, count) in [("vendor_lost", 2), ("other", 1)] {
        let line = format!("mediary_task_failures_total{{kind=\"extend\",code=\"{code}\"}} {count}");
        assert!(rendered.contains(&line), "{line} is missing in {rendered:#?}");
    }
}

#[test]
fn a_sync_is_counted_in_the_bucket_of_its_duration() {
    let metrics = Metrics::default();
    metrics.observe_sync(Duration::from_micros(150));
    let rendered = lines(&metrics, &GaugeReadings::default());
    let bucket = |bound: &str| format!("mediary_journal_sync_duration_seconds_bucket{{le=\"{bound}\"}}");
    assert!(rendered.contains(&format!("{} 0", bucket("0.000128"))), "{rendered:#?}");
    assert!(rendered.contains(&format!("{} 1", bucket("0.000256"))), "{rendered:#?}");
}

#[test]
fn one_state_gauge_is_set_and_lags_are_differences() {
    const STATES: &[&str] = &["closed", "open"];
    let circuits = vec![("imagevendor".into(), StateGauge { all: STATES, current: "open" })];
    let gauges = GaugeReadings {
        log_position: 10,
        read_models_position: 10,
        index_position: 7,
        circuits,
        ..GaugeReadings::default()
    };

    let rendered = lines(&Metrics::default(), &gauges);
    for line in [
        "mediary_vendor_circuit{vendor=\"imagevendor\",state=\"open\"} 1",
        "mediary_vendor_circuit{vendor=\"imagevendor\",state=\"closed\"} 0",
        "mediary_index_lag_events 3",
        "mediary_read_models_lag_events 0",
    ] {
        assert!(rendered.iter().any(|other| other == line), "{line} is missing in {rendered:#?}");
    }
    assert!(!rendered.iter().any(|line| line.contains("index_bytes")), "unknown values are omitted");
}

#[test]
fn known_series_start_at_0_and_earlier_counts_are_kept() {
    let metrics = Metrics::default();
    metrics.count_event("UserCreated");
    let series = KnownSeries {
        routes: vec![("GET", "/nodes")],
        refusals: vec!["rate_limited"],
        events: vec!["UserCreated", "OutcomeUnknown"],
        task_kinds: vec!["extend"],
        failure_codes: vec!["vendor_lost"],
        vendors: vec!["remote-image".into()],
    };
    metrics.register_known_series(&series);

    let rendered = lines(&metrics, &GaugeReadings::default());

    for line in [
        "mediary_http_requests_total{method=\"GET\",route=\"/nodes\",status=\"500\"} 0",
        "mediary_limit_refusals_total{code=\"rate_limited\"} 0",
        "mediary_spans_total{outcome=\"lost\"} 0",
        "mediary_events_total{event=\"OutcomeUnknown\"} 0",
        "mediary_events_total{event=\"UserCreated\"} 1",
        "mediary_task_failures_total{kind=\"extend\",code=\"vendor_lost\"} 0",
        "mediary_task_failures_total{kind=\"extend\",code=\"other\"} 0",
        "mediary_vendor_calls_total{vendor=\"remote-image\",call=\"submit\",outcome=\"unreached\"} 0",
        "mediary_vendor_calls_total{vendor=\"remote-image\",call=\"result\",outcome=\"unfetched\"} 0",
    ] {
        assert!(rendered.iter().any(|other| other == line), "{line} is missing in {rendered:#?}");
    }
    assert!(!rendered.iter().any(|line| line.contains("call=\"submit\",outcome=\"unfetched\"")), "{rendered:#?}");
}

#[test]
fn vendor_calls_are_counted_by_outcome_and_timed() {
    let metrics = Metrics::default();
    metrics.observe_vendor_call("remote-image", "poll", "ok", Duration::from_millis(3));
    metrics.observe_vendor_call("remote-image", "poll", "busy", Duration::from_millis(1));
    let rendered = lines(&metrics, &GaugeReadings::default());

    for line in [
        "mediary_vendor_calls_total{vendor=\"remote-image\",call=\"poll\",outcome=\"busy\"} 1",
        "mediary_vendor_call_duration_seconds_count{vendor=\"remote-image\",call=\"poll\"} 2",
        "mediary_vendor_call_duration_seconds_bucket{le=\"0.004\",vendor=\"remote-image\",call=\"poll\"} 2",
    ] {
        assert!(rendered.iter().any(|other| other == line), "{line} is missing in {rendered:#?}");
    }
}
