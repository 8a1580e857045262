//! `GET /models` and price estimates.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mediary::config::Settings;
use mediary::environment::Environment;
use mediary::http::routes::route_infos;
use reqwest::Method;
use serde_json::{Value, json};

use crate::image::{STYLE, UPSCALER};
use crate::support::form::form;
use crate::support::picture::{base64_png, png};
use crate::support::{TestApp, TestUser};
use crate::video::{EXTEND, START_END};

const MUSIC: &str = "/proxy/musicvendor/t2m/generate";

async fn models(app: &TestApp) -> Vec<Value> {
    app.get("/models").await.expect(200).json()["models"].as_array().expect("a list").clone()
}

fn model<'m>(models: &'m [Value], job: &str) -> &'m Value {
    models.iter().find(|model| model["job"] == job).unwrap_or_else(|| panic!("{job} is not listed"))
}

fn parameter<'m>(model: &'m Value, name: &str) -> &'m Value {
    let parameters = model["parameters"].as_array().expect("a list");
    parameters.iter().find(|parameter| parameter["name"] == name).unwrap_or_else(|| panic!("{name} in {model}"))
}

#[actix_web::test]
async fn every_job_is_listed_with_its_parameters_price_and_availability() {
    let app = TestApp::start().await;
    let models = models(&app).await;

    // Every route that submits a task is listed, and no other
    let listed: BTreeSet<_> = models.iter().map(|model| model["path"].as_str().expect("a path").to_owned()).collect();
    let submissions = route_infos().into_iter().filter(|route| route.action.is_submission());
    assert_eq!(listed, submissions.map(|route| route.path.to_owned()).collect());
    assert!(models.iter().all(|model| model["available"] == true), "a job is not available");

    // Ranges and defaults are those of the endpoints
    let upscaler = model(&models, "image-upscaler");
    assert_eq!(upscaler["medium"], "image");
    let hdr = parameter(upscaler, "hdr");
    let range = ["required", "type", "minimum", "maximum", "default"].map(|keyword| hdr[keyword].clone());
    assert_eq!(json!(range), json!([false, "integer", -10, 10, 0]));
    assert_eq!(parameter(upscaler, "image")["required"], true);
    assert_eq!(parameter(upscaler, "scale_factor")["enum"], json!(["2x", "4x", "8x", "16x"]));
    assert_eq!(parameter(model(&models, "start-end2video"), "images")["maxItems"], 1);
    assert_eq!(parameter(model(&models, "music"), "duration")["maximum"], 360);

    // Prices are those of the contract
    assert_eq!(upscaler["price"]["credits"], 0);
    let video = &model(&models, "start-end2video")["price"];
    assert_eq!(video.get("credits"), None, "a client would take 0 for a free job");
    assert_eq!(video["by_model"]["vq3-pro"]["720p"], json!({"seconds": [30], "more": 30}));
    assert_eq!((&video["is_rec"], &video["off_peak_percent"]), (&json!(10), &json!(50)));
    app.stop().await;
}

#[actix_web::test]
async fn a_job_that_no_vendor_takes_is_not_available() {
    // Given an image vendor that takes upscales only
    let only_upscales = |settings: &mut Settings| {
        settings.image_vendors[0].jobs.kinds = vec![mediary::domain::task::TaskKind::ImageUpscaler];
    };
    let app = TestApp::start_with(only_upscales, Environment::system()).await;
    let models = models(&app).await;
    assert_eq!(model(&models, "image-upscaler")["available"], true);
    assert_eq!(model(&models, "image-relight")["available"], false);
    assert_eq!(model(&models, "extend")["available"], true);
    app.stop().await;
}

async fn estimate(app: &TestApp, user: &TestUser, path: &str, body: Value) -> Value {
    app.post_as(&user.token, &format!("{path}?estimate=true"), body).await.expect(200).json()
}

#[actix_web::test]
async fn an_estimate_has_the_price_of_the_submission_and_does_nothing() {
    // Given prices, and quotas that are used up
    let dir = tempfile::tempdir().expect("a directory");
    let prices = include_str!("../../data/pricing.toml")
        .replace("image-upscaler = 0", "image-upscaler = 7")
        .replace("task = 0", "task = 5")
        .replace("second = 0", "second = 2");
    let file = dir.path().join("prices.toml");
    std::fs::write(&file, prices).expect("written");
    let change = |settings: &mut Settings| {
        settings.video.pricing = Some(file.clone());
        settings.limits.submissions_per_day = 1;
    };
    let app = TestApp::start_with(change, Environment::system()).await;
    let alice = app.user("alice").await;

    // When more prices are requested than the quota of submissions a day allows
    for _ in 0..3 {
        let body = json!({"prompt": "a calm sea", "duration": 5, "off_peak": true, "is_rec": true});
        let video = estimate(&app, &alice, START_END, body).await;
        assert_eq!(video["credits"], 85, "{video}");
        let expected = json!([
            {"item": "5 s of vq3-pro at 720p", "credits": 150},
            {"item": "off_peak", "credits": -75},
            {"item": "is_rec", "credits": 10},
        ]);
        assert_eq!(video["breakdown"], expected);
        let image = estimate(&app, &alice, UPSCALER, json!({"image": base64_png(8, 8)})).await;
        assert_eq!(image, json!({"credits": 7, "breakdown": [{"item": "image-upscaler", "credits": 7}]}));
        assert_eq!(estimate(&app, &alice, STYLE, json!({"image": base64_png(8, 8)})).await["credits"], 0);
        let request = app.request(Method::POST, &format!("{MUSIC}?estimate=true")).bearer_auth(&alice.token);
        let music = app.send(form(request, &[("prompt", "a waltz"), ("duration", "10")])).await.expect(200).json();
        assert_eq!(music["credits"], 25);
    }

    // Then nothing was recorded or stored
    let events = app.get_as(app.admin_token(), "/admin/events?stream=task/").await.expect(200).json();
    assert_eq!(events["events"], json!([]));
    assert_eq!(app.get_as(&alice.token, "/tasks").await.expect(200).json()["tasks"], json!([]));

    // And a bad submission is refused as without the parameter
    let bad = json!({"image": "bm8gcGljdHVyZQ==", "hdr": 11});
    let refused = app.post_as(&alice.token, &format!("{UPSCALER}?estimate=true"), bad.clone()).await.expect(400).json();
    let real = app.post_as(&alice.token, UPSCALER, bad).await.expect(400).json();
    assert_eq!(refused["errors"], real["errors"]);
    let path = format!("{EXTEND}?estimate=perhaps");
    let problem = app.post_as(&alice.token, &path, json!({})).await.expect(400).json();
    let expected = json!({"pointer": "/estimate", "reason": "must be true or false", "value": "perhaps"});
    assert_eq!(problem["errors"][0], expected);
    app.stop().await;
}

#[actix_web::test]
async fn an_estimate_uses_no_idempotency_key() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let body = json!({"image": STANDARD.encode(png(8, 8))});
    let send = async |path: &str, key: &str| {
        let request = app.request(Method::POST, path).bearer_auth(&alice.token).header("idempotency-key", key);
        app.send(request.json(&body)).await
    };
    let estimate = format!("{UPSCALER}?estimate=true");
    send(&estimate, "k").await.expect(200);
    let response = send(UPSCALER, "k").await.expect(200);
    assert_eq!(response.header("idempotent-replayed"), None);
    assert!(response.json()["data"]["task_id"].is_string());

    // But an invalid key is an error nevertheless
    send(&estimate, "two words").await.expect(400);
    app.stop().await;
}
