//! Mutation tests of untrusted input: nothing panics, hangs, or exceeds its memory limit.
//!
//! Mutants derive from the small real files in `fuzz/seeds`, identically at every run. A child process of this test
//! program tries them, so that crashes and memory are observable. The suite tries some of each kind; `MUTANTS=4000
//! cargo test --test it mutants` tries that many of each, `MUTANTS_ONLY=17` only that one. `fuzz/` has the same targets
//! for a fuzzer.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

mod change;
mod parts;
mod targets;
mod worker;

/// Kind of input.
pub struct MutantKind {
    name: &'static str,
    /// Directory below `fuzz/seeds`.
    seeds: &'static str,
    /// Number of mutants that the suite tries.
    default_count: u64,
    target: fn(&[u8]) -> bool,
    /// Memory limit of one input, in bytes.
    memory: fn(&[u8]) -> u64,
    text: bool,
    /// Time limit of one input. Test machines are slow and run other work too.
    patience: Duration,
}

const PATIENCE: Duration = Duration::from_mins(1);

const fn picture(name: &'static str, seeds: &'static str, default: u64) -> MutantKind {
    let memory = targets::bytes_for_picture;
    MutantKind {
        name,
        seeds,
        default_count: default,
        target: targets::picture,
        memory,
        text: false,
        patience: PATIENCE,
    }
}

const fn small(name: &'static str, default: u64, target: fn(&[u8]) -> bool, text: bool) -> MutantKind {
    MutantKind { name, seeds: name, default_count: default, target, memory: |_| 64 << 20, text, patience: PATIENCE }
}

/// Deliberate fault, to prove that the harness detects it.
const fn harmful(name: &'static str, target: fn(&[u8]) -> bool) -> MutantKind {
    MutantKind { seeds: "text", ..small(name, 1, target, false) }
}

pub const KINDS: [MutantKind; 15] = [
    picture("png", "picture/png", 1000),
    picture("jpeg", "picture/jpeg", 1000),
    picture("webp", "picture/webp", 1000),
    picture("gif", "picture/gif", 300),
    picture("bmp", "picture/bmp", 300),
    picture("tiff", "picture/tiff", 300),
    MutantKind { memory: |_| 96 << 20, ..small("film", 150, targets::film, false) },
    small("archive", 300, targets::archive, false),
    small("text", 300, targets::text, true),
    small("form", 300, targets::form, false),
    small("commit", 300, targets::commit, false),
    harmful("a panic", |_| panic!("of our own")),
    harmful("a panic that is caught", |_| std::panic::catch_unwind(|| panic!("of our own")).is_err()),
    harmful("a glutton", |_| std::hint::black_box(vec![1_u8; 100 << 20]).len() > 1),
    MutantKind { patience: Duration::from_secs(1), ..harmful("a hang", |_| forever()) },
];

fn forever() -> bool {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Deliberate faults, with the expected message.
const HARMFUL: [(&str, &str); 4] = [
    ("a panic", "it panicked"),
    ("a panic that is caught", "our own code panicked"),
    ("a hang", "it hangs"),
    ("a glutton", "are allowed"),
];

/// Variables with the kind, the first number, the end of the range, and the file for the current number.
const ORDERS: [&str; 4] = ["MUTANTS_KIND", "MUTANTS_FROM", "MUTANTS_UNTIL", "MUTANTS_PROGRESS"];

/// Seed files of a kind, sorted by name.
fn seeds(kind: &MutantKind) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(kind.seeds);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Child process that tries the mutants; does nothing without its variables.
#[test]
fn a_process_that_tries_mutants() {
    let [Ok(kind), Ok(from), Ok(end), Ok(progress)] = ORDERS.map(std::env::var) else { return };
    worker::run(&kind, from.parse().unwrap()..end.parse().unwrap(), Path::new(&progress));
}

/// Runs that child process. Returns its output, or the output with the last mutant if it failed.
fn try_range(kind: &MutantKind, numbers: Range<u64>) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let progress = folder.path().join("number");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "mutants::a_process_that_tries_mutants", "--nocapture"]).stdin(Stdio::null());
    let [from, end] = [numbers.start, numbers.end].map(|number| number.to_string());
    let values = [kind.name.to_owned(), from, end, progress.to_str().unwrap().to_owned()];
    let output = command.envs(ORDERS.into_iter().zip(values)).output().unwrap();
    let (stdout, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        return Ok(stdout.into_owned());
    }
    let last = std::fs::read_to_string(progress).unwrap_or_default();
    Err(format!("{} at mutant {last} of {}: {stdout}\n{errors}", output.status, kind.name))
}

/// Asserts that the mutants of a kind do no harm.
fn try_mutants_of(name: &str) {
    let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let numbers = match number("MUTANTS_ONLY") {
        Some(only) => only..only + 1,
        None => 0..number("MUTANTS").unwrap_or(kind.default_count),
    };
    let output = try_range(kind, numbers).unwrap_or_else(|harm| panic!("{harm}"));
    let summary = output.lines().find(|line| line.contains(" mutants, ")).unwrap_or_else(|| panic!("{output}"));
    println!("{summary}");
}

/// Writes the engine's film for the seeds, if a path is set.
#[test]
fn the_film_among_the_seeds() {
    let Ok(path) = std::env::var("MUTANTS_FILM") else { return };
    std::fs::write(path, targets::own_film()).unwrap();
}

#[test]
fn harm_is_noticed() {
    // Without a resettable peak in the kernel, only unbounded memory use is detected.
    let is_measured = worker::forget_peak();
    for (name, noticed) in HARMFUL.into_iter().filter(|(name, _)| is_measured || *name != "a glutton") {
        let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
        let message = try_range(kind, 0..1).expect_err(name);
        assert!(message.contains("at mutant 0 of") && message.contains(noticed), "{name}: {message}");
    }
}

#[test]
fn every_seed_is_taken_but_the_film_in_another_codec() {
    for kind in KINDS.iter().filter(|kind| HARMFUL.iter().all(|(name, _)| kind.name != *name)) {
        let rejected = seeds(kind).iter().filter(|seed| !(kind.target)(seed)).count();
        assert_eq!(rejected, usize::from(kind.name == "film"), "{}", kind.name);
    }
}

#[test]
fn mutants_of_png_jpeg_and_webp_do_no_harm() {
    ["png", "jpeg", "webp"].into_iter().for_each(try_mutants_of);
}

#[test]
fn mutants_of_other_pictures_do_no_harm() {
    ["gif", "bmp", "tiff"].into_iter().for_each(try_mutants_of);
}

#[test]
fn mutants_of_films_do_no_harm() {
    try_mutants_of("film");
}

#[test]
fn mutants_of_archives_texts_forms_and_commits_do_no_harm() {
    ["archive", "text", "form", "commit"].into_iter().for_each(try_mutants_of);
}
