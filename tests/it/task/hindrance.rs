//! What keeps a task from going on, shown to its owner while it waits.

use std::time::Duration;

use mediary::clock::Surroundings;
use serde_json::{Value, json};

use super::stream::Reader;
use crate::image::{UPSCALER, ended, submit};
use crate::support::files::{FileServer, file, status};
use crate::support::picture::png;
use crate::support::vendor_sim::{Conduct, Mode, VendorSim};
use crate::support::{TestApp, TestUser, client};
use crate::vendor::{API_KEY, remote, sim, upscale};

/// The task as it is told once something keeps it from going on.
pub async fn hindered(app: &TestApp, user: &TestUser, task: &str) -> Value {
    let url = app.url(&format!("/tasks/{task}/events"));
    let mut reader = Reader::open(&client(), &url, &user.token, None).await;
    loop {
        let told = reader.next().await.expect("it waits");
        if told.task.get("hindrance").is_some() {
            assert!(["snapshot", "progress"].contains(&told.name.as_str()), "it is no change of the task");
            return told.task;
        }
    }
}

/// Nothing of it is shown any more, and the task has ended well.
async fn goes_on(app: &TestApp, user: &TestUser, task: &str) {
    assert_eq!(ended(app, user, UPSCALER, task).await["status"], "COMPLETED");
    let shown = app.get_as(&user.token, &format!("/tasks/{task}")).await.expect(200).json();
    assert_eq!(shown.get("hindrance"), None, "{shown}");
}

#[actix_web::test]
async fn a_picture_that_cannot_be_fetched_yet_is_told_with_the_reason_and_no_place_in_a_queue() {
    // Given a picture at a place where nobody listens
    let vacant = FileServer::answering(|_| file(&png(8, 8))).await;
    let (url, address) = (vacant.url("/image.png"), vacant.leave().await);
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    // When it is to be worked on
    let task = submit(&app, &alice, UPSCALER, json!({"image": url})).await;
    let told = hindered(&app, &alice, &task).await;
    // Then the task says why it waits and until when, and how: without numbers of this machine
    let hindrance = &told["hindrance"];
    assert_eq!(hindrance["code"], "input_unavailable");
    assert_eq!(hindrance["message"], "an input could not be fetched: no connection: connection refused");
    let time = |name: &str| hindrance[name].as_str().expect("a time").to_owned();
    assert!(time("at") < time("next_attempt_at"), "{hindrance}");
    assert_eq!((&told["state"], told.get("queue_position")), (&json!("CREATED"), None));
    // And lists show it too
    let list = app.get_as(&alice.token, "/tasks").await.expect(200).json();
    assert_eq!(list["tasks"][0]["hindrance"]["code"], "input_unavailable");
    // And when somebody listens there, the task goes on
    let _server = FileServer::listening(&address.to_string(), |_| file(&png(8, 8))).await;
    goes_on(&app, &alice, &task).await;
    app.stop().await;
}

#[actix_web::test]
async fn a_server_of_pictures_in_trouble_is_told_by_its_status() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let server = FileServer::answering(|_| status("503 Service Unavailable", "")).await;
    let task = submit(&app, &alice, UPSCALER, json!({"image": server.url("/image.png")})).await;
    let told = hindered(&app, &alice, &task).await;
    let message = "an input could not be fetched: the server answered with status 503";
    assert_eq!(told["hindrance"]["message"], message);
    // And whoever cancels the task is told of the end only
    let path = format!("/tasks/{task}/cancel");
    let cancelled = app.post_as(&alice.token, &path, json!({})).await.expect(200).json();
    assert_eq!((&cancelled["state"], cancelled.get("hindrance")), (&json!("FAILED"), None));
    app.stop().await;
}

#[actix_web::test]
async fn a_vendor_that_is_not_reached_is_told_without_what_only_the_operator_knows() {
    // Given a vendor at a place where nobody listens
    let vacant = VendorSim::start(sim(Mode::Neither, Duration::ZERO)).await;
    let (address, base) = (vacant.address(), vacant.base());
    drop(vacant);
    let app = TestApp::start_with(|settings| remote(settings, &base, Mode::Neither), Surroundings::real()).await;
    let alice = app.user("alice").await;
    // When it is to make something
    let task = submit(&app, &alice, UPSCALER, upscale("patient")).await;
    let told = hindered(&app, &alice, &task).await;
    // Then its owner hears that, and neither where the vendor is nor what the machine calls the trouble
    let hindrance = &told["hindrance"];
    assert_eq!(hindrance["code"], "vendor_unreachable");
    let said = hindrance.to_string();
    for secret in ["127.0.0.1", &address.port().to_string(), API_KEY, "os error", "http"] {
        assert!(!said.contains(secret), "{said}");
    }
    assert_eq!(told.get("queue_position"), None);
    // And when the vendor is there, the task goes on
    let _vendor = VendorSim::on(address, sim(Mode::Neither, Duration::ZERO), |_| Conduct::Usual).await;
    goes_on(&app, &alice, &task).await;
    app.stop().await;
}
