//! Audit queries over HTTP: who changed what and when, and the previous values.

mod command;
mod follow;

use serde_json::{Value, json};

use crate::support::{TestApp, TestUser};

const ALL_STATUSES: &str = "statuses=NodeVersionStatusActive,NodeVersionStatusPending,NodeVersionStatusBanned,\
                            NodeVersionStatusFlagged,NodeVersionStatusDeleted&include_status_reason=true";

/// Service with some history: a publisher with two members, a node with versions, and their state after each step.
pub struct AuditFixture {
    pub app: TestApp,
    pub owner: TestUser,
    /// Log position, and the state of each resource at it.
    pub snapshots: Vec<(u64, Vec<(String, Value)>)>,
}

/// Returns the state of a resource as an administrator sees it; null if it does not exist.
async fn snapshot_of(app: &TestApp, subject: &str) -> Value {
    let (kind, id) = subject.split_once('/').expect("a kind and an id");
    let get = |path: String| async move { app.get_as(app.admin_token(), &path).await };
    match kind {
        "user" => {
            let page = get("/admin/users?limit=1000".to_owned()).await.expect(200).json();
            page["users"].as_array().unwrap().iter().find(|user| user["id"] == id).cloned().unwrap_or_default()
        }
        "node" => {
            // In its own case: other spellings are redirected.
            let id = if id == "face-tools" { "Face-Tools" } else { id };
            let response = get(format!("/nodes/{id}")).await;
            if response.status == 404 {
                return Value::Null;
            }
            let mut node = response.expect(200).json();
            node["versions"] = get(format!("/nodes/{id}/versions?{ALL_STATUSES}")).await.expect(200).json();
            node
        }
        _ => {
            let response = get(format!("/{kind}s/{id}")).await;
            if response.status == 404 { Value::Null } else { response.expect(200).json() }
        }
    }
}

pub async fn head(app: &TestApp) -> u64 {
    app.get_as(app.admin_token(), "/admin/state").await.expect(200).json()["log"]["head"].as_u64().unwrap()
}

impl AuditFixture {
    /// Performs the changes and records the state of all resources after each step.
    pub async fn new() -> Self {
        let app = TestApp::start().await;
        let owner = app.user("ann").await;
        let guest = app.user("ben").await;
        let mut fixture = Self { app, owner, snapshots: Vec::new() };
        let subjects = [format!("user/{}", guest.id), "publisher/acme".to_owned(), "node/face-tools".to_owned()];
        let node = "/publishers/acme/nodes/face-tools";
        let long = "x".repeat(900);

        #[rustfmt::skip]
        let steps = [
            ("POST", "/publishers".to_owned(), json!({"id": "acme", "name": "Acme"})),
            ("PUT", format!("/publishers/acme/members/{}", guest.id), json!({"role": "member"})),
            ("POST", "/publishers/acme/nodes".to_owned(), json!({"id": "Face-Tools", "description": "Finds faces.", "latest_version": {"version": "1.0.0"}})),
            ("PUT", node.to_owned(), json!({"description": "Finds \u{202e}and swaps faces.", "tags": ["face"], "icon": "https://example.org/i.png"})),
            ("POST", format!("{node}/versions"), json!({"node_version": {"version": "1.1.0", "changelog": long}})),
            ("PUT", format!("{node}/versions/1.0.0"), json!({"deprecated": true})),
            ("PUT", format!("/admin/users/{}", guest.id), json!({"name": "Benjamin"})),
            ("PUT", "/publishers/acme".to_owned(), json!({"name": "Acme & Sons"})),
            ("PUT", "/admin/nodes/face-tools/versions/1.0.0".to_owned(), json!({"status": "NodeVersionStatusFlagged", "status_reason": "odd"})),
            ("POST", "/admin/publishers/acme/ban".to_owned(), json!({"reason": "spam"})),
            ("POST", "/admin/publishers/acme/unban".to_owned(), json!({"reason": "cleared"})),
            ("DELETE", node.to_owned(), json!({})),
        ];

        for (method, path, body) in steps {
            let token: &str = if path.starts_with("/admin") { fixture.app.admin_token() } else { &fixture.owner.token };
            let request = fixture.app.request(method.parse().unwrap(), &path).bearer_auth(token);
            let response = fixture.app.send(request.json(&body).header("x-request-id", format!("step-{method}"))).await;
            assert!(response.status < 300, "{method} {path}: {}", response.text());

            let mut states = Vec::new();
            for subject in &subjects {
                states.push((subject.clone(), snapshot_of(&fixture.app, subject).await));
            }
            fixture.snapshots.push((head(&fixture.app).await, states));
        }
        fixture
    }

    pub async fn get_admin(&self, path: &str) -> Value {
        self.app.get_as(self.app.admin_token(), path).await.expect(200).json()
    }
}

#[actix_web::test]
async fn as_of_returns_the_responses_of_that_time() {
    let fixture = AuditFixture::new().await;
    for (position, subjects) in &fixture.snapshots {
        for (subject, expected) in subjects {
            let actual = fixture.get_admin(&format!("/admin/as-of/{subject}?position={position}")).await;
            assert_eq!(actual["state"], *expected, "{subject} at {position}");
            assert_eq!((actual["position"].as_u64(), actual["exists"] == true), (Some(*position), !expected.is_null()));
            // The time of that event selects the same position.
            let time = actual["at"].as_str().unwrap();
            let then = fixture.get_admin(&format!("/admin/as-of/{subject}?time={time}")).await;
            assert_eq!(then["state"], *expected, "{subject} at {time}");
        }
    }

    let before = fixture.get_admin("/admin/as-of/node/Face-Tools?position=0").await;
    assert_eq!(before, json!({"thing": "node/face-tools", "position": 0, "exists": false}));
    fixture.app.stop().await;
}

#[actix_web::test]
async fn a_diff_equals_the_difference_of_two_responses() {
    let fixture = AuditFixture::new().await;
    for (at, (from, before)) in fixture.snapshots.iter().enumerate() {
        for (to, after) in &fixture.snapshots[at..] {
            let diff = fixture.get_admin(&format!("/admin/diff?from={from}&to={to}&limit=1000")).await;
            assert_eq!((diff["from"].as_u64(), diff["to"].as_u64()), (Some(*from), Some(*to)));
            for ((subject, before), (_, after)) in before.iter().zip(after) {
                let found = diff["things"].as_array().unwrap().iter().find(|entry| entry["thing"] == **subject);
                let Some(found) = found else { continue };
                let change = match (before.is_null(), after.is_null()) {
                    (true, false) => "created",
                    (false, true) => "deleted",
                    _ if before == after => "unchanged",
                    _ => "changed",
                };
                assert_eq!(found["change"], change, "{subject} from {from} to {to}: {found}");
                assert_eq!(found["changes"] == json!([]), before == after, "{subject} from {from} to {to}");
            }
        }
    }

    let (first, last) = (fixture.snapshots[2].0, fixture.snapshots[3].0);
    let diff = fixture.get_admin(&format!("/admin/diff?from={first}&to={last}")).await;
    let changes = &diff["things"][0]["changes"];
    assert_eq!(
        changes[0],
        json!({"path": "/description", "before": "Finds faces.", "after": "Finds \u{202e}and swaps faces."})
    );
    assert_eq!(changes[1], json!({"path": "/icon", "after": "https://example.org/i.png"}));

    let paged = fixture.get_admin("/admin/diff?from=0&to=9&limit=1").await;
    let next = paged["next"].as_str().unwrap();
    let remaining = fixture.get_admin(&format!("/admin/diff?from=0&to=9&limit=1000&after={next}")).await;
    let full = fixture.get_admin("/admin/diff?from=0&to=9&limit=1000").await;
    let combined =
        [paged["things"].as_array().unwrap().clone(), remaining["things"].as_array().unwrap().clone()].concat();
    assert_eq!(json!(combined), full["things"]);
    fixture.app.stop().await;
}

#[actix_web::test]
async fn a_history_has_exactly_the_changes_of_each_event() {
    let fixture = AuditFixture::new().await;
    let history = fixture.get_admin("/admin/history/node/face-tools").await;
    let entries = history["entries"].as_array().unwrap();
    let types: Vec<_> = entries.iter().map(|entry| entry["event"]["type"].as_str().unwrap()).collect();
    assert_eq!((types[0], types[types.len() - 1]), ("NodeCreated", "NodeDeleted"));

    // Each change starts from the result of the previous one; changes of the publisher in between do not belong to the
    // node.
    let revised = entries.iter().find(|entry| entry["event"]["type"] == "VersionStatusChanged").unwrap();
    let paths: Vec<_> =
        revised["changes"].as_array().unwrap().iter().map(|change| change["path"].as_str().unwrap()).collect();
    assert!(paths.contains(&"/versions/1.0.0/status") && paths.contains(&"/versions/1.0.0/status_reason"), "{paths:?}");
    assert!(!paths.iter().any(|path| path.starts_with("/publisher")), "{paths:?}");
    assert_eq!(entries[0]["changes"][0]["path"], "");
    assert_eq!(entries[entries.len() - 1]["changes"][0].get("after"), None);

    // Paging gives the same result.
    let mut after = 0;
    let mut paged = Vec::new();
    loop {
        let page = fixture.get_admin(&format!("/admin/history/node/face-tools?limit=2&after={after}")).await;
        paged.extend(page["entries"].as_array().unwrap().clone());
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(json!(paged), history["entries"]);
    fixture.app.stop().await;
}

/// `true` if an event should pass a filter.
type EventPredicate = Box<dyn Fn(&Value) -> bool>;

fn matching(test: impl Fn(&Value) -> bool + 'static) -> EventPredicate {
    Box::new(test)
}

fn field_equals(name: &'static str, value: &str) -> EventPredicate {
    let value = value.to_owned();
    matching(move |event| text(event, name) == value)
}

fn text(event: &Value, name: &str) -> String {
    event[name].as_str().unwrap_or_default().to_owned()
}

#[actix_web::test]
async fn filters_apply_and_pages_have_no_gaps_or_duplicates() {
    let fixture = AuditFixture::new().await;
    // Token uses are recorded with a delay: ignore events after this position.
    let head = head(&fixture.app).await;
    let all = fixture.get_admin(&format!("/admin/events?limit=1000&to={head}")).await;
    let all = all["events"].as_array().unwrap();
    let positions: Vec<_> = all.iter().map(|event| event["position"].as_u64().unwrap()).collect();
    assert_eq!(positions, (1..=head).collect::<Vec<_>>());

    let at = all[6]["at"].as_str().unwrap();
    let owner = format!("user/{}", fixture.owner.id);
    let time = at.to_owned();
    let filters: [(String, EventPredicate); 11] = [
        ("stream=publisher/acme".to_owned(), field_equals("stream", "publisher/acme")),
        ("stream=node/Face-Tools".to_owned(), field_equals("stream", "node/face-tools")),
        ("stream=user/".to_owned(), matching(|event| text(event, "stream").starts_with("user/"))),
        (
            "type=NodeRevised,MemberAdded".to_owned(),
            matching(|event| ["NodeRevised", "MemberAdded"].contains(&text(event, "type").as_str())),
        ),
        (format!("actor={owner}"), field_equals("actor", &owner)),
        (format!("actor={}", fixture.owner.id), field_equals("actor", &owner)),
        ("actor=system".to_owned(), field_equals("actor", "system")),
        ("request=step-DELETE".to_owned(), field_equals("request", "step-DELETE")),
        ("from=3&to=7".to_owned(), matching(|event| (3..=7).contains(&event["position"].as_u64().unwrap()))),
        (format!("from={at}"), matching(move |event| text(event, "at") >= time)),
        ("from=2020-01-01&to=2020-01-02".to_owned(), matching(|_| false)),
    ];
    for (query, matches) in filters {
        let expected: Vec<_> = all.iter().filter(|event| matches(event)).cloned().collect();
        assert_eq!(expected.is_empty(), query.contains("2020"), "{query}");
        for limit in [1, 2, 1000] {
            let mut after = 0;
            let mut found = Vec::new();
            loop {
                let page = fixture.get_admin(&format!("/admin/events?{query}&limit={limit}&after={after}")).await;
                assert!(page["events"].as_array().unwrap().len() <= limit, "{page}");
                found.extend(page["events"].as_array().unwrap().clone());
                match page["next"].as_u64() {
                    Some(next) => after = next,
                    None => break,
                }
            }
            found.retain(|event| event["position"].as_u64().unwrap() <= head);
            assert_eq!(found, expected, "{query} by {limit}");
        }
    }
    fixture.app.stop().await;
}

#[actix_web::test]
async fn invalid_queries_are_rejected_with_the_allowed_values() {
    let app = TestApp::start().await;
    let get = |path: &'static str| app.get_as(app.admin_token(), path);
    for (path, pointers) in [
        ("/admin/events?stream=nodes/a&type=Nothing&actor=ann&request=a%20b&from=x&to=y&after=z&limit=0", 8),
        ("/admin/events/stream?after=99999", 1),
        ("/admin/as-of/user/00000000-0000-4000-8000-000000000001", 1),
        ("/admin/as-of/user/00000000-0000-4000-8000-000000000001?position=1&time=2026-01-01", 1),
        ("/admin/as-of/user/00000000-0000-4000-8000-000000000001?position=99999", 1),
        ("/admin/diff", 2),
        ("/admin/diff?from=1&to=0", 1),
        ("/admin/diff?from=0&to=99999", 1),
    ] {
        let problem = get(path).await.expect(400).json();
        assert_eq!(problem["errors"].as_array().map(Vec::len), Some(pointers), "{path}: {problem}");
    }

    let beyond = get("/admin/diff?from=0&to=99999").await.expect(400).json();
    assert_eq!(beyond["errors"][0]["reason"], "is after the last event (position 1)");

    let kinds = get("/admin/events?stream=nodes/").await.expect(400).text();
    assert!(kinds.contains("user, publisher, token, node, task, delivery"), "{kinds}");

    for path in ["/admin/history/node/none", "/admin/history/nodes/none", "/admin/as-of/user/x?position=0"] {
        get(path).await.expect(404);
    }
    app.stop().await;
}

#[actix_web::test]
async fn no_audit_response_contains_a_secret() {
    let app = TestApp::start().await;
    let owner = app.user("ann").await;
    app.publisher("acme", &owner).await;
    let access = app.access_token("acme", &owner).await;
    let tokens = app.get_as(app.admin_token(), &format!("/admin/users/{}/tokens", owner.id)).await.expect(200).json();
    let token = tokens[0]["id"].as_str().unwrap();
    let last = head(&app).await;
    let paths = [
        "/admin/events?limit=1000".to_owned(),
        format!("/admin/history/token/{token}"),
        format!("/admin/as-of/token/{token}?position={last}"),
        format!("/admin/diff?from=0&to={last}"),
        format!("/admin/events/stream?after=0&to={last}"),
    ];
    for path in paths {
        let response = app.get_as(app.admin_token(), &path).await.expect(200).text();
        for secret in [&owner.token, &access, app.admin_token()] {
            assert!(!response.contains(secret), "{path}");
        }
        assert!(response.contains(token), "{path}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn the_state_reports_all_positions() {
    let app = TestApp::start().await;
    let owner = app.user("ann").await;
    app.publisher("acme", &owner).await;
    let state = app.get_as(app.admin_token(), "/admin/state").await.expect(200).json();
    assert!(state["log"]["head"].as_u64().unwrap() >= 4, "{state}");
    assert_eq!(state["read_models"], json!({"position": state["log"]["head"], "lag": 0}));
    assert_eq!(
        state["index"]["position"].as_u64().unwrap() + state["index"]["lag"].as_u64().unwrap(),
        state["log"]["head"]
    );

    // A log created by this start was not read back, so it is not reported as verified
    let verification = &state["verification"];
    let head = state["log"]["head"].as_u64().unwrap();
    assert_eq!((&verification["state"], &verification["position"]), (&json!("unverified"), &verification["until"]));
    assert!(verification["until"].as_u64().unwrap() < head && verification["since"].is_string(), "{state}");
    assert!(state["log"]["signed"].as_u64().unwrap() <= head, "{state}");
    assert_eq!((&state["storage"]["state"], &state["queues"]["tasks"]), (&json!("ok"), &json!(0)));
    app.stop().await;
}
