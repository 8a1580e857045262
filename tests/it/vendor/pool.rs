//! Several vendors of one medium: which one gets a task, and when a task moves to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mediary::config::{Settings, VendorProfile, VendorSettings};
use mediary::domain::task::{TaskKind, VendorPrice};
use mediary::environment::Environment;
use serde_json::{Value, json};

use super::{remote_vendor, sim, upscale};
use crate::image::{PRECISION, UPSCALER, submit, wait_for_end};
use crate::support::eventually::eventually;
use crate::support::files::vacant_port;
use crate::support::receiver::ReceivedRequest;
use crate::support::scripted_vendor::{ScriptedReply, ScriptedVendor};
use crate::support::vendor_sim::{SimBehavior, SimMode, SimRequest, SimRequestKind, VendorSim};
use crate::support::{TestApp, TestUser, picture};
use crate::video::{EXTEND, START_END, of_prompt, wait_for_task_end};

/// Function that returns the behaviour towards a submission.
type BehaviorFn = fn() -> SimBehavior;

/// Responses of vendors that certainly did not take a job.
const REFUSALS: [&str; 3] = ["429 Too Many Requests", "503 Service Unavailable", "402 Payment Required"];

/// Settings of a pool of vendors with the API of this service; the first one has the lowest priority.
fn pool(settings: &mut Settings, vendors: &[(&str, &str)]) {
    let template = settings.image_vendors[0].clone();
    let vendors = vendors.iter().zip(0..).map(|((name, base), priority)| {
        let mut vendor = template.clone();
        remote_vendor(&mut vendor, base, SimMode::Neither);
        (*name).clone_into(&mut vendor.selection.name);
        vendor.selection.priority = priority;
        vendor
    });
    settings.image_vendors = vendors.collect();
    settings.limits.submissions_per_caller = 100_000;
}

/// Starts a service with two such vendors.
async fn service(first: &str, second: &str, change: impl FnOnce(&mut [VendorSettings])) -> (TestApp, TestUser) {
    let change = |settings: &mut Settings| {
        pool(settings, &[("first", first), ("second", second)]);
        change(&mut settings.image_vendors);
    };
    let app = TestApp::start_with(change, Environment::system()).await;
    let user = app.user("u").await;
    (app, user)
}

async fn quick_sim() -> VendorSim {
    VendorSim::start(sim(SimMode::Neither, Duration::ZERO)).await
}

/// Starts a vendor that treats every submission like this.
async fn sim_that(behavior: impl Fn(&SimRequest) -> SimBehavior + Send + Sync + 'static) -> VendorSim {
    VendorSim::with_behavior(sim(SimMode::Neither, Duration::ZERO), move |request| {
        if request.kind == SimRequestKind::Submission { behavior(request) } else { SimBehavior::Normal }
    })
    .await
}

async fn task_view(app: &TestApp, user: &TestUser, task: &str) -> Value {
    app.get_as(&user.token, &format!("/tasks/{task}")).await.expect(200).json()
}

async fn vendor_state(app: &TestApp, name: &str) -> Value {
    let state = app.get_as(app.admin_token(), "/admin/state").await.expect(200).json();
    let vendors = state["vendors"].as_array().expect("vendors").clone();
    vendors.into_iter().find(|vendor| vendor["name"] == name).expect("the vendor is listed")
}

#[actix_web::test]
async fn tasks_go_to_the_next_vendor_when_the_slots_of_the_first_are_used() {
    // Given two vendors with two slots each, whose jobs do not end
    let [first, second] = [(); 2].map(|()| VendorSim::start(sim(SimMode::Neither, Duration::from_hours(1))));
    let (first, second) = (first.await, second.await);
    let two_slots = |vendors: &mut [VendorSettings]| {
        for vendor in &mut *vendors {
            vendor.slots = Some(2);
        }
        vendors[1].selection.price = VendorPrice::from_thousandths(35);
    };
    let (app, user) = service(&first.base(), &second.base(), two_slots).await;

    // When five tasks are submitted
    let mut tasks = Vec::new();
    for _ in 0..5 {
        tasks.push(submit(&app, &user, UPSCALER, upscale("shared")).await);
        let done = || first.charges().len() + second.charges().len();
        eventually("the task is with a vendor, or waits", async || done() == tasks.len().min(4)).await;
    }

    // Then the first vendor has two, the second has two, and the last one waits
    eventually("all slots are used", async || vendor_state(&app, "second").await["slots"]["used"] == 2).await;
    let expected = json!({"name": "first", "profile": "mediary", "medium": "image", "circuit": "closed",
        "slots": {"used": 2, "total": 2}, "tasks": 2});
    eventually("the first vendor has two tasks", async || vendor_state(&app, "first").await == expected).await;
    assert_eq!((first.charges().len(), second.charges().len()), (2, 2));
    // A vendor has a job a little before its acceptance is recorded.
    let is_next = async || task_view(&app, &user, &tasks[4]).await["queue_position"] == 1;
    eventually("the last task is the first one that waits", is_next).await;
    assert_eq!(task_view(&app, &user, &tasks[4]).await["vendor"], Value::Null);

    // And the tasks, the metrics and the vendors' own records agree on who has them
    let metrics = app.get("/metrics").await.expect(200).text();
    assert!(metrics.contains("mediary_vendor_tasks{vendor=\"second\"} 2"), "{metrics}");
    let accepted = task_view(&app, &user, &tasks[3]).await;
    assert_eq!(accepted["vendor"]["reference"], second.charges()[1].id);
    assert_eq!((&accepted["vendor"]["name"], &accepted["vendor"]["cost"]), (&json!("second"), &json!(0.035)));

    // And when the jobs end, the last task gets a slot
    first.finish_all();
    eventually("the first vendor gets the last task", async || first.charges().len() == 3).await;
    first.finish_all();
    second.finish_all();
    for task in &tasks {
        assert_eq!(wait_for_end(&app, &user, UPSCALER, task).await["status"], "COMPLETED");
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_task_is_queued_while_all_submissions_of_its_only_vendor_are_in_progress() {
    // Given a vendor that gets one submission at a time, and needs seconds to answer it
    let vendor = sim_that(|_| SimBehavior::Trickle(Duration::from_millis(15))).await;
    let base = vendor.base();
    let change = |settings: &mut Settings| {
        pool(settings, &[("only", &base)]);
        settings.image_vendors[0].concurrency = 1;
    };
    let app = TestApp::start_with(change, Environment::system()).await;
    let user = app.user("u").await;

    // When three tasks are submitted
    let mut tasks = vec![submit(&app, &user, UPSCALER, upscale("1")).await];
    eventually("the first is being submitted", async || vendor.charges().len() == 1).await;
    for prompt in ["2", "3"] {
        tasks.push(submit(&app, &user, UPSCALER, upscale(prompt)).await);
    }

    // Then the others are queued behind it, and nothing blocks them
    for (task, position) in tasks[1..].iter().zip(2..) {
        let view = task_view(&app, &user, task).await;
        let shown = ["queue_position", "blocked_by", "vendor"].map(|name| view[name].clone());
        assert_eq!(shown, [json!(position), Value::Null, Value::Null], "{view}");
    }
    assert_eq!(vendor.request_count(SimRequestKind::Submission), 1);

    // And each is sent when the one before it was accepted
    let prompts = || vendor.charges().into_iter().map(|charge| charge.prompt).collect::<Vec<_>>();
    eventually("the second is sent", async || prompts() == ["1", "2"]).await;
    let is_accepted = task_view(&app, &user, &tasks[0]).await["vendor"]["reference"].is_string();
    assert!(is_accepted, "the second was sent before the first was accepted");
    for task in &tasks {
        assert_eq!(wait_for_end(&app, &user, UPSCALER, task).await["status"], "COMPLETED");
    }
    assert_eq!(prompts(), ["1", "2", "3"]);
    app.stop().await;
}

#[actix_web::test]
async fn a_task_moves_on_when_the_first_vendor_certainly_did_not_take_it() {
    for refusal in REFUSALS {
        let first = sim_that(move |_| SimBehavior::Reject(refusal, "{}".to_owned())).await;
        let second = quick_sim().await;
        let (app, user) = service(&first.base(), &second.base(), |_| {}).await;
        let task = submit(&app, &user, UPSCALER, upscale("moves")).await;
        assert_eq!(wait_for_end(&app, &user, UPSCALER, &task).await["status"], "COMPLETED", "{refusal}");
        assert_eq!((first.charges().len(), second.charges().len()), (0, 1), "{refusal}");
        assert_eq!(task_view(&app, &user, &task).await["vendor"]["name"], "second");
        app.stop().await;
    }
}

#[actix_web::test]
async fn a_task_moves_on_when_the_first_vendor_is_not_connected() {
    let (_socket, address) = vacant_port();
    let second = quick_sim().await;
    let (app, user) = service(&format!("http://{address}"), &second.base(), |_| {}).await;
    let task = submit(&app, &user, UPSCALER, upscale("moves")).await;
    assert_eq!(wait_for_end(&app, &user, UPSCALER, &task).await["status"], "COMPLETED");
    let events = app.get_as(app.admin_token(), &format!("/admin/events?stream=task/{task}")).await.expect(200).text();
    let first_started = events.find("\"name\":\"first\"").expect("the first vendor was called");
    assert!(first_started < events.find("\"name\":\"second\"").expect("then the second"), "{events}");
    app.stop().await;
}

#[actix_web::test]
async fn a_job_that_the_first_vendor_does_not_take_goes_to_the_next() {
    // Given a first vendor that takes only upscales, and none with this engine
    let (first, second) = (quick_sim().await, quick_sim().await);
    let (app, user) = service(&first.base(), &second.base(), |vendors| {
        vendors[0].jobs.kinds = vec![TaskKind::ImageUpscaler];
        vendors[0].jobs.except = vec![("engine".to_owned(), vec!["premium_sharpy".to_owned()])];
    })
    .await;

    // When it is asked for an upscale, for one with this engine, and for another job
    let image = picture::base64_png(8, 8);
    let bodies = [
        (UPSCALER, json!({"image": image, "engine": "automatic"})),
        (UPSCALER, json!({"image": image, "engine": "premium_sharpy"})),
        (PRECISION, json!({"image": image})),
    ];
    let mut vendors = Vec::new();
    for (path, body) in bodies {
        let task = submit(&app, &user, path, body).await;
        assert_eq!(wait_for_end(&app, &user, path, &task).await["status"], "COMPLETED");
        vendors.push(task_view(&app, &user, &task).await["vendor"]["name"].clone());
    }

    // Then only the first of them is with the first vendor
    assert_eq!(vendors, [json!("first"), json!("second"), json!("second")]);
    app.stop().await;
}

#[actix_web::test]
async fn a_task_does_not_move_when_the_outcome_is_unknown() {
    let cut = || SimBehavior::Raw("HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{\"data\": {".to_owned());
    let unknown: [(_, BehaviorFn); 4] = [
        ("cut", cut),
        ("hung up", || SimBehavior::HangUp),
        ("500", || SimBehavior::Respond("500 Internal Server Error", "{}".to_owned())),
        ("timeout", || SimBehavior::Silence),
    ];
    for (name, behavior) in unknown {
        let first = sim_that(move |_| behavior()).await;
        let second = quick_sim().await;
        let (app, user) = service(&first.base(), &second.base(), |vendors| {
            vendors[0].connect_timeout = Duration::from_millis(500);
            vendors[0].submit_timeout = Duration::from_millis(1500);
        })
        .await;
        let task = submit(&app, &user, UPSCALER, upscale("unknown")).await;
        let ended = wait_for_end(&app, &user, UPSCALER, &task).await;
        assert_eq!(ended["error"]["code"], "outcome_unknown", "{name}: {ended}");
        assert_eq!((first.charges().len(), second.charges().len()), (1, 0), "{name}");
        app.stop().await;
    }
}

#[actix_web::test]
async fn a_refusal_of_the_input_is_final() {
    let first = sim_that(|_| SimBehavior::Reject("422 Unprocessable Content", r#"{"message": "no"}"#.to_owned())).await;
    let second = quick_sim().await;
    let (app, user) = service(&first.base(), &second.base(), |_| {}).await;
    let task = submit(&app, &user, UPSCALER, upscale("refused")).await;
    assert_eq!(wait_for_end(&app, &user, UPSCALER, &task).await["error"]["code"], "vendor_refused");
    assert_eq!((first.charges().len(), second.charges().len()), (0, 0));
    app.stop().await;
}

#[actix_web::test]
async fn equal_vendors_share_by_weight() {
    let (first, second) = (quick_sim().await, quick_sim().await);
    let (app, user) = service(&first.base(), &second.base(), |vendors| {
        vendors[1].selection.priority = vendors[0].selection.priority;
        vendors[1].selection.weight = 4;
    })
    .await;
    let mut tasks = Vec::new();
    for _ in 0..60 {
        tasks.push(submit(&app, &user, UPSCALER, upscale("shared")).await);
    }
    for task in &tasks {
        assert_eq!(wait_for_end(&app, &user, UPSCALER, task).await["status"], "COMPLETED");
    }

    let (light, heavy) = (first.charges().len(), second.charges().len());
    assert_eq!(light + heavy, 60);
    // 12 and 48 are expected; the chance of less than twice as many is far below one in a million.
    assert!(light > 0 && heavy > 2 * light, "{light} and {heavy}");
    app.stop().await;
}

#[actix_web::test]
async fn a_task_that_no_vendor_can_take_waits_and_says_why() {
    // Given a vendor that is busy for long, and one that is not connected
    let first = sim_that(|request| match request.count {
        1 => SimBehavior::Reject("429 Too Many Requests\r\nretry-after: 600", "{}".to_owned()),
        _ => SimBehavior::Normal,
    })
    .await;
    let (socket, address) = vacant_port();
    let (app, user) = service(&first.base(), &format!("http://{address}"), |_| {}).await;

    // When a task is submitted
    let task = submit(&app, &user, UPSCALER, upscale("waits")).await;

    // Then it waits for the one that it can be sent to first, and says why
    let is_blocked = async || {
        let view = task_view(&app, &user, &task).await;
        // During an attempt, the vendor may have it.
        view["blocked_by"]["code"] == "vendor_unreachable" && view["vendor"].is_null()
    };
    eventually("the task is blocked", is_blocked).await;

    // And it is sent there as soon as there is a listener
    let listener = socket.listen(64).expect("a listener");
    let second = VendorSim::on_listener(listener, sim(SimMode::Neither, Duration::ZERO), |_| SimBehavior::Normal);
    assert_eq!(wait_for_end(&app, &user, UPSCALER, &task).await["status"], "COMPLETED");
    assert_eq!((first.charges().len(), second.charges().len()), (0, 1));
    app.stop().await;
}

#[actix_web::test]
async fn a_restart_keeps_the_vendor_and_a_removed_one_blocks_its_tasks() {
    // Given a task at the second vendor, because the first one was busy
    let first = sim_that(|_| SimBehavior::Reject("429 Too Many Requests\r\nretry-after: 1", "{}".to_owned())).await;
    let second = VendorSim::start(sim(SimMode::Neither, Duration::from_hours(1))).await;
    let (first_base, second_base) = (first.base(), second.base());
    let (app, user) = service(&first_base, &second_base, |_| {}).await;
    let task = submit(&app, &user, UPSCALER, upscale("kept")).await;
    let is_at_second = async |app: &TestApp| task_view(app, &user, &task).await["vendor"]["reference"].is_string();
    eventually("the second vendor has it", async || is_at_second(&app).await).await;

    // When the service starts without the second vendor
    let dir = app.stop().await;
    let first_only = |settings: &mut Settings| pool(settings, &[("first", &first_base)]);
    let app = TestApp::start_in(dir, first_only, Environment::system()).await;

    // Then the task waits for it, and the first one is not called
    let code = async || task_view(&app, &user, &task).await["blocked_by"]["code"].clone();
    eventually("the task is blocked", async || code().await == "vendor_removed").await;
    let called = first.request_count(SimRequestKind::Submission);

    // And when the service starts with both in another order, the task ends at its vendor
    let dir = app.stop().await;
    let both = |settings: &mut Settings| pool(settings, &[("second", &second_base), ("first", &first_base)]);
    let app = TestApp::start_in(dir, both, Environment::system()).await;
    second.finish_all();
    assert_eq!(wait_for_end(&app, &user, UPSCALER, &task).await["status"], "COMPLETED");
    assert_eq!((second.charges().len(), first.request_count(SimRequestKind::Submission)), (1, called));
    app.stop().await;
}

#[actix_web::test]
async fn the_built_in_engine_can_be_the_last_resort() {
    // Given a remote vendor without a listener, and the built-in engine
    let (_socket, address) = vacant_port();
    let change = |settings: &mut Settings| {
        let mut engine = settings.image_vendors[0].clone();
        "engine".clone_into(&mut engine.selection.name);
        engine.selection.priority = 10;
        pool(settings, &[("remote", &format!("http://{address}"))]);
        settings.image_vendors.push(engine);
    };
    let app = TestApp::start_with(change, Environment::system()).await;
    let user = app.user("u").await;

    // When a picture is upscaled, then the engine does it, at no cost
    let task = submit(&app, &user, UPSCALER, upscale("here")).await;
    assert_eq!(wait_for_end(&app, &user, UPSCALER, &task).await["status"], "COMPLETED");
    let vendor = task_view(&app, &user, &task).await["vendor"].clone();
    assert_eq!((&vendor["name"], &vendor["profile"]), (&json!("engine"), &json!("builtin")));
    assert_eq!(vendor["cost"].as_f64(), Some(0.0));
    app.stop().await;
}

/// Moment at which a server dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    Never,
    Submission,
    Polling,
    Fetching,
}

/// Starts a workflow server that dies once, at this moment, and keeps its queue on disk.
async fn workflow_server(death: Death) -> ScriptedVendor {
    workflow_server_with_memory(death, true).await
}

/// Starts a workflow server whose queue and history survive its death, or are forgotten as those of real ones.
async fn workflow_server_with_memory(death: Death, remembers: bool) -> ScriptedVendor {
    ScriptedVendor::start(move |_| {
        let died_after = AtomicUsize::new(0);
        move |requests: &[ReceivedRequest]| {
            let last = requests.last().expect("a request");
            let is = |request: &ReceivedRequest, method: &str, path: &str| {
                request.method == method && request.path.starts_with(path)
            };
            let is_first = |method, path| requests.iter().filter(|request| is(request, method, path)).count() == 1;
            let dies = match death {
                Death::Never => false,
                Death::Submission => is(last, "POST", "/prompt") && is_first("POST", "/prompt"),
                Death::Polling => is(last, "GET", "/history/") && is_first("GET", "/history/"),
                Death::Fetching => is(last, "GET", "/view") && is_first("GET", "/view"),
            };
            if dies {
                died_after.store(requests.len(), Ordering::SeqCst);
                return ScriptedReply::death();
            }
            let remembered = if remembers { requests } else { &requests[died_after.load(Ordering::SeqCst)..] };

            let id = last.path.strip_prefix("/history/").unwrap_or_default();
            let is_known =
                |request: &ReceivedRequest| is(request, "POST", "/prompt") && request.json()["prompt_id"] == id;
            match (last.method.as_str(), last.path.as_str()) {
                ("POST", "/upload/image") => {
                    ScriptedReply::json(200, &json!({"name": "input.png", "subfolder": "", "type": "input"}))
                }
                ("POST", "/prompt") => {
                    let id = last.json()["prompt_id"].clone();
                    ScriptedReply::json(200, &json!({"prompt_id": id, "number": 1, "node_errors": {}}))
                }
                ("GET", "/system_stats") => ScriptedReply::json(200, &json!({"system": {"comfyui_version": "0.3.64"}})),
                ("GET", "/queue") => ScriptedReply::json(200, &json!({"queue_running": [], "queue_pending": []})),
                ("GET", path) if path.starts_with("/history/") && remembered.iter().any(is_known) => {
                    let image = json!({"filename": "out.png", "subfolder": "", "type": "output"});
                    let status = json!({"status_str": "success", "completed": true, "messages": []});
                    let job = json!({"outputs": {"9": {"images": [image]}}, "status": status});
                    ScriptedReply::json(200, &json!({id: job}))
                }
                ("GET", path) if path.starts_with("/history/") => ScriptedReply::json(200, &json!({})),
                ("GET", path) if path.starts_with("/view?") => ScriptedReply::png(picture::png(16, 16)),
                _ => ScriptedReply::json(404, &json!({})),
            }
        }
    })
    .await
}

/// Starts a service with two such servers; the first one comes first.
async fn service_with_servers(first: &ScriptedVendor, second: &ScriptedVendor) -> (TestApp, TestUser) {
    let (first, second) = (first.base(), second.base());
    service(&first, &second, |vendors| {
        for vendor in vendors {
            vendor.selection.profile = VendorProfile::Shipped("comfyui");
            vendor.search_settles = Duration::from_secs(30);
        }
    })
    .await
}

#[actix_web::test]
async fn a_server_killed_before_the_submission_is_replaced_by_the_other() {
    let first = workflow_server(Death::Never).await;
    let second = workflow_server(Death::Never).await;
    first.kill().await;
    let (app, user) = service_with_servers(&first, &second).await;
    let task = submit(&app, &user, UPSCALER, json!({"image": picture::base64_png(8, 8), "scale_factor": "2x"})).await;
    assert_eq!(wait_for_end(&app, &user, UPSCALER, &task).await["status"], "COMPLETED");
    assert_eq!((first.requests("POST", "/").len(), second.requests("POST", "/prompt").len()), (0, 1));
    app.stop().await;
}

#[actix_web::test]
async fn a_server_killed_with_a_job_loses_nothing_and_doubles_nothing() {
    for death in [Death::Submission, Death::Polling, Death::Fetching] {
        // Given two servers, of which the first one dies with the job
        let first = workflow_server(death).await;
        let second = workflow_server(Death::Never).await;
        let (app, user) = service_with_servers(&first, &second).await;
        let body = json!({"image": picture::base64_png(8, 8), "scale_factor": "2x"});
        let task = submit(&app, &user, UPSCALER, body.clone()).await;
        first.wait_for_death().await;

        // Then the other one gets the next task, but not this one
        let next = submit(&app, &user, UPSCALER, body).await;
        assert_eq!(wait_for_end(&app, &user, UPSCALER, &next).await["status"], "COMPLETED", "{death:?}");
        let prompts = second.requests("POST", "/prompt");
        assert!(prompts.iter().all(|request| request.json()["prompt_id"] == next), "{death:?}");

        // And when the first one is back, it ends its job, which was submitted once
        first.restart().await;
        assert_eq!(wait_for_end(&app, &user, UPSCALER, &task).await["status"], "COMPLETED", "{death:?}");
        let submitted = first.requests("POST", "/prompt").len();
        assert_eq!((submitted, second.requests("POST", "/prompt").len()), (1, 1), "{death:?}");
        app.stop().await;
    }
}

#[actix_web::test]
async fn a_server_that_forgets_its_job_when_it_is_killed_does_not_get_it_again() {
    for death in [Death::Polling, Death::Fetching] {
        // Given a server that dies with a job, and forgets it
        let first = workflow_server_with_memory(death, false).await;
        let second = workflow_server(Death::Never).await;
        let (app, user) = service(&first.base(), &second.base(), |vendors| {
            for vendor in vendors {
                vendor.selection.profile = VendorProfile::Shipped("comfyui");
                vendor.lost_after = Duration::from_millis(100);
            }
        })
        .await;
        let body = json!({"image": picture::base64_png(8, 8), "scale_factor": "2x"});
        let task = submit(&app, &user, UPSCALER, body).await;
        first.wait_for_death().await;

        // When it is back, then the task fails, because it may have run
        first.restart().await;
        let ended = wait_for_end(&app, &user, UPSCALER, &task).await;
        assert_eq!(ended["error"]["code"], "vendor_lost", "{death:?}: {ended}");
        let prompts = [&first, &second].map(|server| server.requests("POST", "/prompt").len());
        assert_eq!(prompts, [1, 0], "{death:?}");
        app.stop().await;
    }
}

#[actix_web::test]
async fn a_submission_that_a_killed_server_forgot_is_sent_again_after_a_search() {
    // Given a server that dies at a submission, and forgets it
    let first = workflow_server_with_memory(Death::Submission, false).await;
    let second = workflow_server(Death::Never).await;
    let (app, user) = service(&first.base(), &second.base(), |vendors| {
        for vendor in vendors {
            vendor.selection.profile = VendorProfile::Shipped("comfyui");
            vendor.search_settles = Duration::from_millis(500);
        }
    })
    .await;
    let body = json!({"image": picture::base64_png(8, 8), "scale_factor": "2x"});
    let task = submit(&app, &user, UPSCALER, body).await;
    first.wait_for_death().await;

    // When it is back, and does not find it, then the job is done once
    first.restart().await;
    assert_eq!(wait_for_end(&app, &user, UPSCALER, &task).await["status"], "COMPLETED");
    let views = [&first, &second].map(|server| server.requests("GET", "/view").len());
    assert_eq!(views.iter().sum::<usize>(), 1);
    app.stop().await;
}

#[actix_web::test]
async fn a_cancellation_is_sent_until_the_vendor_accepts_it() {
    // Given a job that is running at a server
    let vendor = Arc::new(
        ScriptedVendor::start(|_| {
            |requests: &[ReceivedRequest]| {
                let last = requests.last().expect("a request");
                let submitted = requests.iter().find(|request| request.path == "/prompt");
                let id = submitted.map_or(Value::Null, |request| request.json()["prompt_id"].clone());
                let failed = requests.iter().filter(|request| request.method == "POST" && request.path == "/queue");
                match (last.method.as_str(), last.path.as_str()) {
                    ("POST", "/upload/image") => ScriptedReply::json(200, &json!({"name": "a.png", "subfolder": ""})),
                    ("GET", "/system_stats") => {
                        ScriptedReply::json(200, &json!({"system": {"comfyui_version": "0.3.64"}}))
                    }
                    ("POST", "/prompt") => ScriptedReply::json(200, &json!({"prompt_id": id})),
                    ("GET", "/queue") => {
                        let job = json!([1, id, {}, {}, []]);
                        ScriptedReply::json(200, &json!({"queue_running": [job], "queue_pending": []}))
                    }
                    // The first attempt fails.
                    ("POST", "/queue") if failed.count() == 1 => ScriptedReply::json(503, &json!({})),
                    ("POST", "/queue" | "/interrupt") => {
                        ScriptedReply::new(200, "application/octet-stream", Vec::new())
                    }
                    _ => ScriptedReply::json(200, &json!({})),
                }
            }
        })
        .await,
    );
    let (app, user) = service_with_servers(&vendor, &vendor).await;
    let body = json!({"image": picture::base64_png(8, 8), "scale_factor": "2x"});
    let task = submit(&app, &user, UPSCALER, body).await;
    let is_accepted = async || task_view(&app, &user, &task).await["vendor"]["reference"].is_string();
    eventually("the vendor has accepted the job", is_accepted).await;

    // When the task is cancelled twice
    for _ in 0..2 {
        let path = format!("/tasks/{task}/cancel");
        let ended = app.post_as(&user.token, &path, json!({})).await.expect(200).json();
        assert_eq!(ended["error"]["code"], "cancelled");
    }

    // Then the cancellation is sent until the vendor accepts it, and not again
    eventually("the cancellation is sent", async || vendor.requests("POST", "/interrupt").len() == 1).await;
    let deletions = vendor.requests("POST", "/queue");
    assert_eq!((deletions.len(), &deletions[1].json()), (2, &json!({"delete": [task]})));
    assert_eq!(vendor.requests("POST", "/interrupt")[0].json(), json!({"prompt_id": task}));
    // The call is counted after its response.
    let cancelled = r#"mediary_vendor_calls_total{vendor="first",call="cancel",outcome="ok"} 1"#;
    let is_counted = async || app.get("/metrics").await.expect(200).text().contains(cancelled);
    eventually("the call is counted", is_counted).await;
    app.stop().await;
}

/// Settings of a pool of video vendors; the first one has the lowest priority.
fn video_pool(settings: &mut Settings, vendors: &[(&str, &str)]) {
    let template = settings.video_vendors[0].clone();
    let vendors = vendors.iter().zip(0..).map(|((name, base), priority)| {
        let mut vendor = template.clone();
        remote_vendor(&mut vendor, base, SimMode::Neither);
        (*name).clone_into(&mut vendor.selection.name);
        vendor.selection.priority = priority;
        vendor
    });
    settings.video_vendors = vendors.collect();
}

async fn submit_video(app: &TestApp, user: &TestUser, path: &str, body: Value) -> String {
    let response = app.post_as(&user.token, path, body).await.expect(200).json();
    response["task_id"].as_str().expect("a task id").to_owned()
}

#[actix_web::test]
async fn a_cancelled_video_is_passed_on_to_the_vendor_that_has_it() {
    // Given a video at the second vendor, because the first one was busy
    let first = sim_that(|_| SimBehavior::Reject("429 Too Many Requests\r\nretry-after: 1", "{}".to_owned())).await;
    let second = VendorSim::start(sim(SimMode::Neither, Duration::from_hours(1))).await;
    let change = |settings: &mut Settings| {
        video_pool(settings, &[("first", &first.base()), ("second", &second.base())]);
    };
    let app = TestApp::start_with(change, Environment::system()).await;
    let user = app.user("u").await;
    let task = submit_video(&app, &user, START_END, of_prompt("unwanted")).await;
    let is_accepted = async || task_view(&app, &user, &task).await["vendor"]["reference"].is_string();
    eventually("the second vendor has accepted the job", is_accepted).await;

    // When its task is cancelled
    let path = format!("/proxy/videovendor/tasks/{task}/cancel");
    app.post_as(&user.token, &path, json!({})).await.expect(200);

    // Then the cancellation is sent to this vendor only, once
    let cancellations = |vendor: &VendorSim| vendor.request_count(SimRequestKind::Cancellation);
    eventually("the cancellation is sent", async || cancellations(&second) == 1).await;
    // The vendor receives the request slightly before its response is counted.
    let passed_on = r#"mediary_vendor_calls_total{vendor="second",call="cancel",outcome="ok"} 1"#;
    let is_counted = async || app.get("/metrics").await.expect(200).text().contains(passed_on);
    eventually("the vendor has agreed", is_counted).await;
    assert_eq!((cancellations(&first), cancellations(&second)), (0, 1));
    app.stop().await;
}

#[actix_web::test]
async fn a_video_is_extended_by_the_vendor_that_made_it() {
    // Given a video that the second vendor made, because the first one was busy
    let first = sim_that(|request| match request.prompt.as_str() {
        "made by the second" => SimBehavior::Reject("429 Too Many Requests\r\nretry-after: 1", "{}".to_owned()),
        _ => SimBehavior::Normal,
    })
    .await;
    let second = quick_sim().await;
    let (first_base, second_base) = (first.base(), second.base());
    let both = |settings: &mut Settings| video_pool(settings, &[("first", &first_base), ("second", &second_base)]);
    let app = TestApp::start_with(both, Environment::system()).await;
    let user = app.user("u").await;
    let made = submit_video(&app, &user, START_END, of_prompt("made by the second")).await;
    wait_for_task_end(&app, &made).await;
    let path = format!("/proxy/videovendor/tasks/{made}/creations");
    let creation = app.get_as(&user.token, &path).await.expect(200).json()["creations"][0].clone();
    let extension = || json!({"model": "vq2-turbo", "video_creation_id": creation["id"], "video_url": creation["url"], "prompt": "on"});

    // When it is extended, and the first vendor is free again
    let extended = submit_video(&app, &user, EXTEND, extension()).await;
    wait_for_task_end(&app, &extended).await;

    // Then the second one does it, under its own id
    let view = task_view(&app, &user, &extended).await;
    assert_eq!((&view["state"], &view["vendor"]["name"]), (&json!("success"), &json!("second")), "{view}");
    let (_, submission) = second.last_submission().expect("a submission");
    assert_eq!(submission["video_creation_id"], "v-job-1");

    // And without that vendor, an extension waits for it and says why
    let dir = app.stop().await;
    let first_only = |settings: &mut Settings| video_pool(settings, &[("first", &first_base)]);
    let app = TestApp::start_in(dir, first_only, Environment::system()).await;
    let url = app.url(url_path(creation["url"].as_str().expect("a URL")));
    let mut body = extension();
    body["video_url"] = json!(url);
    let waiting = submit_video(&app, &user, EXTEND, body).await;
    let blocker = async || task_view(&app, &user, &waiting).await["blocked_by"].clone();
    eventually("the task is blocked", async || blocker().await["code"] == "vendor_removed").await;
    let message = blocker().await["message"].to_string();
    assert!(message.contains("the vendor that made the video to extend is no longer configured"), "{message}");

    // And it is done when that vendor is configured again; the first one made nothing
    let dir = app.stop().await;
    let app = TestApp::start_in(dir, both, Environment::system()).await;
    wait_for_task_end(&app, &waiting).await;
    assert_eq!(task_view(&app, &user, &waiting).await["vendor"]["name"], "second");
    assert_eq!((first.charges().len(), second.charges().len()), (0, 3));
    app.stop().await;
}

/// Returns the path of a URL.
fn url_path(url: &str) -> &str {
    let authority = url.find("://").map_or(0, |scheme| scheme + 3);
    url[authority..].find('/').map_or("/", |slash| &url[authority + slash..])
}
