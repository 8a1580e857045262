//! Identity of a request with an idempotency key: caller, key, and a fingerprint of its content.

use actix_multipart::Multipart;
use actix_web::HttpRequest;
use actix_web::http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use actix_web::web::{self, Bytes};
use futures_util::StreamExt;
use sha2::{Digest as _, Sha256};

use crate::domain::value::Digest;
use crate::http::request::form::{self, malformed_form};
use crate::http::response::error::{Code, Problem};

/// Header with the idempotency key.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Maximum length of a key, in characters.
const KEY_MAX: usize = 255;
/// Size in bytes above which a body is hashed on a blocking thread.
const HASHED_IN_PLACE_BYTES_MAX: usize = 128 * 1024;

/// Returns the idempotency key of a request.
///
/// # Errors
/// 400 if the key is malformed, or if there are several.
pub fn parse_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY);
    let Some(first) = values.next() else { return Ok(None) };
    let key = first.to_str().ok().filter(|key| values.next().is_none() && is_valid_key(key));

    let invalid_key = || {
        let detail = format!("Idempotency-Key must be one header of 1 to {KEY_MAX} visible ASCII characters");
        Problem::new(Code::MalformedRequest, detail)
    };
    key.map(|key| Some(key.to_owned())).ok_or_else(invalid_key)
}

fn is_valid_key(text: &str) -> bool {
    (1..=KEY_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Request with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotentRequest {
    /// SHA-256 of caller and key; identifies the key in the log and in the response store.
    pub id: Digest,
    /// Caller and key in plain text; the stored response cannot be decrypted without them.
    pub caller_and_key: String,
    /// SHA-256 of method, path, query, content type and body; for a form, of its parts.
    pub fingerprint: Digest,
}

impl IdempotentRequest {
    /// Computes the identity of a request. `owner` identifies the caller and contains no line break.
    ///
    /// # Errors
    /// If the service is stopping.
    pub async fn new(owner: &str, key: &str, request: &HttpRequest, body: Bytes) -> Result<Self, Problem> {
        // Keys contain no line break either, so different pairs of caller and key differ here.
        let caller_and_key = format!("{owner}\n{key}");
        let head_texts = [request.method().as_str(), request.uri().path(), request.query_string()];
        let head = head_texts.iter().fold(Sha256::new(), |hash, part| chain_text(hash, part.as_bytes()));
        let content_type = request.headers().get(CONTENT_TYPE).cloned();

        let is_large = body.len() > HASHED_IN_PLACE_BYTES_MAX;
        let hash = move || fingerprint_of(&head, content_type.as_ref(), &body);
        let fingerprint = if is_large { web::block(hash).await.map_err(Problem::internal)? } else { hash() };
        Ok(Self { id: Digest(Sha256::digest(&caller_and_key).into()), caller_and_key, fingerprint })
    }
}

/// Adds a text with its length, so that texts cannot run into each other.
fn chain_text(hash: Sha256, text: &[u8]) -> Sha256 {
    hash.chain_update((text.len() as u64).to_le_bytes()).chain_update(text)
}

/// Returns the fingerprint of a request; `head` is the hash of what comes before its content type. Blocks.
fn fingerprint_of(head: &Sha256, content_type: Option<&HeaderValue>, body: &Bytes) -> Digest {
    // Clients choose a new boundary for each request, so hash the parts only.
    let form = content_type.filter(|_| form::is_form(content_type));
    let hash = form.and_then(|kind| hash_form(chain_text(head.clone(), b"multipart/form-data"), kind, body));
    let hash_whole = || chain_text(head.clone(), content_type.map_or(b"", HeaderValue::as_bytes)).chain_update(body);
    Digest(hash.unwrap_or_else(hash_whole).finalize().into())
}

/// Adds the names and values of a form, each with its length; `None` if the form is unreadable.
///
/// Reads the form twice. The length of a value is hashed before the value, and collecting the values to measure them
/// would need as much memory as the body.
fn hash_form(mut hash: Sha256, content_type: &HeaderValue, body: &Bytes) -> Option<Sha256> {
    let mut lengths: Vec<u64> = Vec::new();
    visit_form(content_type, body, |piece| match piece {
        FormPiece::Name(_) => lengths.push(0),
        FormPiece::Value(bytes) => {
            if let Some(length) = lengths.last_mut() {
                *length += bytes.len() as u64;
            }
        }
    })?;

    let mut lengths = lengths.into_iter();
    visit_form(content_type, body, |piece| match piece {
        FormPiece::Name(name) => {
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name);
            hash.update(lengths.next().unwrap_or(0).to_le_bytes());
        }
        FormPiece::Value(bytes) => hash.update(bytes),
    })?;
    Some(hash)
}

/// Piece of a form.
enum FormPiece<'p> {
    /// Begins a part.
    Name(&'p str),
    /// Continues the value of the part.
    Value(&'p [u8]),
}

/// Visits the pieces of a form in order; `None` if the form is unreadable.
fn visit_form(content_type: &HeaderValue, body: &Bytes, mut visit: impl FnMut(FormPiece<'_>)) -> Option<()> {
    let read = async |mut parts: Multipart| {
        while let Some(part) = parts.next().await {
            let mut part = part.map_err(|error| malformed_form(&error))?;
            visit(FormPiece::Name(part.name().unwrap_or_default()));
            while let Some(chunk) = part.next().await {
                visit(FormPiece::Value(&chunk.map_err(|error| malformed_form(&error))?));
            }
        }
        Ok(())
    };
    form::read_in_memory(content_type, body, read).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    fn key_of(values: &[&str]) -> Result<Option<String>, Code> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        parse_key(&headers).map_err(|problem| problem.code())
    }

    #[test]
    fn a_key_is_a_single_header_of_visible_ascii() {
        assert_eq!(key_of(&[]), Ok(None));
        let longest = "x".repeat(KEY_MAX);
        for good in ["1", "a-b_c", "\"8e03978e-40d5-43dd-bc93-6894a57f9324\"", &longest] {
            assert_eq!(key_of(&[good]), Ok(Some(good.to_owned())));
        }
        for bad in ["", "a b", "ä", &format!("{longest}x")] {
            assert_eq!(key_of(&[bad]), Err(Code::MalformedRequest), "{bad}");
        }
        assert_eq!(key_of(&["a", "a"]), Err(Code::MalformedRequest));
    }

    #[actix_web::test]
    async fn the_fingerprint_covers_every_part_of_a_request() {
        let request = |uri: &str, kind: &'static str| {
            TestRequest::post().uri(uri).insert_header((CONTENT_TYPE, kind)).to_http_request()
        };
        let request_for = async |caller: &str, key, request: HttpRequest, body| {
            IdempotentRequest::new(caller, key, &request, Bytes::from_static(body)).await.unwrap()
        };
        let first = request_for("anonymous/192.0.2.1", "k", request("/a?b", "c"), b"d").await;
        for (uri, kind, body) in [("/a?bc", "", b"d"), ("/ab", "c", b"d"), ("/a?b", "c", b"e"), ("/a", "bc", b"d")] {
            let other = request_for("anonymous/192.0.2.1", "k", request(uri, kind), body).await;
            assert_eq!(other.id, first.id);
            assert_ne!(other.fingerprint, first.fingerprint, "{uri} {kind}");
        }

        let user = "user/00000000-0000-0000-0000-000000000000";
        for (caller, key) in [(user, "k"), ("anonymous/192.0.2.2", "k"), ("anonymous/192.0.2.1", "l")] {
            let other = request_for(caller, key, request("/a?b", "c"), b"d").await;
            assert_eq!(other.fingerprint, first.fingerprint);
            assert_ne!(other.id, first.id, "{caller} {key}");
        }
    }

    #[actix_web::test]
    async fn the_fingerprint_of_a_form_ignores_the_boundary() {
        let fingerprint_of = async |boundary: &str, parts: &[(&str, &str)]| {
            let part = |(name, value): &(&str, &str)| {
                format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
            };
            let body = parts.iter().map(part).collect::<String>() + &format!("--{boundary}--\r\n");
            let kind = format!("multipart/form-data; boundary={boundary}");
            let request = TestRequest::post().uri("/a").insert_header((CONTENT_TYPE, kind)).to_http_request();
            IdempotentRequest::new("anonymous/192.0.2.1", "k", &request, body.into()).await.unwrap().fingerprint
        };
        let first = fingerprint_of("x", &[("prompt", "calm"), ("duration", "2")]).await;
        assert_eq!(fingerprint_of("y", &[("prompt", "calm"), ("duration", "2")]).await, first);
        // Stored fingerprints keep their meaning: the length and text of each name and value.
        let texts = ["POST", "/a", "", "multipart/form-data", "prompt", "calm", "duration", "2"];
        let hash = texts.iter().fold(Sha256::new(), |hash, text| chain_text(hash, text.as_bytes()));
        assert_eq!(first, Digest(hash.finalize().into()));

        for other in [
            &[("prompt", "calm"), ("duration", "3")][..],
            &[("prompt", "calm")],
            &[("prompt", "calmd"), ("uration", "2")],
            &[("duration", "2"), ("prompt", "calm")],
        ] {
            assert_ne!(fingerprint_of("x", other).await, first, "{other:?}");
        }
    }
}
