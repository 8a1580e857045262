//! Archive uploads: the link is the credential; the file is streamed to disk, checked and stored.

use std::io::BufReader;
use std::sync::Arc;
use std::time::Duration;

use actix_web::rt;
use actix_web::web::{self, Bytes, BytesMut};
use serde::Serialize;
use tracing::Instrument;

use super::account::account_of;
use super::answer::Answer;
use super::authorize::{self, Identity};
use super::chunks::Chunks;
use super::error::{Code, Problem};
use super::gate::{Admitted, Call};
use super::idempotency::{self, IDEMPOTENT_REPLAYED};
use super::server::Services;
use super::server::Shared;
use super::uploads::Recording;
use super::version::with_view;
use crate::actors::{Actor, CommandContext};
use crate::domain::ids::{NodeKey, VersionId};
use crate::domain::node::{NodeCommand, NodeProfile, NodeRejection, NodeStatus};
use crate::domain::policy::Action;
use crate::domain::value::Digest;
use crate::domain::version::{Archive, NodeVersion, VersionRef, VersionStatus};
use crate::media::archive::check::{self, Refusal};
use crate::media::archive::store::Upload;
use crate::media::archive::ticket::{Grant, Holder, TicketRefusal, VALID_FOR};
use crate::projections::read_models::Models;
use crate::quota::Account;
use crate::space::Space;

/// Maximum duration of an upload (contract 10).
const UPLOAD_TIME_MAX: Duration = Duration::from_mins(15);
/// Size of a write to disk, in bytes.
const GATHERED: usize = 256 * 1024;

/// New upload link.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Link {
    signed_url: String,
}

/// `POST /publishers/{publisher_id}/nodes/{node_id}/versions/{version_id}/upload`: a new link for a version without an
/// archive.
pub async fn renew(call: Call<{ Action::PublishVersion as u8 }>) -> Result<Answer, Problem> {
    let node = call.known_node()?;
    let version = {
        let models = call.services().models.read();
        let reference = VersionRef::parse(&call.segment("version_id"));
        let found = reference.and_then(|reference| models.nodes.get(&node).map(|node| (node, reference)));
        let found = found.and_then(|(node, reference)| Some((node, node.version(&reference)?)));
        let (node, version) = found.ok_or_else(|| Problem::not_found("node version"))?;
        check_waits(node, version, call.services().options.moderation)?;
        version.id
    };
    Answer::ok(&Link { signed_url: signed_url(&call, version)? })
}

/// Creates a link with which the caller may upload the archive of a version.
///
/// # Errors
/// An internal error for anonymous callers.
pub fn signed_url(call: &Admitted, version: VersionId) -> Result<String, Problem> {
    let holder = match call.identity() {
        Identity::User(user) => Holder::User(user.id),
        Identity::Token { id, .. } => Holder::Token(*id),
        Identity::Anonymous => return Err(Problem::internal("nobody asks for an upload link")),
    };
    let services = call.services();
    let grant = Grant { version, holder, until: services.surroundings.now().after(VALID_FOR) };
    Ok(call.url(&format!("/uploads/{}", services.upload_key.ticket(&grant))))
}

/// `PUT /uploads/{ticket}`: uploads an archive. Returns the version once the archive is durable; the version is then
/// active, unless moderation holds it. With an idempotency key the upload can be repeated: it is compared with the
/// stored archive.
pub async fn receive(mut call: Call<{ Action::UploadArchive as u8 }>) -> Result<Answer, Problem> {
    let grant = read_ticket(&call)?;
    call.acts_for(actor(&grant));
    let (node, account) = admit(&call, &grant)?;

    let flight = call.shared().uploads.begin(grant.version, account)?;
    let chunks = call.chunks()?.within(UPLOAD_TIME_MAX);
    let upload = stream(&call, account, chunks).await?;

    if let Some(stored) = stored(&call, &grant) {
        return repeated(&call, &node, &grant, stored.digest == upload.digest());
    }

    // Continues if the client disconnects, so that the file is either recorded or removed.
    let work = async move {
        let _flight = flight;
        store(&call, account, &node, &grant, upload).await
    };
    rt::spawn(work.in_current_span()).await.map_err(Problem::internal)?
}

/// Checks and stores the upload, then records it.
async fn store(
    call: &Admitted,
    account: Account,
    node: &NodeKey,
    grant: &Grant,
    upload: Upload,
) -> Result<Answer, Problem> {
    let services = call.services();

    let (archive, recording) = keep(upload, account, call.shared()).await?;
    let recorded = record(call, node, grant, archive).await;
    let refused = recorded.as_ref().err().map(Problem::code);
    // After these two errors the event may still be recorded; the next start removes the file if it is not.
    if !matches!(refused, Some(Code::Internal | Code::ReadOnly)) {
        let archives = services.archives.clone();
        let models = services.models.clone();
        let is_named = move |digest: &Digest| models.read().nodes.archives().any(|archive| archive.digest == *digest);
        let end = move || recording.end(refused.is_some(), &archives, is_named);
        web::block(end).await.map_err(Problem::internal)?;
    }
    recorded?;
    with_view(call, node, &VersionRef::Id(grant.version), true, |version| Answer::ok(version))
}

async fn record(call: &Admitted, node: &NodeKey, grant: &Grant, archive: Archive) -> Result<(), Problem> {
    // Bans, revoked tokens and lost memberships count even if they happened during the upload.
    admit(call, grant)?;
    let hold = call.services().options.moderation;
    let command = NodeCommand::StoreArchive { version: grant.version, archive, hold };
    let why = CommandContext { actor: actor(grant), ..call.why() };
    call.services().dispatch.node(node, command, why).await?;
    Ok(())
}

/// Returns the actor of the upload: the one that requested the link.
fn actor(grant: &Grant) -> Actor {
    match grant.holder {
        Holder::User(id) => Actor::User(id),
        Holder::Token(id) => Actor::Token(id),
    }
}

fn read_ticket(call: &Admitted) -> Result<Grant, Problem> {
    let services = call.services();
    let read = services.upload_key.grant(&call.segment("ticket"), services.surroundings.now());
    read.map_err(|refusal| match refusal {
        TicketRefusal::Invalid => invalid_link("this service has not made this upload link"),
        TicketRefusal::Expired => Problem::new(
            Code::UploadLinkExpired,
            "this upload link has expired: ask for a fresh one at …/versions/{versionId}/upload",
        ),
    })
}

fn invalid_link(detail: &str) -> Problem {
    Problem::new(Code::UploadLinkInvalid, detail)
}

/// Checks, before and after the transfer, that the version still waits for its archive and that the holder of the link
/// may still publish. Returns the node and the account that the upload counts against.
fn admit(call: &Admitted, grant: &Grant) -> Result<(NodeKey, Account), Problem> {
    let models = call.services().models.read();
    let found = models.nodes.by_version(grant.version);
    let (node, version) = found.ok_or_else(|| Problem::not_found("node version"))?;
    let publisher = models.publishers.get(&node.publisher).ok_or_else(|| Problem::not_found("node version"))?;

    let holder = identity(&models, grant.holder);
    let holder = holder.ok_or_else(|| invalid_link("whoever asked for this upload link has no access any more"))?;
    authorize::permit(Action::PublishVersion, &holder, Some(publisher))?;

    let has_key = idempotency::key_in(call.headers())?.is_some();
    if has_key && version.archive.is_some() {
        check_there(node, version)?;
    } else {
        check_waits(node, version, call.services().options.moderation)?;
    }
    Ok((node.id.key(), account_of(&holder, &call.request, &call.services().options.proxies)))
}

fn identity(models: &Models, holder: Holder) -> Option<Identity> {
    match holder {
        Holder::User(id) => models.users.get(id).cloned().map(Identity::User),
        Holder::Token(id) => {
            let token = models.tokens.get(id).filter(|token| token.revoked_at.is_none())?;
            authorize::speaker(token, models).ok()
        }
    }
}

/// Returns the archive that the version has already.
fn stored(call: &Admitted, grant: &Grant) -> Option<Archive> {
    call.services().models.read().nodes.by_version(grant.version)?.1.archive
}

/// Returns the response to a repeated upload: success for the same archive, an error for another one.
fn repeated(call: &Admitted, node: &NodeKey, grant: &Grant, is_same: bool) -> Result<Answer, Problem> {
    if is_same {
        let answer = with_view(call, node, &VersionRef::Id(grant.version), true, |version| Answer::ok(version))?;
        return answer.with(IDEMPOTENT_REPLAYED, "true");
    }
    if idempotency::key_in(call.headers())?.is_none() {
        return Err(NodeRejection::ArchiveExists.into());
    }
    let detail = "the version has another archive already: its upload cannot be repeated with this one";
    Err(Problem::new(Code::IdempotencyKeyReused, detail))
}

/// Rejects early what the domain would reject after the transfer. `hold` is `true` if uploads are moderated.
fn check_waits(node: &NodeProfile, version: &NodeVersion, hold: bool) -> Result<(), Problem> {
    check_there(node, version)?;
    if version.archive.is_some() {
        return Err(NodeRejection::ArchiveExists.into());
    }
    match version.status {
        VersionStatus::Active if hold => Err(NodeRejection::ReleasedWithoutArchive.into()),
        VersionStatus::Pending | VersionStatus::Active => Ok(()),
        status => {
            Err(Problem::new(Code::Conflict, format!("a version takes no archive while it is {}", status.as_str())))
        }
    }
}

/// Rejects deleted versions and banned nodes.
fn check_there(node: &NodeProfile, version: &NodeVersion) -> Result<(), Problem> {
    if version.status == VersionStatus::Deleted {
        return Err(Problem::not_found("node version"));
    }
    if node.status == NodeStatus::Banned {
        return Err(NodeRejection::Banned { reason: None }.into());
    }
    Ok(())
}

/// Streams the body to disk, while the disk reserve is respected. Hashing and writing run on a blocking thread.
async fn stream(call: &Admitted, account: Account, mut chunks: Chunks) -> Result<Upload, Problem> {
    let Services { archives, space, .. } = call.services();
    let archives = archives.clone();

    // Charge an announced length first, so that no client sends 100 MiB in vain.
    let announced = chunks.announced();
    call.charge_bytes(account, announced.unwrap_or(0))?;

    let what = if chunks.announced().is_some() { "the archive" } else { "more of the archive" };
    let mut room = space.claim(what, chunks.announced().unwrap_or(0) as u64).map_err(Problem::no_room)?;
    let mut upload = on_disk(space, move || archives.receive()).await?;

    let mut gathered = BytesMut::with_capacity(GATHERED);

    loop {
        let chunk = chunks.next().await?;
        gathered.extend_from_slice(chunk.as_deref().unwrap_or_default());
        if gathered.len() >= GATHERED || (chunk.is_none() && !gathered.is_empty()) {
            room.spend(gathered.len() as u64).map_err(Problem::no_room)?;
            if announced.is_none() {
                call.charge_bytes(account, gathered.len())?;
            }
            upload = write(space, upload, gathered.split().freeze()).await?;
        }
        if chunk.is_none() {
            return Ok(upload);
        }
    }
}

async fn write(space: &Space, mut upload: Upload, bytes: Bytes) -> Result<Upload, Problem> {
    on_disk(space, move || upload.write(&bytes).map(|()| upload)).await
}

async fn on_disk<T: Send + 'static>(
    space: &Space,
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    web::block(work).await.map_err(Problem::internal)?.map_err(|error| Problem::of_disk(&error, space))
}

/// Checks and stores the upload. Waits for a turn first, because unpacking takes CPU time.
async fn keep(mut upload: Upload, account: Account, shared: &Shared) -> Result<(Archive, Recording), Problem> {
    let uploads = Arc::clone(&shared.uploads);
    let archives = shared.services.archives.clone();

    let turn = uploads.turn(account).await;
    let kept = shared.inspectors.run(move || {
        let _turn = turn;
        let reader = upload.reader().map_err(Refusal::Io)?;
        check::check(BufReader::new(reader))?;
        let recording = uploads.record(upload.digest());
        Ok((archives.keep(&upload).map_err(Refusal::Io)?, recording))
    });

    kept.await.map_err(Problem::internal)?.map_err(|refusal| match refusal {
        Refusal::Io(error) => Problem::of_disk(&error, &shared.services.space),
        Refusal::Bad(flaws) => {
            let told = flaws.told().to_vec();
            let more = flaws.count() - told.len();
            Problem::listing(Code::InvalidArchive, told, more)
        }
    })
}
