//! `mediary search` and `mediary list`: nodes of the registry.

use std::fmt;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use url::form_urlencoded;

use super::node_view::{FoundNode, summary};
use super::service::{ServiceArguments, ServiceConnection};
use crate::app;
use crate::cli::audit::text::printable;
use crate::cli::suggestions::SuggestedValues;
use crate::cli::table::{RowColor, TextTable};
use crate::cli::{CliError, print_text};
use crate::pluralize::pluralize;

pub(super) const SEARCH_HELP: &str = "\
Lists the nodes that contain every word, best matches first. Needs no token.

Examples:
  mediary search face mask
  mediary search upscale --sort rating --os Linux
  mediary search upscale --limit 50 --json";

pub(super) const LIST_HELP: &str = "\
Lists all nodes, the most downloaded ones first. Needs no token.

Examples:
  mediary list
  mediary list --sort updated --limit 50
  mediary list --sort name --reverse --page 2
  mediary list --os Linux --accelerator CUDA --json";

#[derive(Debug, Args)]
pub(in crate::cli) struct SearchArguments {
    /// Words that the node must contain
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    #[command(flatten)]
    selection: NodeSelection,
    #[command(flatten)]
    service: ServiceArguments,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArguments {
    #[command(flatten)]
    selection: NodeSelection,
    #[command(flatten)]
    service: ServiceArguments,
}

/// Filters, order and page of a list of nodes.
#[derive(Debug, Args)]
struct NodeSelection {
    /// Order of the nodes
    #[arg(long, value_name = "ORDER")]
    sort: Option<NodeOrder>,
    /// Reverse the order of --sort
    #[arg(long, requires = "sort")]
    reverse: bool,
    /// Only nodes for this operating system, such as Linux (repeatable)
    #[arg(long, value_name = "SYSTEM", value_parser = SuggestedValues(&["Linux", "Windows", "macOS"]), hide_possible_values = true)]
    os: Vec<String>,
    /// Only nodes for this accelerator, such as CUDA (repeatable)
    #[arg(long, value_name = "NAME", value_parser = SuggestedValues(&["CUDA", "ROCm", "DirectML", "Metal"]), hide_possible_values = true)]
    accelerator: Vec<String>,
    /// Only nodes that support this version of the host application
    #[arg(long, value_name = "VERSION")]
    host_version: Option<String>,
    /// Number of nodes to list
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
    /// Page to list, from 1
    #[arg(long, value_name = "PAGE", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    page: u64,
}

/// Order of a list: texts from A to Z, numbers and times from the highest value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NodeOrder {
    Downloads,
    Rating,
    Stars,
    Updated,
    Created,
    Name,
    Author,
    Publisher,
}

impl NodeOrder {
    /// Returns the column of the API, and `true` if the highest value comes first.
    const fn column(self) -> (&'static str, bool) {
        match self {
            Self::Downloads => ("downloads", true),
            Self::Rating => ("rating", true),
            Self::Stars => ("github_stars", true),
            Self::Updated => ("updated_at", true),
            Self::Created => ("created_at", true),
            Self::Name => ("name", false),
            Self::Author => ("author", false),
            Self::Publisher => ("publisher", false),
        }
    }
}

impl NodeSelection {
    /// Returns the path of a search, or of the list of all nodes.
    fn path(&self, words: Option<&str>) -> String {
        let Self { sort, reverse, os, accelerator, host_version, limit, page } = self;
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(words.map(|words| ("search", words)));
        query.append_pair("limit", &limit.to_string()).append_pair("page", &page.to_string());
        // A search without an order has its best matches first.
        if let Some(order) = sort.or(words.is_none().then_some(NodeOrder::Downloads)) {
            let (column, is_descending) = order.column();
            let direction = if is_descending == *reverse { "asc" } else { "desc" };
            query.append_pair("sort", &format!("{column};{direction}"));
        }
        query.extend_pairs(os.iter().map(|system| ("supported_os", system)));
        query.extend_pairs(accelerator.iter().map(|name| ("supported_accelerator", name)));
        query.extend_pairs(host_version.iter().map(|version| ("host_version", version)));
        format!("/nodes/search?{}", query.finish())
    }
}

#[derive(Deserialize)]
struct FoundNodes {
    nodes: Vec<FoundNode>,
    total: u64,
}

pub(super) fn search(arguments: &SearchArguments) -> Result<(), CliError> {
    let SearchArguments { words, selection, service } = arguments;
    let words = Some(words.join(" ")).filter(|words| !words.is_empty());
    print_nodes(service, &selection.path(words.as_deref()))
}

pub(super) fn list(arguments: &ListArguments) -> Result<(), CliError> {
    print_nodes(&arguments.service, &arguments.selection.path(None))
}

fn print_nodes(service: &ServiceArguments, path: &str) -> Result<(), CliError> {
    let service = ServiceConnection::open(service)?;
    let response = app::block_on(service.get(path))?;
    if service.json {
        return ServiceConnection::print_json(&response);
    }
    print_text(&service.parse::<FoundNodes>(response)?.to_string())
}

impl fmt::Display for FoundNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, total } = self;
        if nodes.is_empty() {
            return f.write_str(if *total == 0 { "No nodes match.\n" } else { "This page is past the last node.\n" });
        }

        let headers = ["NODE", "VERSION", "PUBLISHER", "DOWNLOADS", "RATING", "PUBLISHED", "DESCRIPTION"];
        let mut table = TextTable::new(&headers).right_align(&[3, 4]);
        for node in nodes {
            let latest = node.latest_version.as_ref();
            let cells = [
                node.id.clone(),
                latest.map_or_else(|| "-".to_owned(), |version| version.version.clone()),
                node.publisher.id.clone(),
                node.downloads.to_string(),
                node.rating
                    .filter(|rating| *rating > 0.0)
                    .map_or_else(|| "-".to_owned(), |rating| format!("{rating:.1}")),
                latest.map_or_else(|| "-".to_owned(), super::node_view::FoundVersion::date),
                summary(&node.description),
            ];
            table.push(RowColor::Plain, cells.map(|cell| printable(&cell)));
        }
        table.fmt(f)?;
        let shown = nodes.len() as u64;
        if shown < *total {
            writeln!(f, "\n{shown} of {}; see --page and --limit", pluralize(*total, "node"))?;
        }
        Ok(())
    }
}

/// Returns the path of a search for completions.
pub(super) fn completion_path(words: &str, limit: u64) -> String {
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("search", words)
        .append_pair("limit", &limit.to_string())
        .finish();
    format!("/nodes/search?{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(words: Option<&str>, sort: Option<NodeOrder>, reverse: bool) -> String {
        let selection = NodeSelection {
            sort,
            reverse,
            os: vec!["Linux".to_owned()],
            accelerator: Vec::new(),
            host_version: None,
            limit: 20,
            page: 2,
        };
        selection.path(words)
    }

    #[test]
    fn a_list_is_sorted_and_a_search_has_its_best_matches_first() {
        let list = "/nodes/search?limit=20&page=2&sort=downloads%3Bdesc&supported_os=Linux";
        assert_eq!(path(None, None, false), list);
        assert_eq!(path(Some("mask"), None, false), "/nodes/search?search=mask&limit=20&page=2&supported_os=Linux");
        let order = |order, reverse| path(None, Some(order), reverse).split("sort=").nth(1).unwrap().to_owned();
        assert_eq!(order(NodeOrder::Name, false), "name%3Basc&supported_os=Linux");
        assert_eq!(order(NodeOrder::Name, true), "name%3Bdesc&supported_os=Linux");
        assert_eq!(order(NodeOrder::Stars, true), "github_stars%3Basc&supported_os=Linux");
    }
}
