//! Reasons why a service does not start or does not stop cleanly, with the location and the remedy.

use std::net::SocketAddr;
use std::path::Path;

use super::missing_log_guard::MissingLog;
use super::upload_key::MissingUploadKey;
use crate::data_dir::{DataDirError, to_help};

/// Reason why the service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error("the limit of open files is {allowed}, but the service needs {least}: raise it (ulimit -Hn, LimitNOFILE)")]
    Files { allowed: u64, least: u64 },
    #[error("cannot listen on {address}: {reason}{}", listen_hint(.reason))]
    Listen { address: SocketAddr, reason: std::io::Error },
    #[error(transparent)]
    MissingLog(#[from] MissingLog),
    #[error(transparent)]
    MissingUploadKey(#[from] MissingUploadKey),
    #[error("cannot open the event log: {0}")]
    Log(String),
    #[error("cannot set up {what}: {reason}")]
    Part { what: &'static str, reason: String },
}

/// Returns advice for an address that cannot be bound.
fn listen_hint(reason: &std::io::Error) -> &'static str {
    match reason.kind() {
        std::io::ErrorKind::AddrInUse => {
            "; another program uses this address: stop it, or set another one with --listen or \
             MEDIARY_LISTEN (port 0 selects a free port)"
        }
        std::io::ErrorKind::AddrNotAvailable => "; this machine does not have that address: see `ip address`",
        std::io::ErrorKind::PermissionDenied => "; ports below 1024 require privileges: use a higher port",
        _ => "",
    }
}

impl StartError {
    /// Returns the error of a part whose file or directory is unusable.
    pub(super) fn at_path(what: &'static str, path: &Path, reason: &std::io::Error) -> Self {
        Self::Part { what, reason: format!("{}: {reason}{}", path.display(), to_help(path, reason)) }
    }

    /// Returns the error of a part that has no file, or names it in the reason.
    pub(super) fn part(what: &'static str, reason: &dyn std::fmt::Display) -> Self {
        Self::Part { what, reason: reason.to_string() }
    }
}

/// Reason why the service did not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    #[error("the HTTP server failed: {0}")]
    Server(std::io::Error),
    #[error("the event log did not close cleanly: {0}")]
    Log(String),
}
