//! What is agreed with the operating system: which signals stop the service and which must not, and how many files it may open.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::StartError;

/// A write beyond the largest size of files that the operating system allows is refused like one on a full disk; without
/// this the process would be killed by it.
pub(super) fn outlive_file_size_limits() {
    let handled = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
    if let Err(error) = handled {
        tracing::warn!(%error, "a limit of file sizes would kill the service");
    }
}

/// Files and connections that are open besides those of clients: the log, media, vendors, receivers.
const OWN_FILES: u64 = 256;

/// What it takes to serve anybody: a service opens some forty files at its start, and more for each thread that serves.
const FILES_MIN: u64 = 64;
const FILES_PER_WORKER: u64 = 4;

/// Lets the process open as many files and connections as it is allowed to at all: what it is started with is often 1,024.
///
/// # Errors
/// When that is not enough to serve anybody.
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
    let needed = connections as u64 + OWN_FILES;
    if let Some(allowed) = allowed.filter(|allowed| *allowed < needed) {
        tracing::warn!(
            allowed,
            needed,
            "too few files and connections may be open: raise the limit (ulimit -Hn, LimitNOFILE), or lower limits.connections"
        );
    }
    Ok(())
}

/// SIGTERM and SIGINT.
pub struct StopSignals(io::Result<[Signal; 2]>);

impl StopSignals {
    /// From now on the signals wait to be asked for, and do not end the process any more.
    #[must_use]
    pub fn listen() -> Self {
        Self(signal(SignalKind::terminate()).and_then(|first| Ok([first, signal(SignalKind::interrupt())?])))
    }

    /// Waits for one of them.
    pub async fn come(&mut self) {
        match &mut self.0 {
            Ok([terminate, interrupt]) => tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            },
            Err(error) => {
                tracing::error!(%error, "signals cannot be received; stop the service by killing it, which loses nothing");
                std::future::pending::<()>().await;
            }
        }
    }
}
