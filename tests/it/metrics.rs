//! What Prometheus is told: that what happened was counted, and that the text is what it reads.

use std::collections::BTreeMap;

use crate::support::TestApp;

/// The samples, by name and labels as they are written.
async fn samples(app: &TestApp) -> BTreeMap<String, f64> {
    let answer = app.get("/metrics").await.expect(200);
    assert!(answer.header("content-type").is_some_and(|kind| kind.starts_with("application/openmetrics-text")));
    let text = answer.text();
    assert!(text.ends_with("# EOF\n"), "the end of the text says that it is whole");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line} is no sample"));
        (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line} has no number")))
    };
    lines.map(sample).collect()
}

#[actix_web::test]
async fn what_was_done_is_counted_and_where_the_log_stands_is_told() {
    // Given a service
    let app = TestApp::start().await;
    let before = samples(&app).await;
    // When a publisher is made, lists are read, and a path is asked for that there is not
    let owner = app.user("owner").await;
    app.publisher("acme", &owner).await;
    app.get("/nodes?limit=5").await.expect(200);
    app.get("/nodes?limit=0").await.expect(400);
    app.get("/secret-of-a-caller").await.expect(404);
    // Then each of it is counted, by route and not by what the caller wrote
    let after = samples(&app).await;
    let more = |name: &str| after.get(name).unwrap_or(&0.0) - before.get(name).unwrap_or(&0.0);
    let requests = |method, route, status| {
        more(&format!("mediary_http_requests_total{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}}"))
    };
    let counted = |a: f64, b: f64| (a - b).abs() < f64::EPSILON;
    assert!(counted(requests("POST", "/publishers", 201), 1.0), "{after:#?}");
    assert!(counted(requests("GET", "/nodes", 200), 1.0) && counted(requests("GET", "/nodes", 400), 1.0), "{after:#?}");
    assert!(counted(requests("any", "unmatched", 404), 1.0), "{after:#?}");
    assert!(!after.keys().any(|name| name.contains("secret-of-a-caller")));
    assert!(counted(more("mediary_events_total{event=\"PublisherCreated\"}"), 1.0), "{after:#?}");
    // And every event is durable: synced, at its position, and read
    let events: f64 = after.keys().filter(|name| name.starts_with("mediary_events_total")).map(|name| more(name)).sum();
    assert!(counted(more("mediary_log_position"), events), "{after:#?}");
    assert!(more("mediary_journal_sync_duration_seconds_count") >= 1.0);
    assert!(counted(after["mediary_read_models_lag_events"], 0.0));
    assert!(counted(after["mediary_verification_state{state=\"sound\"}"], 1.0));
    assert!(after["mediary_verified_position"] <= after["mediary_log_position"]);
    assert!(counted(after["mediary_storage_state{state=\"ok\"}"], 1.0));
    assert!(after["mediary_process_resident_memory_bytes"] > 1e6 && after["mediary_storage_free_bytes"] > 0.0);
    app.stop().await;
}
