//! Several music vendors: a stream moves to another one only before its first line, and only if the former certainly
//! did not take it.

use mediary::config::{Settings, VendorProfile};
use mediary::environment::Environment;
use serde_json::{Value, json};

use super::vendor::remote;
use super::{MusicListener, wait_for_end};
use crate::support::files::vacant_port;
use crate::support::music_sim::{MusicSim, StreamAction, duration, error_response, lines, normal_lines, sound, title};
use crate::support::{TestApp, TestUser};

/// Function that returns the response of a vendor.
type MusicResponseFn = fn() -> Vec<StreamAction>;

/// Vendor of the lowest priority, after the remote vendors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastVendor {
    BuiltInEngine,
    None,
}

/// Starts a service with a vendor at each of `bases`, in order of priority, and then the `last` one.
async fn service(bases: &[String], last: LastVendor) -> (TestApp, TestUser) {
    changed_service(bases, last, |_| {}).await
}

/// Like [`service`], with further changes of its settings.
async fn changed_service(
    bases: &[String],
    last: LastVendor,
    change_further: impl FnOnce(&mut Settings),
) -> (TestApp, TestUser) {
    let change = |settings: &mut Settings| {
        let mut built_in = settings.music_vendors[0].clone();
        let vendors = bases.iter().enumerate().map(|(number, base)| {
            remote(settings, base);
            let mut vendor = settings.music_vendors[0].clone();
            vendor.selection.name = format!("vendor-{number}");
            vendor.selection.priority = i32::try_from(number).expect("a few");
            vendor
        });
        let mut vendors: Vec<_> = vendors.collect();
        built_in.selection.priority = 100;
        vendors.extend((last == LastVendor::BuiltInEngine).then_some(built_in));
        settings.music_vendors = vendors;
        change_further(settings);
    };
    let app = TestApp::start_with(change, Environment::system()).await;
    let user = app.user("listener").await;
    (app, user)
}

/// Returns the task, with the last line of its stream.
async fn listen(app: &TestApp, user: &TestUser) -> (serde_json::Value, serde_json::Value) {
    let listener = MusicListener::request(app, user, &[("prompt", "calm"), ("duration", "2")]).await;
    let task = listener.task.clone();
    let last = listener.collect().await.pop().expect("a last line");
    (wait_for_end(app, user, &task).await, last)
}

#[actix_web::test]
async fn music_moves_to_the_next_vendor_that_takes_it() {
    // Given a vendor that is not connected, a busy one, and one that plays
    let (_socket, address) = vacant_port();
    let busy = MusicSim::with_behavior(|_| error_response("503 Service Unavailable", "{}")).await;
    let playing = MusicSim::with_behavior(|_| lines(&normal_lines())).await;
    let (app, user) = service(&[format!("http://{address}"), busy.base(), playing.base()], LastVendor::None).await;

    // When music is requested, then the last one plays it, in one stream
    let (task, last) = listen(&app, &user).await;
    assert_eq!((&last["type"], &task["state"]), (&json!("complete"), &json!("success")));
    assert_eq!(task["vendor"]["name"], "vendor-2");
    assert_eq!((busy.record().requests.len(), playing.record().requests.len()), (1, 1));
    app.stop().await;
}

#[actix_web::test]
async fn music_goes_to_the_first_vendor_that_can_express_it() {
    // Given a first vendor whose profile has no word for a length of two seconds, and a second one
    let profiles = tempfile::tempdir().expect("a directory");
    let profile = "extends = \"mediary\"\n[maps.length]\n30 = 30\n[jobs.music]\npath = \"/musicvendor/t2m/generate\"\n\
                   form = { prompt = \"{{ prompt }}\", duration = \"{{ maps.length[duration] }}\" }\n";
    std::fs::write(profiles.path().join("own.toml"), profile).expect("a writable directory");
    let own = VendorProfile::find("own", Some(profiles.path())).unwrap_or_else(|error| panic!("{error}"));
    let playing = || MusicSim::with_behavior(|_| lines(&normal_lines()));
    let (first, second) = (playing().await, playing().await);

    for (bases, name, code) in [
        (vec![first.base(), second.base()], "vendor-1", Value::Null),
        // Without another vendor, the task fails with the reason.
        (vec![first.base()], "vendor-0", json!("vendor_refused")),
    ] {
        let own = own.clone();
        let (app, user) = changed_service(&bases, LastVendor::None, |settings| {
            settings.music_vendors[0].selection.profile = own;
        })
        .await;

        // When music of two seconds is requested
        let (task, _) = listen(&app, &user).await;

        // Then the first vendor, which cannot express it, is not called
        assert_eq!((&task["vendor"]["name"], &task["error"]["code"]), (&json!(name), &code), "{task}");
        assert!(first.record().requests.is_empty(), "the first vendor was called");
        app.stop().await;
    }
    assert_eq!(second.record().requests.len(), 1);
}

#[actix_web::test]
async fn the_built_in_engine_plays_what_no_vendor_takes() {
    let busy = MusicSim::with_behavior(|_| error_response("429 Too Many Requests", "{}")).await;
    let (app, user) = service(&[busy.base()], LastVendor::BuiltInEngine).await;
    let (task, last) = listen(&app, &user).await;
    assert_eq!((&last["type"], &task["state"]), (&json!("complete"), &json!("success")));
    assert_eq!((&task["vendor"], busy.record().requests.len()), (&json!(null), 1));
    app.stop().await;
}

#[actix_web::test]
async fn music_stays_where_it_may_have_begun() {
    let begun = || lines(&[duration(), title(), sound("one")]);
    let cases: [(_, MusicResponseFn); 3] = [
        ("outcome_unknown", Vec::new),
        ("outcome_unknown", || error_response("500 Internal Server Error", "{}")),
        ("vendor_refused", || error_response("400 Bad Request", "{}")),
    ];
    for (code, behavior) in cases {
        let first = MusicSim::with_behavior(move |_| behavior()).await;
        let second = MusicSim::with_behavior(|_| lines(&normal_lines())).await;
        let (app, user) = service(&[first.base(), second.base()], LastVendor::BuiltInEngine).await;
        let (task, last) = listen(&app, &user).await;
        assert_eq!((&last["code"], &task["error"]["code"]), (&json!(code), &json!(code)));
        assert_eq!((&task["vendor"]["name"], second.record().requests.len()), (&json!("vendor-0"), 0), "{code}");
        app.stop().await;
    }

    // And neither does it move after its first line
    let first = MusicSim::with_behavior(move |_| begun()).await;
    let second = MusicSim::with_behavior(|_| lines(&normal_lines())).await;
    let (app, user) = service(&[first.base(), second.base()], LastVendor::BuiltInEngine).await;
    let (task, _) = listen(&app, &user).await;
    assert_eq!((&task["error"]["code"], second.record().requests.len()), (&json!("vendor_broke_off"), 0));
    app.stop().await;
}
