//! Request of a task, shown with every field of its form.

use serde_json::{Map, Value, json};

use crate::image::{PRECISION, RELIGHT, SKIN, STYLE, UPSCALER};
use crate::music::{GENERATE, MusicListener};
use crate::support::TestApp;
use crate::support::files::{FileServer, file};
use crate::support::picture::{base64_png, png};
use crate::video::{EXTEND, MULTIFRAME, REFERENCE, START_END, VideoFixture, wait_for_task_end};

/// Returns the names of the fields of a path's body.
fn fields(document: &Value, path: &str) -> Vec<String> {
    let content = document["paths"][path]["post"]["requestBody"]["content"].as_object().expect("a body");
    let schema = &content.values().next().expect("a media type")["schema"];
    let reference =
        schema["$ref"].as_str().map(|name| document.pointer(name.trim_start_matches('#')).expect("a schema"));
    reference.unwrap_or(schema)["properties"].as_object().expect("fields").keys().cloned().collect()
}

/// Returns the expected request: pictures and texts replaced by the metadata of their files.
fn as_shown(submitted: &Value, picture: &str) -> Value {
    match submitted {
        Value::String(text) if text == picture => json!("a picture"),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), as_shown(value, picture))).collect()
        }
        Value::Array(entries) => entries.iter().map(|entry| as_shown(entry, picture)).collect(),
        other => other.clone(),
    }
}

/// Returns the shown request without the metadata of files.
fn without_files(request_body: &Value) -> Value {
    match request_body {
        Value::Object(file) if file.get("width") == Some(&json!(8)) => {
            assert!(file["digest"].as_str().is_some_and(|digest| digest.len() == 64), "{request_body}");
            assert_eq!((&file["format"], &file["height"]), (&json!("png"), &json!(8)));
            assert_eq!(file["bytes"], png(8, 8).len());
            json!("a picture")
        }
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), without_files(value))).collect(),
        Value::Array(entries) => entries.iter().map(without_files).collect(),
        other => other.clone(),
    }
}

fn jobs(picture: &str, video: &Value) -> Vec<(String, Value)> {
    let webhook_url = "http://127.0.0.1:1/hook";
    let advanced = json!({"whites": 51, "blacks": 52, "brightness": 53, "contrast": 54, "saturation": 55, "engine": "fairy",
        "transfer_light_a": "high", "transfer_light_b": "soft_mid", "fixed_generation": true});
    let generate = json!({"images": [picture], "prompt": "p", "model": "vq1", "duration": 2, "resolution": "360p",
        "aspect_ratio": "9:16", "style": "anime", "movement_amplitude": "small", "seed": 7, "enhance": true, "is_rec": true,
        "audio": true, "audio_type": "speech_only", "voice_id": "narrator", "bgm": true, "off_peak": true, "priority": -3,
        "watermark": true, "wm_position": 4, "wm_url": picture, "payload": "order 41", "meta_data": "{}", "callback_url": webhook_url});
    let frames = json!([{"key_image": picture, "duration": 2, "prompt": "up"}, {"key_image": picture, "duration": 5}]);
    let jobs = [
        (
            UPSCALER,
            json!({"image": picture, "prompt": "soft", "scale_factor": "4x", "engine": "premium_sharpy",
            "optimized_for": "3d_renders", "creativity": -10, "fractality": 3, "hdr": 0, "resemblance": 10, "webhook_url": webhook_url}),
        ),
        (
            PRECISION,
            json!({"image": picture, "scale_factor": 3, "flavor": "sublime", "sharpen": 1, "smart_grain": 2,
            "ultra_detail": 100, "webhook_url": webhook_url}),
        ),
        (
            STYLE,
            json!({"image": picture, "reference_image": picture, "prompt": "clay", "engine": "softy", "flavor": "gen_z",
            "style_strength": 60, "structure_strength": 40, "is_portrait": true, "portrait_style": "pop",
            "portrait_beautifier": "beautify_face", "fixed_generation": true, "webhook_url": webhook_url}),
        ),
        (
            RELIGHT,
            json!({"image": picture, "transfer_light_from_lightmap": picture, "prompt": "dusk", "style": "smooth",
            "light_transfer_strength": 70, "interpolate_from_original": true, "change_background": false,
            "preserve_details": false, "advanced_settings": advanced, "webhook_url": webhook_url}),
        ),
        (START_END, generate.clone()),
        (REFERENCE, generate),
        (
            EXTEND,
            json!({"images": [picture], "prompt": "on", "model": "vq2-pro", "duration": 1, "resolution": "540p",
            "video_creation_id": video["id"], "video_url": video["url"], "payload": "x", "meta_data": "[]", "callback_url": webhook_url}),
        ),
        (
            MULTIFRAME,
            json!({"image_settings": frames, "start_image": picture, "model": "vq2-pro", "resolution": "540p",
            "payload": "x", "meta_data": "{}", "callback_url": webhook_url}),
        ),
    ];
    let skin = |mode: &str, field: &str, value: Value| {
        let mut body = json!({"image": picture, "sharpen": 5, "smart_grain": 6, "webhook_url": webhook_url});
        if !field.is_empty() {
            body[field] = value;
        }
        (format!("{SKIN}/{mode}"), body)
    };
    let skins = [
        skin("creative", "", Value::Null),
        skin("faithful", "skin_detail", json!(81)),
        skin("flexible", "optimized_for", json!("no_make_up")),
    ];
    jobs.into_iter().map(|(path, body)| (path.to_owned(), body)).chain(skins).collect()
}

#[actix_web::test]
async fn a_task_returns_every_requested_parameter() {
    // Given a job of each kind with every field of its form
    let fixture = VideoFixture::start().await;
    let (app, token) = (&fixture.app, fixture.alice.token.as_str());
    let document = app.get("/openapi.json").await.expect(200).json();
    let video = fixture.submit(START_END, json!({"prompt": "p"})).await;
    let video = fixture.wait_for_end(&video).await["creations"][0].clone();
    let picture = base64_png(8, 8);
    for (path, body) in jobs(&picture, &video) {
        let alternatives = ["transfer_light_from_reference_image"];
        for name in fields(&document, &path) {
            assert!(body.get(&name).is_some() || alternatives.contains(&name.as_str()), "{path} has {name}");
        }

        // When it is submitted
        let response = app.post_as(token, &path, body.clone()).await.expect(200).json();
        let task = response.get("data").unwrap_or(&response)["task_id"].as_str().expect("a task id");
        let task_body = app.get_as(token, &format!("/tasks/{task}")).await.expect(200).json();

        // Then the task shows all fields, and files by their hash
        let mut request = without_files(&task_body["request"]);
        for name in ["payload", "meta_data"] {
            if let Some(text) = body.get(name).and_then(Value::as_str) {
                assert_eq!(request[name]["bytes"], text.len(), "{path}");
                assert!(request[name]["digest"].is_string(), "{path}");
                request[name] = json!(text);
            }
        }
        assert_eq!(request, as_shown(&body, &picture), "{path}");

        // But not in lists
        let listed = app.get_as(token, "/tasks?limit=1").await.expect(200).json();
        assert_eq!((&listed["tasks"][0]["task_id"], listed["tasks"][0].get("request")), (&json!(task), None));
        wait_for_task_end(app, task).await;
    }
    fixture.app.stop().await;
}

#[actix_web::test]
async fn omitted_parameters_are_returned_with_their_defaults() {
    let fixture = VideoFixture::start().await;
    let (app, token) = (&fixture.app, fixture.alice.token.as_str());
    let server = FileServer::with_replies(|_| file(&png(8, 8))).await;
    server.hold();

    // Given a picture that has not arrived yet
    let url = server.url("/image.png");
    let response = app.post_as(token, UPSCALER, json!({"image": url})).await.expect(200).json();
    let task = response["data"]["task_id"].as_str().expect("a task id");
    let path = format!("/tasks/{task}");
    let task_body = app.get_as(token, &path).await.expect(200).json();

    // Then it is shown by its URL, and the other fields with their defaults
    let defaults = json!({"image": url, "scale_factor": "2x", "engine": "automatic", "optimized_for": "standard", "creativity": 0,
        "fractality": 0, "hdr": 0, "resemblance": 0});
    assert_eq!(task_body["request"], defaults);

    // And after its arrival by its hash
    server.release();
    wait_for_task_end(app, task).await;
    let task_body = app.get_as(token, &path).await.expect(200).json();
    assert_eq!(without_files(&task_body["request"]["image"]), json!("a picture"));
    // For music the texts are shown
    let music = MusicListener::request(app, &fixture.alice, &[("prompt", "a waltz"), ("duration", "1")]).await;
    let task_body = app.get_as(token, &format!("/tasks/{}", music.task)).await.expect(200).json();
    let names: Vec<_> = task_body["request"].as_object().map(Map::keys).expect("an object").collect();
    assert_eq!(names, ["duration", "prompt"]);
    assert_eq!(fields(&app.get("/openapi.json").await.json(), GENERATE), ["duration", "prompt"]);
    assert_eq!(task_body["request"], json!({"prompt": "a waltz", "duration": 1}));
    music.collect().await;
    fixture.app.stop().await;
}

/// Returns the path of a URL of the service.
fn path_of<'u>(app: &TestApp, url: &'u Value) -> &'u str {
    url.as_str().and_then(|url| url.strip_prefix(&app.url(""))).expect("a URL of this service")
}

#[actix_web::test]
async fn owners_and_administrators_read_the_input_pictures_of_a_task() {
    // Given a finished task of Alice
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let body = json!({"image": base64_png(8, 8)});
    let task = crate::image::submit(&app, &alice, UPSCALER, body).await;
    wait_for_task_end(&app, &task).await;
    let path = format!("/tasks/{task}");

    // When she, or an administrator, reads it, then its picture can be read under the signed URL, and under no other
    for token in [alice.token.as_str(), app.admin_token()] {
        let shown = app.get_as(token, &path).await.expect(200).json();
        let url = path_of(&app, &shown["request"]["image"]["url"]);
        let picture = app.get(url).await.expect(200);
        assert_eq!((picture.header("content-type"), &picture.body[..]), (Some("image/png"), &png(8, 8)[..]));
        assert_eq!(picture.header("cache-control"), Some("private, max-age=3600, immutable"));

        let (file, query) = url.split_once('?').expect("a query");
        let (expires, signature) = query.split_once('&').expect("two parameters");
        let later: i64 = expires.trim_start_matches("expires=").parse::<i64>().expect("seconds") + 3600;
        for changed in [
            signature.to_owned(),
            format!("expires={later}&{signature}"),
            format!("expires=x&{signature}"),
            expires.to_owned(),
        ] {
            app.get(&format!("{file}?{changed}")).await.expect(404);
        }
    }
    app.get_as(&bob.token, &path).await.expect(404);

    // And lists have it on request
    for (query, is_shown) in [("?details=true", true), ("?details=false", false), ("", false)] {
        let listed = app.get_as(&alice.token, &format!("/tasks{query}")).await.expect(200).json();
        assert_eq!(listed["tasks"][0]["request"]["image"]["url"].is_string(), is_shown, "{query}");
    }
    app.get_as(&alice.token, "/tasks?details=perhaps").await.expect(400);
    app.stop().await;
}

#[actix_web::test]
async fn only_administrators_read_the_input_pictures_of_anonymous_tasks() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let body = json!({"images": [base64_png(8, 8)], "model": "vq2-pro-fast", "resolution": "360p", "duration": 1});
    let task = app.post(START_END, body).await.expect(200).json()["task_id"].as_str().expect("an id").to_owned();
    let path = format!("/tasks/{task}");
    let url_for =
        async |token: &str| app.get_as(token, &path).await.expect(200).json()["request"]["images"][0]["url"].clone();
    assert_eq!(url_for(&alice.token).await, Value::Null);
    app.get(path_of(&app, &url_for(app.admin_token()).await)).await.expect(200);
    app.post_as(&alice.token, &format!("{path}/cancel"), json!({})).await.expect(200);
    app.stop().await;
}
