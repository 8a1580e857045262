//! Users in schema version 2: personal fields are sealed, and users can be erased.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::super::v1::{self, Id, Str};

#[derive(Debug, Serialize, Deserialize)]
pub enum UserEvent<'a> {
    UserCreated { id: Id, email: Option<Personal<'a>>, name: Option<Personal<'a>>, is_admin: bool, is_approved: bool },
    UserRevised { change: UserFields<'a> },
    UserBanned { reason: Str<'a> },
    UserUnbanned { reason: Str<'a> },
    UserErased,
    WebhookSecretRotated { secret: Personal<'a> },
    WebhookSecretsRevoked,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct UserFields<'a> {
    pub email: Option<Personal<'a>>,
    pub name: Option<Personal<'a>>,
    pub is_admin: Option<bool>,
    pub is_approved: Option<bool>,
}

/// A personal field. `Plain` holds only the values of version 1, so that its events can be read in this shape.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Personal<'a> {
    Sealed(Sealed<'a>),
    Plain(Str<'a>),
}

/// Sealed bytes: bytes in the log, Base64 in human-readable formats.
#[derive(Debug)]
pub struct Sealed<'a>(pub Cow<'a, [u8]>);

impl Serialize for Sealed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&STANDARD.encode(&self.0))
        } else {
            serializer.serialize_bytes(&self.0)
        }
    }
}

/// Supports the log's format only.
impl<'de> Deserialize<'de> for Sealed<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }

            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
                Ok(bytes)
            }
        }

        deserializer.deserialize_byte_buf(Bytes).map(|bytes| Self(Cow::Owned(bytes)))
    }
}

impl<'a> From<v1::UserEvent<'a>> for UserEvent<'a> {
    fn from(old: v1::UserEvent<'a>) -> Self {
        match old {
            v1::UserEvent::UserCreated { id, email, name, is_admin, is_approved } => {
                let email = email.map(Personal::Plain);
                let name = name.map(Personal::Plain);
                Self::UserCreated { id, email, name, is_admin, is_approved }
            }
            v1::UserEvent::UserRevised { change } => {
                let v1::UserFields { email, name, is_admin, is_approved } = change;
                let email = email.map(Personal::Plain);
                let name = name.map(Personal::Plain);
                Self::UserRevised { change: UserFields { email, name, is_admin, is_approved } }
            }
            v1::UserEvent::UserBanned { reason } => Self::UserBanned { reason },
            v1::UserEvent::UserUnbanned { reason } => Self::UserUnbanned { reason },
        }
    }
}
