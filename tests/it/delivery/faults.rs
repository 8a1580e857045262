//! Every fault of a receiver and its outcome, as docs/callbacks.md describes it. Three days pass on a clock that only
//! the test advances.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mediary::config::{PrivateAccess, Settings};
use mediary::domain::delivery::RETRY_SCHEDULE;
use mediary::environment::Environment;
use mediary::outbound::address::AllowEntry;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{UPSCALER, manual_clock, statuses, wait_for_deliveries};
use crate::image::PRECISION;
use crate::support::eventually::within;
use crate::support::process::{Process, TOKEN};
use crate::support::receiver::Receiver;
use crate::support::{TestApp, client, picture};

const HOUR: Duration = Duration::from_hours(1);
/// Number of steps of the schedule after which the service restarts.
const RESTART_AT: usize = 4;
/// Timeout of a receiver in this test; two attempts wait for it this long.
const TIMEOUT: Duration = Duration::from_secs(8);

/// Receiver, and the expected outcome of a callback to it.
struct DeliveryFaultRow {
    fault: &'static str,
    url: String,
    state: &'static str,
    /// Outcome of each attempt: the status, or a part of the reason.
    attempts: Vec<&'static str>,
    /// Minimum time between the first and the second attempt.
    pause: Duration,
}

impl DeliveryFaultRow {
    fn new(fault: &'static str, url: String, state: &'static str, attempts: &[&'static str]) -> Self {
        Self { fault, url, state, attempts: attempts.to_vec(), pause: Duration::ZERO }
    }

    fn pausing(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }
}

/// Starts a receiver that writes `head` after it has read something, and closes; with `endless` it repeats that without
/// end.
async fn raw(head: &'static str, endless: Option<&'static str>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let mut written = stream.write_all(head.as_bytes()).await;
                while let (Ok(()), Some(line)) = (&written, endless) {
                    written = stream.write_all(line.as_bytes()).await;
                }
            });
        }
    });
    address
}

/// Starts a receiver that does not respond the first two times.
async fn slow_twice() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut silent = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            if silent.len() < 2 {
                silent.push(stream);
                continue;
            }
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
        }
    });
    address
}

/// Starts a receiver that responds with `head` the first time, and with success afterwards.
async fn replying_at_first(head: &'static str) -> Receiver {
    let content = "HTTP/1.1 204 No Content";
    Receiver::with_replies(move |attempt, _| if attempt == 1 { head } else { content }.to_owned()).await
}

async fn always_replying(head: &'static str) -> Receiver {
    Receiver::with_replies(move |_, _| head.to_owned()).await
}

/// Address without a listener.
fn unused_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Receivers that must live as long as the test.
struct FaultReceivers {
    rows: Vec<DeliveryFaultRow>,
    down: SocketAddr,
    failing: Receiver,
    /// Targets of a name after its first attempt, and of a redirect.
    canaries: [TcpListener; 2],
    _receivers: Vec<Receiver>,
}

async fn receivers() -> FaultReceivers {
    let down = unused_address();
    let content = always_replying("HTTP/1.1 204 No Content").await;
    let failing = always_replying("HTTP/1.1 500 Internal Server Error").await;
    let gone_receiver = always_replying("HTTP/1.1 410 Gone").await;
    let busy = replying_at_first("HTTP/1.1 429 Too Many Requests\r\nretry-after: 7200").await;
    let later_receiver =
        replying_at_first("HTTP/1.1 503 Service Unavailable\r\nretry-after: Fri, 15 Jan 2027 11:00:00 GMT").await;

    let rebinding = always_replying("HTTP/1.1 503 Service Unavailable").await;
    let port = rebinding.url("").rsplit(':').next().unwrap().parse::<u16>().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let canaries = [TcpListener::bind(("127.0.0.2", port)).unwrap(), listener];

    let target = canaries[1].local_addr().unwrap();
    let redirecting =
        Receiver::with_replies(move |_, _| format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{target}/"))
            .await;

    let endless = raw("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n", Some("xxxxxxxxxxxxxxxxxxxxxxxx")).await;
    let headers =
        raw("HTTP/1.1 200 OK\r\n", Some("x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n")).await;
    let [garbage, closing] = [raw("what?\r\n\r\n", None).await, raw("", None).await];

    let mut after_down = vec!["cannot connect"; 9];
    after_down.push("204");
    let mut turned_private = vec!["503"];
    turned_private.resize(10, "the egress rules forbid");

    let http = |address: SocketAddr| format!("http://{address}/hook");
    let rows = vec![
        DeliveryFaultRow::new("none", content.url("/hook"), "delivered", &["204"]),
        DeliveryFaultRow::new("down for 72 h", http(down), "delivered", &after_down),
        DeliveryFaultRow::new("refuses connections", http(unused_address()), "dead", &["cannot connect"; 10]),
        DeliveryFaultRow::new("fails", failing.url("/hook"), "dead", &["500"; 10]),
        DeliveryFaultRow::new("redirects", redirecting.url("/hook"), "dead", &["307"; 10]),
        DeliveryFaultRow::new("is gone", gone_receiver.url("/hook"), "stopped", &["410"]),
        DeliveryFaultRow::new(
            "slow at first",
            http(slow_twice().await),
            "delivered",
            &["no response within 8 s", "no response within 8 s", "204"],
        ),
        DeliveryFaultRow::new("an endless body", http(endless), "delivered", &["200"]),
        DeliveryFaultRow::new("endless headers", http(headers), "dead", &["no response"; 10]),
        DeliveryFaultRow::new("busy, Retry-After in seconds", busy.url("/hook"), "delivered", &["429", "204"])
            .pausing(2 * HOUR),
        DeliveryFaultRow::new("busy, Retry-After as a date", later_receiver.url("/hook"), "delivered", &["503", "204"])
            .pausing(3 * HOUR),
        DeliveryFaultRow::new("no TLS", format!("https://{closing}/hook"), "dead", &["cannot connect"; 10]),
        DeliveryFaultRow::new("no HTTP", http(garbage), "dead", &["no response"; 10]),
        DeliveryFaultRow::new("hangs up", http(closing), "dead", &["no response"; 10]),
        DeliveryFaultRow::new(
            "a name that turns private",
            format!("http://rebinding.example:{port}/hook"),
            "dead",
            &turned_private,
        ),
    ];

    FaultReceivers {
        rows,
        down,
        failing,
        canaries,
        _receivers: vec![content, redirecting, gone_receiver, busy, later_receiver, rebinding],
    }
}

/// Refuses private addresses except for one, which stands for the public ones.
fn strict(settings: &mut Settings) {
    settings.egress.private = PrivateAccess::Deny;
    settings.egress.allow = vec![AllowEntry::parse("127.0.0.1").unwrap()];
    settings.callbacks.timeout = TIMEOUT;
}

/// Returns the only delivery of a task, once no attempt is due.
async fn wait_until_idle(app: &TestApp, task: &str, now: &str) -> Value {
    let is_idle = |delivery: &Value| {
        delivery["state"] != "pending" || delivery["next_attempt_at"].as_str().is_some_and(|next| next > now)
    };
    wait_for_deliveries(app, app.admin_token(), task, |found| found.first().is_some_and(is_idle)).await[0].clone()
}

#[actix_web::test]
async fn every_receiver_behaviour_has_its_documented_outcome() {
    let receivers = receivers().await;
    let connections = AtomicUsize::new(0);
    let rebinding = move |name: &str| -> Vec<IpAddr> {
        assert_eq!(name, "rebinding.example");
        let host = if connections.fetch_add(1, Ordering::SeqCst) == 0 { 1 } else { 2 };
        vec![[127, 0, 0, host].into()]
    };
    let environment = manual_clock().with_host_resolver(Arc::new(rebinding));
    let mut app = TestApp::start_with(strict, environment.clone()).await;
    let mut tasks = Vec::new();
    for row in &receivers.rows {
        let body = json!({"image": picture::base64_png(8, 8), "webhook_url": row.url});
        let task = app.post_as(app.admin_token(), PRECISION, body).await.expect(200).json();
        tasks.push(task["data"]["task_id"].as_str().unwrap().to_owned());
    }

    // When the whole schedule passes, with a restart in the middle; after 72 h the receiver that was down is back
    let mut elapsed = Duration::ZERO;
    let mut revived = None;
    let mut found = Vec::new();
    for (step, pause) in std::iter::once(Duration::ZERO).chain(RETRY_SCHEDULE).enumerate() {
        if step == RESTART_AT {
            app = TestApp::start_in(app.stop().await, strict, environment.clone()).await;
        }
        let pause = pause * 11 / 10 + Duration::from_secs(1);
        elapsed += pause;
        if elapsed >= 72 * HOUR && revived.is_none() {
            revived = Some(Receiver::start_on(receivers.down).await);
        }
        environment.advance(pause);
        found.clear();
        for task in &tasks {
            found.push(wait_until_idle(&app, task, &environment.now().to_string()).await);
        }
    }

    // Then every callback has the outcome of its row
    for (row, delivery) in receivers.rows.iter().zip(&found) {
        compare(row, delivery);
    }
    assert_eq!(revived.expect("three days have passed").received().len(), 1);
    let failed_attempts = receivers.failing.received();
    assert!(
        failed_attempts.iter().all(|callback| callback.header("webhook-id") == failed_attempts[0].header("webhook-id"))
    );
    for canary in &receivers.canaries {
        canary.set_nonblocking(true).unwrap();
        assert!(canary.accept().is_err(), "a forbidden address was called");
    }
}

fn compare(row: &DeliveryFaultRow, delivery: &Value) {
    let DeliveryFaultRow { fault, state, .. } = row;
    let attempts = delivery["attempts"].as_array().unwrap();
    let outcome = |attempt: &Value| match attempt["status_code"].as_u64() {
        Some(status) => status.to_string(),
        None => attempt["reason"].as_str().unwrap().to_owned(),
    };
    let outcomes: Vec<_> = attempts.iter().map(outcome).collect();
    let expected = outcomes.len() == row.attempts.len()
        && outcomes.iter().zip(&row.attempts).all(|(actual, expected)| actual.starts_with(expected));
    assert!(expected && delivery["state"] == *state, "{fault}: {} {outcomes:#?}", delivery["state"]);
    if !row.pause.is_zero() {
        let at = |index: usize| chrono::DateTime::parse_from_rfc3339(attempts[index]["at"].as_str().unwrap()).unwrap();
        assert!((at(1) - at(0)).to_std().unwrap() + Duration::from_secs(2) >= row.pause, "{fault}: {attempts:#?}");
    }
}

/// SIGKILL after the receiver has read the callback and before it answers, so before the attempt is recorded.
#[actix_web::test]
async fn a_webhook_sent_before_a_kill_is_resent_with_the_same_id() {
    let pid = Arc::new(OnceLock::<Pid>::new());
    let victim = Arc::clone(&pid);
    let receiver = Receiver::with_replies(move |attempt, _| {
        if attempt == 1 {
            kill_process(*victim.wait(), Signal::KILL).unwrap();
        }
        "HTTP/1.1 204 No Content".to_owned()
    })
    .await;
    let data = tempfile::tempdir().unwrap();
    let service = Process::start(data.path());
    pid.set(service.pid()).unwrap();
    let body = json!({"image": picture::base64_png(8, 8), "webhook_url": receiver.url("/hook")});
    let path = "/proxy/imagevendor/v1/ai/image-upscaler";
    // The response may be lost with the service.
    let _ = client().post(service.url(path)).bearer_auth(TOKEN).json(&body).send().await;
    receiver.wait_until(|received| received.len() == 1).await;
    service.wait_for_exit();
    let _service = Process::start(data.path());
    let received = receiver.wait_until(|received| received.len() == 3).await;
    assert_eq!(statuses(&received), ["IN_PROGRESS", "IN_PROGRESS", "COMPLETED"]);
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    assert_ne!(received[1].header("webhook-id"), received[2].header("webhook-id"));
}

#[actix_web::test]
async fn connections_per_receiver_are_limited_across_accounts() {
    // Given a receiver that accepts connections and never answers, and two accounts with more callbacks than its limit
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let address = silent.local_addr().unwrap();
    let silent = tokio::net::TcpListener::from_std(silent).unwrap();
    let app = TestApp::start_with(
        |settings| {
            settings.callbacks.per_receiver = 2;
            settings.callbacks.timeout = Duration::from_mins(5);
        },
        Environment::system(),
    )
    .await;
    let (ada, bob) = (app.user("ada").await, app.user("bob").await);
    let submit_as = async |token: &str, webhook: &str| {
        let body = json!({"image": picture::base64_png(16, 16), "webhook_url": webhook});
        app.post_as(token, UPSCALER, body).await.expect(200);
    };
    for user in [&ada, &bob, &ada, &bob, &ada, &bob] {
        submit_as(&user.token, &format!("http://{address}/hook")).await;
    }

    // When another receiver has got the callback of a later task
    let other = Receiver::start().await;
    submit_as(&bob.token, &other.url("/hook")).await;
    other.wait_until(|received| received.len() == 2).await;

    // Then the first one has exactly as many connections as its limit
    let mut open = Vec::new();
    while open.len() < 2 {
        open.push(within("the receiver is called", silent.accept()).await.unwrap());
    }
    let more = tokio::time::timeout(Duration::from_millis(500), silent.accept()).await;
    assert!(more.is_err(), "a third connection");
}
