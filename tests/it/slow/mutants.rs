//! Mutation tests of untrusted input: nothing panics, hangs, or exceeds its memory limit.
//!
//! A child process (`tests/child/mutants`) tries the mutants, so that crashes and memory are observable. The suite
//! tries some of each kind; `MUTANTS=4000 cargo test --test it mutants` tries that many of each, `MUTANTS_ONLY=17` only
//! that one. `fuzz/` has the same targets for a fuzzer.

use std::ops::Range;
use std::process::Output;

use crate::support::process::test_child;

/// Deliberate faults, to prove that the harness detects them, with the expected message.
const HARMFUL: [(&str, &str); 4] = [
    ("a panic", "it panicked"),
    ("a panic that is caught", "code of this repository panicked"),
    ("a hang", "it hangs"),
    ("a glutton", "are allowed"),
];

/// Tries a range of mutants. Returns the output, or the output with the last mutant if the process failed.
fn try_range(kind: &str, numbers: Range<u64>) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let progress = folder.path().join("number");
    let [from, end] = [numbers.start, numbers.end].map(|number| number.to_string());
    let output = test_child(&["mutants", kind, &from, &end, progress.to_str().unwrap()]).output().unwrap();

    let (stdout, errors) = texts(&output);
    if output.status.success() {
        return Ok(stdout);
    }
    let last = std::fs::read_to_string(progress).unwrap_or_default();
    Err(format!("{} at mutant {last} of {kind}: {stdout}\n{errors}", output.status))
}

fn texts(output: &Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Asserts that the mutants of a kind do no harm; `count` of them unless a variable says otherwise.
fn try_mutants_of(kind: &str, count: u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let numbers = match number("MUTANTS_ONLY") {
        Some(only) => only..only + 1,
        None => 0..number("MUTANTS").unwrap_or(count),
    };
    let output = try_range(kind, numbers).unwrap_or_else(|harm| panic!("{harm}"));
    let summary = output.lines().find(|line| line.contains(" mutants, ")).unwrap_or_else(|| panic!("{output}"));
    println!("{summary}");
}

#[test]
fn harmful_mutants_are_detected() {
    // Without a resettable peak in the kernel, only unbounded memory use is detected.
    let is_measured = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    for (kind, noticed) in HARMFUL.into_iter().filter(|(kind, _)| is_measured || *kind != "a glutton") {
        let message = try_range(kind, 0..1).expect_err(kind);
        assert!(message.contains("at mutant 0 of") && message.contains(noticed), "{kind}: {message}");
    }
}

#[test]
fn every_seed_except_the_unsupported_video_is_accepted() {
    for kind in ["png", "jpeg", "webp", "gif", "bmp", "tiff", "film", "archive", "text", "form", "commit", "group"] {
        let output = test_child(&["rejected-seeds", kind]).output().unwrap();
        let expected = if kind == "film" { "1\n" } else { "0\n" };
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
    try_mutants_of("film", 150);
}

#[test]
fn mutants_of_archives_texts_forms_and_commits_do_no_harm() {
    for kind in ["archive", "text", "form", "commit", "group"] {
        try_mutants_of(kind, 300);
    }
}
