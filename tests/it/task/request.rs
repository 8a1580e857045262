//! Request of a task, shown with every field of its form.

use serde_json::{Map, Value, json};

use crate::image::{PRECISION, RELIGHT, SKIN, STYLE, UPSCALER};
use crate::music::{GENERATE, Listener};
use crate::support::files::{FileServer, file};
use crate::support::picture::{base64_png, png};
use crate::video::{EXTEND, Given, MULTIFRAME, REFERENCE, START_END, ended};

/// Names of the fields of a path's body.
fn fields(document: &Value, path: &str) -> Vec<String> {
    let content = document["paths"][path]["post"]["requestBody"]["content"].as_object().expect("a body");
    let schema = &content.values().next().expect("a media type")["schema"];
    let named = schema["$ref"].as_str().map(|name| document.pointer(name.trim_start_matches('#')).expect("a schema"));
    named.unwrap_or(schema)["properties"].as_object().expect("fields").keys().cloned().collect()
}

/// Expected request: pictures and texts replaced by the metadata of their files.
fn shown(given: &Value, picture: &str) -> Value {
    match given {
        Value::String(text) if text == picture => json!("a picture"),
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), shown(value, picture))).collect(),
        Value::Array(entries) => entries.iter().map(|entry| shown(entry, picture)).collect(),
        other => other.clone(),
    }
}

/// The shown request without the metadata of files.
fn without_files(told: &Value) -> Value {
    match told {
        Value::Object(file) if file.get("width") == Some(&json!(8)) => {
            assert!(file["digest"].as_str().is_some_and(|digest| digest.len() == 64), "{told}");
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
    let hook = "http://127.0.0.1:1/hook";
    let advanced = json!({"whites": 51, "blacks": 52, "brightness": 53, "contrast": 54, "saturation": 55, "engine": "fairy",
        "transfer_light_a": "high", "transfer_light_b": "soft_mid", "fixed_generation": true});
    let generate = json!({"images": [picture], "prompt": "p", "model": "vq1", "duration": 2, "resolution": "360p",
        "aspect_ratio": "9:16", "style": "anime", "movement_amplitude": "small", "seed": 7, "enhance": true, "is_rec": true,
        "audio": true, "audio_type": "speech_only", "voice_id": "narrator", "bgm": true, "off_peak": true, "priority": -3,
        "watermark": true, "wm_position": 4, "wm_url": picture, "payload": "order 41", "meta_data": "{}", "callback_url": hook});
    let frames = json!([{"key_image": picture, "duration": 2, "prompt": "up"}, {"key_image": picture, "duration": 5}]);
    let jobs = [
        (
            UPSCALER,
            json!({"image": picture, "prompt": "soft", "scale_factor": "4x", "engine": "premium_sharpy",
            "optimized_for": "3d_renders", "creativity": -10, "fractality": 3, "hdr": 0, "resemblance": 10, "webhook_url": hook}),
        ),
        (
            PRECISION,
            json!({"image": picture, "scale_factor": 3, "flavor": "sublime", "sharpen": 1, "smart_grain": 2,
            "ultra_detail": 100, "webhook_url": hook}),
        ),
        (
            STYLE,
            json!({"image": picture, "reference_image": picture, "prompt": "clay", "engine": "softy", "flavor": "gen_z",
            "style_strength": 60, "structure_strength": 40, "is_portrait": true, "portrait_style": "pop",
            "portrait_beautifier": "beautify_face", "fixed_generation": true, "webhook_url": hook}),
        ),
        (
            RELIGHT,
            json!({"image": picture, "transfer_light_from_lightmap": picture, "prompt": "dusk", "style": "smooth",
            "light_transfer_strength": 70, "interpolate_from_original": true, "change_background": false,
            "preserve_details": false, "advanced_settings": advanced, "webhook_url": hook}),
        ),
        (START_END, generate.clone()),
        (REFERENCE, generate),
        (
            EXTEND,
            json!({"images": [picture], "prompt": "on", "model": "vq2-pro", "duration": 1, "resolution": "540p",
            "video_creation_id": video["id"], "video_url": video["url"], "payload": "x", "meta_data": "[]", "callback_url": hook}),
        ),
        (
            MULTIFRAME,
            json!({"image_settings": frames, "start_image": picture, "model": "vq2-pro", "resolution": "540p",
            "payload": "x", "meta_data": "{}", "callback_url": hook}),
        ),
    ];
    let skin = |mode: &str, field: &str, value: Value| {
        let mut body = json!({"image": picture, "sharpen": 5, "smart_grain": 6, "webhook_url": hook});
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
async fn a_task_tells_every_field_that_it_was_asked_for() {
    // Given a job of each kind with every field of its form
    let given = Given::usual().await;
    let (app, token) = (&given.app, given.alice.token.as_str());
    let document = app.get("/openapi.json").await.expect(200).json();
    let video = given.submit(START_END, json!({"prompt": "p"})).await;
    let video = given.ended(&video).await["creations"][0].clone();
    let picture = base64_png(8, 8);
    for (path, body) in jobs(&picture, &video) {
        let alternatives = ["transfer_light_from_reference_image"];
        for name in fields(&document, &path) {
            assert!(body.get(&name).is_some() || alternatives.contains(&name.as_str()), "{path} has {name}");
        }
        // When it is submitted
        let answer = app.post_as(token, &path, body.clone()).await.expect(200).json();
        let task = answer.get("data").unwrap_or(&answer)["task_id"].as_str().expect("a task id");
        let told = app.get_as(token, &format!("/tasks/{task}")).await.expect(200).json();
        // Then the task shows all fields, and files by their hash
        let mut request = without_files(&told["request"]);
        for name in ["payload", "meta_data"] {
            if let Some(text) = body.get(name).and_then(Value::as_str) {
                assert_eq!(request[name]["bytes"], text.len(), "{path}");
                assert!(request[name]["digest"].is_string(), "{path}");
                request[name] = json!(text);
            }
        }
        assert_eq!(request, shown(&body, &picture), "{path}");
        // But not in lists
        let listed = app.get_as(token, "/tasks?limit=1").await.expect(200).json();
        assert_eq!((&listed["tasks"][0]["task_id"], listed["tasks"][0].get("request")), (&json!(task), None));
        ended(app, task).await;
    }
    given.app.stop().await;
}

#[actix_web::test]
async fn what_was_not_given_is_told_as_it_is_by_default() {
    let given = Given::usual().await;
    let (app, token) = (&given.app, given.alice.token.as_str());
    let server = FileServer::answering(|_| file(&png(8, 8))).await;
    server.let_out(false);
    // Given a picture that has not arrived yet
    let url = server.url("/image.png");
    let answer = app.post_as(token, UPSCALER, json!({"image": url})).await.expect(200).json();
    let task = answer["data"]["task_id"].as_str().expect("a task id");
    let path = format!("/tasks/{task}");
    let told = app.get_as(token, &path).await.expect(200).json();
    // Then it is shown by its URL, and the other fields with their defaults
    let usual = json!({"image": url, "scale_factor": "2x", "engine": "automatic", "optimized_for": "standard", "creativity": 0,
        "fractality": 0, "hdr": 0, "resemblance": 0});
    assert_eq!(told["request"], usual);
    // And after its arrival by its hash
    server.let_out(true);
    ended(app, task).await;
    let told = app.get_as(token, &path).await.expect(200).json();
    assert_eq!(without_files(&told["request"]["image"]), json!("a picture"));
    // For music the texts are shown
    let music = Listener::ask(app, &given.alice, &[("prompt", "a waltz"), ("duration", "1")]).await;
    let told = app.get_as(token, &format!("/tasks/{}", music.task)).await.expect(200).json();
    let names: Vec<_> = told["request"].as_object().map(Map::keys).expect("an object").collect();
    assert_eq!(names, ["duration", "prompt"]);
    assert_eq!(fields(&app.get("/openapi.json").await.json(), GENERATE), ["duration", "prompt"]);
    assert_eq!(told["request"], json!({"prompt": "a waltz", "duration": 1}));
    music.rest().await;
    given.app.stop().await;
}
