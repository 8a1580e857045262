//! The settings of remote vendors.

use std::time::Duration;

use super::check::{base_url, choice, credential, duration, header_name, path_with_key, size, whole};
use super::settings::{Reader, Secret};

/// Where a vendor is, and how it is treated.
#[derive(Debug, Clone)]
pub struct VendorSettings {
    /// Without a slash at its end; the engine inside does the work when there is none.
    pub url: Option<String>,
    pub api_key: Option<Secret>,
    pub auth_header: String,
    pub recovery: RecoverySetting,
    pub key_header: String,
    /// Holds `{key}`.
    pub search_path: String,
    pub search_settles: Duration,
    /// Submissions under way at a time, and questions besides.
    pub concurrency: usize,
    pub connect_timeout: Duration,
    pub submit_timeout: Duration,
    pub poll_timeout: Duration,
    pub result_timeout: Duration,
    pub poll_min: Duration,
    pub poll_max: Duration,
    pub retry_min: Duration,
    pub retry_max: Duration,
    pub lost_after: Duration,
    /// Failures in a row.
    pub breaker_failures: u32,
    pub breaker_pause: Duration,
    pub breaker_pause_max: Duration,
}

/// What a vendor makes possible where nobody knows whether a submission arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoverySetting {
    Key,
    Search,
    Nothing,
}

impl VendorSettings {
    /// Those of `vendors.<name>`.
    pub(super) fn read(reader: &mut Reader, name: &str) -> Self {
        let own = Self::read_each(reader, name);
        // The time of a submission has that of its connection in it: a vendor that was not reached would count as one that may have
        // the job.
        if own.submit_timeout < own.connect_timeout {
            let expected = format!("at least as long as vendors.{name}.connect_timeout");
            reader.refuse(&format!("vendors.{name}.submit_timeout"), &expected);
        }
        own
    }

    fn read_each(reader: &mut Reader, name: &str) -> Self {
        let key = |setting: &str| format!("vendors.{name}.{setting}");
        let recoveries =
            [("key", RecoverySetting::Key), ("search", RecoverySetting::Search), ("nothing", RecoverySetting::Nothing)];
        let timeout = || duration("10ms", "1h");
        let pause = || duration("1ms", "1h");
        Self {
            url: reader.read(&key("url"), &base_url()),
            api_key: reader.read(&key("api_key"), &credential()),
            auth_header: reader.read(&key("auth_header"), &header_name()),
            recovery: reader.read(&key("recovery"), &choice(recoveries)),
            key_header: reader.read(&key("key_header"), &header_name()),
            search_path: reader.read(&key("search_path"), &path_with_key()),
            search_settles: reader.read(&key("search_settles"), &duration("0s", "1h")),
            concurrency: reader.read(&key("concurrency"), &whole(1, 65_536)),
            connect_timeout: reader.read(&key("connect_timeout"), &timeout()),
            submit_timeout: reader.read(&key("submit_timeout"), &timeout()),
            poll_timeout: reader.read(&key("poll_timeout"), &timeout()),
            result_timeout: reader.read(&key("result_timeout"), &timeout()),
            poll_min: reader.read(&key("poll_min"), &pause()),
            poll_max: reader.read(&key("poll_max"), &pause()),
            retry_min: reader.read(&key("retry_min"), &pause()),
            retry_max: reader.read(&key("retry_max"), &pause()),
            lost_after: reader.read(&key("lost_after"), &duration("0s", "1d")),
            breaker_failures: reader.read(&key("breaker_failures"), &whole(1, 1_000_000)),
            breaker_pause: reader.read(&key("breaker_pause"), &pause()),
            breaker_pause_max: reader.read(&key("breaker_pause_max"), &duration("1ms", "1d")),
        }
    }
}

/// Where the vendor of music is, and how it is listened to.
#[derive(Debug, Clone)]
pub struct MusicVendorSettings {
    /// Without a slash at its end; the engine inside makes the music when there is none.
    pub url: Option<String>,
    pub api_key: Option<Secret>,
    pub auth_header: String,
    pub key_header: String,
    pub connect_timeout: Duration,
    /// Between two lines, and before the first.
    pub line_timeout: Duration,
    pub line_bytes: u64,
    /// Failures in a row.
    pub breaker_failures: u32,
    pub breaker_pause: Duration,
    pub breaker_pause_max: Duration,
}

impl MusicVendorSettings {
    /// Those of `vendors.music`.
    pub(super) fn read(reader: &mut Reader) -> Self {
        let own = Self::read_each(reader);
        // With its first line the vendor has the job: a connection that may take longer is given up as if it had been asked.
        if own.line_timeout < own.connect_timeout {
            reader.refuse("vendors.music.line_timeout", "at least as long as vendors.music.connect_timeout");
        }
        own
    }

    fn read_each(reader: &mut Reader) -> Self {
        Self {
            url: reader.read("vendors.music.url", &base_url()),
            api_key: reader.read("vendors.music.api_key", &credential()),
            auth_header: reader.read("vendors.music.auth_header", &header_name()),
            key_header: reader.read("vendors.music.key_header", &header_name()),
            connect_timeout: reader.read("vendors.music.connect_timeout", &duration("10ms", "1h")),
            line_timeout: reader.read("vendors.music.line_timeout", &duration("10ms", "1h")),
            line_bytes: reader.read("vendors.music.line_bytes", &size("4KiB", "64MiB")),
            breaker_failures: reader.read("vendors.music.breaker_failures", &whole(1, 1_000_000)),
            breaker_pause: reader.read("vendors.music.breaker_pause", &duration("1ms", "1h")),
            breaker_pause_max: reader.read("vendors.music.breaker_pause_max", &duration("1ms", "1d")),
        }
    }
}
