//! Erasure of users: afterwards no stored byte reveals who the user was.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mediary::environment::{Environment, FailPoint};
use mediary::events::log::EventLog;
use mediary::events::stream::Position;
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc::unbounded_channel;

use crate::support::process::run;
use crate::support::{TestApp, TestUser, client};

const EMAIL: &str = "zyxwvut.srqponm@quetzalcoatl.example";
const NAME: &str = "Ermintrude Quetzalcóatl";

/// Creates a user whose name and e-mail address occur nowhere else.
async fn distinctive(app: &TestApp) -> TestUser {
    let user = app.user("first-called-otherwise").await;
    let body = json!({"email": EMAIL, "name": NAME});
    let visible = app.put_as(app.admin_token(), &account(&user), body).await.expect(200).json();
    assert_eq!((&visible["email"], &visible["name"]), (&json!(EMAIL), &json!(NAME)));
    user
}

fn account(user: &TestUser) -> String {
    format!("/admin/users/{}", user.id)
}

async fn listed(app: &TestApp, user: &TestUser) -> Value {
    let page = app.get_as(app.admin_token(), "/admin/users?limit=100").await.expect(200).json();
    page["users"].as_array().unwrap().iter().find(|other| other["id"] == user.id.as_str()).cloned().unwrap()
}

fn tombstone(user: &TestUser) -> Value {
    json!({"id": user.id, "isAdmin": false, "isApproved": false, "erased": true})
}

/// Returns every file below the directory.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Returns the files that contain the text.
fn holding(folder: &Path, text: &str) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| fs::read(path).unwrap().windows(text.len()).any(|bytes| bytes == text.as_bytes());
    files(folder).into_iter().filter(holds).collect()
}

/// Returns the number of events of this type in the log.
fn recorded(app: &TestApp, name: &str) -> usize {
    let events = app.app.log().read_all(Position(0), usize::MAX).expect("the log can be read");
    events.iter().filter(|event| event.event.name() == name).count()
}

fn key_of(dir: &TempDir, user: &TestUser) -> PathBuf {
    dir.path().join("personal").join(&user.id[user.id.len() - 2..]).join(&user.id)
}

#[actix_web::test]
async fn an_erased_user_is_shown_as_an_id_only() {
    // Given an owner of a publisher, who created one of its tokens and reviewed a node
    let app = TestApp::start().await;
    let (ada, bob) = (distinctive(&app).await, app.user("bob").await);
    app.publisher("acme", &bob).await;
    let membership = format!("/publishers/acme/members/{}", ada.id);
    app.put_as(&bob.token, &membership, json!({"role": "owner"})).await.expect(200);
    app.node("acme", "face-tools", &bob).await;
    app.post_as(&ada.token, "/nodes/face-tools/reviews?star=4", json!({})).await.expect(200);
    let issued_token = app.access_token("acme", &ada).await;
    let reviewed = app.get("/nodes/face-tools").await.expect(200).json();

    // When an administrator erases the user
    app.delete_as(app.admin_token(), &account(&ada)).await.expect(204);

    // Then the user's data is no longer shown, and its tokens do not work
    assert_eq!(listed(&app, &ada).await, tombstone(&ada));
    let acme = app.get_as(&bob.token, "/publishers/acme").await.expect(200).json();
    assert_eq!(acme["members"].as_array().unwrap().len(), 1, "{acme}");
    for token in [&ada.token, &issued_token] {
        app.get_as(token, "/publishers/acme/nodes").await.expect(401);
    }
    let tokens = app.get_as(&bob.token, "/publishers/acme/tokens").await.expect(200).json();
    assert_eq!(tokens, json!([]), "tokens that no longer work are not listed");

    // And the user's actions stay
    assert_eq!(app.get("/nodes/face-tools").await.expect(200).json(), reviewed);

    // And the account can no longer be changed
    let reason = json!({"reason": "spam"});
    let rejections = [
        app.put_as(app.admin_token(), &account(&ada), json!({"name": "Ada"})).await,
        app.put_as(app.admin_token(), &account(&ada), json!({"isApproved": true})).await,
        app.post_as(app.admin_token(), &format!("{}/ban", account(&ada)), reason.clone()).await,
        app.post_as(app.admin_token(), &format!("{}/unban", account(&ada)), reason).await,
        app.post_as(app.admin_token(), &format!("{}/tokens", account(&ada)), json!({"name": "x"})).await,
        app.put_as(&bob.token, &membership, json!({})).await,
        app.delete_as(app.admin_token(), &account(&ada)).await,
    ];
    for response in rejections {
        let problem = response.expect(404).json();
        assert_eq!(problem["detail"], format!("user {} not found: it was erased", ada.id));
    }
    app.delete_as(&bob.token, &membership).await.expect(404);
    assert_eq!(recorded(&app, "UserErased"), 1);
    app.stop().await;
}

#[actix_web::test]
async fn users_can_erase_themselves() {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    app.delete_as(&ada.token, "/users").await.expect(204);
    app.get_as(&ada.token, "/users").await.expect(401);
    app.delete_as(&ada.token, "/users").await.expect(401);
    assert_eq!(listed(&app, &ada).await, tombstone(&ada));
    let unknown = "/admin/users/00000000-0000-4000-8000-00000000abcd";
    app.delete_as(app.admin_token(), unknown).await.expect(404);
    app.stop().await;
}

#[actix_web::test]
async fn the_first_administrator_cannot_be_erased() {
    let app = TestApp::start().await;
    let (root, other) = (app.user("root").await, app.user("other").await);
    for user in [&root, &other] {
        app.put_as(app.admin_token(), &account(user), json!({"isAdmin": true})).await.expect(200);
    }
    let bootstrap = app.get_as(app.admin_token(), "/users").await.expect(200).json();
    let bootstrap = format!("/admin/users/{}", bootstrap["id"].as_str().unwrap());
    for (token, path) in [(app.admin_token(), "/users"), (app.admin_token(), &bootstrap), (&root.token, &bootstrap)] {
        let problem = app.delete_as(token, path).await.expect(409).json();
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("bootstrap") && detail.contains("cannot be erased"), "{detail}");
    }
    app.delete_as(&root.token, &account(&other)).await.expect(204);
    app.delete_as(&root.token, "/users").await.expect(204);
    app.get_as(app.admin_token(), "/admin/users").await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn erasing_a_last_owner_lists_the_publishers() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.user("ada").await, app.user("bob").await);
    for publisher in ["acme", "zeta", "shared"] {
        app.publisher(publisher, &ada).await;
    }
    let owner = json!({"role": "owner"});
    app.put_as(&ada.token, &format!("/publishers/shared/members/{}", bob.id), owner.clone()).await.expect(200);

    for (token, path) in [(ada.token.as_str(), "/users".to_owned()), (app.admin_token(), account(&ada))] {
        let problem = app.delete_as(token, &path).await.expect(409).json();
        assert_eq!(problem["error"], "conflict");
        let sentences: Vec<_> = problem["details"].as_array().unwrap().iter().map(|s| s.as_str().unwrap()).collect();
        assert_eq!(sentences.len(), 2, "{sentences:?}");
        assert!(sentences[0].starts_with("acme has no other owner") && sentences[1].starts_with("zeta has"));
    }
    assert_eq!(recorded(&app, "MemberRemoved"), 0, "a refusal changes nothing");
    app.put_as(&ada.token, &format!("/publishers/acme/members/{}", bob.id), owner).await.expect(200);
    app.delete_as(&ada.token, "/publishers/zeta").await.expect(204);
    app.delete_as(&ada.token, "/users").await.expect(204);

    let own = app.get_as(&bob.token, "/users/publishers").await.expect(200).json();
    assert!(own.as_array().unwrap().iter().all(|publisher| publisher["members"].as_array().unwrap().len() == 1));
    app.stop().await;
}

#[actix_web::test]
async fn no_file_contains_personal_data_in_plain_text() {
    // Given users created with and without an idempotency key, whose names have been changed and shown
    let app = TestApp::start().await;
    let (ada, bob) = (distinctive(&app).await, app.user("bob").await);
    let keyed = app.request(Method::POST, "/admin/users").bearer_auth(app.admin_token());
    let body = json!({"email": EMAIL, "name": NAME});
    let twin_body = app.send(keyed.header("idempotency-key", "k").json(&body)).await.expect(201).json();
    let twin_user = TestUser { id: twin_body["id"].as_str().unwrap().to_owned(), token: String::new() };
    app.publisher("acme", &bob).await;
    let membership = format!("/publishers/acme/members/{}", ada.id);
    app.put_as(&bob.token, &membership, json!({"role": "owner"})).await.expect(200);
    let acme = app.get_as(&bob.token, "/publishers/acme").await.expect(200).text();
    assert!(acme.contains(EMAIL) && acme.contains(NAME), "{acme}");

    // When the service restarts
    let dir = app.stop().await;
    for text in [EMAIL, NAME, "first-called-otherwise"] {
        assert_eq!(holding(dir.path(), text), Vec::<PathBuf>::new(), "{text}, before");
    }
    let app = TestApp::start_in(dir, |_| {}, Environment::system()).await;
    assert_eq!(listed(&app, &ada).await["name"], NAME, "the key is still there after a restart");
    assert_eq!(listed(&app, &twin_user).await["email"], EMAIL);

    // And the user and the twin are erased
    for user in [&ada, &twin_user] {
        assert!(key_of(&app.dir, user).exists());
        app.delete_as(app.admin_token(), &account(user)).await.expect(204);
        assert!(!key_of(&app.dir, user).exists());
    }
    let dir = app.stop().await;

    // Then no file contains their data, and the log verifies
    for text in [EMAIL, NAME, "first-called-otherwise"] {
        assert_eq!(holding(dir.path(), text), Vec::<PathBuf>::new(), "{text}, after");
    }
    let app = TestApp::start_in(dir, |_| {}, Environment::system()).await;
    assert_eq!(app.app.reports(), [""; 0], "the start repaired nothing");
    assert_eq!((listed(&app, &ada).await, listed(&app, &twin_user).await), (tombstone(&ada), tombstone(&twin_user)));
    assert_eq!(listed(&app, &bob).await["name"], "bob");
    app.stop().await;
}

#[actix_web::test]
async fn a_replayed_request_does_not_restore_an_erased_user() {
    let app = TestApp::start().await;
    let create_user = || {
        let request = app.request(Method::POST, "/admin/users").bearer_auth(app.admin_token());
        app.send(request.header("idempotency-key", "k").json(&json!({"email": EMAIL, "name": NAME})))
    };
    let created = create_user().await.expect(201).json();
    assert_eq!(create_user().await.expect(201).json(), created);
    assert_eq!(files(&app.dir.path().join("answers")).len(), 1);
    app.delete_as(app.admin_token(), &format!("/admin/users/{}", created["id"].as_str().unwrap())).await.expect(204);
    assert_eq!(files(&app.dir.path().join("answers")), Vec::<PathBuf>::new(), "stored responses are deleted");
    assert!(!create_user().await.expect(404).text().contains(EMAIL));
    assert_eq!(recorded(&app, "UserCreated"), 2);
    app.stop().await;
}

#[actix_web::test]
async fn an_interrupted_erasure_is_finished_by_the_next_start() {
    // Given a service that dies between the event and the deletion of the key
    let handler = Arc::new(|point, _: &str| assert!(point != FailPoint::BeforeKeyDestroyed, "killed here"));
    let app = TestApp::start_with(|_| {}, Environment::system().with_fail_point_handler(handler)).await;
    let (ada, bob) = (distinctive(&app).await, distinctive(&app).await);
    let before = app.app.log().head().0.to_string();
    for user in [&ada, &bob] {
        app.delete_as(app.admin_token(), &account(user)).await.expect(500);
        let path = format!("/admin/as-of/user/{}?position={before}", user.id);
        let body = app.get_as(app.admin_token(), &path).await.expect(200).json();
        assert_eq!((&body["state"]["erased"], &body["state"]["name"]), (&json!(true), &Value::Null));
        assert!(key_of(&app.dir, user).exists());
        assert_eq!(listed(&app, user).await, tombstone(user), "the user is hidden as soon as the event is recorded");
        app.get_as(&user.token, "/users").await.expect(401);
    }

    // When one erasure is requested again, and the service restarts
    app.delete_as(app.admin_token(), &account(&ada)).await.expect(204);
    app.delete_as(app.admin_token(), &account(&ada)).await.expect(404);
    assert!(!key_of(&app.dir, &ada).exists() && key_of(&app.dir, &bob).exists());
    let dir = app.stop().await;

    // Then the audit of the stopped service's directory does not show who the user was
    let subject = format!("user/{}", bob.id);
    for arguments in [&["as-of", &before, &subject][..], &["show", &subject], &["diff", "0", &before]] {
        let output = run(dir.path(), &[&["audit"], arguments, &["--json"]].concat()).expect(0).out;
        assert!(
            output.contains("erased") && !output.contains(EMAIL) && !output.contains("Ermintrude"),
            "{arguments:?}: {output}"
        );
    }
    let app = TestApp::start_in(dir, |_| {}, Environment::system()).await;

    // And no key is left
    assert!(!key_of(&app.dir, &bob).exists());
    assert_eq!(listed(&app, &bob).await, tombstone(&bob));
    app.stop().await;
}

#[actix_web::test]
async fn a_pending_response_is_not_stored_after_an_erasure() {
    // Given a change of a user with an idempotency key, whose response exists but is not stored yet
    let (reached_sender, mut reached_receiver) = unbounded_channel();
    let (go_sender, go_receiver) = std::sync::mpsc::channel::<()>();
    let go_receiver = Mutex::new(go_receiver);
    let handler = Arc::new(move |point, _: &str| {
        if point == FailPoint::BeforeResponseStored {
            let _ = reached_sender.send(());
            // Fails once the other end is gone; that is expected.
            let _ = go_receiver.lock().recv();
        }
    });
    let app =
        TestApp::start_with(|settings| settings.workers = 2, Environment::system().with_fail_point_handler(handler))
            .await;
    let ada = distinctive(&app).await;
    let (url, token) = (app.url(&account(&ada)), app.admin_token().to_owned());
    // Separate connections, which are assigned to the workers in turn.
    let change = {
        let body = json!({"isApproved": true});
        client().put(&url).bearer_auth(&token).header("idempotency-key", "k").json(&body)
    };
    let repeated_request = change.try_clone().unwrap();
    let changed = actix_web::rt::spawn(change.send());
    reached_receiver.recv().await.unwrap();

    // When the user is erased at this moment
    let erased = client().delete(&url).bearer_auth(&token).send().await.unwrap();
    assert_eq!(erased.status(), 204);
    drop(go_sender);
    assert_eq!(changed.await.unwrap().unwrap().status(), 200);

    // Then that response is neither stored nor replayed
    assert_eq!(files(&app.dir.path().join("answers")), Vec::<PathBuf>::new());
    let repeated_request = repeated_request.send().await.unwrap();
    assert_eq!(repeated_request.status(), 404);
    assert!(!repeated_request.text().await.unwrap().contains(EMAIL));
    app.stop().await;
}

#[actix_web::test]
async fn an_undeletable_response_leaves_the_erasure_incomplete() {
    // Given a stored response that cannot be removed
    let app = TestApp::start().await;
    let ada = distinctive(&app).await;
    let stuck = app.dir.path().join("answers/ab").join("ab".repeat(32));
    fs::create_dir_all(stuck.join("x")).unwrap();

    // When the user is erased, then the request fails, and the next start cannot finish the erasure either
    app.delete_as(app.admin_token(), &account(&ada)).await.expect(500);
    assert!(key_of(&app.dir, &ada).exists());
    let app = TestApp::start_in(app.stop().await, |_| {}, Environment::system()).await;
    assert_eq!(listed(&app, &ada).await, tombstone(&ada));
    assert!(key_of(&app.dir, &ada).exists(), "an incomplete erasure removed the key");

    // And once it can be removed, repeating the request succeeds
    fs::remove_dir_all(&stuck).unwrap();
    app.delete_as(app.admin_token(), &account(&ada)).await.expect(204);
    assert!(!key_of(&app.dir, &ada).exists());
    app.stop().await;
}

#[actix_web::test]
async fn without_user_keys_the_service_runs_without_names() {
    let app = TestApp::start().await;
    let ada = distinctive(&app).await;
    app.publisher("acme", &ada).await;
    let dir = app.stop().await;
    fs::remove_dir_all(dir.path().join("personal")).unwrap();
    let app = TestApp::start_in(dir, |_| {}, Environment::system()).await;
    let body = app.get_as(&ada.token, "/users").await.expect(200).json();
    assert_eq!(body, json!({"id": ada.id, "isAdmin": false, "isApproved": false}));
    let acme = app.get_as(&ada.token, "/publishers/acme").await.expect(200).json();
    assert_eq!(acme["members"][0]["user"], json!({"id": ada.id}));
    app.stop().await;
}

#[actix_web::test]
async fn a_lost_key_is_not_replaced_by_a_change() {
    // Given a user whose key is lost
    let app = TestApp::start().await;
    let ada = distinctive(&app).await;
    let dir = app.stop().await;
    let (key_path, other_dir) = (key_of(&dir, &ada), tempfile::tempdir().unwrap());
    let stored = other_dir.path().join("key");
    fs::rename(&key_path, &stored).unwrap();
    let app = TestApp::start_in(dir, |_| {}, Environment::system()).await;

    // When the name is changed, then the change is rejected, with instructions for the operator
    let problem = app.put_as(app.admin_token(), &account(&ada), json!({"name": "Grace"})).await.expect(503).json();
    assert!(problem["detail"].as_str().unwrap().contains("restore it from a backup"), "{problem}");
    assert!(!key_path.exists(), "another key was created");

    // And fields that are not encrypted can be changed
    app.put_as(app.admin_token(), &account(&ada), json!({"isApproved": true})).await.expect(200);

    // And with the key restored both the old and the new data are readable, after a restart too
    fs::copy(&stored, &key_path).unwrap();
    let grace = app.put_as(app.admin_token(), &account(&ada), json!({"name": "Grace"})).await.expect(200).json();
    assert_eq!((&grace["name"], &grace["email"]), (&json!("Grace"), &json!(EMAIL)));
    let app = TestApp::start_in(app.stop().await, |_| {}, Environment::system()).await;
    let body = listed(&app, &ada).await;
    assert_eq!((&body["name"], &body["email"]), (&json!("Grace"), &json!(EMAIL)));
    app.stop().await;
}

#[actix_web::test]
async fn an_unchanged_update_records_nothing() {
    let app = TestApp::start().await;
    let ada = distinctive(&app).await;
    let before = recorded(&app, "UserRevised");
    let unchanged = json!({"email": EMAIL, "name": NAME, "isApproved": false});
    app.put_as(app.admin_token(), &account(&ada), unchanged).await.expect(200);
    assert_eq!(recorded(&app, "UserRevised"), before);
    app.stop().await;
}
