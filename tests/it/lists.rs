//! Lists of nodes over HTTP: every parameter, paging, entity tags, and read-your-writes.

use std::io::Read;

use mediary::actors::projector::rebuild;
use reqwest::Method;
use reqwest::header::{ACCEPT_ENCODING, IF_NONE_MATCH};
use serde_json::{Value, json};

use crate::support::{TestApp, TestUser};

/// Starts a service with a publisher of these nodes.
async fn app_with(nodes: &[Value]) -> (TestApp, TestUser) {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    for node in nodes {
        create(&app, &alice, node.clone()).await;
    }
    (app, alice)
}

async fn create(app: &TestApp, owner: &TestUser, node: Value) -> Value {
    app.post_as(&owner.token, "/publishers/acme/nodes", node).await.expect(201).json()
}

fn unzipped(bytes: &[u8]) -> Vec<u8> {
    let mut decompressed = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut decompressed).expect("gzip");
    decompressed
}

/// Returns the ids of a page of nodes, and the total.
async fn listed(app: &TestApp, path: &str) -> (Vec<String>, u64) {
    let page = app.get(path).await.expect(200).json();
    let ids = page["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap().to_owned());
    (ids.collect(), page["total"].as_u64().unwrap())
}

async fn ids(app: &TestApp, path: &str) -> Vec<String> {
    listed(app, path).await.0
}

#[actix_web::test]
async fn pages_of_every_column_partition_the_list() {
    let nodes: Vec<Value> = (0..11)
        .map(|n| json!({"id": format!("n{n:02}"), "name": format!("{}", n % 3), "author": format!("{}", n % 2)}))
        .collect();
    let (app, _) = app_with(&nodes).await;
    for column in [
        "id",
        "name",
        "author",
        "publisher",
        "created_at",
        "updated_at",
        "downloads",
        "github_stars",
        "rating",
        "search_ranking",
    ] {
        for direction in ["", ";desc"] {
            let full_list = ids(&app, &format!("/nodes?limit=99999999&sort={column}{direction}")).await;
            let mut paged = Vec::new();
            for page in 1..=4 {
                let (part, total) = listed(&app, &format!("/nodes?limit=3&page={page}&sort={column}{direction}")).await;
                assert_eq!(total, 11);
                paged.extend(part);
            }
            assert_eq!(paged, full_list, "{column}{direction}");
        }
    }

    // Names are n % 3 and authors n % 2; ties are ordered by ascending id.
    let by_two = ids(&app, "/nodes?sort=name;desc&sort=author&limit=5").await;
    assert_eq!(by_two, ["n02", "n08", "n05", "n04", "n10"]);
    app.stop().await;
}

#[actix_web::test]
async fn limits_are_clamped_and_pages_past_the_end_are_empty() {
    let (app, _) = app_with(&[json!({"id": "a"}), json!({"id": "b"})]).await;
    let page = app.get("/nodes?limit=99999999").await.expect(200).json();
    assert_eq!((&page["limit"], &page["page"], &page["totalPages"]), (&json!(1000), &json!(1), &json!(1)));

    for path in [
        "/nodes?limit=1&page=3",
        "/nodes/search?limit=1&page=18446744073709551615",
        "/nodes?sort=name,id&limit=1&page=3",
    ] {
        let page = app.get(path).await.expect(200).json();
        assert_eq!((&page["nodes"], &page["total"], &page["totalPages"]), (&json!([]), &json!(2), &json!(2)), "{path}");
    }

    for invalid in ["page=0", "limit=0", "limit=x", "page=-1"] {
        app.get(&format!("/nodes?{invalid}")).await.expect(400);
        app.get(&format!("/nodes/search?{invalid}")).await.expect(400);
    }
    app.stop().await;
}

#[actix_web::test]
async fn node_filters_use_the_node_and_its_latest_version() {
    let (app, _) = app_with(&[
        json!({"id": "a", "supported_os": ["Linux"], "supported_accelerators": ["CUDA"]}),
        json!({"id": "b", "supported_os": ["windows", "macOS"]}),
        json!({"id": "c", "latest_version": {"version": "1.0.0", "supported_os": ["LINUX"], "supported_accelerators": ["ROCm"]}}),
        json!({"id": "d"}),
    ])
    .await;

    for (query, expected) in [
        ("supported_os=linux", vec!["a", "c"]),
        ("supported_os=LINUX&supported_os=Windows", vec!["a", "b", "c"]),
        ("supported_os=linux,macos", vec!["a", "b", "c"]),
        ("supported_os[]=macos", vec!["b"]),
        ("supported_os=plan9", vec![]),
        ("supported_os=", vec!["a", "b", "c", "d"]),
        ("supported_accelerator=cuda", vec!["a"]),
        ("supported_accelerator=cuda&supported_accelerator=rocm", vec!["a", "c"]),
        ("supported_accelerator=rocm&supported_os=linux", vec!["c"]),
        ("supported_accelerator=cuda&supported_os=windows", vec![]),
        ("supported_os=linux&node_id=C&node_id=B", vec!["c"]),
    ] {
        for (path, sort) in [("/nodes", ""), ("/nodes/search", "&sort=id")] {
            let (found, total) = listed(&app, &format!("{path}?{query}{sort}")).await;
            assert_eq!(
                (found, total),
                (expected.iter().map(|id| (*id).to_owned()).collect(), expected.len() as u64),
                "{path} {query}"
            );
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_platform_filter_omits_nodes_that_exclude_it() {
    let (app, _) = app_with(&[
        json!({"id": "any"}),
        json!({"id": "independent", "supported_os": ["OS Independent"]}),
        json!({"id": "lin", "supported_os": ["Linux"]}),
        json!({"id": "mac", "supported_os": ["darwin"]}),
        json!({"id": "win", "supported_os": ["win32"]}),
    ])
    .await;
    for (factors, excluded) in [
        (&["git-windows", "desktop-win"][..], &["lin", "mac"][..]),
        (&["git-mac", "desktop-mac"], &["lin", "win"]),
        (&["git-linux"], &["mac", "win"]),
        (&["other", "phone", "unknown"], &[]),
    ] {
        for factor in factors {
            let found = ids(&app, &format!("/nodes?form_factor={factor}")).await;
            let expected: Vec<_> =
                ["any", "independent", "lin", "mac", "win"].into_iter().filter(|id| !excluded.contains(id)).collect();
            assert_eq!(found, expected, "{factor}");
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn host_ranges_are_applied_and_unreadable_ones_admit_all() {
    let range = |id: &str, range: &str| json!({"id": id, "supported_host_version": range});
    let (app, _) = app_with(&[
        range("a", ">=1.2, <2"),
        range("b", "^2"),
        range("c", "whatever you like"),
        json!({"id": "d"}),
        json!({"id": "e", "latest_version": {"version": "1.0.0", "supported_host_version": "~1.4"}}),
        range("f", "1.4.7"),
    ])
    .await;
    for (host, expected) in [
        ("1.4.7", &["a", "c", "d", "e", "f"][..]),
        ("1.5.0", &["a", "c", "d"]),
        ("2.0.0", &["b", "c", "d"]),
        ("2.0.0-rc.1", &["c", "d"]),
        ("v1.4.7-20-g5c5457a4", &["a", "c", "d", "e", "f"]),
        ("unknown", &["a", "b", "c", "d", "e", "f"]),
    ] {
        assert_eq!(ids(&app, &format!("/nodes?host_version={host}")).await, expected, "{host}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn timestamp_selects_nodes_changed_after_it() {
    let (app, alice) = app_with(&[json!({"id": "a"}), json!({"id": "b"}), json!({"id": "c"})]).await;
    let body = app.get("/nodes?sort=updated_at;desc&limit=1").await.expect(200).json();
    let newest = body["nodes"][0]["created_at"].as_str().unwrap().to_owned();
    assert_eq!(ids(&app, &format!("/nodes?timestamp={newest}")).await, [""; 0]);
    assert_eq!(ids(&app, "/nodes?timestamp=2020-01-01T00:00:00+02:00").await, ["a", "b", "c"]);

    let version = json!({"node_version": {"version": "1.0.0"}});
    app.post_as(&alice.token, "/publishers/acme/nodes/b/versions", version).await.expect(201);
    assert_eq!(ids(&app, &format!("/nodes?timestamp={newest}")).await, ["b"]);
    create(&app, &alice, json!({"id": "d"})).await;
    assert_eq!(ids(&app, &format!("/nodes?timestamp={newest}&sort=id;desc")).await, ["d", "b"]);
    assert_eq!(ids(&app, "/nodes?timestamp=2020-01-31&sort=id;desc").await, ["d", "c", "b", "a"]);
    assert_eq!(ids(&app, "/nodes?timestamp=2999-01-31T12:00:00").await, [""; 0]);
    for invalid in ["yesterday", "2026-13-01T00:00:00Z", "1"] {
        app.get(&format!("/nodes?timestamp={invalid}")).await.expect(400);
    }
    app.stop().await;
}

#[actix_web::test]
async fn search_covers_every_text_field() {
    let (app, alice) = app_with(&[
        json!({"id": "face-tools", "name": "Portraits", "description": "Swaps what you see", "tags": ["mask"]}),
        json!({"id": "mask", "author": "Bob"}),
        json!({"id": "other", "description": "not a mask"}),
    ])
    .await;
    assert_eq!(ids(&app, "/nodes/search?search=mask").await, ["mask", "face-tools", "other"]);
    assert_eq!(ids(&app, "/nodes/search?search=facetools").await, ["face-tools"]);
    assert_eq!(ids(&app, "/nodes/search?search=FACE%20TOO").await, ["face-tools"]);
    assert_eq!(ids(&app, "/nodes/search?search=acme+swaps").await, ["face-tools"]);
    assert_eq!(ids(&app, "/nodes/search?search=bob").await, ["mask"]);
    assert_eq!(listed(&app, "/nodes/search").await.1, 3);
    for missing in ["nothing", "%2B%2B"] {
        assert_eq!(listed(&app, &format!("/nodes/search?search={missing}")).await, (vec![], 0), "{missing}");
    }
    assert_eq!(listed(&app, "/nodes/search?search=mask&limit=1&page=2").await, (vec!["face-tools".to_owned()], 3));
    let long = app.get(&format!("/nodes/search?search={}", "a".repeat(201))).await.expect(400).json();
    assert_eq!(long["errors"][0]["pointer"], "/search");

    app.put_as(&alice.token, "/publishers/acme", json!({"name": "Wizards"})).await.expect(200);
    assert_eq!(listed(&app, "/nodes/search?search=wizards").await.1, 3);
    app.stop().await;
}

#[actix_web::test]
async fn pages_return_304_until_they_change() {
    let (app, alice) = app_with(&[
        json!({"id": "a", "description": "x".repeat(900)}),
        json!({"id": "b", "description": "y".repeat(900)}),
    ])
    .await;
    let paths =
        ["/nodes", "/nodes?sort=name&supported_os=", "/nodes/search?search=acme", "/nodes/a", "/nodes?latest=true"];
    let mut tags = Vec::new();
    for path in paths {
        let response = app.get(path).await.expect(200);
        let tag = response.header("etag").unwrap().to_owned();
        assert!(tag.starts_with('"'), "the tag is strong: {tag}");
        assert_eq!(response.header("cache-control"), Some("no-cache"));
        let repeated = app.send(app.request(Method::GET, path).header(IF_NONE_MATCH, &tag)).await.expect(304);
        assert_eq!((repeated.body.len(), repeated.header("etag")), (0, Some(tag.as_str())), "{path}");

        let zipped = app.send(app.request(Method::GET, path).header(ACCEPT_ENCODING, "gzip")).await.expect(200);
        let zipped_tag = zipped.header("etag").unwrap().to_owned();
        assert_eq!(zipped.header("content-encoding"), Some("gzip"), "{path}");
        assert_eq!(zipped_tag, format!("{}-gzip\"", tag.trim_end_matches('"')));
        app.send(app.request(Method::GET, path).header(IF_NONE_MATCH, &zipped_tag)).await.expect(304);
        assert_eq!(unzipped(&zipped.body), response.body, "{path}");
        let repeated = app.send(app.request(Method::GET, path).header(ACCEPT_ENCODING, "gzip")).await.expect(200);
        assert_eq!(
            (unzipped(&repeated.body), repeated.header("etag")),
            (response.body, Some(zipped_tag.as_str())),
            "{path}"
        );
        tags.push(tag);
    }
    assert_eq!(tags[0], tags[4], "both ways of reading give the same response");

    create(&app, &alice, json!({"id": "c"})).await;
    for (path, tag) in paths.iter().zip(&tags) {
        let expected = if *path == "/nodes/a" { 304 } else { 200 };
        app.send(app.request(Method::GET, path).header(IF_NONE_MATCH, tag)).await.expect(expected);
    }
    app.put_as(&alice.token, "/publishers/acme", json!({"name": "Other"})).await.expect(200);
    app.send(app.request(Method::GET, "/nodes/a").header(IF_NONE_MATCH, &tags[3])).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn cached_pages_are_never_stale() {
    let (app, alice) = app_with(&[]).await;
    let paths = [
        "/nodes?limit=1000&latest=false",
        "/nodes?limit=1000&sort=publisher&sort=name",
        "/nodes/search?search=acme&limit=1000",
    ];
    for n in 0..30 {
        create(&app, &alice, json!({"id": format!("n{n}"), "name": "before"})).await;
        for path in paths {
            let (cached, computed) =
                (app.get(path).await.expect(200), app.get(&path.replace("latest=false", "latest=true")).await);
            assert_eq!((cached.json()["total"].as_u64(), &cached.body), (Some(n + 1), &computed.body), "{path}");
        }
        let version = json!({"node": {"name": format!("after {n}")}, "node_version": {"version": "1.0.0"}});
        app.post_as(&alice.token, &format!("/publishers/acme/nodes/n{n}/versions"), version).await.expect(201);
        for path in paths {
            let text = app.get(path).await.expect(200).text();
            assert!(text.contains(&format!("\"after {n}\"")) && !text.contains("\"before\""), "{path}");
        }
    }
    assert_eq!(rebuild(&**app.app.log()).unwrap(), *app.app.models().read());
    app.stop().await;
}

#[actix_web::test]
async fn all_invalid_parameters_are_reported_at_once() {
    let (app, _) = app_with(&[]).await;
    let path = "/nodes?page=0&limit=x&sort=secret&timestamp=1&include_banned=maybe&latest=1";
    let problem = app.get(path).await.expect(400).json();
    let mut pointers: Vec<_> =
        problem["errors"].as_array().unwrap().iter().map(|error| error["pointer"].as_str().unwrap()).collect();
    pointers.sort_unstable();
    assert_eq!(pointers, ["/include_banned", "/latest", "/limit", "/page", "/sort", "/timestamp"]);
    app.stop().await;
}

#[actix_web::test]
async fn administrators_can_list_banned_nodes() {
    let (app, alice) = app_with(&[json!({"id": "a", "name": "z"}), json!({"id": "b"}), json!({"id": "c"})]).await;
    let admin = app.admin_token().to_owned();
    let ban = |ban_path: &'static str| app.post_as(&admin, ban_path, json!({"reason": "Malware"}));
    let listed_ids = async |token: &str, path: &str| {
        let page = app.get_as(token, path).await.expect(200).json();
        let ids = page["nodes"].as_array().or(page.as_array()).unwrap().iter();
        ids.map(|node| node["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    ban("/admin/nodes/b/ban").await.expect(204);
    for path in ["/nodes?x=", "/nodes?sort=name;desc", "/nodes/search?search=acme", "/nodes?node_id=a,b,c"] {
        let with_banned = format!("{path}&include_banned=true");
        assert_eq!(ids(&app, path).await.len(), 2, "{path}");
        assert_eq!(ids(&app, &with_banned).await.len(), 2, "{path}: banned nodes are hidden from anonymous callers");
        assert_eq!(
            listed_ids(&alice.token, &with_banned).await.len(),
            2,
            "{path}: banned nodes are hidden from members"
        );
        assert_eq!(listed_ids(&admin, &with_banned).await.len(), 3, "{path}");
    }
    assert_eq!(listed_ids(&admin, "/nodes?include_banned=true&sort=name&sort=id").await, ["b", "c", "a"]);
    let body = app.get("/nodes/b").await.expect(200).json();
    assert_eq!((&body["status"], &body["status_detail"]), (&json!("NodeStatusBanned"), &json!("Malware")));

    let stranger = app.user("stranger").await;
    let own_nodes_path = "/publishers/acme/nodes?include_banned=true";
    assert_eq!(listed_ids(&stranger.token, own_nodes_path).await, ["a", "c"]);
    assert_eq!(listed_ids(&alice.token, own_nodes_path).await, ["a", "b", "c"]);
    assert_eq!(listed_ids(&alice.token, "/publishers/acme/nodes").await, ["a", "c"]);

    ban("/admin/publishers/acme/ban").await.expect(204);
    assert_eq!(listed(&app, "/nodes").await, (vec![], 0));
    assert_eq!(listed_ids(&admin, "/nodes?include_banned=true").await, ["a", "b", "c"]);
    let body = app.get("/nodes/a").await.expect(200).json();
    let (status, detail) = (&body["status"], &body["status_detail"]);
    assert_eq!((status, detail), (&json!("NodeStatusBanned"), &json!("the publisher is banned")));
    ban("/admin/publishers/acme/unban").await.expect(204);
    ban("/admin/nodes/b/unban").await.expect(204);
    assert_eq!(ids(&app, "/nodes").await, ["a", "b", "c"]);
    assert_eq!(rebuild(&**app.app.log()).unwrap(), *app.app.models().read());
    app.stop().await;
}

#[actix_web::test]
async fn admin_fields_affect_sorting_immediately() {
    let (app, _) = app_with(&[json!({"id": "a"}), json!({"id": "b"}), json!({"id": "c"})]).await;
    let admin = app.admin_token().to_owned();
    let facts = json!({"downloads": 9, "github_stars": 3, "rating": 4.5, "search_ranking": -2});
    app.put_as(&admin, "/admin/nodes/b", facts.clone()).await.expect(200);
    app.put_as(&admin, "/admin/nodes/c", json!({"downloads": 12, "search_ranking": 1})).await.expect(200);

    for (sort, expected) in [
        ("downloads;desc", ["c", "b", "a"]),
        ("downloads", ["a", "b", "c"]),
        ("github_stars;desc", ["b", "a", "c"]),
        ("rating;desc", ["b", "a", "c"]),
        ("search_ranking", ["a", "b", "c"]),
        ("search_ranking;desc", ["c", "b", "a"]),
    ] {
        assert_eq!(ids(&app, &format!("/nodes?sort={sort}")).await, expected, "{sort}");
    }
    assert_eq!(ids(&app, "/nodes/search").await, ["c", "b", "a"]);

    let body = app.get("/nodes/b").await.expect(200).json();
    for field in ["downloads", "github_stars", "rating", "search_ranking"] {
        assert_eq!(body[field], facts[field], "{field}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_deleted_node_leaves_every_list() {
    let (app, alice) =
        app_with(&[json!({"id": "a"}), json!({"id": "b", "latest_version": {"version": "1.0.0"}})]).await;
    assert_eq!(ids(&app, "/nodes/search?search=b").await, ["b"]);
    app.send(app.request(Method::DELETE, "/publishers/acme/nodes/b").bearer_auth(&alice.token)).await.expect(204);

    for path in ["/nodes?include_banned=true", "/nodes?sort=name,id"] {
        let page = app.get_as(app.admin_token(), path).await.expect(200).json();
        assert_eq!((&page["total"], &page["nodes"][0]["id"]), (&json!(1), &json!("a")), "{path}");
    }
    assert_eq!(listed(&app, "/nodes/search?search=b").await, (vec![], 0));
    app.get("/nodes/b").await.expect(404);

    let requested = json!({"node_versions": [{"node_id": "b", "version": "1.0.0"}]});
    let response = app.post("/bulk/nodes/versions", requested).await.expect(200).json();
    assert_eq!(response["node_versions"][0]["status"], "not_found");
    app.stop().await;
}
