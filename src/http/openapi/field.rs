//! One field of an object schema.

use serde_json::Value;

use super::schema::{HTTP_URL, HasSchema, component_ref};

/// Sentence appended to every URL field of a request.
const WITHOUT_CREDENTIALS: &str = "URLs with a user name or password (`https://user:secret@…`) are rejected.";

/// One field of an object.
pub struct SchemaField {
    pub name: &'static str,
    /// Schema with the description.
    pub schema: Value,
    pub required: bool,
}

/// Returns an optional field with the schema of the type `T`, and with the description `about` unless that is empty.
pub fn field<T: HasSchema>(name: &'static str, about: &str) -> SchemaField {
    field_with_schema(name, about, T::schema())
}

/// Returns an optional field with `schema`, and with the description `about` unless that is empty.
pub fn field_with_schema(name: &'static str, about: &str, schema: Value) -> SchemaField {
    let mut schema = schema;
    if !about.is_empty() {
        schema["description"] = about.into();
    }
    SchemaField { name, schema, required: false }
}

impl SchemaField {
    /// Marks the field as required.
    #[must_use]
    pub fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// Marks the field as optional.
    #[must_use]
    pub fn optional(self) -> Self {
        Self { required: false, ..self }
    }

    /// Replaces the schema by a reference to a component.
    #[must_use]
    pub fn component(self, component: &str) -> Self {
        let about = self.schema["description"].clone();
        Self { schema: component_ref(component), ..self }.with("description", about)
    }

    /// Marks the field as settable by administrators only.
    #[must_use]
    pub fn administrators_only(self) -> Self {
        let about = self.schema["description"].as_str().unwrap_or_default();
        let about = format!("{about} Accepted from administrators only; ignored from other callers.");
        self.with("description", about).with("x-administrators-only", true)
    }

    /// Returns `true` if the field has this name.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name
    }

    /// Marks the field as required if its name is in `names`.
    #[must_use]
    pub fn required_among(self, names: &[&str]) -> Self {
        Self { required: self.required || names.contains(&self.name), ..self }
    }

    /// States for URL fields that credentials are rejected, which the pattern does not express.
    #[must_use]
    pub(super) fn without_credentials(self) -> Self {
        if !self.schema["pattern"].as_str().is_some_and(|pattern| pattern.ends_with(HTTP_URL)) {
            return self;
        }
        let about = self.schema["description"].as_str().unwrap_or_default();
        let about = format!("{about} {WITHOUT_CREDENTIALS}");
        self.with("description", about)
    }

    /// Adds a schema keyword.
    #[must_use]
    pub fn with(mut self, keyword: &str, value: impl Into<Value>) -> Self {
        self.schema[keyword] = value.into();
        self
    }
}
