//! Limits of the service, read from its default settings file, so that new limits need no change here.

use std::path::Path;

/// Suffixes of the settings that limit rates and daily amounts; 0 switches each of them off.
const RATES: [&str; 2] = ["_per_minute", "_per_day"];

/// Returns the settings that switch off all rate limits and daily quotas.
///
/// Concurrency limits stay: they bound the memory of an overloaded service.
#[must_use]
pub fn lifted() -> Vec<(String, String)> {
    let is_rate = |key: &&String| RATES.iter().any(|suffix| key.ends_with(suffix));
    let section = section();
    let keys = section.keys().filter(is_rate);
    keys.map(|key| (format!("MEDIARY_LIMITS__{}", key.to_uppercase()), "0".to_owned())).collect()
}

/// Returns the default limit of `kind`, in requests a minute; `None` if it is switched off.
#[must_use]
pub fn per_minute(kind: &str) -> Option<f64> {
    let limit = section().get(&format!("{kind}_per_minute"))?.as_integer()?;
    (limit > 0).then_some(limit as f64)
}

/// Returns the section `[limits]` of the default settings.
fn section() -> toml::Table {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/default.toml");
    let text = std::fs::read_to_string(file).expect("the default settings");
    let settings: toml::Table = text.parse().expect("TOML");
    settings["limits"].as_table().expect("a section").clone()
}
