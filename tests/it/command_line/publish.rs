//! `init`, `pack`, `publish`, `search` and `show`.

use serde_json::Value;

use super::Workplace;
use crate::support::TestApp;
use crate::support::picture::png;

/// Starts a service and writes a node for it at the workplace of its author.
async fn author() -> (TestApp, Workplace) {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    app.publisher("acme", &ada).await;
    let place = Workplace::of_user(&app, &ada.token);
    place.write("face-tools/__init__.py", "NODES = {}\n");
    place.write("face-tools/lib/masks.py", "pass\n");
    place.write("face-tools/.env", "TOKEN=secret\n");
    place.write("face-tools/.git/config", "x");
    let arguments = ["init", "face-tools", "--publisher", "acme", "--description", "Masks and landmarks"];
    place.run(&arguments).await.expect(0).assert_contains(&["mediary-node.toml", ".mediaryignore"]);
    let ignored = std::fs::read_to_string(place.path("face-tools/.mediaryignore")).unwrap();
    assert!(ignored.starts_with("# ") && ignored.contains("\n__pycache__/\n"), "{ignored}");
    (app, place)
}

#[actix_web::test]
async fn a_new_node_is_packed_published_found_and_shown() {
    let (app, place) = author().await;

    // When it is packed twice, then the archives are the same, and have no secrets
    for archive in ["a.zip", "b.zip"] {
        let packed = place.run(&["pack", "face-tools", "-o", archive]).await.expect(0);
        assert!(packed.err.contains("looks like a secret: .env"), "{}", packed.err);
    }
    assert_eq!(std::fs::read(place.path("a.zip")).unwrap(), std::fs::read(place.path("b.zip")).unwrap());
    let list = place.run(&["pack", "face-tools", "--list"]).await.expect(0);
    assert_eq!(list.out, "__init__.py\nlib/masks.py\nmediary-node.toml\n");

    // When it is published, then the archive is that one, and everyone finds it
    place.run(&["publish", "face-tools"]).await.expect(0).assert_contains(&["face-tools 0.1.0", "/#/nodes/face-tools"]);
    let archive = app.get("/nodes/face-tools/versions/0.1.0/download").await.expect(200);
    assert_eq!(archive.body, std::fs::read(place.path("a.zip")).unwrap());
    let visitor = Workplace::new();
    let found = visitor.run(&["search", "masks", "--url", &app.url("")]).await.expect(0);
    found.assert_contains(&["NODE", "face-tools", "0.1.0", "acme", "Masks and landmarks"]);
    let shown = visitor.run(&["show", "face-tools", "--url", &app.url("")]).await.expect(0);
    shown.assert_contains(&["Masks and landmarks", "0.1.0    active", "mediary install face-tools"]);
    let json = visitor.run(&["show", "face-tools@0.1.0", "--json", "--url", &app.url("")]).await.expect(0);
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["versions"][0]["version"], "0.1.0");
    visitor.run(&["search", "nothing", "--url", &app.url("")]).await.expect(0).assert_contains(&["No nodes match"]);
    visitor.run(&["show", "nothing", "--url", &app.url("")]).await.expect(1);
    visitor.run(&["show", "a b", "--url", &app.url("")]).await.expect(2);

    // When the same version is published again, then the error says what to do
    let repeated = place.run(&["publish", "face-tools"]).await.expect(1);
    assert!(repeated.err.contains("0.1.0 of face-tools exists already: raise `version`"), "{}", repeated.err);
}

#[actix_web::test]
async fn pictures_that_the_manifest_names_are_uploaded() {
    // Given a node whose manifest names an icon and a banner
    let (app, place) = author().await;
    let manifest = std::fs::read_to_string(place.path("face-tools/mediary-node.toml")).unwrap();
    let manifest = manifest.replace("# icon", "icon").replace("# banner_url", "banner_url");
    place.write("face-tools/mediary-node.toml", manifest);

    // When a picture is missing, then nothing is published
    let failed = place.run(&["publish", "face-tools"]).await.expect(2);
    assert!(failed.err.contains("icon: cannot read face-tools/icon.png"), "{}", failed.err);
    app.get("/nodes/face-tools").await.expect(404);

    // When it is published, then the node has both
    place.write("face-tools/icon.png", png(64, 64));
    place.write("face-tools/banner.png", png(200, 40));
    place.run(&["publish", "face-tools"]).await.expect(0);
    let node = app.get("/nodes/face-tools").await.expect(200).json();
    for field in ["icon", "banner_url"] {
        assert!(node[field].as_str().unwrap().starts_with(&app.url("/media/")), "{node}");
    }
}

#[actix_web::test]
async fn an_interrupted_publication_continues() {
    // Given a version whose archive was not uploaded
    let (app, place) = author().await;
    let token = place.variables[1].1.clone();
    let body = serde_json::json!({"node": {}, "node_version": {"version": "0.1.0"}});
    app.post_as(&token, "/publishers/acme/nodes/face-tools/versions", body).await.expect(201);

    // When it is published, then the archive is uploaded
    place.run(&["publish", "face-tools"]).await.expect(0);
    app.get("/nodes/face-tools/versions/0.1.0/download").await.expect(200);
}

#[actix_web::test]
async fn bad_manifests_and_missing_rights_are_explained() {
    let (app, place) = author().await;
    // A manifest is not overwritten, and one is needed
    let exists = place.run(&["init", "face-tools", "--publisher", "acme"]).await.expect(2);
    assert!(exists.err.contains("--force"), "{}", exists.err);
    let missing = place.run(&["pack"]).await.expect(2);
    assert!(missing.err.contains("mediary init"), "{}", missing.err);
    let unnamed = place.run(&["init", "other"]).await.expect(2);
    assert!(unnamed.err.contains("--publisher"), "{}", unnamed.err);

    // Each bad field of the manifest is named; the service names those that only it checks
    place.write("face-tools/mediary-node.toml", "publisher = 'acme'\nid = 'a b'\nversion = '1'\nlicence = 'MIT'\n");
    let bad = place.run(&["publish", "face-tools"]).await.expect(2);
    for field in ["id = ", "version = ", "did you mean license?"] {
        assert!(bad.err.contains(field), "{field}: {}", bad.err);
    }
    let manifest = "publisher = 'acme'\nid = 'face-tools'\nversion = '1.0.0'\ntags = 'x'\nrepository = 'no url'\n";
    place.write("face-tools/mediary-node.toml", manifest);
    let refused = place.run(&["publish", "face-tools"]).await.expect(1);
    assert!(refused.err.contains("tags must be") && refused.err.contains("repository must be"), "{}", refused.err);

    // Another user cannot publish it
    place.write("face-tools/mediary-node.toml", "publisher = 'acme'\nid = 'face-tools'\nversion = '1.0.0'\n");
    let bob = app.user("bob").await;
    let stranger = Workplace { variables: Workplace::of_user(&app, &bob.token).variables, ..place };
    stranger.run(&["publish", "face-tools"]).await.expect(1);
}
