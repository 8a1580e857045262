//! Access of the reader of a stream: looked at again at once when it may have been taken away, and with every heartbeat.

use std::future::pending;
use std::time::Duration;

use actix_web::web::Data;
use tokio::sync::watch;
use tokio::time::Instant;

use super::authorize::{self, Identity};
use super::error::Problem;
use super::gate::Call;
use super::server::Shared;
use crate::audit::Position;

/// The credentials with which a stream was opened: they must stay valid for as long as it goes on.
#[derive(Clone)]
pub struct StreamAccess {
    shared: Data<Shared>,
    secret: String,
    /// A banned user may read what was theirs; a ban that comes later ends the stream.
    was_banned: bool,
    changes: watch::Receiver<Position>,
    /// `true` if access may have changed since it was looked at.
    is_stale: bool,
    checked: Instant,
    check_every: Duration,
}

impl StreamAccess {
    /// The access of a request that opens a stream.
    ///
    /// # Errors
    /// When its credentials are malformed.
    pub fn new<const ACTION: u8>(call: &Call<ACTION>) -> Result<Self, Problem> {
        let shared = call.shared().clone();
        let mut changes = shared.services.models.access_changes();
        // What happened between authentication and here was not seen.
        changes.mark_changed();
        Ok(Self {
            secret: authorize::bearer(call.headers())?.unwrap_or_default().to_owned(),
            was_banned: call.identity().ban().is_some(),
            changes,
            is_stale: false,
            checked: Instant::now(),
            check_every: shared.services.options.heartbeat,
            shared,
        })
    }

    /// Waits until access may have changed.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            // The service is gone, which streams notice otherwise.
            pending::<()>().await;
        }
        self.is_stale = true;
    }

    /// Returns `true` if the credentials are valid and `permits` lets their owner read on.
    pub async fn allows(&mut self, permits: impl FnOnce(&Identity) -> bool) -> bool {
        let may_have_changed = self.is_stale || self.changes.has_changed().unwrap_or(false);
        if !may_have_changed && self.checked.elapsed() < self.check_every {
            return true;
        }
        self.changes.borrow_and_update();
        (self.is_stale, self.checked) = (false, Instant::now());

        let identity = authorize::identify(&self.secret, &self.shared.services, None).await;
        identity.is_ok_and(|identity| (self.was_banned || identity.ban().is_none()) && permits(&identity))
    }
}
