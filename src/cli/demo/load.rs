//! Loads the sample registry into a service through the public API, skipping what exists. It can be interrupted and
//! repeated; a second run changes nothing.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};

use super::archive::pack_version;
use super::progress::DemoProgress;
use super::sample::{SampleNode, SamplePublisher, SampleVersion};
use crate::outbound::api_client::{ApiClient, ServiceResponse};
use crate::outbound::client::CallFailure;

/// Query that selects versions of every status, to find all existing ones.
const ALL_STATUSES: &str = "statuses=NodeVersionStatusActive,NodeVersionStatusPending,NodeVersionStatusFlagged,\
                            NodeVersionStatusBanned,NodeVersionStatusDeleted";

/// Reason why a part of the sample could not be loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum SampleLoadError {
    /// The service does not respond; loading stops.
    #[error(transparent)]
    Call(#[from] CallFailure),
    /// The service rejected this part; loading continues.
    #[error("{label}: {reason}")]
    Rejected { label: String, reason: String },
}

/// Loader for one service.
pub(super) struct SampleLoader<'a> {
    pub(super) api: &'a ApiClient,
    pub(super) progress: &'a DemoProgress,
}

impl SampleLoader<'_> {
    /// Loads a publisher with its nodes and returns the rejected parts.
    ///
    /// # Errors
    /// [`CallFailure`] if the service does not respond.
    pub(super) async fn load_publisher(&self, sample: &SamplePublisher) -> Result<Vec<String>, CallFailure> {
        let mut refusals = Vec::new();
        let reply = self.api.create("/publishers", &sample.publisher).await?;
        match was_created(&reply, || format!("publisher {}", sample.id())) {
            Ok(is_new) => self.progress.update(|counts| counts.publishers.count(is_new)),
            Err(error) => return Ok(vec![error.to_string()]),
        }

        for node in &sample.nodes {
            match self.load_node(sample.id(), node).await {
                Ok(()) => {}
                Err(SampleLoadError::Call(failure)) => return Err(failure),
                Err(error) => refusals.push(error.to_string()),
            }
        }

        if refusals.is_empty() {
            let versions = sample.nodes.iter().map(|node| node.versions.len()).sum();
            self.progress.publisher_done(sample.id(), sample.nodes.len(), versions);
        }
        Ok(refusals)
    }

    async fn load_node(&self, publisher: &str, node: &SampleNode) -> Result<(), SampleLoadError> {
        let label = || format!("node {}", node.id);
        let existing = self.api.get(&format!("/nodes/{}", node.id)).await?;
        let mut existing_versions = BTreeMap::new();
        let is_new = if existing.status == 404 {
            was_created(&self.api.create(&format!("/publishers/{publisher}/nodes"), &node.body()).await?, label)?
        } else {
            ensure_success(&existing, label)?;
            let versions = self.api.get(&format!("/nodes/{}/versions?{ALL_STATUSES}", node.id)).await?;
            ensure_success(&versions, label)?;
            existing_versions = by_version_number(&versions.json());
            false
        };
        self.progress.update(|counts| counts.nodes.count(is_new));

        let path = format!("/publishers/{publisher}/nodes/{}/versions", node.id);
        for version in &node.versions {
            self.load_version(&path, node, version, existing_versions.get(&version.version)).await?;
        }
        Ok(())
    }

    /// Publishes a version, uploads its archive and sets the administrator fields, skipping steps that are visibly
    /// done.
    async fn load_version(
        &self,
        path: &str,
        node: &SampleNode,
        version: &SampleVersion,
        existing: Option<&Value>,
    ) -> Result<(), SampleLoadError> {
        let label = || format!("version {} of node {}", version.version, node.id);
        let mut signed_url = None;
        let is_new = if existing.is_none() {
            let reply = self.api.create(path, &json!({"node": {}, "node_version": version.body()})).await?;
            let is_new = was_created(&reply, label)?;
            signed_url = reply.json()["signedUrl"].as_str().filter(|_| is_new).map(str::to_owned);
            is_new
        } else {
            false
        };
        self.progress.update(|counts| counts.versions.count(is_new));

        let is_uploaded = existing.is_some_and(|version| version["downloadUrl"].is_string());
        if !version.is_pending() {
            if !is_uploaded {
                self.upload(path, node, version, signed_url).await?;
            }
            self.progress.update(|counts| counts.archives.count(!is_uploaded));
        }

        let has_date = |stored: &Value| {
            stored["createdAt"].as_str().is_some_and(|created_at| is_same_second(created_at, &version.created_at))
        };
        if !existing.is_some_and(has_date) {
            let path = format!("/admin/nodes/{}/versions/{}", node.id, version.version);
            let status = version.status.as_ref().filter(|_| !version.is_pending());
            let fields = json!({
                "createdAt": version.created_at, "status": status, "status_reason": version.status_reason
            });
            ensure_success(&self.api.put(&path, &fields).await?, label)?;
        }
        Ok(())
    }

    /// Uploads the archive, with a new URL if the first one is rejected, since URLs expire and work once. A conflict
    /// means that an earlier upload, of this or an interrupted run, succeeded.
    async fn upload(
        &self,
        path: &str,
        node: &SampleNode,
        version: &SampleVersion,
        signed_url: Option<String>,
    ) -> Result<(), SampleLoadError> {
        let label = || format!("the archive of version {} of node {}", version.version, node.id);
        let archive = pack_version(node, version)
            .map_err(|error| SampleLoadError::Rejected { label: label(), reason: error.to_string() })?;
        let archive = Bytes::from(archive);
        if let Some(url) = signed_url
            && self.api.upload(&url, archive.clone()).await.is_ok_and(|reply| reply.status == 200)
        {
            return Ok(());
        }

        let reply = self.api.post_empty(&format!("{path}/{}/upload", version.version)).await?;
        if reply.status == 409 {
            return Ok(());
        }
        ensure_success(&reply, label)?;
        let url = reply.json()["signedUrl"].as_str().unwrap_or_default().to_owned();
        let uploaded = self.api.upload(&url, archive).await?;
        if uploaded.status == 409 { Ok(()) } else { ensure_success(&uploaded, label) }
    }
}

/// Returns `true` if the request created the resource, `false` if the resource existed before, which a conflict means.
///
/// # Errors
/// If the service rejected the request for another reason.
fn was_created(reply: &ServiceResponse, label: impl FnOnce() -> String) -> Result<bool, SampleLoadError> {
    match reply.status {
        201 => Ok(!reply.replayed),
        409 => Ok(false),
        _ => Err(rejection(reply, label())),
    }
}

/// Checks the status of a response.
///
/// # Errors
/// If the response is an error, with the detail of the service.
pub(super) fn ensure_success(reply: &ServiceResponse, label: impl FnOnce() -> String) -> Result<(), SampleLoadError> {
    if (200..300).contains(&reply.status) { Ok(()) } else { Err(rejection(reply, label())) }
}

/// Returns the error for a rejected part, with the status and the detail of the response.
pub(super) fn rejection(reply: &ServiceResponse, label: String) -> SampleLoadError {
    let body = reply.json();
    let detail = body["detail"].as_str().unwrap_or("no reason given");
    SampleLoadError::Rejected { label, reason: format!("{} {detail}", reply.status) }
}

fn by_version_number(versions: &Value) -> BTreeMap<String, Value> {
    let versions = versions.as_array().into_iter().flatten();
    versions.filter_map(|version| Some((version["version"].as_str()?.to_owned(), version.clone()))).collect()
}

/// Compares times to the second: the service writes microseconds, the sample does not.
fn is_same_second(stored: &str, sample: &str) -> bool {
    let seconds = |time: &str| time.split(['.', 'Z']).next().map(str::to_owned);
    seconds(stored) == seconds(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, body: &'static str) -> ServiceResponse {
        ServiceResponse { status, replayed: false, location: None, body: Bytes::from_static(body.as_bytes()) }
    }

    #[test]
    fn a_conflict_means_that_it_exists_and_other_errors_have_a_reason() {
        let outcome = |reply| was_created(&reply, || "node a".to_owned()).map_err(|error| error.to_string());
        assert_eq!(outcome(reply(201, "")), Ok(true));
        assert_eq!(outcome(ServiceResponse { replayed: true, ..reply(201, "") }), Ok(false));
        assert_eq!(outcome(reply(409, "")), Ok(false));
        assert_eq!(outcome(reply(400, r#"{"detail": "/id is bad"}"#)), Err("node a: 400 /id is bad".to_owned()));
        assert_eq!(outcome(reply(502, "<html>")), Err("node a: 502 no reason given".to_owned()));
    }

    #[test]
    fn times_are_compared_to_the_second() {
        assert!(is_same_second("2024-01-02T03:04:05.000000Z", "2024-01-02T03:04:05Z"));
        assert!(!is_same_second("2024-01-02T03:04:06.000000Z", "2024-01-02T03:04:05Z"));
    }
}
