//! Creating nodes, as it was before.

use actix_web::http::header::LOCATION;
use serde_json::Value;

use super::answer::Answer;
use super::error::Problem;
use super::fields::{self, Fields};
use super::gate::{Admitted, Call};
use super::version::read_draft;
use crate::clock::Surroundings;
use crate::domain::ids::NodeId;
use crate::domain::node::{
    LANGUAGES_MAX, NodeCommand, NodeDescription, NodeFacts, NodeFields, TEXTS_MAX, Translations,
};
use crate::domain::policy::Action;
use crate::domain::value::{Label, Link, Name, Text};
use crate::domain::version::VersionDraft;
use crate::projections::node::view::NodeView;

/// `POST /publishers/{publisher_id}/nodes`: claims a node id, and releases a first version when the body has one.
pub async fn create(mut call: Call<{ Action::CreateNode as u8 }>) -> Result<Answer, Problem> {
    let body = call.json().await?;
    let (id, fields, first_version) = read_node(&body, &call.services().surroundings)?;
    let publisher = call.publisher()?.id.clone();
    let command = NodeCommand::Create { id: id.clone(), publisher, fields, facts: NodeFacts::default(), first_version };
    call.services().dispatch.node(&id.key(), command, call.why()).await?;
    created(&call, &id)
}

fn created(call: &Admitted, id: &NodeId) -> Result<Answer, Problem> {
    let models = call.services().models.read();
    let node = models.nodes.get(&id.key()).ok_or_else(|| Problem::not_found("node"))?;
    Answer::created(&NodeView::new(node, models.publishers.get(&node.publisher), models.nodes.links()))?
        .with(LOCATION, call.url(&format!("/nodes/{}", node.id)))
}

fn read_node(body: &Value, surroundings: &Surroundings) -> Result<(NodeId, NodeFields, Option<VersionDraft>), Problem> {
    fields::read(body, |fields| {
        let given = fields.text("id", NodeId::parse);
        let descriptive = read_fields(fields);
        let derived = || descriptive.name.as_ref().map(|name| NodeId::derive(name.as_str()));
        let id = match (given, fields.value("id")) {
            (Some(id), _) => Some(id),
            (None, Some(_)) => None,
            (None, None) => match derived() {
                Some(derived) => derived.map_err(|reason| fields.fault("id", reason)).ok(),
                None => fields.required("id", None),
            },
        };
        let versioned = |version: &Fields<'_, '_>| version.value("version").is_some();
        let first_version = fields.object("latest_version", |version| {
            if versioned(version) { read_draft(version, surroundings).map(Some) } else { Some(None) }
        });
        Some((id?, descriptive, first_version.flatten()))
    })
}

/// Reads the descriptive fields of a node that are present.
pub fn read_fields(fields: &mut Fields<'_, '_>) -> NodeFields {
    NodeFields {
        author: fields.text("author", Name::parse),
        banner_url: fields.text("banner_url", Link::parse),
        category: fields.text("category", Label::parse),
        description: fields.text("description", NodeDescription::parse),
        icon: fields.text("icon", Link::parse),
        license: fields.text("license", Label::parse),
        name: fields.text("name", Name::parse),
        preempted_host_node_names: fields.labels("preempted_host_node_names"),
        repository: fields.text("repository", Link::parse),
        supported_accelerators: fields.labels("supported_accelerators"),
        supported_host_frontend_version: fields.text("supported_host_frontend_version", Label::parse),
        supported_host_version: fields.text("supported_host_version", Label::parse),
        supported_os: fields.labels("supported_os"),
        tags: fields.labels("tags"),
        translations: fields.object("translations", |languages| Some(read_translations(languages))),
    }
}

fn read_translations(languages: &mut Fields<'_, '_>) -> Translations {
    languages.named(LANGUAGES_MAX, Text::parse, |languages, language| {
        languages.object(language, |texts| {
            let read = |texts: &mut Fields<'_, '_>, name: &str| texts.text(name, Text::parse);
            Some(texts.named(TEXTS_MAX, Text::parse, read))
        })
    })
}
