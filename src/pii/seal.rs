//! Sealing with the key of one user. It is deterministic: the same text gives the same bytes, so that the domain
//! recognizes an unchanged value.
//!
//! The nonce is a MAC of the input (the synthetic nonce of RFC 5297, here with XChaCha20-Poly1305), so two texts share
//! one only if HMAC-SHA256 collides. User and field are bound as associated data and by the nonce. The bytes reveal
//! only whether two values of one field of one user are equal, and the length up to the next power of two.

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::domain::ids::UserId;
use crate::domain::personal::PersonalField;

/// Bytes of a user's key.
pub const KEY_BYTES: usize = 32;
/// Format of sealed bytes. Other formats are not opened.
const FORMAT_VERSION: u8 = 1;
const NONCE_BYTES: usize = 24;
/// Marks the end of the text before the padding, as in ISO/IEC 7816-4. No text in UTF-8 ends with this byte.
const PADDING_MARK: u8 = 0x80;
/// Minimum padded length in bytes.
const PADDED_MIN: usize = 64;

/// Keys of one user's personal fields, wiped from memory on drop.
pub struct UserKey {
    user: UserId,
    seal_key: Zeroizing<[u8; KEY_BYTES]>,
    nonce_key: Zeroizing<[u8; KEY_BYTES]>,
}

impl UserKey {
    /// Derives the two keys from the secret of a user.
    #[must_use]
    pub fn new(user: UserId, secret: &[u8; KEY_BYTES]) -> Self {
        let derive = |purpose: &[u8]| Zeroizing::new(mac(secret, &[b"mediary personal", purpose]));
        Self { user, seal_key: derive(b"seal"), nonce_key: derive(b"nonce") }
    }

    /// Seals a text.
    #[must_use]
    pub fn seal(&self, field: PersonalField, text: &str) -> Box<[u8]> {
        let plaintext = pad(text);
        let associated_data = self.associated_data(field);
        let nonce = self.synthetic_nonce(&associated_data, &plaintext);
        let sealed = self.cipher().encrypt(&nonce.into(), Payload { msg: &plaintext, aad: &associated_data });
        let sealed = sealed.expect("a few kilobytes are far below the cipher's limit");
        [&[FORMAT_VERSION], &nonce[..], &sealed].concat().into()
    }

    /// Opens the result of [`UserKey::seal`] for this field of this user; `None` for any other bytes.
    #[must_use]
    pub fn open(&self, field: PersonalField, sealed: &[u8]) -> Option<String> {
        let (version, remaining) = sealed.split_first()?;
        let (nonce, sealed) = remaining.split_first_chunk::<NONCE_BYTES>().filter(|_| *version == FORMAT_VERSION)?;
        let payload = Payload { msg: sealed, aad: &self.associated_data(field) };
        let plaintext = Zeroizing::new(self.cipher().decrypt(nonce.into(), payload).ok()?);
        let end = plaintext.iter().rposition(|byte| *byte != 0).filter(|at| plaintext[*at] == PADDING_MARK)?;
        String::from_utf8(plaintext[..end].to_vec()).ok()
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&*self.seal_key).into())
    }

    /// Returns the associated data, which binds sealed bytes to a user and a field.
    fn associated_data(&self, field: PersonalField) -> Vec<u8> {
        [&self.user.0.as_bytes()[..], field.as_str().as_bytes()].concat()
    }

    fn synthetic_nonce(&self, associated_data: &[u8], plaintext: &[u8]) -> [u8; NONCE_BYTES] {
        let mac = mac(&self.nonce_key, &[associated_data, plaintext]);
        std::array::from_fn(|at| mac[at])
    }
}

/// Appends the end mark, and zeros up to a power of two.
fn pad(text: &str) -> Zeroizing<Vec<u8>> {
    let bytes = (text.len() + 1).next_power_of_two().max(PADDED_MIN);
    let mut padded = Zeroizing::new(Vec::with_capacity(bytes));
    padded.extend_from_slice(text.as_bytes());
    padded.push(PADDING_MARK);
    padded.resize(bytes, 0);
    padded
}

fn mac(key: &[u8; KEY_BYTES], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("HMAC accepts keys of any length");
    for part in parts {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use PersonalField::{Email, Name};
    use uuid::Uuid;

    fn key(user: u128, secret: u8) -> UserKey {
        UserKey::new(UserId(Uuid::from_u128(user)), &[secret; KEY_BYTES])
    }

    #[test]
    fn sealed_text_opens_again() {
        let longest_text = "語".repeat(320);
        for text in ["", "a", "ada@example.com", "Ada 日本\0", &"x".repeat(63), &"x".repeat(64), &longest_text] {
            let key = key(1, 7);
            assert_eq!(key.open(Email, &key.seal(Email, text)).as_deref(), Some(text));
        }
    }

    #[test]
    fn the_same_user_field_and_text_give_the_same_bytes_and_nothing_else_does() {
        let sealed = key(1, 7).seal(Email, "ada@example.com");
        assert_eq!(key(1, 7).seal(Email, "ada@example.com"), sealed);

        let different = [
            key(1, 7).seal(Email, "ada@example.con"),
            key(1, 7).seal(Name, "ada@example.com"),
            key(2, 7).seal(Email, "ada@example.com"),
            key(1, 8).seal(Email, "ada@example.com"),
        ];
        for other in &different {
            assert_ne!(other[1..=NONCE_BYTES], sealed[1..=NONCE_BYTES], "a nonce is used once");
            assert_ne!(other[1 + NONCE_BYTES..], sealed[1 + NONCE_BYTES..]);
        }
    }

    #[test]
    fn only_the_same_user_and_field_open_it() {
        let sealed = key(1, 7).seal(Email, "ada@example.com");
        assert_eq!(key(1, 7).open(Name, &sealed), None);
        assert_eq!(key(2, 7).open(Email, &sealed), None);
        assert_eq!(key(1, 8).open(Email, &sealed), None);
    }

    #[test]
    fn damaged_bytes_do_not_open() {
        let key = key(1, 7);
        let sealed = key.seal(Name, "Ada");
        for length in 0..sealed.len() {
            assert_eq!(key.open(Name, &sealed[..length]), None, "cut to {length} bytes");
        }
        for bit in 0..8 * sealed.len() {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.open(Name, &damaged), None, "bit {bit}");
        }
    }

    #[test]
    fn short_texts_have_the_same_sealed_length() {
        let bytes = |length: usize| key(1, 7).seal(Name, &"x".repeat(length)).len();
        assert_eq!((bytes(0), bytes(63), bytes(64)), (1 + 24 + 64 + 16, 105, 169));
    }
}
