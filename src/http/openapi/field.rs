//! One field of an object, as schemas have it.

use serde_json::Value;

use super::schema::{Documented, HTTP_URL, LINE, LINE_NOT_BLANK, NOT_BLANK};

/// What is said of each URL that is taken.
const WITHOUT_CREDENTIALS: &str = "A URL with a user name or a password in it (`https://user:secret@…`) is refused.";

/// One field of an object.
pub struct Field {
    pub(super) name: &'static str,
    pub(super) schema: Value,
    pub(super) required: bool,
}

/// A field that holds values of a type.
pub fn field<T: Documented>(name: &'static str, about: &str) -> Field {
    field_of(name, about, T::schema())
}

/// A field with a schema of its own.
pub fn field_of(name: &'static str, about: &str, schema: Value) -> Field {
    let mut schema = schema;
    if !about.is_empty() {
        schema["description"] = about.into();
    }
    Field { name, schema, required: false }
}

impl Field {
    /// The same, always there.
    #[must_use]
    pub fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// The same, from administrators alone.
    #[must_use]
    pub fn of_administrators(self) -> Self {
        let about = self.schema["description"].as_str().unwrap_or_default();
        let about = format!("{about} Counts from administrators only; ignored from others.");
        self.with("description", about).with("x-administrators-only", true)
    }

    /// Whether this is its name.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name == name
    }

    /// The same, always there if it is one of these.
    #[must_use]
    pub fn required_among(self, names: &[&str]) -> Self {
        Self { required: self.required || names.contains(&self.name), ..self }
    }

    /// The same text, but not of white space alone.
    #[must_use]
    pub fn not_blank(self) -> Self {
        let pattern = if self.schema["pattern"] == LINE { LINE_NOT_BLANK } else { NOT_BLANK };
        self.with("pattern", pattern)
    }

    /// The same; of a URL it is said that it may carry no credentials, which its pattern does not tell.
    #[must_use]
    pub(super) fn without_credentials(self) -> Self {
        if !self.schema["pattern"].as_str().is_some_and(|pattern| pattern.ends_with(HTTP_URL)) {
            return self;
        }
        let about = self.schema["description"].as_str().unwrap_or_default();
        let about = format!("{about} {WITHOUT_CREDENTIALS}");
        self.with("description", about)
    }

    /// The same with one more keyword.
    #[must_use]
    pub fn with(mut self, keyword: &str, value: impl Into<Value>) -> Self {
        self.schema[keyword] = value.into();
        self
    }
}
