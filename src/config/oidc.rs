//! Settings of the `OpenID` Connect issuer whose tokens are accepted.

use super::setting_kinds::{issuer, label, url};
use super::settings::SettingsReader;

/// An issuer and the audience of this service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// URL of the issuer, exactly as in its tokens.
    pub issuer: String,
    pub audience: String,
    /// Client id of the console, which offers no sign-in at the issuer if `None`.
    pub client_id: Option<String>,
    /// URL of the issuer's keys; discovered if `None`.
    pub jwks_url: Option<String>,
}

impl OidcSettings {
    /// Reads `auth.oidc`; `None` without an issuer.
    pub(super) fn read(reader: &mut SettingsReader) -> Option<Self> {
        let issuer = reader.read("auth.oidc.issuer", &issuer());
        let audience = reader.read("auth.oidc.audience", &label());
        let client_id = reader.read("auth.oidc.client_id", &label());
        let jwks_url = reader.read("auth.oidc.jwks_url", &url());
        let issuer = issuer?;
        if audience.is_none() {
            reader.reject("auth.oidc.audience", "set if auth.oidc.issuer is");
        }
        Some(Self { issuer, audience: audience?, client_id, jwks_url })
    }
}
