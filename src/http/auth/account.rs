//! The account that a request counts against.

use std::net::{IpAddr, Ipv4Addr};

use actix_web::HttpRequest;

use crate::http::api::sign_in::FormerAccounts;
use crate::http::auth::authorize::Identity;
use crate::http::limits::rate_limit::TrustedProxies;
use crate::http::pipeline::RequestContext;
use crate::quota::Account;

/// Returns the account behind a request. A publisher's token counts as the user who issued it.
#[must_use]
pub fn account_of(identity: &Identity, request: &HttpRequest, proxies: &TrustedProxies) -> Account {
    match identity {
        // A person who erases an account and signs in again keeps the quotas of the first account.
        Identity::User { profile, .. } => {
            Account::User(FormerAccounts::from_request(request).first().copied().unwrap_or(profile.id))
        }
        Identity::Token { issued_by, .. } => Account::User(*issued_by),
        Identity::Anonymous => Account::from_address(client_address(request, proxies)),
    }
}

/// Returns the client's address, as seen through trusted proxies.
pub fn client_address(request: &HttpRequest, proxies: &TrustedProxies) -> IpAddr {
    let peer = request.peer_addr();
    peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| proxies.client_ip(peer, request.headers()))
}

impl RequestContext {
    /// Returns the account that this request counts against.
    #[must_use]
    pub fn account(&self) -> Account {
        account_of(self.identity(), &self.request, &self.services().options.proxies)
    }
}
