//! Directory of the data of a benchmark, on the disk to be measured.

use std::path::PathBuf;

/// Returns the directory in `option`, the value of `--dir`; without one, the directory for temporary files below the
/// target directory. Ends the process with a message if it does not exist.
pub fn data_dir(option: Option<&str>) -> PathBuf {
    let directory = PathBuf::from(option.unwrap_or(env!("CARGO_TARGET_TMPDIR")));
    if !directory.is_dir() {
        eprintln!("error: --dir {}: no such directory; create it on the disk to be measured", directory.display());
        std::process::exit(2);
    }
    directory
}
