//! A number for everything that decides what read models look like: snapshots of another number are not read. And the
//! version with the commit, where whoever builds says which one it is: the sources alone do not tell.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The shapes, how events are read and folded, how snapshots are written, and the crates below.
const SOURCES: [&str; 6] = [
    "src/domain",
    "src/projections",
    "src/events/schema",
    "src/events/codec.rs",
    "src/events/stream_versions.rs",
    "Cargo.lock",
];

fn main() {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in SOURCES.iter().flat_map(|source| files(Path::new(source))) {
        // As Git checks it out: where lines end does not count.
        let bytes = fs::read(&file).unwrap_or_default();
        let name = file.to_string_lossy().into_owned();
        for byte in name.bytes().chain(bytes.into_iter().filter(|byte| *byte != b'\r')) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
    }
    println!("cargo:rustc-env=MODELS_FINGERPRINT={hash}");
    tell_version();
}

/// Of two builds of a version the commit tells which is which. What `cargo run` and `cargo test` start has these
/// variables too, so their names must not be those of settings.
fn tell_version() {
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = env::var("BUILD_COMMIT").unwrap_or_default();
    let commit = commit.trim();
    let told = if commit.is_empty() { version } else { format!("{version} ({commit})") };
    println!("cargo:rerun-if-env-changed=BUILD_COMMIT");
    println!("cargo:rustc-env=BUILD_COMMIT={commit}");
    println!("cargo:rustc-env=BUILD_VERSION={told}");
}

/// The file, or every file below the folder, in one order.
fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return vec![path.to_owned()] };
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries.iter().flat_map(|entry| files(entry)).collect()
}
