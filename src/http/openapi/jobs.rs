//! Part of the document for the console's studio: the jobs and the schemas of their bodies. It has a sixth of the size
//! of the whole document.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::extract::reachable_components;
use super::operation::OperationObject;
use super::{OpenApiDocument, OrderedMap, groups};
use crate::http::routes::route_infos;

/// Component with the kinds and states of tasks.
const TASK: &str = "Task";

/// The jobs, in the order of the document.
#[derive(Serialize)]
struct JobDocument {
    paths: OrderedMap<OrderedMap<Value>>,
    components: Value,
}

/// Returns the operations that submit a job as JSON, for a service that accepts `max_images` images per video. They
/// have no parameters, examples and errors, and of their responses only the media types.
///
/// # Errors
/// If serialization fails, which is a bug.
pub fn job_document(max_images: usize) -> serde_json::Result<Vec<u8>> {
    let submissions: Vec<_> = route_infos().into_iter().filter(|route| route.action.is_submission()).collect();
    let document = OpenApiDocument::new(&submissions, groups(max_images));
    let mut paths = Vec::new();
    for (path, OrderedMap(operations)) in &document.paths.0 {
        let jobs = operations.iter().map(|(method, operation)| Ok((*method, job_operation(operation)?)));
        paths.push((*path, OrderedMap(jobs.collect::<serde_json::Result<Vec<_>>>()?)));
    }

    let bodies = paths.iter().flat_map(|(_, OrderedMap(jobs))| jobs).map(|(_, job)| job);
    let task = task_schema(&document.components["schemas"][TASK]);
    let mut components = reachable_components(&document.components, bodies.chain([&task]));
    components["schemas"][TASK] = task;
    serde_json::to_vec(&JobDocument { paths: OrderedMap(paths), components })
}

/// Reduces an operation to what a form needs. If the body has several media types, the first one is kept.
fn job_operation(operation: &OperationObject) -> serde_json::Result<Value> {
    let operation = serde_json::to_value(operation)?;
    let first_body = operation["requestBody"]["content"].as_object().and_then(|content| content.iter().next());
    let (media_type, body) = first_body.map_or(("", &Value::Null), |(media_type, body)| (media_type, body));
    let response_types = operation["responses"]["200"]["content"].as_object().into_iter().flat_map(Map::keys);
    let responses: Map<_, _> = response_types.map(|media_type| (media_type.clone(), json!({}))).collect();
    Ok(json!({
        "tags": operation["tags"],
        "operationId": operation["operationId"],
        "summary": operation["summary"],
        "description": operation["description"],
        "requestBody": {"content": {media_type: {"schema": body["schema"]}}},
        "responses": {"200": {"content": responses}},
        "security": operation["security"],
    }))
}

/// Reduces the schema of a task to its kind and state.
fn task_schema(schema: &Value) -> Value {
    let fields: Map<_, _> =
        ["kind", "state"].map(|name| (name.to_owned(), schema["properties"][name].clone())).into_iter().collect();
    json!({"type": "object", "properties": fields})
}
