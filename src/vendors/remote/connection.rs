//! Connection to one vendor: its calls, and the errors of those without a response. Masks credentials.

use bytes::Bytes;

use super::RemoteVendorOptions;
use crate::domain::task::VendorKey;
use crate::environment::Environment;
use crate::outbound::client::CallFailure;
use crate::outbound::vendor_client::{VendorClient, VendorResponse};
use crate::vendors::{VendorError, VendorErrorKind};

/// Connection to one vendor. Cheap to clone.
#[derive(Clone)]
pub(super) struct VendorConnection {
    pub caller: VendorClient,
    pub options: RemoteVendorOptions,
    pub environment: Environment,
}

impl VendorConnection {
    /// Posts a job.
    pub async fn post(&self, path: &str, key: &VendorKey, body: Bytes) -> Result<VendorResponse, VendorError> {
        let key = (self.options.key_header.as_str(), key.as_str());
        let result = self.caller.post(path, key, body, self.environment.now()).await;
        result.map_err(|failure| self.mask_error(no_response_error(&failure, "the vendor is unreachable")))
    }

    /// Sends a GET request.
    pub async fn get(&self, path: &str) -> Result<VendorResponse, VendorError> {
        let result = self.caller.get(path, self.environment.now()).await;
        result.map_err(|failure| {
            self.mask_error(no_response_error(&failure, "the vendor did not report the status of the task"))
        })
    }

    /// Searches for a job by its key.
    pub async fn search(&self, key: &VendorKey) -> Result<VendorResponse, VendorError> {
        self.get(&self.options.search_path.replace("{key}", key.as_str())).await
    }

    /// Completes an error with data of its response.
    pub fn complete_error(&self, response: &VendorResponse, mut error: VendorError) -> VendorError {
        error.retry_after = response.retry_after;
        self.mask_error(error)
    }

    fn mask_error(&self, mut error: VendorError) -> VendorError {
        error.message = self.mask_api_key(&error.message);
        error
    }

    /// Returns text of a vendor with credentials masked.
    pub fn mask_api_key(&self, text: &str) -> String {
        mask_api_key(self.options.api_key.as_deref(), text)
    }
}

/// Returns text of a vendor with credentials masked.
pub(super) fn mask_api_key(key: Option<&str>, text: &str) -> String {
    match key {
        Some(key) => text.replace(key, "********"),
        None => text.to_owned(),
    }
}

/// Returns the error of a call without a response. A request that was not sent certainly started nothing.
pub(super) fn no_response_error(failure: &CallFailure, message: &str) -> VendorError {
    let kind = match failure {
        CallFailure::InvalidUrl(_)
        | CallFailure::Forbidden
        | CallFailure::Unresolved
        | CallFailure::ConnectFailed(_) => VendorErrorKind::Unreached,
        CallFailure::TimedOut(_)
        | CallFailure::TooLarge(_)
        | CallFailure::BufferFull
        | CallFailure::BrokenResponse(_) => VendorErrorKind::Unknown,
    };
    VendorError::new(kind, format!("{message}: {failure}"))
}
