//! Limits of callers: rates that recover with time, daily quotas that survive a restart, and trust in reported client
//! addresses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mediary::config::{ProxyHeader, RateSetting, Settings};
use mediary::domain::network::Network;
use mediary::domain::value::Timestamp;
use mediary::environment::{Environment, FailPoint};
use reqwest::Method;
use serde_json::{Value, json};

use crate::image::UPSCALER;
use crate::support::picture::base64_png;
use crate::support::zip::valid_archive;
use crate::support::{TestApp, TestResponse};

const VIDEO: &str = "/proxy/videovendor/start-end2video";

/// Returns an environment whose clock is set to noon and is advanced only by the test.
fn noon() -> Environment {
    Environment::manual(Timestamp::parse("2026-11-22T12:00:00Z").unwrap(), 7)
}

/// Like [`noon`], but no task ever starts.
fn idle_noon() -> Environment {
    noon().with_fail_point_handler(Arc::new(|point, _: &str| assert!(point != FailPoint::Reactor, "made to fail")))
}

/// Allows a burst of two reads, and one more read every two seconds.
fn allow_two_reads(settings: &mut Settings) {
    settings.limits.reads = RateSetting { per_minute: 30, burst: 2 };
}

/// Returns the remaining quota, its policy, and the seconds until a retry; an empty text for a missing header.
fn rate_headers(response: &TestResponse) -> [&str; 3] {
    ["ratelimit", "ratelimit-policy", "retry-after"].map(|name| response.header(name).unwrap_or_default())
}

/// Sends a read with a header and returns the status of the response.
async fn read_with_header(app: &TestApp, header: &str, value: &str) -> u16 {
    app.send(app.request(Method::GET, "/nodes").header(header, value)).await.status
}

#[actix_web::test]
async fn a_burst_is_admitted_then_rejected_and_refills() {
    let environment = noon();
    let app = TestApp::start_with(allow_two_reads, environment.clone()).await;

    let first = app.get("/nodes").await.expect(200);
    assert_eq!(rate_headers(&first), ["\"reads\";r=1;t=2", "\"reads\";q=2;w=4", ""]);
    app.get("/publishers").await.expect(200);
    let problem = app.get("/nodes").await.expect(429);

    assert_eq!(rate_headers(&problem), ["\"reads\";r=0;t=4", "\"reads\";q=2;w=4", "2"]);
    assert_eq!(
        (problem.json()["error"].clone(), problem.header("content-type")),
        (json!("rate_limited"), Some("application/problem+json"))
    );
    environment.advance(Duration::from_secs(2));
    app.get("/nodes").await.expect(200);
    app.get("/nodes").await.expect(429);
    // Probes are never rejected, so they have no such headers.
    for _ in 0..5 {
        assert_eq!(rate_headers(&app.get("/health").await.expect(200)), ["", "", ""]);
    }
    environment.advance(Duration::from_secs(2));
    let metrics = app.get("/metrics").await.expect(200).text();
    assert!(metrics.contains("mediary_limit_refusals_total{code=\"rate_limited\"} 2\n"), "{metrics}");
    app.stop().await;
}

#[actix_web::test]
async fn a_client_that_ignores_retry_after_is_slowed_down() {
    let app = TestApp::start_with(allow_two_reads, noon()).await;
    app.get("/nodes").await.expect(200);
    app.get("/nodes").await.expect(200);

    let start = Instant::now();
    for _ in 0..8 {
        app.get("/nodes").await.expect(429);
    }

    let delays = 8 * Duration::from_millis(25);
    assert!(start.elapsed() >= delays, "{:?}", start.elapsed());
    app.stop().await;
}

#[actix_web::test]
async fn metrics_and_the_document_count_as_reads_and_probes_do_not() {
    for path in ["/metrics", "/openapi.json", "/openapi", "/docs", "/.well-known/webhook-key"] {
        let app = TestApp::start_with(allow_two_reads, noon()).await;

        assert_eq!(rate_headers(&app.get(path).await.expect(200))[0], "\"reads\";r=1;t=2", "{path}");
        app.get(path).await.expect(200);
        let problem = app.get(path).await.expect(429);
        assert_eq!(problem.json()["error"], "rate_limited", "{path}");

        for probe in ["/health", "/ready"] {
            assert_eq!(rate_headers(&app.get(probe).await.expect(200)), ["", "", ""]);
        }
        // Static files do not count: one page loads many.
        app.get("/").await.expect(200);
        app.stop().await;
    }
}

#[actix_web::test]
async fn callers_and_request_kinds_are_counted_separately() {
    let change = |settings: &mut Settings| {
        allow_two_reads(settings);
        settings.limits.changes = RateSetting { per_minute: 1, burst: 4 };
    };
    let app = TestApp::start_with(change, noon()).await;
    // Two users and their tokens are four changes by the administrator, who may not make a fifth.
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    app.post_as(app.admin_token(), "/admin/users", json!({"name": "c"})).await.expect(429);

    for user in [&alice, &bob] {
        for _ in 0..2 {
            app.get_as(&user.token, "/users").await.expect(200);
        }
        app.get_as(&user.token, "/users").await.expect(429);
    }
    for status in [401, 401, 429] {
        app.get_as("mdu_nonsense", "/nodes").await.expect(status);
    }
    app.get("/nodes").await.expect(429);
    // A publisher's token is a different caller from the user who created it.
    app.publisher("acme", &alice).await;
    let token = app.access_token("acme", &alice).await;
    app.get_as(&token, "/nodes").await.expect(200);
    // A query sent with POST is a read.
    assert_eq!(
        app.post_as(&token, "/bulk/nodes/versions", json!({"node_versions": []})).await.header("ratelimit"),
        Some("\"reads\";r=0;t=4")
    );
    app.stop().await;
}

#[actix_web::test]
async fn price_estimates_count_as_reads() {
    // Given a caller with one submission a minute and three reads
    let change = |settings: &mut Settings| {
        settings.limits.submissions = RateSetting { per_minute: 1, burst: 1 };
        settings.limits.reads = RateSetting { per_minute: 30, burst: 3 };
    };
    let app = TestApp::start_with(change, idle_noon()).await;
    let alice = app.user("alice").await;
    let send = async |query: &str| {
        let body = json!({"image": base64_png(8, 8)});
        app.post_as(&alice.token, &format!("{UPSCALER}{query}"), body).await
    };

    // Then prices use the reads, and leave the submission
    for remaining in ["\"reads\";r=2;t=2", "\"reads\";r=1;t=4"] {
        let estimate = send("?estimate=true").await.expect(200);
        assert!(rate_headers(&estimate)[0].starts_with(remaining), "{:?}", rate_headers(&estimate));
        assert_eq!(estimate.json()["credits"], 0);
    }
    send("").await.expect(200);
    send("").await.expect(429);
    send("?estimate=true").await.expect(200);
    send("?estimate=true").await.expect(429);

    // And only prices do
    for query in ["?estimate=false", "?estimate=1", "?estimate=false&estimate=true"] {
        let refused = send(query).await.expect(429);
        assert!(rate_headers(&refused)[1].starts_with("\"submissions\";q=1;w=60"), "{query}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn without_limits_no_headers_are_sent() {
    let app = TestApp::start().await;
    for _ in 0..50 {
        assert_eq!(rate_headers(&app.get("/nodes").await.expect(200)), ["", "", ""]);
    }
    app.stop().await;
}

#[actix_web::test]
async fn only_trusted_proxies_determine_the_client_address() {
    // No proxy is trusted, so the headers are ignored and all requests have the address of the tests.
    let app = TestApp::start_with(allow_two_reads, noon()).await;
    assert_eq!(read_with_header(&app, "x-forwarded-for", "203.0.113.1").await, 200);
    assert_eq!(read_with_header(&app, "x-forwarded-for", "203.0.113.2").await, 200);
    assert_eq!(read_with_header(&app, "x-forwarded-for", "203.0.113.3").await, 429);
    app.stop().await;

    // The tests are trusted as a proxy: callers are distinguished, but not by entries that they prepend.
    let trusting = |header| {
        move |settings: &mut Settings| {
            allow_two_reads(settings);
            settings.limits.trusted_proxies = vec![Network::parse("127.0.0.0/8").unwrap()];
            settings.limits.proxy_header = header;
        }
    };

    let app = TestApp::start_with(trusting(ProxyHeader::XForwardedFor), noon()).await;
    for (value, status) in [
        ("203.0.113.1", 200),
        ("1.1.1.1, 203.0.113.1", 200),
        ("2.2.2.2, 203.0.113.1", 429),
        ("203.0.113.2", 200),
        ("2001:db8:1:2::1", 200),
        ("2001:db8:1:2::2", 200),
        ("2001:db8:1:2::3", 429),
        ("2001:db8:1:3::1", 200),
    ] {
        assert_eq!(read_with_header(&app, "x-forwarded-for", value).await, status, "{value}");
    }
    assert_eq!(read_with_header(&app, "forwarded", "for=203.0.113.9").await, 200);
    assert_eq!(read_with_header(&app, "forwarded", "for=203.0.113.10").await, 200);
    assert_eq!(read_with_header(&app, "forwarded", "for=203.0.113.11").await, 429, "the other header is not read");
    app.stop().await;

    let app = TestApp::start_with(trusting(ProxyHeader::Forwarded), noon()).await;
    for (value, status) in
        [("for=203.0.113.1", 200), ("for=1.1.1.1, for=\"203.0.113.1:80\"", 200), ("for=203.0.113.1", 429)]
    {
        assert_eq!(read_with_header(&app, "forwarded", value).await, status, "{value}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn daily_task_quotas_survive_a_restart() {
    let environment = idle_noon();
    let change = |settings: &mut Settings| {
        (settings.limits.submissions_per_day, settings.limits.bytes_per_day) = (2, 0);
    };
    let app = TestApp::start_with(change, environment.clone()).await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let submission = json!({"image": base64_png(8, 8)});

    let first = app.post_as(&alice.token, UPSCALER, submission.clone()).await.expect(200);
    assert_eq!(rate_headers(&first), ["\"tasks-a-day\";r=1;t=43200", "\"tasks-a-day\";q=2;w=86400", ""]);
    app.post_as(&alice.token, UPSCALER, submission.clone()).await.expect(200);
    let app = TestApp::start_in(app.stop().await, change, environment.clone()).await;

    let problem = app.post_as(&alice.token, UPSCALER, submission.clone()).await.expect(429);
    assert_eq!(problem.json()["error"], "quota_exceeded");
    assert_eq!(rate_headers(&problem), ["\"tasks-a-day\";r=0;t=43200", "\"tasks-a-day\";q=2;w=86400", "43201"]);
    app.post_as(&bob.token, UPSCALER, submission.clone()).await.expect(200);
    environment.advance(Duration::from_hours(12));
    app.post_as(&alice.token, UPSCALER, submission).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn refunded_credits_do_not_count_towards_the_daily_quota() {
    let change = |settings: &mut Settings| {
        settings.limits.credits_per_day = 15;
        (settings.limits.submissions_per_day, settings.limits.bytes_per_day) = (0, 0);
    };
    let app = TestApp::start_with(change, idle_noon()).await;
    let alice = app.user("alice").await;
    // 8 credits for the first second of this model, 10 for two.
    let video = |seconds: u32| json!({"model": "vq2-turbo", "resolution": "720p", "duration": seconds, "prompt": "p"});
    let submit = async |body: Value| app.post_as(&alice.token, VIDEO, body).await;

    let first = submit(video(1)).await.expect(200);
    assert_eq!((first.json()["credits"].clone(), rate_headers(&first)[0]), (json!(8), "\"credits-a-day\";r=7;t=43200"));
    let problem = submit(video(1)).await.expect(429);
    assert_eq!(
        (problem.json()["error"].clone(), rate_headers(&problem)[0]),
        (json!("quota_exceeded"), "\"credits-a-day\";r=7;t=43200")
    );
    let cancel = format!("/proxy/videovendor/tasks/{}/cancel", first.json()["task_id"].as_str().unwrap());
    app.post_as(&alice.token, &cancel, json!({})).await.expect(200);
    submit(video(2)).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn anonymous_tasks_are_limited_together_and_one_address_has_half() {
    // Given a service in which only the limit of anonymous tasks was changed
    let change = |settings: &mut Settings| {
        settings.limits.anonymous_submissions_per_day = 2;
        settings.limits.trusted_proxies = vec![Network::parse("127.0.0.0/8").unwrap()];
    };
    let app = TestApp::start_with(change, idle_noon()).await;
    let alice = app.user("alice").await;
    let video = json!({"model": "vq2-turbo", "duration": 1, "prompt": "a lake"});
    let submit_from = async |address: &str| {
        app.send(app.request(Method::POST, VIDEO).header("x-forwarded-for", address).json(&video)).await
    };

    // When one address exceeds half of that limit, then its request is rejected
    submit_from("203.0.113.1").await.expect(200);
    let problem = submit_from("203.0.113.1").await.expect(429);
    assert_eq!(problem.json()["error"], "quota_exceeded");
    assert!(
        rate_headers(&problem)[0].contains("\"anonymous-tasks-a-day\";r=0;t=43200"),
        "{}",
        rate_headers(&problem)[0]
    );

    // And when all addresses together reach the limit, the next is rejected; a user has the limit of accounts
    submit_from("203.0.113.2").await.expect(200);
    let problem = submit_from("203.0.113.3").await.expect(429);
    assert_eq!(problem.json()["error"], "quota_exceeded");
    assert_eq!(rate_headers(&problem)[0], "\"tasks-a-day\";r=0;t=43200");
    let accepted = app.post_as(&alice.token, VIDEO, video).await.expect(200);
    assert!(rate_headers(&accepted)[0].contains("\"tasks-a-day\";r=19999;t=43200"), "{}", rate_headers(&accepted)[0]);
    app.stop().await;
}

#[actix_web::test]
async fn bytes_of_a_day_are_limited_per_account() {
    // Given a limit that allows two of these submissions
    let submission = json!({"image": base64_png(64, 64)});
    let size = submission.to_string().len() as u64;
    let change = move |settings: &mut Settings| settings.limits.bytes_per_day = 2 * size;
    let environment = idle_noon();
    let app = TestApp::start_with(change, environment.clone()).await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);

    // When one account sends three of them
    let first = app.post_as(&alice.token, UPSCALER, submission.clone()).await.expect(200);
    assert!(
        rate_headers(&first)[0].contains(&format!("\"bytes-a-day\";r={size};t=43200")),
        "{}",
        rate_headers(&first)[0]
    );
    app.post_as(&alice.token, UPSCALER, submission.clone()).await.expect(200);
    let problem = app.post_as(&alice.token, UPSCALER, submission.clone()).await.expect(429);

    // Then the third is rejected until midnight, and other accounts are not affected
    assert_eq!(problem.json()["error"], "quota_exceeded");
    assert_eq!(rate_headers(&problem)[2], "43201");
    app.post_as(&bob.token, UPSCALER, submission.clone()).await.expect(200);
    environment.advance(Duration::from_hours(12));
    app.post_as(&alice.token, UPSCALER, submission).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn archives_count_towards_the_daily_bytes_of_the_token_owner() {
    // Given a limit that allows one archive, and a publisher with two versions
    let archive = valid_archive();
    let size = archive.len() as u64;
    let change = move |settings: &mut Settings| settings.limits.bytes_per_day = size + size / 2;
    let app = TestApp::start_with(change, noon()).await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    app.node("acme", "face-tools", &alice).await;
    let token = app.access_token("acme", &alice).await;
    let link = async |version: &str, token: &str| {
        let body = json!({"node_version": {"version": version}});
        let path = "/publishers/acme/nodes/face-tools/versions";
        let published = app.post_as(token, path, body).await.expect(201).json();
        let url = published["signedUrl"].as_str().expect("a link").to_owned();
        url[url.find("/uploads/").expect("a path")..].to_owned()
    };
    let (first, second) = (link("1.0.0", &alice.token).await, link("1.1.0", &token).await);

    // When the user uploads one, and the same user's publisher token another
    app.send(app.request(Method::PUT, &first).body(archive.clone())).await.expect(200);
    let problem = app.send(app.request(Method::PUT, &second).body(archive)).await.expect(429);

    // Then both count against one account
    assert_eq!(problem.json()["error"], "quota_exceeded");
    app.stop().await;
}

#[actix_web::test]
async fn daily_node_and_version_limits_survive_a_restart() {
    let environment = noon();
    let change = |settings: &mut Settings| {
        (settings.limits.nodes_per_day, settings.limits.versions_per_day) = (2, 2);
    };
    let app = TestApp::start_with(change, environment.clone()).await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    app.publisher("acme", &alice).await;
    app.publisher("other", &bob).await;
    let node = |id: &str| json!({"id": id, "name": id});
    let create = async |app: &TestApp, token: &str, publisher: &str, body: Value| {
        app.post_as(token, &format!("/publishers/{publisher}/nodes"), body).await
    };

    // Given a publisher with one node and two versions; requests rejected for other reasons do not count
    create(&app, &alice.token, "acme", node("one")).await.expect(201);
    create(&app, &alice.token, "acme", node("one")).await.expect(409);
    for version in ["1.0.0", "1.1.0"] {
        let body = json!({"node_version": {"version": version}});
        app.post_as(&alice.token, "/publishers/acme/nodes/one/versions", body).await.expect(201);
    }

    // When the service restarts, the remaining quota is unchanged
    let app = TestApp::start_in(app.stop().await, change, environment.clone()).await;
    let body = json!({"node_version": {"version": "1.2.0"}});
    let path = "/publishers/acme/nodes/one/versions";
    let problem = app.post_as(&alice.token, path, body.clone()).await.expect(429);
    assert_eq!(
        (problem.json()["error"].clone(), rate_headers(&problem)[0]),
        (json!("quota_exceeded"), "\"versions-a-day\";r=0;t=43200")
    );
    let second = create(&app, &alice.token, "acme", node("two")).await.expect(201);
    assert_eq!(rate_headers(&second)[0], "\"nodes-a-day\";r=0;t=43200");
    create(&app, &alice.token, "acme", node("three")).await.expect(429);

    // Then other publishers and administrators are not affected, and midnight renews the quota
    create(&app, &bob.token, "other", node("four")).await.expect(201);
    create(&app, app.admin_token(), "acme", node("five")).await.expect(201);
    environment.advance(Duration::from_hours(12));
    app.post_as(&alice.token, path, body).await.expect(201);
    app.stop().await;
}

#[actix_web::test]
async fn publishers_of_an_account_are_limited_per_day() {
    let change = |settings: &mut Settings| settings.limits.publishers_per_day = 1;
    let app = TestApp::start_with(change, noon()).await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let create = async |token: &str, id: &str| app.post_as(token, "/publishers", json!({"id": id})).await;
    create(&alice.token, "one").await.expect(201);
    assert_eq!(create(&alice.token, "two").await.expect(429).json()["error"], "quota_exceeded");
    create(&bob.token, "two").await.expect(201);
    create(app.admin_token(), "three").await.expect(201);
    create(app.admin_token(), "four").await.expect(201);
    app.stop().await;
}
