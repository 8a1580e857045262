//! Forbidden addresses in every notation, as input and as callback: no connection ever reaches a canary that listens
//! there, while the same canary is reachable where the settings allow it.

mod canary;
mod proxied;
mod rows;

use std::net::IpAddr;
use std::sync::Arc;

use mediary::config::{PrivateAccess, Settings};
use mediary::environment::Environment;
use mediary::outbound::address::AllowEntry;
use serde_json::{Value, json};

use crate::delivery::{wait_for_deliveries, wait_until_settled};
use crate::image::PRECISION;
use crate::support::process::{Process, TOKEN, command};
use crate::support::receiver::Receiver;
use crate::support::{TestApp, client, picture};
use canary::Canary;
use rows::{EgressOutcome, rows};

/// Returns the addresses of the test's host names; the machine's resolver is not used.
fn names(name: &str) -> Vec<IpAddr> {
    let addresses: &[&str] = match name.trim_end_matches('.') {
        "localhost" | "sub.localhost" | "loopback.example" => &["127.0.0.1"],
        "private.example" => &["10.0.0.1"],
        "v6.example" => &["::1"],
        "mapped.example" => &["::ffff:127.0.0.1"],
        "nat64.example" => &["64:ff9b::7f00:1"],
        "sixtofour.example" => &["2002:7f00:1::1"],
        "metadata.example" => &["169.254.169.254"],
        "zero.example" => &["0.0.0.0"],
        "unspecified.example" => &["::"],
        "several.example" => &["10.0.0.1", "127.0.0.1", "::1"],
        other => panic!("unexpected request for {other}"),
    };
    addresses.iter().map(|address| address.parse().unwrap()).collect()
}

/// Returns a resolver of a name: the redirecting server the first time, and the canary afterwards.
fn rebinding_resolver() -> impl Fn(&str) -> Vec<IpAddr> {
    let lookups = std::sync::atomic::AtomicUsize::new(0);
    move |name| match name {
        "rebind.example" if lookups.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 => {
            vec![[127, 0, 0, 9].into()]
        }
        "rebind.example" => vec![[127, 0, 0, 1].into()],
        other => names(other),
    }
}

/// Refuses private addresses except for the redirecting server, which stands for the public ones.
fn strict(settings: &mut Settings) {
    settings.egress.private = PrivateAccess::Deny;
    settings.egress.allow = vec![AllowEntry::parse("127.0.0.9").unwrap()];
    settings.limits.submissions_per_caller = 1000;
}

fn open(settings: &mut Settings) {
    settings.egress.private = PrivateAccess::Allow;
}

async fn submit(app: &TestApp, input: &str, webhook_url: &str) -> Result<String, Value> {
    let response = app.post_as(app.admin_token(), PRECISION, json!({"image": input, "webhook_url": webhook_url})).await;
    match response.status {
        200 => Ok(response.json()["data"]["task_id"].as_str().unwrap().to_owned()),
        400 => Err(response.json()),
        _ => panic!("{input}: {}", response.text()),
    }
}

/// Uses an address as an input and as a callback; returns both outcomes.
async fn outcome(app: &TestApp, url: &str) -> EgressOutcome {
    let (task, failure) = match submit(app, url, url).await {
        Ok(task) => (task, Some("input_unavailable")),
        Err(problem) => {
            let pointers: Vec<_> =
                problem["errors"].as_array().unwrap().iter().map(|item| item["pointer"].clone()).collect();
            if pointers.contains(&json!("/webhook_url")) {
                return EgressOutcome::Rejected;
            }
            // A picture in the body for the input, and a URL for the callback.
            (submit(app, &picture::base64_png(4, 4), url).await.unwrap(), None)
        }
    };
    let has_attempt =
        |found: &[Value]| found.first().is_some_and(|item| item["attempts"].as_array().unwrap().len() == 1);
    let delivery = wait_for_deliveries(app, app.admin_token(), &task, has_attempt).await[0].clone();
    let body = app.get_as(app.admin_token(), &format!("/tasks/{task}")).await.expect(200).json();
    assert_eq!(body["error"]["code"].as_str(), failure, "{url}: {body}");
    let attempt = &delivery["attempts"][0];
    match (attempt["status_code"].as_u64(), attempt["reason"].as_str()) {
        (None, Some(reason)) if reason.starts_with("the egress rules forbid") => EgressOutcome::Forbidden,
        (Some(302), _) => EgressOutcome::Redirected,
        other => panic!("{url}: {other:?}"),
    }
}

#[actix_web::test]
async fn no_notation_of_a_forbidden_address_is_called() {
    let canary = Canary::start();
    let redirecting = canary::redirecting(canary.port()).await;
    let rows = rows(canary.port(), redirecting);
    assert!(rows.len() >= 80, "{}", rows.len());

    let app = TestApp::start_with(strict, Environment::system().with_host_resolver(Arc::new(names))).await;
    let mut mismatches = Vec::new();
    for row in &rows {
        let actual = outcome(&app, &row.url).await;
        let connections = canary.requests();
        if actual != row.outcome || !connections.is_empty() {
            mismatches
                .push(format!("{}: {actual:?} instead of {:?}, the canary saw {connections:?}", row.url, row.outcome));
        }
    }
    assert!(mismatches.is_empty(), "{mismatches:#?}");
    println!("{} rows", rows.len());
}

#[actix_web::test]
async fn addresses_are_checked_at_every_resolution() {
    let canary = Canary::start();
    let redirecting = canary::redirecting(canary.port()).await;
    let app =
        TestApp::start_with(strict, Environment::system().with_host_resolver(Arc::new(rebinding_resolver()))).await;
    let input = format!("http://rebind.example:{redirecting}/to/rebind.example");
    let webhook_url = format!("http://127.0.0.9:{redirecting}/ok");
    let task = submit(&app, &input, &webhook_url).await.unwrap();
    wait_until_settled(&app, app.admin_token(), &task).await;
    let body = app.get_as(app.admin_token(), &format!("/tasks/{task}")).await.expect(200).json();
    assert!(body["error"]["message"].as_str().unwrap().contains("egress rules"), "{body}");
    assert!(canary.requests().is_empty(), "{:?}", canary.requests());
}

#[actix_web::test]
async fn the_canary_is_reachable_if_allowed() {
    let canary = Canary::start();
    let app = TestApp::start_with(open, Environment::system().with_host_resolver(Arc::new(names))).await;
    for host in ["127.0.0.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "１２７.1", "loopback.example"]
    {
        let url = format!("http://{host}:{}", canary.port());
        let task = submit(&app, &format!("{url}/input"), &format!("{url}/hook")).await.unwrap();
        wait_until_settled(&app, app.admin_token(), &task).await;
        assert_eq!(canary.requests(), ["GET /input HTTP/1.1", "POST /hook HTTP/1.1"], "{host}");
        canary.forget();
    }
}

#[actix_web::test]
async fn proxy_environment_variables_are_ignored() {
    let (canary, receiver) = (Canary::start(), Receiver::start().await);
    let data = tempfile::tempdir().unwrap();
    let mut command = command(data.path());
    let proxy = format!("http://127.0.0.1:{}", canary.port());
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(name, &proxy);
    }
    let service = Process::from_command(&mut command);
    let body = json!({"image": receiver.url("/input"), "webhook_url": receiver.url("/hook")});
    let response = client().post(service.url(PRECISION)).bearer_auth(TOKEN).json(&body).send().await.unwrap();
    assert_eq!(response.status(), 200);

    let received = receiver.wait_until(|received| received.iter().any(|item| item.path == "/hook")).await;
    assert!(received.iter().any(|it| it.path == "/input"), "the input was not fetched");
    assert!(canary.requests().is_empty(), "{:?}", canary.requests());
}
