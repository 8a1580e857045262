//! Reports of the built-in engine on prompts, and prompts that it rejects.

use mediary::config::Settings;
use mediary::environment::Environment;
use serde_json::json;

use crate::image::{PRECISION, RELIGHT, STYLE, UPSCALER};
use crate::music::MusicListener;
use crate::support::TestApp;
use crate::support::picture::base64_png;
use crate::video::{START_END, VideoFixture, of_prompt};

#[actix_web::test]
async fn understood_and_ignored_words_are_in_the_response_and_the_task() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let picture = base64_png(8, 8);

    for (path, body, understood, ignored) in [
        (UPSCALER, json!({"image": picture, "prompt": "a vivid cat"}), json!(["vivid"]), json!(["cat"])),
        (
            STYLE,
            json!({"image": picture, "prompt": "a charcoal unicorn, not too dark"}),
            json!(["charcoal", "not", "dark"]),
            json!(["unicorn"]),
        ),
        (RELIGHT, json!({"image": picture, "prompt": "sun from the left"}), json!(["sun", "left"]), json!([])),
        (
            START_END,
            json!({"prompt": "pan left over the sea, with unicorns", "duration": 1, "resolution": "360p"}),
            json!(["pan", "left", "sea"]),
            json!(["over", "unicorns"]),
        ),
    ] {
        let response = app.post_as(&alice.token, path, body).await.expect(200).json();
        let task = response.get("data").unwrap_or(&response);
        let report = json!({"understood": understood, "ignored": ignored});
        assert_eq!(task["prompt_report"], report, "{path}");
        let id = task["task_id"].as_str().expect("an id");
        let unified = app.get_as(&alice.token, &format!("/tasks/{id}")).await.expect(200).json();
        assert_eq!(unified["prompt_report"], report, "{path}");
    }

    // A job without a prompt has no report
    let response = app.post_as(&alice.token, PRECISION, json!({"image": picture})).await.expect(200).json();
    assert_eq!(response["data"].get("prompt_report"), None);
    app.stop().await;
}

#[actix_web::test]
async fn the_task_of_a_piece_of_music_has_a_prompt_report() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let fields = [("prompt", "a calm waltz for unicorns, no drums"), ("duration", "1")];
    let stream = MusicListener::request(&app, &alice, &fields).await;
    let task = stream.task.clone();
    stream.collect().await;

    let report = json!({"understood": ["calm", "waltz", "no", "drums"], "ignored": ["unicorns"]});
    let ended = app.get_as(&alice.token, &format!("/tasks/{task}")).await.expect(200).json();
    assert_eq!(ended["prompt_report"], report);
    app.stop().await;
}

#[actix_web::test]
async fn a_video_from_text_without_an_understood_word_is_rejected_without_a_charge() {
    let strict = |settings: &mut Settings| settings.engine.strict_prompts = true;
    let app = TestApp::start_with(strict, Environment::system()).await;
    let alice = app.user("alice").await;

    let body = json!({"prompt": "Ein Hund, a dog", "duration": 1, "seed": -1});
    let problem = app.post_as(&alice.token, START_END, body).await.expect(400).json();
    let reason = "has no word that the built-in engine understands (ignored: ein, hund, dog); name a place, weather, \
                  light or a camera move, or give a picture";
    let expected = json!([
        {"pointer": "/seed", "reason": "must be an integer from 0 to 2147483647", "value": -1},
        {"pointer": "/prompt", "reason": reason, "value": "Ein Hund, a dog"},
    ]);
    assert_eq!(problem["errors"], expected);
    assert_eq!(app.get_as(&alice.token, "/users/credits").await.expect(200).json()["held"], 0);

    // With a picture, or a word that is understood, the video is accepted
    for body in [json!({"prompt": "a dog", "images": [base64_png(8, 8)]}), json!({"prompt": "a dog in the rain"})] {
        app.post_as(&alice.token, START_END, body).await.expect(200);
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_remote_vendor_gets_every_prompt_without_a_report() {
    let fixture = VideoFixture::start().await;
    let response = fixture.submit(START_END, of_prompt("Ein Hund")).await;
    assert_eq!(response.get("prompt_report"), None);
    fixture.app.stop().await;
}
