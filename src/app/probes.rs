//! Views of the log for the HTTP interface: audit queries, position, checkpoints, disk usage and readiness.

use std::sync::Arc;
use std::time::Duration;

use crate::audit::Audit;
use crate::audit::replay::ReplayedState;
use crate::audit::source::LiveEventSource;
use crate::audit::subject::AuditSubject;
use crate::domain::ids::UserId;
use crate::domain::value::Timestamp;
use crate::events::log::{EventLog, LogFailure};
use crate::events::shared::shared_log::SharedLog;
use crate::events::sled_log::{ScrubState, ScrubStatus, SledLog};
use crate::http::api::state::{ClusterViewer, LogProbe, LogProber, LogVerificationState, VerificationView};
use crate::http::request::as_of;
use crate::http::server::{Checkpointer, Readiness, ReadinessFailure, ReadinessFailureKind, StorageProbe};
use crate::pii::Keyring;
use crate::projections::node::view::Links;

/// Time after which an unconfirmed group of changes counts as stalled. A slow disk takes a second or two at worst.
/// Clients of a stalled service are better served elsewhere; most give up after 10 s.
const STALLED_AFTER: Duration = Duration::from_secs(5);

/// Time without a sign of the cluster's engine after which clients are better served elsewhere.
const ENGINE_SILENT_AFTER: Duration = Duration::from_secs(5);

/// Returns audit queries that show objects as the HTTP interface does.
pub(super) fn build_audit(log: &Arc<SledLog>, links: Links, keyring: &Keyring) -> Audit {
    let state_keyring = keyring.clone();
    let erasure_keyring = keyring.clone();
    let render =
        move |state: &ReplayedState, subject: &AuditSubject| Ok(as_of::render_state(state, subject, &state_keyring));
    let is_erased = move |user: UserId| Ok(erasure_keyring.is_erased(user));
    Audit::new(Arc::new(LiveEventSource(log.clone())), links, Arc::new(render), Arc::new(is_erased))
}

/// Creates the function that reads the current state of the log.
pub(super) fn build_prober(
    log: &Arc<SledLog>,
    cluster: Option<ClusterViewer>,
    queue_length: impl Fn() -> usize + Send + Sync + 'static,
    reports: &[String],
    now: Timestamp,
) -> LogProber {
    let log = Arc::clone(log);
    let repairs = reports.to_vec();
    let started_at = now;

    Arc::new(move || LogProbe {
        indexed: log.indexed_position().0,
        head: log.head().0,
        index_bytes: log.index_bytes(),
        queued_appends: queue_length(),
        repairs: repairs.clone(),
        started_at,
        signed: log.signed_position().0,
        sync_pending: log.sync_pending(),
        cluster: cluster.as_ref().map(|viewer| viewer()),
        verification: to_verification_view(log.verification()),
    })
}

/// Converts the state of verification for display.
fn to_verification_view(status: ScrubStatus) -> VerificationView {
    let ScrubStatus { state, position, until, since } = status;
    let (state, reason) = match state {
        ScrubState::Checking => (LogVerificationState::Checking, None),
        // The log was created by this start, so there was nothing to verify.
        ScrubState::Intact if until.0 == 0 => (LogVerificationState::Unverified, None),
        ScrubState::Intact => (LogVerificationState::Sound, None),
        ScrubState::Damaged { reason } => (LogVerificationState::Damaged, Some(reason)),
    };
    VerificationView { state, position: position.0, until: until.0, since: since.to_string(), reason }
}

/// Creates the function that signs the current state of the log.
pub(super) fn build_checkpointer(log: &Arc<SledLog>) -> Checkpointer {
    let log = Arc::clone(log);
    Arc::new(move |at| log.checkpoint(at).to_json())
}

pub(super) fn storage_probe(log: &Arc<SledLog>) -> StorageProbe {
    let log = Arc::clone(log);
    Arc::new(move || log.storage())
}

/// Returns the readiness probe. Ready means that a command would be accepted and get a reply.
pub(super) fn readiness_probe(
    log: &Arc<SledLog>,
    shared: Option<Arc<SharedLog>>,
    is_writer_alive: impl Fn() -> bool + Send + Sync + 'static,
) -> Readiness {
    let log = Arc::clone(log);

    Arc::new(move || {
        let shared_state = || shared.as_ref().map_or(Ok(()), |shared| shared.state());
        if let Err(failure) = log.state().and_then(|()| shared_state()) {
            let (kind, public_message) = public_reason(&failure);
            let public_message = public_message.to_owned();
            return Err(ReadinessFailure { kind, public_message, reason: failure.to_string() });
        }

        if !is_writer_alive() {
            let public_message = "a component has failed, and changes are rejected until a restart".to_owned();
            let reason = "the writer has died: restart the service, no acknowledged change is lost".to_owned();
            return Err(ReadinessFailure { kind: ReadinessFailureKind::Dead, public_message, reason });
        }

        check_sync_latency(log.sync_pending())?;
        shared.as_ref().map_or(Ok(()), |shared| check_engine(shared.engine_silence()))
    })
}

/// Returns the public part of the reason why the log accepts no changes.
fn public_reason(failure: &LogFailure) -> (ReadinessFailureKind, &'static str) {
    match failure {
        LogFailure::Full { .. } => {
            (ReadinessFailureKind::Full, "changes are rejected: too little disk space or too many open files")
        }
        LogFailure::Diverged { .. } => {
            (ReadinessFailureKind::Dead, "this node has diverged from its cluster and answers no requests")
        }
        LogFailure::Closed => (ReadinessFailureKind::Dead, "the log of the cluster was ended"),
        LogFailure::Storage { .. }
        | LogFailure::ReadOnly { .. }
        | LogFailure::Damaged { .. }
        | LogFailure::Unreachable { .. }
        | LogFailure::OutcomeUnknown { .. } => {
            (ReadinessFailureKind::ReadOnly, "the log is read-only until a restart: a write failed or damage was found")
        }
    }
}

fn check_engine(silence: Duration) -> Result<(), ReadinessFailure> {
    if silence < ENGINE_SILENT_AFTER {
        return Ok(());
    }
    let public_message = format!("the engine of the cluster has been silent for {} s", silence.as_secs());
    let reason = format!("{public_message}: check its servers and the network to them");
    Err(ReadinessFailure { kind: ReadinessFailureKind::CutOff, public_message, reason })
}

fn check_sync_latency(pending: Duration) -> Result<(), ReadinessFailure> {
    if pending < STALLED_AFTER {
        return Ok(());
    }
    let public_message = format!("the disk has not confirmed a change for {} s", pending.as_secs());
    let reason = format!("{public_message}: check the disk, no acknowledged change is lost");
    Err(ReadinessFailure { kind: ReadinessFailureKind::Hanging, public_message, reason })
}
