//! Sets variables for the compiler: `MODELS_FINGERPRINT`, a hash of all sources that determine the read models, because
//! snapshots of another fingerprint are not read; `BUILD_COMMIT`, empty unless the environment names the commit; and
//! `BUILD_VERSION`, the version with the commit.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Sources that determine the read models and how snapshots store them.
const SOURCES: [&str; 6] = [
    "src/domain",
    "src/projections",
    "src/events/schema",
    "src/events/codec.rs",
    "src/events/stream_counts.rs",
    "Cargo.lock",
];

/// FNV-1a, 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

fn main() {
    let mut hash = FNV_OFFSET;
    for file in SOURCES.iter().flat_map(|source| files(Path::new(source))) {
        // A missing source would make Cargo run this script, and compile everything, at each build.
        let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}; update SOURCES", file.display()));
        let name = file.to_string_lossy().into_owned();
        // Without carriage returns, because Git may check out other line ends.
        for byte in name.bytes().chain(bytes.into_iter().filter(|byte| *byte != b'\r')) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
    }
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
    }
    println!("cargo:rustc-env=MODELS_FINGERPRINT={hash}");
    set_version();
}

/// Sets version and commit. Programs that `cargo run` and `cargo test` start inherit the variables, so their names must
/// differ from those of settings.
fn set_version() {
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = env::var("BUILD_COMMIT").unwrap_or_default();
    let commit = commit.trim();
    let full_version = if commit.is_empty() { version } else { format!("{version} ({commit})") };
    println!("cargo:rerun-if-env-changed=BUILD_COMMIT");
    println!("cargo:rustc-env=BUILD_COMMIT={commit}");
    println!("cargo:rustc-env=BUILD_VERSION={full_version}");
}

/// Returns the file, or all files below the directory, in a fixed order.
fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return vec![path.to_owned()] };
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries.iter().flat_map(|entry| files(entry)).collect()
}
