//! Music files, which are stored as results until their retention ends.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mediary::environment::Environment;
use serde_json::{Value, json};

use super::vendor::remote;
use super::{MusicListener, wait_for_end};
use crate::support::TestApp;
use crate::support::music_sim::{MusicSim, StreamAction, complete, duration, lines, sound, title};

/// Returns a stream line with sound of file `index`, 0 or 1, of two.
fn sound_of_file(index: u16, data: &str) -> Value {
    let mut line = sound(data);
    line["stream_index"] = json!(index);
    line["num_streams"] = json!(2);
    line
}

/// Returns the path of a media URL.
fn path_of(url: &Value) -> String {
    let url = url.as_str().expect("a URL");
    url[url.find("/media/").expect("a result")..].to_owned()
}

#[actix_web::test]
async fn the_music_can_be_fetched_after_a_restart() {
    // Given music that was streamed completely
    let app = TestApp::start().await;
    let user = app.user("listener").await;
    let listener = MusicListener::request(&app, &user, &[("prompt", "a slow waltz"), ("duration", "2")]).await;
    let task = listener.task.clone();
    let lines = listener.collect().await;
    let chunks = lines.iter().filter(|line| line["type"] == "audio_chunk");
    let sent: Vec<u8> =
        chunks.flat_map(|chunk| STANDARD.decode(chunk["data"].as_str().expect("data")).expect("base64")).collect();

    // When the service has been restarted
    let app = TestApp::start_in(app.stop().await, |_| {}, Environment::system()).await;

    // Then the task has one file with the same bytes
    let task = app.get_as(&user.token, &format!("/tasks/{task}")).await.expect(200).json();
    assert_eq!(task["generated"].as_array().map(Vec::len), Some(1), "{task}");
    assert!(task["expires_at"].is_string(), "{task}");
    let path = path_of(&task["generated"][0]);
    let file = app.get(&path).await.expect(200);
    assert_eq!((file.header("content-type"), &file.body), (Some("audio/ogg"), &sent));
    app.stop().await;
}

#[actix_web::test]
async fn each_file_of_a_stream_is_stored() {
    // Given a vendor that sends two files in alternation
    let sent = [
        duration(),
        title(),
        sound_of_file(0, "ID3 one"),
        sound_of_file(1, "OggS two"),
        sound_of_file(0, " more"),
        complete(),
    ];
    let vendor = MusicSim::with_behavior(move |_| lines(&sent)).await;
    let base = vendor.base();
    let app = TestApp::start_with(|settings| remote(settings, &base), Environment::system()).await;
    let user = app.user("listener").await;

    // When the client has received them
    let listener = MusicListener::request(&app, &user, &[("prompt", "calm")]).await;
    let task = listener.task.clone();
    listener.collect().await;

    // Then both files are results, in the order of their indexes
    let task = wait_for_end(&app, &user, &task).await;
    let mut contents = Vec::new();
    for url in task["generated"].as_array().expect("a list") {
        let file = app.get(&path_of(url)).await.expect(200);
        contents.push((file.header("content-type").map(str::to_owned), file.text()));
    }
    let expected = [("audio/mpeg", "ID3 one more"), ("audio/ogg", "OggS two")];
    assert_eq!(contents, expected.map(|(media, text)| (Some(media.to_owned()), text.to_owned())));
    app.stop().await;
}

#[actix_web::test]
async fn music_that_cannot_be_stored_is_still_streamed() {
    // Given a vendor that sends an unknown container, or a file of five, of which at most four are stored
    let one_of_five = || {
        let mut line = sound_of_file(0, "ID3");
        line["num_streams"] = json!(5);
        line
    };
    let vendor = MusicSim::with_behavior(move |request| match request.field("prompt") {
        Some("many") => lines(&[one_of_five(), complete()]),
        _ => lines(&[sound("text"), complete()]),
    })
    .await;
    let base = vendor.base();
    let app = TestApp::start_with(|settings| remote(settings, &base), Environment::system()).await;
    let user = app.user("listener").await;

    for prompt in ["unknown", "many"] {
        // When the music is requested
        let listener = MusicListener::request(&app, &user, &[("prompt", prompt)]).await;
        let task = listener.task.clone();
        let lines = listener.collect().await;

        // Then it is streamed completely, and the task succeeds without files
        assert_eq!(lines.last().map(|line| &line["type"]), Some(&json!("complete")), "{prompt}");
        let task = wait_for_end(&app, &user, &task).await;
        assert_eq!((&task["state"], &task["generated"]), (&json!("success"), &json!([])), "{prompt}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn unfinished_music_leaves_no_file() {
    // Given a vendor whose stream breaks off after the first sound
    let vendor = MusicSim::with_behavior(|_| {
        [lines(&[duration(), title(), sound("ID3 one")]), vec![StreamAction::Send("{\"type\": \"au".to_owned())]]
            .concat()
    })
    .await;
    let base = vendor.base();
    let app = TestApp::start_with(|settings| remote(settings, &base), Environment::system()).await;
    let user = app.user("listener").await;

    // When the task has failed
    let listener = MusicListener::request(&app, &user, &[("prompt", "calm")]).await;
    let task = listener.task.clone();
    listener.collect().await;
    let task = wait_for_end(&app, &user, &task).await;
    assert_eq!((&task["state"], &task["generated"]), (&json!("failed"), &json!([])));

    // Then no result is stored
    let dir = app.stop().await;
    let directories = std::fs::read_dir(dir.path().join("media/results")).expect("the directory of results");
    let files =
        directories.flat_map(|directory| std::fs::read_dir(directory.expect("readable").path()).expect("files"));
    assert_eq!(files.count(), 0, "files under media/results");
}
