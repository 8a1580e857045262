//! Extension of videos.

use serde_json::json;

use super::{EXTEND, Given, START_END, of_prompt};
use crate::support::files::{FileServer, file};
use crate::support::vendor_sim::CLIP;

#[actix_web::test]
async fn an_own_video_goes_on_and_the_vendor_is_told_its_own_name_for_it() {
    let given = Given::usual().await;
    let first = given.submit(START_END, of_prompt("first")).await;
    let made = given.ended(&first).await["creations"][0].clone();
    let body = json!({"model": "vq2-turbo", "video_creation_id": made["id"], "video_url": made["url"], "duration": 7});

    let answer = given.submit(EXTEND, body).await;

    let told = ["video_creation_id", "video_url", "duration", "model", "resolution", "credits"]
        .map(|name| answer[name].clone());
    assert_eq!(json!(told), json!([made["id"], made["url"], 7, "vq2-turbo", "720p", 15 + 5 * 6]));
    assert_eq!(given.ended(&answer).await["state"], "success");
    let (_, asked) = given.sim.last_submission().expect("asked");
    assert_eq!((asked["video_creation_id"].as_str(), &asked["video_url"]), (Some("v-job-1"), &made["url"]));
    given.app.stop().await;
}

#[actix_web::test]
async fn a_video_of_somebody_else_does_not_go_on() {
    let given = Given::usual().await;
    let first = given.submit(START_END, of_prompt("first")).await;
    let made = given.ended(&first).await["creations"][0].clone();
    let bob = given.app.user("bob").await;
    let body = json!({"model": "vq2-turbo", "video_creation_id": made["id"], "video_url": made["url"]});
    let refused = given.app.post_as(&bob.token, EXTEND, body).await.expect(400).json();
    assert_eq!(refused["errors"][0]["pointer"], "/video_creation_id");
    given.app.stop().await;
}

#[actix_web::test]
async fn what_is_fetched_must_be_a_video() {
    let given = Given::usual().await;
    let first = given.submit(START_END, of_prompt("first")).await;
    let own = given.ended(&first).await["creations"][0]["id"].clone();
    for (bytes, state, code) in [(CLIP.to_vec(), "success", ""), (b"no video".to_vec(), "failed", "input_invalid")] {
        let server = FileServer::answering(move |_| file(&bytes)).await;
        let body = json!({"model": "vq2-pro", "video_creation_id": own, "video_url": server.url("/v.mp4")});
        let told = given.ended(&given.submit(EXTEND, body).await).await;
        assert_eq!((told["state"].as_str(), told["err_code"].as_str()), (Some(state), Some(code)));
    }
    given.app.stop().await;
}
