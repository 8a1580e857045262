//! Personal fields as opaque bytes that are equal if the plain texts are. The rules never read them, so that erasing a
//! user's key makes the recorded data unreadable (ADR 11).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::field_set::TextSize;
use super::value::named_values;

named_values! {
    /// The sealed fields of a user.
    PersonalField { Email = "email", Name = "name", WebhookSecret = "webhook_secret" }
}

/// The recorded value of a personal field.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PersonalValue {
    /// Encrypted with the user's key.
    Sealed(Box<[u8]>),
    /// Plain text; only in logs from before fields were sealed.
    Plain(Box<str>),
}

impl TextSize for PersonalValue {
    fn text_bytes(&self) -> usize {
        match self {
            Self::Sealed(bytes) => bytes.len(),
            Self::Plain(text) => text.len(),
        }
    }
}

/// Omits the content.
impl fmt::Debug for PersonalValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sealed(bytes) => write!(f, "Sealed({} bytes)", bytes.len()),
            Self::Plain(text) => write!(f, "Plain({} bytes)", text.len()),
        }
    }
}
