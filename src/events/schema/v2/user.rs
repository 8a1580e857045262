//! Users in schema version 2: personal fields are sealed, and users can be erased.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::super::v1::{self, StoredId, Str};

#[derive(Debug, Serialize, Deserialize)]
pub enum UserEventV2<'a> {
    UserCreated {
        id: StoredId,
        email: Option<PersonalV2<'a>>,
        name: Option<PersonalV2<'a>>,
        is_admin: bool,
        is_approved: bool,
    },
    UserRevised {
        change: UserFieldsV2<'a>,
    },
    UserBanned {
        reason: Str<'a>,
    },
    UserUnbanned {
        reason: Str<'a>,
    },
    UserErased,
    WebhookSecretRotated {
        secret: PersonalV2<'a>,
    },
    WebhookSecretsRevoked,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct UserFieldsV2<'a> {
    pub email: Option<PersonalV2<'a>>,
    pub name: Option<PersonalV2<'a>>,
    pub is_admin: Option<bool>,
    pub is_approved: Option<bool>,
}

/// A personal field. `Plain` holds only the values of version 1, so that its events can be read in this shape.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonalV2<'a> {
    Sealed(SealedV2<'a>),
    Plain(Str<'a>),
}

/// Sealed bytes: bytes in the log, Base64 in human-readable formats.
#[derive(Debug)]
pub struct SealedV2<'a>(pub Cow<'a, [u8]>);

impl Serialize for SealedV2<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&STANDARD.encode(&self.0))
        } else {
            serializer.serialize_bytes(&self.0)
        }
    }
}

/// Supports the log's format only.
impl<'de> Deserialize<'de> for SealedV2<'_> {
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

impl<'a> From<v1::UserEventV1<'a>> for UserEventV2<'a> {
    fn from(old: v1::UserEventV1<'a>) -> Self {
        match old {
            v1::UserEventV1::UserCreated { id, email, name, is_admin, is_approved } => {
                let email = email.map(PersonalV2::Plain);
                let name = name.map(PersonalV2::Plain);
                Self::UserCreated { id, email, name, is_admin, is_approved }
            }
            v1::UserEventV1::UserRevised { change } => {
                let v1::UserFieldsV1 { email, name, is_admin, is_approved } = change;
                let email = email.map(PersonalV2::Plain);
                let name = name.map(PersonalV2::Plain);
                Self::UserRevised { change: UserFieldsV2 { email, name, is_admin, is_approved } }
            }
            v1::UserEventV1::UserBanned { reason } => Self::UserBanned { reason },
            v1::UserEventV1::UserUnbanned { reason } => Self::UserUnbanned { reason },
        }
    }
}
