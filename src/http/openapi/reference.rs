//! Parts of the document for the console: the list of all operations, and each operation with what it refers to. The
//! whole document would be most of what the first view of a page transfers.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::extract::reachable_components;
use super::operation::OperationObject;
use super::{OpenApiDocument, OrderedMap, groups};
use crate::http::routes::route_infos;

/// The parts as JSON.
pub struct ReferenceDocuments {
    /// The document without components, and with only those parts of the operations that a list shows.
    pub list: Vec<u8>,
    /// Like `list`, for the operations that submit a job.
    pub jobs: Vec<u8>,
    /// One document for each operation, by operation id.
    pub operations: HashMap<&'static str, Vec<u8>>,
}

#[derive(Serialize)]
struct OperationList<'d> {
    openapi: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    info: Option<&'d Value>,
    paths: OrderedMap<OrderedMap<Value>>,
}

impl<'d> OperationList<'d> {
    fn new(document: &OpenApiDocument, info: Option<&'d Value>) -> Self {
        let entries = |methods: &[(&'static str, OperationObject)]| {
            OrderedMap(methods.iter().map(|(method, operation)| (*method, list_entry(operation))).collect())
        };
        let paths = document.paths.0.iter().map(|(path, OrderedMap(methods))| (*path, entries(methods))).collect();
        Self { openapi: document.openapi, info, paths: OrderedMap(paths) }
    }
}

#[derive(Serialize)]
struct OperationDocument {
    paths: OrderedMap<OrderedMap<Value>>,
    components: Value,
}

/// Returns the parts for a service that accepts `max_images` images per video.
///
/// # Errors
/// If serialization fails, which is a bug.
pub fn reference_documents(max_images: usize) -> serde_json::Result<ReferenceDocuments> {
    let document = OpenApiDocument::new(&route_infos(), groups(max_images));

    let mut operations = HashMap::new();
    for (path, OrderedMap(methods)) in &document.paths.0 {
        for (method, operation) in methods {
            let json = reference_operation(serde_json::to_value(operation)?);
            let components = reachable_components(&document.components, [&json].into_iter());
            let paths = OrderedMap(vec![(*path, OrderedMap(vec![(*method, json)]))]);
            operations.insert(operation.operation_id, serde_json::to_vec(&OperationDocument { paths, components })?);
        }
    }

    let submissions: Vec<_> = route_infos().into_iter().filter(|route| route.action.is_submission()).collect();
    let jobs = OpenApiDocument::new(&submissions, groups(max_images));
    Ok(ReferenceDocuments {
        list: serde_json::to_vec(&OperationList::new(&document, Some(&document.info)))?,
        jobs: serde_json::to_vec(&OperationList::new(&jobs, None))?,
        operations,
    })
}

/// Reduces an operation to what a list shows.
fn list_entry(operation: &OperationObject) -> Value {
    json!({"tags": operation.tags, "operationId": operation.operation_id, "summary": operation.summary})
}

/// Removes what a reference does not show: headers of responses, and of errors all but their description.
fn reference_operation(mut operation: Value) -> Value {
    for (status, response) in operation["responses"].as_object_mut().into_iter().flatten() {
        if status.as_str() < "400" {
            response.as_object_mut().and_then(|response| response.remove("headers"));
        } else {
            *response = json!({"description": response["description"]});
        }
    }
    operation
}
