//! Resources that a path names: publisher, node and version. Each must exist and belong to the previous one.

use crate::domain::ids::{NodeId, PublisherId};
use crate::domain::node::NodeProfile;
use crate::domain::policy::Action;
use crate::domain::publisher::PublisherProfile;
use crate::domain::version::VersionRef;
use crate::http::response::error::Problem;
use crate::projections::read_models::Models;

/// Returns the publisher that a request is about: the one in the path, or else the owner of the node that the request
/// changes. Without a publisher in the path, `None` if no node is involved, if the request only reads the node, or if
/// the action is [`Action::Administer`], which needs no role at the publisher. `segment` returns a decoded path
/// parameter by name.
///
/// # Errors
/// 404 if a resource in the path does not exist or belongs to another publisher.
pub fn find_publisher(
    action: Action,
    segment: impl Fn(&str) -> Option<String>,
    models: &Models,
) -> Result<Option<&PublisherProfile>, Problem> {
    let path_node = || segment("nodeId").map(|text| find_node(&text, models));
    let Some(text) = segment("publisherId") else {
        return match path_node() {
            Some(node) if action.is_write() && action != Action::Administer => owner_of(node?, models).map(Some),
            _ => Ok(None),
        };
    };

    let publisher = PublisherId::parse(&text).ok().and_then(|id| models.publishers.get(&id));
    let publisher = publisher.ok_or_else(|| Problem::not_found("publisher"))?;

    let version = segment("versionId");
    // Publishing may create the node; the command rejects an id of another publisher.
    let may_be_new = action == Action::PublishVersion && version.is_none();
    if let Some(node) = path_node().filter(|_| !may_be_new) {
        let node = node?;
        if node.publisher != publisher.id {
            return Err(Problem::not_found("node"));
        }
        check_version(node, version.as_deref())?;
    }
    Ok(Some(publisher))
}

fn find_node<'m>(text: &str, models: &'m Models) -> Result<&'m NodeProfile, Problem> {
    let node = NodeId::parse(text).ok().and_then(|id| models.nodes.get(&id.key()));
    node.ok_or_else(|| Problem::not_found("node"))
}

fn owner_of<'m>(node: &NodeProfile, models: &'m Models) -> Result<&'m PublisherProfile, Problem> {
    models.publishers.get(&node.publisher).ok_or_else(|| Problem::not_found("node"))
}

fn check_version(node: &NodeProfile, version: Option<&str>) -> Result<(), Problem> {
    let Some(text) = version else { return Ok(()) };
    let found = VersionRef::parse(text).and_then(|reference| node.version(&reference));
    found.map(drop).ok_or_else(|| Problem::not_found("node version"))
}
