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
const LIMIT: usize = 7;
/// A change has the time of its request and becomes visible later. No request in this test takes this long.
const MARGIN: Duration = Duration::from_secs(20);
/// Time between two changes.
const PAUSE: Duration = Duration::from_secs(1);

/// Nodes by id, including banned ones.
#[derive(Default)]
struct Copy {
    nodes: BTreeMap<String, Value>,
    /// Time up to which the copy has all changes.
    up_to: Option<String>,
}

impl Copy {
    /// Reads everything the first time, then the changes since. Sorted by creation and with banned nodes, a list only
    /// grows while it is read: duplicates are possible, gaps are not.
    /// Returns the number of nodes read.
    async fn pull(&mut self, app: &TestApp, clock: &Environment) -> usize {
        let after = self.up_to.as_ref().map_or(String::new(), |moment| format!("&timestamp={moment}"));
        let (started, mut read) = (a_little_before(clock.now()), 0);
        for page in 1.. {
            let path =
                format!("/nodes?limit={LIMIT}&page={page}&sort=created_at&include_banned=true&latest=true{after}");
            let answer = app.get_as(app.admin_token(), &path).await.expect(200);
            let body = answer.json();
            for node in body["nodes"].as_array().unwrap() {
                read += 1;
                self.nodes.insert(node["id"].as_str().unwrap().to_owned(), node.clone());
            }
            if body["totalPages"].as_u64().unwrap() <= page {
                break;
            }
        }
        self.up_to = Some(started);
        read
    }
}

fn a_little_before(moment: Timestamp) -> String {
    Timestamp::from_micros(moment.micros() - i64::try_from(MARGIN.as_micros()).unwrap()).to_string()
}

/// Publishes, revises, reviews, bans and lifts bans; the number of the change determines the action.
async fn change(app: &TestApp, owner: &TestUser, number: usize) {
    // Two of three bans are lifted nine changes later.
    let subject = if number % 8 == 7 && !number.is_multiple_of(3) { number.saturating_sub(9) } else { number };
    let node = format!("n{}", subject * 7 % NODES);
    let path = format!("/publishers/acme/nodes/{node}");
    let (text, admin) = (format!("change {number}"), app.admin_token());
    match number % 8 {
        0 => {
            let body = json!({"id": format!("new{number}"), "latest_version": {"version": "1.0.0"}});
            app.post_as(&owner.token, "/publishers/acme/nodes", body).await.expect(201);
        }
        1 => {
            let review = format!("/nodes/{node}/reviews?star={}", number % 5 + 1);
            let answer = app.post_as(&owner.token, &review, json!({})).await;
            assert!([200, 403].contains(&answer.status), "{}", answer.text());
        }
        2 => {
            let answer = app.put_as(&owner.token, &format!("{path}/versions/1.0.0"), json!({"changelog": text})).await;
            assert!([200, 403].contains(&answer.status), "{}", answer.text());
        }
        3 | 4 => {
            let answer = app.put_as(&owner.token, &path, json!({"description": text, "tags": [text]})).await;
            assert!([200, 403].contains(&answer.status), "{}", answer.text());
        }
        5 => {
            let body = json!({"node_version": {"version": format!("2.0.{number}")}});
            let answer = app.post_as(&owner.token, &format!("{path}/versions"), body).await;
            assert!([201, 403].contains(&answer.status), "{}", answer.text());
        }
        way => {
            let way = if way == 6 { "ban" } else { "unban" };
            let answer = app.post_as(admin, &format!("/admin/nodes/{node}/{way}"), json!({"reason": text})).await;
            assert!([204, 409].contains(&answer.status), "{}", answer.text());
        }
    }
}

#[actix_web::test]
async fn a_copy_that_is_kept_up_is_the_catalogue() {
    // Given a catalogue
    let clock = Environment::manual(Timestamp::from_micros(1_800_000_000_000_000), 7);
    let app = TestApp::start_with(|_| {}, clock.clone()).await;
    let owner = app.user("ada").await;
    app.publisher("acme", &owner).await;
    for number in 0..NODES {
        let body = json!({"id": format!("n{number}"), "latest_version": {"version": "1.0.0"}});
        app.post_as(&owner.token, "/publishers/acme/nodes", body).await.expect(201);
    }
    clock.advance(2 * MARGIN);
    // When a client copies it page by page, and then polls for changes, while another client changes it
    let (mut copy, ended) = (Copy::default(), AtomicBool::new(false));
    let changes = async {
        for number in 0..CHANGES {
            change(&app, &owner, number).await;
            clock.advance(PAUSE);
        }
        ended.store(true, Ordering::Relaxed);
    };
    let copying = async {
        while !ended.load(Ordering::Relaxed) {
            copy.pull(&app, &clock).await;
        }
        copy.pull(&app, &clock).await;
        copy.pull(&app, &clock).await
    };
    let ((), read) = tokio::join!(changes, copying);
    // Then the last poll returned only recent changes, and at least one
    assert!((1..=20).contains(&read), "{read} nodes were read");
    // And its copy equals the whole list, and the nodes in it that are not banned equal the public list
    let mut whole = Copy::default();
    let all = whole.pull(&app, &clock).await;
    assert_eq!(all, NODES + CHANGES / 8);
    assert_eq!(whole.nodes.len(), NODES + CHANGES / 8);
    assert_eq!(copy.nodes, whole.nodes);
    let seen = app.get("/nodes?limit=1000&sort=id").await.expect(200).json();
    copy.nodes.retain(|_, node| node["status"] == "NodeStatusActive");
    assert!(copy.nodes.len() < whole.nodes.len(), "nothing was banned at the end");
    let visible: BTreeMap<_, _> = seen["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["id"].as_str().unwrap().to_owned(), node.clone()))
        .collect();
    assert_eq!(copy.nodes, visible);
}
