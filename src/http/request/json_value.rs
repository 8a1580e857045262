//! Values of JSON fields: the schema and the reader of each type of the domain.

use serde_json::{Value, json};

use super::fields::Fields;
use super::json_object::{JsonObject, JsonValue};
use crate::domain::budget::BudgetPeriod;
use crate::domain::ids::{NodeId, PublisherId, TaskId};
use crate::domain::image::{
    OptimizedFor, Percent, PortraitBeautifier, PortraitStyle, PrecisionFlavor, PrecisionScaleFactor, RelightEngine,
    RelightStyle, ScaleFactor, SignedStrength, SkinFocus, StyleEngine, StyleFlavor, TransferLightA, TransferLightB,
    UpscaleEngine,
};
use crate::domain::node::{NodeStatus, Rating};
use crate::domain::policy::TokenScope;
use crate::domain::publisher::{MemberRole, PublisherStatus};
use crate::domain::user::Email;
use crate::domain::value::{CallbackUrl, InvalidValue, Link, Text, TextList, Timestamp};
use crate::domain::version::{SemVer, VersionStatus};
use crate::domain::video::{
    AspectRatio, AudioType, ExtendModel, ExtendResolution, MovementAmplitude, Resolution, Seed, VideoModel, VideoStyle,
};
use crate::domain::webhook::{EventSelection, RegistryEventKind};
use crate::http::openapi::schema::{EMAIL, HTTP_URL, LINE, PRINTABLE, SEMVER, not_blank, one_of};

/// Maximum number of entries of an event selection, duplicates included.
const EVENTS_MAX: usize = 20;

/// Declares types that are parsed from strings, with their schemas.
macro_rules! texts {
    ($($type:ty => $schema:tt),+ $(,)?) => {
        $(impl JsonValue for $type {
            fn schema() -> Value {
                json!($schema)
            }

            fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
                fields.text(name, <$type>::parse)
            }
        })+
    };
}

texts! {
    AspectRatio => {"type": "string", "pattern": "^0*[1-9][0-9]{0,2}:0*[1-9][0-9]{0,2}$", "examples": [Self::DEFAULT.to_string(), "9:16", "1:1"]},
    CallbackUrl => {"type": "string", "maxLength": Link::MAX, "pattern": HTTP_URL},
    Link => {"type": "string", "maxLength": Self::MAX, "pattern": format!("^$|{HTTP_URL}")},
    NodeId => {"type": "string", "pattern": "^[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?$"},
    PublisherId => {"type": "string", "pattern": "^[a-z][a-z0-9-]{0,62}$"},
    SemVer => {"type": "string", "maxLength": 100, "pattern": SEMVER},
    TaskId => {"type": "string", "format": "uuid"},
    Timestamp => {"type": "string", "format": "date-time"},
}

/// Declares enumerations.
macro_rules! enumerations {
    ($($type:ty),+ $(,)?) => {
        $(impl JsonValue for $type {
            fn schema() -> Value {
                one_of(<$type>::ALL.iter().map(|value| value.as_str()))
            }

            fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
                fields.text(name, <$type>::parse)
            }

            fn to_default(&self) -> Option<Value> {
                Some(self.as_str().into())
            }
        })+
    };
}

enumerations!(
    AudioType,
    BudgetPeriod,
    ExtendModel,
    ExtendResolution,
    MemberRole,
    MovementAmplitude,
    NodeStatus,
    OptimizedFor,
    PortraitBeautifier,
    PortraitStyle,
    PrecisionFlavor,
    PublisherStatus,
    RelightEngine,
    RelightStyle,
    Resolution,
    ScaleFactor,
    SkinFocus,
    StyleEngine,
    StyleFlavor,
    TokenScope,
    TransferLightA,
    TransferLightB,
    UpscaleEngine,
    VersionStatus,
    VideoModel,
    VideoStyle,
);

/// Declares integers with a range.
macro_rules! integers {
    ($($type:ty => $schema:tt),+ $(,)?) => {
        $(impl JsonValue for $type {
            fn schema() -> Value {
                json!($schema)
            }

            fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
                fields.integer(name, <$type>::new)
            }

            fn to_default(&self) -> Option<Value> {
                Some(self.get().into())
            }
        })+
    };
}

integers! {
    Percent => {"type": "integer", "minimum": 0, "maximum": 100},
    PrecisionScaleFactor => {"type": "integer", "minimum": 2, "maximum": 16},
    Seed => {"type": "integer", "format": "int32", "minimum": 0, "maximum": i32::MAX},
    SignedStrength => {"type": "integer", "minimum": -10, "maximum": 10, "default": 0},
}

impl<const MAX: usize, const MULTILINE: bool> JsonValue for Text<MAX, MULTILINE> {
    fn schema() -> Value {
        json!({"type": "string", "maxLength": MAX, "pattern": if MULTILINE { PRINTABLE } else { LINE }})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        fields.text(name, Self::parse)
    }
}

impl JsonValue for String {
    fn schema() -> Value {
        json!({"type": "string"})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        fields.str(name).map(str::to_owned)
    }
}

impl JsonValue for bool {
    fn schema() -> Value {
        json!({"type": "boolean"})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        fields.flag(name)
    }

    fn to_default(&self) -> Option<Value> {
        Some((*self).into())
    }
}

impl JsonValue for i64 {
    fn schema() -> Value {
        json!({"type": "integer", "format": "int64"})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        fields.integer(name, Ok)
    }
}

impl JsonValue for i32 {
    fn schema() -> Value {
        json!({"type": "integer", "format": "int32", "minimum": i32::MIN, "maximum": i32::MAX})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        let reason = || InvalidValue::new(format!("must be an integer from {} to {}", i32::MIN, i32::MAX));
        fields.integer(name, |value| Self::try_from(value).map_err(|_| reason()))
    }

    fn to_default(&self) -> Option<Value> {
        Some((*self).into())
    }
}

impl JsonValue for u64 {
    fn schema() -> Value {
        json!({"type": "integer", "format": "int64", "minimum": 0})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        let reason = || InvalidValue::new("must be an integer of at least 0");
        fields.integer(name, |value| Self::try_from(value).map_err(|_| reason()))
    }
}

impl JsonValue for Rating {
    fn schema() -> Value {
        json!({"type": "number", "minimum": 0, "maximum": 5})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        fields.number(name, Self::new)
    }
}

impl<const ENTRIES: usize, const CHARS: usize> JsonValue for TextList<ENTRIES, CHARS> {
    fn schema() -> Value {
        json!({"type": "array", "maxItems": ENTRIES, "items": Text::<CHARS>::schema()})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        fields.text_list(name)
    }
}

/// Array of objects with an allowed length.
pub struct Objects<T, const MIN: usize, const MAX: usize>(pub Vec<T>);

impl<T: JsonObject, const MIN: usize, const MAX: usize> JsonValue for Objects<T, MIN, MAX> {
    fn schema() -> Value {
        json!({"type": "array", "items": T::schema(), "minItems": MIN, "maxItems": MAX})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        fields.objects(name, &(MIN..=MAX), T::read_fields).map(Self)
    }
}

impl JsonValue for EventSelection {
    fn schema() -> Value {
        let kinds = one_of(RegistryEventKind::ALL.iter().map(|kind| kind.as_str()));
        json!({"type": "array", "minItems": 1, "maxItems": EVENTS_MAX, "items": kinds})
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        let sent_count = fields.value(name)?.as_array().map(Vec::len);
        let kinds = fields.texts(name, EVENTS_MAX, RegistryEventKind::parse);
        if sent_count != Some(kinds.len()) {
            // Invalid entries were reported already.
            return None;
        }
        let kinds: Vec<_> = kinds.into_iter().map(|(_, kind)| kind).collect();
        Self::new(&kinds).map_err(|reason| fields.add_error(name, reason)).ok()
    }

    fn to_default(&self) -> Option<Value> {
        Some(self.kinds().iter().map(|kind| kind.as_str()).collect())
    }
}

/// Email address, or empty for none.
pub struct EmailAddress(pub Email);

impl JsonValue for EmailAddress {
    fn schema() -> Value {
        let mut schema = Email::schema();
        schema["pattern"] = EMAIL.into();
        schema
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        let invalid = || InvalidValue::new("must be an email address such as ada@example.org");
        let is_address = |text: &str| {
            let parts = text.split_once('@').filter(|_| !text.contains(char::is_whitespace));
            text.is_empty()
                || parts.is_some_and(|(local, host)| !local.is_empty() && !host.is_empty() && !host.contains('@'))
        };
        fields.text(name, |text| if is_address(text) { Email::parse(text).map(Self) } else { Err(invalid()) })
    }
}

/// URL of a webhook; empty means none (contract 4).
pub struct WebhookUrl(pub Option<CallbackUrl>);

impl JsonValue for WebhookUrl {
    fn schema() -> Value {
        Link::schema()
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        let parse = |text: &str| if text.is_empty() { Ok(None) } else { CallbackUrl::parse(text).map(Some) };
        fields.text(name, parse).map(Self)
    }
}

/// Text that is not only whitespace.
#[derive(Debug)]
pub struct NotBlank<T>(pub T);

impl<const MAX: usize, const MULTILINE: bool> JsonValue for NotBlank<Text<MAX, MULTILINE>> {
    fn schema() -> Value {
        not_blank(Text::<MAX, MULTILINE>::schema())
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        let blank = || Err(InvalidValue::new("must not be blank"));
        fields.text(name, |text| if text.trim().is_empty() { blank() } else { Text::parse(text).map(Self) })
    }
}
