//! Where values come from. Every value keeps its source, from the built-in defaults up to the flags.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use toml::Value;

use super::file;
use super::hint;
use super::problem::{Problem, shown};

/// The built-in defaults: the documentation of the settings and the list of all that exist.
pub(super) const DEFAULTS: &str = include_str!("default.toml");

/// What the environment variables of settings begin with.
const ENVIRONMENT_PREFIX: &str = "MEDIARY_";

/// What a Service may speak.
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Built in.
    Default,
    /// In a settings file, at this line (the first is 1).
    File { path: PathBuf, line: usize },
    /// In an environment variable.
    Environment { variable: String },
    /// On the command line.
    Flag { flag: &'static str },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment { variable } => write!(f, "environment {variable}"),
            Self::Flag { flag } => write!(f, "flag {flag}"),
        }
    }
}

/// A setting that was given on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// The setting that the flag stands for, such as `data_dir`.
    pub key: &'static str,
    /// The flag as it is typed, such as `--data-dir`.
    pub name: &'static str,
    /// What was given for it.
    pub text: String,
}

/// One setting: its value so far and where that came from.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) source: Source,
    pub(super) default: Value,
}

/// Secrets stay masked here too.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.key, shown(&self.key, &self.value), self.source)
    }
}

/// The settings as they were given, not checked yet. A layer that is added wins over those before it.
#[derive(Debug)]
pub(super) struct Layers {
    /// In the order of the documentation.
    pub(super) entries: Vec<Entry>,
    /// What was found wrong so far.
    pub(super) problems: Vec<Problem>,
}

impl Layers {
    /// Nothing but the built-in defaults.
    pub(super) fn defaults() -> Self {
        let defaults =
            file::read(DEFAULTS).expect("the built-in defaults are TOML: every test of this module reads them");
        let entry = |given: file::Given| Entry {
            key: given.key,
            value: given.value.clone(),
            source: Source::Default,
            default: given.value,
        };
        Self { entries: defaults.into_iter().map(entry).collect(), problems: Vec::new() }
    }

    /// The values of a settings file whose content is `text`.
    pub(super) fn add_file(&mut self, path: &Path, text: &str) {
        let source = |line| Source::File { path: path.to_owned(), line };
        match file::read(text) {
            Ok(values) => {
                for given in values {
                    self.set(&given.key, given.value, source(given.line));
                }
            }
            Err(error) => {
                let place = source(error.line).to_string();
                self.problems.push(Problem::Unreadable { place, reason: error.reason });
            }
        }
    }

    /// The values of those environment variables that are meant for this program.
    pub(super) fn add_environment(&mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) {
        let mut variables: Vec<_> = variables
            .into_iter()
            .filter_map(|(variable, text)| Some((variable.into_string().ok()?, text)))
            .filter(|(variable, _)| variable.starts_with(ENVIRONMENT_PREFIX))
            .filter(|(variable, text)| !is_service_link(variable, text))
            .collect();
        variables.sort();
        for (variable, text) in variables {
            let key = self.key_of(&variable);
            let source = Source::Environment { variable };
            match text.into_string() {
                Ok(text) => self.set_text(&key, text, source),
                Err(_) => self
                    .problems
                    .push(Problem::Unreadable { place: source.to_string(), reason: "is not UTF-8".to_owned() }),
            }
        }
    }

    /// A value given on the command line.
    pub(super) fn add_flag(&mut self, flag: Flag) {
        self.set_text(flag.key, flag.text, Source::Flag { flag: flag.name });
    }

    /// The setting that an environment variable stands for, or would stand for if there were one.
    fn key_of(&self, variable: &str) -> String {
        let known = self.entries.iter().find(|entry| variable_of(&entry.key) == variable);
        let guess = || variable[ENVIRONMENT_PREFIX.len()..].replace("__", ".").to_lowercase();
        known.map_or_else(guess, |entry| entry.key.clone())
    }

    fn set_text(&mut self, key: &str, text: String, source: Source) {
        let value = match self.entries.iter().find(|entry| entry.key == key) {
            Some(entry) => typed(text, &entry.default),
            None => Value::String(text),
        };
        self.set(key, value, source);
    }

    fn set(&mut self, key: &str, value: Value, source: Source) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key) {
            entry.value = value;
            entry.source = source;
        } else if !self.is_empty_section(key, &value) {
            let value = shown(key, &value);
            let known: Vec<_> = self.entries.iter().map(|entry| entry.key.as_str()).collect();
            let in_environment = matches!(source, Source::Environment { .. });
            let written = |key: &str| if in_environment { variable_of(key) } else { key.to_owned() };
            let opened = |section: &str| {
                if in_environment { format!("{}__…", variable_of(section)) } else { format!("[{section}]") }
            };
            let hint = hint::of(key, &known, written, opened);
            self.problems.push(Problem::Unknown { key: key.to_owned(), value, from: source, hint });
        }
    }

    /// Whether the file merely opens a section that exists and says nothing in it.
    fn is_empty_section(&self, key: &str, value: &Value) -> bool {
        let in_section = |entry: &Entry| entry.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
        value.as_table().is_some_and(toml::Table::is_empty) && self.entries.iter().any(in_section)
    }
}

/// The environment variable of a setting.
fn variable_of(key: &str) -> String {
    format!("{ENVIRONMENT_PREFIX}{}", key.replace('.', "__").to_uppercase())
}

/// Whether a variable is one of those that Kubernetes sets for a Service named `mediary`, in the form of old container links. None of
/// them can be meant for this program, and none of its settings is called so.
fn is_service_link(variable: &str, text: &OsStr) -> bool {
    let Some(name) = variable.strip_prefix(ENVIRONMENT_PREFIX) else { return false };
    let after = |start: &str| name.strip_prefix(start);
    let is_port = |rest: &str| {
        let (number, protocol) = rest.split_once('_').unwrap_or((rest, ""));
        let protocol = protocol.split('_').next().unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && PROTOCOLS.contains(&protocol)
    };
    let url = text.to_string_lossy();
    let is_url = url.split_once("://").is_some_and(|(scheme, _)| PROTOCOLS.contains(&scheme.to_uppercase().as_str()));
    name == "SERVICE_HOST"
        || after("SERVICE_PORT").is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        || (name == "PORT" && is_url)
        || after("PORT_").is_some_and(is_port)
}

/// Text from outside a file has no type; it takes that of the setting's default. What cannot is left as it is, for the check
/// of the setting to refuse.
fn typed(text: String, default: &Value) -> Value {
    match default {
        Value::Integer(_) => text.replace('_', "").parse().map_or(Value::String(text), Value::Integer),
        Value::Boolean(_) => text.parse().map_or(Value::String(text), Value::Boolean),
        Value::Array(_) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Value::Array(items.map(|item| Value::String(item.to_owned())).collect())
        }
        _ => Value::String(text),
    }
}
