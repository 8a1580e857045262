//! Reading a JSON body field by field, collecting everything that is wrong with it, so that one answer names it all.
//!
//! `null` means absent, unknown fields are ignored (contract 2).

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use serde::Serialize;
use serde_json::{Map, Value};

use super::error::Problem;
use crate::domain::value::{Invalid, LIST_MAX, Label, Labels};

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Where: a JSON pointer (RFC 6901) into the body, or a slash and the name of a query parameter.
    pub pointer: String,
    /// A sentence that goes after the name of the field.
    pub reason: String,
}

impl Fault {
    /// What is wrong with a field.
    pub fn new(pointer: impl Into<String>, reason: impl fmt::Display) -> Self {
        Self { pointer: pointer.into(), reason: reason.to_string() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.pointer.is_empty() { "the body" } else { &self.pointer };
        write!(f, "{at} {}", self.reason)
    }
}

/// What is wrong with the input so far.
#[derive(Debug, Default)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Notes a fault.
    pub fn add(&mut self, pointer: impl Into<String>, reason: impl fmt::Display) {
        self.0.push(Fault::new(pointer, reason));
    }

    /// What was read, if nothing is wrong.
    ///
    /// # Errors
    /// All faults; or a fault of ours, when there is neither a value nor a fault.
    pub fn settle<T>(self, value: Option<T>) -> Result<T, Problem> {
        if self.0.is_empty() {
            value.ok_or_else(|| Problem::internal("input was refused without a fault"))
        } else {
            Err(Problem::invalid(self.0))
        }
    }
}

/// Reads a body that must be an object. `read` gives `None` only after it has noted a fault.
///
/// # Errors
/// Every fault that was noted.
pub fn read<'v, T>(body: &'v Value, read: impl FnOnce(&mut Fields<'v, '_>) -> Option<T>) -> Result<T, Problem> {
    let mut faults = Faults::default();
    let Some(object) = body.as_object() else {
        faults.add("", "must be a JSON object");
        return faults.settle(None);
    };
    let value = read(&mut Fields { object, at: String::new(), faults: &mut faults });
    faults.settle(value)
}

/// The fields of one object.
pub struct Fields<'v, 'f> {
    object: &'v Map<String, Value>,
    at: String,
    faults: &'f mut Faults,
}

impl<'v> Fields<'v, '_> {
    /// The field as it is; `None` when it is absent.
    pub fn value(&self, name: &str) -> Option<&'v Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// Notes a fault of a field.
    pub fn fault(&mut self, name: &str, reason: impl fmt::Display) {
        self.faults.add(pointer(&self.at, name), reason);
    }

    /// Where a field is, as its faults name it.
    #[must_use]
    pub fn pointer_of(&self, name: &str) -> String {
        pointer(&self.at, name)
    }

    /// Notes a fault at a place that [`Fields::pointer_of`] or [`Fields::texts`] told.
    pub fn fault_at(&mut self, pointer: &str, reason: impl fmt::Display) {
        self.faults.add(pointer, reason);
    }

    /// A value that must have been given; to be used on what one of the readers below gave.
    pub fn required<T>(&mut self, name: &str, value: Option<T>) -> Option<T> {
        if value.is_none() && self.value(name).is_none() {
            self.fault(name, "is required");
        }
        value
    }

    /// Text as it is.
    pub fn str(&mut self, name: &str) -> Option<&'v str> {
        let text = self.value(name)?.as_str();
        if text.is_none() {
            self.fault(name, "must be a string");
        }
        text
    }

    /// Text that passes a check.
    pub fn text<T>(&mut self, name: &str, parse: impl FnOnce(&'v str) -> Result<T, Invalid>) -> Option<T> {
        let result = text_of(self.value(name)?, parse);
        self.checked(name, result)
    }

    /// Text that must be given and passes a check.
    pub fn required_text<T>(&mut self, name: &str, parse: impl FnOnce(&'v str) -> Result<T, Invalid>) -> Option<T> {
        let value = self.text(name, parse);
        self.required(name, value)
    }

    /// True or false.
    pub fn flag(&mut self, name: &str) -> Option<bool> {
        let flag = self.value(name)?.as_bool();
        if flag.is_none() {
            self.fault(name, "must be true or false");
        }
        flag
    }

    /// A whole number that passes a check; 2.0 is one.
    pub fn integer<T>(&mut self, name: &str, parse: impl FnOnce(i64) -> Result<T, Invalid>) -> Option<T> {
        let result = match self.value(name)?.as_number().and_then(whole) {
            Some(number) => parse(number),
            // What no range holds is refused with the range.
            None => Err(parse(i64::MIN).err().unwrap_or_else(|| Invalid::new("must be an integer"))),
        };
        self.checked(name, result)
    }

    /// A number that passes a check.
    pub fn number<T>(&mut self, name: &str, parse: impl FnOnce(f64) -> Result<T, Invalid>) -> Option<T> {
        let result = match self.value(name)?.as_f64() {
            Some(number) => parse(number),
            None => Err(parse(f64::NAN).err().unwrap_or_else(|| Invalid::new("must be a number"))),
        };
        self.checked(name, result)
    }

    /// An array of so many entries. Where there are too few, those that are there are given nevertheless, so that what is wrong
    /// with them is told too.
    fn array(&mut self, name: &str, allowed: &RangeInclusive<usize>) -> Option<&'v [Value]> {
        let entries = self.value(name)?.as_array();
        if entries.is_none_or(|entries| !allowed.contains(&entries.len())) {
            self.fault(name, ArrayOf(allowed));
        }
        entries.filter(|entries| entries.len() <= *allowed.end()).map(Vec::as_slice)
    }

    /// An array of at most `max` texts that pass a check, each with the place where it is; empty when the field is absent. Every
    /// entry that does not pass is a fault.
    pub fn texts<T>(
        &mut self,
        name: &str,
        max: usize,
        parse: impl Fn(&'v str) -> Result<T, Invalid>,
    ) -> Vec<(String, T)> {
        let at = pointer(&self.at, name);
        let mut texts = Vec::new();
        for (index, entry) in self.array(name, &(0..=max)).unwrap_or_default().iter().enumerate() {
            let at = pointer(&at, &index.to_string());
            match text_of(entry, &parse) {
                Ok(text) => texts.push((at, text)),
                Err(reason) => self.faults.add(at, reason),
            }
        }
        texts
    }

    /// An array of short texts.
    pub fn labels(&mut self, name: &str) -> Option<Labels> {
        self.value(name)?;
        let labels = self.texts(name, LIST_MAX, Label::parse).into_iter().map(|(_, label)| label);
        self.checked(name, Labels::new(labels.collect()))
    }

    /// An object of its own.
    pub fn object<T>(&mut self, name: &str, read: impl FnOnce(&mut Fields<'v, '_>) -> Option<T>) -> Option<T> {
        let value = self.value(name)?;
        self.inside(pointer(&self.at, name), value, read)
    }

    /// An array of so many objects, of which every one is read; each entry that cannot be read is a fault.
    pub fn objects<T>(
        &mut self,
        name: &str,
        allowed: &RangeInclusive<usize>,
        mut read: impl FnMut(&mut Fields<'v, '_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let at = pointer(&self.at, name);
        let entries = self.array(name, allowed)?.iter().enumerate();
        let read = entries.map(|(index, entry)| self.inside(pointer(&at, &index.to_string()), entry, &mut read));
        let read: Vec<Option<T>> = read.collect();
        read.into_iter().collect()
    }

    /// An object whose names are the caller's, at most `max` of them.
    pub fn named<K: Ord, T>(
        &mut self,
        max: usize,
        parse_name: impl Fn(&'v str) -> Result<K, Invalid>,
        mut read: impl FnMut(&mut Self, &str) -> Option<T>,
    ) -> BTreeMap<K, T> {
        let mut entries = BTreeMap::new();
        if self.object.len() > max {
            self.faults.add(self.at.clone(), format!("must have at most {max} entries"));
            return entries;
        }
        for name in self.object.keys() {
            match parse_name(name) {
                Ok(key) => entries.extend(read(self, name).map(|value| (key, value))),
                Err(reason) => self.fault(name, format!("has a bad name: it {reason}")),
            }
        }
        entries
    }

    fn inside<T>(
        &mut self,
        at: String,
        value: &'v Value,
        read: impl FnOnce(&mut Fields<'v, '_>) -> Option<T>,
    ) -> Option<T> {
        if let Some(object) = value.as_object() {
            return read(&mut Fields { object, at, faults: self.faults });
        }
        self.faults.add(at, "must be an object");
        None
    }

    fn checked<T>(&mut self, name: &str, result: Result<T, Invalid>) -> Option<T> {
        result.map_err(|reason| self.fault(name, reason)).ok()
    }
}

/// Text that passes a check. What is no text is refused as text is that no check lets pass, so that the refusal says what is allowed.
fn text_of<'v, T>(value: &'v Value, parse: impl FnOnce(&'v str) -> Result<T, Invalid>) -> Result<T, Invalid> {
    const NEVER: &str = "\0";
    match value.as_str() {
        Some(text) => parse(text),
        None => Err(parse(NEVER).err().unwrap_or_else(|| Invalid::new("must be a string"))),
    }
}

/// What an array must be that has so many entries.
struct ArrayOf<'r>(&'r RangeInclusive<usize>);

impl fmt::Display for ArrayOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.clone().into_inner() {
            (0, 1) => f.write_str("must be an array of at most 1 entry"),
            (0, max) => write!(f, "must be an array of at most {max} entries"),
            (min, max) => write!(f, "must be an array of {min} to {max} entries"),
        }
    }
}

/// The pointer to a member of what `parent` points to (RFC 6901).
fn pointer(parent: &str, name: &str) -> String {
    format!("{parent}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The number, if it is whole and small enough.
fn whole(number: &serde_json::Number) -> Option<i64> {
    /// Every whole number up to here is a `f64` of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let rounded = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT);
    #[expect(clippy::cast_possible_truncation, reason = "whole and within the exact range, as checked above")]
    number.as_i64().or_else(|| rounded.map(|float| float as i64))
}

#[cfg(test)]
mod tests;
