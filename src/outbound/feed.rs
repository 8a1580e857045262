//! Server-sent events as a client reads them (the `text/event-stream` of HTML).

use bytes::BytesMut;

use super::client::{CallFailure, Incoming};

/// Most bytes of one event.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeedEvent {
    /// Its type; empty when the service does not say.
    pub kind: String,
    pub data: String,
    /// The last id that the service has named, with this event or before.
    pub last_id: String,
}

/// Events as they come.
pub struct Feed {
    incoming: Incoming,
    waiting: BytesMut,
    event: FeedEvent,
}

impl Feed {
    /// The events of an answer that goes on.
    #[must_use]
    pub fn new(incoming: Incoming) -> Self {
        Self { incoming, waiting: BytesMut::new(), event: FeedEvent::default() }
    }

    /// The last id that the service has named.
    #[must_use]
    pub fn last_id(&self) -> &str {
        &self.event.last_id
    }

    /// The next event; `None` when the service ended the stream.
    ///
    /// # Errors
    /// [`CallFailure`] when the connection broke, or was silent for too long.
    pub async fn next(&mut self) -> Result<Option<FeedEvent>, CallFailure> {
        loop {
            while let Some(line) = self.line() {
                if let Some(event) = self.take(&line) {
                    return Ok(Some(event));
                }
            }
            if self.waiting.len() + self.event.data.len() > EVENT_BYTES_MAX {
                return Err(CallFailure::Broken("an event is too large".to_owned()));
            }
            match self.incoming.next().await? {
                Some(chunk) => self.waiting.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }

    /// The next whole line, without its end.
    fn line(&mut self) -> Option<String> {
        let end = self.waiting.iter().position(|byte| *byte == b'\n')?;
        let line = self.waiting.split_to(end + 1);
        Some(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())
    }

    /// Takes a line; an empty one completes an event, if it has data.
    fn take(&mut self, line: &str) -> Option<FeedEvent> {
        if line.is_empty() {
            let last_id = self.event.last_id.clone();
            let event = std::mem::replace(&mut self.event, FeedEvent { last_id, ..FeedEvent::default() });
            return (!event.data.is_empty()).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.kind),
            "id" => value.clone_into(&mut self.event.last_id),
            "data" => {
                if !self.event.data.is_empty() {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // Comments, and what this client does not know.
            _ => {}
        }
        None
    }
}
