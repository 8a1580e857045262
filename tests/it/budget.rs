//! Budgets of users, tokens and publishers, and the usage report.

use std::time::Duration;

use futures_util::future::join_all;
use mediary::config::Settings;
use mediary::domain::task::VendorPrice;
use mediary::domain::value::Timestamp;
use mediary::environment::Environment;
use reqwest::Method;
use serde_json::{Value, json};

use crate::image::stored_inputs;
use crate::support::eventually::eventually;
use crate::support::picture::base64_png;
use crate::support::vendor_sim::{SimMode, VendorSim};
use crate::support::{TestApp, TestResponse, TestUser};
use crate::vendor::sim;
use crate::video::credits::behavior;
use crate::video::{START_END, VideoFixture, made_by, of_prompt, vendor, wait_for_task_end};

/// Price of a job of [`of_prompt`], in credits.
const PRICE: u64 = 8;

async fn set_budget(app: &TestApp, subject: &str, credits: u64, period: &str) -> Value {
    let path = format!("/admin/budgets/{subject}");
    app.put_as(app.admin_token(), &path, json!({"credits": credits, "period": period})).await.expect(200).json()
}

async fn get_budget(app: &TestApp, subject: &str) -> Value {
    app.get_as(app.admin_token(), &format!("/admin/budgets/{subject}")).await.expect(200).json()
}

async fn submit(app: &TestApp, user: &TestUser, prompt: &str) -> TestResponse {
    app.post_as(&user.token, START_END, of_prompt(prompt)).await
}

/// Starts a service whose jobs last until they are cancelled, or end as their prompt requests.
async fn fixture() -> VideoFixture {
    VideoFixture::with_vendor(vendor(Duration::ZERO, behavior).await, |_| {}).await
}

#[actix_web::test]
async fn concurrent_submissions_never_share_the_last_credits() {
    // Given a budget for one task
    let VideoFixture { app, sim, alice } = fixture().await;
    set_budget(&app, &format!("user/{}", alice.id), PRICE, "total").await;

    // When 64 are submitted at once
    let responses = join_all((0..64).map(|_| submit(&app, &alice, "lasting"))).await;

    // Then exactly one is admitted, and the others learn what is left
    let refused: Vec<_> = responses.iter().filter(|response| response.status != 200).collect();
    assert_eq!(refused.len(), 63);
    for response in refused {
        assert_eq!(response.status, 402);
        let problem = response.json();
        assert_eq!(problem["error"], "budget_exceeded");
        let amounts = ["limit", "spent", "held", "period"].map(|name| problem[name].clone());
        assert_eq!(json!(amounts), json!([PRICE, 0, PRICE, "total"]));
        assert_eq!(problem["subject"], json!({"kind": "user", "id": alice.id}));
        assert!(problem.get("resets_at").is_none(), "{problem}");
    }
    assert_eq!(app.get_as(&alice.token, "/users/credits").await.expect(200).json()["held"], PRICE);
    sim.finish_all();
    app.stop().await;
}

#[actix_web::test]
async fn refunds_return_to_the_budget_and_a_raised_one_admits_the_same_request() {
    let VideoFixture { app, sim, alice } = fixture().await;
    let subject = format!("user/{}", alice.id);
    set_budget(&app, &subject, 2 * PRICE, "total").await;

    // Given a task that is charged and one that is given back
    for (prompt, spent) in [("done", PRICE), ("failed", PRICE)] {
        let task = submit(&app, &alice, prompt).await.expect(200).json();
        wait_for_task_end(&app, task["task_id"].as_str().expect("an id")).await;
        let budget = get_budget(&app, &subject).await;
        assert_eq!((&budget["spent"], &budget["held"]), (&json!(spent), &json!(0)), "{prompt}");
    }
    submit(&app, &alice, "lasting").await.expect(200);

    // When the budget is used up, a request with an idempotency key is refused, and admitted after a raise
    let send = || {
        let request =
            app.request(Method::POST, START_END).bearer_auth(&alice.token).header("idempotency-key", "order-1");
        app.send(request.json(&of_prompt("lasting")))
    };
    let refused = send().await.expect(402).json();
    let expected = format!("the budget of user {} is 16 credits, of which 0 are left; this task costs 8", alice.id);
    assert_eq!(refused["detail"], expected);
    set_budget(&app, &subject, 3 * PRICE, "total").await;
    let admitted = send().await.expect(200).json();
    assert_eq!(send().await.expect(200).json(), admitted, "a repeated request is not a second task");
    assert_eq!(get_budget(&app, &subject).await["held"], 2 * PRICE);

    // And an estimate costs nothing
    let estimate = format!("{START_END}?estimate=true");
    app.post_as(&alice.token, &estimate, of_prompt("lasting")).await.expect(200);
    sim.finish_all();
    app.stop().await;
}

#[actix_web::test]
async fn tokens_and_publishers_have_budgets_that_survive_a_restart() {
    let VideoFixture { app, sim, alice } = fixture().await;
    let bob = app.user("bob").await;
    app.publisher("acme", &alice).await;

    // Given a second token of alice, with a budget, and a budget of her publisher, of which bob becomes a member
    let path = format!("/admin/users/{}/tokens", alice.id);
    let second = app.post_as(app.admin_token(), &path, json!({"name": "second"})).await.expect(201).json();
    let token_subject = format!("token/{}", second["id"].as_str().expect("an id"));
    let second = TestUser { token: second["token"].as_str().expect("a token").to_owned(), id: alice.id.clone() };
    set_budget(&app, &token_subject, PRICE, "total").await;
    set_budget(&app, "publisher/acme", 3 * PRICE, "total").await;

    // Then the second token admits one task, and the first one continues
    submit(&app, &second, "lasting").await.expect(200);
    assert_eq!(submit(&app, &second, "lasting").await.expect(402).json()["subject"]["kind"], "token");
    submit(&app, &alice, "lasting").await.expect(200);

    // And the members of the publisher share its budget; only administrators can add some
    submit(&app, &bob, "lasting").await.expect(200);
    let membership = format!("/publishers/acme/members/{}", bob.id);
    let problem = app.put_as(&alice.token, &membership, json!({"role": "member"})).await.expect(403).json();
    assert_eq!(problem["detail"], "only administrators can add members to a publisher with a budget");
    app.put_as(app.admin_token(), &membership, json!({"role": "member"})).await.expect(200);
    app.put_as(&alice.token, &membership, json!({"role": "owner"})).await.expect(200);
    submit(&app, &bob, "lasting").await.expect(200);
    for user in [&alice, &bob] {
        assert_eq!(submit(&app, user, "lasting").await.expect(402).json()["subject"]["id"], "acme");
    }
    let own = app.get_as(&second.token, "/users/credits").await.expect(200).json()["budgets"].clone();
    let kinds: Vec<_> =
        own.as_array().expect("a list").iter().map(|budget| budget["subject"]["kind"].clone()).collect();
    assert_eq!(json!(kinds), json!(["token", "publisher"]));

    // And a start from the log gives the same
    let before = app.get_as(app.admin_token(), "/admin/budgets").await.expect(200).json();
    let base = sim.base();
    let app = TestApp::start_in(app.stop().await, |settings| made_by(settings, &base), Environment::system()).await;
    assert_eq!(app.get_as(app.admin_token(), "/admin/budgets").await.expect(200).json(), before);
    submit(&app, &bob, "lasting").await.expect(402);
    app.delete_as(app.admin_token(), "/admin/budgets/publisher/acme").await.expect(204);
    submit(&app, &bob, "lasting").await.expect(200);
    sim.finish_all();
    app.stop().await;
}

#[actix_web::test]
async fn a_daily_budget_is_renewed_at_midnight_utc() {
    let evening = Timestamp::parse("2026-03-31T23:50:00Z").expect("a time");
    let clock = Environment::manual(evening, 7);
    let sim = VendorSim::with_behavior(sim(SimMode::HonoursKeys, Duration::ZERO), behavior).await;
    let base = sim.base();
    let app = TestApp::start_with(|settings| made_by(settings, &base), clock.clone()).await;
    let alice = app.user("alice").await;
    let subject = format!("user/{}", alice.id);
    let budget_today = set_budget(&app, &subject, PRICE, "day").await;
    assert_eq!(budget_today["resets_at"], "2026-04-01T00:00:00.000000Z");

    submit(&app, &alice, "lasting").await.expect(200);
    let refused = submit(&app, &alice, "lasting").await.expect(402).json();
    assert_eq!(refused["resets_at"], "2026-04-01T00:00:00.000000Z");
    clock.advance(Duration::from_mins(10));
    submit(&app, &alice, "lasting").await.expect(200);
    submit(&app, &alice, "lasting").await.expect(402);

    // The days of the report are those of the submissions
    let usage = app.get_as(&alice.token, "/usage?from=2026-03-31&to=2026-04-01").await.expect(200).json();
    let days: Vec<_> =
        usage["rows"].as_array().expect("rows").iter().map(|row| (&row["group"], &row["held"])).collect();
    assert_eq!(json!(days), json!([["2026-03-31", PRICE], ["2026-04-01", PRICE]]));
    sim.finish_all();
    app.stop().await;
}

#[actix_web::test]
async fn invalid_budgets_are_refused_with_every_reason() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let path = format!("/admin/budgets/user/{}", alice.id);
    let put = async |path: &str, body: Value| app.put_as(app.admin_token(), path, body).await;

    let problem = put(&path, json!({"credits": -1, "period": "week"})).await.expect(400).json();
    let reasons: Vec<_> = problem["errors"].as_array().expect("errors").iter().map(|error| &error["reason"]).collect();
    assert_eq!(json!(reasons), json!(["must be an integer from 0 to 1000000000000", "must be one of day month total"]));
    assert_eq!(put(&path, json!({})).await.expect(400).json()["errors"].as_array().expect("errors").len(), 2);

    let body = || json!({"credits": 1, "period": "day"});
    for unknown in ["user/0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c10", "publisher/none", "node/acme", "user/acme"] {
        put(&format!("/admin/budgets/{unknown}"), body()).await.expect(404);
    }
    for method in [Method::GET, Method::DELETE] {
        app.send(app.request(method, &path).bearer_auth(app.admin_token())).await.expect(404);
    }
    app.put_as(&alice.token, &path, body()).await.expect(403);

    // Tokens of publishers submit no tasks
    app.publisher("acme", &alice).await;
    app.access_token("acme", &alice).await;
    let tokens = app.get_as(&alice.token, "/publishers/acme/tokens").await.expect(200).json();
    let token_budget = format!("/admin/budgets/token/{}", tokens[0]["id"].as_str().expect("an id"));
    let problem = put(&token_budget, body()).await.expect(404).json();
    assert_eq!(problem["detail"], "tokens of publishers submit no tasks and have no budget");
    let problem = put("/admin/budgets/node/acme", body()).await.expect(404).json();
    assert_eq!(problem["detail"], "the budget kind must be user, token or publisher");
    app.stop().await;
}

#[actix_web::test]
async fn a_submission_beyond_a_budget_stores_no_files() {
    // Given a budget without credits
    let VideoFixture { app, alice, .. } = fixture().await;
    set_budget(&app, &format!("user/{}", alice.id), 0, "total").await;

    // When a video of a picture is submitted
    let body = json!({"prompt": "waves", "model": "vq2-turbo", "duration": 1, "images": [base64_png(8, 8)]});
    app.post_as(&alice.token, START_END, body).await.expect(402);

    // Then the picture is not kept
    assert_eq!(stored_inputs(&app), 0);
    app.stop().await;
}

/// Starts a service with a vendor that costs 0.035 a job, and tasks of alice and bob with each outcome.
pub async fn used_fixture() -> (VideoFixture, TestUser) {
    let price = |settings: &mut Settings| settings.video_vendors[0].selection.price = VendorPrice::from_thousandths(35);
    let fixture = VideoFixture::with_vendor(vendor(Duration::ZERO, behavior).await, price).await;
    let VideoFixture { app, sim, alice } = &fixture;
    for prompt in ["done", "failed", "refused"] {
        let task = submit(app, alice, prompt).await.expect(200).json();
        wait_for_task_end(app, task["task_id"].as_str().expect("an id")).await;
    }

    submit(app, alice, "lasting").await.expect(200);
    eventually("the vendor has the task", async || sim.charges().len() == 3).await;
    let bob = app.user("bob").await;
    let task = submit(app, &bob, "lasting").await.expect(200).json();
    eventually("the vendor has the task", async || sim.charges().len() == 4).await;
    let cancel = format!("/tasks/{}/cancel", task["task_id"].as_str().expect("an id"));
    app.post_as(&bob.token, &cancel, json!({})).await.expect(200);
    (fixture, bob)
}

async fn usage(app: &TestApp, token: &str, query: &str) -> Value {
    app.get_as(token, &format!("/usage?{query}")).await.expect(200).json()
}

/// Returns the sums of a row in the order of the columns of the CSV.
fn counts(row: &Value) -> Value {
    const COLUMNS: [&str; 9] =
        ["submissions", "unfinished", "completed", "failed", "cancelled", "held", "charged", "refunded", "cost"];
    json!(COLUMNS.map(|name| row[name].clone()))
}

fn groups(report: &Value) -> Vec<Value> {
    report["rows"].as_array().expect("rows").iter().map(|row| row["group"].clone()).collect()
}

#[actix_web::test]
async fn users_see_the_sums_of_their_own_tasks() {
    let (VideoFixture { app, sim, alice }, bob) = used_fixture().await;

    // The vendor was not paid for the job that it refused
    let own = usage(&app, &alice.token, "group_by=job").await;
    assert_eq!(groups(&own), ["start-end2video"]);
    assert_eq!(counts(&own["rows"][0]), json!([4, 1, 1, 2, 0, 8, 8, 16, 0.105]));
    assert_eq!(counts(&own["total"]), counts(&own["rows"][0]));
    assert_eq!(counts(&usage(&app, &bob.token, "").await["total"]), json!([1, 0, 0, 0, 1, 0, 0, 8, 0.035]));
    app.get_as(&bob.token, &format!("/usage?user={}", alice.id)).await.expect(403);
    sim.finish_all();
    app.stop().await;
}

#[actix_web::test]
async fn administrators_see_the_sums_of_all_tasks_by_each_grouping() {
    let (VideoFixture { app, sim, alice }, bob) = used_fixture().await;
    let all = usage(&app, app.admin_token(), "group_by=user").await;
    let mut users = [json!(alice.id), json!(bob.id)];
    users.sort_by_key(Value::to_string);
    assert_eq!(groups(&all), users);
    assert_eq!(counts(&all["total"]), json!([5, 1, 1, 2, 1, 8, 8, 24, 0.14]));

    let by_token = usage(&app, app.admin_token(), &format!("group_by=token&user={}", bob.id)).await;
    assert!(by_token["rows"][0]["group"].is_string(), "{by_token}");
    assert_eq!(counts(&by_token["total"]), json!([1, 0, 0, 0, 1, 0, 0, 8, 0.035]));
    let by_vendor = usage(&app, app.admin_token(), "group_by=vendor").await;
    assert_eq!(groups(&by_vendor), ["local-video"]);
    assert_eq!(counts(&by_vendor["rows"][0]), counts(&all["total"]));
    sim.finish_all();
    app.stop().await;
}

#[actix_web::test]
async fn spreadsheets_get_the_usage_as_csv() {
    let (VideoFixture { app, sim, alice }, _) = used_fixture().await;
    let report = async |accept: &'static str| {
        let request = app.request(Method::GET, "/usage?group_by=job").bearer_auth(&alice.token);
        app.send(request.header("accept", accept)).await.expect(200)
    };
    let csv = report("text/csv").await;
    let expected = "job,submissions,unfinished,completed,failed,cancelled,held,charged,refunded,cost\n\
                    start-end2video,4,1,1,2,0,8,8,16,0.105\n";
    assert_eq!(csv.text(), expected);

    // With a tag that differs from that of the JSON, and the header that caches need
    let json = report("*/*").await;
    for response in [&csv, &json] {
        let vary = response.header("vary").expect("a Vary");
        assert!(vary.starts_with("accept, authorization, x-api-key"), "{vary}");
    }
    assert!(csv.header("etag").is_some() && csv.header("etag") != json.header("etag"));

    // The client's preference decides; without one it is JSON
    for (accept, media_type) in [
        ("text/csv;q=0.9, application/json;q=0.1", "text/csv; charset=utf-8; header=present"),
        ("text/*", "text/csv; charset=utf-8; header=present"),
        ("text/csv;q=0.5, application/json", "application/json"),
        ("text/csv-schema, */*", "application/json"),
        ("nonsense", "application/json"),
    ] {
        assert_eq!(report(accept).await.header("content-type"), Some(media_type), "{accept}");
    }
    sim.finish_all();
    app.stop().await;
}

#[actix_web::test]
async fn invalid_usage_queries_are_refused_with_every_reason() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let errors = async |query: &str| {
        let problem = app.get_as(&alice.token, &format!("/usage?{query}")).await.expect(400).json();
        problem["details"].clone()
    };
    assert_eq!(
        errors("from=today&to=-2026-1-01&group_by=week&user=me").await,
        json!([
            "/from must be a date such as 2026-01-31",
            "/to must be a date such as 2026-01-31",
            "/group_by must be one of user token job vendor day",
            "/user must be a UUID"
        ])
    );
    // The calendar of the library goes further
    assert_eq!(errors("to=%2B262142-12-31").await, json!(["/to must be a date such as 2026-01-31"]));
    assert_eq!(
        errors("from=2026-02-01&to=2026-01-31").await,
        json!(["/to must not be before 2026-02-01, the first day"])
    );
    app.stop().await;
}

#[actix_web::test]
async fn a_report_covers_the_days_from_the_first_to_the_last() {
    // Given a task of the last second of a year
    let clock = Environment::manual(Timestamp::parse("2026-12-31T23:59:59Z").expect("a time"), 7);
    let sim = vendor(Duration::ZERO, behavior).await;
    let base = sim.base();
    let app = TestApp::start_with(|settings| made_by(settings, &base), clock).await;
    let alice = app.user("alice").await;
    submit(&app, &alice, "lasting").await.expect(200);

    for (period, tasks) in [
        ("from=2026-12-31&to=2026-12-31", 1),
        ("from=0000-01-01&to=9999-12-31", 1),
        ("", 1),
        ("from=2026-01-01&to=2026-12-30", 0),
        ("from=2027-01-01", 0),
    ] {
        assert_eq!(usage(&app, &alice.token, period).await["total"]["submissions"], tasks, "{period}");
    }
    sim.finish_all();
    app.stop().await;
}

#[actix_web::test]
async fn budgets_are_listed_in_pages() {
    let app = TestApp::start().await;
    let owner = app.user("owner").await;
    for id in ["beta", "alpha", "gamma"] {
        app.publisher(id, &owner).await;
        let path = format!("/admin/budgets/publisher/{id}");
        app.put_as(app.admin_token(), &path, json!({"credits": 5, "period": "day"})).await.expect(200);
    }

    let page = app.get_as(app.admin_token(), "/admin/budgets?limit=2&page=2").await.expect(200).json();
    assert_eq!(
        (&page["total"], &page["totalPages"], &page["page"], &page["limit"]),
        (&json!(3), &json!(2), &json!(2), &json!(2))
    );
    let ids = |page: &serde_json::Value| -> Vec<String> {
        page["budgets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|budget| budget["subject"]["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids(&page), ["gamma"]);
    let all = app.get_as(app.admin_token(), "/admin/budgets").await.expect(200).json();
    assert_eq!(
        (ids(&all), &all["limit"]),
        (vec!["alpha".to_owned(), "beta".to_owned(), "gamma".to_owned()], &json!(100))
    );
    app.get_as(app.admin_token(), "/admin/budgets?page=0").await.expect(400);
    app.stop().await;
}
