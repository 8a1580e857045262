//! Looking up many node versions at once.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::answer::Answer;
use super::error::Problem;
use super::fields;
use super::gate::Call;
use crate::domain::ids::NodeId;
use crate::domain::policy::Action;
use crate::domain::value::Invalid;
use crate::domain::version::{SemVer, VersionRef, VersionStatus};
use crate::projections::node::Nodes;
use crate::projections::node::entry::Entry;
use crate::projections::node::view::{Links, VersionView};

/// Most identifiers of one request (contract 4).
pub const IDENTIFIERS_MAX: usize = 1000;

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

/// What an identifier leads to: its node, if there is one, and the number of the version.
type Found = Result<(Option<Arc<Entry>>, VersionRef), Invalid>;

/// `POST /bulk/nodes/versions`: every identifier answered in order, duplicates each. The nodes are shared with the read
/// models, which are let go before anything is looked up in them or written.
pub async fn look_up(mut call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    let body = call.json().await?;
    let identifiers = read_identifiers(&body)?;
    let (found, links): (Vec<Found>, Links) = {
        let models = call.services().models.read();
        (identifiers.iter().map(|wanted| find(*wanted, &models.nodes)).collect(), models.nodes.links().clone())
    };
    let answers = identifiers.iter().zip(&found).map(|(wanted, found)| answer(*wanted, found, &links));
    Answer::ok(&BulkAnswer { node_versions: answers.collect() })
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

/// The node that is asked for; an error when what is asked for cannot be a version.
fn find(wanted: Identifier<'_>, nodes: &Nodes) -> Found {
    let number = SemVer::parse(wanted.version)?;
    let node = NodeId::parse(wanted.node_id).ok().and_then(|id| nodes.entry(&id.key()));
    Ok((node, VersionRef::Number(number)))
}

/// A version that was deleted is not there.
fn answer<'m>(identifier: Identifier<'m>, found: &'m Found, links: &Links) -> LookedUp<'m> {
    let version = found.as_ref().map(|(entry, reference)| {
        let node = entry.as_ref()?.profile()?;
        let version = node.version(reference).filter(|version| version.status != VersionStatus::Deleted)?;
        Some(VersionView::new(node, version, links))
    });
    let (status, error_message, node_version) = match version {
        Ok(Some(version)) => ("success", None, Some(version)),
        Ok(None) => ("not_found", None, None),
        Err(reason) => ("error", Some(format!("version {reason}")), None),
    };
    LookedUp { identifier, status, error_message, node_version }
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
