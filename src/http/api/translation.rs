//! Translations of a node's texts.

use crate::domain::node::NodeCommand;
use crate::domain::policy::Action;
use crate::http::api::node_body::read_translations;
use crate::http::api::node_change::reply_with_node;
use crate::http::pipeline::Call;
use crate::http::request::fields;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;

/// `POST /nodes/{nodeId}/translations`: replaces the texts of the given languages; a language without texts is
/// removed. The body is `{language: {field: text}}`, bare or as `translations`.
pub async fn merge(mut call: Call<{ Action::TranslateNode as u8 }>) -> Result<ApiResponse, Problem> {
    let body = call.json().await?;
    let node = call.existing_node()?;
    let translations = fields::read(&body, |fields| match fields.value("translations") {
        Some(_) => fields.object("translations", |languages| Some(read_translations(languages))),
        None => Some(read_translations(fields)),
    })?;

    let publisher = (!call.identity().is_admin()).then(|| call.publisher().map(|publisher| publisher.id.clone()));
    let command = NodeCommand::Translate { publisher: publisher.transpose()?, translations };
    call.services().dispatch.node(&node, command, call.command_context()).await?;
    reply_with_node(&call, &node, |view| ApiResponse::ok(view))
}
