//! Webhooks of vendors: each only causes an earlier poll of its task. Their content is not trusted.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::domain::ids::TaskId;
use crate::vendors::webhook_ticket::WebhookTicketKey;

/// Maximum number of waiting webhooks; further ones are dropped, and those tasks are polled on schedule.
const PENDING_MAX: usize = 65_536;

/// Passes webhooks to the pollers. Cheap to clone.
#[derive(Clone)]
pub struct VendorWebhooks {
    key: WebhookTicketKey,
    pending: Arc<Mutex<HashSet<TaskId>>>,
    arrival: Arc<Notify>,
}

impl VendorWebhooks {
    /// Returns a queue for webhooks whose tickets are signed with `key`.
    #[must_use]
    pub fn new(key: WebhookTicketKey) -> Self {
        Self { key, pending: Arc::default(), arrival: Arc::default() }
    }

    /// Records a webhook; `false` if the ticket belongs to no task.
    #[must_use]
    pub fn accept(&self, ticket: &str) -> bool {
        let Some(task) = self.key.verify(ticket) else { return false };
        let mut pending = self.pending.lock();
        if pending.len() < PENDING_MAX {
            pending.insert(task);
        }
        drop(pending);
        // A poller that is not waiting for webhooks now takes them at its next search for work.
        self.arrival.notify_waiters();
        true
    }

    /// Removes and returns the tasks with webhooks for which `is_own` returns `true`.
    pub(super) fn drain(&self, is_own: impl Fn(&TaskId) -> bool) -> Vec<TaskId> {
        self.pending.lock().extract_if(|task| is_own(task)).collect()
    }

    /// Completes after the next webhook.
    pub(super) async fn received(&self) {
        self.arrival.notified().await;
    }
}
