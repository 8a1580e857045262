//! Response bodies. Large ones are lists of shared pieces, so that they need no copy.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use bytes::Bytes;

/// Size in bytes above which a body is sent in pieces.
const WHOLE_MAX: usize = 1 << 20;

/// Response body. Cheap to clone.
#[derive(Debug, Clone)]
pub enum ResponseBody {
    Whole(Bytes),
    Pieces { pieces: Arc<[Bytes]>, bytes: usize },
}

impl ResponseBody {
    /// Joins the pieces; a large body keeps them separate.
    #[must_use]
    pub fn from_pieces(pieces: Vec<Bytes>) -> Self {
        let bytes = pieces.iter().map(Bytes::len).sum();
        if bytes > WHOLE_MAX {
            return Self::Pieces { pieces: pieces.into(), bytes };
        }

        let mut contiguous = Vec::with_capacity(bytes);
        for piece in &pieces {
            contiguous.extend_from_slice(piece);
        }

        Self::Whole(contiguous.into())
    }

    /// Returns `true` if a body of this size is sent in one piece.
    #[must_use]
    pub fn is_small(bytes: usize) -> bool {
        bytes <= WHOLE_MAX
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Pieces { bytes, .. } => *bytes,
        }
    }

    /// Converts to a body of the framework.
    #[must_use]
    pub fn into_body(self) -> BoxBody {
        match self {
            Self::Whole(bytes) => BoxBody::new(bytes),
            Self::Pieces { pieces, bytes } => BoxBody::new(PiecewiseBody { pieces, bytes, next: 0 }),
        }
    }
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

/// Body sent piece by piece.
struct PiecewiseBody {
    pieces: Arc<[Bytes]>,
    bytes: usize,
    /// Index of the next piece to send.
    next: usize,
}

impl MessageBody for PiecewiseBody {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.bytes as u64)
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let this = self.get_mut();
        let piece = this.pieces.get(this.next).cloned();
        this.next += 1;
        Poll::Ready(piece.map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::body::to_bytes;

    #[actix_web::test]
    async fn large_bodies_share_their_chunks() {
        let piece = Bytes::from(vec![b'x'; WHOLE_MAX / 2]);
        let large = ResponseBody::from_pieces(vec![piece.clone(), Bytes::from_static(b","), piece.clone()]);
        let ResponseBody::Pieces { pieces, bytes } = &large else { panic!("in one piece") };
        assert_eq!((pieces[2].as_ptr(), *bytes), (piece.as_ptr(), WHOLE_MAX + 1));
        let body = large.into_body();
        assert_eq!(body.size(), BodySize::Sized(WHOLE_MAX as u64 + 1));
        assert_eq!(to_bytes(body).await.unwrap(), [&piece[..], b",", &piece[..]].concat());
    }

    #[actix_web::test]
    async fn small_bodies_are_one_chunk() {
        let small = ResponseBody::from_pieces(vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")]);
        assert!(matches!(&small, ResponseBody::Whole(whole) if whole == "ab"));
        assert_eq!(to_bytes(small.into_body()).await.unwrap(), "ab");
    }
}
