//! Node versions: publish, revise, delete.

use serde::Serialize;

use crate::domain::ids::{NodeId, NodeKey};
use crate::domain::node::NodeCommand;
use crate::domain::policy::Action;
use crate::domain::version::{VersionFields, VersionRef, VersionStatus};
use crate::http::api::node_body::read_publication;
use crate::http::api::upload::signed_url;
use crate::http::api::version_body::VersionChangeBody;
use crate::http::api::version_list::version_view;
use crate::http::api::webhook::check_webhooks_of;
use crate::http::auth::authorize;
use crate::http::pipeline::{Call, RequestContext};
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::projections::node::view::VersionView;

#[derive(Serialize)]
struct PublishedVersionView<'m> {
    #[serde(rename = "signedUrl")]
    signed_url: String,
    node_version: &'m VersionView<'m>,
}

/// `POST /publishers/{publisherId}/nodes/{nodeId}/versions`: registers a version, and its node if that is new. The
/// version is pending until its archive is uploaded.
pub async fn publish(mut call: Call<{ Action::PublishVersion as u8 }>) -> Result<ApiResponse, Problem> {
    let body = call.json().await?;
    authorize::check_body_token(&body, call.services())?;

    let is_admin = call.identity().is_admin();
    let environment = &call.services().environment;
    let mut publication = read_publication(&body, &call.path_param("nodeId"), is_admin, environment)?;
    publication.fields = publication.fields.relative_to(&call.services().options.public_url);
    let node = publication.id.key();
    let id = publication.version.draft.id;
    let signed_url = signed_url(&call, id)?;

    check_webhooks_of(call.services(), call.publisher()?)?;
    let publisher = call.publisher()?.id.clone();
    let is_new_node = call.services().models.read().nodes.get(&node).is_none();
    let new_nodes = u64::from(is_new_node);
    let new_versions = 1;
    let charges = call.charge_registration(&publisher, new_nodes, new_versions)?;

    call.services().dispatch.node(&node, publication.into_command(publisher), call.command_context()).await?;
    charges.commit();

    reply_with_version(&call, &node, &VersionRef::Id(id), is_admin, |node_version| {
        ApiResponse::created(&PublishedVersionView { signed_url, node_version })
    })
}

/// `PUT /publishers/{publisherId}/nodes/{nodeId}/versions/{versionId}`: changes changelog and deprecation; for
/// administrators also the administrator fields and the status.
pub async fn revise(mut call: Call<{ Action::ReviseVersion as u8 }>) -> Result<ApiResponse, Problem> {
    let (node, version) = version_in_path(&call)?;
    let VersionChangeBody { changelog, deprecated, moderation } = call.json_object().await?;
    let publisher = call.publisher()?.id.clone();
    let is_admin = call.identity().is_admin();

    let change = VersionFields { changelog, deprecated, ..VersionFields::default() };
    let command = if moderation.0.has_status_change() {
        moderation.0.into_command(version.clone(), change)
    } else {
        let admin_fields = moderation.0.fields.0;
        NodeCommand::ReviseVersion { publisher, version: version.clone(), change, admin_fields }
    };

    call.services().dispatch.node(&node, command, call.command_context()).await?;
    reply_with_version(&call, &node, &version, is_admin, |view| ApiResponse::ok(view))
}

/// `DELETE /publishers/{publisherId}/nodes/{nodeId}/versions/{versionId}`: final; the number is never reused.
pub async fn delete(call: Call<{ Action::DeleteVersion as u8 }>) -> Result<ApiResponse, Problem> {
    let (node, version) = version_in_path(&call)?;
    let publisher = Some(call.publisher()?.id.clone());
    let status = VersionStatus::Deleted;
    let command = NodeCommand::SetVersionStatus { publisher, version, status, reason: None };
    call.services().dispatch.node(&node, command, call.command_context()).await?;
    Ok(ApiResponse::no_content())
}

/// Returns the node and the version of the path; 404 if the version is missing or deleted.
fn version_in_path(call: &RequestContext) -> Result<(NodeKey, VersionRef), Problem> {
    let node = NodeId::parse(&call.path_param("nodeId")).map_err(|_| Problem::not_found("node"))?.key();
    let models = call.services().models.read();
    let profile = models.nodes.get(&node).ok_or_else(|| Problem::not_found("node"))?;
    let reference = VersionRef::parse(&call.path_param("versionId"));
    let version = reference.as_ref().and_then(|reference| profile.version(reference));
    let exists = version.is_some_and(|version| version.status != VersionStatus::Deleted);
    reference.filter(|_| exists).map(|reference| (node, reference)).ok_or_else(|| Problem::not_found("node version"))
}

/// Responds with the current state of a version, with the reason of its status if `include_reason`.
pub fn reply_with_version(
    call: &RequestContext,
    node: &NodeKey,
    version: &VersionRef,
    include_reason: bool,
    respond: impl FnOnce(&VersionView<'_>) -> Result<ApiResponse, Problem>,
) -> Result<ApiResponse, Problem> {
    let (entry, links) = {
        let models = call.services().models.read();
        (models.nodes.entry(node), models.nodes.links().clone())
    };

    let not_found = || Problem::not_found("node version");
    let entry = entry.as_ref().ok_or_else(not_found)?;
    let node = entry.profile().ok_or_else(not_found)?;
    let version = node.version(version).ok_or_else(not_found)?;
    respond(&version_view(entry, node, version, include_reason, &links))
}
