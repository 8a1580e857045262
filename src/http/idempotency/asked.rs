//! What makes a request the same one: caller, key, and a fingerprint of everything that it asks for.

use std::future::ready;

use actix_multipart::Multipart;
use actix_web::HttpRequest;
use actix_web::error::PayloadError;
use actix_web::http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use actix_web::web::{self, Bytes};
use futures_util::{StreamExt, stream};
use sha2::{Digest as _, Sha256};

use super::super::error::{Code, Problem};
use crate::domain::value::Digest;

/// The header by which a caller names a request that may come again.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Longest key, in characters.
const KEY_MAX: usize = 255;
/// Bodies of more bytes than this are hashed on a thread of their own.
const HASHED_IN_PLACE_MAX: usize = 128 * 1024;

/// The key of a request.
///
/// # Errors
/// 400 when there is a header that is no key, or more than one.
pub fn key_in(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY);
    let Some(first) = given.next() else { return Ok(None) };
    let key = first.to_str().ok().filter(|key| given.next().is_none() && is_key(key));
    let refusal = || {
        let detail = format!("Idempotency-Key must be one header of 1 to {KEY_MAX} visible ASCII characters");
        Problem::new(Code::MalformedRequest, detail)
    };
    key.map(|key| Some(key.to_owned())).ok_or_else(refusal)
}

fn is_key(text: &str) -> bool {
    (1..=KEY_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A request that may come again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// SHA-256 of caller and key: the key's name in the log and among the answers.
    pub id: Digest,
    /// Caller and key themselves, without which the answer cannot be read.
    pub named: String,
    /// SHA-256 over method, path, query, content type and body; of a form, over its parts.
    pub fingerprint: Digest,
}

impl Asked {
    /// A request whose body has come; `owner` names the caller whose key it is, without a line break.
    ///
    /// # Errors
    /// When the service is stopping.
    pub async fn new(owner: &str, key: &str, request: &HttpRequest, body: Bytes) -> Result<Self, Problem> {
        // A key has no line break, so that no other caller with another key can have the same name.
        let named = format!("{owner}\n{key}");
        let (content_type, body) = match fields_of(request.headers(), &body).await {
            // Programs draw the line between the parts anew each time.
            Some(fields) => (&b"multipart/form-data"[..], fields),
            None => (request.headers().get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes), body),
        };
        let head = [request.method().as_str(), request.uri().path(), request.query_string()].map(str::as_bytes);
        let head = head.into_iter().chain([content_type]).fold(Sha256::new(), |hash, part| {
            // Each with its length, so that nothing moves from one part into the next.
            hash.chain_update((part.len() as u64).to_le_bytes()).chain_update(part)
        });
        let large = body.len() > HASHED_IN_PLACE_MAX;
        let finish = move || Digest(head.chain_update(&body).finalize().into());
        let fingerprint = if large { web::block(finish).await.map_err(Problem::internal)? } else { finish() };
        Ok(Self { id: Digest(Sha256::digest(&named).into()), named, fingerprint })
    }
}

/// The parts of a form, each with its name, in their order; `None` when the body is no form, or none that can be read.
async fn fields_of(headers: &HeaderMap, body: &Bytes) -> Option<Bytes> {
    let is_form = |kind: &HeaderValue| kind.as_bytes().to_ascii_lowercase().starts_with(b"multipart/form-data");
    headers.get(CONTENT_TYPE).filter(|kind| is_form(kind))?;
    let mut parts = Multipart::new(headers, stream::once(ready(Ok::<_, PayloadError>(body.clone()))));
    let mut fields = Vec::new();
    while let Some(part) = parts.next().await {
        let mut part = part.ok()?;
        let name = part.name().unwrap_or_default().to_owned();
        let mut value = Vec::new();
        while let Some(chunk) = part.next().await {
            value.extend_from_slice(&chunk.ok()?);
        }
        for text in [name.as_bytes(), &value] {
            fields.extend_from_slice(&(text.len() as u64).to_le_bytes());
            fields.extend_from_slice(text);
        }
    }
    Some(fields.into())
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
        key_in(&headers).map_err(|problem| problem.code())
    }

    #[test]
    fn a_key_is_one_header_of_visible_characters() {
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
    async fn every_part_of_a_request_makes_it_another() {
        let request = |uri: &str, kind: &'static str| {
            TestRequest::post().uri(uri).insert_header((CONTENT_TYPE, kind)).to_http_request()
        };
        let asked = async |caller: &str, key, request: HttpRequest, body| {
            Asked::new(caller, key, &request, Bytes::from_static(body)).await.unwrap()
        };
        let first = asked("anonymous/192.0.2.1", "k", request("/a?b", "c"), b"d").await;
        for (uri, kind, body) in [("/a?bc", "", b"d"), ("/ab", "c", b"d"), ("/a?b", "c", b"e"), ("/a", "bc", b"d")] {
            let other = asked("anonymous/192.0.2.1", "k", request(uri, kind), body).await;
            assert_eq!(other.id, first.id);
            assert_ne!(other.fingerprint, first.fingerprint, "{uri} {kind}");
        }
        let user = "user/00000000-0000-0000-0000-000000000000";
        for (caller, key) in [(user, "k"), ("anonymous/192.0.2.2", "k"), ("anonymous/192.0.2.1", "l")] {
            let other = asked(caller, key, request("/a?b", "c"), b"d").await;
            assert_eq!(other.fingerprint, first.fingerprint);
            assert_ne!(other.id, first.id, "{caller} {key}");
        }
    }

    #[actix_web::test]
    async fn a_form_is_the_same_whatever_line_is_between_its_parts() {
        let asked = async |boundary: &str, parts: &[(&str, &str)]| {
            let part = |(name, value): &(&str, &str)| {
                format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
            };
            let body = parts.iter().map(part).collect::<String>() + &format!("--{boundary}--\r\n");
            let kind = format!("multipart/form-data; boundary={boundary}");
            let request = TestRequest::post().uri("/a").insert_header((CONTENT_TYPE, kind)).to_http_request();
            Asked::new("anonymous/192.0.2.1", "k", &request, body.into()).await.unwrap().fingerprint
        };
        let first = asked("x", &[("prompt", "calm"), ("duration", "2")]).await;
        assert_eq!(asked("y", &[("prompt", "calm"), ("duration", "2")]).await, first);
        for other in [
            &[("prompt", "calm"), ("duration", "3")][..],
            &[("prompt", "calm")],
            &[("prompt", "calmd"), ("uration", "2")],
            &[("duration", "2"), ("prompt", "calm")],
        ] {
            assert_ne!(asked("x", other).await, first, "{other:?}");
        }
    }
}
