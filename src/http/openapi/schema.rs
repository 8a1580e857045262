//! JSON schemas. Limits come from the domain types that validate the values, so each limit is written once.

use serde_json::{Map, Value, json};

pub use super::field::{SchemaField, field, field_with_schema};

use crate::domain::ids::{DeliveryId, FileId, TokenId, UserId, VersionId, WebhookId};
use crate::domain::task::{ImageStatus, TaskKind, TaskStatus, VideoState};
use crate::http::request::json_object::JsonValue;
use crate::projections::task::index::EntryState;

/// Invisible characters, as members of a regex character class.
macro_rules! invisible {
    () => {
        "\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0"
    };
}

/// Text without control characters except tab and line breaks.
pub(in crate::http) const PRINTABLE: &str = "^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]*$";
/// Like [`PRINTABLE`], but not only whitespace.
pub(in crate::http) const NOT_BLANK: &str = "^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]*[^\\s\\u0000-\\u001f\\u007f-\\u009f]\
                         [^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]*$";
/// Single-line text without control and invisible characters (`domain::value::is_invisible`).
pub(in crate::http) const LINE: &str = concat!("^[^\\u0000-\\u001f\\u007f-\\u009f", invisible!(), "]*$");
/// Email address, or nothing: one `@` between two parts without spaces.
pub(in crate::http) const EMAIL: &str = concat!(
    "^$|^[^@\\s\\u0000-\\u001f\\u007f-\\u009f",
    invisible!(),
    "]+@[^@\\s\\u0000-\\u001f\\u007f-\\u009f",
    invisible!(),
    "]+$"
);
/// Like [`LINE`], but not only whitespace.
pub(in crate::http) const LINE_NOT_BLANK: &str = concat!(
    "^[^\\u0000-\\u001f\\u007f-\\u009f",
    invisible!(),
    "]*[^\\s\\u0000-\\u001f\\u007f-\\u009f",
    invisible!(),
    "][^\\u0000-\\u001f\\u007f-\\u009f",
    invisible!(),
    "]*$"
);
/// Absolute http(s) URL, as far as a pattern can express it: every accepted URL matches, but some matching ones are
/// rejected. As in browsers, the scheme has any case and the host may be an address or letters of any script.
pub(in crate::http) const HTTP_URL: &str =
    concat!("^[Hh][Tt][Tt][Pp][Ss]?:[^\\u0000-\\u0020\\u007f-\\u00a0", invisible!(), "]+$");
/// Pattern of semver.org; the three numbers fit into 64 bits.
pub(in crate::http) const SEMVER: &str = "^(0|[1-9]\\d{0,18})\\.(0|[1-9]\\d{0,18})\\.(0|[1-9]\\d{0,18})(-((0|[1-9]\\d*|\\d*[a-zA-Z-][0-9a-zA-Z-]*)\
                      (\\.(0|[1-9]\\d*|\\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(\\+([0-9a-zA-Z-]+(\\.[0-9a-zA-Z-]+)*))?$";

/// Type whose values have a JSON schema.
pub trait HasSchema {
    /// Returns the schema of all values that pass the type's validation.
    fn schema() -> Value;
}

/// Small counter, such as credits or seconds.
impl HasSchema for u32 {
    fn schema() -> Value {
        json!({"type": "integer", "format": "int32", "minimum": 0})
    }
}

impl<T: JsonValue> HasSchema for T {
    fn schema() -> Value {
        <T as JsonValue>::schema()
    }
}

impl<T: HasSchema> HasSchema for Vec<T> {
    fn schema() -> Value {
        json!({"type": "array", "items": T::schema()})
    }
}

/// Absolute URL that the service returns.
pub struct UrlSchema;

impl HasSchema for UrlSchema {
    fn schema() -> Value {
        json!({"type": "string", "format": "uri"})
    }
}

/// Declares the schemas of UUID identifiers.
macro_rules! uuid_schemas {
    ($($name:ty),+ $(,)?) => {
        $(impl HasSchema for $name {
            fn schema() -> Value {
                json!({"type": "string", "format": "uuid"})
            }
        })+
    };
}

uuid_schemas!(DeliveryId, FileId, TokenId, UserId, VersionId, WebhookId);

/// Declares the schemas of enumerations from the names of their values.
macro_rules! enum_schemas {
    ($($name:ty),+ $(,)?) => {
        $(impl HasSchema for $name {
            fn schema() -> Value {
                one_of(<$name>::ALL.iter().map(|value| value.as_str()))
            }
        })+
    };
}

enum_schemas!(EntryState, TaskKind);

/// States of image tasks. A component, so that client generators create a single type.
impl HasSchema for ImageStatus {
    fn schema() -> Value {
        component_ref("ImageTaskState")
    }
}

/// States of video and music tasks.
impl HasSchema for VideoState {
    fn schema() -> Value {
        component_ref("VideoTaskState")
    }
}

/// State of any task, by reference: names in one enumeration that differ only by case would be merged by client
/// generators.
impl HasSchema for TaskStatus {
    fn schema() -> Value {
        json!({"anyOf": [ImageStatus::schema(), VideoState::schema()]})
    }
}

/// Returns the schema of a string that is one of `names`.
pub fn one_of(names: impl IntoIterator<Item = &'static str>) -> Value {
    json!({"type": "string", "enum": names.into_iter().collect::<Vec<_>>()})
}

/// Excludes text that is only whitespace.
pub fn not_blank(mut schema: Value) -> Value {
    schema["pattern"] = if schema["pattern"] == LINE { LINE_NOT_BLANK } else { NOT_BLANK }.into();
    schema
}

/// Returns a reference to a schema component.
pub fn component_ref(component: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{component}")})
}

/// Returns the schema of an array whose entries have the schema `items`.
pub fn array(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

/// Returns the object schema of a request. Optional fields may be `null`, which means absent; unknown ones are ignored
/// (contract 2).
pub fn request_object(fields: impl IntoIterator<Item = SchemaField>) -> Value {
    let fields = fields.into_iter().map(SchemaField::without_credentials);
    object(
        fields
            .map(|field| if field.required { field } else { SchemaField { schema: nullable(field.schema), ..field } }),
    )
}

/// Returns the object schema of a response. Absent optional fields are omitted rather than `null` (contract 2).
pub fn response_object(fields: impl IntoIterator<Item = SchemaField>) -> Value {
    object(fields)
}

fn object(fields: impl IntoIterator<Item = SchemaField>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for SchemaField { name, schema, required: is_required } in fields {
        properties.insert(name.to_owned(), schema);
        if is_required {
            required.push(name);
        }
    }
    let mut object = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        object["required"] = required.into();
    }
    object
}

/// Extension of an object schema: the names of its fields in the order of the documentation.
pub const FIELD_ORDER: &str = "x-order";

/// Sets the order of the fields in the documentation: the fields `first`, then all others by name. Without a stated
/// order, the fields are documented by name, because `serde_json` sorts the members of an object.
pub fn fields_first(object_schema: &mut Value, first: &[&str]) {
    let Some(properties) = object_schema["properties"].as_object() else { return };
    debug_assert!(first.iter().all(|name| properties.contains_key(*name)), "{first:?} in {:?}", properties.keys());
    let others = properties.keys().map(String::as_str).filter(|name| !first.contains(name));
    let order: Vec<_> = first.iter().copied().chain(others).map(Value::from).collect();
    object_schema[FIELD_ORDER] = order.into();
}

/// Adds fields to the schema of an object.
pub fn with_fields(mut object_schema: Value, fields: impl IntoIterator<Item = SchemaField>) -> Value {
    for SchemaField { name, schema, required } in fields {
        object_schema["properties"][name] = schema;
        if required && let Some(names) = object_schema["required"].as_array_mut() {
            names.push(name.into());
        }
    }
    object_schema
}

/// Returns the schema of a page. Its field `entries` lists entries with the schema of `component`.
pub fn page_of(entries: &'static str, component: &str) -> Value {
    response_object([
        field::<u64>("limit", "Page size; smaller than requested if the request exceeded the maximum.").required(),
        field_with_schema(entries, "Entries of this page.", array(&component_ref(component))).required(),
        field::<u64>("page", "Page number, starting at 1.").required(),
        field::<u64>("total", "Total number of entries.").required(),
        field::<u64>("totalPages", "Total number of pages.").required(),
    ])
}

/// Extends a schema to admit `null`.
pub fn nullable(mut schema: Value) -> Value {
    let Some(kind) = schema.get("type").cloned() else {
        let about = schema.as_object_mut().and_then(|members| members.remove("description"));
        let mut any_of = json!({"anyOf": [schema, {"type": "null"}]});
        if let Some(about) = about {
            any_of["description"] = about;
        }
        return any_of;
    };

    let Some(names) = schema.as_object_mut().and_then(|members| members.remove("enum")) else {
        schema["type"] = json!([kind, "null"]);
        return schema;
    };

    // Client generators turn an enumeration of several types into several enumerations.
    schema.as_object_mut().and_then(|members| members.remove("type"));
    schema["anyOf"] = json!([{"type": kind, "enum": names}, {"type": "null"}]);
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::image::ScaleFactor;
    use crate::domain::publisher::MemberRole;
    use crate::domain::value::{CallbackUrl, Labels, Link, Name};

    fn schema_of<T: HasSchema>() -> Value {
        T::schema()
    }

    #[test]
    fn schema_limits_equal_those_of_the_types() {
        assert_eq!(schema_of::<Name>()["maxLength"], 200);
        assert_eq!(schema_of::<Labels>()["maxItems"], 100);
        assert_eq!(schema_of::<ScaleFactor>()["enum"], json!(["2x", "4x", "8x", "16x"]));
    }

    #[test]
    fn the_url_pattern_accepts_every_valid_notation() {
        // tests/contract/document.py checks the schema against the same list.
        for url in include_str!("../../../tests/contract/urls.txt").lines() {
            assert!(Link::parse(url).is_ok() && CallbackUrl::parse(url).is_ok(), "{url}");
        }
        assert_eq!(schema_of::<Link>()["pattern"], format!("^$|{HTTP_URL}"));
        assert_eq!(schema_of::<CallbackUrl>()["pattern"], HTTP_URL);
    }

    #[test]
    fn optional_request_fields_are_nullable_and_response_fields_are_not() {
        let fields = || [field::<Name>("a", "").required(), field::<MemberRole>("b", "")];
        let body = request_object(fields());
        assert_eq!(body["required"], json!(["a"]));
        assert_eq!(body["properties"]["a"]["type"], "string");
        let any_of = json!([{"type": "string", "enum": ["owner", "member"]}, {"type": "null"}]);
        assert_eq!(body["properties"]["b"]["anyOf"], any_of);
        assert_eq!(response_object(fields())["properties"]["b"]["type"], "string");
    }
}
