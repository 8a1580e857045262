//! Mutants of untrusted input. They derive from the small real files in `fuzz/seeds`, identically at every run.

use std::path::{Path, PathBuf};
use std::time::Duration;

mod change;
mod parts;
pub mod targets;
pub mod worker;

/// Kind of input.
pub struct MutantKind {
    name: &'static str,
    /// Directory below `fuzz/seeds`.
    seeds: &'static str,
    /// Entry point that gets the mutants; returns `true` if it accepts the input.
    target: fn(&[u8]) -> bool,
    /// Memory limit of one input, in bytes.
    memory: fn(&[u8]) -> u64,
    /// `true` if mutants must be UTF-8.
    is_text: bool,
    /// Time limit of one input. Test machines are slow and run other work too.
    time_limit: Duration,
}

/// Time limit of most kinds.
const TIME_LIMIT: Duration = Duration::from_mins(1);

/// Returns a kind of picture.
const fn picture(name: &'static str, seeds: &'static str) -> MutantKind {
    let memory = targets::bytes_for_picture;
    MutantKind { name, seeds, target: targets::picture, memory, is_text: false, time_limit: TIME_LIMIT }
}

/// Returns a kind of input of a few kilobytes, whose seeds are in the directory of the same name.
const fn small(name: &'static str, target: fn(&[u8]) -> bool, is_text: bool) -> MutantKind {
    MutantKind { name, seeds: name, target, memory: |_| 64 << 20, is_text, time_limit: TIME_LIMIT }
}

/// Returns a kind with a deliberate fault, to prove that the harness detects it. Its seeds do not matter.
const fn harmful(name: &'static str, target: fn(&[u8]) -> bool) -> MutantKind {
    MutantKind { seeds: "text", ..small(name, target, false) }
}

const KINDS: [MutantKind; 16] = [
    picture("png", "picture/png"),
    picture("jpeg", "picture/jpeg"),
    picture("webp", "picture/webp"),
    picture("gif", "picture/gif"),
    picture("bmp", "picture/bmp"),
    picture("tiff", "picture/tiff"),
    MutantKind { memory: |_| 96 << 20, ..small("video", targets::video, false) },
    small("archive", targets::archive, false),
    small("text", targets::text, true),
    small("form", targets::form, false),
    small("commit", targets::commit, false),
    small("group", targets::group, false),
    harmful("a panic", |_| panic!("a deliberate panic")),
    harmful("a panic that is caught", |_| std::panic::catch_unwind(|| panic!("a deliberate panic")).is_err()),
    harmful("a glutton", |_| std::hint::black_box(vec![1_u8; 100 << 20]).len() > 1),
    MutantKind { time_limit: Duration::from_secs(1), ..harmful("a hang", |_| sleep_forever()) },
];

fn sleep_forever() -> bool {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Returns the kind of this name.
fn kind(name: &str) -> &'static MutantKind {
    KINDS.iter().find(|kind| kind.name == name).expect("a kind")
}

/// Returns the seed files of a kind, sorted by name.
fn seeds(kind: &MutantKind) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(kind.seeds);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Returns the number of seeds of a kind that are rejected unchanged.
pub fn rejected_seeds(kind_name: &str) -> usize {
    let kind = kind(kind_name);
    seeds(kind).iter().filter(|seed| !(kind.target)(seed)).count()
}
