//! An answer that goes on, a line at a time (NDJSON). No more of it is read than the line that is asked for and what came with it:
//! whoever reads slowly slows the server.

use bytes::{Bytes, BytesMut};

use super::client::{CallFailure, Incoming};

/// Lines as they come.
pub struct Lines {
    incoming: Incoming,
    waiting: BytesMut,
    /// Bytes of what waits in which there is no end of a line.
    looked_at: usize,
    line_bytes: usize,
    ended: bool,
}

impl Lines {
    /// The lines of an answer, of at most so many bytes each.
    #[must_use]
    pub fn new(incoming: Incoming, line_bytes: usize) -> Self {
        Self { incoming, waiting: BytesMut::new(), looked_at: 0, line_bytes, ended: false }
    }

    /// The next line that is not blank, without its end; `None` when the server ended the answer. What it cut off in the middle
    /// is a line too.
    ///
    /// # Errors
    /// [`CallFailure`] when the connection broke or was silent for too long, or the line is too long.
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

    /// Everything that comes, or the first of it: as an answer is read that is no stream. What cannot be had is done without.
    pub async fn beginning(mut self, bytes: usize) -> Bytes {
        while self.waiting.len() < bytes
            && let Ok(Some(chunk)) = self.incoming.next().await
        {
            self.waiting.extend_from_slice(&chunk);
        }
        self.waiting.truncate(bytes);
        self.waiting.freeze()
    }

    /// The next of what waits.
    fn line(&mut self) -> Option<BytesMut> {
        let end = self.waiting[self.looked_at..].iter().position(|byte| *byte == b'\n');
        let end = end.map(|end| self.looked_at + end + 1);
        let rest = (self.ended && !self.waiting.is_empty()).then_some(self.waiting.len());
        let line = end.or(rest).map(|end| self.waiting.split_to(end));
        self.looked_at = if line.is_some() { 0 } else { self.waiting.len() };
        line
    }
}
