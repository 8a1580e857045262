//! Request bodies about nodes: descriptive fields, set by publishers, and administrator fields, set by administrators.
//! Administrator fields from other callers are ignored (contract 4: output-only fields).

use serde_json::{Value, json};

use crate::domain::ids::{NodeId, NodeKey, PublisherId};
use crate::domain::node::{
    LANGUAGES_MAX, NodeAdminFields, NodeCommand, NodeFields, NodeStatus, TEXTS_MAX, Translations,
};
use crate::domain::value::{InvalidValue, Label, Name, Text};
use crate::domain::version::VersionStatus;
use crate::environment::Environment;
use crate::http::api::version_body::{ModerationPatch, NewVersion, NewVersionBody};
use crate::http::openapi::schema::component_ref;
use crate::http::request::fields::{self, Fields};
use crate::http::request::json_object::{
    AdministratorsOnly, FlattenedFields, JsonObject, JsonValue, RequiredField, json_object,
};
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
        let Self { id, fields, admin_fields, status, first_version } = self;
        let (version, moderation) = first_version.map(|new| (new.draft, new.moderation)).unzip();
        let moderation: ModerationPatch = moderation.unwrap_or_default();
        let moderation_command = version.as_ref().and_then(|version| moderation.clone().for_new_version(version.id));

        // `Create` releases its first version. A version with another status is published separately, so that it is
        // pending before `moderation_command` changes its status.
        let is_active = moderation.status.is_none_or(|status| status == VersionStatus::Active);
        let (first_version, pending) = if is_active { (version, None) } else { (None, version) };
        let publish = pending.map(|version| {
            let id = id.clone();
            let publisher = publisher.clone();
            let fields = NodeFields::default();
            NodeCommand::Publish { id, publisher, fields, version }
        });

        let create = NodeCommand::Create { id, publisher, fields, admin_fields, first_version };
        let status_command = status.map(|status| administer_command(NodeAdminFields::default(), Some(status)));
        NodeCommand::batch(create, [publish, moderation_command, status_command].into_iter().flatten())
    }
}

impl Publication {
    /// Returns the commands that publish the version, as one atomic batch. The version waits for its archive unless an
    /// administrator sets a status.
    #[must_use]
    pub fn into_command(self, publisher: PublisherId) -> NodeCommand {
        let Self { id, fields, admin_fields, version: NewVersion { draft: version, moderation } } = self;
        let moderation_command = moderation.for_new_version(version.id);
        let admin_command =
            (admin_fields != NodeAdminFields::default()).then(|| administer_command(admin_fields, None));
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
        return Err(InvalidValue::new(
            "must not be `search` in upper or lower case, which is reserved for GET /nodes/search",
        ));
    }
    Ok(id)
}

json_object! {
    impl NodeFields {
        /// Supported accelerators, such as CUDA, DirectML or ROCm.
        supported_accelerators,
        /// Supported versions of the host frontend.
        supported_host_frontend_version,
        /// Supported versions of the host application.
        supported_host_version,
        /// Supported operating systems.
        supported_os,
        /// Author.
        author,
        /// URL of the banner.
        banner_url,
        /// Category. Use `tags` instead; this field will be removed in a future version.
        #[schema(with("deprecated", true))]
        category,
        /// Description of the node.
        description,
        /// URL of the icon.
        icon,
        /// License: its name, the path of its file in the repository, or its text.
        license,
        /// Display name.
        name,
        /// Names of host nodes that this node replaces.
        preempted_host_node_names,
        /// URL of the repository.
        repository,
        /// Tags, which the search includes.
        tags,
        /// Translated texts: language → field → text.
        translations,
    }
}

json_object! {
    impl NodeAdminFields {
        /// Creation time.
        created_at,
        /// Number of installs, counted once per account (or client address) and day.
        downloads,
        /// Mean rating. A value set here applies until there is a review.
        rating,
        /// Stars on the source repository.
        github_stars,
        /// Rank for sorting search results.
        search_ranking,
        /// Reason of the status, such as that of a ban.
        status_detail,
        /// Security warnings and other tags set by administrators.
        tags_admin,
    }
}

json_object! {
    /// Fields of a node that only administrators set.
    #[derive(Default)]
    pub struct NodeAdminBody {
        fields: FlattenedFields<NodeAdminFields>,
        /// Status. Allowed transitions: active ↔ banned; active → deleted, which is final. A ban requires
        /// `status_detail`.
        status: Option<NodeStatus>,
    }
}

json_object! {
    /// New node.
    pub struct NewNodeBody {
        /// Id of the node: letters and digits, with `.`, `_` and `-` between them, at most 100 characters. Derived
        /// from `name` if absent.
        id: Option<NewNodeId>,
        fields: FlattenedFields<NodeFields>,
        admin: AdministratorsOnly<NodeAdminBody>,
        /// First version; ignored without its `version`.
        latest_version: Option<FirstVersion>,
    }
}

json_object! {
    /// Changes by members.
    pub struct NodeBody {
        /// Id of the node; if present, it must match the path.
        id: Option<NodeId>,
        fields: FlattenedFields<NodeFields>,
        admin: AdministratorsOnly<NodeAdminBody>,
    }
}

json_object! {
    /// Version to publish, with changes of its node.
    pub struct PublicationBody {
        /// Token of the publisher, used if there is no `Authorization` header. An invalid token is rejected even if
        /// the header is present.
        personal_access_token: Option<String>,
        /// Fields of the node, which is created if it is new. `status` is ignored.
        #[schema(component("NodeBody"))]
        node: Option<PublishedNodeBody>,
        /// Version to create.
        #[schema(component("NewVersionBody"))]
        node_version: RequiredField<NewVersionBody>,
    }
}

json_object! {
    /// Changes of a node by a publication: [`NodeBody`] without its status.
    pub struct PublishedNodeBody {
        id: Option<NodeId>,
        fields: FlattenedFields<NodeFields>,
        admin: AdministratorsOnly<NodeAdminFields>,
    }
}

/// Id of a new node.
pub struct NewNodeId(NodeId);

impl JsonValue for NewNodeId {
    fn schema() -> Value {
        let mut schema = <NodeId as JsonValue>::schema();
        schema["not"] = json!({"pattern": "^[Ss][Ee][Aa][Rr][Cc][Hh]$"});
        schema
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        fields.text(name, new_node_id).map(Self)
    }
}

/// First version of a node; `None` without a number.
pub struct FirstVersion(Option<NewVersionBody>);

impl JsonValue for FirstVersion {
    fn schema() -> Value {
        component_ref("FirstVersionBody")
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        fields.object(name, |version| match version.value("version") {
            Some(_) => NewVersionBody::read_fields(version).map(|version| Self(Some(version))),
            None => Some(Self(None)),
        })
    }
}

impl JsonValue for Translations {
    fn schema() -> Value {
        component_ref("TextsByLanguageBody")
    }

    fn read(fields: &mut Fields<'_, '_>, name: &str) -> Option<Self> {
        fields.object(name, |languages| Some(read_translations(languages)))
    }
}

/// Reads a new node. If the body has no id, the id is derived from the name.
///
/// # Errors
/// All invalid fields.
pub fn read_new_node(body: &Value, is_admin: bool, environment: &Environment) -> Result<NewNode, Problem> {
    fields::read_as(is_admin, body, |fields| {
        let body = NewNodeBody::read_fields(fields)?;
        let NewNodeBody { id, fields: FlattenedFields(node_fields), admin, latest_version } = body;
        let NodeAdminBody { fields: FlattenedFields(admin_fields), status } = admin.0;
        let id = match id {
            Some(NewNodeId(id)) => Some(id),
            // The reader of the field has reported an invalid id.
            None if fields.value("id").is_some() => None,
            None => derive_id(fields, node_fields.name.as_ref()),
        };
        let first_version = latest_version.and_then(|FirstVersion(version)| version);
        let first_version = first_version.map(|version| version.into_new_version(environment));
        Some(NewNode { id: id?, fields: node_fields, admin_fields, status, first_version })
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
    let is_valid = |part: &str, min_length, is_allowed: fn(&u8) -> bool| {
        (min_length..=8).contains(&part.len()) && part.as_bytes().iter().all(is_allowed)
    };
    if is_valid(language, 2, u8::is_ascii_alphabetic)
        && parts.all(|subtag| is_valid(subtag, 1, u8::is_ascii_alphanumeric))
    {
        return Label::parse(text);
    }
    Err(InvalidValue::new("must be a language tag such as de or pt-BR"))
}

/// Reads a version to publish, with changes of its node. `path_id` is the node id in the path.
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
    fields::read_as(is_admin, body, |fields| {
        if let Err(reason) = &path_id {
            fields.add_error("node_id", format!("in the path {reason}"));
        }
        if let (Some(node), Ok(id)) = (fields.value("node"), &path_id) {
            check_same_id(fields, "/node/id", node.get("id"), &id.key());
        }

        let body = PublicationBody::read_fields(fields)?;
        // The caller is authenticated already; only the type of the token is checked here.
        let PublicationBody { node, node_version, .. } = body;
        let version = node_version.0?.into_new_version(environment);
        let (fields, admin_fields) = node.map(|node| (node.fields.0, node.admin.0)).unwrap_or_default();
        Some(Publication { id: path_id.ok()?, fields, admin_fields, version })
    })
}

/// Reads changes of the node in the path.
///
/// # Errors
/// All invalid fields.
pub fn read_node_change(body: &Value, is_admin: bool, path: &NodeKey) -> Result<NodeBody, Problem> {
    fields::read_as(is_admin, body, |fields| {
        check_same_id(fields, "/id", fields.value("id"), path);
        NodeBody::read_fields(fields)
    })
}

/// Checks that an id in the body matches the path. A malformed id is reported by the reader of its field.
fn check_same_id(fields: &mut Fields<'_, '_>, pointer: &str, body_id: Option<&Value>, path: &NodeKey) {
    let id = body_id.and_then(Value::as_str).and_then(|id| NodeId::parse(id).ok());
    if id.is_some_and(|id| id.key() != *path) {
        fields.add_error_at(pointer, "must match the node id in the path");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Reads a new node from a caller who is not an administrator.
    fn new_node(body: &Value) -> Result<NewNode, Problem> {
        let is_admin = false;
        read_new_node(body, is_admin, &Environment::system())
    }

    #[test]
    fn a_missing_id_is_derived_from_the_name() {
        let id = |body| new_node(&body).map(|node| node.id.to_string());
        assert_eq!(id(json!({"name": "Face Tools"})).unwrap(), "face-tools");
        assert_eq!(id(json!({"id": "Ab", "name": "Face Tools"})).unwrap(), "Ab");
        for bad in [json!({}), json!({"name": "日本"}), json!({"id": "-", "name": "a"}), json!({"id": 1, "name": "a"})]
        {
            let error = id(bad).unwrap_err().to_string();
            assert!(error.starts_with("/id "), "{error}");
        }
    }

    #[test]
    fn ids_that_are_path_segments_are_rejected() {
        for reserved in [json!({"id": "search"}), json!({"id": "SEARCH"}), json!({"name": "Search!"})] {
            assert!(new_node(&reserved).unwrap_err().to_string().contains("GET /nodes/search"), "{reserved}");
        }
        assert!(new_node(&json!({"id": "search-1"})).is_ok());
    }

    #[test]
    fn a_token_in_the_body_must_be_a_string_even_if_unused() {
        let body = json!({"node_version": {"version": "1.0.0"}, "personal_access_token": 1});
        let is_admin = false;
        let problem = read_publication(&body, "a", is_admin, &Environment::system()).unwrap_err();
        assert_eq!(problem.to_string(), "/personal_access_token must be a string");
    }

    #[test]
    fn a_first_version_without_a_number_is_ignored() {
        let has_version = |body| new_node(&body).map(|node| node.first_version.is_some()).ok();
        assert_eq!(has_version(json!({"id": "a", "latest_version": {"version": "1.0.0"}})), Some(true));
        assert_eq!(has_version(json!({"id": "a", "latest_version": {"changelog": "x"}})), Some(false));
        assert_eq!(has_version(json!({"id": "a", "latest_version": {"version": "1"}})), None);
        assert_eq!(has_version(json!({"id": "a"})), Some(false));
    }

    #[test]
    fn every_text_of_a_translation_is_validated() {
        let body = json!({"id": "a", "translations": {"de": {"name": "Gesicht"}, "fr": {"name": 1}, "it": []}});
        let problem = new_node(&body).unwrap_err();
        let message = problem.to_string();
        assert!(message.starts_with("/translations/fr/name must be a string of at most "), "{message}");
        assert!(message.ends_with("; /translations/it must be an object"), "{message}");
    }

    #[test]
    fn languages_must_be_language_tags() {
        for good in ["de", "pt-BR", "zh-Hant-TW", "abcdefgh-1", "de-1996"] {
            assert!(parse_language(good).is_ok(), "{good}");
        }
        for bad in ["", "d", "d1", "de_DE", "de-", "-de", "de--DE", "abcdefghi", "de-abcdefghi", "日本", "translations"]
        {
            assert!(parse_language(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn admin_fields_are_ignored_from_other_callers() {
        let body = json!({"id": "a", "downloads": "many", "status": "no such", "created_at": 1, "rating": 6,
            "latest_version": {"version": "1.0.0", "status": 1, "tags_admin": 2, "createdAt": "today"}});
        assert!(
            new_node(&body).is_ok_and(|node| node.admin_fields == NodeAdminFields::default() && node.status.is_none())
        );
        let is_admin = true;
        let problem = read_new_node(&body, is_admin, &Environment::system()).unwrap_err();
        assert!(problem.to_string().ends_with("and 4 more"), "{problem}");
    }
}
