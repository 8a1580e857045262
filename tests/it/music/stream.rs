//! Lines of a music stream: their order, and the audio in them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use opus_pure::{MAX_PACKET_SAMPLES, OggOpusReader, Trim};
use serde_json::{Value, json};

use super::{MusicListener, states, wait_for_end};
use crate::support::TestApp;

fn kinds(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["type"].as_str().expect("a type")).collect()
}

/// Assembles the file from the chunks.
fn file(lines: &[Value]) -> Vec<u8> {
    let chunks = lines.iter().filter(|line| line["type"] == "audio_chunk");
    chunks.flat_map(|chunk| STANDARD.decode(chunk["data"].as_str().expect("data")).expect("base64")).collect()
}

/// Decodes the music; returns the number of samples per channel, and the peak.
fn decode_length_and_peak(file: &[u8]) -> (usize, f32) {
    let mut reader = OggOpusReader::new(file).expect("an Ogg file");
    let mut decoder = reader.head().decoder(48_000).expect("a decoder");
    let mut trim = Trim::new(reader.head(), 48_000, 2).expect("a trim");
    let mut block = vec![0.0; MAX_PACKET_SAMPLES * 2];
    let mut samples = 0;
    let mut loudest = 0.0_f32;
    for packet in reader.packets() {
        let packet = packet.expect("a packet");
        let count = decoder.decode(&packet.data, MAX_PACKET_SAMPLES, &mut block).expect("sound");
        let kept_samples = trim.keep(&packet, &block[..count * 2]);
        samples += kept_samples.len() / 2;
        loudest = kept_samples.iter().fold(loudest, |loudest, sample| loudest.max(sample.abs()));
    }
    (samples, loudest)
}

#[actix_web::test]
async fn lines_are_ordered_and_chunks_form_a_file_of_the_announced_length() {
    // Given a user
    let app = TestApp::start_with(
        |settings| settings.music.billing_rate_per_sec = 3,
        mediary::environment::Environment::system(),
    )
    .await;
    let user = app.user("listener").await;

    // When music is requested
    let listener =
        MusicListener::request(&app, &user, &[("prompt", " a happy folk song with flute "), ("duration", "2")]).await;
    let task = listener.task.clone();
    let lines = listener.collect().await;

    // Then length and title come first, then the audio, and a summary at the end
    let line_kinds = kinds(&lines);
    assert_eq!(&line_kinds[..2], ["duration", "title"]);
    assert_eq!(&line_kinds[line_kinds.len() - 2..], ["generated_audio", "complete"]);
    assert!(
        line_kinds.len() >= 6 && line_kinds[2..line_kinds.len() - 2].iter().all(|kind| *kind == "audio_chunk"),
        "{line_kinds:?}"
    );
    assert_eq!(lines[0]["duration_sec"], 2.0);
    let title = &lines[1];
    assert!(title["title"].as_str().is_some_and(|title| !title.is_empty()));
    assert!(title["display_tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag == "flute")), "{title}");
    assert_eq!([&title["stream_index"], &title["prompt_index"], &title["copy_index"]], [0, 0, 0]);
    let chunk = &lines[2];
    assert_eq!(
        [&chunk["stream_index"], &chunk["num_streams"], &chunk["sample_rate"], &chunk["channels"]],
        [0, 1, 48_000, 2]
    );
    assert_eq!(chunk["encoding"], "ogg_opus");
    let generated = &lines[lines.len() - 2];
    assert_eq!(generated["duration_sec_by_stream"], json!([2.0]));
    assert_eq!((generated["billing_rate_per_sec"].as_u64(), generated["billing"].as_f64()), (Some(3), Some(6.0)));
    assert_eq!(lines[lines.len() - 1]["task_id"], task.as_str());
    let (samples, loudest) = decode_length_and_peak(&file(&lines));
    assert!(samples == 2 * 48_000 && (0.1..0.95).contains(&loudest), "{samples} {loudest}");

    // And the task of the stream has succeeded
    let task = wait_for_end(&app, &user, &task).await;
    assert_eq!((&task["kind"], &task["state"]), (&json!("music"), &json!("success")));
    assert_eq!(states(&task), ["created", "processing", "success"]);
    let listed = app.get_as(&user.token, "/tasks?kind=music").await.expect(200).json();
    assert_eq!(listed["tasks"][0]["task_id"], task["task_id"]);
    app.stop().await;
}

#[actix_web::test]
async fn the_length_is_inferred_from_the_prompt_if_absent() {
    let app = TestApp::start().await;
    let user = app.user("listener").await;
    for fields in [&[("prompt", "three seconds of rain")][..], &[("prompt", "three seconds of rain"), ("duration", "")]]
    {
        let mut listener = MusicListener::request(&app, &user, fields).await;
        assert_eq!(listener.line().await.map(|line| line["duration_sec"].clone()), Some(json!(3.0)));
    }
    app.stop().await;
}

#[actix_web::test]
async fn the_same_prompt_gives_identical_uncompressed_bytes() {
    let app = TestApp::start().await;
    let (first_user, second_user) = (app.user("one").await, app.user("other").await);
    let fields = [("prompt", "a bright sting"), ("duration", "1"), ("unknown", "ignored")];
    let first = MusicListener::request(&app, &first_user, &fields).await;
    let second = MusicListener::request(&app, &second_user, &fields[..2]).await;
    assert!(!first.response.headers().contains_key("content-encoding"));
    let (first, second) = (first.collect().await, second.collect().await);
    assert_eq!(file(&first), file(&second));
    assert_ne!(first.last(), second.last(), "each request is a task of its own");
    app.stop().await;
}
