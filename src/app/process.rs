//! Setup of the process: stop signals, ignored signals, and the limit of open files.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::StartError;

/// Handles SIGXFSZ, so that a write beyond the file size limit fails like one on a full disk instead of killing the
/// process.
pub(super) fn ignore_file_size_signal() {
    let handled = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
    if let Err(error) = handled {
        tracing::warn!(%error, "SIGXFSZ not handled, a file size limit would kill the service");
    }
}

/// Open files and connections besides those of clients: log, media, vendors, receivers.
const RESERVED_FILES: u64 = 256;

/// Minimum number of open files to serve any client. A service opens about forty at its start.
const FILES_MIN: u64 = 64;
/// Open files of each worker thread.
const FILES_PER_WORKER: u64 = 4;

/// Raises the limit of open files and connections to the hard limit; the soft limit is often 1,024.
///
/// # Errors
/// If the hard limit is too low to serve any client.
pub(super) fn raise_file_limit(connections: usize, workers: usize) -> Result<(), StartError> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let allowed = match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(_) => current,
    };

    let least = FILES_MIN + FILES_PER_WORKER * workers as u64;
    if let Some(allowed) = allowed.filter(|allowed| *allowed < least) {
        return Err(StartError::Files { allowed, least });
    }

    let needed = connections as u64 + RESERVED_FILES;
    if let Some(allowed) = allowed.filter(|allowed| *allowed < needed) {
        tracing::warn!(
            allowed,
            needed,
            "limit of open files too low: raise it (ulimit -Hn, LimitNOFILE) or lower limits.connections"
        );
    }

    Ok(())
}

/// Handlers of SIGTERM and SIGINT.
pub struct StopSignals(io::Result<[Signal; 2]>);

impl StopSignals {
    /// Installs the handlers. From now on the signals no longer end the process.
    #[must_use]
    pub fn install() -> Self {
        Self(signal(SignalKind::terminate()).and_then(|first| Ok([first, signal(SignalKind::interrupt())?])))
    }

    /// Waits for one of the signals.
    pub async fn recv(&mut self) {
        match &mut self.0 {
            Ok([terminate, interrupt]) => tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            },
            Err(error) => {
                tracing::error!(%error, "signal handlers not installed, stop the service with SIGKILL");
                std::future::pending::<()>().await;
            }
        }
    }
}
