//! Public keys of an issuer (RFC 7517), limited to those of the supported algorithms. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;

use super::jwt::JwtAlgorithm;

/// Maximum number of keys read from a set. Issuers have a handful.
const KEYS_MAX: usize = 64;
/// Bytes of a coordinate on P-256.
const COORDINATE_BYTES: usize = 32;
/// First byte of an uncompressed point (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// Keys of an issuer at one time.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct JwkSet(Vec<JwksKey>);

#[derive(Debug, PartialEq, Eq)]
struct JwksKey {
    id: Option<String>,
    material: KeyMaterial,
}

#[derive(Debug, PartialEq, Eq)]
enum KeyMaterial {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point on P-256.
    P256(Vec<u8>),
}

/// Result of checking a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureCheck {
    Valid,
    Invalid,
    /// No key has the id, or without an id several keys could match.
    UnknownKey,
}

#[derive(Deserialize)]
struct JwksDocument {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct RawJwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl JwkSet {
    /// Parses a set. Skips keys of other types and for other uses.
    ///
    /// # Errors
    /// If the text is not a key set, or contains no usable key.
    pub fn parse(text: &[u8]) -> Result<Self, &'static str> {
        let document: JwksDocument = serde_json::from_slice(text).map_err(|_| "not a JWK set")?;
        let jwks = document.keys.into_iter().take(KEYS_MAX).filter_map(|key| serde_json::from_value(key).ok());
        let keys: Vec<_> = jwks.filter_map(JwksKey::from_jwk).collect();
        if keys.is_empty() { Err("no key for RS256 or ES256") } else { Ok(Self(keys)) }
    }

    /// Checks a message's signature. A token without a key id matches only if one key has its algorithm.
    #[must_use]
    pub fn verify(
        &self,
        algorithm: JwtAlgorithm,
        id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> SignatureCheck {
        let mut matching = self.0.iter().filter(|key| {
            key.algorithm() == algorithm
                && (id.is_none() || key.id.as_deref() == id || (key.id.is_none() && self.0.len() == 1))
        });

        match (matching.next(), matching.next()) {
            (Some(key), None) if key.verifies(message, signature) => SignatureCheck::Valid,
            (Some(_), None) => SignatureCheck::Invalid,
            // Ambiguous: the token must name the key.
            (Some(_), Some(_)) | (None, _) => SignatureCheck::UnknownKey,
        }
    }
}

impl JwksKey {
    fn from_jwk(jwk: RawJwk) -> Option<Self> {
        let RawJwk { kty, kid, alg, purpose, crv, n, e, x, y } = jwk;
        if purpose.is_some_and(|purpose| purpose != "sig") {
            return None;
        }

        let decode = |part: Option<String>| URL_SAFE_NO_PAD.decode(part?).ok();

        let (material, default_alg) = match kty.as_str() {
            "RSA" => (KeyMaterial::Rsa { modulus: decode(n)?, exponent: decode(e)? }, "RS256"),
            "EC" if crv.as_deref() == Some("P-256") => {
                let x = decode(x)?;
                let y = decode(y)?;
                let is_full_length = x.len() == COORDINATE_BYTES && y.len() == COORDINATE_BYTES;
                let point = is_full_length.then(|| [&[UNCOMPRESSED], x.as_slice(), &y].concat())?;
                (KeyMaterial::P256(point), "ES256")
            }
            _ => return None,
        };

        alg.is_none_or(|alg| alg == default_alg).then_some(Self { id: kid, material })
    }

    fn algorithm(&self) -> JwtAlgorithm {
        match self.material {
            KeyMaterial::Rsa { .. } => JwtAlgorithm::Rs256,
            KeyMaterial::P256(_) => JwtAlgorithm::Es256,
        }
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            KeyMaterial::Rsa { modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: strip_leading_zeros(modulus), e: strip_leading_zeros(exponent) };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).is_ok()
            }
            KeyMaterial::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
            }
        }
    }
}

/// Removes leading zeros, which some issuers write and the library rejects.
fn strip_leading_zeros(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..]
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINT: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn parse_keys(keys: &str) -> Result<usize, &'static str> {
        JwkSet::parse(format!("{{\"keys\": [{keys}]}}").as_bytes()).map(|JwkSet(keys)| keys.len())
    }

    #[test]
    fn keys_of_other_types_and_uses_are_skipped() {
        let usable =
            format!(r#"{{"kty": "EC", "crv": "P-256", "x": "{POINT}", "y": "{POINT}", "kid": "a", "use": "sig"}}"#);
        let unusable = [
            r#"{"kty": "oct", "k": "AAAA"}"#.to_owned(),
            r#"{"kty": "RSA", "n": "AQAB", "e": "AQAB", "use": "enc"}"#.to_owned(),
            r#"{"kty": "RSA", "n": "AQAB", "e": "AQAB", "alg": "RS512"}"#.to_owned(),
            r#"{"kty": "RSA", "n": "?", "e": "AQAB"}"#.to_owned(),
            r#"{"kty": "EC", "crv": "P-384", "x": "AAAA", "y": "AAAA"}"#.to_owned(),
            r#"{"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"}"#.to_owned(),
            r#"{"kty": 5}"#.to_owned(),
            "7".to_owned(),
        ];
        assert_eq!(parse_keys(&usable), Ok(1));
        assert_eq!(parse_keys(&format!("{}, {usable}", unusable.join(", "))), Ok(1));

        for other in &unusable {
            assert_eq!(parse_keys(other), Err("no key for RS256 or ES256"), "{other}");
        }
        assert_eq!(JwkSet::parse(b"[]"), Err("not a JWK set"));
    }
}
