//! Traces: the tracer and the exporter, if a collector is configured.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::StartError;
use crate::clock::Surroundings;
use crate::config::Settings;
use crate::outbound::collector::Collector;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::trace::{Sources, Tracer};

/// Time that a stop waits for the last spans to be sent.
const LAST_WITHIN: Duration = Duration::from_secs(3);

/// Background task that sends spans.
pub(super) struct Traces(Option<(watch::Sender<bool>, JoinHandle<()>)>);

/// Returns a tracer, which is disabled if no collector is configured, and its exporter.
pub(super) fn traces(
    settings: &Settings,
    surroundings: &Surroundings,
    metrics: &Metrics,
) -> Result<(Tracer, Traces), StartError> {
    let own = &settings.telemetry;
    let Some(endpoint) = &own.otlp_endpoint else { return Ok((Tracer::default(), Traces(None))) };
    let collector = Collector::new(endpoint, own.service_name.clone());
    let collector = collector.map_err(|error| StartError::part("the collector of traces", &error))?;
    let clock = surroundings.clone();
    let chance = surroundings.clone();
    let sources = Sources {
        now: Arc::new(move || u64::try_from(clock.now().micros()).unwrap_or(0).saturating_mul(1000)),
        chance: Arc::new(move || chance.secret()),
    };

    let tracer = Tracer::new(sources, own.sample_percent, metrics.clone());
    let (stop, stopping) = watch::channel(false);
    let work = actix_web::rt::spawn(collector.run(tracer.clone(), stopping));
    Ok((tracer, Traces(Some((stop, work)))))
}

impl Traces {
    /// Sends the remaining spans, for a limited time.
    pub(super) async fn stop(self) {
        let Some((stop, work)) = self.0 else { return };
        stop.send_replace(true);
        if tokio::time::timeout(LAST_WITHIN, work).await.is_err() {
            tracing::warn!("the last spans were not sent to the collector in time");
        }
    }
}
