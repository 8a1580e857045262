//! Format of bearer secrets (contract 3): `mdu_` or `mdp_`, 43 base-62 digits with 256 random bits, 6 base-62 digits
//! with the CRC32C of the preceding characters.
//!
//! The checksum rejects a mistyped secret without a lookup and lets secret scanners recognise a leaked one.

use sha2::{Digest as _, Sha256};

use super::value::Digest;

/// Kind of a secret's subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretKind {
    /// A user.
    User,
    /// A publisher: a personal access token.
    Publisher,
}

impl SecretKind {
    /// Returns the prefix of secrets of this kind.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::User => "mdu_",
            Self::Publisher => "mdp_",
        }
    }
}

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Number of base-62 digits that hold 256 bits.
const RANDOM_DIGITS: usize = 43;
/// Number of base-62 digits that hold 32 bits.
const CHECKSUM_DIGITS: usize = 6;

/// Creates a secret from random bytes.
#[must_use]
pub fn mint(kind: SecretKind, random: [u8; 32]) -> String {
    let mut secret = kind.prefix().to_owned();
    secret.push_str(&base62(random.to_vec(), RANDOM_DIGITS));
    let checksum = checksum(&secret);
    secret.push_str(&checksum);
    secret
}

/// Returns the kind of a well-formed secret, or `None` if the format or checksum is wrong.
#[must_use]
pub fn parse_kind(secret: &str) -> Option<SecretKind> {
    let kind = [SecretKind::User, SecretKind::Publisher].into_iter().find(|kind| secret.starts_with(kind.prefix()))?;
    let length = kind.prefix().len() + RANDOM_DIGITS + CHECKSUM_DIGITS;
    let is_valid = secret.len() == length
        && secret.is_ascii()
        && checksum(&secret[..length - CHECKSUM_DIGITS]) == secret[length - CHECKSUM_DIGITS..];
    is_valid.then_some(kind)
}

/// Returns the stored form of a secret, which identifies it but cannot be used as a token.
#[must_use]
pub fn hash(secret: &str) -> Digest {
    Digest(Sha256::digest(secret.as_bytes()).into())
}

fn checksum(text: &str) -> String {
    base62(crc32c::crc32c(text.as_bytes()).to_be_bytes().to_vec(), CHECKSUM_DIGITS)
}

/// Encodes a big-endian number in base 62, with leading zeros up to `digits`.
fn base62(mut number: Vec<u8>, digits: usize) -> String {
    let mut text = vec![b'0'; digits];
    for digit in text.iter_mut().rev() {
        let mut remainder = 0;
        for byte in &mut number {
            let dividend = remainder << 8 | u32::from(*byte);
            *byte = u8::try_from(dividend / 62).unwrap_or(u8::MAX);
            remainder = dividend % 62;
        }
        *digit = ALPHABET[remainder as usize];
    }
    text.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minted_secret_is_recognised() {
        for random in [[0; 32], [255; 32], [7; 32]] {
            assert_eq!(parse_kind(&mint(SecretKind::User, random)), Some(SecretKind::User));
            assert_eq!(parse_kind(&mint(SecretKind::Publisher, random)), Some(SecretKind::Publisher));
        }
    }

    #[test]
    fn different_bytes_make_different_secrets_of_one_length() {
        let lowest = mint(SecretKind::User, [0; 32]);
        let highest = mint(SecretKind::User, [255; 32]);
        assert_ne!(lowest, highest);
        assert_eq!((lowest.len(), highest.len()), (53, 53));
        assert!(lowest.starts_with("mdu_0000000"));
    }

    #[test]
    fn any_single_changed_character_is_detected() {
        let secret = mint(SecretKind::User, [42; 32]);
        for index in 0..secret.len() {
            let mut wrong = secret.clone().into_bytes();
            wrong[index] = if wrong[index] == b'x' { b'y' } else { b'x' };
            assert_eq!(parse_kind(&String::from_utf8(wrong).unwrap()), None, "at {index}");
        }
        for wrong in ["", "mdu_", &secret[..52], &format!("{secret}0"), &"ä".repeat(27)] {
            assert_eq!(parse_kind(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_are_written_in_base_62() {
        assert_eq!(base62(vec![0, 61], 3), "00z");
        assert_eq!(base62(vec![0, 62], 3), "010");
        assert_eq!(base62(vec![255, 255], 3), "H31");
    }
}
