//! `mediary install`: downloads a node and unpacks it.

use serde_json::{Value, json};

use super::Workplace;
use crate::support::TestApp;
use crate::support::eventually::eventually;
use crate::support::files::{FileServer, status};
use crate::support::zip::{ZipTestEntry, valid_archive, zip};

/// Starts a service with a node whose version 1.0.0 has an archive, and 1.1.0 has none.
async fn registry() -> TestApp {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    app.publisher("acme", &ada).await;
    let path = "/publishers/acme/nodes/face-tools/versions";
    let body = json!({"node": {}, "node_version": {"version": "1.0.0"}});
    let published = app.post_as(&ada.token, path, body).await.expect(201).json();
    let url = published["signedUrl"].as_str().unwrap().to_owned();
    let request = crate::support::client().put(url).header("content-type", "application/zip").body(valid_archive());
    app.send(request).await.expect(200);
    app
}

#[actix_web::test]
async fn a_node_is_installed_and_not_overwritten() {
    let app = registry().await;
    let place = Workplace::new();
    let base = app.url("");

    // When a node is installed
    let installed = place.run(&["install", "face-tools", "--url", &base]).await.expect(0);

    // Then its files are there, and nothing else
    installed.assert_contains(&["face-tools 1.0.0", "2 files"]);
    let readme = place.path("face-tools/face_tools/README.md");
    assert_eq!(std::fs::read_to_string(&readme).unwrap(), "# Face tools\n");
    assert_eq!(std::fs::read_dir(place.path("face-tools")).unwrap().count(), 1);
    assert_eq!(std::fs::read_dir(place.path("")).unwrap().count(), 1);

    // When its id is given in another case, then it is installed where the author's spelling says
    std::fs::remove_dir_all(place.path("face-tools")).unwrap();
    place.run(&["install", "FACE-tools", "--url", &base]).await.expect(0);
    assert!(place.path("face-tools/face_tools/README.md").exists());

    // When it is installed again, then only --force replaces the files; others stay
    std::fs::write(&readme, "mine").unwrap();
    place.write("face-tools/notes.txt", "mine");
    let refused = place.run(&["install", "face-tools", "--url", &base]).await.expect(2);
    assert!(refused.err.contains("--force"), "{}", refused.err);
    assert_eq!(std::fs::read_to_string(&readme).unwrap(), "mine");
    place.run(&["install", "face-tools@1.0.0", "--force", "--url", &base]).await.expect(0);
    assert_eq!(std::fs::read_to_string(&readme).unwrap(), "# Face tools\n");
    assert_eq!(std::fs::read_to_string(place.path("face-tools/notes.txt")).unwrap(), "mine");

    // And unknown nodes and versions install nothing
    place.run(&["install", "face-tools@9.9.9", "-o", "new", "--url", &base]).await.expect(1);
    place.run(&["install", "nothing", "-o", "new", "--url", &base]).await.expect(1);
    place.run(&["install", "face-tools@x", "-o", "new", "--url", &base]).await.expect(2);
    assert!(!place.path("new").exists());
}

#[actix_web::test]
async fn nodes_are_listed_in_any_order_and_compared() {
    // Given two nodes, one of them with two versions
    let app = registry().await;
    let eve = app.user("eve").await;
    app.publisher("zeta", &eve).await;
    let node = json!({"id": "sky-tools", "name": "Sky tools", "supported_os": ["Linux"], "license": "MIT"});
    app.post_as(&eve.token, "/publishers/zeta/nodes", node).await.expect(201);
    let body = json!({"node_version": {"version": "1.1.0", "changelog": "Clouds", "dependencies": ["numpy"]}});
    let path = "/publishers/acme/nodes/face-tools/versions";
    let published = app.post_as(app.admin_token(), path, body).await.expect(201).json();
    let archive = zip(&[ZipTestEntry::stored("face_tools/README.md", b"# Face and sky tools\n")]);
    let url = published["signedUrl"].as_str().unwrap();
    let request = crate::support::client().put(url).header("content-type", "application/zip").body(archive);
    app.send(request).await.expect(200);
    let place = Workplace::new();
    let base = app.url("");
    let run = async |arguments: &[&str]| place.run(&[arguments, &["--url", &base]].concat()).await;

    // When they are listed, then only the requested ones, in the requested order
    let order = |text: &str| {
        text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(order(&run(&["list", "--sort", "name"]).await.expect(0).out), ["face-tools", "sky-tools"]);
    assert_eq!(order(&run(&["list", "--sort", "name", "--reverse"]).await.expect(0).out), ["sky-tools", "face-tools"]);
    assert_eq!(order(&run(&["list", "--os", "linux"]).await.expect(0).out), ["sky-tools"]);
    assert_eq!(
        order(&run(&["search", "tools", "--sort", "publisher"]).await.expect(0).out),
        ["face-tools", "sky-tools"]
    );
    let json: Value = serde_json::from_str(&run(&["list", "--limit", "1", "--json"]).await.expect(0).out).unwrap();
    assert_eq!((&json["total"], json["nodes"].as_array().unwrap().len()), (&json!(2), 1));
    run(&["list", "--limit", "1"]).await.expect(0).assert_contains(&["1 of 2 nodes"]);
    run(&["list", "--sort", "updated"]).await.expect(0).assert_contains(&["PUBLISHED"]);
    run(&["list", "--sort", "colour"]).await.expect(2);

    // When two versions are compared, then their fields and files
    let compared = run(&["compare", "face-tools@1.0.0", "face-tools@1.1.0"]).await.expect(0);
    compared.assert_contains(&[
        "dependencies",
        "+numpy",
        "changelog",
        "Clouds",
        "modified",
        "face_tools/README.md",
        "changed file",
    ]);
    let patch = run(&["compare", "face-tools@1.0.0", "--patch"]).await.expect(0);
    patch.assert_contains(&["-# Face tools", "+# Face and sky tools"]);
    let json = run(&["compare", "face-tools@1.0.0", "face-tools", "--json"]).await.expect(0).out;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["versions"][1]["version"], json["files"].is_array()), (&json!("1.1.0"), true));

    // And two nodes are compared by their fields
    run(&["compare", "face-tools", "sky-tools"]).await.expect(0).assert_contains(&["acme", "zeta", "MIT", "1.1.0"]);
    run(&["compare", "face-tools"]).await.expect(2);
    let latest = run(&["compare", "face-tools@1.1.0"]).await.expect(2);
    assert!(latest.err.contains("1.1.0 is the latest version; name another one"), "{}", latest.err);
    run(&["compare", "face-tools@9.0.0"]).await.expect(1);
    run(&["compare", "face-tools", "sky-tools", "--patch"]).await.expect(2);

    // And ids in another case name the same nodes, although the service redirects them
    run(&["show", "FACE-tools"]).await.expect(0).assert_contains(&["(face-tools)", "acme"]);
    run(&["show", "FACE-tools@1.0.0"]).await.expect(0).assert_contains(&["Install: mediary install face-tools@1.0.0"]);
    run(&["compare", "FACE-tools", "Sky-Tools"]).await.expect(0).assert_contains(&["acme", "zeta"]);
    run(&["compare", "FACE-tools@1.0.0"]).await.expect(0).assert_contains(&["modified"]);

    // And a version is shown with its whole changelog and its dependencies
    run(&["show", "face-tools@1.1.0"]).await.expect(0).assert_contains(&["Clouds", "dependencies  numpy"]);
    run(&["show", "sky-tools"]).await.expect(0).assert_contains(&["systems       Linux", "license       MIT"]);

    // When one of the archives is readable to members only, then the fields are compared, and nothing is a patch
    let flag = json!({"status": "NodeVersionStatusFlagged", "status_reason": "odd imports"});
    let path = "/admin/nodes/face-tools/versions/1.0.0";
    app.put_as(app.admin_token(), path, flag).await.expect(200);
    let arguments = ["compare", "face-tools@1.0.0", "face-tools@1.1.0"];
    run(&arguments).await.expect(0).assert_contains(&["flagged", "Clouds", "not readable to you"]);
    let refused = run(&[&arguments[..], &["--patch"]].concat()).await.expect(1);
    assert!(refused.err.contains("members"), "{}", refused.err);
}

/// Returns a response with a body and an entity tag.
fn tagged(body: &[u8], tag: &str) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\netag: \"{tag}\"\r\nconnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[actix_web::test]
async fn an_archive_that_escapes_or_is_damaged_is_not_installed() {
    // Given services whose archives lead out of the directory, by name and by link, have another hash, or are not
    // archives
    let by_name = zip(&[ZipTestEntry::stored("a.py", b""), ZipTestEntry::stored("../escaped.py", b"x")]);
    let by_link = zip(&[ZipTestEntry::link("out", "../.."), ZipTestEntry::stored("out/escaped.py", b"x")]);
    let other_digest = "0".repeat(64);
    for (archive, tag, expected) in [
        (by_name, "", "leads out of its directory"),
        (by_link, "", "symbolic link that leaves the archive"),
        (valid_archive(), other_digest.as_str(), "the download is damaged"),
        (b"no zip".to_vec(), "", "not safe"),
    ] {
        let tag = tag.to_owned();
        let server = FileServer::with_replies(move |path: &str| match path {
            "/archive.zip" => tagged(&archive, &tag),
            _ => status("404 Not Found", ""),
        })
        .await;
        let version = json!({"version": "1.0.0", "downloadUrl": server.url("/archive.zip")});
        let body = json!({"latest_version": version}).to_string();
        let registry = FileServer::with_replies(move |_: &str| tagged(body.as_bytes(), "")).await;
        let place = Workplace::new();

        // When a node is installed from there
        let base = registry.url("");
        let output =
            place.run(&["install", "face-tools", "-o", "a/b", "--url", base.trim_end_matches('/')]).await.expect(1);

        // Then the reason is named, no file is left, and no download is counted
        assert!(output.err.contains(expected), "{expected}: {}", output.err);
        assert_eq!(registry.requested_paths(), ["/nodes/face-tools"]);
        assert!(!place.path("a/b").exists() && !place.path("escaped.py").exists());
        assert_eq!(std::fs::read_dir(place.path("a")).unwrap().count(), 0);
    }
}

#[actix_web::test]
async fn an_installation_is_counted_and_a_failed_one_names_its_reason() {
    // Given a node of which one version has no archive
    let app = registry().await;
    let body = json!({"node": {"repository": "https://example.org/face-tools"}, "node_version": {"version": "1.1.0"}});
    app.put_as(app.admin_token(), "/publishers/acme/nodes/face-tools", body["node"].clone()).await.expect(200);
    app.post_as(app.admin_token(), "/publishers/acme/nodes/face-tools/versions", body).await.expect(201);
    let place = Workplace::new();
    let base = app.url("");

    // When that version is installed, then the error says where the files are
    let failed = place.run(&["install", "face-tools@1.1.0", "--url", &base]).await.expect(1);
    let expected = "version 1.1.0 of face-tools has no archive: its publisher uploaded none; get the files from its \
                    repository https://example.org/face-tools";
    assert!(failed.err.contains(expected), "{}", failed.err);

    // When the archive cannot be downloaded, then the error names its URL and the reason
    let missing = FileServer::with_replies(|path: &str| match path {
        "/nodes/face-tools" => {
            let version = json!({"version": "1.0.0", "downloadUrl": "http://127.0.0.1:1/archive.zip"});
            tagged(json!({"latest_version": version}).to_string().as_bytes(), "")
        }
        _ => status("404 Not Found", ""),
    })
    .await;
    let url = missing.url("");
    let failed = place.run(&["install", "face-tools", "--url", &url]).await.expect(2);
    assert!(
        failed.err.contains("cannot download face-tools 1.0.0 from http://127.0.0.1:1/archive.zip"),
        "{}",
        failed.err
    );
    assert_eq!(missing.requested_paths(), ["/nodes/face-tools"]);

    // When a version is installed, then one download is counted
    place.run(&["install", "face-tools", "--url", &base]).await.expect(0);
    eventually("the download is counted", async || {
        app.get("/nodes/face-tools").await.expect(200).json()["downloads"] == 1
    })
    .await;
}
