//! `mediary audit log --follow`: events as they happen, over lost connections without a gap and without doubles.

use std::io::{self, Write};
use std::time::Duration;

use super::place::Service;
use super::print::Printer;
use crate::app;
use crate::cli::Failure;
use crate::outbound::feed::Feed;

/// How often it is tried to come back to a service that is gone.
const ATTEMPTS: u32 = 10;
/// The pause before each.
const PAUSE: Duration = Duration::from_secs(1);

/// Prints everything that passes the filter, and goes on until the service is gone for good.
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
        say(&format!("the connection to {} ended after position {last}; trying to come back …", service.base));
        feed = come_back(service, path, &last).await?;
    }
}

/// Prints until the stream ends; tells whether the service ended it, or the connection broke.
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

/// Whether the filter has an end, and it was reached: then the service answers at once, with nothing.
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
    let told = format!("the service at {} is gone; go on after position {last} once it is back", service.base);
    Err(anyhow::Error::msg(told).into())
}

/// On stderr, apart from the events.
fn say(text: &str) {
    // Nobody may be listening.
    let _ = writeln!(io::stderr(), "mediary: {text}");
}
