//! Lists of versions: of one node, and of all nodes for moderation.

use std::sync::Arc;

use serde::Serialize;

use super::answer::Answer;
use super::error::Problem;
use super::gate::{Admitted, Call};
use crate::domain::ids::{NodeId, NodeKey};
use crate::domain::node::NodeProfile;
use crate::domain::policy::Action;
use crate::domain::version::{NodeVersion, SemVer, VersionRef, VersionStatus};
use crate::projections::node::entry::Entry;
use crate::projections::node::view::{Links, VersionView};
use crate::projections::version::{Held, VersionQuery};

/// Default page size.
const LIMIT_DEFAULT: u64 = 10;

/// Renders a version, with the reason of its status if `reasoned`.
pub fn view<'m>(
    entry: &Entry,
    node: &'m NodeProfile,
    version: &'m NodeVersion,
    reasoned: bool,
    links: &Links,
) -> VersionView<'m> {
    let view = VersionView::new(node, version, entry.owner_is_banned(), links);
    if reasoned { view.with_status_reason(version) } else { view }
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

/// `GET /nodes/{node_id}/versions`: highest version first; only active ones unless `statuses` is given.
pub async fn of_node(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    let mut query = call.query()?;
    let mut statuses = query.many_checked("statuses", VersionStatus::parse);
    let reasoned = query.flag("include_status_reason").unwrap_or(false);
    query.finish()?;
    if statuses.is_empty() {
        statuses.push(VersionStatus::Active);
    }

    look_up(&call, "/versions", |entry, node, links| {
        let mut versions: Vec<_> = node.versions.iter().filter(|version| statuses.contains(&version.status)).collect();
        versions.sort_by(|a, b| b.number.precedence(&a.number));
        let views = versions.into_iter().map(|version| view(entry, node, version, reasoned, links));
        Answer::ok(&views.collect::<Vec<_>>())
    })
}

/// `GET /nodes/{node_id}/versions/{version}`: one version in any status except deleted.
pub async fn show(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    let mut query = call.query()?;
    let reasoned = query.flag("include_status_reason").unwrap_or(false);
    query.finish()?;
    let not_found = || Problem::not_found("node version");
    let number = call.segment("version");
    let wanted = VersionRef::Number(SemVer::parse(&number).map_err(|_| not_found())?);
    look_up(&call, &format!("/versions/{number}"), |entry, node, links| {
        let version = node.version(&wanted).filter(|version| version.status != VersionStatus::Deleted);
        Answer::ok(&view(entry, node, version.ok_or_else(not_found)?, reasoned, links))
    })
}

/// `GET /versions`: versions of all nodes, newest first, in any status unless `statuses` is given.
pub async fn all(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    let mut query = call.query()?;
    let request = query.page(LIMIT_DEFAULT);
    let statuses = query.many_checked("statuses", VersionStatus::parse);
    let reasoned = query.flag("include_status_reason").unwrap_or(false);
    let named = query.many("node_id");
    // An id that cannot exist matches no node; ignoring it would widen the list to all nodes.
    let nodes: Vec<NodeKey> = named.iter().filter_map(|id| NodeId::parse(id).ok()).map(|id| id.key()).collect();
    let nodes = (!named.is_empty()).then_some(nodes);
    query.finish()?;

    let (page, links) = {
        let models = call.services().models.read();
        let page = models.versions.page(&models.nodes, &VersionQuery { page: request, statuses, nodes });
        (page, models.nodes.links().clone())
    };

    let versions = page.entries.iter().filter_map(Held::look);
    Answer::ok(&VersionPage {
        page: request.page,
        limit: request.limit,
        total: page.total,
        total_pages: page.total_pages(),
        versions: versions.map(|(entry, node, version)| view(entry, node, version, reasoned, &links)).collect(),
    })
}

/// Responds with the node of the path after releasing the read models. Redirects an id in the wrong case; `rest` is the
/// end of the path.
fn look_up(
    call: &Admitted,
    rest: &str,
    answer: impl FnOnce(&Entry, &NodeProfile, &Links) -> Result<Answer, Problem>,
) -> Result<Answer, Problem> {
    match asked(call, rest)? {
        Asked::Here(entry, links) => answer(&entry, entry.profile().ok_or_else(|| Problem::not_found("node"))?, &links),
        Asked::Elsewhere(answer) => Ok(answer),
    }
}

/// Result of looking up the node id of a path.
pub enum Asked {
    Here(Arc<Entry>, Links),
    /// Redirect: the id is in the wrong case.
    Elsewhere(Answer),
}

/// Looks up the node of the path, or returns a redirect to the right case; `rest` is the end of the path.
///
/// # Errors
/// 404 if the node does not exist.
pub fn asked(call: &Admitted, rest: &str) -> Result<Asked, Problem> {
    let not_found = || Problem::not_found("node");
    let asked = NodeId::parse(&call.segment("node_id")).map_err(|_| not_found())?;
    let (entry, links) = {
        let models = call.services().models.read();
        (models.nodes.entry(&asked.key()).ok_or_else(not_found)?, models.nodes.links().clone())
    };

    let own = entry.profile().ok_or_else(not_found)?.id.clone();
    if own == asked {
        return Ok(Asked::Here(entry, links));
    }

    let query = if call.query_string().is_empty() { String::new() } else { format!("?{}", call.query_string()) };
    Answer::found_at(call.url(&format!("/nodes/{own}{rest}{query}"))).map(Asked::Elsewhere)
}
