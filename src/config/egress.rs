//! Settings of outbound connections, and the resulting rule for private addresses.

use std::net::SocketAddr;

use super::setting_kinds::{choice, networks};
use super::settings::{Settings, SettingsReader};
use crate::http::middleware::allowed_hosts::is_local;
use crate::outbound::address::AllowEntry;

/// Destinations that the service may connect to.
#[derive(Debug, Clone)]
pub struct EgressSettings {
    pub private: PrivateAccess,
    /// Destinations that are allowed regardless of `private`.
    pub allow: Vec<AllowEntry>,
}

/// Access to loopback and private addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivateAccess {
    /// Allowed only while the service is reachable from this machine alone.
    Auto,
    Allow,
    Deny,
}

/// Effective rule for private addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrivateRule {
    pub is_allowed: bool,
    /// The decisive setting.
    pub reason: &'static str,
}

impl EgressSettings {
    pub(super) fn read(reader: &mut SettingsReader) -> Self {
        let access = [("auto", PrivateAccess::Auto), ("allow", PrivateAccess::Allow), ("deny", PrivateAccess::Deny)];
        Self {
            private: reader.read("egress.private", &choice(access)),
            allow: reader.read("egress.allow", &networks()),
        }
    }
}

impl Settings {
    /// Returns the rule for loopback and private addresses that are not listed in `egress.allow`.
    ///
    /// `auto` allows them only if no other machine can reach the service. The requests need not be inspected: a
    /// listener on loopback without a public URL and without further `allowed_hosts` rejects every non-local `Host`
    /// before routing (`http::middleware::allowed_hosts`), so such a request never creates a task.
    #[must_use]
    pub fn private_rule(&self) -> PrivateRule {
        let (is_allowed, reason) = match self.egress.private {
            PrivateAccess::Allow => (true, "egress.private is allow"),
            PrivateAccess::Deny => (false, "egress.private is deny"),
            PrivateAccess::Auto if !is_loopback(self.listen) => (false, "listen is not on loopback"),
            PrivateAccess::Auto if !self.public_url.as_deref().is_none_or(leads_to_loopback) => {
                (false, "public_url is not on loopback")
            }
            PrivateAccess::Auto if !self.limits.trusted_proxies.is_empty() => (false, "limits.trusted_proxies is set"),
            PrivateAccess::Auto if !self.allowed_hosts.iter().all(|host| is_local(host)) => {
                (false, "allowed_hosts names other hosts")
            }
            PrivateAccess::Auto => (true, "the service is local"),
        };

        PrivateRule { is_allowed, reason }
    }
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

fn leads_to_loopback(url: &str) -> bool {
    let host = url::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
    host.is_some_and(|host| is_local(host.trim_start_matches('[').trim_end_matches(']')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::network::Network;

    /// Returns the rule of the default settings after `change`.
    fn rule_after(change: impl FnOnce(&mut Settings)) -> PrivateRule {
        let mut settings = Settings::default();
        change(&mut settings);
        settings.private_rule()
    }

    #[test]
    fn only_a_purely_local_service_reaches_private_addresses() {
        assert_eq!(rule_after(|_| {}), PrivateRule { is_allowed: true, reason: "the service is local" });
        assert!(rule_after(|settings| settings.listen = "[::1]:0".parse().unwrap()).is_allowed);
        for url in ["http://localhost:8080", "http://127.0.0.1/base", "http://[::1]:1"] {
            assert!(rule_after(|settings| settings.public_url = Some(url.to_owned())).is_allowed, "{url}");
        }

        let listen = |address: &'static str| rule_after(|settings| settings.listen = address.parse().unwrap());
        for address in ["0.0.0.0:0", "192.168.0.1:0", "[::]:0"] {
            assert_eq!(listen(address).reason, "listen is not on loopback", "{address}");
        }
        let proxied = rule_after(|settings| settings.public_url = Some("https://media.example".to_owned()));
        assert_eq!(proxied, PrivateRule { is_allowed: false, reason: "public_url is not on loopback" });
        let loopback = vec![Network::parse("127.0.0.1").unwrap()];
        let proxied = rule_after(|settings| settings.limits.trusted_proxies = loopback);
        assert_eq!(proxied, PrivateRule { is_allowed: false, reason: "limits.trusted_proxies is set" });
        let named = rule_after(|settings| settings.allowed_hosts = vec!["*".to_owned()]);
        assert_eq!(named, PrivateRule { is_allowed: false, reason: "allowed_hosts names other hosts" });
    }

    #[test]
    fn allow_and_deny_apply_regardless_of_other_settings() {
        let allowed = rule_after(|settings| {
            settings.egress.private = PrivateAccess::Allow;
            settings.listen = "0.0.0.0:0".parse().unwrap();
            settings.public_url = Some("https://media.example".to_owned());
        });
        assert!(allowed.is_allowed);
        assert!(!rule_after(|settings| settings.egress.private = PrivateAccess::Deny).is_allowed);
    }
}
