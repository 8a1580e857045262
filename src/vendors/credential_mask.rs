//! Masks the API key of a vendor in texts.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use url::form_urlencoded;

const MASK: &str = "********";
/// Shortest part of a key that is masked by itself. A shorter one would mask ordinary words.
const PART_MIN: usize = 8;

/// Masks the API key of a vendor in texts. Text has to be masked before it is shortened, because the beginning of a key
/// is not recognized. Cheap to clone.
#[derive(Clone, Default)]
pub struct CredentialMask(Arc<[String]>);

impl CredentialMask {
    /// Returns the mask of this key, in each form in which it is sent.
    #[must_use]
    pub fn new(api_key: Option<&str>) -> Self {
        let Some(key) = api_key.filter(|key| !key.is_empty()) else { return Self::default() };
        let secret_part = key.split_once(':').map(|(_, secret)| secret.to_owned());
        let encoded = form_urlencoded::byte_serialize(key.as_bytes()).collect();

        let mut forms = vec![key.to_owned(), encoded, STANDARD.encode(key)];
        forms.extend(secret_part.filter(|part| part.len() >= PART_MIN));
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        Self(forms.into())
    }

    /// Returns the text without the key.
    #[must_use]
    pub fn apply(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, form| text.replace(form.as_str(), MASK))
    }
}

/// Does not show the key.
impl fmt::Debug for CredentialMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialMask")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_masked_in_every_form() {
        let mask = CredentialMask::new(Some("user:pass/word+1"));
        assert_eq!(mask.apply("no user:pass/word+1 here"), "no ******** here");
        assert_eq!(mask.apply("?key=user%3Apass%2Fword%2B1&x=1"), "?key=********&x=1");
        assert_eq!(mask.apply("Basic dXNlcjpwYXNzL3dvcmQrMQ=="), "Basic ********");
        assert_eq!(mask.apply("wrong password pass/word+1"), "wrong password ********");
        assert_eq!(CredentialMask::new(None).apply("text"), "text");
        assert!(!format!("{mask:?}").contains("pass"));
    }
}
