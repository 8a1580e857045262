//! PostgreSQL as an event store: a temporary cluster, created and removed by `postgres.sh`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tempfile::TempDir;

/// Running cluster.
pub struct Postgres {
    dir: TempDir,
}

impl Postgres {
    /// Starts a cluster below `dir`; prints a message and returns `None` if PostgreSQL is not installed.
    pub fn start(dir: &Path) -> Option<Self> {
        let dir = tempfile::Builder::new().prefix("postgres-").tempdir_in(dir).expect("a directory");
        let output = run_script(&["start"], dir.path());
        if output.status.success() {
            return Some(Self { dir });
        }
        let output_text = String::from_utf8_lossy(&output.stderr);
        eprintln!("\nSKIPPED: PostgreSQL is not measured. {}\n", output_text.trim());
        None
    }

    /// Runs `clients` concurrent clients for `time`, at least four seconds, and returns their commits a second.
    pub fn run(&self, clients: usize, time: Duration) -> f64 {
        // Hundreds of clients take a second to connect.
        let seconds = time.as_secs().max(4).to_string();
        let output = run_script(&["run", &clients.to_string(), &seconds], self.dir.path());
        let output_text = String::from_utf8_lossy(&output.stdout);
        let rate = output_text.trim().parse();
        rate.unwrap_or_else(|_| panic!("pgbench: {output_text}{}", String::from_utf8_lossy(&output.stderr)))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(run_script(&["stop"], self.dir.path()));
    }
}

/// Runs `postgres.sh` to its end.
fn run_script(arguments: &[&str], dir: &Path) -> Output {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/registry/postgres.sh");
    Command::new("bash").arg(script).args(arguments).env("CLUSTER", dir).output().expect("bash runs")
}
