//! OpenAPI document: as served, printed and checked in.

use std::collections::BTreeSet;
use std::process::Command;

use mediary::environment::Environment;
use serde_json::Value;

use crate::support::TestApp;

const CHECKED_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");

#[test]
fn openapi_json_is_current() {
    let checked_in = std::fs::read_to_string(CHECKED_IN).unwrap_or_default();
    let generated = mediary::http::openapi::document_json().unwrap();

    let differ = checked_in.lines().zip(generated.lines()).position(|(old, new)| old != new);
    let is_same = differ.is_none() && checked_in.len() == generated.len();
    assert!(
        is_same,
        "openapi.json is not what the code says (line {}); refresh it: cargo run -- openapi > openapi.json",
        differ.map_or_else(|| checked_in.lines().count() + 1, |line| line + 1)
    );
}

#[test]
fn the_program_prints_the_document() {
    let printed = Command::new(env!("CARGO_BIN_EXE_mediary")).arg("openapi").output().expect("the program starts");

    assert!(printed.status.success());
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), mediary::http::openapi::document_json().unwrap());
}

#[actix_web::test]
async fn the_document_is_served_under_both_names() {
    let app = TestApp::start().await;

    let with_extension = app.get("/openapi.json").await.expect(200);
    let without = app.get("/openapi").await.expect(200);

    let created: serde_json::Value = serde_json::from_str(&mediary::http::openapi::document_json().unwrap()).unwrap();
    assert_eq!(with_extension.json(), created);
    assert_eq!(with_extension.body, without.body);
    assert_eq!(with_extension.header("content-type"), Some("application/json"));
    app.stop().await;
}

#[actix_web::test]
async fn the_document_that_is_served_has_the_limits_of_the_service() {
    for (set, expected) in [(1, [1, 1]), (4, [2, 4])] {
        // Given a service with a limit of images per video
        let app = TestApp::start_with(|settings| settings.video.max_images = set, Environment::system()).await;
        let schemas = app.get("/openapi.json").await.expect(200).json()["components"]["schemas"].take();

        // Then its document states the limit for each endpoint
        let image_limits = ["StartEndVideoBody", "ReferenceVideoBody"]
            .map(|body| schemas[body]["properties"]["images"]["maxItems"].as_u64().expect("a limit"));
        assert_eq!(image_limits, expected, "video.max_images = {set}");
        app.stop().await;
    }
}

fn document() -> Value {
    serde_json::from_str(&mediary::http::openapi::document_json().unwrap()).expect("the document is JSON")
}

/// Every object in a value, with the path to it.
fn objects<'v>(value: &'v Value, at: &str, found: &mut Vec<(String, &'v Value)>) {
    match value {
        Value::Object(members) => {
            found.push((at.to_owned(), value));
            members.iter().for_each(|(name, member)| objects(member, &format!("{at}/{name}"), found));
        }
        Value::Array(entries) => entries.iter().for_each(|entry| objects(entry, at, found)),
        _ => {}
    }
}

/// Constructs of the document that break the generated client of tests/clients/run.
#[test]
fn every_schema_suits_client_generators() {
    let document = document();
    let mut schema_names = Vec::new();
    objects(&document, "", &mut schema_names);
    let mut unusable = Vec::new();
    for (at, schema) in &schema_names {
        // Names that differ only by case become one member of an enumeration
        let names: Vec<_> = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let distinct_names: BTreeSet<_> = names.iter().map(|name| name.to_lowercase()).collect();
        if distinct_names.len() < names.len() {
            unusable.push(format!("{at}: names that differ by their case only"));
        }
        // An alternative without a type becomes `Any`
        let is_typed = |choice: &Value| ["type", "$ref"].iter().any(|keyword| choice.get(keyword).is_some());
        if !schema["anyOf"].as_array().into_iter().flatten().all(is_typed) {
            unusable.push(format!("{at}: an alternative without a type"));
        }
        // Properties beside alternatives are dropped
        if schema.get("anyOf").is_some() && schema.get("properties").is_some() {
            unusable.push(format!("{at}: properties beside alternatives"));
        }
    }
    assert!(schema_names.len() > 1000 && unusable.is_empty(), "{} objects; {unusable:#?}", schema_names.len());
}

#[test]
fn webhook_operations_have_their_own_tag() {
    let document = document();
    let tags = |kind: &str| {
        let items = document[kind].as_object().expect("an object").values();
        let operations = items.flat_map(|item| item.as_object().expect("operations").values());
        operations.map(|operation| operation["tags"][0].as_str().expect("a tag").to_owned()).collect::<BTreeSet<_>>()
    };
    let (path_tags, webhook_tags) = (tags("paths"), tags("webhooks"));
    // One class is generated per tag: equal names would overwrite each other.
    assert!(path_tags.is_disjoint(&webhook_tags), "{webhook_tags:?}");

    let listed_tags: BTreeSet<_> =
        document["tags"].as_array().expect("a list").iter().map(|tag| tag["name"].as_str().expect("a name")).collect();
    assert!(path_tags.iter().chain(&webhook_tags).all(|tag| listed_tags.contains(tag.as_str())), "{listed_tags:?}");
}

#[test]
fn error_responses_list_their_codes() {
    let document = document();
    let known_codes =
        document["components"]["schemas"]["Problem"]["properties"]["error"]["enum"].as_array().expect("a list");
    let items = document["paths"].as_object().expect("an object").values();
    for operation in items.flat_map(|item| item.as_object().expect("operations").values()) {
        for (status, response) in operation["responses"].as_object().expect("an object") {
            if status.as_str() < "400" {
                continue;
            }
            let at = format!("{} {status}", operation["operationId"]);
            let component = document.pointer(&response["$ref"].as_str().expect(&at)[1..]).expect(&at);
            let codes = component["x-error-codes"].as_array().expect(&at);
            assert!(!codes.is_empty() && codes.iter().all(|code| known_codes.contains(code)), "{at}: {codes:?}");
            let description = response["description"].as_str().expect(&at);
            assert!(
                codes.iter().all(|code| description.contains(&format!("`{}`", code.as_str().unwrap()))),
                "{at}: {description}"
            );
        }
    }
}

#[test]
fn references_to_repository_files_say_so() {
    let text = mediary::http::openapi::document_json().unwrap();
    for (at, _) in text.match_indices("docs/").chain(text.match_indices("data/pricing")) {
        let line = text[at..].split(['\n', ':', ';', ')']).next().unwrap_or_default();
        assert!(line.contains("in the source repository"), "{line}");
    }
}
