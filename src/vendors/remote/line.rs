//! Connection to one vendor: its calls, and the errors of those without a response. Masks credentials.

use bytes::Bytes;

use super::Options;
use crate::clock::Surroundings;
use crate::domain::task::VendorKey;
use crate::outbound::client::CallFailure;
use crate::outbound::vendor::{VendorAnswer, VendorCaller};
use crate::vendors::{ErrorKind, VendorError};

/// Connection to one vendor. Cheap to clone.
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

    /// Sends a GET request.
    pub async fn ask(&self, path: &str) -> Result<VendorAnswer, VendorError> {
        let answer = self.caller.get(path, self.surroundings.now()).await;
        answer.map_err(|failure| self.told(unanswered(&failure, "the vendor did not say how the task stands")))
    }

    /// Searches for a job by its key.
    pub async fn search(&self, key: &VendorKey) -> Result<VendorAnswer, VendorError> {
        self.ask(&self.options.search_path.replace("{key}", key.as_str())).await
    }

    /// Completes an error with data of its response.
    pub fn of(&self, answer: &VendorAnswer, mut error: VendorError) -> VendorError {
        error.retry_after = answer.retry_after;
        self.told(error)
    }

    fn told(&self, mut error: VendorError) -> VendorError {
        error.message = self.without_key(&error.message);
        error
    }

    /// Returns text of a vendor with credentials masked.
    pub fn without_key(&self, text: &str) -> String {
        without_key(self.options.api_key.as_deref(), text)
    }
}

/// Returns text of a vendor with credentials masked.
pub(super) fn without_key(key: Option<&str>, text: &str) -> String {
    match key {
        Some(key) => text.replace(key, "********"),
        None => text.to_owned(),
    }
}

/// Returns the error of a call without a response. A request that was not sent certainly started nothing.
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
