//! Reads that contain everything answered by any node before them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::events::log::LogFailure;
use crate::events::shared::shared_log::SharedLog;

/// Waits until this node is as far as the cluster. Requests that wait at the same time share one look at the engine.
/// Cheap to clone.
#[derive(Clone)]
pub struct ReadBarrier(Arc<BarrierState>);

struct BarrierState {
    log: Arc<SharedLog>,
    arrivals: AtomicU64,
    /// Number of arrivals before the last look that succeeded. Locked during a look.
    covered: Arc<Mutex<u64>>,
}

impl ReadBarrier {
    /// Returns the barrier of a node.
    #[must_use]
    pub fn new(log: Arc<SharedLog>) -> Self {
        Self(Arc::new(BarrierState { log, arrivals: AtomicU64::new(0), covered: Arc::default() }))
    }

    /// Waits until this node has applied everything that any node had answered before the call.
    ///
    /// # Errors
    /// If the engine does not respond in time, or this node applies no more groups.
    pub async fn pass(&self) -> Result<(), LogFailure> {
        let arrival = self.0.arrivals.fetch_add(1, Ordering::SeqCst);
        let mut covered = Arc::clone(&self.0.covered).lock_owned().await;
        if arrival < *covered {
            return Ok(());
        }

        // The lock moves along: a caller that waits no longer must not let another look begin beside this one.
        let state = Arc::clone(&self.0);
        let look = move || {
            let arrivals = state.arrivals.load(Ordering::SeqCst);
            state.log.catch_up()?;
            *covered = arrivals;
            Ok(())
        };
        let stopped = |_| LogFailure::Unreachable { reason: "the node stops".to_owned() };
        spawn_blocking(look).await.map_err(stopped).flatten()
    }
}
