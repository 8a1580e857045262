//! Installation of nodes by tools: version selection and archive download.

use actix_web::http::Method;
use actix_web::http::header::CONTENT_DISPOSITION;

use crate::domain::ids::NodeId;
use crate::domain::node::{NodeProfile, NodeStatus};
use crate::domain::policy::Action;
use crate::domain::version::{Archive, NodeVersion, SemVer, VersionRef, VersionStatus, latest};
use crate::http::api::file::{self, DownloadMetadata};
use crate::http::api::version_list::{NodeLookup, look_up_node, version_view};
use crate::http::pipeline::{Call, RequestContext};
use crate::http::request::query::restore_plus_signs;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::projections::node::entry::NodeEntry;

/// Cache control of archives: revalidate always, so that bans take effect at once.
pub const REVALIDATE: &str = "no-cache";

/// `GET /nodes/{nodeId}/install`: the version to install, by default the latest. Counts one download per account and
/// day; HEAD does not count.
pub async fn install(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let versions = query.parsed_values("version", |text| SemVer::parse(&restore_plus_signs(text)));
    if versions.len() > 1 {
        query.add_error("version", "must be given at most once");
    }
    query.finish()?;

    let (entry, links) = match look_up_node(&call, "/install")? {
        NodeLookup::Found(entry, links) => (entry, links),
        NodeLookup::Redirect(redirect) => return Ok(redirect),
    };

    let reference = versions.into_iter().next().map(VersionRef::Number);
    let (node, version) = installable_version(&call, &entry, |node| match &reference {
        Some(reference) => node.version(reference),
        None => latest(&node.versions),
    })?;

    if call.method() == Method::GET {
        let services = call.services();
        services.registry.usage_counters.count_install(&node.id.key(), call.account(), services.environment.now());
    }

    let include_reason = false;
    ApiResponse::ok(&version_view(&entry, node, version, include_reason, &links))
}

/// `GET /nodes/{nodeId}/versions/{version}/download`: the archive.
pub async fn download(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<ApiResponse, Problem> {
    let DownloadableArchive { node, version, archive } = match look_up_archive(&call, "/download")? {
        ArchiveLookup::Found(found) => found,
        ArchiveLookup::Redirect(redirect) => return Ok(redirect),
    };

    // Ids and version numbers need no quoting.
    let disposition = format!("attachment; filename=\"{node}-{version}.zip\"");
    let metadata = DownloadMetadata {
        digest: archive.digest,
        content_type: "application/zip",
        cache_control: REVALIDATE,
        headers: vec![(CONTENT_DISPOSITION, disposition)],
    };
    let archives = &call.services().registry.archives;
    let response = file::send(&call, archives.tree(), &archives.path_of(&archive.digest), metadata).await?;
    response.ok_or_else(|| Problem::internal(format!("the recorded archive {} is missing", archive.digest)))
}

/// Archive that the caller may download.
pub struct DownloadableArchive {
    pub node: NodeId,
    pub version: SemVer,
    pub archive: Archive,
}

/// Result of looking up the archive of a path.
pub enum ArchiveLookup {
    Found(DownloadableArchive),
    /// Redirect: the id of the node is in the wrong case.
    Redirect(ApiResponse),
}

/// Looks up the archive of the node and version of the path; `path_suffix` is the rest of the path.
///
/// # Errors
/// If there is none, or the caller may not have it.
pub fn look_up_archive(call: &RequestContext, path_suffix: &str) -> Result<ArchiveLookup, Problem> {
    let segment = call.path_param("version");
    let version_ref = VersionRef::parse(&segment).ok_or_else(|| Problem::not_found("node version"))?;
    match look_up_node(call, &format!("/versions/{segment}{path_suffix}"))? {
        NodeLookup::Found(entry, _) => archive_of(call, &entry, &version_ref).map(ArchiveLookup::Found),
        NodeLookup::Redirect(redirect) => Ok(ArchiveLookup::Redirect(redirect)),
    }
}

/// Returns the archive of a version of a node.
///
/// # Errors
/// If there is none, or the caller may not have it.
pub fn archive_of(
    call: &RequestContext,
    entry: &NodeEntry,
    version_ref: &VersionRef,
) -> Result<DownloadableArchive, Problem> {
    let (node, version) = installable_version(call, entry, |node| node.version(version_ref))?;
    let archive = version.archive.ok_or_else(|| Problem::new(Code::NotFound, "the version has no archive yet"))?;
    Ok(DownloadableArchive { node: node.id.clone(), version: version.number.clone(), archive })
}

/// Returns the requested version if the caller may have it. Banned versions cannot be installed; pending and flagged
/// ones only by members of the publisher and administrators.
fn installable_version<'e>(
    call: &RequestContext,
    entry: &'e NodeEntry,
    select: impl FnOnce(&'e NodeProfile) -> Option<&'e NodeVersion>,
) -> Result<(&'e NodeProfile, &'e NodeVersion), Problem> {
    let not_found = || Problem::not_found("node version");
    let node = entry.profile().ok_or_else(not_found)?;
    if let Some((NodeStatus::Banned, detail)) = entry.status() {
        let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
        return Err(Problem::new(Code::Banned, format!("this node is banned{detail}")));
    }

    let version = select(node).ok_or_else(not_found)?;
    match version.status {
        VersionStatus::Active => Ok((node, version)),
        VersionStatus::Pending | VersionStatus::Flagged if is_insider(call, node) => Ok((node, version)),
        VersionStatus::Pending | VersionStatus::Flagged => {
            let detail = "only members of the publisher and administrators can download a version with the status";
            Err(Problem::new(Code::Forbidden, format!("{detail} {}", version.status.as_str())))
        }
        VersionStatus::Banned => Err(Problem::banned("version", version.status_reason.as_ref())),
        VersionStatus::Deleted => Err(not_found()),
    }
}

fn is_insider(call: &RequestContext, node: &NodeProfile) -> bool {
    let models = call.services().models.read();
    call.identity().is_insider_of(models.publishers.get(&node.publisher))
}
