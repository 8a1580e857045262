//! Lifecycle of a video, from the submission to the file.

use std::time::Duration;

use serde_json::{Value, json};

use super::{MULTIFRAME, REFERENCE, START_END, VideoFixture, of_prompt, vendor};
use crate::support::picture::base64_png;
use crate::support::receiver::{ReceivedRequest, Receiver};
use crate::support::vendor_sim::{CLIP, SimBehavior};

#[actix_web::test]
async fn every_endpoint_echoes_its_parameters_and_makes_a_video() {
    let fixture = VideoFixture::start().await;
    let picture = base64_png(8, 8);
    let frames = json!([{"key_image": picture, "prompt": "up"}, {"key_image": picture, "duration": 8}]);
    let echoed = json!([{"key_image": picture, "prompt": "up", "duration": 5}, {"key_image": picture, "duration": 8}]);

    let generate = json!({"images": [picture], "prompt": "p", "seed": 7, "payload": "a\u{1F3B5}", "aspect_ratio": "9:16",
        "bgm": true, "watermark": true, "style": "anime", "meta_data": "{}", "priority": 3, "model": "vq1"});
    let generated = json!({"images": [picture], "prompt": "p", "seed": 7, "payload": "a\u{1F3B5}", "aspect_ratio": "9:16",
        "bgm": true, "watermark": true, "style": "anime", "model": "vq1", "duration": 5, "resolution": "720p",
        "movement_amplitude": "auto", "off_peak": false, "state": "created", "credits": 40});
    let cases = [
        (START_END, generate.clone(), generated.clone()),
        (REFERENCE, generate, generated),
        (
            MULTIFRAME,
            json!({"image_settings": frames, "start_image": picture, "payload": "x"}),
            json!({"image_settings": echoed, "start_image": picture, "payload": "x", "model": "vq2-turbo",
                "resolution": "720p", "state": "created", "credits": 2 * 15 + 5 * 13}),
        ),
    ];

    for (path, body, echo) in cases {
        let mut response = fixture.submit(path, body).await;
        let finished = fixture.wait_for_end(&response).await;

        // The fields that the service adds are there; all others equal the request.
        let generated_fields = ["task_id", "created_at"].map(|name| response.as_object_mut().unwrap().remove(name));
        assert!(generated_fields.iter().all(Option::is_some), "{path}");
        assert_eq!(response, echo, "{path}");

        assert_eq!(
            (&finished["state"], &finished["err_code"], &finished["progress"]),
            (&json!("success"), &json!(""), &json!(1.0))
        );
        assert_eq!((&finished["credits"], &finished["payload"]), (&echo["credits"], &echo["payload"]), "{path}");

        let url = finished["creations"][0]["url"].as_str().expect("a URL");
        let file = fixture.app.get(url.strip_prefix(&fixture.app.url("")).expect("a local URL")).await.expect(200);
        assert_eq!((file.header("content-type"), file.body.as_slice()), (Some("video/mp4"), CLIP), "{path}");
    }
    fixture.app.stop().await;
}

#[actix_web::test]
async fn omitted_parameters_have_the_contract_defaults() {
    let fixture = VideoFixture::start().await;
    let first = fixture.submit(START_END, json!({"prompt": "p"})).await;
    let second = fixture.submit(START_END, json!({"prompt": "p"})).await;

    for response in [&first, &second] {
        let defaults_shown = [
            "model",
            "duration",
            "resolution",
            "aspect_ratio",
            "movement_amplitude",
            "style",
            "bgm",
            "watermark",
            "off_peak",
            "credits",
        ]
        .map(|name| response[name].clone());
        let expected = json!(["vq3-pro", 5, "720p", "16:9", "auto", "general", false, false, false, 150]);
        assert_eq!(json!(defaults_shown), expected);
    }
    assert_ne!(first["seed"], second["seed"], "each submission gets a random seed");

    fixture.wait_for_end(&second).await;
    let (_, submission) = fixture.sim.last_submission().expect("a submission at the vendor");
    assert!(submission["seed"].is_u64() && submission["audio"] == true, "{submission}");
    fixture.app.stop().await;
}

#[actix_web::test]
async fn a_video_passes_every_state_with_a_callback_each() {
    let fixture = VideoFixture::start().await;
    let receiver = Receiver::start().await;
    let body = json!({"prompt": "p", "callback_url": receiver.url("/hook"), "payload": "order \"41\"\n\u{1F3B5}"});
    let task = fixture.submit(START_END, body).await;
    let finished = fixture.wait_for_end(&task).await;

    let id = task["task_id"].as_str().unwrap();
    let unified = fixture.app.get_as(&fixture.alice.token, &format!("/tasks/{id}")).await.expect(200).json();
    let states: Vec<_> = unified["history"].as_array().unwrap().iter().map(|change| change["state"].clone()).collect();
    assert_eq!(json!(states), json!(["created", "queueing", "processing", "success"]));
    assert_eq!((&unified["kind"], &unified["cost"]), (&json!("start-end2video"), &json!(150)));

    let callbacks = receiver.wait_until(|callbacks| callbacks.len() == 3).await;
    let bodies: Vec<Value> = callbacks.iter().map(ReceivedRequest::json).collect();
    let states_and_payloads: Vec<_> = bodies.iter().map(|body| (&body["state"], &body["payload"])).collect();
    let payload = json!("order \"41\"\n\u{1F3B5}");
    let queueing = json!("queueing");
    let processing = json!("processing");
    let success = json!("success");
    assert_eq!(states_and_payloads, [(&queueing, &payload), (&processing, &payload), (&success, &payload)]);
    assert_eq!(bodies[2], finished);
    fixture.app.stop().await;
}

#[actix_web::test]
async fn video_states_and_image_statuses_both_filter_lists() {
    let fixture = VideoFixture::start().await;
    let task = fixture.submit(START_END, of_prompt("p")).await;
    fixture.wait_for_end(&task).await;
    for (query, found) in [
        ("kind=start-end2video", 1),
        ("kind=extend", 0),
        ("state=success", 1),
        ("state=COMPLETED", 1),
        ("state=failed", 0),
    ] {
        let page = fixture.app.get_as(&fixture.alice.token, &format!("/tasks?{query}")).await.expect(200).json();
        assert_eq!(page["tasks"].as_array().map(Vec::len), Some(found), "{query}");
    }
    fixture.app.stop().await;
}

#[actix_web::test]
async fn a_submission_supports_prefer_wait_and_idempotency_keys() {
    let fixture = VideoFixture::with_vendor(vendor(Duration::ZERO, |_| SimBehavior::Normal).await, |_| {}).await;
    let submission_request = || fixture.app.request(reqwest::Method::POST, START_END).bearer_auth(&fixture.alice.token);
    let keyed_request =
        || submission_request().header("prefer", "wait=60").header("idempotency-key", "k-1").json(&of_prompt("p"));
    let first = fixture.app.send(keyed_request()).await.expect(200);
    assert_eq!(first.header("preference-applied"), Some("wait=60"));
    assert_eq!(first.json()["state"], "success");
    let repeated = fixture.app.send(keyed_request()).await.expect(200);
    assert_eq!((repeated.header("idempotent-replayed"), repeated.json()), (Some("true"), first.json()));
    assert_eq!(fixture.sim.charges().len(), 1);
    fixture.app.stop().await;
}
