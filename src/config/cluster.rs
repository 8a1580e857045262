//! Settings of a cluster: nodes that share one log.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::setting_kinds::{duration, engine_urls, file, label, monitor_urls, server_url, shared_files};
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
    /// Location that all nodes use, with the files of tasks, archives and personal keys.
    pub files: Option<SharedFiles>,
    pub s3: S3Settings,
    /// Time for the engine to confirm a change. After that its outcome is unknown, and the client gets 503.
    pub write_timeout: Duration,
    /// Time without contact to the engine after which a node rejects requests with 503: tokens may have been revoked
    /// since.
    pub stale_after: Duration,
}

/// Location of the files that all nodes use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedFiles {
    /// A directory that all nodes mount.
    Directory(PathBuf),
    /// An S3 bucket.
    Bucket(BucketLocation),
}

impl fmt::Display for SharedFiles {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(directory) => write!(formatter, "{}", directory.display()),
            Self::Bucket(location) => write!(formatter, "{location}"),
        }
    }
}

/// A bucket, or the part of one below a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketLocation {
    pub bucket: String,
    /// Prefix of the keys without slashes at its ends; may be empty.
    pub prefix: String,
}

impl fmt::Display for BucketLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bucket, prefix } = self;
        if prefix.is_empty() { write!(f, "s3://{bucket}") } else { write!(f, "s3://{bucket}/{prefix}") }
    }
}

/// Access to an S3 bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Settings {
    /// URL of the server; `None` for AWS.
    pub endpoint: Option<String>,
    pub region: String,
    /// File with the access key; `None` if it is in the environment.
    pub credentials: Option<PathBuf>,
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
            files: reader.read("cluster.files", &shared_files()),
            s3: S3Settings {
                endpoint: reader.read("cluster.s3_endpoint", &server_url()),
                region: reader.read("cluster.s3_region", &label()).unwrap_or_default(),
                credentials: reader.read("cluster.s3_credentials", &file()),
            },
            write_timeout: reader.read("cluster.write_timeout", &duration("1s", "5m")),
            stale_after: reader.read("cluster.stale_after", &duration("2s", "5m")),
        };
        if settings.is_member() && settings.files.is_none() {
            let allowed = "an existing directory that all nodes mount, or an S3 bucket, because cluster.engine is set";
            reader.reject("cluster.files", allowed);
        }
        let is_bucket = matches!(settings.files, Some(SharedFiles::Bucket(_)));
        if is_bucket && settings.s3.region.is_empty() {
            reader.reject("cluster.s3_region", "the region of the bucket, because cluster.files is one");
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
