//! Deliveries as their owner lists and repeats them.

use std::time::Duration;

use mediary::actors::projector::rebuild;
use serde_json::{Value, json};

use super::{
    listed, manual_clock, statuses, submit, wait_for_attempts, wait_for_completion, wait_for_deliveries,
    wait_until_settled,
};
use crate::image::PRECISION;
use crate::support::receiver::Receiver;
use crate::support::{TestApp, picture};

fn states(deliveries: &[Value]) -> Vec<&str> {
    deliveries.iter().map(|delivery| delivery["state"].as_str().unwrap()).collect()
}

#[actix_web::test]
async fn every_attempt_of_every_delivery_is_listed() {
    // Given a receiver that fails once
    let receiver = Receiver::with_replies(|attempt, _| match attempt {
        1 => "HTTP/1.1 500 Internal Server Error".to_owned(),
        _ => "HTTP/1.1 200 OK".to_owned(),
    })
    .await;
    let environment = manual_clock();
    let app = TestApp::start_with(|_| {}, environment.clone()).await;
    let task = submit(&app, &receiver.url("/hook")).await;
    wait_for_completion(&app, &task).await;
    wait_for_attempts(&app, &task, 1).await;

    // Then the first waits for its retry, and the second for the first
    let found = listed(&app, app.admin_token(), &task).await;
    assert_eq!(states(&found), ["pending", "pending"]);
    assert_eq!((&found[0]["status"], &found[1]["status"]), (&json!("IN_PROGRESS"), &json!("COMPLETED")));
    assert_eq!(found[0]["attempts"], json!([{"number": 1, "at": "2027-01-15T08:00:00.000000Z", "status_code": 500}]));
    assert!(found[0]["next_attempt_at"].as_str().unwrap().starts_with("2027-01-15T08:00:05"), "{found:#?}");
    assert_eq!((&found[1]["waits_for"], found[1].get("next_attempt_at")), (&found[0]["id"], None));
    assert_eq!(found[1]["attempts"], json!([]));

    // And a pending delivery cannot be redelivered
    for delivery in &found {
        let redeliver_path = format!("/deliveries/{}/redeliver", delivery["id"].as_str().unwrap());
        app.post_as(app.admin_token(), &redeliver_path, json!({})).await.expect(409);
    }

    // And after the next attempt both are delivered, even when listed after a restart
    environment.advance(Duration::from_millis(5500));
    let found = wait_until_settled(&app, app.admin_token(), &task).await;
    assert_eq!(states(&found), ["delivered", "delivered"]);
    assert_eq!(found[0]["attempts"].as_array().unwrap().len(), 2);
    let received = receiver.received();
    assert_eq!(found[1]["webhook_id"], received[2].header("webhook-id"));
    let app = TestApp::start_in(app.stop().await, |_| {}, environment).await;
    assert_eq!(listed(&app, app.admin_token(), &task).await, found);
}

#[actix_web::test]
async fn a_redelivery_keeps_its_id() {
    // Given a receiver that first rejects every callback and later accepts all
    let receiver = Receiver::with_replies(|attempt, _| match attempt {
        1 | 2 => "HTTP/1.1 410 Gone".to_owned(),
        _ => "HTTP/1.1 200 OK".to_owned(),
    })
    .await;
    let app = TestApp::start().await;
    let task = submit(&app, &receiver.url("/hook")).await;
    let found = wait_until_settled(&app, app.admin_token(), &task).await;
    assert_eq!(states(&found), ["stopped", "stopped"]);

    // When the first is redelivered
    let path = format!("/deliveries/{}/redeliver", found[0]["id"].as_str().unwrap());
    let body = app.post_as(app.admin_token(), &path, json!({})).await.expect(200).json();
    assert_eq!(body["id"], found[0]["id"]);
    let found = wait_for_deliveries(&app, app.admin_token(), &task, |found| found[0]["state"] == "delivered").await;

    // Then it arrives under the same id, and its attempts continue
    let received = receiver.received();
    assert_eq!(statuses(&received), ["IN_PROGRESS", "COMPLETED", "IN_PROGRESS"]);
    assert_eq!(received[0].header("webhook-id"), received[2].header("webhook-id"));
    assert_eq!(received[0].body, received[2].body);
    let numbers: Vec<_> = found[0]["attempts"].as_array().unwrap().iter().map(|item| item["number"].clone()).collect();
    assert_eq!((states(&found), numbers), (vec!["delivered", "stopped"], vec![json!(1), json!(2)]));

    // And a successful delivery can be redelivered, too
    app.post_as(app.admin_token(), &path, json!({})).await.expect(200);
    receiver.wait_until(|received| received.len() == 4).await;
    wait_until_settled(&app, app.admin_token(), &task).await;
    assert_eq!(rebuild(&**app.app.log()).unwrap(), *app.app.models().read());
}

#[actix_web::test]
async fn redeliveries_keep_the_order_of_changes() {
    // Given a task whose two deliveries were stopped
    let receiver = Receiver::with_replies(|attempt, _| match attempt {
        1 | 2 => "HTTP/1.1 410 Gone".to_owned(),
        3 => "HTTP/1.1 503 Service Unavailable".to_owned(),
        _ => "HTTP/1.1 200 OK".to_owned(),
    })
    .await;
    let environment = manual_clock();
    let app = TestApp::start_with(|_| {}, environment.clone()).await;
    let task = submit(&app, &receiver.url("/hook")).await;
    let found = wait_until_settled(&app, app.admin_token(), &task).await;
    let redeliver_path = |index: usize| format!("/deliveries/{}/redeliver", found[index]["id"].as_str().unwrap());

    // When the later one is redelivered and fails, and then the earlier one is redelivered
    app.post_as(app.admin_token(), &redeliver_path(1), json!({})).await.expect(200);
    wait_for_deliveries(&app, app.admin_token(), &task, |found| found[1]["attempts"].as_array().unwrap().len() == 2)
        .await;
    app.post_as(app.admin_token(), &redeliver_path(0), json!({})).await.expect(200);
    wait_for_deliveries(&app, app.admin_token(), &task, |found| found[0]["state"] == "delivered").await;
    environment.advance(Duration::from_millis(5500));
    wait_until_settled(&app, app.admin_token(), &task).await;

    // Then the earlier one arrives first
    let last: Vec<_> = statuses(&receiver.received())[2..].to_vec();
    assert_eq!(last, ["COMPLETED", "IN_PROGRESS", "COMPLETED"]);
}

#[actix_web::test]
async fn only_the_owner_sees_deliveries() {
    let (app, receiver) = (TestApp::start().await, Receiver::start().await);
    let (ada, bob) = (app.user("ada").await, app.user("bob").await);
    let body = json!({"image": picture::base64_png(8, 8), "webhook_url": receiver.url("/hook")});
    let task = crate::image::submit(&app, &ada, PRECISION, body).await;
    let found = wait_until_settled(&app, &ada.token, &task).await;
    // Precision upscaling reports only its end
    assert_eq!((found.len(), &found[0]["status"]), (1, &json!("COMPLETED")));
    app.get_as(&bob.token, &format!("/tasks/{task}/deliveries")).await.expect(404);

    let redeliver_path = format!("/deliveries/{}/redeliver", found[0]["id"].as_str().unwrap());
    app.post_as(&bob.token, &redeliver_path, json!({})).await.expect(404);

    for unknown in ["nothing", "00000000-0000-4000-8000-00000000abcd", task.as_str()] {
        app.post_as(&ada.token, &format!("/deliveries/{unknown}/redeliver"), json!({})).await.expect(404);
    }
    let silent = json!({"image": picture::base64_png(8, 8)});
    let task = crate::image::submit(&app, &ada, PRECISION, silent).await;
    assert_eq!(listed(&app, &ada.token, &task).await, Vec::<Value>::new());
}

#[actix_web::test]
async fn delivery_contents_are_reread_from_the_log() {
    // Given a receiver that is down while tasks end
    let down = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = down.local_addr().unwrap();
    drop(down);
    let environment = manual_clock();
    let app = TestApp::start_with(|_| {}, environment.clone()).await;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(submit(&app, &format!("http://{address}/hook")).await);
    }
    for task in &tasks {
        wait_for_completion(&app, task).await;
        wait_for_attempts(&app, task, 1).await;
    }
    assert_eq!(rebuild(&**app.app.log()).unwrap(), *app.app.models().read());

    // When it is back
    let receiver = Receiver::start_on(address).await;
    environment.advance(Duration::from_millis(5500));

    // Then it gets the same callbacks as if it had been up
    for task in &tasks {
        wait_until_settled(&app, app.admin_token(), task).await;
        let callbacks: Vec<_> =
            receiver.received().into_iter().filter(|callback| callback.task_id() == *task).collect();
        assert_eq!(statuses(&callbacks), ["IN_PROGRESS", "COMPLETED"]);
        let path = format!("/proxy/imagevendor/v1/ai/image-upscaler/{task}");
        let task_body = app.get_as(app.admin_token(), &path).await.expect(200).json();
        assert_eq!(callbacks[1].json(), task_body["data"]);
    }
    assert_eq!(app.app.models().read().deliveries.pending_count(), 0);
}

#[actix_web::test]
async fn pending_deliveries_per_account_are_limited() {
    let down = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let few = |settings: &mut mediary::config::Settings| settings.callbacks.pending_per_account = 1;
    let app = TestApp::start_with(few, manual_clock()).await;
    let (ada, bob) = (app.user("ada").await, app.user("bob").await);
    let body = |webhook: bool| {
        let mut body = json!({"image": picture::base64_png(8, 8)});
        if webhook {
            body["webhook_url"] = format!("http://{down}/hook").into();
        }
        body
    };
    let task = crate::image::submit(&app, &ada, PRECISION, body(true)).await;
    wait_for_deliveries(&app, &ada.token, &task, |found| !found.is_empty()).await;
    let problem = app.post_as(&ada.token, PRECISION, body(true)).await.expect(429);
    assert_eq!(
        (problem.json()["error"].as_str(), problem.header("retry-after")),
        (Some("too_many_callbacks"), Some("60"))
    );

    let metrics = app.get("/metrics").await.expect(200).text();
    assert!(metrics.contains("mediary_limit_refusals_total{code=\"too_many_callbacks\"} 1\n"), "{metrics}");
    crate::image::submit(&app, &ada, PRECISION, body(false)).await;
    crate::image::submit(&app, &bob, PRECISION, body(true)).await;
}
