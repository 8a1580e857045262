//! Rejected submissions: one response names every invalid field, and nothing is recorded.

use std::time::Duration;

use serde_json::{Value, json};

use super::{EXTEND, MULTIFRAME, START_END, VideoFixture, vendor};
use crate::support::picture::base64_png;
use crate::support::vendor_sim::{SimBehavior, SimRequestKind};

/// Submits an invalid body. Returns the JSON pointers of the rejected fields.
async fn pointers(fixture: &VideoFixture, path: &str, body: Value) -> Vec<String> {
    let response = fixture.app.post_as(&fixture.alice.token, path, body).await.expect(400).json();
    let errors = response["errors"].as_array().expect("errors").iter();
    errors.map(|error| error["pointer"].as_str().expect("a pointer").to_owned()).collect()
}

#[actix_web::test]
async fn every_invalid_field_is_reported_at_once() {
    let fixture = VideoFixture::start().await;
    let body = json!({"images": ["%"], "model": "vq9", "duration": 99, "resolution": "4K", "seed": -1, "wm_position": 9,
        "wm_url": "%", "meta_data": "{", "callback_url": "x", "prompt": 7, "audio": "yes"});
    let mut rejected = pointers(&fixture, START_END, body).await;
    rejected.sort();
    let mut expected = [
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
    expected.sort();
    assert_eq!(rejected, expected);

    let frames = json!([{"key_image": "%", "duration": 9}, {"prompt": 7}]);
    let rejected = pointers(&fixture, MULTIFRAME, json!({"image_settings": frames, "model": "vq1"})).await;
    let expected = [
        "/model",
        "/image_settings/0/key_image",
        "/image_settings/0/duration",
        "/image_settings/1/key_image",
        "/image_settings/1/prompt",
    ];
    assert_eq!(rejected, expected);
    assert_eq!(fixture.sim.request_count(SimRequestKind::Submission), 0);
    fixture.app.stop().await;
}

#[actix_web::test]
async fn type_errors_state_what_is_allowed() {
    let fixture = VideoFixture::start().await;
    let reasons = async |path: &str, body: Value| {
        let errors = fixture.app.post_as(&fixture.alice.token, path, body).await.expect(400).json()["errors"].clone();
        let error_text =
            |error: &Value| format!("{} {}", error["pointer"].as_str().unwrap(), error["reason"].as_str().unwrap());
        errors.as_array().unwrap().iter().map(error_text).collect::<Vec<_>>()
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
    assert_eq!(reasons(START_END, body).await, expected);
    for settings in [json!("x"), json!([{"key_image": base64_png(2, 2)}])] {
        let body = json!({"image_settings": settings});
        assert_eq!(reasons(MULTIFRAME, body).await, ["/image_settings must be an array of 2 to 9 entries"]);
    }
    fixture.app.stop().await;
}

#[actix_web::test]
async fn a_picture_or_a_prompt_is_required() {
    let fixture = VideoFixture::start().await;
    for missing in [json!({}), json!({"images": []}), json!({"prompt": " "}), json!({"prompt": null, "images": null})] {
        assert_eq!(pointers(&fixture, START_END, missing.clone()).await, ["/prompt"], "{missing}");
    }
    fixture.submit(START_END, json!({"images": [base64_png(2, 2)], "prompt": ""})).await;
    fixture.app.stop().await;
}

#[actix_web::test]
async fn an_extension_needs_creation_id_and_url() {
    let fixture = VideoFixture::start().await;
    let id = "5a7f7a36-7a4e-4f0c-9f5e-2f6f3f0d9c11";
    let url = "https://a.example/v.mp4";
    let both_pointers = vec!["/video_creation_id", "/video_url"];
    for (body, missing) in [
        (json!({"model": "vq2-pro"}), both_pointers),
        (json!({"model": "vq2-pro", "video_url": url}), vec!["/video_creation_id"]),
        (json!({"model": "vq2-pro", "video_creation_id": id, "video_url": null}), vec!["/video_url"]),
        (json!({"model": "vq2-pro", "video_creation_id": " ", "video_url": url}), vec!["/video_creation_id"]),
        (json!({"model": "vq2-pro", "video_creation_id": 7, "video_url": url}), vec!["/video_creation_id"]),
    ] {
        assert_eq!(pointers(&fixture, EXTEND, body.clone()).await, missing, "{body}");
    }
    fixture.app.stop().await;
}

#[actix_web::test]
async fn models_and_resolutions_without_a_price_are_rejected() {
    let sim = vendor(Duration::ZERO, |_| SimBehavior::Normal).await;
    let dir = tempfile::tempdir().unwrap();
    let prices = dir.path().join("prices.toml");
    // Given a price list with a single model and resolution
    let price_list =
        "is_rec = 3\noff_peak_percent = 10\n[extend]\n[generate.\"vq1\"]\n\"540p\" = { seconds = [7], more = 2 }\n";
    std::fs::write(&prices, price_list).unwrap();
    let fixture = VideoFixture::with_vendor(sim, |settings| settings.video.pricing = Some(prices.clone())).await;

    // Then this combination is charged as listed, and other ones are rejected
    let body = json!({"prompt": "p", "model": "vq1", "resolution": "540p", "duration": 3, "is_rec": true});
    assert_eq!(fixture.submit(START_END, body).await["credits"], 7 + 2 * 2 + 3);
    assert_eq!(pointers(&fixture, START_END, json!({"prompt": "p", "model": "vq1"})).await, ["/resolution"]);
    assert_eq!(pointers(&fixture, START_END, json!({"prompt": "p"})).await, ["/model"]);
    fixture.app.stop().await;
}
