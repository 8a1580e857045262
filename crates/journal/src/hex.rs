//! Hexadecimal encoding and decoding.

use std::fmt::Write as _;

/// Encodes each byte as two lower-case digits.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Decodes `2 * N` lower-case digits; `None` if the text has any other form.
#[must_use]
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }

    let nibble = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };

    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip_and_other_forms_are_rejected() {
        assert_eq!(encode(&[0, 0xa5, 0xff]), "00a5ff");
        assert_eq!(decode("00a5ff"), Some([0, 0xa5, 0xff]));
        for bad in ["00a5f", "00a5ffff", "00A5FF", "00a5fg", "00a5 f"] {
            assert_eq!(decode::<3>(bad), None, "{bad}");
        }
    }
}
