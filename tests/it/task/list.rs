//! `GET /tasks`.

use serde_json::{Value, json};

use super::stream::Reader;
use crate::image::{SKIN, STYLE, UPSCALER, ended, submit};
use crate::support::files::{FileServer, file};
use crate::support::picture::{base64_png, png};
use crate::support::{TestApp, TestUser, client};

/// Ids of all pages.
async fn listed(app: &TestApp, token: &str, query: &str) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = app.get_as(token, &format!("/tasks?{query}{cursor}")).await.expect(200).json();
        let tasks = page["tasks"].as_array().expect("a list");
        assert!(tasks.len() as u64 <= page["limit"].as_u64().expect("a limit"), "{page}");
        ids.extend(tasks.iter().map(|task| task["task_id"].as_str().expect("an id").to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
}

/// Completed tasks of three kinds, newest first.
async fn some_tasks(app: &TestApp, user: &TestUser, number: u32) -> Vec<String> {
    let creative = format!("{SKIN}/creative");
    let mut tasks = Vec::new();
    for nth in 0..number {
        let (path, read) = [(UPSCALER, UPSCALER), (STYLE, STYLE), (creative.as_str(), SKIN)][nth as usize % 3];
        let task = submit(app, user, path, json!({"image": base64_png(8 + nth, 8)})).await;
        ended(app, user, read, &task).await;
        tasks.insert(0, task);
    }
    tasks
}

#[actix_web::test]
async fn pages_of_own_tasks_join_without_gap_or_double_also_after_a_restart() {
    // Given tasks of two users
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let first = some_tasks(&app, &alice, 4).await;
    let of_bob = some_tasks(&app, &bob, 2).await;
    let of_alice = [some_tasks(&app, &alice, 3).await, first.clone()].concat();
    let all = [of_alice[..3].to_vec(), of_bob.clone(), first].concat();
    let app = TestApp::start_in(app.stop().await, |_| {}, mediary::environment::Environment::system()).await;
    for limit in [1, 2, 3, 100] {
        let query = format!("limit={limit}");
        // Then each user sees only its own, newest first
        assert_eq!(listed(&app, &alice.token, &query).await, of_alice, "by {limit}");
        assert_eq!(listed(&app, &bob.token, &query).await, of_bob, "by {limit}");
        // And administrators see all, or those of one user
        assert_eq!(listed(&app, app.admin_token(), &query).await, all, "by {limit}");
        let owned = format!("{query}&owner={}", bob.id);
        assert_eq!(listed(&app, app.admin_token(), &owned).await, of_bob, "by {limit}");
    }
    app.get("/tasks").await.expect(401);
    app.stop().await;
}

#[actix_web::test]
async fn administrators_are_told_whose_a_task_is_and_nobody_else() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let task = some_tasks(&app, &alice, 1).await.remove(0);
    for path in [format!("/tasks/{task}"), "/tasks".to_owned()] {
        let told = async |token: &str| {
            let answer = app.get_as(token, &path).await.expect(200).json();
            answer["tasks"].as_array().map_or(&answer, |tasks| &tasks[0])["owner"].clone()
        };
        assert_eq!(told(app.admin_token()).await, alice.id, "{path}");
        assert_eq!(told(&alice.token).await, Value::Null, "{path}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn streams_and_cancels_tell_administrators_whose_a_task_is_and_nobody_else() {
    // Given a task whose picture does not arrive, followed by its owner and by an administrator
    let (app, server) = (TestApp::start().await, FileServer::answering(|_| file(&png(8, 8))).await);
    let alice = app.user("alice").await;
    server.let_out(false);
    let task = submit(&app, &alice, UPSCALER, json!({"image": server.url("/a.png")})).await;
    let readers = [(&*alice.token, Value::Null), (app.admin_token(), json!(alice.id))];
    let (url, cancel) = (app.url(&format!("/tasks/{task}/events")), format!("/tasks/{task}/cancel"));
    let mut streams = Vec::new();
    for (token, owner) in &readers {
        let mut reader = Reader::open(&client(), &url, token, None).await;
        assert_eq!(reader.next().await.expect("a snapshot").task["owner"], *owner);
        streams.push((reader, owner));
    }
    // When both cancel it, then only the administrator sees the owner in responses and changes
    for (token, owner) in &readers {
        let cancelled = app.post_as(token, &cancel, json!({})).await.expect(200).json();
        assert_eq!((&cancelled["state"], &cancelled["owner"]), (&json!("FAILED"), owner));
    }
    for (reader, owner) in streams {
        let told = reader.rest().await;
        assert_eq!(told.last().expect("a change").state(), ("change", "FAILED"));
        assert!(told.iter().all(|event| event.task["owner"] == *owner), "not told {owner} alone");
    }
    app.stop().await;
}

#[actix_web::test]
async fn filters_select_what_they_say() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let tasks = some_tasks(&app, &alice, 6).await;
    let bad = submit(&app, &alice, UPSCALER, json!({"image": "http://127.0.0.1:1/none.png"})).await;
    app.post_as(&alice.token, &format!("/tasks/{bad}/cancel"), json!({})).await.expect(200);
    let times: Vec<Value> = {
        let page = app.get_as(&alice.token, "/tasks").await.expect(200).json();
        page["tasks"].as_array().unwrap().iter().map(|task| task["created_at"].clone()).collect()
    };
    let time = |nth: usize| times[nth].as_str().unwrap();
    let of_kind = |nth: usize| vec![tasks[nth].clone(), tasks[nth + 3].clone()];
    let all = [vec![bad.clone()], tasks.clone()].concat();
    for (query, expected) in [
        ("kind=skin-enhancer".to_owned(), of_kind(0)),
        ("kind=image-style-transfer,image-relight".to_owned(), of_kind(1)),
        ("state=FAILED".to_owned(), vec![bad.clone()]),
        ("state=FAILED&state=COMPLETED".to_owned(), all.clone()),
        ("state=CREATED,IN_PROGRESS".to_owned(), Vec::new()),
        (format!("created_from={}", time(2)), all[..3].to_vec()),
        (format!("created_to={}", time(2)), all[3..].to_vec()),
        (format!("created_from={}&created_to={}", time(4), time(1)), all[2..5].to_vec()),
        ("state=COMPLETED&kind=skin-enhancer&limit=1".to_owned(), of_kind(0)),
    ] {
        assert_eq!(listed(&app, &alice.token, &query).await, expected, "{query}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn every_parameter_that_is_wrong_is_named() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let query = "kind=image&state=DONE&created_from=now&created_to=then&cursor=1042&limit=0&owner=me";
    let refused = app.get_as(&alice.token, &format!("/tasks?{query}")).await.expect(400).json();
    let pointers: Vec<_> = refused["errors"].as_array().unwrap().iter().map(|error| &error["pointer"]).collect();
    let named = ["/owner", "/kind", "/state", "/created_from", "/created_to", "/limit", "/cursor"];
    assert_eq!(pointers, named);
    let query = "created_from=2026-01-02T00:00:00Z&created_to=2026-01-01T00:00:00Z";
    let refused = app.get_as(&alice.token, &format!("/tasks?{query}")).await.expect(400).json();
    assert_eq!(refused["errors"].as_array().map(Vec::len), Some(1), "{refused}");
    app.stop().await;
}

#[actix_web::test]
async fn what_belongs_to_somebody_else_is_forbidden_in_tasks_and_credits_alike() {
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    for path in [format!("/tasks?owner={}", bob.id), format!("/users/credits?user={}", bob.id)] {
        let refused = app.get_as(&alice.token, &path).await.expect(403).json();
        assert_eq!(refused["error"], "forbidden", "{refused}");
        app.get_as(app.admin_token(), &path).await.expect(200);
    }
    for path in [format!("/tasks?owner={}", alice.id), format!("/users/credits?user={}", alice.id)] {
        app.get_as(&alice.token, &path).await.expect(200);
    }
    app.stop().await;
}
