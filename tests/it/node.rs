//! Nodes: creating, reading, listing.

use futures_util::future::join;
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::support::{TestApp, TestUser};

async fn app_with_publisher() -> (TestApp, TestUser) {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    (app, alice)
}

fn ids(nodes: &Value) -> Vec<&str> {
    nodes.as_array().expect("an array").iter().map(|node| node["id"].as_str().expect("an id")).collect()
}

#[actix_web::test]
async fn a_node_is_shown_with_everything_that_clients_read() {
    let (app, alice) = app_with_publisher().await;
    let minimal = app.post_as(&alice.token, "/publishers/acme/nodes", json!({"id": "Least"})).await.expect(201).json();
    let created_at = minimal["created_at"].clone();
    assert!(created_at.is_string());
    assert_eq!(
        minimal,
        json!({
            "id": "Least", "name": "Least", "description": "", "publisher": {"id": "acme", "name": "acme"},
            "status": "NodeStatusActive", "created_at": created_at, "downloads": 0,
            "preempted_host_node_names": [], "supported_accelerators": [], "supported_os": [], "tags": [], "tags_admin": [],
        })
    );

    let full = json!({
        "id": "full", "name": "Full", "description": "all of it", "author": "alice", "banner_url": "https://a.example/b",
        "category": "image", "icon": "", "license": "MIT", "repository": "https://a.example/r", "tags": ["a", "b"],
        "preempted_host_node_names": ["x"], "supported_accelerators": ["CUDA"], "supported_host_version": ">=1",
        "supported_host_frontend_version": ">=2", "supported_os": ["linux"],
        "translations": {"de": {"name": "Voll"}}, "downloads": 9, "rating": 5, "status": "NodeStatusBanned",
        "latest_version": {"version": "1.0.0", "changelog": "first", "status": "NodeVersionStatusBanned"},
    });
    let response = app.post_as(&alice.token, "/publishers/acme/nodes", full.clone()).await.expect(201);
    assert!(response.header("location").is_some_and(|location| location.ends_with("/nodes/full")));

    let body = response.json();
    for field in ["author", "banner_url", "category", "license", "repository", "tags", "supported_os", "translations"] {
        assert_eq!(body[field], full[field], "{field}");
    }
    assert_eq!((body.get("icon"), &body["downloads"], body.get("rating")), (None, &json!(0), None));

    let version = &body["latest_version"];
    assert_eq!((&version["version"], &version["node_id"]), (&json!("1.0.0"), &json!("full")));
    assert_eq!((&version["status"], &version["deprecated"]), (&json!("NodeVersionStatusActive"), &json!(false)));
    assert_eq!(app.get("/nodes/full").await.expect(200).json(), body);
    app.stop().await;
}

#[actix_web::test]
async fn node_ids_are_unique_regardless_of_case() {
    let (app, alice) = app_with_publisher().await;
    let bob = app.user("bob").await;
    app.publisher("other", &bob).await;
    app.node("acme", "Face-Tools", &alice).await;
    for id in ["Face-Tools", "face-tools", "FACE-TOOLS"] {
        app.post_as(&alice.token, "/publishers/acme/nodes", json!({"id": id})).await.expect(409);
        app.post_as(&bob.token, "/publishers/other/nodes", json!({"id": id})).await.expect(409);
    }
    app.stop().await;
}

#[actix_web::test]
async fn one_of_two_concurrent_claims_wins() {
    let (app, alice) = app_with_publisher().await;
    for round in 0..1000 {
        let create_node =
            || app.post_as(&alice.token, "/publishers/acme/nodes", json!({"id": format!("node-{round}")}));
        let (first, second) = join(create_node(), create_node()).await;
        let mut statuses = [first.status, second.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409], "round {round}");
    }

    let page = app.get("/nodes?limit=1").await.expect(200).json();
    assert_eq!(page["total"], 1000);
    app.stop().await;
}

#[actix_web::test]
async fn ids_in_the_wrong_case_redirect() {
    let (app, alice) = app_with_publisher().await;
    app.node("acme", "Face-Tools", &alice).await;
    let redirect = app.get("/nodes/face-TOOLS?x=1").await.expect(302);
    assert_eq!(redirect.header("location"), Some(app.url("/nodes/Face-Tools?x=1").as_str()));
    app.get("/nodes/Face-Tools").await.expect(200);
    for id in ["none", "-", "a%20b", "face-tools%2F"] {
        app.get(&format!("/nodes/{id}")).await.expect(404);
    }
    app.stop().await;
}

#[actix_web::test]
async fn pages_of_any_order_contain_every_node_once() {
    let (app, alice) = app_with_publisher().await;
    for n in 0..7 {
        let body = json!({"id": format!("n{n}"), "name": format!("{}", n % 3), "author": format!("{}", n / 4)});
        app.post_as(&alice.token, "/publishers/acme/nodes", body).await.expect(201);
    }
    for sort in
        ["", "&sort=name", "&sort=name;desc&sort=id;desc", "&sort=author,name", "&sort=downloads", "&sort=rating;desc"]
    {
        let mut ids_seen = Vec::new();
        for page in 1..=4 {
            let response = app.get(&format!("/nodes?limit=2&page={page}{sort}")).await.expect(200).json();
            assert_eq!((&response["total"], &response["totalPages"]), (&json!(7), &json!(4)), "{sort}");
            ids_seen.extend(ids(&response["nodes"]).into_iter().map(str::to_owned));
        }
        ids_seen.sort();
        assert_eq!(ids_seen, ["n0", "n1", "n2", "n3", "n4", "n5", "n6"], "{sort}");
    }

    let by = |sort: &'static str| {
        let app = &app;
        async move { app.get(&format!("/nodes?sort={sort}")).await.expect(200).json()["nodes"].clone() }
    };
    assert_eq!(ids(&by("name;desc,id;desc").await), ["n5", "n2", "n4", "n1", "n6", "n3", "n0"]);
    assert_eq!(ids(&by("created_at;desc").await), ["n6", "n5", "n4", "n3", "n2", "n1", "n0"]);
    app.stop().await;
}

#[actix_web::test]
async fn the_list_is_strict_about_pages_and_columns_and_lenient_about_the_rest() {
    let (app, alice) = app_with_publisher().await;
    app.node("acme", "a", &alice).await;
    for query in ["page=0", "limit=0", "page=x", "limit=-1", "page=1.5", "sort=secret", "sort=name;up"] {
        app.get(&format!("/nodes?{query}")).await.expect(400);
    }
    let problem = app.get("/nodes?page=0&limit=x&sort=secret").await.expect(400).json();
    let pointers: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|error| &error["pointer"]).collect();
    assert_eq!(pointers, ["/page", "/limit", "/sort"]);
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("search_ranking")), "{problem}");

    let page = app.get("/nodes?limit=5000&latest=true&unknown=1").await.expect(200).json();
    assert_eq!((&page["limit"], &page["total"]), (&json!(1000), &json!(1)));
    let past = app.get("/nodes?page=99").await.expect(200).json();
    assert_eq!((&past["nodes"], &past["page"], &past["total"]), (&json!([]), &json!(99), &json!(1)));
    app.stop().await;
}

#[actix_web::test]
async fn the_list_can_be_filtered_by_id() {
    let (app, alice) = app_with_publisher().await;
    for id in ["a", "B", "c"] {
        app.node("acme", id, &alice).await;
    }
    for (query, expected) in [
        ("node_id=a&node_id=b", vec!["a", "B"]),
        ("node_id=c,A", vec!["a", "c"]),
        ("node_id[]=c&node_id[]=none", vec!["c"]),
        ("node_id=none", vec![]),
        ("node_id=%20-%20", vec![]),
        ("node_id=", vec!["a", "B", "c"]),
    ] {
        let page = app.get(&format!("/nodes?{query}")).await.expect(200).json();
        assert_eq!(ids(&page["nodes"]), expected, "{query}");
        assert_eq!(page["total"], expected.len(), "{query}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn the_nodes_of_a_publisher_come_as_an_array_with_links() {
    let (app, alice) = app_with_publisher().await;
    for id in ["c", "a", "b"] {
        app.node("acme", id, &alice).await;
    }
    let nodes = app.get_as(&alice.token, "/publishers/acme/nodes").await.expect(200);
    assert_eq!((ids(&nodes.json()), nodes.header("x-total-count")), (vec!["a", "b", "c"], Some("3")));

    let second = app.get_as(&alice.token, "/publishers/acme/nodes?limit=2&page=2").await.expect(200);
    assert_eq!((ids(&second.json()), second.header("x-total-count")), (vec!["c"], Some("3")));

    let page = |n: u32| app.url(&format!("/publishers/acme/nodes?limit=2&page={n}"));
    let links = format!("<{0}>; rel=\"first\", <{0}>; rel=\"prev\", <{1}>; rel=\"last\"", page(1), page(2));
    assert_eq!(second.header("link"), Some(links.as_str()));
    app.get_as(&alice.token, "/publishers/acme/nodes?limit=0").await.expect(400);
    app.stop().await;
}

#[actix_web::test]
async fn writes_are_visible_immediately() {
    let (app, alice) = app_with_publisher().await;
    for n in 0..50 {
        let id = format!("node-{n}");
        app.node("acme", &id, &alice).await;
        let paths = [format!("/nodes?node_id={id}"), "/nodes?limit=1&latest=false".to_owned()];
        let [by_id, listed_page] = [app.get(&paths[0]).await.json(), app.get(&paths[1]).await.json()];
        assert_eq!((&by_id["total"], &listed_page["total"]), (&json!(1), &json!(n + 1)));
    }
    let head = app.send(app.request(Method::HEAD, "/nodes/node-0")).await.expect(200);
    assert!(head.body.is_empty());
    app.stop().await;
}

#[actix_web::test]
async fn an_oversized_change_is_rejected_completely() {
    let (app, alice) = app_with_publisher().await;
    let texts: Map<_, _> = (0..20).map(|index| (format!("field-{index}"), json!("x".repeat(1000)))).collect();
    let languages: Map<_, _> = (0..60).map(|index| (format!("de-{index}"), json!(texts))).collect();
    let body = json!({"id": "big", "translations": languages});
    let problem = app.post_as(&alice.token, "/publishers/acme/nodes", body).await.expect(413).json();
    assert_eq!(problem["error"], "payload_too_large");
    app.get("/nodes/big").await.expect(404);
    app.stop().await;
}
