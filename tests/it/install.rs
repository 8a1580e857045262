//! Installation: version selection, access, and download counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mediary::config::Settings;
use mediary::domain::event::Event;
use mediary::domain::ids::{NodeId, TokenId};
use mediary::domain::network::Network;
use mediary::domain::node::NodeEvent;
use mediary::domain::token::TokenEvent;
use mediary::domain::value::Timestamp;
use mediary::environment::{Environment, FailPoint};
use mediary::events::log::EventLog;
use mediary::events::stream::{StreamId, Version};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::eventually::eventually;
use crate::support::zip::valid_archive;
use crate::support::{TestApp, TestUser};

const INSTALL: &str = "/nodes/face-tools/install";
const VERSION: &str = "/publishers/acme/nodes/face-tools/versions/1.0.0";

/// Starts the service and adds the node with these versions.
async fn start_with_versions(versions: &[&str]) -> (TestApp, TestUser) {
    add_versions(TestApp::start().await, versions).await
}

/// Adds the node with these versions, each published by alice and then approved by an administrator.
async fn add_versions(app: TestApp, versions: &[&str]) -> (TestApp, TestUser) {
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    app.node("acme", "face-tools", &alice).await;
    for version in versions {
        let body = json!({"node_version": {"version": version}});
        app.post_as(&alice.token, "/publishers/acme/nodes/face-tools/versions", body).await.expect(201);
        set_status(&app, version, "NodeVersionStatusActive").await;
    }
    (app, alice)
}

async fn set_status(app: &TestApp, version: &str, status: &str) {
    let path = format!("/admin/nodes/face-tools/versions/{version}");
    app.put_as(app.admin_token(), &path, json!({"status": status, "status_reason": "malware"})).await.expect(200);
}

/// Installs as a client with its own address, which a trusted proxy reports.
async fn install_from(app: &TestApp, client: usize) {
    let request = app.request(Method::GET, INSTALL).header("x-forwarded-for", format!("198.51.100.{client}"));
    app.send(request).await.expect(200);
}

/// Lets the tests choose the client address with `X-Forwarded-For`.
fn trust_local_proxies(settings: &mut Settings) {
    settings.limits.trusted_proxies = vec![Network::parse("127.0.0.0/8").unwrap()];
}

/// Returns the download count that the node shows.
async fn downloads(app: &TestApp) -> u64 {
    app.get("/nodes/face-tools").await.expect(200).json()["downloads"].as_u64().expect("a number")
}

async fn wait_for_downloads(app: &TestApp, count: u64) {
    eventually(format!("{count} downloads are counted"), async || downloads(app).await >= count).await;
}

/// Returns the counts in the recorded events of the node; each covers the installs since the previous event.
fn recorded_counts(app: &TestApp) -> Vec<u64> {
    let stream = StreamId::from(&NodeId::parse("face-tools").unwrap().key());
    let history = app.app.log().read_stream(&stream, Version(0)).unwrap();
    let counts = history.iter().filter_map(|recorded| match &recorded.event {
        Event::Node(NodeEvent::DownloadsCounted { count }) => Some(*count),
        _ => None,
    });
    counts.collect()
}

#[actix_web::test]
async fn install_returns_the_latest_or_requested_version() {
    let (app, _) = start_with_versions(&["1.0.0+build.7", "1.1.0", "2.0.0-rc.1"]).await;
    let version = async |query: &str| app.get(&format!("{INSTALL}{query}")).await.expect(200).json()["version"].clone();
    assert_eq!(version("").await, "1.1.0");
    assert_eq!(version("?version=").await, "1.1.0");

    for spelling in ["1.0.0", "1.0.0+build.7", "1.0.0%2Bbuild.7"] {
        assert_eq!(version(&format!("?version={spelling}")).await, "1.0.0+build.7");
    }
    assert_eq!(version("?version=2.0.0-rc.1").await, "2.0.0-rc.1");
    app.get(&format!("{INSTALL}?version=3.0.0")).await.expect(404);

    let problem = app.get(&format!("{INSTALL}?version=latest")).await.expect(400).json();
    assert_eq!(problem["errors"][0]["pointer"], "/version");
    app.get("/nodes/none/install").await.expect(404);

    let redirect = app.get("/nodes/Face-Tools/install?version=1.0.0").await.expect(302);
    assert_eq!(redirect.header("location"), Some(app.url(&format!("{INSTALL}?version=1.0.0")).as_str()));
    app.stop().await;
}

#[actix_web::test]
async fn a_node_without_active_versions_cannot_be_installed() {
    let (app, _) = start_with_versions(&[]).await;
    app.get(INSTALL).await.expect(404);
    let app = TestApp::start_in(app.stop().await, |_| {}, Environment::system()).await;
    assert_eq!((downloads(&app).await, recorded_counts(&app)), (0, Vec::new()));
    app.stop().await;
}

#[actix_web::test]
async fn install_counts_are_batched() {
    let (app, _) =
        add_versions(TestApp::start_with(trust_local_proxies, Environment::system()).await, &["1.0.0"]).await;
    for client in 0..20 {
        install_from(&app, client).await;
        // Does not count as an install.
        app.send(app.request(Method::HEAD, INSTALL)).await.expect(200);
    }
    wait_for_downloads(&app, 20).await;
    let first = recorded_counts(&app);
    assert_eq!(first.iter().sum::<u64>(), 20);

    let started = std::time::Instant::now();
    for client in 20..25 {
        install_from(&app, client).await;
    }
    wait_for_downloads(&app, 25).await;
    let events = recorded_counts(&app).len() - first.len();
    // At most one event a second.
    let seconds = started.elapsed().as_secs() + 1;
    assert!(events as u64 <= seconds + 1, "{events} events in {seconds} s");
    app.stop().await;
}

#[actix_web::test]
async fn an_account_counts_once_a_day_whichever_token_it_installs_with() {
    // Given a node, a clock that the test advances, and a user with a token of the publisher
    let noon = Timestamp::parse("2026-11-22T12:00:00Z").unwrap();
    let clock = Environment::manual(noon, 7);
    let (app, alice) = add_versions(TestApp::start_with(|_| {}, clock.clone()).await, &["1.0.0"]).await;
    let token = app.access_token("acme", &alice).await;

    // When the user and an anonymous client install it several times
    for _ in 0..3 {
        app.get_as(&alice.token, INSTALL).await.expect(200);
        app.get_as(&token, INSTALL).await.expect(200);
        app.get(INSTALL).await.expect(200);
    }

    // Then both count once, and once more on the next day
    wait_for_downloads(&app, 2).await;
    clock.advance(Duration::from_hours(24));
    app.get_as(&token, INSTALL).await.expect(200);
    wait_for_downloads(&app, 3).await;
    let app = TestApp::start_in(app.stop().await, |_| {}, Environment::system()).await;
    assert_eq!(downloads(&app).await, 3);
    app.stop().await;
}

#[actix_web::test]
async fn pending_counts_are_recorded_at_shutdown() {
    let (app, alice) = start_with_versions(&["1.0.0"]).await;
    for caller in [alice.token.as_str(), app.admin_token()] {
        app.get_as(caller, INSTALL).await.expect(200);
    }
    app.get(INSTALL).await.expect(200);
    let app = TestApp::start_in(app.stop().await, |_| {}, Environment::system()).await;
    assert_eq!(downloads(&app).await, 3);
    app.stop().await;
}

#[actix_web::test]
async fn failed_count_recordings_are_retried() {
    // Given a log whose appends to the node can be made to fail
    let is_broken = Arc::new(AtomicBool::new(false));
    let failures = Arc::new(AtomicUsize::new(0));
    let (handler_is_broken, handler_failures) = (is_broken.clone(), failures.clone());
    let environment = Environment::system().with_fail_point_handler(Arc::new(move |point, subject| {
        if point == FailPoint::Append && subject == "node/face-tools" && handler_is_broken.load(Ordering::SeqCst) {
            handler_failures.fetch_add(1, Ordering::SeqCst);
            panic!("injected by the test");
        }
    }));
    let (app, _) = add_versions(TestApp::start_with(|_| {}, environment).await, &["1.0.0"]).await;

    // When two clients install while they fail
    is_broken.store(true, Ordering::SeqCst);
    app.get(INSTALL).await.expect(200);
    eventually("recording fails", async || failures.load(Ordering::SeqCst) > 0).await;
    app.get_as(app.admin_token(), INSTALL).await.expect(200);
    is_broken.store(false, Ordering::SeqCst);

    // Then both are recorded later, in one event
    wait_for_downloads(&app, 2).await;
    assert_eq!(recorded_counts(&app), [2]);
    app.stop().await;
}

#[actix_web::test]
async fn only_members_install_flagged_and_pending_versions() {
    let (app, alice) = start_with_versions(&["1.0.0"]).await;
    let bob = app.user("bob").await;
    let token = app.access_token("acme", &alice).await;
    set_status(&app, "1.0.0", "NodeVersionStatusFlagged").await;
    app.get(INSTALL).await.expect(404);

    let path = format!("{INSTALL}?version=1.0.0");
    assert_eq!(app.get(&path).await.expect(403).json()["error"], "forbidden");
    app.get_as(&bob.token, &path).await.expect(403);

    for insider in [alice.token.as_str(), &token, app.admin_token()] {
        app.get_as(insider, &path).await.expect(200);
    }
    set_status(&app, "1.0.0", "NodeVersionStatusBanned").await;
    for caller in [alice.token.as_str(), app.admin_token()] {
        let problem = app.get_as(caller, &path).await.expect(403).json();
        let expected = "this version is banned and must be unbanned by an administrator first: malware";
        assert_eq!((&problem["error"], &problem["detail"]), (&json!("banned"), &json!(expected)));
    }
    app.stop().await;
}

/// Uploads an archive for version 1.0.0.
async fn upload_archive(app: &TestApp, alice: &TestUser) {
    let response = app.post_as(&alice.token, &format!("{VERSION}/upload"), json!({})).await.expect(200).json();
    let url = response["signedUrl"].as_str().expect("a link");
    let path = &url[url.find("/uploads/").expect("an upload link")..];
    app.send(app.request(Method::PUT, path).body(valid_archive())).await.expect(200);
}

/// Returns the archive links of 1.0.0 in every response that shows the version.
async fn links_shown(app: &TestApp) -> Vec<Value> {
    let query = json!({"node_versions": [{"node_id": "face-tools", "version": "1.0.0"}]});
    let bulk = app.post("/bulk/nodes/versions", query).await.expect(200).json();
    let [node, versions, single, all_versions] = [
        app.get("/nodes/face-tools").await.expect(200).json(),
        app.get("/nodes/face-tools/versions").await.expect(200).json(),
        app.get("/nodes/face-tools/versions/1.0.0").await.expect(200).json(),
        app.get("/versions").await.expect(200).json(),
    ];
    let versions_shown = [
        &bulk["node_versions"][0]["node_version"],
        &node["latest_version"],
        &versions[0],
        &single,
        &all_versions["versions"][0],
    ];
    versions_shown
        .into_iter()
        .inspect(|version| assert_eq!(version["version"], "1.0.0"))
        .map(|version| version["downloadUrl"].clone())
        .collect()
}

#[actix_web::test]
async fn banned_nodes_and_versions_cannot_be_installed() {
    let (app, alice) = start_with_versions(&["1.0.0"]).await;
    upload_archive(&app, &alice).await;

    for subject in ["nodes/face-tools", "publishers/acme"] {
        let moderate = async |command: &str| {
            let path = format!("/admin/{subject}/{command}");
            app.post_as(app.admin_token(), &path, json!({"reason": "malware"})).await.expect(204);
        };
        moderate("ban").await;
        // No link leads to an inaccessible archive
        for link in links_shown(&app).await {
            assert_eq!(link, Value::Null, "{subject}");
        }
        for path in [INSTALL, "/nodes/face-tools/versions/1.0.0/download"] {
            let problem = app.get_as(&alice.token, path).await.expect(403).json();
            assert_eq!(problem["error"], "banned", "{subject} {path}");
        }
        moderate("unban").await;
        app.get(INSTALL).await.expect(200);
        for link in links_shown(&app).await {
            assert!(link.is_string(), "{subject}");
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn deleted_versions_have_no_download_link() {
    // Given a version with an archive
    let (app, alice) = start_with_versions(&["1.0.0"]).await;
    upload_archive(&app, &alice).await;

    // When it is deleted
    app.delete_as(&alice.token, VERSION).await.expect(204);

    // Then no link leads to an inaccessible archive
    let [node_versions, all_versions] = [
        app.get("/nodes/face-tools/versions?statuses=NodeVersionStatusDeleted").await.expect(200).json(),
        app.get("/versions?statuses=NodeVersionStatusDeleted").await.expect(200).json(),
    ];
    for listed_version in [&node_versions[0], &all_versions["versions"][0]] {
        assert_eq!((&listed_version["version"], listed_version.get("downloadUrl")), (&json!("1.0.0"), None));
    }
    app.get_as(&alice.token, "/nodes/face-tools/versions/1.0.0/download").await.expect(404);
    app.stop().await;
}

/// Returns the recorded uses of the token.
fn uses(app: &TestApp, token: TokenId) -> Vec<Timestamp> {
    let stream = StreamId::from(&token);
    let history = app.app.log().read_stream(&stream, Version(0)).unwrap();
    let uses = history.iter().filter_map(|recorded| match &recorded.event {
        Event::Token(TokenEvent::TokenUsed { at }) => Some(*at),
        _ => None,
    });
    uses.collect()
}

#[actix_web::test]
async fn token_uses_are_recorded_once_a_minute() {
    let start = Timestamp::from_micros(1_800_000_000_000_000);
    let clock = Environment::manual(start, 7);
    let app = TestApp::start_with(|_| {}, clock.clone()).await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    let secret = app.access_token("acme", &alice).await;
    let tokens = app.get_as(&alice.token, "/publishers/acme/tokens").await.expect(200).json();
    let token = TokenId::parse(tokens[0]["id"].as_str().unwrap()).unwrap();
    // Requests are repeated, because a use may be left out while another one is being recorded.
    let until_used = async |times: usize| {
        let is_recorded = async || {
            app.get_as(&secret, "/nodes").await.expect(200);
            uses(&app, token).len() >= times
        };
        eventually(format!("{times} uses are recorded"), is_recorded).await;
    };
    until_used(1).await;
    clock.advance(Duration::from_secs(59));
    app.get_as(&secret, "/nodes").await.expect(200);
    clock.advance(Duration::from_secs(1));
    until_used(2).await;
    assert_eq!(uses(&app, token), [start, start.saturating_add(Duration::from_mins(1))]);

    let token_list = app.get_as(&alice.token, "/publishers/acme/tokens").await.expect(200).json();
    assert!(token_list[0]["lastUsedAt"].is_string(), "{token_list}");
    app.stop().await;
}

#[actix_web::test]
async fn statistics_count_downloads_by_day_and_reviews_by_stars() {
    // Given a node with one download on one day, two on the next, and two reviews
    let noon = Timestamp::parse("2026-11-22T12:00:00Z").unwrap();
    let clock = Environment::manual(noon, 7);
    let app = TestApp::start_with(trust_local_proxies, clock.clone()).await;
    let (app, alice) = add_versions(app, &["1.0.0"]).await;
    let bob = app.user("bob").await;
    install_from(&app, 1).await;
    wait_for_downloads(&app, 1).await;
    clock.advance(Duration::from_hours(24));
    install_from(&app, 1).await;
    install_from(&app, 2).await;
    wait_for_downloads(&app, 3).await;
    for (user, star) in [(&alice, 5), (&bob, 2)] {
        app.post_as(&user.token, &format!("/nodes/face-tools/reviews?star={star}"), json!({})).await.expect(200);
    }

    // When the statistics are read before and after a restart
    let path = "/nodes/face-tools/statistics";
    let expected = json!({
        "downloads": 3,
        "days": [
            {"date": "2026-11-21", "downloads": 0},
            {"date": "2026-11-22", "downloads": 1},
            {"date": "2026-11-23", "downloads": 2},
        ],
        "ratings": {"count": 2, "mean": 3.5, "stars": [0, 1, 0, 0, 1]},
    });
    let before = app.get(&format!("{path}?days=3")).await.expect(200).json();
    let dir = app.stop().await;
    let app = TestApp::start_in(dir, trust_local_proxies, clock).await;
    let after = app.get(&format!("{path}?days=3")).await.expect(200).json();

    // Then both show these days and stars
    assert_eq!(before, expected);
    assert_eq!(after, expected);
    assert_eq!(app.get(path).await.expect(200).json()["days"].as_array().unwrap().len(), 30);
    for days in ["0", "91", "many"] {
        let problem = app.get(&format!("{path}?days={days}")).await.expect(400).json();
        assert_eq!(problem["details"], json!(["/days must be an integer from 1 to 90"]));
    }
    app.get("/nodes/nothing/statistics").await.expect(404);
    app.stop().await;
}
