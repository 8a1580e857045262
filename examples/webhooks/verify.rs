//! Verifies webhooks of Mediary (`docs/callbacks.md`). Needs the crates base64, ed25519-dalek, hmac and sha2.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::{Engine, engine::general_purpose::STANDARD};
use ed25519_dalek::{Signature, VerifyingKey};
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// `header` returns a header by its name; `key` is `whsec_…` or `whpk_…`.
pub fn verify<'h>(header: impl Fn(&str) -> Option<&'h str>, body: &[u8], key: &str, tolerance: Duration) -> Option<()> {
    let id = header("webhook-id")?;
    let at = header("webhook-timestamp")?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    (now.abs_diff(at.parse().ok()?) <= tolerance.as_secs()).then_some(())?;

    let signed_content = [format!("{id}.{at}.").as_bytes(), body].concat();
    let (kind, text) = key.split_once('_')?;
    let raw = STANDARD.decode(text).ok()?;

    let is_valid = |entry: &str| {
        let (version, signature) = entry.split_once(',')?;
        let signature_bytes = STANDARD.decode(signature).ok()?;

        match (version, kind) {
            ("v1", "whsec") => {
                let mut mac = Hmac::<Sha256>::new_from_slice(&raw).ok()?;
                mac.update(&signed_content);
                mac.verify_slice(&signature_bytes).ok()
            }
            ("v1a", "whpk") => {
                let key = VerifyingKey::from_bytes(raw.as_slice().try_into().ok()?).ok()?;
                key.verify_strict(&signed_content, &Signature::from_slice(&signature_bytes).ok()?).ok()
            }
            _ => None,
        }
    };

    header("webhook-signature")?.split(' ').find_map(is_valid)
}
