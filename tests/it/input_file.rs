//! Uploaded input files: both ways to upload, use by URL without egress, ownership, expiry.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mediary::config::PrivateAccess;
use mediary::domain::value::Timestamp;
use mediary::environment::{CommitStep, Environment, FailPoint};
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::image::{UPSCALER, submit, wait_for_end};
use crate::support::eventually::{eventually, within};
use crate::support::form::form_of_bytes;
use crate::support::picture::png;
use crate::support::vendor_sim::CLIP;
use crate::support::{TestApp, TestResponse, TestUser};
use crate::video::{EXTEND, START_END, VideoFixture, wait_for_task_end};

async fn upload_form(app: &TestApp, user: &TestUser, bytes: &[u8]) -> TestResponse {
    let request = app.request(Method::POST, "/files").bearer_auth(&user.token);
    app.send(form_of_bytes(request, &[("file", bytes)])).await
}

/// Uploads a file and returns its URL.
async fn upload(app: &TestApp, user: &TestUser, bytes: &[u8]) -> String {
    text(&upload_form(app, user, bytes).await.expect(200).json()["url"])
}

async fn put(app: &TestApp, url: &str, bytes: &[u8]) -> TestResponse {
    let path = url.strip_prefix(&app.url("")).expect("a URL of this service");
    app.send(app.request(Method::PUT, path).body(bytes.to_vec())).await
}

/// Announces a file and returns the link for its upload.
async fn announce(app: &TestApp, user: &TestUser, body: Value) -> String {
    text(&app.post_as(&user.token, "/files", body).await.expect(200).json()["upload_url"])
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn error_of(problem: &Value) -> (&str, &str) {
    let error = &problem["errors"][0];
    (error["pointer"].as_str().expect("a pointer"), error["reason"].as_str().expect("a reason"))
}

#[actix_web::test]
async fn an_announced_file_is_uploaded_by_its_link_and_used_without_egress() {
    // Given a service that may not connect to its own address
    let private = |settings: &mut mediary::config::Settings| {
        settings.egress.private = PrivateAccess::Deny;
    };
    let app = TestApp::start_with(private, Environment::system()).await;
    let alice = app.user("alice").await;
    let picture = png(12, 8);

    // When a picture is announced and uploaded
    let body = json!({"name": "a.png", "content_type": "image/png", "bytes": picture.len()});
    let announced = app.post_as(&alice.token, "/files", body).await.expect(200).json();
    let upload_url = text(&announced["upload_url"]);
    let stored = put(&app, &upload_url, &picture).await.expect(200).json();

    // Then the response names the same file, without the link
    let expected = json!({"id": announced["id"], "url": announced["url"], "content_type": "image/png",
        "bytes": picture.len(), "expires_at": announced["expires_at"]});
    assert_eq!(stored, expected);

    // And the content can be read, and uploaded again, but not replaced
    let path = text(&stored["url"]).replace(&app.url(""), "");
    let download = app.get(&path).await.expect(200);
    assert_eq!((download.header("content-type"), &download.body), (Some("image/png"), &picture));
    put(&app, &upload_url, &picture).await.expect(200);
    assert_eq!(put(&app, &upload_url, &png(3, 3)).await.expect(400).json()["error"], "invalid_input");

    // And a task takes the URL for the picture
    let task = submit(&app, &alice, UPSCALER, json!({"image": stored["url"]})).await;
    assert_eq!(wait_for_end(&app, &alice, UPSCALER, &task).await["status"], "COMPLETED");
    let request = app.get_as(&alice.token, &format!("/tasks/{task}")).await.expect(200).json()["request"].take();
    assert_eq!(request["image"]["width"], 12, "the picture was known at the submission: {request}");
    app.stop().await;
}

#[actix_web::test]
async fn a_file_stands_for_pictures_watermarks_and_videos() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let picture = upload(&app, &alice, &png(32, 32)).await;

    // When the URL of a picture is the first frame and the watermark of a video
    let body = json!({"images": [picture], "watermark": true, "wm_url": picture, "duration": 1, "resolution": "360p",
        "model": "vq2-turbo"});
    let first = app.post_as(&alice.token, START_END, body).await.expect(200).json();
    let first = text(&first["task_id"]);
    wait_for_task_end(&app, &first).await;
    let creations = format!("/proxy/videovendor/tasks/{first}/creations");
    let creations = app.get_as(&alice.token, &creations).await.expect(200).json();
    assert_eq!(creations["state"], "success", "{creations}");

    // And the video is uploaded and extended by the URL of the file
    let video = app.get(&text(&creations["creations"][0]["url"]).replace(&app.url(""), "")).await.expect(200).body;
    let url = upload(&app, &alice, &video).await;
    let body = json!({"model": "vq2-turbo", "video_creation_id": "mine", "video_url": url, "duration": 1});
    let extension = app.post_as(&alice.token, EXTEND, body).await.expect(200).json();
    let extension = text(&extension["task_id"]);
    wait_for_task_end(&app, &extension).await;
    let task = app.get_as(&alice.token, &format!("/tasks/{extension}")).await.expect(200).json();
    assert_eq!(task["state"], "success", "{task}");
    app.stop().await;
}

#[actix_web::test]
async fn a_vendor_gets_a_url_of_a_video_that_outlives_the_upload() {
    // Given a video that was uploaded and extended by a vendor
    let fixture = VideoFixture::start().await;
    let app = &fixture.app;
    let clip = [CLIP, b"of alice"].concat();
    let url = upload(app, &fixture.alice, &clip).await;
    let body = json!({"model": "vq2-turbo", "video_creation_id": "mine", "video_url": url, "duration": 1});
    let response = fixture.submit(EXTEND, body).await;
    assert_eq!(response["video_url"], url);
    assert_eq!(fixture.wait_for_end(&response).await["state"], "success");
    let (_, submission) = fixture.sim.last_submission().expect("a submission");
    let vendor_url = text(&submission["video_url"]);
    let path = vendor_url.strip_prefix(&app.url("")).expect("a URL of this service");

    // When the upload is gone
    std::fs::remove_dir_all(app.dir.path().join("media/uploads").join(&fixture.alice.id)).expect("an upload");

    // Then the vendor can still read the video, under its signature only
    let video = app.get(path).await.expect(200);
    assert_eq!((video.header("content-type"), &video.body[..]), (Some("video/mp4"), &clip[..]));
    assert_eq!(video.header("cache-control"), Some("private, max-age=3600, immutable"));
    let (unsigned, signature) = path.split_once("?signature=").expect("a signature");
    app.get(unsigned).await.expect(404);
    app.get(&format!("{unsigned}?signature={}", &signature[1..])).await.expect(404);
    fixture.app.stop().await;
}

#[actix_web::test]
async fn a_file_belongs_to_its_owner() {
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let picture = upload(&app, &alice, &png(8, 8)).await;
    let missing = format!("{}/files/5a7f7a36-7a4e-4f0c-9f5e-2f6f3f0d9c12", app.url(""));

    for (user, url) in [(&bob, &picture), (&alice, &missing), (&alice, &format!("{picture}x"))] {
        let problem = app.post_as(&user.token, UPSCALER, json!({"image": url, "hdr": 99})).await.expect(400).json();
        let errors = problem["errors"].as_array().expect("errors");
        let pointers: Vec<_> = errors.iter().map(|error| &error["pointer"]).collect();
        assert_eq!(pointers, ["/hdr", "/image"], "{problem}");
        let reason = errors[1]["reason"].as_str().expect("a reason");
        assert!(reason.starts_with("names a file that was not uploaded, has expired, or belongs"), "{reason}");
    }
    // Anonymous callers own no file
    let problem = app.post(START_END, json!({"images": [picture]})).await.expect(400).json();
    assert_eq!(error_of(&problem).0, "/images/0");
    app.stop().await;
}

#[actix_web::test]
async fn the_kind_of_a_file_must_fit_the_field() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let picture = upload(&app, &alice, &png(8, 8)).await;
    let video = upload(&app, &alice, CLIP).await;

    let problem = app.post_as(&alice.token, UPSCALER, json!({"image": video})).await.expect(400).json();
    assert_eq!(error_of(&problem), ("/image", "must be a picture; the file is video/mp4"));
    let body = json!({"model": "vq2-turbo", "video_creation_id": "mine", "video_url": picture});
    let problem = app.post_as(&alice.token, EXTEND, body).await.expect(400).json();
    assert_eq!(error_of(&problem), ("/video_url", "must be a video; the file is image/png"));
    app.stop().await;
}

#[actix_web::test]
async fn unusable_files_and_wrong_announcements_are_refused_with_the_reason() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let allowed = "must be a PNG, JPEG, WebP, GIF, BMP or TIFF picture, or an mp4 or webm video";

    let problem = upload_form(&app, &alice, b"just text").await.expect(400).json();
    assert_eq!(error_of(&problem), ("/file", allowed));
    let request = app.request(Method::POST, "/files").bearer_auth(&alice.token);
    let problem = app.send(form_of_bytes(request, &[("picture", &png(2, 2))])).await.expect(400).json();
    assert_eq!(error_of(&problem), ("/file", "is required: add a file part named file"));
    let request = app.request(Method::POST, "/files").bearer_auth(&alice.token);
    let twice = [("file", &png(2, 2)[..]), ("file", b"x")];
    let problem = app.send(form_of_bytes(request, &twice)).await.expect(400).json();
    assert_eq!(error_of(&problem), ("/file", "must be given at most once"));

    // Announcements
    let body = json!({"content_type": "text/plain", "bytes": 536_870_913});
    let problem = app.post_as(&alice.token, "/files", body).await.expect(400).json();
    let reasons = [0, 1].map(|index| problem["errors"][index]["reason"].as_str().expect("a reason").to_owned());
    assert!(reasons[0].starts_with("must be one of image/png, image/jpeg"), "{reasons:?}");
    assert!(reasons[0].ends_with("video/webm, application/octet-stream"), "{reasons:?}");
    assert_eq!(reasons[1], "must be an integer from 1 to 536870912 (512 MiB)");

    // Contents that differ from the announcement
    let link = announce(&app, &alice, json!({"bytes": 5})).await;
    let problem = put(&app, &link, &png(2, 2)).await.expect(400).json();
    assert!(error_of(&problem).1.ends_with("but 5 were announced"), "{problem}");
    let link = announce(&app, &alice, json!({"content_type": "image/jpeg"})).await;
    let problem = put(&app, &link, &png(2, 2)).await.expect(400).json();
    assert_eq!(error_of(&problem), ("/file", "is image/png, but image/jpeg was announced"));
    let forged = app.url("/uploads/files/bm90aGluZw");
    assert_eq!(put(&app, &forged, &png(2, 2)).await.expect(403).json()["error"], "upload_link_invalid");
    app.stop().await;
}

#[actix_web::test]
async fn a_form_with_an_idempotency_key_is_stored_once() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let send = async |bytes: &[u8]| {
        let request = app.request(Method::POST, "/files").bearer_auth(&alice.token).header("idempotency-key", "k");
        app.send(form_of_bytes(request, &[("file", bytes)])).await
    };

    let first = send(&png(4, 4)).await.expect(200);
    let repeated = send(&png(4, 4)).await.expect(200);
    assert_eq!(repeated.json()["id"], first.json()["id"]);
    assert_eq!(first.header("idempotent-replayed"), None);
    assert_eq!(repeated.header("idempotent-replayed"), Some("true"));
    assert_eq!(send(&png(5, 5)).await.expect(422).json()["error"], "idempotency_key_reused");
    app.stop().await;
}

#[actix_web::test]
async fn a_file_survives_a_restart_and_expires_but_its_tasks_keep_their_input() {
    // Given a file that a task uses
    let environment = Environment::manual(Timestamp::parse("2026-11-22T12:00:00Z").expect("a time"), 7);
    let app = TestApp::start_with(|_| {}, environment.clone()).await;
    let alice = app.user("alice").await;
    let stored = upload_form(&app, &alice, &png(8, 8)).await.expect(200).json();
    assert_eq!(stored["expires_at"], "2026-11-23T12:00:00.000000Z");
    let path = text(&stored["url"]).replace(&app.url(""), "");
    let owner_directory = format!("media/uploads/{}", alice.id);

    // When the service restarts
    let dir = app.stop().await;
    let app = TestApp::start_in(dir, |_| {}, environment.clone()).await;
    let url = app.url(&path);
    app.get(&path).await.expect(200);
    submit(&app, &alice, UPSCALER, json!({"image": url})).await;

    // And a day passes
    environment.advance(Duration::from_hours(24));
    app.get(&path).await.expect(404);
    let problem = app.post_as(&alice.token, UPSCALER, json!({"image": url})).await.expect(400).json();
    assert_eq!(error_of(&problem).0, "/image");
    environment.advance(Duration::from_hours(2));
    let directory = app.dir.path().join(owner_directory);
    eventually("the file is removed", async || !directory.exists()).await;
    app.stop().await;
}

#[actix_web::test]
async fn an_erased_user_leaves_no_file() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let url = upload(&app, &alice, &png(8, 8)).await;
    app.delete_as(&alice.token, "/users").await.expect(204);
    app.get(&url.replace(&app.url(""), "")).await.expect(404);
    assert!(!app.dir.path().join("media/uploads").join(&alice.id).exists(), "the file of an erased user is left");
    app.stop().await;
}

#[actix_web::test]
async fn a_large_video_is_streamed_and_counted_in_the_daily_quota() {
    // Given a quota of one large file a day
    let size = 8 << 20;
    let app = TestApp::start_with(|settings| settings.limits.bytes_per_day = 10 << 20, Environment::system()).await;
    let alice = app.user("alice").await;
    let mut video = CLIP.to_vec();
    video.resize(size, 7);

    let stored = upload_form(&app, &alice, &video).await.expect(200).json();
    assert_eq!(stored["bytes"], size);
    let refused = upload_form(&app, &alice, &video).await.expect(429).json();
    assert_eq!(refused["error"], "quota_exceeded");
    let body = json!({"image": STANDARD.encode(png(2, 2))});
    app.post_as(&alice.token, UPSCALER, body).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn an_upload_is_read_no_further_than_announced() {
    // Given the link of a file of 5 bytes
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let link = announce(&app, &alice, json!({"bytes": 5})).await;
    let path = link.strip_prefix(&app.url("")).expect("a URL of this service");

    // When a client sends 8 bytes without announcing the length, and then waits
    let mut connection = TcpStream::connect(app.app.address()).await.expect("a connection");
    let head = format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    connection.write_all(format!("{head}8\r\n12345678\r\n").as_bytes()).await.expect("the service reads");

    // Then it is refused at once
    let mut response = [0; 12];
    within("a response", connection.read_exact(&mut response)).await.expect("a response");
    assert_eq!(&response, b"HTTP/1.1 400");
    app.stop().await;
}

#[actix_web::test]
async fn a_link_expires_and_ends_with_the_access_of_its_holder() {
    let environment = Environment::manual(Timestamp::parse("2026-11-22T12:00:00Z").expect("a time"), 7);
    let app = TestApp::start_with(|_| {}, environment.clone()).await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let alices_link = announce(&app, &alice, json!({})).await;
    let bobs_link = announce(&app, &bob, json!({})).await;

    // An erased holder cannot upload
    app.delete_as(&bob.token, "/users").await.expect(204);
    assert_eq!(put(&app, &bobs_link, &png(2, 2)).await.expect(403).json()["error"], "upload_link_invalid");

    // An expired link cannot be used, even for the file that it uploaded
    put(&app, &alices_link, &png(2, 2)).await.expect(200);
    environment.advance(Duration::from_hours(24));
    let problem = put(&app, &alices_link, &png(2, 2)).await.expect(403).json();
    assert_eq!(problem["error"], "upload_link_expired");
    assert!(problem["detail"].as_str().expect("a text").contains("POST /files"), "{problem}");
    app.stop().await;
}

#[actix_web::test]
async fn a_file_is_read_in_ranges() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let picture = png(8, 8);
    let url = upload(&app, &alice, &picture).await.replace(&app.url(""), "");

    let part = app.send(app.request(Method::GET, &url).header("range", "bytes=1-3")).await.expect(206);
    assert_eq!((part.header("content-type"), &part.body[..]), (Some("image/png"), &b"PNG"[..]));
    let whole = app.get(&url).await.expect(200);
    assert_eq!(whole.header("cache-control"), Some("private, max-age=3600, immutable"));
    let tag = whole.header("etag").expect("a tag").to_owned();
    app.send(app.request(Method::GET, &url).header("if-none-match", tag)).await.expect(304);
    app.send(app.request(Method::GET, &url).header("range", "bytes=100000-")).await.expect(416);
    app.stop().await;
}

#[actix_web::test]
async fn two_simultaneous_uploads_by_one_link_store_one_content() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let link = announce(&app, &alice, json!({})).await;
    let (small, large) = (png(2, 2), png(3, 3));

    let (first, second) = tokio::join!(put(&app, &link, &small), put(&app, &link, &large));
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{} {}", first.text(), second.text());
    let (stored, content) = if first.status == 200 { (first, small) } else { (second, large) };
    let path = text(&stored.json()["url"]).replace(&app.url(""), "");
    assert_eq!(app.get(&path).await.expect(200).body, content);
    app.stop().await;
}

/// Environment in which uploads are held before they are committed.
struct HeldUploads {
    environment: Environment,
    /// Number of uploads that have arrived.
    arrived: Arc<Mutex<usize>>,
    /// Uploads are committed once this is dropped.
    hold: Sender<()>,
}

impl HeldUploads {
    fn new() -> Self {
        let (hold, receiver) = channel::<()>();
        let receiver = Mutex::new(receiver);
        let arrived = Arc::new(Mutex::new(0));
        let count = Arc::clone(&arrived);
        let handler = move |point, _: &str| {
            if point == FailPoint::After(CommitStep::InputFileSynced) {
                *count.lock() += 1;
                let _ = receiver.lock().recv();
            }
        };
        Self { environment: Environment::system().with_fail_point_handler(Arc::new(handler)), arrived, hold }
    }
}

#[actix_web::test]
async fn an_upload_does_not_survive_the_erasure_of_its_owner() {
    // Given an upload that has arrived and is not committed
    let HeldUploads { environment, arrived, hold } = HeldUploads::new();
    let app = TestApp::start_with(|_| {}, environment).await;
    let alice = app.user("alice").await;
    let link = announce(&app, &alice, json!({})).await;
    let picture = png(4, 4);

    // When its owner is erased before the commit
    let erasure = async {
        eventually("the upload has arrived", async || *arrived.lock() == 1).await;
        app.delete_as(&alice.token, "/users").await.expect(204);
        drop(hold);
    };
    let (stored, ()) = tokio::join!(put(&app, &link, &picture), erasure);

    // Then the upload fails and leaves nothing
    assert_eq!(stored.expect(403).json()["error"], "forbidden");
    assert!(!app.dir.path().join("media/uploads").join(&alice.id).exists(), "the file of an erased user is left");
    app.stop().await;
}
