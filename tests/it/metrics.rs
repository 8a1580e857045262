//! Prometheus metrics: counts of past requests, and the text format.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use mediary::domain::event;
use mediary::domain::task::TaskFailure;
use serde_json::{Value, json};

use crate::image::{UPSCALER, submit, wait_for_end};
use crate::support::TestApp;
use crate::support::cluster::TestCluster;
use crate::support::eventually::eventually;
use crate::support::files::{FileServer, status};
use crate::support::picture::base64_png;

/// Returns the samples, keyed by name and labels as written.
async fn samples(app: &TestApp) -> BTreeMap<String, f64> {
    let response = app.get("/metrics").await.expect(200);
    assert!(response.header("content-type").is_some_and(|kind| kind.starts_with("application/openmetrics-text")));
    let text = response.text();
    assert!(text.ends_with("# EOF\n"), "the marker of OpenMetrics is not at the end");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line} is not a sample"));
        (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line} has no number")))
    };
    lines.map(sample).collect()
}

#[actix_web::test]
async fn metrics_count_requests_and_report_positions() {
    // Given a service
    let app = TestApp::start().await;
    let before = samples(&app).await;

    // When a publisher is created, lists are read, and an unknown path is requested
    let owner = app.user("owner").await;
    app.publisher("acme", &owner).await;
    app.get("/nodes?limit=5").await.expect(200);
    app.get("/nodes?limit=0").await.expect(400);
    app.get("/secret-of-a-caller").await.expect(404);

    // Then each is counted, by route and not by the raw path
    let after = samples(&app).await;
    let increase = |name: &str| after.get(name).unwrap_or(&0.0) - before.get(name).unwrap_or(&0.0);
    let requests = |method, route, status| {
        increase(&format!("mediary_http_requests_total{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}}"))
    };
    let is_equal = |a: f64, b: f64| (a - b).abs() < f64::EPSILON;
    assert!(is_equal(requests("POST", "/publishers", 201), 1.0), "{after:#?}");
    assert!(
        is_equal(requests("GET", "/nodes", 200), 1.0) && is_equal(requests("GET", "/nodes", 400), 1.0),
        "{after:#?}"
    );
    assert!(is_equal(requests("any", "unmatched", 404), 1.0), "{after:#?}");
    assert!(!after.keys().any(|name| name.contains("secret-of-a-caller")));
    assert!(is_equal(increase("mediary_events_total{event=\"PublisherCreated\"}"), 1.0), "{after:#?}");

    // And every event is durable: synced, at its position, and read
    let events: f64 =
        after.keys().filter(|name| name.starts_with("mediary_events_total")).map(|name| increase(name)).sum();
    assert!(is_equal(increase("mediary_log_position"), events), "{after:#?}");
    assert!(increase("mediary_journal_sync_duration_seconds_count") >= 1.0);
    assert!(is_equal(after["mediary_read_models_lag_events"], 0.0));
    assert!(is_equal(after["mediary_verification_state{state=\"unverified\"}"], 1.0));
    assert!(after["mediary_verified_position"] <= after["mediary_log_position"]);
    assert!(is_equal(after["mediary_storage_state{state=\"ok\"}"], 1.0));
    assert!(after["mediary_process_resident_memory_bytes"] > 1e6 && after["mediary_storage_free_bytes"] > 0.0);
    app.stop().await;
}

/// Waits until the duration of a task of this kind is counted, which happens just after readers see its end.
pub async fn wait_for_task_duration(app: &TestApp, kind: &str) {
    let name = format!("mediary_task_duration_seconds_count{{kind=\"{kind}\"}}");
    eventually("the duration is counted", async || samples(app).await.contains_key(&name)).await;
}

#[actix_web::test]
async fn failed_tasks_are_counted_by_kind_and_code() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let server = FileServer::with_replies(|_| status("404 Not Found", "")).await;
    let task = submit(&app, &alice, UPSCALER, json!({"image": server.url("/image.png")})).await;
    assert_eq!(wait_for_end(&app, &alice, UPSCALER, &task).await["status"], "FAILED");
    // Counted just after readers see it.
    let name = "mediary_task_failures_total{kind=\"image-upscaler\",code=\"input_unavailable\"}";
    let is_counted = async || samples(&app).await.get(name).is_some_and(|count| *count >= 1.0);
    eventually("the failure is counted", is_counted).await;
    app.stop().await;
}

#[actix_web::test]
async fn counters_are_registered_at_zero() {
    // Given a service without any request
    let app = TestApp::start().await;
    let samples_by_name = samples(&app).await;

    // Then alerts see the first increment of each counter
    for name in [
        "mediary_http_requests_total{method=\"POST\",route=\"/publishers\",status=\"500\"}",
        "mediary_http_requests_total{method=\"HEAD\",route=\"/nodes\",status=\"500\"}",
        "mediary_limit_refusals_total{code=\"too_many_streams\"}",
        "mediary_events_total{event=\"DeliveryDeadLettered\"}",
        "mediary_spans_total{outcome=\"lost\"}",
        "mediary_task_failures_total{kind=\"music\",code=\"outcome_unknown\"}",
        "mediary_task_failures_total{kind=\"extend\",code=\"other\"}",
        "mediary_vendor_calls_total{vendor=\"local-music\",call=\"submit\",outcome=\"unreached\"}",
    ] {
        assert!(samples_by_name.get(name).is_some_and(|count| *count < 1.0), "{name}: {:?}", samples_by_name.get(name));
    }
    let counters = samples_by_name.keys().filter(|name| name.contains("_total{")).count();
    assert!(
        counters < 800,
        "{counters} series are registered at zero; each adds to every scrape, and docs/metrics.md states their number"
    );
    app.stop().await;
}

/// Returns the names with this prefix, of metrics or of alerts.
fn names<'t>(text: &'t str, prefix: &str) -> BTreeSet<&'t str> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(prefix).map(|(at, _)| text[at..].split(|c| !is_of_name(c)).next().unwrap_or_default()).collect()
}

/// Returns the name of a metric without the suffix that its type adds.
fn family<'n>(name: &'n str, families: &BTreeSet<String>) -> Option<&'n str> {
    let without =
        ["", "_total", "_bucket", "_count", "_sum", "_info"].into_iter().filter_map(|end| name.strip_suffix(end));
    without.into_iter().find(|name| families.contains(*name))
}

#[actix_web::test]
async fn exactly_the_existing_metrics_are_documented() {
    // Given a cluster node that has served requests and made a picture
    let cluster = TestCluster::start(1).await;
    let app = &cluster.nodes[0];
    let alice = app.user("alice").await;
    let task = submit(app, &alice, UPSCALER, json!({"image": base64_png(4, 4)})).await;
    assert_eq!(wait_for_end(app, &alice, UPSCALER, &task).await["status"], "COMPLETED");
    wait_for_task_duration(app, "image-upscaler").await;
    let text = app.get("/metrics").await.expect(200).text();
    let family_names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let families: BTreeSet<_> = family_names.map(str::to_owned).collect();
    assert!(families.len() > 20, "{families:?}");

    // Then all metrics of the documents, the alerts and the dashboard exist, and all are documented
    let (page, rules) = (document("docs/metrics.md"), document("contrib/alerts.yml"));
    let dashboard = document("contrib/grafana.json");
    let documented_names = &(&names(&page, "mediary_") | &names(&rules, "mediary_")) | &names(&dashboard, "mediary_");
    let unknown: Vec<_> = documented_names.iter().filter(|name| family(name, &families).is_none()).collect();
    assert!(unknown.is_empty(), "there is no {unknown:?}");
    let documented: BTreeSet<_> = names(&page, "mediary_").iter().filter_map(|name| family(name, &families)).collect();
    let silent: Vec<_> = families.iter().filter(|name| !documented.contains(name.as_str())).collect();
    assert!(silent.is_empty(), "docs/metrics.md does not describe {silent:?}");
    cluster.stop().await;
}

fn document(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("a file of the repository")
}

#[test]
fn every_panel_of_the_dashboard_queries_existing_events() {
    let dashboard: Value = serde_json::from_str(&document("contrib/grafana.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    assert!(panels.len() > 15, "{panels:?}");

    let known: BTreeSet<_> = event::names().collect();
    for panel in panels {
        assert!(panel["title"].as_str().is_some_and(|title| !title.is_empty()), "{panel}");
        let expressions: Vec<_> =
            panel["targets"].as_array().expect("targets").iter().filter_map(|target| target["expr"].as_str()).collect();
        assert!(!expressions.is_empty() && expressions.iter().all(|expr| expr.contains("mediary_")), "{panel}");
        for expression in expressions {
            let matchers = ["event=\"", "event=~\""].into_iter().flat_map(|start| expression.split(start).skip(1));
            let events = matchers.flat_map(|rest| rest.split('"').next().unwrap_or_default().split('|'));
            let unknown: Vec<_> = events.filter(|name| !known.contains(name)).collect();
            assert!(unknown.is_empty(), "there is no {unknown:?}");
        }
    }
}

#[test]
fn every_alert_is_documented_and_tested() {
    let (page, rules) = (document("docs/alerts.md"), document("contrib/alerts.yml"));
    let alerts: BTreeSet<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let explained = page.lines().filter_map(|line| line.strip_prefix("| `Mediary")?.split_once('`'));
    let explained: BTreeSet<_> = explained.map(|(name, _)| format!("Mediary{name}")).collect();
    assert_eq!(alerts, explained.iter().map(String::as_str).collect());
    let unit_tests = document("tests/alerts/rules.yml");
    assert_eq!(alerts, names(&unit_tests, "Mediary"), "each alert has a unit test");
    let passed_over =
        rules.split("code!~\"").nth(1).and_then(|remaining| remaining.split('"').next()).expect("the codes");
    let unknown: Vec<_> = passed_over.split('|').filter(|code| !TaskFailure::CODES.contains(code)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
