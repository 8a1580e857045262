//! Remote vendor of images, and of videos for crashes, against a simulator with its own ledger.

use std::fmt::Write as _;
use std::path::Path;
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

/// Returns simulator options with this duration of a job.
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
    (vendor.lost_after, vendor.breaker_failures) = (Duration::from_secs(10), 1_000_000);
}

/// Settings of [`remote`] with their values.
fn remote_settings(base: &str, mode: SimMode) -> [(&'static str, String); 11] {
    let recovery = match mode {
        SimMode::HonoursKeys => "key",
        SimMode::Searchable => "search",
        SimMode::Neither => "nothing",
    };
    let settings = [
        ("url", base),
        ("api_key", API_KEY),
        ("auth_header", "X-Vendor-Key"),
        ("recovery", recovery),
        ("search_settles", "200ms"),
        ("poll_min", "10ms"),
        ("poll_max", "50ms"),
        ("retry_min", "10ms"),
        ("retry_max", "50ms"),
        ("lost_after", "10s"),
        ("breaker_failures", "1000000"),
    ];
    settings.map(|(name, value)| (name, value.to_owned()))
}

/// Like [`remote`], for a service in another process, by environment variables.
pub fn remote_by_variables(command: &mut Command, base: &str, mode: SimMode) {
    for medium in ["IMAGE", "VIDEO"] {
        for (name, value) in remote_settings(base, mode) {
            command.env(format!("MEDIARY_VENDORS__{medium}__{}", name.to_uppercase()), value);
        }
    }
    command.env("MEDIARY_LIMITS__SUBMISSIONS_PER_CALLER", "100000");
}

/// Like [`remote_by_variables`], with several vendors in order of priority, by a settings file in `directory`, in which
/// the service must run.
pub fn remote_by_file(command: &mut Command, directory: &Path, bases: &[String], mode: SimMode) {
    let mut file = String::new();
    for medium in ["image", "video"] {
        for (number, base) in bases.iter().enumerate() {
            let _ = writeln!(file, "[[vendors.{medium}]]\nname = '{medium}-{number}'\npriority = {number}");
            for (name, value) in remote_settings(base, mode) {
                let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
                let _ =
                    if is_number { writeln!(file, "{name} = {value}") } else { writeln!(file, "{name} = '{value}'") };
            }
        }
    }
    std::fs::write(directory.join("mediary.toml"), file).expect("a settings file");
    command.current_dir(directory);
    command.env("MEDIARY_LIMITS__SUBMISSIONS_PER_CALLER", "100000");
}

/// Returns a submission that the simulator identifies by its prompt.
pub fn upscale(prompt: &str) -> Value {
    json!({"image": picture::base64_png(8, 8), "prompt": prompt})
}
