//! The OpenAPI document: as it is served, printed and checked in.

use std::process::Command;

use mediary::clock::Surroundings;

use crate::support::TestApp;

const CHECKED_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");

#[test]
fn the_document_that_is_checked_in_is_that_of_the_code() {
    let checked_in = std::fs::read_to_string(CHECKED_IN).unwrap_or_default();
    let made = mediary::http::openapi::text().unwrap();

    let differ = checked_in.lines().zip(made.lines()).position(|(old, new)| old != new);
    let same = differ.is_none() && checked_in.len() == made.len();
    assert!(
        same,
        "openapi.json is not what the code says (line {}); refresh it: cargo run -- openapi > openapi.json",
        differ.map_or_else(|| checked_in.lines().count() + 1, |line| line + 1)
    );
}

#[test]
fn the_program_prints_the_document() {
    let printed = Command::new(env!("CARGO_BIN_EXE_mediary")).arg("openapi").output().expect("the program starts");

    assert!(printed.status.success());
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), mediary::http::openapi::text().unwrap());
}

#[actix_web::test]
async fn the_document_is_served_under_both_names() {
    let app = TestApp::start().await;

    let (with_extension, without) = (app.get("/openapi.json").await.expect(200), app.get("/openapi").await.expect(200));

    let made: serde_json::Value = serde_json::from_str(&mediary::http::openapi::text().unwrap()).unwrap();
    assert_eq!(with_extension.json(), made);
    assert_eq!(with_extension.body, without.body);
    assert_eq!(with_extension.header("content-type"), Some("application/json"));
    app.stop().await;
}

#[actix_web::test]
async fn the_document_that_is_served_has_the_limits_of_the_service() {
    for (set, expected) in [(1, [1, 1]), (4, [2, 4])] {
        // Given a service that takes so many images for a video
        let app = TestApp::start_with(|settings| settings.video.max_images = set, Surroundings::real()).await;
        let schemas = app.get("/openapi.json").await.expect(200).json()["components"]["schemas"].take();
        // Then its document says how many each endpoint takes of it
        let most = ["StartEndVideoBody", "ReferenceVideoBody"]
            .map(|body| schemas[body]["properties"]["images"]["maxItems"].as_u64().expect("a limit"));
        assert_eq!(most, expected, "video.max_images = {set}");
        app.stop().await;
    }
}
