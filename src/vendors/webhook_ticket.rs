//! Tickets in the webhook paths that vendors call: unguessable and stateless.
//!
//! The content of a webhook is not trusted. A client that knows the path can only cause one more poll.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use uuid::Uuid;

use crate::domain::ids::TaskId;

/// Purpose from which the key is derived. Frozen, because a change would invalidate the webhooks of running jobs.
pub const PURPOSE: &[u8] = b"mediary vendor hint 1\n";

const TASK_BYTES: usize = 16;
/// The MAC is truncated to 128 bits: it only protects against additional polls.
const MAC_BYTES: usize = 16;

/// Key that issues and verifies tickets.
#[derive(Clone)]
pub struct WebhookTicketKey([u8; 32]);

impl WebhookTicketKey {
    /// Creates the key from secret bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the ticket of a task, safe for a URL path.
    #[must_use]
    pub fn issue(&self, task: TaskId) -> String {
        let code = self.mac(task).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode([&task.0.as_bytes()[..], &code[..MAC_BYTES]].concat())
    }

    /// Returns the task of a ticket; `None` if the ticket is invalid.
    #[must_use]
    pub fn verify(&self, ticket: &str) -> Option<TaskId> {
        let bytes = URL_SAFE_NO_PAD.decode(ticket).ok().filter(|bytes| bytes.len() == TASK_BYTES + MAC_BYTES)?;
        let (task, code) = bytes.split_at(TASK_BYTES);
        let task = TaskId(Uuid::from_slice(task).ok()?);
        // Compares in constant time.
        self.mac(task).verify_truncated_left(code).ok()?;
        Some(task)
    }

    fn mac(&self, task: TaskId) -> Hmac<Sha256> {
        let hmac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of every length");
        hmac.chain_update(task.0.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_intact_tickets_of_the_same_key_are_valid() {
        let key = WebhookTicketKey::new([1; 32]);
        let other = WebhookTicketKey::new([2; 32]);
        let task = TaskId(Uuid::from_u128(7));
        let ticket = key.issue(task);
        assert_eq!(key.verify(&ticket), Some(task));
        assert_eq!(other.verify(&ticket), None);
        let forged = key.issue(TaskId(Uuid::from_u128(8)));
        let mixed = format!("{}{}", &forged[..21], &ticket[21..]);
        for bad in ["", "x", &ticket[1..], &format!("{ticket}A"), &mixed] {
            assert_eq!(key.verify(bad), None, "{bad}");
        }
    }
}
