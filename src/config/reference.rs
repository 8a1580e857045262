//! The settings reference: `default.toml`, whose comments are the documentation, as Markdown tables.

use std::fmt::Write;

use super::source::DEFAULTS;

const HEAD: &str = "\
# Settings

Every setting with its default. How they are given is in [configuration.md](configuration.md). This page is generated
by `mediary config --reference`.
";

/// Returns the settings reference as Markdown.
#[must_use]
pub fn reference() -> String {
    let mut page = ReferencePage { text: HEAD.to_owned(), comments: Vec::new() };
    page.start_section("Without a section");
    // Skip the comments that describe the file; those of the first setting begin with "The address".
    let settings = DEFAULTS.split_once("\n\n# The address").map_or("", |(_, rest)| rest);
    format!("# The address{settings}").lines().for_each(|line| page.add_line(line));
    page.text
}

struct ReferencePage {
    text: String,
    /// Comment lines above the next setting.
    comments: Vec<String>,
}

impl ReferencePage {
    fn add_line(&mut self, line: &str) {
        if let Some(comment) = line.strip_prefix('#') {
            self.comments.push(comment.trim().replace('|', "\\|"));
        } else if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            self.start_section(&format!("`[{section}]`"));
        } else if let Some((name, value)) = line.split_once(" = ") {
            let description = self.comments.join(" ");
            self.comments.clear();
            let _ = writeln!(self.text, "| `{name}` | `{value}` | {description} |");
        }
    }

    fn start_section(&mut self, title: &str) {
        let _ = write!(self.text, "\n## {title}\n\n| Setting | Default | |\n|---|---|---|\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_row_and_is_explained() {
        let page = reference();
        let defaults: toml::Table = DEFAULTS.parse().unwrap();
        let mut rows = 0;

        for (section, names) in sections("", &defaults) {
            let title = if section.is_empty() { "Without a section".to_owned() } else { format!("`[{section}]`") };
            let (_, rest) = page.split_once(&format!("## {title}\n")).unwrap();
            let table = rest.split("\n## ").next().unwrap();
            for name in names {
                let row = table.lines().find(|line| line.starts_with(&format!("| `{name}` | "))).unwrap();
                assert!(!row.ends_with("|  |"), "no comment above it: {row}");
                rows += 1;
            }
        }

        assert_eq!(page.lines().filter(|line| line.starts_with("| `")).count(), rows);
    }

    /// Returns `true` for a section; the default of a setting that is a table is empty.
    fn is_section(value: &toml::Value) -> bool {
        value.as_table().is_some_and(|table| !table.is_empty())
    }

    /// Returns the sections with the names of their settings.
    fn sections(path: &str, table: &toml::Table) -> Vec<(String, Vec<String>)> {
        let names: Vec<_> =
            table.iter().filter(|(_, value)| !is_section(value)).map(|(name, _)| name.clone()).collect();
        let mut all = if names.is_empty() { Vec::new() } else { vec![(path.to_owned(), names)] };
        for (name, value) in table {
            if let Some(inner) = value.as_table().filter(|_| is_section(value)) {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                all.extend(sections(&path, inner));
            }
        }
        all
    }
}
