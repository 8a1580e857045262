//! Request body that is read while it is sent, and reports its progress.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Bytes that are read and sent at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// File to upload, with its length.
pub struct UploadBody {
    source: Box<dyn Read + Send + Sync>,
    sent: u64,
    length: u64,
    on_progress: Box<dyn Fn(u64) + Send + Sync>,
}

impl UploadBody {
    /// Creates a body of exactly `length` bytes. `on_progress` is called with the bytes read so far.
    pub fn new(
        source: impl Read + Send + Sync + 'static,
        length: u64,
        on_progress: impl Fn(u64) + Send + Sync + 'static,
    ) -> Self {
        Self { source: Box::new(source), sent: 0, length, on_progress: Box::new(on_progress) }
    }

    /// Reads the next bytes and reports the progress; fails if the source is shorter than announced. Blocks.
    fn next_chunk(&mut self) -> io::Result<Bytes> {
        let remaining = usize::try_from(self.length - self.sent).unwrap_or(usize::MAX);
        let mut chunk = vec![0; remaining.min(CHUNK_BYTES)];
        self.source.read_exact(&mut chunk)?;
        self.sent += chunk.len() as u64;
        (self.on_progress)(self.sent);
        Ok(chunk.into())
    }
}

impl Body for UploadBody {
    type Data = Bytes;
    type Error = io::Error;

    /// The read blocks: only commands upload files, and they have nothing else to do.
    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let is_ended = self.is_end_stream();
        Poll::Ready((!is_ended).then(|| self.next_chunk().map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.sent == self.length
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length - self.sent)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn frames(body: &mut UploadBody) -> Vec<io::Result<Bytes>> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut frames = Vec::new();
        while let Poll::Ready(Some(frame)) = Pin::new(&mut *body).poll_frame(&mut context) {
            let is_error = frame.is_err();
            frames.push(frame.map(|frame| frame.into_data().unwrap()));
            if is_error {
                break;
            }
        }
        frames
    }

    #[test]
    fn the_body_is_sent_in_chunks_and_its_progress_is_reported() {
        // Given a file of one and a half chunks
        let content = vec![7; CHUNK_BYTES * 3 / 2];
        let reported = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&reported);
        let length = content.len() as u64;
        let report = move |sent| record.lock().unwrap().push(sent);
        let mut body = UploadBody::new(io::Cursor::new(content.clone()), length, report);
        assert_eq!(body.size_hint().exact(), Some(length));

        // When it is sent
        let sent = frames(&mut body);

        // Then everything was sent and reported
        assert_eq!(sent.into_iter().flat_map(|chunk| chunk.unwrap()).collect::<Vec<_>>(), content);
        assert_eq!(*reported.lock().unwrap(), [CHUNK_BYTES as u64, length]);
        assert!(body.is_end_stream());
    }

    #[test]
    fn a_file_that_has_become_shorter_is_an_error() {
        let mut body = UploadBody::new(io::Cursor::new(b"abc"), 4, |_| {});
        assert!(frames(&mut body)[0].is_err());
    }
}
