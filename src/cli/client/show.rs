//! `mediary show`: a node and its versions.

use std::fmt::Write as _;

use clap::Args;
use clap_complete::ArgValueCompleter;
use serde_json::json;

use super::complete;
use super::node_ref::{NodeReference, url_version};
use super::node_view::{FoundNode, FoundVersion, NamedValue, summary};
use super::service::{ServiceArguments, ServiceConnection};
use crate::app;
use crate::cli::audit::text::printable;
use crate::cli::table::{RowColor, TextTable};
use crate::cli::{CliError, print_text};
use crate::pluralize::pluralize;

/// Maximum number of versions that are shown.
const VERSIONS_SHOWN: usize = 10;

pub(super) const HELP: &str = "\
Needs no token. With a version, prints its dependencies and the whole changelog too.

Examples:
  mediary show face-tools
  mediary show face-tools@1.0.0";

#[derive(Debug, Args)]
pub(in crate::cli) struct ShowNodeArguments {
    /// Node, with an optional version
    #[arg(value_name = "NODE[@VERSION]", add = ArgValueCompleter::new(complete::nodes))]
    node: NodeReference,
    #[command(flatten)]
    service: ServiceArguments,
}

pub(super) fn show(arguments: &ShowNodeArguments) -> Result<(), CliError> {
    let ShowNodeArguments { node: reference, service } = arguments;
    let service = ServiceConnection::open(service)?;
    let node = &reference.node;
    let (node_json, versions) = app::block_on(async {
        let node_json = service.get(&format!("/nodes/{node}")).await?;
        let versions = match &reference.version {
            Some(version) => {
                let path = format!("/nodes/{node}/versions/{}?include_status_reason=true", url_version(version));
                json!([service.get(&path).await?])
            }
            None => service.get(&format!("/nodes/{node}/versions?include_status_reason=true")).await?,
        };
        Ok::<_, CliError>((node_json, versions))
    })?;
    if service.json {
        return ServiceConnection::print_json(&json!({"node": node_json, "versions": versions}));
    }

    let node: FoundNode = service.parse(node_json)?;
    let versions: Vec<FoundVersion> = service.parse(versions)?;
    print_text(&describe(&node, &versions, reference))
}

fn describe(node: &FoundNode, versions: &[FoundVersion], reference: &NodeReference) -> String {
    let id = printable(&node.id);
    let mut text = format!("{} ({id})\n", printable(&node.name));
    push_lines(&mut text, &node.description);
    text.push('\n');

    push_fields(&mut text, node.fields());
    if versions.is_empty() {
        text.push_str("\nThis node has no versions yet.\n");
        return text;
    }

    let _ = write!(text, "\n{}", version_table(versions));
    if versions.len() > VERSIONS_SHOWN {
        let _ =
            writeln!(text, "and {}; see --json", pluralize((versions.len() - VERSIONS_SHOWN) as u64, "older version"));
    }

    let only_version = if reference.version.is_some() { versions.first() } else { None };
    if let Some(version) = only_version {
        push_fields(&mut text, version.fields());
        if let Some(changelog) = version.changelog.as_deref().filter(|changelog| !changelog.trim().is_empty()) {
            text.push('\n');
            push_lines(&mut text, changelog);
        }
    }

    let installable = only_version.or_else(|| {
        let latest = node.latest_version.as_ref()?;
        versions.iter().find(|version| version.version == latest.version)
    });
    let _ = match (installable, &node.repository) {
        (Some(version), _) if version.download_url.is_some() => {
            let version = reference.version.as_ref().map(|version| format!("@{version}")).unwrap_or_default();
            writeln!(text, "\nInstall: mediary install {id}{version}")
        }
        (_, Some(repository)) => writeln!(text, "\nNothing to install; the code is at {}", printable(repository)),
        (_, None) => Ok(()),
    };
    text
}

/// Appends the fields that have a value, one a line.
fn push_fields(text: &mut String, fields: Vec<NamedValue>) {
    for (name, value) in fields {
        if let Some(value) = value {
            let _ = writeln!(text, "{name:<12}  {}", printable(&value.to_string()));
        }
    }
}

/// Appends a text of several lines.
fn push_lines(text: &mut String, lines: &str) {
    for line in lines.trim_end().lines() {
        let _ = writeln!(text, "{}", printable(line));
    }
}

fn version_table(versions: &[FoundVersion]) -> TextTable {
    let mut table = TextTable::new(&["VERSION", "STATUS", "PUBLISHED", "CHANGES"]);
    for version in versions.iter().take(VERSIONS_SHOWN) {
        let color = match version.status.as_str() {
            "NodeVersionStatusActive" if version.deprecated => RowColor::Pending,
            "NodeVersionStatusActive" => RowColor::Plain,
            "NodeVersionStatusPending" => RowColor::Pending,
            _ => RowColor::Bad,
        };
        let changes = summary(version.changelog.as_deref().unwrap_or_default());
        let cells = [version.version.clone(), version.notes(), version.date(), changes];
        table.push(color, cells.map(|cell| printable(&cell)));
    }
    table
}
