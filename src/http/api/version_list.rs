//! Lists of versions: of one node, and of all nodes for moderation.

use std::sync::Arc;

use serde::Serialize;

use crate::domain::ids::{NodeId, NodeKey};
use crate::domain::node::NodeProfile;
use crate::domain::policy::Action;
use crate::domain::version::{NodeVersion, SemVer, VersionRef, VersionStatus};
use crate::http::pipeline::{Call, RequestContext};
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::projections::node::entry::NodeEntry;
use crate::projections::node::view::{Links, VersionView};
use crate::projections::version::{VersionHandle, VersionQuery};

/// Default page size.
const LIMIT_DEFAULT: u64 = 10;

/// Renders a version, with the reason of its status if `include_reason`.
pub fn version_view<'m>(
    entry: &NodeEntry,
    node: &'m NodeProfile,
    version: &'m NodeVersion,
    include_reason: bool,
    links: &Links,
) -> VersionView<'m> {
    let view = VersionView::new(node, version, entry.is_owner_hidden(), links);
    if include_reason { view.with_status_reason(version) } else { view }
}

/// Page of versions.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionPage<'m> {
    versions: Vec<VersionView<'m>>,
    page: u64,
    limit: u64,
    total: u64,
    total_pages: u64,
}

/// `GET /nodes/{nodeId}/versions`: highest version first; only active ones unless `statuses` is given.
pub async fn list_of_node(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let mut statuses = query.parsed_values("statuses", VersionStatus::parse);
    let include_reason = query.flag("include_status_reason").unwrap_or(false);
    query.finish()?;
    if statuses.is_empty() {
        statuses.push(VersionStatus::Active);
    }

    reply_for_node(&call, "/versions", |entry, node, links| {
        let mut versions: Vec<_> = node.versions.iter().filter(|version| statuses.contains(&version.status)).collect();
        versions.sort_by(|a, b| b.number.cmp_precedence(&a.number));
        let views = versions.into_iter().map(|version| version_view(entry, node, version, include_reason, links));
        ApiResponse::ok(&views.collect::<Vec<_>>())
    })
}

/// `GET /nodes/{nodeId}/versions/{version}`: one version in any status except deleted.
pub async fn show(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let include_reason = query.flag("include_status_reason").unwrap_or(false);
    query.finish()?;
    let not_found = || Problem::not_found("node version");
    let number = call.path_param("version");
    let version_ref = VersionRef::Number(SemVer::parse(&number).map_err(|_| not_found())?);
    reply_for_node(&call, &format!("/versions/{number}"), |entry, node, links| {
        let version = node.version(&version_ref).filter(|version| version.status != VersionStatus::Deleted);
        ApiResponse::ok(&version_view(entry, node, version.ok_or_else(not_found)?, include_reason, links))
    })
}

/// `GET /versions`: versions of all nodes, newest first, in any status unless `statuses` is given.
pub async fn list_all(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let page_request = query.page(LIMIT_DEFAULT);
    let statuses = query.parsed_values("statuses", VersionStatus::parse);
    let include_reason = query.flag("include_status_reason").unwrap_or(false);
    let ids = query.values("node_id");
    // An id that cannot exist matches no node; ignoring it would widen the list to all nodes.
    let nodes: Vec<NodeKey> = ids.iter().filter_map(|id| NodeId::parse(id).ok()).map(|id| id.key()).collect();
    let nodes = (!ids.is_empty()).then_some(nodes);
    query.finish()?;

    let (page, links) = {
        let models = call.services().models.read();
        let page = models.versions.page(&models.nodes, &VersionQuery { page: page_request, statuses, nodes });
        (page, models.nodes.links().clone())
    };

    let versions = page.entries.iter().filter_map(VersionHandle::resolve);
    ApiResponse::ok(&VersionPage {
        page: page_request.page,
        limit: page_request.limit,
        total: page.total,
        total_pages: page.total_pages(),
        versions: versions
            .map(|(entry, node, version)| version_view(entry, node, version, include_reason, &links))
            .collect(),
    })
}

/// Looks up the node of the path and builds the response with `respond`, which runs without a lock on the read models.
/// Redirects an id in the wrong case; `path_suffix` is the part of the path after the id.
fn reply_for_node(
    call: &RequestContext,
    path_suffix: &str,
    respond: impl FnOnce(&NodeEntry, &NodeProfile, &Links) -> Result<ApiResponse, Problem>,
) -> Result<ApiResponse, Problem> {
    match look_up_node(call, path_suffix)? {
        NodeLookup::Found(entry, links) => {
            respond(&entry, entry.profile().ok_or_else(|| Problem::not_found("node"))?, &links)
        }
        NodeLookup::Redirect(response) => Ok(response),
    }
}

/// Result of looking up the node id of a path.
pub enum NodeLookup {
    Found(Arc<NodeEntry>, Links),
    /// Redirect: the id is in the wrong case.
    Redirect(ApiResponse),
}

/// Looks up the node of the path, or returns a redirect to the right case; `path_suffix` is the part of the path
/// after the id.
///
/// # Errors
/// 404 if the node does not exist.
pub fn look_up_node(call: &RequestContext, path_suffix: &str) -> Result<NodeLookup, Problem> {
    let not_found = || Problem::not_found("node");
    let requested_id = NodeId::parse(&call.path_param("nodeId")).map_err(|_| not_found())?;
    let (entry, links) = {
        let models = call.services().models.read();
        (models.nodes.entry(&requested_id.key()).ok_or_else(not_found)?, models.nodes.links().clone())
    };

    let canonical_id = entry.profile().ok_or_else(not_found)?.id.clone();
    if canonical_id == requested_id {
        return Ok(NodeLookup::Found(entry, links));
    }

    let query = if call.query_string().is_empty() { String::new() } else { format!("?{}", call.query_string()) };
    ApiResponse::redirect(call.url(&format!("/nodes/{canonical_id}{path_suffix}{query}"))).map(NodeLookup::Redirect)
}
