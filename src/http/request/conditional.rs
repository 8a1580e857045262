//! Strong entity tags and conditional requests (RFC 9110, section 13.1).
//!
//! A compressed body is a different representation and needs its own strong tag. Tags are computed from the
//! uncompressed bytes; [`for_encoding`] appends the coding inside the quotes, and [`is_current`] ignores it.

use actix_web::http::header::{HeaderMap, IF_NONE_MATCH};
use sha2::{Digest as _, Sha256};

use crate::domain::value::hex;

/// Content codings that compression may use.
const ENCODINGS: [&str; 3] = ["br", "gzip", "deflate"];

/// Returns the strong tag of a body: the first half of its SHA-256.
#[must_use]
pub fn entity_tag(bytes: &[u8]) -> String {
    entity_tag_from_hash(&Sha256::digest(bytes)[..16])
}

/// Returns the tag for the first half of a SHA-256.
#[must_use]
pub fn entity_tag_from_hash(hash: &[u8]) -> String {
    ["\"", &hex(hash), "\""].concat()
}

/// Returns the tag of the same content in an encoding; `None` if the tag is weak or the encoding changes nothing.
#[must_use]
pub fn for_encoding(tag: &str, encoding: &str) -> Option<String> {
    let opaque = tag.strip_prefix('"')?.strip_suffix('"')?;
    ENCODINGS.contains(&encoding).then(|| format!("\"{opaque}-{encoding}\""))
}

/// Returns `true` if `If-None-Match` contains the current tag, by weak comparison; the response is then a 304.
#[must_use]
pub fn is_current(headers: &HeaderMap, tag: &str) -> bool {
    let header_values = headers.get_all(IF_NONE_MATCH).filter_map(|value| value.to_str().ok());
    let is_encoded_form =
        |opaque: &str| ENCODINGS.iter().any(|encoding| for_encoding(tag, encoding).as_deref() == Some(opaque));
    header_values.flat_map(|value| value.split(',')).map(str::trim).any(|candidate| {
        let opaque = candidate.strip_prefix("W/").unwrap_or(candidate);
        candidate == "*" || opaque == tag || is_encoded_form(opaque)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::header::HeaderValue;

    fn current(value: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(IF_NONE_MATCH, HeaderValue::from_static(value));
        is_current(&headers, "\"a\"")
    }

    #[test]
    fn if_none_match_accepts_lists_weak_tags_and_encodings() {
        for known in ["\"a\"", "\"b\", \"a\"", "W/\"a\"", "*", "\"a-gzip\"", "\"b\",\"a-br\""] {
            assert!(current(known), "{known}");
        }
        for unknown in ["\"b\"", "a", "\"a-zip\"", "", "\"a\"x"] {
            assert!(!current(unknown), "{unknown}");
        }
    }

    #[test]
    fn each_encoding_has_its_own_strong_tag() {
        assert_eq!(for_encoding("\"a\"", "gzip").as_deref(), Some("\"a-gzip\""));
        assert_eq!(for_encoding("\"a\"", "identity"), None);
        assert_eq!(for_encoding("W/\"a\"", "gzip"), None);
    }

    #[test]
    fn different_bytes_have_different_tags() {
        assert_ne!(entity_tag(b"a"), entity_tag(b"b"));
        assert_eq!(entity_tag(b"a").len(), 34);
    }
}
