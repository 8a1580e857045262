//! Mutation tests of untrusted input: nothing panics, hangs, or exceeds its memory limit.
//!
//! A mutant is a real file with a few random changes. A child process (`tests/child/mutants`) tries the mutants, so
//! that crashes and memory are observable. The suite tries some of each kind; `MUTANTS=4000 cargo test --test it
//! mutants` tries 4000 of each, and `MUTANTS_ONLY=17` only mutant 17. `fuzz/` has the same targets for a fuzzer.

use std::ops::Range;
use std::process::Output;

use crate::support::process::test_child;

/// Deliberate faults, each with a part of the message with which the harness must report it.
const HARMFUL: [(&str, &str); 4] = [
    ("a panic", "it panicked"),
    ("a panic that is caught", "code of this repository panicked"),
    ("a hang", "it hangs"),
    ("a glutton", "are allowed"),
];

/// Tries a range of mutants of a kind. Returns the output; if the process failed, an error with the number of the last
/// mutant.
fn try_range(kind: &str, numbers: Range<u64>) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let progress = folder.path().join("number");
    let [from, end] = [numbers.start, numbers.end].map(|number| number.to_string());
    let output = test_child(&["mutants", kind, &from, &end, progress.to_str().unwrap()]).output().unwrap();

    let (stdout, stderr) = texts(&output);
    if output.status.success() {
        return Ok(stdout);
    }
    let last = std::fs::read_to_string(progress).unwrap_or_default();
    Err(format!("{} at mutant {last} of {kind}: {stdout}\n{stderr}", output.status))
}

/// Returns stdout and stderr.
fn texts(output: &Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Asserts that the mutants of a kind do no harm: the first `count` of them, unless `MUTANTS` or `MUTANTS_ONLY` is set.
fn try_mutants_of(kind: &str, count: u64) {
    let env_number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let numbers = match env_number("MUTANTS_ONLY") {
        Some(only) => only..only + 1,
        None => 0..env_number("MUTANTS").unwrap_or(count),
    };
    let output = try_range(kind, numbers).unwrap_or_else(|error| panic!("{error}"));
    let summary = output.lines().find(|line| line.contains(" mutants, ")).unwrap_or_else(|| panic!("{output}"));
    println!("{summary}");
}

#[test]
fn harmful_mutants_are_detected() {
    // If the kernel cannot reset the peak memory of a process, the glutton goes unnoticed.
    let can_measure_peak = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    for (kind, expected) in HARMFUL.into_iter().filter(|(kind, _)| can_measure_peak || *kind != "a glutton") {
        let message = try_range(kind, 0..1).expect_err(kind);
        assert!(message.contains("at mutant 0 of") && message.contains(expected), "{kind}: {message}");
    }
}

#[test]
fn every_seed_except_the_unsupported_video_is_accepted() {
    for kind in ["png", "jpeg", "webp", "gif", "bmp", "tiff", "video", "archive", "text", "form", "commit", "group"] {
        let output = test_child(&["rejected-seeds", kind]).output().unwrap();
        let expected = if kind == "video" { "1\n" } else { "0\n" };
        assert_eq!(texts(&output).0, expected, "{kind}: {}", texts(&output).1);
    }
}

#[test]
fn mutants_of_png_jpeg_and_webp_do_no_harm() {
    for kind in ["png", "jpeg", "webp"] {
        try_mutants_of(kind, 1000);
    }
}

#[test]
fn mutants_of_other_pictures_do_no_harm() {
    for kind in ["gif", "bmp", "tiff"] {
        try_mutants_of(kind, 300);
    }
}

#[test]
fn mutants_of_videos_do_no_harm() {
    try_mutants_of("video", 150);
}

#[test]
fn mutants_of_archives_texts_forms_and_commits_do_no_harm() {
    for kind in ["archive", "text", "form", "commit", "group"] {
        try_mutants_of(kind, 300);
    }
}
