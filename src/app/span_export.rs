//! Traces: the tracer and the exporter, if a collector is configured.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::StartError;
use crate::config::Settings;
use crate::environment::Environment;
use crate::outbound::span_exporter::SpanExporter;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::trace::{TraceSources, Tracer};

/// Time that a stop waits for the last spans to be sent.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Background task that sends spans.
pub(super) struct SpanExportTask(Option<(watch::Sender<bool>, JoinHandle<()>)>);

/// Returns a tracer, which is disabled if no collector is configured, and its exporter.
pub(super) fn build_tracer(
    settings: &Settings,
    environment: &Environment,
    metrics: &Metrics,
) -> Result<(Tracer, SpanExportTask), StartError> {
    let telemetry = &settings.telemetry;
    let Some(endpoint) = &telemetry.otlp_endpoint else { return Ok((Tracer::default(), SpanExportTask(None))) };
    let exporter = SpanExporter::new(endpoint, telemetry.service_name.clone());
    let exporter = exporter.map_err(|error| StartError::part("the trace collector", &error))?;
    let clock = environment.clone();
    let rng = environment.clone();
    let sources = TraceSources {
        now: Arc::new(move || u64::try_from(clock.now().micros()).unwrap_or(0).saturating_mul(1000)),
        random_bytes: Arc::new(move || rng.random_bytes()),
    };

    let tracer = Tracer::new(sources, telemetry.sample_percent, metrics.clone());
    let (stop, stop_receiver) = watch::channel(false);
    let task = actix_web::rt::spawn(exporter.run(tracer.clone(), stop_receiver));
    Ok((tracer, SpanExportTask(Some((stop, task)))))
}

impl SpanExportTask {
    /// Sends the remaining spans, for a limited time.
    pub(super) async fn stop(self) {
        let Some((stop, task)) = self.0 else { return };
        stop.send_replace(true);
        if tokio::time::timeout(FLUSH_TIMEOUT, task).await.is_err() {
            tracing::warn!("span export timed out, last spans lost");
        }
    }
}
