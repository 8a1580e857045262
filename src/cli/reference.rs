//! `mediary reference`: prints the generated pages of the documentation. Hidden, because users read the pages.

mod commands;
mod errors;
mod metrics;

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::{CliError, print};
use crate::config;

pub(super) const HELP: &str = "\
Examples:
  mediary reference errors > docs/errors.md";

#[derive(Debug, Args)]
pub(super) struct ReferenceArguments {
    /// Page
    page: ReferencePage,
}

/// Generated page `docs/<name>.md`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ReferencePage {
    Commands,
    Errors,
    Metrics,
    Settings,
}

impl ReferencePage {
    /// Renders the page as Markdown.
    fn render(self) -> String {
        match self {
            Self::Commands => commands::page(),
            Self::Errors => errors::page(),
            Self::Metrics => metrics::page(),
            Self::Settings => config::reference(),
        }
    }
}

pub(super) fn run(arguments: &ReferenceArguments) -> Result<(), CliError> {
    print(&arguments.page.render()).context("cannot write to stdout")?;
    Ok(())
}

/// Escapes text for a cell of a Markdown table.
fn escape_cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_generated_page_is_current() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let is_stale = |name: &String| {
            let page = ReferencePage::from_str(name, false).unwrap();
            fs::read_to_string(docs.join(format!("{name}.md"))).ok() != Some(page.render())
        };

        let names =
            ReferencePage::value_variants().iter().map(|page| page.to_possible_value().unwrap().get_name().to_owned());
        let refresh = |name: String| format!("cargo run -- reference {name} > docs/{name}.md");
        let stale: Vec<_> = names.filter(is_stale).map(refresh).collect();
        assert!(stale.is_empty(), "out of date; run\n{}", stale.join("\n"));
    }
}
