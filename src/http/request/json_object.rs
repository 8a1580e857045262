//! One declaration for each JSON object of a request: its reader and its schema follow from it.
//!
//! ```ignore
//! json_object! {
//!     /// Body of `POST /publishers/{publisherId}/tokens`.
//!     pub struct TokenBody {
//!         /// Name that identifies the token to its owner.
//!         name: Name,
//!         /// Intended use of the token.
//!         description: Option<Label>,
//!         /// Requests per minute.
//!         #[name("requestRate")]
//!         #[schema(with("deprecated", true))]
//!         request_rate: Percent = Percent::saturating(50),
//!     }
//! }
//! ```
//!
//! The doc comment of a field is its description in the OpenAPI document, `#[name]` its JSON name if that differs, and
//! `#[schema]` calls methods of [`SchemaField`]. A field of type `T` is required and `Option<T>` is not; a default is
//! also written to the schema. [`FlattenedFields`] and [`AdministratorsOnly`] insert the fields of another declaration.
//!
//! `impl T { … }` in place of `struct T { … }` describes a domain type: each field needs only its name, because type
//! and default come from `T::default()`.
//!
//! A value is read by its type, see [`JsonValue`]. An invalid one is reported and counts as absent, so that the other
//! fields are checked too.

use serde_json::Value;

use super::fields::Fields;
use crate::http::openapi::schema::{SchemaField, field_with_schema};

/// JSON object that reads and describes itself. [`json_object!`] implements it.
pub trait JsonObject: JsonValue {
    /// Name of the component in the OpenAPI document.
    const NAME: &'static str;

    /// Describes the fields.
    fn describe_fields() -> Vec<SchemaField>;

    /// Reads the fields. Returns `None` only after adding an error.
    fn read_fields(fields: &mut Fields<'_, '_>) -> Option<Self>;
}

/// Type of a field's value.
pub trait JsonValue: Sized {
    /// Sentence appended to the description of every field of this type.
    const ABOUT: &'static str = "";

    /// Returns the schema of all values that pass the type's validation.
    fn schema() -> Value;

    /// Reads a field. Returns `None` if it is absent, or after adding an error.
    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self>;

    /// Returns the value as the `default` of a schema; `None` if schemas do not show defaults of this type.
    fn to_default(&self) -> Option<Value> {
        None
    }
}

fn describe_value<T: JsonValue>(name: &'static str, about: &str) -> SchemaField {
    field_with_schema(name, format!("{about} {}", T::ABOUT).trim(), T::schema())
}

/// Field without a default.
pub trait JsonField: Sized {
    /// Describes the field, or the fields of the group.
    fn describe(name: &'static str, about: &str) -> Vec<SchemaField>;

    /// Reads the field. Returns `None` only after adding an error.
    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self>;
}

impl<T: JsonValue> JsonField for T {
    fn describe(name: &'static str, about: &str) -> Vec<SchemaField> {
        vec![describe_value::<T>(name, about).required()]
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        let value = T::read(fields, name);
        fields.required(name, value)
    }
}

impl<T: JsonValue> JsonField for Option<T> {
    fn describe(name: &'static str, about: &str) -> Vec<SchemaField> {
        vec![describe_value::<T>(name, about)]
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        Some(T::read(fields, name))
    }
}

/// Required field that is `None` if it is missing or invalid, for objects with further checks that should run anyway.
pub struct RequiredField<T>(pub Option<T>);

impl<T: JsonValue> JsonField for RequiredField<T> {
    fn describe(name: &'static str, about: &str) -> Vec<SchemaField> {
        <T as JsonField>::describe(name, about)
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        Some(Self(<T as JsonField>::read(fields, name)))
    }
}

/// Fields of another declaration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlattenedFields<T>(pub T);

impl<T: JsonObject> JsonField for FlattenedFields<T> {
    fn describe(_: &'static str, _: &str) -> Vec<SchemaField> {
        T::describe_fields()
    }

    fn read(fields: &mut Fields<'_, '_>, _: &str) -> Option<Self> {
        T::read_fields(fields).map(Self)
    }
}

/// Fields of another declaration that are ignored unless an administrator sends them (contract 4).
#[derive(Debug, Default)]
pub struct AdministratorsOnly<T>(pub T);

impl<T: JsonObject + Default> JsonField for AdministratorsOnly<T> {
    fn describe(_: &'static str, _: &str) -> Vec<SchemaField> {
        T::describe_fields().into_iter().map(SchemaField::administrators_only).collect()
    }

    fn read(fields: &mut Fields<'_, '_>, _: &str) -> Option<Self> {
        if fields.context().is_admin { T::read_fields(fields).map(Self) } else { Some(Self::default()) }
    }
}

/// Field with a default: `T`, or `Option<T>` with `None`.
pub trait DefaultedField {
    /// Describes the field with `self` as its default.
    fn describe_with_default(&self, name: &'static str, about: &str) -> SchemaField;

    /// Reads the field; returns `self` if it is absent or invalid.
    fn read_or_default(self, fields: &mut Fields<'_, '_>, name: &str) -> Self;
}

impl<T: JsonValue> DefaultedField for T {
    fn describe_with_default(&self, name: &'static str, about: &str) -> SchemaField {
        let field = describe_value::<T>(name, about);
        match self.to_default() {
            Some(default) => field.with("default", default),
            None => field,
        }
    }

    fn read_or_default(self, fields: &mut Fields<'_, '_>, name: &str) -> Self {
        T::read(fields, name).unwrap_or(self)
    }
}

impl<T: JsonValue> DefaultedField for Option<T> {
    fn describe_with_default(&self, name: &'static str, about: &str) -> SchemaField {
        describe_value::<T>(name, about)
    }

    fn read_or_default(self, fields: &mut Fields<'_, '_>, name: &str) -> Self {
        T::read(fields, name).or(self)
    }
}

/// Joins the lines of a doc comment.
pub fn join_lines(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Declares a JSON object; see the module documentation. The rules that begin with `@` are internal.
macro_rules! json_object {
    ($(#[$meta:meta])* $vis:vis struct $object:ident { $(
        $(#[doc = $about:expr])* $(#[name($name:literal)])? $(#[schema($($adjust:tt)*)])?
        $field:ident: $type:ty $(= $default:expr)?
    ),* $(,)? }) => {
        $(#[$meta])*
        #[allow(dead_code, reason = "some fields are only checked")]
        $vis struct $object { $(pub $field: $type),* }

        impl $crate::http::request::json_object::JsonObject for $object {
            const NAME: &'static str = stringify!($object);

            fn describe_fields() -> Vec<$crate::http::openapi::schema::SchemaField> {
                let mut all = Vec::new();
                $({
                    let about = $crate::http::request::json_object::join_lines(&[$(&$about),*]);
                    let name = json_object!(@name $field $($name)?);
                    let described = json_object!(@describe (name, &about) $type $(= $default)?);
                    all.extend(described.into_iter().map(|field| field $(.$($adjust)*)?));
                })*
                all
            }

            fn read_fields(fields: &mut $crate::http::request::fields::Fields<'_, '_>) -> Option<Self> {
                $(let $field = json_object!(@read (fields, json_object!(@name $field $($name)?)) $type $(= $default)?);)*
                Some(Self { $($field: $field?),* })
            }
        }

        json_object!(@value $object);
    };
    (impl $object:ty { $(
        $(#[doc = $about:expr])* $(#[name($name:literal)])? $(#[schema($($adjust:tt)*)])? $field:ident
    ),* $(,)? }) => {
        impl $crate::http::request::json_object::JsonObject for $object {
            const NAME: &'static str = stringify!($object);

            fn describe_fields() -> Vec<$crate::http::openapi::schema::SchemaField> {
                let defaults = <$object>::default();
                vec![$({
                    let about = $crate::http::request::json_object::join_lines(&[$(&$about),*]);
                    let name = json_object!(@name $field $($name)?);
                    $crate::http::request::json_object::DefaultedField::describe_with_default(&defaults.$field, name, &about) $(.$($adjust)*)?
                }),*]
            }

            fn read_fields(fields: &mut $crate::http::request::fields::Fields<'_, '_>) -> Option<Self> {
                let mut object = Self::default();
                $({
                    let name = json_object!(@name $field $($name)?);
                    object.$field = $crate::http::request::json_object::DefaultedField::read_or_default(object.$field, fields, name);
                })*
                Some(object)
            }
        }

        json_object!(@value $object);
    };
    (@value $object:ty) => {
        impl $crate::http::request::json_object::JsonValue for $object {
            fn schema() -> serde_json::Value {
                $crate::http::openapi::schema::request_object(<Self as $crate::http::request::json_object::JsonObject>::describe_fields())
            }

            fn read(fields: &mut $crate::http::request::fields::Fields<'_, '_>, name: &str) -> Option<Self> {
                fields.object(name, <Self as $crate::http::request::json_object::JsonObject>::read_fields)
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    (@describe ($name:expr, $about:expr) $type:ty) => {
        <$type as $crate::http::request::json_object::JsonField>::describe($name, $about)
    };
    (@describe ($name:expr, $about:expr) $type:ty = $default:expr) => {
        vec![<$type as $crate::http::request::json_object::DefaultedField>::describe_with_default(&$default, $name, $about)]
    };
    (@read ($fields:ident, $name:expr) $type:ty) => {
        <$type as $crate::http::request::json_object::JsonField>::read($fields, $name)
    };
    (@read ($fields:ident, $name:expr) $type:ty = $default:expr) => {
        Some(<$type as $crate::http::request::json_object::DefaultedField>::read_or_default($default, $fields, $name))
    };
}
pub(crate) use json_object;
