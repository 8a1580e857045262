//! Bodies with many invalid fields, and the errors they yield.

use super::*;
use crate::domain::image::{ScaleFactor, SignedStrength};
use crate::domain::node::Rating;
use crate::domain::value::{LIST_MAX, Link, Name};
use serde_json::json;

const LABEL: &str =
    "must be a string of at most 200 characters, without control characters except tabs and line breaks";
const NAME: &str =
    "must be one line of at most 200 characters, without control, bidirectional or zero-width characters";

fn response_to(body: &Value, reader: impl FnOnce(&mut Fields<'_, '_>) -> Option<()>) -> Value {
    let problem = read(body, reader).unwrap_err();
    let bytes = actix_web::body::MessageBody::try_into_bytes(problem.to_response("/x").into_body());
    serde_json::from_slice(&bytes.unwrap_or_default()).unwrap()
}

fn errors_of(body: &Value, reader: impl FnOnce(&mut Fields<'_, '_>) -> Option<()>) -> Vec<String> {
    let response = response_to(body, reader);
    let details = response["details"].as_array().unwrap().iter();
    details.map(|detail| detail.as_str().unwrap().to_owned()).collect()
}

fn required_name(fields: &mut Fields<'_, '_>, name: &str) -> Option<()> {
    let value = fields.text(name, Name::parse);
    fields.required(name, value).map(drop)
}

#[test]
fn every_invalid_field_is_reported() {
    let body = json!({"hdr": 11, "scale": "3x", "on": "yes", "tags": ["a", 1, {}], "n": {"a/b": 1}, "half": 0.5});
    let errors = errors_of(&body, |fields| {
        fields.integer("hdr", SignedStrength::new);
        fields.integer("half", SignedStrength::new);
        fields.text("scale", ScaleFactor::parse);
        fields.flag("on");
        fields.text_list::<LIST_MAX, 200>("tags");
        fields.object("n", |inner| inner.text("a/b", Name::parse));
        required_name(fields, "name")
    });
    assert_eq!(
        errors,
        [
            "/hdr must be an integer from -10 to 10",
            "/half must be an integer from -10 to 10",
            "/scale must be one of 2x 4x 8x 16x",
            "/on must be true or false",
            &format!("/tags/1 {LABEL}"),
            &format!("/tags/2 {LABEL}"),
            &format!("/n/a~1b {NAME}"),
            "/name is required",
        ]
    );
}

#[test]
fn null_is_absent_and_unknown_fields_are_ignored() {
    let body = json!({"name": null, "other": [1, 2]});
    let name = read(&body, |fields| Some(fields.text("name", Name::parse)));
    assert_eq!(name.unwrap(), None);
    assert_eq!(errors_of(&json!({"id": null}), |fields| required_name(fields, "id")), ["/id is required"]);
}

#[test]
fn a_required_field_of_the_wrong_type_is_one_error() {
    let errors = errors_of(&json!({"id": 7}), |fields| required_name(fields, "id"));
    assert_eq!(errors, [format!("/id {NAME}")]);
}

#[test]
fn a_body_must_be_an_object() {
    assert_eq!(errors_of(&json!([1]), |_| Some(())), ["the body must be a JSON object"]);
}

#[test]
fn integers_may_be_written_as_floats() {
    let number = |body| read(&body, |fields| fields.integer("n", SignedStrength::new)).map(SignedStrength::get).ok();
    assert_eq!(number(json!({"n": 2.0})), Some(2));
    assert_eq!(number(json!({"n": 1e300})), None);
    assert_eq!(number(json!({"n": 18_446_744_073_709_551_615_u64})), None);
}

#[test]
fn lists_have_a_maximum_length() {
    let body = json!({"tags": vec!["x"; LIST_MAX + 1], "few": ["a", "b"], "none": {}, "nodes": [{}, 1]});
    let errors = errors_of(&body, |fields| {
        fields.text_list::<LIST_MAX, 200>("tags");
        fields.texts("few", 1, Ok);
        fields.texts("none", 1, Ok);
        fields.objects("nodes", &(3..=9), |_| Some(())).map(|_| ())
    });
    let expected = [
        "/tags must be an array of at most 100 entries",
        "/few must be an array of at most 1 entry",
        "/none must be an array of at most 1 entry",
        "/nodes must be an array of 3 to 9 entries",
        "/nodes/1 must be an object",
    ];
    assert_eq!(errors, expected);
}

#[test]
fn type_errors_state_what_is_allowed() {
    // Given one field for each kind of check, with a type that no check accepts
    let names = ["hdr", "rating", "any", "scale", "url", "free", "nodes"];
    let body = Value::Object(names.iter().map(|name| ((*name).to_owned(), json!(true))).collect());

    // When they are read
    let errors = errors_of(&body, |fields| {
        fields.integer("hdr", SignedStrength::new);
        fields.number("rating", Rating::new);
        fields.integer("any", Ok);
        fields.text("scale", ScaleFactor::parse);
        fields.text("url", Link::parse);
        fields.text("free", Ok);
        fields.objects("nodes", &(1..=9), |_| Some(())).map(|_| ())
    });

    // Then each error states the allowed range, names or length, if there is one
    let expected = [
        "/hdr must be an integer from -10 to 10",
        "/rating must be a number from 0 to 5",
        "/any must be an integer",
        "/scale must be one of 2x 4x 8x 16x",
        "/url must be an absolute http or https URL of at most 2048 bytes",
        "/free must be a string",
        "/nodes must be an array of 1 to 9 entries",
    ];
    assert_eq!(errors, expected);
}

#[test]
fn errors_show_short_values_and_no_secrets() {
    let token = bearer_secret::mint(bearer_secret::SecretKind::User, [7; 32]);
    let rejected = |_: &str| Err::<(), _>(InvalidValue::new("is invalid"));
    let shown = |name: &str, sent: Value| {
        let response = response_to(&json!({name: sent}), |fields| fields.text(name, rejected));
        response["errors"][0]["value"].clone()
    };

    // Numbers, booleans and short strings as they were sent; of long strings the beginning
    for sent in [json!("3x"), json!(""), json!(7.5), json!(true)] {
        assert_eq!(shown("scale", sent.clone()), sent);
    }
    assert_eq!(shown("scale", json!("é".repeat(100))), "é".repeat(100));
    assert_eq!(shown("scale", json!("é".repeat(101))), format!("{}…", "é".repeat(100)));

    // Neither arrays and objects, nor secrets by their name or by their form
    for (name, sent) in [
        ("scale", json!(["3x"])),
        ("scale", json!({"x": 3})),
        ("personal_access_token", json!("abc")),
        ("apiKey", json!("abc")),
        ("name", json!(token)),
        ("name", json!(format!("Authorization: Bearer {token}."))),
    ] {
        assert_eq!(shown(name, sent.clone()), Value::Null, "{name} {sent}");
    }
}

#[test]
fn recognized_secrets_are_not_shown() {
    for secret in [
        "Bearer whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl",
        "https://user:password@hooks.example.com/",
    ] {
        assert_eq!(shown_value(&secret.into()), None, "{secret}");
    }
    for text in ["https://user@hooks.example.com/", "1.2.3", "a.b.c", "sunset"] {
        assert_eq!(shown_value(&text.into()), Some(text.into()), "{text}");
    }
}

#[test]
fn fields_of_secrets_and_email_addresses_show_no_value() {
    for pointer in ["/token", "/apiKey", "/nested/secret", "/password", "/email"] {
        assert!(is_secret_field(pointer), "{pointer}");
    }
    assert!(!is_secret_field("/url") && !is_secret_field("/keywords"));
}
