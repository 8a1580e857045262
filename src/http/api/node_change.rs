//! Node changes by publishers and administrators: create, update, delete.

use actix_web::http::header::LOCATION;
use serde::Serialize;

use crate::domain::ids::NodeKey;
use crate::domain::node::{NodeAdminFields, NodeCommand, NodeStatus};
use crate::domain::policy::Action;
use crate::domain::publisher::PublisherStatus;
use crate::http::api::node_body::{NodeAdminBody, NodeBody, read_new_node, read_node_change};
use crate::http::api::webhook::check_webhooks_of;
use crate::http::pipeline::{Call, RequestContext};
use crate::http::request::json_object::FlattenedFields;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::projections::node::view::{NodeView, effective_status};

/// `POST /publishers/{publisherId}/nodes`: claims a node id, and releases a first version if the body contains one.
pub async fn create(mut call: Call<{ Action::CreateNode as u8 }>) -> Result<ApiResponse, Problem> {
    let body = call.json().await?;
    let mut new_node = read_new_node(&body, call.identity().is_admin(), &call.services().environment)?;
    new_node.fields = new_node.fields.relative_to(&call.services().options.public_url);
    let id = new_node.id.clone();
    let publisher = call.publisher()?.id.clone();

    let has_version = new_node.first_version.is_some();
    if has_version {
        check_webhooks_of(call.services(), call.publisher()?)?;
    }
    let new_nodes = 1;
    let new_versions = u64::from(has_version);
    let charges = call.charge_registration(&publisher, new_nodes, new_versions)?;
    call.services().dispatch.node(&id.key(), new_node.into_command(publisher), call.command_context()).await?;
    charges.commit();

    let location = call.url(&format!("/nodes/{id}"));
    reply_with_node(&call, &id.key(), |view| ApiResponse::created(view))?.with_header(LOCATION, location)
}

/// `PUT /publishers/{publisherId}/nodes/{nodeId}`: changes the fields that are present.
pub async fn update(mut call: Call<{ Action::ReviseNode as u8 }>) -> Result<ApiResponse, Problem> {
    let body = call.json().await?;
    let node = call.existing_node()?;
    let is_admin = call.identity().is_admin();
    let publisher = call.publisher()?.id.clone();
    let NodeBody { fields: change, admin, .. } = read_node_change(&body, is_admin, &node)?;
    let change = change.0.relative_to(&call.services().options.public_url);
    let (admin_fields, status) = discard_inherited_ban(&call, &node, admin.0);
    let command = match status {
        Some(status) => NodeCommand::Administer { change, admin_fields, status: Some(status) },
        None => NodeCommand::Revise { publisher, change, admin_fields },
    };

    call.services().dispatch.node(&node, command, call.command_context()).await?;
    reply_with_node(&call, &node, |view| ApiResponse::ok(view))
}

/// `DELETE /publishers/{publisherId}/nodes/{nodeId}`: final; the id is never reused.
pub async fn delete(call: Call<{ Action::DeleteNode as u8 }>) -> Result<ApiResponse, Problem> {
    let node = call.existing_node()?;
    let publisher = Some(call.publisher()?.id.clone());
    call.services().dispatch.node(&node, NodeCommand::Delete { publisher }, call.command_context()).await?;
    Ok(ApiResponse::no_content())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodePermissions {
    can_edit: bool,
}

/// `GET /publishers/{publisherId}/nodes/{nodeId}/permissions`: reports if the caller may change the node.
pub async fn permissions(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    let node = call.existing_node()?;
    let status = call.services().models.read().nodes.get(&node).map(|node| node.status);
    // Banned nodes cannot be changed, not even by administrators before the node is unbanned.
    let can_edit = status == Some(NodeStatus::Active) && call.can_perform(Action::ReviseNode, call.publisher()?);
    ApiResponse::ok(&NodePermissions { can_edit })
}

/// Returns the fields and the status that an administrator really changes. While its publisher is banned, an active
/// node is shown as banned; sending the shown status and detail back does not ban the node itself.
pub fn discard_inherited_ban(
    call: &RequestContext,
    key: &NodeKey,
    NodeAdminBody { fields: FlattenedFields(mut admin_fields), status }: NodeAdminBody,
) -> (NodeAdminFields, Option<NodeStatus>) {
    let models = call.services().models.read();
    let Some(node) = models.nodes.get(key) else { return (admin_fields, status) };
    let publisher = models.publishers.get(&node.publisher);
    let is_publisher_banned = publisher.is_some_and(|publisher| publisher.status == PublisherStatus::Banned);
    let (effective, detail) = effective_status(node, is_publisher_banned);
    if effective == node.status {
        return (admin_fields, status);
    }

    admin_fields.status_detail = admin_fields.status_detail.filter(|new_detail| Some(new_detail.as_str()) != detail);
    // With a new reason, the administrator bans the node itself.
    let status = status.filter(|new_status| *new_status != effective || admin_fields.status_detail.is_some());
    (admin_fields, status)
}

/// Responds with the current state of a node, or with 204 if it was deleted.
pub fn reply_with_node(
    call: &RequestContext,
    key: &NodeKey,
    respond: impl FnOnce(&NodeView<'_>) -> Result<ApiResponse, Problem>,
) -> Result<ApiResponse, Problem> {
    let (entry, publisher, links) = {
        let models = call.services().models.read();
        let entry = models.nodes.entry(key);
        let owner = entry.as_ref().and_then(|entry| Some(&entry.profile()?.publisher));
        let publisher = owner.and_then(|owner| models.publishers.get(owner)).cloned();
        (entry, publisher, models.nodes.links().clone())
    };

    match entry.as_ref().and_then(|entry| entry.profile()) {
        Some(node) => respond(&NodeView::new(node, publisher.as_ref(), &links)),
        None => Ok(ApiResponse::no_content()),
    }
}
