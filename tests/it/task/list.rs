//! `GET /tasks`.

use serde_json::{Value, json};

use super::stream::TaskStreamReader;
use crate::image::{SKIN, STYLE, UPSCALER, submit, wait_for_end};
use crate::support::files::{FileServer, file};
use crate::support::picture::{base64_png, png};
use crate::support::{TestApp, TestUser, client};

/// Returns the ids of all pages.
async fn listed(app: &TestApp, token: &str, query: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut cursor = String::new();
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

/// Creates completed tasks of three kinds; returns their ids, newest first.
async fn some_tasks(app: &TestApp, user: &TestUser, count: u32) -> Vec<String> {
    let creative = format!("{SKIN}/creative");
    let mut tasks = Vec::new();
    for index in 0..count {
        let (path, read_path) = [(UPSCALER, UPSCALER), (STYLE, STYLE), (creative.as_str(), SKIN)][index as usize % 3];
        let task = submit(app, user, path, json!({"image": base64_png(8 + index, 8)})).await;
        wait_for_end(app, user, read_path, &task).await;
        tasks.insert(0, task);
    }
    tasks
}

#[actix_web::test]
async fn task_pages_have_no_gaps_or_duplicates_after_a_restart() {
    // Given tasks of two users
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let first = some_tasks(&app, &alice, 4).await;
    let bobs_tasks = some_tasks(&app, &bob, 2).await;
    let alices_tasks = [some_tasks(&app, &alice, 3).await, first.clone()].concat();
    let all_tasks = [alices_tasks[..3].to_vec(), bobs_tasks.clone(), first].concat();
    let app = TestApp::start_in(app.stop().await, |_| {}, mediary::environment::Environment::system()).await;
    for limit in [1, 2, 3, 100] {
        let query = format!("limit={limit}");

        // Then each user sees only its own, newest first
        assert_eq!(listed(&app, &alice.token, &query).await, alices_tasks, "by {limit}");
        assert_eq!(listed(&app, &bob.token, &query).await, bobs_tasks, "by {limit}");

        // And administrators see all, or those of one user
        assert_eq!(listed(&app, app.admin_token(), &query).await, all_tasks, "by {limit}");
        let owned = format!("{query}&owner={}", bob.id);
        assert_eq!(listed(&app, app.admin_token(), &owned).await, bobs_tasks, "by {limit}");
    }
    app.get("/tasks").await.expect(401);
    app.stop().await;
}

#[actix_web::test]
async fn only_administrators_see_task_owners() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let task = some_tasks(&app, &alice, 1).await.remove(0);
    for path in [format!("/tasks/{task}"), "/tasks".to_owned()] {
        let owner_shown_to = async |token: &str| {
            let response = app.get_as(token, &path).await.expect(200).json();
            response["tasks"].as_array().map_or(&response, |tasks| &tasks[0])["owner"].clone()
        };
        assert_eq!(owner_shown_to(app.admin_token()).await, alice.id, "{path}");
        assert_eq!(owner_shown_to(&alice.token).await, Value::Null, "{path}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn streams_and_cancellations_show_owners_to_administrators_only() {
    // Given a task whose picture does not arrive, followed by its owner and by an administrator
    let (app, server) = (TestApp::start().await, FileServer::with_replies(|_| file(&png(8, 8))).await);
    let alice = app.user("alice").await;
    server.hold();
    let task = submit(&app, &alice, UPSCALER, json!({"image": server.url("/a.png")})).await;
    let readers = [(&*alice.token, Value::Null), (app.admin_token(), json!(alice.id))];
    let url = app.url(&format!("/tasks/{task}/events"));
    let cancel = format!("/tasks/{task}/cancel");
    let mut streams = Vec::new();
    for (token, owner) in &readers {
        let mut reader = TaskStreamReader::open(&client(), &url, token, None).await;
        assert_eq!(reader.next().await.expect("a snapshot").task["owner"], *owner);
        streams.push((reader, owner));
    }

    // When both cancel it, then only the administrator sees the owner in responses and changes
    for (token, owner) in &readers {
        let cancelled = app.post_as(token, &cancel, json!({})).await.expect(200).json();
        assert_eq!((&cancelled["state"], &cancelled["owner"]), (&json!("FAILED"), owner));
    }
    for (reader, owner) in streams {
        let events = reader.collect().await;
        assert_eq!(events.last().expect("a change").state(), ("change", "FAILED"));
        assert!(events.iter().all(|event| event.task["owner"] == *owner), "an event has another owner than {owner}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn task_filters_apply() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let tasks = some_tasks(&app, &alice, 6).await;
    let failed_task = submit(&app, &alice, UPSCALER, json!({"image": "http://127.0.0.1:1/none.png"})).await;
    app.post_as(&alice.token, &format!("/tasks/{failed_task}/cancel"), json!({})).await.expect(200);

    let times: Vec<Value> = {
        let page = app.get_as(&alice.token, "/tasks").await.expect(200).json();
        page["tasks"].as_array().unwrap().iter().map(|task| task["created_at"].clone()).collect()
    };
    let time = |index: usize| times[index].as_str().unwrap();
    let tasks_of_kind = |index: usize| vec![tasks[index].clone(), tasks[index + 3].clone()];
    let all_tasks = [vec![failed_task.clone()], tasks.clone()].concat();
    for (query, expected) in [
        ("kind=skin-enhancer".to_owned(), tasks_of_kind(0)),
        ("kind=image-style-transfer,image-relight".to_owned(), tasks_of_kind(1)),
        ("state=FAILED".to_owned(), vec![failed_task.clone()]),
        ("state=FAILED&state=COMPLETED".to_owned(), all_tasks.clone()),
        ("state=CREATED,IN_PROGRESS".to_owned(), Vec::new()),
        (format!("created_from={}", time(2)), all_tasks[..3].to_vec()),
        (format!("created_to={}", time(2)), all_tasks[3..].to_vec()),
        (format!("created_from={}&created_to={}", time(4), time(1)), all_tasks[2..5].to_vec()),
        ("state=COMPLETED&kind=skin-enhancer&limit=1".to_owned(), tasks_of_kind(0)),
    ] {
        assert_eq!(listed(&app, &alice.token, &query).await, expected, "{query}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn every_invalid_parameter_is_reported() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let query = "kind=image&state=DONE&created_from=now&created_to=then&cursor=1042&limit=0&owner=me";
    let problem = app.get_as(&alice.token, &format!("/tasks?{query}")).await.expect(400).json();
    let pointers: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|error| &error["pointer"]).collect();
    let expected_pointers = ["/owner", "/kind", "/state", "/created_from", "/created_to", "/limit", "/cursor"];
    assert_eq!(pointers, expected_pointers);
    let query = "created_from=2026-01-02T00:00:00Z&created_to=2026-01-01T00:00:00Z";
    let problem = app.get_as(&alice.token, &format!("/tasks?{query}")).await.expect(400).json();
    assert_eq!(problem["errors"].as_array().map(Vec::len), Some(1), "{problem}");
    app.stop().await;
}

#[actix_web::test]
async fn other_users_task_lists_and_credits_are_forbidden() {
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    for path in [format!("/tasks?owner={}", bob.id), format!("/users/credits?user={}", bob.id)] {
        let problem = app.get_as(&alice.token, &path).await.expect(403).json();
        assert_eq!(problem["error"], "forbidden", "{problem}");
        app.get_as(app.admin_token(), &path).await.expect(200);
    }
    for path in [format!("/tasks?owner={}", alice.id), format!("/users/credits?user={}", alice.id)] {
        app.get_as(&alice.token, &path).await.expect(200);
    }
    app.stop().await;
}
