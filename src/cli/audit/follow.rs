//! `mediary audit log --follow`: prints new events, without gaps or duplicates across reconnections.

use std::io::{self, Write};
use std::time::Duration;

use super::place::Service;
use super::print::Printer;
use crate::app;
use crate::cli::Failure;
use crate::outbound::feed::Feed;

/// Reconnection attempts.
const ATTEMPTS: u32 = 10;
/// Pause before each attempt.
const PAUSE: Duration = Duration::from_secs(1);

/// Prints all matching events until the service is gone for good.
pub(super) fn run(service: &Service, filter: &str, printer: &mut Printer) -> Result<(), Failure> {
    app::block_on(follow(service, &format!("/admin/events/stream?{filter}"), printer))
}

async fn follow(service: &Service, path: &str, printer: &mut Printer) -> Result<(), Failure> {
    let mut last = "0".to_owned();
    let mut feed = open(service, path, &last).await?;
    loop {
        let ended = listen(&mut feed, printer).await?;
        if !feed.last_id().is_empty() {
            feed.last_id().clone_into(&mut last);
        }
        if ended && is_over(service, path, &last).await {
            return Ok(printer.end()?);
        }
        say(&format!("the connection to {} ended after position {last}; reconnecting …", service.base));
        feed = come_back(service, path, &last).await?;
    }
}

/// Prints until the stream ends. Returns `true` if the service ended it, `false` if the connection broke.
async fn listen(feed: &mut Feed, printer: &mut Printer) -> Result<bool, Failure> {
    loop {
        match feed.next().await {
            Ok(Some(event)) if event.kind == "failed" => {
                return Err(anyhow::Error::msg(format!("the service cannot read its log: {}", event.data)).into());
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
async fn is_over(service: &Service, path: &str, last: &str) -> bool {
    if !path.contains("to=") {
        return false;
    }
    let Ok(Ok(mut feed)) = service.api().follow(path, last).await else { return false };
    matches!(tokio::time::timeout(PAUSE, feed.next()).await, Ok(Ok(None)))
}

async fn open(service: &Service, path: &str, last: &str) -> Result<Feed, Failure> {
    match service.api().follow(path, last).await {
        Ok(Ok(feed)) => Ok(feed),
        Ok(Err(reply)) => Err(service.refused(&reply, path)),
        Err(failure) => Err(service.silent(&failure)),
    }
}

async fn come_back(service: &Service, path: &str, last: &str) -> Result<Feed, Failure> {
    for _ in 0..ATTEMPTS {
        tokio::time::sleep(PAUSE).await;
        if let Ok(Ok(feed)) = service.api().follow(path, last).await {
            return Ok(feed);
        }
    }
    let told = format!("the service at {} is gone; continue after position {last} when it is back", service.base);
    Err(anyhow::Error::msg(told).into())
}

/// Prints to stderr, separate from the events.
fn say(text: &str) {
    // stderr may be closed.
    let _ = writeln!(io::stderr(), "mediary: {text}");
}
