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

/// Reads the cases from stdin and prints the results.
const IN_PYTHON: &str = r#"
import json, sys
print(json.dumps([verify(c["headers"], base64.b64decode(c["body"]), c["key"]) for c in json.load(sys.stdin)]))
"#;
const IN_JAVASCRIPT: &str = r#"
const asked = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(asked.map((c) => verify(c.headers, Buffer.from(c.body, "base64"), c.key))));
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
	var asked []struct {
		Headers   map[string]string
		Body, Key string
	}
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		panic(err)
	}
	answers := []bool{}
	for _, one := range asked {
		headers := http.Header{}
		for name, value := range one.Headers {
			headers.Set(name, value)
		}
		body, _ := base64.StdEncoding.DecodeString(one.Body)
		answers = append(answers, Verify(headers, body, one.Key, 5*time.Minute))
	}
	json.NewEncoder(os.Stdout).Encode(answers)
}
"#;

fn question(callback: &ReceivedRequest, body: &[u8], key: &str) -> Value {
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let headers: Map<_, _> = names.iter().map(|name| ((*name).to_owned(), callback.header(name).into())).collect();
    json!({"headers": headers, "body": STANDARD.encode(body), "key": key})
}

/// Output of the program; `None` if it is not installed.
fn run_program(program: &str, arguments: &[&str], questions: &Value) -> Option<Value> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    child.stdin.take().unwrap().write_all(questions.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if errors.contains("No module named 'cryptography'") {
        return None;
    }
    assert!(output.status.success(), "{program}: {errors}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Result of the Rust sample for one case.
fn in_rust(question: &Value) -> bool {
    let body = STANDARD.decode(question["body"].as_str().unwrap()).unwrap();
    let header = |name: &str| question["headers"][name].as_str();
    verify(header, &body, question["key"].as_str().unwrap(), Duration::from_mins(5)).is_some()
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
    let questions = json!([
        question(&callback, &callback.body, &secrets[0]),
        question(&callback, &callback.body, &secrets[1]),
        question(&callback, &callback.body, public.trim()),
        question(&callback, &callback.body, &other),
        question(&callback, &callback.body, &foreign_key),
        question(&callback, &changed, &secrets[1]),
        question(&callback, &changed, public.trim()),
        question(&outdated, &callback.body, &secrets[1]),
    ]);

    // Then the first three pass, in every installed language
    let expected = json!([true, true, true, false, false, false, false, false]);
    assert_in_all_languages(&questions, &expected);
}

/// Malformed variants of a real callback's headers, each with the expected result of the check.
fn malformed(true_headers: &Value) -> Vec<(Value, bool)> {
    let mut all = Vec::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let mut without = true_headers.clone();
        without.as_object_mut().unwrap().remove(name);
        all.push((without, false));
    }
    let mut add = |name: &str, value: &str, is_true| {
        let mut headers = true_headers.clone();
        headers[name] = value.into();
        all.push((headers, is_true));
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
    let signature = true_headers["webhook-signature"].as_str().unwrap();
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
    let (mut questions, mut expected) = (Vec::new(), Vec::new());
    for key in [secret.as_str().unwrap(), public.trim()] {
        let requested = question(&callback, &callback.body, key);
        for (headers, is_true) in malformed(&requested["headers"]) {
            questions.push(json!({"headers": headers, "body": requested["body"], "key": requested["key"]}));
            expected.push(is_true);
        }
    }

    // Then it is rejected, unless a valid signature accompanies the malformed one
    assert_in_all_languages(&json!(questions), &json!(expected));
    app.stop().await;
}

/// Asserts these results in every language that is installed.
fn assert_in_all_languages(questions: &Value, expected: &Value) {
    let requested = questions.as_array().unwrap();
    assert_eq!(&requested.iter().map(in_rust).map(Value::from).collect::<Value>(), expected);
    let python = format!("{PYTHON}{IN_PYTHON}");
    let javascript = format!("{JAVASCRIPT}{IN_JAVASCRIPT}");
    // Go runs files: the sample with its package renamed, and a generated main.
    let directory = tempfile::tempdir().unwrap();
    let files = ["verify.go", "main.go"].map(|name| directory.path().join(name));
    std::fs::write(&files[0], GO.replacen("package webhooks", "package main", 1)).unwrap();
    std::fs::write(&files[1], IN_GO).unwrap();
    let [sample, main] = files.each_ref().map(|file| file.to_str().unwrap());
    let mut attempted = Vec::new();
    let programs: [(&str, &[&str]); 3] =
        [("python3", &["-c", &python]), ("node", &["-e", &javascript]), ("go", &["run", sample, main])];
    for (program, arguments) in programs {
        let Some(responses) = run_program(program, arguments, questions) else { continue };
        assert_eq!(&responses, expected, "{program}");
        attempted.push(program);
    }
    println!("tried: {attempted:?}");
}
