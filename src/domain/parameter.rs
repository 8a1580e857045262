//! Parameters of a job by their API names, as plain data.
//!
//! Includes parameters with default values, because they affect the result. Vendor requests and task views use the same
//! list, each with its own representation of files.

use serde::{Serialize, Serializer};

use super::value::{CallbackUrl, Text};

/// The parameters of a job in display order, serialized as one object. `P` is the representation of an input file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobParameters<P>(Vec<(&'static str, JobParameter<P>)>);

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum JobParameter<P> {
    Text(String),
    Number(i64),
    Flag(bool),
    File(P),
    Group(JobParameters<P>),
    List(Vec<Self>),
}

impl<P> Default for JobParameters<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P> JobParameters<P> {
    /// Creates an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a parameter.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<JobParameter<P>>) -> Self {
        self.0.push((name, value.into()));
        self
    }

    /// Adds a parameter if it has a value.
    #[must_use]
    pub fn with_optional(self, name: &'static str, value: Option<impl Into<JobParameter<P>>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds a file if there is one.
    #[must_use]
    pub fn with_optional_file(self, name: &'static str, file: Option<P>) -> Self {
        self.with_optional(name, file.map(JobParameter::File))
    }

    /// Returns `true` if a parameter with this name, here or in a group, has this value, written as text.
    #[must_use]
    pub fn has_value(&self, name: &str, value: &str) -> bool {
        self.0.iter().any(|(own_name, parameter)| parameter.has_value(*own_name == name, name, value))
    }

    /// Returns the names of the parameters, without those in groups.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|(name, _)| *name).collect()
    }

    /// Returns the parameters in order.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, &JobParameter<P>)> {
        self.0.iter().map(|(name, parameter)| (*name, parameter))
    }

    /// Appends all parameters of another list.
    #[must_use]
    pub fn merge(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }
}

impl<P> JobParameter<P> {
    /// Returns `true` if this parameter, or one in its group, has the name and the value. `is_named` is `true` if this
    /// parameter, or the list that contains it, has the name.
    fn has_value(&self, is_named: bool, name: &str, value: &str) -> bool {
        match self {
            Self::Text(text) => is_named && text == value,
            Self::Number(number) => is_named && number.to_string() == value,
            Self::Flag(flag) => is_named && flag.to_string() == value,
            Self::File(_) => false,
            Self::Group(group) => group.has_value(name, value),
            Self::List(items) => items.iter().any(|item| item.has_value(is_named, name, value)),
        }
    }
}

impl<P: Serialize> Serialize for JobParameters<P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<P> From<&str> for JobParameter<P> {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl<P, const MAX: usize, const MULTILINE: bool> From<&Text<MAX, MULTILINE>> for JobParameter<P> {
    fn from(text: &Text<MAX, MULTILINE>) -> Self {
        text.as_str().into()
    }
}

impl<P> From<&CallbackUrl> for JobParameter<P> {
    fn from(url: &CallbackUrl) -> Self {
        url.as_str().into()
    }
}

impl<P> From<bool> for JobParameter<P> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl<P> From<JobParameters<P>> for JobParameter<P> {
    fn from(group: JobParameters<P>) -> Self {
        Self::Group(group)
    }
}

/// Implements conversion from integer types.
macro_rules! numbers {
    ($($number:ty),+) => { $(
        impl<P> From<$number> for JobParameter<P> {
            fn from(number: $number) -> Self {
                Self::Number(number.into())
            }
        }
    )+ };
}
numbers!(i8, u8, u16, i32, u32);
