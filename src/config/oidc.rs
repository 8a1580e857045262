//! The settings of an issuer whose tokens are credentials.

use super::check::{issuer, label, url};
use super::settings::Reader;

/// An issuer, and what this service is to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// Exactly as it stands in its tokens.
    pub issuer: String,
    pub audience: String,
    /// Discovered when there is none.
    pub jwks_url: Option<String>,
}

impl OidcSettings {
    /// Those of `auth.oidc`; none without an issuer.
    pub(super) fn read(reader: &mut Reader) -> Option<Self> {
        let named = reader.read("auth.oidc.issuer", &issuer());
        let audience = reader.read("auth.oidc.audience", &label());
        let jwks_url = reader.read("auth.oidc.jwks_url", &url());
        let issuer = named?;
        if audience.is_none() {
            reader.refuse("auth.oidc.audience", "set, because auth.oidc.issuer is");
        }
        Some(Self { issuer, audience: audience?, jwks_url })
    }
}
