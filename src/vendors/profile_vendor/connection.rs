//! Connection to one vendor: its calls, and the errors of those without a response. Masks credentials.

use crate::environment::Environment;
use crate::outbound::client::CallFailure;
use crate::outbound::vendor_client::{VendorCallKind, VendorClient, VendorRequest, VendorResponse};
use crate::vendors::profile::answer::VendorAnswer;
use crate::vendors::profile::request::PreparedRequest;
use crate::vendors::{VendorError, VendorErrorKind};

/// Connection to one vendor. Cheap to clone.
#[derive(Clone)]
pub(super) struct VendorConnection {
    pub caller: VendorClient,
    pub api_key: Option<String>,
    pub environment: Environment,
}

impl VendorConnection {
    /// Sends a job.
    pub async fn submit(&self, request: VendorRequest) -> Result<VendorResponse, VendorError> {
        self.send(VendorCallKind::Submission, request, "the vendor is unreachable").await
    }

    /// Sends a request that starts nothing. Its response has at most `response_bytes`.
    pub async fn read(
        &self,
        request: PreparedRequest,
        response_bytes: usize,
        failed: &str,
    ) -> Result<VendorResponse, VendorError> {
        self.send(VendorCallKind::Read, to_vendor_request(request, "mediary", response_bytes), failed).await
    }

    /// Downloads a file from the vendor itself.
    pub async fn download(
        &self,
        request: PreparedRequest,
        response_bytes: usize,
    ) -> Result<VendorResponse, CallFailure> {
        let request = to_vendor_request(request, "mediary", response_bytes);
        self.caller.send(VendorCallKind::Download, request, self.environment.now()).await
    }

    async fn send(
        &self,
        kind: VendorCallKind,
        request: VendorRequest,
        failed: &str,
    ) -> Result<VendorResponse, VendorError> {
        let result = self.caller.send(kind, request, self.environment.now()).await;
        result.map_err(|failure| self.mask_error(no_response_error(&failure, failed)))
    }

    /// Completes an error with data of its response.
    pub fn complete_error(&self, response: &VendorResponse, mut error: VendorError) -> VendorError {
        error.retry_after = response.retry_after;
        self.mask_error(error)
    }

    pub fn mask_error(&self, mut error: VendorError) -> VendorError {
        error.message = self.mask_api_key(&error.message);
        error
    }

    /// Returns text of a vendor with credentials masked.
    pub fn mask_api_key(&self, text: &str) -> String {
        match &self.api_key {
            Some(key) => text.replace(key.as_str(), "********"),
            None => text.to_owned(),
        }
    }
}

/// Returns a response without its head.
pub(super) fn to_answer(response: &VendorResponse) -> VendorAnswer {
    VendorAnswer::new(response.status, response.body.clone())
}

/// Encodes a request; `mark` is the boundary of a form.
pub(in crate::vendors) fn to_vendor_request(
    request: PreparedRequest,
    mark: &str,
    response_bytes: usize,
) -> VendorRequest {
    let PreparedRequest { method, path, headers, body } = request;
    let encoded = body.encode(mark);
    let content_type = encoded.content_type;
    VendorRequest { method: method.as_str(), path, headers, content_type, body: encoded.bytes, response_bytes }
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
