//! Moderation of nodes and versions by administrators.

use crate::domain::node::NodeCommand;
use crate::domain::policy::Action;
use crate::domain::version::{SemVer, VersionRef};
use crate::http::api::node_body::{NodeBody, read_node_change};
use crate::http::api::node_change::{discard_inherited_ban, reply_with_node};
use crate::http::api::version;
use crate::http::api::version_body::AdministeredVersionBody;
use crate::http::pipeline::Call;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;

/// `PUT /admin/nodes/{nodeId}`: changes all fields of a node, including its status.
pub async fn administer_node(mut call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let body = call.json().await?;
    let node = call.existing_node()?;
    let is_admin = true;
    let NodeBody { fields: change, admin, .. } = read_node_change(&body, is_admin, &node)?;
    let (admin_fields, status) = discard_inherited_ban(&call, &node, admin.0);
    let change = change.0.relative_to(&call.services().options.public_url);
    let command = NodeCommand::Administer { change, admin_fields, status };
    call.services().dispatch.node(&node, command, call.command_context()).await?;
    reply_with_node(&call, &node, |view| ApiResponse::ok(view))
}

/// `PUT /admin/nodes/{nodeId}/versions/{version}`: changes all fields of a version, including its status.
pub async fn administer_version(mut call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let body: AdministeredVersionBody = call.json_object().await?;
    let node = call.existing_node()?;
    let number = SemVer::parse(&call.path_param("version")).map_err(|_| Problem::not_found("node version"))?;
    let version = VersionRef::Number(number);
    let command = body.moderation.0.into_command(version.clone(), body.fields.0);
    call.services().dispatch.node(&node, command, call.command_context()).await?;

    let include_reason = true;
    version::reply_with_version(&call, &node, &version, include_reason, |view| ApiResponse::ok(view))
}
