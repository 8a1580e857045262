//! Signed tokens (RFC 7515, RFC 7519) and their checks (RFC 8725). Pure: the caller supplies keys and time.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::jwks::{JwkSet, SignatureCheck};
use crate::domain::value::Timestamp;

/// Maximum size of a token. Only its identity claims are needed; groups and roles may make it larger.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Tolerated clock skew in seconds (contract 3).
const CLOCK_SKEW_SECONDS: f64 = 60.0;
/// Maximum length of a subject in characters (`OpenID` Connect Core, 2).
const SUBJECT_MAX: usize = 255;

/// Supported signature algorithms. `none` and shared-secret algorithms are excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwtAlgorithm {
    Rs256,
    Es256,
}

/// Required issuer and audience.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRequirements {
    pub issuer: String,
    pub audience: String,
}

/// Identity claims of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcIdentity {
    /// Permanent identifier of the person at the issuer.
    pub subject: String,
    pub name: Option<String>,
    /// Absent if the issuer says that the address is not verified.
    pub email: Option<String>,
}

/// A well-formed token. No claim may be trusted before [`SignedJwt::validate_claims`] and
/// [`SignedJwt::verify_signature`].
#[derive(Debug)]
pub struct SignedJwt<'t> {
    algorithm: JwtAlgorithm,
    key_id: Option<String>,
    signing_input: &'t str,
    signature: Vec<u8>,
    claims: JwtClaims,
}

/// Header of a token. A duplicate member makes the token invalid, because serde rejects it.
#[derive(Deserialize)]
struct JwtHeader {
    alg: String,
    kid: Option<String>,
    crit: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct JwtClaims {
    iss: String,
    sub: String,
    aud: JwtAudience,
    exp: f64,
    nbf: Option<f64>,
    name: Option<serde_json::Value>,
    preferred_username: Option<serde_json::Value>,
    email: Option<serde_json::Value>,
    email_verified: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum JwtAudience {
    One(String),
    Many(Vec<String>),
}

impl<'t> SignedJwt<'t> {
    /// Parses a token.
    ///
    /// # Errors
    /// Describes the first defect of its form.
    pub fn parse(text: &'t str) -> Result<Self, &'static str> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err("the token is too large");
        }
        let (signing_input, signature) = text.rsplit_once('.').ok_or("not three parts")?;
        let (header, claims) = signing_input.split_once('.').ok_or("not three parts")?;

        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| "a part is not base64url");
        let header: JwtHeader = serde_json::from_slice(&decode(header)?).map_err(|_| "the header is malformed")?;

        if header.crit.is_some() {
            return Err("the header has critical extensions");
        }

        let algorithm = match header.alg.as_str() {
            "RS256" => JwtAlgorithm::Rs256,
            "ES256" => JwtAlgorithm::Es256,
            _ => return Err("the algorithm is not RS256 or ES256"),
        };

        let claims = serde_json::from_slice(&decode(claims)?).map_err(|_| "a claim is missing or malformed")?;
        Ok(Self { algorithm, key_id: header.kid, signing_input, signature: decode(signature)?, claims })
    }

    /// Checks issuer, audience, time and subject.
    ///
    /// # Errors
    /// Describes the first claim that does not hold.
    pub fn validate_claims(&self, expected: &TokenRequirements, now: Timestamp) -> Result<(), &'static str> {
        let JwtClaims { iss, sub, aud, exp, nbf, .. } = &self.claims;
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are exact in 52 bits")]
        let now = now.seconds() as f64;

        if *iss != expected.issuer {
            return Err("wrong issuer");
        }
        if !aud.contains(&expected.audience) {
            return Err("wrong audience");
        }
        if now >= exp + CLOCK_SKEW_SECONDS {
            return Err("expired");
        }
        if nbf.is_some_and(|nbf| now < nbf - CLOCK_SKEW_SECONDS) {
            return Err("not valid yet");
        }
        if sub.is_empty() {
            return Err("no subject");
        }
        if sub.chars().count() > SUBJECT_MAX {
            return Err("the subject is too long");
        }
        Ok(())
    }

    /// Checks the signature.
    #[must_use]
    pub fn verify_signature(&self, keys: &JwkSet) -> SignatureCheck {
        keys.verify(self.algorithm, self.key_id.as_deref(), self.signing_input.as_bytes(), &self.signature)
    }

    /// Returns the person's identity claims.
    #[must_use]
    pub fn into_identity(self) -> OidcIdentity {
        let JwtClaims { sub, name, preferred_username, email, email_verified, .. } = self.claims;
        let text = |claim: Option<serde_json::Value>| {
            claim.and_then(|claim| Some(claim.as_str()?.trim().to_owned())).filter(|text| !text.is_empty())
        };
        // Some issuers write the boolean as text.
        let is_unverified = match &email_verified {
            Some(serde_json::Value::Bool(verified)) => !verified,
            Some(serde_json::Value::String(verified)) => verified == "false",
            _ => false,
        };
        let email = text(email).filter(|_| !is_unverified);
        OidcIdentity { subject: sub, name: text(name).or_else(|| text(preferred_username)), email }
    }
}

impl JwtAudience {
    fn contains(&self, audience: &str) -> bool {
        match self {
            Self::One(value) => value == audience,
            Self::Many(values) => values.iter().any(|value| value == audience),
        }
    }
}
