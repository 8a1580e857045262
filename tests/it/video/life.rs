//! Lifecycle of a video, from the submission to the file.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Given, MULTIFRAME, REFERENCE, START_END, of_prompt, vendor};
use crate::support::picture::base64_png;
use crate::support::receiver::{Received, Receiver};
use crate::support::vendor_sim::{CLIP, Conduct};

#[actix_web::test]
async fn every_endpoint_echoes_what_the_seed_lists_and_makes_a_video() {
    let given = Given::usual().await;
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
        let mut answer = given.submit(path, body).await;
        let done = given.ended(&answer).await;
        // The fields that the service adds are there; all others equal the request.
        let own = ["task_id", "created_at"].map(|name| answer.as_object_mut().unwrap().remove(name));
        assert!(own.iter().all(Option::is_some), "{path}");
        assert_eq!(answer, echo, "{path}");
        assert_eq!(
            (&done["state"], &done["err_code"], &done["progress"]),
            (&json!("success"), &json!(""), &json!(1.0))
        );
        assert_eq!((&done["credits"], &done["payload"]), (&echo["credits"], &echo["payload"]), "{path}");
        let url = done["creations"][0]["url"].as_str().expect("a URL");
        let file = given.app.get(url.strip_prefix(&given.app.url("")).expect("one of ours")).await.expect(200);
        assert_eq!((file.header("content-type"), file.body.as_slice()), (Some("video/mp4"), CLIP), "{path}");
    }
    given.app.stop().await;
}

#[actix_web::test]
async fn what_is_not_given_is_what_the_contract_says() {
    let given = Given::usual().await;
    let first = given.submit(START_END, json!({"prompt": "p"})).await;
    let second = given.submit(START_END, json!({"prompt": "p"})).await;
    for answer in [&first, &second] {
        let told = [
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
        .map(|name| answer[name].clone());
        let usual = json!(["vq3-pro", 5, "720p", "16:9", "auto", "general", false, false, false, 150]);
        assert_eq!(json!(told), usual);
    }
    assert_ne!(first["seed"], second["seed"], "seeds are drawn");
    given.ended(&second).await;
    let (_, asked) = given.sim.last_submission().expect("asked");
    assert!(asked["seed"].is_u64() && asked["audio"] == true, "{asked}");
    given.app.stop().await;
}

#[actix_web::test]
async fn a_video_goes_through_every_state_and_its_callback_hears_of_each() {
    let given = Given::usual().await;
    let receiver = Receiver::start().await;
    let body = json!({"prompt": "p", "callback_url": receiver.url("/hook"), "payload": "order \"41\"\n\u{1F3B5}"});
    let task = given.submit(START_END, body).await;
    let done = given.ended(&task).await;

    let id = task["task_id"].as_str().unwrap();
    let unified = given.app.get_as(&given.alice.token, &format!("/tasks/{id}")).await.expect(200).json();
    let states: Vec<_> = unified["history"].as_array().unwrap().iter().map(|change| change["state"].clone()).collect();
    assert_eq!(json!(states), json!(["created", "queueing", "processing", "success"]));
    assert_eq!((&unified["kind"], &unified["cost"]), (&json!("start-end2video"), &json!(150)));

    let heard = receiver.wait_until(|heard| heard.len() == 3).await;
    let told: Vec<Value> = heard.iter().map(Received::json).collect();
    let heard: Vec<_> = told.iter().map(|body| (&body["state"], &body["payload"])).collect();
    let payload = json!("order \"41\"\n\u{1F3B5}");
    let (queueing, processing, success) = (json!("queueing"), json!("processing"), json!("success"));
    assert_eq!(heard, [(&queueing, &payload), (&processing, &payload), (&success, &payload)]);
    assert_eq!(told[2], done);
    given.app.stop().await;
}

#[actix_web::test]
async fn lists_show_videos_by_kind_and_by_the_state_of_any_kind() {
    let given = Given::usual().await;
    let task = given.submit(START_END, of_prompt("p")).await;
    given.ended(&task).await;
    for (query, found) in [
        ("kind=start-end2video", 1),
        ("kind=extend", 0),
        ("state=success", 1),
        ("state=COMPLETED", 1),
        ("state=failed", 0),
    ] {
        let page = given.app.get_as(&given.alice.token, &format!("/tasks?{query}")).await.expect(200).json();
        assert_eq!(page["tasks"].as_array().map(Vec::len), Some(found), "{query}");
    }
    given.app.stop().await;
}

#[actix_web::test]
async fn a_submission_waits_when_it_is_asked_to_and_is_made_once_for_a_key() {
    let given = Given::with(vendor(Duration::ZERO, |_| Conduct::Usual).await, |_| {}).await;
    let ask = || given.app.request(reqwest::Method::POST, START_END).bearer_auth(&given.alice.token);
    let ask = || ask().header("prefer", "wait=60").header("idempotency-key", "k-1").json(&of_prompt("p"));
    let first = given.app.send(ask()).await.expect(200);
    assert_eq!(first.header("preference-applied"), Some("wait=60"));
    assert_eq!(first.json()["state"], "success");
    let again = given.app.send(ask()).await.expect(200);
    assert_eq!((again.header("idempotent-replayed"), again.json()), (Some("true"), first.json()));
    assert_eq!(given.sim.charges().len(), 1);
    given.app.stop().await;
}
