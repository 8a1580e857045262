//! Check of the `Host` header before routing.
//!
//! Protects a service on loopback against DNS rebinding: a page whose name resolves to this machine is same-origin to
//! the browser, but its requests carry the attacker's name in `Host`, which pages cannot change.

use std::net::{IpAddr, SocketAddr};

use actix_web::dev::ServiceRequest;
use actix_web::http::header::{HOST, HeaderValue};
use actix_web::http::{Method, Version};

use crate::http::response::error::{Code, Problem};

/// Paths that orchestrators and metric collectors request by the machine's address.
const PROBES: [&str; 3] = ["/health", "/ready", "/metrics"];
/// Maximum number of characters of a rejected host in the error message.
const SHOWN_CHARS: usize = 100;

/// Hosts by which clients may address the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedHosts {
    /// Any host: the service cannot know its public names, or the operator allows all.
    Any,
    /// `localhost`, loopback literals and `names`.
    Listed {
        /// Host names in lower case, without ports; IPv6 literals without brackets.
        names: Vec<String>,
        /// `true` if probes may use any host. `false` on loopback, where a page could read the responses.
        open_to_probes: bool,
    },
}

impl AllowedHosts {
    /// Derives the hosts of a service that listens on `listen`. `configured` is the setting `allowed_hosts`; an entry
    /// `*` allows any host. Beyond loopback, a service with neither a public URL nor configured hosts accepts any.
    #[must_use]
    pub fn new(listen: SocketAddr, public_url: Option<&str>, configured: &[String]) -> Self {
        let is_local = listen.ip().to_canonical().is_loopback();
        let is_unknown = !is_local && public_url.is_none() && configured.is_empty();
        if is_unknown || configured.iter().any(|name| name == "*") {
            return Self::Any;
        }

        let public_host = public_url.and_then(|url| Some(url::Url::parse(url).ok()?.host_str()?.to_owned()));
        let own_address = (!listen.ip().is_unspecified()).then(|| listen.ip().to_canonical().to_string());
        let names = configured.iter().cloned().chain(public_host).chain(own_address);
        Self::Listed {
            names: names.map(|name| normalize_host(&name).to_lowercase()).collect(),
            open_to_probes: !is_local,
        }
    }

    /// Checks the hosts in the request target and in the `Host` header.
    ///
    /// # Errors
    /// 421 if a host is not allowed; 400 without a host, except for HTTP/1.0 reads.
    pub fn check(&self, request: &ServiceRequest) -> Result<(), Problem> {
        let Self::Listed { open_to_probes, .. } = self else { return Ok(()) };
        if *open_to_probes && PROBES.contains(&request.path()) {
            return Ok(());
        }

        let target_host = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        let host_headers = request.headers().get_all(HOST).map(HeaderValue::as_bytes);
        let mut has_host = false;
        for host in target_host.into_iter().chain(host_headers) {
            has_host = true;
            if !std::str::from_utf8(host).is_ok_and(|host| self.allows(host)) {
                return Err(misdirected(host));
            }
        }

        let may_omit = request.version() <= Version::HTTP_10 && [Method::GET, Method::HEAD].contains(request.method());
        if has_host || may_omit {
            return Ok(());
        }
        Err(Problem::new(Code::MalformedRequest, "the request has no Host header"))
    }

    /// Returns `true` if a host is allowed; ignores the port.
    fn allows(&self, host: &str) -> bool {
        let Self::Listed { names, .. } = self else { return true };
        let Some(name) = without_port(host) else { return false };
        let name = normalize_host(name);
        is_local(name) || names.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }
}

/// Returns `true` for `localhost` and loopback literals; `name` has neither port nor brackets.
#[must_use]
pub fn is_local(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Returns the host without its port; `None` if the port is not a number.
fn without_port(host: &str) -> Option<&str> {
    let end = host.rfind(']').map_or(0, |bracket| bracket + 1);
    let Some(colon) = host[end..].find(':') else { return Some(host) };
    let (name, port) = host.split_at(end + colon);
    port[1..].bytes().all(|byte| byte.is_ascii_digit()).then_some(name)
}

/// Removes the brackets of an IPv6 literal, or a trailing dot.
fn normalize_host(name: &str) -> &str {
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    inner.unwrap_or_else(|| name.strip_suffix('.').unwrap_or(name))
}

fn misdirected(host: &[u8]) -> Problem {
    let displayed: String = String::from_utf8_lossy(host).chars().take(SHOWN_CHARS).collect();
    let detail = format!(
        "the host \"{displayed}\" is not served here; allowed hosts are localhost, loopback addresses and the host \
         of `public_url`; the operator can add others to `allowed_hosts`"
    );
    Problem::new(Code::MisdirectedRequest, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(listen: &str, public_url: Option<&str>, configured: &[&str]) -> AllowedHosts {
        let configured: Vec<_> = configured.iter().map(|&name| name.to_owned()).collect();
        AllowedHosts::new(listen.parse().unwrap(), public_url, &configured)
    }

    #[test]
    fn on_loopback_only_local_names_and_the_public_host_are_allowed() {
        let hosts = hosts("127.0.0.1:8080", Some("https://Media.Example.org/base"), &["proxy.internal"]);

        for good in [
            "localhost",
            "LOCALHOST:8080",
            "localhost.",
            "127.0.0.1",
            "127.0.0.1:8080",
            "127.8.9.1:1",
            "[::1]",
            "[::1]:8080",
            "[::ffff:127.0.0.1]:80",
            "media.example.org",
            "MEDIA.example.org:443",
            "proxy.internal",
        ] {
            assert!(hosts.allows(good), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "localhost.evil.example",
            "evil.example:localhost",
            "evil.example/localhost",
            "127.0.0.1.evil.example",
            "127.0.0.1@evil.example",
            "evil.example@127.0.0.1",
            "10.0.0.1",
            "[::2]",
            "::1:x",
            "[::1]x",
            "media.example.org.evil.example",
            "localhost:80:80",
            "localhost:x",
        ] {
            assert!(!hosts.allows(bad), "{bad}");
        }
    }

    #[test]
    fn beyond_loopback_configured_names_are_allowed() {
        assert_eq!(hosts("0.0.0.0:80", None, &[]), AllowedHosts::Any);
        assert_eq!(hosts("127.0.0.1:80", None, &["*"]), AllowedHosts::Any);

        for known in [
            hosts("0.0.0.0:80", Some("http://[2001:db8::1]:81"), &[]),
            hosts("[2001:db8::1]:80", None, &["media.example"]),
        ] {
            assert!(known.allows("[2001:db8::1]:80") && known.allows("localhost"), "{known:?}");
            assert!(!known.allows("evil.example") && !known.allows("10.0.0.1"), "{known:?}");
        }
    }
}
