//! Shipped profiles against servers that answer in the shapes of their documentation.

use std::time::Duration;

use mediary::config::{Secret, Settings, VendorProfile};
use mediary::environment::Environment;
use serde_json::{Value, json};

use super::API_KEY;
use crate::image::{PRECISION, UPSCALER, submit, wait_for_end};
use crate::support::receiver::Received;
use crate::support::scripted_vendor::{ScriptedReply, ScriptedVendor};
use crate::support::{TestApp, TestUser, picture};

/// Service whose images are made by a vendor with this profile.
async fn service_with(profile: &'static str, vendor: &ScriptedVendor) -> (TestApp, TestUser) {
    let base = vendor.base();
    let change = move |settings: &mut Settings| {
        let vendor = &mut settings.image_vendors[0];
        vendor.selection.profile = VendorProfile::Shipped(profile);
        vendor.url = Some(base);
        vendor.api_key = Some(Secret::new(API_KEY));
        (vendor.poll_min, vendor.poll_max) = (Duration::from_millis(10), Duration::from_millis(50));
        (vendor.retry_min, vendor.retry_max) = (Duration::from_millis(10), Duration::from_millis(50));
    };
    let app = TestApp::start_with(change, Environment::system()).await;
    let user = app.user("u").await;
    (app, user)
}

/// Number of earlier requests to the path of the last one.
fn earlier(requests: &[Received]) -> usize {
    let last = requests.last().expect("a request");
    requests.iter().filter(|request| request.method == last.method && request.path == last.path).count() - 1
}

fn header(request: &Received, name: &str) -> String {
    request.header(name).to_owned()
}

#[actix_web::test]
async fn magnific_gets_its_own_words_and_each_upscaler_has_its_status_path() {
    // Given the API in its documented shapes
    const ID: &str = "046b6c7f-0b8a-43b9-b35d-6489e6daee91";
    let vendor = ScriptedVendor::start(|base| {
        move |requests: &[Received]| {
            let last = requests.last().expect("a request");
            let task = |status: &str, generated: Value| {
                let task = json!({"data": {"task_id": ID, "status": status, "generated": generated}});
                ScriptedReply::json(200, &task)
            };
            match (last.method.as_str(), last.path.as_str()) {
                ("POST", "/v1/ai/image-upscaler" | "/v1/ai/image-upscaler-precision-v2") => task("CREATED", json!([])),
                ("GET", "/result.png") => ScriptedReply::png(picture::png(16, 16)),
                ("GET", path) if path.ends_with(ID) && earlier(requests) == 0 => task("IN_PROGRESS", json!([])),
                ("GET", path) if path.ends_with(ID) => task("COMPLETED", json!([format!("{base}/result.png")])),
                _ => ScriptedReply::json(404, &json!({"message": "Not found"})),
            }
        }
    })
    .await;
    let (app, user) = service_with("magnific", &vendor).await;

    // When both upscalers are used
    let image = picture::base64_png(8, 8);
    let body = json!({"image": image, "engine": "premium_sharpy", "scale_factor": "2x", "prompt": "a cat"});
    let upscaled = submit(&app, &user, UPSCALER, body).await;
    assert_eq!(wait_for_end(&app, &user, UPSCALER, &upscaled).await["status"], "COMPLETED");
    let precise = submit(&app, &user, PRECISION, json!({"image": image, "scale_factor": 2})).await;
    assert_eq!(wait_for_end(&app, &user, PRECISION, &precise).await["status"], "COMPLETED");

    // Then the submission has the vendor's words and key, and nothing was submitted twice
    let submissions = vendor.requests("POST", "/v1/ai/");
    let [upscale, precision] = &submissions[..] else { panic!("{submissions:#?}") };
    assert_eq!(header(upscale, "x-freepik-api-key"), API_KEY);
    assert_eq!(header(upscale, "authorization"), "");
    assert_eq!(upscale.json()["engine"], "magnific_sharpy");
    assert_eq!((&upscale.json()["image"], &upscale.json()["prompt"]), (&json!(image), &json!("a cat")));
    assert_eq!(precision.path, "/v1/ai/image-upscaler-precision-v2");

    // And each was polled at its own path, and the log names the profile
    assert!(vendor.requests("GET", "/v1/ai/image-upscaler/").len() >= 2);
    assert!(vendor.requests("GET", "/v1/ai/image-upscaler-precision-v2/").len() >= 2);
    let events = app.get_as(app.admin_token(), &format!("/admin/events?stream=task/{precise}")).await.expect(200);
    let events = events.text();
    assert!(events.contains("\"profile\":\"magnific\""), "{events}");
    app.stop().await;
}

#[actix_web::test]
async fn comfyui_runs_a_workflow_under_the_id_of_the_task() {
    // Given a server that has the job in its queue before it has it in its history
    let vendor = ScriptedVendor::start(|_| {
        |requests: &[Received]| {
            let last = requests.last().expect("a request");
            let submitted = requests.iter().find(|request| request.method == "POST" && request.path == "/prompt");
            let id = submitted.map_or(Value::Null, |request| request.json()["prompt_id"].clone());
            let id_text = id.as_str().unwrap_or_default().to_owned();
            match (last.method.as_str(), last.path.as_str()) {
                ("POST", "/upload/image") => {
                    ScriptedReply::json(200, &json!({"name": "input.png", "subfolder": "", "type": "input"}))
                }
                ("POST", "/prompt") => {
                    ScriptedReply::json(200, &json!({"prompt_id": id, "number": 1, "node_errors": {}}))
                }
                ("GET", "/queue") => {
                    let job = json!([1, id, {}, {}, []]);
                    ScriptedReply::json(200, &json!({"queue_running": [job], "queue_pending": []}))
                }
                ("GET", path) if path.starts_with("/history/") && earlier(requests) < 2 => {
                    ScriptedReply::json(200, &json!({}))
                }
                ("GET", path) if path.starts_with("/history/") => {
                    let image = json!({"filename": "out.png", "subfolder": "", "type": "output"});
                    let outputs = json!({"9": {"images": [image]}});
                    let status = json!({"status_str": "success", "completed": true, "messages": []});
                    ScriptedReply::json(200, &json!({id_text: {"outputs": outputs, "status": status}}))
                }
                ("GET", path) if path.starts_with("/view?") => ScriptedReply::png(picture::png(16, 16)),
                _ => ScriptedReply::json(404, &json!({})),
            }
        }
    })
    .await;
    let (app, user) = service_with("comfyui", &vendor).await;

    // When a picture is upscaled
    let body = json!({"image": picture::base64_png(8, 8), "scale_factor": "2x"});
    let task = submit(&app, &user, UPSCALER, body).await;

    // Then the picture was uploaded, the workflow ran under the id of the task, and its file is the result
    assert_eq!(wait_for_end(&app, &user, UPSCALER, &task).await["status"], "COMPLETED");
    assert_eq!(vendor.requests("POST", "/upload/image").len(), 1);
    let submissions = vendor.requests("POST", "/prompt");
    assert_eq!(submissions.len(), 1);
    assert_eq!(submissions[0].json()["prompt_id"], task);
    assert!(submissions[0].json()["prompt"].to_string().contains("input.png"));
    assert!(vendor.requests("GET", "/view?")[0].path.contains("filename=out.png"));
    app.stop().await;
}

#[actix_web::test]
async fn work_that_a_profile_cannot_express_is_refused_before_it_is_sent() {
    let vendor = ScriptedVendor::start(|_| |_: &[Received]| ScriptedReply::json(500, &json!({}))).await;
    let (app, user) = service_with("comfyui", &vendor).await;

    // When a factor is asked for that the workflow does not know
    let body = json!({"image": picture::base64_png(8, 8), "scale_factor": "16x"});
    let task = submit(&app, &user, UPSCALER, body).await;

    // Then the task fails, and the vendor was not called
    let ended = wait_for_end(&app, &user, UPSCALER, &task).await;
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("FAILED"), &json!("vendor_refused")));
    assert!(vendor.requests("POST", "/").is_empty());
    app.stop().await;
}
