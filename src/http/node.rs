//! Nodes: wire shape, creating, reading, listing.

use std::collections::BTreeMap;

use actix_web::http::header::{HeaderName, LINK, LOCATION};
use serde::Serialize;
use serde_json::Value;

use super::answer::Answer;
use super::error::Problem;
use super::fields::{self, Fields};
use super::gate::{Admitted, Call};
use super::publisher::{display_name, shown};
use super::query::LIMIT_MAX;
use super::version::{VersionView, entries, read_draft};
use crate::clock::Surroundings;
use crate::domain::ids::{NodeId, NodeKey};
use crate::domain::node::{
    LANGUAGES_MAX, NodeCommand, NodeDescription, NodeFacts, NodeFields, NodeProfile, TEXTS_MAX, Translations,
};
use crate::domain::policy::Action;
use crate::domain::value::{Invalid, Label, Link, Name, Text};
use crate::domain::version::{VersionDraft, latest};
use crate::projections::node::{NodeQuery, Sort, SortColumn};
use crate::projections::page::{Page, PageRequest};
use crate::projections::read_models::Models;

/// How many nodes there are on all pages together.
pub const X_TOTAL_COUNT: HeaderName = HeaderName::from_static("x-total-count");

/// Nodes of a page, when the caller does not say.
const LIMIT_DEFAULT: u64 = 10;

/// The seed's `Node`. What nothing measures yet (stars, rating, ranking) is absent.
#[derive(Debug, Serialize)]
pub struct NodeView<'m> {
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    banner_url: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<&'m str>,
    created_at: String,
    description: &'m str,
    downloads: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    icon: Option<&'m str>,
    id: &'m str,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest_version: Option<VersionView<'m>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    license: Option<&'m str>,
    name: &'m str,
    preempted_host_node_names: Vec<&'m str>,
    publisher: OwnerView<'m>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repository: Option<&'m str>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    translations: Option<BTreeMap<&'m str, BTreeMap<&'m str, &'m str>>>,
}

/// The publisher as a node shows it.
#[derive(Debug, Serialize)]
struct OwnerView<'m> {
    id: &'m str,
    name: &'m str,
}

/// The seed's `NodePage`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodePage<'m> {
    limit: u64,
    nodes: Vec<NodeView<'m>>,
    page: u64,
    total: u64,
    total_pages: u64,
}

impl<'m> NodeView<'m> {
    /// A node as everybody sees it.
    #[must_use]
    pub fn new(node: &'m NodeProfile, models: &'m Models) -> Self {
        let (fields, publisher) = (&node.fields, node.publisher.as_str());
        Self {
            author: fields.author.as_ref().map(Text::as_str),
            banner_url: shown(fields.banner_url.as_ref()),
            category: fields.category.as_ref().map(Text::as_str),
            created_at: node.created_at.to_string(),
            description: fields.description.as_ref().map_or("", Text::as_str),
            downloads: node.downloads,
            icon: shown(fields.icon.as_ref()),
            id: node.id.as_str(),
            latest_version: latest(&node.versions).map(|version| VersionView::new(&node.id, version)),
            license: fields.license.as_ref().map(Text::as_str),
            name: node.display_name(),
            preempted_host_node_names: entries(fields.preempted_host_node_names.as_ref()),
            publisher: OwnerView {
                id: publisher,
                name: models.publishers.get(&node.publisher).map_or(publisher, display_name),
            },
            repository: shown(fields.repository.as_ref()),
            status: node.status.as_str(),
            supported_accelerators: entries(fields.supported_accelerators.as_ref()),
            supported_host_frontend_version: fields.supported_host_frontend_version.as_ref().map(Text::as_str),
            supported_host_version: fields.supported_host_version.as_ref().map(Text::as_str),
            supported_os: entries(fields.supported_os.as_ref()),
            tags: entries(fields.tags.as_ref()),
            tags_admin: [],
            translations: fields.translations.as_ref().map(texts),
        }
    }
}

fn texts(translations: &Translations) -> BTreeMap<&str, BTreeMap<&str, &str>> {
    let languages = translations.iter().map(|(language, texts)| {
        let texts = texts.iter().map(|(field, text)| (field.as_str(), text.as_str())).collect();
        (language.as_str(), texts)
    });
    languages.collect()
}

/// `GET /nodes`: a page of all nodes. `latest` is accepted; the read model is always the latest.
pub async fn list(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    let mut query = call.query()?;
    let request = query.page(LIMIT_DEFAULT);
    let sort = each_column_once(query.many_checked("sort", read_sort));
    let named = query.many("node_id");
    // An id that cannot exist names no node; it must not widen the list to all of them.
    let node_ids: Vec<NodeKey> = named.iter().filter_map(|id| NodeId::parse(id).ok()).map(|id| id.key()).collect();
    let nothing_named_exists = !named.is_empty() && node_ids.is_empty();
    query.finish()?;

    let models = call.services().models.read();
    let page = if nothing_named_exists {
        Page { entries: Vec::new(), total: 0, request }
    } else {
        models.nodes.list(&NodeQuery { page: request, sort, node_ids })
    };
    Answer::ok(&NodePage {
        limit: request.limit,
        page: request.page,
        total: page.total,
        total_pages: page.total_pages(),
        nodes: page.entries.into_iter().map(|node| NodeView::new(node, &models)).collect(),
    })
}

/// Reads `column` or `column;desc`.
fn read_sort(text: &str) -> Result<Sort, Invalid> {
    let (column, direction) = text.split_once(';').unwrap_or((text, "asc"));
    match direction.trim() {
        "asc" | "desc" => {
            Ok(Sort { column: SortColumn::parse(column.trim())?, descending: direction.trim() == "desc" })
        }
        _ => Err(Invalid::new("must be a column, or a column and ;desc")),
    }
}

/// A column that was sorted by once leaves nothing for a second time.
fn each_column_once(sort: Vec<Sort>) -> Vec<Sort> {
    let mut kept: Vec<Sort> = Vec::with_capacity(SortColumn::ALL.len());
    for key in sort {
        if kept.iter().all(|earlier| earlier.column != key.column) {
            kept.push(key);
        }
    }
    kept
}

/// `GET /nodes/{node_id}`; the wrong case is redirected to the right one.
pub async fn show(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    let not_found = || Problem::not_found("node");
    let asked = NodeId::parse(&call.segment("node_id")).map_err(|_| not_found())?;
    let models = call.services().models.read();
    let node = models.nodes.get(&asked.key()).ok_or_else(not_found)?;
    if node.id == asked {
        return Answer::ok(&NodeView::new(node, &models));
    }
    let query = if call.query_string().is_empty() { String::new() } else { format!("?{}", call.query_string()) };
    Answer::found_at(call.url(&format!("/nodes/{}{query}", node.id)))
}

/// `GET /publishers/{publisher_id}/nodes`: by id; all of them up to [`LIMIT_MAX`], unless a page is asked for.
pub async fn list_of_publisher(call: Call<{ Action::ListPublisherNodes as u8 }>) -> Result<Answer, Problem> {
    let mut query = call.query()?;
    let request = query.page(LIMIT_MAX);
    query.finish()?;
    let publisher = call.publisher()?;
    let models = call.services().models.read();
    let page = models.nodes.of_publisher(&publisher.id, request);
    let links = links(&call.url(&format!("/publishers/{}/nodes", publisher.id)), request, page.total_pages());
    let total = page.total;
    let nodes: Vec<_> = page.entries.into_iter().map(|node| NodeView::new(node, &models)).collect();
    Answer::ok(&nodes)?.with(X_TOTAL_COUNT, total)?.with(LINK, links)
}

/// Where the other pages are (RFC 8288).
fn links(url: &str, PageRequest { page, limit }: PageRequest, pages: u64) -> String {
    let last = pages.max(1);
    let previous = (page > 1).then(|| ("prev", (page - 1).min(last)));
    let next = (page < last).then(|| ("next", page.saturating_add(1)));
    let relations = [Some(("first", 1)), previous, next, Some(("last", last))];
    let links = relations.into_iter().flatten();
    let links: Vec<_> = links.map(|(name, n)| format!("<{url}?limit={limit}&page={n}>; rel=\"{name}\"")).collect();
    links.join(", ")
}

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
    Answer::created(&NodeView::new(node, &models))?.with(LOCATION, call.url(&format!("/nodes/{}", node.id)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sorting_is_by_column_and_direction() {
        let sort = |column, descending| Ok(Sort { column, descending });
        assert_eq!(read_sort("name"), sort(SortColumn::Name, false));
        assert_eq!(read_sort("created_at;desc"), sort(SortColumn::CreatedAt, true));
        let reason = read_sort("secret").unwrap_err().to_string();
        assert!(reason.contains("search_ranking") && reason.contains("downloads"), "{reason}");
        assert!(read_sort("name;down").is_err());
    }

    #[test]
    fn of_a_column_that_is_repeated_the_first_counts() {
        let read = |texts: &[&str]| texts.iter().map(|text| read_sort(text).unwrap()).collect::<Vec<_>>();
        let kept = each_column_once(read(&["name;desc", "id", "name", "id;desc", "name;desc"]));
        assert_eq!(kept, read(&["name;desc", "id"]));
    }

    #[test]
    fn links_lead_to_pages_that_exist() {
        let rels = |page, pages| {
            let links = links("u", PageRequest { page, limit: 2 }, pages);
            links.split(", ").map(|link| link.trim_start_matches("<u?limit=2&page=").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(rels(1, 1), ["1>; rel=\"first\"", "1>; rel=\"last\""]);
        assert_eq!(rels(2, 3), ["1>; rel=\"first\"", "1>; rel=\"prev\"", "3>; rel=\"next\"", "3>; rel=\"last\""]);
        assert_eq!(rels(9, 3), ["1>; rel=\"first\"", "3>; rel=\"prev\"", "3>; rel=\"last\""]);
        assert_eq!(rels(1, 0), ["1>; rel=\"first\"", "1>; rel=\"last\""]);
    }

    #[test]
    fn the_id_comes_from_the_name_when_it_is_absent() {
        let id = |body| read_node(&body, &Surroundings::real()).map(|(id, ..)| id.to_string());
        assert_eq!(id(json!({"name": "Face Tools"})).unwrap(), "face-tools");
        assert_eq!(id(json!({"id": "Ab", "name": "Face Tools"})).unwrap(), "Ab");
        for bad in [json!({}), json!({"name": "日本"}), json!({"id": "-", "name": "a"}), json!({"id": 1, "name": "a"})]
        {
            assert!(id(bad).unwrap_err().to_string().starts_with("/id "));
        }
    }

    #[test]
    fn a_first_version_needs_a_number_to_be_one() {
        let version = |body| read_node(&body, &Surroundings::real()).map(|(.., version)| version.is_some()).ok();
        assert_eq!(version(json!({"id": "a", "latest_version": {"version": "1.0.0"}})), Some(true));
        assert_eq!(version(json!({"id": "a", "latest_version": {"changelog": "x"}})), Some(false));
        assert_eq!(version(json!({"id": "a", "latest_version": {"version": "1"}})), None);
        assert_eq!(version(json!({"id": "a"})), Some(false));
    }

    #[test]
    fn translations_are_read_to_the_last_text() {
        let body = json!({"id": "a", "translations": {"de": {"name": "Gesicht"}, "fr": {"name": 1}, "it": []}});
        let problem = read_node(&body, &Surroundings::real()).unwrap_err();
        assert_eq!(problem.to_string(), "/translations/fr/name must be a string; /translations/it must be an object");
    }
}
