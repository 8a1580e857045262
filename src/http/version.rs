//! Node versions: publishing, revising, deleting.

use serde::Serialize;
use serde_json::Value;

use super::answer::Answer;
use super::error::Problem;
use super::fields;
use super::gate::{Admitted, Call};
use super::node_body::{new_node_id, read_draft, read_node_fields, read_ruling, read_version_revision};
use super::node_change::same_id;
use super::version_list::view;
use crate::domain::ids::{NodeId, NodeKey};
use crate::domain::node::{NodeCommand, NodeFields};
use crate::domain::policy::Action;
use crate::domain::version::{VersionDraft, VersionRef, VersionStatus};
use crate::projections::node::view::VersionView;

#[derive(Serialize)]
struct Published<'m> {
    node_version: &'m VersionView<'m>,
}

/// `POST /publishers/{publisher_id}/nodes/{node_id}/versions`: registers a version, and the node with it when it is new.
/// The version is Pending: it waits for its archive.
pub async fn publish(mut call: Call<{ Action::PublishVersion as u8 }>) -> Result<Answer, Problem> {
    let body = call.json().await?;
    let (id, fields, version) = read_publication(&call, &body)?;
    let reference = VersionRef::Id(version.id);
    let publisher = call.publisher()?.id.clone();
    let command = NodeCommand::Publish { id: id.clone(), publisher, fields, version };
    call.services().dispatch.node(&id.key(), command, call.why()).await?;
    with_view(&call, &id.key(), &reference, false, |node_version| Answer::created(&Published { node_version }))
}

fn read_publication(call: &Admitted, body: &Value) -> Result<(NodeId, NodeFields, VersionDraft), Problem> {
    let in_path = new_node_id(&call.segment("node_id"));
    let surroundings = &call.services().surroundings;
    fields::read(body, |fields| {
        if let Err(reason) = &in_path {
            fields.fault("node_id", format!("of the path {reason}"));
        }
        let node = fields.object("node", |node| {
            match &in_path {
                Ok(in_path) => same_id(node, &in_path.key()),
                Err(_) => drop(node.text("id", NodeId::parse)),
            }
            Some(read_node_fields(node))
        });
        let version = fields.object("node_version", |version| read_draft(version, surroundings));
        let version = fields.required("node_version", version);
        Some((in_path.ok()?, node.unwrap_or_default(), version?))
    })
}

/// `PUT /publishers/{publisher_id}/nodes/{node_id}/versions/{version_id}`: changelog and deprecation; from administrators
/// its facts and its status as well.
pub async fn revise(mut call: Call<{ Action::ReviseVersion as u8 }>) -> Result<Answer, Problem> {
    let (node, version) = of_path(&call)?;
    let body = call.json().await?;
    let publisher = call.publisher()?.id.clone();
    let is_admin = call.identity().is_admin();
    let command = fields::read(&body, |fields| {
        let change = read_version_revision(fields);
        let ruling = read_ruling(fields, is_admin);
        let version = version.clone();
        Some(if ruling.moderates() {
            ruling.into_command(version, change)
        } else {
            NodeCommand::ReviseVersion { publisher, version, change, facts: ruling.facts }
        })
    })?;
    call.services().dispatch.node(&node, command, call.why()).await?;
    with_view(&call, &node, &version, is_admin, |view| Answer::ok(view))
}

/// `DELETE /publishers/{publisher_id}/nodes/{node_id}/versions/{version_id}`: for ever; its number is never given out again.
pub async fn delete(call: Call<{ Action::DeleteVersion as u8 }>) -> Result<Answer, Problem> {
    let (node, version) = of_path(&call)?;
    let (publisher, status) = (Some(call.publisher()?.id.clone()), VersionStatus::Deleted);
    let command = NodeCommand::SetVersionStatus { publisher, version, status, reason: None };
    call.services().dispatch.node(&node, command, call.why()).await?;
    Ok(Answer::no_content())
}

/// The node of the path and its version, which is there and has not been deleted.
fn of_path(call: &Admitted) -> Result<(NodeKey, VersionRef), Problem> {
    let node = call.known_node()?;
    let models = call.services().models.read();
    let reference = VersionRef::parse(&call.segment("version_id"));
    let version = reference.as_ref().and_then(|reference| models.nodes.get(&node)?.version(reference));
    let there = version.is_some_and(|version| version.status != VersionStatus::Deleted);
    reference.filter(|_| there).map(|reference| (node, reference)).ok_or_else(|| Problem::not_found("node version"))
}

/// Answers with a version as it is now.
pub fn with_view(
    call: &Admitted,
    node: &NodeKey,
    version: &VersionRef,
    reasoned: bool,
    answer: impl FnOnce(&VersionView<'_>) -> Result<Answer, Problem>,
) -> Result<Answer, Problem> {
    let models = call.services().models.read();
    let node = models.nodes.get(node);
    let found = node.and_then(|node| Some((node, node.version(version)?)));
    let (node, version) = found.ok_or_else(|| Problem::not_found("node version"))?;
    answer(&view(node, version, reasoned, models.nodes.links()))
}
