//! Client of server-sent events (`text/event-stream` of the HTML standard).

use bytes::BytesMut;

use super::client::{CallFailure, ResponseBodyStream};

/// Maximum size of one event in bytes, unless set otherwise.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Event type; empty if absent.
    pub kind: String,
    pub data: String,
    /// Last id sent so far, with this event or an earlier one.
    pub last_id: String,
}

/// Parser of an event stream.
pub struct SseReader {
    body: ResponseBodyStream,
    buffer: BytesMut,
    event: SseEvent,
    event_bytes_max: usize,
}

impl SseReader {
    /// Creates a reader of the events of a streaming response.
    #[must_use]
    pub fn new(body: ResponseBodyStream) -> Self {
        Self { body, buffer: BytesMut::new(), event: SseEvent::default(), event_bytes_max: EVENT_BYTES_MAX }
    }

    /// Sets the maximum size of one event in bytes.
    #[must_use]
    pub fn with_event_bytes(self, event_bytes_max: usize) -> Self {
        Self { event_bytes_max, ..self }
    }

    /// Returns the last id sent so far.
    #[must_use]
    pub fn last_id(&self) -> &str {
        &self.event.last_id
    }

    /// Returns the next event; `None` if the service ended the stream.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if the connection broke or was silent for too long.
    pub async fn next(&mut self) -> Result<Option<SseEvent>, CallFailure> {
        loop {
            while let Some(line) = self.take_line() {
                if let Some(event) = self.process_line(&line) {
                    return Ok(Some(event));
                }
            }
            if self.buffer.len() + self.event.data.len() > self.event_bytes_max {
                return Err(CallFailure::BrokenResponse("an event is too large".to_owned()));
            }
            match self.body.next().await? {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }

    /// Removes and returns the next complete line without its end.
    fn take_line(&mut self) -> Option<String> {
        let end = self.buffer.iter().position(|byte| *byte == b'\n')?;
        let line = self.buffer.split_to(end + 1);
        Some(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())
    }

    /// Adds a line to the current event. An empty line completes the event, which is returned if it has data.
    fn process_line(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            let last_id = self.event.last_id.clone();
            let event = std::mem::replace(&mut self.event, SseEvent { last_id, ..SseEvent::default() });
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
            // Comments and unknown fields.
            _ => {}
        }

        None
    }
}
