//! Secrets: none that passes through the service is found in its data directory or in its logs at the most verbose
//! level, neither in plain text nor in base64 or hexadecimal.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::issuer::{SigningKey, TestIssuer};
use crate::support::process::{Process, command};
use crate::support::receiver::Receiver;
use crate::support::zip::valid_archive;
use crate::support::{client, picture};

const UPSCALER: &str = "/proxy/imagevendor/v1/ai/image-upscaler";
const ADMINISTRATOR: &str = "00000000-0000-4000-8000-000000000001";
/// Public text, to prove that the search works.
const PUBLIC: &str = "publicly-known-node";
/// Number of characters of a picture's base64 text that are searched for together.
const PIECE: usize = 48;

/// Texts that must not be found, each with a name.
type SecretSet = Vec<(&'static str, String)>;

#[actix_web::test]
async fn no_secret_is_in_the_data_directory_or_the_logs() {
    // Given a service at the most verbose log level
    let data = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    let collector = Receiver::start().await;
    let key = SigningKey::p256();
    let issuer = TestIssuer::start(&[key.public_jwk("1")]).await;
    let service = verbose_service(data.path(), &issuer, &collector);

    // When secrets of every kind pass through it
    let mut secrets = use_secrets(&service, data.path(), &receiver).await;
    secrets.extend(send_issuer_tokens(&issuer, &key, &service).await);
    collector.wait_until(|batches| !batches.is_empty()).await;
    let (status, log) = service.terminate();
    assert!(status.success(), "{status}");

    // Then none is in its files or logs
    assert!(log.contains("TRACE"), "the log is not at its most verbose level");
    let sources = [stored_files(data.path()), vec![(PathBuf::from("the log"), log.into_bytes())]];
    let spans = collector.received().into_iter().map(|batch| (PathBuf::from("the trace collector"), batch.body));
    let all_sources = [sources.concat(), spans.collect()].concat();
    let mut found = Vec::new();
    for (label, secret) in &secrets {
        assert!(secret.len() >= 16, "{label} is too short to be searched for: {secret}");
        for form in forms(secret) {
            let matching = all_sources.iter().filter(|(_, bytes)| contains(bytes, form.as_bytes()));
            found.extend(matching.map(|(source, _)| format!("{label} is in {}: {form}", source.display())));
        }
    }
    assert!(found.is_empty(), "{found:#?}");

    // And public text is found, which proves that the search works
    let public_count = all_sources.iter().filter(|(_, bytes)| contains(bytes, PUBLIC.as_bytes())).count();
    assert!(public_count >= 2, "the search finds nothing at all");
    let traced = all_sources.iter().any(|(source, _)| source.starts_with("the trace collector"));
    assert!(traced, "nothing was traced");
    println!("{} secrets, {} places", secrets.len(), all_sources.len());
}

fn verbose_service(data: &Path, issuer: &TestIssuer, collector: &Receiver) -> Process {
    let mut command = command(data);
    command.env_remove("MEDIARY_ADMIN_TOKEN").env("MEDIARY_LOG__LEVEL", "trace");
    command.env("MEDIARY_AUTH__OIDC__ISSUER", issuer.url()).env("MEDIARY_AUTH__OIDC__AUDIENCE", "mediary");
    command.env("MEDIARY_TELEMETRY__OTLP_ENDPOINT", collector.url(""));
    Process::from_command(&mut command)
}

/// Returns every file of the data directory, except the one that holds the administrator's token on purpose.
fn stored_files(data: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = crate::slow::damage::files(data).into_iter().filter(|file| !file.ends_with("admin-token"));
    files.map(|file| (file.strip_prefix(data).unwrap().to_owned(), std::fs::read(&file).unwrap())).collect()
}

fn contains(bytes: &[u8], searched: &[u8]) -> bool {
    // Most offsets do not match even the first bytes.
    let first = searched[0];
    let mut remaining = bytes;
    while let Some(at) = remaining.iter().position(|byte| *byte == first) {
        if remaining[at..].starts_with(searched) {
            return true;
        }
        remaining = &remaining[at + 1..];
    }
    false
}

/// Returns the encodings in which a secret could be stored.
fn forms(secret: &str) -> Vec<String> {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap();
    let hex: String = secret.bytes().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
    vec![secret.to_owned(), STANDARD_NO_PAD.encode(secret), URL_SAFE_NO_PAD.encode(secret), hex]
}

struct ApiCaller<'s> {
    service: &'s Process,
    token: String,
}

impl ApiCaller<'_> {
    async fn send(&self, method: Method, path: &str, key: Option<&str>, body: Value) -> Value {
        let request = client().request(method, self.service.url(path)).bearer_auth(&self.token).json(&body);
        let request = key.into_iter().fold(request, |request, key| request.header("Idempotency-Key", key));
        let response = request.send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        self.send(Method::POST, path, None, body).await
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// Lets secrets of every kind pass through the service and returns them.
async fn use_secrets(service: &Process, data: &Path, receiver: &Receiver) -> SecretSet {
    let token = std::fs::read_to_string(data.join("admin-token")).unwrap().trim().to_owned();
    let admin = ApiCaller { service, token: token.clone() };
    let mut secrets = vec![("the administrator token", token)];

    // Tokens of each kind, one of them created with an idempotency key, whose response is stored.
    let tokens = format!("/admin/users/{ADMINISTRATOR}/tokens");
    let user = text(&admin.post(&tokens, json!({"name": "plain"})).await["token"]);
    let key = "idempotency-key-of-a-token";
    let keyed_response = admin.send(Method::POST, &tokens, Some(key), json!({"name": "kept"})).await;
    let replayed = admin.send(Method::POST, &tokens, Some(key), json!({"name": "kept"})).await;
    assert_eq!(keyed_response["token"], replayed["token"], "the response was not stored");
    admin.post("/publishers", json!({"id": "keeper"})).await;
    let access = text(&admin.post("/publishers/keeper/tokens", json!({"name": "ci"})).await["token"]);
    secrets.extend([
        ("a user's token", user.clone()),
        ("a token in a stored response", text(&keyed_response["token"])),
        ("an idempotency key", key.to_owned()),
        ("a publisher's access token", access.clone()),
    ]);

    secrets.push(("an upload link", publish(service, &access).await));
    secrets.extend(send_foreign_credentials(service).await);

    let signing = text(&admin.post("/users/webhook-secret", json!({})).await["secret"]);
    let key = "idempotency-key-of-a-webhook-secret";
    let keyed_response = admin.send(Method::POST, "/users/webhook-secret", Some(key), json!({})).await;
    secrets.extend([
        ("a webhook secret", signing),
        ("a webhook secret in a stored response", text(&keyed_response["secret"])),
    ]);

    // A picture, as JSON contains it.
    let owner = ApiCaller { service, token: user };
    let picture = picture::base64_png(40, 40);
    let body = json!({"image": picture, "webhook_url": receiver.url("/hook")});
    let task = text(&owner.post(UPSCALER, body).await["data"]["task_id"]);
    let pieces = picture.as_bytes().chunks_exact(PIECE).map(|piece| String::from_utf8(piece.to_vec()).unwrap());
    secrets.extend(pieces.map(|piece| ("a piece of a picture's text", piece)));

    // Both callbacks of the task are signed and sent.
    receiver.wait_until(|received| received.iter().filter(|callback| callback.task_id() == task).count() == 2).await;

    // Zeros are all A in base64, and such a piece could be found by chance.
    secrets.retain(|(_, secret)| !secret.bytes().all(|byte| byte == b'A'));
    secrets
}

/// Publishes a version with an archive; returns the secret part of the upload link.
async fn publish(service: &Process, access: &str) -> String {
    let publisher = ApiCaller { service, token: access.to_owned() };
    let nodes = "/publishers/keeper/nodes";
    publisher.post(nodes, json!({"id": PUBLIC})).await;
    let version = json!({"node_version": {"version": "1.0.0"}});
    let link = text(&publisher.post(&format!("{nodes}/{PUBLIC}/versions"), version).await["signedUrl"]);
    let uploaded = client().put(&link).body(valid_archive()).send().await.unwrap();
    assert_eq!(uploaded.status(), 200);
    link[link.find("/uploads/").unwrap() + "/uploads/".len()..].to_owned()
}

/// Sends a valid and an invalid token of an issuer; returns their secret parts.
async fn send_issuer_tokens(issuer: &TestIssuer, key: &SigningKey, service: &Process) -> SecretSet {
    let claims =
        |audience: &str| json!({"iss": issuer.url(), "sub": "subject-at-the-issuer", "aud": audience, "exp": 1e11});
    let valid_token = key.token("1", &claims("mediary"));
    let invalid_token = key.token("1", &claims("another-service"));
    for (token, status) in [(&valid_token, 200), (&invalid_token, 401)] {
        assert_eq!(client().get(service.url("/users")).bearer_auth(token).send().await.unwrap().status(), status);
    }
    let signature = |token: &str| token.rsplit('.').next().unwrap().to_owned();
    vec![
        ("the signature of a token of an issuer", signature(&valid_token)),
        ("the signature of a rejected token", signature(&invalid_token)),
        ("the subject of a token of the issuer", "subject-at-the-issuer".to_owned()),
    ]
}

/// Sends credentials of other services, in places where clients put them by mistake; returns them.
async fn send_foreign_credentials(service: &Process) -> SecretSet {
    let bearer = "a-token-of-another-service-in-a-header";
    let with_token = client().post(service.url("/publishers")).bearer_auth(bearer).json(&json!({"id": "x"}));
    assert_eq!(with_token.send().await.unwrap().status(), 401);
    let password = "password-of-a-user";
    let with_password = client().post(service.url("/publishers")).basic_auth("user", Some(password)).json(&json!({}));
    assert_eq!(with_password.send().await.unwrap().status(), 401);
    let basic = STANDARD.encode(format!("user:{password}"));
    let field = "a-secret-in-an-unknown-field";
    let with_field = client().post(service.url("/publishers")).bearer_auth(bearer).json(&json!({"password": field}));
    assert!(with_field.send().await.unwrap().status().is_client_error());
    vec![
        ("a foreign token", bearer.to_owned()),
        ("a foreign password", password.to_owned()),
        ("a foreign password in base64", basic),
        ("a secret in an unknown field", field.to_owned()),
    ]
}
