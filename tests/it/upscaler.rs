//! The image upscaler: what is accepted, who sees it, and that a result can be fetched.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use mediary::clock::{Place, Surroundings};
use mediary::domain::ids::TaskId;
use serde_json::{Value, json};

use crate::support::picture::{base64_png, encoded};
use crate::support::{TestApp, TestUser};

const UPSCALER: &str = "/proxy/imagevendor/v1/ai/image-upscaler";

/// Submits a job that is accepted and gives its id.
async fn submit(app: &TestApp, user: &TestUser, body: Value) -> String {
    let answer = app.post_as(&user.token, UPSCALER, body).await.expect(200).json();
    answer["data"]["task_id"].as_str().expect("a task id").to_owned()
}

/// Waits until a task has ended and gives it as its owner sees it.
pub async fn ended(app: &TestApp, user: &TestUser, task: &str) -> Value {
    let mut changes = app.app.models().task_changes();
    let id = TaskId::parse(task).expect("a task id");
    loop {
        let record = app.app.models().task(id).await.expect("readable").expect("known");
        if record.is_terminal() {
            return app.get_as(&user.token, &format!("{UPSCALER}/{task}")).await.expect(200).json()["data"].clone();
        }
        changes.changed().await.expect("the service lives");
    }
}

#[actix_web::test]
async fn a_picture_is_upscaled_and_its_result_served() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let body = json!({"image": base64_png(20, 10), "scale_factor": "4x", "creativity": 3, "hdr": -10, "prompt": "a scene",
        "optimized_for": "3d_renders", "engine": "premium_sparkle", "webhook_url": null, "unknown": 1});
    let answer = app.post_as(&alice.token, UPSCALER, body).await.expect(200).json();
    let task = answer["data"]["task_id"].as_str().expect("a task id");
    assert_eq!(answer, json!({"data": {"task_id": task, "status": "CREATED", "generated": []}}));

    let ended = ended(&app, &alice, task).await;
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
    let url = ended["generated"][0].as_str().expect("a URL");
    let path = url.strip_prefix(&app.url("")).expect("a URL of this service");
    let result = app.get(path).await.expect(200);
    let picture = image::load_from_memory(&result.body).expect("a picture");
    assert_eq!((picture.width(), picture.height()), (80, 40));
    app.stop().await;
}

#[actix_web::test]
async fn every_bad_field_is_named_before_anything_is_written() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let head = app.app.models().read().position;
    let body = json!({
        "image": "bm8gcGljdHVyZQ==", "creativity": 11, "fractality": "1", "hdr": 0.5, "resemblance": -11,
        "engine": "magic", "optimized_for": 1, "scale_factor": "3x", "prompt": "x".repeat(2001), "webhook_url": "ftp://x",
    });
    let refused = app.post_as(&alice.token, UPSCALER, body).await.expect(400).json();
    let errors = refused["errors"].as_array().unwrap();
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
    // A picture that is right is not stored either as long as anything else is wrong
    let body = json!({"image": base64_png(8, 8), "creativity": 11});
    let refused = app.post_as(&alice.token, UPSCALER, body).await.expect(400).json();
    assert_eq!(refused["errors"].as_array().map(Vec::len), Some(1));
    assert_eq!(stored_inputs(&app), 0, "nothing was stored");
    submit(&app, &alice, json!({"image": base64_png(8, 8), "webhook_url": ""})).await;
    assert_eq!(stored_inputs(&app), 1, "what is right is stored, and an empty webhook means none");
    app.stop().await;
}

/// Files in the area of the media store that keeps what clients sent.
fn stored_inputs(app: &TestApp) -> usize {
    let folders = std::fs::read_dir(app.dir.path().join("media/inputs")).expect("the area of inputs");
    folders.map(|folder| std::fs::read_dir(folder.unwrap().path()).expect("a folder of inputs").count()).sum()
}

#[actix_web::test]
async fn pictures_come_in_many_forms_and_nothing_else_is_one() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let png = base64_png(8, 8);
    let jpeg = STANDARD.encode(encoded(8, 8, image::ImageFormat::Jpeg));
    for good in [png.clone(), format!("data:image/png;base64,{png}"), jpeg] {
        submit(&app, &alice, json!({"image": good})).await;
    }
    let truncated = &png[..png.len() / 2];
    for bad in [json!(null), json!(7), json!(""), json!("%%%"), json!(truncated), json!("data:image/png,abc")] {
        let refused = app.post_as(&alice.token, UPSCALER, json!({"image": bad})).await.expect(400).json();
        assert_eq!(refused["errors"][0]["pointer"], "/image", "{bad}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_result_that_would_be_too_large_is_refused_where_it_can_be_mended() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let pointer = |width, height, factor: &'static str| {
        let mut png = std::io::Cursor::new(Vec::new());
        image::DynamicImage::new_luma8(width, height).write_to(&mut png, image::ImageFormat::Png).expect("a picture");
        let body = json!({"image": STANDARD.encode(png.into_inner()), "scale_factor": factor});
        let answer = app.post_as(&alice.token, UPSCALER, body);
        async { answer.await.expect(400).json()["errors"][0]["pointer"].clone() }
    };
    assert_eq!(pointer(400, 400, "16x").await, "/scale_factor");
    assert_eq!(pointer(3200, 2000, "2x").await, "/image");
    app.stop().await;
}

#[actix_web::test]
async fn a_task_is_seen_by_its_owner_and_administrators() {
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let task = submit(&app, &alice, json!({"image": base64_png(8, 8)})).await;
    let path = format!("{UPSCALER}/{task}");
    app.get_as(&alice.token, &path).await.expect(200);
    app.get_as(app.admin_token(), &path).await.expect(200);
    app.get_as(&bob.token, &path).await.expect(404);
    for unknown in ["nonsense", "00000000-0000-4000-8000-00000000abcd"] {
        app.get_as(&alice.token, &format!("{UPSCALER}/{unknown}")).await.expect(404);
    }
    app.stop().await;
}

#[actix_web::test]
async fn unfinished_tasks_are_limited_for_each_caller_also_when_submitted_at_once() {
    // The poller never gets to work, so that every task stays unfinished.
    let mishap = |place, _: &str| assert!(place != Place::Reactor, "made to fail");
    let surroundings = Surroundings::real().with_mishap(Arc::new(mishap));
    let app = TestApp::start_with(|settings| settings.limits.submissions_per_caller = 3, surroundings).await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let submission = json!({"image": base64_png(8, 8)});
    let answers = join_all((0..8).map(|_| app.post_as(&alice.token, UPSCALER, submission.clone()))).await;

    let accepted = answers.iter().filter(|answer| answer.status == 200).count();
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert_eq!((accepted, refused.len()), (3, 5));
    assert!(refused.iter().all(|answer| answer.header("retry-after").is_some()));
    app.post_as(&bob.token, UPSCALER, submission).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn approval_can_be_required() {
    let app = TestApp::start_with(|settings| settings.auth.require_approval = true, Surroundings::real()).await;
    let alice = app.user("alice").await;
    let submission = json!({"image": base64_png(8, 8)});
    let refused = app.post_as(&alice.token, UPSCALER, submission.clone()).await.expect(403).json();
    assert_eq!(refused["error"], "approval_required");
    app.post_as(app.admin_token(), UPSCALER, submission).await.expect(200);
    app.stop().await;
}
