//! Files of published archives, differences between versions, and badges.

use reqwest::Method;
use serde_json::json;

use crate::support::zip::{ZipTestEntry, zip};
use crate::support::{TestApp, TestUser};

const FILES: &str = "/nodes/face-tools/versions/1.0.0/files";

/// Starts a service with a node `face-tools` of the publisher `acme`.
async fn app_with_node() -> (TestApp, TestUser) {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    (app, alice)
}

async fn publish(app: &TestApp, author: &TestUser, version: &str, entries: &[ZipTestEntry]) {
    let body = json!({"node_version": {"version": version}});
    let created = app.post_as(&author.token, "/publishers/acme/nodes/face-tools/versions", body).await.expect(201);
    let link = created.json()["signedUrl"].as_str().unwrap().to_owned();
    let path = &link[link.find("/uploads/").unwrap()..];
    app.send(app.request(Method::PUT, path).body(zip(entries))).await.expect(200);
}

#[actix_web::test]
async fn the_files_of_a_version_are_listed_and_read() {
    // Given a version with text, code of a web page, a binary file, a link and a large file
    let (app, alice) = app_with_node().await;
    let entries = [
        ZipTestEntry::stored("node/page.html", b"<script>alert(1)</script>"),
        ZipTestEntry::deflated("README.md", "# Gesichtswerkzeuge \u{1f600}\n".as_bytes()),
        ZipTestEntry::stored("node/model.bin", b"\x00\xff"),
        ZipTestEntry::link("node/latest", "page.html"),
        ZipTestEntry::stored("node/large.txt", &vec![b'a'; 1024 * 1024 + 1]),
    ];
    publish(&app, &alice, "1.0.0", &entries).await;

    // When the files are listed, then they are ordered by path
    let listed = app.get(FILES).await.expect(200).json();
    let paths: Vec<_> = listed["files"].as_array().unwrap().iter().map(|file| file["path"].clone()).collect();
    assert_eq!(paths, ["README.md", "node/large.txt", "node/latest", "node/model.bin", "node/page.html"]);
    assert_eq!(listed["bytes"], 1024 * 1024 + 1 + 9 + 2 + 25 + 25);
    assert_eq!(listed["files"][2], json!({"path": "node/latest", "bytes": 9, "link": true}));

    // And every text is sent as plain text, even HTML
    let content = |path: &str| format!("{FILES}/content?path={path}");
    let readme = app.get(&content("README.md")).await.expect(200);
    assert_eq!(readme.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(readme.text(), "# Gesichtswerkzeuge \u{1f600}\n");
    let page = app.get(&content("node%2Fpage.html")).await.expect(200);
    assert_eq!(page.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    let model = app.get(&content("node/model.bin")).await.expect(200);
    assert_eq!((model.header("content-type"), &model.body[..]), (Some("application/octet-stream"), &b"\x00\xff"[..]));

    // And a client that has the file gets nothing
    let tag = readme.header("etag").unwrap().to_owned();
    let request = app.request(Method::GET, &content("README.md")).header("if-none-match", tag);
    assert!(app.send(request).await.expect(304).body.is_empty());

    // And what cannot be sent is explained
    let large = app.get(&content("node/large.txt")).await.expect(413).json();
    assert_eq!(large["message"], "the file has 1048577 bytes, more than 1048576: download the archive");
    assert_eq!(app.get(&content("node/latest")).await.expect(200).text(), "page.html");
    for path in ["node", "../README.md", "readme.md", ""] {
        let problem = app.get(&content(path)).await.expect(404).json();
        assert_eq!(problem["message"], format!("the archive has no file {path:?}"));
    }
    assert_eq!(app.get(&format!("{FILES}/content")).await.expect(400).json()["details"], json!(["/path is required"]));
    app.stop().await;
}

#[actix_web::test]
async fn two_versions_are_compared() {
    // Given two versions of a node
    let (app, alice) = app_with_node().await;
    let old = [ZipTestEntry::stored("a.py", b"one\ntwo\n"), ZipTestEntry::stored("gone.py", b"gone\n")];
    let new = [ZipTestEntry::stored("a.py", b"one\n2\n"), ZipTestEntry::stored("new.bin", b"\0")];
    publish(&app, &alice, "1.0.0", &old).await;
    publish(&app, &alice, "1.1.0", &new).await;

    // When they are compared, then every change is listed
    let path = "/nodes/face-tools/versions/1.1.0/diff";
    let difference = app.get(&format!("{path}?from=1.0.0")).await.expect(200).json();
    assert_eq!((&difference["from"], &difference["to"]), (&json!("1.0.0"), &json!("1.1.0")));
    let expected = json!([
        {"path": "a.py", "change": "modified", "old_bytes": 8, "new_bytes": 6,
            "patch": "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"},
        {"path": "gone.py", "change": "removed", "old_bytes": 5,
            "patch": "--- a/gone.py\n+++ b/gone.py\n@@ -1 +0,0 @@\n-gone\n"},
        {"path": "new.bin", "change": "added", "new_bytes": 1, "omitted": "binary"},
    ]);
    assert_eq!(difference["files"], expected);

    // And versions that do not exist or cannot be compared are reported
    app.get(&format!("{path}?from=9.0.0")).await.expect(404);
    app.get(&format!("{path}?from=old")).await.expect(400);
    app.get(path).await.expect(400);
    app.stop().await;
}

#[actix_web::test]
async fn a_badge_shows_the_version_the_downloads_or_the_rating() {
    // Given a node with a version, a review and no downloads
    let (app, alice) = app_with_node().await;
    publish(&app, &alice, "1.0.0", &[ZipTestEntry::stored("a.py", b"")]).await;
    app.post_as(&alice.token, "/nodes/face-tools/reviews?star=4", json!({})).await.expect(200);

    // When its badges are read, then each has its text
    let expected = [("", "version: 1.0.0"), ("?show=downloads", "downloads: 0"), ("?show=rating", "rating: 4.0 of 5")];
    for (query, title) in expected {
        let badge = app.get(&format!("/nodes/face-tools/badge.svg{query}")).await.expect(200);
        assert_eq!(badge.header("content-type"), Some("image/svg+xml"));
        assert_eq!(badge.header("cache-control"), Some("public, max-age=300"));
        assert!(badge.text().contains(&format!("<title>{title}</title>")), "{}", badge.text());
    }

    // And unknown content and nodes are reported
    let problem = app.get("/nodes/face-tools/badge.svg?show=stars").await.expect(400).json();
    assert_eq!(problem["details"], json!(["/show must be one of version downloads rating"]));
    app.get("/nodes/nothing/badge.svg").await.expect(404);

    // And the error of a banned node states the ban
    let reason = json!({"reason": "spam"});
    app.post_as(app.admin_token(), "/admin/nodes/face-tools/ban", reason).await.expect(204);
    assert!(app.get("/nodes/face-tools/badge.svg").await.expect(200).text().contains("node: banned"));
    app.stop().await;
}
