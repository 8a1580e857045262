//! Node versions: wire shape, publishing, revising.

use serde::Serialize;
use serde_json::Value;

use super::answer::Answer;
use super::error::Problem;
use super::fields::{self, Fields};
use super::gate::{Admitted, Call};
use super::node::read_fields as read_node_fields;
use crate::clock::Surroundings;
use crate::domain::ids::{NodeId, VersionId};
use crate::domain::node::{NodeCommand, NodeFields};
use crate::domain::policy::Action;
use crate::domain::value::{Label, Labels, Text};
use crate::domain::version::{Changelog, NodeVersion, SemVer, VersionDraft, VersionFacts, VersionFields, VersionRef};

/// The seed's `NodeVersion`. There is no `downloadUrl` before there is an archive.
#[derive(Debug, Serialize)]
pub struct VersionView<'m> {
    #[serde(skip_serializing_if = "Option::is_none")]
    changelog: Option<&'m str>,
    #[serde(rename = "createdAt")]
    created_at: String,
    dependencies: Vec<&'m str>,
    deprecated: bool,
    id: String,
    node_id: &'m str,
    status: &'static str,
    supported_accelerators: Vec<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    supported_host_frontend_version: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    supported_host_version: Option<&'m str>,
    supported_os: Vec<&'m str>,
    tags: Vec<&'m str>,
    /// Nothing sets any yet.
    tags_admin: [&'m str; 0],
    version: String,
}

impl<'m> VersionView<'m> {
    /// A version of a node.
    #[must_use]
    pub fn new(node: &'m NodeId, version: &'m NodeVersion) -> Self {
        let fields = &version.fields;
        Self {
            changelog: fields.changelog.as_ref().map(Text::as_str),
            created_at: version.created_at.to_string(),
            dependencies: entries(fields.dependencies.as_ref()),
            deprecated: version.is_deprecated(),
            id: version.id.to_string(),
            node_id: node.as_str(),
            status: version.status.as_str(),
            supported_accelerators: entries(fields.supported_accelerators.as_ref()),
            supported_host_frontend_version: fields.supported_host_frontend_version.as_ref().map(Text::as_str),
            supported_host_version: fields.supported_host_version.as_ref().map(Text::as_str),
            supported_os: entries(fields.supported_os.as_ref()),
            tags: entries(fields.tags.as_ref()),
            tags_admin: [],
            version: version.number.to_string(),
        }
    }
}

/// A list as it is shown: never absent.
#[must_use]
pub fn entries(labels: Option<&Labels>) -> Vec<&str> {
    labels.into_iter().flat_map(Labels::iter).collect()
}

#[derive(Serialize)]
struct Published<'m> {
    node_version: VersionView<'m>,
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
    with_view(&call, &id, &reference, |node_version| Answer::created(&Published { node_version }))
}

fn read_publication(call: &Admitted, body: &Value) -> Result<(NodeId, NodeFields, VersionDraft), Problem> {
    let in_path = NodeId::parse(&call.segment("node_id"));
    let surroundings = &call.services().surroundings;
    fields::read(body, |fields| {
        if let Err(reason) = &in_path {
            fields.fault("node_id", format!("of the path {reason}"));
        }
        let node = fields.object("node", |node| {
            let named = node.text("id", NodeId::parse);
            if let (Some(named), Ok(in_path)) = (named, &in_path)
                && named.key() != in_path.key()
            {
                node.fault("id", "must be the node of the path");
            }
            Some(read_node_fields(node))
        });
        let version = fields.object("node_version", |version| read_draft(version, surroundings));
        let version = fields.required("node_version", version);
        Some((in_path.ok()?, node.unwrap_or_default(), version?))
    })
}

/// `PUT /publishers/{publisher_id}/nodes/{node_id}/versions/{version_id}`: changelog and deprecation.
pub async fn revise(mut call: Call<{ Action::ReviseVersion as u8 }>) -> Result<Answer, Problem> {
    let not_found = || Problem::not_found("node version");
    let id = NodeId::parse(&call.segment("node_id")).map_err(|_| not_found())?;
    let version = VersionRef::parse(&call.segment("version_id")).ok_or_else(not_found)?;
    let body = call.json().await?;
    let change = fields::read(&body, |fields| {
        Some(VersionFields {
            changelog: fields.text("changelog", Changelog::parse),
            deprecated: fields.flag("deprecated"),
            ..VersionFields::default()
        })
    })?;
    let publisher = call.publisher()?.id.clone();
    let command =
        NodeCommand::ReviseVersion { publisher, version: version.clone(), change, facts: VersionFacts::default() };
    call.services().dispatch.node(&id.key(), command, call.why()).await?;
    with_view(&call, &id, &version, |view| Answer::ok(&view))
}

/// Reads a version that is to be registered.
pub fn read_draft(fields: &mut Fields<'_, '_>, surroundings: &Surroundings) -> Option<VersionDraft> {
    let number = fields.required_text("version", SemVer::parse);
    let said = VersionFields {
        changelog: fields.text("changelog", Changelog::parse),
        dependencies: fields.labels("dependencies"),
        deprecated: fields.flag("deprecated"),
        supported_accelerators: fields.labels("supported_accelerators"),
        supported_host_frontend_version: fields.text("supported_host_frontend_version", Label::parse),
        supported_host_version: fields.text("supported_host_version", Label::parse),
        supported_os: fields.labels("supported_os"),
        tags: fields.labels("tags"),
    };
    Some(VersionDraft { id: VersionId(surroundings.uuid()), number: number?, fields: said })
}

/// Answers with a version as it is now.
fn with_view(
    call: &Admitted,
    id: &NodeId,
    version: &VersionRef,
    answer: impl FnOnce(VersionView<'_>) -> Result<Answer, Problem>,
) -> Result<Answer, Problem> {
    let models = call.services().models.read();
    let node = models.nodes.get(&id.key());
    let found = node.and_then(|node| Some((node, node.version(version)?)));
    let (node, version) = found.ok_or_else(|| Problem::not_found("node version"))?;
    answer(VersionView::new(&node.id, version))
}
