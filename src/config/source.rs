//! Sources of values: built-in defaults, file, environment, flags. Each value keeps its source.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use toml::Value;

use super::file;
use super::problem::{ConfigProblem, format_masked};
use super::suggestions;

/// Built-in defaults; also the documentation and the complete list of settings.
pub(super) const DEFAULTS: &str = include_str!("default.toml");

/// Prefix of the environment variables.
const ENVIRONMENT_PREFIX: &str = "MEDIARY_";

/// Protocols of a Kubernetes Service.
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingSource {
    /// Built-in default.
    Default,
    /// Settings file; lines are counted from 1.
    File { path: PathBuf, line: usize },
    /// Environment variable.
    Environment { variable: String },
    /// Command line.
    Flag { flag: &'static str },
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment { variable } => write!(f, "environment {variable}"),
            Self::Flag { flag } => write!(f, "flag {flag}"),
        }
    }
}

/// A setting given on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// Key of the setting, such as `data_dir`.
    pub key: &'static str,
    /// Name of the flag, such as `--data-dir`.
    pub name: &'static str,
    /// Given text.
    pub text: String,
}

/// One setting with its current value and source.
#[derive(Clone)]
pub(super) struct SettingEntry {
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) source: SettingSource,
    pub(super) default: Value,
}

/// Masks secrets.
impl fmt::Debug for SettingEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.key, format_masked(&self.key, &self.value), self.source)
    }
}

/// Unchecked settings. A later layer overrides earlier ones.
#[derive(Debug)]
pub(super) struct SettingLayers {
    /// In the order of the documentation.
    pub(super) entries: Vec<SettingEntry>,
    /// Problems found so far.
    pub(super) problems: Vec<ConfigProblem>,
}

impl SettingLayers {
    /// Returns the built-in defaults.
    pub(super) fn defaults() -> Self {
        let defaults =
            file::read(DEFAULTS).expect("the built-in defaults are TOML: every test of this module reads them");
        let entry = |setting: file::FileSetting| SettingEntry {
            key: setting.key,
            value: setting.value.clone(),
            source: SettingSource::Default,
            default: setting.value,
        };
        Self { entries: defaults.into_iter().map(entry).collect(), problems: Vec::new() }
    }

    /// Adds the values of a settings file with the content `text`.
    pub(super) fn add_file(&mut self, path: &Path, text: &str) {
        let source = |line| SettingSource::File { path: path.to_owned(), line };
        match file::read(text) {
            Ok(values) => {
                for setting in values {
                    self.set(&setting.key, setting.value, source(setting.line));
                }
            }
            Err(error) => {
                let place = source(error.line).to_string();
                self.problems.push(ConfigProblem::Unreadable { place, reason: error.reason });
            }
        }
    }

    /// Adds the values of the environment variables of this program.
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
            let source = SettingSource::Environment { variable };
            match text.into_string() {
                Ok(text) => self.set_text(&key, text, source),
                Err(_) => self
                    .problems
                    .push(ConfigProblem::Unreadable { place: source.to_string(), reason: "is not UTF-8".to_owned() }),
            }
        }
    }

    /// Adds a value from the command line.
    pub(super) fn add_flag(&mut self, flag: Flag) {
        self.set_text(flag.key, flag.text, SettingSource::Flag { flag: flag.name });
    }

    /// Returns the key of an environment variable, also if no such setting exists.
    fn key_of(&self, variable: &str) -> String {
        let entry = self.entries.iter().find(|entry| variable_of(&entry.key) == variable);
        let guess = || variable[ENVIRONMENT_PREFIX.len()..].replace("__", ".").to_lowercase();
        entry.map_or_else(guess, |entry| entry.key.clone())
    }

    fn set_text(&mut self, key: &str, text: String, source: SettingSource) {
        let value = match self.entries.iter().find(|entry| entry.key == key) {
            Some(entry) => parse_as_type_of(text, &entry.default),
            None => Value::String(text),
        };
        self.set(key, value, source);
    }

    fn set(&mut self, key: &str, value: Value, source: SettingSource) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key) {
            entry.value = value;
            entry.source = source;
        } else if !self.is_empty_section(key, &value) {
            let value = format_masked(key, &value);
            let known_keys: Vec<_> = self.entries.iter().map(|entry| entry.key.as_str()).collect();
            let in_environment = matches!(source, SettingSource::Environment { .. });
            let format_key = |key: &str| if in_environment { variable_of(key) } else { key.to_owned() };
            let format_section = |section: &str| {
                if in_environment { format!("{}__…", variable_of(section)) } else { format!("[{section}]") }
            };
            let hint = suggestions::suggest(key, &known_keys, format_key, format_section);
            self.problems.push(ConfigProblem::Unknown { key: key.to_owned(), value, from: source, hint });
        }
    }

    /// Returns `true` for an empty but existing section.
    fn is_empty_section(&self, key: &str, value: &Value) -> bool {
        let in_section = |entry: &SettingEntry| entry.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
        value.as_table().is_some_and(toml::Table::is_empty) && self.entries.iter().any(in_section)
    }
}

/// Returns the environment variable of a setting.
fn variable_of(key: &str) -> String {
    format!("{ENVIRONMENT_PREFIX}{}", key.replace('.', "__").to_uppercase())
}

/// Returns `true` for a variable that Kubernetes sets for a Service named `mediary`, in the form of container links. No
/// setting has such a name.
fn is_service_link(variable: &str, text: &OsStr) -> bool {
    let Some(name) = variable.strip_prefix(ENVIRONMENT_PREFIX) else { return false };
    let after = |prefix: &str| name.strip_prefix(prefix);
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

/// Converts text from outside a file to the type of the setting's default. Text that cannot be converted is kept, and
/// the check of the setting rejects it.
fn parse_as_type_of(text: String, default: &Value) -> Value {
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
