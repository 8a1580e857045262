//! Byte ranges of a file (RFC 9110, section 14): parsing of the Range header, and multipart bodies.

use std::collections::VecDeque;

use actix_web::web::Bytes;

/// Maximum number of ranges in a request; with more, the header is ignored, as RFC 9110 allows.
const RANGES_MAX: usize = 16;

/// Meaning of a Range header for a file of known length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ByteRangeSelection {
    /// Send the whole file: the header is invalid or asks for more bytes than the file has. RFC 9110 allows ignoring
    /// it.
    Whole,
    /// No range overlaps the file.
    Unsatisfiable,
    /// Send these parts, in the order of the header; at least one.
    Parts(Vec<ByteRange>),
}

/// Non-empty byte range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    pub start: u64,
    pub length: u64,
}

impl ByteRange {
    /// Returns the value of `Content-Range`; `total` is the length of the file.
    #[must_use]
    pub fn content_range(self, total: u64) -> String {
        format!("bytes {}-{}/{total}", self.start, self.start + self.length - 1)
    }
}

/// Part of a response body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RangeBodyPiece {
    Literal(Bytes),
    FileRange(ByteRange),
}

/// Parses a Range header for a file of `length` bytes.
#[must_use]
pub fn parse(header: &str, length: u64) -> ByteRangeSelection {
    let unit = header.split_once('=').filter(|(unit, _)| unit.trim().eq_ignore_ascii_case("bytes"));
    let Some((_, set)) = unit else { return ByteRangeSelection::Whole };

    let specs: Option<Vec<_>> =
        set.split(',').map(str::trim).filter(|spec| !spec.is_empty()).map(parse_range_spec).collect();
    let Some(specs) = specs.filter(|specs| (1..=RANGES_MAX).contains(&specs.len())) else {
        return ByteRangeSelection::Whole;
    };

    let parts: Vec<ByteRange> = specs.into_iter().filter_map(|spec| spec.resolve(length)).collect();
    let total = parts.iter().fold(0_u64, |total, part| total.saturating_add(part.length));

    match parts.len() {
        0 => ByteRangeSelection::Unsatisfiable,
        1 => ByteRangeSelection::Parts(parts),
        _ if total > length => ByteRangeSelection::Whole,
        _ => ByteRangeSelection::Parts(parts),
    }
}

/// Range as requested.
enum ByteRangeSpec {
    From { first: u64, last: u64 },
    LastBytes(u64),
}

impl ByteRangeSpec {
    fn resolve(self, length: u64) -> Option<ByteRange> {
        let (start, end) = match self {
            Self::From { first, last } => (first, last.saturating_add(1).min(length)),
            Self::LastBytes(count) => (length.saturating_sub(count), length),
        };
        (start < end).then(|| ByteRange { start, length: end - start })
    }
}

fn parse_range_spec(text: &str) -> Option<ByteRangeSpec> {
    let number = |text: &str| -> Option<u64> {
        let is_numeric = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
        // A number that overflows is past the end of every file.
        is_numeric.then(|| text.parse().unwrap_or(u64::MAX))
    };

    match text.split_once('-')? {
        ("", count) => Some(ByteRangeSpec::LastBytes(number(count)?)),
        (first, "") => Some(ByteRangeSpec::From { first: number(first)?, last: u64::MAX }),
        (first, last) => {
            let first = number(first)?;
            let last = number(last)?;
            (first <= last).then_some(ByteRangeSpec::From { first, last })
        }
    }
}

/// Builds the pieces of a `multipart/byteranges` body.
#[must_use]
pub fn multipart(parts: &[ByteRange], total: u64, content_type: &str, boundary: &str) -> VecDeque<RangeBodyPiece> {
    let mut pieces = VecDeque::new();
    for part in parts {
        let range = part.content_range(total);
        let head = format!("\r\n--{boundary}\r\nContent-Type: {content_type}\r\nContent-Range: {range}\r\n\r\n");
        pieces.push_back(RangeBodyPiece::Literal(Bytes::from(head)));
        pieces.push_back(RangeBodyPiece::FileRange(*part));
    }
    pieces.push_back(RangeBodyPiece::Literal(Bytes::from(format!("\r\n--{boundary}--\r\n"))));
    pieces
}

/// Returns the total length of the pieces in bytes.
#[must_use]
pub fn total_length(pieces: &VecDeque<RangeBodyPiece>) -> u64 {
    let lengths = pieces.iter().map(|piece| match piece {
        RangeBodyPiece::Literal(bytes) => bytes.len() as u64,
        RangeBodyPiece::FileRange(range) => range.length,
    });
    lengths.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the start and the length of each range of a file of 100 bytes.
    fn parts(header: &str) -> Vec<(u64, u64)> {
        match parse(header, 100) {
            ByteRangeSelection::Parts(parts) => parts.into_iter().map(|part| (part.start, part.length)).collect(),
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
    fn unsupported_values_are_ignored() {
        for header in
            ["", "bytes", "items=0-1", "bytes=", "bytes=a-b", "bytes=5-1", "bytes=1", "bytes=--1", "bytes=+1-2"]
        {
            assert_eq!(parse(header, 100), ByteRangeSelection::Whole, "{header}");
        }
        let many = vec!["1-1"; RANGES_MAX + 1].join(",");
        assert_eq!(parse(&format!("bytes={many}"), 100), ByteRangeSelection::Whole);
        assert_eq!(parse("bytes=0-99,0-99", 100), ByteRangeSelection::Whole);
    }

    #[test]
    fn a_range_past_the_end_is_not_satisfiable() {
        assert_eq!(parse("bytes=100-", 100), ByteRangeSelection::Unsatisfiable);
        assert_eq!(parse("bytes=-0", 100), ByteRangeSelection::Unsatisfiable);
        assert_eq!(parse("bytes=0-", 0), ByteRangeSelection::Unsatisfiable);
    }

    #[test]
    fn multipart_ranges_have_a_header_per_part() {
        let spans = [ByteRange { start: 0, length: 2 }, ByteRange { start: 5, length: 1 }];
        let pieces = multipart(&spans, 9, "image/png", "b");
        let text: Vec<u8> = pieces
            .iter()
            .flat_map(|piece| match piece {
                RangeBodyPiece::Literal(bytes) => bytes.to_vec(),
                RangeBodyPiece::FileRange(range) => vec![b'x'; usize::try_from(range.length).unwrap()],
            })
            .collect();
        assert_eq!(total_length(&pieces), text.len() as u64);
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "\r\n--b\r\nContent-Type: image/png\r\nContent-Range: bytes 0-1/9\r\n\r\nxx\
             \r\n--b\r\nContent-Type: image/png\r\nContent-Range: bytes 5-5/9\r\n\r\nx\r\n--b--\r\n"
        );
    }
}
