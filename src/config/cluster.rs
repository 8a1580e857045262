//! Settings of a cluster: nodes that share one log.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::setting_kinds::{duration, engine_urls, existing_directory, file, monitor_urls};
use super::settings::SettingsReader;
use crate::events::shared::postgres::is_postgres_url;

/// Membership of a cluster.
#[derive(Clone)]
pub struct ClusterSettings {
    /// URLs of the NATS servers or the PostgreSQL database that holds the shared log: the engine. They may contain a
    /// password. Empty: the node is alone and uses its embedded log.
    pub engine: Vec<String>,
    /// Credentials file for the engine.
    pub credentials: Option<PathBuf>,
    /// Monitoring URLs of the NATS servers.
    pub monitor: Vec<String>,
    /// Directory that all nodes mount, with the files of tasks, archives and personal keys.
    pub files: Option<PathBuf>,
    /// Time for the engine to confirm a change. After that its outcome is unknown, and the client gets 503.
    pub write_timeout: Duration,
    /// Time without contact to the engine after which a node rejects requests with 503: tokens may have been revoked
    /// since.
    pub stale_after: Duration,
}

/// Leaves the URLs out: one may contain a password.
impl fmt::Debug for ClusterSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterSettings")
            .field("is_member", &self.is_member())
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl ClusterSettings {
    pub(super) fn read(reader: &mut SettingsReader) -> Self {
        let settings = Self {
            engine: reader.read("cluster.engine", &engine_urls()),
            credentials: reader.read("cluster.credentials", &file()),
            monitor: reader.read("cluster.monitor", &monitor_urls()),
            files: reader.read("cluster.files", &existing_directory()),
            write_timeout: reader.read("cluster.write_timeout", &duration("1s", "5m")),
            stale_after: reader.read("cluster.stale_after", &duration("2s", "5m")),
        };
        if settings.is_member() && settings.files.is_none() {
            reader.reject("cluster.files", "an existing directory that all nodes mount, because cluster.engine is set");
        }
        if settings.engine.first().is_some_and(|url| is_postgres_url(url)) && !settings.monitor.is_empty() {
            reader.reject(
                "cluster.monitor",
                "empty, because cluster.engine is PostgreSQL, which is asked for its settings directly",
            );
        }
        settings
    }

    /// Returns `true` if the node shares its log.
    #[must_use]
    pub fn is_member(&self) -> bool {
        !self.engine.is_empty()
    }
}
