//! Removal of the copies that a node has of files of erased users, if its files are in a bucket.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::spawn;
use crate::app::StartError;
use crate::app::files::ErasureTargets;
use crate::domain::ids::UserId;

/// Time between two attempts to complete what the bucket interrupted.
const RETRY_INTERVAL: Duration = Duration::from_mins(10);

/// A thread that removes copies, because that may wait for the bucket. It ends after this is dropped.
pub(super) struct CopyRemover {
    erased: Sender<UserId>,
}

impl CopyRemover {
    pub(super) fn start(targets: ErasureTargets) -> Result<Self, StartError> {
        let (erased, receiver) = mpsc::channel();
        spawn("erasure", move || remove_copies(&targets, &receiver))?;
        Ok(Self { erased })
    }

    /// Removes the copies of an erased user's files soon.
    pub(super) fn remove(&self, user: UserId) {
        if self.erased.send(user).is_err() {
            tracing::error!(%user, "erasure incomplete: restart this node");
        }
    }
}

fn remove_copies(targets: &ErasureTargets, erased: &Receiver<UserId>) {
    // Users of whom this node had a key, which the bucket may have too.
    let mut with_key = Vec::new();
    let mut retry_at = Instant::now() + RETRY_INTERVAL;
    loop {
        // The copies of all users go first: the bucket may not respond.
        let idle_until = if with_key.is_empty() { retry_at } else { Instant::now() };
        match erased.recv_timeout(idle_until.saturating_duration_since(Instant::now())) {
            Ok(user) => {
                targets.store.uploads().remove_copies_of(user);
                match targets.keyring.destroy_copy(user) {
                    Ok(had_key) => with_key.extend(had_key.then_some(user)),
                    Err(failure) => tracing::error!(%user, %failure, "erasure incomplete: restart this node"),
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Some(user) = with_key.pop() {
                    if let Err(failure) = targets.keyring.forget_key(user) {
                        tracing::warn!(%user, %failure, "key of an erased user not removed, will be retried");
                    }
                    continue;
                }
                targets.complete_erasures();
                if let Err(failure) = targets.keyring.remove_stale_marks() {
                    tracing::warn!(%failure, "marks of failed erasures not removed");
                }
                retry_at = Instant::now() + RETRY_INTERVAL;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
