//! Remote vendor of images, and of videos for crashes, against a simulator with its own ledger.

use std::process::Command;
use std::time::Duration;

use mediary::config::{RecoverySetting, Secret, Settings, VendorProfile, VendorSettings};
use serde_json::{Value, json};

use crate::support::picture;
use crate::support::vendor_sim::{SimMode, SimOptions};

mod breaker;
mod charges;
mod command;
mod faults;
mod pool;
mod profile_faults;
mod profiles;
mod webhooks;

pub const API_KEY: &str = "vendor-secret-41";

/// Simulator options with this duration of a job.
pub fn sim(mode: SimMode, work: Duration) -> SimOptions {
    SimOptions { mode, job_duration: work, result: picture::png(16, 16) }
}

/// Settings that send all work to the vendor at this address, with short waits.
pub fn remote(settings: &mut Settings, base: &str, mode: SimMode) {
    for vendor in [&mut settings.image_vendors[0], &mut settings.video_vendors[0]] {
        remote_vendor(vendor, base, mode);
    }
    settings.limits.submissions_per_caller = 100_000;
}

pub fn remote_vendor(vendor: &mut VendorSettings, base: &str, mode: SimMode) {
    vendor.selection.profile = VendorProfile::Mediary;
    vendor.url = Some(base.to_owned());
    vendor.api_key = Some(Secret::new(API_KEY));
    "X-Vendor-Key".clone_into(&mut vendor.auth_header);
    vendor.recovery = match mode {
        SimMode::HonoursKeys => RecoverySetting::Key,
        SimMode::Searchable => RecoverySetting::Search,
        SimMode::Neither => RecoverySetting::Nothing,
    };
    vendor.search_settles = Duration::from_millis(200);
    (vendor.poll_min, vendor.poll_max) = (Duration::from_millis(10), Duration::from_millis(50));
    (vendor.retry_min, vendor.retry_max) = (Duration::from_millis(10), Duration::from_millis(50));
    (vendor.lost_after, vendor.breaker_failures) = (Duration::from_secs(2), 1_000_000);
}

/// The same settings as [`remote`], for a service in another process.
pub fn remote_by_variables(command: &mut Command, base: &str, mode: SimMode) {
    let recovery = match mode {
        SimMode::HonoursKeys => "key",
        SimMode::Searchable => "search",
        SimMode::Neither => "nothing",
    };
    let settings = [
        ("URL", base),
        ("API_KEY", API_KEY),
        ("AUTH_HEADER", "X-Vendor-Key"),
        ("RECOVERY", recovery),
        ("SEARCH_SETTLES", "200ms"),
        ("POLL_MIN", "10ms"),
        ("POLL_MAX", "50ms"),
        ("RETRY_MIN", "10ms"),
        ("RETRY_MAX", "50ms"),
        ("LOST_AFTER", "2s"),
        ("BREAKER_FAILURES", "1000000"),
    ];
    for vendor in ["IMAGE", "VIDEO"] {
        for (name, value) in settings {
            command.env(format!("MEDIARY_VENDORS__{vendor}__{name}"), value);
        }
    }
    command.env("MEDIARY_LIMITS__SUBMISSIONS_PER_CALLER", "100000");
}

/// Submission that the simulator identifies by its prompt.
pub fn upscale(prompt: &str) -> Value {
    json!({"image": picture::base64_png(8, 8), "prompt": prompt})
}
