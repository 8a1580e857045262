//! `mediary audit log --follow`: prints new events, without gaps or duplicates across reconnections.

use std::io::{self, Write};
use std::time::Duration;

use super::print::Printer;
use super::target::ServiceClient;
use crate::app;
use crate::cli::CliError;
use crate::outbound::sse::SseReader;

/// Reconnection attempts.
const ATTEMPTS: u32 = 10;
/// Pause before each attempt.
const PAUSE: Duration = Duration::from_secs(1);

/// Prints all matching events until the service is gone for good.
pub(super) fn run(service: &ServiceClient, filter: &str, printer: &mut Printer) -> Result<(), CliError> {
    app::block_on(follow(service, &format!("/admin/events/stream?{filter}"), printer))
}

async fn follow(service: &ServiceClient, path: &str, printer: &mut Printer) -> Result<(), CliError> {
    let mut last = "0".to_owned();
    let mut feed = open(service, path, &last).await?;
    loop {
        let ended = listen(&mut feed, printer).await?;
        if !feed.last_id().is_empty() {
            feed.last_id().clone_into(&mut last);
        }
        if ended && has_ended(service, path, &last).await {
            return Ok(printer.finish()?);
        }
        print_notice(&format!("the connection to {} ended after position {last}; reconnecting …", service.base));
        feed = reconnect(service, path, &last).await?;
    }
}

/// Prints until the stream ends. Returns `true` if the service ended it, `false` if the connection broke.
async fn listen(feed: &mut SseReader, printer: &mut Printer) -> Result<bool, CliError> {
    loop {
        match feed.next().await {
            Ok(Some(event)) if event.kind == "failed" => {
                return Err(anyhow::Error::msg(format!("the service failed to read its log: {}", event.data)).into());
            }
            Ok(Some(event)) => {
                printer.event(&serde_json::from_str(&event.data).map_err(anyhow::Error::from)?)?;
                printer.flush()?;
            }
            Ok(None) => return Ok(true),
            Err(_) => return Ok(false),
        }
    }
}

/// Returns `true` if the filter has an end that was reached: the service then ends a new stream at once.
async fn has_ended(service: &ServiceClient, path: &str, last: &str) -> bool {
    if !path.contains("to=") {
        return false;
    }
    let Ok(Ok(mut feed)) = service.api().follow(path, last).await else { return false };
    matches!(tokio::time::timeout(PAUSE, feed.next()).await, Ok(Ok(None)))
}

async fn open(service: &ServiceClient, path: &str, last: &str) -> Result<SseReader, CliError> {
    match service.api().follow(path, last).await {
        Ok(Ok(feed)) => Ok(feed),
        Ok(Err(reply)) => Err(service.response_error(&reply, path)),
        Err(failure) => Err(service.unreachable_error(&failure)),
    }
}

async fn reconnect(service: &ServiceClient, path: &str, last: &str) -> Result<SseReader, CliError> {
    for _ in 0..ATTEMPTS {
        tokio::time::sleep(PAUSE).await;
        if let Ok(Ok(feed)) = service.api().follow(path, last).await {
            return Ok(feed);
        }
    }
    let message = format!("the service at {} is gone; continue after position {last} when it is back", service.base);
    Err(anyhow::Error::msg(message).into())
}

/// Prints to stderr, separate from the events.
fn print_notice(text: &str) {
    // stderr may be closed.
    let _ = writeln!(io::stderr(), "mediary: {text}");
}
