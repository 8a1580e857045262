//! Looking up many node versions at once.

use serde::Serialize;
use serde_json::Value;

use super::answer::Answer;
use super::error::Problem;
use super::fields;
use super::gate::Call;
use super::version::VersionView;
use crate::domain::ids::NodeId;
use crate::domain::policy::Action;
use crate::domain::version::{SemVer, VersionRef};
use crate::projections::read_models::Models;

/// Most identifiers of one request (contract 4).
const IDENTIFIERS_MAX: usize = 1000;

/// What is asked for, as it was given.
#[derive(Debug, Clone, Copy, Serialize)]
struct Identifier<'b> {
    node_id: &'b str,
    version: &'b str,
}

/// The seed's `BulkNodeVersionResult`.
#[derive(Debug, Serialize)]
struct LookedUp<'m> {
    identifier: Identifier<'m>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_version: Option<VersionView<'m>>,
}

#[derive(Serialize)]
struct BulkAnswer<'m> {
    node_versions: Vec<LookedUp<'m>>,
}

/// `POST /bulk/nodes/versions`: every identifier answered in order, duplicates each.
pub async fn look_up(mut call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    let body = call.json().await?;
    let identifiers = read_identifiers(&body)?;
    let models = call.services().models.read();
    Answer::ok(&BulkAnswer { node_versions: identifiers.into_iter().map(|wanted| find(wanted, &models)).collect() })
}

fn read_identifiers(body: &Value) -> Result<Vec<Identifier<'_>>, Problem> {
    fields::read(body, |fields| {
        let identifiers = fields.objects("node_versions", IDENTIFIERS_MAX, |entry| {
            let (node_id, version) = (entry.str("node_id"), entry.str("version"));
            let (node_id, version) = (entry.required("node_id", node_id), entry.required("version", version));
            Some(Identifier { node_id: node_id?, version: version? })
        });
        let identifiers = fields.required("node_versions", identifiers)?;
        if identifiers.is_empty() {
            fields.fault("node_versions", "must have at least 1 entry");
        }
        Some(identifiers)
    })
}

fn find<'m>(identifier: Identifier<'m>, models: &'m Models) -> LookedUp<'m> {
    let number = match SemVer::parse(identifier.version) {
        Ok(number) => number,
        Err(reason) => {
            let error_message = Some(format!("version {reason}"));
            return LookedUp { identifier, status: "error", error_message, node_version: None };
        }
    };
    let node = NodeId::parse(identifier.node_id).ok().and_then(|id| models.nodes.get(&id.key()));
    let found = node.and_then(|node| Some(VersionView::new(node, node.version(&VersionRef::Number(number))?)));
    let status = if found.is_some() { "success" } else { "not_found" };
    LookedUp { identifier, status, error_message: None, node_version: found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_bad_identifier_is_named() {
        let body = json!({"node_versions": [{"node_id": "a"}, {"node_id": 1, "version": "1.0.0"}, 7]});
        assert_eq!(
            read_identifiers(&body).unwrap_err().to_string(),
            "/node_versions/0/version is required; /node_versions/1/node_id must be a string; \
             /node_versions/2 must be an object"
        );
    }

    #[test]
    fn there_are_1_to_1000_identifiers() {
        let of = |count| json!({"node_versions": vec![json!({"node_id": "a", "version": "1.0.0"}); count]});
        assert!(read_identifiers(&of(0)).is_err());
        assert_eq!(read_identifiers(&of(1000)).map(|identifiers| identifiers.len()).ok(), Some(1000));
        assert!(read_identifiers(&of(1001)).is_err());
        assert!(read_identifiers(&json!({})).is_err());
    }
}
