//! Shipped profiles against servers that answer in the shapes of their documentation.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mediary::config::{Secret, Settings, VendorProfile};
use mediary::domain::image::INPUT_BYTES_MAX;
use mediary::environment::Environment;
use serde_json::{Value, json};

use super::API_KEY;
use crate::image::{PRECISION, UPSCALER, submit, wait_for_end};
use crate::support::eventually::eventually;
use crate::support::receiver::ReceivedRequest;
use crate::support::scripted_vendor::{Delivery, ScriptedReply, ScriptedVendor};
use crate::support::{TestApp, TestUser, picture};

/// Sends images to the vendor at this address, with short waits.
fn use_profile(settings: &mut Settings, profile: VendorProfile, base: &str) {
    let vendor = &mut settings.image_vendors[0];
    vendor.selection.profile = profile;
    "studio".clone_into(&mut vendor.selection.name);
    vendor.url = Some(base.to_owned());
    vendor.api_key = Some(Secret::new(API_KEY));
    (vendor.poll_min, vendor.poll_max) = (Duration::from_millis(10), Duration::from_millis(50));
    (vendor.retry_min, vendor.retry_max) = (Duration::from_millis(10), Duration::from_millis(50));
    (vendor.lost_after, vendor.search_settles) = (Duration::from_secs(1), Duration::from_millis(100));
}

/// Starts a service whose images are made by a vendor with this profile.
async fn service_with(profile: &'static str, vendor: &ScriptedVendor) -> (TestApp, TestUser) {
    changed_service_with(profile, vendor, |_| {}).await
}

async fn changed_service_with(
    profile: &'static str,
    vendor: &ScriptedVendor,
    change: impl FnOnce(&mut Settings),
) -> (TestApp, TestUser) {
    let base = vendor.base();
    let change = |settings: &mut Settings| {
        use_profile(settings, VendorProfile::Shipped(profile), &base);
        change(settings);
    };
    let app = TestApp::start_with(change, Environment::system()).await;
    let user = app.user("u").await;
    (app, user)
}

/// Returns the number of earlier requests to the path of the last one.
fn earlier(requests: &[ReceivedRequest]) -> usize {
    let last = requests.last().expect("a request");
    requests.iter().filter(|request| request.method == last.method && request.path == last.path).count() - 1
}

fn header(request: &ReceivedRequest, name: &str) -> String {
    request.header(name).to_owned()
}

#[actix_web::test]
async fn magnific_gets_its_own_values_and_each_upscaler_has_its_status_path() {
    // Given the API in its documented shapes
    const ID: &str = "046b6c7f-0b8a-43b9-b35d-6489e6daee91";
    let vendor = ScriptedVendor::start(|base| {
        move |requests: &[ReceivedRequest]| {
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

    // Then the submission has the vendor's values and key, and nothing was submitted twice
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
        |requests: &[ReceivedRequest]| {
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

    // And the task shows the id that the server knows
    let shown = app.get_as(&user.token, &format!("/tasks/{task}")).await.expect(200).json();
    assert_eq!(shown["vendor"]["reference"], task);
    app.stop().await;
}

#[actix_web::test]
async fn work_that_a_profile_cannot_express_is_refused_before_it_is_sent() {
    let vendor = ScriptedVendor::start(|_| |_: &[ReceivedRequest]| ScriptedReply::json(500, &json!({}))).await;
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

#[actix_web::test]
async fn fal_refuses_a_submission_with_the_message_of_its_error() {
    // Given the two documented shapes of an error
    let of_model = json!({"detail": [{"loc": ["body", "image_url"], "msg": "Image dimensions are too large",
        "type": "image_too_large", "url": "https://docs.fal.ai/errors/#image_too_large",
        "ctx": {"max_height": 1024, "max_width": 1024}, "input": "x"}]});
    let of_service = json!({"detail": "The body is not an object", "error_type": "bad_request"});
    for (body, message) in [(of_model, "Image dimensions are too large"), (of_service, "The body is not an object")] {
        let vendor = ScriptedVendor::start(|_| {
            move |requests: &[ReceivedRequest]| match requests.last().map(|request| request.method.as_str()) {
                Some("POST") => ScriptedReply::json(400, &body),
                _ => ScriptedReply::json(404, &json!({"detail": "Not Found"})),
            }
        })
        .await;
        let (app, user) = service_with("fal", &vendor).await;

        // When a picture is upscaled
        let task = submit(&app, &user, PRECISION, json!({"image": picture::base64_png(8, 8), "scale_factor": 2})).await;

        // Then the task fails with the message, and the vendor was asked once
        let ended = wait_for_end(&app, &user, PRECISION, &task).await;
        assert_eq!(code_of(&ended), "vendor_refused", "{ended}");
        assert!(ended["error"]["message"].to_string().contains(message), "{ended}");
        let submissions = vendor.requests("POST", "/");
        assert_eq!((submissions.len(), submissions[0].path.as_str()), (1, "/fal-ai/esrgan"));
        app.stop().await;
    }
}

/// Returns the code of a task's error.
fn code_of(ended: &Value) -> &str {
    ended["error"]["code"].as_str().unwrap_or_default()
}

#[actix_web::test]
async fn a_server_that_ignores_submitted_ids_is_not_searched_by_them() {
    // Given a server that gives jobs ids of its own, and loses the connection of the second submission
    let vendor = ScriptedVendor::start(|_| {
        |requests: &[ReceivedRequest]| {
            let last = requests.last().expect("a request");
            match (last.method.as_str(), last.path.as_str()) {
                ("POST", "/upload/image") => {
                    ScriptedReply::json(200, &json!({"name": "input.png", "subfolder": "", "type": "input"}))
                }
                ("POST", "/prompt") if earlier(requests) == 0 => {
                    ScriptedReply::json(200, &json!({"prompt_id": "of-the-server", "number": 1, "node_errors": {}}))
                }
                ("POST", "/prompt") => ScriptedReply::json(200, &json!({})).with_delivery(Delivery::HangUp),
                ("GET", "/queue") => ScriptedReply::json(200, &json!({"queue_running": [], "queue_pending": []})),
                ("GET", "/history/of-the-server") => {
                    let image = json!({"filename": "out.png", "subfolder": "", "type": "output"});
                    let outputs = json!({"9": {"images": [image]}});
                    let status = json!({"status_str": "success", "completed": true, "messages": []});
                    ScriptedReply::json(200, &json!({"of-the-server": {"outputs": outputs, "status": status}}))
                }
                ("GET", path) if path.starts_with("/history/") => ScriptedReply::json(200, &json!({})),
                ("GET", path) if path.starts_with("/view?") => ScriptedReply::png(picture::png(16, 16)),
                _ => ScriptedReply::json(404, &json!({})),
            }
        }
    })
    .await;
    let (app, user) = service_with("comfyui", &vendor).await;

    // When a job is done under the id of the server, and another one gets no response
    let body = || json!({"image": picture::base64_png(8, 8), "scale_factor": "2x"});
    let first = submit(&app, &user, UPSCALER, body()).await;
    assert_eq!(wait_for_end(&app, &user, UPSCALER, &first).await["status"], "COMPLETED");
    let second = submit(&app, &user, UPSCALER, body()).await;

    // Then the search, which would find nothing, is not trusted, and the job is not submitted again
    assert_eq!(code_of(&wait_for_end(&app, &user, UPSCALER, &second).await), "outcome_unknown");
    assert_eq!(vendor.requests("POST", "/prompt").len(), 2);
    app.stop().await;
}

#[actix_web::test]
async fn a_search_answered_with_json_of_another_shape_proves_nothing() {
    // Given a server whose queue is not readable, and that takes a job without a response
    let vendor = ScriptedVendor::start(|_| {
        |requests: &[ReceivedRequest]| {
            let last = requests.last().expect("a request");
            match (last.method.as_str(), last.path.as_str()) {
                ("POST", "/upload/image") => {
                    ScriptedReply::json(200, &json!({"name": "input.png", "subfolder": "", "type": "input"}))
                }
                ("POST", "/prompt") => ScriptedReply::json(200, &json!({})).with_delivery(Delivery::HangUp),
                ("GET", "/queue") => ScriptedReply::json(200, &json!({"message": "maintenance"})),
                ("GET", "/system_stats") => ScriptedReply::json(200, &json!({"system": {"comfyui_version": "0.3.64"}})),
                _ => ScriptedReply::json(200, &json!({})),
            }
        }
    })
    .await;
    let change = |settings: &mut Settings| settings.tasks.deadline = Duration::from_secs(10);
    let (app, user) = changed_service_with("comfyui", &vendor, change).await;

    // When a job is submitted
    let body = json!({"image": picture::base64_png(8, 8), "scale_factor": "2x"});
    let task = submit(&app, &user, UPSCALER, body).await;

    // Then it is never submitted again, and its outcome stays unknown
    assert_eq!(code_of(&wait_for_end(&app, &user, UPSCALER, &task).await), "outcome_unknown");
    assert_eq!(vendor.requests("POST", "/prompt").len(), 1);
    app.stop().await;
}

#[actix_web::test]
async fn an_old_server_that_cannot_use_submitted_ids_is_not_searched() {
    // Given a server whose version ignores ids of clients, and that takes a job without a response
    let vendor = ScriptedVendor::start(|_| {
        |requests: &[ReceivedRequest]| {
            let last = requests.last().expect("a request");
            match (last.method.as_str(), last.path.as_str()) {
                ("POST", "/upload/image") => {
                    ScriptedReply::json(200, &json!({"name": "input.png", "subfolder": "", "type": "input"}))
                }
                ("POST", "/prompt") => ScriptedReply::json(200, &json!({})).with_delivery(Delivery::HangUp),
                ("GET", "/queue") => ScriptedReply::json(200, &json!({"queue_running": [], "queue_pending": []})),
                ("GET", "/system_stats") => ScriptedReply::json(200, &json!({"system": {"comfyui_version": "0.3.44"}})),
                _ => ScriptedReply::json(200, &json!({})),
            }
        }
    })
    .await;
    let change = |settings: &mut Settings| settings.tasks.deadline = Duration::from_secs(10);
    let (app, user) = changed_service_with("comfyui", &vendor, change).await;

    // When a job is submitted
    let body = json!({"image": picture::base64_png(8, 8), "scale_factor": "2x"});
    let task = submit(&app, &user, UPSCALER, body).await;

    // Then an empty queue and history do not mean that it is not there
    assert_eq!(code_of(&wait_for_end(&app, &user, UPSCALER, &task).await), "outcome_unknown");
    assert_eq!(vendor.requests("POST", "/prompt").len(), 1);
    app.stop().await;
}

#[actix_web::test]
async fn jobs_without_a_usable_result_fail_and_leave_the_circuit_closed() {
    // Given a server that sends an empty picture for the first three jobs
    let vendor = ScriptedVendor::start(|_| {
        |requests: &[ReceivedRequest]| {
            let is_empty = earlier(requests) < 3;
            let image = if is_empty { String::new() } else { picture::base64_png(16, 16) };
            ScriptedReply::json(200, &json!({"html_info": "", "image": image}))
        }
    })
    .await;
    let change = |settings: &mut Settings| {
        let vendor = &mut settings.image_vendors[0];
        (vendor.breaker_failures, vendor.breaker_pause) = (2, Duration::from_hours(1));
    };
    let (app, user) = changed_service_with("a1111", &vendor, change).await;

    // When four jobs are submitted, one after another
    let body = || json!({"image": picture::base64_png(8, 8), "scale_factor": 2});
    let mut codes = Vec::new();
    for _ in 0..4 {
        let task = submit(&app, &user, PRECISION, body()).await;
        codes.push(code_of(&wait_for_end(&app, &user, PRECISION, &task).await).to_owned());
    }

    // Then three fail with that reason, and the fourth is made
    assert_eq!(codes, ["result_invalid", "result_invalid", "result_invalid", ""]);
    assert_eq!(vendor.requests("POST", "/").len(), 4);
    app.stop().await;
}

/// Writes a profile of the operator, whose references begin with this family.
fn write_profile(directory: &Path, family: &str) -> VendorProfile {
    let profile = format!(
        "extends = \"magnific\"\n[jobs.image-upscaler]\nflow = \"task\"\nfamily = \"{family}\"\npath = \"/image-upscaler\"\n\
         vars = {{ status = \"image-upscaler\" }}\njson = {{ image = \"{{{{ image | base64 }}}}\" }}\n"
    );
    std::fs::write(directory.join("own.toml"), profile).expect("a writable directory");
    VendorProfile::find("own", Some(directory)).unwrap_or_else(|error| panic!("{error}"))
}

#[actix_web::test]
async fn an_accepted_job_that_the_profile_no_longer_knows_is_not_submitted_again() {
    // Given a task at a vendor with a profile of the operator
    let vendor = ScriptedVendor::start(|_| {
        |_: &[ReceivedRequest]| {
            let task = json!({"data": {"task_id": "job-1", "status": "IN_PROGRESS", "generated": []}});
            ScriptedReply::json(200, &task)
        }
    })
    .await;
    let base = vendor.base();
    let profiles = tempfile::tempdir().expect("a directory");
    let first = write_profile(profiles.path(), "first");
    let app = TestApp::start_with(|settings| use_profile(settings, first, &base), Environment::system()).await;
    let user = app.user("u").await;
    let task = submit(&app, &user, UPSCALER, json!({"image": picture::base64_png(8, 8)})).await;
    eventually("the job is polled", async || !vendor.requests("GET", "/").is_empty()).await;

    // When the service starts again with a profile that does not know the reference of the job
    let directory = app.stop().await;
    let second = write_profile(profiles.path(), "second");
    let change = |settings: &mut Settings| use_profile(settings, second, &base);
    let app = TestApp::start_in(directory, change, Environment::system()).await;

    // Then the job is lost and not submitted a second time
    assert_eq!(code_of(&wait_for_end(&app, &user, UPSCALER, &task).await), "vendor_lost");
    assert_eq!(vendor.requests("POST", "/").len(), 1);
    app.stop().await;
}

#[actix_web::test]
async fn the_boundary_of_a_form_cannot_be_predicted() {
    // Given a vendor that gets its pictures in forms
    let vendor = ScriptedVendor::start(|_| {
        |_: &[ReceivedRequest]| {
            let body = json!({"image": picture::base64_png(16, 16), "seed": 1, "finish_reason": "SUCCESS"});
            ScriptedReply::json(200, &body)
        }
    })
    .await;
    let (app, user) = service_with("stability", &vendor).await;

    // When two equal jobs are submitted
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let body = json!({"image": picture::base64_png(8, 8), "scale_factor": 4});
        let task = submit(&app, &user, PRECISION, body).await;
        assert_eq!(wait_for_end(&app, &user, PRECISION, &task).await["status"], "COMPLETED");
        tasks.push(task);
    }

    // Then their forms have different boundaries, which are not the ids of the tasks
    let boundaries: Vec<_> = vendor.requests("POST", "/").iter().map(|form| header(form, "content-type")).collect();
    assert_eq!(boundaries.len(), 2);
    assert_ne!(boundaries[0], boundaries[1]);
    assert!(tasks.iter().all(|task| !boundaries.concat().contains(task.as_str())), "{boundaries:?}");
    app.stop().await;
}

#[actix_web::test]
async fn a_stored_picture_that_cannot_be_read_is_tried_again() {
    // Given a service whose vendor was not reached before the input of a task was lost
    let vendor = ScriptedVendor::start(|_| {
        |requests: &[ReceivedRequest]| {
            if earlier(requests) == 0 {
                return ScriptedReply::json(429, &json!({})).with_header("retry-after", "1");
            }
            ScriptedReply::json(200, &json!({"html_info": "", "image": picture::base64_png(16, 16)}))
        }
    })
    .await;
    let change = |settings: &mut Settings| settings.image_vendors[0].breaker_failures = 1_000_000;
    let (app, user) = changed_service_with("a1111", &vendor, change).await;
    let body = json!({"image": picture::base64_png(8, 8), "scale_factor": 2});
    let task = submit(&app, &user, PRECISION, body).await;
    eventually("the vendor is asked", async || !vendor.requests("POST", "/").is_empty()).await;
    let inputs = app.dir.path().join("media/inputs");
    let hidden = app.dir.path().join("media/hidden");
    std::fs::rename(&inputs, &hidden).expect("a directory of inputs");

    // When the input is there again, after attempts without it
    tokio::time::sleep(Duration::from_secs(2)).await;
    let waiting = app.get_as(&user.token, &format!("/tasks/{task}")).await.expect(200).json();
    let _ = std::fs::remove_dir_all(&inputs);
    std::fs::rename(&hidden, &inputs).expect("it was moved there");

    // Then the task waited meanwhile, and is made
    assert_eq!(waiting["error"], Value::Null, "{waiting}");
    assert_eq!(wait_for_end(&app, &user, PRECISION, &task).await["status"], "COMPLETED");
    assert_eq!(vendor.requests("POST", "/").len(), 2);
    app.stop().await;
}

#[actix_web::test]
async fn a_result_in_a_data_uri_is_taken_up_to_the_size_of_a_file() {
    // Given a vendor whose second result is larger than a file may be
    let vendor = ScriptedVendor::start(|_| {
        |requests: &[ReceivedRequest]| {
            let file = if earlier(requests) == 0 { picture::png(16, 16) } else { vec![0; INPUT_BYTES_MAX + 3] };
            let url = format!("data:image/png;base64,{}", STANDARD.encode(file));
            ScriptedReply::json(200, &json!({"url": url}))
        }
    })
    .await;
    let base = vendor.base();
    let profiles = tempfile::tempdir().expect("a directory");
    let profile = "[jobs.image-upscaler]\nflow = \"direct\"\npath = \"/make\"\njson = { image = \"{{ image | base64 }}\" }\n\
                   [flows.direct.results]\nurl = \"/url\"\ninline = true\n";
    std::fs::write(profiles.path().join("own.toml"), profile).expect("a writable directory");
    let own = VendorProfile::find("own", Some(profiles.path())).unwrap_or_else(|error| panic!("{error}"));
    let app = TestApp::start_with(|settings| use_profile(settings, own, &base), Environment::system()).await;
    let user = app.user("u").await;

    // When two jobs are made
    let body = || json!({"image": picture::base64_png(8, 8)});
    let small = submit(&app, &user, UPSCALER, body()).await;
    assert_eq!(wait_for_end(&app, &user, UPSCALER, &small).await["status"], "COMPLETED");
    let large = submit(&app, &user, UPSCALER, body()).await;
    let ended = wait_for_end(&app, &user, UPSCALER, &large).await;

    // Then the large one is refused with that reason
    assert_eq!(code_of(&ended), "result_unavailable");
    assert!(ended["error"]["message"].to_string().contains("is larger than"), "{ended}");
    app.stop().await;
}
