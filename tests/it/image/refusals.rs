//! Rejected submissions: one response names every invalid field.

use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{PRECISION, RELIGHT, SKIN, STYLE, UPSCALER, stored_inputs, submit};
use crate::support::picture::{base64_png, encoded};
use crate::support::{TestApp, TestResponse};

/// Returns the sorted pointers of the fields that a response names.
fn named_fields(rejected: TestResponse) -> Vec<String> {
    let problem = rejected.expect(400).json();
    let errors = problem["errors"].as_array().expect("errors");
    let mut pointers: Vec<_> = errors.iter().map(|error| error["pointer"].as_str().unwrap().to_owned()).collect();
    pointers.sort_unstable();
    pointers
}

/// Returns the reason given for a field.
fn reason(rejected: &TestResponse, pointer: &str) -> String {
    let problem = rejected.json();
    let errors = problem["errors"].as_array().expect("errors");
    let error = errors.iter().find(|error| error["pointer"] == pointer).expect("an error of the field");
    error["reason"].as_str().expect("a reason").to_owned()
}

#[actix_web::test]
async fn every_invalid_field_is_reported_before_anything_is_stored() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let head = app.app.models().read().position;
    let body = json!({
        "image": "bm8gcGljdHVyZQ==", "creativity": 11, "fractality": "1", "hdr": 0.5, "resemblance": -11,
        "engine": "magic", "optimized_for": 1, "scale_factor": "3x", "prompt": "x".repeat(10_001), "webhook_url": "ftp://x",
    });
    let problem = app.post_as(&alice.token, UPSCALER, body).await.expect(400).json();
    let errors = problem["errors"].as_array().unwrap();
    let mut pointers: Vec<_> = errors.iter().map(|error| error["pointer"].as_str().unwrap()).collect();
    pointers.sort_unstable();
    assert_eq!(
        pointers,
        [
            "/creativity",
            "/engine",
            "/fractality",
            "/hdr",
            "/image",
            "/optimized_for",
            "/prompt",
            "/resemblance",
            "/scale_factor",
            "/webhook_url",
        ]
    );

    let scale = errors.iter().find(|error| error["pointer"] == "/scale_factor").unwrap();
    assert_eq!(scale["reason"], "must be one of 2x 4x 8x 16x");
    assert_eq!(app.app.models().read().position, head, "nothing was recorded");

    // A valid picture is not stored either if another field is invalid
    let body = json!({"image": base64_png(8, 8), "creativity": 11});
    let problem = app.post_as(&alice.token, UPSCALER, body).await.expect(400).json();
    assert_eq!(problem["errors"].as_array().map(Vec::len), Some(1));
    assert_eq!(stored_inputs(&app), 0, "nothing was stored");
    submit(&app, &alice, UPSCALER, json!({"image": base64_png(8, 8), "webhook_url": ""})).await;
    assert_eq!(stored_inputs(&app), 1, "what is right is stored, and an empty webhook means none");
    app.stop().await;
}

#[actix_web::test]
async fn every_endpoint_reports_all_invalid_fields() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;

    let too_long = || "x".repeat(10_001);
    let skin = |mode| format!("{SKIN}/{mode}");
    let cases = [
        (
            PRECISION.to_owned(),
            json!({"scale_factor": 17, "flavor": "vivid", "sharpen": -1, "smart_grain": "7", "ultra_detail": 0.5}),
        ),
        (
            STYLE.to_owned(),
            json!({"reference_image": "%%%", "engine": "magic", "fixed_generation": 1, "flavor": "sweet", "is_portrait": "yes",
                "portrait_beautifier": "all", "portrait_style": 3, "prompt": too_long(), "structure_strength": 101,
                "style_strength": -1}),
        ),
        (skin("creative"), json!({"sharpen": 101, "smart_grain": -1})),
        (skin("faithful"), json!({"sharpen": 101, "smart_grain": true, "skin_detail": 101})),
        (skin("flexible"), json!({"sharpen": [], "smart_grain": {}, "optimized_for": "everything"})),
        (
            RELIGHT.to_owned(),
            json!({"prompt": 1, "transfer_light_from_reference_image": "%%%", "light_transfer_strength": 101, "style": "dim",
                "interpolate_from_original": "no", "change_background": 0, "preserve_details": [], "advanced_settings": 5}),
        ),
        (
            RELIGHT.to_owned(),
            json!({"transfer_light_from_lightmap": 7, "advanced_settings": {"whites": 101, "blacks": -1, "brightness": "a",
                "contrast": 0.1, "saturation": null, "engine": "magic", "transfer_light_a": "huge", "transfer_light_b": "late",
                "fixed_generation": "yes"}}),
        ),
    ];

    for (path, mut body) in cases {
        body["image"] = json!("bm8gcGljdHVyZQ==");
        body["webhook_url"] = json!("ftp://x");
        let problem = app.post_as(&alice.token, &path, body.clone()).await;
        assert_eq!(named_fields(problem), pointers(&body), "{path}");
    }
    app.stop().await;
}

/// Returns the sorted pointers of all present fields of a body.
fn pointers(body: &Value) -> Vec<String> {
    let mut pointers = Vec::new();
    for (name, value) in body.as_object().expect("an object") {
        match value {
            Value::Object(inner) if name == "advanced_settings" => {
                let present = inner.iter().filter(|(_, value)| !value.is_null());
                pointers.extend(present.map(|(inner, _)| format!("/{name}/{inner}")));
            }
            _ => pointers.push(format!("/{name}")),
        }
    }
    pointers.sort_unstable();
    pointers
}

#[actix_web::test]
async fn a_picture_is_required_and_null_means_absent() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let modes = ["creative", "faithful", "flexible"].map(|mode| format!("{SKIN}/{mode}"));
    for path in [UPSCALER, PRECISION, STYLE, RELIGHT].into_iter().chain(modes.iter().map(String::as_str)) {
        for body in [json!({}), json!({"image": null})] {
            let problem = app.post_as(&alice.token, path, body).await.expect(400);
            assert_eq!(reason(&problem, "/image"), "is required", "{path}");
            assert_eq!(named_fields(problem), ["/image"], "{path}");
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn errors_state_ranges_and_allowed_values() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    for (path, field, value, expected) in [
        (PRECISION, "scale_factor", json!(1), "must be an integer from 2 to 16"),
        (PRECISION, "scale_factor", json!("2x"), "must be an integer from 2 to 16"),
        (UPSCALER, "creativity", json!("x"), "must be an integer from -10 to 10"),
        (UPSCALER, "engine", json!(1), "must be one of automatic premium_illusio premium_sharpy premium_sparkle"),
        (PRECISION, "flavor", json!("x"), "must be one of sublime photo photo_denoiser"),
        (PRECISION, "ultra_detail", json!(101), "must be an integer from 0 to 100"),
        (STYLE, "portrait_style", json!("x"), "must be one of standard pop super_pop"),
        (STYLE, "fixed_generation", json!("true"), "must be true or false"),
        (RELIGHT, "light_transfer_strength", json!(-1), "must be an integer from 0 to 100"),
        (UPSCALER, "hdr", json!(-11), "must be an integer from -10 to 10"),
    ] {
        let body = json!({"image": base64_png(8, 8), field: value});
        let problem = app.post_as(&alice.token, path, body).await.expect(400);
        assert_eq!(reason(&problem, &format!("/{field}")), expected, "{path} {field}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn reference_and_lightmap_are_mutually_exclusive() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let both_sources = json!({"image": base64_png(8, 8), "transfer_light_from_reference_image": base64_png(8, 8),
        "transfer_light_from_lightmap": "https://pictures.example/map.png"});
    let problem = app.post_as(&alice.token, RELIGHT, both_sources).await;
    assert_eq!(named_fields(problem), ["/transfer_light_from_lightmap"]);
    app.stop().await;
}

#[actix_web::test]
async fn portrait_fields_are_validated_and_ignored_without_a_portrait() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let body =
        |style| json!({"image": base64_png(8, 8), "portrait_style": style, "portrait_beautifier": "beautify_face"});
    submit(&app, &alice, STYLE, body("super_pop")).await;
    let problem = app.post_as(&alice.token, STYLE, body("gloomy")).await;
    assert_eq!(named_fields(problem), ["/portrait_style"]);
    app.stop().await;
}

#[actix_web::test]
async fn pictures_are_base64_data_uris_or_urls() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let png = base64_png(8, 8);
    let jpeg = STANDARD.encode(encoded(8, 8, image::ImageFormat::Jpeg));
    for valid in [png.clone(), format!("data:image/png;base64,{png}"), jpeg] {
        submit(&app, &alice, UPSCALER, json!({"image": valid})).await;
    }
    let truncated = &png[..png.len() / 2];
    for invalid in [json!(null), json!(7), json!(""), json!("%%%"), json!(truncated), json!("data:image/png,abc")] {
        let problem = app.post_as(&alice.token, UPSCALER, json!({"image": invalid})).await.expect(400).json();
        assert_eq!(problem["errors"][0]["pointer"], "/image", "{invalid}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn an_oversized_result_is_rejected_at_its_field() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    for (path, width, height, factor, field) in [
        (UPSCALER, 400, 400, json!("16x"), "/scale_factor"),
        (UPSCALER, 3200, 2000, json!("2x"), "/image"),
        (PRECISION, 400, 400, json!(13), "/scale_factor"),
        (PRECISION, 2531, 2500, json!(2), "/image"),
    ] {
        let mut png = Cursor::new(Vec::new());
        image::DynamicImage::new_luma8(width, height).write_to(&mut png, image::ImageFormat::Png).expect("a picture");
        let body = json!({"image": STANDARD.encode(png.into_inner()), "scale_factor": factor});
        let problem = app.post_as(&alice.token, path, body).await.expect(400);
        assert!(reason(&problem, field).contains("25.3 million pixels"), "{}", problem.text());
        assert_eq!(named_fields(problem), [field]);
    }
    app.stop().await;
}
