//! Runs the lines of `docs/tasks.md` with which a page follows a task.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::image::{UPSCALER, submit, wait_for_end};
use crate::support::{TestApp, picture};

const DOCUMENT: &str = include_str!("../../../docs/tasks.md");

/// Returns the script of the lines with their inputs, which prints the received events.
fn script(base: &str, token: &str, task: &str, last: &str) -> String {
    let start = DOCUMENT.find("```javascript\n").expect("a block of JavaScript") + "```javascript\n".len();
    let lines = &DOCUMENT[start..start + DOCUMENT[start..].find("```").unwrap()];
    let arguments = json!([base, token, task, last]);
    format!(
        "const [base, token, task, last] = {arguments};\nconst taken = [];\nconst take = (event) => taken.push(event);\n\
         (async () => {{\n{lines}\nconsole.log(JSON.stringify([response.status, taken.filter((event) => event.data)]));\n}})();"
    )
}

/// `true` if this machine has Node.js 18 or newer, which has the APIs of browsers.
fn can_run() -> bool {
    let probe = "process.exit(typeof fetch === 'function' && typeof TextDecoderStream === 'function' ? 0 : 1)";
    Command::new("node").args(["-e", probe]).status().is_ok_and(|status| status.success())
}

/// Runs the script; returns the events that it received, or `None` without Node.js.
async fn follow_with_script(app: &TestApp, token: &str, task: &str, last: &str) -> Option<Value> {
    if !can_run() {
        println!("the lines of docs/tasks.md were not run: that needs Node 18 or newer");
        return None;
    }
    let script = script(&app.url(""), token, task, last);
    let run = move || Command::new("node").args(["-e", &script]).output();
    let output: Output = tokio::task::spawn_blocking(run).await.unwrap().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[actix_web::test]
async fn the_documented_script_follows_a_task_and_reconnects() {
    // Given a completed task
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    let task = submit(&app, &ada, UPSCALER, json!({"image": picture::base64_png(8, 8)})).await;
    wait_for_end(&app, &ada, UPSCALER, &task).await;

    // When a page without a last event id follows it
    let Some(first) = follow_with_script(&app, &ada.token, &task, "").await else {
        return app.stop().await.close().unwrap();
    };

    // Then it gets the current state
    assert_eq!((&first[0], &first[1][0]["event"]), (&json!(200), &json!("snapshot")));
    let first_event: Value = serde_json::from_str(first[1][0]["data"].as_str().unwrap()).unwrap();
    assert_eq!((&first_event["task_id"], &first_event["state"]), (&json!(task), &json!("COMPLETED")));

    // And with the last event id it gets nothing more, with an earlier one the missed events
    let last_id = first[1][0]["id"].as_str().unwrap();
    assert_eq!(follow_with_script(&app, &ada.token, &task, last_id).await.unwrap(), json!([204, []]));
    let missed_events = follow_with_script(&app, &ada.token, &task, "0").await.unwrap();
    assert!(missed_events[1].as_array().unwrap().iter().all(|event| event["event"] == "change"), "{missed_events}");
    assert_eq!(missed_events[1].as_array().unwrap().last().unwrap()["id"], last_id);
    app.stop().await;
}
