//! Value of a picture field: a URL, bare base64, or a data URI.
//!
//! Base64 may use the standard or the URL-safe alphabet, with or without padding, and contain white space. Only base64
//! data URIs are accepted; their media type is ignored. Text that begins with `http://` or `https://` is a URL.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::domain::image::INPUT_BYTES_MAX;
use crate::domain::value::{CallbackUrl, InvalidValue};

/// Lenient base64: padding is optional, trailing bits are ignored.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// A picture from a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PictureInput {
    /// The bytes of the file.
    Bytes(Vec<u8>),
    /// URL to fetch.
    Url(CallbackUrl),
}

impl PictureInput {
    /// Parses the value of a field.
    ///
    /// # Errors
    /// If the text is neither a URL nor base64 nor a base64 data URI, or has more bytes than an input may have.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let text = text.trim();
        if starts_with_ignoring_case(text, "http://") || starts_with_ignoring_case(text, "https://") {
            return CallbackUrl::parse(text).map(Self::Url);
        }
        let encoded = if starts_with_ignoring_case(text, "data:") { data_uri_payload(text)? } else { text };
        decode_base64(encoded, INPUT_BYTES_MAX).map(Self::Bytes)
    }
}

fn starts_with_ignoring_case(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Returns the part after the comma of `data:<media type>;base64,<data>`.
fn data_uri_payload(text: &str) -> Result<&str, InvalidValue> {
    let (head, data) = text.split_once(',').ok_or_else(|| InvalidValue::new("is a data URI without a comma"))?;
    match head.rsplit_once(';') {
        Some((_, encoding)) if encoding.trim().eq_ignore_ascii_case("base64") => Ok(data),
        _ => Err(InvalidValue::new("is a data URI without base64; use data:<type>;base64,<data>")),
    }
}

fn decode_base64(text: &str, bytes_max: usize) -> Result<Vec<u8>, InvalidValue> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            other => other,
        })
        .collect();

    if digits.is_empty() {
        return Err(InvalidValue::new("must not be empty"));
    }

    // Padding is at most two digits, so this may accept two bytes too many; the size of the file is checked again.
    if digits.len() / 4 * 3 > bytes_max + 2 {
        return Err(too_many_bytes_error());
    }

    LENIENT_BASE64
        .decode(digits)
        .map_err(|_| InvalidValue::new("must be an http or https URL, base64, or a data URI with base64"))
}

/// Returns the error for a file over [`INPUT_BYTES_MAX`].
pub(super) fn too_many_bytes_error() -> InvalidValue {
    InvalidValue::new(format!("must be at most {} MB", INPUT_BYTES_MAX / 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_bytes(text: &str) -> Vec<u8> {
        match PictureInput::parse(text) {
            Ok(PictureInput::Bytes(bytes)) => bytes,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn every_common_form_of_base64_is_accepted() {
        let bytes = [0xFB, 0xEF, 0xFE, 0x01];
        for text in ["++/+AQ==", "++/+AQ", "--_-AQ==", "--_-AQ", " ++/+\r\n\tAQ==\n"] {
            assert_eq!(parse_bytes(text), bytes, "{text}");
        }
    }

    #[test]
    fn data_uris_with_base64_are_accepted() {
        for head in ["data:image/png;base64", "DATA:image/jpeg;charset=utf-8;BASE64", "data:;base64"] {
            assert_eq!(parse_bytes(&format!("{head},YWJj")), b"abc", "{head}");
        }
    }

    #[test]
    fn urls_are_kept_unchanged() {
        for text in ["https://a.example/x.png", "HTTP://a.example/x.png?y=1", " https://a.example/ "] {
            let url = CallbackUrl::parse(text.trim()).unwrap();
            assert_eq!(PictureInput::parse(text), Ok(PictureInput::Url(url)), "{text}");
        }
    }

    #[test]
    fn other_text_is_rejected_with_a_reason() {
        for (text, reason) in [
            ("", "must not be empty"),
            ("  \n", "must not be empty"),
            ("data:image/png;base64,", "must not be empty"),
            ("data:image/svg+xml,%3Csvg/%3E", "is a data URI without base64"),
            ("data:image/png", "is a data URI without a comma"),
            ("https://", "must be an absolute"),
            ("http://user:secret@a.example/x.png", "must not contain a user name"),
            ("file:///etc/passwd", "must be an http or https URL, base64"),
            ("not base64!", "must be an http or https URL, base64"),
            ("YW=Jj", "must be an http or https URL, base64"),
            ("日本語", "must be an http or https URL, base64"),
        ] {
            let message = PictureInput::parse(text).unwrap_err().to_string();
            assert!(message.starts_with(reason), "{text}: {message}");
        }
    }

    #[test]
    fn excessive_length_is_rejected_before_decoding() {
        assert!(decode_base64("AAAAAAAAAAAA", 9).is_ok());
        assert_eq!(decode_base64("not base64 but long", 9).unwrap_err().to_string(), "must be at most 50 MB");
    }
}
