//! Tries mutants in a process that limits its own memory and ends if a mutant takes too long.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::change::mutant;
use super::{MutantKind, kind, seeds};

/// Address space limit of the process: a mutant that exceeds it ends the process.
const ADDRESS_SPACE: u64 = 4 << 30;
/// Memory allowance beyond the limit of a kind: the file itself, threads, overhead of the allocator.
const MEMORY_SLACK: u64 = 16 << 20;

/// Locations of panics in third-party crates. They are allowed, because the service catches them and treats the file as
/// damaged.
static FOREIGN_PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Number of panics in the code of this repository.
static OWN_PANICS: AtomicUsize = AtomicUsize::new(0);
/// Start of the current mutant in milliseconds since the process start; 0 between two mutants.
static MUTANT_STARTED_AT: AtomicU64 = AtomicU64::new(0);

/// Results so far.
#[derive(Default)]
struct MutantCounts {
    accepted: u64,
    /// Longest time, with the number of its mutant.
    slowest: (Duration, u64),
    /// Largest peak of memory in bytes, with the number of its mutant.
    largest: (u64, u64),
}

/// Tries the mutants of a kind. Writes each number to `progress` before the try, so that the parent knows which mutant
/// ended the process.
pub fn run(kind_name: &str, numbers: std::ops::Range<u64>, progress: &Path) {
    let kind = kind(kind_name);
    limit_memory();
    count_panics();
    let start = Instant::now();
    std::thread::spawn(move || abort_on_timeout(start, kind.time_limit));

    let seeds = seeds(kind);
    let mut counts = MutantCounts::default();
    for number in numbers.clone() {
        std::fs::write(progress, number.to_string()).unwrap();
        let bytes = mutant_of(kind, &seeds, number);
        MUTANT_STARTED_AT.store(u64::try_from(start.elapsed().as_millis()).unwrap().max(1), Ordering::Relaxed);
        try_one(kind, number, &bytes, &mut counts);
        MUTANT_STARTED_AT.store(0, Ordering::Relaxed);
    }

    let caught = FOREIGN_PANICS.lock().clone();
    println!(
        "{}: {} mutants, {} accepted; the slowest took {} ms (number {}), the largest {} MiB (number {}); decoders panicked and \
         were caught {} times {:?}",
        kind.name,
        numbers.end - numbers.start,
        counts.accepted,
        counts.slowest.0.as_millis(),
        counts.slowest.1,
        counts.largest.0 >> 20,
        counts.largest.1,
        caught.len(),
        caught.iter().collect::<BTreeSet<_>>()
    );
}

/// Returns the mutant with a number, which determines its seed file and its changes.
fn mutant_of(kind: &MutantKind, seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut rng = StdRng::seed_from_u64(number);
    let at = usize::try_from(number).expect("a small number") % seeds.len();
    if kind.is_text {
        // The service rejects non-UTF-8 before this point.
        return String::from_utf8_lossy(&mutant(&seeds[at], seeds, &mut rng)).into_owned().into_bytes();
    }
    mutant(&seeds[at], seeds, &mut rng)
}

/// Gives one mutant to the target. Panics if the target panics, even if the panic is caught, or exceeds its memory
/// limit.
fn try_one(kind: &MutantKind, number: u64, bytes: &[u8], counts: &mut MutantCounts) {
    let allowed = (kind.memory)(bytes) + MEMORY_SLACK;
    let before = reset_memory_peak().then(|| status_bytes("VmRSS:")).flatten();
    let started = Instant::now();
    let accepted = catch_unwind(AssertUnwindSafe(|| (kind.target)(bytes)));
    let elapsed = started.elapsed();
    let peak = before.and_then(|before| Some(status_bytes("VmHWM:")?.saturating_sub(before)));
    let Ok(accepted) = accepted else { panic!("mutant {number} of {}: it panicked", kind.name) };
    assert_eq!(
        OWN_PANICS.load(Ordering::SeqCst),
        0,
        "mutant {number} of {}: code of this repository panicked",
        kind.name
    );
    if let Some(peak) = peak {
        assert!(peak <= allowed, "mutant {number} of {}: it took {peak} bytes, and {allowed} are allowed", kind.name);
        counts.largest = counts.largest.max((peak, number));
    }
    counts.accepted += u64::from(accepted);
    counts.slowest = counts.slowest.max((elapsed, number));
}

/// Limits the address space of the process.
fn limit_memory() {
    let maximum = getrlimit(Resource::As).maximum;
    let current = maximum.map_or(ADDRESS_SPACE, |maximum| maximum.min(ADDRESS_SPACE));
    setrlimit(Resource::As, Rlimit { current: Some(current), maximum }).expect("a lower limit is always allowed");
}

/// Installs a panic hook that tells panics in this repository from those in third-party crates, by the source location.
fn count_panics() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // `…/registry/src/<index>/<crate>/…`: the path from the crate on; `None` for this repository.
        let path_in_registry = |location: &Location<'_>| {
            Some(location.file().split_once("/registry/src/")?.1.split_once('/')?.1.to_owned())
        };
        let foreign_location =
            panic.location().and_then(|location| Some(format!("{}:{}", path_in_registry(location)?, location.line())));
        if let Some(location) = foreign_location {
            FOREIGN_PANICS.lock().push(location);
        } else {
            OWN_PANICS.fetch_add(1, Ordering::SeqCst);
            default_hook(panic);
        }
    }));
}

/// Aborts the process when a mutant takes longer than `time_limit`. Runs forever.
fn abort_on_timeout(start: Instant, time_limit: Duration) {
    loop {
        std::thread::sleep(time_limit / 10);
        let started = MUTANT_STARTED_AT.load(Ordering::Relaxed);
        if started > 0 && start.elapsed().saturating_sub(Duration::from_millis(started)) > time_limit {
            eprintln!("it hangs");
            std::process::abort();
        }
    }
}

/// Resets the kernel's peak of memory; `false` if it cannot.
fn reset_memory_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Returns the value of a line of `/proc/self/status`, in bytes.
fn status_bytes(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}
