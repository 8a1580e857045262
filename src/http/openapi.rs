//! OpenAPI 3.1 document of all served routes, generated from the code.
//!
//! To find the text of an operation, look up the file of its tag in `groups`; each operation is one entry with the id
//! that the route table names. `operation` adds the error responses that follow from the route, `route` adds access
//! rules and body limits, and `schema` takes value ranges from the types of the domain. `openapi.json` at the root of
//! the repository is this document.

mod admin;
mod archive;
mod audit;
mod budget;
mod delivery;
mod error;
mod event_stream;
mod extract;
mod field;
mod health;
mod image;
mod image_submission;
mod input_file;
pub(super) mod jobs;
mod models;
mod music;
mod node;
mod operation;
mod parameter;
mod publisher;
mod publisher_webhook;
pub(super) mod reference;
mod route;
pub(super) mod schema;
mod state;
mod task;
mod token;
mod user;
mod version;
mod video;
mod video_submission;
mod webhook;

use std::collections::HashMap;
use std::sync::OnceLock;

use actix_web::http::Method;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use self::error::problem_schema;
use self::operation::{Operation, OperationObject};
use crate::domain::policy::Action;
use crate::http::api::video::REFERENCE_IMAGES_MAX;
use crate::http::pipeline::Call;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::http::routes::{RouteInfo, route_infos};

const ABOUT: &str = include_str!("openapi/about.md");

/// The operations of one tag and the components that they use.
struct OperationGroup {
    tag: &'static str,
    description: &'static str,
    operations: Vec<Operation>,
    components: Vec<(&'static str, Value)>,
}

impl OperationGroup {
    /// Takes the components of the group and those of its operations.
    fn take_components(&mut self) -> Vec<(String, Value)> {
        let of_group = self.components.drain(..).map(|(name, schema)| (name.to_owned(), schema));
        let of_operations = self.operations.iter_mut().flat_map(|operation| operation.components.drain(..));
        of_group.chain(of_operations).collect()
    }
}

/// Default of `video.max_images`.
const MAX_IMAGES_DEFAULT: usize = 1;

/// Returns all operations by tag, for a service that accepts `max_images` images per video.
fn groups(max_images: usize) -> Vec<OperationGroup> {
    vec![
        publisher::group(),
        token::group(),
        node::group(),
        version::group(),
        archive::group(),
        user::group(),
        admin::group(),
        audit::group(),
        input_file::group(),
        models::group(),
        budget::group(),
        image::group(),
        video::group(max_images),
        music::group(),
        task::group(),
        delivery::group(),
        publisher_webhook::group(),
        health::group(),
    ]
}

/// The document.
#[derive(Serialize)]
struct OpenApiDocument {
    openapi: &'static str,
    info: Value,
    servers: Value,
    tags: Vec<Value>,
    paths: OrderedMap<OrderedMap<OperationObject>>,
    webhooks: Value,
    components: Value,
}

/// Object that keeps the order of its members.
struct OrderedMap<T>(Vec<(&'static str, T)>);

impl<T: Serialize> Serialize for OrderedMap<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, member) in &self.0 {
            map.serialize_entry(name, member)?;
        }
        map.end()
    }
}

impl OpenApiDocument {
    /// Builds the document from the operations of the served routes, in the order of the route table.
    fn new(rows: &[RouteInfo], groups: Vec<OperationGroup>) -> Self {
        let tag_object = |group: &OperationGroup| json!({"name": group.tag, "description": group.description});
        let tags = groups.iter().map(tag_object).chain([webhook::tag()]).collect();

        let mut schemas = Map::from_iter([("Problem".to_owned(), problem_schema())]);
        let mut declared = Vec::new();
        for mut group in groups {
            schemas.extend(group.take_components());
            declared.extend(group.operations.into_iter().map(|operation| (group.tag, operation)));
        }

        let mut responses = Map::new();
        let mut paths: Vec<(&'static str, OrderedMap<OperationObject>)> = Vec::new();
        for row in rows {
            let index = declared.iter().position(|(_, operation)| operation.id == row.operation_id);
            let Some(index) = index else { continue };
            let (tag, operation) = declared.swap_remove(index);

            for error in operation.errors_by_status(row).values() {
                responses.insert(error.name(), error.component());
            }
            let entry = (method_name(&row.method), operation.into_object(tag, row));
            match paths.iter_mut().find(|(path, _)| *path == row.path) {
                Some((_, OrderedMap(methods))) => methods.push(entry),
                None => paths.push((row.path, OrderedMap(vec![entry]))),
            }
        }

        Self {
            openapi: "3.1.0",
            info: info(),
            servers: servers(),
            tags,
            paths: OrderedMap(paths),
            webhooks: webhook::webhooks(),
            components: components(&schemas, &responses),
        }
    }
}

fn info() -> Value {
    json!({
        "title": "Mediary",
        "version": env!("CARGO_PKG_VERSION"),
        "summary": "Node registry and media generation gateway",
        "description": ABOUT,
        "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
    })
}

fn servers() -> Value {
    json!([{"url": "/", "description": "The service that serves this document."}])
}

fn components(schemas: &Map<String, Value>, responses: &Map<String, Value>) -> Value {
    json!({
        "schemas": schemas,
        "responses": responses,
        "parameters": parameter::request_header_components(),
        "headers": parameter::response_header_components(),
        "securitySchemes": {
            "bearer": {
                "type": "http",
                "scheme": "bearer",
                "description": "One of: a user token (`mdu_…`); a JWT of the OpenID Connect issuer in `auth.oidc`, if \
                                configured, which acts as its user; a personal access token of a publisher (`mdp_…`), \
                                which can read and can create and change nodes and versions of that publisher, and \
                                nothing else.",
            },
            "apiKey": {
                "type": "apiKey",
                "in": "header",
                "name": "X-API-KEY",
                "description": "The same tokens, for clients that send them in this header.",
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

/// Returns the document of a service with default limits as indented JSON with a trailing newline.
///
/// # Errors
/// If serialization fails, which is a bug.
pub fn document_json() -> serde_json::Result<String> {
    let text = serde_json::to_string_pretty(&OpenApiDocument::new(&route_infos(), groups(MAX_IMAGES_DEFAULT)))?;
    Ok(format!("{text}\n"))
}

/// JSON schema of a request body, with method and path.
pub(in crate::http) type BodySchema = (Method, &'static str, Value);

/// Returns the JSON schemas of request bodies and the components that they refer to.
pub(in crate::http) fn body_schemas() -> (Vec<BodySchema>, Map<String, Value>) {
    let mut by_operation = HashMap::new();
    let mut components = Map::new();
    for mut group in groups(REFERENCE_IMAGES_MAX) {
        components.extend(group.take_components());
        by_operation.extend(group.operations.into_iter().map(|operation| (operation.id, operation)));
    }

    let bodies = route_infos().into_iter().filter_map(|route| {
        let schema = by_operation.get(route.operation_id)?.json_body_schema()?.clone();
        Some((route.method, route.path, schema))
    });
    (bodies.collect(), components)
}

/// Serves `GET /openapi.json` and `GET /openapi`: the document with the limits of this service, cached per limit.
pub(in crate::http) async fn show(call: Call<{ Action::ReadServiceState as u8 }>) -> Result<ApiResponse, Problem> {
    static DOCUMENTS: [OnceLock<serde_json::Result<Box<RawValue>>>; REFERENCE_IMAGES_MAX] =
        [const { OnceLock::new() }; REFERENCE_IMAGES_MAX];
    let max_images = call.services().options.video_max_images.clamp(1, REFERENCE_IMAGES_MAX);
    match DOCUMENTS[max_images - 1]
        .get_or_init(|| to_raw_value(&OpenApiDocument::new(&route_infos(), groups(max_images))))
    {
        Ok(document) => ApiResponse::ok(document),
        Err(error) => Err(Problem::internal(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::schema::FIELD_ORDER;
    use super::*;
    use crate::domain::node::{NodeAdminFields, NodeFields};
    use crate::domain::policy::CallerRole;
    use crate::domain::publisher::PublisherFields;
    use crate::domain::version::VersionFields;

    #[test]
    fn every_route_has_an_operation_and_every_operation_a_route() {
        let operations = groups(MAX_IMAGES_DEFAULT).into_iter().flat_map(|group| group.operations);
        let mut documented: Vec<_> = operations.map(|operation| operation.id).collect();
        let mut routed: Vec<_> = route_infos().iter().map(|row| row.operation_id).collect();
        documented.sort_unstable();
        routed.sort_unstable();
        assert_eq!(documented, routed, "left: operations in src/http/openapi/, right: the route table");
    }

    #[test]
    fn every_operation_has_a_unique_id_and_a_response() {
        let document: Value = serde_json::from_str(&document_json().unwrap()).unwrap();
        let webhooks = || document["webhooks"].as_object().unwrap().values().map(|webhook| &webhook["post"]);
        let all = || operations(&document).chain(webhooks());
        let ids: BTreeSet<_> = all().map(|operation| operation["operationId"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), all().count());
        for operation in operations(&document) {
            let mut statuses = operation["responses"].as_object().unwrap().keys();
            assert!(statuses.any(|status| status < &"400".to_owned()), "{}", operation["operationId"]);
        }
    }

    #[test]
    fn security_requirements_match_the_policy() {
        let document: Value = serde_json::from_str(&document_json().unwrap()).unwrap();
        for row in route_infos() {
            let security = &document["paths"][row.path][method_name(&row.method)]["security"];
            let anonymous = row.action.allows(CallerRole::Anonymous) || row.action == Action::PublishVersion;
            let expected = if anonymous {
                json!([{"bearer": []}, {"apiKey": []}, {}])
            } else {
                json!([{"bearer": []}, {"apiKey": []}])
            };
            assert_eq!(*security, expected, "{} {}", row.method, row.path);
        }
    }

    /// Returns the field names of a struct, taken from its `Debug` output.
    fn field_names(fields: &impl std::fmt::Debug) -> BTreeSet<String> {
        let text = format!("{fields:?}");
        let body = text.split_once('{').expect("a struct with fields").1;
        body.split(',').filter_map(|field| Some(field.split_once(':')?.0.trim().to_owned())).collect()
    }

    #[test]
    fn body_schemas_have_every_field_that_is_read() {
        let document: Value = serde_json::from_str(&document_json().unwrap()).unwrap();
        let to_set = |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        let version_fields =
            to_set(&["createdAt", "host_node_extract_status", "status", "status_reason", "tags_admin"]);
        let node_fields =
            || field_names(&NodeAdminFields::default()).into_iter().chain(to_set(&["id", "status"])).collect();
        let bodies = [
            ("PublisherBody", field_names(&PublisherFields::default())),
            ("PublisherBody", to_set(&["createdAt", "status"])),
            ("NewPublisherBody", to_set(&["createdAt", "id", "status"])),
            ("NodeBody", field_names(&NodeFields::default())),
            ("NodeBody", node_fields()),
            ("NewNodeBody", node_fields()),
            ("AdministeredNodeBody", node_fields()),
            ("NewVersionBody", field_names(&VersionFields::default())),
            ("NewVersionBody", version_fields.clone()),
            ("VersionChangeBody", version_fields.clone()),
            ("AdministeredVersionBody", version_fields),
        ];
        for (name, read) in bodies {
            let documented: BTreeSet<_> =
                document["components"]["schemas"][name]["properties"].as_object().unwrap().keys().cloned().collect();
            assert!(read.is_subset(&documented), "{name}: {:?}", read.difference(&documented));
        }
    }

    #[test]
    fn fields_have_the_documented_order() {
        let document: Value = serde_json::from_str(&document_json().unwrap()).unwrap();
        for (component, first) in [
            ("StyleTransferBody", ["image", "reference_image", "engine"]),
            ("StyleTransferForm", ["image", "reference_image", "engine"]),
            ("MultiframeBody", ["image_settings", "model", "start_image"]),
            ("MultiframeForm", ["image_settings", "model", "start_image"]),
            ("MusicTitle", ["type", "title", "display_tags"]),
        ] {
            let schema = &document["components"]["schemas"][component];
            let order: Vec<_> = schema[FIELD_ORDER].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            assert_eq!(order[..3], first, "{component}");
            let fields: BTreeSet<_> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(order.into_iter().collect::<BTreeSet<_>>(), fields, "{component}");
        }
    }

    #[test]
    fn everything_has_a_description() {
        // Given the document
        let document: Value = serde_json::from_str(&document_json().unwrap()).unwrap();
        let mut undescribed = Vec::new();

        // When every operation, parameter, header and field is checked
        for operation in operations(&document) {
            let description = operation["description"].as_str().unwrap_or_default();
            if description.starts_with("Allowed callers:") || description.is_empty() {
                undescribed.push(operation["operationId"].to_string());
            }
            let parameters = operation["parameters"].as_array().unwrap().iter();
            let missing =
                parameters.filter(|parameter| parameter.get("$ref").is_none() && lacks_description(parameter));
            undescribed.extend(missing.map(|parameter| format!("{}: {}", operation["operationId"], parameter["name"])));
        }
        for kind in ["parameters", "headers"] {
            let missing =
                document["components"][kind].as_object().unwrap().iter().filter(|(_, one)| lacks_description(one));
            undescribed.extend(missing.map(|(name, _)| name.clone()));
        }
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            collect_undescribed(schema, name, &mut undescribed);
        }

        // Then each has a description
        assert!(undescribed.is_empty(), "{undescribed:#?}");
    }

    fn operations(document: &Value) -> impl Iterator<Item = &Value> {
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values())
    }

    fn lacks_description(described: &Value) -> bool {
        described["description"].as_str().unwrap_or_default().is_empty()
    }

    /// Collects fields without a description, recursively. Objects without a type are conditions and are skipped.
    fn collect_undescribed(schema: &Value, path: &str, undescribed: &mut Vec<String>) {
        let fields = schema["properties"].as_object().filter(|_| schema.get("type").is_some());
        for (name, field) in fields.into_iter().flatten() {
            if lacks_description(field) {
                undescribed.push(format!("{path}.{name}"));
            }
        }
        match schema {
            Value::Object(members) => {
                members
                    .iter()
                    .for_each(|(name, member)| collect_undescribed(member, &format!("{path}.{name}"), undescribed));
            }
            Value::Array(entries) => entries.iter().for_each(|entry| collect_undescribed(entry, path, undescribed)),
            _ => {}
        }
    }

    #[test]
    fn every_response_header_is_described() {
        let document: Value = serde_json::from_str(&document_json().unwrap()).unwrap();
        let headers = |path: &str, method: &str, status: &str| {
            let response = &document["paths"][path][method]["responses"][status];
            let response =
                response["$ref"].as_str().map_or(response, |reference| document.pointer(&reference[1..]).unwrap());
            response["headers"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        let video = "/proxy/videovendor/extend";
        for (path, method, status, name) in [
            (video, "post", "200", "Preference-Applied"),
            (video, "post", "400", "Idempotent-Replayed"),
            (video, "post", "409", "Retry-After"),
            ("/publishers", "post", "409", "Idempotent-Replayed"),
            ("/uploads/{ticket}", "put", "200", "Idempotent-Replayed"),
            ("/uploads/{ticket}", "put", "409", "Retry-After"),
            ("/media/{file}", "get", "200", "Cache-Control"),
            ("/media/{file}", "get", "206", "Content-Range"),
            ("/nodes/{nodeId}/versions/{version}/download", "get", "200", "Content-Disposition"),
        ] {
            let names = headers(path, method, status);
            assert!(names.iter().any(|known| known == name), "{method} {path} {status}: {name} is not in {names:?}");
        }

        let not_found_headers = headers("/nodes/{nodeId}", "get", "404");
        assert!(not_found_headers.iter().all(|name| name != "Idempotent-Replayed"), "{not_found_headers:?}");
    }

    #[test]
    fn every_reference_resolves() {
        let document: Value = serde_json::from_str(&document_json().unwrap()).unwrap();
        let mut references = Vec::new();
        collect_references(&document, &mut references);
        assert!(references.len() > 100, "only {} references", references.len());
        for reference in references {
            assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
        }
    }

    fn collect_references(value: &Value, references: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                references.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|member| collect_references(member, references));
            }
            Value::Array(entries) => entries.iter().for_each(|entry| collect_references(entry, references)),
            _ => {}
        }
    }
}
