//! Pictures at URLs: fetched by the worker after the response, under the egress rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mediary::config::{PrivateAccess, Settings};
use mediary::domain::value::Timestamp;
use mediary::environment::Environment;
use mediary::outbound::address::AllowEntry;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{PRECISION, RELIGHT, STYLE, UPSCALER, result_of, submit, wait_for_end};
use crate::support::files::{FileServer, file, status};
use crate::support::picture::{base64_png, png};
use crate::support::{TestApp, TestUser};

/// Starts a server with a picture of 20x10 pixels at every path.
async fn pictures() -> FileServer {
    FileServer::with_replies(|_| file(&png(20, 10))).await
}

/// Returns the error code and message of an upscale that fails.
async fn failure(app: &TestApp, user: &TestUser, url: &str) -> (String, String) {
    let task = submit(app, user, UPSCALER, json!({"image": url})).await;
    failure_of(&wait_for_end(app, user, UPSCALER, &task).await)
}

fn failure_of(finished: &Value) -> (String, String) {
    assert_eq!(finished["status"], "FAILED", "{finished}");
    let text = |name: &str| finished["error"][name].as_str().expect("a reason").to_owned();
    (text("code"), text("message"))
}

#[actix_web::test]
async fn a_picture_url_is_fetched_after_the_response() {
    let (app, server) = (TestApp::start().await, pictures().await);
    let alice = app.user("alice").await;

    // Given a server that does not answer yet
    server.hold();
    let task = submit(&app, &alice, UPSCALER, json!({"image": server.url("/image.png?size=1")})).await;
    let task_body = app.get_as(&alice.token, &format!("{UPSCALER}/{task}")).await.expect(200).json();
    assert_eq!(task_body["data"]["status"], "CREATED");

    // When it answers
    server.release();

    // Then the picture is enlarged
    let result = result_of(&app, &wait_for_end(&app, &alice, UPSCALER, &task).await).await;
    let picture = image::load_from_memory(&result).expect("a picture");
    assert_eq!((picture.width(), picture.height()), (40, 20));
    assert_eq!(server.requested_paths(), ["/image.png?size=1"]);
    app.stop().await;
}

#[actix_web::test]
async fn every_picture_field_accepts_a_url() {
    let (app, server) = (TestApp::start().await, pictures().await);
    let alice = app.user("alice").await;
    for (path, body) in [
        (STYLE, json!({"image": server.url("/one"), "reference_image": server.url("/two")})),
        (STYLE, json!({"image": base64_png(20, 10), "reference_image": server.url("/three")})),
        (RELIGHT, json!({"image": server.url("/four"), "transfer_light_from_lightmap": base64_png(8, 8)})),
        (RELIGHT, json!({"image": base64_png(20, 10), "transfer_light_from_reference_image": server.url("/five")})),
    ] {
        let task = submit(&app, &alice, path, body).await;
        let result = result_of(&app, &wait_for_end(&app, &alice, path, &task).await).await;
        let picture = image::load_from_memory(&result).expect("a picture");
        assert_eq!((picture.width(), picture.height()), (20, 10), "{path}");
    }
    assert_eq!(server.requested_paths(), ["/one", "/two", "/three", "/four", "/five"]);
    app.stop().await;
}

#[actix_web::test]
async fn fetched_files_count_towards_the_bytes_of_the_day() {
    // Given a limit large enough for the submission, but not for the file at its URL
    let picture = png(20, 10);
    let server = FileServer::with_replies(move |_| file(&picture)).await;
    let limit = json!({"image": server.url("/image.png")}).to_string().len() as u64 + 10;
    let change = move |settings: &mut Settings| settings.limits.bytes_per_day = limit;
    let app = TestApp::start_with(change, Environment::system()).await;
    let alice = app.user("alice").await;

    // When the worker has fetched it
    let (code, message) = failure(&app, &alice, &server.url("/image.png")).await;

    // Then the task reports the exceeded quota
    assert_eq!(code, "quota_exceeded");
    assert!(message.contains("only 10 of the account's daily"), "{message}");
    app.stop().await;
}

#[actix_web::test]
async fn a_few_redirects_are_followed() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let server = FileServer::with_replies(|path| match path {
        "/a" => status("302 Found", "location: /b\r\n"),
        "/b" => status("307 Temporary Redirect", "location: c\r\n"),
        "/c" => file(&png(8, 8)),
        "/nowhere" => status("302 Found", ""),
        _ => status("301 Moved Permanently", "location: /round\r\n"),
    })
    .await;
    let task = submit(&app, &alice, UPSCALER, json!({"image": server.url("/a")})).await;
    result_of(&app, &wait_for_end(&app, &alice, UPSCALER, &task).await).await;
    assert_eq!(server.requested_paths(), ["/a", "/b", "/c"]);

    for (path, reason) in [("/round", "more than 3 redirects"), ("/nowhere", "redirect without a Location")] {
        let (code, message) = failure(&app, &alice, &server.url(path)).await;
        assert_eq!(
            (code.as_str(), message),
            ("input_unavailable", format!("{} could not be fetched: {reason}", server.url(path)))
        );
    }
    app.stop().await;
}

#[actix_web::test]
async fn missing_and_invalid_pictures_fail_the_task_with_a_reason() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let full_picture = png(20, 10);
    let half = full_picture[..full_picture.len() / 2].to_vec();
    let server = FileServer::with_replies(move |path| match path {
        "/gone" => status("410 Gone", ""),
        "/page" => file(b"<html>no picture</html>"),
        "/half" => file(&half),
        "/empty" => file(b""),
        _ => status("404 Not Found", ""),
    })
    .await;
    for (path, code, reason) in [
        ("/gone", "input_unavailable", "the server responded with status 410"),
        ("/missing", "input_unavailable", "the server responded with status 404"),
        ("/page", "input_invalid", "a fetched input must be a PNG, JPEG, WebP, GIF, BMP or TIFF picture"),
        ("/half", "input_invalid", "the file is damaged or truncated"),
        ("/empty", "input_invalid", "a fetched input must be a PNG, JPEG, WebP, GIF, BMP or TIFF picture"),
    ] {
        let (actual_code, message) = failure(&app, &alice, &server.url(path)).await;
        assert_eq!(actual_code, code, "{path}");
        assert!(message.contains(reason), "{path}: {message}");
    }
    assert_eq!(server.requested_paths().len(), 5, "none of them was tried again");
    app.stop().await;
}

#[actix_web::test]
async fn an_oversized_fetched_picture_fails_the_task() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let server = FileServer::with_replies(|_| {
        let mut png = std::io::Cursor::new(Vec::new());
        image::DynamicImage::new_luma8(400, 400).write_to(&mut png, image::ImageFormat::Png).expect("a picture");
        file(png.get_ref())
    })
    .await;
    for (path, factor) in [(UPSCALER, json!("16x")), (PRECISION, json!(16))] {
        let body = json!({"image": server.url("/large.png"), "scale_factor": factor});
        let task = submit(&app, &alice, path, body).await;
        let (code, message) = failure_of(&wait_for_end(&app, &alice, path, &task).await);
        assert_eq!(code, "output_too_large");
        assert!(message.contains("25.3 million pixels"), "{message}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_file_over_50_mb_is_not_fetched() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let server = FileServer::with_replies(|path| match path {
        "/declared" => b"HTTP/1.1 200 OK\r\ncontent-length: 50000001\r\n\r\n".to_vec(),
        _ => [b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec(), vec![0; 50_000_001]].concat(),
    })
    .await;
    for path in ["/declared", "/sent"] {
        let (code, message) = failure(&app, &alice, &server.url(path)).await;
        assert_eq!(code, "input_unavailable");
        assert!(message.contains("larger than 50000000 bytes"), "{path}: {message}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn temporary_server_errors_are_retried() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let times = Arc::new(AtomicUsize::new(0));
    let server = FileServer::with_replies(move |_| match times.fetch_add(1, Ordering::Relaxed) {
        0 => status("503 Service Unavailable", ""),
        _ => file(&png(8, 8)),
    })
    .await;
    let task = submit(&app, &alice, UPSCALER, json!({"image": server.url("/image.png")})).await;
    result_of(&app, &wait_for_end(&app, &alice, UPSCALER, &task).await).await;
    assert_eq!(server.requested_paths().len(), 2);
    app.stop().await;
}

#[actix_web::test]
async fn permanent_server_errors_fail_the_task() {
    // Given a server whose every answer takes ten minutes by the service's clock
    let clock = Environment::manual(Timestamp::from_micros(1_800_000_000_000_000), 7);
    let app = TestApp::start_with(|_| {}, clock.clone()).await;
    let alice = app.user("alice").await;
    let server = FileServer::with_replies(move |path| {
        clock.advance(Duration::from_mins(10));
        match path {
            "/cut" => [&file(&png(20, 10))[..100]].concat(),
            _ => status("503 Service Unavailable", ""),
        }
    })
    .await;
    for (path, reason) in [("/trouble", "the server responded with status 503"), ("/cut", "no response")] {
        // When a task needs its file
        let (code, message) = failure(&app, &alice, &server.url(path)).await;

        // Then the task fails with the last error
        assert_eq!(code, "input_unavailable", "{path}");
        assert!(message.contains(reason), "{path}: {message}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_host_without_an_address_is_given_up_after_three_attempts() {
    // Given a name server that knows no host, and six seconds between its answers by the service's clock
    let lookups = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&lookups);
    let clock = Environment::manual(Timestamp::from_micros(1_800_000_000_000_000), 7);
    let started_at = clock.now();
    let lookup_clock = clock.clone();
    let resolver = move |_: &str| {
        if counter.fetch_add(1, Ordering::Relaxed) > 0 {
            lookup_clock.advance(Duration::from_millis(6100));
        }
        Vec::new()
    };
    let app = TestApp::start_with(|_| {}, clock.with_host_resolver(Arc::new(resolver))).await;
    let alice = app.user("alice").await;

    // When a task needs a file of such a host
    let task = submit(&app, &alice, UPSCALER, json!({"image": "http://nowhere.example/a.png"})).await;
    let finished = wait_for_end(&app, &alice, UPSCALER, &task).await;

    // Then the task fails within twenty seconds, after three attempts
    let (code, message) = failure_of(&finished);
    assert_eq!(code, "input_unavailable");
    assert!(message.ends_with("could not be fetched: cannot resolve the host name"), "{message}");
    assert_eq!(lookups.load(Ordering::Relaxed), 3);
    let task = app.get_as(&alice.token, &format!("/tasks/{task}")).await.expect(200).json();
    let ended_at = Timestamp::parse(task["updated_at"].as_str().expect("a time")).expect("a time");
    assert!(ended_at.since(started_at) < Duration::from_secs(20), "{task}");
    app.stop().await;
}

#[actix_web::test]
async fn forbidden_addresses_are_not_called() {
    // Given a service that may call one address of this machine, and a listener on another one
    let server = FileServer::with_replies(|_| status("302 Found", "location: http://127.0.0.2:1/\r\n")).await;
    let listener = TcpListener::bind("127.0.0.2:0").await.expect("a free port");
    let canary = FileServer::on_listener(listener, |_| file(&png(8, 8)));
    let forbidden_url = canary.url("/image.png");
    let leading =
        FileServer::with_replies(move |_| status("302 Found", &format!("location: {forbidden_url}\r\n"))).await;
    let one_address = |settings: &mut Settings| {
        settings.egress.private = PrivateAccess::Deny;
        settings.egress.allow = vec![AllowEntry::parse("127.0.0.1/32").expect("a network")];
    };
    let app = TestApp::start_with(one_address, Environment::system()).await;
    let alice = app.user("alice").await;

    // When pictures are on the other address, or a redirect leads to it
    for url in [canary.url("/image.png"), leading.url("/"), server.url("/")] {
        let (code, message) = failure(&app, &alice, &url).await;

        // Then the tasks fail, and the listener sees no connection
        assert_eq!(code, "input_unavailable");
        assert!(message.contains("the egress rules forbid"), "{message}");
    }
    assert_eq!(canary.requested_paths(), [""; 0]);
    assert_eq!((leading.requested_paths().len(), server.requested_paths().len()), (1, 1));
    app.stop().await;
}
