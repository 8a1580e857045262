//! Request bodies about nodes: descriptive fields, set by publishers, and facts, set by administrators. Facts from
//! other callers are ignored (contract 4: output-only fields).

use serde_json::Value;

use crate::domain::ids::{NodeId, NodeKey, PublisherId};
use crate::domain::node::{
    LANGUAGES_MAX, NodeAdminFields, NodeCommand, NodeDescription, NodeFields, NodeStatus, Rating, TEXTS_MAX,
    Translations,
};
use crate::domain::value::{InvalidValue, Label, Link, Name, Text, Timestamp};
use crate::domain::version::VersionStatus;
use crate::environment::Environment;
use crate::http::api::version_body::{ModerationPatch, NewVersion, read_compatibility, read_new_version};
use crate::http::request::fields::{self, Fields};
use crate::http::response::error::Problem;

/// Node to create.
#[derive(Debug)]
pub struct NewNode {
    pub id: NodeId,
    pub fields: NodeFields,
    pub admin_fields: NodeAdminFields,
    pub status: Option<NodeStatus>,
    pub first_version: Option<NewVersion>,
}

/// Version to publish, with changes of its node.
#[derive(Debug)]
pub struct Publication {
    pub id: NodeId,
    pub fields: NodeFields,
    pub admin_fields: NodeAdminFields,
    pub version: NewVersion,
}

impl NewNode {
    /// Returns the commands that create the node, as one atomic batch. The version is active at once unless an
    /// administrator sets another status.
    #[must_use]
    pub fn into_command(self, publisher: PublisherId) -> NodeCommand {
        let Self { id, fields, admin_fields: facts, status, first_version } = self;
        let (version, moderation) = first_version.map(|new| (new.draft, new.moderation)).unzip();
        let moderation: ModerationPatch = moderation.unwrap_or_default();
        let moderation_command = version.as_ref().and_then(|version| moderation.clone().for_new_version(version.id));
        let is_active = moderation.status.is_none_or(|status| status == VersionStatus::Active);
        let (first_version, pending) = if is_active { (version, None) } else { (None, version) };

        let pending = pending.map(|version| {
            let id = id.clone();
            let publisher = publisher.clone();
            let fields = NodeFields::default();
            NodeCommand::Publish { id, publisher, fields, version }
        });

        let create = NodeCommand::Create { id, publisher, fields, admin_fields: facts, first_version };
        let status_command = status.map(|status| administer_command(NodeAdminFields::default(), Some(status)));
        NodeCommand::batch(create, [pending, moderation_command, status_command].into_iter().flatten())
    }
}

impl Publication {
    /// Returns the commands that publish the version, as one atomic batch. The version waits for its archive unless an
    /// administrator sets a status.
    #[must_use]
    pub fn into_command(self, publisher: PublisherId) -> NodeCommand {
        let Self { id, fields, admin_fields: facts, version: NewVersion { draft: version, moderation } } = self;
        let moderation_command = moderation.for_new_version(version.id);
        let admin_command = (facts != NodeAdminFields::default()).then(|| administer_command(facts, None));
        let publish = NodeCommand::Publish { id, publisher, fields, version };
        NodeCommand::batch(publish, [moderation_command, admin_command].into_iter().flatten())
    }
}

fn administer_command(admin_fields: NodeAdminFields, status: Option<NodeStatus>) -> NodeCommand {
    NodeCommand::Administer { change: NodeFields::default(), admin_fields, status }
}

/// Parses the id of a new node.
///
/// # Errors
/// If the id is malformed, or reserved by a path of the API.
pub fn new_node_id(text: &str) -> Result<NodeId, InvalidValue> {
    let id = NodeId::parse(text)?;
    if id.key().as_str() == "search" {
        return Err(InvalidValue::new("must not be `search` in any case, which is reserved for GET /nodes/search"));
    }
    Ok(id)
}

/// Reads a new node. Without an id, it is derived from the name.
///
/// # Errors
/// All invalid fields.
pub fn read_new_node(body: &Value, is_admin: bool, environment: &Environment) -> Result<NewNode, Problem> {
    fields::read(body, |fields| {
        let explicit_id = fields.text("id", new_node_id);
        let node_fields = read_node_fields(fields);
        let id = if fields.value("id").is_some() { explicit_id } else { derive_id(fields, node_fields.name.as_ref()) };
        let admin_fields = read_node_admin_fields(fields, is_admin);
        let status = read_node_status(fields, is_admin);

        let first_version = fields.object("latest_version", |version| {
            if version.value("version").is_none() {
                return Some(None);
            }
            read_new_version(version, is_admin, environment).map(Some)
        });

        Some(NewNode { id: id?, fields: node_fields, admin_fields, status, first_version: first_version.flatten() })
    })
}

fn derive_id(fields: &mut Fields<'_, '_>, name: Option<&Name>) -> Option<NodeId> {
    let Some(name) = name else {
        fields.add_error("id", "is required if there is no name to derive it from");
        return None;
    };
    let derived = NodeId::from_display_name(name.as_str()).and_then(|id| new_node_id(id.as_str()));
    derived.map_err(|reason| fields.add_error("id", reason)).ok()
}

/// Reads the descriptive fields that are present.
pub fn read_node_fields(fields: &mut Fields<'_, '_>) -> NodeFields {
    let support = read_compatibility(fields);

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
        supported_accelerators: support.accelerators,
        supported_host_frontend_version: support.host_frontend_version,
        supported_host_version: support.host_version,
        supported_os: support.os,
        tags: fields.labels("tags"),
        translations: fields.object("translations", |languages| Some(read_translations(languages))),
    }
}

/// Reads translations: language → field → text.
pub fn read_translations(languages: &mut Fields<'_, '_>) -> Translations {
    languages.map(LANGUAGES_MAX, parse_language, |languages, language| {
        languages.object(language, |texts| {
            let read = |texts: &mut Fields<'_, '_>, name: &str| texts.text(name, Text::parse);
            Some(texts.map(TEXTS_MAX, Text::parse, read))
        })
    })
}

/// Parses a language tag in the syntax of BCP 47; does not check that the language exists.
fn parse_language(text: &str) -> Result<Label, InvalidValue> {
    let mut parts = text.split('-');
    let language = parts.next().unwrap_or_default();
    let part = |part: &str, min_len, allowed: fn(&u8) -> bool| {
        (min_len..=8).contains(&part.len()) && part.as_bytes().iter().all(allowed)
    };
    if part(language, 2, u8::is_ascii_alphabetic) && parts.all(|subtag| part(subtag, 1, u8::is_ascii_alphanumeric)) {
        return Label::parse(text);
    }
    Err(InvalidValue::new("must be a language tag such as de or pt-BR"))
}

/// Reads the facts of a node; empty unless the caller is an administrator.
pub fn read_node_admin_fields(fields: &mut Fields<'_, '_>, is_admin: bool) -> NodeAdminFields {
    if !is_admin {
        return NodeAdminFields::default();
    }
    NodeAdminFields {
        created_at: fields.text("created_at", Timestamp::parse),
        downloads: fields.integer("downloads", parse_count),
        rating: fields.number("rating", Rating::new),
        github_stars: fields.integer("github_stars", parse_count),
        search_ranking: fields.integer("search_ranking", Ok),
        status_detail: fields.text("status_detail", Text::parse),
        tags_admin: fields.labels("tags_admin"),
    }
}

/// Reads the status of a node; `None` unless the caller is an administrator.
pub fn read_node_status(fields: &mut Fields<'_, '_>, is_admin: bool) -> Option<NodeStatus> {
    if is_admin { fields.text("status", NodeStatus::parse) } else { None }
}

fn parse_count(number: i64) -> Result<u64, InvalidValue> {
    u64::try_from(number).map_err(|_| InvalidValue::new("must be an integer of at least 0"))
}

/// Reads a version to publish, with changes of its node. `in_path` is the node id of the path.
///
/// # Errors
/// All invalid fields.
pub fn read_publication(
    body: &Value,
    path_id: &str,
    is_admin: bool,
    environment: &Environment,
) -> Result<Publication, Problem> {
    let path_id = new_node_id(path_id);
    fields::read(body, |fields| {
        if let Err(reason) = &path_id {
            fields.add_error("node_id", format!("in the path {reason}"));
        }

        // The caller is authenticated already; the type of the field is checked all the same.
        fields.str("personal_access_token");

        let node = fields.object("node", |node| {
            check_same_id(node, path_id.as_ref().ok().map(NodeId::key).as_ref());
            Some((read_node_fields(node), read_node_admin_fields(node, is_admin)))
        });

        let version = fields.object("node_version", |version| read_new_version(version, is_admin, environment));
        let version = fields.required("node_version", version);

        let (fields, admin_fields) = node.unwrap_or_default();
        Some(Publication { id: path_id.ok()?, fields, admin_fields, version: version? })
    })
}

/// Checks that an id in the body matches the path.
pub fn check_same_id(fields: &mut Fields<'_, '_>, path: Option<&NodeKey>) {
    let body_id = fields.text("id", NodeId::parse);
    if let (Some(id), Some(path)) = (body_id, path)
        && id.key() != *path
    {
        fields.add_error("id", "must match the node id in the path");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn new_node(body: &Value) -> Result<NewNode, Problem> {
        read_new_node(body, false, &Environment::system())
    }

    #[test]
    fn the_id_comes_from_the_name_when_it_is_absent() {
        let id = |body| new_node(&body).map(|node| node.id.to_string());
        assert_eq!(id(json!({"name": "Face Tools"})).unwrap(), "face-tools");
        assert_eq!(id(json!({"id": "Ab", "name": "Face Tools"})).unwrap(), "Ab");
        for bad in [json!({}), json!({"name": "日本"}), json!({"id": "-", "name": "a"}), json!({"id": 1, "name": "a"})]
        {
            assert!(id(bad).unwrap_err().to_string().starts_with("/id "));
        }
    }

    #[test]
    fn the_id_of_a_path_is_not_given_out() {
        for reserved in [json!({"id": "search"}), json!({"id": "SEARCH"}), json!({"name": "Search!"})] {
            assert!(new_node(&reserved).unwrap_err().to_string().contains("GET /nodes/search"), "{reserved}");
        }
        assert!(new_node(&json!({"id": "search-1"})).is_ok());
    }

    #[test]
    fn a_token_in_a_publication_is_text_even_where_it_is_not_needed() {
        let body = json!({"node_version": {"version": "1.0.0"}, "personal_access_token": 1});
        let problem = read_publication(&body, "a", false, &Environment::system()).unwrap_err();
        assert_eq!(problem.to_string(), "/personal_access_token must be a string");
    }

    #[test]
    fn a_first_version_needs_a_number_to_be_one() {
        let version = |body| new_node(&body).map(|node| node.first_version.is_some()).ok();
        assert_eq!(version(json!({"id": "a", "latest_version": {"version": "1.0.0"}})), Some(true));
        assert_eq!(version(json!({"id": "a", "latest_version": {"changelog": "x"}})), Some(false));
        assert_eq!(version(json!({"id": "a", "latest_version": {"version": "1"}})), None);
        assert_eq!(version(json!({"id": "a"})), Some(false));
    }

    #[test]
    fn translations_are_read_to_the_last_text() {
        let body = json!({"id": "a", "translations": {"de": {"name": "Gesicht"}, "fr": {"name": 1}, "it": []}});
        let problem = new_node(&body).unwrap_err();
        let message = problem.to_string();
        assert!(message.starts_with("/translations/fr/name must be a string of at most "), "{message}");
        assert!(message.ends_with("; /translations/it must be an object"), "{message}");
    }

    #[test]
    fn languages_have_the_form_of_language_tags() {
        for good in ["de", "pt-BR", "zh-Hant-TW", "abcdefgh-1", "de-1996"] {
            assert!(parse_language(good).is_ok(), "{good}");
        }
        for bad in ["", "d", "d1", "de_DE", "de-", "-de", "de--DE", "abcdefghi", "de-abcdefghi", "日本", "translations"]
        {
            assert!(parse_language(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn facts_count_from_administrators_only() {
        let body = json!({"id": "a", "downloads": "many", "status": "no such", "created_at": 1, "rating": 6,
            "latest_version": {"version": "1.0.0", "status": 1, "tags_admin": 2, "createdAt": "today"}});
        assert!(
            new_node(&body).is_ok_and(|node| node.admin_fields == NodeAdminFields::default() && node.status.is_none())
        );
        let problem = read_new_node(&body, true, &Environment::system()).unwrap_err();
        assert!(problem.to_string().ends_with("and 4 more"), "{problem}");
    }
}
