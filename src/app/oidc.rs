//! The `OpenID` Connect issuer whose tokens are accepted, if one is configured.

use super::StartError;
use super::reactors::address_rules;
use crate::config::Settings;
use crate::media::archive::upload_token::UploadKey;
use crate::oidc::{IssuerConfig, OidcAuthenticator, PURPOSE};
use crate::telemetry::metrics::Metrics;

/// Returns the issuer. The ids of its users are derived from the key of the upload links.
pub(super) fn build_oidc(
    settings: &Settings,
    key: &UploadKey,
    metrics: &Metrics,
) -> Result<Option<OidcAuthenticator>, StartError> {
    let Some(oidc_settings) = settings.auth.oidc.clone() else { return Ok(None) };
    let config =
        IssuerConfig { issuer: oidc_settings.issuer, jwks_url: oidc_settings.jwks_url, rules: address_rules(settings) };
    let oidc = OidcAuthenticator::new(config, oidc_settings.audience, key.derive_key(PURPOSE), metrics.clone());
    oidc.map(Some).map_err(|error| StartError::part("the OIDC issuer (auth.oidc)", &error))
}
