//! The OpenAPI 3.1 document of everything that is served, made from the code.
//!
//! To find the text of an operation: `groups` says which file a noun is described in; there each operation is one entry with
//! its path. What follows from a route (security, the failures of its kind) is added in `operation`; limits come from the
//! types of the domain by `schema`. `openapi.json` at the root of the repository is this document.

mod admin;
mod archive;
mod audit;
mod delivery;
mod error;
mod health;
mod image;
mod music;
mod node;
mod operation;
mod parameter;
mod publisher;
mod route;
mod schema;
mod state;
mod task;
mod token;
mod user;
mod version;
mod video;

use std::sync::OnceLock;

use actix_web::http::Method;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use self::error::problem;
use self::operation::{Operation, Shown};
use super::answer::Answer;
use super::error::Problem;
use super::gate::Call;
use super::routes::{Row, rows};
use crate::domain::policy::Action;

const ABOUT: &str = include_str!("openapi/about.md");

/// What the operations of one tag are, and the components that they name.
struct Group {
    tag: &'static str,
    about: &'static str,
    operations: Vec<Operation>,
    components: Vec<(&'static str, Value)>,
}

/// Every operation, by noun.
fn groups() -> Vec<Group> {
    vec![
        publisher::group(),
        token::group(),
        node::group(),
        version::group(),
        archive::group(),
        user::group(),
        admin::group(),
        audit::group(),
        image::group(),
        video::group(),
        music::group(),
        task::group(),
        delivery::group(),
        health::group(),
    ]
}

/// The document.
#[derive(Serialize)]
struct Document {
    openapi: &'static str,
    info: Value,
    servers: Value,
    tags: Vec<Value>,
    paths: InOrder<InOrder<Shown>>,
    components: Value,
}

/// An object whose members keep their order.
struct InOrder<T>(Vec<(&'static str, T)>);

impl<T: Serialize> Serialize for InOrder<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, member) in &self.0 {
            map.serialize_entry(name, member)?;
        }
        map.end()
    }
}

impl Document {
    /// The operations of the routes that are served, in the order of the route table.
    fn new(rows: &[Row], groups: Vec<Group>) -> Self {
        let about = |group: &Group| json!({"name": group.tag, "description": group.about});
        let tags = groups.iter().map(about).collect();
        let mut schemas = Map::from_iter([("Problem".to_owned(), problem())]);
        let mut described = Vec::new();
        for group in groups {
            schemas.extend(group.components.into_iter().map(|(name, schema)| (name.to_owned(), schema)));
            described.extend(group.operations.into_iter().map(|operation| (group.tag, operation)));
        }
        let mut responses = Map::new();
        let mut paths: Vec<(&'static str, InOrder<Shown>)> = Vec::new();
        for row in rows {
            let is_meant =
                |(_, operation): &(&str, Operation)| (&operation.method, operation.path) == (&row.method, row.path);
            let Some(at) = described.iter().position(is_meant) else { continue };
            let (tag, operation) = described.swap_remove(at);
            for group in operation.failures(row.action).values() {
                responses.insert(group.name(), group.component());
            }
            let shown = (method_name(&row.method), operation.show(tag, row.action, row.limit));
            match paths.iter_mut().find(|(path, _)| *path == row.path) {
                Some((_, InOrder(methods))) => methods.push(shown),
                None => paths.push((row.path, InOrder(vec![shown]))),
            }
        }
        Self {
            openapi: "3.1.0",
            info: info(),
            servers: servers(),
            tags,
            paths: InOrder(paths),
            components: components(&schemas, &responses),
        }
    }
}

fn info() -> Value {
    json!({
        "title": "Mediary",
        "version": env!("CARGO_PKG_VERSION"),
        "summary": "A node registry and media generation gateway.",
        "description": ABOUT,
        "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
    })
}

fn servers() -> Value {
    json!([{"url": "/", "description": "The service that this document was read from."}])
}

fn components(schemas: &Map<String, Value>, responses: &Map<String, Value>) -> Value {
    json!({
        "schemas": schemas,
        "responses": responses,
        "parameters": parameter::shared_headers(),
        "headers": parameter::answer_headers(),
        "securitySchemes": {
            "bearer": {
                "type": "http",
                "scheme": "bearer",
                "description": "A user token (`mdu_…`); where `auth.oidc` is configured, a JWT of that OpenID Connect issuer, which \
                                speaks for its user; or a publisher's personal access token (`mdp_…`), which creates and changes nodes \
                                and versions of that publisher, reads, and does nothing else.",
            },
        },
    })
}

fn method_name(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "get",
        "POST" => "post",
        "PUT" => "put",
        _ => "delete",
    }
}

/// The document as text to read: indented, with a line break at its end.
///
/// # Errors
/// When it cannot be written as JSON, which is a fault of ours.
pub fn text() -> serde_json::Result<String> {
    let text = serde_json::to_string_pretty(&Document::new(&rows(), groups()))?;
    Ok(format!("{text}\n"))
}

/// `GET /openapi.json` and `GET /openapi`: this document, made once.
pub(super) async fn show(_call: Call<{ Action::ReadServiceState as u8 }>) -> Result<Answer, Problem> {
    static WRITTEN: OnceLock<serde_json::Result<Box<RawValue>>> = OnceLock::new();
    match WRITTEN.get_or_init(|| to_raw_value(&Document::new(&rows(), groups()))) {
        Ok(document) => Answer::ok(document),
        Err(error) => Err(Problem::internal(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::domain::node::{NodeFacts, NodeFields};
    use crate::domain::policy::Standing;
    use crate::domain::publisher::PublisherFields;
    use crate::domain::version::VersionFields;

    fn described() -> Vec<(String, &'static str)> {
        let operations = groups().into_iter().flat_map(|group| group.operations);
        operations.map(|operation| (operation.method.to_string(), operation.path)).collect()
    }

    #[test]
    fn every_route_has_an_operation_and_every_operation_a_route() {
        let (mut described, rows) = (described(), rows());
        let mut served: Vec<_> = rows.iter().map(|row| (row.method.to_string(), row.path)).collect();
        described.sort();
        served.sort();
        assert_eq!(described, served, "left: what is described in src/http/openapi/, right: the route table");
    }

    #[test]
    fn every_operation_has_an_id_of_its_own_and_an_answer() {
        let document: Value = serde_json::from_str(&text().unwrap()).unwrap();
        let operations =
            || document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
        let ids: BTreeSet<_> = operations().map(|operation| operation["operationId"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), operations().count());
        for operation in operations() {
            let mut statuses = operation["responses"].as_object().unwrap().keys();
            assert!(statuses.any(|status| status < &"400".to_owned()), "{}", operation["operationId"]);
        }
    }

    #[test]
    fn credentials_are_asked_for_where_the_policy_asks_for_them() {
        let document: Value = serde_json::from_str(&text().unwrap()).unwrap();
        for row in rows() {
            let security = &document["paths"][row.path][method_name(&row.method)]["security"];
            let anonymous = row.action.allows(Standing::Anonymous) || row.action == Action::PublishVersion;
            let expected = if anonymous { json!([{"bearer": []}, {}]) } else { json!([{"bearer": []}]) };
            assert_eq!(*security, expected, "{} {}", row.method, row.path);
        }
    }

    /// The names of a struct's fields, as its `Debug` form has them.
    fn names_of(fields: &impl std::fmt::Debug) -> BTreeSet<String> {
        let told = format!("{fields:?}");
        let inside = told.split_once('{').expect("a struct with fields").1;
        inside.split(',').filter_map(|field| Some(field.split_once(':')?.0.trim().to_owned())).collect()
    }

    #[test]
    fn bodies_have_every_field_that_is_read() {
        let document: Value = serde_json::from_str(&text().unwrap()).unwrap();
        let bodies = [
            ("PublisherBody", names_of(&PublisherFields::default())),
            ("NodeBody", names_of(&NodeFields::default())),
            ("AdministeredNodeBody", names_of(&NodeFacts::default())),
            ("NewVersionBody", names_of(&VersionFields::default())),
        ];
        for (name, read) in bodies {
            let described: BTreeSet<_> =
                document["components"]["schemas"][name]["properties"].as_object().unwrap().keys().cloned().collect();
            assert!(read.is_subset(&described), "{name}: {:?}", read.difference(&described));
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document: Value = serde_json::from_str(&text().unwrap()).unwrap();
        let mut references = Vec::new();
        collect(&document, &mut references);
        assert!(references.len() > 100, "only {} references", references.len());
        for reference in references {
            assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
        }
    }

    fn collect(value: &Value, references: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                references.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|member| collect(member, references));
            }
            Value::Array(entries) => entries.iter().for_each(|entry| collect(entry, references)),
            _ => {}
        }
    }
}
