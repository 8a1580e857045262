//! Views of the log for the HTTP interface: audit queries, position, checkpoints, disk usage and readiness.

use std::sync::Arc;
use std::time::Duration;

use crate::audit::Audit;
use crate::audit::fold::Folded;
use crate::audit::source::Live;
use crate::audit::thing::Thing;
use crate::domain::ids::UserId;
use crate::domain::value::Timestamp;
use crate::events::log::{EventLog, LogFailure};
use crate::events::sled_log::{ScrubState, ScrubStatus, SledLog};
use crate::http::as_of;
use crate::http::server::{Checkpointer, Hindered, Readiness, StorageProbe, Unready};
use crate::http::state::{Probe, Prober, Verification, VerificationKind};
use crate::personal::Keyring;
use crate::projections::node::view::Links;

/// Time after which an unconfirmed group of changes counts as stalled. A slow disk takes a second or two at worst.
/// After that, clients are better served elsewhere; most give up after 10 s.
const STALLED_AFTER: Duration = Duration::from_secs(5);

/// Returns audit queries that show objects as the HTTP interface does.
pub(super) fn auditing(log: &Arc<SledLog>, links: Links, personal: &Keyring) -> Audit {
    let shows = personal.clone();
    let forgets = personal.clone();
    let state_of = move |folded: &Folded, thing: &Thing| Ok(as_of::state_of(folded, thing, &shows));
    let erased = move |user: UserId| Ok(forgets.has_forgotten(user));
    Audit::new(Arc::new(Live(log.clone())), links, Arc::new(state_of), Arc::new(erased))
}

/// Returns a function that returns the current state of the log.
pub(super) fn prober(
    log: &Arc<SledLog>,
    waiting: impl Fn() -> usize + Send + Sync + 'static,
    reports: &[String],
    now: Timestamp,
) -> Prober {
    let log = Arc::clone(log);
    let mended = reports.to_vec();
    let started_at = now;

    Arc::new(move || Probe {
        indexed: log.indexed_position().0,
        head: log.head().0,
        index_bytes: log.index_bytes(),
        waiting: waiting(),
        mended: mended.clone(),
        started_at,
        signed: log.signed_position().0,
        sync_pending: log.sync_pending(),
        verification: verification(log.verification()),
    })
}

/// Converts the state of verification for display.
fn verification(verified: ScrubStatus) -> Verification {
    let ScrubStatus { state, position, until, since } = verified;
    let (state, reason) = match state {
        ScrubState::Checking => (VerificationKind::Checking, None),
        // The log was created by this start, so there was nothing to verify.
        ScrubState::Intact if until.0 == 0 => (VerificationKind::Unverified, None),
        ScrubState::Intact => (VerificationKind::Sound, None),
        ScrubState::Damaged { reason } => (VerificationKind::Damaged, Some(reason)),
    };
    Verification { state, position: position.0, until: until.0, since: since.to_string(), reason }
}

/// Returns a function that signs the current state of the log.
pub(super) fn checkpointer(log: &Arc<SledLog>) -> Checkpointer {
    let log = Arc::clone(log);
    Arc::new(move |at| log.checkpoint(at).to_json())
}

pub(super) fn storage(log: &Arc<SledLog>) -> StorageProbe {
    let log = Arc::clone(log);
    Arc::new(move || log.storage())
}

/// Returns the readiness probe. Ready means that a command would be accepted and get a reply.
pub(super) fn readiness(log: &Arc<SledLog>, writes: impl Fn() -> bool + Send + Sync + 'static) -> Readiness {
    let log = Arc::clone(log);

    Arc::new(move || match log.state() {
        Ok(()) if writes() => answers_in_time(log.sync_pending()),
        Ok(()) => {
            let told = "a part of it has died, and it takes no changes until it is restarted".to_owned();
            let reason = "the writer has died: restart the service, nothing that was answered is lost".to_owned();
            Err(Unready { by: Hindered::Dead, told, reason })
        }
        Err(failure) => {
            let (by, told) = seen_from_outside(&failure);
            Err(Unready { by, told: told.to_owned(), reason: failure.to_string() })
        }
    })
}

/// Returns the public part of the reason why the log accepts no changes.
fn seen_from_outside(failure: &LogFailure) -> (Hindered, &'static str) {
    match failure {
        LogFailure::Full { .. } => {
            (Hindered::Full, "it takes no changes for want of room on its disk, or of files that may be open")
        }
        LogFailure::Storage { .. } | LogFailure::ReadOnly { .. } | LogFailure::Damaged { .. } => {
            (Hindered::ReadOnly, "its log is read-only until it is restarted: a write failed, or damage was found")
        }
    }
}

fn answers_in_time(pending: Duration) -> Result<(), Unready> {
    if pending < STALLED_AFTER {
        return Ok(());
    }
    let told = format!("its disk has not confirmed a change for {} s", pending.as_secs());
    let reason = format!("{told}: look at the disk, nothing that was answered is lost");
    Err(Unready { by: Hindered::Hanging, told, reason })
}
