//! Every kind of job, from its submission to a file.

use mediary::domain::ids::TaskId;
use mediary::domain::task::TaskWork;
use serde_json::{Value, json};

use super::{PRECISION, RELIGHT, SKIN, STYLE, UPSCALER, result_of, submit, wait_for_end};
use crate::support::picture::base64_png;
use crate::support::receiver::{ReceivedRequest, Receiver};
use crate::support::{TestApp, TestUser};

/// Submission with every field, the path of its task, and the factor by which each side grows.
struct ResultCase {
    path: String,
    read_path: &'static str,
    body: Value,
    times: u32,
}

fn case(path: impl Into<String>, read_path: &'static str, times: u32, body: Value) -> ResultCase {
    ResultCase { path: path.into(), read_path, body, times }
}

fn cases() -> Vec<ResultCase> {
    vec![
        case(
            UPSCALER,
            UPSCALER,
            4,
            json!({"scale_factor": "4x", "creativity": 3, "hdr": -10, "fractality": 10, "resemblance": -1, "prompt": "a scene",
                "optimized_for": "3d_renders", "engine": "premium_sparkle"}),
        ),
        case(
            PRECISION,
            PRECISION,
            3,
            json!({"scale_factor": 3, "flavor": "sublime", "sharpen": 100, "smart_grain": 0, "ultra_detail": 50}),
        ),
        case(
            STYLE,
            STYLE,
            1,
            json!({"reference_image": base64_png(12, 16), "engine": "colorful_anime", "flavor": "gen_z", "is_portrait": true,
                "portrait_style": "pop", "portrait_beautifier": "beautify_face_max", "prompt": "as of glass",
                "structure_strength": 0, "style_strength": 100, "fixed_generation": true}),
        ),
        case(format!("{SKIN}/creative"), SKIN, 1, json!({"sharpen": 100, "smart_grain": 0})),
        case(format!("{SKIN}/faithful"), SKIN, 1, json!({"sharpen": 0, "smart_grain": 100, "skin_detail": 0})),
        case(format!("{SKIN}/flexible"), SKIN, 1, json!({"optimized_for": "no_make_up"})),
        case(
            RELIGHT,
            RELIGHT,
            1,
            json!({"prompt": "late sun", "transfer_light_from_reference_image": base64_png(9, 9), "light_transfer_strength": 60,
                "interpolate_from_original": true, "change_background": false, "preserve_details": false, "style": "smooth",
                "advanced_settings": {"whites": 0, "blacks": 100, "brightness": 40, "contrast": 60, "saturation": 50,
                    "engine": "cool", "transfer_light_a": "high_on_faces", "transfer_light_b": "soft_mid",
                    "fixed_generation": true}}),
        ),
        case(
            RELIGHT,
            RELIGHT,
            1,
            json!({"transfer_light_from_lightmap": base64_png(5, 20), "style": "contrasted_n_hdr"}),
        ),
    ]
}

/// Submits, and returns the size of the result.
async fn size_of_result(app: &TestApp, user: &TestUser, path: &str, read_path: &str, body: Value) -> (u32, u32) {
    let task = submit(app, user, path, body).await;
    let result = result_of(app, &wait_for_end(app, user, read_path, &task).await).await;
    let picture = image::load_from_memory(&result).expect("a picture");
    (picture.width(), picture.height())
}

#[actix_web::test]
async fn every_job_variant_gives_a_picture() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    for ResultCase { path, read_path: read, mut body, times } in cases() {
        body["image"] = json!(base64_png(20, 10));
        body["webhook_url"] = Value::Null;
        body["unknown"] = json!(1);
        let size = size_of_result(&app, &alice, &path, read, body).await;
        assert_eq!(size, (20 * times, 10 * times), "{path}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn every_job_needs_only_a_picture() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    for ResultCase { path, read_path: read, .. } in cases() {
        let times = if [UPSCALER, PRECISION].contains(&read) { 2 } else { 1 };
        let size = size_of_result(&app, &alice, &path, read, json!({"image": base64_png(14, 10)})).await;
        assert_eq!(size, (14 * times, 10 * times), "{path}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn responses_are_wrapped_except_style_transfer_submissions() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    for ResultCase { path, read_path: read, .. } in cases() {
        let response = app.post_as(&alice.token, &path, json!({"image": base64_png(8, 8)})).await.expect(200).json();
        let task = if path == STYLE { response.clone() } else { response["data"].clone() };
        let id = task["task_id"].as_str().expect("a task id").to_owned();
        let created = json!({"task_id": id, "status": "CREATED", "generated": []});
        assert_eq!(response, if path == STYLE { created } else { json!({"data": created}) }, "{path}");
        let finished = wait_for_end(&app, &alice, read, &id).await;
        assert_eq!((finished["status"].as_str(), finished.get("error")), (Some("COMPLETED"), None), "{path}");
    }
    app.stop().await;
}

/// Returns the random seed of a task.
async fn seed_of(app: &TestApp, user: &TestUser, path: &str, body: Value) -> Option<u32> {
    let task = submit(app, user, path, body).await;
    let record = app.app.models().task(TaskId::parse(&task).unwrap()).await.expect("readable").expect("known");
    let TaskWork::Image(work) = record.submission.work else { panic!("an image task") };
    work.seed
}

#[actix_web::test]
async fn results_are_random_only_without_fixed_generation() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let image = base64_png(8, 8);
    let plain_body = json!({"image": image});
    for (path, body) in [
        (UPSCALER.to_owned(), plain_body.clone()),
        (PRECISION.to_owned(), plain_body.clone()),
        (STYLE.to_owned(), json!({"image": image, "fixed_generation": true})),
        (RELIGHT.to_owned(), json!({"image": image, "advanced_settings": {"fixed_generation": true}})),
    ] {
        assert_eq!(seed_of(&app, &alice, &path, body).await, None, "{path}");
    }

    for path in [STYLE.to_owned(), RELIGHT.to_owned(), format!("{SKIN}/creative"), format!("{SKIN}/flexible")] {
        let (first_seed, second_seed) = (
            seed_of(&app, &alice, &path, plain_body.clone()).await,
            seed_of(&app, &alice, &path, plain_body.clone()).await,
        );
        assert!(first_seed.is_some() && first_seed != second_seed, "{path}: {first_seed:?} {second_seed:?}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_fixed_generation_gives_the_same_file_again() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    for (path, body) in [
        (STYLE, json!({"image": base64_png(16, 16), "prompt": "rain", "fixed_generation": true})),
        (RELIGHT, json!({"image": base64_png(16, 16), "advanced_settings": {"fixed_generation": true}})),
    ] {
        let mut results = Vec::new();
        for _ in 0..2 {
            let task = submit(&app, &alice, path, body.clone()).await;
            results.push(result_of(&app, &wait_for_end(&app, &alice, path, &task).await).await);
        }
        assert!(results[0] == results[1], "{path}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn webhook_bodies_are_unwrapped_and_precision_upscaling_sends_only_the_end() {
    let (app, receiver) = (TestApp::start().await, Receiver::start().await);
    let alice = app.user("alice").await;
    let statuses_at = |received: &[ReceivedRequest], path: &str| -> Vec<String> {
        received.iter().filter(|callback| callback.path == path).map(ReceivedRequest::status).collect()
    };
    for (path, hook_path) in [(STYLE, "/style"), (RELIGHT, "/relight"), (PRECISION, "/precision")] {
        let body = json!({"image": base64_png(8, 8), "webhook_url": receiver.url(hook_path)});
        let task = submit(&app, &alice, path, body).await;
        let finished = wait_for_end(&app, &alice, path, &task).await;
        let received = receiver
            .wait_until(|callbacks| statuses_at(callbacks, hook_path).last().is_some_and(|last| last == "COMPLETED"))
            .await;
        let last = received.iter().rfind(|callback| callback.path == hook_path).unwrap();
        assert_eq!(last.json(), finished, "{path}");
        let expected: &[&str] = if path == PRECISION { &["COMPLETED"] } else { &["IN_PROGRESS", "COMPLETED"] };
        assert_eq!(statuses_at(&received, hook_path), expected, "{path}");
    }
    app.stop().await;
}
