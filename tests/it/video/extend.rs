//! Extension of videos.

use serde_json::json;

use super::{EXTEND, START_END, VideoFixture, of_prompt, wait_for_task_end};
use crate::support::files::{FileServer, file};
use crate::support::vendor_sim::CLIP;

#[actix_web::test]
async fn an_extension_sends_the_vendor_its_own_creation_id() {
    let fixture = VideoFixture::start().await;
    let first = fixture.submit(START_END, of_prompt("first")).await;
    let creation = fixture.wait_for_end(&first).await["creations"][0].clone();
    let body =
        json!({"model": "vq2-turbo", "video_creation_id": creation["id"], "video_url": creation["url"], "duration": 7});

    let response = fixture.submit(EXTEND, body).await;

    let echoed = ["video_creation_id", "video_url", "duration", "model", "resolution", "credits"]
        .map(|name| response[name].clone());
    assert_eq!(json!(echoed), json!([creation["id"], creation["url"], 7, "vq2-turbo", "720p", 15 + 5 * 6]));
    assert_eq!(fixture.wait_for_end(&response).await["state"], "success");
    let (_, submission) = fixture.sim.last_submission().expect("a submission at the vendor");
    assert_eq!(
        (submission["video_creation_id"].as_str(), &submission["video_url"]),
        (Some("v-job-1"), &creation["url"])
    );
    fixture.app.stop().await;
}

#[actix_web::test]
async fn a_video_made_elsewhere_is_extended_under_the_id_that_the_client_gives() {
    // Given a video of one user, which the vendor knows as v-job-1
    let fixture = VideoFixture::start().await;
    let first = fixture.submit(START_END, of_prompt("first")).await;
    let creation = fixture.wait_for_end(&first).await["creations"][0].clone();
    let bob = fixture.app.user("bob").await;

    for foreign_id in [creation["id"].clone(), json!("made elsewhere/7")] {
        // When another user extends it, or the video is from another service
        let body = json!({"model": "vq2-turbo", "video_creation_id": foreign_id, "video_url": creation["url"]});
        let response = fixture.app.post_as(&bob.token, EXTEND, body).await.expect(200).json();

        // Then the vendor gets the id as given, and the task shows it
        assert_eq!(response["video_creation_id"], foreign_id);
        let id = response["task_id"].as_str().expect("an id");
        wait_for_task_end(&fixture.app, id).await;
        let (_, submission) = fixture.sim.last_submission().expect("a submission");
        assert_eq!((&submission["video_creation_id"], &submission["video_url"]), (&foreign_id, &creation["url"]));
        let task = fixture.app.get_as(&bob.token, &format!("/tasks/{id}")).await.expect(200).json();
        assert_eq!(task["request"]["video_creation_id"], foreign_id);
    }
    fixture.app.stop().await;
}

#[actix_web::test]
async fn a_fetched_input_must_be_a_video() {
    let fixture = VideoFixture::start().await;
    let first = fixture.submit(START_END, of_prompt("first")).await;
    let own_video = fixture.wait_for_end(&first).await["creations"][0]["id"].clone();
    for (bytes, state, code) in [(CLIP.to_vec(), "success", ""), (b"no video".to_vec(), "failed", "input_invalid")] {
        let server = FileServer::with_replies(move |_| file(&bytes)).await;
        let body = json!({"model": "vq2-pro", "video_creation_id": own_video, "video_url": server.url("/v.mp4")});
        let task_body = fixture.wait_for_end(&fixture.submit(EXTEND, body).await).await;
        assert_eq!((task_body["state"].as_str(), task_body["err_code"].as_str()), (Some(state), Some(code)));
    }
    fixture.app.stop().await;
}
