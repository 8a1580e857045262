//! `run`, `tasks` and `watch`.

use std::io::Read;

use actix_web::rt::task::spawn_blocking;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::Workplace;
use crate::support::TestApp;
use crate::support::eventually::eventually;
use crate::support::files::{FileServer, file};
use crate::support::picture::png;

#[actix_web::test]
async fn a_picture_is_made_from_a_file_and_its_task_is_listed() {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    let place = Workplace::of_user(&app, &ada.token);
    place.write("photo.png", png(16, 12));

    // When a job runs, then its result is in the file
    let arguments = ["run", "image-upscaler", "photo.png", "-s", "scale_factor=4x", "-o", "large.png"];
    let output = place.run(&arguments).await.expect(0).assert_contains(&["large.png", "0 credits"]);
    let picture = image::open(place.path("large.png")).unwrap();
    assert_eq!((picture.width(), picture.height()), (64, 48));

    // And without -o the file is named after the job and the task
    let output_json = place.run(&["run", "image-upscaler", "photo.png", "--json"]).await.expect(0);
    let json: Value = serde_json::from_str(&output_json.out).unwrap();
    let task = json["task"]["task_id"].as_str().unwrap();
    assert!(place.path(&format!("image-upscaler-{}.png", &task[..8])).exists(), "{json}");

    // And both tasks are listed, and can be watched after their end
    let list = place.run(&["tasks", "--kind", "image-upscaler", "--state", "completed"]).await.expect(0);
    assert_eq!(list.out.matches("completed").count(), 2, "{}", list.out);
    assert!(!list.out.contains('\u{1b}'), "colours without a terminal");
    place.run(&["tasks", "--state", "failed"]).await.expect(0).assert_contains(&["No tasks match"]);
    place.run(&["watch", task, "-o", "again.png"]).await.expect(0);
    assert!(place.path("again.png").exists() && output.err.is_empty(), "{}", output.err);
}

#[actix_web::test]
async fn videos_are_made_from_key_frames_and_extended_from_files() {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    let place = Workplace::of_user(&app, &ada.token);
    for name in ["a.png", "b.png"] {
        place.write(name, png(64, 48));
    }
    let last_request = async || {
        let tasks = app.get_as(&ada.token, "/tasks").await.expect(200).json();
        let path = format!("/tasks/{}", tasks["tasks"][0]["task_id"].as_str().unwrap());
        app.get_as(&ada.token, &path).await.expect(200).json()["request"].clone()
    };

    // When a video is made from two files, then each is a key frame with the prompt
    let arguments = ["run", "multiframe", "a.png", "b.png", "-p", "waves", "-s", "resolution=540p", "-o", "film.mp4"];
    place.run(&arguments).await.expect(0).assert_contains(&["film.mp4"]);
    let frames = last_request().await["image_settings"].clone();
    assert!(frames[0]["prompt"] == "waves" && frames[1]["prompt"] == "waves" && frames[2].is_null(), "{frames}");

    // When the file is extended, then the uploaded video is the input
    let arguments = ["run", "extend", "film.mp4", "-s", "duration=1", "-s", "resolution=540p", "-o", "longer.mp4"];
    place.run(&arguments).await.expect(0).assert_contains(&["longer.mp4"]);
    let request = last_request().await;
    assert!(request["video_url"].as_str().unwrap().starts_with(&app.url("/")), "{request}");
    assert_eq!(request["model"], "vq2-turbo");
    let size = |name: &str| std::fs::metadata(place.path(name)).unwrap().len();
    assert!(size("film.mp4") > 0 && size("longer.mp4") > 0);
}

#[actix_web::test]
async fn music_is_written_to_a_file_or_to_stdout() {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    let place = Workplace::of_user(&app, &ada.token);
    let arguments = ["run", "music", "-p", "calm solo piano", "-s", "duration=2", "-o"];

    place.run(&[&arguments[..], &["piano.opus"]].concat()).await.expect(0).assert_contains(&["piano.opus", "credits"]);
    let streamed = place.run(&[&arguments[..], &["-"]].concat()).await.expect(0);

    assert!(std::fs::read(place.path("piano.opus")).unwrap().starts_with(b"OggS"));
    assert!(streamed.out.starts_with("OggS") && streamed.err.contains("credits"), "{}", streamed.err);
}

#[actix_web::test]
async fn jobs_and_states_have_the_same_names_everywhere() {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    let place = Workplace::of_user(&app, &ada.token);
    place.write("photo.png", png(16, 12));
    let listed = place.run(&["run", "--list"]).await.expect(0).out;

    // When jobs of one kind with two modes run, and one of another medium
    for job in ["skin-enhancer/creative", "skin-enhancer/faithful"] {
        assert!(listed.contains(job), "{listed}");
        let name = format!("{}-", job.replace('/', "-"));
        place.run(&["run", job, "photo.png"]).await.expect(0).assert_contains(&[&name, "completed in ", "made by"]);
    }
    place.run(&["run", "music", "-p", "calm piano", "-s", "duration=1", "-o", "a.opus"]).await.expect(0);

    // Then their tasks are listed under the names of the jobs, and with the same states
    let list = place.run(&["tasks"]).await.expect(0).out;
    for expected in ["JOB", "SUBMITTED (UTC)", "skin-enhancer/creative", "skin-enhancer/faithful", "music"] {
        assert!(list.contains(expected), "{expected}: {list}");
    }
    assert_eq!(list.matches("completed").count(), 3, "{list}");
    let one = place.run(&["tasks", "--job", "skin-enhancer/faithful", "--state", "completed"]).await.expect(0).out;
    assert!(one.contains("skin-enhancer/faithful") && one.lines().count() == 2, "{one}");
    let both = place.run(&["tasks", "--kind", "skin-enhancer"]).await.expect(0).out;
    assert_eq!(both.lines().count(), 3, "{both}");
}

#[actix_web::test]
async fn the_price_is_known_before_a_job_runs() {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    let place = Workplace::of_user(&app, &ada.token);
    place.write("photo.png", png(64, 48));
    let list = place.run(&["run", "--list"]).await.expect(0).out;
    for (job, price) in [("start-end2video", "from 3 "), ("multiframe", "from 28 "), ("extend", "from 10 ")] {
        assert!(list.lines().any(|line| line.starts_with(job) && line.contains(price)), "{job}: {list}");
    }

    // When a price is asked for, then it is printed, and nothing runs
    let arguments = ["run", "start-end2video", "photo.png", "-p", "waves", "-s", "duration=1", "-s", "resolution=540p"];
    let estimate = place.run(&[&arguments[..], &["--estimate", "--json"]].concat()).await.expect(0).out;
    let credits = serde_json::from_str::<Value>(&estimate).unwrap()["credits"].as_u64().unwrap();
    assert!(credits > 0, "the estimate is 0 credits");
    for job in [vec!["multiframe", "photo.png", "photo.png"], vec!["extend", "photo.png"], vec!["music", "-p", "x"]] {
        place.run(&[vec!["run"], job, vec!["--estimate"]].concat()).await.expect(0).assert_contains(&["credit"]);
    }
    place.run(&["tasks"]).await.expect(0).assert_contains(&["No tasks match"]);

    // When the job runs, then the price is announced, and it is the one that is charged
    let run = place.run(&[&arguments[..], &["-o", "film.mp4"]].concat()).await.expect(0);
    assert!(run.err.contains(&format!("start-end2video costs {credits} credits")), "{}", run.err);
    run.assert_contains(&[&format!("{credits} credits"), "cover: http"]);
}

#[actix_web::test]
async fn a_service_that_ignores_estimates_gets_no_job_twice() {
    // Given a service that takes the request for a price as a submission
    let job = |name: &str, medium: &str| {
        json!({"job": name, "medium": medium, "path": format!("/{name}"), "parameters": [], "price": {"credits": 5},
               "available": true})
    };
    let models = json!({"models": [job("music", "music"), job("picture", "image")]}).to_string();
    let music = "{\"type\": \"audio_chunk\", \"data\": \"AAAA\"}\n".repeat(10_000);
    let task = json!({"data": {"task_id": "5a7f7a36-7a4e-4f0c-9f5e-2f6f3f0d9c11"}}).to_string();
    let server = FileServer::with_replies(move |path| {
        file(match path.split('?').next() {
            Some("/models") => models.as_bytes(),
            Some("/music") => music.as_bytes(),
            _ => task.as_bytes(),
        })
    })
    .await;
    let url = server.url("");
    let variables = vec![("MEDIARY_URL", url), ("MEDIARY_TOKEN", "mdu_x".to_owned())];
    let place = Workplace { variables, ..Workplace::new() };

    // When jobs run, then the command ends with the answer, and does not submit them again
    for job in ["music", "picture"] {
        let failed = place.run(&["run", job]).await.expect(1);
        assert!(failed.err.contains("may have run the job: see `mediary tasks`"), "{}", failed.err);
    }
    assert_eq!(server.requested_paths(), ["/models", "/music?estimate=true", "/models", "/picture?estimate=true"]);
}

#[actix_web::test]
async fn wrong_jobs_parameters_and_files_are_explained() {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    let place = Workplace::of_user(&app, &ada.token);
    place.write("photo.png", png(8, 8));
    place.write("text.png", "no picture");
    for (arguments, code, expected) in [
        (vec!["image-upscalr", "photo.png"], 2, "did you mean image-upscaler"),
        (vec!["nothing"], 2, "the jobs are image-upscaler, "),
        (vec!["image-upscaler", "missing.png"], 2, "cannot read missing.png"),
        (vec!["image-upscaler", "photo.png", "-s", "hdr=high"], 2, "-s hdr=high: must be an integer"),
        (vec!["image-upscaler", "photo.png", "-s", "scale=2x"], 2, "no parameter \"scale\""),
        (vec!["image-upscaler", "photo.png", "photo.png"], 2, "takes 1 of these 2 files"),
        (vec!["music", "-p", "piano", "photo.png"], 2, "takes no file"),
        (vec!["image-upscaler"], 1, "image is required"),
        (vec!["image-upscaler", "text.png"], 1, "text.png cannot be used"),
        (vec!["image-upscaler", "photo.png", "-s", "scale_factor=3x", "-s", "hdr=99"], 1, "(sent: 99)"),
    ] {
        let output = place.run(&[vec!["run"], arguments].concat()).await.expect(code);
        assert!(output.err.contains(expected), "{expected}: {}", output.err);
    }
    place.run(&["run"]).await.expect(2);
    place.run(&["watch", "no-id"]).await.expect(2);
    place.run(&["watch", "5a7f7a36-7a4e-4f0c-9f5e-2f6f3f0d9c11"]).await.expect(1);

    let anonymous = Workplace::new();
    anonymous.run(&["run", "music", "-p", "x", "--url", &app.url("")]).await.expect(2);
    anonymous
        .run(&["run", "image-upscaler", "--list", "--url", &app.url("")])
        .await
        .expect(0)
        .assert_contains(&["scale_factor"]);

    let list = app.get_as(&ada.token, "/tasks").await.expect(200).json();
    assert_eq!(list["tasks"].as_array().unwrap().len(), 0);
}

#[actix_web::test]
async fn an_interrupted_run_leaves_its_task_and_a_cancelled_one_fails() {
    // Given a command that waits for a long video
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    let place = Workplace::of_user(&app, &ada.token);
    let arguments = ["run", "start-end2video", "-p", "waves", "-s", "duration=8", "-s", "resolution=1080p"];
    let mut child = place.command(&arguments).spawn().unwrap();
    let running = eventually("the task runs", async || {
        let tasks = app.get_as(&ada.token, "/tasks").await.expect(200).json();
        let task = tasks["tasks"][0].clone();
        (task["state"] == "processing").then_some(task)
    })
    .await;
    let task = running["task_id"].as_str().unwrap().to_owned();

    // When it is interrupted
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let (status, errors) = spawn_blocking(move || {
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (child.wait().unwrap(), errors)
    })
    .await
    .unwrap();

    // Then it prints how to follow the task, which continues
    assert_eq!(status.code(), Some(130), "{errors}");
    assert!(errors.contains(&format!("mediary watch {task}")), "{errors}");
    let state = app.get_as(&ada.token, &format!("/tasks/{task}")).await.expect(200).json()["state"].clone();
    assert_ne!(state, "failed");

    // When the task is cancelled, then the command that watches it fails with the reason
    app.post_as(&ada.token, &format!("/tasks/{task}/cancel"), json!({})).await.expect(200);
    let watched = place.run(&["watch", &task]).await.expect(1);
    assert!(watched.err.contains("cancelled"), "{}", watched.err);
}

#[actix_web::test]
async fn the_search_for_tasks_of_one_mode_ends_and_says_so() {
    // Given a service with endless tasks of another mode
    let page = json!({"tasks": [{"task_id": "a", "kind": "skin-enhancer", "job": "skin-enhancer/faithful"}], "next_cursor": "x"});
    let body = page.to_string();
    let server = FileServer::with_replies(move |_: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).into_bytes()
    })
    .await;
    let variables = vec![("MEDIARY_URL", server.url("")), ("MEDIARY_TOKEN", "mdu_x".to_owned())];
    let place = Workplace { variables, ..Workplace::new() };

    // When the tasks of a mode are listed, then a bounded number of pages is read
    let output =
        place.run(&["tasks", "--job", "skin-enhancer/creative"]).await.expect(0).assert_contains(&["No tasks match"]);
    assert!(output.err.contains("searched only the newest 50 tasks of these kinds"), "{}", output.err);
    assert_eq!(server.requested_paths().len(), 50);
}
