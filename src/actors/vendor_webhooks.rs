//! Webhooks of vendors: each only causes an earlier poll of its task. Their content is not trusted. In a cluster, the
//! node that receives a webhook forwards it to the other nodes, because one of them may be polling the task.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::domain::ids::TaskId;
use crate::vendors::webhook_ticket::WebhookTicketKey;

/// Maximum number of waiting webhooks; further ones are dropped, and those tasks are polled on schedule.
const PENDING_MAX: usize = 65_536;

/// Maximum number of tasks in one message to other nodes.
const FORWARDED_MAX: usize = 1000;

/// Passes webhooks to the pollers. Cheap to clone.
#[derive(Clone)]
pub struct VendorWebhooks {
    key: WebhookTicketKey,
    pending: Arc<Mutex<HashSet<TaskId>>>,
    /// Tasks whose webhooks were not yet forwarded to the other nodes; `None` without other nodes.
    accepted: Option<Arc<Mutex<HashSet<TaskId>>>>,
    arrival: Arc<Notify>,
}

impl VendorWebhooks {
    /// Creates a queue for webhooks whose tickets are signed with `key`.
    #[must_use]
    pub fn new(key: WebhookTicketKey) -> Self {
        Self { key, pending: Arc::default(), accepted: None, arrival: Arc::default() }
    }

    /// Makes the queue also keep accepted webhooks for the other nodes; [`VendorWebhooks::take_accepted`] returns them.
    #[must_use]
    pub fn with_other_nodes(self) -> Self {
        Self { accepted: Some(Arc::default()), ..self }
    }

    /// Records a webhook; `false` if the ticket belongs to no task.
    #[must_use]
    pub fn accept(&self, ticket: &str) -> bool {
        let Some(task) = self.key.verify(ticket) else { return false };
        if let Some(accepted) = &self.accepted {
            insert(&mut accepted.lock(), task);
        }
        self.wake([task]);
        true
    }

    /// Wakes the pollers of `tasks`.
    pub fn wake(&self, tasks: impl IntoIterator<Item = TaskId>) {
        let mut tasks = tasks.into_iter().peekable();
        if tasks.peek().is_none() {
            return;
        }
        let mut pending = self.pending.lock();
        tasks.for_each(|task| insert(&mut pending, task));
        drop(pending);
        // A poller that is not waiting for webhooks now takes them at its next search for work.
        self.arrival.notify_waiters();
    }

    /// Removes and returns tasks whose webhooks were accepted since the last call, at most as many as a message
    /// carries.
    #[must_use]
    pub fn take_accepted(&self) -> Vec<TaskId> {
        let Some(accepted) = &self.accepted else { return Vec::new() };
        let mut accepted = accepted.lock();
        let taken: Vec<_> = accepted.iter().copied().take(FORWARDED_MAX).collect();
        for task in &taken {
            accepted.remove(task);
        }
        taken
    }

    /// Removes and returns the tasks with webhooks for which `is_own` returns `true`.
    pub(super) fn drain(&self, is_own: impl Fn(&TaskId) -> bool) -> Vec<TaskId> {
        self.pending.lock().extract_if(|task| is_own(task)).collect()
    }

    /// Waits for the next webhook, of this or another node.
    pub(super) async fn wait_for_webhook(&self) {
        self.arrival.notified().await;
    }
}

fn insert(tasks: &mut HashSet<TaskId>, task: TaskId) {
    if tasks.len() < PENDING_MAX {
        tasks.insert(task);
    }
}
