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

use crate::delivery::{settled, until};
use crate::image::PRECISION;
use crate::support::process::{Process, TOKEN, command};
use crate::support::receiver::Receiver;
use crate::support::{TestApp, client, picture};
use canary::Canary;
use rows::{Outcome, rows};

/// Addresses of the test's host names; the machine's resolver is not used.
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
        other => panic!("nobody should ask for {other}"),
    };
    addresses.iter().map(|address| address.parse().unwrap()).collect()
}

/// Name that resolves to the redirecting server the first time, and to the canary afterwards.
fn rebinding() -> impl Fn(&str) -> Vec<IpAddr> {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    move |name| match name {
        "rebind.example" if asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 => vec![[127, 0, 0, 9].into()],
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

async fn submit(app: &TestApp, input: &str, hook: &str) -> Result<String, Value> {
    let answer = app.post_as(app.admin_token(), PRECISION, json!({"image": input, "webhook_url": hook})).await;
    match answer.status {
        200 => Ok(answer.json()["data"]["task_id"].as_str().unwrap().to_owned()),
        400 => Err(answer.json()),
        _ => panic!("{input}: {}", answer.text()),
    }
}

/// Outcome of an address as an input and as a callback.
async fn outcome(app: &TestApp, place: &str) -> Outcome {
    let (task, failure) = match submit(app, place, place).await {
        Ok(task) => (task, Some("input_unavailable")),
        Err(problem) => {
            let wrong: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|it| it["pointer"].clone()).collect();
            if wrong.contains(&json!("/webhook_url")) {
                return Outcome::NotTaken;
            }
            // A picture in the body for the input, and a URL for the callback.
            (submit(app, &picture::base64_png(4, 4), place).await.unwrap(), None)
        }
    };
    let attempted = |found: &[Value]| found.first().is_some_and(|it| it["attempts"].as_array().unwrap().len() == 1);
    let delivery = until(app, app.admin_token(), &task, attempted).await[0].clone();
    let shown = app.get_as(app.admin_token(), &format!("/tasks/{task}")).await.expect(200).json();
    assert_eq!(shown["error"]["code"].as_str(), failure, "{place}: {shown}");
    let attempt = &delivery["attempts"][0];
    match (attempt["status_code"].as_u64(), attempt["reason"].as_str()) {
        (None, Some(reason)) if reason.starts_with("the egress rules forbid") => Outcome::Forbidden,
        (Some(302), _) => Outcome::Redirected,
        other => panic!("{place}: {other:?}"),
    }
}

#[actix_web::test]
async fn no_way_to_write_a_forbidden_address_leads_there() {
    let canary = Canary::start();
    let redirecting = canary::redirecting(canary.port()).await;
    let rows = rows(canary.port(), redirecting);
    assert!(rows.len() >= 80, "{}", rows.len());
    let app = TestApp::start_with(strict, Environment::system().with_host_resolver(Arc::new(names))).await;
    let mut wrong = Vec::new();
    for row in &rows {
        let came = outcome(&app, &row.url).await;
        let seen = canary.seen();
        if came != row.outcome || !seen.is_empty() {
            wrong.push(format!("{}: {came:?} instead of {:?}, the canary saw {seen:?}", row.url, row.outcome));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!("{} rows", rows.len());
}

#[actix_web::test]
async fn a_name_that_leads_elsewhere_the_second_time_is_looked_at_the_second_time() {
    let canary = Canary::start();
    let redirecting = canary::redirecting(canary.port()).await;
    let app = TestApp::start_with(strict, Environment::system().with_host_resolver(Arc::new(rebinding()))).await;
    let input = format!("http://rebind.example:{redirecting}/to/rebind.example");
    let hook = format!("http://127.0.0.9:{redirecting}/ok");
    let task = submit(&app, &input, &hook).await.unwrap();
    settled(&app, app.admin_token(), &task).await;
    let shown = app.get_as(app.admin_token(), &format!("/tasks/{task}")).await.expect(200).json();
    assert!(shown["error"]["message"].as_str().unwrap().contains("egress rules"), "{shown}");
    assert!(canary.seen().is_empty(), "{:?}", canary.seen());
}

#[actix_web::test]
async fn the_canary_is_reached_when_that_is_allowed() {
    let canary = Canary::start();
    let app = TestApp::start_with(open, Environment::system().with_host_resolver(Arc::new(names))).await;
    for host in ["127.0.0.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "１２７.1", "loopback.example"]
    {
        let place = format!("http://{host}:{}", canary.port());
        let task = submit(&app, &format!("{place}/input"), &format!("{place}/hook")).await.unwrap();
        settled(&app, app.admin_token(), &task).await;
        assert_eq!(canary.seen(), ["GET /input HTTP/1.1", "POST /hook HTTP/1.1"], "{host}");
        canary.forget();
    }
}

#[actix_web::test]
async fn a_proxy_of_the_environment_is_not_asked() {
    let (canary, receiver) = (Canary::start(), Receiver::start().await);
    let data = tempfile::tempdir().unwrap();
    let mut command = command(data.path());
    let proxy = format!("http://127.0.0.1:{}", canary.port());
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(name, &proxy);
    }
    let service = Process::from_command(&mut command);
    let body = json!({"image": receiver.url("/input"), "webhook_url": receiver.url("/hook")});
    let sent = client().post(service.url(PRECISION)).bearer_auth(TOKEN).json(&body).send().await.unwrap();
    assert_eq!(sent.status(), 200);
    let received = receiver.wait_until(|received| received.iter().any(|it| it.path == "/hook")).await;
    assert!(received.iter().any(|it| it.path == "/input"), "the input was not fetched");
    assert!(canary.seen().is_empty(), "{:?}", canary.seen());
}
