//! Requests to the vendor, their results, and no double charges.

use std::time::Duration;

use mediary::environment::Environment;
use serde_json::json;

use super::{API_KEY, remote, sim, upscale};
use crate::image::{PRECISION, RELIGHT, SKIN, STYLE, UPSCALER, submit, wait_for_end};
use crate::support::eventually::eventually;
use crate::support::vendor_sim::{SimMode, SimRequestKind, VendorSim};
use crate::support::{TestApp, TestUser, picture};

async fn app(vendor: &VendorSim, mode: SimMode) -> TestApp {
    let base = vendor.base();
    TestApp::start_with(|settings| remote(settings, &base, mode), Environment::system()).await
}

async fn is_with_the_vendor(app: &TestApp, user: &TestUser, task: &str) {
    let status = async || {
        let task = app.get_as(&user.token, &format!("{UPSCALER}/{task}")).await.expect(200).json();
        task["data"]["status"].as_str().unwrap().to_owned()
    };
    eventually("the vendor has the task", async || status().await == "IN_PROGRESS").await;
}

#[actix_web::test]
async fn every_job_runs_at_the_vendor_and_its_result_is_served_locally() {
    let vendor = VendorSim::start(sim(SimMode::Neither, Duration::from_millis(30))).await;
    let app = app(&vendor, SimMode::Neither).await;
    let user = app.user("u").await;
    let image = picture::base64_png(8, 8);
    for path in [UPSCALER, PRECISION, STYLE, &format!("{SKIN}/creative"), &format!("{SKIN}/faithful"), RELIGHT] {
        // When a job is submitted
        let task = submit(&app, &user, path, json!({"image": image, "prompt": path})).await;
        let family = if path.starts_with(SKIN) { SKIN } else { path };
        let finished = wait_for_end(&app, &user, family, &task).await;

        // Then its result is the vendor's picture, at a URL of this service
        assert_eq!(finished["status"], "COMPLETED", "{path}: {finished}");
        let url = finished["generated"][0].as_str().unwrap();
        let file = app.get(url.strip_prefix(&app.url("")).expect("a URL of this service")).await.expect(200);
        assert_eq!(file.body, picture::png(16, 16));

        // And the vendor got one submission, with the key in its header and the id of the task
        let (head, body) = vendor.last_submission().unwrap();
        assert!(head.starts_with(&format!("POST {path} HTTP/1.1")), "{head}");
        for header in [format!("x-vendor-key: {API_KEY}"), format!("idempotency-key: {task}")] {
            assert!(head.to_lowercase().contains(&header), "{header} is not in {head}");
        }
        assert_eq!(body["image"], image.len(), "the picture is sent as it came");
        assert!(body.get("webhook_url").is_none(), "a webhook URL was sent without a public URL");
    }
    assert_eq!(vendor.charges().len(), 6);
    app.stop().await;
}

#[actix_web::test]
async fn a_restart_resumes_vendor_jobs_without_resubmission() {
    for mode in [SimMode::HonoursKeys, SimMode::Searchable, SimMode::Neither] {
        // Given tasks in progress at the vendor, for longer than the service runs
        let vendor = VendorSim::start(sim(mode, Duration::from_hours(1))).await;
        let first = app(&vendor, mode).await;
        let user = first.user("u").await;
        let mut tasks = Vec::new();
        for _ in 0..4 {
            tasks.push(submit(&first, &user, UPSCALER, upscale("long")).await);
        }
        for task in &tasks {
            is_with_the_vendor(&first, &user, task).await;
        }

        // When the service restarts, and the vendor completes them
        let (dir, base) = (first.stop().await, vendor.base());
        vendor.finish_all();
        let restarted = TestApp::start_in(dir, |settings| remote(settings, &base, mode), Environment::system()).await;

        // Then all of them are completed, and each was charged once
        for task in &tasks {
            assert_eq!(wait_for_end(&restarted, &user, UPSCALER, task).await["status"], "COMPLETED");
        }
        let mut paid: Vec<_> = vendor.charges().into_iter().map(|charge| charge.key).collect();
        paid.sort();
        tasks.sort();
        assert_eq!(paid, tasks, "{mode:?}");
        restarted.stop().await;
    }
}

#[actix_web::test]
async fn a_cancelled_task_is_no_longer_polled() {
    // Given a task in progress at the vendor
    let vendor = VendorSim::start(sim(SimMode::Neither, Duration::from_hours(1))).await;
    let app = app(&vendor, SimMode::Neither).await;
    let user = app.user("u").await;
    let task = submit(&app, &user, UPSCALER, upscale("unwanted")).await;
    eventually("the vendor is polled", async || vendor.request_count(SimRequestKind::Poll) > 0).await;

    // When it is cancelled, but the vendor completes it, after a poll in progress has ended
    let cancelled = app.post_as(&user.token, &format!("/tasks/{task}/cancel"), json!({})).await.expect(200).json();
    let other = submit(&app, &user, UPSCALER, upscale("wanted")).await;
    let before = vendor.request_count(SimRequestKind::Poll);
    let polled_again = async || vendor.request_count(SimRequestKind::Poll) >= before + 5;
    eventually("the vendor is polled for the other task", polled_again).await;
    vendor.finish_all();
    wait_for_end(&app, &user, UPSCALER, &other).await;

    // Then it has failed as cancelled, and its result was not fetched
    assert_eq!(cancelled["error"]["code"], "cancelled");
    assert_eq!(vendor.request_count(SimRequestKind::Result), 1);
    app.stop().await;
}

#[actix_web::test]
async fn the_vendor_key_is_never_disclosed() {
    // Given a vendor that repeats the API key in its rejection
    let vendor = VendorSim::with_behavior(sim(SimMode::Neither, Duration::ZERO), |_| {
        let body = json!({"error": {"message": format!("key {API_KEY} has no credit")}});
        crate::support::vendor_sim::SimBehavior::Reject("400 Bad Request", body.to_string())
    })
    .await;
    let app = app(&vendor, SimMode::Neither).await;
    let user = app.user("u").await;

    // When a job is rejected
    let task = submit(&app, &user, UPSCALER, upscale("refused")).await;
    let finished = wait_for_end(&app, &user, UPSCALER, &task).await;

    // Then the task has the reason, without the API key, and the log does not contain it either
    assert_eq!(finished["error"]["code"], "vendor_refused");
    assert_eq!(finished["error"]["message"], "the vendor rejected the job (status 400: key ******** has no credit)");
    let events = app.get_as(app.admin_token(), "/admin/events?limit=1000").await.expect(200).text();
    assert!(events.contains("VendorRefused") && !events.contains(API_KEY));
    app.stop().await;
}
