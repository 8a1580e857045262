//! Field-by-field reader of JSON bodies. It collects all invalid fields, so that one response names them all.
//!
//! `null` means absent; unknown fields are ignored (contract 2).

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use serde::Serialize;
use serde_json::{Map, Value};
use url::Url;

use crate::domain::bearer_secret;
use crate::domain::value::{InvalidValue, Text, TextList};
use crate::http::response::error::Problem;

/// Error of one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// JSON pointer (RFC 6901) into the body, or a slash and the name of a query parameter.
    pub pointer: String,
    /// Predicate of the sentence whose subject is the field, such as "must be a string".
    pub reason: String,
    /// Value that was sent; see [`shown_value`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

impl FieldError {
    /// Creates an error.
    pub fn new(pointer: impl Into<String>, reason: impl fmt::Display) -> Self {
        Self { pointer: pointer.into(), reason: reason.to_string(), value: None }
    }

    /// Adds the value that was sent, if it may be shown and none was added before.
    fn show_value(&mut self, sent: &Value) {
        if self.value.is_none() && !is_secret_field(&self.pointer) {
            self.value = shown_value(sent);
        }
    }
}

/// Maximum length of a string in an error, in characters.
const SHOWN_CHARS: usize = 100;

/// Returns a value as errors show it: numbers, booleans and the beginning of a string. Arrays and objects would be too
/// long, and recognized secrets are never shown.
fn shown_value(sent: &Value) -> Option<Value> {
    match sent {
        Value::Number(_) | Value::Bool(_) => Some(sent.clone()),
        Value::String(text) if has_secret(text) => None,
        Value::String(text) => Some(match text.char_indices().nth(SHOWN_CHARS) {
            Some((end, _)) => format!("{}…", &text[..end]).into(),
            None => sent.clone(),
        }),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns `true` if a text contains a secret, as after a mistake with a header: an access token, a webhook secret, a
/// JSON web token, or a password in a URL.
fn has_secret(text: &str) -> bool {
    let is_token_char = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let has_token = text
        .split(|character| !is_token_char(character))
        .any(|word| bearer_secret::parse_kind(word).is_some() || word.starts_with("whsec_"));
    // The first part of a JSON web token is an object in base64.
    let has_jwt = text.split_whitespace().any(|word| word.starts_with("eyJ") && word.matches('.').count() == 2);
    let has_password = Url::parse(text.trim()).is_ok_and(|url| url.password().is_some());
    has_token || has_jwt || has_password
}

/// Returns `true` if the name of the field says that its value is a secret or personal: a stored response must contain
/// nothing that the erasure of a user would have to find.
fn is_secret_field(pointer: &str) -> bool {
    let name = pointer.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    ["token", "secret", "password", "key", "email"].iter().any(|word| name.ends_with(word))
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = if self.pointer.is_empty() { "the body" } else { &self.pointer };
        write!(f, "{location} {}", self.reason)
    }
}

/// Errors collected so far.
#[derive(Debug, Default)]
pub struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    /// Adds an error.
    pub fn add(&mut self, pointer: impl Into<String>, reason: impl fmt::Display) {
        self.0.push(FieldError::new(pointer, reason));
    }

    /// Adds an error with the value that was sent.
    pub fn add_with_value(&mut self, pointer: impl Into<String>, reason: impl fmt::Display, sent: &str) {
        let mut error = FieldError::new(pointer, reason);
        error.show_value(&sent.into());
        self.0.push(error);
    }

    /// Adds the values of a body to its errors.
    fn show_values(&mut self, body: &Value) {
        for error in &mut self.0 {
            if let Some(sent) = body.pointer(&error.pointer) {
                error.show_value(sent);
            }
        }
    }

    /// Returns the value if there are no errors.
    ///
    /// # Errors
    /// All collected errors; an internal error if there is neither a value nor an error.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, Problem> {
        if self.0.is_empty() {
            value.ok_or_else(|| Problem::internal("input was rejected without an error"))
        } else {
            Err(Problem::invalid(self.0))
        }
    }
}

/// Reads a body that must be an object, without the fields for administrators. `read` may return `None` only after
/// adding an error.
///
/// # Errors
/// All collected errors.
pub fn read<'v, T>(body: &'v Value, read: impl FnOnce(&mut Fields<'v, '_>) -> Option<T>) -> Result<T, Problem> {
    read_in(BodyContext::default(), body, read)
}

/// Options for reading a body.
#[derive(Debug, Clone, Copy)]
pub struct BodyContext {
    /// `true` if the fields for administrators are read.
    pub is_admin: bool,
    /// Setting `video.max_images`.
    pub max_images: usize,
}

impl Default for BodyContext {
    fn default() -> Self {
        Self { is_admin: false, max_images: usize::MAX }
    }
}

/// Reads a body as [`read`] does; with the fields for administrators if `is_admin`.
///
/// # Errors
/// All collected errors.
pub fn read_as<'v, T>(
    is_admin: bool,
    body: &'v Value,
    read: impl FnOnce(&mut Fields<'v, '_>) -> Option<T>,
) -> Result<T, Problem> {
    read_in(BodyContext { is_admin, ..BodyContext::default() }, body, read)
}

/// Reads a body as [`read`] does, in a context.
///
/// # Errors
/// All collected errors.
pub fn read_in<'v, T>(
    context: BodyContext,
    body: &'v Value,
    read: impl FnOnce(&mut Fields<'v, '_>) -> Option<T>,
) -> Result<T, Problem> {
    let mut errors = FieldErrors::default();
    let Some(object) = body.as_object() else {
        errors.add("", "must be a JSON object");
        return errors.finish(None);
    };
    let value = read(&mut Fields { object, base: String::new(), context, errors: &mut errors });
    errors.show_values(body);
    errors.finish(value)
}

/// Fields of one object.
pub struct Fields<'v, 'f> {
    object: &'v Map<String, Value>,
    base: String,
    context: BodyContext,
    errors: &'f mut FieldErrors,
}

impl<'v> Fields<'v, '_> {
    /// Returns the field; `None` if it is absent.
    pub fn value(&self, name: &str) -> Option<&'v Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// Returns the context of the body.
    #[must_use]
    pub fn context(&self) -> BodyContext {
        self.context
    }

    /// Adds an error of a field.
    pub fn add_error(&mut self, name: &str, reason: impl fmt::Display) {
        self.errors.add(pointer(&self.base, name), reason);
    }

    /// Returns the JSON pointer of a field.
    #[must_use]
    pub fn pointer_to(&self, name: &str) -> String {
        pointer(&self.base, name)
    }

    /// Adds an error at a pointer from [`Fields::pointer_to`] or [`Fields::texts`].
    pub fn add_error_at(&mut self, pointer: &str, reason: impl fmt::Display) {
        self.errors.add(pointer, reason);
    }

    /// Adds an error if the field is absent. `value` is the result of one of the readers below.
    pub fn required<T>(&mut self, name: &str, value: Option<T>) -> Option<T> {
        if value.is_none() && self.value(name).is_none() {
            self.add_error(name, "is required");
        }
        value
    }

    /// Reads a string.
    pub fn str(&mut self, name: &str) -> Option<&'v str> {
        let text = self.value(name)?.as_str();
        if text.is_none() {
            self.add_error(name, "must be a string");
        }
        text
    }

    /// Reads a string and parses it.
    pub fn text<T>(&mut self, name: &str, parse: impl FnOnce(&'v str) -> Result<T, InvalidValue>) -> Option<T> {
        let result = parse_text(self.value(name)?, parse);
        self.ok_or_add_error(name, result)
    }

    /// Reads a boolean.
    pub fn flag(&mut self, name: &str) -> Option<bool> {
        let flag = self.value(name)?.as_bool();
        if flag.is_none() {
            self.add_error(name, "must be true or false");
        }
        flag
    }

    /// Reads and checks an integer; 2.0 is accepted as 2.
    pub fn integer<T>(&mut self, name: &str, parse: impl FnOnce(i64) -> Result<T, InvalidValue>) -> Option<T> {
        let result = match self.value(name)?.as_number().and_then(as_integer) {
            Some(number) => parse(number),
            // Parse a number that is out of any range, so that the error states the allowed range.
            None => Err(parse(i64::MIN).err().unwrap_or_else(|| InvalidValue::new("must be an integer"))),
        };
        self.ok_or_add_error(name, result)
    }

    /// Reads and checks a number.
    pub fn number<T>(&mut self, name: &str, parse: impl FnOnce(f64) -> Result<T, InvalidValue>) -> Option<T> {
        let result = match self.value(name)?.as_f64() {
            Some(number) => parse(number),
            None => Err(parse(f64::NAN).err().unwrap_or_else(|| InvalidValue::new("must be a number"))),
        };
        self.ok_or_add_error(name, result)
    }

    /// Reads an array of an allowed length. Too short an array is an error, but its entries are still returned, so that
    /// their errors are reported too.
    fn array(&mut self, name: &str, allowed: &RangeInclusive<usize>) -> Option<&'v [Value]> {
        let entries = self.value(name)?.as_array();

        if entries.is_none_or(|entries| !allowed.contains(&entries.len())) {
            self.add_error(name, ArrayLengthMessage(allowed));
        }

        entries.filter(|entries| entries.len() <= *allowed.end()).map(Vec::as_slice)
    }

    /// Reads an array of at most `max` strings and parses each. Returns the parsed entries with their JSON pointers;
    /// empty if the field is absent. Each invalid entry is an error.
    pub fn texts<T>(
        &mut self,
        name: &str,
        max: usize,
        parse: impl Fn(&'v str) -> Result<T, InvalidValue>,
    ) -> Vec<(String, T)> {
        let base = pointer(&self.base, name);
        let mut texts = Vec::new();

        for (index, entry) in self.array(name, &(0..=max)).unwrap_or_default().iter().enumerate() {
            let entry_pointer = pointer(&base, &index.to_string());
            match parse_text(entry, &parse) {
                Ok(text) => texts.push((entry_pointer, text)),
                Err(reason) => self.errors.add(entry_pointer, reason),
            }
        }
        texts
    }

    /// Reads an array of texts.
    pub fn text_list<const ENTRIES: usize, const CHARS: usize>(
        &mut self,
        name: &str,
    ) -> Option<TextList<ENTRIES, CHARS>> {
        self.value(name)?;
        let texts = self.texts(name, ENTRIES, Text::parse).into_iter().map(|(_, text)| text);
        self.ok_or_add_error(name, TextList::new(texts.collect()))
    }

    /// Reads a nested object.
    pub fn object<T>(&mut self, name: &str, read: impl FnOnce(&mut Fields<'v, '_>) -> Option<T>) -> Option<T> {
        let value = self.value(name)?;
        self.nested_object(pointer(&self.base, name), value, read)
    }

    /// Reads an array of objects of an allowed length; each invalid entry is an error.
    pub fn objects<T>(
        &mut self,
        name: &str,
        allowed: &RangeInclusive<usize>,
        mut read: impl FnMut(&mut Fields<'v, '_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let base = pointer(&self.base, name);
        let entries = self.array(name, allowed)?.iter().enumerate();
        let results =
            entries.map(|(index, entry)| self.nested_object(pointer(&base, &index.to_string()), entry, &mut read));
        let results: Vec<Option<T>> = results.collect();
        results.into_iter().collect()
    }

    /// Reads an object with free keys, at most `max` of them.
    pub fn map<K: Ord, T>(
        &mut self,
        max: usize,
        parse_name: impl Fn(&'v str) -> Result<K, InvalidValue>,
        mut read: impl FnMut(&mut Self, &str) -> Option<T>,
    ) -> BTreeMap<K, T> {
        let mut entries = BTreeMap::new();
        if self.object.len() > max {
            self.errors.add(self.base.clone(), format!("must have at most {max} entries"));
            return entries;
        }

        for name in self.object.keys() {
            match parse_name(name) {
                Ok(key) => entries.extend(read(self, name).map(|value| (key, value))),
                Err(reason) => self.add_error(name, format!("has an invalid name: it {reason}")),
            }
        }
        entries
    }

    fn nested_object<T>(
        &mut self,
        base: String,
        value: &'v Value,
        read: impl FnOnce(&mut Fields<'v, '_>) -> Option<T>,
    ) -> Option<T> {
        if let Some(object) = value.as_object() {
            return read(&mut Fields { object, base, context: self.context, errors: self.errors });
        }
        self.errors.add(base, "must be an object");
        None
    }

    fn ok_or_add_error<T>(&mut self, name: &str, result: Result<T, InvalidValue>) -> Option<T> {
        result.map_err(|reason| self.add_error(name, reason)).ok()
    }
}

/// Parses a string. Any other value gets the error of an invalid string, which says what is allowed.
fn parse_text<'v, T>(
    value: &'v Value,
    parse: impl FnOnce(&'v str) -> Result<T, InvalidValue>,
) -> Result<T, InvalidValue> {
    const INVALID_TEXT: &str = "\0";
    match value.as_str() {
        Some(text) => parse(text),
        None => Err(parse(INVALID_TEXT).err().unwrap_or_else(|| InvalidValue::new("must be a string"))),
    }
}

/// Error message for an array of the wrong length.
struct ArrayLengthMessage<'r>(&'r RangeInclusive<usize>);

impl fmt::Display for ArrayLengthMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.clone().into_inner() {
            (0, 1) => f.write_str("must be an array of at most 1 entry"),
            (0, max) => write!(f, "must be an array of at most {max} entries"),
            (min, max) => write!(f, "must be an array of {min} to {max} entries"),
        }
    }
}

/// Returns the JSON pointer to a member of `parent` (RFC 6901).
fn pointer(parent: &str, name: &str) -> String {
    format!("{parent}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Returns the number as an integer, if it is whole and in the exact range.
fn as_integer(number: &serde_json::Number) -> Option<i64> {
    /// 2^53: every integer up to here is exact in `f64`.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let rounded = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT);
    #[expect(clippy::cast_possible_truncation, reason = "whole and within the exact range, as checked above")]
    number.as_i64().or_else(|| rounded.map(|float| float as i64))
}

#[cfg(test)]
mod tests;
