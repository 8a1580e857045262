//! Translations of a node's texts.

use super::answer::Answer;
use super::error::Problem;
use super::fields;
use super::gate::Call;
use super::node_body::read_translations;
use super::node_change::with_view;
use crate::domain::node::NodeCommand;
use crate::domain::policy::Action;

/// `POST /nodes/{node_id}/translations`: replaces the texts of the given languages; a language without texts is
/// removed. The body is `{language: {field: text}}`, bare or as `translations`.
pub async fn merge(mut call: Call<{ Action::TranslateNode as u8 }>) -> Result<Answer, Problem> {
    let body = call.json().await?;
    let node = call.known_node()?;
    let translations = fields::read(&body, |fields| match fields.value("translations") {
        Some(_) => fields.object("translations", |languages| Some(read_translations(languages))),
        None => Some(read_translations(fields)),
    })?;

    let publisher = (!call.identity().is_admin()).then(|| call.publisher().map(|publisher| publisher.id.clone()));
    let command = NodeCommand::Translate { publisher: publisher.transpose()?, translations };
    call.services().dispatch.node(&node, command, call.why()).await?;
    with_view(&call, &node, |view| Answer::ok(view))
}
