//! Webhooks of the vendor: each triggers a poll, and their content is not trusted.

use std::time::Duration;

use mediary::environment::Environment;
use mediary::outbound::address::AllowEntry;
use serde_json::json;

use super::{remote, sim, upscale};
use crate::image::{UPSCALER, submit, wait_for_end};
use crate::support::TestApp;
use crate::support::eventually::eventually;
use crate::support::vendor_sim::{SimMode, SimRequestKind, VendorSim};

#[actix_web::test]
async fn a_vendor_webhook_only_triggers_a_status_read() {
    // Given a service that polls once an hour, and an unfinished job
    let vendor = VendorSim::start(sim(SimMode::Neither, Duration::from_hours(2))).await;
    let base = vendor.base();
    let rare_polls = |settings: &mut mediary::config::Settings| {
        remote(settings, &base, SimMode::Neither);
        settings.public_url = Some("http://media.example".to_owned());
        // The vendor serves its results on this machine, which a service with a public URL reaches only if it is
        // listed.
        settings.egress.allow = vec![AllowEntry::parse("127.0.0.1").unwrap()];
        (settings.image_vendors[0].poll_min, settings.image_vendors[0].poll_max) =
            (Duration::from_hours(1), Duration::from_hours(1));
    };
    let app = TestApp::start_with(rare_polls, Environment::system()).await;
    let user = app.user("u").await;
    let task = submit(&app, &user, UPSCALER, upscale("notified")).await;
    eventually("the vendor is polled", async || vendor.request_count(SimRequestKind::Poll) > 0).await;

    // When the vendor calls the webhook with a false status
    let webhook_url = vendor.webhook("notified").expect("a webhook URL");
    let path = webhook_url.strip_prefix("http://media.example").expect("below the public URL").to_owned();
    let false_status = json!({"task_id": "job-1", "status": "COMPLETED", "generated": ["http://127.0.0.1:1/evil.png"]});
    assert_eq!(app.post(&path, false_status.clone()).await.expect(200).text(), "OK");

    // Then the service polls, and the polled status counts
    eventually("the vendor is polled again", async || vendor.request_count(SimRequestKind::Poll) >= 2).await;
    let status = app.get_as(&user.token, &format!("{UPSCALER}/{task}")).await.expect(200).json();
    assert_eq!(status["data"]["status"], "IN_PROGRESS");

    // And a call at the end of the job brings the result at once
    vendor.finish_all();
    app.post(&path, false_status).await.expect(200);
    assert_eq!(wait_for_end(&app, &user, UPSCALER, &task).await["status"], "COMPLETED");

    // And the path that earlier releases sent is served too
    app.post(&path.replace("/vendor-webhooks/", "/hints/"), json!({})).await.expect(200);

    // And a call about a completed task, or with another ticket, has no effect
    app.post(&path, json!({})).await.expect(200);
    for invalid_path in ["/vendor-webhooks/x".to_owned(), format!("{path}A"), path.replace("-webhooks/", "-webhooks/A")]
    {
        app.post(&invalid_path, json!({})).await.expect(404);
    }
    app.stop().await;
}
