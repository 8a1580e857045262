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

/// Variables of the commands that call a service. They are not settings.
pub const URL_VARIABLE: &str = "MEDIARY_URL";
pub const TOKEN_VARIABLE: &str = "MEDIARY_TOKEN";

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

/// A setting on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// Key of the setting, such as `data_dir`.
    pub key: &'static str,
    /// Name of the flag, such as `--data-dir`.
    pub name: &'static str,
    /// Value as text.
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
                    self.add_list_item(&setting.key, &source(setting.line));
                    self.set(&setting.key, setting.value, source(setting.line));
                }
            }
            Err(error) => {
                let place = source(error.line).to_string();
                self.problems.push(ConfigProblem::Unreadable { place, reason: error.reason });
            }
        }
    }

    /// Adds the settings of a list item with their defaults when `key` is the first setting of the item that is set.
    fn add_list_item(&mut self, key: &str, source: &SettingSource) {
        let Some((section, item)) = list_item(key) else { return };
        if self.entries.iter().any(|entry| is_in(&entry.key, item)) {
            return;
        }

        let mut entries: Vec<_> = self.entries.iter().filter(|entry| is_in(&entry.key, section)).cloned().collect();
        for entry in &mut entries {
            entry.key = format!("{item}{}", &entry.key[section.len()..]);
            entry.value = entry.default.clone();
            // A name is required, so a missing one is reported at the item.
            let is_name = entry.key.rsplit('.').next() == Some("name");
            entry.source = if is_name { source.clone() } else { SettingSource::Default };
        }

        let is_before = |entry: &SettingEntry| {
            is_in(&entry.key, section) || list_item(&entry.key).is_some_and(|(other, _)| other == section)
        };
        let index = self.entries.iter().rposition(is_before).map_or(self.entries.len(), |last| last + 1);
        self.entries.splice(index..index, entries);
    }

    /// Returns the items of a list, such as `vendors.image[1]`; or the section itself if it is a single table.
    pub(super) fn items(&self, section: &str) -> Vec<String> {
        let items = self.entries.iter().filter_map(|entry| list_item(&entry.key));
        let mut items: Vec<_> = items.filter(|(list, _)| *list == section).map(|(_, item)| item.to_owned()).collect();
        items.dedup();
        if items.is_empty() { vec![section.to_owned()] } else { items }
    }

    /// Removes the single tables of sections that are lists. A setting of a removed table that some source sets is
    /// reported as a problem.
    pub(super) fn drop_replaced_tables(&mut self) {
        let lists: Vec<_> =
            self.entries.iter().filter_map(|entry| list_item(&entry.key)).map(|(list, _)| list.to_owned()).collect();
        let is_replaced = |entry: &SettingEntry| lists.iter().any(|list| is_in(&entry.key, list));

        let replaced: Vec<_> = self.entries.extract_if(.., |entry| is_replaced(entry)).collect();

        for entry in replaced.into_iter().filter(|entry| entry.source != SettingSource::Default) {
            let (section, name) = entry.key.rsplit_once('.').unwrap_or_default();
            let keys = self.items(section).into_iter().map(|item| self.variable_of(&format!("{item}.{name}")));
            let hint = format!("[[{section}]] is a list; use {}", keys.collect::<Vec<_>>().join(" or "));
            let value = format_masked(&entry.key, &entry.value);
            self.problems.push(ConfigProblem::Unknown { key: entry.key, value, from: entry.source, hint });
        }
    }

    /// Adds the values of the environment variables of this program.
    pub(super) fn add_environment(&mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) {
        let mut variables: Vec<_> = variables
            .into_iter()
            .filter_map(|(variable, text)| Some((variable.into_string().ok()?, text)))
            .filter(|(variable, _)| variable.starts_with(ENVIRONMENT_PREFIX))
            .filter(|(variable, _)| ![URL_VARIABLE, TOKEN_VARIABLE].contains(&variable.as_str()))
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

    /// Returns the key of an environment variable; if no setting has it, a key derived from its name.
    fn key_of(&self, variable: &str) -> String {
        let entry = self.entries.iter().find(|entry| self.variable_of(&entry.key) == variable);
        let derived_key = || variable[ENVIRONMENT_PREFIX.len()..].replace("__", ".").to_lowercase();
        entry.map_or_else(derived_key, |entry| entry.key.clone())
    }

    /// Sets a value from text, converted to the type of the setting.
    fn set_text(&mut self, key: &str, text: String, source: SettingSource) {
        let value = match self.entries.iter().find(|entry| entry.key == key) {
            Some(entry) => parse_as_type_of(text, &entry.default),
            None => Value::String(text),
        };
        self.set(key, value, source);
    }

    /// Sets a value; reports an unknown key as a problem.
    fn set(&mut self, key: &str, value: Value, source: SettingSource) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key) {
            entry.value = value;
            entry.source = source;
        } else if !self.is_empty_section(key, &value) {
            let value = format_masked(key, &value);
            let known_keys: Vec<_> = self.entries.iter().map(|entry| entry.key.as_str()).collect();
            let in_environment = matches!(source, SettingSource::Environment { .. });
            let format_key = |key: &str| if in_environment { self.variable_of(key) } else { key.to_owned() };
            let format_section = |section: &str| match list_item(section) {
                _ if in_environment => format!("{}__…", self.variable_of(section)),
                Some((list, _)) => format!("[[{list}]]"),
                None => format!("[{section}]"),
            };
            let hint = suggestions::suggest(key, &known_keys, format_key, format_section);
            self.problems.push(ConfigProblem::Unknown { key: key.to_owned(), value, from: source, hint });
        }
    }

    /// Returns `true` for an empty but existing section.
    fn is_empty_section(&self, key: &str, value: &Value) -> bool {
        value.as_table().is_some_and(toml::Table::is_empty) && self.entries.iter().any(|entry| is_in(&entry.key, key))
    }

    /// Returns the environment variable of a setting. That of a list item contains the item's name.
    fn variable_of(&self, key: &str) -> String {
        let key = match list_item(key) {
            Some((list, item)) => format!("{list}.{}{}", self.name_of(item), &key[item.len()..]),
            None => key.to_owned(),
        };
        format!("{ENVIRONMENT_PREFIX}{}", key.replace('.', "__").replace('-', "_").to_uppercase())
    }

    /// Returns the name of a list item; `item` itself if it has none.
    fn name_of<'k>(&'k self, item: &'k str) -> &'k str {
        let entry = self.entries.iter().find(|entry| entry.key.strip_prefix(item) == Some(".name"));
        entry.and_then(|entry| entry.value.as_str()).filter(|name| !name.is_empty()).unwrap_or(item)
    }
}

/// Returns `true` if the setting `key` is in a section or list item.
fn is_in(key: &str, section: &str) -> bool {
    key.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'))
}

/// Returns the list and the item of a setting: `vendors.image` and `vendors.image[1]` for `vendors.image[1].url`.
pub(super) fn list_item(key: &str) -> Option<(&str, &str)> {
    let (list, rest) = key.split_once('[')?;
    let (number, _) = rest.split_once(']')?;
    Some((list, &key[..list.len() + number.len() + 2]))
}

/// Returns `true` for a variable that Kubernetes sets for a Service named `mediary`, such as `MEDIARY_SERVICE_HOST` or
/// `MEDIARY_PORT_80_TCP_ADDR`. No setting has such a name.
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

/// Converts the text of a variable or flag to the type of the setting's default. Text that cannot be converted is kept,
/// and the check of the setting rejects it.
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
