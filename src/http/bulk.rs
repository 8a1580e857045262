//! Looking up many node versions at once.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::answer::Answer;
use super::error::Problem;
use super::fields;
use super::gate::Call;
use super::version::VersionView;
use crate::domain::ids::{NodeId, VersionId};
use crate::domain::policy::Action;
use crate::domain::value::Invalid;
use crate::domain::version::{NodeVersion, SemVer, VersionRef};
use crate::projections::read_models::Models;

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
    node_version: Option<&'m RawValue>,
}

#[derive(Serialize)]
struct BulkAnswer<'m> {
    node_versions: Vec<LookedUp<'m>>,
}

/// The versions that were found, once each, with the id of their node.
type Distinct = HashMap<VersionId, (NodeId, NodeVersion)>;

/// `POST /bulk/nodes/versions`: every identifier answered in order, duplicates each. What is found is copied out of the read
/// models, and written as JSON once, so that neither size nor number of versions holds up the writers for long.
pub async fn look_up(mut call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    let body = call.json().await?;
    let identifiers = read_identifiers(&body)?;
    let mut distinct = Distinct::new();
    let outcomes: Vec<_> = {
        let models = call.services().models.read();
        identifiers.iter().map(|wanted| find(*wanted, &models, &mut distinct)).collect()
    };
    let written =
        distinct.iter().map(|(id, (node, version))| Ok((*id, to_raw_value(&VersionView::new(node, version))?)));
    let written: serde_json::Result<HashMap<_, _>> = written.collect();
    let written = written.map_err(Problem::internal)?;
    let answers = identifiers.into_iter().zip(outcomes).map(|(wanted, outcome)| answer(wanted, outcome, &written));
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

/// The version that is asked for, copied to `distinct`; an error when what is asked for cannot be a version.
fn find(wanted: Identifier<'_>, models: &Models, distinct: &mut Distinct) -> Result<Option<VersionId>, Invalid> {
    let number = SemVer::parse(wanted.version)?;
    let node = NodeId::parse(wanted.node_id).ok().and_then(|id| models.nodes.get(&id.key()));
    let found = node.and_then(|node| Some((node, node.version(&VersionRef::Number(number))?)));
    Ok(found.map(|(node, version)| {
        distinct.entry(version.id).or_insert_with(|| (node.id.clone(), version.clone()));
        version.id
    }))
}

fn answer<'m>(
    identifier: Identifier<'m>,
    outcome: Result<Option<VersionId>, Invalid>,
    written: &'m HashMap<VersionId, Box<RawValue>>,
) -> LookedUp<'m> {
    let (status, error_message, node_version) = match outcome {
        Ok(Some(id)) => ("success", None, written.get(&id).map(Box::as_ref)),
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
