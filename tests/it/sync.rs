//! Client that mirrors the catalogue, first by pages and then by the nodes changed since a time, while another client
//! changes it. `benches/registry/sync.py` does the same for longer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mediary::domain::value::Timestamp;
use mediary::environment::Environment;
use serde_json::{Value, json};

use crate::support::{TestApp, TestUser};

/// Nodes at the beginning.
const NODES: usize = 60;
/// Changes by the other client.
const CHANGES: usize = 240;
/// Nodes on a page.
const LIMIT: usize = 7;
/// Overlap of two polls: a change has the time of its request and becomes visible later. In this test, no request takes
/// this long.
const MARGIN: Duration = Duration::from_secs(20);
/// Time between two changes.
const PAUSE: Duration = Duration::from_secs(1);

/// Nodes by id, including banned ones.
#[derive(Default)]
struct CatalogueCopy {
    nodes: BTreeMap<String, Value>,
    /// Time up to which the copy has all changes.
    up_to: Option<String>,
}

impl CatalogueCopy {
    /// Reads everything the first time, then the changes since. Sorted by creation and with banned nodes, a list only
    /// grows while it is read: duplicates are possible, gaps are not. Returns the number of nodes read.
    async fn pull(&mut self, app: &TestApp, clock: &Environment) -> usize {
        let after = self.up_to.as_ref().map_or(String::new(), |timestamp| format!("&timestamp={timestamp}"));
        let started = a_little_before(clock.now());
        let mut nodes_read = 0;
        for page in 1.. {
            let path =
                format!("/nodes?limit={LIMIT}&page={page}&sort=created_at&include_banned=true&latest=true{after}");
            let response = app.get_as(app.admin_token(), &path).await.expect(200);
            let body = response.json();
            for node in body["nodes"].as_array().unwrap() {
                nodes_read += 1;
                self.nodes.insert(node["id"].as_str().unwrap().to_owned(), node.clone());
            }
            if body["totalPages"].as_u64().unwrap() <= page {
                break;
            }
        }
        self.up_to = Some(started);
        nodes_read
    }
}

fn a_little_before(timestamp: Timestamp) -> String {
    Timestamp::from_micros(timestamp.micros() - i64::try_from(MARGIN.as_micros()).unwrap()).to_string()
}

/// Publishes, revises, reviews, bans and lifts bans; the number of the change determines the action.
async fn change(app: &TestApp, owner: &TestUser, index: usize) {
    // Two of three bans are lifted nine changes later.
    let subject = if index % 8 == 7 && !index.is_multiple_of(3) { index.saturating_sub(9) } else { index };
    let node = format!("n{}", subject * 7 % NODES);
    let path = format!("/publishers/acme/nodes/{node}");
    let (text, admin) = (format!("change {index}"), app.admin_token());

    match index % 8 {
        0 => {
            let body = json!({"id": format!("new{index}"), "latest_version": {"version": "1.0.0"}});
            app.post_as(&owner.token, "/publishers/acme/nodes", body).await.expect(201);
        }
        1 => {
            let review = format!("/nodes/{node}/reviews?star={}", index % 5 + 1);
            let response = app.post_as(&owner.token, &review, json!({})).await;
            assert!([200, 403].contains(&response.status), "{}", response.text());
        }
        2 => {
            let response =
                app.put_as(&owner.token, &format!("{path}/versions/1.0.0"), json!({"changelog": text})).await;
            assert!([200, 403].contains(&response.status), "{}", response.text());
        }
        3 | 4 => {
            let response = app.put_as(&owner.token, &path, json!({"description": text, "tags": [text]})).await;
            assert!([200, 403].contains(&response.status), "{}", response.text());
        }
        5 => {
            let body = json!({"node_version": {"version": format!("2.0.{index}")}});
            let response = app.post_as(&owner.token, &format!("{path}/versions"), body).await;
            assert!([201, 403].contains(&response.status), "{}", response.text());
        }
        other_action => {
            let action = if other_action == 6 { "ban" } else { "unban" };
            let response = app.post_as(admin, &format!("/admin/nodes/{node}/{action}"), json!({"reason": text})).await;
            assert!([204, 409].contains(&response.status), "{}", response.text());
        }
    }
}

#[actix_web::test]
async fn a_synchronized_copy_equals_the_catalogue() {
    // Given a catalogue
    let clock = Environment::manual(Timestamp::from_micros(1_800_000_000_000_000), 7);
    let app = TestApp::start_with(|_| {}, clock.clone()).await;
    let owner = app.user("ada").await;
    app.publisher("acme", &owner).await;
    for index in 0..NODES {
        let body = json!({"id": format!("n{index}"), "latest_version": {"version": "1.0.0"}});
        app.post_as(&owner.token, "/publishers/acme/nodes", body).await.expect(201);
    }
    clock.advance(2 * MARGIN);

    // When a client copies it page by page, and then polls for changes, while another client changes it
    let mut copy = CatalogueCopy::default();
    let is_finished = AtomicBool::new(false);
    let changes = async {
        for index in 0..CHANGES {
            change(&app, &owner, index).await;
            clock.advance(PAUSE);
        }
        is_finished.store(true, Ordering::Relaxed);
    };
    let copying = async {
        while !is_finished.load(Ordering::Relaxed) {
            copy.pull(&app, &clock).await;
        }
        copy.pull(&app, &clock).await;
        copy.pull(&app, &clock).await
    };
    let ((), nodes_read) = tokio::join!(changes, copying);

    // Then the last poll returned only recent changes, and at least one
    assert!((1..=20).contains(&nodes_read), "{nodes_read} nodes were read");

    // And its copy equals the whole list, and the nodes in it that are not banned equal the public list
    let mut fresh_copy = CatalogueCopy::default();
    let full_count = fresh_copy.pull(&app, &clock).await;
    assert_eq!(full_count, NODES + CHANGES / 8);
    assert_eq!(fresh_copy.nodes.len(), NODES + CHANGES / 8);
    assert_eq!(copy.nodes, fresh_copy.nodes);
    let listed = app.get("/nodes?limit=1000&sort=id").await.expect(200).json();
    copy.nodes.retain(|_, node| node["status"] == "NodeStatusActive");
    assert!(copy.nodes.len() < fresh_copy.nodes.len(), "nothing was banned at the end");
    let visible: BTreeMap<_, _> = listed["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["id"].as_str().unwrap().to_owned(), node.clone()))
        .collect();
    assert_eq!(copy.nodes, visible);
}
