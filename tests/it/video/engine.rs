//! Videos by the built-in engine, from the request to the file.

use mediary::environment::Environment;
use mediary_engine::video::ParsedVideo;
use serde_json::{Value, json};

use super::{EXTEND, START_END, wait_for_task_end};
use crate::support::files::{FileServer, file};
use crate::support::picture::base64_png;
use crate::support::{TestApp, TestUser};

/// Returns the smallest video that the interface allows.
fn smallest(prompt: &str) -> Value {
    json!({
        "images": [base64_png(64, 48)], "prompt": prompt, "model": "vq2-turbo", "duration": 1, "resolution": "360p",
        "aspect_ratio": "1:1", "seed": 7,
    })
}

/// Waits until a task has ended, and returns its creations.
async fn complete_video(app: &TestApp, owner: &TestUser, path: &str, body: Value) -> Value {
    let task = app.post_as(&owner.token, path, body).await.expect(200).json();
    let id = task["task_id"].as_str().expect("a task id");
    wait_for_task_end(app, id).await;
    app.get_as(&owner.token, &format!("/proxy/videovendor/tasks/{id}/creations")).await.expect(200).json()
}

async fn fetched(app: &TestApp, url: &Value) -> (String, Vec<u8>) {
    let url = url.as_str().expect("a url");
    let path = url.find("/media/").map(|at| &url[at..]).expect("a URL of this service");
    let response = app.get(path).await.expect(200);
    (response.header("content-type").unwrap_or_default().to_owned(), response.body)
}

#[actix_web::test]
async fn a_video_has_the_requested_format_and_can_be_extended() {
    let app = TestApp::start_with(|_| {}, Environment::system()).await;
    let alice = app.user("alice").await;
    let mut body = smallest("pan right in the rain");
    (body["audio"], body["watermark"]) = (true.into(), true.into());

    let task_body = complete_video(&app, &alice, START_END, body).await;

    assert_eq!(task_body["state"], "success", "{task_body}");
    let creation = &task_body["creations"][0];
    assert_eq!(creation["url"], creation["watermarked_url"]);
    let (kind, video_file) = fetched(&app, &creation["url"]).await;
    let video = ParsedVideo::parse(&video_file).expect("a video");
    assert_eq!((kind.as_str(), video.size.width, video.size.height, video.units.len()), ("video/mp4", 360, 360, 24));
    assert_eq!(video.sound.expect("sound").packets.len(), 50);
    let (kind, cover) = fetched(&app, &creation["cover_url"]).await;
    assert_eq!((kind.as_str(), image::load_from_memory(&cover).expect("a picture").width()), ("image/jpeg", 360));

    let server = FileServer::with_replies(move |_| file(&video_file[..video_file.len() / 3])).await;
    let extension_body =
        json!({"model": "vq2-turbo", "video_creation_id": creation["id"], "video_url": server.url("/v.mp4")});
    let task_body = complete_video(&app, &alice, EXTEND, extension_body).await;
    assert_eq!(
        (task_body["state"].as_str(), task_body["err_code"].as_str()),
        (Some("failed"), Some("video_unreadable"))
    );
    app.stop().await;
}

#[actix_web::test]
async fn background_music_is_added_if_the_model_supports_it() {
    let app = TestApp::start_with(|_| {}, Environment::system()).await;
    let alice = app.user("alice").await;
    let render_video = async |model: &str, prompt: &str, bgm: bool, audio: bool| {
        let mut body = smallest(prompt);
        (body["model"], body["bgm"], body["audio"]) = (model.into(), bgm.into(), audio.into());
        let task_body = complete_video(&app, &alice, START_END, body).await;
        fetched(&app, &task_body["creations"][0]["url"]).await.1
    };
    let packets = |video_file: &[u8]| ParsedVideo::parse(video_file).expect("a video").sound.map(|sound| sound.packets);

    // Given videos without other sound: with music they have a sound track of the video's length that is not silent
    let [quiet, piano] = [
        render_video("vq2-turbo", "calm piano", false, false).await,
        render_video("vq2-turbo", "calm piano", true, false).await,
    ];
    let sound_packets = packets(&piano).expect("sound");
    assert!(packets(&quiet).is_none() && sound_packets.len() == 50);
    assert!(
        sound_packets.iter().map(|packet| packet.bytes.len()).sum::<usize>() > 2_000,
        "the sound is as small as silence"
    );

    // And the prompt selects the music
    assert_ne!(packets(&render_video("vq2-turbo", "techno", true, false).await).expect("sound"), sound_packets);

    // And it is mixed with other sound; with a model that ignores it there is no difference at all (same seed)
    assert_ne!(
        render_video("vq2-turbo", "rain", true, true).await,
        render_video("vq2-turbo", "rain", false, true).await
    );
    for audio in [true, false] {
        assert_eq!(
            render_video("vq3-pro", "rain", true, audio).await,
            render_video("vq3-pro", "rain", false, audio).await
        );
    }
    app.stop().await;
}

#[actix_web::test]
async fn the_built_in_engine_needs_no_token_and_no_picture() {
    let app = TestApp::start_with(|_| {}, Environment::system()).await;
    let body =
        json!({"prompt": "a calm sea", "model": "vq1", "duration": 1, "resolution": "360p", "aspect_ratio": "1:1"});
    let task = app.post(START_END, body).await.expect(200).json();
    let id = task["task_id"].as_str().expect("a task id");
    wait_for_task_end(&app, id).await;
    let task_body = app.get(&format!("/proxy/videovendor/tasks/{id}/creations")).await.expect(200).json();
    assert_eq!(
        (task_body["state"].as_str(), task_body["creations"].as_array().map(Vec::len)),
        (Some("success"), Some(1))
    );
    app.stop().await;
}
