//! Access of a stream's reader, checked after every relevant change and with every heartbeat.

use std::future::pending;
use std::time::Duration;

use actix_web::web::Data;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::audit::Position;
use crate::http::auth::authorize::{self, Identity};
use crate::http::pipeline::Call;
use crate::http::response::error::Problem;
use crate::http::server::AppState;

/// Credentials that opened a stream, and must stay valid while it is open.
#[derive(Clone)]
pub struct StreamAccess {
    shared: Data<AppState>,
    secret: String,
    /// Banned users may read their own data; a later ban ends the stream.
    was_banned: bool,
    changes: watch::Receiver<Position>,
    /// `true` if access may have changed since the last check.
    is_stale: bool,
    checked_at: Instant,
    check_interval: Duration,
}

impl StreamAccess {
    /// Captures the credentials of a request that opens a stream.
    ///
    /// # Errors
    /// If the credentials are malformed.
    pub fn new<const ACTION: u8>(call: &Call<ACTION>) -> Result<Self, Problem> {
        let shared = call.shared().clone();
        let mut changes = shared.services.models.access_changes();
        // Access may have changed since the authentication, so the first check must not be skipped.
        changes.mark_changed();

        Ok(Self {
            secret: authorize::presented_token(call.headers())?.unwrap_or_default().to_owned(),
            was_banned: call.identity().ban().is_some(),
            changes,
            is_stale: false,
            checked_at: Instant::now(),
            check_interval: shared.services.options.heartbeat,
            shared,
        })
    }

    /// Waits until access may have changed.
    pub async fn wait_for_change(&mut self) {
        if self.changes.changed().await.is_err() {
            // The service is stopping; streams notice that by other means.
            pending::<()>().await;
        }
        self.is_stale = true;
    }

    /// Returns `true` if the credentials are valid and `permits` accepts their owner. Authenticates them again only if
    /// access may have changed, or after a heartbeat interval.
    pub async fn allows(&mut self, permits: impl FnOnce(&Identity) -> bool) -> bool {
        let may_have_changed = self.is_stale || self.changes.has_changed().unwrap_or(false);
        if !may_have_changed && self.checked_at.elapsed() < self.check_interval {
            return true;
        }
        self.changes.borrow_and_update();
        self.is_stale = false;
        self.checked_at = Instant::now();

        let identity = authorize::authenticate(&self.secret, &self.shared.services, None).await;
        identity.is_ok_and(|identity| (self.was_banned || identity.ban().is_none()) && permits(&identity))
    }
}
