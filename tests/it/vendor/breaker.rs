//! Vendor that is down: tasks wait, none fails, and all complete when it is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mediary::config::Settings;
use mediary::environment::Environment;

use super::{remote, sim, upscale};
use crate::image::{UPSCALER, submit, wait_for_end};
use crate::support::TestApp;
use crate::support::eventually::eventually;
use crate::support::files::vacant_port;
use crate::support::vendor_sim::{SimBehavior, SimMode, SimRequestKind, VendorSim};
use crate::task::blocked::blocked_task;

fn set_sensitive_breaker(settings: &mut Settings, base: &str) {
    remote(settings, base, SimMode::Neither);
    settings.image_vendors[0].breaker_failures = 3;
    settings.image_vendors[0].breaker_pause = Duration::from_millis(100);
    settings.image_vendors[0].breaker_pause_max = Duration::from_millis(200);
}

async fn circuit(app: &TestApp) -> String {
    let state = app.get_as(app.admin_token(), "/admin/state").await.expect(200).json();
    state["vendors"][0]["circuit"].as_str().unwrap().to_owned()
}

async fn wait_for_circuit(app: &TestApp, expected: &[&str]) {
    let is_expected = async || expected.contains(&circuit(app).await.as_str());
    eventually(format!("the circuit is one of {expected:?}"), is_expected).await;
}

#[actix_web::test]
async fn an_unreachable_vendor_fails_no_task() {
    // Given an address without a listener
    let (socket, address) = vacant_port();
    let base = format!("http://{address}");
    let app = TestApp::start_with(|settings| set_sensitive_breaker(settings, &base), Environment::system()).await;
    let user = app.user("u").await;

    // When jobs are submitted
    let mut tasks = Vec::new();
    for _ in 0..8 {
        tasks.push(submit(&app, &user, UPSCALER, upscale("patient")).await);
    }

    // Then the circuit opens and they wait
    wait_for_circuit(&app, &["open", "half_open"]).await;
    for task in &tasks {
        let status = app.get_as(&user.token, &format!("{UPSCALER}/{task}")).await.expect(200).json();
        assert_eq!(status["data"]["status"], "CREATED");
    }

    // And a later job shows the reason for waiting as well
    tasks.push(submit(&app, &user, UPSCALER, upscale("late")).await);
    let blocked_event = blocked_task(&app, &user, &tasks[8]).await;
    let code = blocked_event["blocked_by"]["code"].as_str().unwrap();
    assert!(["vendor_paused", "vendor_unreachable"].contains(&code), "{blocked_event}");

    // And when the vendor listens, all of them complete and the circuit closes
    let listener = socket.listen(64).expect("a listener");
    let vendor = VendorSim::on_listener(listener, sim(SimMode::Neither, Duration::ZERO), |_| SimBehavior::Normal);
    for task in &tasks {
        assert_eq!(wait_for_end(&app, &user, UPSCALER, task).await["status"], "COMPLETED");
    }
    assert_eq!((vendor.charges().len(), circuit(&app).await.as_str()), (9, "closed"));
    app.stop().await;
}

#[actix_web::test]
async fn a_failing_vendor_gets_a_probe_before_the_next_job() {
    // Given a vendor that accepts submissions and fails every request
    let down = Arc::new(AtomicBool::new(true));
    let fails = down.clone();
    let vendor = VendorSim::with_behavior(sim(SimMode::Neither, Duration::ZERO), move |_| {
        if fails.load(Ordering::SeqCst) {
            SimBehavior::Respond("500 Internal Server Error", "{}".to_owned())
        } else {
            SimBehavior::Normal
        }
    })
    .await;
    let base = vendor.base();
    let one_by_one = |settings: &mut Settings| {
        set_sensitive_breaker(settings, &base);
        settings.image_vendors[0].concurrency = 1;
    };
    let app = TestApp::start_with(one_by_one, Environment::system()).await;
    let user = app.user("u").await;

    // When more jobs are submitted than it takes to open the circuit
    let mut tasks = Vec::new();
    for _ in 0..10 {
        tasks.push(submit(&app, &user, UPSCALER, upscale("risky")).await);
    }
    wait_for_circuit(&app, &["open", "half_open"]).await;
    eventually("the vendor is polled for three", async || vendor.request_count(SimRequestKind::Poll) >= 3).await;

    // Then three tasks have an unknown outcome, and no further submission was sent: the circuit only probed the
    // vendor's health
    assert_eq!(vendor.charges().len(), 3);
    down.store(false, Ordering::SeqCst);
    let mut codes = Vec::new();
    for task in &tasks {
        let finished = wait_for_end(&app, &user, UPSCALER, task).await;
        codes.push(finished["error"]["code"].as_str().unwrap_or("").to_owned());
    }
    codes.sort();
    assert_eq!(codes, [&[""; 7][..], &["outcome_unknown"; 3]].concat());
    assert_eq!(vendor.charges().len(), 10);
    app.stop().await;
}

#[actix_web::test]
async fn retry_after_pauses_all_calls_to_the_vendor() {
    // Given a vendor that is busy at its first request
    let vendor = VendorSim::with_behavior(sim(SimMode::Neither, Duration::ZERO), |request| {
        if request.kind == SimRequestKind::Submission && request.count == 1 && request.prompt == "first" {
            SimBehavior::Reject("429 Too Many Requests\r\nretry-after: 5", "{}".to_owned())
        } else {
            SimBehavior::Normal
        }
    })
    .await;
    let base = vendor.base();
    let app = TestApp::start_with(|settings| set_sensitive_breaker(settings, &base), Environment::system()).await;
    let user = app.user("u").await;
    let first = submit(&app, &user, UPSCALER, upscale("first")).await;
    eventually("the vendor gets the job", async || vendor.request_count(SimRequestKind::Submission) > 0).await;

    // Then the metrics show that requests are held back, although the vendor has not failed
    wait_for_circuit(&app, &["held"]).await;

    // When another job arrives, then it waits too, and both complete, without a recorded failure
    let second = submit(&app, &user, UPSCALER, upscale("second")).await;
    for task in [&first, &second] {
        assert_eq!(wait_for_end(&app, &user, UPSCALER, task).await["status"], "COMPLETED");
    }
    assert_eq!((vendor.request_count(SimRequestKind::Submission), circuit(&app).await.as_str()), (3, "closed"));
    app.stop().await;
}
