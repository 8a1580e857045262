//! `mediary search` and `mediary show`: nodes of the registry.

use std::fmt::Write as _;

use clap::Args;
use clap_complete::ArgValueCompleter;
use serde::Deserialize;
use serde_json::json;
use url::form_urlencoded;

use super::complete;
use super::node_ref::{NodeReference, url_version};
use super::service::{ServiceArguments, ServiceConnection};
use crate::app;
use crate::cli::audit::text::{printable, truncate};
use crate::cli::table::{RowColor, TextTable};
use crate::cli::{CliError, print_text};
use crate::pluralize::pluralize;

/// Maximum number of versions that are shown.
const VERSIONS_SHOWN: usize = 10;
/// Maximum characters of a description or changelog in a table.
const SUMMARY_MAX: usize = 80;

pub(super) const SEARCH_HELP: &str = "\
Lists the nodes that contain every word, best matches first; without words, the most downloaded ones.
Needs no token.

Examples:
  mediary search
  mediary search face mask
  mediary search upscale --limit 50 --json";

pub(super) const SHOW_HELP: &str = "\
Needs no token.

Examples:
  mediary show face-tools
  mediary show face-tools@1.0.0";

#[derive(Debug, Args)]
pub(in crate::cli) struct SearchArguments {
    /// Words that the node must contain
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Number of nodes to list
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
    /// Page to list, from 1
    #[arg(long, value_name = "PAGE", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    page: u64,
    #[command(flatten)]
    service: ServiceArguments,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ShowNodeArguments {
    /// Node, with an optional version
    #[arg(value_name = "NODE[@VERSION]", add = ArgValueCompleter::new(complete::nodes))]
    node: NodeReference,
    #[command(flatten)]
    service: ServiceArguments,
}

#[derive(Deserialize)]
struct FoundNodes {
    nodes: Vec<FoundNode>,
    total: u64,
}

#[derive(Deserialize)]
struct FoundNode {
    id: String,
    name: String,
    #[serde(default)]
    description: String,
    downloads: u64,
    rating: Option<f64>,
    author: Option<String>,
    license: Option<String>,
    repository: Option<String>,
    status: String,
    status_detail: Option<String>,
    publisher: NodePublisher,
    latest_version: Option<FoundVersion>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    supported_os: Vec<String>,
    #[serde(default)]
    supported_accelerators: Vec<String>,
}

#[derive(Deserialize)]
struct NodePublisher {
    id: String,
    name: String,
}

#[derive(Deserialize)]
struct FoundVersion {
    version: String,
    status: String,
    #[serde(rename = "createdAt")]
    created_at: String,
    changelog: Option<String>,
    #[serde(default)]
    deprecated: bool,
    #[serde(rename = "downloadUrl")]
    download_url: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
}

pub(super) fn search(arguments: &SearchArguments) -> Result<(), CliError> {
    let SearchArguments { words, limit, page, service } = arguments;
    let service = ServiceConnection::open(service)?;
    let words = words.join(" ");
    let response = app::block_on(service.get(&search_path(&words, *limit, *page)))?;
    if service.json {
        return ServiceConnection::print_json(&response);
    }

    let FoundNodes { nodes, total } = service.parse(response)?;
    if nodes.is_empty() {
        return print_text(if total == 0 { "No nodes match.\n" } else { "This page is past the last node.\n" });
    }
    let shown = nodes.len() as u64;
    let mut table = TextTable::new(&["NODE", "VERSION", "PUBLISHER", "DOWNLOADS", "DESCRIPTION"]).right_align(&[3]);
    for node in nodes {
        let version = node.latest_version.map_or_else(|| "-".to_owned(), |version| version.version);
        let cells = [node.id, version, node.publisher.id, node.downloads.to_string(), summary(&node.description)];
        table.push(RowColor::Plain, cells.map(|cell| printable(&cell)));
    }
    let more = if shown < total {
        format!("\n{shown} of {}; see --page and --limit\n", pluralize(total, "node"))
    } else {
        String::new()
    };
    print_text(&format!("{table}{more}"))
}

/// Returns the path of a search.
pub(super) fn search_path(words: &str, limit: u64, page: u64) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("search", words);
    query.append_pair("limit", &limit.to_string()).append_pair("page", &page.to_string());
    format!("/nodes/search?{}", query.finish())
}

pub(super) fn show(arguments: &ShowNodeArguments) -> Result<(), CliError> {
    let ShowNodeArguments { node: reference, service } = arguments;
    let service = ServiceConnection::open(service)?;
    let node = &reference.node;
    let (found, versions) = app::block_on(async {
        let found = service.get(&format!("/nodes/{node}")).await?;
        let versions = match &reference.version {
            Some(version) => json!([service.get(&format!("/nodes/{node}/versions/{}", url_version(version))).await?]),
            None => service.get(&format!("/nodes/{node}/versions")).await?,
        };
        Ok::<_, CliError>((found, versions))
    })?;
    if service.json {
        return ServiceConnection::print_json(&json!({"node": found, "versions": versions}));
    }

    let found: FoundNode = service.parse(found)?;
    let versions: Vec<FoundVersion> = service.parse(versions)?;
    print_text(&describe(&found, &versions, reference))
}

fn describe(node: &FoundNode, versions: &[FoundVersion], reference: &NodeReference) -> String {
    let id = printable(&node.id);
    let mut text = format!("{} ({id})\n", printable(&node.name));
    if !node.description.is_empty() {
        let _ = writeln!(text, "{}", node.description.lines().map(printable).collect::<Vec<_>>().join("\n"));
    }
    text.push('\n');

    let list = |values: &[String]| Some(values.join(", ")).filter(|text| !text.is_empty());
    let only_version = if reference.version.is_some() { versions.first() } else { None };
    let fields = [
        ("publisher", Some(format!("{} ({})", node.publisher.name, node.publisher.id))),
        ("author", node.author.clone()),
        ("license", node.license.clone()),
        ("repository", node.repository.clone()),
        ("tags", list(&node.tags)),
        ("systems", list(&node.supported_os)),
        ("accelerators", list(&node.supported_accelerators)),
        ("dependencies", only_version.and_then(|version| list(&version.dependencies))),
        ("downloads", Some(node.downloads.to_string())),
        ("rating", node.rating.map(|rating| format!("{rating:.1}"))),
        ("status", node.status_detail.as_ref().map(|detail| format!("{}: {detail}", short_status(&node.status)))),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            let _ = writeln!(text, "{name:<12}  {}", printable(&value));
        }
    }

    let mut table = TextTable::new(&["VERSION", "STATUS", "PUBLISHED", "CHANGES"]);
    for version in versions.iter().take(VERSIONS_SHOWN) {
        let FoundVersion { version: number, status, created_at, changelog, deprecated, download_url, .. } = version;
        let mut notes = vec![short_status(status)];
        notes.extend(deprecated.then(|| "deprecated".to_owned()));
        notes.extend(download_url.is_none().then(|| "no archive".to_owned()));
        let color = match status.as_str() {
            "NodeVersionStatusActive" if *deprecated => RowColor::Pending,
            "NodeVersionStatusActive" => RowColor::Plain,
            "NodeVersionStatusPending" => RowColor::Pending,
            _ => RowColor::Bad,
        };
        let date = created_at.split('T').next().unwrap_or_default().to_owned();
        let changes = summary(changelog.as_deref().unwrap_or_default());
        table.push(color, [number.clone(), notes.join(", "), date, changes].map(|cell| printable(&cell)));
    }
    if versions.is_empty() {
        text.push_str("\nThis node has no versions yet.\n");
        return text;
    }
    let _ = write!(text, "\n{table}");
    if versions.len() > VERSIONS_SHOWN {
        let _ =
            writeln!(text, "and {}; see --json", pluralize((versions.len() - VERSIONS_SHOWN) as u64, "older version"));
    }

    let installable = only_version.or_else(|| {
        let latest = node.latest_version.as_ref()?;
        versions.iter().find(|version| version.version == latest.version)
    });
    let _ = match (installable, &node.repository) {
        (Some(version), _) if version.download_url.is_some() => {
            writeln!(text, "\nInstall: mediary install {reference}")
        }
        (_, Some(repository)) => writeln!(text, "\nNothing to install; the code is at {}", printable(repository)),
        (_, None) => Ok(()),
    };
    text
}

/// Returns the first line of a text, shortened.
fn summary(text: &str) -> String {
    truncate(text.trim().lines().next().unwrap_or_default(), SUMMARY_MAX)
}

/// Returns the status without its prefix: `active` for `NodeVersionStatusActive`.
fn short_status(status: &str) -> String {
    let name = status.trim_start_matches("NodeVersionStatus").trim_start_matches("NodeStatus");
    name.to_lowercase()
}
