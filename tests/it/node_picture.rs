//! Icons and banners of nodes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mediary::config::Settings;
use mediary::environment::Environment;
use serde_json::{Value, json};

use crate::support::picture::{base64_png, png};
use crate::support::process::run;
use crate::support::{TestApp, TestUser};

const ICON: &str = "/publishers/acme/nodes/face-tools/icon";
const BANNER: &str = "/publishers/acme/nodes/face-tools/banner";

async fn registry() -> (TestApp, TestUser) {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    app.publisher("acme", &ada).await;
    app.node("acme", "face-tools", &ada).await;
    (app, ada)
}

async fn node(app: &TestApp) -> Value {
    app.get("/nodes/face-tools").await.expect(200).json()
}

#[actix_web::test]
async fn an_uploaded_picture_is_served_and_named_by_the_node() {
    // Given a node
    let (app, ada) = registry().await;

    // When its icon and banner are uploaded
    let updated = app.put_as(&ada.token, ICON, json!({"image": base64_png(64, 64)})).await.expect(200).json();
    app.put_as(&ada.token, BANNER, json!({"image": base64_png(200, 40)})).await.expect(200);

    // Then the node has their URLs, and everyone can read them
    let shown = node(&app).await;
    assert_eq!(shown["icon"], updated["icon"]);
    for (url, bytes) in [(&shown["icon"], png(64, 64)), (&shown["banner_url"], png(200, 40))] {
        let path = url.as_str().unwrap().strip_prefix(app.url("").trim_end_matches('/')).expect("a URL of the service");
        let file = app.get(path).await.expect(200);
        assert_eq!(file.header("content-type"), Some("image/png"));
        assert_eq!(file.body, bytes);
    }

    // And the log has both as changes of the node
    let path = "/admin/events?stream=node/face-tools&type=NodeRevised";
    let events = app.get_as(app.admin_token(), path).await.expect(200).json();
    assert_eq!(events["events"].as_array().unwrap().len(), 2);
    assert_eq!(events["events"][0]["actor"], format!("user/{}", ada.id));
    app.stop().await;
}

#[actix_web::test]
async fn a_picture_survives_restarts_and_is_in_backups() {
    // Given a node with an icon
    let (app, ada) = registry().await;
    app.put_as(&ada.token, ICON, json!({"image": base64_png(64, 64)})).await.expect(200);
    let name = node(&app).await["icon"].as_str().unwrap().rsplit_once('/').unwrap().1.to_owned();

    // When the service restarts, then the icon is there
    let app = TestApp::start_in(app.stop().await, |_| {}, Environment::system()).await;
    app.get(&format!("/media/{name}")).await.expect(200);

    // When it is backed up and restored elsewhere, then the icon is there too
    let place = tempfile::tempdir().unwrap();
    let (backup, restored) = (place.path().join("backup"), place.path().join("restored"));
    let dir = app.stop().await;
    run(dir.path(), &["backup", backup.to_str().unwrap()]).expect(0);
    run(&restored, &["restore", backup.to_str().unwrap()]).expect(0);
    let file = restored.join("media/nodes").join(&name[..2]).join(&name);
    assert_eq!(std::fs::read(file).unwrap(), png(64, 64));
}

#[actix_web::test]
async fn a_picture_follows_the_public_url_of_the_service() {
    // Given a node with an icon
    let (app, ada) = registry().await;
    app.put_as(&ada.token, ICON, json!({"image": base64_png(64, 64)})).await.expect(200);
    let icon = node(&app).await["icon"].clone();
    let name = icon.as_str().unwrap().rsplit_once('/').unwrap().1.to_owned();

    // When a client sends the fields back as it read them, then nothing changes
    app.put_as(&ada.token, "/publishers/acme/nodes/face-tools", json!({"icon": icon})).await.expect(200);
    let version = json!({"version": "1.0.0"});
    let publication = json!({"node": {"id": "face-tools", "icon": icon}, "node_version": version});
    app.post_as(&ada.token, "/publishers/acme/nodes/face-tools/versions", publication).await.expect(201);
    let path = "/admin/events?stream=node/face-tools&type=NodeRevised";
    let events = app.get_as(app.admin_token(), path).await.expect(200).json();
    assert_eq!(events["events"].as_array().unwrap().len(), 1);

    // When the service gets another public URL, then the icon is there
    let configure = |settings: &mut Settings| settings.public_url = Some("https://new.example".to_owned());
    let app = TestApp::start_in(app.stop().await, configure, Environment::system()).await;
    assert_eq!(node(&app).await["icon"], format!("https://new.example/media/{name}"));
}

#[actix_web::test]
async fn only_pictures_of_members_are_accepted() {
    let (app, ada) = registry().await;
    let eve = app.user("eve").await;
    let large = STANDARD.encode(vec![0x89; (4 << 20) + 1]);

    for (body, expected) in [
        (json!({}), "/image is required"),
        (json!({"image": "bm8gcGljdHVyZQ=="}), "/image must be"),
        (json!({"image": "https://example.org/icon.png"}), "/image must be a picture or the URL of an uploaded file"),
        (json!({"image": large}), "/image has 4194305 bytes; at most 4194304 (4 MiB) are allowed"),
    ] {
        let problem = app.put_as(&ada.token, ICON, body).await.expect(400).json();
        assert!(problem["detail"].as_str().unwrap().starts_with(expected), "{expected}: {problem}");
    }
    app.put_as(&eve.token, ICON, json!({"image": base64_png(4, 4)})).await.expect(403);
    let missing = app.put_as(&ada.token, "/publishers/acme/nodes/none/icon", json!({"image": base64_png(4, 4)})).await;
    assert_eq!(missing.expect(404).json()["detail"], "node none not found");
    assert!(node(&app).await.get("icon").is_none());
    app.stop().await;
}
