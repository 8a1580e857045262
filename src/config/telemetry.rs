//! Settings of traces.

use super::setting_kinds::{base_url, integer, label};
use super::settings::SettingsReader;

/// Destination of traces.
#[derive(Debug, Clone)]
pub struct TelemetrySettings {
    /// Without a trailing slash; tracing is off if `None`.
    pub otlp_endpoint: Option<String>,
    /// Percentage of traces that are recorded.
    pub sample_percent: u8,
    pub service_name: String,
}

impl TelemetrySettings {
    pub(super) fn read(reader: &mut SettingsReader) -> Self {
        Self {
            otlp_endpoint: reader.read("telemetry.otlp_endpoint", &base_url()),
            sample_percent: reader.read("telemetry.sample_percent", &integer(0, 100)),
            service_name: reader.read("telemetry.service_name", &label()).unwrap_or_else(|| "mediary".to_owned()),
        }
    }
}
