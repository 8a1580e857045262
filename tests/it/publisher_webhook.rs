//! Webhooks of publishers: management, events of nodes and versions, tests, deliveries and redelivery.

use std::time::Duration;

use mediary::actors::projector::rebuild;
use mediary::domain::value::Timestamp;
use mediary::environment::Environment;
use serde_json::{Value, json};

use crate::support::eventually::eventually_on;
use crate::support::receiver::{ReceivedRequest, Receiver};
use crate::support::{TestApp, TestUser};

const WEBHOOKS: &str = "/publishers/acme/webhooks";
const NODES: &str = "/publishers/acme/nodes";

/// Creates the publisher `acme` with a node; returns its owner.
async fn acme(app: &TestApp) -> TestUser {
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    app.node("acme", "face-tools", &alice).await;
    alice
}

/// Creates a webhook; returns its path.
async fn create(app: &TestApp, owner: &TestUser, body: Value) -> String {
    let webhook = app.post_as(&owner.token, WEBHOOKS, body).await.expect(201).json();
    format!("{WEBHOOKS}/{}", webhook["id"].as_str().unwrap())
}

async fn publish(app: &TestApp, owner: &TestUser, number: &str) {
    let body = json!({"node_version": {"version": number}});
    app.post_as(&owner.token, &format!("{NODES}/face-tools/versions"), body).await.expect(201);
}

async fn moderate(app: &TestApp, number: &str, status: &str) {
    let body = json!({"status": format!("NodeVersionStatus{status}"), "status_reason": "checked"});
    app.put_as(app.admin_token(), &format!("/admin/nodes/face-tools/versions/{number}"), body).await.expect(200);
}

fn types(received: &[ReceivedRequest]) -> Vec<String> {
    received.iter().map(|callback| callback.json()["type"].as_str().unwrap().to_owned()).collect()
}

async fn deliveries(app: &TestApp, owner: &TestUser, webhook: &str) -> Vec<Value> {
    let page = app.get_as(&owner.token, &format!("{webhook}/deliveries")).await.expect(200).json();
    page["deliveries"].as_array().unwrap().clone()
}

/// Waits until the deliveries satisfy the predicate.
async fn wait_for_deliveries(
    app: &TestApp,
    owner: &TestUser,
    webhook: &str,
    condition: impl Fn(&[Value]) -> bool,
) -> Vec<Value> {
    eventually_on(app.app.models().delivery_changes(), "the deliveries are as expected", async || {
        let deliveries = deliveries(app, owner, webhook).await;
        condition(&deliveries).then_some(deliveries)
    })
    .await
}

fn all_delivered(deliveries: &[Value]) -> bool {
    deliveries.iter().all(|delivery| delivery["state"] == "delivered")
}

#[actix_web::test]
async fn a_webhook_is_created_changed_and_deleted_by_owners() {
    let app = TestApp::start().await;
    let alice = acme(&app).await;

    // Given a webhook without a selection of events
    let created = app.post_as(&alice.token, WEBHOOKS, json!({"url": "https://a.example/hook"})).await.expect(201);
    let path = created.header("location").unwrap().to_owned();
    let webhook = created.json();
    assert!(path.ends_with(&format!("{WEBHOOKS}/{}", webhook["id"].as_str().unwrap())), "{path}");
    assert_eq!((&webhook["enabled"], &webhook["account"]), (&json!(true), &json!(alice.id)));
    assert_eq!(webhook["events"].as_array().unwrap().len(), 8);
    let path = format!("{WEBHOOKS}/{}", webhook["id"].as_str().unwrap());
    assert_eq!(app.get_as(&alice.token, &path).await.expect(200).json(), webhook);

    // When fields change, then the others stay
    let change = json!({"events": ["node.banned", "version.published", "node.banned"], "enabled": false});
    let changed = app.put_as(&alice.token, &path, change).await.expect(200).json();
    let expected = json!(["version.published", "node.banned"]);
    assert_eq!((&changed["events"], &changed["enabled"], &changed["url"]), (&expected, &json!(false), &webhook["url"]));
    assert_eq!(app.get_as(&alice.token, WEBHOOKS).await.expect(200).json(), json!([changed]));

    // And a disabled one sends no test
    app.post_as(&alice.token, &format!("{path}/test"), json!({})).await.expect(409);

    // And a deleted one is not found
    app.delete_as(&alice.token, &path).await.expect(204);
    app.get_as(&alice.token, &path).await.expect(404);
    app.put_as(&alice.token, &path, json!({})).await.expect(404);
    app.delete_as(&alice.token, &path).await.expect(404);
    assert_eq!(app.get_as(&alice.token, WEBHOOKS).await.expect(200).json(), json!([]));
}

#[actix_web::test]
async fn a_publisher_has_at_most_five_webhooks() {
    let app = TestApp::start().await;
    let alice = acme(&app).await;
    for _ in 0..5 {
        create(&app, &alice, json!({"url": "https://a.example/hook"})).await;
    }
    let refused = app.post_as(&alice.token, WEBHOOKS, json!({"url": "https://a.example/hook"})).await.expect(409);
    assert!(refused.text().contains("5 webhooks"), "{}", refused.text());
}

#[actix_web::test]
async fn an_error_names_every_invalid_field() {
    let app = TestApp::start().await;
    let alice = acme(&app).await;
    let pointers = |problem: &Value| {
        let errors = problem["errors"].as_array().unwrap();
        errors.iter().map(|error| error["pointer"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let cases = [
        (
            json!({"url": "ftp://a", "events": ["x", "node.banned"], "enabled": 1}),
            vec!["/url", "/events/0", "/enabled"],
        ),
        (json!({"url": "https://user:pass@a.example", "events": []}), vec!["/url", "/events"]),
        (json!({"events": "all"}), vec!["/url", "/events"]),
        (json!({"url": null}), vec!["/url"]),
    ];
    for (body, expected) in cases {
        let problem = app.post_as(&alice.token, WEBHOOKS, body.clone()).await.expect(400).json();
        assert_eq!(pointers(&problem), expected, "{body}: {problem}");
    }

    let path = create(&app, &alice, json!({"url": "https://a.example/hook"})).await;
    let cases = [
        (json!({}), vec!["/since"]),
        (json!({"since": "yesterday", "after": -1}), vec!["/since", "/after"]),
        (json!({"since": "2026-01-01T00:00:00Z", "after": 1}), vec!["/after"]),
        (json!({"after": "x"}), vec!["/after"]),
    ];
    for (body, expected) in cases {
        let problem = app.post_as(&alice.token, &format!("{path}/redeliver"), body.clone()).await.expect(400).json();
        let mut found = pointers(&problem);
        found.dedup();
        assert_eq!(found, expected, "{body}: {problem}");
    }

    for id in ["x", "00000000-0000-4000-8000-000000000000"] {
        app.get_as(&alice.token, &format!("{WEBHOOKS}/{id}")).await.expect(404);
    }
}

#[actix_web::test]
async fn events_of_nodes_and_versions_are_sent_in_order() {
    let (app, receiver) = (TestApp::start().await, Receiver::start().await);
    let alice = acme(&app).await;
    let webhook = create(&app, &alice, json!({"url": receiver.url("/hook")})).await;

    // When a version passes through all states, and then its node
    publish(&app, &alice, "1.0.0").await;
    for status in ["Active", "Flagged", "Banned", "Deleted"] {
        moderate(&app, "1.0.0", status).await;
    }
    let reason = json!({"reason": "spam"});
    app.post_as(app.admin_token(), "/admin/nodes/face-tools/ban", reason.clone()).await.expect(204);
    app.post_as(app.admin_token(), "/admin/nodes/face-tools/unban", reason).await.expect(204);
    app.delete_as(&alice.token, &format!("{NODES}/face-tools")).await.expect(204);

    // Then each change arrives
    let received = receiver.wait_until(|received| received.len() == 8).await;
    let expected = [
        "version.published",
        "version.approved",
        "version.flagged",
        "version.banned",
        "version.deleted",
        "node.banned",
        "node.approved",
        "node.deleted",
    ];
    assert_eq!(types(&received), expected);
    let bodies: Vec<Value> = received.iter().map(ReceivedRequest::json).collect();
    let flagged = &bodies[2]["data"];
    assert_eq!((&flagged["publisher_id"], &flagged["node_id"]), (&json!("acme"), &json!("face-tools")));
    assert_eq!((&flagged["version"], &flagged["reason"]), (&json!("1.0.0"), &json!("checked")));
    assert_eq!(flagged["status"], "NodeVersionStatusFlagged");
    assert_eq!(bodies[5]["data"]["status"], "NodeStatusBanned");
    assert!(bodies.windows(2).all(|pair| pair[0]["position"].as_u64() < pair[1]["position"].as_u64()));
    for (callback, body) in received.iter().zip(&bodies) {
        let id = body["delivery_id"].as_str().unwrap();
        assert_eq!(callback.header("webhook-id"), format!("msg_{id}"));
        assert!(callback.header("webhook-signature").starts_with("v1a,"));

        // And no body names a person
        assert!(!callback.body.windows(5).any(|part| part == b"alice"), "{body}");
    }

    // And the deliveries are listed, newest first
    let listed = wait_for_deliveries(&app, &alice, &webhook, all_delivered).await;
    assert_eq!(listed.len(), 8);
    assert_eq!((&listed[7]["event"], &listed[7]["version"]), (&json!("version.published"), &json!("1.0.0")));
    assert_eq!(listed[7]["attempts"][0]["status_code"], 204);
    assert_eq!(rebuild(&**app.app.log()).unwrap(), *app.app.models().read());
}

#[actix_web::test]
async fn a_webhook_gets_only_the_events_that_it_selects_while_enabled() {
    let (app, receiver) = (TestApp::start().await, Receiver::start().await);
    let alice = acme(&app).await;
    let webhook = create(&app, &alice, json!({"url": receiver.url("/"), "events": ["version.flagged"]})).await;
    let other = create(&app, &alice, json!({"url": receiver.url("/other"), "events": ["version.flagged"]})).await;
    app.put_as(&alice.token, &other, json!({"enabled": false})).await.expect(200);
    publish(&app, &alice, "1.0.0").await;
    moderate(&app, "1.0.0", "Flagged").await;
    moderate(&app, "1.0.0", "Active").await;
    app.post_as(&alice.token, &format!("{webhook}/test"), json!({})).await.expect(200);
    let received = receiver.wait_until(|received| received.len() == 2).await;
    let mut found = types(&received);
    found.sort();
    assert_eq!(found, ["version.flagged", "webhook.test"]);
    assert_eq!(deliveries(&app, &alice, &other).await, Vec::<Value>::new());

    // And a new reason for the same status is not an event
    moderate(&app, "1.0.0", "Active").await;
    assert_eq!(deliveries(&app, &alice, &webhook).await.len(), 2);
}

#[actix_web::test]
async fn a_test_event_is_sent_and_can_be_redelivered() {
    let (app, receiver) = (TestApp::start().await, Receiver::start().await);
    let alice = acme(&app).await;
    let webhook = create(&app, &alice, json!({"url": receiver.url("/")})).await;
    let delivery = app.post_as(&alice.token, &format!("{webhook}/test"), json!({})).await.expect(200).json();
    assert_eq!(delivery["event"], "webhook.test");
    let received = receiver.wait_until(|received| received.len() == 1).await;
    assert_eq!(received[0].json()["data"], json!({"publisher_id": "acme"}));
    wait_for_deliveries(&app, &alice, &webhook, all_delivered).await;

    // When a stranger redelivers it, then it is not found
    let redeliver = format!("/deliveries/{}/redeliver", delivery["id"].as_str().unwrap());
    let bob = app.user("bob").await;
    app.post_as(&bob.token, &redeliver, json!({})).await.expect(404);

    // When the owner does, then it arrives under the same id
    let again = app.post_as(&alice.token, &redeliver, json!({})).await.expect(200).json();
    assert_eq!(again["id"], delivery["id"]);
    let received = receiver.wait_until(|received| received.len() == 2).await;
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    assert_eq!(received[0].body, received[1].body);
}

#[actix_web::test]
async fn each_test_answers_its_own_delivery() {
    // Given a webhook whose receiver is down, so that tests stay pending
    let app = TestApp::start().await;
    let alice = acme(&app).await;
    let webhook = create(&app, &alice, json!({"url": "http://127.0.0.1:9/"})).await;

    // When several tests run at the same time
    let path = format!("{webhook}/test");
    let tests = (0..12).map(|_| app.post_as(&alice.token, &path, json!({})));
    let responses = futures_util::future::join_all(tests).await;

    // Then each one answers another delivery
    let ids = responses.into_iter().map(|response| response.expect(200).json()["id"].as_str().unwrap().to_owned());
    assert_eq!(ids.collect::<std::collections::HashSet<_>>().len(), 12);
}

#[actix_web::test]
async fn a_delivery_is_redelivered_at_most_ten_times_a_day() {
    let environment = Environment::manual(Timestamp::from_micros(1_800_000_000_000_000), 7);
    let app = TestApp::start_with(|_| {}, environment.clone()).await;
    let receiver = Receiver::start().await;
    let alice = acme(&app).await;
    let webhook = create(&app, &alice, json!({"url": receiver.url("/")})).await;
    let delivery = app.post_as(&alice.token, &format!("{webhook}/test"), json!({})).await.expect(200).json();
    let redeliver = format!("/deliveries/{}/redeliver", delivery["id"].as_str().unwrap());
    for _ in 0..10 {
        wait_for_deliveries(&app, &alice, &webhook, all_delivered).await;
        app.post_as(&alice.token, &redeliver, json!({})).await.expect(200);
    }
    wait_for_deliveries(&app, &alice, &webhook, all_delivered).await;

    // When it is redelivered once more, then alone and with others it is refused
    let refused = app.post_as(&alice.token, &redeliver, json!({})).await.expect(429);
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.json()["error"], "too_many_callbacks");
    let since = format!("{webhook}/redeliver");
    let response = app.post_as(&alice.token, &since, json!({"after": 0})).await.expect(200).json();
    assert_eq!(response, json!({"redelivered": 0, "pending": 0, "exhausted": 1}));

    // And on the next day it is sent again
    environment.advance(Duration::from_hours(24));
    app.post_as(&alice.token, &redeliver, json!({})).await.expect(200);
    receiver.wait_until(|received| received.len() == 12).await;
}

#[actix_web::test]
async fn events_since_a_time_or_position_are_redelivered() {
    let (environment, receiver) =
        (Environment::manual(Timestamp::from_micros(1_800_000_000_000_000), 7), Receiver::start().await);
    let app = TestApp::start_with(|_| {}, environment.clone()).await;
    let alice = acme(&app).await;
    let webhook = create(&app, &alice, json!({"url": receiver.url("/"), "events": ["version.published"]})).await;
    publish(&app, &alice, "1.0.0").await;
    environment.advance(Duration::from_mins(1));
    let since = environment.now().to_string();
    for number in ["1.1.0", "1.2.0"] {
        publish(&app, &alice, number).await;
    }
    receiver.wait_until(|received| received.len() == 3).await;
    let listed = wait_for_deliveries(&app, &alice, &webhook, all_delivered).await;

    // When the events since a time are redelivered
    let redeliver = format!("{webhook}/redeliver");
    let response = app.post_as(&alice.token, &redeliver, json!({"since": since})).await.expect(200).json();
    assert_eq!(response, json!({"redelivered": 2, "pending": 0, "exhausted": 0}));
    receiver.wait_until(|received| received.len() == 5).await;
    wait_for_deliveries(&app, &alice, &webhook, all_delivered).await;

    // And then those after the position of the first
    let after = &listed[2]["position"];
    let response = app.post_as(&alice.token, &redeliver, json!({"after": after})).await.expect(200).json();
    assert_eq!(response["redelivered"], 2);
    let received = receiver.wait_until(|received| received.len() == 7).await;
    let versions: Vec<Value> = received.iter().map(|callback| callback.json()["data"]["version"].clone()).collect();
    assert_eq!(versions, ["1.0.0", "1.1.0", "1.2.0", "1.1.0", "1.2.0", "1.1.0", "1.2.0"]);
    wait_for_deliveries(&app, &alice, &webhook, all_delivered).await;
    assert_eq!(rebuild(&**app.app.log()).unwrap(), *app.app.models().read());
}

#[actix_web::test]
async fn redelivery_is_bounded_and_paged() {
    let (app, receiver) = (TestApp::start().await, Receiver::start().await);
    let alice = acme(&app).await;
    let webhook = create(&app, &alice, json!({"url": receiver.url("/")})).await;
    for _ in 0..102 {
        app.post_as(&alice.token, &format!("{webhook}/test"), json!({})).await.expect(200);
    }
    receiver.wait_until(|received| received.len() == 102).await;
    let is_delivered = async |page: u64| {
        let path = format!("{webhook}/deliveries?limit=100&page={page}");
        let list = app.get_as(&alice.token, &path).await.expect(200).json();
        assert_eq!((&list["total"], &list["totalPages"]), (&json!(102), &json!(2)));
        all_delivered(list["deliveries"].as_array().unwrap())
    };
    eventually_on(app.app.models().delivery_changes(), "all are delivered", async || {
        is_delivered(1).await && is_delivered(2).await
    })
    .await;
    let redeliver = format!("{webhook}/redeliver");
    let first = app.post_as(&alice.token, &redeliver, json!({"after": 0})).await.expect(200).json();
    assert_eq!(first["redelivered"], 100);

    let rest = json!({"after": first["next_after"]});
    let rest = app.post_as(&alice.token, &redeliver, rest).await.expect(200).json();
    assert_eq!(rest, json!({"redelivered": 2, "pending": 0, "exhausted": 0}));
    receiver.wait_until(|received| received.len() == 204).await;
}

/// Starts a service whose webhooks may have `limit` pending deliveries, with a clock that stands still, so that failed
/// deliveries stay pending.
async fn with_pending_limit(limit: usize) -> TestApp {
    let environment = Environment::manual(Timestamp::from_micros(1_800_000_000_000_000), 7);
    TestApp::start_with(|settings| settings.callbacks.pending_per_account = limit, environment).await
}

#[actix_web::test]
async fn redelivery_stops_at_the_limit_of_pending_deliveries() {
    // Given five delivered tests, and a receiver that is gone
    let (app, receiver) = (with_pending_limit(3).await, Receiver::start().await);
    let alice = acme(&app).await;
    let webhook = create(&app, &alice, json!({"url": receiver.url("/")})).await;
    for number in 1..=5 {
        app.post_as(&alice.token, &format!("{webhook}/test"), json!({})).await.expect(200);
        wait_for_deliveries(&app, &alice, &webhook, |list| list.len() == number && all_delivered(list)).await;
    }
    app.put_as(&alice.token, &webhook, json!({"url": "http://127.0.0.1:9/"})).await.expect(200);

    // When all are redelivered, then as many as may be pending, and the response says where to continue
    let redeliver = format!("{webhook}/redeliver");
    let first = app.post_as(&alice.token, &redeliver, json!({"after": 0})).await.expect(200).json();
    let listed = deliveries(&app, &alice, &webhook).await;
    assert_eq!((&first["redelivered"], &first["next_after"]), (&json!(3), &listed[2]["position"]), "{first}");

    // And the next request is refused until there is room
    let refused = app.post_as(&alice.token, &redeliver, json!({"after": first["next_after"]})).await.expect(429);
    assert_eq!(refused.json()["error"], "too_many_callbacks");
    app.put_as(&alice.token, &webhook, json!({"url": receiver.url("/")})).await.expect(200);
    wait_for_deliveries(&app, &alice, &webhook, all_delivered).await;
    let rest = json!({"after": first["next_after"]});
    let rest = app.post_as(&alice.token, &redeliver, rest).await.expect(200).json();
    assert_eq!(rest, json!({"redelivered": 2, "pending": 0, "exhausted": 0}));
}

#[actix_web::test]
async fn versions_are_refused_while_a_webhook_has_too_many_pending_events() {
    // Given a receiver that is gone, and two published versions whose events are pending
    let app = with_pending_limit(2).await;
    let alice = acme(&app).await;
    let webhook = create(&app, &alice, json!({"url": "http://127.0.0.1:9/"})).await;
    for number in ["1.0.0", "1.1.0"] {
        publish(&app, &alice, number).await;
    }

    // When a third is published, then it is refused, and the error names the webhook
    let versions = format!("{NODES}/face-tools/versions");
    let body = json!({"node_version": {"version": "1.2.0"}});
    let refused = app.post_as(&alice.token, &versions, body.clone()).await.expect(429);
    assert_eq!((&refused.json()["error"], refused.header("retry-after")), (&json!("too_many_callbacks"), Some("60")));
    assert!(refused.text().contains(webhook.rsplit('/').next().unwrap()), "{}", refused.text());

    // And so is a node with its first version, but not one without
    let with_version = json!({"id": "hair-tools", "latest_version": {"version": "1.0.0"}});
    app.post_as(&alice.token, NODES, with_version).await.expect(429);
    app.post_as(&alice.token, NODES, json!({"id": "hair-tools"})).await.expect(201);

    // And moderation and deletion are not, and their events are queued
    moderate(&app, "1.0.0", "Banned").await;
    app.delete_as(&alice.token, &format!("{versions}/1.1.0")).await.expect(204);
    assert_eq!(deliveries(&app, &alice, &webhook).await.len(), 4);

    // And without the webhook versions are published again
    app.put_as(&alice.token, &webhook, json!({"enabled": false})).await.expect(200);
    app.post_as(&alice.token, &versions, body).await.expect(201);
}

#[actix_web::test]
async fn pending_events_survive_a_restart_and_follow_a_new_url() {
    // Given a receiver that is down
    let down = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = down.local_addr().unwrap();
    drop(down);
    let app = TestApp::start().await;
    let alice = acme(&app).await;
    let webhook =
        create(&app, &alice, json!({"url": format!("http://{address}/"), "events": ["version.published"]})).await;
    publish(&app, &alice, "1.0.0").await;
    let has_failed = |list: &[Value]| list.first().is_some_and(|item| item["attempts"] != json!([]));
    wait_for_deliveries(&app, &alice, &webhook, has_failed).await;

    // And the webhook is disabled, so that no attempt is made at the old URL after the restart
    app.put_as(&alice.token, &webhook, json!({"enabled": false})).await.expect(200);

    // When the service restarts, and the webhook gets the URL of another receiver
    let app = TestApp::start_in(app.stop().await, |_| {}, Environment::system()).await;
    let receiver = Receiver::start().await;
    let moved = json!({"url": receiver.url("/new"), "enabled": true});
    app.put_as(&alice.token, &webhook, moved).await.expect(200);

    // Then it arrives there
    let received = receiver.wait_until(|received| received.len() == 1).await;
    assert_eq!((received[0].path.as_str(), &types(&received)[..]), ("/new", &["version.published".to_owned()][..]));
}

#[actix_web::test]
async fn the_secret_of_the_account_that_set_the_url_signs() {
    // Given two owners with secrets, and a webhook of the first
    let (app, receiver) = (TestApp::start().await, Receiver::start().await);
    let alice = acme(&app).await;
    let bob = app.user("bob").await;
    let member = format!("/publishers/acme/members/{}", bob.id);
    app.put_as(&alice.token, &member, json!({"role": "owner"})).await.expect(200);
    let mut secrets = Vec::new();
    for owner in [&alice, &bob] {
        secrets.push(app.post_as(&owner.token, "/users/webhook-secret", json!({})).await.expect(200).json());
    }
    let webhook = create(&app, &alice, json!({"url": receiver.url("/")})).await;

    // When the first tests it, and then the second tests it, before and after setting another URL
    let test = format!("{webhook}/test");
    for owner in [&alice, &bob] {
        app.post_as(&owner.token, &test, json!({})).await.expect(200);
    }
    receiver.wait_until(|received| received.len() == 2).await;
    app.put_as(&bob.token, &webhook, json!({"url": receiver.url("/bob")})).await.expect(200);
    app.post_as(&bob.token, &test, json!({})).await.expect(200);

    // Then the secret of the account that set the URL has signed, and no other
    let received = receiver.wait_until(|received| received.len() == 3).await;
    for (callback, signer) in received.iter().zip([&secrets[0], &secrets[0], &secrets[1]]) {
        let signatures: Vec<&str> = callback.header("webhook-signature").split(' ').collect();
        assert_eq!(signatures[1..], [callback.signature_with(signer)], "{}", callback.path);
    }
}

#[actix_web::test]
async fn a_test_after_a_failure_and_a_correction_arrives_at_once() {
    // Given a webhook whose receiver is down, and a failed test
    let down = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = down.local_addr().unwrap();
    drop(down);
    let app = TestApp::start().await;
    let alice = acme(&app).await;
    let webhook = create(&app, &alice, json!({"url": format!("http://{address}/")})).await;
    app.post_as(&alice.token, &format!("{webhook}/test"), json!({})).await.expect(200);
    let has_failed = |list: &[Value]| list.first().is_some_and(|item| item["attempts"] != json!([]));
    wait_for_deliveries(&app, &alice, &webhook, has_failed).await;

    // When its URL is corrected and it is tested again
    let receiver = Receiver::start().await;
    app.put_as(&alice.token, &webhook, json!({"url": receiver.url("/")})).await.expect(200);
    app.post_as(&alice.token, &format!("{webhook}/test"), json!({})).await.expect(200);

    // Then both tests arrive
    let received = receiver.wait_until(|received| received.len() == 2).await;
    assert_eq!(types(&received), ["webhook.test", "webhook.test"]);
}
