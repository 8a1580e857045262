//! Fetches small documents that the service itself needs. Hosts named by the operator may have any address; hosts that
//! a fetched document refers to are subject to the address rules.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use url::Url;

use super::address::{AddressRules, AllowEntry};
use super::client::{CallFailure, ClientLimits, ClientSetupError, OutboundClient};

const LIMITS: ClientLimits =
    ClientLimits { connect: Duration::from_secs(5), total: Duration::from_secs(10), body_bytes: 512 * 1024 };

/// Reason why a document could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentFailure {
    #[error(transparent)]
    Call(#[from] CallFailure),
    #[error("the server responded with status {0}")]
    Status(u16),
}

/// Fetches documents. Cheap to clone.
#[derive(Clone)]
pub struct DocumentFetcher {
    /// Hosts that may have any address.
    named_hosts: Vec<String>,
    named_client: OutboundClient,
    restricted_client: OutboundClient,
}

impl DocumentFetcher {
    /// Creates a fetcher that allows any address for the hosts of `urls`, and applies `rules` to other hosts.
    ///
    /// # Errors
    /// If the client cannot be set up.
    pub fn new<'u>(urls: impl IntoIterator<Item = &'u str>, rules: AddressRules) -> Result<Self, ClientSetupError> {
        let named_hosts: Vec<_> = urls.into_iter().filter_map(host_of).collect();
        let allow = named_hosts.iter().filter_map(|host| AllowEntry::parse(host).ok()).collect();
        let unrestricted = AddressRules { allow_private: true, allow };
        Ok(Self {
            named_hosts,
            named_client: OutboundClient::new(unrestricted, LIMITS)?,
            restricted_client: OutboundClient::new(rules, LIMITS)?,
        })
    }

    /// Downloads the document at a URL.
    ///
    /// # Errors
    /// Returns [`DocumentFailure`] if the rules forbid the call, no response came within the limits, or its status is
    /// not 200.
    pub async fn get(&self, url: &str) -> Result<Bytes, DocumentFailure> {
        let is_named = host_of(url).is_some_and(|host| self.named_hosts.contains(&host));
        let client = if is_named { &self.named_client } else { &self.restricted_client };
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        // Documents are so small that they need no buffer budget.
        let (head, bytes) = client.get(url, headers, |_| true).await?;
        if head.status == 200 { Ok(bytes) } else { Err(DocumentFailure::Status(head.status)) }
    }
}

fn host_of(url: &str) -> Option<String> {
    Url::parse(url).ok()?.host_str().map(str::to_owned)
}
