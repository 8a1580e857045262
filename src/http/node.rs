//! Nodes: wire shape, creating, reading, listing.

use std::collections::BTreeMap;

use actix_web::http::header::{HeaderName, LINK, LOCATION};
use serde::Serialize;
use serde_json::Value;

use super::answer::Answer;
use super::error::Problem;
use super::fields::{self, Fields};
use super::gate::{Admitted, Call};
use super::publisher::{display_name, shown};
use super::query::LIMIT_MAX;
use super::version::{VersionView, entries, read_draft};
use crate::clock::Surroundings;
use crate::domain::ids::{NodeId, NodeKey};
use crate::domain::node::{
    LANGUAGES_MAX, NodeCommand, NodeDescription, NodeFacts, NodeFields, NodeProfile, TEXTS_MAX, Translations,
};
use crate::domain::policy::Action;
use crate::domain::value::{Invalid, Label, Link, Name, Text};
use crate::domain::version::{VersionDraft, latest};
use crate::projections::node::{NodeQuery, Sort, SortColumn};
use crate::projections::page::{Page, PageRequest};
use crate::projections::read_models::Models;

/// How many nodes there are on all pages together.
pub const X_TOTAL_COUNT: HeaderName = HeaderName::from_static("x-total-count");

/// Nodes of a page, when the caller does not say.
const LIMIT_DEFAULT: u64 = 10;

/// The seed's `NodePage`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodePage<'m> {
    limit: u64,
    nodes: Vec<NodeView<'m>>,
    page: u64,
    total: u64,
    total_pages: u64,
}

/// `GET /nodes`: a page of all nodes. `latest` is accepted; the read model is always the latest.
pub async fn list(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    let mut query = call.query()?;
    let request = query.page(LIMIT_DEFAULT);
    let sort = each_column_once(query.many_checked("sort", read_sort));
    let named = query.many("node_id");
    // An id that cannot exist names no node; it must not widen the list to all of them.
    let node_ids: Vec<NodeKey> = named.iter().filter_map(|id| NodeId::parse(id).ok()).map(|id| id.key()).collect();
    let nothing_named_exists = !named.is_empty() && node_ids.is_empty();
    query.finish()?;

    let models = call.services().models.read();
    let page = if nothing_named_exists {
        Page { entries: Vec::new(), total: 0, request }
    } else {
        models.nodes.list(&NodeQuery { page: request, sort, node_ids })
    };
    Answer::ok(&NodePage {
        limit: request.limit,
        page: request.page,
        total: page.total,
        total_pages: page.total_pages(),
        nodes: page.entries.into_iter().map(|node| NodeView::new(node, &models)).collect(),
    })
}

/// Reads `column` or `column;desc`.
fn read_sort(text: &str) -> Result<Sort, Invalid> {
    let (column, direction) = text.split_once(';').unwrap_or((text, "asc"));
    match direction.trim() {
        "asc" | "desc" => {
            Ok(Sort { column: SortColumn::parse(column.trim())?, descending: direction.trim() == "desc" })
        }
        _ => Err(Invalid::new("must be a column, or a column and ;desc")),
    }
}

/// A column that was sorted by once leaves nothing for a second time.
fn each_column_once(sort: Vec<Sort>) -> Vec<Sort> {
    let mut kept: Vec<Sort> = Vec::with_capacity(SortColumn::ALL.len());
    for key in sort {
        if kept.iter().all(|earlier| earlier.column != key.column) {
            kept.push(key);
        }
    }
    kept
}

/// `GET /nodes/{node_id}`; the wrong case is redirected to the right one.
pub async fn show(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    let not_found = || Problem::not_found("node");
    let asked = NodeId::parse(&call.segment("node_id")).map_err(|_| not_found())?;
    let models = call.services().models.read();
    let node = models.nodes.get(&asked.key()).ok_or_else(not_found)?;
    if node.id == asked {
        return Answer::ok(&NodeView::new(node, &models));
    }
    let query = if call.query_string().is_empty() { String::new() } else { format!("?{}", call.query_string()) };
    Answer::found_at(call.url(&format!("/nodes/{}{query}", node.id)))
}

/// `GET /publishers/{publisher_id}/nodes`: by id; all of them up to [`LIMIT_MAX`], unless a page is asked for.
pub async fn list_of_publisher(call: Call<{ Action::ListPublisherNodes as u8 }>) -> Result<Answer, Problem> {
    let mut query = call.query()?;
    let request = query.page(LIMIT_MAX);
    query.finish()?;
    let publisher = call.publisher()?;
    let models = call.services().models.read();
    let page = models.nodes.of_publisher(&publisher.id, request);
    let links = links(&call.url(&format!("/publishers/{}/nodes", publisher.id)), request, page.total_pages());
    let total = page.total;
    let nodes: Vec<_> = page.entries.into_iter().map(|node| NodeView::new(node, &models)).collect();
    Answer::ok(&nodes)?.with(X_TOTAL_COUNT, total)?.with(LINK, links)
}

/// Where the other pages are (RFC 8288).
fn links(url: &str, PageRequest { page, limit }: PageRequest, pages: u64) -> String {
    let last = pages.max(1);
    let previous = (page > 1).then(|| ("prev", (page - 1).min(last)));
    let next = (page < last).then(|| ("next", page.saturating_add(1)));
    let relations = [Some(("first", 1)), previous, next, Some(("last", last))];
    let links = relations.into_iter().flatten();
    let links: Vec<_> = links.map(|(name, n)| format!("<{url}?limit={limit}&page={n}>; rel=\"{name}\"")).collect();
    links.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sorting_is_by_column_and_direction() {
        let sort = |column, descending| Ok(Sort { column, descending });
        assert_eq!(read_sort("name"), sort(SortColumn::Name, false));
        assert_eq!(read_sort("created_at;desc"), sort(SortColumn::CreatedAt, true));
        let reason = read_sort("secret").unwrap_err().to_string();
        assert!(reason.contains("search_ranking") && reason.contains("downloads"), "{reason}");
        assert!(read_sort("name;down").is_err());
    }

    #[test]
    fn of_a_column_that_is_repeated_the_first_counts() {
        let read = |texts: &[&str]| texts.iter().map(|text| read_sort(text).unwrap()).collect::<Vec<_>>();
        let kept = each_column_once(read(&["name;desc", "id", "name", "id;desc", "name;desc"]));
        assert_eq!(kept, read(&["name;desc", "id"]));
    }

    #[test]
    fn links_lead_to_pages_that_exist() {
        let rels = |page, pages| {
            let links = links("u", PageRequest { page, limit: 2 }, pages);
            links.split(", ").map(|link| link.trim_start_matches("<u?limit=2&page=").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(rels(1, 1), ["1>; rel=\"first\"", "1>; rel=\"last\""]);
        assert_eq!(rels(2, 3), ["1>; rel=\"first\"", "1>; rel=\"prev\"", "3>; rel=\"next\"", "3>; rel=\"last\""]);
        assert_eq!(rels(9, 3), ["1>; rel=\"first\"", "3>; rel=\"prev\"", "3>; rel=\"last\""]);
        assert_eq!(rels(1, 0), ["1>; rel=\"first\"", "1>; rel=\"last\""]);
    }
}
