//! Reads a streaming response line by line (NDJSON). Only the requested line and the chunk with its end are read, so a
//! slow reader slows down the server.

use bytes::{Bytes, BytesMut};

use super::client::{CallFailure, ResponseBodyStream};

/// Reader of the lines of a response.
pub struct NdjsonReader {
    body: ResponseBodyStream,
    buffer: BytesMut,
    /// Number of buffered bytes known to contain no line end.
    scanned: usize,
    line_bytes_max: usize,
    is_ended: bool,
}

impl NdjsonReader {
    /// Creates a reader of a response whose lines have at most `line_bytes_max` bytes each.
    #[must_use]
    pub fn new(body: ResponseBodyStream, line_bytes_max: usize) -> Self {
        Self { body, buffer: BytesMut::new(), scanned: 0, line_bytes_max, is_ended: false }
    }

    /// Returns the next line that is not blank, without its end; `None` at the end of the response. An incomplete last
    /// line is returned too.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if the connection broke or was silent for too long, or the line is too long.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallFailure> {
        loop {
            while let Some(line) = self.take_line() {
                if line.len() > self.line_bytes_max {
                    return Err(CallFailure::TooLarge(self.line_bytes_max));
                }
                let line = line.trim_ascii();
                if !line.is_empty() {
                    return Ok(Some(Bytes::copy_from_slice(line)));
                }
            }

            if self.buffer.len() > self.line_bytes_max {
                return Err(CallFailure::TooLarge(self.line_bytes_max));
            }

            if self.is_ended {
                return Ok(None);
            }

            match self.body.next().await? {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None => self.is_ended = true,
            }
        }
    }

    /// Reads up to `bytes` bytes of a response that is not a stream. An error ends the text early.
    pub async fn read_prefix(mut self, bytes: usize) -> Bytes {
        while self.buffer.len() < bytes
            && let Ok(Some(chunk)) = self.body.next().await
        {
            self.buffer.extend_from_slice(&chunk);
        }
        self.buffer.truncate(bytes);
        self.buffer.freeze()
    }

    /// Removes and returns the next complete line of the buffered bytes; at the end of the response, the rest.
    fn take_line(&mut self) -> Option<BytesMut> {
        let end = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n');
        let end = end.map(|end| self.scanned + end + 1);
        let last_end = (self.is_ended && !self.buffer.is_empty()).then_some(self.buffer.len());
        let line = end.or(last_end).map(|end| self.buffer.split_to(end));
        self.scanned = if line.is_some() { 0 } else { self.buffer.len() };
        line
    }
}
