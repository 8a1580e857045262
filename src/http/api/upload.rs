//! Archive uploads: the link is the credential; the file is streamed to disk, checked and stored.

use std::io::BufReader;
use std::sync::Arc;
use std::time::Duration;

use actix_web::{rt, web};
use serde::Serialize;
use tracing::Instrument;

use crate::actors::{Actor, CommandContext};
use crate::disk_space::DataDirPart;
use crate::domain::ids::{NodeKey, VersionId};
use crate::domain::node::{NodeCommand, NodeProfile, NodeRejection, NodeStatus};
use crate::domain::policy::Action;
use crate::domain::token::TokenRecord;
use crate::domain::value::{Digest, Timestamp};
use crate::domain::version::{Archive, NodeVersion, VersionRef, VersionStatus};
use crate::http::api::version::reply_with_version;
use crate::http::auth::account::account_of;
use crate::http::auth::authorize::{self, Identity};
use crate::http::idempotency::{self, IDEMPOTENT_REPLAYED};
use crate::http::limits::upload_limiter::PendingRecording;
use crate::http::pipeline::{Call, RequestContext};
use crate::http::request::body_chunks::BodyChunks;
use crate::http::request::disk_writer::{DiskWriter, UploadPurpose};
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::http::server::AppState;
use crate::media::archive::check::{self, ArchiveError};
use crate::media::archive::upload_token::{UPLOAD_TOKEN_VALIDITY, UploadGrant, UploadTokenError, UploadTokenHolder};
use crate::media::incoming_file::IncomingFile;
use crate::projections::read_models::Models;
use crate::quota::Account;

/// Maximum duration of an upload (contract 10).
const UPLOAD_TIME_MAX: Duration = Duration::from_mins(15);

/// New upload link.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UploadLinkView {
    signed_url: String,
}

/// `POST /publishers/{publisherId}/nodes/{nodeId}/versions/{versionId}/upload`: a new link for a version without an
/// archive.
pub async fn renew(call: Call<{ Action::PublishVersion as u8 }>) -> Result<ApiResponse, Problem> {
    let node = call.existing_node()?;
    let version = {
        let models = call.services().models.read();
        let not_found = || Problem::not_found("node version");
        let reference = VersionRef::parse(&call.path_param("versionId")).ok_or_else(not_found)?;
        let node = models.nodes.get(&node).ok_or_else(not_found)?;
        let version = node.version(&reference).ok_or_else(not_found)?;
        check_awaits_archive(node, version, call.services().options.moderation)?;
        version.id
    };
    ApiResponse::ok(&UploadLinkView { signed_url: signed_url(&call, version)? })
}

/// Creates a link with which the caller may upload the archive of a version.
///
/// # Errors
/// An internal error for anonymous callers.
pub fn signed_url(call: &RequestContext, version: VersionId) -> Result<String, Problem> {
    let holder = match call.identity() {
        Identity::User { profile, .. } => UploadTokenHolder::User(profile.id),
        Identity::Token { id, .. } => UploadTokenHolder::Token(*id),
        Identity::Anonymous => return Err(Problem::internal("an anonymous caller requested an upload link")),
    };
    let services = call.services();
    let grant =
        UploadGrant { version, holder, expires_at: services.environment.now().saturating_add(UPLOAD_TOKEN_VALIDITY) };
    Ok(call.url(&format!("/uploads/{}", services.registry.upload_key.issue_token(&grant))))
}

/// `PUT /uploads/{ticket}`: uploads an archive. Returns the version once the archive is durable; the version is then
/// active, unless moderation holds it. With an idempotency key the upload can be repeated: it is compared with the
/// stored archive.
pub async fn receive(mut call: Call<{ Action::UploadArchive as u8 }>) -> Result<ApiResponse, Problem> {
    let grant = read_upload_token(&call)?;
    call.set_actor(holder_actor(&grant));
    let (node, account) = check_upload(&call, &grant)?;

    let active_upload = call.shared().upload_limiter.start_archive(grant.version, account)?;
    let chunks = call.chunks()?.with_deadline(UPLOAD_TIME_MAX);
    let upload = stream_to_disk(&call, account, chunks).await?;

    if let Some(stored) = stored_archive(&call, &grant) {
        let is_same = stored.digest == upload.digest();
        return reply_to_repeat(&call, &node, &grant, is_same);
    }

    // The task continues if the client disconnects, so that the file is either recorded or removed.
    let work = async move {
        let _active_upload = active_upload;
        store_and_record(&call, account, &node, &grant, upload).await
    };
    rt::spawn(work.in_current_span()).await.map_err(Problem::internal)?
}

/// Checks and stores the upload, then records it.
async fn store_and_record(
    call: &RequestContext,
    account: Account,
    node: &NodeKey,
    grant: &UploadGrant,
    upload: IncomingFile,
) -> Result<ApiResponse, Problem> {
    let services = call.services();

    let (archive, recording) = check_and_store(upload, account, call.shared()).await?;
    let result = record_archive(call, node, grant, archive).await;
    let error_code = result.as_ref().err().map(Problem::code);
    // After these two errors the event may still be recorded; the next start removes the file if it is not.
    if !matches!(error_code, Some(Code::Internal | Code::ReadOnly)) {
        let archives = services.registry.archives.clone();
        let models = services.models.clone();
        let is_referenced =
            move |digest: &Digest| models.read().nodes.archives().any(|archive| archive.digest == *digest);
        let was_refused = error_code.is_some();
        let finish = move || recording.finish(was_refused, &archives, is_referenced);
        web::block(finish).await.map_err(Problem::internal)?;
    }
    result?;
    let include_reason = true;
    reply_with_version(call, node, &VersionRef::Id(grant.version), include_reason, |version| ApiResponse::ok(version))
}

async fn record_archive(
    call: &RequestContext,
    node: &NodeKey,
    grant: &UploadGrant,
    archive: Archive,
) -> Result<(), Problem> {
    // Bans, revoked tokens and lost memberships count even if they happened during the upload.
    check_upload(call, grant)?;
    let hold = call.services().options.moderation;
    let command = NodeCommand::StoreArchive { version: grant.version, archive, hold };
    let command_context = CommandContext { actor: holder_actor(grant), ..call.command_context() };
    call.services().dispatch.node(node, command, command_context).await?;
    Ok(())
}

/// Returns the actor of the upload: the caller that requested the link.
fn holder_actor(grant: &UploadGrant) -> Actor {
    match grant.holder {
        UploadTokenHolder::User(id) => Actor::User(id),
        UploadTokenHolder::Token(id) => Actor::Token(id),
    }
}

fn read_upload_token(call: &RequestContext) -> Result<UploadGrant, Problem> {
    let services = call.services();
    let verified = services.registry.upload_key.verify_token(&call.path_param("ticket"), services.environment.now());
    verified.map_err(|error| match error {
        UploadTokenError::Invalid => invalid_link("this service did not issue this upload link"),
        UploadTokenError::Expired => Problem::new(
            Code::UploadLinkExpired,
            "this upload link has expired: request a new one at …/versions/{versionId}/upload",
        ),
    })
}

fn invalid_link(detail: &str) -> Problem {
    Problem::new(Code::UploadLinkInvalid, detail)
}

/// Checks, before and after the transfer, that the version still waits for its archive and that the holder of the link
/// may still publish. Returns the node and the account that the upload counts against.
fn check_upload(call: &RequestContext, grant: &UploadGrant) -> Result<(NodeKey, Account), Problem> {
    let models = call.services().models.read();
    let found = models.nodes.by_version(grant.version);
    let (node, version) = found.ok_or_else(|| Problem::not_found("node version"))?;
    let publisher = models.publishers.get(&node.publisher).ok_or_else(|| Problem::not_found("node version"))?;

    let now = call.services().environment.now();
    let holder = holder_identity(&models, grant.holder, now);
    let holder = holder.ok_or_else(|| invalid_link("the holder of this upload link has lost access"))?;
    authorize::permit(Action::PublishVersion, &holder, Some(publisher))?;

    let has_key = idempotency::parse_key(call.headers())?.is_some();
    if has_key && version.archive.is_some() {
        check_not_deleted_or_banned(node, version)?;
    } else {
        check_awaits_archive(node, version, call.services().options.moderation)?;
    }
    Ok((node.id.key(), account_of(&holder, &call.request, &call.services().options.proxies)))
}

fn holder_identity(models: &Models, holder: UploadTokenHolder, now: Timestamp) -> Option<Identity> {
    match holder {
        UploadTokenHolder::User(id) => models.users.get(id).cloned().map(Identity::from_profile),
        UploadTokenHolder::Token(id) => {
            let is_valid = |token: &&TokenRecord| token.revoked_at.is_none() && !token.limits.is_expired(now);
            let token = models.tokens.get(id).filter(is_valid)?;
            authorize::identity_of_token(token, models).ok()
        }
    }
}

/// Returns the archive that the version has already.
fn stored_archive(call: &RequestContext, grant: &UploadGrant) -> Option<Archive> {
    call.services().models.read().nodes.by_version(grant.version)?.1.archive
}

/// Returns the response to a repeated upload: success for the same archive, an error for a different one.
fn reply_to_repeat(
    call: &RequestContext,
    node: &NodeKey,
    grant: &UploadGrant,
    is_same: bool,
) -> Result<ApiResponse, Problem> {
    if is_same {
        let include_reason = true;
        let version = VersionRef::Id(grant.version);
        return reply_with_version(call, node, &version, include_reason, |version| ApiResponse::ok(version))?
            .with_header(IDEMPOTENT_REPLAYED, "true");
    }

    if idempotency::parse_key(call.headers())?.is_none() {
        return Err(NodeRejection::ArchiveExists.into());
    }
    let detail = "the version already has a different archive";
    Err(Problem::new(Code::IdempotencyKeyReused, detail))
}

/// Rejects early what the domain would reject after the transfer. `hold` is `true` if uploads are moderated.
fn check_awaits_archive(node: &NodeProfile, version: &NodeVersion, hold: bool) -> Result<(), Problem> {
    check_not_deleted_or_banned(node, version)?;
    if version.archive.is_some() {
        return Err(NodeRejection::ArchiveExists.into());
    }
    match version.status {
        VersionStatus::Active if hold => Err(NodeRejection::ReleasedWithoutArchive.into()),
        VersionStatus::Pending | VersionStatus::Active => Ok(()),
        status => {
            Err(Problem::new(Code::Conflict, format!("a version that is {} accepts no archive", status.as_str())))
        }
    }
}

/// Rejects deleted versions and banned nodes.
fn check_not_deleted_or_banned(node: &NodeProfile, version: &NodeVersion) -> Result<(), Problem> {
    if version.status == VersionStatus::Deleted {
        return Err(Problem::not_found("node version"));
    }
    if node.status == NodeStatus::Banned {
        return Err(NodeRejection::Banned { reason: None }.into());
    }
    Ok(())
}

/// Streams the body to disk.
async fn stream_to_disk(
    call: &RequestContext,
    account: Account,
    mut chunks: BodyChunks,
) -> Result<IncomingFile, Problem> {
    let archives = call.services().registry.archives.clone();
    let create = move || archives.create_upload();
    let purpose = UploadPurpose { part: DataDirPart::Archives, whole: "the archive", rest: "the rest of the archive" };

    let mut writer = DiskWriter::start(call, account, chunks.content_length(), purpose, create).await?;
    while let Some(chunk) = chunks.next().await? {
        writer.write(&chunk).await?;
    }
    writer.finish().await
}

/// Checks and stores the upload. Waits for a permit first, because unpacking takes CPU time.
async fn check_and_store(
    mut upload: IncomingFile,
    account: Account,
    shared: &AppState,
) -> Result<(Archive, PendingRecording), Problem> {
    let uploads = Arc::clone(&shared.upload_limiter);
    let archives = shared.services.registry.archives.clone();

    let check_permit = uploads.acquire_check_permit(account).await;
    let stored = shared.inspectors.run(move || {
        let _check_permit = check_permit;
        let reader = upload.reader().map_err(ArchiveError::Io)?;
        check::check(BufReader::new(reader))?;
        let recording = uploads.start_recording(upload.digest());
        Ok((archives.commit_upload(&upload).map_err(ArchiveError::Io)?, recording))
    });

    stored.await.map_err(Problem::internal)?.map_err(|error| match error {
        ArchiveError::Io(error) => Problem::from_io_error(&error, &shared.services.space),
        ArchiveError::Rejected(flaws) => {
            let messages = flaws.reported().to_vec();
            let more = flaws.count() - messages.len();
            Problem::from_messages(Code::InvalidArchive, messages, more)
        }
    })
}
