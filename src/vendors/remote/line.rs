//! The line to one vendor: calls, and what became of those without an answer. Its credentials are never told.

use bytes::Bytes;

use super::Options;
use crate::clock::Surroundings;
use crate::domain::task::VendorKey;
use crate::outbound::client::CallFailure;
use crate::outbound::vendor::{VendorAnswer, VendorCaller};
use crate::vendors::{ErrorKind, VendorError};

/// Speaks to a vendor. Cheap to clone.
#[derive(Clone)]
pub(super) struct Line {
    pub caller: VendorCaller,
    pub options: Options,
    pub surroundings: Surroundings,
}

impl Line {
    /// Posts a job.
    pub async fn post(&self, path: &str, key: &VendorKey, body: Bytes) -> Result<VendorAnswer, VendorError> {
        let key = (self.options.key_header.as_str(), key.as_str());
        let answer = self.caller.post(path, key, body, self.surroundings.now()).await;
        answer.map_err(|failure| self.told(unanswered(&failure, "the vendor was not reached")))
    }

    /// Asks.
    pub async fn ask(&self, path: &str) -> Result<VendorAnswer, VendorError> {
        let answer = self.caller.get(path, self.surroundings.now()).await;
        answer.map_err(|failure| self.told(unanswered(&failure, "the vendor did not say how the task stands")))
    }

    /// Searches for a job under its key.
    pub async fn search(&self, key: &VendorKey) -> Result<VendorAnswer, VendorError> {
        self.ask(&self.options.search_path.replace("{key}", key.as_str())).await
    }

    /// An error that came with an answer.
    pub fn of(&self, answer: &VendorAnswer, mut error: VendorError) -> VendorError {
        error.retry_after = answer.retry_after;
        self.told(error)
    }

    fn told(&self, mut error: VendorError) -> VendorError {
        error.message = self.without_key(&error.message);
        error
    }

    /// What a vendor says, without our credentials in it.
    pub fn without_key(&self, text: &str) -> String {
        without_key(self.options.api_key.as_deref(), text)
    }
}

/// What a vendor says, without our credentials in it.
pub(super) fn without_key(key: Option<&str>, text: &str) -> String {
    match key {
        Some(key) => text.replace(key, "********"),
        None => text.to_owned(),
    }
}

/// What a call without an answer leaves known: what did not leave this house surely began nothing.
pub(super) fn unanswered(failure: &CallFailure, what: &str) -> VendorError {
    let kind = match failure {
        CallFailure::Url(_) | CallFailure::Forbidden | CallFailure::Unresolved | CallFailure::NoConnection(_) => {
            ErrorKind::Unreached
        }
        CallFailure::TooSlow(_) | CallFailure::TooLarge(_) | CallFailure::NoRoom | CallFailure::Broken(_) => {
            ErrorKind::Unknown
        }
    };
    VendorError::new(kind, format!("{what}: {failure}"))
}
