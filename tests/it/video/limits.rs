//! Limits of the original interface, each tested at the limit and just beyond it.

use std::time::Duration;

use serde_json::{Value, json};

use super::{EXTEND, MULTIFRAME, REFERENCE, START_END, VideoFixture, vendor};
use crate::support::picture::base64_png;
use crate::support::vendor_sim::{SimBehavior, SimRequest, SimRequestKind};

/// Field, values at the limit, and values beyond it.
type VideoLimit = (&'static str, Vec<Value>, Vec<Value>);

/// Returns a text of characters with four bytes in UTF-8.
fn four_bytes(characters: usize) -> Value {
    json!("\u{1F3B5}".repeat(characters))
}

fn strings(texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|text| json!(text)).collect()
}

fn prompt_limit() -> VideoLimit {
    ("prompt", vec![four_bytes(2000)], vec![four_bytes(2001), json!("\u{0}")])
}

fn payload_limit() -> VideoLimit {
    ("payload", vec![four_bytes(1_048_576), json!("")], vec![four_bytes(1_048_577), json!(7)])
}

fn generate_limits() -> Vec<VideoLimit> {
    let one_picture = json!([base64_png(2, 2)]);
    let two_pictures = json!([base64_png(2, 2), base64_png(2, 2)]);
    let mut limits = vec![prompt_limit(), payload_limit()];
    limits.extend([
        ("images", vec![one_picture], vec![two_pictures, json!(["x"]), json!([7]), json!("x")]),
        ("seed", vec![json!(0), json!(2_147_483_647)], vec![json!(-1), json!(2_147_483_648_u64), json!(0.5)]),
        ("wm_position", vec![json!(1), json!(4)], vec![json!(0), json!(5)]),
        ("priority", vec![json!(i32::MIN), json!(i32::MAX)], vec![json!(i64::from(i32::MIN) - 1), json!(1_i64 << 31)]),
        ("audio_type", strings(&["all", "speech_only", "sound_effect_only"]), strings(&["none", ""])),
        ("movement_amplitude", strings(&["auto", "small", "medium", "large"]), strings(&["huge"])),
        ("style", strings(&["general", "anime"]), strings(&["noir"])),
        ("resolution", strings(&["360p", "540p", "720p", "1080p", "2K"]), strings(&["480p", "2k"])),
        (
            "model",
            strings(&["vq3-pro", "vq2-pro-fast", "vq2-pro", "vq2-turbo", "vq1", "vq1-classic", "v2.0"]),
            strings(&["vq4"]),
        ),
        ("aspect_ratio", strings(&["4:1", "1:4"]), strings(&["5:1", "1:5", "wide"])),
        ("meta_data", strings(&["{}", "[1]", "\"x\""]), strings(&["{", ""])),
        ("callback_url", strings(&["https://a.example/x", ""]), strings(&["ftp://a.example", "x"])),
    ]);
    for flag in ["audio", "bgm", "enhance", "is_rec", "off_peak", "watermark"] {
        limits.push((flag, vec![json!(true), json!(false), Value::Null], vec![json!("true"), json!(1)]));
    }
    limits
}

fn extend_limits() -> Vec<VideoLimit> {
    let mut limits = vec![prompt_limit(), payload_limit()];
    limits.extend([
        ("duration", vec![json!(1), json!(7)], vec![json!(0), json!(8), json!(1.5)]),
        ("images", vec![json!([base64_png(2, 2)])], vec![json!([base64_png(2, 2), base64_png(2, 2)])]),
        ("model", strings(&["vq2-pro", "vq2-turbo"]), strings(&["vq3-pro"])),
        ("resolution", strings(&["540p", "720p", "1080p"]), strings(&["360p", "2K"])),
        ("video_url", strings(&["https://a.example/v.mp4"]), strings(&["", "v.mp4"])),
    ]);
    limits
}

fn multiframe_limits() -> Vec<VideoLimit> {
    let frames = |count: usize| json!(vec![json!({"key_image": base64_png(2, 2)}); count]);
    let frames_of_seconds = |seconds: i64| {
        let frame = json!({"key_image": base64_png(2, 2), "duration": seconds});
        json!([frame, frame])
    };
    let frames_with_prompt = |prompt: Value| json!(vec![json!({"key_image": base64_png(2, 2), "prompt": prompt}); 9]);
    let without_image = json!([{"duration": 1}, {"key_image": base64_png(2, 2)}]);
    let mut limits = vec![payload_limit()];
    limits.extend([
        (
            "image_settings",
            vec![
                frames(2),
                frames(9),
                frames_of_seconds(1),
                frames_of_seconds(8),
                frames_with_prompt(four_bytes(2000)),
            ],
            vec![
                frames(1),
                frames(10),
                frames_of_seconds(0),
                frames_of_seconds(9),
                frames_with_prompt(four_bytes(2001)),
                without_image,
                json!({}),
            ],
        ),
        ("model", strings(&["vq2-pro", "vq2-turbo"]), strings(&["vq2-pro-fast"])),
        ("resolution", strings(&["540p", "720p", "1080p"]), strings(&["360p", "2K"])),
        ("start_image", vec![json!(base64_png(2, 2))], vec![json!("x"), json!(7)]),
    ]);
    limits
}

/// Starts a service with a vendor that accepts one video and stays busy, so that accepted tasks wait.
async fn waiting_fixture() -> VideoFixture {
    let behavior = |request: &SimRequest| match (request.kind, request.prompt.as_str()) {
        (SimRequestKind::Submission, prompt) if prompt != "own" => SimBehavior::Reject("503 Busy", String::new()),
        _ => SimBehavior::Normal,
    };
    let sim = vendor(Duration::ZERO, behavior).await;
    VideoFixture::with_vendor(sim, |settings| settings.limits.submissions_per_caller = 100_000).await
}

async fn submit_field(fixture: &VideoFixture, path: &str, base: &Value, field: &str, value: &Value) -> (u16, Value) {
    let mut body = base.clone();
    body[field] = value.clone();
    let response = fixture.app.post_as(&fixture.alice.token, path, body).await;
    (response.status, response.json())
}

fn short_text(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}

#[actix_web::test]
async fn every_limit_is_inclusive() {
    let fixture = waiting_fixture().await;
    let own_video = fixture.submit(START_END, json!({"prompt": "own"})).await;
    let own_video_id = fixture.wait_for_end(&own_video).await["creations"][0]["id"].clone();
    let extension =
        json!({"model": "vq2-pro", "video_creation_id": own_video_id, "video_url": "https://a.example/v.mp4"});
    let frames = json!([{"key_image": base64_png(2, 2)}, {"key_image": base64_png(2, 2)}]);
    let tables = [
        (START_END, json!({"prompt": "p"}), generate_limits()),
        (REFERENCE, json!({"prompt": "p"}), generate_limits()),
        (EXTEND, extension, extend_limits()),
        (MULTIFRAME, json!({"image_settings": frames}), multiframe_limits()),
    ];

    let mut mismatches = Vec::new();
    for (path, base, limits) in tables {
        for (field, valid, invalid) in limits {
            for value in &valid {
                let (status, body) = submit_field(&fixture, path, &base, field, value).await;
                if status != 200 {
                    mismatches.push(format!("{path} {field} {}: {status} {body}", short_text(value)));
                }
            }
            for value in &invalid {
                let (status, body) = submit_field(&fixture, path, &base, field, value).await;
                let is_named = body["errors"][0]["pointer"].as_str().is_some_and(|at| at[1..].starts_with(field));
                if status != 400 || !is_named {
                    mismatches.push(format!("{path} {field} {}: {status} {body}", short_text(value)));
                }
            }
        }
    }

    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
    fixture.app.stop().await;
}

#[actix_web::test]
async fn each_model_has_its_own_maximum_duration() {
    let fixture = waiting_fixture().await;
    let table = [("vq3-pro", 16), ("vq2-pro-fast", 10), ("vq2-pro", 8), ("vq2-turbo", 8), ("vq1", 16), ("v2.0", 16)];
    for (model, maximum) in table {
        let base = json!({"prompt": "p", "model": model});
        for (duration, expected) in [(0, 400), (1, 200), (maximum, 200), (maximum + 1, 400)] {
            let (status, body) = submit_field(&fixture, REFERENCE, &base, "duration", &json!(duration)).await;
            assert_eq!(status, expected, "{model} {duration}: {body}");
        }
    }
    fixture.app.stop().await;
}

#[actix_web::test]
async fn max_images_raises_the_image_limit_up_to_that_of_the_endpoint() {
    let sim = vendor(Duration::ZERO, |_| SimBehavior::Reject("503 Busy", String::new())).await;
    let fixture = VideoFixture::with_vendor(sim, |settings| settings.video.max_images = 7).await;
    let images = |count: usize| json!(vec![base64_png(2, 2); count]);
    for (path, maximum) in [(START_END, 2), (REFERENCE, 7)] {
        let base = json!({"prompt": "p"});
        assert_eq!(submit_field(&fixture, path, &base, "images", &images(maximum)).await.0, 200, "{path}");
        let (status, body) = submit_field(&fixture, path, &base, "images", &images(maximum + 1)).await;
        assert_eq!((status, body["errors"][0]["pointer"].as_str()), (400, Some("/images")), "{path}");
    }
    fixture.app.stop().await;
}
