//! `mediary vendors`: lists and checks profiles, shows the requests of a job, and sends one.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::picture;
use crate::support::profile_sim::{FaultEffect, PROTOCOLS, ProfileSim, RequestPhase, SimFault, SimJobEnd};

const KEY: &str = "vendor-secret-44";

/// Runs the command in this directory.
fn vendors(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mediary"));
    command.arg("vendors").args(arguments).current_dir(directory).env("VENDOR_API_KEY", KEY);
    command.output().expect("the program starts")
}

fn stdout(output: &Output) -> String {
    let text = String::from_utf8(output.stdout.clone()).expect("text");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Returns the exit code and stderr of a command that fails.
fn failure(output: &Output) -> (i32, String) {
    assert!(!output.status.success());
    (output.status.code().expect("no signal"), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Creates a directory with a picture, and with settings that name a directory of profiles.
fn directory_with(profile: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |path: &str, content: &[u8]| std::fs::write(directory.path().join(path), content).expect("writable");
    std::fs::create_dir(directory.path().join("profiles")).expect("a directory");
    write("profiles/studio.toml", profile.as_bytes());
    write("photo.png", &picture::png(8, 8));
    write("mediary.toml", b"[vendors]\nprofiles = 'profiles'\n");
    directory
}

#[test]
fn profiles_and_vendors_are_listed() {
    let directory = directory_with("extends = \"comfyui\"\ndescription = \"Our studio\"\n");
    let listed = stdout(&vendors(directory.path(), &["list"]));
    for expected in
        ["  magnific: ", "  stability: ", "  studio (from vendors.profiles): Our studio", "local-image: image"]
    {
        assert!(listed.contains(expected), "{expected} is not in\n{listed}");
    }
}

#[test]
fn a_profile_is_checked() {
    let directory = directory_with("extends = \"comfyui\"\n[jobs.paint]\npath = \"/x\"\n");
    let (code, message) = failure(&vendors(directory.path(), &["check", "profiles/studio.toml"]));
    assert_eq!(code, 1);
    assert!(message.contains("profiles/studio.toml:2: jobs.paint: there is no such job; the jobs are"), "{message}");

    std::fs::write(directory.path().join("good.toml"), "extends = \"comfyui\"\n").expect("writable");
    let checked = stdout(&vendors(directory.path(), &["check", "good.toml"]));
    assert!(checked.contains("good.toml is valid; its jobs: image-upscaler"), "{checked}");
}

#[test]
fn a_service_with_a_bad_profile_does_not_start() {
    // Given settings that name a profile with a mistake
    let directory = directory_with("extends = \"comfyui\"\n\n[flows.workflow]\nid = \"prompt_id\"\n");
    let settings = "[vendors]\nprofiles = 'profiles'\n[vendors.image]\nprofile = 'studio'\n";
    std::fs::write(directory.path().join("mediary.toml"), settings).expect("writable");

    // When the service is started
    let mut command = Command::new(env!("CARGO_BIN_EXE_mediary"));
    let output = command.arg("serve").current_dir(directory.path()).output().expect("the program starts");

    // Then the error states the setting, the file, the line and the allowed values
    let (code, message) = failure(&output);
    let expected = "vendors.image.profile = \"studio\" (mediary.toml:4): must be the name of a valid profile, but \
                    profiles/studio.toml:4: `prompt_id` is neither a JSON pointer";
    assert!(code == 2 && message.contains(expected), "{code}: {message}");
}

#[test]
fn the_exact_requests_of_a_job_are_shown_with_the_key_masked() {
    let directory = directory_with("extends = \"comfyui\"\n");

    // A request with a form
    let image = ["--image", "photo.png"];
    let shown = stdout(&vendors(
        directory.path(),
        &[&["show", "stability", "image-upscaler-precision-v2", "--set", "scale_factor=4"], &image[..]].concat(),
    ));
    assert!(shown.starts_with("POST https://api.stability.ai/v2beta/stable-image/upscale/fast\n"), "{shown}");
    assert!(shown.contains("authorization: Bearer ********\n") && !shown.contains(KEY), "{shown}");
    assert!(shown.contains("image = file ") && shown.contains("output_format = png\n"), "{shown}");

    // An upload, and a request with JSON
    let shown = stdout(&vendors(directory.path(), &[&["show", "studio", "image-upscaler"], &image[..]].concat()));
    assert!(shown.starts_with("POST http://127.0.0.1:8188/upload/image\n"), "{shown}");
    assert!(shown.contains("POST http://127.0.0.1:8188/prompt\n") && shown.contains("\"scale_by\": 2.0"), "{shown}");

    // A key in the query
    let own = "extends = \"magnific\"\nauth = { query = \"api_key\" }\n";
    std::fs::write(directory.path().join("profiles/query.toml"), own).expect("writable");
    let shown = stdout(&vendors(directory.path(), &[&["show", "query", "image-upscaler"], &image[..]].concat()));
    assert!(shown.starts_with("POST https://api.freepik.com/v1/ai/image-upscaler?api_key=********\n"), "{shown}");
    assert!(!shown.contains(KEY), "{shown}");

    // A stream
    let shown = stdout(&vendors(directory.path(), &["show", "sonilo", "music", "--set", "prompt=piano"]));
    assert!(shown.contains("prompt = piano\n") && shown.contains("accept: application/x-ndjson\n"), "{shown}");
}

#[test]
fn impossible_requests_are_refused_with_the_reason() {
    let directory = directory_with("extends = \"comfyui\"\n");
    let cases: [(&[&str], i32, &str); 6] = [
        (&["show", "nobody", "image-upscaler"], 2, "there is no such profile; the profiles are mediary"),
        (&["show", "comfyui", "paint"], 2, "there is no job paint; the jobs are image-upscaler"),
        (
            &["show", "mediary", "image-upscaler", "--image", "photo.png"],
            2,
            "the vendor has no URL: name one with --url",
        ),
        (&["show", "comfyui", "image-upscaler"], 2, "/image is required"),
        (
            &["show", "comfyui", "image-upscaler", "--image", "photo.png", "--set", "scale_factor=16x"],
            1,
            "no `16x` in maps.scale",
        ),
        (&["show", "comfyui", "image-upscaler", "--set", "scale"], 2, "--set scale: must be PARAMETER=VALUE"),
    ];
    for (arguments, expected_code, expected) in cases {
        let (code, message) = failure(&vendors(directory.path(), arguments));
        assert!(code == expected_code && message.contains(expected), "{arguments:?}: {code}: {message}");
    }
}

#[actix_web::test]
async fn a_job_is_tried_and_its_results_are_written() {
    // Given a vendor, and one that refuses
    let protocol = PROTOCOLS.into_iter().find(|protocol| protocol.profile == "replicate").expect("in the table");
    let sim = ProfileSim::start(protocol).await;
    let directory = directory_with("extends = \"comfyui\"\n");
    let base = sim.base();
    // Results at a private address are fetched only if it is listed.
    std::fs::write(directory.path().join("mediary.toml"), "[egress]\nallow = ['127.0.0.1']\n").expect("writable");
    let path = directory.path().to_owned();
    let run = move || {
        let arguments = ["try", "replicate", "image-upscaler-precision-v2", "--image", "photo.png"];
        vendors(&path, &[&arguments[..], &["--set", "scale_factor=4", "--url", &base, "--output", "made"]].concat())
    };

    // When a job is tried
    sim.prepare(SimJobEnd::Result, 1, None);
    let again = run.clone();
    let output = tokio::task::spawn_blocking(run).await.expect("the task does not panic");

    // Then its result is written, and it was charged once
    let written = stdout(&output);
    let file = written.split(" (").next().expect("a path");
    let bytes = std::fs::read(directory.path().join(file)).expect("a result");
    assert_eq!((bytes, sim.charges()), (picture::png(16, 16), 1));

    // And a refusal is printed, without the key
    sim.prepare(
        SimJobEnd::Result,
        1,
        Some(SimFault { phase: RequestPhase::Submission, times: 1, effect: FaultEffect::Error(422) }),
    );
    let (code, message) = failure(&tokio::task::spawn_blocking(again).await.expect("the task does not panic"));
    assert!(code == 1 && message.contains("refused: the vendor rejected the job"), "{message}");
    assert!(!message.contains(KEY) && sim.charges() == 0, "{message}");
}
