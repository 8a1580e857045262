//! What the operator is told unasked, a line when it begins and one when it ends: that no work is taken.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::events::log::LogFailure;
use crate::events::sled_log::SledLog;
use crate::http::server::{Readiness, Unready};

/// Whoever looks now and then whether work is taken.
pub(super) struct Lookout {
    log: Arc<SledLog>,
    readiness: Readiness,
    /// Whether it was told that none is.
    told: Mutex<bool>,
}

impl Lookout {
    pub fn new(log: &Arc<SledLog>, readiness: &Readiness) -> Self {
        Self { log: Arc::clone(log), readiness: Arc::clone(readiness), told: Mutex::default() }
    }

    /// Looks, and tells what is new.
    pub fn look(&self) {
        if matches!(self.log.state(), Err(LogFailure::Full { .. })) {
            // The space itself has told it just now.
            return;
        }
        let mut told = self.told.lock();
        match ((self.readiness)().err(), *told) {
            (Some(Unready { reason, .. }), false) => {
                tracing::warn!(reason, "not ready");
                *told = true;
            }
            (None, true) => {
                tracing::info!("ready again");
                *told = false;
            }
            (Some(_), true) | (None, false) => {}
        }
    }
}
