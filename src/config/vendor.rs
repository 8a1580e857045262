//! Settings of remote vendors.

use std::time::Duration;

use super::setting_kinds::{base_url, choice, credential, duration, header_name, integer, path_with_key, size};
use super::settings::{Secret, SettingsReader};

/// Address and options of a vendor.
#[derive(Debug, Clone)]
pub struct VendorSettings {
    /// Without a trailing slash; the built-in engine is used if `None`.
    pub url: Option<String>,
    pub api_key: Option<Secret>,
    pub auth_header: String,
    pub recovery: RecoverySetting,
    pub key_header: String,
    /// Contains `{key}`.
    pub search_path: String,
    pub search_settles: Duration,
    /// Maximum number of concurrent submissions; polls are limited separately by the same number.
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
    /// Consecutive failures.
    pub breaker_failures: u32,
    pub breaker_pause: Duration,
    pub breaker_pause_max: Duration,
}

/// Recovery that a vendor offers if the outcome of a submission is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoverySetting {
    Key,
    Search,
    Nothing,
}

impl VendorSettings {
    /// Reads `vendors.<name>`.
    pub(super) fn read(reader: &mut SettingsReader, name: &str) -> Self {
        let settings = Self::read_all(reader, name);
        // The submission timeout includes the connection. If it expired first, an unreachable vendor would count as one
        // that may have the job.
        if settings.submit_timeout < settings.connect_timeout {
            let expected = format!("at least as long as vendors.{name}.connect_timeout");
            reader.reject(&format!("vendors.{name}.submit_timeout"), &expected);
        }
        settings
    }

    fn read_all(reader: &mut SettingsReader, name: &str) -> Self {
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
            concurrency: reader.read(&key("concurrency"), &integer(1, 65_536)),
            connect_timeout: reader.read(&key("connect_timeout"), &timeout()),
            submit_timeout: reader.read(&key("submit_timeout"), &timeout()),
            poll_timeout: reader.read(&key("poll_timeout"), &timeout()),
            result_timeout: reader.read(&key("result_timeout"), &timeout()),
            poll_min: reader.read(&key("poll_min"), &pause()),
            poll_max: reader.read(&key("poll_max"), &pause()),
            retry_min: reader.read(&key("retry_min"), &pause()),
            retry_max: reader.read(&key("retry_max"), &pause()),
            lost_after: reader.read(&key("lost_after"), &duration("0s", "1d")),
            breaker_failures: reader.read(&key("breaker_failures"), &integer(1, 1_000_000)),
            breaker_pause: reader.read(&key("breaker_pause"), &pause()),
            breaker_pause_max: reader.read(&key("breaker_pause_max"), &duration("1ms", "1d")),
        }
    }
}

/// Address and options of the music vendor.
#[derive(Debug, Clone)]
pub struct MusicVendorSettings {
    /// Without a trailing slash; the built-in engine is used if `None`.
    pub url: Option<String>,
    pub api_key: Option<Secret>,
    pub auth_header: String,
    pub key_header: String,
    pub connect_timeout: Duration,
    /// Between two lines, and before the first one.
    pub line_timeout: Duration,
    pub line_bytes: u64,
    /// Consecutive failures.
    pub breaker_failures: u32,
    pub breaker_pause: Duration,
    pub breaker_pause_max: Duration,
}

impl MusicVendorSettings {
    /// Reads `vendors.music`.
    pub(super) fn read(reader: &mut SettingsReader) -> Self {
        let settings = Self::read_all(reader);
        // If this expired first, a failed connection would count as a submission with an unknown outcome.
        if settings.line_timeout < settings.connect_timeout {
            reader.reject("vendors.music.line_timeout", "at least as long as vendors.music.connect_timeout");
        }
        settings
    }

    fn read_all(reader: &mut SettingsReader) -> Self {
        Self {
            url: reader.read("vendors.music.url", &base_url()),
            api_key: reader.read("vendors.music.api_key", &credential()),
            auth_header: reader.read("vendors.music.auth_header", &header_name()),
            key_header: reader.read("vendors.music.key_header", &header_name()),
            connect_timeout: reader.read("vendors.music.connect_timeout", &duration("10ms", "1h")),
            line_timeout: reader.read("vendors.music.line_timeout", &duration("10ms", "1h")),
            line_bytes: reader.read("vendors.music.line_bytes", &size("4KiB", "64MiB")),
            breaker_failures: reader.read("vendors.music.breaker_failures", &integer(1, 1_000_000)),
            breaker_pause: reader.read("vendors.music.breaker_pause", &duration("1ms", "1h")),
            breaker_pause_max: reader.read("vendors.music.breaker_pause_max", &duration("1ms", "1d")),
        }
    }
}
