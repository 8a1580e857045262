//! Reads a streaming response line by line (NDJSON). Only the requested line and the chunk with its end are read, so a
//! slow reader slows down the server.

use bytes::{Bytes, BytesMut};

use super::client::{CallFailure, Incoming};

/// Parser of lines.
pub struct Lines {
    incoming: Incoming,
    waiting: BytesMut,
    /// Number of waiting bytes that contain no line end.
    looked_at: usize,
    line_bytes: usize,
    ended: bool,
}

impl Lines {
    /// Returns the lines of a response, each of at most `line_bytes` bytes.
    #[must_use]
    pub fn new(incoming: Incoming, line_bytes: usize) -> Self {
        Self { incoming, waiting: BytesMut::new(), looked_at: 0, line_bytes, ended: false }
    }

    /// Returns the next line that is not blank, without its end; `None` at the end of the response. An incomplete last
    /// line is returned too.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if the connection broke or was silent for too long, or the line is too long.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallFailure> {
        loop {
            while let Some(line) = self.line() {
                if line.len() > self.line_bytes {
                    return Err(CallFailure::TooLarge(self.line_bytes));
                }
                let line = line.trim_ascii();
                if !line.is_empty() {
                    return Ok(Some(Bytes::copy_from_slice(line)));
                }
            }

            if self.waiting.len() > self.line_bytes {
                return Err(CallFailure::TooLarge(self.line_bytes));
            }

            if self.ended {
                return Ok(None);
            }

            match self.incoming.next().await? {
                Some(chunk) => self.waiting.extend_from_slice(&chunk),
                None => self.ended = true,
            }
        }
    }

    /// Reads up to `bytes` bytes of a response that is not a stream. An error ends the text early.
    pub async fn beginning(mut self, bytes: usize) -> Bytes {
        while self.waiting.len() < bytes
            && let Ok(Some(chunk)) = self.incoming.next().await
        {
            self.waiting.extend_from_slice(&chunk);
        }
        self.waiting.truncate(bytes);
        self.waiting.freeze()
    }

    /// Removes and returns the next complete line of the waiting bytes.
    fn line(&mut self) -> Option<BytesMut> {
        let end = self.waiting[self.looked_at..].iter().position(|byte| *byte == b'\n');
        let end = end.map(|end| self.looked_at + end + 1);
        let rest = (self.ended && !self.waiting.is_empty()).then_some(self.waiting.len());
        let line = end.or(rest).map(|end| self.waiting.split_to(end));
        self.looked_at = if line.is_some() { 0 } else { self.waiting.len() };
        line
    }
}
