//! Directory of the data of a benchmark, on the disk to be measured.

use std::path::PathBuf;

/// Returns the directory that `--dir` names, or the default one in the target directory. Ends the process with a
/// message if there is no such directory.
pub fn data_dir(given: Option<&str>) -> PathBuf {
    let directory = PathBuf::from(given.unwrap_or(env!("CARGO_TARGET_TMPDIR")));
    if !directory.is_dir() {
        eprintln!("error: --dir {}: no such directory; create it on the disk to be measured", directory.display());
        std::process::exit(2);
    }
    directory
}
