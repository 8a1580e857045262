//! Bulk lookup of node versions.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use actix_web::HttpResponse;
use actix_web::body::{BodySize, MessageBody};
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::domain::ids::NodeId;
use crate::domain::policy::Action;
use crate::domain::value::InvalidValue;
use crate::domain::version::{SemVer, VersionRef, VersionStatus};
use crate::http::pipeline::Call;
use crate::http::request::body::JsonBody;
use crate::http::request::fields;
use crate::http::request::json_object::{JsonObject, json_object};
use crate::http::request::json_value::Objects;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::http::response::response_body::ResponseBody;
use crate::projections::node::Nodes;
use crate::projections::node::entry::NodeEntry;
use crate::projections::node::view::{Links, VersionView};

/// Approximate size of a chunk of the response, in bytes; smaller responses are sent at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// Identifier as given by the client.
#[derive(Debug, Clone, Copy, Serialize)]
struct BulkIdentifier<'b> {
    node_id: &'b str,
    version: &'b str,
}

/// `BulkNodeVersionResult` of the API.
#[derive(Debug, Serialize)]
struct BulkResult<'m> {
    identifier: BulkIdentifier<'m>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_version: Option<VersionView<'m>>,
}

/// Node of an identifier, if it exists, and the version number.
type BulkLookup = Result<(Option<Arc<NodeEntry>>, VersionRef), InvalidValue>;

/// `POST /bulk/nodes/versions`: looks up every identifier, in order, including duplicates. The nodes are shared with
/// the read models, whose lock is released before any version is looked up or serialized.
pub async fn look_up(mut call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    let body = call.json().await?;
    let (lookups, links): (Vec<BulkLookup>, Links) = {
        let VersionLookupBody { node_versions: Objects(identifiers) } =
            fields::read(&body, VersionLookupBody::read_fields)?;
        let models = call.services().models.read();
        (identifiers.iter().map(|identifier| find(identifier, &models.nodes)).collect(), models.nodes.links().clone())
    };

    let mut response_body = BulkResponseBody { body, lookups, links, next: 0, first: None };
    let first = response_body.next_chunk().map_err(Problem::internal)?.unwrap_or_default();
    if response_body.is_done() {
        return Ok(ApiResponse::untagged(ResponseBody::from_pieces(vec![first])));
    }

    response_body.first = Some(first);
    Ok(ApiResponse::from_response(HttpResponse::Ok().content_type("application/json").body(response_body)))
}

/// Large response, serialized chunk by chunk as the client reads it, so that a thousand of the largest versions are
/// never in memory together.
struct BulkResponseBody {
    /// Checked request body, which keeps its charge on the memory budget.
    body: JsonBody,
    lookups: Vec<BulkLookup>,
    links: Links,
    /// Index of the next identifier; larger than the number of identifiers once everything is written.
    next: usize,
    /// First chunk, written in advance to find out whether the response is small.
    first: Option<Bytes>,
}

impl BulkResponseBody {
    fn is_done(&self) -> bool {
        self.next > self.lookups.len()
    }

    /// Returns the next chunk, or `None` at the end.
    fn next_chunk(&mut self) -> serde_json::Result<Option<Bytes>> {
        if self.is_done() {
            return Ok(None);
        }

        let mut chunk = Vec::new();
        if self.next == 0 {
            chunk.extend_from_slice(b"{\"node_versions\":[");
        }

        while let Some(lookup) = self.lookups.get(self.next).filter(|_| chunk.len() < CHUNK_BYTES) {
            if self.next > 0 {
                chunk.push(b',');
            }
            serde_json::to_writer(&mut chunk, &bulk_result(identifier(&self.body, self.next), lookup, &self.links))?;
            self.next += 1;
        }

        if self.next == self.lookups.len() {
            chunk.extend_from_slice(b"]}");
            self.next += 1;
        }
        Ok(Some(chunk.into()))
    }
}

impl MessageBody for BulkResponseBody {
    type Error = serde_json::Error;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let this = self.get_mut();
        Poll::Ready(this.first.take().map(Ok).or_else(|| this.next_chunk().transpose()))
    }
}

/// Returns an identifier of a checked body.
fn identifier(body: &Value, index: usize) -> BulkIdentifier<'_> {
    let entry = &body["node_versions"][index];
    let text = |name| entry[name].as_str().unwrap_or_default();
    BulkIdentifier { node_id: text("node_id"), version: text("version") }
}

json_object! {
    pub struct VersionLookupBody {
        /// Identifiers to look up.
        node_versions: Objects<VersionIdentifier, 1, 1000>,
    }
}

json_object! {
    #[derive(Debug)]
    pub struct VersionIdentifier {
        /// Id of the node.
        node_id: String,
        /// Version number.
        version: String,
    }
}

/// Finds the node of an identifier. Returns an error if the version number is invalid.
fn find(identifier: &VersionIdentifier, nodes: &Nodes) -> BulkLookup {
    let number = SemVer::parse(&identifier.version)?;
    let node = NodeId::parse(&identifier.node_id).ok().and_then(|id| nodes.entry(&id.key()));
    Ok((node, VersionRef::Number(number)))
}

/// Returns the result for an identifier. Deleted versions count as missing.
fn bulk_result<'m>(identifier: BulkIdentifier<'m>, lookup: &'m BulkLookup, links: &Links) -> BulkResult<'m> {
    let version = lookup.as_ref().map(|(entry, reference)| {
        let entry = entry.as_ref()?;
        let node = entry.profile()?;
        let version = node.version(reference).filter(|version| version.status != VersionStatus::Deleted)?;
        Some(VersionView::new(node, version, entry.is_owner_hidden(), links))
    });

    match version {
        Ok(Some(version)) => {
            BulkResult { node_version: Some(version), ..result_without_version(identifier, "success", None) }
        }
        Ok(None) => result_without_version(identifier, "not_found", None),
        Err(reason) => result_without_version(identifier, "error", Some(format!("version {reason}"))),
    }
}

fn result_without_version<'m>(
    identifier: BulkIdentifier<'m>,
    status: &'static str,
    error_message: Option<String>,
) -> BulkResult<'m> {
    BulkResult { identifier, status, error_message, node_version: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: &Value) -> Result<Vec<VersionIdentifier>, Problem> {
        fields::read(body, VersionLookupBody::read_fields).map(|body| body.node_versions.0)
    }

    #[test]
    fn every_invalid_identifier_is_reported() {
        let body = json!({"node_versions": [{"node_id": "a"}, {"node_id": 1, "version": "1.0.0"}, 7]});
        assert_eq!(
            read(&body).unwrap_err().to_string(),
            "/node_versions/0/version is required; /node_versions/1/node_id must be a string; \
             /node_versions/2 must be an object"
        );
    }

    #[test]
    fn there_are_1_to_1000_identifiers() {
        let request_body = |count| json!({"node_versions": vec![json!({"node_id": "a", "version": "1.0.0"}); count]});
        assert!(read(&request_body(0)).is_err());
        assert_eq!(read(&request_body(1000)).map(|identifiers| identifiers.len()).ok(), Some(1000));
        assert!(read(&request_body(1001)).is_err());
        assert!(read(&json!({})).is_err());
    }
}
