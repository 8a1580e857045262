//! Looking up many node versions at once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::answer::Answer;
use super::error::Problem;
use super::fields;
use super::gate::Call;
use super::payload::Payload;
use crate::domain::ids::{NodeId, VersionId};
use crate::domain::policy::Action;
use crate::domain::value::Invalid;
use crate::domain::version::{SemVer, VersionRef, VersionStatus};
use crate::projections::node::Nodes;
use crate::projections::node::entry;
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
    /// Written already, so that equal ones are written once.
    #[serde(skip)]
    node_version: Option<Bytes>,
}

/// What an identifier leads to: its node, if there is one, and the number of the version.
type Found = Result<(Option<Arc<entry::Entry>>, VersionRef), Invalid>;

/// `POST /bulk/nodes/versions`: every identifier answered in order, duplicates each. The nodes are shared with the read
/// models, which are let go before anything is looked up in them or written.
pub async fn look_up(mut call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    let body = call.json().await?;
    let identifiers = read_identifiers(&body)?;
    let (found, links): (Vec<Found>, Links) = {
        let models = call.services().models.read();
        (identifiers.iter().map(|wanted| find(*wanted, &models.nodes)).collect(), models.nodes.links().clone())
    };
    let mut written = HashMap::new();
    let answers = identifiers.iter().zip(&found).map(|(wanted, found)| answer(*wanted, found, &links, &mut written));
    Ok(Answer::untagged(join(answers).map_err(Problem::internal)?))
}

/// The answers as one JSON object. What they show of versions stays as it is: a thousand of the largest would be much to copy.
fn join<'b>(answers: impl Iterator<Item = serde_json::Result<LookedUp<'b>>>) -> serde_json::Result<Payload> {
    let (mut pieces, mut glue) = (Vec::new(), b"{\"node_versions\":[".to_vec());
    for (at, answer) in answers.enumerate() {
        let answer = answer?;
        if at > 0 {
            glue.push(b',');
        }
        serde_json::to_writer(&mut glue, &answer)?;
        if let Some(version) = answer.node_version {
            // Into the object that was just written.
            glue.pop();
            glue.extend_from_slice(b",\"node_version\":");
            pieces.push(mem::take(&mut glue).into());
            pieces.push(version);
            glue.push(b'}');
        }
    }
    glue.extend_from_slice(b"]}");
    pieces.push(glue.into());
    Ok(Payload::of(pieces))
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
fn answer<'m>(
    identifier: Identifier<'m>,
    found: &Found,
    links: &Links,
    written: &mut HashMap<VersionId, Bytes>,
) -> serde_json::Result<LookedUp<'m>> {
    let version = found.as_ref().map(|(entry, reference)| {
        let node = entry.as_ref()?.profile()?;
        let version = node.version(reference).filter(|version| version.status != VersionStatus::Deleted)?;
        Some((node, version))
    });
    let (status, error_message, node_version) = match version {
        Ok(Some((node, version))) => {
            let json = match written.entry(version.id) {
                Entry::Occupied(json) => json.get().clone(),
                Entry::Vacant(room) => {
                    room.insert(serde_json::to_vec(&VersionView::new(node, version, links))?.into()).clone()
                }
            };
            ("success", None, Some(json))
        }
        Ok(None) => ("not_found", None, None),
        Err(reason) => ("error", Some(format!("version {reason}")), None),
    };
    Ok(LookedUp { identifier, status, error_message, node_version })
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
    fn equal_versions_are_sent_from_one_place() {
        let version = Bytes::from(format!("\"{}\"", "x".repeat(700_000)));
        let identifier = Identifier { node_id: "a", version: "1.0.0" };
        let answer = |_| {
            let node_version = Some(version.clone());
            Ok(LookedUp { identifier, status: "success", error_message: None, node_version })
        };
        let Ok(Payload::Pieces { pieces, .. }) = join((0..2).map(answer)) else { panic!("in one piece") };
        assert_eq!(pieces.iter().filter(|piece| piece.as_ptr() == version.as_ptr()).count(), 2);
        let read: Value = serde_json::from_slice(&pieces.concat()).unwrap();
        assert_eq!(read["node_versions"][1]["identifier"], json!({"node_id": "a", "version": "1.0.0"}));
        assert_eq!(read["node_versions"][1]["node_version"].as_str().map(str::len), Some(700_000));
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
