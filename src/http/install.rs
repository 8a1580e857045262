//! What tools ask for when they install a node: the version to take, and its archive.

use actix_web::http::Method;
use actix_web::http::header::CONTENT_DISPOSITION;

use super::answer::Answer;
use super::error::{Code, Problem};
use super::file::{self, Described};
use super::gate::{Admitted, Call};
use super::version_list::{Asked, asked, view};
use crate::domain::node::{NodeProfile, NodeStatus};
use crate::domain::policy::{Action, Standing};
use crate::domain::version::{NodeVersion, SemVer, VersionRef, VersionStatus, latest};
use crate::projections::read_models::Models;

/// What an archive may be kept for without asking again: bans count at once.
const ASK_AGAIN: &str = "no-cache";

/// `GET /nodes/{node_id}/install`: the version to install, the latest one unless `version` names another. Counts a
/// download; HEAD does not.
pub async fn install(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    let mut query = call.query()?;
    let number = query.one_checked("version", SemVer::parse);
    query.finish()?;
    let models = call.services().models.read();
    let node = match asked(&call, &models, "/install")? {
        Asked::Node(node) => node,
        Asked::Elsewhere(answer) => return Ok(answer),
    };
    let version = match number {
        Some(number) => node.version(&VersionRef::Number(number)),
        None => latest(&node.versions),
    };
    let version = version.ok_or_else(|| Problem::not_found("version to install"))?;
    check_obtainable(&call, &models, node, version)?;
    if call.method() == Method::GET {
        call.services().tally.installed(&node.id.key());
    }
    Answer::ok(&view(node, version, false, &models))
}

/// `GET /nodes/{node_id}/versions/{version}/download`: the archive.
pub async fn download(call: Call<{ Action::ReadRegistry as u8 }>) -> Result<Answer, Problem> {
    let not_found = || Problem::not_found("node version");
    let segment = call.segment("version");
    let wanted = VersionRef::parse(&segment).ok_or_else(not_found)?;
    let (archive, name) = {
        let models = call.services().models.read();
        let node = match asked(&call, &models, &format!("/versions/{segment}/download"))? {
            Asked::Node(node) => node,
            Asked::Elsewhere(answer) => return Ok(answer),
        };
        let version = node.version(&wanted).ok_or_else(not_found)?;
        check_obtainable(&call, &models, node, version)?;
        let archive = version.archive.ok_or_else(|| Problem::not_found("archive: the version has none yet"))?;
        (archive, format!("{}-{}.zip", node.id, version.number))
    };
    let path = call.services().archives.path_of(&archive.digest);
    // Neither ids nor numbers hold anything that would need quoting.
    let headers = vec![(CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\""))];
    let described =
        Described { digest: archive.digest, content_type: "application/zip", cache_control: ASK_AGAIN, headers };
    let answer = file::send(&call, &path, described).await?;
    answer.ok_or_else(|| Problem::internal(format!("the archive {} is recorded and not there", archive.digest)))
}

/// Whether the caller gets this version: nobody what is banned, and what is not Active only those who made it.
fn check_obtainable(
    call: &Admitted,
    models: &Models,
    node: &NodeProfile,
    version: &NodeVersion,
) -> Result<(), Problem> {
    let publisher = models.publishers.get(&node.publisher);
    let ban = publisher.and_then(|publisher| publisher.ban.as_ref());
    if let Some(reason) = ban {
        return Err(Problem::banned("the publisher", Some(reason)));
    }
    if node.status == NodeStatus::Banned {
        let (_, detail) = models.nodes.status_of(node);
        let reason = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
        return Err(Problem::new(Code::Banned, format!("this node is banned{reason}")));
    }
    let insider = matches!(
        call.identity().standing(publisher),
        Standing::Member | Standing::Owner | Standing::OwnToken | Standing::Admin
    );
    match version.status {
        VersionStatus::Active => Ok(()),
        VersionStatus::Pending | VersionStatus::Flagged if insider => Ok(()),
        VersionStatus::Pending | VersionStatus::Flagged => {
            let detail = "only members of its publisher and administrators get a version that is";
            Err(Problem::new(Code::Forbidden, format!("{detail} {}", version.status.as_str())))
        }
        VersionStatus::Banned => Err(Problem::banned("this version", version.status_reason.as_ref())),
        VersionStatus::Deleted => Err(Problem::not_found("node version")),
    }
}
