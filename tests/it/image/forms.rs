//! Submissions as multipart forms: the same jobs, checks and errors as with JSON.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{RELIGHT, STYLE, UPSCALER, result_of, wait_for_end};
use crate::support::picture::{base64_png, png};
use crate::support::{TestApp, TestResponse, TestUser};

const BOUNDARY: &str = "----b7d1f0c2a94e";

/// Part of a form: its name, with a file name if it is a file, and its content.
type Part<'a> = (&'a str, Option<&'a str>, &'a [u8]);

fn with_parts(request: RequestBuilder, parts: &[Part<'_>]) -> RequestBuilder {
    let mut body = Vec::new();
    for (name, file, content) in parts {
        let file = file.map(|file| format!("; filename=\"{file}\"")).unwrap_or_default();
        let head = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    request.header("content-type", format!("multipart/form-data; boundary={BOUNDARY}")).body(body)
}

async fn post_form(app: &TestApp, user: &TestUser, path: &str, parts: &[Part<'_>]) -> TestResponse {
    app.send(with_parts(app.request(Method::POST, path).bearer_auth(&user.token), parts)).await
}

fn task_id(response: &Value) -> String {
    response["data"]["task_id"].as_str().or(response["task_id"].as_str()).expect("a task id").to_owned()
}

#[actix_web::test]
async fn a_form_makes_the_same_task_as_json() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let picture = png(16, 8);

    // Given the same precise upscale as JSON and as a form
    let fields = json!({"image": base64_png(16, 8), "scale_factor": "4x", "hdr": -3, "prompt": "12"});
    let as_json = app.post_as(&alice.token, UPSCALER, fields).await.expect(200).json();
    let parts: [Part<'_>; 5] = [
        ("image", Some("a.png"), &picture),
        ("scale_factor", None, b"4x"),
        ("hdr", None, b"-3"),
        ("prompt", None, b"12"),
        ("webhook_url", None, b""),
    ];
    let as_form = post_form(&app, &alice, UPSCALER, &parts).await.expect(200).json();

    // Then both tasks have the same request and result
    let [as_json, as_form] = [task_id(&as_json), task_id(&as_form)];
    let mut requests = Vec::new();
    for task in [&as_json, &as_form] {
        let finished = wait_for_end(&app, &alice, UPSCALER, task).await;
        let result = result_of(&app, &finished).await;
        let task = app.get_as(&alice.token, &format!("/tasks/{task}")).await.expect(200).json();
        requests.push((task["request"].clone(), result));
    }
    assert_eq!(requests[0], requests[1]);
    assert_eq!(requests[0].0["hdr"], -3);
    app.stop().await;
}

#[actix_web::test]
async fn files_objects_and_booleans_are_accepted() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let picture = png(16, 16);

    let parts: [Part<'_>; 4] = [
        ("image", Some("a.png"), &picture),
        ("transfer_light_from_lightmap", Some("b.png"), &picture),
        ("change_background", None, b"false"),
        ("advanced_settings", None, b"{\"whites\": 60, \"fixed_generation\": true}"),
    ];
    let task = task_id(&post_form(&app, &alice, RELIGHT, &parts).await.expect(200).json());
    let request = app.get_as(&alice.token, &format!("/tasks/{task}")).await.expect(200).json()["request"].take();
    assert_eq!((&request["change_background"], &request["advanced_settings"]["whites"]), (&json!(false), &json!(60)));

    // A video takes its pictures as repeated parts
    let parts: [Part<'_>; 3] =
        [("images", Some("a.png"), &picture), ("duration", None, b"1"), ("model", None, b"vq2-turbo")];
    let video = post_form(&app, &alice, "/proxy/videovendor/start-end2video", &parts).await.expect(200).json();
    assert_eq!((&video["duration"], &video["state"]), (&json!(1), &json!("created")));
    app.stop().await;
}

#[actix_web::test]
async fn every_bad_field_of_a_form_is_named_as_in_json() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let picture = png(4, 4);

    let fields = json!({"image": "bm8gcGljdHVyZQ==", "style_strength": 101, "engine": "none", "is_portrait": "maybe"});
    let as_json = app.post_as(&alice.token, STYLE, fields).await.expect(400).json();
    let parts: [Part<'_>; 4] = [
        ("image", Some("a.png"), b"no picture"),
        ("style_strength", None, b"101"),
        ("engine", None, b"none"),
        ("is_portrait", None, b"maybe"),
    ];
    let as_form = post_form(&app, &alice, STYLE, &parts).await.expect(400).json();
    assert_eq!(as_form["errors"], as_json["errors"]);
    assert_eq!(as_form["errors"].as_array().map(Vec::len), Some(4), "{as_form}");

    // A missing picture: without a part, and with an empty one, as browsers send it
    for parts in [&[("prompt", None, &b"p"[..])][..], &[("image", Some(""), b"")]] {
        let problem = post_form(&app, &alice, STYLE, parts).await.expect(400).json();
        assert_eq!(problem["errors"], json!([{"pointer": "/image", "reason": "is required"}]));
    }
    let twice: [Part<'_>; 2] = [("image", Some("a.png"), &picture), ("image", Some("b.png"), &picture)];
    let problem = post_form(&app, &alice, STYLE, &twice).await.expect(400).json();
    assert_eq!(problem["errors"], json!([{"pointer": "/image", "reason": "is given twice; send one part"}]));

    // Every field that is repeated, but not an empty part
    let repeated: [Part<'_>; 6] = [
        ("prompt", None, b"a"),
        ("prompt", None, b"b"),
        ("prompt", None, b"c"),
        ("image", Some("a.png"), &picture),
        ("image", Some("b.png"), &picture),
        ("engine", None, b""),
    ];
    let problem = post_form(&app, &alice, STYLE, &repeated).await.expect(400).json();
    let expected = json!([{"pointer": "/image", "reason": "is given twice; send one part"},
        {"pointer": "/prompt", "reason": "is given 3 times; send one part"}]);
    assert_eq!(problem["errors"], expected);

    // Bodies that are not valid forms
    for (kind, status) in [("multipart/form-data", 400), ("multipart/form-data; boundary=x", 400), ("image/png", 415)] {
        let request = app.request(Method::POST, STYLE).bearer_auth(&alice.token);
        app.send(request.header("content-type", kind).body(picture.clone())).await.expect(status);
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_form_with_an_idempotency_key_is_run_once() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let picture = png(4, 4);
    let send = async || {
        let request = app.request(Method::POST, UPSCALER).bearer_auth(&alice.token).header("idempotency-key", "k");
        app.send(with_parts(request, &[("image", Some("a.png"), &picture)])).await.expect(200).json()
    };
    assert_eq!(task_id(&send().await), task_id(&send().await));
    app.stop().await;
}
