//! Moderation of nodes and versions by administrators.

use super::answer::Answer;
use super::error::Problem;
use super::fields;
use super::gate::Call;
use super::node_body::{read_node_facts, read_node_fields, read_node_status, same_id};
use super::node_change::{ruled, with_view};
use super::version;
use super::version_body::{read_ruling, read_version_fields};
use crate::domain::node::NodeCommand;
use crate::domain::policy::Action;
use crate::domain::version::{SemVer, VersionRef};

/// `PUT /admin/nodes/{node_id}`: changes all fields of a node, including its status.
pub async fn node(mut call: Call<{ Action::Administer as u8 }>) -> Result<Answer, Problem> {
    let body = call.json().await?;
    let node = call.known_node()?;
    let command = fields::read(&body, |fields| {
        same_id(fields, Some(&node));
        let change = read_node_fields(fields);
        let facts = read_node_facts(fields, true);
        let (facts, status) = ruled(&call, &node, facts, read_node_status(fields, true));
        Some(NodeCommand::Administer { change, facts, status })
    })?;
    call.services().dispatch.node(&node, command, call.why()).await?;
    with_view(&call, &node, |view| Answer::ok(view))
}

/// `PUT /admin/nodes/{node_id}/versions/{version}`: changes all fields of a version, including its status.
pub async fn version(mut call: Call<{ Action::Administer as u8 }>) -> Result<Answer, Problem> {
    let body = call.json().await?;
    let node = call.known_node()?;
    let number = SemVer::parse(&call.segment("version")).map_err(|_| Problem::not_found("node version"))?;
    let version = VersionRef::Number(number);
    let command = fields::read(&body, |fields| {
        let change = read_version_fields(fields);
        Some(read_ruling(fields, true).into_command(version.clone(), change))
    })?;
    call.services().dispatch.node(&node, command, call.why()).await?;
    version::with_view(&call, &node, &version, true, |view| Answer::ok(view))
}
