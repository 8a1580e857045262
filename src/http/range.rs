//! Byte ranges of a file (RFC 9110, section 14): parsing of the Range header, and multipart bodies.

use std::collections::VecDeque;

use actix_web::web::Bytes;

/// Maximum number of ranges in a request; with more, the header is ignored, as RFC 9110 allows.
const RANGES_MAX: usize = 16;

/// Meaning of a Range header for a file of known length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// Send the whole file: the header is invalid or asks for more bytes than the file has. RFC 9110 allows ignoring
    /// it.
    Whole,
    /// No range overlaps the file.
    Unsatisfiable,
    /// Send these parts, in the order of the header; at least one.
    Parts(Vec<Span>),
}

/// Non-empty byte range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start: u64,
    pub length: u64,
}

impl Span {
    /// Returns the value of `Content-Range`; `of` is the length of the file.
    #[must_use]
    pub fn content_range(self, of: u64) -> String {
        format!("bytes {}-{}/{of}", self.start, self.start + self.length - 1)
    }
}

/// Part of a response body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Ready(Bytes),
    OfFile(Span),
}

/// Parses a Range header for a file of `length` bytes.
#[must_use]
pub fn parse(header: &str, length: u64) -> Ranges {
    let unit = header.split_once('=').filter(|(unit, _)| unit.trim().eq_ignore_ascii_case("bytes"));
    let Some((_, set)) = unit else { return Ranges::Whole };

    let asked: Option<Vec<_>> = set.split(',').map(str::trim).filter(|one| !one.is_empty()).map(read_one).collect();
    let Some(asked) = asked.filter(|asked| (1..=RANGES_MAX).contains(&asked.len())) else { return Ranges::Whole };

    let parts: Vec<Span> = asked.into_iter().filter_map(|one| one.within(length)).collect();
    let total = parts.iter().fold(0_u64, |total, part| total.saturating_add(part.length));

    match parts.len() {
        0 => Ranges::Unsatisfiable,
        1 => Ranges::Parts(parts),
        _ if total > length => Ranges::Whole,
        _ => Ranges::Parts(parts),
    }
}

/// Range as requested.
enum Asked {
    From { first: u64, last: u64 },
    LastBytes(u64),
}

impl Asked {
    fn within(self, length: u64) -> Option<Span> {
        let (start, end) = match self {
            Self::From { first, last } => (first, last.saturating_add(1).min(length)),
            Self::LastBytes(count) => (length.saturating_sub(count), length),
        };
        (start < end).then(|| Span { start, length: end - start })
    }
}

fn read_one(text: &str) -> Option<Asked> {
    let number = |text: &str| -> Option<u64> {
        let digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };

    match text.split_once('-')? {
        ("", count) => Some(Asked::LastBytes(number(count)?)),
        (first, "") => Some(Asked::From { first: number(first)?, last: u64::MAX }),
        (first, last) => {
            let first = number(first)?;
            let last = number(last)?;
            (first <= last).then_some(Asked::From { first, last })
        }
    }
}

/// Builds the pieces of a `multipart/byteranges` body.
#[must_use]
pub fn multipart(parts: &[Span], of: u64, content_type: &str, boundary: &str) -> VecDeque<Piece> {
    let mut pieces = VecDeque::new();
    for part in parts {
        let range = part.content_range(of);
        let head = format!("\r\n--{boundary}\r\nContent-Type: {content_type}\r\nContent-Range: {range}\r\n\r\n");
        pieces.push_back(Piece::Ready(Bytes::from(head)));
        pieces.push_back(Piece::OfFile(*part));
    }
    pieces.push_back(Piece::Ready(Bytes::from(format!("\r\n--{boundary}--\r\n"))));
    pieces
}

/// Returns the total length of the pieces in bytes.
#[must_use]
pub fn length_of(pieces: &VecDeque<Piece>) -> u64 {
    let lengths = pieces.iter().map(|piece| match piece {
        Piece::Ready(bytes) => bytes.len() as u64,
        Piece::OfFile(span) => span.length,
    });
    lengths.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(header: &str) -> Vec<(u64, u64)> {
        match parse(header, 100) {
            Ranges::Parts(parts) => parts.into_iter().map(|part| (part.start, part.length)).collect(),
            other => panic!("{header}: {other:?}"),
        }
    }

    #[test]
    fn ranges_are_cut_to_the_file() {
        assert_eq!(parts("bytes=0-0"), [(0, 1)]);
        assert_eq!(parts("bytes=10-"), [(10, 90)]);
        assert_eq!(parts("bytes=90-1000"), [(90, 10)]);
        assert_eq!(parts("bytes=-5"), [(95, 5)]);
        assert_eq!(parts("bytes=-1000"), [(0, 100)]);
        assert_eq!(parts("Bytes = 0-0, 99-99 , 200-"), [(0, 1), (99, 1)]);
        assert_eq!(parts("bytes=99999999999999999999-99999999999999999999,5-5"), [(5, 1)]);
    }

    #[test]
    fn what_is_not_understood_is_ignored() {
        for header in
            ["", "bytes", "items=0-1", "bytes=", "bytes=a-b", "bytes=5-1", "bytes=1", "bytes=--1", "bytes=+1-2"]
        {
            assert_eq!(parse(header, 100), Ranges::Whole, "{header}");
        }
        let many = vec!["1-1"; RANGES_MAX + 1].join(",");
        assert_eq!(parse(&format!("bytes={many}"), 100), Ranges::Whole);
        assert_eq!(parse("bytes=0-99,0-99", 100), Ranges::Whole);
    }

    #[test]
    fn a_range_behind_the_end_cannot_be_satisfied() {
        assert_eq!(parse("bytes=100-", 100), Ranges::Unsatisfiable);
        assert_eq!(parse("bytes=-0", 100), Ranges::Unsatisfiable);
        assert_eq!(parse("bytes=0-", 0), Ranges::Unsatisfiable);
    }

    #[test]
    fn a_multipart_body_has_a_head_for_each_part() {
        let spans = [Span { start: 0, length: 2 }, Span { start: 5, length: 1 }];
        let pieces = multipart(&spans, 9, "image/png", "b");
        let text: Vec<u8> = pieces
            .iter()
            .flat_map(|piece| match piece {
                Piece::Ready(bytes) => bytes.to_vec(),
                Piece::OfFile(span) => vec![b'x'; usize::try_from(span.length).unwrap()],
            })
            .collect();
        assert_eq!(length_of(&pieces), text.len() as u64);
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "\r\n--b\r\nContent-Type: image/png\r\nContent-Range: bytes 0-1/9\r\n\r\nxx\
             \r\n--b\r\nContent-Type: image/png\r\nContent-Range: bytes 5-5/9\r\n\r\nx\r\n--b--\r\n"
        );
    }
}
