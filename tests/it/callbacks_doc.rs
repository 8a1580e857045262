//! Runs the signature checks in `examples/webhooks` against callbacks of this service, in every language.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::callbacks_rust::verify;
use crate::delivery::wait_until_settled;
use crate::image::{PRECISION, submit};
use crate::support::receiver::{ReceivedRequest, Receiver};
use crate::support::{TestApp, picture};

const PYTHON: &str = include_str!("../../examples/webhooks/verify.py");
const JAVASCRIPT: &str = include_str!("../../examples/webhooks/verify.js");
const GO: &str = include_str!("../../examples/webhooks/verify.go");

/// Program around the Python sample: reads cases from stdin, and prints for each whether its signature is valid.
const IN_PYTHON: &str = r#"
import json, sys
print(json.dumps([verify(c["headers"], base64.b64decode(c["body"]), c["key"]) for c in json.load(sys.stdin)]))
"#;
const IN_JAVASCRIPT: &str = r#"
const cases = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(cases.map((c) => verify(c.headers, Buffer.from(c.body, "base64"), c.key))));
"#;

const IN_GO: &str = r#"
package main

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"time"
)

func main() {
	var cases []struct {
		Headers   map[string]string
		Body, Key string
	}
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		panic(err)
	}
	results := []bool{}
	for _, c := range cases {
		headers := http.Header{}
		for name, value := range c.Headers {
			headers.Set(name, value)
		}
		body, _ := base64.StdEncoding.DecodeString(c.Body)
		results = append(results, Verify(headers, body, c.Key, 5*time.Minute))
	}
	json.NewEncoder(os.Stdout).Encode(results)
}
"#;

/// Returns a case for the sample code: headers and body of a callback, and the key to check it with.
fn case(callback: &ReceivedRequest, body: &[u8], key: &str) -> Value {
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let headers: Map<_, _> = names.iter().map(|name| ((*name).to_owned(), callback.header(name).into())).collect();
    json!({"headers": headers, "body": STANDARD.encode(body), "key": key})
}

/// Runs a program on the cases; `None` if it is not installed.
fn run_program(program: &str, arguments: &[&str], cases: &Value) -> Option<Value> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    child.stdin.take().unwrap().write_all(cases.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if errors.contains("No module named 'cryptography'") {
        return None;
    }
    assert!(output.status.success(), "{program}: {errors}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Runs the Rust sample for one case; returns its result.
fn verify_in_rust(case: &Value) -> bool {
    let body = STANDARD.decode(case["body"].as_str().unwrap()).unwrap();
    let header = |name: &str| case["headers"][name].as_str();
    verify(header, &body, case["key"].as_str().unwrap(), Duration::from_mins(5)).is_some()
}

#[actix_web::test]
async fn the_sample_code_verifies_webhooks() {
    // Given a callback signed by the service and two secrets
    let (app, receiver) = (TestApp::start().await, Receiver::start().await);
    let ada = app.user("ada").await;
    let mut secrets = Vec::new();
    for _ in 0..2 {
        let created = app.post_as(&ada.token, "/users/webhook-secret", json!({})).await.expect(200).json();
        secrets.push(created["secret"].as_str().unwrap().to_owned());
    }
    let public = app.get("/.well-known/webhook-key").await.expect(200).text();
    let body = json!({"image": picture::base64_png(8, 8), "webhook_url": receiver.url("/hook")});
    let task = submit(&app, &ada, PRECISION, body).await;
    wait_until_settled(&app, &ada.token, &task).await;
    let callback = receiver.received().remove(0);

    // When it is checked with each key, and altered variants are checked too
    let other = format!("whsec_{}", STANDARD.encode([1; 32]));
    let foreign_key =
        format!("whpk_{}", STANDARD.encode(ed25519_dalek::SigningKey::from_bytes(&[1; 32]).verifying_key()));
    let changed = [&callback.body[..], b" "].concat();
    let mut outdated = callback.clone();
    let stamp = outdated.headers.iter_mut().find(|(name, _)| name == "webhook-timestamp").unwrap();
    stamp.1 = "1431703961".to_owned();
    let cases = json!([
        case(&callback, &callback.body, &secrets[0]),
        case(&callback, &callback.body, &secrets[1]),
        case(&callback, &callback.body, public.trim()),
        case(&callback, &callback.body, &other),
        case(&callback, &callback.body, &foreign_key),
        case(&callback, &changed, &secrets[1]),
        case(&callback, &changed, public.trim()),
        case(&outdated, &callback.body, &secrets[1]),
    ]);

    // Then the first three pass, in every installed language
    let expected = json!([true, true, true, false, false, false, false, false]);
    assert_in_all_languages(&cases, &expected);
}

/// Returns malformed variants of the headers of a real callback, each with the expected result of the check.
fn malformed(valid_headers: &Value) -> Vec<(Value, bool)> {
    let mut all = Vec::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let mut without = valid_headers.clone();
        without.as_object_mut().unwrap().remove(name);
        all.push((without, false));
    }
    let mut add = |name: &str, value: &str, is_valid| {
        let mut headers = valid_headers.clone();
        headers[name] = value.into();
        all.push((headers, is_valid));
    };
    for value in ["", "ü", "\u{1f600}"] {
        add("webhook-id", value, false);
    }
    let long = "9".repeat(400);
    for value in ["", "abc", "NaN", "Infinity", "1e400", "-1", "ü", "9223372036854775807", &long] {
        add("webhook-timestamp", value, false);
    }
    for value in [
        "",
        " ",
        ",",
        "v1",
        "v1,",
        "v1a",
        "v1a,",
        "v1,A",
        "v1a,A",
        "v1,*",
        "v1a,AAAA",
        "v1,ü",
        "v1a,\u{1f600}",
        "v2,AAAA",
    ] {
        add("webhook-signature", value, false);
    }
    let signature = valid_headers["webhook-signature"].as_str().unwrap();
    for before in ["v1,A", "v1a,A", "v1,ü", "v1a,ü", "v1a,AAAA", "v1", "", ","] {
        add("webhook-signature", &format!("{before} {signature}"), true);
    }
    all
}

#[actix_web::test]
async fn the_sample_code_rejects_malformed_webhooks_without_failing() {
    // Given a callback signed by the service and a secret
    let (app, receiver) = (TestApp::start().await, Receiver::start().await);
    let ada = app.user("ada").await;
    let secret = app.post_as(&ada.token, "/users/webhook-secret", json!({})).await.expect(200).json()["secret"].clone();
    let public = app.get("/.well-known/webhook-key").await.expect(200).text();
    let body = json!({"image": picture::base64_png(8, 8), "webhook_url": receiver.url("/hook")});
    let task = submit(&app, &ada, PRECISION, body).await;
    wait_until_settled(&app, &ada.token, &task).await;
    let callback = receiver.received().remove(0);

    // When its headers are missing or malformed
    let mut cases = Vec::new();
    let mut expected = Vec::new();
    for key in [secret.as_str().unwrap(), public.trim()] {
        let valid = case(&callback, &callback.body, key);
        for (headers, is_valid) in malformed(&valid["headers"]) {
            cases.push(json!({"headers": headers, "body": valid["body"], "key": valid["key"]}));
            expected.push(is_valid);
        }
    }

    // Then it is rejected, unless a valid signature accompanies the malformed one
    assert_in_all_languages(&json!(cases), &json!(expected));
    app.stop().await;
}

/// Asserts these results in every language that is installed.
fn assert_in_all_languages(cases: &Value, expected: &Value) {
    let rust_results = cases.as_array().unwrap().iter().map(verify_in_rust).map(Value::from).collect::<Value>();
    assert_eq!(&rust_results, expected, "Rust");

    let python = format!("{PYTHON}{IN_PYTHON}");
    let javascript = format!("{JAVASCRIPT}{IN_JAVASCRIPT}");

    // `go run` needs files: the sample with its package renamed, and a main function.
    let directory = tempfile::tempdir().unwrap();
    let files = ["verify.go", "main.go"].map(|name| directory.path().join(name));
    std::fs::write(&files[0], GO.replacen("package webhooks", "package main", 1)).unwrap();
    std::fs::write(&files[1], IN_GO).unwrap();
    let [sample, main] = files.each_ref().map(|file| file.to_str().unwrap());

    let mut installed = Vec::new();
    let programs: [(&str, &[&str]); 3] =
        [("python3", &["-c", &python]), ("node", &["-e", &javascript]), ("go", &["run", sample, main])];
    for (program, arguments) in programs {
        let Some(results) = run_program(program, arguments, cases) else { continue };
        assert_eq!(&results, expected, "{program}");
        installed.push(program);
    }
    println!("tested besides Rust: {installed:?}");
}
