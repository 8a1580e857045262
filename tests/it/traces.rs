//! Traces, as a collector receives them.

use std::collections::BTreeMap;
use std::sync::Arc;

use mediary::environment::{Environment, FailPoint};
use reqwest::Method;
use serde_json::{Value, json};

use crate::image::UPSCALER;
use crate::support::TestApp;
use crate::support::eventually::eventually;
use crate::support::picture::base64_png;
use crate::support::receiver::{ReceivedRequest, Receiver};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// Span as the collector received it.
#[derive(Debug, Clone)]
struct ExportedSpan(Value);

impl ExportedSpan {
    fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    fn attribute(&self, name: &str) -> String {
        let attributes = self.0["attributes"].as_array().unwrap();
        let value = attributes.iter().find(|attribute| attribute["key"] == name).map(|attribute| &attribute["value"]);
        let text = value.and_then(|value| value["stringValue"].as_str().or(value["intValue"].as_str()));
        text.unwrap_or_default().to_owned()
    }

    fn nanos(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap()
    }
}

/// Returns the received spans, by name.
fn spans(received: &[ReceivedRequest]) -> BTreeMap<String, ExportedSpan> {
    let mut spans = BTreeMap::new();
    for batch in received {
        assert_eq!((batch.path.as_str(), batch.header("content-type")), ("/v1/traces", "application/json"));
        for resource in batch.json()["resourceSpans"].as_array().unwrap() {
            let name = json!({"key": "service.name", "value": {"stringValue": "gateway"}});
            assert!(resource["resource"]["attributes"].as_array().unwrap().contains(&name));
            for span in resource["scopeSpans"][0]["spans"].as_array().unwrap() {
                spans.insert(span["name"].as_str().unwrap().to_owned(), ExportedSpan(span.clone()));
            }
        }
    }
    spans
}

async fn traced(collector: &Receiver, environment: Environment) -> TestApp {
    let endpoint = collector.url("");
    let change = |settings: &mut mediary::config::Settings| {
        settings.telemetry.otlp_endpoint = Some(endpoint);
        "gateway".clone_into(&mut settings.telemetry.service_name);
    };
    TestApp::start_with(change, environment).await
}

async fn metrics(app: &TestApp) -> String {
    app.get("/metrics").await.expect(200).text()
}

#[actix_web::test]
async fn a_trace_spans_request_and_callback_and_keeps_the_callers_parent() {
    let (collector, receiver) = (Receiver::start().await, Receiver::start().await);
    let app = traced(&collector, Environment::system()).await;
    let alice = app.user("alice").await;

    let submission = json!({"image": base64_png(8, 8), "webhook_url": receiver.url("/secret-path")});
    let request = app.request(Method::POST, UPSCALER).bearer_auth(&alice.token).json(&submission);
    let request = request.header("traceparent", format!("00-{TRACE}-{CALLER}-01")).header("x-request-id", "r-1");
    let task = app.send(request).await.expect(200).json()["data"]["task_id"].as_str().unwrap().to_owned();

    let request = format!("POST {UPSCALER}");
    let spans_of_trace = |received: &[ReceivedRequest]| -> BTreeMap<_, _> {
        spans(received).into_iter().filter(|(_, span)| span.text("traceId") == TRACE).collect()
    };
    let received = collector
        .wait_until(|received| {
            let spans = spans_of_trace(received);
            let has_all =
                [request.as_str(), "append task", "POST callback"].iter().all(|name| spans.contains_key(*name));
            has_all && spans.keys().any(|name| name.starts_with("submit to"))
        })
        .await;

    let spans = spans_of_trace(&received);
    let served = &spans[&request];
    assert_eq!((served.text("parentSpanId"), served.0["kind"].as_u64()), (CALLER, Some(2)));
    for (name, value) in [
        ("http.request.method", "POST"),
        ("http.route", UPSCALER),
        ("url.path", UPSCALER),
        ("http.response.status_code", "200"),
        ("mediary.request_id", "r-1"),
        ("mediary.caller", "user"),
    ] {
        assert_eq!(served.attribute(name), value, "{name}");
    }
    assert_eq!(served.0["status"], json!({}));
    let append = &spans["append task"];
    assert_eq!(append.text("parentSpanId"), served.text("spanId"));
    assert!(served.nanos("startTimeUnixNano") <= append.nanos("startTimeUnixNano"));
    assert!(append.nanos("endTimeUnixNano") <= served.nanos("endTimeUnixNano"));
    let submitted = spans.iter().find(|(name, _)| name.starts_with("submit to")).unwrap().1;
    for call in [submitted, &spans["POST callback"]] {
        assert_eq!((call.text("parentSpanId"), call.0["kind"].as_u64()), (served.text("spanId"), Some(3)));
        assert_eq!(call.attribute("mediary.task_id"), task);
    }
    assert_eq!(spans["POST callback"].attribute("http.response.status_code"), "204");
    let exported_text: String =
        received.iter().map(|batch| String::from_utf8_lossy(&batch.body).into_owned()).collect();
    assert!(
        !exported_text.contains("secret-path") && !exported_text.contains(&alice.token),
        "the token or the webhook path of the caller was exported"
    );
    app.stop().await;
}

#[actix_web::test]
async fn failed_spans_are_errors_and_unsampled_traces_are_not_exported() {
    let collector = Receiver::start().await;
    let handler = |point, path: &str| assert!(point != FailPoint::Handler || path != "/publishers", "made to fail");
    let app = traced(&collector, Environment::system().with_fail_point_handler(Arc::new(handler))).await;

    let unsampled_request = app.request(Method::GET, "/nodes").header("traceparent", format!("00-{TRACE}-{CALLER}-00"));
    app.send(unsampled_request).await.expect(200);
    app.get("/publishers").await.expect(500);
    app.get("/nothing/there").await.expect(404);

    let received = collector.wait_until(|received| spans(received).contains_key("GET unmatched")).await;
    let spans = spans(&received);
    assert_eq!(spans["GET /publishers"].0["status"], json!({"code": 2, "message": "500"}));
    assert_eq!(spans["GET unmatched"].0["status"], json!({}));
    assert!(!spans.contains_key("GET /nodes"));
    assert_eq!(spans["GET /publishers"].text("traceId").len(), 32);
    assert!(spans["GET /publishers"].0.get("parentSpanId").is_none());
    app.stop().await;
}

#[actix_web::test]
async fn a_busy_collector_is_retried_and_a_rejecting_one_loses_only_spans() {
    // The collector is busy the first time.
    let reply = |attempt: usize, _: &ReceivedRequest| {
        if attempt == 1 { "HTTP/1.1 503 Busy" } else { "HTTP/1.1 200 OK" }.to_owned()
    };
    let collector = Receiver::with_replies(reply).await;
    let app = traced(&collector, Environment::system()).await;
    app.get("/nodes").await.expect(200);

    let received = collector.wait_until(|received| received.len() >= 2).await;
    assert_eq!(received[0].body, received[1].body);
    app.stop().await;
    // The collector rejects everything.
    let collector = Receiver::with_replies(|_, _| "HTTP/1.1 400 Bad".to_owned()).await;
    let app = traced(&collector, Environment::system()).await;
    app.get("/nodes").await.expect(200);
    collector.wait_until(|received| !received.is_empty()).await;
    let is_lost = async || metrics(&app).await.contains("mediary_spans_total{outcome=\"lost\"}");
    eventually("what is refused is counted as lost", is_lost).await;
    app.get("/nodes").await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn queued_spans_are_sent_at_shutdown() {
    let collector = Receiver::start().await;
    let app = traced(&collector, Environment::system()).await;
    app.get("/versions?limit=1").await;
    app.stop().await;
    assert!(spans(&collector.received()).contains_key("GET /versions"));
}
