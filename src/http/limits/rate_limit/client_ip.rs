//! Client address behind proxies. Forwarding headers count only if a trusted proxy wrote them, as any client can send
//! them.

use std::net::{IpAddr, SocketAddr};

use actix_web::http::header::{FORWARDED, HeaderMap, HeaderName, X_FORWARDED_FOR};

use crate::domain::network::Network;

/// Forwarding header that the proxies write. The other header is ignored, because a proxy passes it on as the client
/// sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For: client, proxy`
    XForwardedFor,
    /// `Forwarded: for=client, for=proxy` (RFC 7239)
    Forwarded,
}

/// Proxies whose forwarding header is trusted.
#[derive(Debug, Clone)]
pub struct TrustedProxies {
    pub networks: Vec<Network>,
    pub header: ForwardedHeader,
}

impl TrustedProxies {
    /// Returns the client address: the last address in the chain of hops that is not a trusted proxy.
    #[must_use]
    pub fn client_ip(&self, peer: SocketAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.ip().to_canonical();
        if !self.trusts(client) {
            return client;
        }

        for hop in self.hops(headers).into_iter().rev() {
            // Clients without a known address count as the proxy that they came through.
            let Some(address) = hop else { break };
            client = address;
            if !self.trusts(client) {
                break;
            }
        }
        client
    }

    /// Returns `true` for the address of a trusted proxy, in its canonical form.
    #[must_use]
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }

    /// Returns the client address of each hop, first hop first; `None` for a malformed address.
    fn hops(&self, headers: &HeaderMap) -> Vec<Option<IpAddr>> {
        let (name, parse): (HeaderName, fn(&str) -> Option<IpAddr>) = match self.header {
            ForwardedHeader::XForwardedFor => (X_FORWARDED_FOR, parse_address),
            ForwardedHeader::Forwarded => (FORWARDED, parse_forwarded_element),
        };
        // A client may send invalid UTF-8 before the proxy's part of the line; the lossy conversion changes only the
        // client's part.
        let lines: Vec<_> = headers.get_all(name).map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
        lines.iter().flat_map(|line| line.split(',').map(parse)).collect()
    }
}

/// Returns the `for` address of a list element. An element with a quoted comma arrives here in two parts, neither of
/// which has an address; no address contains a comma.
fn parse_forwarded_element(element: &str) -> Option<IpAddr> {
    let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    let value = value.trim();
    parse_address(value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value))
}

/// Parses an address with or without port: `10.0.0.1`, `10.0.0.1:80`, `::1`, `[::1]`, `[::1]:80`.
fn parse_address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()));
    address.ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    fn client_ip(header: ForwardedHeader, peer: &str, lines: &[(HeaderName, &'static str)]) -> String {
        let networks = ["10.0.0.0/8", "::1"].map(|network| Network::parse(network).unwrap()).to_vec();
        let mut headers = HeaderMap::new();
        for (name, line) in lines {
            headers.append(name.clone(), HeaderValue::from_static(line));
        }
        TrustedProxies { networks, header }.client_ip(peer.parse().unwrap(), &headers).to_string()
    }

    fn x_forwarded_for(peer: &str, line: &'static str) -> String {
        client_ip(ForwardedHeader::XForwardedFor, peer, &[(X_FORWARDED_FOR, line)])
    }

    #[test]
    fn forwarded_headers_count_only_from_trusted_proxies() {
        assert_eq!(x_forwarded_for("192.0.2.1:9", "203.0.113.7"), "192.0.2.1");
        assert_eq!(x_forwarded_for("10.0.0.1:9", "203.0.113.7"), "203.0.113.7");
        assert_eq!(x_forwarded_for("[::1]:9", "203.0.113.7"), "203.0.113.7");
        assert_eq!(x_forwarded_for("[::ffff:10.0.0.1]:9", "203.0.113.7"), "203.0.113.7");
        assert_eq!(client_ip(ForwardedHeader::XForwardedFor, "10.0.0.1:9", &[]), "10.0.0.1");
    }

    #[test]
    fn entries_before_the_trusted_proxies_are_ignored() {
        for spoofed in
            ["1.1.1.1, 203.0.113.7", "10.0.0.9, 203.0.113.7", "1.1.1.1,203.0.113.7, 10.0.0.2", "x, 203.0.113.7"]
        {
            assert_eq!(x_forwarded_for("10.0.0.1:9", spoofed), "203.0.113.7", "{spoofed}");
        }
        let two = [(X_FORWARDED_FOR, "1.1.1.1"), (X_FORWARDED_FOR, "203.0.113.7")];
        assert_eq!(client_ip(ForwardedHeader::XForwardedFor, "10.0.0.1:9", &two), "203.0.113.7");
    }

    #[test]
    fn invalid_utf8_does_not_hide_later_entries() {
        let proxies = TrustedProxies {
            networks: vec![Network::parse("10.0.0.0/8").unwrap()],
            header: ForwardedHeader::XForwardedFor,
        };
        let mut headers = HeaderMap::new();
        headers.append(X_FORWARDED_FOR, HeaderValue::from_bytes(b"\xff, 203.0.113.7").unwrap());
        assert_eq!(proxies.client_ip("10.0.0.1:9".parse().unwrap(), &headers).to_string(), "203.0.113.7");
    }

    #[test]
    fn an_invalid_entry_ends_at_the_proxy_that_added_it() {
        for odd in ["", "unknown", "_hidden", "203.0.113.7, ", "999.1.1.1"] {
            assert_eq!(x_forwarded_for("10.0.0.1:9", odd), "10.0.0.1", "{odd}");
        }
        assert_eq!(x_forwarded_for("10.0.0.1:9", "unknown, 10.0.0.2"), "10.0.0.2");
    }

    #[test]
    fn the_forwarded_header_is_read_if_configured() {
        let forwarded = |line| client_ip(ForwardedHeader::Forwarded, "10.0.0.1:9", &[(FORWARDED, line)]);
        for line in [
            "for=203.0.113.7",
            "For=\"203.0.113.7:4711\";proto=https;by=10.0.0.1",
            "for=1.1.1.1, proto=https;for=203.0.113.7",
            "for=203.0.113.7, for=10.0.0.2",
        ] {
            assert_eq!(forwarded(line), "203.0.113.7", "{line}");
        }
        assert_eq!(forwarded("for=\"[2001:db8::17]:4711\""), "2001:db8::17");
        assert_eq!(forwarded("for=\"_a,b\""), "10.0.0.1");
        assert_eq!(forwarded("proto=https"), "10.0.0.1");
    }

    #[test]
    fn the_unconfigured_header_is_ignored() {
        let both = [(FORWARDED, "for=1.1.1.1"), (X_FORWARDED_FOR, "203.0.113.7")];
        assert_eq!(client_ip(ForwardedHeader::XForwardedFor, "10.0.0.1:9", &both), "203.0.113.7");
        assert_eq!(client_ip(ForwardedHeader::Forwarded, "10.0.0.1:9", &both), "1.1.1.1");
    }
}
