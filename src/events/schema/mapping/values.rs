//! Stored shapes of single values: numbers, texts, names, identifiers and hashes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use super::StoredForm;
use crate::domain::budget::BudgetPeriod;
use crate::domain::ids::{
    DeliveryId, EventId, NodeId, PublisherId, RequestId, TaskId, TokenId, UserId, VersionId, WebhookId,
};
use crate::domain::image::{
    ImageFormat, LightSource, OptimizedFor, Percent, PortraitBeautifier, PortraitStyle, PrecisionFlavor,
    PrecisionScaleFactor, RelightEngine, RelightStyle, ScaleFactor, SignedStrength, SkinFocus, StyleEngine,
    StyleFlavor, TransferLightA, TransferLightB, UpscaleEngine,
};
use crate::domain::music::{MusicFormat, MusicPrompt, MusicSeconds};
use crate::domain::node::{Rating, Stars};
use crate::domain::policy::TokenScope;
use crate::domain::publisher::MemberRole;
use crate::domain::task::VendorPrice;
use crate::domain::value::{CallbackUrl, Digest, InvalidValue, Link, Text, TextList, Timestamp};
use crate::domain::version::{SemVer, VersionStatus};
use crate::domain::video::{
    AspectRatio, AudioType, ExtendModel, ExtendResolution, MovementAmplitude, Resolution, Seed, VideoFormat,
    VideoModel, VideoSeconds, VideoStyle, WatermarkPosition,
};
use crate::domain::webhook::{EventSelection, RegistryEventKind};
use crate::events::schema::CommitDecodeError;
use crate::events::schema::bytes::{StoredId, StoredSha256};
use crate::events::schema::v1::{Str, Strs};
use crate::events::schema::v2::SealedV2;

type RestoredValue<T> = Result<T, CommitDecodeError>;

fn check<T>(field: &'static str, value: Result<T, InvalidValue>) -> RestoredValue<T> {
    value.map_err(|reason| CommitDecodeError::Value { field, reason: reason.to_string() })
}

impl<'a, S, T: StoredForm<'a, S>> StoredForm<'a, Option<S>> for Option<T> {
    fn store(&'a self) -> Option<S> {
        self.as_ref().map(T::store)
    }

    fn restore(stored: Option<S>, field: &'static str) -> RestoredValue<Self> {
        stored.map(|value| T::restore(value, field)).transpose()
    }
}

impl<'a, S, T: StoredForm<'a, S>> StoredForm<'a, Vec<S>> for Vec<T> {
    fn store(&'a self) -> Vec<S> {
        self.iter().map(T::store).collect()
    }

    fn restore(stored: Vec<S>, field: &'static str) -> RestoredValue<Self> {
        stored.into_iter().map(|value| T::restore(value, field)).collect()
    }
}

impl<'a, S, T: StoredForm<'a, S>> StoredForm<'a, Box<S>> for T {
    fn store(&'a self) -> Box<S> {
        Box::new(self.store())
    }

    fn restore(stored: Box<S>, field: &'static str) -> RestoredValue<Self> {
        T::restore(*stored, field)
    }
}

impl<'a, SK: Ord, SV, K: Ord + StoredForm<'a, SK>, V: StoredForm<'a, SV>> StoredForm<'a, BTreeMap<SK, SV>>
    for BTreeMap<K, V>
{
    fn store(&'a self) -> BTreeMap<SK, SV> {
        self.iter().map(|(key, value)| (key.store(), value.store())).collect()
    }

    fn restore(stored: BTreeMap<SK, SV>, field: &'static str) -> RestoredValue<Self> {
        stored.into_iter().map(|(key, value)| Ok((K::restore(key, field)?, V::restore(value, field)?))).collect()
    }
}

/// Declares the stored form of types: `Type as Stored: |value| stored, |stored, field| restored`.
macro_rules! stored_values {
    ($(
        $($domain:ty),+ as $shape:ty: |$value:ident| $store:expr, |$stored:ident, $field:pat_param| $restore:expr;
    )+) => {
        $($(
            impl<'a> StoredForm<'a, $shape> for $domain {
                fn store(&'a self) -> $shape {
                    let $value = self;
                    $store
                }

                fn restore($stored: $shape, $field: &'static str) -> RestoredValue<Self> {
                    $restore
                }
            }
        )+)+
    };
}

stored_values! {
    bool as bool: |value| *value, |stored, _| Ok(stored);
    i32 as i32: |value| *value, |stored, _| Ok(stored);
    i64 as i64: |value| *value, |stored, _| Ok(stored);
    u16 as u16: |value| *value, |stored, _| Ok(stored);
    u32 as u32: |value| *value, |stored, _| Ok(stored);
    u64 as u64: |value| *value, |stored, _| Ok(stored);

    Percent, PrecisionScaleFactor, Stars as u8:
        |value| value.get(), |stored, field| check(field, Self::new(stored.into()));
    SignedStrength as i8: |value| value.get(), |stored, field| check(field, Self::new(stored.into()));
    MusicSeconds as u16: |value| value.get(), |stored, field| check(field, Self::new(stored.into()));
    Seed as u32: |value| value.get(), |stored, field| check(field, Self::new(stored.into()));
    VideoSeconds as u8: |value| value.get(), |stored, field| check(field, Self::with_max(stored.into(), Self::MAX));
    Rating as u16: |value| value.hundredths(), |stored, _| Ok(Self::from_hundredths(stored));
    VendorPrice as u64: |value| value.thousandths(), |stored, _| Ok(Self::from_thousandths(stored));
    Timestamp as i64: |value| value.micros(), |stored, _| Ok(Self::from_micros(stored));
    Duration as u64:
        |value| u64::try_from(value.as_micros()).unwrap_or(u64::MAX), |stored, _| Ok(Self::from_micros(stored));

    DeliveryId, EventId, TaskId, TokenId, UserId, VersionId, WebhookId as StoredId:
        |value| value.0.into(), |stored, _| Ok(Self(Uuid::from_bytes(stored.0)));
    Digest as StoredSha256: |value| StoredSha256(value.0), |stored, _| Ok(Self(stored.0));

    CallbackUrl, Link, MusicPrompt as Str<'a>:
        |value| Cow::Borrowed(value.as_str()), |stored, _| Ok(Self::from_recorded(stored.into_owned()));
    Box<str> as Str<'a>: |value| Cow::Borrowed(value), |stored, _| Ok(stored.into());
    Box<[u8]> as SealedV2<'a>: |value| SealedV2(Cow::Borrowed(value)), |stored, _| Ok(stored.0.into_owned().into());
    SemVer as Str<'a>:
        |value| Cow::Owned(value.to_string()), |stored, _| check("version number", Self::parse(&stored));
    AspectRatio as Str<'a>:
        |value| Cow::Owned(value.to_string()), |stored, _| check("aspect ratio", Self::parse(&stored));
}

/// Task that generated a video. `None`, for a video from elsewhere, is stored as the nil UUID.
impl<'a> StoredForm<'a, StoredId> for Option<TaskId> {
    fn store(&'a self) -> StoredId {
        self.map_or(Uuid::nil(), |task| task.0).into()
    }

    fn restore(stored: StoredId, _field: &'static str) -> RestoredValue<Self> {
        let id = Uuid::from_bytes(stored.0);
        Ok((!id.is_nil()).then_some(TaskId(id)))
    }
}

impl<'a, const ENTRIES: usize, const CHARS: usize> StoredForm<'a, Strs<'a>> for TextList<ENTRIES, CHARS> {
    fn store(&'a self) -> Strs<'a> {
        self.iter().map(Cow::Borrowed).collect()
    }

    fn restore(stored: Strs<'a>, _field: &'static str) -> RestoredValue<Self> {
        Ok(Self::from_recorded(stored.into_iter().map(Cow::into_owned).collect()))
    }
}

impl<'a> StoredForm<'a, Strs<'a>> for EventSelection {
    fn store(&'a self) -> Strs<'a> {
        self.kinds().iter().map(StoredForm::store).collect()
    }

    fn restore(stored: Strs<'a>, field: &'static str) -> RestoredValue<Self> {
        Ok(Self::from_recorded(StoredForm::restore(stored, field)?))
    }
}

impl<'a, const MAX: usize, const MULTILINE: bool> StoredForm<'a, Str<'a>> for Text<MAX, MULTILINE> {
    fn store(&'a self) -> Str<'a> {
        Cow::Borrowed(self.as_str())
    }

    fn restore(stored: Str<'a>, _field: &'static str) -> RestoredValue<Self> {
        Ok(Self::from_recorded(stored.into_owned()))
    }
}

/// Declares types that are stored by name. The label names the type in error messages.
macro_rules! stored_names {
    ($($domain:ty: $label:literal),+ $(,)?) => {
        stored_values! {
            $(
                $domain as Str<'a>:
                    |value| Cow::Borrowed(value.as_str()), |stored, _| check($label, Self::parse(&stored));
            )+
        }
    };
}

stored_names! {
    NodeId: "node id",
    PublisherId: "publisher id",
    RequestId: "request",
    MemberRole: "member role",
    BudgetPeriod: "period",
    TokenScope: "token scope",
    VersionStatus: "version status",
    RegistryEventKind: "event kind",
    ImageFormat: "picture format",
    ScaleFactor: "scale factor",
    UpscaleEngine: "engine",
    OptimizedFor: "optimized_for",
    PrecisionFlavor: "flavor",
    StyleEngine: "engine",
    StyleFlavor: "flavor",
    PortraitBeautifier: "portrait beautifier",
    PortraitStyle: "portrait style",
    SkinFocus: "optimized_for",
    LightSource: "light source",
    RelightStyle: "style",
    RelightEngine: "engine",
    TransferLightA: "transfer_light_a",
    TransferLightB: "transfer_light_b",
    VideoModel: "model",
    Resolution: "resolution",
    MovementAmplitude: "movement amplitude",
    VideoStyle: "style",
    AudioType: "audio type",
    WatermarkPosition: "watermark position",
    ExtendModel: "model",
    ExtendResolution: "resolution",
    VideoFormat: "video format",
    MusicFormat: "music format",
}
