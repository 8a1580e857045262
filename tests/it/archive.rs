//! Archives of versions over HTTP: upload link, upload, download.

use std::path::Path;
use std::time::Duration;

use mediary::config::Settings;
use mediary::domain::value::Timestamp;
use mediary::environment::Environment;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::eventually::eventually;
use crate::support::zip::{ZipTestEntry, valid_archive, zip};
use crate::support::{TestApp, TestResponse, TestUser};

const VERSIONS: &str = "/publishers/acme/nodes/face-tools/versions";
const DOWNLOAD: &str = "/nodes/face-tools/versions/1.0.0/download";

async fn app() -> (TestApp, TestUser) {
    with_publisher(TestApp::start().await).await
}

async fn with_publisher(app: TestApp) -> (TestApp, TestUser) {
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    (app, alice)
}

/// Returns the path of an upload link; it stays valid when the service moves to another port.
fn path_of(response: &Value) -> String {
    let url = response["signedUrl"].as_str().expect("a link");
    url[url.find("/uploads/").expect("an upload link")..].to_owned()
}

async fn publish(app: &TestApp, token: &str, version: &str) -> String {
    let body = json!({"node_version": {"version": version}});
    path_of(&app.post_as(token, VERSIONS, body).await.expect(201).json())
}

async fn upload(app: &TestApp, link: &str, archive: Vec<u8>) -> TestResponse {
    app.send(app.request(Method::PUT, link).body(archive)).await
}

async fn get_with(app: &TestApp, path: &str, headers: &[(&'static str, &str)]) -> TestResponse {
    let request = app.request(Method::GET, path);
    app.send(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
}

fn files_below(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files_below(&path) } else { 1 }).sum()
}

/// Returns the number of files in the archive store.
fn archives(app: &TestApp) -> usize {
    files_below(&app.dir.path().join("archives"))
}

#[actix_web::test]
async fn an_upload_activates_the_version_and_is_downloaded_unchanged() {
    let (app, alice) = app().await;
    let body = json!({"node_version": {"version": "1.0.0"}});
    let published = app.post_as(&alice.token, VERSIONS, body).await.expect(201).json();
    assert_eq!(published["node_version"]["status"], "NodeVersionStatusPending");
    assert_eq!(published["node_version"].get("downloadUrl"), None);

    let request = app.request(Method::PUT, &path_of(&published)).header("content-type", "application/x-anything");
    let version = app.send(request.body(valid_archive())).await.expect(200).json();
    let url = app.url(DOWNLOAD);
    assert_eq!((&version["status"], &version["downloadUrl"]), (&json!("NodeVersionStatusActive"), &json!(url)));
    let node = app.get("/nodes/face-tools").await.expect(200).json();
    assert_eq!(
        (&node["latest_version"]["version"], &node["latest_version"]["downloadUrl"]),
        (&json!("1.0.0"), &json!(url))
    );

    let archive = valid_archive();
    let tag = format!("\"{:x}\"", Sha256::digest(valid_archive()));
    let full = get_with(&app, DOWNLOAD, &[("accept-encoding", "gzip")]).await.expect(200);
    assert!(full.body == archive, "the download has other bytes");
    for (name, value) in [
        ("etag", tag.as_str()),
        ("content-type", "application/zip"),
        ("content-disposition", "attachment; filename=\"face-tools-1.0.0.zip\""),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-cache"),
        ("accept-ranges", "bytes"),
    ] {
        assert_eq!(full.header(name), Some(value), "{name}");
    }
    let head = app.send(app.request(Method::HEAD, DOWNLOAD)).await.expect(200);
    assert_eq!((head.header("content-length"), head.body.len()), (Some(archive.len().to_string().as_str()), 0));
    assert!(get_with(&app, DOWNLOAD, &[("range", "bytes=5-9")]).await.expect(206).body == archive[5..10]);
    assert_eq!(
        get_with(&app, DOWNLOAD, &[("if-none-match", &tag)]).await.expect(304).header("etag"),
        Some(tag.as_str())
    );
    get_with(&app, DOWNLOAD, &[("range", "bytes=0-1"), ("if-range", &tag)]).await.expect(206);
    get_with(&app, DOWNLOAD, &[("range", "bytes=0-1"), ("if-range", "\"other\"")]).await.expect(200);
    get_with(&app, DOWNLOAD, &[("range", "bytes=99999999-")]).await.expect(416);
    app.stop().await;
}

#[actix_web::test]
async fn downloads_ignore_case_and_report_missing_resources() {
    let (app, alice) = app().await;
    publish(&app, &alice.token, "1.0.0").await;
    app.get_as(&alice.token, DOWNLOAD).await.expect(404);
    let redirect = app.get("/nodes/FACE-tools/versions/1.0.0/download?x=1").await.expect(302);
    assert_eq!(redirect.header("location"), Some(app.url(&format!("{DOWNLOAD}?x=1")).as_str()));
    for unknown in ["/nodes/none/versions/1.0.0/download", "/nodes/face-tools/versions/9.9.9/download"] {
        app.get(unknown).await.expect(404);
    }
    app.get("/nodes/face-tools/versions/nonsense/download").await.expect(404);
    app.stop().await;
}

#[actix_web::test]
async fn under_moderation_an_upload_waits_for_an_administrator() {
    let app = TestApp::start_with(|settings| settings.registry.moderation = true, Environment::system()).await;
    let (app, alice) = with_publisher(app).await;
    let link = publish(&app, &alice.token, "1.0.0").await;
    let pending = upload(&app, &link, valid_archive()).await.expect(200).json();
    assert_eq!(pending["status"], "NodeVersionStatusPending");
    app.get(DOWNLOAD).await.expect(403);
    app.get_as(&alice.token, DOWNLOAD).await.expect(200);
    app.get("/nodes/face-tools/install").await.expect(404);

    let body = json!({"status": "NodeVersionStatusActive"});
    app.put_as(app.admin_token(), "/admin/nodes/face-tools/versions/1.0.0", body).await.expect(200);
    app.get(DOWNLOAD).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn an_activated_version_accepts_no_archive_under_moderation() {
    // Given an Active version in a service without moderation, and a link for its archive
    let (app, alice) = app().await;
    let node = json!({"id": "face-tools", "latest_version": {"version": "1.0.0"}});
    app.post_as(&alice.token, "/publishers/acme/nodes", node).await.expect(201);
    let upload_path = format!("{VERSIONS}/1.0.0/upload");
    let link = path_of(&app.post_as(&alice.token, &upload_path, json!({})).await.expect(200).json());

    // When moderation of uploads is switched on
    let moderated = |settings: &mut Settings| settings.registry.moderation = true;
    let app = TestApp::start_in(app.stop().await, moderated, Environment::system()).await;

    // Then the version gets neither an archive nor another link
    for response in
        [upload(&app, &link, valid_archive()).await, app.post_as(&alice.token, &upload_path, json!({})).await]
    {
        let problem = response.expect(409).json();
        assert!(problem["detail"].as_str().unwrap().contains("without an archive"), "{problem}");
    }
    app.get(DOWNLOAD).await.expect(404);
    assert_eq!(archives(&app), 0);
    app.stop().await;
}

#[actix_web::test]
async fn an_upload_link_accepts_one_archive() {
    let (app, alice) = app().await;
    let first = publish(&app, &alice.token, "1.0.0").await;
    let upload_path = format!("{VERSIONS}/1.0.0/upload");
    let second = path_of(&app.post_as(&alice.token, &upload_path, json!({})).await.expect(200).json());

    let (a, b) = tokio::join!(
        upload(&app, &first, valid_archive()),
        upload(&app, &second, zip(&[ZipTestEntry::stored("b", b"b")]))
    );
    let mut statuses = [a.status, b.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{} {}", a.text(), b.text());
    for link in [&first, &second] {
        let problem = upload(&app, link, valid_archive()).await.expect(409).json();
        assert_eq!(problem["instance"], "/uploads/<ticket>");
    }
    app.post_as(&alice.token, &upload_path, json!({})).await.expect(409);
    app.stop().await;
}

#[actix_web::test]
async fn an_upload_link_expires_after_15_minutes() {
    let clock = Environment::manual(Timestamp::from_micros(1_800_000_000_000_000), 7);
    let (app, alice) = with_publisher(TestApp::start_with(|_| {}, clock.clone()).await).await;
    let link = publish(&app, &alice.token, "1.0.0").await;
    clock.advance(Duration::from_mins(15));
    let problem = upload(&app, &link, valid_archive()).await.expect(403).json();
    assert_eq!((&problem["error"], &problem["instance"]), (&json!("upload_link_expired"), &json!("/uploads/<ticket>")));

    let renewed = app.post_as(&alice.token, &format!("{VERSIONS}/1.0.0/upload"), json!({})).await.expect(200).json();
    clock.advance(Duration::from_mins(15) - Duration::from_secs(1));
    upload(&app, &path_of(&renewed), valid_archive()).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn an_upload_link_survives_a_restart() {
    let (app, alice) = app().await;
    let link = publish(&app, &alice.token, "1.0.0").await;
    let app = TestApp::start_in(app.stop().await, |_| {}, Environment::system()).await;
    upload(&app, &link, valid_archive()).await.expect(200);

    // And the next start sets archives without a version aside, and keeps the uploaded one
    let folder = app.dir.path().join("archives");
    let left = format!("{}.zip", "0".repeat(64));
    std::fs::create_dir(folder.join("00")).unwrap();
    std::fs::write(folder.join("00").join(&left), "left by a crash").unwrap();
    let app = TestApp::start_in(app.stop().await, |_| {}, Environment::system()).await;
    assert!(!folder.join("00").join(&left).exists() && folder.join("orphans").join(&left).exists());
    assert!(app.get(DOWNLOAD).await.expect(200).body == valid_archive());
    app.stop().await;
}

#[actix_web::test]
async fn a_forged_upload_link_is_rejected() {
    let (app, alice) = app().await;
    let link = publish(&app, &alice.token, "1.0.0").await;
    let changed = link.replace("/uploads/A", "/uploads/B");
    for forged in [changed.as_str(), "/uploads/x", "/uploads/%2e%2e%2fx", &format!("{link}A")] {
        let problem = upload(&app, forged, valid_archive()).await.expect(403).json();
        assert_eq!(problem["error"], "upload_link_invalid", "{forged}");
    }
    assert_ne!(changed, link);
    upload(&app, "/uploads/", valid_archive()).await.expect(404);
    app.get(&link).await.expect(405);
    app.stop().await;
}

#[actix_web::test]
async fn an_upload_link_has_the_rights_of_its_holder() {
    let (app, alice) = app().await;
    let bob = app.user("bob").await;
    app.put_as(&alice.token, &format!("/publishers/acme/members/{}", bob.id), json!({})).await.expect(200);
    let ci = app.access_token("acme", &alice).await;
    let token_link = publish(&app, &ci, "1.0.0").await;
    let bob_link = publish(&app, &bob.token, "1.0.1").await;

    let tokens = app.get_as(&alice.token, "/publishers/acme/tokens").await.expect(200).json();
    let path = format!("/publishers/acme/tokens/{}", tokens[0]["id"].as_str().unwrap());
    app.delete_as(&alice.token, &path).await.expect(204);
    assert_eq!(upload(&app, &token_link, valid_archive()).await.expect(403).json()["error"], "upload_link_invalid");

    app.delete_as(&alice.token, &format!("/publishers/acme/members/{}", bob.id)).await.expect(204);
    assert_eq!(upload(&app, &bob_link, valid_archive()).await.expect(403).json()["error"], "forbidden");
    assert_eq!(archives(&app), 0);
    app.stop().await;
}

#[actix_web::test]
async fn banned_and_deleted_versions_accept_no_archive() {
    let (app, alice) = app().await;
    let first = publish(&app, &alice.token, "1.0.0").await;
    let second = publish(&app, &alice.token, "1.0.1").await;
    app.delete_as(&alice.token, &format!("{VERSIONS}/1.0.0")).await.expect(204);
    upload(&app, &first, valid_archive()).await.expect(404);

    for subject in ["nodes/face-tools", "publishers/acme"] {
        let body = json!({"reason": "malware"});
        app.post_as(app.admin_token(), &format!("/admin/{subject}/ban"), body.clone()).await.expect(204);
        assert_eq!(upload(&app, &second, valid_archive()).await.expect(403).json()["error"], "banned", "{subject}");
        app.post_as(app.admin_token(), &format!("/admin/{subject}/unban"), body).await.expect(204);
    }
    upload(&app, &second, valid_archive()).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn an_invalid_archive_is_explained_and_keeps_the_link_valid() {
    let (app, alice) = app().await;
    let link = publish(&app, &alice.token, "1.0.0").await;
    let invalid = zip(&[
        ZipTestEntry::stored("../evil", b"x"),
        ZipTestEntry::stored("good", b"x"),
        ZipTestEntry::link("link", "/etc"),
    ]);
    let problem = upload(&app, &link, invalid).await.expect(400).json();
    assert_eq!(problem["error"], "invalid_archive");
    let expected =
        json!(["\"../evil\" leads out of its directory", "\"link\" is a symbolic link that leaves the archive"]);
    assert_eq!(problem["details"], expected);

    let entries: Vec<_> = (0..25).map(|n| ZipTestEntry::stored(&format!("../{n}"), b"")).collect();
    let problem = upload(&app, &link, zip(&entries)).await.expect(400).json();
    assert_eq!(problem["details"].as_array().map(Vec::len), Some(20));
    assert!(problem["detail"].as_str().unwrap().ends_with("; and 22 more"), "{problem}");
    for no_zip in [Vec::new(), b"no zip".to_vec(), valid_archive()[..200].to_vec()] {
        upload(&app, &link, no_zip).await.expect(400);
    }
    let coded = app.request(Method::PUT, &link).header("content-encoding", "gzip").body(valid_archive());
    app.send(coded).await.expect(415);

    assert_eq!(archives(&app), 0);
    upload(&app, &link, valid_archive()).await.expect(200);
    assert_eq!(archives(&app), 1);
    app.stop().await;
}

/// Opens a connection and starts an upload on it.
async fn begin_upload(app: &TestApp, link: &str, length: u64) -> TcpStream {
    let mut connection = TcpStream::connect(app.app.address()).await.expect("a connection");
    let head = format!("PUT {link} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
    connection.write_all(head.as_bytes()).await.expect("sent");
    connection
}

#[actix_web::test]
async fn an_oversized_archive_is_rejected_before_its_body() {
    let (app, alice) = app().await;
    let link = publish(&app, &alice.token, "1.0.0").await;
    let mut connection = begin_upload(&app, &link, (100 << 20) + 1).await;
    let mut response = [0; 12];
    connection.read_exact(&mut response).await.expect("a response");
    assert_eq!(&response, b"HTTP/1.1 413");
    assert_eq!(archives(&app), 0);
    app.stop().await;
}

#[actix_web::test]
async fn an_interrupted_upload_leaves_no_file() {
    let (app, alice) = app().await;
    let link = publish(&app, &alice.token, "1.0.0").await;
    let mut connection = begin_upload(&app, &link, 1_000_000).await;
    connection.write_all(&vec![7; 500_000]).await.expect("sent");
    wait_until_stored(&app, 1).await;
    drop(connection);
    wait_until_stored(&app, 0).await;
    upload_when_free(&app, &link, valid_archive()).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn a_ban_during_an_upload_rejects_it() {
    // Given a half-finished upload
    let (app, alice) = app().await;
    let link = publish(&app, &alice.token, "1.0.0").await;
    let archive = valid_archive();
    let mut connection = begin_upload(&app, &link, archive.len() as u64).await;
    connection.write_all(&archive[..archive.len() / 2]).await.expect("sent");
    wait_until_stored(&app, 1).await;

    // When its publisher is banned before the rest arrives
    let body = json!({"reason": "malware"});
    app.post_as(app.admin_token(), "/admin/publishers/acme/ban", body).await.expect(204);
    connection.write_all(&archive[archive.len() / 2..]).await.expect("sent");

    // Then the upload is rejected
    let mut response = [0; 12];
    connection.read_exact(&mut response).await.expect("a response");
    assert_eq!(&response, b"HTTP/1.1 403");
    let version = app.get("/nodes/face-tools/versions/1.0.0").await.expect(200).json();
    assert_eq!((&version["status"], version.get("downloadUrl")), (&json!("NodeVersionStatusPending"), None));
    app.stop().await;
}

#[actix_web::test]
async fn an_upload_can_be_retried_with_an_idempotency_key() {
    let (app, alice) = app().await;
    let link = publish(&app, &alice.token, "1.0.0").await;
    let keyed = |archive| app.send(app.request(Method::PUT, &link).header("idempotency-key", "k").body(archive));
    let first = keyed(valid_archive()).await.expect(200);
    assert_eq!(first.header("idempotent-replayed"), None);

    let repeated = keyed(valid_archive()).await.expect(200);
    assert_eq!((repeated.header("idempotent-replayed"), repeated.json()), (Some("true"), first.json()));

    let other = zip(&[ZipTestEntry::stored("b", b"b")]);
    assert_eq!(keyed(other.clone()).await.expect(422).json()["error"], "idempotency_key_reused");

    for archive in [valid_archive(), other] {
        upload(&app, &link, archive).await.expect(409);
    }
    assert_eq!(archives(&app), 1);
    app.delete_as(&alice.token, &format!("{VERSIONS}/1.0.0")).await.expect(204);
    keyed(valid_archive()).await.expect(404);
    app.stop().await;
}

#[actix_web::test]
async fn an_invalid_idempotency_key_is_rejected_before_anything_is_stored() {
    let (app, alice) = app().await;
    let link = publish(&app, &alice.token, "1.0.0").await;
    let with_key = |key| app.send(app.request(Method::PUT, &link).header("idempotency-key", key).body(valid_archive()));
    with_key("two words").await.expect(400);
    assert_eq!(archives(&app), 0);
    with_key("one-word").await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn a_version_accepts_one_upload_at_a_time() {
    let (app, alice) = app().await;
    let link = publish(&app, &alice.token, "1.0.0").await;
    let connection = begin_upload(&app, &link, 1_000_000).await;
    wait_until_stored(&app, 1).await;
    let problem = upload(&app, &link, valid_archive()).await.expect(409);
    assert_eq!((problem.header("retry-after"), &problem.json()["error"]), (Some("5"), &json!("conflict")));
    drop(connection);
    wait_until_stored(&app, 0).await;
    upload_when_free(&app, &link, valid_archive()).await.expect(200);
    app.stop().await;
}

/// Like [`upload`], but waits until the service has noticed the end of the previous upload.
async fn upload_when_free(app: &TestApp, link: &str, archive: Vec<u8>) -> TestResponse {
    eventually("the version accepts an upload", async || {
        let response = upload(app, link, archive.clone()).await;
        response.header("retry-after").is_none().then_some(response)
    })
    .await
}

/// Waits until the store holds `files` files.
async fn wait_until_stored(app: &TestApp, files: usize) {
    eventually(format!("the store holds {files} files"), async || archives(app) == files).await;
}
