//! CSRF protection: rejects writes from pages of other origins. CORS only keeps a page from reading the response; its
//! browser still sends forms and bodies without a content type. The check runs before routing.

use actix_web::http::Method;
use actix_web::http::header::{ACCESS_CONTROL_REQUEST_METHOD, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};

use crate::http::response::error::{Code, Problem};
use crate::http::server::CorsOrigins;

/// Methods for pages of any origin under [`CorsOrigins::Any`].
pub const READ_METHODS: [Method; 2] = [Method::GET, Method::HEAD];
/// Methods for pages of an allowed origin.
pub const ALL_METHODS: [Method; 5] = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE];

/// Header in which browsers compare the origin of the page with that of the request; pages cannot forge it.
pub const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Maximum number of characters of a client's header value that an error message repeats.
const SHOWN_CHARS: usize = 100;

/// Origins that may send writes.
pub struct OriginPolicy {
    cors_origins: CorsOrigins,
    /// Origin of the public URL.
    own_origin: String,
}

impl OriginPolicy {
    pub fn new(cors_origins: CorsOrigins, public_url: &str) -> Self {
        let own_origin = url::Url::parse(public_url).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
        Self { cors_origins, own_origin }
    }

    /// Returns the configured CORS origins.
    pub fn cors_origins(&self) -> &CorsOrigins {
        &self.cors_origins
    }

    /// Returns the error for a write from a page of another origin.
    pub fn reject_write(&self, method: &Method, headers: &HeaderMap) -> Option<Problem> {
        let is_allowed = match headers.get(ORIGIN) {
            Some(origin) => self.is_configured(origin) || self.is_same_origin(origin, headers),
            None => !is_cross_site(headers),
        };

        if is_allowed || READ_METHODS.contains(method) || *method == Method::OPTIONS {
            return None;
        }

        let detail = format!(
            "pages of {} may not send {method}: their origin is not in `cors.allowed_origins`",
            headers.get(ORIGIN).map_or_else(|| "an unknown origin".to_owned(), truncate_for_message)
        );
        Some(Problem::new(Code::Forbidden, detail))
    }

    /// Returns the error for a preflight request that CORS does not allow.
    pub fn reject_preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Problem> {
        let origin = headers.get(ORIGIN)?;
        let requested_method = headers.get(ACCESS_CONTROL_REQUEST_METHOD)?;
        let allowed: &[Method] = match &self.cors_origins {
            CorsOrigins::Any => &READ_METHODS,
            CorsOrigins::Only(_) if self.is_configured(origin) => &ALL_METHODS,
            CorsOrigins::Only(_) => &[],
        };

        if *method != Method::OPTIONS
            || allowed.iter().any(|method| method.as_str().as_bytes() == requested_method.as_bytes())
        {
            return None;
        }

        let detail = format!(
            "pages of {} may not send {} (see `cors.allowed_origins`)",
            truncate_for_message(origin),
            truncate_for_message(requested_method)
        );
        Some(Problem::new(Code::Forbidden, detail))
    }

    /// Returns `true` if the settings name the origin. [`CorsOrigins::Any`] names none.
    fn is_configured(&self, origin: &HeaderValue) -> bool {
        match &self.cors_origins {
            CorsOrigins::Any => false,
            CorsOrigins::Only(origins) => origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()),
        }
    }

    /// Returns `true` if a page belongs to this service. `Sec-Fetch-Site` takes precedence over `Host`, which a proxy
    /// may have changed. Browsers do not send `Sec-Fetch-Site` over plain HTTP to another machine.
    fn is_same_origin(&self, origin: &HeaderValue, headers: &HeaderMap) -> bool {
        if origin.as_bytes() == self.own_origin.as_bytes() {
            return true;
        }
        match headers.get(SEC_FETCH_SITE) {
            Some(site) => site.as_bytes() == b"same-origin",
            None => matches_host(origin, headers.get(HOST)),
        }
    }
}

/// Returns `true` if `Sec-Fetch-Site` names another origin. A proxy may have removed `Origin`.
fn is_cross_site(headers: &HeaderMap) -> bool {
    headers.get(SEC_FETCH_SITE).is_some_and(|site| ["cross-site", "same-site"].iter().any(|other| site == other))
}

/// Returns `true` if the request was sent to `origin`, judging by the `Host` header. A proxy may have ended TLS, so
/// both schemes match.
fn matches_host(origin: &HeaderValue, host: Option<&HeaderValue>) -> bool {
    let (Ok(origin), Some(Ok(host))) = (origin.to_str(), host.map(HeaderValue::to_str)) else { return false };
    let (authority, port) = match origin.split_once("://") {
        Some(("http", authority)) => (authority, ":80"),
        Some(("https", authority)) => (authority, ":443"),
        _ => return false,
    };
    // Browsers omit the default port; proxies may add it.
    !authority.is_empty()
        && (authority.eq_ignore_ascii_case(host)
            || host.strip_suffix(port).is_some_and(|host| authority.eq_ignore_ascii_case(host)))
}

/// Returns a client's header value, truncated for error messages.
fn truncate_for_message(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).chars().take(SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `true` if a page of `origin` may send a POST with these further headers.
    fn may_post(policy: &OriginPolicy, origin: &'static str, others: &[(HeaderName, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(ORIGIN, HeaderValue::from_static(origin));
        for (name, value) in others {
            headers.insert(name.clone(), HeaderValue::from_static(value));
        }
        policy.reject_write(&Method::POST, &headers).is_none()
    }

    fn policy(origins: &[&str]) -> OriginPolicy {
        let origins = CorsOrigins::Only(origins.iter().map(|&origin| origin.to_owned()).collect());
        OriginPolicy::new(origins, "https://media.example.org/base")
    }

    #[test]
    fn same_origin_is_recognized_by_public_url_fetch_metadata_or_host() {
        let policy = policy(&[]);
        for (origin, others) in [
            ("https://media.example.org", vec![(HOST, "127.0.0.1:8080")]),
            ("https://media.example.org", vec![(HOST, "127.0.0.1:8080"), (SEC_FETCH_SITE, "cross-site")]),
            ("http://localhost:8080", vec![(HOST, "localhost:8080")]),
            ("http://[::1]:8080", vec![(HOST, "[::1]:8080")]),
            ("https://other.example", vec![(HOST, "Other.Example")]),
            ("https://other.example", vec![(HOST, "other.example:443")]),
            ("http://other.example", vec![(HOST, "other.example:80")]),
            ("https://other.example", vec![(HOST, "upstream"), (SEC_FETCH_SITE, "same-origin")]),
            ("null", vec![(HOST, "upstream"), (SEC_FETCH_SITE, "same-origin")]),
        ] {
            assert!(may_post(&policy, origin, &others), "{origin} {others:?}");
        }
    }

    #[test]
    fn other_origins_are_cross_origin() {
        let policy = policy(&[]);
        for (origin, others) in [
            ("null", vec![(HOST, "null")]),
            ("", vec![(HOST, "")]),
            ("https://", vec![(HOST, "")]),
            ("http://media.example.org", vec![(HOST, "127.0.0.1:8080")]),
            ("https://media.example.org.evil.example", vec![(HOST, "media.example.org")]),
            ("http://localhost:8081", vec![(HOST, "localhost:8080")]),
            ("http://localhost", vec![(HOST, "localhost:8080")]),
            ("http://other.example", vec![(HOST, "other.example:443")]),
            ("file://other.example", vec![(HOST, "other.example")]),
            ("https://evil.example", vec![]),
            ("https://evil.example", vec![(HOST, "other.example"), (SEC_FETCH_SITE, "none")]),
            ("http://other.example", vec![(HOST, "other.example"), (SEC_FETCH_SITE, "cross-site")]),
        ] {
            assert!(!may_post(&policy, origin, &others), "{origin} {others:?}");
        }
    }

    #[test]
    fn fetch_metadata_decides_without_an_origin_and_programs_are_exempt() {
        let policy = policy(&[]);
        let may_write = |site: Option<&'static str>| {
            let headers: HeaderMap =
                site.map(|site| (SEC_FETCH_SITE, HeaderValue::from_static(site))).into_iter().collect();
            policy.reject_write(&Method::POST, &headers).is_none()
        };
        assert!([None, Some("same-origin"), Some("none")].into_iter().all(may_write));
        assert!(!["cross-site", "same-site"].into_iter().any(|site| may_write(Some(site))));
    }

    #[test]
    fn listed_origins_may_write_and_the_wildcard_may_not() {
        let policy = policy(&["https://app.example"]);
        assert!(may_post(&policy, "https://app.example", &[(SEC_FETCH_SITE, "cross-site")]));
        assert!(!may_post(&policy, "https://app.example:8443", &[]));
        let any_origin = OriginPolicy::new(CorsOrigins::Any, "http://127.0.0.1:8080");
        assert!(!may_post(&any_origin, "https://app.example", &[]));
        assert!(!may_post(&any_origin, "*", &[]));
    }

    #[test]
    fn echoed_origins_are_truncated() {
        let long = HeaderValue::from_str(&format!("https://{}", "x".repeat(5000))).unwrap();
        assert_eq!(truncate_for_message(&long).len(), SHOWN_CHARS);
    }
}
