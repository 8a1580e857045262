//! Faults of a child process, from its environment variables.
//!
//! | Variable | Effect |
//! |---|---|
//! | `FAULT_KILL_AT` | Fail point, as its `Debug` shows it, at which the process kills itself |
//! | `FAULT_KILL_PASS` | Number of the pass of that fail point at which it does so; 1 by default |
//! | `FAULT_ARMED_BY` | File; passes are counted only while it exists. Without the variable, all passes are counted |
//! | `FAULT_PANIC_PATH` | Path of the requests whose handler panics |

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mediary::environment::{FailPoint, FailPointHandler};
use rustix::process::{Signal, getpid, kill_process};

/// Returns the fail-point handler that the variables describe.
pub fn from_variables() -> FailPointHandler {
    let kill_at = variable("FAULT_KILL_AT");
    let kill_pass: u64 = variable("FAULT_KILL_PASS").map_or(1, |pass| pass.parse().unwrap());
    let armed_by = variable("FAULT_ARMED_BY").map(PathBuf::from);
    let panic_path = variable("FAULT_PANIC_PATH");
    let passes = AtomicU64::new(0);

    Arc::new(move |point, subject| {
        // A test checks that the line break does not split the log line of the panic.
        assert!(point != FailPoint::Handler || Some(subject) != panic_path.as_deref(), "made to\nfail");

        let is_armed = || armed_by.as_ref().is_none_or(|file| file.exists());
        let kills_here = kill_at.as_ref().is_some_and(|name| *name == format!("{point:?}"));
        if kills_here && is_armed() && passes.fetch_add(1, Ordering::SeqCst) + 1 == kill_pass {
            kill_process(getpid(), Signal::KILL).unwrap();
        }
    })
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
