//! Personal fields as the rules see them: opaque bytes that are equal when the texts behind them are. The rules never read
//! them, so that what is recorded of a person can be made unreadable (ADR 11).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::field_set::Measured;
use super::value::named_values;

named_values! {
    /// The fields of a user that are sealed.
    PersonalField { Email = "email", Name = "name", WebhookSecret = "webhook_secret" }
}

/// The value of a personal field, as it is recorded.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Personal {
    /// Readable with the user's key alone.
    Sealed(Box<[u8]>),
    /// Readable: from a log that was begun before fields were sealed, and made from nothing else.
    Plain(Box<str>),
}

impl Measured for Personal {
    fn text_bytes(&self) -> usize {
        match self {
            Self::Sealed(bytes) => bytes.len(),
            Self::Plain(text) => text.len(),
        }
    }
}

/// Says nothing of what is inside.
impl fmt::Debug for Personal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sealed(bytes) => write!(f, "Sealed({} bytes)", bytes.len()),
            Self::Plain(text) => write!(f, "Plain({} bytes)", text.len()),
        }
    }
}
