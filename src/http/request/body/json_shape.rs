//! JSON parser that keeps only the fields an operation knows.
//!
//! Unknown fields are ignored, so a tree of them would waste hundreds of bytes per element. They are still parsed, so
//! that invalid JSON is rejected anywhere. The known fields of an operation come from its schema in the OpenAPI
//! document.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use actix_web::http::Method;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::body_budget::BodyCharge;
use crate::http::openapi;
use crate::http::response::error::Problem;

/// Keyword of the schema of a string that may be a picture in base64.
pub const PICTURE_MARK: &str = "x-picture";

/// Maximum depth of the schema; deeper values are kept whole.
const SCHEMA_DEPTH_MAX: usize = 16;

/// Memory of the first member of an object, in bytes: the node of a map.
const FIRST_MEMBER_BYTES: usize = 640;
/// Memory of a further member without its text, in bytes.
const MEMBER_BYTES: usize = 128;
/// Memory of an array entry without its text, in bytes.
const ENTRY_BYTES: usize = 64;

/// Part of a value to keep.
#[derive(Debug, PartialEq)]
pub enum JsonShape {
    /// The whole value.
    Whole,
    /// Nothing: an unknown field.
    Skipped,
    /// Scalars, the known members of an object, and the known parts of array entries.
    Known(KnownJsonMembers),
}

/// Known members and entries of a value.
#[derive(Debug, Default, PartialEq)]
pub struct KnownJsonMembers {
    fields: HashMap<String, JsonShape>,
    /// Shape of members whose names the client chooses.
    others: Option<Box<JsonShape>>,
    /// Shape of the entries of an array.
    entries: Option<Box<JsonShape>>,
    /// `true` if the value may be a string.
    is_text: bool,
    /// `true` if the string may be a file in base64, see [`PICTURE_MARK`].
    takes_file: bool,
}

impl JsonShape {
    /// Returns the shape of the body of a route; [`JsonShape::Whole`] if the OpenAPI document has no JSON schema for
    /// it.
    pub fn for_route(method: &Method, path: &'static str) -> &'static Self {
        static SHAPES: LazyLock<HashMap<(Method, &'static str), JsonShape>> = LazyLock::new(|| {
            let (bodies, components) = openapi::body_schemas();
            let shape = |schema: &Value| JsonShape::from_schema(schema, &components, SCHEMA_DEPTH_MAX);
            bodies.into_iter().map(|(method, path, schema)| ((method, path), shape(&schema))).collect()
        });
        SHAPES.get(&(method.clone(), path)).unwrap_or(&Self::Whole)
    }

    /// Derives a shape from a JSON schema, of which it reads `depth` levels.
    fn from_schema(schema: &Value, components: &Map<String, Value>, depth: usize) -> Self {
        if depth == 0 {
            return Self::Whole;
        }
        let read = |schema: &Value| Self::from_schema(schema, components, depth - 1);
        if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
            return components.get(name).map_or(Self::Whole, read);
        }

        let alternatives = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|kind| schema[kind].as_array()).flatten();
        let mut shape = Self::Known(KnownJsonMembers::default());
        // `false` if the schema admits any value.
        let mut is_described = schema.get("enum").is_some();
        for alternative in alternatives {
            shape = shape.merge(read(alternative));
            is_described = true;
        }

        let has_type = |name: &str| match &schema["type"] {
            Value::Array(names) => names.iter().any(|type_name| type_name == name),
            type_name => type_name == name,
        };
        let properties = schema["properties"].as_object();
        let others = schema.get("additionalProperties").filter(|others| **others != Value::Bool(false));
        let entries = schema.get("items");

        let members = KnownJsonMembers {
            fields: properties.into_iter().flatten().map(|(name, field)| (name.clone(), read(field))).collect(),
            others: match others {
                Some(others) => Some(Box::new(read(others))),
                None => (has_type("object") && properties.is_none()).then(|| Box::new(Self::Whole)),
            },
            entries: match entries {
                Some(entries) => Some(Box::new(read(entries))),
                None => has_type("array").then(|| Box::new(Self::Whole)),
            },
            is_text: has_type("string"),
            takes_file: schema[PICTURE_MARK] == true,
        };

        is_described |= schema.get("type").is_some() || properties.is_some();
        if is_described { shape.merge(Self::Known(members)) } else { Self::Whole }
    }

    /// Returns the union of two shapes.
    fn merge(self, other: Self) -> Self {
        match (self, other) {
            (Self::Whole, _) | (_, Self::Whole) => Self::Whole,
            (Self::Skipped, shape) | (shape, Self::Skipped) => shape,
            (Self::Known(mut merged), Self::Known(other)) => {
                for (name, shape) in other.fields {
                    let known = merged.fields.remove(&name).unwrap_or(Self::Skipped);
                    merged.fields.insert(name, known.merge(shape));
                }

                let merge_options = |left: Option<Box<Self>>, right: Option<Box<Self>>| match (left, right) {
                    (Some(left), Some(right)) => Some(Box::new(left.merge(*right))),
                    (left, right) => left.or(right),
                };
                merged.others = merge_options(merged.others, other.others);
                merged.entries = merge_options(merged.entries, other.entries);
                merged.is_text |= other.is_text;
                merged.takes_file |= other.takes_file;
                Self::Known(merged)
            }
        }
    }

    /// Returns `true` if the value is an array.
    pub(super) fn is_array(&self) -> bool {
        matches!(self, Self::Known(KnownJsonMembers { entries: Some(_), .. }))
    }

    /// Returns `true` if the value may be a string.
    pub(super) fn is_text(&self) -> bool {
        matches!(self, Self::Known(KnownJsonMembers { is_text: true, .. }))
    }

    /// Returns `true` if the value, or an entry of the array, may be a file in base64.
    pub(super) fn takes_file(&self) -> bool {
        match self {
            Self::Known(known) => known.takes_file || known.entries.as_deref().is_some_and(Self::takes_file),
            Self::Whole | Self::Skipped => false,
        }
    }

    /// Returns the shape of a member.
    pub(super) fn member(&self, name: &str) -> &Self {
        match self {
            Self::Known(KnownJsonMembers { fields, others, .. }) => {
                fields.get(name).or(others.as_deref()).unwrap_or(&Self::Skipped)
            }
            Self::Whole | Self::Skipped => self,
        }
    }

    /// Returns the shape of the entries of an array.
    pub(super) fn entry(&self) -> &Self {
        match self {
            Self::Known(KnownJsonMembers { entries, .. }) => entries.as_deref().unwrap_or(&Self::Skipped),
            Self::Whole | Self::Skipped => self,
        }
    }
}

/// Parse error.
pub enum BodyParseError {
    NotJson(serde_json::Error),
    /// The parsed value exceeds the memory budget.
    OverBudget(Problem),
}

/// Parses JSON into the parts that `shape` keeps, charging the memory budget as the value grows. Returns the value and
/// the bytes charged.
///
/// # Errors
/// [`BodyParseError`] if the text is not JSON or the budget is exhausted.
pub fn parse(bytes: &[u8], shape: &JsonShape, charge: &mut BodyCharge) -> Result<(Value, usize), BodyParseError> {
    let mut meter = JsonMemoryMeter { charge, bytes: 0, over_budget: None };
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed = ShapeSeed { shape, meter: &mut meter }.deserialize(&mut deserializer);
    let parsed = parsed.and_then(|value| deserializer.end().map(|()| value));
    match (parsed, meter.over_budget) {
        (_, Some(problem)) => Err(BodyParseError::OverBudget(problem)),
        (Err(error), None) => Err(BodyParseError::NotJson(error)),
        (Ok(value), None) => Ok((value, meter.bytes)),
    }
}

/// Memory accounting of the value being built.
struct JsonMemoryMeter<'c> {
    charge: &'c mut BodyCharge,
    bytes: usize,
    over_budget: Option<Problem>,
}

impl JsonMemoryMeter<'_> {
    fn charge_bytes<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.bytes += bytes;
        self.charge.grow(bytes).map_err(|problem| {
            self.over_budget = Some(problem);
            E::custom("no room")
        })
    }
}

/// Value being parsed.
struct ShapeSeed<'s, 't, 'c> {
    shape: &'s JsonShape,
    meter: &'t mut JsonMemoryMeter<'c>,
}

impl ShapeSeed<'_, '_, '_> {
    fn is_skipped(&self) -> bool {
        *self.shape == JsonShape::Skipped
    }
}

impl<'de> DeserializeSeed<'de> for ShapeSeed<'_, '_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ShapeSeed<'_, '_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        if self.is_skipped() {
            return Ok(Value::Null);
        }
        self.meter.charge_bytes(value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let shape = self.shape.entry();
        let mut values = Vec::new();
        while let Some(entry) = entries.next_element_seed(ShapeSeed { shape, meter: self.meter })? {
            if *shape != JsonShape::Skipped {
                self.meter.charge_bytes(ENTRY_BYTES)?;
                values.push(entry);
            }
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let shape = self.shape.member(&name);
            let member = members.next_value_seed(ShapeSeed { shape, meter: self.meter })?;
            if *shape != JsonShape::Skipped {
                let bytes = if object.is_empty() { FIRST_MEMBER_BYTES } else { MEMBER_BYTES };
                self.meter.charge_bytes::<A::Error>(bytes + name.len())?;
                object.insert(name, member);
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::BodyLimit;
    use super::super::body_budget::BodyBudget;
    use super::*;
    use crate::quota::Account;

    const UPSCALER: &str = "/proxy/imagevendor/v1/ai/image-upscaler";
    const RELIGHT: &str = "/proxy/imagevendor/v1/ai/image-relight";

    fn parse_body(path: &'static str, body: &Value) -> Value {
        let mut charge = BodyBudget::default().charge(BodyLimit::Json, Account::from_address([192, 0, 2, 1].into()));
        let shape = JsonShape::for_route(&Method::POST, path);
        parse(body.to_string().as_bytes(), shape, &mut charge).ok().expect("JSON").0
    }

    #[test]
    fn unknown_fields_are_skipped_and_known_ones_unchanged() {
        let body = json!({
            "image": "abc", "scale_factor": 7, "prompt": null, "creativity": [1, {"a": 2}], "hdr": {"b": 3},
            "junk": [[0, 1], {"c": 4}], "": {}
        });
        // A field of the wrong type keeps its type, so that its error is the same.
        let expected = json!({"image": "abc", "scale_factor": 7, "prompt": null, "creativity": [], "hdr": {}});
        assert_eq!(parse_body(UPSCALER, &body), expected);
    }

    #[test]
    fn known_objects_and_arrays_keep_their_known_members() {
        let body = json!({"advanced_settings": {"whites": 5, "junk": [1]}});
        assert_eq!(parse_body(RELIGHT, &body), json!({"advanced_settings": {"whites": 5}}));
        let body = json!({"node_versions": [{"node_id": "a", "junk": {}}, 5, [6], {"version": "1"}]});
        let expected = json!({"node_versions": [{"node_id": "a"}, 5, [], {"version": "1"}]});
        assert_eq!(parse_body("/bulk/nodes/versions", &body), expected);
        let translations = json!({"de": {"name": "a", "other": [1, 2]}, "no such": {}});
        let expected = json!({"de": {"name": "a", "other": []}, "no such": {}});
        assert_eq!(parse_body("/nodes/{nodeId}/translations", &translations), expected);
    }

    #[test]
    fn every_documented_json_body_has_a_shape() {
        let (bodies, _) = openapi::body_schemas();
        assert!(bodies.len() > 20, "{}", bodies.len());
        for (method, path, _) in bodies {
            let is_known =
                matches!(JsonShape::for_route(&method, path), JsonShape::Known(known) if !known.fields.is_empty());
            assert!(is_known, "{method} {path}");
        }
    }

    #[test]
    fn junk_uses_no_memory_but_must_be_valid_json() {
        let charged_bytes = |text: &str| {
            let mut charge =
                BodyBudget::default().charge(BodyLimit::Json, Account::from_address([192, 0, 2, 1].into()));
            parse(text.as_bytes(), JsonShape::for_route(&Method::POST, UPSCALER), &mut charge).map(|(_, bytes)| bytes)
        };
        let junk = format!("{{\"image\":\"x\",\"junk\":[0{}]}}", ",0".repeat(98_000));
        assert!(charged_bytes(&junk).is_ok_and(|bytes| bytes < 1024));

        for bad in [r#"{"junk": 1e999}"#, r#"{"junk": "\ud800"}"#, r#"{"junk": [1,]}"#, "{} x", "{\"junk\": \"\n\"}"] {
            let expected = serde_json::from_str::<Value>(bad).unwrap_err().to_string();
            let Err(BodyParseError::NotJson(error)) = charged_bytes(bad) else { panic!("{bad} was accepted") };
            assert_eq!(error.to_string(), expected, "{bad}");
        }
    }

    #[test]
    fn a_value_beyond_the_budget_is_rejected() {
        let mut charge = BodyBudget::default().charge(BodyLimit::Json, Account::from_address([192, 0, 2, 1].into()));
        // Leaves 1000 bytes of the account's share (64 MiB).
        charge.grow((64 << 20) - 1000).unwrap();
        let body = json!({"node_versions": vec![json!({"node_id": "a"}); 10]}).to_string();
        let shape = JsonShape::for_route(&Method::POST, "/bulk/nodes/versions");
        assert!(matches!(parse(body.as_bytes(), shape, &mut charge), Err(BodyParseError::OverBudget(_))));
    }
}
