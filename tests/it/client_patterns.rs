//! Typical behaviour of real tools that a registry must support.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{TestApp, TestUser};

/// Fills a publisher with nodes of one version each, several at a time.
async fn fill(app: &TestApp, owner: &TestUser, ids: &[String]) {
    for chunk in ids.chunks(64) {
        let created = chunk.iter().map(|id| async move {
            let body = json!({"id": id, "latest_version": {"version": "1.0.0"}});
            app.post_as(&owner.token, "/publishers/acme/nodes", body).await.expect(201);
        });
        join_all(created).await;
    }
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("node-{index:05}")).collect()
}

fn ids_in(page: &Value) -> Vec<String> {
    let nodes = page["nodes"].as_array().unwrap();
    nodes.iter().map(|node| node["id"].as_str().unwrap().to_owned()).collect()
}

#[actix_web::test]
async fn an_oversized_limit_is_clamped_and_reported() {
    // Given more nodes than a page holds
    let app = TestApp::start().await;
    let owner = app.user("owner").await;
    app.publisher("acme", &owner).await;
    fill(&app, &owner, &ids(1_005)).await;

    // When a tool requests an absurd number of them
    let page = app.get("/nodes?limit=99999999").await.expect(200).json();

    // Then it gets a full page, and the response states the limit and the next page
    assert_eq!((ids_in(&page).len(), &page["limit"]), (1_000, &json!(1_000)));
    assert_eq!((&page["total"], &page["totalPages"]), (&json!(1_005), &json!(2)));
    let second_page = app.get("/nodes?limit=99999999&page=2").await.expect(200).json();
    let all: BTreeSet<_> = ids_in(&page).into_iter().chain(ids_in(&second_page)).collect();
    assert_eq!(all.into_iter().collect::<Vec<_>>(), ids(1_005));
}

#[actix_web::test]
async fn paging_by_creation_time_misses_no_node_during_writes() {
    // Given 5,000 nodes, and an author who publishes continuously
    let app = TestApp::start().await;
    let owner = app.user("owner").await;
    app.publisher("acme", &owner).await;
    let before = ids(5_000);
    fill(&app, &owner, &before).await;
    let stop = AtomicBool::new(false);
    let author = async {
        let mut published = 0;
        while !stop.load(Ordering::Relaxed) {
            // Ids before, between and after the existing ones in sort order.
            let id = format!("{}-new-{published}", ["a", "node-02500", "z"][published % 3]);
            let body = json!({"id": id});
            app.post_as(&owner.token, "/publishers/acme/nodes", body).await.expect(201);
            published += 1;
        }
        published
    };

    // When tools page through, one by id, one by creation
    let tools = async {
        let pages = (page_through(&app, "id"), page_through(&app, "created_at"));
        let (by_id, by_age) = futures_util::future::join(pages.0, pages.1).await;
        stop.store(true, Ordering::Relaxed);
        (by_id, by_age)
    };
    let (published, (by_id, by_age)) = futures_util::future::join(author, tools).await;
    assert!(published > 0, "nothing was added meanwhile: the test shows nothing");

    // Then neither misses a node that existed before; by creation none appears twice either
    for counts in [&by_id, &by_age] {
        let missed: Vec<_> = before.iter().filter(|id| !counts.contains_key(*id)).collect();
        assert!(missed.is_empty(), "missed: {missed:?}");
    }
    let duplicates: Vec<_> = by_age.iter().filter(|(_, times)| **times > 1).collect();
    assert!(duplicates.is_empty(), "seen twice: {duplicates:?}");
}

/// Reads every page of 30 and returns how often each node appeared.
async fn page_through(app: &TestApp, sort: &str) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for page in 1.. {
        let response = app.get(&format!("/nodes?limit=30&page={page}&sort={sort}")).await.expect(200).json();
        let ids = ids_in(&response);
        if ids.is_empty() {
            return counts;
        }
        for id in ids {
            *counts.entry(id).or_default() += 1;
        }
    }
    counts
}

#[actix_web::test]
async fn a_bulk_lookup_of_1000_packages_is_complete_and_ordered() {
    // Given a tool with 1,000 packages, some of them unknown, and one with an invalid version
    let app = TestApp::start().await;
    let owner = app.user("owner").await;
    app.publisher("acme", &owner).await;
    fill(&app, &owner, &ids(500)).await;
    let package = |index: usize| match index {
        999 => json!({"node_id": "node-00000", "version": "newest"}),
        nth => json!({"node_id": format!("NODE-{nth:05}"), "version": "1.0.0"}),
    };
    let packages: Vec<Value> = (0..1_000).map(package).collect();

    // When it starts ten times
    for _ in 0..10 {
        let request = app.request(Method::POST, "/bulk/nodes/versions").json(&json!({"node_versions": packages}));
        let response = app.send(request).await.expect(200).json();

        // Then each time every package has its answer, in the order of the request
        let results = response["node_versions"].as_array().unwrap();
        assert_eq!(results.len(), 1_000);
        for (index, (result, queried)) in results.iter().zip(&packages).enumerate() {
            let expected = if index < 500 {
                "success"
            } else if index < 999 {
                "not_found"
            } else {
                "error"
            };
            assert_eq!((&result["status"], &result["identifier"]), (&json!(expected), queried), "package {index}");
        }
    }

    // And one package more than the limit is rejected, with the limit
    let too_many: Vec<Value> = (0..1_001).map(package).collect();
    let problem = app.post("/bulk/nodes/versions", json!({"node_versions": too_many})).await.expect(400);
    assert!(problem.text().contains("1000") || problem.text().contains("1,000"), "{}", problem.text());
}
