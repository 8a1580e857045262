//! Location of an issuer's keys: the configured URL, or the one in the discovery document (`OpenID` Connect Discovery,
//! 4).

use serde::Deserialize;

use super::jwks::KeySet;
use crate::outbound::address::AddressRules;
use crate::outbound::client::ClientFailure;
use crate::outbound::document::Documents;

/// Path of the discovery document, relative to the issuer's URL.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// An issuer, as configured.
#[derive(Debug, Clone)]
pub struct IssuerPlace {
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
pub struct PlaceError(#[from] ClientFailure);

/// Client of one issuer.
pub struct Issuer {
    place: IssuerPlace,
    documents: Documents,
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl Issuer {
    pub fn new(place: IssuerPlace) -> Result<Self, PlaceError> {
        let named = [Some(&place.issuer), place.jwks_url.as_ref()].into_iter().flatten().map(String::as_str);
        let documents = Documents::new(named, place.rules.clone())?;
        Ok(Self { place, documents })
    }

    /// Fetches the issuer's current keys.
    ///
    /// # Errors
    /// A message for operators.
    pub async fn keys(&self) -> Result<KeySet, String> {
        let url = match &self.place.jwks_url {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        let document = self.documents.get(&url).await.map_err(|error| format!("the keys at {url}: {error}"))?;
        KeySet::parse(&document).map_err(|reason| format!("the keys at {url}: {reason}"))
    }

    async fn discover(&self) -> Result<String, String> {
        let url = format!("{}{DISCOVERY}", self.place.issuer.trim_end_matches('/'));
        let document = self.documents.get(&url).await.map_err(|error| format!("the document at {url}: {error}"))?;
        let said: Discovery =
            serde_json::from_slice(&document).map_err(|_| format!("the document at {url} is not one of an issuer"))?;

        if said.issuer != self.place.issuer {
            return Err(format!("the document at {url} is of another issuer, {}", said.issuer));
        }
        if self.place.issuer.starts_with("https:") && !said.jwks_uri.starts_with("https:") {
            return Err(format!("the document at {url} names keys that are not at an https URL"));
        }

        Ok(said.jwks_uri)
    }
}
