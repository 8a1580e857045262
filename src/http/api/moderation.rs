//! Moderation of nodes and versions by administrators.

use crate::domain::node::NodeCommand;
use crate::domain::policy::Action;
use crate::domain::version::{SemVer, VersionRef};
use crate::http::api::node_body::{check_same_id, read_node_admin_fields, read_node_fields, read_node_status};
use crate::http::api::node_change::{discard_inherited_ban, reply_with_node};
use crate::http::api::version;
use crate::http::api::version_body::{read_moderation_patch, read_version_fields};
use crate::http::pipeline::Call;
use crate::http::request::fields;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;

/// `PUT /admin/nodes/{node_id}`: changes all fields of a node, including its status.
pub async fn node(mut call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let body = call.json().await?;
    let node = call.existing_node()?;
    let command = fields::read(&body, |fields| {
        check_same_id(fields, Some(&node));
        let change = read_node_fields(fields);
        let admin_fields = read_node_admin_fields(fields, true);
        let (admin_fields, status) = discard_inherited_ban(&call, &node, admin_fields, read_node_status(fields, true));
        Some(NodeCommand::Administer { change, admin_fields, status })
    })?;
    call.services().dispatch.node(&node, command, call.command_context()).await?;
    reply_with_node(&call, &node, |view| ApiResponse::ok(view))
}

/// `PUT /admin/nodes/{node_id}/versions/{version}`: changes all fields of a version, including its status.
pub async fn version(mut call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let body = call.json().await?;
    let node = call.existing_node()?;
    let number = SemVer::parse(&call.path_param("version")).map_err(|_| Problem::not_found("node version"))?;
    let version = VersionRef::Number(number);
    let command = fields::read(&body, |fields| {
        let change = read_version_fields(fields);
        Some(read_moderation_patch(fields, true).into_command(version.clone(), change))
    })?;
    call.services().dispatch.node(&node, command, call.command_context()).await?;
    version::reply_with_version(&call, &node, &version, true, |view| ApiResponse::ok(view))
}
