//! Rejected submissions: one response names every invalid field, and nothing is recorded.

use std::time::Duration;

use serde_json::{Value, json};

use super::{EXTEND, Given, MULTIFRAME, START_END, vendor};
use crate::support::picture::base64_png;
use crate::support::vendor_sim::{Conduct, Kind};

async fn pointers(given: &Given, path: &str, body: Value) -> Vec<String> {
    let answer = given.app.post_as(&given.alice.token, path, body).await.expect(400).json();
    let errors = answer["errors"].as_array().expect("errors").iter();
    errors.map(|error| error["pointer"].as_str().expect("a pointer").to_owned()).collect()
}

#[actix_web::test]
async fn every_bad_field_is_named_in_one_answer() {
    let given = Given::usual().await;
    let body = json!({"images": ["%"], "model": "vq9", "duration": 99, "resolution": "4K", "seed": -1, "wm_position": 9,
        "wm_url": "%", "meta_data": "{", "callback_url": "x", "prompt": 7, "audio": "yes"});
    let mut named = pointers(&given, START_END, body).await;
    named.sort();
    let mut all = [
        "images/0",
        "model",
        "duration",
        "resolution",
        "seed",
        "wm_position",
        "wm_url",
        "meta_data",
        "callback_url",
        "prompt",
        "audio",
    ]
    .map(|field| format!("/{field}"));
    all.sort();
    assert_eq!(named, all);
    let frames = json!([{"key_image": "%", "duration": 9}, {"prompt": 7}]);
    let named = pointers(&given, MULTIFRAME, json!({"image_settings": frames, "model": "vq1"})).await;
    let all = [
        "/model",
        "/image_settings/0/key_image",
        "/image_settings/0/duration",
        "/image_settings/1/key_image",
        "/image_settings/1/prompt",
    ];
    assert_eq!(named, all);
    assert_eq!(given.sim.asked(Kind::Submission), 0);
    given.app.stop().await;
}

#[actix_web::test]
async fn what_has_the_wrong_type_is_told_what_is_allowed() {
    let given = Given::usual().await;
    let told = async |path: &str, body: Value| {
        let errors = given.app.post_as(&given.alice.token, path, body).await.expect(400).json()["errors"].clone();
        let told =
            |error: &Value| format!("{} {}", error["pointer"].as_str().unwrap(), error["reason"].as_str().unwrap());
        errors.as_array().unwrap().iter().map(told).collect::<Vec<_>>()
    };
    let body = json!({"prompt": "p", "duration": "x", "seed": "x", "wm_position": "x", "style": 1, "payload": 1,
        "meta_data": 1, "images": "x"});
    let expected = [
        "/payload must be a string of at most 1048576 characters",
        "/meta_data must be JSON, as a string of at most 1048576 characters",
        "/images must be an array of at most 1 entry",
        "/seed must be an integer from 0 to 2147483647",
        "/duration must be an integer from 1 to 16 (seconds)",
        "/style must be one of general anime",
        "/wm_position must be 1 (top left), 2 (top right), 3 (bottom right) or 4 (bottom left)",
    ];
    assert_eq!(told(START_END, body).await, expected);
    for settings in [json!("x"), json!([{"key_image": base64_png(2, 2)}])] {
        let body = json!({"image_settings": settings});
        assert_eq!(told(MULTIFRAME, body).await, ["/image_settings must be an array of 2 to 9 entries"]);
    }
    given.app.stop().await;
}

#[actix_web::test]
async fn there_is_a_picture_or_a_prompt() {
    let given = Given::usual().await;
    for nothing in [json!({}), json!({"images": []}), json!({"prompt": " "}), json!({"prompt": null, "images": null})] {
        assert_eq!(pointers(&given, START_END, nothing.clone()).await, ["/prompt"], "{nothing}");
    }
    given.submit(START_END, json!({"images": [base64_png(2, 2)], "prompt": ""})).await;
    given.app.stop().await;
}

#[actix_web::test]
async fn an_extension_names_its_video_twice() {
    let given = Given::usual().await;
    let id = "5a7f7a36-7a4e-4f0c-9f5e-2f6f3f0d9c11";
    let url = "https://a.example/v.mp4";
    let both = vec!["/video_creation_id", "/video_url"];
    for (body, named) in [
        (json!({"model": "vq2-pro"}), both),
        (json!({"model": "vq2-pro", "video_url": url}), vec!["/video_creation_id"]),
        (
            json!({"model": "vq2-pro", "video_creation_id": id, "video_url": null}),
            vec!["/video_url", "/video_creation_id"],
        ),
        (json!({"model": "vq2-pro", "video_creation_id": id, "video_url": url}), vec!["/video_creation_id"]),
        (json!({"model": "vq2-pro", "video_creation_id": "x", "video_url": url}), vec!["/video_creation_id"]),
    ] {
        assert_eq!(pointers(&given, EXTEND, body.clone()).await, named, "{body}");
    }
    given.app.stop().await;
}

#[actix_web::test]
async fn a_price_list_says_what_is_made_and_a_bad_one_stops_the_start() {
    let sim = vendor(Duration::ZERO, |_| Conduct::Usual).await;
    let dir = tempfile::tempdir().unwrap();
    let prices = dir.path().join("prices.toml");
    let only =
        "is_rec = 3\noff_peak_percent = 10\n[extend]\n[generate.\"vq1\"]\n\"540p\" = { seconds = [7], more = 2 }\n";
    std::fs::write(&prices, only).unwrap();
    let given = Given::with(sim, |settings| settings.video.pricing = Some(prices.clone())).await;

    let made = json!({"prompt": "p", "model": "vq1", "resolution": "540p", "duration": 3, "is_rec": true});
    assert_eq!(given.submit(START_END, made).await["credits"], 7 + 2 * 2 + 3);
    assert_eq!(pointers(&given, START_END, json!({"prompt": "p", "model": "vq1"})).await, ["/resolution"]);
    assert_eq!(pointers(&given, START_END, json!({"prompt": "p"})).await, ["/model"]);
    given.app.stop().await;
}
