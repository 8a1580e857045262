//! A signed token (RFC 7515, RFC 7519) and what must be true of it (RFC 8725). Pure: keys and time come from outside.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::jwks::{KeySet, Verified};
use crate::domain::value::Timestamp;

/// A token may be larger than any that carries what is asked of it here; groups and roles are no use to us.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// How far clocks may differ (contract 3), in seconds.
const LEEWAY: f64 = 60.0;
/// Most characters of what names a person at the issuer (`OpenID` Connect Core, 2).
const SUBJECT_MAX: usize = 255;

/// How a token is signed. There are no others: not `none`, and nothing whose key is no secret of the issuer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Rs256,
    Es256,
}

/// For whom, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    pub issuer: String,
    pub audience: String,
}

/// What a token says of who presents it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// Names them at the issuer, for ever.
    pub subject: String,
    pub name: Option<String>,
    /// Unless the issuer says that it is not verified.
    pub email: Option<String>,
}

/// What the keys say of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    Signed,
    /// The key that it names is not among them.
    UnknownKey,
    Forged,
}

/// A token that has the right form. Nothing of it is to be believed before it is judged.
#[derive(Debug)]
pub struct Token<'t> {
    algorithm: Algorithm,
    key_id: Option<String>,
    signed: &'t str,
    signature: Vec<u8>,
    claims: Claims,
}

/// A member that is there twice makes the token invalid, as serde has it.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Audience,
    exp: f64,
    nbf: Option<f64>,
    name: Option<serde_json::Value>,
    preferred_username: Option<serde_json::Value>,
    email: Option<serde_json::Value>,
    email_verified: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl<'t> Token<'t> {
    /// Takes a token apart.
    ///
    /// # Errors
    /// What is wrong with its form.
    pub fn parse(text: &'t str) -> Result<Self, &'static str> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err("the token is too large");
        }
        let (signed, signature) = text.rsplit_once('.').ok_or("not three parts")?;
        let (header, claims) = signed.split_once('.').ok_or("not three parts")?;
        let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| "a part is not base64url");
        let header: Header = serde_json::from_slice(&decoded(header)?).map_err(|_| "the header is malformed")?;
        if header.crit.is_some() {
            return Err("the header has extensions that must be understood");
        }
        let algorithm = match header.alg.as_str() {
            "RS256" => Algorithm::Rs256,
            "ES256" => Algorithm::Es256,
            _ => return Err("the algorithm is not RS256 or ES256"),
        };
        let claims = serde_json::from_slice(&decoded(claims)?).map_err(|_| "a claim is missing or malformed")?;
        Ok(Self { algorithm, key_id: header.kid, signed, signature: decoded(signature)?, claims })
    }

    /// Whether it is by the issuer, for this service, and for this time.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, expected: &Expected, now: Timestamp) -> Result<(), &'static str> {
        let Claims { iss, sub, aud, exp, nbf, .. } = &self.claims;
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are exact in 52 bits")]
        let now = now.seconds() as f64;
        if *iss != expected.issuer {
            return Err("another issuer");
        }
        if !aud.names(&expected.audience) {
            return Err("another audience");
        }
        if now >= exp + LEEWAY {
            return Err("expired");
        }
        if nbf.is_some_and(|nbf| now < nbf - LEEWAY) {
            return Err("not valid yet");
        }
        if sub.is_empty() || sub.chars().count() > SUBJECT_MAX {
            return Err("no subject");
        }
        Ok(())
    }

    /// Whether a key of these signed it.
    #[must_use]
    pub fn judge(&self, keys: &KeySet) -> Judged {
        match keys.verify(self.algorithm, self.key_id.as_deref(), self.signed.as_bytes(), &self.signature) {
            Verified::Yes => Judged::Signed,
            Verified::No => Judged::Forged,
            Verified::NoKey => Judged::UnknownKey,
        }
    }

    /// Whom it names.
    #[must_use]
    pub fn person(self) -> Person {
        let Claims { sub, name, preferred_username, email, email_verified, .. } = self.claims;
        let text = |claim: Option<serde_json::Value>| {
            claim.and_then(|claim| Some(claim.as_str()?.trim().to_owned())).filter(|text| !text.is_empty())
        };
        let is_refuted = matches!(email_verified, Some(serde_json::Value::Bool(false)))
            || email_verified.and_then(|said| Some(said.as_str()? == "false")) == Some(true);
        let email = text(email).filter(|_| !is_refuted);
        Person { subject: sub, name: text(name).or_else(|| text(preferred_username)), email }
    }
}

impl Audience {
    fn names(&self, audience: &str) -> bool {
        match self {
            Self::One(one) => one == audience,
            Self::Many(many) => many.iter().any(|one| one == audience),
        }
    }
}
