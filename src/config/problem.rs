//! Problems of a configuration. All are reported at once, and none contains a secret.

use std::fmt;

use toml::Value;

use super::source::SettingSource;

/// Shown instead of a secret. Not allowed in a token, so that copied output is rejected.
const MASK: &str = "\"********\"";

/// One problem of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigProblem {
    /// The setting exists, but its value is not allowed.
    #[error("{key} = {value} ({from}): must be {allowed}")]
    NotAllowed { key: String, value: String, from: SettingSource, allowed: String },
    /// The setting does not exist; `hint` suggests names.
    #[error("{key} = {value} ({from}): unknown setting; {hint}")]
    Unknown { key: String, value: String, from: SettingSource, hint: String },
    /// A file, a line of a file or a variable is unreadable.
    #[error("{place}: {reason}")]
    Unreadable { place: String, reason: String },
}

/// All problems of a configuration; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblems(pub Vec<ConfigProblem>);

impl std::error::Error for ConfigProblems {}

impl fmt::Display for ConfigProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => f.write_str("the configuration has a problem:")?,
            count => write!(f, "the configuration has {count} problems:")?,
        }
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

/// Formats a value as TOML, with secrets masked.
pub(super) fn format_masked(key: &str, value: &Value) -> String {
    let is_empty = value.as_str().is_some_and(str::is_empty);
    let is_masked = is_secret(key) && !is_empty || value.as_str().is_some_and(has_password);
    if is_masked { MASK.to_owned() } else { value.to_string() }
}

/// Returns `true` if a text looks like a URL with a password, valid or not.
fn has_password(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("://") else { return false };
    rest.contains("password=") || rest.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}

/// Returns `true` if a setting of this name contains a secret. Only the end of the name counts, so that misspelt names
/// such as `admintoken` are masked too.
fn is_secret(key: &str) -> bool {
    ["token", "secret", "key", "password"].iter().any(|word| key.ends_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_in_every_section() {
        let value = Value::String("hunter2".to_owned());
        for key in ["admin_token", "vendors.image.api_key", "admintoken"] {
            assert_eq!(format_masked(key, &value), MASK, "{key}");
        }
        assert_eq!(format_masked("data_dir", &value), "\"hunter2\"");

        for url in
            ["postgres://mediary:hunter2@db/log", "postgres://u:hun@ter2@db", "postgres://db/log?password=hunter2"]
        {
            assert_eq!(format_masked("cluster.engin", &Value::String(url.to_owned())), MASK, "{url}");
        }
        let url = Value::String("postgres://mediary@db:5432/log".to_owned());
        assert_eq!(format_masked("cluster.engine", &url), url.to_string());
        assert_eq!(format_masked("admin_token", &Value::String(String::new())), "\"\"", "an empty secret is shown");
    }
}
