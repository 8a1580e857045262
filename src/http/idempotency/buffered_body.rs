//! Response body to store: buffered while small enough, else passed on as a stream.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use bytes::{Bytes, BytesMut};

use super::stored_response::STORED_BODY_MAX;

type BufferedBodyError = Box<dyn std::error::Error>;

/// Buffers a body of up to [`STORED_BODY_MAX`] bytes. Returns the body to send, and its bytes if all were buffered. A
/// body that fails is returned with its error at the same place.
pub async fn buffer_body(body: BoxBody) -> (BoxBody, Option<Bytes>) {
    let mut remaining = match body.try_into_bytes() {
        Ok(body) => return (BoxBody::new(body.clone()), Some(body)),
        Err(stream) => stream,
    };

    let mut buffered = VecDeque::new();
    let mut bytes = 0;
    while bytes <= STORED_BODY_MAX {
        match poll_fn(|context| Pin::new(&mut remaining).poll_next(context)).await {
            Some(Ok(piece)) => {
                bytes += piece.len();
                buffered.push_back(Ok(piece));
            }
            Some(Err(failure)) => {
                buffered.push_back(Err(failure));
                return (BoxBody::new(PartlyBufferedBody { buffered, rest: None }), None);
            }
            None => {
                let full_body = concat_chunks(buffered.into_iter().flatten(), bytes);
                return (BoxBody::new(full_body.clone()), Some(full_body));
            }
        }
    }
    (BoxBody::new(PartlyBufferedBody { buffered, rest: Some(remaining) }), None)
}

fn concat_chunks(pieces: impl Iterator<Item = Bytes>, bytes: usize) -> Bytes {
    let mut buffer = BytesMut::with_capacity(bytes);
    pieces.for_each(|piece| buffer.extend_from_slice(&piece));
    buffer.freeze()
}

/// Body with buffered pieces before the rest of the stream.
struct PartlyBufferedBody {
    buffered: VecDeque<Result<Bytes, BufferedBodyError>>,
    /// Rest of the stream; `None` if the buffered pieces end with an error.
    rest: Option<BoxBody>,
}

impl MessageBody for PartlyBufferedBody {
    type Error = BufferedBodyError;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BufferedBodyError>>> {
        let this = self.get_mut();
        match (this.buffered.pop_front(), &mut this.rest) {
            (Some(piece), _) => Poll::Ready(Some(piece)),
            (None, Some(remaining)) => Pin::new(remaining).poll_next(context),
            (None, None) => Poll::Ready(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::body::{BodyStream, to_bytes};
    use futures_util::stream;

    fn streamed(pieces: usize, bytes: usize) -> BoxBody {
        let pieces = (b'a'..).take(pieces).map(move |letter| Ok::<_, std::io::Error>(Bytes::from(vec![letter; bytes])));
        BoxBody::new(BodyStream::new(stream::iter(pieces)))
    }

    #[actix_web::test]
    async fn a_chunked_body_is_buffered_and_sent() {
        let (body, full_body) = buffer_body(streamed(3, 2)).await;
        assert_eq!(full_body.as_deref(), Some(&b"aabbcc"[..]));
        assert_eq!(to_bytes(body).await.ok().as_deref(), Some(&b"aabbcc"[..]));
    }

    #[actix_web::test]
    async fn an_oversized_body_is_sent_but_not_buffered() {
        let piece = STORED_BODY_MAX / 4;
        let (body, full_body) = buffer_body(streamed(6, piece)).await;
        assert_eq!(full_body, None);
        let sent = to_bytes(body).await.ok().unwrap();
        assert_eq!((sent.len(), sent[0], sent[6 * piece - 1]), (6 * piece, b'a', b'f'));
    }

    #[actix_web::test]
    async fn a_failing_body_fails_at_the_same_chunk() {
        let failing = stream::iter([Ok(Bytes::from_static(b"a")), Err(std::io::Error::other("gone"))]);
        let (body, full_body) = buffer_body(BoxBody::new(BodyStream::new(failing))).await;
        assert!(full_body.is_none() && to_bytes(body).await.is_err());
    }
}
