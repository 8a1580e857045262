//! `mediary audit log --follow`: prints new events, without gaps or duplicates across reconnections.

use std::io::{self, Write};
use std::time::Duration;

use super::names::ResourceNames;
use super::print::Printer;
use super::target::ServiceClient;
use crate::app;
use crate::cli::CliError;
use crate::outbound::sse::SseReader;

/// Number of attempts to reconnect after a connection has ended.
const RECONNECT_ATTEMPTS: u32 = 10;
/// Pause before each attempt.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// Time within which a service ends a stream that has no more events.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Prints all matching events, up to the end of the filter if it has one, otherwise until interrupted. Reconnects after
/// a broken connection.
///
/// # Errors
/// If the service refuses, or stays unreachable.
pub(super) fn run(service: &ServiceClient, filter: &str, printer: &mut Printer) -> Result<(), CliError> {
    app::block_on(follow(service, &format!("/admin/events/stream?{filter}"), printer))
}

async fn follow(service: &ServiceClient, path: &str, printer: &mut Printer) -> Result<(), CliError> {
    let mut last_id = "0".to_owned();
    let mut names = ResourceNames::default();
    let mut feed = open_stream(service, path, &last_id).await?;
    loop {
        let is_ended = print_until_end(service, &mut feed, printer, &mut names).await?;
        if !feed.last_id().is_empty() {
            feed.last_id().clone_into(&mut last_id);
        }
        if is_ended && has_reached_end(service, path, &last_id).await {
            return Ok(printer.finish()?);
        }
        print_notice(&format!("the connection to {} ended after position {last_id}; reconnecting …", service.base));
        feed = reconnect(service, path, &last_id).await?;
    }
}

/// Prints until the stream ends. Returns `true` if the service ended it, `false` if the connection broke.
async fn print_until_end(
    service: &ServiceClient,
    feed: &mut SseReader,
    printer: &mut Printer,
    names: &mut ResourceNames,
) -> Result<bool, CliError> {
    loop {
        match feed.next().await {
            Ok(Some(event)) if event.kind == "failed" => {
                return Err(anyhow::Error::msg(format!("the service failed to read its log: {}", event.data)).into());
            }
            Ok(Some(event)) => {
                let event = serde_json::from_str(&event.data).map_err(anyhow::Error::from)?;
                if printer.shows_names() {
                    names.look_up_at(service, std::slice::from_ref(&event)).await;
                }
                printer.event(&event, names)?;
                printer.flush()?;
            }
            Ok(None) => return Ok(true),
            Err(_) => return Ok(false),
        }
    }
}

/// Returns `true` if the filter has an end (`to`) and the log has reached it. The service then ends a new stream at
/// once.
async fn has_reached_end(service: &ServiceClient, path: &str, last_id: &str) -> bool {
    if !path.contains("to=") {
        return false;
    }
    let Ok(Ok(mut feed)) = service.api().follow(path, last_id).await else { return false };
    matches!(tokio::time::timeout(END_TIMEOUT, feed.next()).await, Ok(Ok(None)))
}

async fn open_stream(service: &ServiceClient, path: &str, last_id: &str) -> Result<SseReader, CliError> {
    match service.api().follow(path, last_id).await {
        Ok(Ok(feed)) => Ok(feed),
        Ok(Err(reply)) => Err(service.response_error(&reply, path)),
        Err(failure) => Err(service.unreachable_error(&failure)),
    }
}

async fn reconnect(service: &ServiceClient, path: &str, last_id: &str) -> Result<SseReader, CliError> {
    for _ in 0..RECONNECT_ATTEMPTS {
        tokio::time::sleep(RECONNECT_PAUSE).await;
        if let Ok(Ok(feed)) = service.api().follow(path, last_id).await {
            return Ok(feed);
        }
    }
    let remedy = match last_id.parse::<u64>() {
        Ok(last) if last > 0 => format!("continue with --from {}", last + 1),
        _ => "run the command again".to_owned(),
    };
    let message = format!("the service at {} no longer responds; later, {remedy}", service.base);
    Err(anyhow::Error::msg(message).into())
}

/// Prints to stderr, separate from the events.
fn print_notice(text: &str) {
    // stderr may be closed.
    let _ = writeln!(io::stderr(), "mediary: {text}");
}
