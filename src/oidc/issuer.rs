//! Location of an issuer's keys: the configured URL, or the one in the discovery document (`OpenID` Connect Discovery,
//! 4).

use serde::Deserialize;

use super::jwks::JwkSet;
use crate::outbound::address::AddressRules;
use crate::outbound::client::ClientSetupError;
use crate::outbound::document::DocumentFetcher;

/// Path of the discovery document, relative to the issuer's URL.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// An issuer, as configured.
#[derive(Debug, Clone)]
pub struct IssuerConfig {
    /// Exactly as in its tokens.
    pub issuer: String,
    /// URL of the keys; discovered if absent.
    pub jwks_url: Option<String>,
    /// Rules for a URL on another host, named by the discovery document.
    pub rules: AddressRules,
}

/// Reason why an issuer cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct IssuerSetupError(#[from] ClientSetupError);

/// Client of one issuer.
pub struct IssuerClient {
    config: IssuerConfig,
    documents: DocumentFetcher,
}

#[derive(Deserialize)]
struct DiscoveryDocument {
    issuer: String,
    jwks_uri: String,
}

impl IssuerClient {
    /// Creates a client that fetches the issuer's documents.
    ///
    /// # Errors
    /// If the HTTP client cannot be set up.
    pub fn new(config: IssuerConfig) -> Result<Self, IssuerSetupError> {
        let configured_urls = std::iter::once(&config.issuer).chain(&config.jwks_url).map(String::as_str);
        let documents = DocumentFetcher::new(configured_urls, config.rules.clone())?;
        Ok(Self { config, documents })
    }

    /// Fetches the issuer's current keys.
    ///
    /// # Errors
    /// A message for operators.
    pub async fn fetch_keys(&self) -> Result<JwkSet, String> {
        let url = match &self.config.jwks_url {
            Some(url) => url.clone(),
            None => self.discover_jwks_url().await?,
        };
        let document = self.documents.get(&url).await.map_err(|error| format!("no keys from {url}: {error}"))?;
        JwkSet::parse(&document).map_err(|reason| format!("invalid keys at {url}: {reason}"))
    }

    async fn discover_jwks_url(&self) -> Result<String, String> {
        let url = format!("{}{DISCOVERY}", self.config.issuer.trim_end_matches('/'));
        let document = self.documents.get(&url).await.map_err(|error| format!("no document from {url}: {error}"))?;
        let discovery: DiscoveryDocument =
            serde_json::from_slice(&document).map_err(|_| format!("{url} is not a discovery document"))?;

        if discovery.issuer != self.config.issuer {
            return Err(format!("the discovery document at {url} names another issuer, {}", discovery.issuer));
        }
        if self.config.issuer.starts_with("https:") && !discovery.jwks_uri.starts_with("https:") {
            return Err(format!("the jwks_uri in {url} is not an https URL"));
        }

        Ok(discovery.jwks_uri)
    }
}
